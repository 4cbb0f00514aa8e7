//! What is said of operations that cannot be replayed. The sentences are those of the format.

/// Collectives.
pub(crate) const COLLECTIVE: &str = "Collective communication needs several ranks; not packaged.";
/// Generated kernels.
pub(crate) const GENERATED: &str = "Generated kernel; keep the compile cache.";
/// Kernels of a GPU graph.
pub(crate) const GRAPH: &str = "Kernels ran from a GPU graph; no operation was recorded.";
/// Kernels whose operation is unknown.
pub(crate) const NOT_RECORDED: &str = "No operation was recorded for this kernel.";
/// Traces without shapes.
pub(crate) const NO_SHAPES: &str = "Trace was recorded without shapes; re-profile with record_shapes.";
/// Lists of index tensors.
pub(crate) const INDEX_LIST: &str = "Index tensors are not recorded.";
/// Long lists.
pub(crate) const UNKNOWN_LIST: &str = "Tensor list without recorded shapes.";
/// Copies between host and device.
pub(crate) const TRANSFER: &str = "Host transfer, not a GPU kernel.";
/// Other layouts than strided.
pub(crate) const LAYOUT: &str = "Tensor layout not recorded.";
/// Calls on empty tensors.
pub(crate) const NOTHING: &str = "nothing to compute";
/// Names that are none of the dispatcher's.
pub(crate) const NO_OPERATION: &str =
    "Not a dispatcher operation, and no single operation below it has the same kernels.";
/// Results of unknown size.
pub(crate) const DATA_DEPENDENT: &str = "output size depends on values";

const UNKNOWN_TYPE: &str = "unknown element type ";

/// An element type that is not known.
pub(crate) fn unknown_type(kind: &str) -> String {
    format!("{UNKNOWN_TYPE}{kind}")
}

/// A reason within a report, where a text of the trace is data.
pub(crate) fn in_report(reason: &str) -> String {
    match reason.strip_prefix(UNKNOWN_TYPE) {
        Some(kind) => format!("{UNKNOWN_TYPE}`{}`", kind.replace('`', "'")),
        None => reason.to_owned(),
    }
}

/// A text of the trace as data in a sentence: on one line, between backticks.
pub(crate) fn quoted(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("`{}`", plain.replace('`', "'"))
}

/// An index argument without a rule.
pub(crate) fn unsafe_index(name: &str) -> String {
    format!("Index argument {name}: no safe values known.")
}

/// An argument that was not recorded in full.
pub(crate) fn opaque(name: &str, kind: &str) -> String {
    format!("Argument {name} of type {kind} cannot be rebuilt.")
}

/// A written argument whose elements share memory.
pub(crate) fn overlapping(name: &str) -> String {
    format!("Argument {name} is written to and its elements overlap.")
}

/// A call that no known overload takes.
pub(crate) fn no_overload(op: &str) -> String {
    format!("The recorded inputs fit no overload of {op}.")
}

/// A kernel that stands for itself.
pub(crate) fn synthetic(parent: &str) -> String {
    format!("Kernel without its own operation; package the parent `{parent}` instead.")
}
