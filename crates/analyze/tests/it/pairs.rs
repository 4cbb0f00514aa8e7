//! Estimates against what a fix really brought: step times measured without the profiler, before and after.

use std::collections::{BTreeMap, BTreeSet};

use jarvis_analyze::pairs::{Checked, EXPECTED, Expected};
use serde_json::Value as Json;

use crate::support::{analyse, fixtures, names, shared, trace};

/// Pairs of a `facts.json`: workloads before and after, with their step times.
type Pairs = BTreeMap<String, BTreeMap<String, (String, f64)>>;

fn measured() -> Pairs {
    let mut pairs = Pairs::new();
    for folder in [Some(fixtures()), shared()].into_iter().flatten() {
        let Ok(text) = std::fs::read_to_string(folder.join("h200/facts.json")) else { continue };
        let facts: Json = serde_json::from_str(&text).unwrap();
        for (name, fact) in facts["workloads"].as_object().unwrap() {
            if let (Some(pair), Some(role)) = (fact["pair"].as_str(), fact["role"].as_str()) {
                let side = (name.clone(), fact["step_ms"].as_f64().unwrap());
                pairs.entry(pair.to_owned()).or_default().insert(role.to_owned(), side);
            }
        }
    }
    pairs
}

#[test]
fn fixes_are_named_first_and_bring_what_was_said() {
    let pairs = measured();
    let docs = fixtures().join("../docs/analysis.md");
    let documented = std::fs::read_to_string(&docs).unwrap();
    let mut checked: BTreeSet<String> = BTreeSet::new();
    for (pair, roles) in &pairs {
        let expected = Expected::of(pair).unwrap_or_else(|| panic!("nothing is expected of {pair}"));
        let [(before, before_ms), (after, after_ms)] = ["before", "after"].map(|role| &roles[role]);
        let (Some(b), Some(a)) = (trace("h200", before), trace("h200", after)) else { continue };
        let (b, a) = (analyse(&b, "H200").unwrap(), analyse(&a, "H200").unwrap());
        let line = Checked::of(expected, (*before_ms, *after_ms), &b, &a);
        assert!(line.is_first(), "{pair}: {:?}", names(&b));
        assert!(line.is_inside(), "{pair}: {:.2} is not in {:?}", line.measured, line.range);
        assert!(line.is_narrow(), "{pair}: {:?} says little", line.range);
        assert!(line.is_mended(), "{pair}: still {:?} after the fix", line.after);
        assert!(line.holds());
        let range = line.range.unwrap();
        let row = format!(
            "| {pair} | `{}` | {:.2}x | {:.2}x to {:.2}x |",
            expected.pattern.as_str(),
            line.measured,
            range.low,
            range.high
        );
        assert!(documented.contains(&row), "not in {}: {row}", docs.display());
        checked.insert(pair.clone());
    }
    assert!(checked.len() >= 2, "the project carries two pairs: {checked:?}");
    assert!(EXPECTED.iter().all(|e| pairs.contains_key(e.pair)), "every pair was measured");
}

#[test]
fn tiny_products_are_found() {
    let Some(path) = trace("h200", "tiny_bmm_window") else { return };
    let analysis = analyse(&path, "H200").unwrap();
    let gemm = analysis.outcomes.iter().find(|o| &*o.category == "gemm").unwrap().metrics().unwrap();
    assert!(gemm.patterns.iter().any(|p| p.pattern == "TINY_BATCHED_GEMM"));
    // They are the products of attention, but of 8 tokens: its 37,632 blocks would take a fused kernel 0.4 ms at best (0.41
    // measured), and all of it takes 0.24 ms as it is.
    assert_eq!(names(&analysis)[0], "tiny_gemms");
    assert!(!names(&analysis).contains(&"unfused_attention"));
}
