use super::*;

const REFERENCE: &Quirks = &Quirks::REFERENCE;
const CORRECT: &Quirks = &Quirks::NONE;

fn square(batch: i64, heads: i64, length: i64, width: i64) -> Geometry {
    Geometry { batch, n_q: length, h_q: heads, n_kv: length, h_kv: heads, d_qk: width, d_v: width }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} is not {b}");
}

#[test]
fn causal_attention_of_a_language_model() {
    let g = square(16, 16, 559, 64);
    // The reference halves the square: 2·16·16·559²·128/2.
    close(g.flops(Mask::CausalFromStart, REFERENCE).unwrap(), 10_239_377_408.0);
    // Each query sees itself and what came before: 559·560/2 pairs.
    close(g.flops(Mask::CausalFromStart, CORRECT).unwrap(), 2.0 * 16.0 * 16.0 * 128.0 * 559.0 * 560.0 / 2.0);
    // 4·(16·559·16·64)·2 bytes in all
    assert_eq!(g.elements().total() * 2, Count::from(4 * 16 * 559 * 16 * 64 * 2_i64));
}

#[test]
fn unmasked_pairs_of_rectangles() {
    let pairs = |mask: Mask, q, kv| mask.pairs(q, kv).to_i64();
    // One new token against 512 kept ones: it sees all of them, or, counted from the start, one.
    assert_eq!(pairs(Mask::CausalFromEnd, 1, 512), 512);
    assert_eq!(pairs(Mask::CausalFromStart, 1, 512), 1);
    // 3 queries, 5 keys: from the end 3 + 4 + 5, from the start 1 + 2 + 3
    assert_eq!(pairs(Mask::CausalFromEnd, 3, 5), 12);
    assert_eq!(pairs(Mask::CausalFromStart, 3, 5), 6);
    // 5 queries, 3 keys: from the end 0 + 0 + 1 + 2 + 3, from the start 1 + 2 + 3 + 3 + 3
    assert_eq!(pairs(Mask::CausalFromEnd, 5, 3), 6);
    assert_eq!(pairs(Mask::CausalFromStart, 5, 3), 12);
    for mask in [Mask::CausalFromEnd, Mask::CausalFromStart] {
        assert_eq!(pairs(mask, 4, 4), 10);
    }
    let decode = Geometry { n_q: 1, n_kv: 512, ..square(2, 8, 1, 64) };
    assert!(decode.flops(Mask::CausalFromEnd, REFERENCE).is_err(), "F12");
    close(decode.flops(Mask::CausalFromEnd, CORRECT).unwrap(), 2.0 * 2.0 * 8.0 * 512.0 * 128.0);
}

#[test]
fn pairs_in_a_window() {
    let by_hand = |left: Option<i64>, right: Option<i64>, q: i64, kv: i64| -> i64 {
        let sees = |place: i64, key: i64| {
            left.is_none_or(|left| key >= place - left) && right.is_none_or(|right| key <= place + right)
        };
        (0..q).map(|i| (0..kv).filter(|&key| sees(i + kv - q, key)).count() as i64).sum()
    };
    for (q, kv) in [(1, 9), (5, 9), (9, 9), (9, 5), (12, 3), (4, 0)] {
        for left in [None, Some(0), Some(2), Some(50)] {
            for right in [None, Some(0), Some(3), Some(50)] {
                let mask = Mask::Window { left, right };
                assert_eq!(mask.pairs(q, kv).to_i64(), by_hand(left, right, q, kv), "{mask:?} {q} {kv}");
            }
        }
    }
    for (q, kv, left, seen) in [(9, 9, 2, 1 + 2 + 7 * 3), (3, 9, 50, 1 + 2 + 3), (5, 3, 1, 1 + 2 + 2 + 1), (4, 0, 2, 0)]
    {
        assert_eq!(Mask::WindowFromStart { left }.pairs(q, kv).to_i64(), seen, "{q} {kv} {left}");
    }
    // Without a limit before it, a window that ends at the query is the causal mask.
    let causal = Mask::Window { left: None, right: Some(0) };
    assert_eq!(causal.pairs(559, 700), Mask::CausalFromEnd.pairs(559, 700));
}

#[test]
fn keys_that_nobody_sees() {
    let by_hand = |mask: Mask, q: i64, kv: i64| -> i64 {
        let sees = |i: i64, key: i64| match mask {
            Mask::CausalFromStart => key <= i,
            Mask::WindowFromStart { left } => key <= i && key >= i - left,
            Mask::Window { left, right } => {
                let place = i + kv - q;
                left.is_none_or(|left| key >= place - left) && right.is_none_or(|right| key <= place + right)
            }
            Mask::Full | Mask::CausalFromEnd => true,
        };
        (0..kv).filter(|&key| !(0..q).any(|i| sees(i, key))).count() as i64
    };
    for (q, kv) in [(1, 9), (5, 9), (9, 9), (9, 5), (12, 3)] {
        let windows = [None, Some(0), Some(2), Some(50)].map(|left| Mask::Window { left, right: Some(3) });
        let others = [Mask::Full, Mask::CausalFromEnd, Mask::CausalFromStart, Mask::WindowFromStart { left: 2 }];
        for mask in windows.into_iter().chain(others) {
            assert_eq!(mask.unseen_keys(q, kv).to_i64(), by_hand(mask, q, kv), "{mask:?} {q} {kv}");
        }
    }
}

#[test]
fn backward_with_shared_key_heads() {
    let g = Geometry { h_kv: 4, ..square(4, 16, 1024, 128) };
    // The reference: [2·4·16·1024²·(256 + 256) + 4·1024·256·3] / 2 (F13 omits the scores, F14 the key heads).
    close(g.backward_flops(Mask::CausalFromStart, Scores::Kept, REFERENCE).unwrap(), 34_361_311_232.0);
    // Recomputed scores add 128 to the widths; the sums run over 12 of the 16 heads and are not halved.
    let pairs = 1024.0 * 1025.0 / 2.0;
    close(
        g.backward_flops(Mask::CausalFromStart, Scores::Kept, CORRECT).unwrap(),
        2.0 * 4.0 * 16.0 * pairs * 640.0 + 4.0 * 1024.0 * 256.0 * 12.0,
    );
    // Without a mask the two differ by the sums alone.
    let full = 2.0 * 4.0 * 16.0 * 1024.0 * 1024.0 * 640.0;
    close(g.backward_flops(Mask::Full, Scores::Recomputed, REFERENCE).unwrap(), full + 4.0 * 1024.0 * 256.0 * 3.0);
    close(g.backward_flops(Mask::Full, Scores::Recomputed, CORRECT).unwrap(), full + 4.0 * 1024.0 * 256.0 * 12.0);
}

#[test]
fn packed_sequences() {
    // 4096 tokens in 4 sequences, the longest 2048: the others are taken for ⌊2048/3⌋ = 682 each.
    let total = Geometry { h_kv: 8, ..square(1, 32, 4096, 128) };
    let packing = varlen::Packing { sequences_q: 4, sequences_kv: 4, longest_q: 2048.0, longest_kv: 2048.0 };
    let sum = |packing: varlen::Packing, quirks: &Quirks| packing.sum(&total, |g| g.flops(Mask::Full, quirks), quirks);
    let square = |n: f64| 2.0 * 32.0 * n * n * 256.0;
    close(sum(packing, REFERENCE).unwrap(), square(2048.0) + 3.0 * square(682.0));
    // One sequence of keys for four of queries divides by zero (F16); guarded, nothing is left of the keys.
    let odd = varlen::Packing { sequences_kv: 1, longest_kv: 4096.0, ..packing };
    assert!(sum(odd, REFERENCE).is_err());
    close(sum(odd, CORRECT).unwrap(), 2.0 * 32.0 * 2048.0 * 4096.0 * 256.0);
    // The greatest length that a program allows, not one of a sequence: no more than the tokens there are.
    let allowed = varlen::Packing { longest_q: 32_768.0, longest_kv: 32_768.0, ..packing };
    close(sum(allowed, CORRECT).unwrap(), square(4096.0));
    assert!(sum(allowed, REFERENCE).unwrap() > 60.0 * square(4096.0));
    let alone = varlen::Packing { sequences_q: 1, sequences_kv: 1, ..allowed };
    close(sum(alone, CORRECT).unwrap(), square(4096.0));
    close(sum(alone, REFERENCE).unwrap(), square(32_768.0));
}

#[test]
fn hostile_sizes_do_not_panic() {
    let g = square(i64::MAX, i64::MAX, i64::MAX, i64::MAX);
    let window = Mask::Window { left: Some(i64::MAX), right: Some(i64::MIN) };
    let from_start = Mask::WindowFromStart { left: i64::MAX };
    for mask in [Mask::Full, Mask::CausalFromEnd, Mask::CausalFromStart, window, from_start] {
        assert!(g.flops(mask, CORRECT).unwrap().is_finite());
        let _ = g.backward_flops(mask, Scores::Kept, REFERENCE);
        let _ = g.unseen_elements(mask);
    }
    let _ = Geometry { h_kv: 0, ..g }.backward_flops(Mask::Full, Scores::Kept, REFERENCE);
    assert_eq!(Mask::CausalFromEnd.pairs(-5, 7), Count::ZERO);
}
