#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
use jarvis_analyze::patterns::{self, Scene};
use jarvis_analyze::prepared::{Baseline, Utilization};
use jarvis_analyze::program::Program;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{Trace, Tree, TreeOptions};

pub fn baseline(p: &Program, platform: &Platform) -> Baseline {
    let peak = platform.mem_bw_gbps.value / 1e3;
    let (mut num, mut den) = (0.0, 0.0);
    for l in &p.leaves {
        if !matches!(&*l.name, "aten::add" | "aten::add_" | "aten::mul" | "aten::mul_" | "aten::copy_")
            || l.kernels.iter().any(|k| k.is_copy)
        {
            continue;
        }
        let (Some(d), Some(t), Some(s)) = (&l.inputs.dims, &l.inputs.types, &l.inputs.strides) else { continue };
        let mut shapes = vec![];
        let mut bytes = 0.0;
        let mut ok = true;
        for i in 0..d.len() {
            let Some(sh) = d[i].shape() else {
                ok = false;
                continue;
            };
            if sh.is_empty() {
                continue;
            }
            let st = s.get(i).and_then(|x| x.shape()).unwrap_or(&[]);
            let mut e = 1;
            for (a, b) in sh.iter().zip(st).rev() {
                if *a != 1 && *b != e {
                    ok = false;
                }
                e *= a;
            }
            shapes.push(sh.to_vec());
            bytes += sh.iter().product::<i64>() as f64
                * jarvis_perf::dtype::size(&t[i], &jarvis_perf::parity::Quirks::NONE).unwrap_or(4) as f64;
        }
        if shapes.is_empty() || shapes.iter().any(|x| *x != shapes[0]) {
            ok = false;
        }
        let sz = jarvis_perf::dtype::size(&t[0], &jarvis_perf::parity::Quirks::NONE).unwrap_or(4) as f64;
        if ok && !l.name.ends_with("copy_") {
            bytes += shapes[0].iter().product::<i64>() as f64 * sz;
        }
        let tbs = bytes / l.us / 1e6;
        if ok && bytes >= 8e6 && tbs <= peak {
            num += tbs * l.us;
            den += l.us;
        }
    }
    if den > 0.0 {
        Baseline {
            bandwidth_tbs: num / den,
            efficiency_percent: 100.0 * num / den / peak,
            source: "measured",
            rows: vec![],
            seed_bandwidth_tbs: None,
        }
    } else {
        Baseline {
            bandwidth_tbs: 0.7 * peak,
            efficiency_percent: 70.0,
            source: "default",
            rows: vec![],
            seed_bandwidth_tbs: None,
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    for path in args {
        let trace = Trace::open(std::path::Path::new(&path), &Default::default()).unwrap();
        let Ok(report) = build_report(&trace, &ReportOptions::default()) else {
            println!("no report {path}");
            continue;
        };
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        let p = Program::of(&trace, &tree, &report.rows.unified);
        let platform = if path.contains("mi300") {
            Platform::find("MI300X")
        } else if path.contains("h100") {
            Platform::find("H100")
        } else {
            Platform::find("H200")
        }
        .unwrap();
        let b = baseline(&p, platform);
        let t = &report.rows.timeline;
        let u = Utilization {
            total_time_ms: t.total.0 / 1e3,
            computation_time_ms: t.computation.0 / 1e3,
            ..Default::default()
        };
        let scene = Scene::new(&p, platform, &b, &u);
        let found = patterns::detect(&scene);
        println!(
            "#T {path} window {:.3} compute {:.3} baseline {:.1}% {}",
            u.total_time_ms, u.computation_time_ms, b.efficiency_percent, b.source
        );
        for x in &found {
            println!(
                "#P {:22} {:?} {:?} {} x{} t {:.3} halo {:.3} bwd {:.3} fused {:?} saved {:?} {:?} {:?} ops {}",
                x.code.as_str(),
                x.confidence,
                x.source,
                x.module.as_deref().unwrap_or("-"),
                x.instances,
                x.time_ms,
                x.halo_ms,
                x.backward_ms,
                x.fused_ms.map(|f| (f.low, f.high)),
                x.saved_ms.map(|f| (f.low, f.high)),
                x.anchor_dims,
                x.is_promoted(u.computation_time_ms),
                x.ops.iter().map(|o| patterns::kind::base(o)).collect::<Vec<_>>().join(",")
            );
        }
        for f in patterns::findings(&scene, &found, &[]) {
            println!(
                "#F {} {} {:?} time {:.3} saved {:.3} {:.3} speedup {:.3} {:.3} | {} | {}",
                f.pattern.as_str(),
                f.rank,
                f.priority,
                f.time_ms,
                f.impact.saved_ms.low,
                f.impact.saved_ms.high,
                f.impact.speedup.low,
                f.impact.speedup.high,
                f.title,
                f.impact.basis
            );
        }
    }
}
