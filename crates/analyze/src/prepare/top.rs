//! The operations that take most time, and which rows they account for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_perf::tables::ReportRows;
use jarvis_trace::{InOrder, StrId, Trace};

use super::category::category_of;
use super::copies::copy_us;
use super::kernel_names::{has_steps, main_kernel};
use crate::prepared::{BoundType, Row, TopOperation, Utilization};
use crate::thresholds::{Threshold, Thresholds};

/// What a top operation launched of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    us: f64,
    /// Whether the row's main kernel is among it.
    has_main: bool,
}

/// For a top operation its parts of rows, by row.
type Owned = BTreeMap<usize, Part>;

/// The top operations; marks the rows they account for. Copies count for the rank, but are no part of the computing.
///
/// Rows and operations are matched by kernels and not by name: a launching leaf and the operation that models it have
/// different names.
pub(crate) fn top_operations(
    trace: &Trace,
    report: &ReportRows,
    rows: &mut [Row],
    utilization: &Utilization,
    thresholds: &Thresholds,
) -> Vec<TopOperation> {
    let most = thresholds.get(Threshold::TopOps) as usize;
    // The report lists most time first.
    let listed = &report.ops[..report.ops.len().min(most).min(usize::from(NOBODY))];
    let owners = Owners::of(trace, report, rows, listed.len());
    let owned = owners.owned(trace, report, rows);
    let floor = thresholds.get(Threshold::TopOpsMinPercent);
    for (at, own) in owned.iter().enumerate() {
        for (&i, part) in own {
            let row = &mut rows[i];
            if part.us / 1e3 >= 0.5 * row.time_ms && row.percent_of_compute >= floor {
                row.in_top_ops = true;
                row.top_rank = row.top_rank.or(Some(at + 1));
            }
        }
    }
    let mut cumulative = 0.0;
    let mut out = Vec::with_capacity(listed.len());
    for (i, (op, own)) in listed.iter().zip(&owned).enumerate() {
        let (time_ms, copy_time_ms) = (op.direct_us / 1e3, owners.copied_us[i] / 1e3);
        let percent = utilization.percent_of_compute((time_ms - copy_time_ms).max(0.0));
        cumulative += percent;
        let report_category = op.categories.first().map_or("", |c| &**c);
        let own_rows: Vec<&Row> = by_time(own, rows);
        let rating = Rating::of(own, rows, thresholds);
        out.push(TopOperation {
            rank: i + 1,
            name: Arc::clone(&op.name),
            category: match &*own_rows {
                [] => Some(category_of(&op.name, report_category).0),
                // A call that launches kernels without operations, such as those of a captured graph, may have several.
                [first, ..] => (!first.name.contains("->") || is_of(&first.category, own, rows))
                    .then(|| Arc::clone(&first.category)),
            },
            time_ms,
            copy_time_ms,
            percent_of_compute: percent,
            cumulative_percent: cumulative,
            count: op.count,
            bound_type: rating.bound_type,
            flops_per_byte: rating.flops_per_byte,
            efficiency_percent: rating.efficiency_percent,
            aliases: aliases(&op.name, &own_rows),
        });
    }
    out
}

/// Beyond the end of every list.
const NOBODY: u16 = u16::MAX;

/// Which of the listed operations launched a kernel. There is one for each event of the trace at a time when most memory is
/// in use, so they are small.
struct Owners {
    by_event: Vec<u16>,
    /// By operation: time of the copies it launched.
    copied_us: Vec<f64>,
}

impl Owners {
    fn of(trace: &Trace, report: &ReportRows, rows: &[Row], listed: usize) -> Self {
        let names: Vec<Option<StrId>> = report.ops[..listed].iter().map(|op| trace.strings().find(&op.name)).collect();
        let mut by_event = vec![NOBODY; trace.len()];
        for launcher in report.launchers.rows() {
            let name = Some(trace.name_id(launcher.event));
            if let Some(at) = names.iter().position(|n| *n == name) {
                for kernel in report.launchers.kernels(launcher) {
                    by_event[kernel.index()] = at as u16;
                }
            }
        }
        let mut copied_us = vec![0.0; listed];
        for (row, _) in report.unified.rows.iter().zip(rows).filter(|(_, row)| row.copied_ms > 0.0) {
            for &kernel in report.unified.calls_of(row).flat_map(|call| &call.kernels) {
                if let Some(sum) = copied_us.get_mut(usize::from(by_event[kernel.index()])) {
                    *sum += copy_us(trace, kernel).unwrap_or_default();
                }
            }
        }
        Self { by_event, copied_us }
    }

    /// What the operations launched, by row.
    fn owned(&self, trace: &Trace, report: &ReportRows, rows: &[Row]) -> Vec<Owned> {
        let mut out = vec![Owned::new(); self.copied_us.len()];
        for (i, row) in report.unified.rows.iter().enumerate() {
            let main = main_kernel(&rows[i]).and_then(|name| trace.strings().find(name));
            for &kernel in report.unified.calls_of(row).flat_map(|call| &call.kernels) {
                if let Some(own) = out.get_mut(usize::from(self.by_event[kernel.index()])) {
                    let part = own.entry(i).or_default();
                    part.us += trace.dur(kernel).unwrap_or_default().as_us();
                    part.has_main |= Some(trace.name_id(kernel)) == main;
                }
            }
        }
        out
    }
}

/// Part of a launcher's time that its category has, and of a row's time that is as good as all of it.
const NEARLY_ALL: f64 = 0.9;

/// Whether nearly all of an operation's time is in rows of a category.
fn is_of(category: &str, own: &Owned, rows: &[Row]) -> bool {
    let in_category: f64 = own.iter().filter(|&(&i, _)| *rows[i].category == *category).map(|(_, part)| part.us).sum();
    in_category >= NEARLY_ALL * own.values().map(|part| part.us).sum::<f64>()
}

/// Rows that an operation's kernels are in, most of its time first.
fn by_time<'r>(own: &Owned, rows: &'r [Row]) -> Vec<&'r Row> {
    let mut list: Vec<(usize, f64)> = own.iter().map(|(&i, part)| (i, part.us)).collect();
    list.order_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list.into_iter().map(|(i, _)| &rows[i]).collect()
}

/// What bounds an operation and how close it comes.
#[derive(Debug, Default)]
struct Rating {
    bound_type: Option<BoundType>,
    flops_per_byte: Option<f64>,
    efficiency_percent: Option<f64>,
}

impl Rating {
    /// Best time over time, of the rows that have one and whose work is the operation's. What launches only a step of a row,
    /// such as the bias of a convolution, does not do the row's work; it has no rating if most of its time is such steps.
    fn of(own: &Owned, rows: &[Row], thresholds: &Thresholds) -> Self {
        let own_part = |r: &Row| own[&r.id.index()];
        let (does, helps): (Vec<&Row>, Vec<&Row>) =
            by_time(own, rows).into_iter().partition(|r| does_work(r, own_part(r)));
        let us = |list: &[&Row]| list.iter().map(|r| own_part(r).us).sum::<f64>();
        if us(&does) < us(&helps) {
            return Self::default();
        }
        let flops_per_byte = does.first().and_then(|r| r.efficiency.flops_per_byte);
        let rated: Vec<&&Row> = does.iter().filter(|r| r.efficiency.judged().is_some()).collect();
        let own_ms = |r: &Row| if is_nearly_all(r, own_part(r)) { r.time_ms } else { own_part(r).us / 1e3 };
        let time: f64 = rated.iter().map(|r| own_ms(r)).sum();
        let best: f64 = rated.iter().filter_map(|r| Some(r.efficiency.judged()? * r.time_ms)).sum();
        // More than this can't be: then others do some of the work.
        let efficiency_percent = (time > 0.0).then(|| best / time);
        let efficiency_percent = efficiency_percent.filter(|&e| e <= thresholds.get(Threshold::EffAnomaly));
        let bound_type = efficiency_percent.and(rated.first()).and_then(|r| r.efficiency.bound_type);
        Self { bound_type, flops_per_byte, efficiency_percent }
    }
}

/// Whether a part of a row does what the row is rated by: nearly all of it, or the products that others only add to.
fn does_work(row: &Row, part: Part) -> bool {
    is_nearly_all(row, part) || has_steps(&row.category) && part.has_main
}

fn is_nearly_all(row: &Row, part: Part) -> bool {
    part.us / 1e3 >= NEARLY_ALL * row.time_ms
}

fn aliases(name: &str, rows: &[&Row]) -> Vec<Arc<str>> {
    let mut out: Vec<Arc<str>> = Vec::new();
    for row in rows {
        if &*row.name != name && !out.contains(&row.name) {
            out.push(Arc::clone(&row.name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use jarvis_trace::TraceBuilder;

    use crate::prepared::BoundType;
    use crate::testing::prepared_of;

    #[test]
    fn an_operation_is_rated_by_what_it_does_of_a_row() {
        // aten::convolution   |---------------------------------|
        //   cudnn_convolution |--------|   aten::add_ |---------|    The bias takes half as long as the products.
        let mut b = TraceBuilder::new();
        let types = r#"["c10::Half", "c10::Half", "c10::Half", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]"#;
        b.cpu_op("aten::convolution", 0.0, 100.0)
            .arg("Input Dims", "[[64, 256, 56, 56], [256, 256, 3, 3], [256], [], [], [], [], [], []]")
            .arg("Input type", types)
            .arg("Concrete Inputs", r#"["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]"#);
        b.cpu_op("aten::cudnn_convolution", 10.0, 30.0);
        b.launch("cudaLaunchKernel", 20.0, 5.0, 1);
        b.cpu_op("aten::add_", 50.0, 30.0);
        b.launch("cudaLaunchKernel", 60.0, 5.0, 2);
        b.kernel("sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 200.0, 600.0, 1);
        b.kernel("void at::native::elementwise_kernel<at::native::CUDAFunctor_add<c10::Half>>", 900.0, 300.0, 2);
        let p = prepared_of(&b, "H200");
        let row = &p.rows[0];
        assert_eq!((p.rows.len(), row.time_ms), (1, 0.9));
        let top = |name: &str| p.top_operations.iter().find(|t| &*t.name == name).unwrap();
        let (product, bias) = (top("aten::cudnn_convolution"), top("aten::add_"));
        let wanted = row.efficiency.efficiency_percent.unwrap() * 1.5;
        assert!((product.efficiency_percent.unwrap() - wanted).abs() < 1e-9, "{product:?}");
        assert_eq!(product.bound_type, Some(BoundType::Compute));
        assert_eq!((bias.efficiency_percent, bias.bound_type, bias.flops_per_byte), (None, None, None));
    }
}
