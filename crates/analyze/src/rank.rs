//! The one order of findings: how urgent, then how much the change is expected to bring end to end.

use std::cmp::Ordering;

use crate::finding::{Finding, Priority};
use crate::prepared::Prepared;

/// Sorts findings and numbers them, the change to make first being 1.
pub fn ranked(mut findings: Vec<Finding>, prepared: &Prepared) -> Vec<Finding> {
    findings.sort_by(|a, b| order(a, b, prepared));
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.rank = i + 1;
    }
    findings
}

fn order(a: &Finding, b: &Finding, prepared: &Prepared) -> Ordering {
    let top = |f: &Finding| f.rows.iter().any(|&(r, _)| prepared.row(r).in_top_ops);
    a.priority
        .cmp(&b.priority)
        .then(b.expected_ms().total_cmp(&a.expected_ms()))
        .then(top(b).cmp(&top(a)))
        .then(b.time_ms.total_cmp(&a.time_ms))
        .then_with(|| (a.pattern, &a.category, &a.title).cmp(&(b.pattern, &b.category, &b.title)))
}

/// Findings that become recommendations: all but those of low priority.
pub fn recommended(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|f| f.priority < Priority::Low)
}
