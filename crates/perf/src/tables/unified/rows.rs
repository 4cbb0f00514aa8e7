//! From taken events to rows with times, rates and the best the platform could do.

use jarvis_trace::{EventId, Few, Us};
use rapidhash::RapidHashMap;

use super::collect::Taken;
use crate::models::ModelError;
use crate::roofline::Rates;
use crate::tables::context::{CallKey, Context, RowName};
use crate::tables::costs::{Call, CostId, Costed, Pass};
use crate::tables::inputs::InputsId;
use crate::tables::launchers::LauncherRows;
use crate::tables::texts::TextId;

/// A call of a row.
#[derive(Debug, Clone)]
pub struct UnifiedCall {
    /// The event, or the one that a synthetic row is copied from.
    pub event: EventId,
    /// UID as tables show it: the event's, or one after all events for synthetic rows.
    pub uid: u32,
    /// Host time of the event in microseconds.
    pub host_us: f64,
    /// Time of its kernels in microseconds; overlapping kernels count once.
    pub kernel_us: f64,
    /// Its kernels, in the order in which they were launched.
    pub kernels: Few<EventId>,
    pub(crate) name: RowName,
    pub(crate) category: TextId,
    pub(crate) inputs: InputsId,
    pub(crate) has_perf_model: bool,
    pub(crate) cost: Option<CostId>,
    pub(crate) recompute: Option<bool>,
}

impl UnifiedCall {
    pub(crate) fn key(&self, cx: &Context<'_>) -> CallKey {
        let costed = self.cost.map(|id| cx.costs.get(id));
        let cost = costed.and_then(|c| c.cost.as_ref().ok()).filter(|_| !cx.quirks.unlike_calls_in_one_row);
        CallKey {
            name: self.name,
            category: self.category,
            place: cx.place(self.event),
            inputs: cx.inputs.group(self.inputs),
            num_kernels: cx.options.splits_unified_by_kernels().then_some(self.kernels.len()),
            recompute: self.recompute,
            // Such a copy and one within the device may read alike, but not even their limits are the same.
            over_link: costed.is_some_and(|c| c.link_bytes.is_some()),
            // Calls that nothing is known of would count as like those beside them.
            told: cost.map_or([false; 2], |c| [c.flops, c.bytes].map(|n| n.is_some())),
        }
    }

    /// Worked out each time it is asked for, because there are many calls.
    pub(crate) fn speed(&self, cx: &Context<'_>) -> Speed {
        self.cost.map(|id| Speed::of(cx, cx.costs.get(id), self.kernel_us)).unwrap_or_default()
    }
}

/// How fast a call ran, and how near that is to the best the platform could do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Speed {
    pub(crate) rates: Rates,
    pub(crate) pct_roofline: Option<f64>,
}

impl Speed {
    pub(crate) fn of(cx: &Context<'_>, costed: &Costed, us: f64) -> Self {
        let Ok(cost) = &costed.cost else { return Self::default() };
        Self { rates: Rates::new(cost, us, &cx.quirks), pct_roofline: costed.roofline.and_then(|r| r.pct_of(us)) }
    }
}

/// All calls in row order; those that the reference lets vanish are gone.
pub(crate) fn calls(cx: &mut Context<'_>, launchers: &LauncherRows, taken: &[Taken]) -> Vec<UnifiedCall> {
    let mut backward_us: RapidHashMap<EventId, f64> = RapidHashMap::default();
    let mut calls = Vec::with_capacity(taken.len());
    calls.extend(taken.iter().filter_map(|t| call(cx, launchers, t, &mut backward_us)));
    calls
}

fn call(
    cx: &mut Context<'_>,
    launchers: &LauncherRows,
    taken: &Taken,
    backward_us: &mut RapidHashMap<EventId, f64>,
) -> Option<UnifiedCall> {
    let Taken { event, uid, name, own_model, forward, .. } = *taken;
    let kernels = taken.kernels(cx.tree);
    let inputs = cx.inputs_of(event);
    let by_start = cx.view().by_start(&*kernels);
    // What an operation launches itself says more about it than what it calls.
    let launcher = launchers.get(event).filter(|_| name.kernel.is_none());
    let mut category = cx.category_of(event, name, launcher.map_or(&by_start, |l| launchers.kernels(l)));
    let (kernel_us, cost) = match forward {
        Some(forward) => {
            if let Some(of_backward) = cx.costs.backward_category(cx.name_of(forward.event)) {
                category = cx.texts.intern(of_backward);
            }
            let us = if cx.quirks.backward_rows_hold_siblings {
                *backward_us.entry(forward.event).or_insert_with(|| cx.backward_busy(forward.event).0)
            } else {
                cx.view().busy(&kernels).0
            };
            (us, Some(forward.cost))
        }
        // Whatever has tensors has at least their bytes by default.
        None if own_model || !cx.quirks.reference_models_only => {
            let call = Call { event, name, inputs, kernels: &by_start, pass: Pass::Forward };
            (cx.view().busy(&kernels).0, Some(cx.cost(&call)))
        }
        None => (cx.view().busy(&kernels).0, None),
    };
    if cost.is_some_and(|id| cx.costs.get(id).cost == Err(ModelError::Drop)) {
        return None;
    }
    Some(UnifiedCall {
        event,
        uid,
        host_us: cx.trace.dur(event).unwrap_or_default().as_us(),
        kernel_us,
        kernels: (&*kernels).into(),
        name,
        category,
        inputs,
        has_perf_model: own_model || forward.is_some(),
        cost,
        recompute: cx.recompute(event),
    })
}

impl Context<'_> {
    /// Time of all backward work that an operation and what is below it caused.
    pub(crate) fn backward_busy(&self, forward: EventId) -> Us {
        self.view().busy(&self.backward_kernels(forward))
    }

    /// GPU events of all backward work that an operation and what is below it caused.
    pub(crate) fn backward_kernels(&self, forward: EventId) -> Vec<EventId> {
        let wrappers = self.backward_wrappers(forward).into_iter();
        wrappers.flat_map(|w| self.tree.gpu_events(w).into_owned()).collect()
    }
}
