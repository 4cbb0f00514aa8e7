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

/// The page of an analysis.
pub(crate) fn analysis(page: &Page, folder: &Path, pictures: &Path, name: &str) -> Result<()> {
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
pub(crate) fn report(page: &Page) -> Result<()> {
    sections(page, &["overview", "step", "roofline", "where", "operations"])?;
    page.holds("document.getElementById('findings') === null")?;
    page.holds("document.querySelector('.fall') === null")?;
    common(page)?;
    quiet(page)
}

/// No text of the trace became part of the page.
pub(crate) fn hostile(page: &Page, pictures: &Path) -> Result<()> {
    sections(page, &["overview", "findings", "step", "roofline", "where", "operations"])?;
    common(page)?;
    for (width, _) in SIZES {
        page.size(width, 900)?;
        page.holds("document.documentElement.scrollWidth <= innerWidth")?;
    }
    page.size(1400, 900)?;
    // Every tooltip and every branch once.
    page.script(
        "for (const e of document.querySelectorAll('[data-tip], [data-op], .tipped, #ops tr')) \
           e.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 5, clientY: 5})); \
         for (const e of [...document.querySelectorAll('#icicle button')].slice(0, 60)) e.click();",
    )?;
    page.holds("window.hacked === undefined")?;
    page.holds("document.scripts.length === 2")?;
    page.holds(
        "document.querySelectorAll('main img, main iframe, main object, main script, main b[onclick]').length === 0",
    )?;
    page.holds(
        "[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !a.name.startsWith('on')))",
    )?;
    page.holds("[...document.querySelectorAll('a')].every(a => /^#|^[a-z_]+(\\/|\\.)/.test(a.getAttribute('href')))")?;
    // What was tried is there to be read.
    let seen = page.text("return document.getElementById('ops').textContent")?;
    for text in hostile::TEXTS.iter().filter(|t| !t.contains(['\n', '\u{202e}'])) {
        ensure!(seen.contains(text), "{text:?} is not shown as it is");
    }
    ensure!(!seen.contains(['\u{202e}', '\u{2066}', '\u{0}']), "a character that turns text around is there");
    page.holds("[...document.querySelectorAll('#ops td')].every(td => td.textContent.length <= 240)")?;
    save(page, pictures, "hostile")?;
    quiet(page)
}

/// Milliseconds until the page can be used.
pub(crate) fn ready_ms(page: &Page) -> Result<f64> {
    let ms = page.script("return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")?;
    let ms = ms.as_f64().context("the page does not know when it was ready")?;
    ensure!(ms <= LONGEST_READY_MS, "the page takes {ms} ms until it can be used");
    common(page)?;
    quiet(page)?;
    Ok(ms)
}

/// Nothing moved while the page was loaded.
fn steady(page: &Page) -> Result<()> {
    let moved = page.script(
        "return new Promise(done => { let sum = 0; setTimeout(() => done(sum), 400); \
           new PerformanceObserver(list => { for (const e of list.getEntries()) sum += e.value; }) \
             .observe({type: 'layout-shift', buffered: true}); })",
    )?;
    let moved = moved.as_f64().context("shifts are not measured")?;
    ensure!(moved < 0.02, "the page jumps while it loads: {moved}");
    Ok(())
}

/// The trace goes to the viewer's tab, once that answers, and nowhere else. The tab is played by the page itself.
fn viewer(page: &Page) -> Result<()> {
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
    page.holds("window.opened === 'https://ui.perfetto.dev'")?;
    page.holds("window.sent.at(-1)[1] === 'https://ui.perfetto.dev'")?;
    page.holds("window.sent.at(-1)[0].perfetto.buffer.byteLength === 5")?;
    page.holds("window.sent.at(-1)[0].perfetto.title === 'trace.json'")
}

fn sections(page: &Page, ids: &[&str]) -> Result<()> {
    for id in ids {
        page.holds(&format!("document.getElementById({}).getBoundingClientRect().height > 60", json!(id)))?;
        page.holds(&format!("document.querySelector('nav a[href=\"#{id}\"]') !== null"))?;
    }
    Ok(())
}

/// What every page can do.
fn common(page: &Page) -> Result<()> {
    sorting(page).context("sorting")?;
    searching(page).context("searching")?;
    hovering(page).context("hovering")?;
    filtering(page).context("filtering")?;
    zooming(page).context("zooming")?;
    themes(page).context("light and dark")?;
    copying(page).context("copying")
}

const COLUMN: &str = "[...document.querySelectorAll('#ops tbody tr')].map(r => r.cells[I].textContent)";

fn column(page: &Page, index: usize) -> Result<Vec<String>> {
    let cells = page.script(&format!("return {}", COLUMN.replace('I', &index.to_string())))?;
    Ok(cells.as_array().into_iter().flatten().filter_map(|c| c.as_str().map(str::to_owned)).collect())
}

fn sorting(page: &Page) -> Result<()> {
    let times = |page: &Page| -> Result<Vec<f64>> {
        Ok(column(page, 4)?.iter().filter_map(|text| text.parse().ok()).collect())
    };
    let down = times(page)?;
    ensure!(!down.is_empty() && down.is_sorted_by(|a, b| a >= b), "most time does not come first: {down:?}");
    page.click("#ops th[data-key=ms] button")?;
    ensure!(times(page)?.is_sorted(), "a click does not turn the order round");
    page.holds("document.querySelector('#ops th[data-key=ms]').getAttribute('aria-sort') === 'ascending'")?;
    page.click("#ops th[data-key=name] button")?;
    ensure!(column(page, 0)?.is_sorted(), "names are not sorted");
    page.click("#ops th[data-key=ms] button")?;
    ensure!(times(page)? == down, "the first order does not come back");
    Ok(())
}

fn searching(page: &Page) -> Result<()> {
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
fn tip(page: &Page) -> Result<String> {
    page.text("const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent")
}

fn hovering(page: &Page) -> Result<()> {
    page.hover("#timeline-bar .seg", (0, 0))?;
    ensure!(tip(page)?.contains("ms of"), "the bar says nothing: {:?}", tip(page)?);
    page.hover(".canvas", (0, 10))?;
    page.script("document.querySelector('.canvas').focus()")?;
    page.key(RIGHT)?;
    ensure!(tip(page)?.contains("ms"), "the strip says nothing to the keyboard");
    page.key(ESCAPE)?;
    ensure!(tip(page)?.is_empty(), "escape does not close the tooltip");
    page.hover("#icicle button", (0, 0))?;
    ensure!(tip(page)?.contains("of kernel time"), "the icicle says nothing");
    Ok(())
}

/// A dot filters the table, by pointer and by key; what it says is what the table says.
fn filtering(page: &Page) -> Result<()> {
    if page.script("return document.querySelector('.plot.wide .dot') === null")? == Value::Bool(true) {
        return Ok(());
    }
    page.hover(".plot.wide .dot:last-of-type", (0, 0))?;
    let said = tip(page)?;
    ensure!(said.contains("of the window"), "a dot says nothing: {said:?}");
    let all = column(page, 0)?.len();
    page.script("document.querySelector('.plot.wide .dot').focus()")?;
    page.key(ENTER)?;
    let names = column(page, 0)?;
    ensure!(!names.is_empty() && names.iter().all(|n| *n == names[0]), "a dot does not filter: {names:?}");
    page.holds("document.querySelectorAll('.plot.wide .dot.chosen').length === 1")?;
    page.holds("document.querySelectorAll('#ops tr.chosen').length === 1")?;
    page.click("#filter-chip")?;
    ensure!(column(page, 0)?.len() == all, "the filter does not go away");
    page.script(
        "document.querySelector('.plot.wide .dot:last-of-type').dispatchEvent(new MouseEvent('click', {bubbles: true}))",
    )?;
    page.holds("document.querySelectorAll('#ops tr.chosen').length === 1")?;
    page.click("#filter-chip")
}

fn zooming(page: &Page) -> Result<()> {
    let width = "document.querySelector('.canvas').clientWidth";
    let before = page.script(&format!("return {width}"))?.as_f64().unwrap_or_default();
    page.click("#zoom-in")?;
    page.holds(&format!("Math.abs({width} - {}) <= 2", 2.0 * before))?;
    page.click("#zoom-fit")?;
    page.holds(&format!("Math.abs({width} - {before}) <= 2"))?;
    let height = page.script("return document.getElementById('where').offsetHeight")?;
    page.script("document.querySelectorAll('#icicle button')[1].click()")?;
    page.holds("document.querySelectorAll('#crumbs button').length === 2")?;
    page.holds(&format!("document.getElementById('where').offsetHeight === {height}"))?;
    page.click("#crumbs button")?;
    page.holds("document.querySelectorAll('#crumbs button').length === 1")
}

fn themes(page: &Page) -> Result<()> {
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

fn copying(page: &Page) -> Result<()> {
    page.script(
        "window.copied = ''; document.addEventListener('copy', () => { window.copied = String(document.activeElement.value) });\
         Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})",
    )?;
    page.click("#copy-csv")?;
    page.wait("return window.copied !== ''")?;
    page.holds("window.copied.startsWith('name,args,category,count,ms,percent,efficiency,bound')")?;
    page.holds("!window.copied.split('\\n').some(line => /^[=+@]/.test(line))")
}

/// Links lead to files that are there.
fn links(page: &Page, folder: &Path) -> Result<()> {
    let links = page.script("return [...document.querySelectorAll('main a')].map(a => a.getAttribute('href'))")?;
    for link in links.as_array().into_iter().flatten().filter_map(Value::as_str) {
        match link.strip_prefix('#') {
            Some(id) => page.holds(&format!("document.getElementById({}) !== null", json!(id)))?,
            None => ensure!(folder.join(link).is_file(), "{link} leads nowhere"),
        }
    }
    Ok(())
}

const SIZES: [(u32, &str); 2] = [(1400, "wide"), (390, "phone")];

/// Nothing runs over the edge at any size, and pictures are kept for people.
fn looks(page: &Page, pictures: &Path, name: &str) -> Result<()> {
    for (width, size) in SIZES {
        page.size(width, 900)?;
        for scheme in ["light", "dark"] {
            page.scheme(scheme)?;
            page.holds("document.documentElement.scrollWidth <= innerWidth")?;
            save(page, pictures, &format!("{name}_{size}_{scheme}"))?;
        }
    }
    page.size(1400, 900)?;
    page.scheme("light")?;
    ensure!(page.printed_bytes()? > 20_000, "nothing is printed");
    Ok(())
}

fn save(page: &Page, pictures: &Path, name: &str) -> Result<()> {
    let png = decoded(&page.picture()?);
    fs::write(pictures.join(format!("{name}.png")), png)?;
    Ok(())
}

/// No complaint, and nothing asked for but the file itself.
fn quiet(page: &Page) -> Result<()> {
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
