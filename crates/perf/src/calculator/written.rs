//! A call written out as a trace would hold it, for the model of its operation.

use crate::calculator::keys::{Given, Type};
use crate::calculator::{CalculatorError, Outcome, failed};
use crate::call::{Dims, InputLists, OpCall};
use crate::models::evaluate;
use crate::parity::Quirks;

/// A call as a trace would hold it.
pub(super) struct Written {
    op: &'static str,
    dims: Vec<Dims>,
    types: Vec<String>,
    concrete: Vec<String>,
}

impl Written {
    pub(super) fn new(op: &'static str) -> Self {
        Self { op, dims: Vec::new(), types: Vec::new(), concrete: Vec::new() }
    }

    fn slot(mut self, dims: &[i64], dtype: &str, text: &str) -> Self {
        self.dims.push(Dims::Shape(dims.to_vec()));
        self.types.push(dtype.to_owned());
        self.concrete.push(text.to_owned());
        self
    }

    pub(super) fn tensor(self, dims: &[i64], dtype: &str) -> Self {
        self.slot(dims, dtype, "")
    }

    /// A tensor, or the slot of an absent one.
    pub(super) fn tensor_if(self, given: bool, dims: &[i64], dtype: &Type) -> Self {
        if given { self.tensor(dims, &dtype.name) } else { self.slot(&[], "", "") }
    }

    pub(super) fn scalar(self, text: &str) -> Self {
        self.slot(&[], "Scalar", text)
    }

    pub(super) fn scalars(self, values: &[i64]) -> Self {
        values.iter().fold(self, |call, value| call.scalar(&value.to_string()))
    }

    pub(super) fn ask(self, given: &Given<'_>) -> Result<Outcome, CalculatorError> {
        let inputs = InputLists {
            dims: Some(self.dims.into()),
            types: Some(self.types.into()),
            strides: None,
            concrete: Some(self.concrete.into()),
        };
        let call = OpCall {
            name: self.op,
            inputs: &inputs,
            kernels: &[],
            launches: &[],
            sequence: None,
            annotation: None,
            extra: &[],
            forward: None,
        };
        evaluate(&call, &Quirks::NONE).cost.map(Outcome::new).map_err(|error| failed(given.model, &error))
    }
}
