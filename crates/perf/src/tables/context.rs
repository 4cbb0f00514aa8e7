//! What all sheets share: the trace with its tree, and caches over names, arguments and categories.

use std::borrow::Cow;
use std::sync::Arc;

use jarvis_trace::timeline::is_communication_name;
use jarvis_trace::{EventId, Names, StrId, Trace, Tree, TreeView};
use rapidhash::RapidHashMap;

use super::Cell;
use super::casts::Casts;
use super::costs::{Call, CostId, Costs};
use super::inputs::{ArgLists, ArgTexts, Inputs, InputsGroup, InputsId};
use super::options::ReportOptions;
use super::sheet::{Columns, count, maybe_bool, maybe_text, text};
use super::texts::{TextId, Texts};
use crate::ops;
use crate::parity::Quirks;

/// How far up the event around a backward operation may be.
const NEAREST_WRAPPERS: usize = 5;

/// Name of a row: an operation, or an operation and one kernel of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RowName {
    pub(crate) op: StrId,
    /// The kernel that a synthetic row stands for.
    pub(crate) kernel: Option<StrId>,
}

impl RowName {
    pub(crate) fn text(self, trace: &Trace) -> Cow<'_, str> {
        match self.kernel {
            None => trace.text(self.op).into(),
            Some(kernel) => format!("{}->{} (Synthetic Op)", trace.text(self.op), trace.text(kernel)).into(),
        }
    }
}

/// Process and thread of an event as cells show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) process: TextId,
    pub(crate) label: TextId,
    pub(crate) thread: TextId,
}

/// What makes two calls one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub(crate) name: RowName,
    pub(crate) category: TextId,
    pub(crate) place: Place,
    pub(crate) inputs: InputsGroup,
    pub(crate) num_kernels: Option<usize>,
    pub(crate) recompute: Option<bool>,
    /// Whether its bytes go over a link and not through the device's memory, where a model tells.
    pub(crate) over_link: bool,
    /// Whether a model tells operations, and bytes.
    pub(crate) told: [bool; 2],
}

/// What makes two calls one row, as the key columns show it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallIdentity {
    /// Operation.
    pub name: Arc<str>,
    /// Category of the operation.
    pub category: Arc<str>,
    /// Process.
    pub process: Arc<str>,
    /// Label of the process.
    pub label: Arc<str>,
    /// Thread.
    pub thread: Arc<str>,
    /// Arguments.
    pub args: ArgTexts,
    /// Kernels of a call, where rows are kept apart by it.
    pub num_kernels: Option<usize>,
    /// Whether the work is done a second time, where that is told apart.
    pub is_recompute: Option<bool>,
}

/// Header of the column that tells recomputed work apart.
pub(crate) const RECOMPUTE: &str = "is_recompute";

/// Header of the column that tells calls apart by how many kernels they launched.
pub(crate) const NUM_KERNELS: &str = "num_kernels";

/// The key columns, the same on every sheet of calls.
pub(crate) fn identity_columns<R: 'static>(keys: KeyColumns, get: fn(&R) -> &CallIdentity) -> Columns<R> {
    Columns::<R>::new()
        .plain("name", move |r| text(&get(r).name))
        .plain("op category", move |r| text(&get(r).category))
        .plain("process_name", move |r| text(&get(r).process))
        .plain("process_label", move |r| text(&get(r).label))
        .plain("thread_name", move |r| text(&get(r).thread))
        .plain("Input Dims", move |r| maybe_text(get(r).args.dims.as_ref()))
        .plain("Input type", move |r| maybe_text(get(r).args.types.as_ref()))
        .plain("Input Strides", move |r| maybe_text(get(r).args.strides.as_ref()))
        .plain("Concrete Inputs", move |r| maybe_text(get(r).args.concrete.as_ref()))
        .when(keys.num_kernels, |c| c.plain(NUM_KERNELS, move |r| get(r).num_kernels.map_or(Cell::Missing, count)))
        .when(keys.recompute, |c| c.plain(RECOMPUTE, move |r| maybe_bool(get(r).is_recompute)))
}

/// Which optional key columns a sheet has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyColumns {
    pub(crate) num_kernels: bool,
    pub(crate) recompute: bool,
}

/// What all sheets share.
pub(crate) struct Context<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) tree: &'a Tree,
    pub(crate) options: &'a ReportOptions,
    pub(crate) quirks: Quirks,
    pub(crate) texts: Texts<'a>,
    pub(crate) inputs: Inputs<'a>,
    pub(crate) costs: Costs<'a>,
    /// Calls that only cast; known once the rows are collected, none in the compatible mode.
    pub(crate) casts: Casts,
    /// Whether the user gives backward work categories. The reference does not look at them here.
    names_backward_work: bool,
    places: Vec<Place>,
    categories: RapidHashMap<(RowName, Option<StrId>), TextId>,
    /// By name: whether a kernel of that name communicates.
    communication: Vec<Option<bool>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(trace: &'a Trace, tree: &'a Tree, lists: &'a ArgLists, options: &'a ReportOptions) -> Self {
        let mut texts = Texts::new(trace);
        let names = Names::of(trace);
        let mut shown = |name: Option<&str>| texts.intern(name.unwrap_or("Unknown"));
        let places = trace
            .tracks()
            .map(|(_, track)| Place {
                process: shown(names.process(track.pid)),
                label: shown(names.label(track.pid)),
                thread: shown(names.thread(track.pid, track.tid)),
            })
            .collect();
        Self {
            trace,
            tree,
            options,
            quirks: options.quirks(),
            texts,
            inputs: Inputs::new(trace, lists),
            costs: Costs::new(trace, tree, options),
            casts: Casts::default(),
            names_backward_work: !options.quirks().reference_models_only
                && options.extension.as_ref().is_some_and(|x| x.ops().iter().any(|op| op.bwd_category.is_some())),
            places,
            categories: RapidHashMap::default(),
            communication: vec![None; trace.strings().len()],
        }
    }

    /// The same for another thread: it knows what this one knows by now, but for costs, and each learns more on its own.
    /// Handles that both know by now are the same.
    pub(crate) fn beside(&self) -> Self {
        Self {
            texts: self.texts.clone(),
            inputs: self.inputs.clone(),
            costs: Costs::new(self.trace, self.tree, self.options),
            casts: self.casts.clone(),
            places: self.places.clone(),
            categories: self.categories.clone(),
            communication: self.communication.clone(),
            ..*self
        }
    }

    pub(crate) fn view(&self) -> TreeView<'a> {
        self.tree.view(self.trace)
    }

    /// The name of an event's own row.
    pub(crate) fn name_of(&self, event: EventId) -> RowName {
        RowName { op: self.trace.name_id(event), kernel: None }
    }

    pub(crate) fn place(&self, event: EventId) -> Place {
        self.places[self.trace.track_id(event).index()]
    }

    pub(crate) fn inputs_of(&mut self, event: EventId) -> InputsId {
        self.inputs.of(event, &mut self.texts)
    }

    /// Category of an event under this name that launched these kernels, in order of start.
    pub(crate) fn category_of(&mut self, event: EventId, name: RowName, kernels: &[EventId]) -> TextId {
        match self.backward_category_by_user(event, name) {
            Some(category) => self.texts.intern(category),
            None => self.category(name, kernels),
        }
    }

    /// Category of the backward work that an event belongs to, where the user gives its forward operation one and the
    /// event's own operation none.
    fn backward_category_by_user(&self, event: EventId, name: RowName) -> Option<&'a str> {
        let extension = self.options.extension.as_ref().filter(|_| self.names_backward_work)?;
        let (_, forward) = self.wrapper_and_forward(event)?;
        let category = extension.get(self.trace.name(forward))?.bwd_category.as_deref()?;
        let own = extension.get(&name.text(self.trace)).and_then(|op| op.category.as_ref());
        own.is_none().then_some(category)
    }

    /// The backward wrapper around an event, and the forward operation that caused it.
    pub(crate) fn wrapper_and_forward(&self, event: EventId) -> Option<(EventId, EventId)> {
        let mut around = self.tree.ancestors(event).take(NEAREST_WRAPPERS);
        around.find_map(|wrapper| Some((wrapper, self.tree.forward_of(wrapper)?)))
    }

    /// Category of an operation that launched these kernels, in order of start.
    fn category(&mut self, name: RowName, kernels: &[EventId]) -> TextId {
        let first = kernels.first().map(|&k| self.trace.name_id(k));
        if let Some(&category) = self.categories.get(&(name, first)) {
            return category;
        }
        let op = name.text(self.trace);
        let own = self.options.extension.as_ref().and_then(|x| x.get(&op)).and_then(|op| op.category.as_deref());
        let category = own.unwrap_or_else(|| ops::category(&op, first.map(|k| self.trace.text(k)), &self.quirks));
        let category = self.texts.intern(category);
        self.categories.insert((name, first), category);
        category
    }

    /// All GPU events below an event in order of start.
    pub(crate) fn kernels_by_start(&self, event: EventId) -> Cow<'a, [EventId]> {
        self.view().by_start(self.tree.gpu_events(event))
    }

    /// Whether an event is recomputed work; `None` where that is not asked for.
    pub(crate) fn recompute(&self, event: EventId) -> Option<bool> {
        self.options.detect_recompute.then(|| self.tree.is_recompute(event))
    }

    /// The key columns of a group, given its key and the arguments of its first call.
    pub(crate) fn identity(&mut self, key: &CallKey, inputs: InputsId) -> CallIdentity {
        let name = match key.name.kernel {
            None => self.texts.shared(key.name.op),
            Some(_) => key.name.text(self.trace).into(),
        };
        let text = |id| self.texts.get(id);
        CallIdentity {
            name,
            category: text(key.category),
            process: text(key.place.process),
            label: text(key.place.label),
            thread: text(key.place.thread),
            args: self.inputs.tuple_texts(inputs, &self.texts),
            num_kernels: key.num_kernels,
            is_recompute: key.recompute,
        }
    }
}

impl Context<'_> {
    /// Whether a model claims an event's own row.
    pub(crate) fn has_model(&mut self, event: EventId) -> bool {
        self.has_model_named(event, self.name_of(event))
    }

    /// Whether a model claims a row of this name made of an event.
    pub(crate) fn has_model_named(&mut self, event: EventId, name: RowName) -> bool {
        self.costs.has_model(event, name, &mut self.inputs, &mut self.texts)
    }

    /// Cost of a call.
    pub(crate) fn cost(&mut self, call: &Call<'_>) -> CostId {
        self.costs.of(call, &mut self.inputs, &mut self.texts)
    }

    /// Whether a kernel is one of a communication library.
    pub(crate) fn is_communication(&mut self, kernel: EventId) -> bool {
        let name = self.trace.name_id(kernel);
        *self.communication[name.index()].get_or_insert_with(|| is_communication_name(self.trace.text(name)))
    }
}
