//! `jarvis explain`: what jarvis does with an operation, or what a pattern means.

mod topics;

use std::fmt::Write as _;

use clap::Args;
use jarvis_perf::calculator::needs_trace;
use jarvis_perf::nearest::nearest;
use jarvis_perf::ops::{self, ModelSource, OpEntry};
use jarvis_perf::parity::Quirks;
use serde_json::{Value, json};

use super::{Failure, Session};

/// Names listed where a text fits several operations.
const LIST: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jarvis explain aten::mm
  jarvis explain triton_poi_fused_add_mul_0
  jarvis explain softmax                       operations with this text in their name
  jarvis explain my_namespace::my_op --json    what becomes of an operation jarvis does not know
  jarvis explain unfused_attention             what a pattern means, how it is found, what to do
  jarvis explain gemm                          what an analyzer does, and its limits
  jarvis explain patterns                      all patterns and analyzers
  jarvis explain thresholds                    all limits, for `jarvis analyze --thresholds`")]
pub(crate) struct ExplainArgs {
    /// Operation name or part of one, pattern, analyzer, `patterns` or `thresholds`
    #[arg(value_name = "OP_OR_PATTERN")]
    op: String,
}

pub(crate) fn run(session: &Session, args: &ExplainArgs) -> Result<(), Failure> {
    let name = args.op.trim();
    if name.is_empty() {
        return Err(Failure::usage("an operation needs a name").help("for example: jarvis explain aten::mm"));
    }
    let json = session.common.json;
    let answer = match topics::of(name) {
        Some(topic) if json => format!("{:#}\n", topic.json()),
        Some(topic) => topic.text(),
        None if json => format!("{:#}\n", Answer::to(name).json()),
        None => Answer::to(name).text(),
    };
    session.print_answer(&answer)
}

/// What is known of a name.
struct Answer<'a> {
    name: &'a str,
    entry: Option<&'static OpEntry>,
    /// Whether the entry stands for all names that begin like it.
    by_prefix: bool,
    /// Operations whose names contain the text, where no entry has it.
    similar: Vec<&'static str>,
}

impl<'a> Answer<'a> {
    fn to(name: &'a str) -> Self {
        let exact = ops::find(name);
        let entry = exact.or_else(|| ops::find_prefix(name));
        let lower = name.to_lowercase();
        let similar = match entry {
            Some(_) => Vec::new(),
            None => ops::all().iter().map(|e| e.name).filter(|n| n.to_lowercase().contains(&lower)).collect(),
        };
        Self { name, entry, by_prefix: exact.is_none(), similar }
    }

    fn text(&self) -> String {
        match self.entry {
            Some(entry) => self.entry_text(entry),
            None if self.similar.is_empty() => self.unknown_text(),
            None => self.similar_text(),
        }
    }

    fn entry_text(&self, entry: &OpEntry) -> String {
        let mut out = format!("{}\n", self.name);
        let mut line = |label: &str, value: &str| {
            let _ = writeln!(out, "  {label:<12}{value}");
        };
        if self.by_prefix {
            line("known as", &format!("every operation whose name begins with `{}`", entry.name));
        }
        line("category", &category_text(ops::category(self.name, None, &Quirks::NONE)));
        if let Some(backward) = entry.backward_category {
            line("backward", &format!("its backward work is counted as {backward}"));
        }
        let sheet = ops::sheet(entry, &Quirks::NONE);
        line("sheet", if sheet.is_empty() { "unified_perf_summary only" } else { sheet });
        match ops::about(entry) {
            Some(about) => line("model", about),
            None => line("model", "none: it has a category; its time and kernels are reported, no FLOPs or bytes"),
        }
        line("source", source(entry));
        let parity = Quirks::REFERENCE;
        let category = ops::category(self.name, None, &parity);
        let model = entry.reader.is_some() && entry.source != ModelSource::Extended;
        line(
            "--parity",
            &format!(
                "category {}{} {}",
                category_text(category),
                if is_by_kernel(category) { ";" } else { "," },
                if model { "the reference's formula" } else { "no model" }
            ),
        );
        if entry.reader.is_some() && !needs_trace(self.name) {
            line("try", &format!("jarvis model {} dims=… types=…", self.name));
        }
        out
    }

    fn similar_text(&self) -> String {
        let count = self.similar.len();
        let mut out = format!("no operation is named `{}`; {count} contain it:\n", self.name);
        for name in self.similar.iter().take(LIST) {
            let _ = writeln!(out, "  {name}");
        }
        if count > LIST {
            let _ = writeln!(out, "  and {} more (--json lists all)", count - LIST);
        }
        out
    }

    /// A known name that may have been meant.
    fn meant(&self) -> Option<&'static str> {
        let topics = topics::names();
        nearest(self.name, ops::all().iter().map(|e| e.name).chain(topics))
    }

    fn unknown_text(&self) -> String {
        let meant = self.meant().map_or(String::new(), |near| format!("  did you mean `{near}`?\n"));
        format!(
            "{name}\n{meant}  \
             category    from its first kernel's name (elementwise, reduce, multi_tensor_apply), else {category}\n  \
             sheet       unified_perf_summary only\n  \
             model       generic: each tensor of the call counted once, a lower bound of its bytes; no FLOPs\n  \
             better      give it a model of your own: [op.\"{name}\"] in jarvis.toml beside the trace, see docs/extensions.md\n",
            name = self.name,
            category = ops::category(self.name, None, &Quirks::NONE),
        )
    }

    fn json(&self) -> Value {
        let Some(entry) = self.entry else {
            return json!({
                "schema": "jarvis.explain/1", "name": self.name, "known": false, "similar": self.similar,
                "did_you_mean": self.meant().filter(|_| self.similar.is_empty()),
                "category": ops::category(self.name, None, &Quirks::NONE), "model_source": "generic",
            });
        };
        json!({
            "schema": "jarvis.explain/1", "name": self.name, "known": true,
            "known_as": entry.name, "category": ops::category(self.name, None, &Quirks::NONE),
            "backward_category": entry.backward_category, "sheet": ops::sheet(entry, &Quirks::NONE),
            "has_model": entry.reader.is_some(), "model": ops::about(entry),
            "model_source": entry.reader.map(|_| entry.source.as_str()),
            "category_by_kernel": is_by_kernel(ops::category(self.name, None, &Quirks::NONE)),
            "parity_category": ops::category(self.name, None, &Quirks::REFERENCE),
            "parity_category_by_kernel": is_by_kernel(ops::category(self.name, None, &Quirks::REFERENCE)),
            "parity_model": entry.reader.is_some() && entry.source != ModelSource::Extended,
        })
    }
}

/// Whether the first kernel of a call may give it another category than this one, which is that of its name.
fn is_by_kernel(category: &str) -> bool {
    category == "other"
}

fn category_text(category: &str) -> String {
    if is_by_kernel(category) {
        return format!("{category}, unless its first kernel's name tells (elementwise, reduce, …)");
    }
    category.to_owned()
}

fn source(entry: &OpEntry) -> &'static str {
    match (entry.reader, entry.source) {
        (None, _) => "the registry of operations",
        (Some(_), ModelSource::Reference) => {
            "reference: the reference tool models it too; where jarvis corrects its numbers, rows say `extended`"
        }
        (Some(_), ModelSource::Extended) => "extended: modelled by jarvis alone",
        (Some(_), ModelSource::Generic) => "generic: tensors counted once",
        (Some(_), ModelSource::Extension) => "your extension file",
    }
}
