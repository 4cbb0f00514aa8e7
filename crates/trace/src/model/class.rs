//! Event layouts. A trace has some hundred of them (same phase, category, track and argument keys), so what is the
//! same for all their events is stored once and an event keeps only what varies.

use super::ids::{StrId, TrackId};
use super::values::{Field, WORD};

/// What an event is, from its phase and category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// `cpu_op`: an operation of the framework.
    CpuOp,
    /// `python_function`: a Python frame or `nn.Module` call.
    PythonFunction,
    /// `cuda_runtime` (also on ROCm).
    Runtime,
    /// `cuda_driver`.
    Driver,
    /// `kernel`.
    Kernel,
    /// `gpu_memcpy`.
    GpuMemcpy,
    /// `gpu_memset`.
    GpuMemset,
    /// `user_annotation` on the host.
    UserAnnotation,
    /// `gpu_user_annotation`.
    GpuUserAnnotation,
    /// Start of a host → GPU flow (`ac2g`, `s`).
    LaunchFlowStart,
    /// End of a host → GPU flow (`ac2g`, `f`).
    LaunchFlowEnd,
    /// Start of a forward → backward flow (`fwdbwd`, `s`).
    BackwardFlowStart,
    /// End of a forward → backward flow (`fwdbwd`, `f`).
    BackwardFlowEnd,
    /// `M`: names of processes and threads.
    Metadata,
    /// Any other complete event.
    Other,
    /// An element that carries no work: instants, counters, other flows, damaged elements.
    Inert,
}

impl EventKind {
    /// Kernels, copies and fills.
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::Kernel | Self::GpuMemcpy | Self::GpuMemset)
    }

    /// Calls of the GPU runtime or driver.
    pub fn is_runtime(self) -> bool {
        matches!(self, Self::Runtime | Self::Driver)
    }

    /// Host or GPU annotation spans.
    pub fn is_annotation(self) -> bool {
        matches!(self, Self::UserAnnotation | Self::GpuUserAnnotation)
    }

    /// From the phase letter and the category text.
    pub(crate) fn classify(phase: u8, category: &str) -> Self {
        match (phase, category) {
            (b'X', "cpu_op") => Self::CpuOp,
            (b'X', "python_function") => Self::PythonFunction,
            (b'X', "cuda_runtime") => Self::Runtime,
            (b'X', "cuda_driver") => Self::Driver,
            (b'X', "kernel") => Self::Kernel,
            (b'X', "gpu_memcpy") => Self::GpuMemcpy,
            (b'X', "gpu_memset") => Self::GpuMemset,
            (b'X', "user_annotation") => Self::UserAnnotation,
            (b'X', "gpu_user_annotation") => Self::GpuUserAnnotation,
            (b's', "ac2g") => Self::LaunchFlowStart,
            (b'f', "ac2g") => Self::LaunchFlowEnd,
            (b's', "fwdbwd") => Self::BackwardFlowStart,
            (b'f', "fwdbwd") => Self::BackwardFlowEnd,
            (b'M', _) => Self::Metadata,
            (b'X', _) => Self::Other,
            _ => Self::Inert,
        }
    }
}

/// Arguments that are looked up so often that each layout knows where it keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Key {
    /// `External id`.
    ExternalId,
    /// `correlation`.
    Correlation,
    /// `Sequence number`.
    SequenceNumber,
    /// `Fwd thread id`.
    ForwardThread,
    /// `stream`.
    Stream,
    /// `device`.
    Device,
    /// `Python id`.
    PythonId,
    /// `Python parent id`.
    PythonParentId,
    /// `Input Dims`.
    InputDims,
    /// `Input type`.
    InputType,
    /// `Input Strides`.
    InputStrides,
    /// `Concrete Inputs`.
    ConcreteInputs,
    /// `id` of a flow, beside the arguments.
    FlowId,
}

impl Key {
    /// All keys with their text and whether they stand in `args` or beside it. The order is that of the enum.
    pub const ALL: [(Self, &'static str, Place); 13] = [
        (Self::ExternalId, "External id", Place::Args),
        (Self::Correlation, "correlation", Place::Args),
        (Self::SequenceNumber, "Sequence number", Place::Args),
        (Self::ForwardThread, "Fwd thread id", Place::Args),
        (Self::Stream, "stream", Place::Args),
        (Self::Device, "device", Place::Args),
        (Self::PythonId, "Python id", Place::Args),
        (Self::PythonParentId, "Python parent id", Place::Args),
        (Self::InputDims, "Input Dims", Place::Args),
        (Self::InputType, "Input type", Place::Args),
        (Self::InputStrides, "Input Strides", Place::Args),
        (Self::ConcreteInputs, "Concrete Inputs", Place::Args),
        (Self::FlowId, "id", Place::Event),
    ];
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In `args`.
    Args,
    /// Beside `args`, in the event itself.
    Event,
}

/// How a value is stored. The first five take one word of the event's values, the others none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Store {
    /// A whole number of 32 bits, in the word itself.
    Small,
    /// Any other whole number of 64 bits, by position in `wide`.
    Wide,
    /// By position in `floats`.
    Float,
    /// Text, by its handle.
    Text,
    /// A list or object, as its JSON text, by its handle.
    Json,
    /// `true`.
    True,
    /// `false`.
    False,
    /// `null`.
    Null,
}

impl Store {
    pub(crate) fn words(self) -> u16 {
        u16::from(matches!(self, Self::Small | Self::Wide | Self::Float | Self::Text | Self::Json))
    }
}

/// One argument of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) key: StrId,
    pub(crate) place: Place,
    pub(crate) store: Store,
}

/// What makes a layout: events with equal `Layout` share a class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub(crate) phase: u8,
    /// `None` where the event has no category.
    pub(crate) category: Option<StrId>,
    pub(crate) track: TrackId,
    pub(crate) slots: Vec<Slot>,
}

const NO_SLOT: u16 = u16::MAX;

/// A layout with what is derived from it.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) layout: Layout,
    pub(crate) kind: EventKind,
    /// Where the value of each slot is stored; nowhere for those that take no word.
    pub(crate) fields: Vec<Field>,
    hot: [u16; Key::ALL.len()],
}

impl Class {
    /// `text_of` resolves the handles in the layout.
    pub(crate) fn new<'a>(layout: Layout, text_of: impl Fn(StrId) -> &'a str) -> Self {
        let kind = EventKind::classify(layout.phase, layout.category.map_or("", &text_of));
        let mut hot = [NO_SLOT; Key::ALL.len()];
        let mut fields = Vec::with_capacity(layout.slots.len());
        let mut offset = 0u16;
        for (i, slot) in layout.slots.iter().enumerate() {
            fields.push(Field::word(offset));
            offset = offset.saturating_add(slot.store.words() * WORD as u16);
            let text = text_of(slot.key);
            if let Some((key, ..)) = Key::ALL.iter().find(|(_, t, place)| *t == text && *place == slot.place) {
                hot[*key as usize] = i as u16;
            }
        }
        Self { layout, kind, fields, hot }
    }

    #[inline]
    pub(crate) fn slot_of(&self, key: Key) -> Option<usize> {
        let i = self.hot[key as usize];
        (i != NO_SLOT).then_some(i as usize)
    }
}
