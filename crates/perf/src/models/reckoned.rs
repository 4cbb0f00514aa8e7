//! The plainest model: a reader that has worked the cost out already hands it over in this. With it, the few ways of
//! reading a call that only the families of fused operations need.

use crate::args::{self, Args};
use crate::call::OpCall;
use crate::count::Count;
use crate::models::{ComputeUnit, Cost, ModelError, Params, PerfModel};
use crate::parity::Quirks;
use crate::value::Value;

/// Parameters and cost, as they are.
#[derive(Debug)]
pub(crate) struct Reckoned {
    pub(crate) params: Vec<(&'static str, Value)>,
    pub(crate) cost: Cost,
    /// Cost of the backward work, where it has a formula.
    pub(crate) backward: Option<Cost>,
}

impl Reckoned {
    /// A forward-only model.
    pub(crate) fn boxed(params: Vec<(&'static str, Value)>, cost: Cost) -> Box<dyn PerfModel> {
        Box::new(Self { params, cost, backward: None })
    }
}

impl PerfModel for Reckoned {
    fn into_params(self: Box<Self>) -> Params {
        self.params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        Ok(self.cost.clone())
    }

    fn backward(&self) -> Result<Cost, ModelError> {
        self.backward.clone().ok_or(ModelError::Drop)
    }
}

/// A cost made of whole-number counts.
pub(crate) fn cost(flops: Count, bytes: Option<Count>, unit: ComputeUnit, precision: Option<&'static str>) -> Cost {
    Cost { flops: Some(flops.to_f64()), bytes: bytes.map(Count::to_f64), unit, precision: precision.map(Into::into) }
}

/// A further argument of a call, by name.
pub(crate) fn extra<'a>(call: &OpCall<'a>, name: &str) -> Option<&'a Value> {
    call.extra.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// A further argument as a whole number.
pub(crate) fn extra_int(call: &OpCall<'_>, name: &str) -> Option<i64> {
    match extra(call, name)? {
        Value::Int(i) => Some(*i),
        Value::Float(x) => Some(*x as i64),
        Value::Str(text) => args::int(text),
        _ => None,
    }
}

/// The model's parameter for the strides of input `i`, which the reference insists on and nobody else needs.
pub(crate) fn stride_param(args: Args<'_>, i: usize, quirks: &Quirks) -> Result<Value, ModelError> {
    if quirks.missing_strides_fail { args.stride_param(i) } else { Ok(args.stride_param(i).unwrap_or(Value::None)) }
}
