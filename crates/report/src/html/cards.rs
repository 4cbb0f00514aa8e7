//! The findings as cards, in the order of their rank.

use jarvis_analyze::finding::{Evidence, Finding, Paths, Priority, Tier};
use jarvis_analyze::rounding::{shown, shown_ms};

use super::markup::{Markup, px};

/// Most operations and facts of a card.
const MOST: usize = 12;

/// Where evidence can be looked up.
pub(crate) struct Links<'a> {
    /// Files beside the page.
    pub(crate) files: &'a [String],
    /// UIDs of the rows in the table of operations.
    pub(crate) rows: &'a [u32],
}

impl Links<'_> {
    /// The file that holds a table, if it was written beside the page.
    fn file(&self, table: &str) -> Option<&str> {
        let is_its = |path: &&str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.strip_prefix(table).is_some_and(|end| ["", ".csv", ".json"].contains(&end))
        };
        self.files.iter().map(String::as_str).find(is_its)
    }
}

/// One card. What is said of a finding that saves nothing stands in the place of its numbers.
pub(crate) fn card(m: &mut Markup, f: &Finding, no_gain: Option<&str>, window_ms: f64, links: &Links<'_>) {
    let id = format!("finding-{}", f.rank);
    let class = format!("card p-{}", f.priority.title().to_lowercase());
    m.open("article", &[("class", &class), ("id", &id), ("tabindex", &"-1")]);
    m.raw("<header>");
    m.leaf("span", &[("class", &"rank")], f.rank);
    m.open("h3", &[]).prose(&f.title).close("h3");
    m.leaf("span", &[("class", &"badge")], f.priority.title());
    m.raw("</header>");
    m.open("p", &[("class", &"issue")]).prose(&f.issue).close("p");
    gain(m, f, no_gain, window_ms);
    if f.priority < Priority::Low || !f.paths.algorithmic.is_empty() {
        paths(m, &f.paths);
    }
    details(m, f, links);
    m.close("article");
}

fn gain(m: &mut Markup, f: &Finding, no_gain: Option<&str>, window_ms: f64) {
    let (saved, speedup) = (&f.impact.saved_ms, &f.impact.speedup);
    let share = |ms: f64| px(if window_ms > 0.0 { (100.0 * ms / window_ms).min(100.0) } else { 0.0 });
    m.open("dl", &[("class", &"facts")]);
    let range = match f.mending.condition() {
        Some(condition) => format!("up to {} ms{condition}", shown_ms(saved.high)),
        None => format!("{} to {} ms", shown_ms(saved.low), shown_ms(saved.high)),
    };
    fact(m, "saves", no_gain.unwrap_or(&range), "saved");
    if no_gain.is_none() {
        fact(m, "end to end", &format!("{}× to {}×", shown(speedup.low, 2), shown(speedup.high, 2)), "speedup");
    }
    let time = format!("{} ms, {} %", shown_ms(f.time_ms), shown(f.percent_of_total, 1));
    fact(m, "is about", &time, "time");
    let tier = match f.tier {
        Tier::Compute => "operation",
        Tier::Fusion => "fusion",
        Tier::System => "system",
    };
    fact(m, "kind", &format!("{tier} · {}", f.pattern.as_str()), "kind");
    m.close("dl");
    let saves = match no_gain {
        Some(no_gain) => format!("saves: {no_gain}"),
        None => format!("saves {range}\nof a window of {} ms", shown_ms(window_ms)),
    };
    let tip = format!("{saves}\n{}", f.impact.basis);
    m.open("div", &[("class", &"gauge"), ("data-tip", &tip), ("aria-hidden", &"true")]);
    m.open("span", &[("class", &"sure"), ("style", &format!("width:{}%", share(saved.low)))]).close("span");
    m.open("span", &[("class", &"hoped"), ("style", &format!("width:{}%", share(saved.high - saved.low)))]);
    m.close("span").close("div");
}

/// Both ways to act.
pub(crate) fn paths(m: &mut Markup, paths: &Paths) {
    m.open("div", &[("class", &"paths")]);
    path(m, "A", "Change the model or its calls", &paths.algorithmic);
    path(m, "B", "Change the kernel", &paths.kernel);
    m.close("div");
}

/// A name and its value.
pub(crate) fn fact(m: &mut Markup, name: &'static str, value: &str, field: &'static str) {
    m.raw("<div>").leaf("dt", &[], name).leaf("dd", &[("data-field", &field)], value).raw("</div>");
}

fn path(m: &mut Markup, letter: &'static str, name: &'static str, steps: &[String]) {
    if steps.is_empty() {
        return;
    }
    m.raw("<div>").open("h4", &[]).leaf("span", &[("class", &"letter")], letter).text(name).close("h4");
    m.raw("<ul>");
    for step in steps {
        m.open("li", &[]).prose(step).close("li");
    }
    m.raw("</ul></div>");
}

fn details(m: &mut Markup, f: &Finding, links: &Links<'_>) {
    m.raw("<details><summary>Evidence</summary>");
    m.open("p", &[("class", &"basis")]).prose(&f.impact.basis).close("p");
    m.raw("<ul class=\"evidence\">");
    for evidence in f.evidence.iter().take(MOST) {
        m.raw("<li>");
        source(m, evidence, links);
        m.raw(": ").prose(&evidence.fact).raw("</li>");
    }
    if f.evidence.len() > MOST {
        m.leaf("li", &[], format!("{} more in findings.json", f.evidence.len() - MOST));
    }
    m.raw("</ul>");
    match (&f.replay_package, &f.replay_reason) {
        (Some(path), _) => {
            m.raw("<p>Replay package: ").leaf("code", &[], path).raw("</p>");
        }
        (None, Some(reason)) => {
            m.open("p", &[("class", &"faint")]).text("No replay package: ").prose(reason).raw("</p>");
        }
        (None, None) => {}
    }
    m.raw("</details>");
}

/// Where a fact stands: a row of the table below, else a file beside the page.
fn source(m: &mut Markup, e: &Evidence, links: &Links<'_>) {
    match e.uid.filter(|uid| links.rows.contains(uid)) {
        Some(uid) => {
            m.open("button", &[("type", &"button"), ("class", &"link"), ("data-show-uid", &uid)]).text(&e.row);
            m.close("button");
        }
        None => {
            m.open("span", &[("class", &"name")]).text(&e.row).close("span");
        }
    }
    m.raw(" in ");
    match links.file(&e.table) {
        Some(path) => m.leaf("a", &[("href", &path)], &e.table),
        None => m.leaf("code", &[], &e.table),
    };
}

#[cfg(test)]
mod tests {
    use super::super::waterfall::tests::finding;
    use super::*;
    use jarvis_analyze::finding::Mending;

    #[test]
    fn a_card_without_a_gain_says_so_once() {
        let links = Links { files: &[], rows: &[] };
        let page = |no_gain: Option<&str>| {
            let mut m = Markup::default();
            card(&mut m, &finding(1, "Slow", 0.0, 0.0), no_gain, 10.0, &links);
            m.as_str().to_owned()
        };
        let [awaits_launches, _] = jarvis_analyze::finding::NO_GAIN;
        let card = page(Some(awaits_launches));
        assert!(card.contains(&format!("<dd data-field=\"saved\">{awaits_launches}</dd>")), "{card}");
        assert!(!card.contains("end to end") && !card.contains("0.000 to"), "{card}");
        assert!(page(None).contains("end to end"));
    }

    #[test]
    fn what_a_kernel_team_may_save_is_told_as_theirs() {
        let mut m = Markup::default();
        let told = Finding { mending: Mending::KernelTeam, ..finding(1, "Slow", 0.0, 2.0) };
        card(&mut m, &told, None, 10.0, &Links { files: &[], rows: &[] });
        assert!(m.as_str().contains("up to 2.00 ms, if a kernel team gets there</dd>"), "{}", m.as_str());
        let basis = crate::sections::words::basis(&told);
        assert!(basis.ends_with("nothing is counted on"), "{basis}");
    }
}
