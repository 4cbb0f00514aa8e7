//! Pictures beside the Markdown reports: SVG files that need nothing else and follow the reader's light or dark theme.

use jarvis_analyze::rounding::{shown, shown_ms};

use super::family::Family;
use super::markup::{Markup, clipped, px};
use super::plot::Layout;
use super::roofline::DotUse;
use super::side::Side;
use super::waterfall::Waterfall;

/// Colours and fonts of a file; a page has its own.
const STYLE: &str = include_str!("../../assets/html/picture.css");

/// Width of the picture of improvements.
const WIDTH: f64 = 900.0;
/// Height of one of its rows.
const ROW: f64 = 48.0;
/// Height of what stands above and below the rows.
const HEAD: f64 = 56.0;
const FOOT: f64 = 30.0;
/// Room left and right of the bars.
const MARGIN: f64 = 16.0;

/// `roofline.svg`
pub(crate) fn roofline(side: &Side<'_>) -> Vec<u8> {
    let layout = Layout::WIDE;
    let Some(roofline) = &side.roofline else {
        let sentence =
            "No roofline: the trace has no operation with both arithmetic and memory traffic that are known.";
        let mut m = begin(layout.width, 48.0, sentence);
        text(&mut m, (MARGIN, 28.0), "start", "tick", sentence);
        return finish(m);
    };
    let legend = 30.0;
    let mut m = begin(layout.width, layout.height + legend, &roofline.sentence());
    roofline.svg(&mut m, layout, DotUse::Titled(&side.data.operations, &side.data.texts));
    let mut x = 64.0;
    for (family, name) in roofline.families() {
        swatch(&mut m, &mut x, layout.height + 16.0, family, name);
    }
    finish(m)
}

fn swatch(m: &mut Markup, x: &mut f64, y: f64, family: Family, name: &'static str) {
    let class = format!("dot {}", family.class());
    m.empty("circle", &[("cx", &px(*x + 6.0)), ("cy", &px(y - 4.0)), ("r", &"6"), ("class", &class)]);
    m.leaf("text", &[("x", &px(*x + 17.0)), ("y", &px(y)), ("class", &"tick")], name);
    *x += 36.0 + 7.0 * name.len() as f64;
}

/// `improvement.svg`
pub(crate) fn improvement(waterfall: &Waterfall) -> Vec<u8> {
    let rows = waterfall.fixes.len() as f64;
    let height = HEAD + ROW * rows + FOOT;
    let mut m = begin(WIDTH, height, "Estimated time of the window after each fix");
    let scale = |ms: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * (ms / waterfall.window_ms.max(f64::MIN_POSITIVE));
    text(&mut m, (MARGIN, 20.0), "start", "strong", "Now");
    text(&mut m, (WIDTH - MARGIN, 20.0), "end", "strong", &format!("{} ms", shown_ms(waterfall.window_ms)));
    bar(&mut m, "left", (scale(0.0), scale(waterfall.window_ms)), 28.0);
    for (i, fix) in waterfall.fixes.iter().enumerate() {
        let y = HEAD + ROW * i as f64;
        let head = format!("{}. {}", fix.rank, clipped(&fix.title.replace('`', ""), 84));
        text(&mut m, (MARGIN, y + 16.0), "start", "label", &head);
        let after = if (fix.after.high - fix.after.low) * 200.0 < waterfall.window_ms {
            format!("{} ms", shown_ms(fix.after_ms))
        } else {
            format!("{} ms ({} to {})", shown_ms(fix.after_ms), shown_ms(fix.after.low), shown_ms(fix.after.high))
        };
        text(&mut m, (WIDTH - MARGIN, y + 16.0), "end", "strong", &after);
        bar(&mut m, "left", (scale(0.0), scale(fix.after_ms)), y + 24.0);
        bar(&mut m, "saved", (scale(fix.after_ms), scale(fix.before_ms)), y + 24.0);
        // From the most to the least that can be hoped for.
        let (from, to, middle) = (px(scale(fix.after.low)), px(scale(fix.after.high)), px(y + 31.0));
        m.empty("line", &[("x1", &from), ("x2", &to), ("y1", &middle), ("y2", &middle), ("class", &"range")]);
    }
    let foot = if waterfall.fixes.is_empty() {
        "No finding promises to save time.".to_owned()
    } else {
        let last = waterfall.fixes.last().map_or(waterfall.window_ms, |f| f.after_ms);
        format!(
            "Milliseconds of the traced window if the fixes are made in this order: {}x in all. Lines show the range.",
            shown(waterfall.window_ms / last.max(f64::MIN_POSITIVE), 2)
        )
    };
    text(&mut m, (MARGIN, height - 10.0), "start", "tick", &foot);
    finish(m)
}

fn text(m: &mut Markup, (x, y): (f64, f64), anchor: &'static str, class: &'static str, text: &str) {
    m.leaf("text", &[("x", &px(x)), ("y", &px(y)), ("text-anchor", &anchor), ("class", &class)], text);
}

fn bar(m: &mut Markup, class: &'static str, (from, to): (f64, f64), y: f64) {
    let width = px((to - from).max(0.0));
    m.empty("rect", &[("x", &px(from)), ("y", &px(y)), ("width", &width), ("height", &"14"), ("class", &class)]);
}

fn begin(width: f64, height: f64, sentence: &str) -> Markup {
    let mut m = Markup::default();
    let view = format!("0 0 {} {}", px(width), px(height));
    m.open(
        "svg",
        &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("viewBox", &view),
            ("width", &px(width)),
            ("height", &px(height)),
            ("role", &"img"),
            ("aria-label", &sentence),
        ],
    );
    m.raw("<style>").raw(STYLE).raw("</style>");
    m.raw(r#"<rect class="ground" width="100%" height="100%"/>"#);
    m
}

fn finish(mut m: Markup) -> Vec<u8> {
    m.close("svg").raw("\n");
    m.as_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::waterfall::tests::finding;
    use super::*;

    #[test]
    fn the_picture_of_improvements_shows_every_fix() {
        let findings = [finding(1, "Fuse <attention> & more", 4.0, 6.0), finding(2, "Batch them", 1.0, 2.0)];
        let svg = String::from_utf8(improvement(&Waterfall::of(&findings, 10.0, 0.0))).unwrap();
        assert!(svg.contains("1. Fuse &lt;attention&gt; &amp; more"));
        assert!(svg.contains("5.00 ms (4.00 to 6.00)"), "{svg}");
        assert_eq!(svg.matches("class=\"saved\"").count(), 2);
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn without_findings_it_says_so() {
        let svg = String::from_utf8(improvement(&Waterfall::of(&[], 10.0, 0.0))).unwrap();
        assert!(svg.contains("No finding promises"));
        assert!(String::from_utf8(improvement(&Waterfall::default())).unwrap().starts_with("<svg"));
    }
}
