//! Equal operations turn after turn, as loops leave them.

use std::ops::Range;

use super::scene::Scene;

/// Turns that follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    pub(crate) begin: usize,
    /// Operations of a turn.
    pub(crate) length: usize,
    pub(crate) count: usize,
}

impl Turns {
    /// Those that begin where a span does and lie within it: the shortest of which there are enough.
    pub(crate) fn repeated(scene: &Scene<'_>, span: Range<usize>, longest: usize, least: usize) -> Option<Self> {
        let begin = span.start;
        // An operation may stand in a turn more than once, so the first length that fits need not be it.
        let lengths = 1..=longest.min(span.len() / least.max(1));
        lengths
            .filter(|&length| begin + length < span.end && scene.are_alike(begin, begin + length))
            .map(|length| {
                let alike = (begin..span.end - length).take_while(|&i| scene.are_alike(i, i + length)).count();
                Self { begin, length, count: 1 + alike / length }
            })
            .find(|turns| turns.count >= least)
    }

    /// Positions of the first turn.
    pub(crate) fn first(&self) -> Range<usize> {
        self.begin..self.begin + self.length
    }

    /// Positions of all turns.
    pub(crate) fn all(&self) -> Range<usize> {
        self.begin..self.begin + self.length * self.count
    }
}
