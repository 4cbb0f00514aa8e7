//! Runs the analyzers, one category at a time; one that fails takes nobody else with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jarvis_trace::side_by_side;

use super::claims::Claims;
use super::cx::CategoryCx;
use super::words::Said;
use super::{Analyzer, AnalyzerError, analyzer};
use crate::finding::{Finding, PatternId};
use crate::metrics::{Bottleneck, CategoryMetrics, MetricsFile, Scope, ShortMetrics, Status};
use crate::prepare::category::CATEGORIES;
use crate::prepared::{Category, Prepared};
use crate::texts::TextId;

/// What came of a category.
#[derive(Debug, Clone)]
pub struct CategoryOutcome {
    /// Key.
    pub category: Arc<str>,
    /// As shown.
    pub display: Arc<str>,
    /// Analyzer that was in charge.
    pub analyzer: &'static str,
    /// What it said.
    pub file: MetricsFile,
}

impl CategoryOutcome {
    /// Whether the category could be analysed.
    pub fn status(&self) -> Status {
        match &self.file {
            MetricsFile::Full(metrics) => metrics.status,
            MetricsFile::Short(short) => short.status,
        }
    }

    /// Its bottlenecks, to say which replay package is theirs.
    pub fn bottlenecks_mut(&mut self) -> &mut [Bottleneck] {
        match &mut self.file {
            MetricsFile::Full(metrics) => &mut metrics.bottlenecks,
            MetricsFile::Short(_) => &mut [],
        }
    }

    /// What the analyzer said, if it did not fail.
    pub fn metrics(&self) -> Option<&CategoryMetrics> {
        match &self.file {
            MetricsFile::Full(metrics) => Some(metrics),
            MetricsFile::Short(_) => None,
        }
    }
}

/// Takes back the promise of a package that turned out impossible.
pub fn refuse_package(b: &mut Bottleneck, reason: &str) {
    reason.clone_into(&mut b.replay.reason);
    Said::refused(&mut b.kernel, &mut b.text_ids);
}

/// The same in a finding.
pub fn refuse_package_of(finding: &mut Finding) {
    say_instead(finding, TextId::B_NO_PACKAGE);
}

/// Of a finding that got no package, how to get one: no artifact is spoken of that is not there.
pub fn ask_for_package_of(finding: &mut Finding) {
    say_instead(finding, TextId::B_ASK_PACKAGE);
}

/// Says something else in the place of the promise of a package.
fn say_instead(finding: &mut Finding, text: TextId) {
    for sentence in &mut finding.paths.kernel {
        if *sentence == TextId::B_REPLAY.template() {
            *sentence = text.plain();
        }
    }
}

/// Analyses all categories, most time first. Attention that runs without an attention operation gets its category too.
pub fn analyze_categories(prepared: &Prepared, claims: &Claims, scope: Scope) -> Vec<CategoryOutcome> {
    let extra = attention_without_rows(prepared, claims);
    let categories: Vec<&Category> = prepared.categories.iter().chain(&extra).collect();
    side_by_side::each(&categories, |&category| {
        let cx = CategoryCx { prepared, category, claims, scope };
        outcome(&cx, analyzer(category.analyzer))
    })
}

fn attention_without_rows(prepared: &Prepared, claims: &Claims) -> Option<Category> {
    let wanted = claims.of_pattern(PatternId::UNFUSED_ATTENTION).next().is_some();
    let info = CATEGORIES.iter().find(|c| c.key == "sdpa_fwd")?;
    (wanted && prepared.category(info.key).is_none())
        .then(|| Category::without_rows(info.key.into(), info.display.into(), info.analyzer))
}

/// Categories that every trace is asked for.
const ASKED_FOR: [&str; 3] = ["gemm", "sdpa_fwd", "convolution"];

/// What is said of categories that every trace is asked for and this one has no operations of.
pub fn without_data(outcomes: &[CategoryOutcome]) -> impl Iterator<Item = CategoryOutcome> + '_ {
    let asked_for = CATEGORIES.iter().filter(|c| ASKED_FOR.contains(&c.key));
    // Attention has several categories.
    let missing = asked_for.filter(|c| outcomes.iter().all(|o| o.analyzer != c.analyzer));
    missing.map(|c| CategoryOutcome {
        category: c.key.into(),
        display: c.display.into(),
        analyzer: c.analyzer,
        file: MetricsFile::Short(ShortMetrics::no_data(c.key, c.display)),
    })
}

/// Runs one analyzer. A panic in it is its failure and nobody else's.
pub(crate) fn outcome(cx: &CategoryCx<'_>, analyzer: Option<&dyn Analyzer>) -> CategoryOutcome {
    let category = cx.category;
    let run = || match analyzer {
        Some(analyzer) => analyzer.run(cx),
        None => Err(AnalyzerError::Inconsistent(format!("no analyzer is called `{}`", category.analyzer))),
    };
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(AnalyzerError::Panicked(text.unwrap_or_else(|| "no message".to_owned())))
    });
    let file = match result {
        Ok(metrics) => MetricsFile::Full(Box::new(metrics)),
        Err(e) => MetricsFile::Short(ShortMetrics::error(&category.key, &category.display, &e.to_string())),
    };
    CategoryOutcome {
        category: Arc::clone(&category.key),
        display: Arc::clone(&category.display),
        analyzer: category.analyzer,
        file,
    }
}
