//! Inputs to begin with: windows of the committed traces, small enough that thousands of them can be tried, and files
//! of every kind that is read.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::files;

/// Launches that a window holds at most.
const LAUNCHES: usize = 8;
/// Events of a window at most.
const EVENTS: usize = 90;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).expect("a sound fixture");
    text
}

/// Small traces in text form, the same each time: windows of those in `fixtures/`, the handmade ones, inputs that once
/// did harm, and one with what the others lack.
pub fn traces() -> &'static [Vec<u8>] {
    static TRACES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    TRACES.get_or_init(|| {
        let mut all = Vec::new();
        for name in
            ["elementwise_eager", "attn_unfused", "lm_compiled_train", "decode_graphed", "fp8_gemms", "mlp_fp32"]
        {
            all.push(window(&read(&fixtures().join(format!("h200/{name}.json.gz")))));
        }
        for name in ["gpu_only", "rocm_like"] {
            all.push(window(&read(&fixtures().join(format!("handmade/{name}.json")))));
        }
        all.push(MIXED.as_bytes().to_vec());
        all.extend(found("trace"));
        all
    })
}

/// Inputs that once did harm to what is called so: `fixtures/fuzz/<kind>_*`.
pub fn found(kind: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(fixtures().join("fuzz")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|p| p.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{kind}_"))));
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

/// A few launches of a trace with all that belongs to them.
fn window(text: &[u8]) -> Vec<u8> {
    let mut document: Value = serde_json::from_slice(text).expect("a sound fixture");
    let events = document["traceEvents"].as_array().cloned().unwrap_or_default();
    let number = |e: &Value| e["args"]["correlation"].as_i64().or(e["id"].as_i64());
    let is_launch = |e: &&Value| {
        let category = e["cat"].as_str().unwrap_or_default();
        let name = e["name"].as_str().unwrap_or_default().to_lowercase();
        category.starts_with("cuda_") && name.contains("launch")
    };
    let launches: Vec<&Value> = events.iter().filter(is_launch).take(LAUNCHES).collect();
    let ids: Vec<i64> = launches.iter().filter_map(|e| number(e)).collect();
    let ts = |e: &Value| e["ts"].as_f64().unwrap_or_default();
    let from = launches.iter().map(|e| ts(e)).fold(f64::INFINITY, f64::min);
    let to = launches.iter().map(|e| ts(e)).fold(f64::NEG_INFINITY, f64::max);
    let keep = |e: &&Value| match e["cat"].as_str().unwrap_or_default() {
        "kernel" | "gpu_memcpy" | "gpu_memset" | "ac2g" => number(e).is_some_and(|id| ids.contains(&id)),
        "Trace" | "overhead" => false,
        "" => e["ph"] == "M",
        _ => ts(e) <= to && ts(e) + e["dur"].as_f64().unwrap_or_default() >= from,
    };
    let (mut kept, mut frames) = (Vec::new(), 0);
    for event in events.iter().filter(keep) {
        // Frames are many and alike.
        let is_frame =
            event["cat"] == "python_function" && !event["name"].as_str().unwrap_or_default().starts_with("nn.");
        frames += usize::from(is_frame);
        if !is_frame || frames <= 8 {
            kept.push(event.clone());
        }
    }
    // Launches and kernels come last in a file, names of processes first: both are wanted.
    let drop = kept.len().saturating_sub(EVENTS);
    let middle = kept.len() / 3;
    kept.drain(middle..middle + drop.min(kept.len() - middle));
    document["traceEvents"] = Value::Array(kept);
    document.to_string().into_bytes()
}

/// Collectives, copies, a graph launch, a backward pass, two streams and a step.
const MIXED: &str = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132, "totalGlobalMem": 150000000000}],
"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, "with_stack": 1, "record_shapes": 1,
"traceEvents": [
{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 100, "dur": 900, "args": {"External id": 1}},
{"ph": "X", "cat": "python_function", "name": "nn.Module: Net_0", "pid": 1, "tid": 1, "ts": 101, "dur": 600, "args": {"Python id": 1, "Python parent id": null}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 110, "dur": 50, "args": {"External id": 2, "Sequence number": 5, "Fwd thread id": 0, "Input Dims": [[64, 128], [128, 256]], "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[128, 1], [256, 1]], "Concrete Inputs": ["", ""]}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 120, "dur": 5, "args": {"correlation": 11, "External id": 2}},
{"ph": "s", "id": 11, "pid": 1, "tid": 1, "ts": 120, "cat": "ac2g", "name": "ac2g"},
{"ph": "X", "cat": "kernel", "name": "nvjet_tst_128x64", "pid": 0, "tid": 7, "ts": 130, "dur": 100.5, "args": {"device": 0, "stream": 7, "correlation": 11, "External id": 2, "grid": [8, 1, 1], "block": [128, 1, 1]}},
{"ph": "f", "id": 11, "pid": 0, "tid": 7, "ts": 130, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"ph": "s", "id": 5, "pid": 1, "tid": 1, "ts": 110, "cat": "fwdbwd", "name": "fwdbwd"},
{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 200, "dur": 40, "args": {"External id": 3, "Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1, "ts": 210, "dur": 5, "args": {"correlation": 12, "External id": 3}},
{"ph": "s", "id": 12, "pid": 1, "tid": 1, "ts": 210, "cat": "ac2g", "name": "ac2g"},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20, "ts": 220, "dur": 80, "args": {"device": 0, "stream": 20, "correlation": 12, "External id": 3, "Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 2, "Process Group Ranks": "[0, 1]"}},
{"ph": "f", "id": 12, "pid": 0, "tid": 20, "ts": 220, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"ph": "X", "cat": "cpu_op", "name": "aten::copy_", "pid": 1, "tid": 1, "ts": 300, "dur": 60, "args": {"External id": 4, "Input Dims": [[1024], [1024]], "Input type": ["float", "float"]}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 310, "dur": 45, "args": {"correlation": 13, "External id": 4}},
{"ph": "s", "id": 13, "pid": 1, "tid": 1, "ts": 310, "cat": "ac2g", "name": "ac2g"},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7, "ts": 330, "dur": 4, "args": {"device": 0, "stream": 7, "correlation": 13, "bytes": 4096, "memory bandwidth (GB/s)": 1.0}},
{"ph": "f", "id": 13, "pid": 0, "tid": 7, "ts": 330, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 400, "dur": 20, "args": {"correlation": 14}},
{"ph": "X", "cat": "kernel", "name": "triton_poi_fused_add_0", "pid": 0, "tid": 7, "ts": 430, "dur": 10, "args": {"device": 0, "stream": 7, "correlation": 14}},
{"ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4>", "pid": 0, "tid": 7, "ts": 445, "dur": 12, "args": {"device": 0, "stream": 7, "correlation": 14}},
{"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0", "pid": 1, "tid": 2, "ts": 500, "dur": 90, "args": {"External id": 5, "Sequence number": 5, "Fwd thread id": 1}},
{"ph": "X", "cat": "cpu_op", "name": "MmBackward0", "pid": 1, "tid": 2, "ts": 505, "dur": 80, "args": {"External id": 6, "Sequence number": 5, "Fwd thread id": 1}},
{"ph": "f", "id": 5, "pid": 1, "tid": 2, "ts": 505, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 510, "dur": 40, "args": {"External id": 7, "Input Dims": [[128, 64], [64, 256]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}},
{"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "pid": 1, "tid": 2, "ts": 520, "dur": 5, "args": {"correlation": 15, "External id": 7}},
{"ph": "s", "id": 15, "pid": 1, "tid": 2, "ts": 520, "cat": "ac2g", "name": "ac2g"},
{"ph": "X", "cat": "kernel", "name": "nvjet_tst_64x128", "pid": 0, "tid": 7, "ts": 540, "dur": 120, "args": {"device": 0, "stream": 7, "correlation": 15, "External id": 7}},
{"ph": "f", "id": 15, "pid": 0, "tid": 7, "ts": 540, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 600, "dur": 300, "args": {"correlation": 16}}
], "traceName": "mixed.json"}"#;

/// The events of each trace as they stand in a file.
pub fn events() -> Vec<Vec<u8>> {
    let list = |text: &Vec<u8>| -> Option<Vec<u8>> {
        let document: Value = serde_json::from_slice(text).ok()?;
        let events: Vec<String> = document["traceEvents"].as_array()?.iter().map(Value::to_string).collect();
        Some(events.join(",\n").into_bytes())
    };
    traces().iter().filter_map(list).collect()
}

/// Traces, plain and packed.
pub fn containers() -> Vec<Vec<u8>> {
    let mut all = traces().to_vec();
    all.extend(files::packed(traces()));
    all
}

/// Extension files.
pub fn extensions() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [SOFTMAX, FUNCTIONS, AS_JSON].iter().map(|text| text.as_bytes().to_vec()).collect();
    all.extend(found("extension"));
    all
}

const SOFTMAX: &str = r#"[op."aten::softmax"]
category  = "softmax"
bwd_category = "softmax_bwd"
unit      = "vector"
precision = "dtype"
params    = { input_shape = "D[0]", dtype = "T[0]", n = "numel(input_shape)" }
flops     = "5 * n"
bytes     = "2 * n * sz(dtype)"
unless    = "len(D[0]) == 0"
"#;

const FUNCTIONS: &str = r#"[op."my::op"]
unit = "matrix"
precision = "bf16"
params = { a = "int(C[2])", b = "list(C[0])", c = "if(len(S) > 0, S[0][-1], none)" }
flops = "min(1, 2) + max(D[0]) + abs(-3) // 2 % 7 * ceil(0.5) - floor(1e9) / log2(8) + sqrt(4) + sum(D[1])"
bytes = "1_000 * (not true or 1 < 2 and 'a' == 'b') + float('1.5')"

[op."my::category only"]
category = "other"
"#;

const AS_JSON: &str =
    r#"{"op": {"aten::softmax": {"flops": "5 * numel(D[0])", "params": {"n": "D[0][1]"}, "unit": "vector"}}}"#;

/// Files of limits and platforms.
pub fn settings() -> Vec<Vec<u8>> {
    let limits = "\"sdpa.short_factor\" = 0.5\n[gemm]\ntime_ms = 20\n";
    let limits_json = r#"{"gemm": {"tiny": {"count": 10}}, "bn.low": 1}"#;
    let platform = r#"{"name": "MyGPU", "mem_bw_gbps": 4800, "memory_gb": 141, "max_achievable_tflops": {"matrix_bf16": 990, "vector_fp32": 67}}"#;
    let mut all: Vec<Vec<u8>> = [limits, limits_json, platform].iter().map(|text| text.as_bytes().to_vec()).collect();
    all.push(read(&fixtures().join("h200/H200_arch.json")));
    all.extend(found("settings"));
    all
}

fn named(name: &str, content: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b"\n", content].concat()
}

/// Sheets of reports, ours and the reference's, and parts of workbooks.
pub fn reports() -> Vec<Vec<u8>> {
    let folder = fixtures().join("h200/elementwise_eager_perf_report_csvs");
    let sheets = ["gpu_timeline", "ops_summary", "kernel_summary", "ops_summary_by_category", "unified_perf_summary"];
    let mut all: Vec<Vec<u8>> = Vec::new();
    for sheet in sheets {
        let text = read(&folder.join(format!("{sheet}.csv")));
        let head: Vec<&[u8]> = text.split(|&b| b == b'\n').take(6).collect();
        all.push(named(sheet, &head.join(&b'\n')));
    }
    for part in ["xl/worksheets/sheet1.xml", "xl/worksheets/sheet2.xml", "xl/sharedStrings.xml", "xl/workbook.xml"] {
        all.push(named(part, &files::book_part(part)));
    }
    let book = jarvis_report::render::xlsx::render(&files::sheet_seed()).expect("a workbook");
    all.push(named("xlsx", &book.bytes));
    all.extend(found("reports"));
    all
}

/// Files of an output folder that `jarvis check` looks at.
pub fn outputs() -> Vec<Vec<u8>> {
    let looked_at = [".json", ".md", ".csv"];
    let files = files::OUTPUT.iter().filter(|(name, _)| looked_at.iter().any(|end| name.ends_with(end)));
    let mut all: Vec<Vec<u8>> =
        files.filter(|(_, bytes)| bytes.len() < 40_000).map(|(name, bytes)| named(name, bytes)).collect();
    all.extend(found("folder"));
    all
}
