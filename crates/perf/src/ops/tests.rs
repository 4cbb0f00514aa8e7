use std::collections::BTreeMap;

use super::*;
use crate::parity::Quirks;

#[test]
fn every_group_is_sorted_and_no_name_stands_twice() {
    for group in GROUPS {
        assert!(group.windows(2).all(|w| w[0].name < w[1].name), "group of {}", group[0].name);
    }
    assert!(category_only::NAMES.windows(2).all(|w| w[0].0 < w[1].0));
    assert!(all().windows(2).all(|w| w[0].name < w[1].name));
}

/// The registry of the reference, counted by category, backward category and sheet, for the families at hand.
#[test]
fn reference_models_are_complete() {
    let mut counts = BTreeMap::new();
    for entry in all().iter().filter(|entry| entry.reader.is_some() && entry.source == ModelSource::Reference) {
        *counts.entry((entry.category, entry.backward_category.unwrap_or("-"), entry.sheet)).or_insert(0) += 1;
    }
    for (category, backward, sheet, count) in [
        ("CONV_bwd", "CONV_bwd", "CONV", 3),
        ("CONV_fwd", "CONV_bwd", "CONV", 3),
        ("GEMM", "-", "GEMM", 43),
        ("GroupQuant", "-", "BinaryElementwise", 4),
        ("GroupQuant", "-", "GroupQuant", 4),
        ("GroupedGEMM_fwd", "GroupedGEMM_bwd", "GroupedGEMM", 8),
        ("MoE_aux", "-", "GroupQuant", 1),
        ("NORM_bwd", "NORM_bwd", "Normalization", 22),
        ("NORM_fwd", "NORM_bwd", "Normalization", 19),
        ("RMSNorm", "-", "RMSNorm", 13),
        ("SDPA_bwd", "SDPA_bwd", "SDPA", 5),
        ("SDPA_fwd", "SDPA_bwd", "SDPA", 12),
        ("elementwise", "-", "BinaryElementwise", 9),
        ("elementwise", "-", "UnaryElementwise", 27),
        ("reduce", "-", "Reduce", 13),
    ] {
        assert_eq!(counts.get(&(category, backward, sheet)), Some(&count), "{category} {backward} {sheet}");
    }
}

#[test]
fn categories_in_their_order() {
    let reference = |name: &str, kernel| category(name, kernel, &Quirks::REFERENCE);
    let ours = |name: &str, kernel| category(name, kernel, &Quirks::NONE);
    assert_eq!(reference("aten::mm", None), "GEMM");
    // Known by name alone.
    assert_eq!(reference("aten::cudnn_convolution", None), "CONV_fwd");
    // A category without a model overrides the model's.
    assert_eq!(reference("aiter::fused_dynamic_mxfp4_quant_moe_sort_hip", None), "MoE_aux");
    // Ours alone: the reference has a category for the first, not for the second.
    let backward = "aten::_scaled_dot_product_cudnn_attention_backward";
    assert_eq!((reference(backward, None), ours(backward, None)), ("SDPA_bwd", "SDPA_bwd"));
    assert_eq!(reference("aten::_cudnn_attention_backward", None), "other");
    assert_eq!(ours("aten::_cudnn_attention_backward", None), "SDPA_bwd");
    // By the beginning of the name.
    assert_eq!(reference("triton_poi_fused_add_0", None), "triton");
    assert_eq!(reference("triton_unknown", None), "triton");
    assert_eq!(reference("record_param_comms", Some("ncclDevKernel")), "record_param_comms");
    // By the first kernel.
    let elementwise = Some("void at::native::vectorized_elementwise_kernel<4>(int)");
    assert_eq!(reference("aten::gelu", elementwise), "elementwise");
    assert_eq!(reference("aten::gelu", None), "other");
    assert_eq!(ours("aten::gelu", None), "elementwise");
    assert_eq!(reference("aten::any_thing", Some("void at::native::reduce_kernel<512>")), "reduce");
    let list = Some("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<X>");
    assert_eq!(reference("aten::_foreach_add_", list), "multi_tensor_apply");
    assert_eq!(reference("aten::arange", Some("void (anonymous namespace)::elementwise_kernel_with_index")), "other");
    // Kernels that no operation launched, by what libraries call theirs; not for the reference, nor below an operation.
    for (kernel, expected) in [
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "GEMM"),
        ("void cublasLt::splitKreduce_kernel<32, 16>", "GEMM"),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x160x64", "GEMM"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", "SDPA_fwd"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16", "SDPA_bwd"),
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16", "CONV_fwd"),
        ("igemm_fwd_gtcx2_nhwc_bf16_bx0_ex0_bt256x128x32", "CONV_fwd"),
        ("igemm_wrw_gtcx2_nhwc_bf16_bx0_ex0_bt128x128x32", "CONV_bwd"),
        ("batched_transpose_16x64_pack_1x4_ediv_1x2_half", "CONV_fwd"),
        ("void at::native::batch_norm_backward_kernel<float>", "NORM_bwd"),
        ("void at::native::batch_norm_collect_statistics_kernel<float>", "NORM_fwd"),
        ("triton_red_fused_mean_pow_0", "triton"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", "NORM_fwd"),
        ("void at::native::reduce_kernel<512>", "reduce"),
        ("my_kernel", "other"),
    ] {
        let replayed = format!("cudaGraphLaunch->{kernel} (Synthetic Op)");
        let alone = format!("{kernel} (Synthetic Op)");
        assert_eq!([ours(&replayed, Some(kernel)), ours(&alone, Some(kernel))], [expected; 2], "{kernel}");
    }
    let nvjet = Some("nvjet_sm90_tst_64x8");
    assert_eq!(reference("cudaGraphLaunch->nvjet_sm90_tst_64x8 (Synthetic Op)", nvjet), "other");
    assert_eq!(ours("aten::_cudnn_rnn->nvjet_sm90_tst_64x8 (Synthetic Op)", nvjet), "other");
    // Entries that say nothing leave it to the kernel in both modes.
    let gather = Some("void at::native::_scatter_gather_elementwise_kernel<128>");
    assert_eq!((ours("aten::gather", gather), ours("aten::gather", None)), ("elementwise", "other"));
}

#[test]
fn group_quantisers_share_a_sheet() {
    let entry = find("aiter::dynamic_per_tensor_quant").unwrap();
    assert_eq!(sheet(entry, &Quirks::REFERENCE), "BinaryElementwise", "F43");
    assert_eq!(sheet(entry, &Quirks::NONE), "GroupQuant");
}

#[test]
fn synthetic_rows_are_known_by_their_name() {
    let name = "aten::sort->Memset (Device) (Synthetic Op)";
    assert!(is_synthetic(name) && !is_synthetic("aten::sort"));
    assert!(find(name).is_none());
}
