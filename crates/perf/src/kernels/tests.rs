use super::*;

fn parsed(name: &str) -> Option<GemmKernel> {
    gemm_kernel(&[name], &Quirks::NONE).unwrap()
}

fn flags(name: &str) -> Option<(Option<bool>, Option<bool>)> {
    parsed(name).map(|k| (k.trans_a, k.trans_b))
}

fn tile(name: &str) -> Option<(i64, i64, Option<i64>)> {
    parsed(name).and_then(|k| k.tile).map(|t| (t.m, t.n, t.k))
}

#[test]
fn tensile_names() {
    let name = "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x160x64_MI16x16x1_SN";
    assert_eq!(flags(name), Some((Some(true), Some(false))));
    assert_eq!(tile(name), Some((128, 160, Some(64))));
    assert_eq!(flags("Custom_Cijk_Ailk_Bjlk_HHS_BH"), Some((Some(false), Some(true))));
    assert_eq!(tile("Custom_Cijk_Ailk_Bjlk_HHS_BH"), None);
    assert_eq!(flags("Cijk_Axyz_Bxyz_SB"), Some((None, None)), "known form, unknown layout");
    assert_eq!(flags("Cij_Alik_Bljk_SB"), None);
}

#[test]
fn nvjet_names() {
    assert_eq!(flags("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT"), Some((Some(true), Some(false))));
    let name = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT";
    assert_eq!(
        parsed(name),
        Some(GemmKernel {
            trans_a: Some(false),
            trans_b: Some(true),
            tile: Some(Tile { m: 256, n: 128, k: Some(64) }),
            stages: Some(4),
            cluster: Some((1, 2)),
        })
    );
    assert_eq!(parsed("nvjet_x"), None);
    assert!(gemm_kernel(&["nvjet_x"], &Quirks::REFERENCE).is_err(), "F42: a short token breaks the model");
}

#[test]
fn names_that_only_the_longer_grammar_knows() {
    let xmma =
        "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_execute_kernel__5x_cublas";
    let relu = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8>(cutlass_80_\
                tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8::Params)";
    let old = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(cutlass_75)";
    let simt = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(x)";
    let ogs = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu";
    for (name, trans, size) in [
        (xmma, (false, true), (256, 64, Some(8))),
        (relu, (true, false), (128, 64, Some(64))),
        (old, (false, false), (128, 128, None)),
        (simt, (false, false), (128, 32, Some(8))),
        (ogs, (false, false), (16, 128, Some(256))),
    ] {
        assert_eq!(flags(name), Some((Some(trans.0), Some(trans.1))), "{name}");
        assert_eq!(tile(name), Some(size), "{name}");
        assert_eq!(gemm_kernel(&[name], &Quirks::REFERENCE), Ok(None), "F42: {name}");
    }
}

#[test]
fn the_first_name_that_parses_wins() {
    let kernels = ["Memset (Device)", "void at::native::foo", "nvjet_a_8x64_64x16_2x1_v_bz_TNN", "nvjet_NTT"];
    assert_eq!(
        gemm_kernel(&kernels, &Quirks::REFERENCE).unwrap().map(|k| (k.trans_a, k.trans_b)),
        Some((Some(true), Some(false)))
    );
    assert_eq!(gemm_kernel(&[], &Quirks::REFERENCE), Ok(None));
}

#[test]
fn dimension_efficiency_of_the_documented_products() {
    // BLAS 10240×2048 in 256×64 tiles: 40·32 = 1280 tiles fit exactly; ⌈1280/304⌉ = 5 waves: 1280/1520.
    let e = dimension_efficiency(2048, 10240, Tile { m: 256, n: 64, k: None }, 304).unwrap();
    assert_eq!(e.tiles, Count::from(1280_i64));
    assert!((e.tile - 1.0).abs() < 1e-12 && (e.wave - 1280.0 / 1520.0).abs() < 1e-12);
    // BLAS 2048×10240 in 256×144 tiles: 8·⌈71.1⌉ = 576 tiles, 10240/10368 useful, 576/608 busy.
    let e = dimension_efficiency(10240, 2048, Tile { m: 256, n: 144, k: None }, 304).unwrap();
    assert_eq!(e.tiles, Count::from(576_i64));
    assert!((e.total() - 10240.0 / 10368.0 * 576.0 / 608.0).abs() < 1e-12);
    assert_eq!(dimension_efficiency(1, 1, Tile { m: 0, n: 1, k: None }, 304), None);
}

#[test]
fn element_sizes_of_tensor_lists() {
    for (kernel, sizes) in [
        ("void at::native::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 3, 64, 64>(x)", Some((2, 2))),
        ("index_put_kernel_impl<at::native::OpaqueType<8> >(at::TensorIterator&)", Some((8, 8))),
        (
            "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>",
            Some((4, 4)),
        ),
        ("multi_tensor_apply_kernel<Metadata<4>, FusedAdamMathFunctor<c10::BFloat16, 4, false>, float>", Some((2, 2))),
        ("CopyFunctor<int, long, 2, 1, 1>", Some((4, 8))),
        ("direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}", Some((2, 2))),
        ("Memcpy DtoD (Device -> Device)", None),
        ("OpaqueType<>", None),
    ] {
        assert_eq!(list_element_sizes(kernel), sizes, "{kernel}");
    }
    assert_eq!(list_element_size(&["Memset (Device)", "x<OpaqueType<4>>"]), Some(4));
}

#[test]
fn a_concatenation_names_the_type_of_its_tensors() {
    for (kernel, kind) in [
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<c10::BFloat16, unsigned int, 2, 64, 64>(x)",
            Some("c10::BFloat16"),
        ),
        ("CatArrayBatchedCopy_aligned16_contig<c10::Half, unsigned int, 3, 128, 1>(x)", Some("c10::Half")),
        ("CatArrayBatchedCopy<double, unsigned int, 2, 64, 64>(double*, x)", Some("double")),
        ("CatArrayBatchedCopy<long, unsigned int, 2, 64, 64>(long*, x)", Some("long")),
        ("CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<8u>, unsigned int>(x)", None),
        ("copy<c10::Half>(x)", None),
    ] {
        assert_eq!(concatenated_dtype(&[kernel]), kind, "{kernel}");
    }
}

#[test]
fn tf32_is_told_by_the_kernel() {
    for (name, tf32) in [
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k_off", true),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(…)", true),
        (
            "void cutlass::device_kernel<MainloopSm90TmaGmmaWarpSpecialized<cutlass::tfloat32_t, cutlass::tfloat32_t>>",
            true,
        ),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4", false),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(…)", false),
    ] {
        assert_eq!(uses_tf32(&[name]), tf32, "{name}");
    }
}
