//! Names as they are compared: without what differs from run to run, and by default from vendor to vendor.

use std::borrow::Cow;

use jarvis_trace::{EventKind, StrId, Trace};
use rapidhash::RapidHashMap;

/// Stands for both vendors' module launch.
const MODULE_LAUNCH: &str = "launch module kernel";

/// A name without addresses and line numbers: `0x7f12` → `0xXXXX`, `a.py(12): f` → `a.py: f`. The module launch calls
/// of both vendors have one name.
pub fn comparison_name(name: &str) -> Cow<'_, str> {
    if matches!(name, "hipModuleLaunchKernel" | "cuLaunchKernel") {
        return Cow::Borrowed(MODULE_LAUNCH);
    }
    if !name.contains("0x") && !name.contains(".py(") {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    loop {
        let places = [("0x", rest.find("0x")), (".py(", rest.find(".py("))];
        let next = places.into_iter().filter_map(|(mark, at)| Some((at?, mark))).min();
        let Some((at, mark)) = next else {
            out.push_str(rest);
            return Cow::Owned(out);
        };
        let (before, after) = (&rest[..at], &rest[at + mark.len()..]);
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        rest = match line_number(after) {
            _ if mark == "0x" && digits > 0 => {
                out.push_str("0xXXXX");
                &after[digits..]
            }
            Some(used) if mark != "0x" => {
                out.push_str(".py");
                &after[used..]
            }
            _ => {
                out.push_str(mark);
                after
            }
        };
    }
}

/// Bytes of `12)` if `12):` follows.
fn line_number(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && text[digits..].starts_with("):")).then_some(digits + 1)
}

/// A comparison name without a trailing `: word` and without the folders of a `.py` file.
pub fn loose_name(name: &str) -> Cow<'_, str> {
    let name = comparison_name(name);
    let stem = match name.rsplit_once(": ") {
        Some((stem, word)) if !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_') => stem,
        _ => &name,
    };
    let is_file = stem.strip_suffix(".py").is_some();
    let file = if is_file { stem.rsplit('/').next().unwrap_or(stem) } else { stem };
    Cow::Owned(file.to_owned())
}

/// Words that name the same part of different vendors' software; the first stands for all.
const VENDOR_WORDS: [&[&str]; 5] = [
    &["cudnn", "miopen"],
    &["cublaslt", "hipblaslt"],
    &["cublas", "hipblas", "rocblas"],
    &["nccl", "rccl"],
    &["cuda", "hip"],
];

/// What runtime calls do, whoever made the runtime. The first that fits counts.
const RUNTIME_CALLS: [(&str, &str); 4] =
    [("GraphLaunch", "graph launch"), ("Launch", "kernel launch"), ("Memcpy", "copy"), ("Memset", "fill")];

/// A comparison name that is the same for both vendors.
pub(crate) fn neutral_name(name: &str, kind: EventKind) -> Cow<'_, str> {
    if kind.is_runtime() {
        let known = RUNTIME_CALLS.iter().find(|(word, _)| name.contains(word));
        return known.map_or_else(|| comparison_name(name), |(_, what)| Cow::Borrowed(*what));
    }
    let name = comparison_name(name);
    if kind != EventKind::CpuOp {
        return name;
    }
    let mut neutral = name;
    for words in VENDOR_WORDS {
        for other in &words[1..] {
            if neutral.contains(other) {
                neutral = Cow::Owned(neutral.replace(other, words[0]));
            }
        }
    }
    neutral
}

/// Numbers of comparison names, the same for both traces.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    numbers: RapidHashMap<String, u32>,
}

impl NameTable {
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        self.intern(&comparison_name(name))
    }

    pub(crate) fn loose(&mut self, name: &str) -> u32 {
        // Loose names are compared among themselves only; the mark keeps them apart from the others.
        let name = format!("\u{0}{}", loose_name(name));
        self.intern(&name)
    }

    fn intern(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// Numbers of the names of one trace, each worked out once.
#[derive(Debug)]
pub(crate) struct NamesOf {
    numbers: Vec<u32>,
}

const UNKNOWN: u32 = u32::MAX;

impl NamesOf {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self { numbers: vec![UNKNOWN; trace.strings().len()] }
    }

    pub(crate) fn get(&mut self, table: &mut NameTable, trace: &Trace, name: StrId) -> u32 {
        let slot = &mut self.numbers[name.index()];
        if *slot == UNKNOWN {
            *slot = table.number(trace.text(name));
        }
        *slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_lines_do_not_count() {
        for (name, comparison, loose) in [
            ("aten::mm", "aten::mm", "aten::mm"),
            (
                "<built-in method f of type object at 0x7fAb12>",
                "<built-in method f of type object at 0xXXXX>",
                "<built-in method f of type object at 0xXXXX>",
            ),
            ("torch/nn/module.py(1518): _call", "torch/nn/module.py: _call", "module.py"),
            (
                "a.py(x): 0x 0x1 b.py(3): g 0x2",
                "a.py(x): 0x 0xXXXX b.py: g 0xXXXX",
                "a.py(x): 0x 0xXXXX b.py: g 0xXXXX",
            ),
            ("nn.Module: Linear_3", "nn.Module: Linear_3", "nn.Module"),
            ("hipModuleLaunchKernel", MODULE_LAUNCH, MODULE_LAUNCH),
            ("µ0x", "µ0x", "µ0x"),
        ] {
            assert_eq!(comparison_name(name), comparison, "{name}");
            assert_eq!(loose_name(name), loose, "{name}");
        }
    }

    #[test]
    fn vendors_do_not_differ() {
        let same = |a: &str, b: &str, kind| assert_eq!(neutral_name(a, kind), neutral_name(b, kind));
        same("cudaLaunchKernel", "hipExtModuleLaunchKernel", EventKind::Runtime);
        same("cuLaunchKernelEx", "hipLaunchKernel", EventKind::Driver);
        same("cudaMemcpyAsync", "hipMemcpyWithStream", EventKind::Runtime);
        same("aten::cudnn_convolution", "aten::miopen_convolution", EventKind::CpuOp);
        assert_ne!(
            neutral_name("cudaGraphLaunch", EventKind::Runtime),
            neutral_name("cudaLaunchKernel", EventKind::Runtime)
        );
        // Kernels keep their names.
        assert_eq!(neutral_name("cudnn_kernel", EventKind::Kernel), "cudnn_kernel");
    }
}
