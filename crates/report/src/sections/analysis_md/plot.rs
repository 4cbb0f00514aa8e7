//! `perf_improvement.png`: what each recommendation brings, one bar each. The same numbers as `improvement.svg`.

use jarvis_analyze::rounding::{shown, shown_ms};

use crate::html::waterfall::{Fix, Waterfall};
use crate::render::png::Rgb;
use crate::render::raster::{Raster, text_width};
use crate::sections::words::ms_range;

/// Colours: the ground, letters, quieter letters, what is sure to be saved, what may be, lines.
const PALETTE: [Rgb; 6] =
    [[255, 255, 255], [33, 37, 41], [108, 117, 125], [25, 113, 194], [165, 216, 255], [222, 226, 230]];
const LETTERS: u8 = 1;
const QUIET: u8 = 2;
const SURE: u8 = 3;
const HOPED: u8 = 4;
const LINES: u8 = 5;

/// Dots of the picture and of its parts.
const WIDTH: usize = 1000;
const MARGIN: usize = 20;
const HEAD: usize = 64;
const ROW: usize = 56;
const BAR: usize = 18;
const FOOT: usize = 44;

/// Size of letters.
const SIZE: usize = 2;

/// The file; nothing if no recommendation brings anything.
pub(crate) fn picture(waterfall: &Waterfall) -> Option<Vec<u8>> {
    let most = waterfall.fixes.iter().map(|fix| fix.saved.high).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let height = HEAD + ROW * waterfall.fixes.len() + FOOT;
    let mut raster = Raster::new(WIDTH, height, &PALETTE);
    raster.text((MARGIN, 16), SIZE, LETTERS, "What each recommendation saves");
    let window = format!("of {} ms", shown_ms(waterfall.window_ms));
    raster.text((WIDTH - MARGIN - text_width(&window, SIZE), 16), SIZE, QUIET, &window);
    raster.fill((MARGIN, 44), (WIDTH - 2 * MARGIN, 1), LINES);
    for (i, fix) in waterfall.fixes.iter().enumerate() {
        row(&mut raster, HEAD + ROW * i, fix, (most, waterfall.window_ms));
    }
    let foot = "Dark: cautious end. Light: hopeful end. Bars must not be added up.";
    raster.text((MARGIN, height - 32), SIZE, QUIET, foot);
    Some(raster.png())
}

/// A title with its numbers, and the bar below.
fn row(raster: &mut Raster<'_>, top: usize, fix: &Fix, (most, window_ms): (f64, f64)) {
    let saved = fix.saved;
    let percent = |ms: f64| shown(100.0 * ms / window_ms.max(f64::MIN_POSITIVE), 1);
    let (low, high) = (percent(saved.low), percent(saved.high));
    let percents = if low == high { high } else { format!("{low}-{high}") };
    let numbers = format!("{} ({percents}%)", ms_range(saved));
    let room = WIDTH - 3 * MARGIN - text_width(&numbers, SIZE);
    let title = fitting(&format!("R{} {}", fix.rank, fix.title.replace('`', "")), room);
    raster.text((MARGIN, top), SIZE, LETTERS, &title);
    raster.text((WIDTH - MARGIN - text_width(&numbers, SIZE), top), SIZE, LETTERS, &numbers);
    let long = |ms: f64| (((WIDTH - 2 * MARGIN) as f64 * (ms / most).clamp(0.0, 1.0)).round() as usize).max(1);
    raster.fill((MARGIN, top + 22), (long(saved.high), BAR), HOPED);
    if saved.low > 0.0 {
        raster.fill((MARGIN, top + 22), (long(saved.low), BAR), SURE);
    }
}

/// As much of a text as there is room for.
fn fitting(text: &str, room: usize) -> String {
    if text_width(text, SIZE) <= room {
        return text.to_owned();
    }
    let letters = (room / text_width("x", SIZE)).saturating_sub(3);
    let kept: String = text.chars().take(letters).collect();
    format!("{}...", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::waterfall::tests::finding;
    use crate::render::png::tests::decode;

    #[test]
    fn a_bar_is_as_long_as_what_it_saves() {
        let findings = [finding(1, "Fuse them", 2.0, 4.0), finding(2, "Batch them", 0.0, 2.0)];
        let file = picture(&Waterfall::of(&findings, 10.0, 0.0)).unwrap();
        let (width, height, palette, pixels) = decode(&file);
        assert_eq!((width as usize, height as usize), (WIDTH, HEAD + 2 * ROW + FOOT));
        assert_eq!(palette.len(), 3 * PALETTE.len());
        let line = |y: usize| &pixels[y * WIDTH..(y + 1) * WIDTH];
        let (first, second) = (line(HEAD + 30), line(HEAD + ROW + 30));
        let colours = |line: &[u8]| [MARGIN, MARGIN + 479, MARGIN + 480, MARGIN + 959, MARGIN + 960].map(|x| line[x]);
        assert_eq!(colours(first), [SURE, SURE, HOPED, HOPED, 0], "2 and 4 of 4 ms over 960 dots");
        assert_eq!(colours(second), [HOPED, HOPED, 0, 0, 0]);
    }

    #[test]
    fn nothing_to_bring_is_nothing_to_draw() {
        assert!(picture(&Waterfall::of(&[], 10.0, 0.0)).is_none());
        assert!(picture(&Waterfall::default()).is_none());
    }

    #[test]
    fn long_titles_are_cut() {
        assert_eq!(fitting("short", 60), "short");
        assert_eq!(fitting("much too long", 96), "much...");
    }
}
