//! The two arithmetics of time. Whole nanoseconds decide where events belong; the float microseconds of the reference
//! are kept beside them because its rounding shows in the numbers it reports.

use std::cmp::Ordering;
use std::ops::{Add, Sub};

use crate::interval::Time;
use crate::model::{EventId, Ns, Trace};

/// Microseconds as the reference computes them: `ts` and `dur` parsed to the nearest float, `end = ts + dur` rounded
/// once, and every length the difference of two such times, never `dur` itself.
///
/// ```
/// use jarvis_trace::{Clock, Ns, Us};
/// let (start, end) = Us::span(Ns(6_869_181_218_039_954), Ns(6_239));
/// assert_eq!((end - start).0, 6.239_257_812_5);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Us(pub f64);

impl PartialEq for Us {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Us {}

impl PartialOrd for Us {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Us {
    fn cmp(&self, other: &Self) -> Ordering {
        // Zero has one sign here; the rest is the total order.
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

impl Add for Us {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Us {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Time for Us {
    const ZERO: Self = Self(0.0);
}

impl Time for Ns {
    const ZERO: Self = Self(0);
}

/// A unit of time that events can be measured in.
pub trait Clock: Time {
    /// One microsecond.
    const MICROSECOND: Self;

    /// From the time as recorded.
    fn of(time: Ns) -> Self;

    /// As milliseconds, for tables.
    fn ms(self) -> f64;

    /// As microseconds.
    fn us(self) -> f64;

    /// Start and end.
    fn span(ts: Ns, dur: Ns) -> (Self, Self) {
        let start = Self::of(ts);
        (start, start + Self::of(dur))
    }

    /// Start and end of an event; one without a duration has no length. `None` if it has no start.
    fn span_of(trace: &Trace, event: EventId) -> Option<(Self, Self)> {
        Some(Self::span(trace.ts(event)?, trace.dur(event).unwrap_or_default()))
    }
}

impl Clock for Us {
    const MICROSECOND: Self = Self(1.0);

    fn of(time: Ns) -> Self {
        Self(time.as_us())
    }

    fn ms(self) -> f64 {
        self.0 / 1e3
    }

    fn us(self) -> f64 {
        self.0
    }
}

impl Clock for Ns {
    const MICROSECOND: Self = Self(1000);

    fn of(time: Ns) -> Self {
        time
    }

    fn ms(self) -> f64 {
        self.as_ms()
    }

    fn us(self) -> f64 {
        self.as_us()
    }
}
