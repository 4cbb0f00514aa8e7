//! What is read out of kernel names: tile, split of the inner dimension, maker, layout transposes. Data only: no
//! sentence of a report is made of these names.

use std::sync::Arc;

use jarvis_perf::kernels::gemm_kernel;
use jarvis_perf::parity::Quirks;
use jarvis_perf::tables::KernelStat;
use rapidhash::RapidHashMap;

use crate::prepared::{KernelTile, Row};

/// The framework's own kernels.
const NATIVE: &str = "native";

/// Marks of makers, the first that fits.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("tensile-style", &["Cijk_"]),
    ("dnn", &["igemm_", "Im2d2Col", "batched_transpose", "MIOpen", "miopen", "cudnn"]),
    ("composable", &["ck::", "ck_tile", "Fmha"]),
    ("vendor-extension", &["aiter"]),
    ("vendor-gemm", &["xmma", "cutlass", "nvjet", "gemv", "splitKreduce", "cublas"]),
    ("compiled", &["triton_"]),
    (NATIVE, &["at::native", "at_cuda_detail", "vectorized_elementwise_kernel", "elementwise_kernel"]),
];

/// Parts of the names of kernels that only change a layout, in lower case.
const TRANSPOSES: &[&str] = &[
    "batched_transpose",
    "nchw2nhwc",
    "nhwc2nchw",
    "nchwtonhwc",
    "nhwctonchw",
    "transpose_nchw",
    "transpose_nhwc",
    "transpose_cnhw",
];

/// How the compiler begins the names of kernels that it writes: pointwise, reductions (one pass, several, split), lists of
/// tensors, mixed ones, and what it fills into templates. Other Triton kernels are written by hand.
const GENERATED: &[&str] = &["poi", "red", "per", "spl", "for", "mix", "tem", "mm", "bmm", "flex"];

/// What a kernel's name tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelName {
    pub(crate) library: Option<&'static str>,
    pub(crate) tile: Option<KernelTile>,
    pub(crate) split: Option<i64>,
}

impl KernelName {
    fn of(name: &str) -> Self {
        Self { library: library(name), tile: tile(name), split: split(name) }
    }

    /// Whether the kernel is one of the framework's own and not of a library.
    pub(crate) fn is_native(&self) -> bool {
        self.library == Some(NATIVE)
    }
}

/// What the names of kernels tell. Many rows launch the same few kernels, and their names are long.
#[derive(Debug, Default)]
pub struct KernelNames(RapidHashMap<Arc<str>, KernelName>);

impl KernelNames {
    pub(crate) fn of<'a>(kernels: impl Iterator<Item = &'a KernelStat>) -> Self {
        let mut read = RapidHashMap::default();
        for kernel in kernels {
            if !read.contains_key(&kernel.name) {
                read.insert(Arc::clone(&kernel.name), KernelName::of(&kernel.name));
            }
        }
        Self(read)
    }

    pub(crate) fn get(&self, name: &str) -> KernelName {
        self.0.get(name).copied().unwrap_or_else(|| KernelName::of(name))
    }
}

/// Maker of a kernel, as far as its name tells.
pub fn library(name: &str) -> Option<&'static str> {
    LIBRARIES.iter().find(|(_, marks)| marks.iter().any(|m| name.contains(m))).map(|(library, _)| *library)
}

/// Whether a kernel is one of the framework's own and not of a library.
pub fn is_native(name: &str) -> bool {
    library(name) == Some(NATIVE)
}

/// Whether a compiler wrote a kernel for the work at hand.
pub(crate) fn is_generated(name: &str) -> bool {
    let kind = name.strip_prefix("triton_").and_then(|rest| rest.split('_').next());
    kind.is_some_and(|kind| GENERATED.contains(&kind))
}

/// Whether a kernel only changes a layout.
pub fn is_transpose(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    TRANSPOSES.iter().any(|part| lower.contains(part))
}

/// Parts of the names of the framework's own kernels that add, sum up or copy, and compute no product.
const STEPS: &[&str] = &["elementwise", "reduce_kernel", "copy", "Copy"];

/// Whether a kernel is a step beside the work that an operation with products is for: a bias, a sum, a copy.
pub fn is_step(name: &str) -> bool {
    is_copy_or_fill(name) || is_native(name) && STEPS.iter().any(|part| name.contains(part))
}

/// The row's main kernel: the one with most time that is no layout change and, where products are what the operation is
/// for, no step beside them. No library chose the kernel that adds the bias of a convolution.
pub(crate) fn main_kernel(row: &Row) -> Option<&str> {
    main_of(&row.kernels, &row.category)
}

/// The same of the kernels of a row in the making.
pub(crate) fn main_of<'k>(kernels: &'k [KernelStat], category: &str) -> Option<&'k str> {
    let names = || kernels.iter().rev().map(|k| &*k.name);
    if kernels.len() < 2 {
        return names().next();
    }
    let computes = |n: &&str| !is_transpose(n);
    let is_own = |n: &&str| computes(n) && !(has_steps(category) && is_step(n));
    names().find(is_own).or_else(|| names().find(computes)).or_else(|| names().next())
}

/// Whether products are what operations of a category are for, so that other kernels of their calls are steps beside them.
pub(crate) fn has_steps(category: &str) -> bool {
    matches!(category, "gemm" | "convolution")
}

/// How the names of copies and fills begin, with all makers.
const COPIES_AND_FILLS: &[&str] = &["Memcpy", "Memset", "__amd_rocclr_", "MEMORY_COPY_", "CopyHostTo", "CopyDeviceTo"];

/// Whether a GPU event is a copy or a fill and no kernel that computes, as far as its name tells.
pub fn is_copy_or_fill(name: &str) -> bool {
    COPIES_AND_FILLS.iter().any(|start| name.starts_with(start))
}

/// Tile of a matrix kernel.
pub fn tile(name: &str) -> Option<KernelTile> {
    // However it is written, a size stands beside another. Most names have none, and to read one takes a while.
    let is_size = |w: &[u8]| w[0].is_ascii_digit() && w[1] == b'x' && w[2].is_ascii_digit();
    if !name.as_bytes().windows(3).any(is_size) {
        return None;
    }
    if let Ok(Some(found)) = gemm_kernel(&[name], &Quirks::NONE)
        && let Some(tile) = found.tile
    {
        return Some(KernelTile { m: tile.m, n: tile.n, k: tile.k });
    }
    let written = || after(name, "MT").or_else(|| after(name, "tilesize")).or_else(|| between(name));
    written().or_else(|| after(name, "bt")).or_else(|| mangled(name))
}

/// In how many parts a kernel splits the inner dimension; `Some(0)` if it splits and does not say in how many.
pub fn split(name: &str) -> Option<i64> {
    let told = name.match_indices("GSU").find_map(|(at, _)| leading_int(&name[at + 3..]).map(|(n, _)| n));
    if told.is_some_and(|n| n > 1) {
        return told;
    }
    // Names say so too of a kernel that could split and does not.
    let lower = name.to_ascii_lowercase().replace("segment_k_off", "");
    ["splitk", "split_k", "segment_k"].iter().any(|word| lower.contains(word)).then_some(0)
}

/// `<mark>MxN` with at least two sizes, `xK` if there is a third.
fn after(name: &str, mark: &str) -> Option<KernelTile> {
    name.match_indices(mark).find_map(|(at, _)| sizes(&name[at + mark.len()..]).filter(|t| t.k.is_some()))
}

/// A token `128x256` or `128x256x64` between underscores, of two or three digits a side.
fn between(name: &str) -> Option<KernelTile> {
    let side = |n: i64| (10..1000).contains(&n);
    let whole = |token: &str| {
        let tile = sizes(token)?;
        let text = match tile.k {
            Some(k) => format!("{}x{}x{k}", tile.m, tile.n),
            None => format!("{}x{}", tile.m, tile.n),
        };
        (text == token && side(tile.m) && side(tile.n)).then_some(tile)
    };
    let mut tokens: Vec<&str> = name.split('_').collect();
    // A token between underscores has one on either side.
    tokens.pop();
    // What one instruction computes is no tile: several make one.
    tokens.windows(2).filter(|w| !w[0].ends_with("MMA")).find_map(|w| whole(w[1]))
}

/// The first list of sizes in a mangled name that can be a tile: `IJNSG_ILi128EEENSG_ILi256EEENSG_ILi64EEEE`. What was
/// said before is not said again (`SN_`), so the third may be missing.
fn mangled(name: &str) -> Option<KernelTile> {
    const LEAST: i64 = 16;
    let size = |text: &str| {
        let (sign, rest) = text.split_once("ILi")?;
        let plain = sign.starts_with('N') && sign.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let value = rest[..digits].parse::<i64>().ok().filter(|&v| plain && v >= LEAST)?;
        Some((value, digits + sign.len() + "ILi".len() + rest[digits..].find(|c| c != 'E')?))
    };
    name.match_indices("IJ").find_map(|(at, _)| {
        let text = &name[at + 2..];
        let (m, used) = size(text)?;
        let text = &text[used..];
        let (n, used) = size(text)?;
        Some(KernelTile { m, n, k: size(&text[used..]).map(|(k, _)| k) })
    })
}

fn sizes(text: &str) -> Option<KernelTile> {
    let (m, rest) = leading_int(text)?;
    let (n, rest) = leading_int(rest.strip_prefix('x')?)?;
    let k = rest.strip_prefix('x').and_then(leading_int).map(|(k, _)| k);
    (m > 0 && n > 0).then_some(KernelTile { m, n, k })
}

fn leading_int(text: &str) -> Option<(i64, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles() {
        let tile_of = |name: &str| tile(name).map(|t| (t.m, t.n, t.k));
        assert_eq!(tile_of("Cijk_Ailk_Bljk_BBS_BH_MT128x160x64_MI16x16x1_SN_GSU2_"), Some((128, 160, Some(64))));
        assert_eq!(
            tile_of("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize4x1x1_ffma_"),
            Some((256, 64, Some(8)))
        );
        assert_eq!(
            tile_of("sm90_xmma_fprop_implicit_gemm_f16_nhwckrsc_nhwc_tilesize128x128x64_x"),
            Some((128, 128, Some(64)))
        );
        assert_eq!(tile_of("igemm_fwd_gtcx3_nhwc_fp16_bx0_ex0_bt256x128x32_wt32x32x8"), Some((256, 128, Some(32))));
        assert_eq!(tile_of("some_kernel_128x64_stage"), Some((128, 64, None)));
        // An instruction of 64x256x16, of which several make a tile.
        let collective = "_ZN7cutlass6MmaINSA_IJNS9_1CILi2EEENSG_ILi1EEESI_EEENSA_IJNSG_ILi128EEENSG_ILi256EEENSG_ILi64EEEEEE\
                          NS9_8TiledMMAINS9_8MMA_AtomIJNS9_4SM904GMMA28MMA_64x256x16_F32BF16BF16_SSILNSZ_5MajorE0E";
        assert_eq!(tile_of(collective), Some((128, 256, Some(64))));
        let repeated = "_ZN3MmaINSA_IJNSG_ILi64EEENSG_ILi128EEESN_EEENS9_4SM904GMMA28MMA_64x128x16_F32BF16BF16_SSIL";
        assert_eq!(tile_of(repeated), Some((64, 128, None)));
        assert_eq!(tile_of("GMMA28MMA_64x128x16_F32BF16BF16_SSIL"), None);
        assert_eq!(tile_of("warpsize4x1_kernel"), None);
        assert_eq!(tile_of("void at::native::vectorized_elementwise_kernel<4>"), None);
    }

    #[test]
    fn splits() {
        assert_eq!(split("Cijk_MT128x160x64_GSU4_x"), Some(4));
        assert_eq!(split("Cijk_MT128x160x64_GSU1_x"), None);
        assert_eq!(split("nvjet_sm90_hsh_64x128_64x8_2x1_v_bz_splitK_NTN"), Some(0));
        assert_eq!(split("plain"), None);
        let segments =
            |on: &str| format!("sm90_xmma_gemm_bf16_tilesize128x64x64_execute_segment_k_{on}_kernel__5x_cublas");
        assert_eq!((split(&segments("on")), split(&segments("off"))), (Some(0), None));
    }

    #[test]
    fn steps_beside_products() {
        let steps = [
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add>>",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<float>",
            "Memcpy DtoD (Device -> Device)",
        ];
        assert!(steps.into_iter().all(is_step));
        let products = [
            "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3>",
            "cublasLt::splitKreduce_kernel<32, 16>",
            "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize256x64x32",
        ];
        assert!(!products.into_iter().any(is_step));
    }

    #[test]
    fn makers_and_transposes() {
        assert_eq!(library("Cijk_Ailk"), Some("tensile-style"));
        assert_eq!(library("nvjet_sm90_tst"), Some("vendor-gemm"));
        assert_eq!(library("void cudnn::bn_bw_1C11_kernel_new"), Some("dnn"));
        assert_eq!(library("void at::native::reduce_kernel<512>"), Some("native"));
        assert_eq!(library("triton_poi_fused_add_0"), Some("compiled"));
        let generated = ["triton_poi_fused_add_0", "triton_for_fused_3", "triton_tem_fused_mm_1", "triton_mm"];
        assert!(generated.iter().all(|name| is_generated(name)));
        let written = ["triton_rms_norm_kernel", "triton_format", "_triton_poi_0", "fused_moe_kernel"];
        assert!(!written.iter().any(|name| is_generated(name)));
        assert_eq!(library("my_kernel"), None);
        assert!(is_transpose("void cudnn::engines_precompiled::nchwToNhwcKernel<__half>"));
        assert!(is_transpose("batched_transpose_16x32_half"));
        assert!(!is_transpose("sm90_xmma_wgrad_indexed_implicit_gemm_nhwckrsc_nhwc"));
        let copies = ["Memcpy HtoD (Pinned -> Device)", "CopyDeviceToDevice", "MEMORY_COPY_HOST_TO_DEVICE"];
        assert!(copies.into_iter().all(is_copy_or_fill) && !is_copy_or_fill("bfloat16_copy_kernel_cuda"));
    }
}
