//! A trace whose every text tries to become part of the page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::Jarvis;

/// Texts that are markup, break out of attributes and scripts, turn around, or never end.
pub(crate) const TEXTS: &[&str] = &[
    "<img src=x onerror=\"window.hacked=1\">",
    "</script><script>window.hacked=2</script>",
    "\"><svg onload=window.hacked=3>",
    "' onmouseover='window.hacked=4",
    "javascript:window.hacked=5",
    "<!--<script>",
    "]]>{{script}}${window.hacked=6}`window.hacked=7`",
    "&lt;b&gt;&#x3c;script&#x3e;",
    "\u{202e}gnorw eht yaw dnuor\u{2066}",
    "مرحبا بالعالم وأكثر",
    "line\nend\u{2028}\u{0}\u{7f}",
    "=HYPERLINK(\"http://example.invalid\")",
];

/// So many of them are only in the target of a comparison.
pub(crate) const ONLY_IN_TARGET: usize = 2;

/// Analyses the trace and returns the folder.
pub(crate) fn folder(jarvis: &Jarvis, work: &Path) -> Result<PathBuf> {
    // The name of the file is a text too.
    let trace = work.join("<img src=x onerror=window.hacked=8>.json");
    fs::write(&trace, document(0, 1).to_string())?;
    let folder = work.join("hostile");
    jarvis.run(&["analyze", "--model-name", MODEL], &trace, &folder)?;
    Ok(folder)
}

/// Compares it with another such trace, that has work of its own and less time for the rest, and returns the folder.
pub(crate) fn compared_folder(jarvis: &Jarvis, work: &Path) -> Result<PathBuf> {
    let target = work.join("</title><script>window.hacked=10</script>".replace('/', "") + ".json");
    let reference = work.join("\"><img src=x onerror=window.hacked=11>.json");
    fs::write(&target, document(0, 3).to_string())?;
    fs::write(&reference, document(ONLY_IN_TARGET, 1).to_string())?;
    let folder = work.join("hostile_versus");
    let reference = reference.to_string_lossy();
    let flags = ["analyze", "--model-name", MODEL, "--reference", &*reference, "--reference-platform", "MI300X"];
    jarvis.run(&flags, &target, &folder)?;
    Ok(folder)
}

const MODEL: &str = "<script>window.hacked=9</script>";

/// A trace without the first `left_out` texts, whose kernels take `slower` times as long.
fn document(left_out: usize, slower: u64) -> Value {
    let long = "W".repeat(10_000);
    let texts: Vec<&str> = TEXTS.iter().copied().chain([long.as_str()]).skip(left_out).collect();
    let mut events = Vec::new();
    let mut add = |category: &str, name: &str, thread: (u32, u32), time: (u64, u64), args: Value| {
        events.push(json!({"ph": "X", "cat": category, "name": name, "pid": thread.0, "tid": thread.1,
            "ts": time.0, "dur": time.1, "args": args}));
    };
    let count = texts.len() as u64;
    add("user_annotation", "ProfilerStep#1", (1, 1), (0, 4000 * count), json!({}));
    for (i, text) in texts.iter().enumerate() {
        let (at, id) = (4000 * i as u64, i as u64 + 1);
        let module = format!("nn.Module: {text}_{i}");
        add("python_function", &module, (1, 1), (at, 400), json!({"Python id": id, "Python parent id": null}));
        let input = json!({"External id": id, "Input Dims": [[512, 512], [512, 512]],
            "Input type": [text, "c10::BFloat16"], "Concrete Inputs": [text, ""]});
        add("cpu_op", text, (1, 1), (at + 10, 300), input);
        add("cuda_runtime", "cudaLaunchKernel", (1, 1), (at + 20, 10), json!({"correlation": id, "External id": id}));
        let kernel = format!("kernel {text}");
        let place = json!({"correlation": id, "External id": id, "stream": 7, "device": 0, "grid": [1, 1, 1]});
        add("kernel", &kernel, (0, 7), (at + 100, slower * (500 + 10 * id)), place);
        // An operation with a model, in the hostile module, so that the roofline has dots.
        let id = id + 1000;
        let input = json!({"External id": id, "Input Dims": [[512, 512], [512, 512]],
            "Input type": ["c10::BFloat16", "c10::BFloat16"], "Concrete Inputs": ["", ""]});
        add("cpu_op", "aten::mm", (1, 1), (at + 320, 60), input);
        add("cuda_runtime", "cudaLaunchKernel", (1, 1), (at + 330, 10), json!({"correlation": id, "External id": id}));
        let place = json!({"correlation": id, "External id": id, "stream": 7, "device": 0, "grid": [1, 1, 1]});
        add("kernel", &kernel, (0, 7), (at + 2800, 100 * slower), place);
    }
    json!({"schemaVersion": 1, "record_shapes": 1, "with_stack": 1, "traceEvents": events,
        "deviceProperties": [{"id": 0, "name": TEXTS[0], "totalGlobalMem": 150_000_000_000_u64, "numSms": 132}]})
}
