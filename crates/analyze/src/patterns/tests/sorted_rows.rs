//! Rows that are sorted for their first few elements.

use super::sketch::Sketch;
use crate::finding::PatternId;
use crate::patterns::Code;

const LOGITS: &[i64] = &[256, 128_256];

/// Sorts rows after a pass over all of them, as often as that, and draws what is done with them.
fn draw(turns: usize, us: f64, rows: &[i64], dimension: i64, then: impl Fn(&mut Sketch)) -> Sketch {
    let mut s = Sketch::new();
    for _ in 0..turns {
        s.dtype("float").op("aten::div", &[rows, &[]], 60.0);
        let values = format!(r#"["", "{dimension}", "True"]"#);
        let args = [
            ("Input Dims", format!("[{rows:?}, [], []]")),
            ("Input type", r#"["float", "Scalar", "Scalar"]"#.to_owned()),
            ("Concrete Inputs", values),
        ];
        s.launch("aten::sort", us, &args);
        then(&mut s);
    }
    s
}

fn first(few: &'static str) -> impl Fn(&mut Sketch) {
    move |s| {
        s.part("aten::slice", LOGITS, &format!(r#"["", "1", "0", "{few}", "1"]"#));
        s.op("aten::_softmax", &[&[256, 50], &[], &[]], 4.0);
    }
}

#[test]
fn rows_sorted_for_their_first_few_elements() {
    let s = draw(3, 2400.0, LOGITS, -1, first("50"));
    let p = s.one(Code::SortedForFew);
    assert_eq!((p.id, p.instances, p.ops.len()), (PatternId::UNFUSED_MODULE, 3, 1));
    // 131 MB at 6.2 to 4.0 % of the bandwidth.
    let fused = p.fused_ms.unwrap();
    assert!(fused.low > 3.0 * 0.42 && fused.high < 3.0 * 0.70, "{fused:?}");
    s.look(|_, _, findings| {
        let f = &findings[0];
        assert_eq!((&*f.title, &*f.category), ("Rows sorted for their first few elements", "other"));
        assert!(
            f.issue.contains("Rows of 128256 elements are sorted (sort) of which the first 50 are read"),
            "{}",
            f.issue
        );
        assert!(f.paths.algorithmic[0].contains("`torch.topk(x, 50)`"), "{:?}", f.paths);
    });
    // The last ones, and the very first.
    let last = |s: &mut Sketch| {
        s.part("aten::slice", LOGITS, r#"["", "-1", "-8", "9223372036854775807", "1"]"#);
    };
    assert_eq!(draw(1, 2400.0, LOGITS, 1, last).one(Code::SortedForFew).facts[1].1, "8");
    let one = |s: &mut Sketch| {
        s.part("aten::select", LOGITS, r#"["", "1", "-1"]"#);
    };
    assert_eq!(draw(1, 2400.0, LOGITS, 1, one).one(Code::SortedForFew).facts[1].1, "1");
}

#[test]
fn rows_of_which_more_is_read_are_not_told() {
    let none = |s: Sketch| s.none(Code::SortedForFew);
    // All of them are read after the first ones, or nothing is.
    none(draw(1, 2400.0, LOGITS, 1, |s| {
        first("50")(s);
        s.op("aten::cumsum", &[LOGITS, &[], &[]], 60.0);
    }));
    none(draw(2, 2400.0, LOGITS, 1, |_| {}));
    // A quarter of each; rows and not what they begin with; every other; the middle.
    for values in [
        r#"["", "1", "0", "32064", "1"]"#,
        r#"["", "0", "0", "8", "1"]"#,
        r#"["", "1", "0", "50", "2"]"#,
        r#"["", "1", "100", "150", "1"]"#,
    ] {
        none(draw(1, 2400.0, LOGITS, 1, |s| {
            s.part("aten::slice", LOGITS, values);
        }));
    }
    none(draw(1, 2400.0, LOGITS, 1, |s| {
        s.part("aten::select", LOGITS, r#"["", "1", "64128"]"#);
    }));
    // What another operation sorts for itself.
    let mut s = Sketch::new();
    s.within("aten::unique2", |s| {
        let args = [
            ("Input Dims", format!("[{LOGITS:?}, [], []]")),
            ("Input type", r#"["float", "Scalar", "Scalar"]"#.to_owned()),
            ("Concrete Inputs", r#"["", "1", "True"]"#.to_owned()),
        ];
        s.launch("aten::sort", 2400.0, &args);
    });
    first("50")(&mut s);
    none(s);
    // A sort that is as fast.
    none(draw(1, 600.0, LOGITS, 1, first("50")));
    let short: &[i64] = &[1024, 1024];
    none(draw(1, 48.0, short, 1, |s| {
        s.part("aten::slice", short, r#"["", "1", "0", "50", "1"]"#);
    }));
}
