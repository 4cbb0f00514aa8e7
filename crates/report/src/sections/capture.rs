//! What the recording left out, and how to record it.

use jarvis_analyze::prepare::warnings::{NO_OPERATIONS, NO_SHAPES, NO_STACK, NO_STEP};

use crate::Run;
use crate::sections::kernels::{launched_without_operation, share};
use crate::sections::words::{counted, pct};

/// Something the recording left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaptureNote {
    /// What to change, with what it adds, in one sentence.
    pub short: String,
    /// What is missing and what follows from it.
    pub detail: String,
}

/// What the recording left out, the most important first.
pub(crate) fn notes(run: &Run<'_>) -> Vec<CaptureNote> {
    let p = &run.analysis.prepared;
    let (shaped, ops) = run.summary.shaped_ops;
    let mut notes = Vec::new();
    let mut add = |short: &str, detail: String| notes.push(CaptureNote { short: short.to_owned(), detail });
    if let Some(k) = run.analysis.system.as_ref().map(|s| &s.kernels).filter(|k| k.graph_replays > 0) {
        let (events, replays) = (counted(k.replayed, "GPU event"), counted(k.graph_replays, "GPU graph replay"));
        add(
            &format!(
                "{events} of {replays} show only kernel names and times; profile one step without GPU graphs to see \
                 operations, shapes and modules."
            ),
            "What runs inside a graph has no operation, shape or module, so its efficiency is not known and no replay \
             package can be made of it."
                .to_owned(),
        );
    } else if ops == 0 {
        add(
            "record the host too (`activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`); without operations only \
             kernel names and times are known.",
            "The trace holds no host operations: kernels can't be assigned to operations, so there are no efficiencies, \
             no patterns and no replay packages."
                .to_owned(),
        );
    } else if let Some(percent) = share(&launched_without_operation(run)) {
        add(
            "start the profiler before the work is launched; kernels launched earlier belong to no operation.",
            format!("{}% of kernel time has no recorded operation and is in no category.", pct(percent)),
        );
    }
    if ops > 0 && !p.record_shapes {
        add(
            "record with `record_shapes=True`; this adds efficiencies, shape patterns and replay packages.",
            format!(
                "{shaped} of {} have shapes: no efficiency can be computed for them.",
                counted(ops as usize, "operation")
            ),
        );
    }
    if shaped > 0 && !p.has_types {
        add(
            "record with a newer PyTorch, which tells the types of inputs; this adds bytes, precisions and efficiencies.",
            "Shapes are recorded without the types of the inputs: neither bytes nor precisions are known, so few \
             operations have an efficiency."
                .to_owned(),
        );
    }
    if shaped > 0 && !p.has_strides {
        add(
            "record with a newer PyTorch, which tells the strides of inputs; this adds layouts, transposed operands and \
             expanded tensors.",
            "Shapes are recorded without strides: tensors count as contiguous, so layouts and transposed operands are \
             not seen and expanded tensors count in full."
                .to_owned(),
        );
    }
    if ops > 0 && !p.program.has_frames {
        add(
            "record with `with_stack=True` (and `with_modules=True`); this adds modules, source lines and patterns \
             that span a module.",
            "The trace holds no Python frames: operations can't be assigned to modules or lines of code, and fusion \
             candidates are found by their order alone."
                .to_owned(),
        );
    }
    if p.program.steps == 0 {
        add(
            "call `profiler.step()` once per iteration; this separates waits within a step from those between steps.",
            "The trace marks no profiler step: all times are of the whole window, warm-up included.".to_owned(),
        );
    }
    notes
}

/// Whether a warning of the analysis says what these notes say.
pub(crate) fn is_about_capture(run: &Run<'_>, warning: &str) -> bool {
    let graphs = run.analysis.system.as_ref().and_then(|s| s.kernels.graph_note());
    [NO_OPERATIONS, NO_STACK, NO_SHAPES, NO_STEP].contains(&warning) || graphs.is_some_and(|g| g == warning)
}
