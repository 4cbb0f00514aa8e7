//! A fault of jarvis itself: a panic, wherever it was. The user is told what happened, where, and how to report it,
//! instead of a trace of calls into code that is not theirs.

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Failure, LONG_VERSION};
use crate::exit;

/// A panic that ended the work.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    message: String,
    /// File and line.
    place: String,
    /// Whether there was next to no memory left.
    starved: bool,
}

/// To find the names of calls takes about this much, in bytes.
const ROOM: usize = 64 << 20;

/// Whether there is memory to speak of.
fn has_room() -> bool {
    Vec::<u8>::new().try_reserve_exact(ROOM).is_ok()
}

impl Fault {
    fn of(panic: &PanicHookInfo<'_>) -> Self {
        let message = panic.payload_as_str().unwrap_or("no message").to_owned();
        let place = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        Self { message, place, starved: !has_room() }
    }

    /// What to tell of it.
    pub(crate) fn failure(self) -> Failure {
        let mut failure = Failure::new(exit::FAULT, format!("a fault of jarvis: {}", self.message)).help(format!(
            "please report it with these lines, the command, and the trace if you can; this is jarvis {LONG_VERSION}"
        ));
        if self.starved {
            failure = failure.help("next to no memory was left: allow more (ulimit -v) and try again");
        }
        failure.cause = Some(format!("a panic at {}; RUST_BACKTRACE=1 shows more", self.place));
        failure
    }
}

/// Does the work; a panic of it, or of a thread that it waits for, is a fault.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    let last = Arc::new(Mutex::new(Fault::default()));
    let noted = Arc::clone(&last);
    let usual = Arc::new(panic::take_hook());
    let before = Arc::clone(&usual);
    let shows_calls = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    // What a thread panics with goes to who waits for it, but not where it did.
    panic::set_hook(Box::new(move |panic| {
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Fault::of(panic);
        // The standard library waits for itself without end if memory runs out while it finds the names.
        if shows_calls && has_room() {
            before(panic);
        }
    }));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(Box::new(move |panic| usual(panic)));
    result.map_err(|_| std::mem::take(&mut *last.lock().unwrap_or_else(PoisonError::into_inner)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jarvis_trace::side_by_side::each;

    use super::*;
    use crate::cli::style::Style;
    use crate::output::{Batch, Staging};
    use crate::pipeline::Shelf as _;

    #[test]
    fn a_panic_is_told_as_a_fault_with_its_place_and_leaves_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("out");
        let fault = guarded(|| {
            let staging = Staging::begin(&root);
            staging.put_away(Path::new("half.csv"), b"a,b").unwrap();
            let _batch = Batch::on(&staging);
            assert!(root.exists());
            each(&[1, 2], |n| assert!(*n != 2, "number {n} is odd"));
        });
        let failure = fault.unwrap_err().failure();
        assert_eq!((failure.status, failure.is_told()), (exit::FAULT, false));
        let text = failure.text(Style::new(false));
        for part in ["error: a fault of jarvis: number 2 is odd", "fault.rs:", "help: please report it", LONG_VERSION] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!root.exists(), "what was being written is taken back");
        assert_eq!(guarded(|| 7).unwrap(), 7);
    }
}
