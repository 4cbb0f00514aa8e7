//! A recorded trace as columns with typed handles. Immutable once built; knows no operation and no GPU.

mod class;
mod ids;
mod strings;
mod trace;
mod values;

pub(crate) use class::{Class, Layout, Slot, Store};
pub use class::{EventKind, Key, Place};
pub use ids::{ClassId, EventId, Ns, StrId, TrackId};
pub use strings::Strings;
pub use trace::{Arg, Facts, Id, Trace, Track};
pub(crate) use trace::{Columns, MISSING_TIME};
