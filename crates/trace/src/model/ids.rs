//! Handles and units. A bare integer never stands for an event, a text or a time.

use std::fmt;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// Position in its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

handle! {
    /// An event, by its position among all elements of `traceEvents`: the UID of reports and `jarvis tree`.
    EventId
}
handle! {
    /// A distinct text of the trace.
    StrId
}
handle! {
    /// A distinct (pid, tid).
    TrackId
}
handle! {
    /// A distinct event layout: phase, category, track and argument keys.
    ClassId
}

impl EventId {
    /// The event with this UID. Whether it exists is for the trace to say ([`crate::Trace::event`]).
    pub fn from_uid(uid: u32) -> Self {
        Self(uid)
    }

    /// The UID.
    pub fn uid(self) -> u32 {
        self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whole nanoseconds, read from the decimal text of the trace and never through a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ns(pub i64);

/// Largest integer below which every integer is exact as a float.
const EXACT_F64: i64 = 1 << 53;

impl Ns {
    /// Microseconds, correctly rounded: what parsing the trace's own decimal text gives.
    pub fn as_us(self) -> f64 {
        if self.0.abs() <= EXACT_F64 {
            self.0 as f64 / 1e3
        } else {
            // Two roundings could go astray here, so let the decimal text be rounded once.
            let sign = if self.0 < 0 { "-" } else { "" };
            let magnitude = self.0.unsigned_abs();
            format!("{sign}{}.{:03}", magnitude / 1000, magnitude % 1000).parse().unwrap_or(self.0 as f64 / 1e3)
        }
    }

    /// Milliseconds.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl std::ops::Add for Ns {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::Sub for Ns {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Ns {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), |a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_those_of_the_decimal_text() {
        for (ns, text) in [
            (6_869_181_218_039_954, "6869181218039.954"),
            (1_700_000_000_000_000_123, "1700000000000000.123"),
            (-500, "-0.5"),
            (i64::MAX, "9223372036854775.807"),
        ] {
            assert_eq!(Ns(ns).as_us().to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
        }
    }
}
