//! Kernels by operation, as JSON: two spaces a level, texts as they are.

use std::sync::Arc;

use jarvis_analyze::compare::tree::op_map::{OpEntry, OpKernels, OpWork};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// The kernels of each operation of a trace.
pub fn of_trace(ops: &OpKernels) -> Vec<u8> {
    pretty(&Kernels(ops))
}

/// The operations of both traces; of identical ones there is no level for the traces.
pub fn of_both(entries: &[OpEntry], identical: bool) -> Vec<u8> {
    pretty(&Entries(entries, identical))
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    // Keys are texts and memory does not fail, so neither does this.
    serde_json::to_vec_pretty(value).unwrap_or_default()
}

struct Kernels<'a>(&'a OpKernels);

impl Serialize for Kernels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (op, kernels) in self.0 {
            map.serialize_entry(&**op, kernels)?;
        }
        map.end()
    }
}

struct Entries<'a>(&'a [OpEntry], bool);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for entry in self.0 {
            match &entry.work[0] {
                Some(work) if self.1 => map.serialize_entry(&*entry.name, &Work::of(work))?,
                _ => map.serialize_entry(&*entry.name, &Traces(entry))?,
            }
        }
        map.end()
    }
}

struct Traces<'a>(&'a OpEntry);

impl Serialize for Traces<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, work) in ["trace1", "trace2"].iter().zip(&self.0.work) {
            if let Some(work) = work {
                map.serialize_entry(name, &Work::of(work))?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Work<'a> {
    kernels: &'a [Arc<str>],
    nn_module_parents: &'a [Arc<str>],
}

impl<'a> Work<'a> {
    fn of(work: &'a OpWork) -> Self {
        Self { kernels: &work.kernels, nn_module_parents: &work.nn_module_parents }
    }
}
