//! `jarvis model`: FLOPs, bytes and roofline time of an operation without a trace.

use std::fmt::Write as _;

use clap::Args;
use jarvis_perf::calculator::{self, Calculation, CalculatorError, Estimate, FAMILIES, Family, calculate};
use jarvis_perf::platform::Platform;
use jarvis_perf::roofline::Bound;
use jarvis_trace::Ns;
use serde_json::{Map, Value, json};

use super::info::{duration, thousands};
use super::platform_args::PlatformArgs;
use super::platforms::number;
use super::{Failure, Session};
use crate::exit;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jarvis model                                              every family with its keys
  jarvis model gemm M=4096 N=4096 K=4096 dtype=bf16 --platform H200
  jarvis model gemm M=16 N=8192 K=8192 dtype=fp8 --platform MI300X
  jarvis model sdpa B=8 N_Q=4096 H_Q=32 H_KV=8 d_h_qk=128 causal --platform H100
  jarvis model conv x=32,64,56,56 w=128,64,3,3 padding=1 dtype=fp16
  jarvis model moe tokens=4096 hidden=4096 inter=14336 experts=8 topk=2 --platform MI355X
  jarvis model aten::mm dims=4096x1024,1024x4096 types=bf16 --json")]
pub(crate) struct ModelArgs {
    /// Family (gemm, sdpa, conv, …) or operation (`aten::mm`); without one the families are listed
    #[arg(value_name = "OP")]
    op: Option<String>,
    /// Sizes and types of the operation; a flag needs no value
    #[arg(value_name = "KEY=VALUE")]
    keys: Vec<String>,
    #[command(flatten)]
    platform: PlatformArgs,
}

pub(crate) fn run(session: &Session, args: &ModelArgs) -> Result<(), Failure> {
    let json = session.common.json;
    let answer = match &args.op {
        None if json => format!("{:#}\n", families_json()),
        None => families_text(),
        Some(op) => {
            let platform = args.platform.without_trace()?;
            if let Some(doubt) = platform.as_ref().and_then(|platform| platform.doubt.as_ref()) {
                session.warn(doubt);
            }
            let given: Vec<(&str, Option<&str>)> =
                args.keys.iter().map(|k| k.split_once('=').map_or((k.as_str(), None), |(k, v)| (k, Some(v)))).collect();
            let found = calculate(op, &given)?;
            if json {
                format!("{:#}\n", answer_json(&found, platform.as_ref()))
            } else {
                answer_text(&found, platform.as_ref())
            }
        }
    };
    session.print_answer(&answer)
}

impl From<CalculatorError> for Failure {
    fn from(error: CalculatorError) -> Self {
        Self::new(exit::USAGE, error.to_string()).help(error.help())
    }
}

fn families_text() -> String {
    let mut out = String::new();
    for family in FAMILIES.iter().chain([calculator::real_operation()]) {
        let _ = writeln!(out, "{}: {}", family.name, family.about);
        for key in family.keys {
            let _ = writeln!(out, "    {:<37}{}", key.usage(), key.meaning);
        }
        let _ = writeln!(out, "    e.g. jarvis model {}\n", family.example);
    }
    out += "Types: fp64 fp32 tf32 fp16 bf16 fp8 fp4 int64 int32 int16 int8 uint8 bool, or a name from a trace.\n";
    out
}

fn families_json() -> Value {
    let family = |f: &Family| {
        let keys: Vec<Value> =
            f.keys.iter().map(|k| json!({"name": k.name, "usage": k.usage(), "meaning": k.meaning})).collect();
        json!({"name": f.name, "about": f.about, "keys": keys, "example": f.example})
    };
    let all: Vec<Value> = FAMILIES.iter().chain([calculator::real_operation()]).map(family).collect();
    json!({"schema": "jarvis.model/1", "families": all})
}

fn answer_text(found: &Calculation, platform: Option<&Platform>) -> String {
    let params: Vec<String> = found.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut out = String::new();
    let mut line = |label: &str, value: &str| {
        // Names of operations may be longer than the column.
        let _ = writeln!(out, "{label:<13} {value}");
    };
    line(&found.model, &params.join(" "));
    let unknown = || "not known".to_owned();
    line("FLOPs", &found.cost.flops.map_or_else(unknown, |f| format!("{} ({})", whole(f), scaled(f, "FLOP"))));
    if let Some(flops) = found.torch_flops.filter(|_| found.torch_flops != found.cost.flops) {
        line("of PyTorch", &format!("{} ({}) by torch.utils.flop_counter", whole(flops), scaled(flops, "FLOP")));
    }
    line("bytes", &found.cost.bytes.map_or_else(unknown, |b| format!("{} ({})", whole(b), scaled(b, "B"))));
    line("intensity", &found.intensity().map_or_else(unknown, |i| format!("{} FLOPs/byte", number(i))));
    let spec = found.cost.spec();
    line("Compute Spec", spec.as_deref().unwrap_or("none: the type has no rate"));
    for note in &found.notes {
        line("note", note);
    }
    if let Some(platform) = platform {
        out += &estimate_text(&found.estimate(platform), platform, spec.as_deref().unwrap_or_default());
    } else {
        out += "times need --platform NAME or --arch FILE\n";
    }
    out
}

fn estimate_text(best: &Estimate, platform: &Platform, spec: &str) -> String {
    let mut out = format!("on {}\n", platform.name);
    let compute = match (best.compute_us, best.peak) {
        (Some(us), Some(peak)) => {
            format!("{} at {} TFLOPS ({}, {})", time(us), number(peak.value), spec, peak.source)
        }
        _ => "no rate for this work".to_owned(),
    };
    let _ = writeln!(out, "  {:<12}{compute}", "arithmetic");
    if let Some(us) = best.memory_us {
        let bandwidth = platform.mem_bw_gbps;
        let tbs = number(bandwidth.value / 1e3);
        let _ = writeln!(out, "  {:<12}{} at {tbs} TB/s ({})", "memory", time(us), bandwidth.source);
    }
    let knee = best.knee.map_or(String::new(), |knee| format!(" (knee at {} FLOPs/byte)", number(knee.round())));
    if let Some(roofline) = best.roofline {
        let bound = match roofline.bound {
            Bound::Compute => "compute bound",
            Bound::Memory => "memory bound",
            Bound::MemoryBytesOnly => "memory bound, as far as bytes tell",
        };
        let _ = writeln!(out, "  {:<12}{}: {bound}{knee}", "at best", time(roofline.time_us));
    }
    out
}

fn answer_json(found: &Calculation, platform: Option<&Platform>) -> Value {
    let params: Map<String, Value> =
        found.params.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let estimate = platform.map(|platform| {
        let best = found.estimate(platform);
        json!({
            "platform": platform.name,
            "peak_tflops": best.peak.map(|f| json!({"value": f.value, "source": f.source.as_str()})),
            "mem_bw_gbps": {"value": platform.mem_bw_gbps.value, "source": platform.mem_bw_gbps.source.as_str()},
            "compute_us": best.compute_us, "memory_us": best.memory_us,
            "roofline_us": best.roofline.map(|r| r.time_us), "bound": best.roofline.map(|r| r.bound.as_str()),
            "knee_flops_per_byte": best.knee,
        })
    });
    json!({
        "schema": "jarvis.model/1", "model": found.model, "params": params, "flops": found.cost.flops,
        "flops_torch": found.torch_flops,
        "bytes": found.cost.bytes, "flops_per_byte": found.intensity(), "compute_spec": found.cost.spec().unwrap_or_default(),
        "model_source": found.source.as_str(), "notes": found.notes, "estimate": estimate,
    })
}

/// Microseconds in the unit that reads best.
fn time(us: f64) -> String {
    duration(Ns((us * 1e3).round() as i64))
}

/// A count with its digits in groups, or with an exponent where they would be noise.
fn whole(x: f64) -> String {
    if x < 1e18 { thousands(x.round() as u64) } else { format!("{x:.3e}") }
}

/// `137.4 GFLOP`.
fn scaled(x: f64, unit: &str) -> String {
    let (scale, prefix) = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(scale, _)| x >= *scale)
        .unwrap_or((1.0, ""));
    format!("{:.1} {prefix}{unit}", x / scale)
}
