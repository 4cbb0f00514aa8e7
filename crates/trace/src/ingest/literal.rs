//! Constant text of events, laid out for quick comparison.

/// Sixteen bytes; aligned, so that a comparison takes them from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(16))]
pub(super) struct Words16([u8; 16]);

/// Thirty-two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(16))]
pub(super) struct Words32([u8; 32]);

/// Constant bytes, laid out so that any literal of up to 64 bytes is compared in one or two steps: a piece from its
/// start and one from its end, which may overlap.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Literal {
    /// Up to 16 bytes: those that count, and which of them do.
    Short { len: usize, value: [u64; 2], mask: [u64; 2] },
    /// Up to 32.
    Medium { len: usize, first: Words16, last: Words16 },
    /// Up to 64.
    Long { len: usize, first: Words32, last: Words32 },
    /// Any length.
    Huge(Box<[u8]>),
}

/// Two words of eight bytes.
#[inline]
fn words(bytes: [u8; 16]) -> [u64; 2] {
    let (words, _) = bytes.as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

impl Literal {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let len = bytes.len();
        if let Some((first, last)) = bytes.first_chunk().zip(bytes.last_chunk())
            && len <= 64
        {
            return Self::Long { len, first: Words32(*first), last: Words32(*last) };
        }
        if len > 64 {
            return Self::Huge(bytes.into());
        }
        if let Some((first, last)) = bytes.first_chunk().zip(bytes.last_chunk())
            && len > 16
        {
            return Self::Medium { len, first: Words16(*first), last: Words16(*last) };
        }
        let (mut value, mut mask) = ([0; 16], [0; 16]);
        value[..len].copy_from_slice(bytes);
        mask[..len].fill(0xff);
        Self::Short { len, value: words(value), mask: words(mask) }
    }

    /// What follows the literal if `text` begins with it. Says no near the end of the text, where the general parser
    /// decides.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the step of the walk; a call for each would cost as much as the step")]
    pub(super) fn strip<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        match self {
            Self::Short { len, value, mask } => {
                let [a, b] = words(*text.first_chunk()?);
                if (a ^ value[0]) & mask[0] | (b ^ value[1]) & mask[1] != 0 {
                    return None;
                }
                text.get(*len..)
            }
            Self::Medium { len, first, last } => {
                let (literal, rest) = text.split_at_checked(*len)?;
                (*literal.first_chunk()? == first.0 && *literal.last_chunk()? == last.0).then_some(rest)
            }
            Self::Long { len, first, last } => {
                let (literal, rest) = text.split_at_checked(*len)?;
                (*literal.first_chunk()? == first.0 && *literal.last_chunk()? == last.0).then_some(rest)
            }
            Self::Huge(bytes) => text.strip_prefix(&**bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_every_length_fit_themselves_only() {
        let text: Vec<u8> = (0..200).collect();
        for len in 0..120 {
            let literal = Literal::new(&text[..len]);
            assert_eq!(literal.strip(&text), Some(&text[len..]), "{len}");
            for wrong in 0..len {
                let mut other = text.clone();
                other[wrong] ^= 0x40;
                assert_eq!(literal.strip(&other), None, "{len} {wrong}");
            }
            for cut in 0..len {
                assert_eq!(literal.strip(&text[..cut]), None, "{len} cut at {cut}");
            }
        }
    }
}
