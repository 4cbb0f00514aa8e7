//! What must hold of a page.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::driver::Page;
use super::{hostile, numbers};

/// Time within which a page can be used, as the page itself measures it. Other programs may hold the machine up.
const LONGEST_READY_MS: f64 = 5000.0;

const RIGHT: char = '\u{e014}';
const ENTER: char = '\u{e007}';
const ESCAPE: char = '\u{e00c}';

/// What the table and the dots of a kind of page are about.
pub(super) struct Kind {
    /// Column that the table is sorted by, and its position.
    pub(super) sorted: (&'static str, usize),
    /// How its CSV begins.
    pub(super) csv: &'static str,
    /// What a dot says.
    pub(super) said: &'static str,
}

const REPORT: Kind =
    Kind { sorted: ("ms", 4), csv: "name,args,category,count,ms,percent,efficiency,bound", said: "of the window" };

/// The page of an analysis.
pub(crate) fn analysis(page: &Page<'_>, folder: &Path, pictures: &Path, name: &str) -> Result<()> {
    steady(page)?;
    sections(page, &["overview", "findings", "step", "where", "operations"])?;
    numbers::equal(page, folder)?;
    common(page)?;
    links(page, folder)?;
    viewer(page).context("the hand-over to the viewer")?;
    looks(page, pictures, name)?;
    quiet(page)
}

/// The page of a performance report: the same without findings.
pub(crate) fn report(page: &Page<'_>) -> Result<()> {
    sections(page, &["overview", "step", "roofline", "where", "operations"])?;
    page.all_hold(&["document.getElementById('findings') === null", "document.querySelector('.fall') === null"])?;
    common(page)?;
    quiet(page)
}

/// No text of the trace became part of the page.
pub(crate) fn hostile(page: &Page<'_>, pictures: &Path) -> Result<()> {
    sections(page, &["overview", "findings", "step", "roofline", "where", "operations"])?;
    common(page)?;
    page.script("for (const e of [...document.querySelectorAll('#icicle button')].slice(0, 60)) e.click();")?;
    harmless(page, hostile::TEXTS)?;
    save(page, pictures, "hostile")?;
    quiet(page)
}

/// Nothing but text came of texts, and those of the table can be read.
pub(super) fn harmless(page: &Page<'_>, texts: &[&str]) -> Result<()> {
    for (width, _) in SIZES {
        page.size(width, 900)?;
        page.holds("document.documentElement.scrollWidth <= innerWidth")?;
    }
    page.size(1400, 900)?;
    // Every tooltip once.
    page.script(
        "for (const e of document.querySelectorAll('[data-tip], [data-op], .tipped, #ops tr')) \
           e.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 5, clientY: 5}))",
    )?;
    page.all_hold(&[
        "window.hacked === undefined",
        "document.scripts.length === 2",
        "document.querySelectorAll('main img, main iframe, main object, main script, main b[onclick]').length === 0",
        "[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !a.name.startsWith('on')))",
        "[...document.querySelectorAll('a')].every(a => /^#|^[a-z_]+(\\/|\\.)/.test(a.getAttribute('href')))",
        "[...document.querySelectorAll('#ops td')].every(td => td.textContent.length <= 240)",
    ])?;
    // What was tried is there to be read.
    let seen = page.text("return document.getElementById('ops').textContent")?;
    for text in texts.iter().filter(|t| !t.contains(['\n', '\u{202e}'])) {
        ensure!(seen.contains(text), "{text:?} is not shown as it is");
    }
    ensure!(!seen.contains(['\u{202e}', '\u{2066}', '\u{0}']), "a character that turns text around is there");
    Ok(())
}

/// Milliseconds until the page can be used.
pub(crate) fn ready_ms(page: &Page<'_>) -> Result<f64> {
    let ms = page.script("return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")?;
    let ms = ms.as_f64().context("the page does not know when it was ready")?;
    ensure!(ms <= LONGEST_READY_MS, "the page takes {ms} ms until it can be used");
    common(page)?;
    quiet(page)?;
    Ok(ms)
}

/// Nothing moved while the page was loaded.
pub(super) fn steady(page: &Page<'_>) -> Result<()> {
    let moved = page.script(
        "return new Promise(done => { let sum = 0; setTimeout(() => done(sum), 150); \
           new PerformanceObserver(list => { for (const e of list.getEntries()) sum += e.value; }) \
             .observe({type: 'layout-shift', buffered: true}); })",
    )?;
    let moved = moved.as_f64().context("shifts are not measured")?;
    ensure!(moved < 0.02, "the page jumps while it loads: {moved}");
    Ok(())
}

/// The trace goes to the viewer's tab, once that answers, and nowhere else. The tab is played by the page itself.
fn viewer(page: &Page<'_>) -> Result<()> {
    page.holds("document.getElementById('open-perfetto').disabled")?;
    page.script(
        "window.sent = []; window.open = (url) => { window.opened = url; return window; }; \
         window.postMessage = (message, origin) => window.sent.push([message, origin]); \
         const files = new DataTransfer(); files.items.add(new File(['12345'], 'trace.json')); \
         const input = document.getElementById('trace-file'); \
         input.files = files.files; input.dispatchEvent(new Event('change'))",
    )?;
    page.click("#open-perfetto")?;
    page.wait("return window.sent.length > 0")?;
    page.holds("window.sent.every(([message, origin]) => message === 'PING' && origin === 'https://ui.perfetto.dev')")?;
    page.script("dispatchEvent(new MessageEvent('message', {data: 'PONG', source: window}))")?;
    page.all_hold(&[
        "window.opened === 'https://ui.perfetto.dev'",
        "window.sent.at(-1)[1] === 'https://ui.perfetto.dev'",
        "window.sent.at(-1)[0].perfetto.buffer.byteLength === 5",
        "window.sent.at(-1)[0].perfetto.title === 'trace.json'",
    ])
}

pub(super) fn sections(page: &Page<'_>, ids: &[&str]) -> Result<()> {
    let there = ids.iter().flat_map(|id| {
        let height = format!("document.getElementById({}).getBoundingClientRect().height > 60", json!(id));
        [height, format!("document.querySelector('nav a[href=\"#{id}\"]') !== null")]
    });
    page.all_hold(&there.collect::<Vec<_>>())
}

/// What the page of one trace can do.
fn common(page: &Page<'_>) -> Result<()> {
    table(page, &REPORT)?;
    hovering(page).context("hovering")?;
    filtering(page, &REPORT, ".plot.wide").context("filtering")?;
    zooming(page).context("zooming")?;
    icicle(page).context("zooming in")?;
    themes(page).context("light and dark")
}

/// What every table can do.
pub(super) fn table(page: &Page<'_>, kind: &Kind) -> Result<()> {
    sorting(page, kind).context("sorting")?;
    searching(page).context("searching")?;
    copying(page, kind).context("copying")
}

const COLUMN: &str = "[...document.querySelectorAll('#ops tbody tr')].map(r => r.cells[I].textContent)";

pub(super) fn column(page: &Page<'_>, index: usize) -> Result<Vec<String>> {
    let cells = page.script(&format!("return {}", COLUMN.replace('I', &index.to_string())))?;
    Ok(cells.as_array().into_iter().flatten().filter_map(|c| c.as_str().map(str::to_owned)).collect())
}

fn sorting(page: &Page<'_>, kind: &Kind) -> Result<()> {
    let (key, index) = kind.sorted;
    let head = format!("#ops th[data-key={key}]");
    let times = |page: &Page<'_>| -> Result<Vec<f64>> {
        Ok(column(page, index)?.iter().filter_map(|text| text.parse().ok()).collect())
    };
    let down = times(page)?;
    ensure!(!down.is_empty() && down.is_sorted_by(|a, b| a >= b), "most time does not come first: {down:?}");
    page.click(&format!("{head} button"))?;
    ensure!(times(page)?.is_sorted(), "a click does not turn the order round");
    page.holds(&format!("document.querySelector('{head}').getAttribute('aria-sort') === 'ascending'"))?;
    page.click("#ops th[data-key=name] button")?;
    ensure!(column(page, 0)?.is_sorted(), "names are not sorted");
    page.click(&format!("{head} button"))?;
    ensure!(times(page)? == down, "the first order does not come back");
    Ok(())
}

fn searching(page: &Page<'_>) -> Result<()> {
    let all = column(page, 0)?;
    let typable = |name: &&String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b));
    let name = all.iter().rev().find(typable).context("no name to search for")?;
    page.fill("#search", name)?;
    let found = column(page, 0)?;
    ensure!(found.contains(name) && found.len() <= all.len(), "{name} is not found: {found:?}");
    let named = found.iter().filter(|n| n.contains(name.as_str())).count();
    let expected = all.iter().filter(|n| n.contains(name.as_str())).count();
    ensure!(named >= expected, "{named} of {expected} rows of {name} are found");
    page.fill("#search", " no such operation")?;
    ensure!(column(page, 0)?.is_empty(), "a search for nothing finds something");
    page.script("const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input'))")?;
    ensure!(column(page, 0)? == all, "the search does not end");
    Ok(())
}

/// The text of the tooltip, if it is shown.
pub(super) fn tip(page: &Page<'_>) -> Result<String> {
    page.text("const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent")
}

fn hovering(page: &Page<'_>) -> Result<()> {
    strip(page)?;
    page.hover("#icicle button", (0, 0))?;
    ensure!(tip(page)?.contains("of kernel time"), "the icicle says nothing");
    Ok(())
}

/// The bar and the strip say what they show, to the pointer and to the keyboard.
pub(super) fn strip(page: &Page<'_>) -> Result<()> {
    page.hover("#timeline-bar .seg", (0, 0))?;
    ensure!(tip(page)?.contains("ms of"), "the bar says nothing: {:?}", tip(page)?);
    page.hover(".canvas", (0, 10))?;
    page.script("document.querySelector('.canvas').focus()")?;
    page.key(RIGHT)?;
    ensure!(tip(page)?.contains("ms"), "the strip says nothing to the keyboard");
    page.key(ESCAPE)?;
    ensure!(tip(page)?.is_empty(), "escape does not close the tooltip");
    Ok(())
}

/// A dot filters the table, by pointer and by key; what it says is what the table says.
pub(super) fn filtering(page: &Page<'_>, kind: &Kind, plot: &str) -> Result<()> {
    let dot = format!("{plot} .dot");
    if page.script(&format!("return document.querySelector('{dot}') === null"))? == Value::Bool(true) {
        return Ok(());
    }
    page.hover(&format!("{dot}:last-of-type"), (0, 0))?;
    let said = tip(page)?;
    ensure!(said.contains(kind.said), "a dot says nothing: {said:?}");
    let all = column(page, 0)?.len();
    page.script(&format!("document.querySelector('{dot}').focus()"))?;
    page.key(ENTER)?;
    let names = column(page, 0)?;
    ensure!(!names.is_empty() && names.iter().all(|n| *n == names[0]), "a dot does not filter: {names:?}");
    let chosen = "document.querySelectorAll('#ops tr.chosen').length === 1";
    page.all_hold(&[&format!("document.querySelectorAll('{dot}.chosen').length === 1"), chosen])?;
    page.click("#filter-chip")?;
    ensure!(column(page, 0)?.len() == all, "the filter does not go away");
    page.script(&format!(
        "document.querySelector('{dot}:last-of-type').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    ))?;
    page.holds(chosen)?;
    page.click("#filter-chip")
}

/// The buttons make every strip wider and fit it again.
pub(super) fn zooming(page: &Page<'_>) -> Result<()> {
    let widths = "[...document.querySelectorAll('.canvas')].map(c => c.clientWidth)";
    let before = page.script(&format!("return {widths}"))?;
    let is = |times: u32| format!("{widths}.every((w, i) => Math.abs(w - {times} * {before}[i]) <= 2)");
    page.click("#zoom-in")?;
    page.holds(&is(2))?;
    page.click("#zoom-fit")?;
    page.holds(&is(1))
}

fn icicle(page: &Page<'_>) -> Result<()> {
    let height = page.script("return document.getElementById('where').offsetHeight")?;
    page.script("document.querySelectorAll('#icicle button')[1].click()")?;
    page.all_hold(&[
        "document.querySelectorAll('#crumbs button').length === 2",
        &format!("document.getElementById('where').offsetHeight === {height}"),
    ])?;
    page.click("#crumbs button")?;
    page.holds("document.querySelectorAll('#crumbs button').length === 1")
}

pub(super) fn themes(page: &Page<'_>) -> Result<()> {
    let ground = "return getComputedStyle(document.body).backgroundColor";
    page.scheme("light")?;
    let light = page.text(ground)?;
    page.scheme("dark")?;
    let dark = page.text(ground)?;
    ensure!(light != dark, "dark looks like light: {dark}");
    page.scheme("light")?;
    page.click("#theme")?;
    ensure!(page.text(ground)? == dark, "the button does not make it dark");
    page.click("#theme")?;
    ensure!(page.text(ground)? == light, "the button does not make it light again");
    page.click("#theme")?;
    page.holds("document.getElementById('theme').textContent === 'Auto'")
}

fn copying(page: &Page<'_>, kind: &Kind) -> Result<()> {
    page.script(
        "window.copied = ''; document.addEventListener('copy', () => { window.copied = String(document.activeElement.value) });\
         Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})",
    )?;
    page.click("#copy-csv")?;
    page.wait("return window.copied !== ''")?;
    page.all_hold(&[
        &format!("window.copied.startsWith('{}')", kind.csv),
        "!window.copied.split('\\n').some(line => /^[=+@]/.test(line))",
    ])
}

/// Links lead to files that are there.
pub(super) fn links(page: &Page<'_>, folder: &Path) -> Result<()> {
    let links = page.script("return [...document.querySelectorAll('main a')].map(a => a.getAttribute('href'))")?;
    let mut inside = Vec::new();
    for link in links.as_array().into_iter().flatten().filter_map(Value::as_str) {
        match link.strip_prefix('#') {
            Some(id) => inside.push(format!("document.getElementById({}) !== null", json!(id))),
            None => ensure!(folder.join(link).is_file(), "{link} leads nowhere"),
        }
    }
    page.all_hold(&inside)
}

const SIZES: [(u32, &str); 2] = [(1400, "wide"), (390, "phone")];

/// Pictures that are kept for people: one of each size and of each scheme. Drawing a whole page is what takes longest.
const PICTURES: [(u32, &str); 2] = [(1400, "light"), (390, "dark")];

/// Nothing runs over the edge at any size, and pictures are kept for people.
pub(super) fn looks(page: &Page<'_>, pictures: &Path, name: &str) -> Result<()> {
    for (width, size) in SIZES {
        page.size(width, 900)?;
        for scheme in ["light", "dark"] {
            page.scheme(scheme)?;
            page.holds("document.documentElement.scrollWidth <= innerWidth")?;
            if PICTURES.contains(&(width, scheme)) {
                save(page, pictures, &format!("{name}_{size}_{scheme}"))?;
            }
        }
    }
    page.size(1400, 900)?;
    page.scheme("light")?;
    ensure!(page.printed_bytes()? > 20_000, "nothing is printed");
    Ok(())
}

pub(super) fn save(page: &Page<'_>, pictures: &Path, name: &str) -> Result<()> {
    let png = decoded(&page.picture()?);
    fs::write(pictures.join(format!("{name}.png")), png)?;
    Ok(())
}

/// No complaint, and nothing asked for but the file itself.
pub(super) fn quiet(page: &Page<'_>) -> Result<()> {
    let complaints = page.complaints()?;
    ensure!(complaints.is_empty(), "the browser complains: {}", complaints.join("; "));
    let requests = page.requests()?;
    ensure!(!requests.is_empty(), "the log of requests is empty: it proves nothing");
    let outside: Vec<&String> =
        requests.iter().filter(|url| !url.starts_with("file:") && !url.starts_with("data:")).collect();
    ensure!(outside.is_empty(), "the page asks for {outside:?}");
    let files = requests.iter().filter(|url| url.starts_with("file:")).count();
    ensure!(files == 1, "the page asks for {files} files: {requests:?}");
    Ok(())
}

fn decoded(base64: &str) -> Vec<u8> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut out = Vec::with_capacity(base64.len() / 4 * 3);
    let (mut word, mut bits) = (0u32, 0);
    for six in base64.bytes().filter_map(value) {
        word = word << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits & 255) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_decoded() {
        assert_eq!(decoded("aGVsbG8="), b"hello");
        assert_eq!(decoded("iVBO"), [0x89, 0x50, 0x4e]);
    }
}
