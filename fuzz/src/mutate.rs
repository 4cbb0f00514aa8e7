//! Spoiling inputs: JSON by its parts, other text by its lines, anything by its bytes. What comes out is often still
//! almost a document, so that it gets past the reader and hurts what comes after.

use std::io::{Read, Write};

use crate::Dice;

/// What an input is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON, plain or gzipped.
    Json,
    /// Lines with fields: CSV, TOML, Markdown.
    Lines,
    /// A line that names something, then JSON or lines.
    Named,
    /// No structure that is known here.
    Bytes,
}

/// Numbers that arithmetic trips over, and things that stand where numbers should.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "0.001",
    "0.-500",
    "1e-320",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "inf",
    "4294967295",
    "4294967296",
    "-2147483649",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "9223372036854775.807",
    "9223372036854775.808",
    "1700000000000000.125",
    "123456789012345678901234567890",
    "\"12.5\"",
    "\"\"",
    "null",
    "true",
    "[]",
    "{}",
    "1.2.3",
    "--1",
    "00012",
    "0x10",
];

/// Texts that mean something to some part: names, categories, keys, markup, escapes, paths, formulas.
const TEXTS: &[&str] = &[
    "",
    "X",
    "s",
    "f",
    "B",
    "M",
    "i",
    "cpu_op",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_runtime",
    "cuda_driver",
    "python_function",
    "user_annotation",
    "gpu_user_annotation",
    "ac2g",
    "fwdbwd",
    "ProfilerStep#1",
    "nn.Module: Linear_0",
    "torch/utils/checkpoint.py(1): recompute_fn",
    "cudaGraphLaunch",
    "cudaLaunchKernel",
    "cudaDeviceSynchronize",
    "hipMemcpyWithStream",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "__amd_rocclr_copyBuffer",
    "Memcpy DtoH (Device -> Pageable)",
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::copy_",
    "aten::softmax",
    "aten::convolution",
    "aten::_scaled_dot_product_flash_attention",
    "aten::native_layer_norm",
    "aten::embedding",
    "aten::_foreach_add_",
    "autograd::engine::evaluate_function: MmBackward0",
    "record_param_comms",
    "triton_poi_fused_add_0",
    "execution_1_context_0(0)_generation_3(9)",
    "Cijk_Alik_Bljk_BBS_BH_MT128x160x64_MI16x16x16x1_SN",
    "c10::BFloat16",
    "c10::Float8_e4m3fn",
    "TensorList",
    "correlation",
    "External id",
    "Input Dims",
    "Input type",
    "Concrete Inputs",
    "Sequence number",
    "stream",
    "device",
    "ts",
    "dur",
    "traceEvents",
    "deviceProperties",
    "distributedInfo",
    "In msg nelems",
    "Process Group Ranks",
    "../../etc/passwd",
    "CON",
    "=1+1",
    "'@SUM(A1)",
    "<script>alert(1)</script>",
    "| a | b |",
    "`",
    "\\u0000",
    "\\ud800",
    "C:\\Users\\x",
    "a\"b",
    "\u{202e}\u{1f600}é",
    "\n# heading",
    "[[9223372036854775807, 9223372036854775807], [-1], []]",
    "[[0, 0], [1, 2, 3, 4, 5, 6, 7, 8, 9]]",
    "True",
    "[1, 1]",
    "nan",
];

/// What may stand among `Concrete Inputs`: lists of dimensions and sizes that no tensor has, and numbers and flags where
/// others belong.
const ARGUMENTS: &[&str] = &[
    "[-1, -2, -3]",
    "[-1, -2, -3, -4, -5, -6, -7, -8, -9]",
    "[0, 0]",
    "[7]",
    "[]",
    "[-9223372036854775808]",
    "[9223372036854775807, 1]",
    "[0, 0, 0]",
    "[1, [2]]",
    "[True, False]",
    "[",
    "-7",
    "0",
    "9223372036854775807",
    "1e308",
    "nan",
    "True",
    "",
];

/// Bytes that readers look at.
const BYTES: &[u8] = b"\"{}[],:\\ \n\t0.-eEx/#=|'\0\xff\xc3\x1f\x8b";

/// Spoils an input, at most to this many bytes. The same dice, the same result.
pub fn mutate(form: Form, input: &[u8], most: usize, dice: &mut Dice) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=dice.roll(4) {
        out = once(form, &out, dice);
    }
    out.truncate(most);
    out
}

fn once(form: Form, input: &[u8], dice: &mut Dice) -> Vec<u8> {
    match form {
        Form::Json if input.starts_with(&[0x1f, 0x8b]) => gzipped(input, dice),
        Form::Json if dice.roll(8) > 0 => json(input, dice),
        Form::Lines if dice.roll(8) > 0 => lines(input, dice),
        Form::Named => {
            let end = input.iter().position(|&b| b == b'\n').map_or(0, |at| at + 1);
            let (name, rest) = input.split_at(end);
            let rest = if rest.trim_ascii_start().starts_with(b"{") { json(rest, dice) } else { lines(rest, dice) };
            let name = if dice.roll(16) == 0 { bytes(name, dice) } else { name.to_vec() };
            [name, rest].concat()
        }
        _ => bytes(input, dice),
    }
}

/// Flips bytes of the packed form, or unpacks, spoils and packs again.
fn gzipped(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    if dice.roll(2) == 0 {
        return bytes(input, dice);
    }
    let mut text = Vec::new();
    // What comes out before an error is spoilt all the same.
    let _ = flate2::read::GzDecoder::new(input).take(1 << 20).read_to_end(&mut text);
    gzip(&json(&text, dice))
}

/// Packs bytes.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

fn bytes(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut out = input.to_vec();
    let at = dice.roll(out.len());
    let longest = 1 << dice.roll(10);
    let end = (at + 1 + dice.roll(longest)).min(out.len());
    match dice.roll(7) {
        _ if out.is_empty() => out.push(BYTES[dice.roll(BYTES.len())]),
        0 => out.truncate(at),
        1 => out[at] ^= 1 << dice.roll(8),
        2 => out[at] = BYTES[dice.roll(BYTES.len())],
        3 => out.insert(at, BYTES[dice.roll(BYTES.len())]),
        4 => drop(out.drain(at..end)),
        5 => {
            let part = out[at..end].to_vec();
            let to = dice.roll(out.len());
            out.splice(to..to, part);
        }
        _ => out[at] = dice.number() as u8,
    }
    out
}

/// Lines are moved, dropped, doubled; fields get numbers and texts of the lists.
fn lines(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = input.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    let (one, two) = (dice.roll(all.len()), dice.roll(all.len()));
    match dice.roll(6) {
        0 => all.swap(one, two),
        1 => drop(all.remove(one)),
        2 => all.insert(two, all[one].clone()),
        3 => all[one] = bytes(&all[one], dice),
        _ => {
            let separator = if dice.roll(3) == 0 { b' ' } else { b',' };
            let mut fields: Vec<Vec<u8>> = all[one].split(|&b| b == separator).map(<[u8]>::to_vec).collect();
            let (at, other) = (dice.roll(fields.len()), dice.roll(fields.len()));
            match dice.roll(5) {
                0 => fields[at] = dice.pick(NUMBERS).into(),
                1 => fields[at] = dice.pick(TEXTS).into(),
                2 => fields.swap(at, other),
                3 => drop(fields.remove(at)),
                _ => fields.insert(other, fields[at].clone()),
            }
            all[one] = fields.join(&separator);
        }
    }
    all.join(&b'\n')
}

/// What a part of a JSON text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Text,
    Number,
    Object,
    List,
}

/// A part of a JSON text.
#[derive(Debug, Clone, Copy)]
struct Part {
    kind: Kind,
    start: usize,
    end: usize,
}

/// The parts of a text that is more or less JSON, each with its place.
fn parts(text: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        at += 1;
        match text[start] {
            b'"' => {
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(text.len());
                let is_key = text[at..].trim_ascii_start().first() == Some(&b':');
                parts.push(Part { kind: if is_key { Kind::Key } else { Kind::Text }, start, end: at });
            }
            b'{' | b'[' => {
                open.push(parts.len());
                parts.push(Part { kind: if text[start] == b'{' { Kind::Object } else { Kind::List }, start, end: at });
            }
            b'}' | b']' => {
                if let Some(opened) = open.pop() {
                    parts[opened].end = at;
                }
            }
            b if b.is_ascii_alphanumeric() || b == b'-' => {
                while at < text.len() && (text[at].is_ascii_alphanumeric() || b"+-.".contains(&text[at])) {
                    at += 1;
                }
                parts.push(Part { kind: Kind::Number, start, end: at });
            }
            _ => {}
        }
    }
    parts
}

fn json(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let parts = parts(input);
    let of = |kinds: &[Kind]| -> Vec<usize> { (0..parts.len()).filter(|&i| kinds.contains(&parts[i].kind)).collect() };
    let put = |part: Part, new: &[u8]| [&input[..part.start], new, &input[part.end..]].concat();
    let some = |kinds: &[Kind], dice: &mut Dice| {
        let found = of(kinds);
        (!found.is_empty()).then(|| found[dice.roll(found.len())])
    };
    let quoted = |text: &str| format!("\"{text}\"").into_bytes();
    let changed = match dice.roll(13) {
        0 | 1 => some(&[Kind::Number], dice).map(|i| put(parts[i], dice.pick(NUMBERS).as_bytes())),
        // A number that stands elsewhere too: equal times, equal correlations.
        2 | 3 => some(&[Kind::Number], dice).zip(some(&[Kind::Number], dice)).map(|(i, j)| {
            let value = input[parts[j].start..parts[j].end].to_vec();
            put(parts[i], &value)
        }),
        4 => some(&[Kind::Text], dice).map(|i| put(parts[i], &quoted(dice.pick(TEXTS)))),
        5 => some(&[Kind::Text], dice).zip(some(&[Kind::Text], dice)).map(|(i, j)| {
            let value = input[parts[j].start..parts[j].end].to_vec();
            put(parts[i], &value)
        }),
        6 => some(&[Kind::Key], dice).map(|i| put(parts[i], &quoted(dice.pick(TEXTS)))),
        7 => some(&[Kind::Key], dice).map(|i| member(input, &parts, i, dice)),
        8 => some(&[Kind::Object, Kind::List], dice).map(|i| put(parts[i], b"")),
        9 => some(&[Kind::Object, Kind::List], dice).map(|i| {
            let value = &input[parts[i].start..parts[i].end.max(parts[i].start)];
            put(parts[i], &[value, b", ", value].concat())
        }),
        10 => {
            some(&[Kind::Object], dice).zip(some(&[Kind::Object], dice)).map(|(i, j)| swap(input, parts[i], parts[j]))
        }
        11 => argument(input, &parts, dice).map(|i| put(parts[i], &quoted(dice.pick(ARGUMENTS)))),
        _ => some(&[Kind::Number, Kind::Text, Kind::Object, Kind::List], dice).map(|i| {
            let deep = 1 << dice.roll(9);
            let new = match dice.roll(3) {
                0 => "[".repeat(deep) + &"]".repeat(deep),
                1 => "{\"a\":".repeat(deep) + "1" + &"}".repeat(deep),
                _ => "null".to_owned(),
            };
            put(parts[i], new.as_bytes())
        }),
    };
    changed.unwrap_or_else(|| bytes(input, dice))
}

/// One of the texts that are recorded for the arguments of calls.
fn argument(input: &[u8], parts: &[Part], dice: &mut Dice) -> Option<usize> {
    let is_list = |pair: &[Part]| {
        let key = &input[pair[0].start..pair[0].end];
        pair[0].kind == Kind::Key && key == b"\"Concrete Inputs\"" && pair[1].kind == Kind::List
    };
    let lists: Vec<usize> = (1..parts.len()).filter(|&i| is_list(&parts[i - 1..=i])).collect();
    let list = *lists.get(dice.roll(lists.len()))?;
    let inside = (list + 1..parts.len()).take_while(|&i| parts[i].start < parts[list].end);
    let texts: Vec<usize> = inside.filter(|&i| parts[i].kind == Kind::Text).collect();
    texts.get(dice.roll(texts.len())).copied()
}

/// Drops or doubles a key with its value.
fn member(input: &[u8], parts: &[Part], key: usize, dice: &mut Dice) -> Vec<u8> {
    let start = parts[key].start;
    let end = parts.get(key + 1).map_or(parts[key].end, |value| value.end.max(parts[key].end));
    let whole = &input[start..end];
    if dice.roll(2) == 0 {
        return [&input[..end], b", ", whole, &input[end..]].concat();
    }
    let comma = usize::from(input.get(end) == Some(&b','));
    [&input[..start], &input[end + comma..]].concat()
}

/// Two parts change places, unless one is in the other.
fn swap(input: &[u8], one: Part, two: Part) -> Vec<u8> {
    let (a, b) = if one.start <= two.start { (one, two) } else { (two, one) };
    if b.start < a.end {
        return input.to_vec();
    }
    let (x, y) = (&input[a.start..a.end], &input[b.start..b.end]);
    [&input[..a.start], y, &input[a.end..b.start], x, &input[b.end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_dice_spoil_the_same_way() {
        let text = br#"{"traceEvents": [{"ph": "X", "ts": 1.5, "args": {"a": [1, 2]}}, {"ph": "i"}]}"#;
        let mut different = std::collections::BTreeSet::new();
        for seed in 0..500 {
            for form in [Form::Json, Form::Lines, Form::Named, Form::Bytes] {
                let spoil = || mutate(form, text, 4096, &mut Dice::new(seed));
                let spoilt = spoil();
                assert_eq!(spoilt, spoil());
                assert!(spoilt.len() <= 4096);
                different.insert(spoilt);
            }
            mutate(Form::Json, &gzip(text), 4096, &mut Dice::new(seed));
            mutate(Form::Json, b"", 4096, &mut Dice::new(seed));
            mutate(Form::Lines, b"", 4096, &mut Dice::new(seed));
        }
        assert!(different.len() > 1000, "{}", different.len());
    }

    #[test]
    fn recorded_arguments_are_found() {
        let text = br#"{"args": {"Input Dims": [[4, 8]], "Concrete Inputs": ["", "[-1]", "True"]}, "name": "a"}"#;
        let parts = parts(text);
        let mut chosen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let part = parts[argument(text, &parts, &mut Dice::new(seed)).unwrap()];
            chosen.insert(std::str::from_utf8(&text[part.start + 1..part.end - 1]).unwrap());
        }
        assert_eq!(chosen.into_iter().collect::<Vec<_>>(), ["", "True", "[-1]"]);
        assert_eq!(argument(b"{}", &[], &mut Dice::new(0)), None);
    }

    #[test]
    fn parts_of_json_are_found() {
        let kinds = |text: &str| {
            parts(text.as_bytes()).into_iter().map(|p| &text[p.start..p.end]).collect::<Vec<_>>().join("~")
        };
        assert_eq!(kinds(r#"{"a": [1.5, "b\""]}"#), r#"{"a": [1.5, "b\""]}~"a"~[1.5, "b\""]~1.5~"b\"""#);
        assert_eq!(kinds(r#"{"a"#), "{~\"a", "what does not end is a part as far as it goes");
    }
}
