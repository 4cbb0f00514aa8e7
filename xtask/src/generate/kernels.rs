//! Kernels as the profiler describes them. Names are put together from the families that PyTorch, cuBLAS, cuDNN and
//! NCCL use, so that a few lines give the hundred or so names of a real trace.

use super::tensor::{DType, Tensor};

/// Streaming multiprocessors of the H200.
const SM_COUNT: f32 = 132.0;

/// One kernel.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) name: String,
    pub(super) registers: i64,
    pub(super) shared_bytes: i64,
    pub(super) grid: [i64; 3],
    pub(super) block: [i64; 3],
    pub(super) nominal_ns: u32,
}

impl Kernel {
    /// The call that launches it, with its callback id.
    pub(super) fn launcher(&self) -> (&'static str, i64) {
        if self.name.starts_with("nvjet") || self.name.starts_with("cudnn_generated") {
            ("cuLaunchKernelEx", 652)
        } else if self.name.starts_with("nccl") {
            ("cudaLaunchKernelExC", 430)
        } else {
            ("cudaLaunchKernel", 211)
        }
    }

    /// Blocks per multiprocessor, in single precision as the profiler computes it.
    pub(super) fn blocks_per_sm(&self) -> f32 {
        self.grid.iter().product::<i64>() as f32 / SM_COUNT
    }

    /// Warps per multiprocessor.
    pub(super) fn warps_per_sm(&self) -> f32 {
        self.blocks_per_sm() * (self.block.iter().product::<i64>() as f32 / 32.0)
    }

    /// Estimated occupancy in percent, limited by registers (64 K a multiprocessor) and by how many warps there are.
    pub(super) fn occupancy(&self) -> i64 {
        if self.shared_bytes > 100_000 {
            return 0;
        }
        let by_registers = (65_536 / (self.registers.max(16) * 32)).min(64);
        (self.warps_per_sm().min(by_registers as f32) * 100.0 / 64.0) as i64
    }
}

/// Element-wise work: time by bytes at 3 TB/s, plus a start-up.
fn streaming_ns(bytes: i64) -> u32 {
    900 + (bytes / 3000) as u32
}

/// The C++ name of an element type.
fn cpp(dtype: DType) -> &'static str {
    match dtype {
        DType::BFloat16 => "c10::BFloat16",
        DType::Float => "float",
        DType::Long => "long",
    }
}

/// Element-wise kernel over contiguous tensors; `tensors` counts inputs and output.
pub(super) fn vectorized(functor: &str, out: &Tensor, tensors: i64) -> Kernel {
    let width = 16 / out.dtype.bytes();
    let name = format!(
        "void at::native::vectorized_elementwise_kernel<{width}, {functor}, std::array<char*, {tensors}ul> >(int, \
         {functor}, std::array<char*, {tensors}ul>)"
    );
    let blocks = (out.elements() + 511) / 512;
    let nominal_ns = streaming_ns(out.bytes() * tensors);
    Kernel { name, registers: 32, shared_bytes: 0, grid: [blocks.max(1), 1, 1], block: [128, 1, 1], nominal_ns }
}

/// Element-wise kernel over tensors with strides.
pub(super) fn strided(functor: &str, out: &Tensor, tensors: i64) -> Kernel {
    let width = if out.dtype == DType::BFloat16 { 4 } else { 2 };
    let inner = format!(
        "at::native::gpu_kernel_impl_nocast<{functor} >(at::TensorIteratorBase&, {functor} const&)::{{lambda(int)#1}}"
    );
    let name = format!("void at::native::elementwise_kernel<128, {width}, {inner}>(int, {inner})");
    let blocks = (out.elements() + 511) / 512;
    let nominal_ns = streaming_ns(out.bytes() * tensors * 3 / 2);
    Kernel { name, registers: 18, shared_bytes: 0, grid: [blocks.max(1), 1, 1], block: [128, 1, 1], nominal_ns }
}

/// The functor of a binary operation.
pub(super) fn binary(operation: &str, dtype: DType) -> String {
    let t = cpp(dtype);
    match operation {
        "add" => format!("at::native::CUDAFunctor_add<{t}>"),
        _ => format!("at::native::BinaryFunctor<{t}, {t}, {t}, at::native::binary_internal::{operation}<float> >"),
    }
}

/// The functor of an operation with its own lambda, as most unary ones have.
pub(super) fn lambda(function: &str, dtype: DType, arity: usize) -> String {
    let number = if dtype == DType::BFloat16 { 4 } else { 2 };
    let types = vec![cpp(dtype); arity].join(", ");
    format!(
        "at::native::{function}(at::TensorIteratorBase&)::{{lambda()#1}}::operator()() const::{{lambda()#{number}}}::\
         operator()() const::{{lambda({types})#1}}"
    )
}

/// The functor that fills.
pub(super) fn fill(dtype: DType) -> String {
    format!("at::native::FillFunctor<{}>", cpp(dtype))
}

/// A sum or mean over some axes.
pub(super) fn reduce(operation: &str, input: &Tensor, outputs: i64) -> Kernel {
    let t = cpp(input.dtype);
    let op = format!(
        "at::native::ReduceOp<{t}, at::native::func_wrapper_t<{t}, at::native::{operation}<{t}, float, {t}>::operator()\
         (at::TensorIterator&)::{{lambda(float, float)#1}}>, unsigned int, {t}, 4, 8>"
    );
    let name = format!("void at::native::reduce_kernel<512, 1, {op} >({op})");
    let grid = [(outputs / 16).max(1), 1, 1];
    Kernel {
        name,
        registers: 32,
        shared_bytes: 16,
        grid,
        block: [32, 16, 1],
        nominal_ns: 2_000 + streaming_ns(input.bytes()),
    }
}

/// Tiles that cuBLAS chooses among, small to large, with their shared memory.
const TILES: [(&str, i64); 12] = [
    ("64x8_64x16_2x4_h_bz", 164_308),
    ("64x64_64x13_2x1_v_bz", 229_772),
    ("64x128_64x8_2x1_v_bz", 213_268),
    ("96x128_64x6_2x1_v_bz_splitK", 213_204),
    ("128x64_64x8_2x1_v_bz_splitK", 213_252),
    ("128x128_64x6_2x1_v_bz", 213_220),
    ("192x96_64x5_2x1_v_bz", 200_908),
    ("256x96_64x4_2x1_v_bz_coopA", 196_804),
    ("128x256_64x4_2x1_v_bz_coopA", 213_188),
    ("192x192_64x3_1x2_h_bz_coopB", 188_604),
    ("256x128_64x4_1x2_h_bz_coopA", 213_188),
    ("320x128_64x3_1x2_h_bz_coopB", 188_636),
];

/// A matrix product of an `m × k` and a `k × n` matrix; `layout` is cuBLAS's suffix (`TNN`, `NNT`, …).
pub(super) fn gemm(m: i64, n: i64, k: i64, layout: &str) -> Kernel {
    let tiles = (m * n / 4096).max(1);
    // Larger outputs get larger tiles; the rest of the choice only has to depend on the sizes.
    let choice = tiles.ilog2() as usize / 2 + 2 * usize::from(k > 2048) + (m / 8 + n / 64) as usize % 3;
    let (tile, shared_bytes) = TILES[choice.min(TILES.len() - 1)];
    let name = format!("nvjet_sm90_tst_{tile}_{layout}");
    let nominal_ns = 3_000 + (2 * m * n * k / 560_000) as u32;
    Kernel { name, registers: 168, shared_bytes, grid: [2, tiles.min(66), 1], block: [384, 1, 1], nominal_ns }
}

/// A kernel given by its whole name.
pub(super) fn named(name: &str, blocks: i64, threads: i64, nominal_ns: u32) -> Kernel {
    let grid = [blocks.max(1), 1, 1];
    Kernel { name: name.to_owned(), registers: 40, shared_bytes: 0, grid, block: [threads, 1, 1], nominal_ns }
}

/// Flash attention of cuDNN, forward or backward.
pub(super) fn attention(direction: &str, nominal_ns: u32) -> Kernel {
    let tile = if direction == "fprop" { "knob_7_64x128x128_4x1x1" } else { "knob_26_64x64x128_1x4x1" };
    let name = format!("cudnn_generated_fort_native_sdpa_sm90_flash_{direction}_wgmma_f16_{tile}_cga1x1x1_kernel0_0");
    Kernel { name, registers: 168, shared_bytes: 232_448, grid: [132, 1, 1], block: [384, 1, 1], nominal_ns }
}

/// A kernel that works on many tensors at once, as optimizers launch.
pub(super) fn multi_tensor(metadata: &str, functor: &str, blocks: i64) -> Kernel {
    let name = format!(
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::{metadata}, \
         at::native::(anonymous namespace)::{functor}>(at::native::(anonymous namespace)::{metadata}, \
         at::native::(anonymous namespace)::{functor})"
    );
    Kernel { name, registers: 61, shared_bytes: 0, grid: [blocks, 1, 1], block: [512, 1, 1], nominal_ns: 165_000 }
}

/// An all-reduce of `bytes` among eight GPUs.
pub(super) fn all_reduce(bytes: i64) -> Kernel {
    let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)".to_owned();
    // Bus bandwidth of about 350 GB/s, each byte crossing it 1.75 times.
    let nominal_ns = 18_000 + (bytes / 200) as u32;
    Kernel { name, registers: 96, shared_bytes: 84_096, grid: [24, 1, 1], block: [640, 1, 1], nominal_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of kernels in `h200/hf_llama_train`.
    #[test]
    fn blocks_and_warps_as_in_a_real_trace() {
        let mut kernel = named("k", 4096, 256, 1);
        kernel.registers = 32;
        assert_eq!(format!("{:.6} {:.6}", kernel.blocks_per_sm(), kernel.warps_per_sm()), "31.030304 248.242432");
        assert_eq!(kernel.occupancy(), 100);
        kernel.grid = [4, 1, 1];
        kernel.block = [128, 1, 1];
        assert_eq!(format!("{:.6} {:.6}", kernel.blocks_per_sm(), kernel.warps_per_sm()), "0.030303 0.121212");
        assert_eq!(kernel.occupancy(), 0);
    }
}
