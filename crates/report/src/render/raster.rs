//! A picture of dots, drawn line by line: areas, lines, letters.

use super::glyphs;
use super::png::{self, Rgb};

/// Dots between letters, in dots of a letter.
const BETWEEN: usize = 1;

/// A picture in the making. A colour is a place in the palette, and the first is the ground.
#[derive(Debug, Clone)]
pub(crate) struct Raster<'p> {
    width: usize,
    palette: &'p [Rgb],
    pixels: Vec<u8>,
}

impl<'p> Raster<'p> {
    pub(crate) fn new(width: usize, height: usize, palette: &'p [Rgb]) -> Self {
        Self { width, palette, pixels: vec![0; width * height] }
    }

    /// Fills an area; what lies outside of the picture is left out.
    pub(crate) fn fill(&mut self, (left, top): (usize, usize), (width, height): (usize, usize), colour: u8) {
        let right = (left + width).min(self.width);
        for line in self.pixels.chunks_mut(self.width).skip(top).take(height) {
            if let Some(part) = line.get_mut(left..right) {
                part.fill(colour);
            }
        }
    }

    /// Writes a text to the right of and below a point, each dot of a letter `size` wide.
    pub(crate) fn text(&mut self, (left, top): (usize, usize), size: usize, colour: u8, text: &str) {
        for (i, letter) in text.chars().enumerate() {
            let from = left + i * (glyphs::WIDTH + BETWEEN) * size;
            for (x, y) in glyphs::dots(letter) {
                self.fill((from + x * size, top + y * size), (size, size), colour);
            }
        }
    }

    /// Its bytes as a PNG file.
    pub(crate) fn png(&self) -> Vec<u8> {
        png::encode(self.width as u32, &self.pixels, self.palette)
    }
}

/// How wide a text is.
pub(crate) fn text_width(text: &str, size: usize) -> usize {
    text.chars().count() * (glyphs::WIDTH + BETWEEN) * size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::png::tests::decode;

    #[test]
    fn what_is_drawn_is_in_the_file_and_nothing_leaves_it() {
        let mut raster = Raster::new(8, 8, &[[255; 3], [0; 3], [9; 3]]);
        raster.fill((6, 6), (5, 5), 2);
        raster.fill((20, 20), (1, 1), 2);
        raster.text((0, 0), 1, 1, "--------");
        let (width, height, _, pixels) = decode(&raster.png());
        assert_eq!((width, height), (8, 8));
        assert_eq!(pixels.chunks(8).skip(6).map(|line| &line[6..]).collect::<Vec<_>>(), [[2, 2], [2, 2]]);
        assert_eq!(pixels[24..32], [1, 1, 1, 1, 1, 0, 1, 1], "the fourth line, a gap between letters");
        assert_eq!(text_width("ab", 2), 24);
    }
}
