//! What the size of a launch tells of the work: elements that a kernel of the framework handles, from its blocks.
//!
//! The profiler records long tensor lists, and the tensors of an index, as empty. The grid of the kernel that worked on
//! them is always there, and for a few families each block has a fixed share of the elements. A count made so is uncertain:
//! the last block of each tensor may be filled in part.

use crate::count::Count;

/// Blocks of a kernel and threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Blocks in each direction: `grid` of the trace.
    pub grid: [u32; 3],
    /// Threads of a block in each direction: `block` of the trace.
    pub block: [u32; 3],
}

impl Launch {
    /// All blocks.
    pub fn blocks(&self) -> Count {
        Count::of(&self.grid.map(i64::from))
    }

    /// Whether there was anything to run: a broken trace may say otherwise.
    fn ran(&self) -> bool {
        self.grid.iter().chain(&self.block).all(|&n| n > 0)
    }

    /// Threads of one block.
    pub fn threads(&self) -> Count {
        Count::of(&self.block.map(i64::from))
    }
}

/// Elements of a tensor that one block of `multi_tensor_apply_kernel` handles.
pub const LIST_CHUNK: i64 = 65_536;

/// Most blocks of one launch of `multi_tensor_apply_kernel`.
const MOST_BLOCKS: i64 = 320;

/// Most tensors of a list in one such launch, by the number of lists: their addresses have to fit the arguments.
const MOST_TENSORS: [i64; 5] = [110, 64, 48, 36, 30];

/// Threads that `vectorized_gather_kernel` rounds a row up to.
const WARP: i64 = 32;

/// Elements of the tensors of a list, each list of a call counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListElements {
    /// If every block were full: too many by less than [`LIST_CHUNK`] for each tensor.
    pub most: Count,
    /// If each launch held as many tensors as it can, each with one more element than its full blocks.
    pub least: Count,
    /// Lists that the kernel works on, where its name tells.
    pub lists: Option<usize>,
}

impl ListElements {
    /// As many as are to be expected: half as many tensors as there can be, the last block of each half full. `None` where
    /// that may be too many by more than an eighth, as of a list of many small tensors.
    pub fn estimate(&self) -> Option<Count> {
        let expected = self.most - (self.most - self.least).div_floor(4_i64)?;
        (8 * (expected - self.least) <= expected).then_some(expected)
    }
}

/// Elements of a call's tensor lists, from the launches of its `multi_tensor_apply_kernel`s; the other kernels of such
/// calls only prepare or sum up. `None` without any, or where one's launch is unknown.
///
/// Tensors larger than a launch go on in the next one, so blocks add up over launches.
pub fn list_elements(kernels: &[&str], launches: &[Option<Launch>]) -> Option<ListElements> {
    let mut found: Option<ListElements> = None;
    for (at, kernel) in kernels.iter().enumerate().filter(|(_, kernel)| is_list_kernel(kernel)) {
        let blocks = launches.get(at)?.filter(Launch::ran)?.blocks();
        let lists = list_count(kernel);
        let limit = lists.and_then(|n| MOST_TENSORS.get(n.checked_sub(1)?)).unwrap_or(&MOST_TENSORS[0]);
        // A framework that launches more blocks at once has more room for tensors, too.
        let tensors = (Count::from(*limit) * blocks.div_ceil(MOST_BLOCKS)?).min(blocks);
        let sum = found.unwrap_or(ListElements { most: Count::ZERO, least: Count::ZERO, lists });
        found = Some(ListElements {
            most: sum.most + blocks * LIST_CHUNK,
            least: sum.least + (blocks - tensors) * LIST_CHUNK + tensors,
            lists: sum.lists.filter(|_| sum.lists == lists),
        });
    }
    found
}

fn is_list_kernel(kernel: &str) -> bool {
    kernel.contains("multi_tensor_apply_kernel<")
}

/// Number of lists that a kernel works on: the last argument of `TensorListMetadata<2>`.
fn list_count(kernel: &str) -> Option<usize> {
    let (_, arguments) = kernel.split_once("Metadata<")?;
    arguments.split('>').next()?.rsplit(',').next()?.trim().parse().ok()
}

/// What an indexing kernel picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picked {
    /// Elements picked: too many by less than one block, or by less than one block for each row.
    pub elements: Count,
    /// Indices read: too few where more than one dimension is indexed and the kernel does not show it.
    pub indices: Count,
}

/// Elements that `aten::index` picks, from the launch of the first indexing kernel of a known family.
///
/// `row` is the size of what one index of the first dimension picks, in elements of `size` bytes: taken where the
/// launch fits it.
///
/// - `index_elementwise_kernel<threads, each, …>`: `threads · each` elements a block. Every thread looks the index of its
///   element up, but those of a row are one and the same; only where there is less than a row it has to be another index.
/// - `vectorized_gather_kernel<width, …>`: a row of `grid.y` blocks for each index, a thread moves `width` bytes.
///   Rows are multiples of `width`.
pub fn picked(kernels: &[&str], launches: &[Option<Launch>], row: Count, size: i64) -> Option<Picked> {
    kernels.iter().zip(launches).find_map(|(kernel, launch)| {
        let launch = launch.filter(Launch::ran)?;
        if let Some([threads, each]) = template_numbers(kernel, "index_elementwise_kernel<") {
            let elements = launch.blocks() * threads * each;
            let rows = elements.div_ceil(row).filter(|_| elements >= row);
            return Some(Picked { elements, indices: rows.unwrap_or(elements) });
        }
        let [width] = template_numbers(kernel, "vectorized_gather_kernel<")?;
        let [rows, parts, _] = launch.grid.map(i64::from);
        let covered = launch.threads() * parts * width;
        let step = if parts == 1 { Count::from(width) * WARP } else { launch.threads() * width };
        let bytes = row * size;
        let whole = bytes.div_floor(width)? * width == bytes;
        let fits = whole && bytes.div_ceil(step)? * step == covered;
        let row = if fits { row } else { covered.div_floor(size)? };
        Some(Picked { elements: row * rows, indices: rows.into() })
    })
}

/// Whether the launch of this kernel tells how many elements it handles.
pub fn tells_elements(kernel: &str) -> bool {
    is_list_kernel(kernel)
        || kernel.contains("index_elementwise_kernel<")
        || kernel.contains("vectorized_gather_kernel<")
}

/// The first `N` template arguments of the function called `marker`, positive numbers.
fn template_numbers<const N: usize>(kernel: &str, marker: &str) -> Option<[i64; N]> {
    let (_, arguments) = kernel.split_once(marker)?;
    let mut arguments = arguments.split([',', '>']).map(|text| text.trim().parse().ok().filter(|&n: &i64| n > 0));
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = arguments.next()??;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAM: &str = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous \
        namespace)::FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<c10::BFloat16, 4, 1, false> >(…)";
    const GATHER: &str = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)";

    #[expect(clippy::unnecessary_wraps, reason = "calls hold launches that may be unknown")]
    fn launch(grid: [u32; 3], threads: u32) -> Option<Launch> {
        Some(Launch { grid, block: [threads, 1, 1] })
    }

    #[test]
    fn blocks_of_lists_add_up_over_launches() {
        let launches = [launch([320, 1, 1], 512), launch([4, 1, 1], 64), launch([20, 1, 1], 512)];
        let found = list_elements(&[ADAM, "lpnorm_cleanup", ADAM], &launches).unwrap();
        assert_eq!(found.most, Count::from(340 * LIST_CHUNK));
        assert_eq!(found.least, Count::from((320 - 36) * LIST_CHUNK + 36 + 20));
        assert_eq!(found.lists, Some(4));
        assert_eq!(list_elements(&[ADAM], &[]), None);
        assert_eq!(list_elements(&[ADAM, ADAM], &[launches[0], None]), None);
        assert_eq!(list_elements(&["elementwise_kernel<128, 4>"], &launches), None);
        // (3 · most + least) / 4 where that is sure to an eighth: four lists of large tensors, but not two.
        assert_eq!(found.estimate(), None, "as many tensors as blocks in the second launch");
        let full = [launch([320, 1, 1], 512)];
        let estimate = |kernel: &str| list_elements(&[kernel], &full).unwrap().estimate();
        assert_eq!(estimate(ADAM), Some(Count::from(320 * LIST_CHUNK - 36 * (LIST_CHUNK - 1) / 4)));
        assert_eq!(estimate("multi_tensor_apply_kernel<TensorListMetadata<2>, F>"), None);
        let scalars = "multi_tensor_apply_kernel<TensorListScalarListMetadata<float, 2>, F>";
        assert_eq!(list_count(scalars), Some(2));
    }

    #[test]
    fn indexing_kernels_tell_what_they_pick() {
        let of = |kernel: &str, launch, row: i64, size| {
            picked(&["fill", kernel], &[launch, launch], row.into(), size)
                .map(|p| (p.elements.to_i64(), p.indices.to_i64()))
        };
        let elementwise = "void at::native::index_elementwise_kernel<128, 4, F>(long, F)";
        assert_eq!(of(elementwise, launch([8, 1, 1], 128), 1, 4), Some((4096, 4096)));
        assert_eq!(of(elementwise, launch([1280, 1, 1], 128), 256, 2), Some((655_360, 2560)), "an index a row");
        assert_eq!(of(elementwise, launch([8, 1, 1], 128), 5000, 4), Some((4096, 4096)), "less than a row");
        assert_eq!(of(elementwise, launch([8, 1, 1], 128), 0, 4), Some((4096, 4096)));
        assert_eq!(of(GATHER, launch([7, 1, 1], 96), 768, 2), Some((7 * 768, 7)));
        assert_eq!(of(GATHER, launch([7, 1, 1], 32), 100, 4), Some((700, 7)), "a row is rounded up to a warp");
        assert_eq!(of(GATHER, launch([7, 2, 1], 256), 1028, 4), Some((7 * 1028, 7)), "and above 256 threads to blocks");
        assert_eq!(of(GATHER, launch([7, 1, 1], 32), 1, 4), Some((7 * 128, 7)), "another dimension is indexed");
        assert_eq!(of(GATHER, launch([7, 0, 1], 0), 5, 4), None);
        assert_eq!(of(GATHER, launch([7, 1, 1], 32), 5, 0), None);
        assert_eq!(of("index_elementwise_kernel<0, 4>", launch([7, 1, 1], 32), 5, 4), None);
        assert_eq!(of("fill", launch([7, 1, 1], 32), 5, 4), None);
    }
}
