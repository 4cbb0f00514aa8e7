//! Arguments of all events, event by event. While a trace is read each takes a word of 32 bits; once all are known, the
//! arguments of a layout are stored as distances from the smallest, in as many bytes as the largest distance needs.

/// Bytes of a word.
pub(crate) const WORD: usize = 4;

/// Where the events of a layout keep an argument, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// Bytes after the first argument of the event.
    pub(crate) offset: u16,
    /// What the stored number counts from.
    base: u32,
    /// The bits that are stored.
    mask: u32,
    /// The bytes they take.
    bytes: u8,
}

impl Field {
    /// A whole word.
    pub(crate) fn word(offset: u16) -> Self {
        Self { offset, base: 0, mask: u32::MAX, bytes: WORD as u8 }
    }

    /// One after the other, each just what numbers of its range take: from the least to the most.
    pub(crate) fn of_ranges(ranges: &[(u32, u32)]) -> Vec<Self> {
        let mut offset = 0;
        let next = |&(least, most): &(u32, u32)| {
            let field = Self::of_range(offset, least, most);
            offset += field.bytes() as u16;
            field
        };
        ranges.iter().map(next).collect()
    }

    fn of_range(offset: u16, least: u32, most: u32) -> Self {
        let bits = most.checked_sub(least).map_or(0, |distance| distance.checked_ilog2().map_or(0, |log| log + 1));
        let bytes = bits.div_ceil(8);
        Self { offset, base: least, mask: u32::MAX.checked_shr(32 - 8 * bytes).unwrap_or(0), bytes: bytes as u8 }
    }

    /// How many bytes it takes.
    pub(crate) fn bytes(self) -> usize {
        usize::from(self.bytes)
    }
}

/// The bytes of all arguments.
#[derive(Debug, Default, Clone)]
pub(crate) struct Values {
    bytes: Vec<u8>,
}

impl Values {
    /// In bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    pub(crate) fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// The word at a place.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u32 {
        self.bytes[at..at + WORD].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// So many words from a place on.
    #[inline]
    pub(crate) fn words(&self, at: usize, count: usize) -> impl Iterator<Item = u32> {
        let (words, _) = self.bytes[at..at + count * WORD].as_chunks();
        words.iter().map(|word| u32::from_le_bytes(*word))
    }

    #[inline]
    pub(crate) fn set_word(&mut self, at: usize, word: u32) {
        if let Some(place) = self.bytes[at..at + WORD].first_chunk_mut() {
            *place = word.to_le_bytes();
        }
    }

    /// The argument of the event whose arguments begin at `first`.
    #[inline]
    pub(crate) fn read(&self, first: usize, field: Field) -> u32 {
        field.base.wrapping_add(self.word(first + usize::from(field.offset)) & field.mask)
    }
}

/// Rewrites words in place, as what [`Field`]s say. Never writes where it has not read.
pub(crate) struct Repacking<'a> {
    values: &'a mut Values,
    written: usize,
}

impl<'a> Repacking<'a> {
    pub(crate) fn new(values: &'a mut Values) -> Self {
        Self { values, written: 0 }
    }

    /// Where the next argument goes.
    pub(crate) fn at(&self) -> usize {
        self.written
    }

    /// Moves the word at a place, which must not be before the last one, to where it belongs.
    #[inline]
    pub(crate) fn word(&mut self, from: usize, field: Field) {
        let word = self.values.word(from).wrapping_sub(field.base);
        self.values.set_word(self.written, word);
        self.written += field.bytes();
    }

    /// All words are moved.
    pub(crate) fn finish(self) {
        // The last argument can be read as a whole word too.
        self.values.bytes.resize(self.written + WORD, 0);
        self.values.bytes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_takes_as_many_bytes_as_its_numbers_differ_in() {
        for (least, most, bytes) in [
            (0, 0, 0),
            (7, 7, 0),
            (u32::MAX, u32::MAX, 0),
            (7, 8, 1),
            (7, 262, 1),
            (7, 263, 2),
            (0, 65_535, 2),
            (0, 65_536, 3),
            (1, 0x100_0000, 3),
            (0, 0x100_0000, 4),
            (0, u32::MAX, 4),
            // No event at all.
            (u32::MAX, 0, 0),
        ] {
            assert_eq!(Field::of_range(0, least, most).bytes(), bytes, "{least} to {most}");
        }
    }

    #[test]
    fn packed_words_read_as_they_were() {
        let columns: [&[u32]; 5] =
            [&[9, 9, 9], &[0, u32::MAX, 5], &[70_000, 70_255, 70_001], &[3, 800, 4], &[0, 1 << 20, 77]];
        let mut values = Values::default();
        for event in 0..3 {
            for column in columns {
                values.push(column[event]);
            }
        }
        let ends = |column: &[u32]| (*column.iter().min().unwrap(), *column.iter().max().unwrap());
        let fields = Field::of_ranges(&columns.map(ends));
        let mut packing = Repacking::new(&mut values);
        let mut starts = Vec::new();
        for event in 0..3 {
            starts.push(packing.at());
            for (i, field) in fields.iter().enumerate() {
                packing.word((event * columns.len() + i) * WORD, *field);
            }
        }
        packing.finish();
        assert_eq!(values.len(), 3 * (4 + 1 + 2 + 3) + WORD);
        for (event, first) in starts.into_iter().enumerate() {
            for (column, field) in columns.iter().zip(&fields) {
                assert_eq!(values.read(first, *field), column[event]);
            }
        }
    }
}
