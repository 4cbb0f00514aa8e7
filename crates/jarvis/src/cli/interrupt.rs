//! Ctrl-C and its kin. What was being written is undone first; then the program ends as it would have without us, so a
//! shell sees status 130 (Ctrl-C), 143 (TERM) or 129 (HUP).
//!
//! A file that grows past `ulimit -f` is an error of the write like a full disk, and not the end of the program.

/// Watches for signals from now on. Without a watch the program ends at once, which is as good while nothing is written.
#[cfg(unix)]
pub(super) fn watch() {
    use std::io::Write as _;
    use std::sync::Arc;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    // Nobody reads the flag: with any handler at all, writing goes on and fails. Without one the signal ends us.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let ignored = ignored();
    // What `nohup` or a shell told us to ignore stays ignored.
    let ours = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(ours) else { return };
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            if crate::output::abandon() {
                // Nothing can be done if standard error is gone.
                let _ = writeln!(std::io::stderr(), "interrupted: the output is as it was before");
            }
            let _ = emulate_default_handler(signal);
        }
    };
    // Without the thread a second Ctrl-C would not help either, but a machine that can't start one has other troubles.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
}

#[cfg(not(unix))]
pub(super) fn watch() {}

/// Signals that are ignored, one bit each from the lowest; none where the system does not tell.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
