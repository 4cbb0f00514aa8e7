//! Grouped products: each group of rows has its own weights.

use crate::args::Args;
use crate::call::{Dims, OpCall};
use crate::count::Count;
use crate::dtype;
use crate::models::tally::Bytes;
use crate::models::{Cost, ModelError, Params, PerfModel, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// One group: (`m` × `k`)·(`k` × `n`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    m: Count,
    k: i64,
    n: i64,
}

impl Group {
    fn flops(self) -> Count {
        2 * self.m * self.k * self.n
    }
}

struct GroupedGemm {
    flops: Count,
    bytes: Option<Count>,
    precision: Option<&'static str>,
    params: Params,
    torch_flops: Option<Count>,
}

impl PerfModel for GroupedGemm {
    fn into_params(self: Box<Self>) -> Params {
        self.params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        Ok(Cost::matrix(self.flops.to_f64(), self.bytes.map(Count::to_f64), self.precision))
    }

    fn torch_flops(&self) -> Option<f64> {
        self.torch_flops.map(Count::to_f64)
    }
}

/// Element sizes of inputs and output.
#[derive(Clone, Copy)]
struct Sizes {
    input: Option<i64>,
    output: Option<i64>,
}

fn sizes(args: Args<'_>, quirks: &Quirks) -> Sizes {
    let input = dtype::size(args.dtype_or_empty(0), quirks);
    let output = match args.dtype(1) {
        Ok(weight) if quirks.grouped_output_as_weight => dtype::size(weight, quirks),
        _ if quirks.grouped_output_as_weight => input,
        // 8-bit products are stored in 16 bits.
        _ => input.map(|size| size.max(2)),
    };
    Sizes { input, output }
}

fn size_params(group: Group, count: Count, sizes: Sizes) -> Params {
    vec![
        ("M", group.m.into()),
        ("K", group.k.into()),
        ("N", group.n.into()),
        ("G", count.into()),
        ("bpe_in", sizes.input.into()),
        ("bpe_out", sizes.output.into()),
    ]
}

/// The (rows, columns) pairs of a slot: one shape of two sizes, or all such shapes of a tensor list.
fn pairs(args: Args<'_>, slot: usize) -> Result<Vec<(i64, i64)>, ModelError> {
    let positive = |shape: &[i64]| match *shape {
        [a, b] if a > 0 && b > 0 => Some((a, b)),
        _ => None,
    };
    Ok(match args.dims(slot)? {
        Dims::Shape(shape) => positive(shape).into_iter().collect(),
        Dims::List(shapes) => shapes.iter().filter_map(|shape| positive(shape)).collect(),
    })
}

/// `primus_turbo::grouped_gemm(x, weights, …)`: x (M, K) with weights (G, K, N) or (G, N, K), or lists of both.
pub fn grouped(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (group, count) = compact(args)
        .or_else(|| zipped(&pairs(args, 0).ok()?, &pairs(args, 1).ok()?))
        .ok_or_else(|| ModelError::fail("shapes do not form groups of products"))?;
    let sizes = sizes(args, quirks);
    let (Some(input), Some(output)) = (sizes.input, sizes.output) else {
        return Err(ModelError::fail("the size of an operand's type is unknown"));
    };
    let count = Count::from(count);
    let weights = count * group.k * group.n;
    Ok(Box::new(GroupedGemm {
        flops: group.flops(),
        bytes: Some((group.m * group.k + weights) * input + group.m * group.n * output),
        precision: dtype::precision(args.dtype_or_empty(0), quirks),
        params: size_params(group, count, sizes),
        torch_flops: None,
    }))
}

fn compact(args: Args<'_>) -> Option<(Group, usize)> {
    let (&[m, k, ..], &[count, rows, columns]) = (args.shape(0).ok()?, args.shape(1).ok()?) else { return None };
    if [m, k, count, rows, columns].iter().any(|&size| size <= 0) {
        return None;
    }
    let n = if rows == k {
        columns
    } else if columns == k {
        rows
    } else {
        return None;
    };
    Some((Group { m: m.into(), k, n }, usize::try_from(count).ok()?))
}

fn zipped(inputs: &[(i64, i64)], weights: &[(i64, i64)]) -> Option<(Group, usize)> {
    let &(k, n) = weights.first()?;
    let matching = inputs.len() == weights.len()
        && inputs.iter().all(|&(_, depth)| depth == k)
        && weights.iter().all(|&sizes| sizes == (k, n));
    let m = inputs.iter().map(|&(rows, _)| Count::from(rows)).sum();
    matching.then_some((Group { m, k, n }, inputs.len()))
}

/// `primus_turbo::grouped_gemm_variable_k(a, b, group_lengths)`: the weight gradient, a sum over each group's rows.
pub fn variable_k(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let groups = variable_groups(args)?;
    let (Some(first), m) = (groups.first(), groups.iter().map(|group| group.m).sum()) else {
        return Err(ModelError::fail("no groups"));
    };
    let sizes = sizes(args, quirks);
    let total = Group { m, ..*first };
    let cuts = cuts(args, &groups, quirks);
    let mut params = size_params(total, cuts.map_or(Count::from(groups.len()), Count::from), sizes);
    params.push(("group_pairs", Value::List(groups.iter().map(pair_param).collect())));
    Ok(Box::new(GroupedGemm {
        flops: groups.iter().map(|group| group.flops()).sum(),
        bytes: variable_bytes(&groups, cuts, sizes),
        precision: dtype::precision(args.dtype_or_empty(0), quirks),
        params,
        torch_flops: None,
    }))
}

fn pair_param(group: &Group) -> Value {
    let m = group.m.to_i64();
    Value::Tuple(vec![Value::shape(&[m, group.k]), Value::shape(&[group.k, group.n])])
}

/// One pair for two matrices, or the pairs of two lists.
fn variable_groups(args: Args<'_>) -> Result<Vec<Group>, ModelError> {
    if let (&[m, k], &[_, n]) = (args.shape_or_empty(0), args.shape_or_empty(1)) {
        return Ok(vec![Group { m: m.into(), k, n }]);
    }
    let (a, b) = (pairs(args, 0)?, pairs(args, 1)?);
    if a.is_empty() || a.len() != b.len() || a.iter().zip(&b).any(|(x, y)| x.1 != y.0) {
        return Err(ModelError::fail("shapes do not form groups of products"));
    }
    Ok(a.iter().zip(&b).map(|(x, y)| Group { m: x.0.into(), k: x.1, n: y.1 }).collect())
}

/// Groups that the rows of two whole matrices are cut into; `None` for lists of matrices. The reference does not cut
/// (F32).
fn cuts(args: Args<'_>, groups: &[Group], quirks: &Quirks) -> Option<i64> {
    let whole = groups.len() == 1 && args.shape_or_empty(0).len() == 2 && !quirks.grouped_output_as_weight;
    whole.then(|| args.shape_or_empty(2).first().copied().unwrap_or(1))
}

fn variable_bytes(groups: &[Group], cuts: Option<i64>, sizes: Sizes) -> Option<Count> {
    let (input, output) = (sizes.input?, sizes.output?);
    // Two whole matrices share their rows; each group of rows gives a K × N gradient (F32).
    if let ([one], Some(count)) = (groups, cuts) {
        let gradients = Count::from(count) * one.k * one.n;
        return Some((one.m * one.k + one.m * one.n) * input + gradients * output);
    }
    let bytes = |g: &Group| (g.m * g.k + Count::from(g.k) * g.n) * input + g.m * g.n * output;
    Some(groups.iter().map(bytes).sum())
}

/// Slots of the offsets of the groups and of the type of the result.
fn offsets_and_type(name: &str) -> (usize, usize) {
    match name {
        "aten::_scaled_grouped_mm" => (4, 7),
        "aten::_scaled_grouped_mm_v2" => (8, 10),
        _ => (2, 4),
    }
}

/// `aten::_grouped_mm(A, B, offsets, bias, out_dtype)` and its scaled likes: (M, K)·(G, K, N), (G, M, K)·(G, K, N), or the
/// weight gradient (M, K)·(K, N) cut into G sums.
pub fn aten_grouped_mm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (left, right) = (args.shape(0)?, args.shape(1)?);
    let (offsets, result_type) = offsets_and_type(call.name);
    let cuts = || args.shape_or_empty(offsets).first().copied().unwrap_or(1);
    let (&[.., m, k], &[.., n]) = (left, right) else { return Err(ModelError::fail("operands without dimensions")) };
    // Groups, whole products, outputs: only a 3-D pair has a product per group; cutting the sums gives an output each.
    let (groups, products, outputs) = match (left.len(), right.len()) {
        (2, 3) => (right[0], 1, 1),
        (3, 3) => (left[0], left[0], left[0]),
        (3, 2) => (left[0], 1, 1),
        (2, 2) => (cuts(), 1, cuts()),
        _ => return Err(ModelError::fail("shapes do not form groups of products")),
    };
    // Bytes are those of the pairs, sums run over the numbers.
    let k = if dtype::is_packed_pair(args.dtype(0)?) { k.saturating_mul(2) } else { k };
    let flops = 2 * Count::from(m) * k * n * products;
    let size = args.size(0, quirks)?;
    // 8-bit products are stored in 16 bits unless the call names another type.
    let written = args.int(result_type).ok().and_then(dtype::size_of_code).or(size.map(|size| size.max(2)));
    let operands = Bytes::new().and_read(args, 0, quirks)?.and_read(args, 1, quirks)?;
    let bytes = operands.and(Count::from(m) * n * outputs, written).total();
    Ok(Box::new(GroupedGemm {
        flops,
        bytes,
        precision: dtype::precision(args.dtype(0)?, quirks),
        params: vec![
            ("M", m.into()),
            ("K", k.into()),
            ("N", n.into()),
            ("G", groups.into()),
            ("dtype_A_B", Value::texts(&[args.dtype(0)?, args.dtype(1)?])),
        ],
        torch_flops: Some(flops),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_must_match_group_by_group() {
        let a = [(512, 1024), (256, 1024)];
        assert_eq!(
            zipped(&a, &[(1024, 2048), (1024, 2048)]),
            Some((Group { m: Count::from(768_i64), k: 1024, n: 2048 }, 2))
        );
        assert_eq!(zipped(&a, &[(1024, 2048)]), None);
        assert_eq!(zipped(&a, &[(1024, 2048), (1024, 64)]), None);
        assert_eq!(zipped(&[], &[]), None);
    }
}
