use super::*;
use crate::call::{Dims, InputLists};

const DOCS: &str = include_str!("../../../../docs/extensions.md");

/// The fenced blocks of this language in the manual.
fn documented(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    DOCS.split(&opening).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn inputs(dims: &[&[i64]], types: &[&str], concrete: &[&str]) -> InputLists {
    InputLists {
        dims: Some(dims.iter().map(|d| Dims::Shape(d.to_vec())).collect()),
        types: Some(types.iter().map(|&t| t.to_owned()).collect()),
        strides: None,
        concrete: Some(concrete.iter().map(|&c| c.to_owned()).collect()),
    }
}

fn call<'a>(name: &'a str, inputs: &'a InputLists) -> OpCall<'a> {
    OpCall { name, inputs, kernels: &[], launches: &[], sequence: None, annotation: None, extra: &[], forward: None }
}

fn evaluate(extension: &Extension, name: &str, inputs: &InputLists) -> Result<Evaluated, ModelError> {
    extension.get(name).unwrap().evaluate(&call(name, inputs), &Quirks::NONE)
}

fn error(text: &str) -> String {
    let e = Extension::parse(text, "x.toml").unwrap_err();
    let help = e.help().map_or_else(String::new, |help| format!("\nhelp: {help}"));
    format!("{e}{help}")
}

#[test]
fn a_mark_at_the_beginning_is_no_part_of_the_file() {
    let json = r#"{"op": {"aten::foo": {"category": "foo"}}}"#;
    let toml = "[op.\"aten::foo\"]\ncategory = \"foo\"\n";
    for text in [json, toml] {
        let plain = Extension::parse(text, "x.toml").map(|e| e.get("aten::foo").is_some());
        let marked = Extension::parse(&format!("\u{feff}{text}"), "x.toml").map(|e| e.get("aten::foo").is_some());
        assert_eq!(marked, plain, "{text}");
    }
}

#[test]
fn a_list_is_told_to_be_one() {
    let said = error("\n [{\"op\": 1}]");
    assert!(said.starts_with("x.toml:2:2: expected an object, found a list"), "{said}");
}

#[test]
fn the_softmax_of_the_manual() {
    let extension = Extension::parse(documented("toml")[0], "softmax.toml").unwrap();
    let op = extension.get("aten::softmax").unwrap();
    assert_eq!(op.category.as_deref(), Some("softmax"));
    // Attention scores of a video transformer: 8·12·3137·3137 elements of bf16.
    let inputs = inputs(&[&[8, 12, 3137, 3137], &[], &[]], &["c10::BFloat16", "Scalar", ""], &["", "-1", ""]);
    let Evaluated { cost, params } = evaluate(&extension, "aten::softmax", &inputs).unwrap();
    let n = 944_713_824.0;
    assert_eq!(cost.flops, Some(5.0 * n));
    assert_eq!(cost.bytes, Some(2.0 * n * 2.0)); // 3603.797 MB
    assert_eq!((cost.unit, cost.precision.as_deref()), (ComputeUnit::Vector, Some("bf16")));
    let shown: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(shown, ["input_shape=(8, 12, 3137, 3137)", "dtype='c10::BFloat16'", "n=944713824"]);
}

#[test]
fn calls_the_softmax_of_the_manual_does_not_fit() {
    let extension = Extension::parse(documented("toml")[0], "softmax.toml").unwrap();
    let scalar = inputs(&[&[]], &["float"], &[""]);
    let reason = evaluate(&extension, "aten::softmax", &scalar).unwrap_err().to_string();
    assert_eq!(reason, "softmax.toml:8:13: `unless` of `aten::softmax`: the call is not to be modelled");
    let none = inputs(&[], &[], &[]);
    let reason = evaluate(&extension, "aten::softmax", &none).unwrap_err().to_string();
    assert_eq!(reason, documented("text")[1].trim());
    let untyped = inputs(&[&[4]], &["mystery"], &[""]);
    let cost = evaluate(&extension, "aten::softmax", &untyped).unwrap().cost;
    assert_eq!((cost.flops, cost.bytes, cost.precision), (Some(20.0), None, None));
}

#[test]
fn the_mistake_of_the_manual() {
    let (formula, _) = documented("toml")[0].split_once("  # max").unwrap();
    let wrong = formula.trim_end().replace("5 * n\"", "5 * n + nn\"");
    let e = Extension::parse(&wrong, "softmax.toml").unwrap_err();
    let printed = format!("{e}\nhelp: {}", e.help().unwrap());
    assert_eq!(printed, documented("text")[0].trim());
}

#[test]
fn the_second_example_of_the_manual() {
    let extension = Extension::parse(documented("toml")[1], "x.toml").unwrap();
    let with = inputs(&[&[4, 8, 16], &[16], &[4, 8, 16]], &["c10::Half", "float", "c10::Half"], &[]);
    let cost = evaluate(&extension, "my_ops::fused_norm", &with).unwrap().cost;
    assert_eq!((cost.flops, cost.bytes), (Some(7.0 * 512.0), Some(4.0 * 512.0 * 2.0 + 16.0 * 4.0)));
    let without = inputs(&[&[4, 8, 16], &[16]], &["c10::Half", "float"], &[]);
    let cost = evaluate(&extension, "my_ops::fused_norm", &without).unwrap().cost;
    assert_eq!((cost.flops, cost.bytes), (Some(6.0 * 512.0), Some(2.0 * 512.0 * 2.0 + 16.0 * 4.0)));
}

#[test]
fn the_manual_names_every_function_and_key() {
    for name in KEYS {
        assert!(DOCS.contains(&format!("`{name}`")), "{name}");
    }
    for name in crate::expr::function_names() {
        assert!(DOCS.contains(&format!("`{name}(")), "{name}");
    }
}

/// A row of the reference's GEMM sheet for the H200 trace `mlp_bf16`, by formulas that would override the built-in ones.
#[test]
fn a_matrix_product_as_the_reference_counts_it() {
    let text = "[op.\"aten::mm\"]\nunit = 'matrix'\nprecision = 'T[0]'\nflops = '2 * M * N * K'\n\
                bytes = 'sz(T[0]) * (M * K + K * N + M * N)'\n\
                params = { M = 'D[0][0]', N = 'D[1][1]', K = 'D[0][1]' }";
    let extension = Extension::parse(text, "mm.toml").unwrap();
    let inputs = inputs(&[&[4096, 4096], &[4096, 4096]], &["c10::BFloat16", "c10::BFloat16"], &["", ""]);
    let cost = evaluate(&extension, "aten::mm", &inputs).unwrap().cost;
    assert_eq!(cost.flops.map(|f| f / 1e9), Some(137.438_953_472));
    assert_eq!(cost.bytes.map(|b| b / (1024.0 * 1024.0)), Some(96.0));
    assert_eq!(cost.spec().as_deref(), Some("matrix_bf16"));
}

#[test]
fn json_says_the_same_as_toml() {
    let toml = "[op.\"a::b\"]\nflops = \"M * 2\"\nbytes = 7\ncategory = 'x'\nparams = { M = 'D[0][0]', A = 'M' }\n";
    let json = r#"{"op": {"a::b": {"params": {"M": "D[0][0]", "A": "M"},
                   "flops": "M * 2", "bytes": 7, "category": "x"}}}"#;
    let inputs = inputs(&[&[21]], &["float"], &[""]);
    let [a, b] = [toml, json].map(|text| {
        let extension = Extension::parse(text, "x").unwrap();
        (extension.get("a::b").unwrap().category.clone(), evaluate(&extension, "a::b", &inputs).unwrap())
    });
    assert_eq!(a, b);
    assert_eq!(a.1.cost.flops, Some(42.0));
    assert_eq!(a.1.params, [("M".to_owned(), Value::Int(21)), ("A".to_owned(), Value::Int(21))]);
}

#[test]
fn a_table_may_only_sort_an_operation() {
    let extension = Extension::parse("[op.MyOp]\ncategory = 'other'", "x").unwrap();
    let op = extension.get("MyOp").unwrap();
    assert!(!op.has_model());
    assert!(op.evaluate(&call("MyOp", &InputLists::default()), &Quirks::NONE).is_err());
    assert!(Extension::parse("", "x").unwrap().ops().is_empty());
    assert!(extension.get("Other").is_none());
}

#[test]
fn the_later_file_holds() {
    let mut beside = Extension::parse("[op.a]\nflops = 1\n[op.b]\nflops = 1", "jarvis.toml").unwrap();
    beside.overlay(Extension::parse("[op.c]\nflops = 2\n[op.b]\nflops = 2", "x.toml").unwrap());
    let none = InputLists::default();
    let flops = ["a", "b", "c"].map(|name| evaluate(&beside, name, &none).unwrap().cost.flops);
    assert_eq!(flops, [Some(1.0), Some(2.0), Some(2.0)]);
}

#[test]
fn results_must_be_amounts() {
    let text = "[op.a]\nflops = '2 - 3'\n[op.b]\nbytes = \"'x'\"\n[op.c]\nflops = 1\nunless = 1\n[op.d]\nflops = 1\n\
                precision = '7'\n[op.e]\nflops = 1\nparams = { p = 'D' }";
    let extension = Extension::parse(text, "x").unwrap();
    let none = inputs(&[], &[], &[]);
    for (name, reason) in [
        ("a", "x:2:9: `flops` of `a`: expected a number from 0 on, found -1"),
        ("b", "x:4:9: `bytes` of `b`: expected a number, found text"),
        ("c", "x:7:10: `unless` of `c`: expected true or false, found a number"),
        ("d", "x:10:13: `precision` of `d`: expected a type, found a number"),
        ("e", "x:13:16: `p` of `e`: pick an entry, such as D[0]"),
    ] {
        assert_eq!(evaluate(&extension, name, &none).unwrap_err().to_string(), reason);
    }
}

#[test]
fn mistakes_in_toml_point_at_their_place() {
    for (text, message) in [
        (
            "[op.a]\nflops = \"1 +\"",
            "x.toml:2:13: expected a number, a name or `(`, found the end\n 2 | flops = \"1 +\"\n   |             ^",
        ),
        ("[op.a]\nflop = 1", "x.toml:2:1: unknown key `flop`\n 2 | flop = 1\n   | ^^^^\nhelp: did you mean `flops`?"),
        (
            "[op.a]\nunit = 'tensor'",
            "x.toml:2:8: `unit` is `matrix` or `vector`, not `tensor`\n 2 | unit = 'tensor'\n   |        ^^^^^^^^",
        ),
        (
            "[op.a]\nflops = 1\nparams = { len = 1 }",
            "x.toml:3:12: `len` can't name a parameter\n 3 | params = { len = 1 }\n   |            ^^^\nhelp: a name has \
             letters, digits and `_`, and is none of D, T, S, C, a function or a keyword",
        ),
        (
            "[op.a]\nflops = 1\nparams = { b = 'c', c = 1 }",
            "x.toml:3:17: unknown name `c`\n 3 | params = { b = 'c', c = 1 }\n   |                 ^\nhelp: known are D, T, S, \
             C and the functions",
        ),
        (
            "[op.a]\nprecision = 'bf15'\nflops = 1",
            "x.toml:2:14: unknown name `bf15`\n 2 | precision = 'bf15'\n   |              ^^^^\nhelp: give a type, such as \
             T[0], or one of fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4, int8",
        ),
        (
            "flops = 1",
            "x.toml:1:1: expected a table [op.\"NAME\"], found a number or truth value\n 1 | flops = 1\n   | ^^^^^\nhelp: \
             put `flops` below a line such as [op.\"aten::softmax\"]",
        ),
        (
            "[\"aten::mm\"]\nflops = 1",
            "x.toml:1:2: unknown table `aten::mm`\n 1 | [\"aten::mm\"]\n   |  ^^^^^^^^^^\nhelp: write [op.\"aten::mm\"]",
        ),
        ("[op.a]\n", "x.toml:1:5: `a` has neither `flops`, `bytes` nor `category`\n 1 | [op.a]\n   |     ^"),
        ("[op.a]\nflops = [1]", "x.toml:2:9: expected an expression, found a list\n 2 | flops = [1]\n   |         ^^^"),
        ("[op.a]\nflops = ''", "x.toml:2:9: the expression is empty\n 2 | flops = ''\n   |         ^"),
        (
            "[op.a]\ncategory = 3",
            "x.toml:2:12: `category` is text in quotes, not a number or truth value\n 2 | \
          category = 3\n   |            ^",
        ),
    ] {
        assert_eq!(error(text), message);
    }
    assert!(error("[op.a]\nflops = = 1").starts_with("x.toml:2:9: "), "{}", error("[op.a]\nflops = = 1"));
    assert!(error("[op.a]\nflops = 1\nflops = 2").starts_with("x.toml:3:1: "));
}

#[test]
fn mistakes_in_json_point_at_their_place() {
    for (text, message) in [
        (
            "{\"op\": {\"a\": {\n  \"flops\": \"2 * q\"}}}",
            "x.toml:2:17: unknown name `q`\n 2 |   \"flops\": \"2 * q\"}}}\n   |                 ^\nhelp: known are D, T, S, C \
             and the functions",
        ),
        (
            "{\"op\": {\"a\": {\"byts\": 1}}}",
            "x.toml:1:15: unknown key `byts`\n 1 | {\"op\": {\"a\": {\"byts\": 1}}}\n   |               ^^^^^^\nhelp: did you \
             mean `bytes`?",
        ),
        (
            "{\"op\": {\"a\": {\"flops\": 1, \"flops\": 2}}}",
            "x.toml:1:27: `flops` is given twice\n 1 | {\"op\": {\"a\": {\"flops\": 1, \"flops\": 2}}}\n   |                           ^^^^^^^",
        ),
        (
            "{\"op\": {\"a\": {\"flops\": 1}, \"a\": {\"flops\": 2}}}",
            "x.toml:1:28: `a` is given twice\n 1 | {\"op\": {\"a\": {\"flops\": 1}, \"a\": {\"flops\": 2}}}\n   |                            ^^^",
        ),
        ("{\"op\":\n {,}}", "x.toml:2:3: not valid JSON: key must be a string\n 2 |  {,}}\n   |   ^"),
        (
            "{\"op\": {\"a\": {\"flops\": null}}}",
            "x.toml:1:24: expected an expression, found null\n 1 | {\"op\": {\"a\": \
          {\"flops\": null}}}\n   |                        ^^^^",
        ),
    ] {
        assert_eq!(error(text), message);
    }
}

#[test]
fn long_lines_and_odd_characters_are_shown_safely() {
    let long = format!("[op.a]\nflops = '{} + q'", "1 + 1 + ".repeat(100) + "1");
    let e = Extension::parse(&long, "x").unwrap_err();
    assert_eq!((e.line, e.column), (2, 814));
    let (line, mark) = e.excerpt.split_once('\n').unwrap();
    assert!(line.chars().count() <= 120);
    assert_eq!(line.chars().nth(mark.len() - 1), Some('q'));
    // Escapes hide the exact place: the mark then stands under the whole value. Terminal codes are defused.
    let escaped = error("[op.a]\nflops = \"1 + \\u0071\"");
    assert!(escaped.starts_with("x.toml:2:9: unknown name `q`"), "{escaped}");
    assert!(!error("[op.a]\nflops = '''\n1 + \u{9b}31m'''").contains('\u{9b}'));
}

#[test]
fn hostile_files_are_refused() {
    for text in [
        "{\"op\":".repeat(100_000),
        format!("{}{}", "{\"a\":".repeat(50_000), "}".repeat(50_000)),
        format!("{}1{}", "{\"op\":".repeat(50_000), "}".repeat(50_000)),
        format!("a = {}", "[".repeat(500_000)),
        format!("[{}b]", "a.".repeat(500_000)),
        format!("{}b = 1", "a.".repeat(500_000)),
        format!("[op.a]\nflops = '{}'", "(".repeat(4000)),
        format!("[op.a]\nflops = '{}'", "1+".repeat(4000)),
        "x".repeat(MAX_FILE_BYTES + 1),
    ] {
        assert!(Extension::parse(&text, "x").is_err());
    }
}

mod random {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in r#"(\[op\.|a|"|'|=|\{|\}|\[|\]|\n|,|:|flops|params|D|1|\\u0031|é| ){0,40}"#) {
            let _ = Extension::parse(&text, "x");
            let _ = Extension::parse(&format!("{{{text}"), "x").map_err(|e| e.to_string());
            let _ = Extension::parse(&format!("[op.a]\nflops = '{text}'"), "x").map_err(|e| e.to_string());
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in "\\PC*") {
            let _ = Extension::parse(&text, "x").map_err(|e| e.to_string());
        }
    }
}

#[test]
fn categories_are_names_that_a_report_can_have() {
    let file = |category: &str| format!("[op.\"my::op\"]\ncategory = \"{category}\"\n");
    for fine in ["gemm", "sdpa (fwd)", "überops", "CON", "../x"] {
        assert_eq!(Extension::parse(&file(fine), "x").unwrap().ops()[0].category.as_deref(), Some(fine));
    }
    let long = "x".repeat(81);
    for (category, problem) in [
        ("x\\ny", "`category` has a character that can't be shown"),
        (&*long, "`category` has more than 80 characters"),
        ("cpu_idle", "`category` is the name of a part that every report has"),
        ("CPU idle", "`category` is the name of a part that every report has"),
    ] {
        let error = error(&file(category));
        assert!(error.contains(problem) && error.contains("\nhelp: "), "{error}");
    }
}
