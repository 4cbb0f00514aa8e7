use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{ReadOptions, Trace};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let trace = Trace::open(std::path::Path::new(&a[1]), &ReadOptions::default()).unwrap();
    let p = Platform::find(&a[2]).unwrap();
    let r = build_report(&trace, &ReportOptions { call_stack: true, platform: Some(p.clone()), ..Default::default() })
        .unwrap();
    println!("{:?}", r.rows.timeline);
    for row in &r.rows.unified.rows {
        let m = row.model.as_ref();
        println!(
            "{} | {} | {:?} | {:?} | st {:?} | n {} | us {:.1} | gf {:?} mb {:?} spec {:?} roof {:?} src {:?} least {:?} host {:?} | {} | fail {:?}",
            row.identity.name,
            row.identity.category,
            row.identity.args.dims,
            row.identity.args.types,
            row.identity.args.strides,
            row.calls.len(),
            row.kernel_us.sum,
            m.and_then(|m| m.gflops),
            m.and_then(|m| m.data_moved_mb),
            m.and_then(|m| m.compute_spec.clone()),
            m.and_then(|m| m.roofline),
            m.and_then(|m| m.source),
            m.and_then(|m| m.least_mb),
            m.and_then(|m| m.host_bytes),
            m.and_then(|m| m.params_text.as_deref()).unwrap_or("-"),
            row.model_failure
        );
        for k in &row.kernels.kernels {
            println!("      {} x{} {:.1}", k.name.chars().take(140).collect::<String>(), k.count, k.total_us);
        }
    }
}
