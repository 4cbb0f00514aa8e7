//! The language of reports: vendor-neutral words, nothing claimed that a trace cannot show, no winners. Every written
//! Markdown file is checked; the templates obey by construction, so a hit is a fault of ours.

mod prose;

use std::collections::BTreeSet;

pub(crate) use prose::prose;

/// A word or phrase that must not appear, and what to say instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The phrase, in lower case.
    pub phrase: &'static str,
    /// How it is matched.
    pub matched: Match,
    /// What to say instead.
    pub instead: &'static str,
}

/// How a phrase is matched, always ignoring case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// As a whole word.
    Word,
    /// As a whole word written in capitals, which would otherwise be part of ordinary language.
    Capitals,
    /// Anywhere, as the stem of a word.
    Stem,
}

use Match::{Capitals, Stem, Word};

/// Words of one vendor; names in backticks are data and may stay.
#[rustfmt::skip]
pub const VENDOR_WORDS: &[Rule] = &[
    Rule { phrase: "cuda kernel", matched: Stem, instead: "GPU kernels" },
    Rule { phrase: "hip kernel", matched: Stem, instead: "GPU kernels" },
    Rule { phrase: "nccl", matched: Word, instead: "collective communication" },
    Rule { phrase: "rccl", matched: Word, instead: "collective communication" },
    Rule { phrase: "cublas", matched: Word, instead: "vendor GEMM library" },
    Rule { phrase: "cublaslt", matched: Word, instead: "vendor GEMM library" },
    Rule { phrase: "cutlass", matched: Word, instead: "vendor GEMM library" },
    Rule { phrase: "hipblas", matched: Word, instead: "vendor GEMM library" },
    Rule { phrase: "hipblaslt", matched: Word, instead: "vendor GEMM library" },
    Rule { phrase: "rocblas", matched: Word, instead: "vendor GEMM library" },
    Rule { phrase: "tensile", matched: Word, instead: "vendor GEMM library" },
    Rule { phrase: "cudnn", matched: Word, instead: "DNN library" },
    Rule { phrase: "miopen", matched: Word, instead: "DNN library" },
    Rule { phrase: "fmha", matched: Word, instead: "optimized attention kernel" },
    Rule { phrase: "aiter", matched: Word, instead: "optimized attention kernel" },
    Rule { phrase: "ck", matched: Capitals, instead: "optimized attention kernel" },
    Rule { phrase: "xformers", matched: Word, instead: "optimized attention kernel" },
    Rule { phrase: "transformer engine attention", matched: Word, instead: "optimized attention kernel" },
    Rule { phrase: "cuda graph", matched: Stem, instead: "GPU graph" },
    Rule { phrase: "hip graph", matched: Stem, instead: "GPU graph" },
    Rule { phrase: "cudadevicesynchronize", matched: Word, instead: "device synchronization" },
    Rule { phrase: "hipdevicesynchronize", matched: Word, instead: "device synchronization" },
    Rule { phrase: "cudastreamsynchronize", matched: Word, instead: "device synchronization" },
    Rule { phrase: "hipstreamsynchronize", matched: Word, instead: "device synchronization" },
    Rule { phrase: "cudamemcpy", matched: Stem, instead: "memory copy" },
    Rule { phrase: "hipmemcpy", matched: Stem, instead: "memory copy" },
    Rule { phrase: "tensor core", matched: Stem, instead: "matrix units" },
    Rule { phrase: "matrix core", matched: Stem, instead: "matrix units" },
    Rule { phrase: "mfma", matched: Word, instead: "matrix units" },
    Rule { phrase: "wmma", matched: Word, instead: "matrix units" },
    Rule { phrase: "sm", matched: Capitals, instead: "compute units" },
    Rule { phrase: "sms", matched: Capitals, instead: "compute units" },
    Rule { phrase: "cu", matched: Capitals, instead: "compute units" },
    Rule { phrase: "cus", matched: Capitals, instead: "compute units" },
    Rule { phrase: "warp", matched: Word, instead: "nothing: not needed" },
    Rule { phrase: "warps", matched: Word, instead: "nothing: not needed" },
    Rule { phrase: "wavefront", matched: Stem, instead: "nothing: not needed" },
    Rule { phrase: "nsys", matched: Word, instead: "hardware counters" },
    Rule { phrase: "rocprofv3", matched: Word, instead: "hardware counters" },
];

/// What a trace cannot show, and certainty it cannot give.
#[rustfmt::skip]
pub const UNSEEN: &[Rule] = &[
    Rule { phrase: "bank conflict", matched: Stem, instead: "Low efficiency - profile with hardware counters to diagnose." },
    Rule { phrase: "coalesc", matched: Stem, instead: "Replay artifact provided for kernel team investigation" },
    Rule { phrase: "uncoalesced", matched: Stem, instead: "Replay artifact provided for kernel team investigation" },
    Rule { phrase: "occupancy", matched: Stem, instead: "Kernel running slower than expected" },
    Rule { phrase: "waves per", matched: Stem, instead: "Kernel running slower than expected" },
    Rule { phrase: "register pressure", matched: Stem, instead: "Kernel running slower than expected" },
    Rule { phrase: "spill", matched: Stem, instead: "Kernel running slower than expected" },
    Rule { phrase: "cache hit", matched: Stem, instead: "Large working set may exceed cache" },
    Rule { phrase: "cache miss", matched: Stem, instead: "Large working set may exceed cache" },
    Rule { phrase: "l1", matched: Word, instead: "Large working set may exceed cache" },
    Rule { phrase: "l2 hit", matched: Stem, instead: "Large working set may exceed cache" },
    Rule { phrase: "thrash", matched: Stem, instead: "Large working set may exceed cache" },
    Rule { phrase: "root cause", matched: Stem, instead: "Bottleneck identified - generate reproducer for kernel team." },
    Rule { phrase: "because the kernel", matched: Stem, instead: "Bottleneck identified - generate reproducer for kernel team." },
    Rule { phrase: "is caused by", matched: Stem, instead: "Bottleneck identified - generate reproducer for kernel team." },
    Rule { phrase: "due to poor", matched: Stem, instead: "Bottleneck identified - generate reproducer for kernel team." },
    Rule { phrase: "load imbalance", matched: Stem, instead: "expert load balance and routing cannot be seen in a trace" },
    Rule { phrase: "expert imbalance", matched: Stem, instead: "expert load balance and routing cannot be seen in a trace" },
    Rule { phrase: "straggler", matched: Stem, instead: "waiting for other ranks and transfer time cannot be separated" },
    Rule { phrase: "definitely", matched: Word, instead: "the number itself" },
    Rule { phrase: "obviously", matched: Word, instead: "the number itself" },
    Rule { phrase: "guaranteed", matched: Word, instead: "the range" },
    Rule { phrase: "will speed up", matched: Stem, instead: "the range" },
    Rule { phrase: "proves", matched: Word, instead: "shows" },
    Rule { phrase: "probably", matched: Word, instead: "what the trace shows" },
    Rule { phrase: "likely", matched: Word, instead: "what the trace shows" },
    Rule { phrase: "perhaps", matched: Word, instead: "what the trace shows" },
];

/// Words that make a contest of a comparison.
#[rustfmt::skip]
pub const CONTEST: &[Rule] = &[
    Rule { phrase: "winner", matched: Stem, instead: "improve the target" },
    Rule { phrase: "wins", matched: Word, instead: "improve the target" },
    Rule { phrase: "beats", matched: Word, instead: "N% slower or faster on target" },
    Rule { phrase: "loses", matched: Word, instead: "N% slower or faster on target" },
    Rule { phrase: "superior", matched: Word, instead: "N% slower or faster on target" },
    Rule { phrase: "inferior", matched: Word, instead: "N% slower or faster on target" },
    Rule { phrase: "better platform", matched: Stem, instead: "N% slower or faster on target" },
    Rule { phrase: "outperforms", matched: Word, instead: "N% slower or faster on target" },
    Rule { phrase: "best gpu", matched: Stem, instead: "N% slower or faster on target" },
    Rule { phrase: "faster platform", matched: Stem, instead: "N% slower or faster on target" },
];

/// A place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Line, from 1.
    pub line: usize,
    /// The phrase.
    pub phrase: &'static str,
    /// What to say instead.
    pub instead: &'static str,
    /// The line as it is read: without data.
    pub text: String,
}

/// Checks a Markdown text against all rules. Names in backticks, code blocks, the cells of columns that hold names and
/// the hardware reference are data and not language.
pub fn violations(markdown: &str) -> Vec<Violation> {
    violations_of(&prose(markdown, |_| true))
}

/// A name that a user or a trace chose, within a sentence: as it is where it reads as one, else as data. A class called
/// `Warp` is no language.
pub fn in_prose(name: &str) -> String {
    let name = name.replace('`', "'");
    if reads_as_one(&name, " _.-+/()") && !name.starts_with('/') { name } else { format!("`{name}`") }
}

/// Whether a name can stand in a sentence or a heading: of letters, digits and these marks, in words that may be said.
pub(crate) fn reads_as_one(name: &str, marks: &str) -> bool {
    let reads = name.chars().all(|c| c.is_alphanumeric() || marks.contains(c));
    reads && violations(name).is_empty() && no_number(name).is_none()
}

/// Words that are no numbers, where one should be.
pub(crate) const NO_NUMBERS: [&str; 5] = ["NaN", "nan", "inf", "Inf", "Infinity"];

/// `NaN` or `inf` as a word.
pub(crate) fn no_number(text: &str) -> Option<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.into_iter().find(|w| NO_NUMBERS.contains(w))
}

/// All lists of rules.
pub(crate) const RULES: [&[Rule]; 3] = [VENDOR_WORDS, UNSEEN, CONTEST];

/// The same of lines that are language.
pub(crate) fn violations_of(lines: &[(usize, String)]) -> Vec<Violation> {
    if lines.is_empty() {
        return Vec::new();
    }
    let rules: Vec<&Rule> = RULES.into_iter().flatten().collect();
    // Every phrase begins a word, so words are looked up by their first letter: every run checks itself.
    let mut by_letter: [Vec<usize>; 256] = [const { Vec::new() }; 256];
    for (i, rule) in rules.iter().enumerate() {
        by_letter[usize::from(rule.phrase.as_bytes()[0])].push(i);
    }
    let mut found = Vec::new();
    for (line, text) in lines {
        let lower = text.to_ascii_lowercase();
        let mut broken: BTreeSet<usize> = BTreeSet::new();
        for at in word_starts(&lower) {
            for &i in &by_letter[usize::from(lower.as_bytes()[at])] {
                if rules[i].hits(text, &lower, at) {
                    broken.insert(i);
                }
            }
        }
        let phrases = broken.into_iter().map(|i| (rules[i].phrase, rules[i].instead));
        let shouted = (text.contains('!') && !text.contains("![")).then_some(("!", "a full stop"));
        for (phrase, instead) in phrases.chain(shouted) {
            found.push(Violation { line: *line, phrase, instead, text: text.clone() });
        }
    }
    found
}

/// Where words begin.
fn word_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut inside = false;
    text.char_indices().filter_map(move |(at, c)| {
        let starts = is_of_word(c) && !inside;
        inside = is_of_word(c);
        starts.then_some(at)
    })
}

fn is_of_word(c: char) -> bool {
    // Most are of these, and quicker to tell.
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii() && c.is_alphanumeric()
}

impl Rule {
    /// Whether it is broken by the word that begins here, in a line that is also given in lower case.
    fn hits(&self, text: &str, lower: &str, at: usize) -> bool {
        let end = at + self.phrase.len();
        let is_phrase = match self.matched {
            // The same letters, all of them in capitals.
            Capitals => lower[at..].starts_with(self.phrase) && text[at..end] == self.phrase.to_ascii_uppercase(),
            Word | Stem => lower[at..].starts_with(self.phrase),
        };
        is_phrase && (self.matched == Stem || !lower[end..].starts_with(is_of_word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(text: &str) -> Vec<&'static str> {
        violations(text).iter().map(|v| v.phrase).collect()
    }

    #[test]
    fn vendor_words_and_claims_are_found() {
        assert_eq!(phrases("Uses cuBLAS and a CUDA graph."), ["cublas", "cuda graph"]);
        assert_eq!(phrases("Low occupancy and bank conflicts."), ["bank conflict", "occupancy"]);
        assert_eq!(phrases("The target wins!"), ["wins", "!"]);
        assert_eq!(phrases("132 SMs"), [] as [&str; 0], "mixed case is a name, not a count");
        assert_eq!(phrases("132 SM"), ["sm"]);
        assert_eq!(phrases("swarm of warps"), ["warps"]);
    }

    #[test]
    fn sentences_and_their_names_keep_the_rules() {
        for text in jarvis_analyze::texts::TEXTS {
            let said = text.template.replace(['{', '}'], "");
            assert_eq!((phrases(text.id), phrases(&said)), (Vec::new(), Vec::new()), "{}", text.id);
        }
    }

    #[test]
    fn data_is_not_language() {
        assert!(phrases("The kernel `cublasLt_splitK` ran.").is_empty());
        assert!(phrases("```\nncclDevKernel occupancy\n```").is_empty());
        let table = "| Kernel | Note |\n|---|---|\n| ncclAllReduce | collective |\n| x | uses nccl |";
        assert_eq!(phrases(table), ["nccl"]);
        let piped = "| Kernel | Note |\n|---|---|\n| a\\|nccl | fine |";
        assert!(phrases(piped).is_empty(), "an escaped pipe ends no cell");
        assert!(phrases("### Hardware Reference\n- 132 SM\n").is_empty());
        assert_eq!(phrases("### Hardware Reference\n- 132 SM\n### Model\n- 3 SM"), ["sm"]);
    }

    #[test]
    fn names_of_others_are_data_where_they_are_no_language() {
        assert_eq!(in_prose("GPT-2 (small)"), "GPT-2 (small)");
        assert_eq!(in_prose("Warp"), "`Warp`");
        assert!(reads_as_one("aten::cudnn_batch_norm", "_:") && !reads_as_one("cutlass::gemm", "_:"));
    }

    #[test]
    fn phrases_are_unique_and_lower_case() {
        let all: Vec<&Rule> = RULES.into_iter().flatten().collect();
        for (i, rule) in all.iter().enumerate() {
            assert_eq!(rule.phrase, rule.phrase.to_lowercase());
            assert!(all[..i].iter().all(|r| r.phrase != rule.phrase), "{} stands twice", rule.phrase);
        }
    }
}
