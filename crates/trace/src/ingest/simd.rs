//! Masks over sixteen bytes at a time. On x86-64 the compare instructions of the baseline (SSE2) make them; elsewhere,
//! and in the tests that compare the two, they are made byte by byte.
//!
//! The only `unsafe` of this crate: the compiler asks for it to call SSE2 functions although every x86-64 machine has
//! them. What it buys over the byte-by-byte twin has not been measured yet.

/// Where the bytes that matter inside lists and objects stand: one bit per byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) quotes: u32,
    pub(super) backslashes: u32,
    /// `[` and `{`.
    pub(super) opens: u32,
    /// `]` and `}`.
    pub(super) closes: u32,
}

/// One bit per byte of `chunk` that is a quote or a backslash.
#[inline]
pub(super) fn quotes_and_backslashes(chunk: &[u8; 16]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "SSE2 functions; see the module's head")]
    // SAFETY: SSE2 is part of the x86-64 baseline, so the instructions exist on every machine this code runs on.
    return unsafe { sse2::quotes_and_backslashes(chunk) };
    #[cfg(not(target_arch = "x86_64"))]
    return bytewise::quotes_and_backslashes(chunk);
}

/// The marks of `chunk`.
#[inline]
pub(super) fn marks(chunk: &[u8; 16]) -> Marks {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "SSE2 functions; see the module's head")]
    // SAFETY: as above.
    return unsafe { sse2::marks(chunk) };
    #[cfg(not(target_arch = "x86_64"))]
    return bytewise::marks(chunk);
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8};

    use super::Marks;

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(chunk: &[u8; 16]) -> __m128i {
        let both = u128::from_le_bytes(*chunk);
        _mm_set_epi64x((both >> 64) as i64, both as i64)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn equal(v: __m128i, byte: u8) -> __m128i {
        _mm_cmpeq_epi8(v, _mm_set1_epi8(byte as i8))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn quotes_and_backslashes(chunk: &[u8; 16]) -> u32 {
        let v = load(chunk);
        _mm_movemask_epi8(_mm_or_si128(equal(v, b'"'), equal(v, b'\\'))) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn marks(chunk: &[u8; 16]) -> Marks {
        let v = load(chunk);
        // `[` and `{`, `]` and `}` differ in this one bit.
        let folded = _mm_or_si128(v, _mm_set1_epi8(0x20));
        Marks {
            quotes: _mm_movemask_epi8(equal(v, b'"')) as u32,
            backslashes: _mm_movemask_epi8(equal(v, b'\\')) as u32,
            opens: _mm_movemask_epi8(equal(folded, b'{')) as u32,
            closes: _mm_movemask_epi8(equal(folded, b'}')) as u32,
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod bytewise {
    use super::Marks;

    fn mask(chunk: &[u8; 16], is: impl Fn(u8) -> bool) -> u32 {
        (0..16).fold(0, |m, i| m | (u32::from(is(chunk[i])) << i))
    }

    pub(super) fn quotes_and_backslashes(chunk: &[u8; 16]) -> u32 {
        mask(chunk, |b| b == b'"' || b == b'\\')
    }

    pub(super) fn marks(chunk: &[u8; 16]) -> Marks {
        Marks {
            quotes: mask(chunk, |b| b == b'"'),
            backslashes: mask(chunk, |b| b == b'\\'),
            opens: mask(chunk, |b| b == b'[' || b == b'{'),
            closes: mask(chunk, |b| b == b']' || b == b'}'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ways_agree(chunk: [u8; 16], interesting in proptest::collection::vec((0usize..16, prop::sample::select(b"\"\\[]{}".to_vec())), 0..8)) {
            let mut chunk = chunk;
            for (i, b) in interesting {
                chunk[i] = b;
            }
            prop_assert_eq!(marks(&chunk), bytewise::marks(&chunk));
            prop_assert_eq!(quotes_and_backslashes(&chunk), bytewise::quotes_and_backslashes(&chunk));
        }
    }
}
