//! `jarvis platforms`: the hardware figures everything is measured against.

use std::fmt::Write as _;

use clap::Args;
use jarvis_perf::platform::{Basis, COMPUTE_SPECS, Figure, Platform, Source};
use serde_json::{Map, Value, json};

use super::{Failure, Session};

/// Compute Specs shown in the list of all platforms.
const LISTED: [&str; 5] = ["matrix_bf16", "matrix_fp8", "matrix_fp4", "matrix_fp32", "vector_fp32"];

const HOW_TO_ADD: &str = "\
Another GPU: write its figures to a file and pass --arch FILE, for example
  {\"name\": \"MyGPU\", \"mem_bw_gbps\": 4800, \"memory_gb\": 141,
   \"max_achievable_tflops\": {\"matrix_bf16\": 990, \"matrix_fp8\": 1979, \"vector_fp32\": 67}}
Single figures: --peak-hbm-tbs X, --peak-maf-tflops X, --memory-gb X. docs/platforms.md tells how to ship one with jarvis.
";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jarvis platforms             all of them
  jarvis platforms h200        every figure of one, with its source
  jarvis platforms --json")]
pub(crate) struct PlatformsArgs {
    /// Show every figure of this one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn run(session: &Session, args: &PlatformsArgs) -> Result<(), Failure> {
    let one = args.name.as_deref().map(Platform::find).transpose()?;
    let answer = match (one, session.common.json) {
        (Some(platform), false) => card(platform),
        (None, false) => list(),
        (one, true) => {
            let shown: Vec<Value> =
                one.map_or_else(|| Platform::all().iter().collect(), |p| vec![p]).into_iter().map(in_json).collect();
            format!("{:#}\n", json!({"schema": "jarvis.platforms/1", "platforms": shown}))
        }
    };
    session.print_answer(&answer)
}

/// One line a platform.
fn list() -> String {
    let mut out = format!("{:<9}{:<8}{:>9}{:>6}{:>7}", "platform", "maker", "HBM TB/s", "GB", "units");
    for spec in LISTED {
        let _ = write!(out, "{spec:>13}");
    }
    out += "  bf16 rate is\n";
    for p in Platform::all() {
        let gb = p.memory_gb.map_or("-".to_owned(), |f| number(f.value));
        let units = p.num_cus.map_or("-".to_owned(), |n| n.to_string());
        let maker = p.vendor.as_deref().unwrap_or("-");
        let _ = write!(out, "{:<9}{maker:<8}{:>9}{gb:>6}{units:>7}", p.name, number(p.mem_bw_gbps.value / 1e3));
        for spec in LISTED {
            let _ = write!(out, "{:>13}", p.peak(spec).map_or("-".to_owned(), marked));
        }
        let _ = writeln!(out, "  {}", p.basis.map_or("-", Basis::as_str));
    }
    out += "\nRates in TFLOPS without sparsity; * is derived from bf16; `jarvis platforms NAME` shows all, with sources.\n";
    out += "Achievable and theoretical rates are different scales: do not compare efficiencies across them.\n\n";
    out + HOW_TO_ADD
}

/// Everything about one.
fn card(p: &Platform) -> String {
    let units = p.num_cus.map_or(String::new(), |n| format!(", {n} compute units"));
    let mut out = format!("{} ({}){units}\n", p.name, p.vendor.as_deref().unwrap_or("your file"));
    let _ = writeln!(
        out,
        "  {:<18}{:>10} {:<7}{}",
        "memory bandwidth",
        number(p.mem_bw_gbps.value / 1e3),
        "TB/s",
        p.mem_bw_gbps.source
    );
    if let Some(memory) = p.memory_gb {
        let _ = writeln!(out, "  {:<18}{:>10} {:<7}{}", "memory", number(memory.value), "GB", memory.source);
    }
    for (spec, figure) in figures(p) {
        let knee = p.knee(spec).map_or(String::new(), |knee| format!("knee at {} FLOPs/byte", number(knee.round())));
        let rate = number(figure.value);
        let source = figure.source.as_str();
        let _ = writeln!(out, "  {spec:<18}{rate:>10} {:<7}{source:<12}{knee}", "TFLOPS");
    }
    if let Some(basis) = p.basis {
        let meaning = match basis {
            Basis::Achievable => "achievable: what the best known kernels reach",
            Basis::Theoretical => "theoretical: clock times units",
        };
        let _ = writeln!(out, "  The bf16 rate is {meaning}.");
    }
    for note in &p.notes {
        let _ = writeln!(out, "  {note}");
    }
    out += "Sources:\n";
    for source in [Source::Seed, Source::Reference, Source::Datasheet, Source::Derived] {
        if figures(p).any(|(_, f)| f.source == source) || p.mem_bw_gbps.source == source {
            let _ = writeln!(out, "  {:<10} {}", source.as_str(), meaning(source));
        }
    }
    out
}

fn meaning(source: Source) -> &'static str {
    match source {
        Source::Seed => "the hardware list jarvis was specified with",
        Source::Reference => "measured figures published with the reference tool",
        Source::Datasheet => "the vendor's datasheet: dense, no sparsity",
        Source::ArchFile => "your arch file",
        Source::Flag => "a command line option",
        Source::Derived => "computed from the bf16 rate",
    }
}

fn figures(p: &Platform) -> impl Iterator<Item = (&'static str, Figure)> {
    COMPUTE_SPECS.iter().filter_map(|&spec| Some((spec, p.peak(spec)?)))
}

fn in_json(p: &Platform) -> Value {
    let figure = |f: Figure| json!({"value": f.value, "source": f.source.as_str()});
    let peaks: Map<String, Value> = figures(p).map(|(spec, f)| (spec.to_owned(), figure(f))).collect();
    json!({
        "name": p.name, "vendor": p.vendor, "basis": p.basis.map(Basis::as_str), "compute_units": p.num_cus,
        "mem_bw_gbps": figure(p.mem_bw_gbps), "memory_gb": p.memory_gb.map(figure), "peak_tflops": peaks,
        "notes": p.notes,
    })
}

fn marked(figure: Figure) -> String {
    let star = if figure.source == Source::Derived { "*" } else { "" };
    number(figure.value) + star
}

/// Up to three decimals, no zeros at the end.
pub(crate) fn number(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
