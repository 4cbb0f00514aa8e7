//! How far the work is: one line on a terminal's standard error, from the second on that the work takes.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::layout::{amount, cut};

/// Work that is done before this is not worth a line.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at the work.
const TICK: Duration = Duration::from_millis(100);
/// Characters of a bar.
const BAR: usize = 16;
/// Characters of a name that are always shown.
const NAME: usize = 8;

/// Shows what is going on.
#[derive(Clone)]
pub(crate) struct Progress {
    /// Nothing where nobody looks.
    shared: Option<Arc<Shared>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ticker: OnceLock<()>,
}

#[derive(Default)]
struct State {
    /// When the work began.
    since: Option<Instant>,
    readings: Vec<Reading>,
    stages: Vec<(&'static str, Instant)>,
    /// Whether the line stands on the terminal.
    drawn: bool,
}

/// A file that is being read.
#[derive(Clone)]
struct Reading {
    name: String,
    /// Its size, if it is known.
    len: Option<u64>,
    read: Arc<AtomicU64>,
    since: Instant,
}

/// Something that is going on as long as this lives.
pub(crate) struct Going {
    shared: Option<Arc<Shared>>,
    what: What,
}

enum What {
    Reading(Arc<AtomicU64>),
    Stage(&'static str),
}

impl Progress {
    /// Shows progress if somebody looks at standard error through a terminal that can.
    pub(crate) fn new(is_seen: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { shared: (is_seen && !dumb).then(Arc::default) }
    }

    /// A file is read from now on; the count tells how far.
    pub(crate) fn reading(&self, name: &str, len: Option<u64>) -> (Going, Arc<AtomicU64>) {
        let read = Arc::new(AtomicU64::new(0));
        let reading = Reading { name: name.to_owned(), len, read: Arc::clone(&read), since: Instant::now() };
        self.change(|state| state.readings.push(reading));
        (Going { shared: self.shared.clone(), what: What::Reading(Arc::clone(&read)) }, read)
    }

    /// A stage begins.
    pub(crate) fn stage(&self, name: &'static str) -> Going {
        self.change(|state| state.stages.push((name, Instant::now())));
        Going { shared: self.shared.clone(), what: What::Stage(name) }
    }

    /// Prints something while no line stands in its way.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        match &self.shared {
            Some(shared) => {
                let mut state = shared.lock();
                state.clear();
                print();
            }
            None => print(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let Some(shared) = &self.shared else { return };
        {
            let mut state = shared.lock();
            state.since.get_or_insert_with(Instant::now);
            change(&mut state);
        }
        shared.ticker.get_or_init(|| {
            let shared = Arc::clone(shared);
            // It ends with the program: it holds nothing that has to be put in order. Without it nothing is shown.
            let _ = std::thread::Builder::new().spawn(move || {
                loop {
                    std::thread::sleep(TICK);
                    shared.lock().draw();
                }
            });
        });
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock();
        match &self.what {
            What::Reading(read) => state.readings.retain(|r| !Arc::ptr_eq(&r.read, read)),
            What::Stage(name) => {
                if let Some(at) = state.stages.iter().rposition(|(n, _)| n == name) {
                    state.stages.remove(at);
                }
            }
        }
        if state.readings.is_empty() && state.stages.is_empty() {
            state.clear();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked left nothing half done that matters for a line of text.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn draw(&mut self) {
        if self.since.is_none_or(|since| since.elapsed() < PATIENCE) {
            return;
        }
        let width = usize::from(console::Term::stderr().size().1).saturating_sub(1);
        let Some(text) = self.line(Instant::now(), width) else { return };
        // Nothing can be done if standard error is gone.
        let _ = write!(io::stderr(), "\r{}\x1b[K", cut(&text, width));
        let _ = io::stderr().flush();
        self.drawn = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
            let _ = io::stderr().flush();
        }
    }

    /// What the line says; nothing if nothing is going on.
    fn line(&self, now: Instant, width: usize) -> Option<String> {
        if let Some(first) = self.readings.first() {
            return Some(reading_line(&self.readings, now - first.since, width));
        }
        let (name, since) = self.stages.last()?;
        Some(format!("{} … {} s", name.replace('_', " "), (now - *since).as_secs()))
    }
}

/// All that is read, as one: bytes of the files as they lie on the disk. Names give way to numbers.
fn reading_line(readings: &[Reading], elapsed: Duration, width: usize) -> String {
    let names: Vec<&str> = readings.iter().map(|r| r.name.as_str()).collect();
    let read: u64 = readings.iter().map(|r| r.read.load(Ordering::Relaxed)).sum();
    let len: Option<u64> = readings.iter().map(|r| r.len).sum();
    let rate = read as f64 / elapsed.as_secs_f64().max(1e-9);
    let numbers = match len.filter(|&len| len > 0) {
        Some(len) => {
            // A file that is still being written may give more than it promised.
            let share = (read as f64 / len as f64).min(1.0);
            let full = (share * BAR as f64) as usize;
            format!(
                "[{}{}] {:3.0}% of {}, {}/s, {:.0} s left",
                "=".repeat(full),
                " ".repeat(BAR - full),
                100.0 * share,
                amount(len),
                amount(rate as u64),
                len.saturating_sub(read) as f64 / rate.max(1.0),
            )
        }
        None => format!("{}, {}/s", amount(read), amount(rate as u64)),
    };
    let room = width.saturating_sub("reading  ".len() + numbers.chars().count()).max(NAME);
    format!("reading {} {numbers}", cut(&names.join(" and "), room))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, read: u64, len: Option<u64>) -> Reading {
        Reading { name: name.to_owned(), len, read: Arc::new(AtomicU64::new(read)), since: Instant::now() }
    }

    #[test]
    fn a_line_tells_share_rate_and_time_left() {
        let line = |readings: &[Reading]| reading_line(readings, Duration::from_secs(2), 79);
        let shown = line(&[reading("a.json.gz", 25_000_000, Some(100_000_000))]);
        assert_eq!(shown, "reading a.json.gz [====            ]  25% of 100.0 MB, 12.5 MB/s, 6 s left");
        let shown = line(&[reading("a", 1_000_000, Some(2_000_000)), reading("b", 0, Some(2_000_000))]);
        assert!(shown.starts_with("reading a and b [====  ") && shown.contains(" 25% of 4.0 MB"), "{shown}");
        let shown = line(&[reading("standard input", 3_000_000, None)]);
        assert_eq!(shown, "reading standard input 3.0 MB, 1.5 MB/s");
        let shown = line(&[reading("grows", 300, Some(200))]);
        assert!(shown.contains("100%") && shown.ends_with("0 s left"), "{shown}");
        let long = "worker_0_rank_0.1700000000000.pt.trace.json.gz";
        let shown = line(&[reading(long, 1_234_567_890, Some(12_345_678_900))]);
        assert!(shown.chars().count() <= 79 && shown.contains("… [") && shown.ends_with("18 s left"), "{shown}");
        assert!(reading_line(&[reading("nothing yet", 0, Some(10))], Duration::ZERO, 0).contains("  0%"));
    }

    #[test]
    fn the_innermost_stage_is_told_and_nothing_when_idle() {
        let now = Instant::now();
        let mut state = State::default();
        assert_eq!(state.line(now, 79), None);
        state.stages = vec![("analysis", now), ("perf_report", now)];
        assert_eq!(state.line(now + Duration::from_secs(3), 79).as_deref(), Some("perf report … 3 s"));
    }
}
