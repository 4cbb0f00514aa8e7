//! A limit on how much slower the target may be, for those who let a program decide.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use super::both::Both;
use super::compared::Compared;
use super::matching::MatchLevel;
use super::steps::Mode;
use super::work::Part;
use super::{COVERAGE_PERCENT, Comparative, ms_of_calls};
use crate::prepare::args::SEPARATOR;
use crate::prepare::category::{CATEGORIES, category_of};
use crate::rounding::shown;
use jarvis_perf::extension::Extension;
use jarvis_perf::ops;
use jarvis_trace::InOrder;

/// The word that stands for the total time.
const TOTAL: &str = "slowdown";

/// A limit: `slowdown=5%` on the total time, `gemm=10%` on the kernel time of a category.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// `slowdown` or the key of a category.
    pub what: String,
    /// Most percent that the target may take more.
    pub percent: f64,
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("expected NAME=PERCENT, such as {TOTAL}=5% or gemm=10%, and not {text:?}");
        let (what, percent) = text.split_once('=').ok_or_else(form)?;
        let percent: f64 = percent.trim().trim_end_matches('%').trim().parse().map_err(|_| form())?;
        if !percent.is_finite() || percent < 0.0 {
            return Err("the limit must be a number of percent that is not negative".to_owned());
        }
        Ok(Self { what: what.trim().to_owned(), percent })
    }
}

/// All categories that a report can show: those with rules of their own, those of the registry, and those of an
/// extension.
fn categories(extension: Option<&Extension>) -> BTreeSet<Arc<str>> {
    let key = |name: &str, category: &str| category_of(name, category).0;
    let registered = ops::all().iter().map(|op| key(op.name, op.category));
    let of_extension = extension.into_iter().flat_map(Extension::ops).flat_map(|op| {
        let categories = [&op.category, &op.bwd_category].into_iter().flatten();
        categories.map(|category| key(&op.name, category)).collect::<Vec<_>>()
    });
    CATEGORIES.iter().map(|c| c.key.into()).chain(registered).chain(of_extension).collect()
}

/// What came of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Held,
    /// It does not.
    Broken,
    /// Nobody can tell, and why.
    NotComparable(String),
}

impl Outcome {
    /// As files write it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::NotComparable(_) => "not_comparable",
        }
    }
}

/// A limit that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The limit.
    pub gate: Gate,
    /// What came of it.
    pub outcome: Outcome,
    /// Time on each side, where it can be compared.
    pub ms: Option<Both<f64>>,
    /// What takes more time, the largest first, if the limit does not hold: name, arguments, time on each side.
    pub rows: Vec<(String, Both<f64>)>,
    /// How many more there are.
    pub more_rows: usize,
}

/// Most rows that a broken limit names.
const MOST_ROWS: usize = 10;

impl Gate {
    /// Whether there is such a thing to limit; if not, what there is.
    pub fn known(&self, extension: Option<&Extension>) -> Result<(), String> {
        let categories = categories(extension);
        if self.what == TOTAL || categories.contains(&*self.what) {
            return Ok(());
        }
        let keys: Vec<&str> = categories.iter().map(|key| &**key).collect();
        Err(format!("{:?} is neither {TOTAL} nor a category ({})", self.what, keys.join(", ")))
    }

    /// Whether the limit holds.
    pub(super) fn check(&self, c: &Comparative) -> Checked {
        let measured = self.measured(c);
        let ms = measured.as_ref().ok().copied();
        // Work that the reference does not do at all is more by any measure.
        let outcome = match measured {
            Err(why) => Outcome::NotComparable(why),
            Ok(ms) if ms.target <= ms.reference * (1.0 + self.percent / 100.0) + 1e-9 => Outcome::Held,
            Ok(_) => Outcome::Broken,
        };
        let mut rows = if outcome == Outcome::Broken { self.rows(c) } else { Vec::new() };
        let more_rows = rows.len().saturating_sub(MOST_ROWS);
        rows.truncate(MOST_ROWS);
        Checked { gate: self.clone(), outcome, ms, rows, more_rows }
    }

    /// The times that the limit is about.
    fn measured(&self, c: &Comparative) -> Result<Both<f64>, String> {
        // What is lost would count as time that is saved.
        if let Some(sides) = c.incomplete_sides() {
            return Err(format!("a part of the recording of the {sides} is lost"));
        }
        let is_per_call = c.normalization.mode == Mode::PerCall;
        if is_per_call && percent_of_calls(c) < COVERAGE_PERCENT {
            return Err(format!(
                "{}; {}% of the target's kernel time is of calls that the reference makes too",
                c.normalization.reason,
                shown(percent_of_calls(c), 0)
            ));
        }
        let kernels = |is_own: &dyn Fn(&Compared) -> bool| {
            let mut ms = Both::default();
            c.categories.iter().filter(|k| is_own(k)).for_each(|k| ms.add(k.ms));
            ms
        };
        match () {
            () if self.what != TOTAL => Ok(kernels(&|k| *k.category == *self.what)),
            // How long the GPU waits in recordings of unknown length says nothing.
            () if is_per_call => Ok(kernels(&|_| true)),
            () => match &c.uncomparable {
                Some(why) => Err(why.clone()),
                None => Ok(Both::of(c.totals.as_ref(), |t| t.total_ms)),
            },
        }
    }

    /// What takes the target more time.
    fn rows(&self, c: &Comparative) -> Vec<(String, Both<f64>)> {
        let mut rows: Vec<(String, Both<f64>)> = if self.what == TOTAL {
            let told = c.changes.iter().filter(|change| c.is_compared(change));
            told.map(|change| (change.what.clone(), change.ms)).collect()
        } else {
            let alone = c.left.target.iter().filter(|p| *p.category == *self.what);
            let alone =
                alone.map(|p| (format!("`{}`, only in the target", p.name), Both { reference: 0.0, target: p.ms }));
            c.operations.iter().flat_map(|o| own_rows(o, &self.what)).chain(alone).collect()
        };
        rows.retain(|(_, ms)| ms.delta() > 0.0);
        rows.order_by(|a, b| b.1.delta().total_cmp(&a.1.delta()).then_with(|| a.0.cmp(&b.0)));
        rows
    }
}

/// What a comparison has of a category: itself, or the operations of a group one by one. The category of a group is that
/// of most of its time, and not of all.
fn own_rows(o: &Compared, category: &str) -> Vec<(String, Both<f64>)> {
    let mut rows: BTreeMap<String, Both<f64>> = BTreeMap::new();
    let mut add = |part: &Part, ms: Both<f64>| {
        let name = match o.level {
            Some(MatchLevel::Module) => format!("`{}` in `{}`", part.name, o.name),
            _ => format!("`{}` {}", o.name, o.args.replace(SEPARATOR, ", ")),
        };
        rows.entry(name).or_default().add(ms);
    };
    for part in o.parts.reference.iter().filter(|p| *p.category == *category) {
        add(part, Both { reference: part.ms, target: 0.0 });
    }
    for part in o.parts.target.iter().filter(|p| *p.category == *category) {
        add(part, Both { reference: 0.0, target: part.ms });
    }
    rows.into_iter().collect()
}

/// How much of the target's kernel time is of calls that the reference makes too.
fn percent_of_calls(c: &Comparative) -> f64 {
    let all: f64 = c.categories.iter().map(|k| k.ms.target).sum();
    if all > 0.0 { 100.0 * ms_of_calls(&c.operations) / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!("slowdown=5%".parse(), Ok(Gate { what: "slowdown".to_owned(), percent: 5.0 }));
        assert_eq!("gemm = 2.5 %".parse(), Ok(Gate { what: "gemm".to_owned(), percent: 2.5 }));
        for wrong in ["", "gemm", "gemm=", "gemm=x", "gemm=-1%", "gemm=nan"] {
            assert!(wrong.parse::<Gate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_category_that_a_report_shows_can_be_limited() {
        let extension = Extension::parse("[op.\"my::op\"]\ncategory = 'My Ops'\n", "mine.toml").unwrap();
        let known = |what: &str, extension| Gate { what: what.to_owned(), percent: 5.0 }.known(extension);
        for what in ["slowdown", "gemm", "other", "multi_tensor_apply"] {
            assert_eq!(known(what, None), Ok(()));
        }
        assert!(known("my_ops", None).is_err_and(|said| said.contains("multi_tensor_apply")));
        assert_eq!(known("my_ops", Some(&extension)), Ok(()));
    }
}
