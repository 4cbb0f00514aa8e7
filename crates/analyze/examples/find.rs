use jarvis_analyze::metrics::Scope;
use jarvis_analyze::prepare::PrepareOptions;
use jarvis_analyze::prepared::Prepared;
use jarvis_analyze::rules::{Claims, analyze_categories, compute_findings};
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{ReadOptions, Trace};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let trace = Trace::open(std::path::Path::new(&a[1]), &ReadOptions::default()).unwrap();
    let p = Platform::find(&a[2]).unwrap();
    let r = build_report(&trace, &ReportOptions { call_stack: true, platform: Some(p.clone()), ..Default::default() })
        .unwrap();
    let t = std::time::Instant::now();
    let prep = Prepared::of(&trace, &r, p, &PrepareOptions::default());
    let t1 = t.elapsed();
    let claims = Claims::none();
    let out = analyze_categories(&prep, &claims, Scope::Standalone);
    let f = compute_findings(&prep, &out, &claims);
    println!("prepare {:?} analyze {:?}", t1, t.elapsed() - t1);
    println!(
        "window {:.2} compute {:.2} baseline {:?} {:.1}% {:.2} seed {:?} ceiling {:.1} model {:?}",
        prep.utilization.total_time_ms,
        prep.utilization.computation_time_ms,
        prep.baseline.source,
        prep.baseline.efficiency_percent,
        prep.baseline.bandwidth_tbs,
        prep.baseline.seed_bandwidth_tbs,
        prep.memory_ceiling(),
        prep.model
    );
    for w in &prep.warnings {
        println!("WARN {w}");
    }
    for c in &prep.categories {
        println!("  {} {:.2} ms {:.1}% rows {}", c.key, c.time_ms, c.percent_of_compute, c.rows.len());
    }
    for t in &prep.top_operations {
        println!(
            "  top {} {} {} {:.2} eff {:?} alias {:?}",
            t.rank, t.name, t.category, t.time_ms, t.efficiency_percent, t.aliases
        );
    }
    for f in &f {
        println!(
            "#{} {} [{}] {:?} t={:.2}ms {:.1}% saved {:.2}-{:.2} speedup {:.3}-{:.3}\n   {}\n   I: {}\n   basis: {}",
            f.rank,
            f.pattern.as_str(),
            f.category,
            f.priority,
            f.time_ms,
            f.percent_of_total,
            f.impact.saved_ms.low,
            f.impact.saved_ms.high,
            f.impact.speedup.low,
            f.impact.speedup.high,
            f.title,
            f.issue,
            f.impact.basis
        );
        for x in &f.paths.algorithmic {
            println!("   A: {x}");
        }
        for x in &f.paths.kernel {
            println!("   B: {x}");
        }
        println!(
            "   ops: {}",
            f.operations
                .iter()
                .take(6)
                .map(|o| format!(
                    "{} x{} {:.2}ms {:?}",
                    o.name,
                    o.count,
                    o.time_ms,
                    o.efficiency_percent.map(|e| (e * 10.0).round() / 10.0)
                ))
                .collect::<Vec<_>>()
                .join("; ")
        );
    }
    if a.len() > 3 {
        for o in &out {
            if o.category.as_ref() == a[3] {
                println!("{}", serde_json::to_string_pretty(&o.file).unwrap());
            }
        }
    }
}
