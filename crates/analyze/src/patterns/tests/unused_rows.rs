//! Products of which few rows are used.

use super::sketch::Sketch;
use super::*;
use crate::finding::PatternId;

const COLUMNS: i64 = 131_072;

/// Logits of `tokens` tokens in two sequences, of which the last ones are taken after a cast, and what then reads which shape.
fn draw(tokens: i64, cast: bool, view: &str, taken: &[i64], then: &[i64]) -> Sketch {
    let mut s = Sketch::new();
    let whole: &[i64] = &[2, tokens, COLUMNS];
    s.module("Linear_9", |s| _ = s.op("aten::mm", &[&[2 * tokens, 1024], &[1024, COLUMNS]], 4000.0));
    if cast {
        s.typed("aten::copy_", &[whole, whole], &["float", "c10::BFloat16"], 900.0);
    }
    s.view(view, whole);
    s.dtype("float").op("aten::_softmax", &[taken, &[], &[]], 5.0).op("aten::relu", &[then], 5.0);
    s
}

#[test]
fn logits_of_all_tokens_where_those_of_the_last_are_needed() {
    let last: &[i64] = &[2, COLUMNS];
    for (cast, ops) in [(false, 1), (true, 2)] {
        let s = draw(2048, cast, "aten::select", last, last);
        let p = s.one(Code::UnusedRows);
        assert_eq!((p.id, p.ops.len()), (PatternId::LOW_EFFICIENCY_GEMM, ops));
        // 268 MB of weights.
        let fused = p.fused_ms.unwrap();
        assert!(fused.low > 0.056 && fused.high < 0.17, "{fused:?}");
        s.look(|_, _, findings| {
            let f = &findings[0];
            assert_eq!((f.pattern, &*f.category), (PatternId::LOW_EFFICIENCY_GEMM, "gemm"));
            let place = if cast { "" } else { " in `Linear`" };
            assert_eq!(f.title, format!("Product of which few rows are used{place}"));
            assert!(f.issue.contains("makes 4096 rows of which 2 are used"), "{}", f.issue);
            assert!(f.paths.algorithmic[0].contains("before the layer"), "{:?}", f.paths);
        });
    }
    // Some of the last, as a `slice` leaves them.
    draw(2048, true, "aten::slice", &[2, 16, COLUMNS], last).one(Code::UnusedRows);
}

#[test]
fn results_that_are_used_are_not_told() {
    let last: &[i64] = &[2, COLUMNS];
    // All of them are read later, a quarter is, or only few there are.
    draw(2048, true, "aten::select", last, &[2, 2048, COLUMNS]).none(Code::UnusedRows);
    draw(2048, true, "aten::slice", &[2, 512, COLUMNS], last).none(Code::UnusedRows);
    draw(4, true, "aten::select", last, last).none(Code::UnusedRows);
    // No view takes them: they come from elsewhere.
    draw(2048, true, "aten::view", last, last).none(Code::UnusedRows);
}
