use super::*;
use crate::call::{Dims, InputLists};
use crate::parity::Quirks;
use crate::value::Value;

/// D: (2, 3, 4), a scalar, two tensors. T: bf16, Scalar, `TensorList`. C: "", "0.5", "", "True", "[1, 2]", "7".
fn inputs() -> InputLists {
    let text = |items: &[&str]| Some(items.iter().map(|&s| s.to_owned()).collect());
    InputLists {
        dims: Some([Dims::Shape(vec![2, 3, 4]), Dims::Shape(vec![]), Dims::List(vec![vec![5, 6], vec![7]])].into()),
        types: text(&["c10::BFloat16", "Scalar", "TensorList"]),
        strides: Some([Dims::Shape(vec![12, 4, 1])].into()),
        concrete: text(&["", "0.5", "", "True", "[1, 2]", "7"]),
    }
}

/// The result as a table cell; `p` is 10.
fn value(text: &str) -> Result<Value, String> {
    let inputs = inputs();
    let expr = Expr::parse(text, &["p"]).map_err(|e| e.message)?;
    let scope = Scope { inputs: &inputs, params: &[Item::Int(10)], quirks: &Quirks::NONE };
    let item = expr.eval(&scope).map_err(|e| e.message)?;
    item.to_value().ok_or_else(|| item.kind().to_owned())
}

fn shown(text: &str) -> String {
    value(text).map_or_else(|message| format!("error: {message}"), |v| v.to_string())
}

#[test]
fn arithmetic_binds_as_everywhere() {
    for (text, result) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 4 - 3", "3"),
        ("2 * 3 // 4 * 5", "5"),
        ("-2 * -3 + +1", "7"),
        ("- 2 - 2", "-4"),
        ("7 / 2", "3.5"),
        ("6 / 2", "3.0"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("7.5 // 2", "3.0"),
        ("-7.5 % 2", "0.5"),
        ("1_000 * 1e3", "1000000.0"),
        ("1e-3", "0.001"),
        (".5 + 1.", "1.5"),
        ("p * p", "100"),
        // Exact far beyond 53 bits.
        ("9007199254740993 * 9007199254740993 % 10", "9"),
    ] {
        assert_eq!(shown(text), result, "{text}");
    }
}

#[test]
fn comparisons_and_logic() {
    for (text, result) in [
        ("1 < 2 and 2 <= 2 and 3 > 2 and 3 >= 3", "True"),
        ("1 == 1.0 and 1 != 2", "True"),
        ("not 1 == 2", "True"),
        ("true or false and false", "True"),
        ("(true or false) and false", "False"),
        ("T[0] == 'c10::BFloat16'", "True"),
        ("C[3] == \"True\"", "True"),
        ("S[0] == D[0]", "False"),
        ("D[0] == D[0]", "True"),
        ("none == none and 1 != none", "True"),
        // The right side is not reached.
        ("false and 1 // 0 == 0", "False"),
        ("true or D[9] == 1", "True"),
        ("if(true, 1, 1 // 0)", "1"),
        ("if(1 > 2, D[9], if(2 > 1, 5, 6))", "5"),
        ("1 + if(p > 5, 2, 3) * 4", "9"),
    ] {
        assert_eq!(shown(text), result, "{text}");
    }
}

#[test]
fn inputs_and_functions() {
    for (text, result) in [
        ("D[0]", "(2, 3, 4)"),
        ("D[0][1]", "3"),
        ("D[0][-1]", "4"),
        ("D[-1][1][0]", "7"),
        ("D[2]", "[(5, 6), (7,)]"),
        ("S[0][0]", "12"),
        ("T[0]", "'c10::BFloat16'"),
        ("numel(D[0])", "24"),
        ("numel(D[1])", "1"),
        ("numel(D[2])", "37"),
        ("numel(list(C[4]))", "2"),
        ("sum(D[0])", "9"),
        ("sum(list(C[4]))", "3"),
        ("len(D)", "3"),
        ("len(D[0])", "3"),
        ("len(C)", "6"),
        ("sz(T[0])", "2"),
        ("sz('float') + sz('bool')", "5"),
        ("int(C[5]) + 1", "8"),
        ("float(C[1]) + float(C[5])", "7.5"),
        ("int('3.0')", "3"),
        ("int(C[3] == 'True')", "1"),
        ("bool(C[3]) and not bool(C[0])", "True"),
        ("list(C[4])[1]", "2"),
        ("min(3, 1, 2)", "1"),
        ("max(1, 2.5)", "2.5"),
        ("max(D[0])", "4"),
        ("min(list('[3, 2]'))", "2"),
        ("ceil(2.1) + floor(2.9) + ceil(7)", "12"),
        ("log2(8)", "3.0"),
        ("sqrt(16)", "4.0"),
        ("abs(-3) + abs(0.5)", "3.5"),
    ] {
        assert_eq!(shown(text), result, "{text}");
    }
    assert_eq!(shown("if(len(S) > 0, S[0][0], none)"), "12");
}

#[test]
fn the_unknown_stays_unknown() {
    for text in [
        "sz('mystery')",
        "2 * numel(D[0]) * sz(T[2])",
        "-sz('?')",
        "max(1, sz('?'))",
        "if(sz('?') > 1, 2, 3)",
        "sz('?') > 1 and true",
        "not (sz('?') > 1)",
        "none[0]",
    ] {
        assert_eq!(shown(text), "None", "{text}");
    }
    assert_eq!(shown("if(sz('?') == none, 4, sz('?'))"), "4");
}

#[test]
fn values_that_do_not_fit_are_named() {
    for (text, message) in [
        ("1 / 0", "division by zero"),
        ("1 % 0.0", "division by zero"),
        ("D[3]", "D has 3 entries, there is no entry 3"),
        ("D[-4]", "D has 3 entries, there is no entry -4"),
        ("S[1]", "S has 1 entry, there is no entry 1"),
        ("D[1][0]", "the shape has 0 entries, there is no entry 0"),
        ("D[0.5]", "an index is a whole number, not 0.5 (`//` divides without a fraction)"),
        ("D[0] + 1", "expected a number, found a shape"),
        ("T[0] * 2", "expected a number, found text"),
        ("C[5] == 7", "can't compare text with a number"),
        ("D[0] < 3", "can't order a shape and a number"),
        ("true + 1", "expected a number, found true or false"),
        ("if(1, 2, 3)", "expected true or false, found a number"),
        ("true and 1", "expected true or false, found a number"),
        ("int(C[0])", "the text is empty (it is, for tensors), not a whole number"),
        ("int(C[1])", "`0.5` is not a whole number"),
        ("float(C[3])", "`True` is not a number"),
        ("list(C[5])", "`7` is not a list"),
        ("bool(C[4])", "`[1, 2]` is not a truth value"),
        ("sz(1)", "expected a type such as T[0], found a number"),
        ("len(1)", "a number has no length"),
        ("numel(T[0])", "expected a shape or a list, found text"),
        ("sum(D[2])", "expected a shape or a list, found a list of shapes"),
        ("log2(0)", "`log2` needs a number above 0, found 0"),
        ("sqrt(-1)", "the square root of a negative number"),
        ("1e300 * 1e300", "the number is too large"),
        ("99999999999999999999999999999999999999 * 10", "the number is too large"),
        ("float('inf')", "the number is too large"),
        ("min(list('[]'))", "the list is empty"),
        ("1[0]", "a number has no entries"),
        ("D", "a whole input list"),
    ] {
        assert_eq!(value(text), Err(message.to_owned()), "{text}");
    }
    let absent = InputLists::default();
    let scope = Scope { inputs: &absent, params: &[], quirks: &Quirks::NONE };
    let expr = Expr::parse("1 + S[0][1]", &[]).unwrap();
    let error = expr.eval(&scope).unwrap_err();
    assert_eq!((error.span, error.message.as_str()), (4..8, "the trace has no Input Strides for this call"));
}

#[test]
fn texts_that_mean_nothing_are_refused_at_their_place() {
    for (text, span, message) in [
        ("", 0..0, "the expression is empty"),
        ("  ", 0..2, "the expression is empty"),
        ("1 +", 3..3, "expected a number, a name or `(`, found the end"),
        ("1 2", 2..3, "expected an operator or the end, found a number"),
        ("(1", 2..2, "expected `)`, found the end"),
        ("D[0", 3..3, "expected `]`, found the end"),
        ("q + 1", 0..1, "unknown name `q`"),
        ("nume(D[0])", 0..4, "unknown name `nume`"),
        ("numel D[0]", 6..7, "expected `(` after the function `numel`, found `D`"),
        ("numel()", 0..7, "`numel` takes 1 argument, found 0"),
        ("sz(1, 2)", 0..8, "`sz` takes 1 argument, found 2"),
        ("1 + min()", 4..9, "`min` takes at least 1 argument, found 0"),
        ("1 < 2 < 3", 6..7, "comparisons can't be chained"),
        ("2 ** 3", 2..4, "`**` is no operator here"),
        ("1 = 1", 2..3, "`=` is no operator here"),
        ("'abc", 0..4, "this quote is never closed"),
        ("1 $ 2", 2..3, "`$` has no meaning here"),
        ("2 × 3", 2..4, "`×` has no meaning here"),
        ("0x10", 0..4, "`0x10` is not a number"),
        ("1.2.3", 0..5, "`1.2.3` is not a number"),
        ("1e999", 0..5, "the number is too large"),
        ("if(1 > 2, 3)", 11..12, "expected `,`, found `)`"),
        ("and 1", 0..3, "expected a number, a name or `(`, found `and`"),
    ] {
        let error = Expr::parse(text, &[]).unwrap_err();
        assert_eq!((error.span, error.message.as_str()), (span, message), "{text}");
    }
    assert_eq!(Expr::parse("nume(D[0])", &[]).unwrap_err().help.unwrap(), "did you mean `numel`?");
    assert_eq!(Expr::parse("if 1", &[]).unwrap_err().help.unwrap(), "write `if(condition, then, otherwise)`");
}

#[test]
fn size_is_bounded() {
    for open in ["(", "-", "not ", "numel(", "D[", "if(true, 1, ", "1 + (", "1 < ("] {
        let error = Expr::parse(&open.repeat(MAX_LENGTH / open.len()), &[]).unwrap_err();
        assert_eq!(error.message, format!("nested more than {MAX_DEPTH} deep"), "{open}");
    }
    let nested = |levels: usize| "(".repeat(levels) + "1" + &")".repeat(levels);
    assert!(Expr::parse(&nested(MAX_DEPTH), &[]).is_ok() && Expr::parse(&nested(MAX_DEPTH + 1), &[]).is_err());
    let error = Expr::parse(&"1+".repeat(MAX_LENGTH), &[]).unwrap_err();
    assert_eq!(error.message, "the expression has 8192 bytes, at most 4096 are allowed");
    // Long but flat is fine.
    assert_eq!(shown(&("1+".repeat(2000) + "1")), "2001");
    assert_eq!(shown(&("true and ".repeat(400) + "true")), "True");
    assert_eq!(shown(&("D[0]".to_owned() + &"[0]".repeat(1000))), "error: a number has no entries");
}

#[test]
fn jumps_only_go_forward() {
    let expr = Expr::parse("if(true and (false or p > 1), if(p > 2, 1, 2), 3)", &["p"]).unwrap();
    for (at, instruction) in expr.code.iter().enumerate() {
        let targets = match instruction.op {
            Op::Branch { otherwise, end } => vec![otherwise, end],
            Op::Shortcut { end, .. } => vec![end],
            Op::Jump(target) => vec![target],
            _ => vec![],
        };
        assert!(targets.iter().all(|&target| target > at && target <= expr.code.len()));
    }
}

mod random {
    use proptest::prelude::*;

    use super::*;

    /// Well-formed expressions with their value in plain `i64` arithmetic.
    fn formula() -> impl Strategy<Value = (String, i64)> {
        let leaf = (0_i64..100).prop_map(|n| (n.to_string(), n));
        leaf.prop_recursive(5, 40, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|((a, x), (b, y))| (format!("({a} + {b})"), x + y)),
                (inner.clone(), inner.clone())
                    .prop_map(|((a, x), (b, y))| (format!("({a}) - ({b})"), x - y))
                    .prop_map(|(a, x)| (format!("({a})"), x)),
                (inner.clone(), inner.clone()).prop_map(|((a, x), (b, y))| (format!("max({a}, {b})"), x.max(y))),
                (inner.clone(), inner.clone(), inner.clone()).prop_map(|((a, x), (b, y), (c, z))| (
                    format!("if({a} < {b}, {b}, {c})"),
                    if x < y { y } else { z }
                )),
                inner.prop_map(|(a, x)| (format!("-{a}"), -x)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_text_is_computed_or_refused(text in "\\PC*") {
            let _ = value(&text);
        }

        #[test]
        fn any_row_of_words_is_computed_or_refused(
            text in r"(D|T|S|C|\[|\]|\(|\)|,|p|numel|len|sz|int|list|bool|min|if|and|or|not|none|true|'float'|\+|-|\*|//|/|%|==|<|[0-9]{1,3}|1e300|\.| ){0,60}"
        ) {
            if let Err(e) = Expr::parse(&text, &["p"]) {
                prop_assert!(e.span.start <= e.span.end && e.span.end <= text.len());
                prop_assert!(text.is_char_boundary(e.span.start) && text.is_char_boundary(e.span.end));
            }
            let _ = value(&text);
        }

        #[test]
        fn sums_agree_with_plain_arithmetic((text, expected) in formula()) {
            let Ok(Value::Int(n)) = value(&text) else { panic!("{text}: {:?}", value(&text)) };
            prop_assert_eq!(n, expected, "{}", text);
        }
    }
}
