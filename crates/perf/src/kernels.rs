//! What kernel names tell: layout and tile of matrix products, element types of tensor lists.
//!
//! Names are read by their `_`-separated tokens; nothing here knows an operation.

use crate::count::Count;
use crate::dtype;
use crate::models::ModelError;
use crate::parity::Quirks;

/// Tile of output elements that one block of threads computes, as the kernel (BLAS, column-major) sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub m: i64,
    /// Columns.
    pub n: i64,
    /// Depth of one step, where the name tells it.
    pub k: Option<i64>,
}

/// What the name of a matrix-product kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmKernel {
    /// Whether A is transposed (BLAS flag).
    pub trans_a: Option<bool>,
    /// Whether B is transposed (BLAS flag).
    pub trans_b: Option<bool>,
    /// Tile of the output.
    pub tile: Option<Tile>,
    /// Software-pipeline stages, where the name tells them.
    pub stages: Option<i64>,
    /// Thread-block cluster, where the name tells it.
    pub cluster: Option<(i64, i64)>,
}

/// The first of `kernels` (in order of start) whose name is that of a known family of matrix products.
///
/// Fails only under [`Quirks::gemm_kernel_grammar_short`], on an nvjet name whose last token is too short.
pub fn gemm_kernel(kernels: &[&str], quirks: &Quirks) -> Result<Option<GemmKernel>, ModelError> {
    for name in kernels {
        if let Some(found) = tensile(name) {
            return Ok(Some(found));
        }
        if name.starts_with("nvjet") {
            match nvjet(name) {
                Some(found) => return Ok(Some(found)),
                None if quirks.gemm_kernel_grammar_short => {
                    return Err(ModelError::fail(format!("kernel name `{name}` ends in too short a token")));
                }
                None => {}
            }
        }
        if !quirks.gemm_kernel_grammar_short
            && let Some(found) = xmma(name).or_else(|| cutlass(name)).or_else(|| matmul_ogs(name))
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Tensile and hipBLASLt: `Cijk_Alik_Bljk_…_MT128x160x64_…`.
fn tensile(name: &str) -> Option<GemmKernel> {
    let indices = |text: &[u8]| text.iter().all(u8::is_ascii_lowercase);
    name.as_bytes().windows("Cijk_Alik_Bljk".len()).find(|w| {
        (w[0], &w[4..6], &w[9..11]) == (b'C', b"_A", b"_B")
            && [1..4, 6..9, 11..14].into_iter().all(|at| indices(&w[at]))
    })?;
    let flag = |plain: &str, transposed: &str| match () {
        () if name.contains(plain) => Some(false),
        () if name.contains(transposed) => Some(true),
        () => None,
    };
    let tile = name.match_indices("MT").find_map(|(at, _)| match *times(leading(&name[at + 2..]))?.as_slice() {
        [m, n, k, ..] => Some(Tile { m, n, k: Some(k) }),
        _ => None,
    });
    Some(GemmKernel {
        trans_a: flag("_Ailk_", "_Alik_"),
        trans_b: flag("_Bljk_", "_Bjlk_"),
        tile,
        stages: None,
        cluster: None,
    })
}

/// The longest head of `text` made of digits and `x`.
fn leading(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit() && c != 'x').unwrap_or(text.len())]
}

/// `64x128x32` as numbers; `None` unless every part is one.
fn times(text: &str) -> Option<Vec<i64>> {
    text.split('x').map(|part| part.parse().ok()).collect()
}

fn pair(token: &str) -> Option<(i64, i64)> {
    let (a, b) = token.split_once('x')?;
    Some((a.parse().ok()?, b.parse().ok()?))
}

/// `nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT`: tile, depth × stages, cluster, layouts.
fn nvjet(name: &str) -> Option<GemmKernel> {
    let mut layout = name.rsplit('_').next()?.chars();
    let (a, b) = (layout.next()?, layout.next()?);
    let pairs: Vec<Option<(i64, i64)>> = name.split('_').map(pair).collect();
    let sizes = pairs.windows(3).find_map(|w| Some((w[0]?, w[1]?, w[2]?)));
    Some(GemmKernel {
        trans_a: Some(a == 'T'),
        trans_b: Some(b == 'T'),
        tile: sizes.map(|((m, n), (k, _), _)| Tile { m, n, k: Some(k) }),
        stages: sizes.map(|(_, (_, stages), _)| stages),
        cluster: sizes.map(|(_, _, cluster)| cluster),
    })
}

/// `tn` as two BLAS flags.
fn layout_pair(token: &str) -> Option<(bool, bool)> {
    match token {
        "nn" => Some((false, false)),
        "nt" => Some((false, true)),
        "tn" => Some((true, false)),
        "tt" => Some((true, true)),
        _ => None,
    }
}

/// `sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_…`.
fn xmma(name: &str) -> Option<GemmKernel> {
    let rest = after(name, "_xmma_gemm_")?;
    let tokens: Vec<&str> = rest.split('_').collect();
    tokens.windows(3).find_map(|w| {
        let (trans_a, trans_b) = layout_pair(w[0])?;
        match *times(w[2].strip_prefix("tilesize")?)?.as_slice() {
            [m, n, k] if matches!(w[1], "n" | "t") => Some(GemmKernel {
                trans_a: Some(trans_a),
                trans_b: Some(trans_b),
                tile: Some(Tile { m, n, k: Some(k) }),
                stages: rest.split('_').find_map(|t| t.strip_prefix("stage")?.parse().ok()),
                cluster: None,
            }),
            _ => None,
        }
    })
}

/// `cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8`; old ones lack the depth.
fn cutlass(name: &str) -> Option<GemmKernel> {
    let start = name.find("cutlass_").filter(|_| name.contains("gemm_"))?;
    let tokens: Vec<&str> = name[start..].split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let at = tokens.windows(2).position(|w| layout_pair(w[0]).is_some() && w[1].starts_with("align"))?;
    let (trans_a, trans_b) = layout_pair(tokens[at])?;
    let before = |steps: usize| at.checked_sub(steps).and_then(|i| pair(tokens[i]));
    let (tile, stages) = match (before(2), before(1)) {
        (Some((m, n)), Some((k, stages))) => (Tile { m, n, k: Some(k) }, Some(stages)),
        (None, Some((m, n))) => (Tile { m, n, k: None }, None),
        _ => return None,
    };
    Some(GemmKernel { trans_a: Some(trans_a), trans_b: Some(trans_b), tile: Some(tile), stages, cluster: None })
}

/// `_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu`: layouts of x, w and out, types, tile and K splits.
fn matmul_ogs(name: &str) -> Option<GemmKernel> {
    let rest = after(name, "_matmul_ogs_")?;
    let mut tokens = rest.split('_');
    let layout = tokens.next().filter(|t| t.len() == 3 && t.bytes().all(|b| matches!(b, b'N' | b'T')))?;
    let _types = tokens.next()?;
    let tile = match *times(tokens.next()?)?.as_slice() {
        [m, n, k, _splits] => Tile { m, n, k: Some(k) },
        _ => return None,
    };
    Some(GemmKernel {
        trans_a: Some(layout.starts_with('T')),
        trans_b: Some(layout[1..].starts_with('T')),
        tile: Some(tile),
        stages: None,
        cluster: None,
    })
}

/// Whether one of the kernels of an fp32 matrix product computes in tf32: it says so, or it runs on matrix units, which
/// have no fp32.
pub fn uses_tf32(kernels: &[&str]) -> bool {
    const WORDS: [&str; 4] = ["tf32", "TF32", "tfloat32", "tensorop_s1688"];
    kernels.iter().any(|name| WORDS.iter().any(|word| name.contains(word)) || name.starts_with("nvjet"))
}

/// Whether one of the kernels of a matrix product multiplies a sparse matrix.
pub fn multiplies_sparse(kernels: &[&str]) -> bool {
    kernels.iter().any(|name| ["cusparse::", "csrmm", "spmm", "rocsparse"].iter().any(|mark| name.contains(mark)))
}

/// How well a product's output fits the tiles of its kernel and the chip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DimensionEfficiency {
    /// Number of tiles.
    pub tiles: Count,
    /// Useful share of the elements that the tiles cover.
    pub tile: f64,
    /// Share of compute units busy, averaged over the waves of tiles.
    pub wave: f64,
}

impl DimensionEfficiency {
    /// Product of the two shares.
    pub fn total(&self) -> f64 {
        self.tile * self.wave
    }
}

/// Efficiency of an `m` × `n` output (torch's sizes) for `tile` on a chip of `compute_units`.
///
/// BLAS is column-major, so the kernel's rows are torch's columns. `None` if a size is not positive.
pub fn dimension_efficiency(m: i64, n: i64, tile: Tile, compute_units: i64) -> Option<DimensionEfficiency> {
    if m <= 0 || n <= 0 || tile.m <= 0 || tile.n <= 0 || compute_units <= 0 {
        return None;
    }
    let (rows, columns) = (Count::from(n).div_ceil(tile.m)?, Count::from(m).div_ceil(tile.n)?);
    let tiles = rows * columns;
    let covered = rows * tile.m * (columns * tile.n);
    let waves = tiles.div_ceil(compute_units)?;
    Some(DimensionEfficiency {
        tiles,
        tile: (Count::from(m) * n).to_f64() / covered.to_f64(),
        wave: tiles.to_f64() / (waves * compute_units).to_f64(),
    })
}

/// Bytes of an element of the tensors that the first telling one of `kernels` works on.
///
/// Tensor lists have no type in a trace; the kernel's template arguments do.
pub fn list_element_size(kernels: &[&str]) -> Option<i64> {
    kernels.iter().find_map(|name| list_element_sizes(name)).map(|(first, _)| first)
}

/// Element sizes named by a kernel's template: of the first and, for copies between types, of the second.
pub fn list_element_sizes(kernel: &str) -> Option<(i64, i64)> {
    if let Some(argument) = after(kernel, "OpaqueType<") {
        let digits: String = argument.chars().take_while(char::is_ascii_digit).collect();
        let size = digits.parse().ok().filter(|&n| n > 0)?;
        return Some((size, size));
    }
    let (first, second) = element_types(kernel)?;
    Some((cpp_size(first)?, cpp_size(second)?))
}

/// Type of the tensors that the first telling one of `kernels` works on, where its template names it.
pub fn list_dtype<'a>(kernels: &[&'a str]) -> Option<&'a str> {
    kernels.iter().find_map(|name| element_types(name)).map(|(first, _)| first)
}

/// Whether one of `kernels` copies from one type to another: it names the type that it works in, not the one that it reads.
pub fn casts(kernels: &[&str]) -> bool {
    let casting = |name: &str| {
        let of_two_types = name.contains("copy_kernel_cuda") && !name.contains("direct_copy_kernel_cuda");
        of_two_types || name.contains("LoadWithCast")
    };
    kernels.iter().any(|name| casting(name))
}

/// The element type that the template of a concatenation names: `CatArrayBatchedCopy_contig<c10::Half, …>`.
pub fn concatenated_dtype<'a>(kernels: &[&'a str]) -> Option<&'a str> {
    let of = |name: &&'a str| {
        let (_, arguments) = after(name, "CatArrayBatchedCopy")?.split_once('<')?;
        template_arguments(arguments).next().filter(|first| cpp_size(first).is_some())
    };
    kernels.iter().find_map(of)
}

/// The element type that a kernel's template names, and the second one of a copy between types.
fn element_types(kernel: &str) -> Option<(&str, &str)> {
    // The functor is the template argument that names the arithmetic: `BinaryOpListAlphaFunctor<float, 2, 2, 0>`.
    for (at, marker) in kernel.match_indices("Functor<") {
        let arguments: Vec<&str> = template_arguments(&kernel[at + marker.len()..]).collect();
        if let Some(&first) = arguments.first().filter(|name| cpp_size(name).is_some()) {
            return Some((first, arguments.get(1).copied().filter(|name| cpp_size(name).is_some()).unwrap_or(first)));
        }
    }
    // Copies end in the type they move: `…::{lambda(c10::BFloat16)#1}`.
    let (_, argument) = kernel.rsplit_once("lambda(")?;
    let name = argument.split([')', ',']).next().filter(|name| cpp_size(name).is_some())?;
    Some((name, name))
}

fn after<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    text.split_once(marker).map(|(_, rest)| rest)
}

/// The arguments of a template list, up to its closing bracket.
fn template_arguments(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let end = text.find(|c| match c {
        '<' | '(' => {
            depth += 1;
            false
        }
        '>' | ')' if depth == 0 => true,
        '>' | ')' => {
            depth -= 1;
            false
        }
        _ => false,
    });
    text[..end.unwrap_or(text.len())].split(',').map(str::trim)
}

/// Bytes of a C++ type as kernel templates spell it.
fn cpp_size(name: &str) -> Option<i64> {
    match name.trim() {
        "long" | "unsigned long" | "long long" | "unsigned long long" => Some(8),
        "__half" | "__nv_bfloat16" => Some(2),
        "Scalar" | "scalar" => None,
        other => dtype::size(other, &Quirks::NONE),
    }
}

#[cfg(test)]
mod tests;
