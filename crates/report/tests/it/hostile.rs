//! Traces whose names try to be markup.

use jarvis_trace::TraceBuilder;

use crate::markdown_rules::{check_page, repeated};
use crate::runs::Analysed;

const NAMES: &[&str] = &[
    "a|b|c",
    "`tick` ``` fence",
    "line\nbreak\r\n\n# heading",
    "<script>alert(1)</script>",
    "![x](javascript:alert(1)) [y](#z)",
    "| --- | --- |",
    "\u{202e}مرحبا\u{202c} שלום",
    "*bold* _it_ ~~s~~ \\ &lt; &amp;",
    "<a id=\"detail-gemm\"></a>",
    "\u{0}\u{1b}[31mred",
    "",
];

/// A trace of slow operations with such names, in modules with such names, on kernels with such names.
fn hostile(names: &[&str]) -> Analysed {
    let mut b = TraceBuilder::new();
    b.fact("deviceProperties", r#"[{"id": 0, "name": "NVIDIA `H200` | <b>", "numSms": 132}]"#);
    let (mut host, mut gpu, mut correlation) = (0.0, 1000.0, 0);
    for round in 0..3 {
        for (i, name) in names.iter().enumerate() {
            b.python(&format!("nn.Module: {name}_{round}"), host, 40.0);
            for (j, op) in ["aten::mul", "aten::add", name, "aten::softmax"].iter().enumerate() {
                let at = host + 1.0 + 9.0 * j as f64;
                let dims = format!("[[{}, 1024], [{}, 1024]]", 4096 + i, 4096 + i);
                let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
                b.cpu_op(op, at, 8.0).arg("Input Dims", dims.as_str()).arg("Input type", types);
                correlation += 1;
                b.launch("cudaLaunchKernel", at + 1.0, 1.0, correlation);
                b.kernel(name, gpu, 500.0 + 100.0 * j as f64, correlation);
                gpu += 700.0 + 100.0 * j as f64;
            }
            host += 50.0;
        }
    }
    Analysed::of("evil`|<b>.json", &b.build(), "H200").unwrap()
}

#[test]
fn hostile_names_break_nothing() {
    let long = "x|`".repeat(4000);
    let mut names = NAMES.to_vec();
    names.push(&long);
    let a = hostile(&names);
    for page in a.pages() {
        // An exclamation mark of the trace may stand in a title.
        let safe = page.text.replace('!', "");
        check_page(&page.path, &safe);
        assert!(!page.text.contains(['\u{202e}', '\u{0}', '\u{1b}']), "{}", page.path);
    }
    assert_eq!(repeated(&a.fair()), [] as [&str; 0]);
}
