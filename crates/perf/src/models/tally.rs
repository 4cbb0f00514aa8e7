//! A model whose cost is worked out while its arguments are read: for the families whose formula is a short sum.

use crate::args::Args;
use crate::count::Count;
use crate::dtype;
use crate::models::{Cost, ModelError, Params, PerfModel, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// A finished cost with its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) params: Params,
    pub(crate) cost: Cost,
    pub(crate) backward: Option<Cost>,
    pub(crate) link_bytes: Option<f64>,
    pub(crate) torch_flops: Option<f64>,
}

impl Tally {
    /// A cost without anything special about it.
    pub(crate) fn new(params: Params, cost: Cost) -> Self {
        Self { params, cost, backward: None, link_bytes: None, torch_flops: None }
    }

    /// Work of the vector lanes on elements of type `name`.
    pub(crate) fn vector(params: Params, flops: Count, bytes: Option<Count>, name: &str, quirks: &Quirks) -> Self {
        let precision = dtype::vector_precision(name, quirks);
        Self::new(params, Cost::vector(flops.to_f64(), bytes.map(Count::to_f64), precision))
    }

    /// The tally as a reader returns it.
    #[expect(clippy::unnecessary_wraps, reason = "the last expression of readers that can fail")]
    pub(crate) fn boxed(self) -> Read {
        Ok(Box::new(self))
    }
}

impl PerfModel for Tally {
    fn into_params(self: Box<Self>) -> Params {
        self.params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        Ok(self.cost.clone())
    }

    fn backward(&self) -> Result<Cost, ModelError> {
        self.backward.clone().ok_or(ModelError::Drop)
    }

    fn link_bytes(&self) -> Option<f64> {
        self.link_bytes
    }

    fn torch_flops(&self) -> Option<f64> {
        self.torch_flops
    }
}

/// A sum of traffic in which one unknown type makes the whole unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(Option<Count>);

impl Bytes {
    /// No traffic yet.
    pub(crate) fn new() -> Self {
        Self(Some(Count::ZERO))
    }

    /// Adds `elements` of `size` bytes each.
    #[must_use]
    pub(crate) fn and(self, elements: Count, size: Option<i64>) -> Self {
        Self(self.0.zip(size).map(|(sum, size)| sum + elements * size))
    }

    /// Adds the reading of the tensor in `slot`: what memory holds of it, in its own type. What is expanded is read once.
    pub(crate) fn and_read(self, args: Args<'_>, slot: usize, quirks: &Quirks) -> Result<Self, ModelError> {
        self.and_reads(1, args, slot, quirks)
    }

    /// Adds as many readings of the tensor in `slot`.
    pub(crate) fn and_reads(
        self,
        times: i64,
        args: Args<'_>,
        slot: usize,
        quirks: &Quirks,
    ) -> Result<Self, ModelError> {
        Ok(self.and(times * args.read_numel(slot, quirks)?, args.size(slot, quirks)?))
    }

    /// The sum.
    pub(crate) fn total(self) -> Option<Count> {
        self.0
    }
}

/// A pair of input and output type, the output's `None` if it is not in the trace.
pub(crate) fn in_out(input: &str, output: Option<&str>) -> Value {
    Value::Tuple(vec![input.into(), output.into()])
}
