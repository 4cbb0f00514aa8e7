//! Makes PyTorch profiler traces of any size: the steps of a transformer's training, as Kineto writes them on an H200.
//!
//! Shapes of events, their mix and their nesting follow real traces, so that what is measured on a generated file holds
//! for real ones. Same seed, size and layout give the same bytes. Memory does not grow with the size.
//!
//! Parts, from the top: `plan` chooses how many layers and steps reach a size; `step`, `model`, `attention`, `experts`,
//! `ops`, `collectives` build one step with the help of `builder`, `kernels`, `python` and `names`; `draw`, `document`
//! and `layout` know how events look; `timeline` gives times; `writer` puts the file together.

mod attention;
mod builder;
mod collectives;
pub(crate) mod command;
mod document;
mod draw;
mod experts;
mod kernels;
mod layout;
mod memory;
mod model;
mod names;
mod ops;
mod plan;
mod python;
mod random;
mod step;
mod template;
mod tensor;
mod timeline;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use layout::Layout;
pub(crate) use plan::{Options, VERSION};
use plan::{Summary, write_trace};
