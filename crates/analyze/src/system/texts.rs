//! Fixed sentences of the system tier.

use jarvis_trace::shortened;

use crate::rounding::{shown, shown_ms};
pub(crate) use crate::texts::{counted, quoted};

/// Stands wherever a saving depends on host times.
pub const PROFILER_COST: &str = "Host times in a trace include the profiler's own cost, so the end-to-end gain without \
                                 the profiler is smaller.";

/// What to do where the GPU waits for itself or for others.
pub const DEVICE_WAIT_ACTION: &str = "Check stream dependencies; overlap communication.";

/// Closes the idle section.
pub const VIEWER: &str = "For visual inspection open the trace in the Perfetto UI at the positions above.";

/// Stands wherever communication is spoken of.
pub const SINGLE_RANK: &str = "Single-rank trace: collective types, message sizes and total time are visible; waiting \
                               for other ranks and transfer time cannot be separated. Collect all ranks to split them.";

/// Path B where kernels have no part in it.
pub const NO_KERNEL: &str = "None: not a kernel matter.";

/// Milliseconds and their share of the trace.
pub(crate) fn ms_and_percent(ms: f64, percent: f64) -> String {
    format!("{} ms ({}% of the trace)", shown_ms(ms), shown(percent, 1))
}

/// Names in backticks with commas between; at most `most`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let mut text = names.iter().take(most).map(|n| quoted(&short(n))).collect::<Vec<_>>().join(", ");
    if names.len() > most {
        text += &format!(" and {} more", names.len() - most);
    }
    text
}

/// A name cut to what a line can bear.
pub(crate) fn short(name: &str) -> String {
    const LONGEST: usize = 80;
    shortened(name, LONGEST, "..").into_owned()
}

/// Bytes in the largest binary unit that leaves at least one.
pub(crate) fn bytes(count: i64) -> String {
    let units = [(1i64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|u| count >= u.0) {
        Some((size, unit)) => format!("{} {unit}", shown(count as f64 / size as f64, 1)),
        None => format!("{count} bytes"),
    }
}
