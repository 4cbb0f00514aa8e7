//! Pieces of work beside each other. Whatever the processors, results are the same and in the same order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Processors there are for us. To find out takes the system a while, so it is asked once.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Does both, the first on a thread of its own.
pub fn both<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let a = beside(scope, a);
        let b = b();
        (a.joined(), b)
    })
}

/// Does all three: the first on a thread of its own, and the last on whichever thread has done its own first.
pub fn both_and<A: Send, B, C: Send + Sync>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B,
    last: impl Fn() -> C + Sync,
) -> (A, B, C) {
    let done = OnceLock::new();
    let beside = || {
        let a = a();
        done.get_or_init(&last);
        a
    };
    let here = || {
        let b = b();
        done.get_or_init(&last);
        b
    };
    let (a, b) = both(beside, here);
    (a, b, done.into_inner().unwrap_or_else(last))
}

/// Does both, side by side if that is worth a thread.
pub(crate) fn both_if<A: Send, B>(worth_it: bool, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    if worth_it { both(a, b) } else { (a(), b()) }
}

/// Most items that a thread takes at once.
const AT_ONCE: usize = 16;

/// Does the same with every item, on all processors. What came of them, in their order.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Few of them may be long, many are handed on a handful at a time.
    let at_once = (items.len() / (AT_ONCE * processors())).clamp(1, AT_ONCE);
    let mut all: Vec<Option<R>> = Vec::new();
    all.resize_with(items.len(), || None);
    let parts: Vec<_> = items.chunks(at_once).zip(all.chunks_mut(at_once)).map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let (items, places) = &mut *part;
            for (item, place) in items.iter().zip(places.iter_mut()) {
                *place = Some(work(item));
            }
        }
    };
    std::thread::scope(|scope| {
        // Where there are no more threads to be had, those that are there take all.
        let more = (1..processors().min(parts.len())).map_while(|_| Builder::new().spawn_scoped(scope, take).ok());
        let others: Vec<_> = more.collect();
        take();
        others.into_iter().for_each(joined);
    });
    drop(parts);
    // All are there. (This way the list becomes the other one where it stands.)
    all.into_iter().map_while(|done| done).collect()
}

/// Work on a thread of its own, or done already.
#[derive(Debug)]
pub enum Beside<'scope, T> {
    /// It goes on.
    Thread(ScopedJoinHandle<'scope, T>),
    /// There was no thread for it.
    Done(T),
}

/// Begins work on a thread of its own. Where the system has none to give, it is done here and now, so it must not wait for
/// what comes after.
pub fn beside<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Beside<'scope, T> {
    // A thread that does not come about takes what it was given with it.
    let ours = Arc::new(Mutex::new(Some(work)));
    let theirs = Arc::clone(&ours);
    match Builder::new().spawn_scoped(scope, move || taken(&theirs)()) {
        Ok(thread) => Beside::Thread(thread),
        Err(_) => Beside::Done(taken(&ours)()),
    }
}

/// What lies there, for the only one who takes it.
#[expect(clippy::expect_used, reason = "either a thread takes it, or who could not start one")]
fn taken<T>(place: &Mutex<Option<T>>) -> T {
    place.lock().unwrap_or_else(PoisonError::into_inner).take().expect("it is taken once")
}

impl<T> Beside<'_, T> {
    /// What came of it; its panic is ours.
    pub fn joined(self) -> T {
        match self {
            Self::Thread(thread) => joined(thread),
            Self::Done(done) => done,
        }
    }
}

/// What a thread came to; its panic is ours.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        assert_eq!(each(&items, |i| i * i), items.iter().map(|i| i * i).collect::<Vec<_>>());
        assert!(each(&[] as &[u64], |i| *i).is_empty());
        assert_eq!(both(|| 1, || 2), (1, 2));
        assert_eq!((Beside::Done(3).joined(), std::thread::scope(|scope| beside(scope, || 4).joined())), (3, 4));
    }

    #[test]
    fn the_last_is_done_once_by_the_one_that_is_free() {
        let (release, wait) = std::sync::mpsc::channel();
        let ours = std::thread::current().id();
        // The thread waits for the last of them, so that ours has to do it.
        let last = move || (release.send(()).is_ok(), std::thread::current().id());
        let (waited, two, by) = both_and(move || wait.recv().is_ok(), || 2, last);
        assert_eq!((waited, two, by), (true, 2, (true, ours)));
    }

    #[test]
    #[should_panic(expected = "one of them")]
    fn a_panic_of_one_is_the_callers() {
        each(&[1, 2, 3], |i| assert!(*i != 2, "one of them"));
    }
}
