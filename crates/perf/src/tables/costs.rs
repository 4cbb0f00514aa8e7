//! Costs of calls. A model runs once for all calls that it could not tell apart.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use jarvis_trace::tree::Annotations;
use jarvis_trace::{Arg, EventId, EventKind, Key, StrId, Trace, Tree};
use rapidhash::RapidHashMap;

use super::context::RowName;
use super::inputs::{Inputs, InputsId};
use super::options::ReportOptions;
use super::texts::{TextId, Texts};
use crate::call::{Dims, InputLists, OpCall, SIBLING_DTYPE};
use crate::extension::{Extension, ExtensionOp};
use crate::launch::Launch;
use crate::models::annotation::{Report, wants_annotation};
use crate::models::{self, ComputeUnit, Cost, ModelError};
use crate::ops::{self, ModelSource, OpEntry};
use crate::parity::Quirks;
use crate::platform::Platform;
use crate::roofline::Roofline;
use crate::value::Value;
use crate::{dtype, kernels, launch};

/// Backward operations whose sizes stand in their forward call, and the name of that.
const SIZED_BY_FORWARD: &[(&str, &str)] =
    &[("ConvBias_Backward", "ConvBias_"), ("ConvBiasReLU_Backward", "ConvBiasReLU_")];

/// Most neighbours that are asked for the type of a tensor list.
const MOST_SIBLINGS: usize = 64;

/// Which work of a call is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pass {
    /// The call itself.
    Forward,
    /// The backward work that it caused.
    Backward,
}

/// A call to be costed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'k> {
    pub(crate) event: EventId,
    pub(crate) name: RowName,
    pub(crate) inputs: InputsId,
    /// GPU events below the call in order of start.
    pub(crate) kernels: &'k [EventId],
    pub(crate) pass: Pass,
}

/// Handle of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CostId(u32);

/// Costs that stand in one row of a sheet: their parameters read the same, and so do their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ParamsId(u32);

/// What a model says of a call.
#[derive(Debug, Clone)]
pub(crate) struct Costed {
    pub(crate) cost: Result<Cost, ModelError>,
    pub(crate) params: Arc<[(Cow<'static, str>, Value)]>,
    pub(crate) params_id: ParamsId,
    pub(crate) source: Option<ModelSource>,
    /// The best the platform could do.
    pub(crate) roofline: Option<Roofline>,
    pub(crate) link_bytes: Option<f64>,
    pub(crate) torch_flops: Option<f64>,
}

/// Everything that a model can see of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CostKey {
    name: RowName,
    inputs: InputsId,
    kernels: u32,
    pass: Pass,
    annotation: Option<StrId>,
    forward: Option<InputsId>,
    sibling: Option<TextId>,
    /// Launches of the kernels, where they stand in for sizes that the trace lacks.
    launches: Option<u32>,
}

/// What the names of a call's kernels tell.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// The element size of the tensors.
    element_size: bool,
    /// With the launches, how many elements there are.
    elements: bool,
}

/// How a name leads to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It does not.
    None,
    /// By the name, whatever the arguments.
    Name,
    /// By the name, if the arguments can be read.
    Readable,
}

/// All costs worked out so far.
pub(crate) struct Costs<'a> {
    trace: &'a Trace,
    tree: &'a Tree,
    extension: Option<&'a Extension>,
    platform: Option<&'a Platform>,
    quirks: Quirks,
    list: Vec<Costed>,
    index: RapidHashMap<CostKey, CostId>,
    kernel_lists: RapidHashMap<Box<[StrId]>, u32>,
    kernel_names: Vec<StrId>,
    told: Vec<Option<Told>>,
    launch_lists: RapidHashMap<Box<[Option<Launch>]>, u32>,
    params: RapidHashMap<Box<str>, ParamsId>,
    /// By name of the operation.
    claims: Vec<Option<Claim>>,
    /// Of the rows that stand for one kernel.
    synthetic_claims: RapidHashMap<RowName, Claim>,
    /// By name: whether it is one of an operation that works on whole steps.
    annotated: Vec<Option<bool>>,
    readable: RapidHashMap<(RowName, InputsId), bool>,
    annotations: Option<Annotations>,
    siblings: RapidHashMap<EventId, Option<TextId>>,
    by_sequence: Option<RapidHashMap<(StrId, i64), EventId>>,
}

impl<'a> Costs<'a> {
    pub(crate) fn new(trace: &'a Trace, tree: &'a Tree, options: &'a ReportOptions) -> Self {
        Self {
            trace,
            tree,
            extension: options.extension.as_ref(),
            platform: options.platform.as_ref(),
            quirks: options.quirks(),
            list: Vec::new(),
            index: RapidHashMap::default(),
            kernel_lists: RapidHashMap::default(),
            kernel_names: Vec::new(),
            told: Vec::new(),
            launch_lists: RapidHashMap::default(),
            params: RapidHashMap::default(),
            claims: vec![None; trace.strings().len()],
            synthetic_claims: RapidHashMap::default(),
            annotated: vec![None; trace.strings().len()],
            readable: RapidHashMap::default(),
            annotations: None,
            siblings: RapidHashMap::default(),
            by_sequence: None,
        }
    }

    pub(crate) fn get(&self, id: CostId) -> &Costed {
        &self.list[id.0 as usize]
    }

    /// Whether a model claims the calls of an event under this name.
    pub(crate) fn has_model(
        &mut self,
        event: EventId,
        name: RowName,
        inputs: &mut Inputs<'a>,
        texts: &mut Texts<'a>,
    ) -> bool {
        match self.claim(name) {
            Claim::None => false,
            Claim::Name => true,
            Claim::Readable => {
                let id = inputs.of(event, texts);
                if let Some(&readable) = self.readable.get(&(name, id)) {
                    return readable;
                }
                let text = name.text(self.trace);
                let call = bare_call(&text, inputs.parsed(id));
                let readable = models::has_model(&call, &self.quirks);
                self.readable.insert((name, id), readable);
                readable
            }
        }
    }

    fn claim(&mut self, name: RowName) -> Claim {
        let known = match name.kernel {
            None => self.claims[name.op.index()],
            Some(_) => self.synthetic_claims.get(&name).copied(),
        };
        if let Some(claim) = known {
            return claim;
        }
        let text = name.text(self.trace);
        let claim = if self.extension.and_then(|x| x.get(&text)).is_some_and(ExtensionOp::has_model) {
            Claim::Name
        } else if models::has_model(&bare_call(&text, &InputLists::default()), &self.quirks) {
            // Claimed without any argument: by the name alone.
            Claim::Name
        } else if ops::find(&text).or_else(|| ops::find_prefix(&text)).is_some_and(|entry| self.knows(entry)) {
            Claim::Readable
        } else {
            Claim::None
        };
        match name.kernel {
            None => self.claims[name.op.index()] = Some(claim),
            Some(_) => _ = self.synthetic_claims.insert(name, claim),
        }
        claim
    }

    fn knows(&self, entry: &OpEntry) -> bool {
        entry.reader.is_some() && !(self.quirks.reference_models_only && entry.source == ModelSource::Extended)
    }

    /// Whether some calls under this name may have a model.
    pub(crate) fn may_have_model(&mut self, name: RowName) -> bool {
        self.claim(name) != Claim::None
    }

    /// Category of the backward work that an operation causes, where its model has a formula for it.
    pub(crate) fn backward_category(&self, name: RowName) -> Option<&'a str> {
        let text = name.text(self.trace);
        let own = self.extension.and_then(|x| x.get(&text)).and_then(|op| op.bwd_category.as_deref());
        own.or_else(|| ops::find(&text)?.backward_category)
    }

    /// Cost of a call.
    pub(crate) fn of(&mut self, call: &Call<'_>, inputs: &mut Inputs<'a>, texts: &mut Texts<'a>) -> CostId {
        let kernels = self.kernel_list(call.kernels);
        let key = CostKey {
            name: call.name,
            inputs: call.inputs,
            kernels,
            pass: call.pass,
            annotation: self.annotation(call),
            forward: self.forward_inputs(call, inputs, texts),
            sibling: self.sibling_dtype(call, kernels, inputs, texts),
            launches: self.launch_list(call, kernels, inputs),
        };
        if let Some(&id) = self.index.get(&key) {
            return id;
        }
        let costed = self.work_out(call, &key, inputs, texts);
        let id = CostId(self.list.len() as u32);
        self.list.push(costed);
        self.index.insert(key, id);
        id
    }

    fn kernel_list(&mut self, kernels: &[EventId]) -> u32 {
        self.kernel_names.clear();
        self.kernel_names.extend(kernels.iter().map(|&k| self.trace.name_id(k)));
        let names = self.kernel_names.as_slice();
        if let Some(&known) = self.kernel_lists.get(names) {
            return known;
        }
        let next = self.kernel_lists.len() as u32;
        self.kernel_lists.insert(names.into(), next);
        next
    }

    /// The step around a call of an operation that works on whole steps.
    fn annotation(&mut self, call: &Call<'_>) -> Option<StrId> {
        let op = call.name.op;
        let wanted = || wants_annotation(self.trace.text(op), Report::Standard, &self.quirks);
        if !*self.annotated[op.index()].get_or_insert_with(wanted) {
            return None;
        }
        let annotations = self.annotations.get_or_insert_with(|| Annotations::of(self.trace));
        annotations.outermost(self.trace, call.event).map(|a| self.trace.name_id(a))
    }

    /// Inputs of the forward call of the same sequence number, for the operations that are sized by it.
    fn forward_inputs(&mut self, call: &Call<'_>, inputs: &mut Inputs<'a>, texts: &mut Texts<'a>) -> Option<InputsId> {
        let name = self.trace.text(call.name.op);
        if !name.ends_with("_Backward") {
            return None;
        }
        let forward = SIZED_BY_FORWARD.iter().find(|(backward, _)| *backward == name)?.1;
        let trace = self.trace;
        let by_sequence = self.by_sequence.get_or_insert_with(|| {
            let names: Vec<StrId> = SIZED_BY_FORWARD.iter().filter_map(|(_, f)| trace.strings().find(f)).collect();
            let events = trace.events().filter(|&e| names.contains(&trace.name_id(e)));
            // The first of equal numbers is kept.
            let numbered = events.filter_map(|e| Some(((trace.name_id(e), trace.int(e, Key::SequenceNumber)?), e)));
            let mut index = RapidHashMap::default();
            for (key, e) in numbered {
                index.entry(key).or_insert(e);
            }
            index
        });
        let number = trace.int(call.event, Key::SequenceNumber)?;
        let event = *by_sequence.get(&(trace.strings().find(forward)?, number))?;
        Some(inputs.of(event, texts))
    }

    fn told_by(&mut self, kernels: &[EventId], list: u32) -> Told {
        let list = list as usize;
        if self.told.len() <= list {
            self.told.resize(list + 1, None);
        }
        *self.told[list].get_or_insert_with(|| {
            let names: Vec<&str> = kernels.iter().map(|&k| self.trace.name(k)).collect();
            Told {
                element_size: kernels::list_element_size(&names).is_some(),
                elements: names.iter().any(|name| launch::tells_elements(name)),
            }
        })
    }

    /// Launches of a call's kernels, if the sizes of some tensors are not recorded and these tell them.
    fn launch_list(&mut self, call: &Call<'_>, kernels: u32, inputs: &Inputs<'a>) -> Option<u32> {
        let wanted = !self.quirks.reference_models_only
            && lacks_list(inputs.parsed(call.inputs))
            && self.told_by(call.kernels, kernels).elements;
        if !wanted {
            return None;
        }
        let next = self.launch_lists.len() as u32;
        Some(*self.launch_lists.entry(launches(self.trace, call.kernels).into()).or_insert(next))
    }

    /// Type of the tensors of a neighbouring call, for tensor lists whose kernels do not tell it.
    fn sibling_dtype(
        &mut self,
        call: &Call<'_>,
        kernels: u32,
        inputs: &mut Inputs<'a>,
        texts: &mut Texts<'a>,
    ) -> Option<TextId> {
        let has_list = |lists: &InputLists| {
            lists.dims.as_ref().is_some_and(|dims| dims.iter().any(|d| matches!(d, Dims::List(_))))
        };
        if self.quirks.reference_models_only || !has_list(inputs.parsed(call.inputs)) {
            return None;
        }
        if self.told_by(call.kernels, kernels).element_size {
            return None;
        }
        let trace = self.trace;
        let parent = self.tree.parent(call.event)?;
        if let Some(&known) = self.siblings.get(&parent) {
            return known;
        }
        let neighbours = self.tree.children(parent).filter(|&e| trace.kind(e) == EventKind::CpuOp);
        let found = neighbours.take(MOST_SIBLINGS).find_map(|e| {
            let id = inputs.of(e, texts);
            tensor_dtype(inputs.parsed(id)).map(|dtype| texts.intern(dtype))
        });
        self.siblings.insert(parent, found);
        found
    }

    fn work_out(&mut self, call: &Call<'_>, key: &CostKey, inputs: &Inputs<'_>, texts: &Texts<'_>) -> Costed {
        let names: Vec<&str> = call.kernels.iter().map(|&k| self.trace.name(k)).collect();
        // A kernel that tells by its launch what it did needs no more of its call than the name.
        let stands_for_itself = key.launches.is_some() && call.name.kernel.is_some();
        let name = if stands_for_itself { self.trace.text(call.name.op).into() } else { call.name.text(self.trace) };
        let wanted = wants_annotation(&name, Report::Standard, &self.quirks);
        let sibling = key.sibling.map(|dtype| (SIBLING_DTYPE, texts.str(dtype).into()));
        let extra: Vec<(&str, Value)> = sibling.into_iter().collect();
        let launches = key.launches.map_or_else(Vec::new, |_| launches(self.trace, call.kernels));
        let op_call = OpCall {
            name: &name,
            inputs: inputs.parsed(call.inputs),
            kernels: &names,
            launches: &launches,
            sequence: self.trace.int(call.event, Key::SequenceNumber),
            annotation: wanted.then(|| key.annotation.map_or("NA", |a| self.trace.text(a))),
            extra: &extra,
            forward: key.forward.map(|f| inputs.parsed(f)),
        };
        if call.pass == Pass::Forward
            && let Some(op) = self.extension.and_then(|x| x.get(&name)).filter(|op| op.has_model())
        {
            let (cost, params) = match op.evaluate(&op_call, &self.quirks) {
                Ok(evaluated) => (Ok(evaluated.cost), evaluated.params),
                Err(error) => (Err(error), Vec::new()),
            };
            let params = params.into_iter().map(|(key, value)| (Cow::Owned(key), value)).collect();
            return self.costed(cost, params, Some(ModelSource::Extension));
        }
        let evaluation = match call.pass {
            Pass::Forward => models::evaluate(&op_call, &self.quirks),
            Pass::Backward => models::evaluate_backward(&op_call, &self.quirks),
        };
        let params = evaluation.params.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect();
        let (mut cost, mut source) = (evaluation.cost, evaluation.source);
        if let Ok(cost) = &mut cost
            && !self.quirks.tf32_unseen
            && (cost.unit, cost.precision.as_deref()) == (ComputeUnit::Matrix, Some("fp32"))
            && kernels::uses_tf32(&names)
        {
            cost.precision = Some("tf32".into());
            source = source.map(|_| ModelSource::Extended);
        }
        let mut costed = self.costed(cost, params, source);
        costed.link_bytes = evaluation.link_bytes;
        costed.torch_flops = evaluation.torch_flops;
        costed
    }

    fn costed(
        &mut self,
        cost: Result<Cost, ModelError>,
        params: Vec<(Cow<'static, str>, Value)>,
        source: Option<ModelSource>,
    ) -> Costed {
        let timeless = |p| Roofline::new(cost.as_ref().ok()?, 0.0, p, &self.quirks);
        let roofline = self.platform.and_then(timeless);
        let mut columns = param_columns(&params);
        if let Ok(Cost { flops, bytes, unit, precision }) = &cost
            && !self.quirks.unlike_calls_in_one_row
        {
            // What decides the cost need not be among the parameters.
            let _ = write!(columns, "{flops:?} {bytes:?} {unit:?} {precision:?}");
        }
        let known = self.params.get(columns.as_str()).copied();
        let params_id = known.unwrap_or_else(|| {
            let next = ParamsId(self.params.len() as u32);
            self.params.insert(columns.into(), next);
            next
        });
        Costed { cost, params: params.into(), params_id, source, roofline, link_bytes: None, torch_flops: None }
    }
}

fn bare_call<'c>(name: &'c str, inputs: &'c InputLists) -> OpCall<'c> {
    OpCall { name, inputs, kernels: &[], launches: &[], sequence: None, annotation: None, extra: &[], forward: None }
}

/// Whether a slot may be a tensor list that the trace lacks: those too long for the profiler are recorded as empty,
/// those of optional tensors without a type.
fn lacks_list(lists: &InputLists) -> bool {
    let (Some(dims), Some(types)) = (&lists.dims, &lists.types) else { return false };
    let concrete = |i: usize| lists.concrete.as_ref().and_then(|c| c.get(i)).map_or("", String::as_str);
    dims.iter().zip(types.iter()).enumerate().any(|(i, (d, name))| {
        matches!(d, Dims::Shape(shape) if shape.is_empty())
            && matches!(name.as_str(), "TensorList" | "")
            && concrete(i).is_empty()
    })
}

/// Launches of kernels, in the same order.
fn launches(trace: &Trace, kernels: &[EventId]) -> Vec<Option<Launch>> {
    let sizes = |kernel: EventId, key: &str| match trace.arg(kernel, key)? {
        Arg::Json(text) => serde_json::from_str::<[u32; 3]>(text).ok(),
        _ => None,
    };
    kernels.iter().map(|&k| Some(Launch { grid: sizes(k, "grid")?, block: sizes(k, "block")? })).collect()
}

/// The first type of a call's tensors whose size is known.
fn tensor_dtype(lists: &InputLists) -> Option<&str> {
    let (dims, types) = (lists.dims.as_ref()?, lists.types.as_ref()?);
    let tensor = |d: &Dims| matches!(d, Dims::Shape(shape) if !shape.is_empty());
    let sized = |name: &str| dtype::size(name, &Quirks::NONE).is_some();
    dims.iter().zip(types.iter()).find(|(d, name)| tensor(d) && sized(name)).map(|(_, name)| name.as_str())
}

/// What the `param:` columns of a row read: those without a value are blank like those that are not there.
fn param_columns(params: &[(Cow<'static, str>, Value)]) -> String {
    let mut columns = String::with_capacity(256);
    for (key, value) in params.iter().filter(|(_, value)| *value != Value::None) {
        columns.extend([key, "="]);
        value.push_to(&mut columns);
        columns.push(';');
    }
    columns
}
