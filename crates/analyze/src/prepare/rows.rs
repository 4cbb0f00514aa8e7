//! Rows of `unified_perf_summary` with what the analysis knows of them.

use std::sync::Arc;

use jarvis_perf::call::InputLists;
use jarvis_perf::models::triton;
use jarvis_perf::ops::ModelSource;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{KernelList, KernelStat, Report, RowModel, UnifiedRow};
use jarvis_trace::{Arg, EventId, Trace, side_by_side};
use rapidhash::RapidHashMap;

use super::copies::Copied;
use super::efficiency::{Preferred, Tensors, Work, rate};
use super::kernel_names::{KernelNames, is_generated, main_of};
use super::place::{Modules, back_to_back, call_site, collector, direction, leaves_by_row};
use super::{args, beside, category, fallback, timing};
use crate::prepared::{Beside, Efficiency, InARow, Row};
use crate::program::{Direction, Leaf, Program, RowId, base_name};
use crate::thresholds::{Threshold, Thresholds};

/// What the report shows where no frame of the user's code was found.
const NOT_FOUND: &str = "Not found";

/// All rows in the report's order. Shares are filled in later.
pub(crate) fn rows(
    trace: &Trace,
    report: &Report,
    program: &Program,
    platform: &Platform,
    thresholds: &Thresholds,
    kernel_names: &KernelNames,
) -> Vec<Row> {
    let unified = &report.rows.unified;
    let leaves = leaves_by_row(program, unified.rows.len());
    let mut modules = Modules::new(trace, &report.tree, program);
    let mut categories: RapidHashMap<(&str, &str), Arc<str>> = RapidHashMap::default();
    let host = timing::HostTimes::of(unified);
    let beside = beside::beside(trace, &report.tree, unified);
    let places = leaves.iter().zip(&unified.rows).enumerate().map(|(i, (own, row))| {
        let leaves: Vec<&Leaf> = own.iter().map(|&l| &program.leaves[l]).collect();
        let (name, label) = (&*row.identity.name, &*row.identity.category);
        let category = categories.entry((name, label)).or_insert_with(|| category::category_of(name, label).0);
        Place {
            modules: modules.of_row(&leaves).into(),
            leaves,
            category: Arc::clone(category),
            host_ms: host.of_row(unified, row) / 1e3,
            copied: Copied::of(trace, unified.calls_of(row).flat_map(|call| call.kernels.iter().copied())),
            beside: beside.get(i).copied().unwrap_or_default(),
            kernels: match (row.kernels.skipped, row.kernels.mixed) {
                (0, false) => Arc::clone(&row.kernels.kernels),
                // The table lists calls like the first, by its names; what is judged here is the whole row.
                _ => KernelList::of_all_calls(trace, unified.calls_of(row).map(|call| &call.kernels[..])),
            },
        }
    });
    let numbered: Vec<(usize, Place<'_>)> = places.enumerate().collect();
    side_by_side::each(&numbered, |(i, place)| {
        let row = &unified.rows[*i];
        let first = unified.calls_of(row).next();
        let inputs = first.map(|call| report.arg_lists.of(trace, call.event)).unwrap_or_default();
        let row = one(RowId(*i as u32), row, inputs, place, platform, thresholds, kernel_names);
        Row {
            back_to_back: most_at_once(program, &leaves[*i], &row.inputs),
            blocks_deep: first.map_or(1, |call| blocks_deep(trace, &call.kernels)),
            ..row
        }
    })
}

/// Most calls one after another that do not need each other, as far as the shapes tell.
///
/// With a square weight a product may go on with what the one before it gave, unless all results are put together
/// afterwards. Layers with such weights are taken to do so, and so is the way back through them. Bare products are not:
/// nobody multiplies one matrix after the other onto a tensor with nothing between them where their product would do. The
/// advice says what it depends on.
fn most_at_once(program: &Program, leaves: &[usize], inputs: &InputLists) -> InARow {
    let weight =
        inputs.dims.as_deref().unwrap_or_default().iter().rev().find_map(|d| d.shape().filter(|s| s.len() >= 2));
    let may_chain = weight.is_some_and(|w| w[w.len() - 1] == w[w.len() - 2]);
    let is_layer = |&leaf: &usize| {
        let leaf = &program.leaves[leaf];
        let goes_back = leaf.direction == Direction::Backward;
        goes_back || &*leaf.name == "aten::addmm" || program.ops_around(leaf).any(|op| &**op == "aten::linear")
    };
    let stretches = back_to_back(program, leaves)
        .map(|stretch| InARow { calls: stretch.len(), by_shapes: may_chain && collector(program, stretch).is_none() });
    let are_layers = may_chain && leaves.iter().any(is_layer);
    let apart = |row: &InARow| !row.by_shapes || !are_layers;
    stretches.filter(apart).max_by_key(|row| (row.calls, !row.by_shapes)).unwrap_or_default()
}

/// Blocks of the longest of some kernels in the third direction of the grid.
fn blocks_deep(trace: &Trace, kernels: &[EventId]) -> i64 {
    let longest = kernels.iter().max_by_key(|&&k| trace.dur(k));
    let grid = longest.and_then(|&k| match trace.arg(k, "grid")? {
        Arg::Json(text) => serde_json::from_str::<[i64; 3]>(text).ok(),
        _ => None,
    });
    grid.map_or(1, |[.., deep]| deep)
}

/// Where a row's calls are made, and what they are.
struct Place<'a> {
    leaves: Vec<&'a Leaf>,
    modules: Arc<[Arc<str>]>,
    category: Arc<str>,
    /// Host time, each event once.
    host_ms: f64,
    copied: Copied,
    beside: Beside,
    kernels: Arc<[KernelStat]>,
}

fn one(
    id: RowId,
    row: &UnifiedRow,
    inputs: Arc<InputLists>,
    place: &Place<'_>,
    platform: &Platform,
    thresholds: &Thresholds,
    kernel_names: &KernelNames,
) -> Row {
    let name = &row.identity.name;
    let direction = direction(name, &row.identity.category, &place.leaves);
    let kernels = Arc::clone(&place.kernels);
    let main = main_of(&kernels, &place.category).map(|name| kernel_names.get(name));
    let model = row.model.as_ref();
    let crosses = model.is_some_and(|m| m.link_bytes.is_some_and(|b| b > 0.0));
    let copied = if crosses { place.copied.known_over_link() } else { place.copied };
    let is_link_copy = crosses || copied.is_all_over_link();
    let mut work = Work {
        gflops: model.and_then(|m| m.gflops),
        data_moved_mb: model.and_then(|m| m.data_moved_mb),
        best_us: model.filter(|m| m.is_mean).and_then(RowModel::best).map(|(us, _)| us),
        compute_spec: model.and_then(|m| m.compute_spec.clone()),
        count: row.calls.len(),
        us: row.kernel_us.sum,
        mean_percent: row.pct_roofline.mean(),
        source: model.and_then(|m| m.source),
        tensors: tensors(name, &inputs),
        prefer: Preferred::of(&place.category),
    };
    let nothing_known = work.gflops.is_none() && work.data_moved_mb.is_none();
    if nothing_known || work.source == Some(ModelSource::Generic) {
        fallback::fill(&mut work, name, direction, &inputs);
    }
    if is_link_copy {
        // The link is the limit, not the device's memory.
        (work.gflops, work.data_moved_mb) = (None, None);
    } else if copied.over_link_us > 0.0 {
        // What a copy beside the kernels takes over its link says nothing of them.
        work.us -= copied.over_link_us;
        work.mean_percent = None;
    }
    let specs = model.map(|m| Arc::clone(&m.specs)).unwrap_or_default();
    let efficiency = Efficiency { specs, ..efficiency(&work, place.beside, platform, thresholds) };
    let (time_ms, host_ms) = (row.kernel_us.sum / 1e3, place.host_ms);
    Row {
        id,
        name: Arc::clone(name),
        report_category: Arc::clone(&row.identity.category),
        uid: row.ex_uid,
        count: row.calls.len(),
        time_ms,
        copied_ms: copied.us / 1e3,
        over_link_ms: copied.over_link_us / 1e3,
        link: copied.link(),
        mean_us: row.kernel_us.mean().unwrap_or_default(),
        median_us: row.kernel_us.median().unwrap_or_default(),
        min_us: row.kernel_us.min().unwrap_or_default(),
        max_us: row.kernel_us.max().unwrap_or_default(),
        std_us: row.kernel_us.std(),
        host_ms,
        back_to_back: InARow::default(),
        percent_of_category: 0.0,
        percent_of_compute: 0.0,
        percent_of_total: 0.0,
        beside: place.beside,
        efficiency,
        args: args::render(&inputs).into(),
        params: model.map(|m| Arc::clone(&m.params)).unwrap_or_default(),
        gflops: work.gflops,
        data_moved_mb: work.data_moved_mb,
        library: main.and_then(|k| k.library),
        tile: main.and_then(|k| k.tile),
        // The kernel that adds up the parts stands beside the one that makes them.
        split: main.and_then(|k| k.split).or_else(|| kernels.iter().find_map(|k| kernel_names.get(&k.name).split)),
        blocks_deep: 1,
        kernels,
        kernels_per_call: row.kernels.per_call,
        direction,
        in_top_ops: false,
        top_rank: None,
        cov: None,
        high_variance: false,
        sync_ms: timing::sync_ms(host_ms, time_ms, thresholds),
        is_link_copy,
        has_perf_model: row.has_perf_model,
        call_site: call_site(&place.modules, direction),
        launcher_path: launcher_path(row, &place.modules),
        module_path: Arc::clone(&place.modules),
        inputs,
        category: Arc::clone(&place.category),
    }
}

/// What the bytes of a row are of. Kernels that look elements up are taken to touch no more than they run over.
fn tensors(name: &str, inputs: &InputLists) -> Tensors {
    if !is_generated(name) {
        return Tensors::Touched;
    }
    let elements = |dims: &[i64]| dims.iter().try_fold(1_i64, |product, &size| product.checked_mul(size));
    let dims = inputs.dims.iter().flat_map(|d| d.iter());
    let largest = dims.filter_map(|d| elements(d.shape()?)).max().filter(|_| !triton::looks_up(name));
    Tensors::of_generated(largest, triton::runs_over(name, inputs))
}

/// How close a row comes to the hardware: by the calls that ran alone where much of its time was shared with kernels of
/// other streams, not to be judged if there are none.
fn efficiency(work: &Work, beside: Beside, platform: &Platform, thresholds: &Thresholds) -> Efficiency {
    let anomaly = thresholds.get(Threshold::EffAnomaly);
    match beside.alone_count {
        _ if !beside.is_considerable() => rate(work, platform, anomaly),
        0 => Efficiency { is_shared: true, ..rate(work, platform, anomaly) },
        count => rate(&Work { count, us: beside.alone_us, ..work.clone() }, platform, anomaly),
    }
}

/// The frame of the user's code that leads to the row, else its modules.
fn launcher_path(row: &UnifiedRow, modules: &[Arc<str>]) -> Arc<str> {
    let entry = row.call_stack.as_ref().map(|s| &s.entry_point).filter(|e| ***e != *NOT_FOUND && !e.is_empty());
    match entry {
        Some(entry) => Arc::clone(entry),
        None if modules.is_empty() => NOT_FOUND.into(),
        None => modules.iter().map(|m| base_name(m)).collect::<Vec<_>>().join(" > ").into(),
    }
}

#[cfg(test)]
mod tests {
    use jarvis_trace::TraceBuilder;

    use crate::testing::{Call, Scene, prepared_of};

    #[test]
    fn a_row_of_unlike_calls_is_rated_by_all_of_them() {
        // The index is not recorded; each launch tells how many rows of 512 bytes it picks. Every call is as fast.
        let mut b = TraceBuilder::new();
        for (i, rows) in [1000, 3000, 8000].into_iter().enumerate() {
            let (ts, number) = (100.0 * i as f64, i as i64 + 1);
            b.cpu_op("aten::index", ts, 10.0)
                .arg("Input Dims", "[[1000000, 256], []]")
                .arg("Input type", r#"["c10::BFloat16", ""]"#);
            b.launch("cudaLaunchKernel", ts + 1.0, 1.0, number);
            b.kernel("void at::native::vectorized_gather_kernel<16, long>", ts + 5.0, f64::from(rows) / 100.0, number)
                .arg("grid", format!("[{rows}, 1, 1]"))
                .arg("block", "[32, 1, 1]");
        }
        let prepared = prepared_of(&b, "H200");
        let row = &prepared.rows[0];
        // 1032 bytes for each of 12000 rows, in 120 us.
        assert!((row.efficiency.tb_s_achieved.unwrap() - 0.1032).abs() < 1e-9, "{:?}", row.efficiency);
        let percent = row.efficiency.efficiency_percent.unwrap();
        assert!((percent - 2.15).abs() < 1e-9, "{percent}");
        assert!((row.efficiency.efficiency_percent_mean.unwrap() - percent).abs() < 1e-6);
        assert!((row.data_moved_mb.unwrap() * 1_048_576.0 - 4.0 * 1_032_000.0).abs() < 1e-3);
    }

    #[test]
    fn a_copy_over_the_link_does_not_slow_the_kernels_beside_it() {
        let mut scene = Scene::new();
        let kernels = [("k", 100.0), ("MEMORY_COPY_DEVICE_TO_HOST", 300.0)];
        scene.calls(2, &Call::new("aten::nonzero", "[[48000000]]", r#"["float"]"#, &kernels));
        let prepared = scene.prepared();
        let percent = prepared.rows[0].efficiency.efficiency_percent.unwrap();
        // 192 MB in 100 us of 4.8 TB/s.
        assert!((percent - 40.0).abs() < 1e-9, "{percent}");
    }
}
