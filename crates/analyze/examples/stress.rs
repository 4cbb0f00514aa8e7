#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
use jarvis_analyze::patterns::{self, Scene};
use jarvis_analyze::prepared::{Baseline, Utilization};
use jarvis_analyze::program::*;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{Ns, Trace, Tree, TreeOptions};
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let times: usize = args[0].parse().unwrap();
    let trace = Trace::open(std::path::Path::new(&args[1]), &Default::default()).unwrap();
    let report = build_report(&trace, &ReportOptions::default()).unwrap();
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    let p = Program::of(&trace, &tree, &report.rows.unified);
    let span = p.leaves.iter().map(|l| l.end).max().unwrap();
    let t0 = p.leaves.iter().map(|l| l.start).min().unwrap();
    let mut big = Program { steps: 0, has_frames: p.has_frames, ..Default::default() };
    // keep threads sorted: all copies of thread 0 first
    for th in 0..=p.leaves.iter().map(|l| l.thread).max().unwrap() {
        for k in 0..times {
            let shift = Ns((span.0 - t0.0 + 5_000) * k as i64);
            for l in p.leaves.iter().filter(|l| l.thread == th) {
                let mut l = l.clone();
                l.start = l.start + shift;
                l.end = l.end + shift;
                l.forward = None;
                l.module = l.module.map(|m| ModuleId(m.0 + (k * p.modules.len()) as u32));
                for kx in &mut l.kernels {
                    kx.start = kx.start + shift;
                }
                big.leaves.push(l);
            }
        }
    }
    for k in 0..times {
        for m in &p.modules {
            let mut m = m.clone();
            m.parent = m.parent.map(|q| ModuleId(q.0 + (k * p.modules.len()) as u32));
            let n0 = p.leaves.iter().filter(|l| l.thread == 0).count();
            let off = k * n0;
            m.leaves = m.leaves.start + off..m.leaves.end + off;
            if m.leaves.end > big.leaves.len() {
                m.leaves = 0..0
            }
            big.modules.push(m);
        }
    }
    let b =
        Baseline { bandwidth_tbs: 4.0, efficiency_percent: 80.0, source: "m", rows: vec![], seed_bandwidth_tbs: None };
    let u = Utilization { total_time_ms: 1e3, computation_time_ms: 1e3, ..Default::default() };
    let t = std::time::Instant::now();
    let scene = Scene::new(&big, Platform::find("H200").unwrap(), &b, &u);
    println!("leaves {} modules {} scene {:?}", big.leaves.len(), big.modules.len(), t.elapsed());
    let t = std::time::Instant::now();
    let f = patterns::detect(&scene);
    println!("detect {} {:?}", f.len(), t.elapsed());
    let t = std::time::Instant::now();
    let g = patterns::findings(&scene, &f, &[]);
    println!("findings {} {:?}", g.len(), t.elapsed());
}
