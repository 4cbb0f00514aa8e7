//! Numbers that a second implementation gave for public traces.

use jarvis_analyze::metrics::ModuleChain;
use jarvis_analyze::prepared::ModelInfo;

use crate::support::{analyse, finding, fixtures, names, trace};

fn near(value: f64, wanted: f64, relative: f64) -> bool {
    (value - wanted).abs() <= relative * wanted.abs()
}

#[test]
fn timesformer_on_mi300x() {
    let Some(path) = trace("mi300", "facebook_timesformer-base-finetuned-k400__1016002") else { return };
    let a = analyse(&path, "MI300X").unwrap();
    let gemm = a.outcomes.iter().find(|o| &*o.category == "gemm").unwrap().metrics().unwrap();
    assert!(near(gemm.total_time_ms.0, 54.144, 1e-3));
    assert!(near(gemm.percent_of_compute.0, 45.59, 1e-3));
    assert!(near(gemm.percent_of_total.0, 44.65, 1e-3));
    assert_eq!((gemm.operation_count, gemm.unique_args_count), (133, 11));
    assert!(near(gemm.average_efficiency_percent.unwrap().0, 32.91, 1e-2));
    let tiny = gemm.patterns.iter().find(|p| p.pattern == "TINY_BATCHED_GEMM").unwrap();
    let bmm = gemm.rows(&a.prepared).find(|row| row.uid == tiny.tree_uids[0]).unwrap();
    assert!(near(bmm.time_ms, 13.71, 1e-3) && bmm.count == 12);
    assert!(near(bmm.efficiency.efficiency_percent_mean.unwrap(), 1.36, 1e-2));
    assert_eq!(ModuleChain(&bmm.module_path).last(), Some("TimesformerSelfAttention"));
    let baseline = &a.prepared.baseline;
    assert!(near(baseline.bandwidth_tbs, 4.12, 1e-2) && near(baseline.efficiency_percent, 77.8, 1e-2));
    assert_eq!(a.prepared.model.model, "Timesformer");
}

#[test]
fn qwen_on_mi300x() {
    let Some(path) = trace("mi300", "Qwen_Qwen1.5-0.5B-Chat__1016005") else { return };
    let a = analyse(&path, "MI300X").unwrap();
    let p = &a.prepared;
    assert!(near(p.utilization.total_time_ms, 33.131, 1e-3));
    assert!(near(p.utilization.computation_time_ms, 29.743, 1e-3));
    assert!(near(p.utilization.idle_time_percent, 10.22, 1e-2));
    assert!(near(p.baseline.bandwidth_tbs, 3.50, 1e-2) && near(p.baseline.efficiency_percent, 66.1, 1e-2));
    assert!(near(p.category("gemm").unwrap().time_ms, 11.646, 1e-3));
    let third = &p.top_operations[2];
    assert_eq!((&*third.name, third.category.as_deref()), ("aten::_flash_attention_forward", Some("sdpa_fwd")));
    assert!(near(third.time_ms, 3.909, 1e-3) && near(third.percent_of_compute, 13.14, 1e-3));
    assert_eq!(&*third.aliases[0], "aten::_scaled_dot_product_flash_attention");
    // 8.7 % at 559 tokens is within the 8 to 15 % expected.
    assert!(near(third.efficiency_percent.unwrap(), 8.68, 1e-2));
    assert!(!names(&a).contains(&"attention_below_band"));
    assert!(p.model.scale.starts_with("0.46B parameters"), "{}", p.model.scale);
    assert_eq!((p.model.architecture.as_str(), p.model.precision.as_str()), ("Transformer", "BF16"));
}

#[test]
fn convolutions_of_resnet50() {
    let Some(path) = trace("h200", "resnet50_nchw") else { return };
    let a = analyse(&path, "H200").unwrap();
    let conv = a.outcomes.iter().find(|o| &*o.category == "convolution").unwrap().metrics().unwrap();
    let said = |key: &str| conv.category_specific.get(key).unwrap().value().unwrap().clone();
    // Two steps of 6.25 ms each.
    assert!(near(said("transpose_time_ms").as_f64().unwrap(), 12.49, 1e-2));
    assert_eq!(said("transpose_level"), "high");
    assert_eq!(a.prepared.model.architecture, "CNN");
    let layout = finding(&a, "layout_transposes");
    assert!(layout.paths.algorithmic[0].contains("torch.channels_last"));
    assert!(!names(&a).contains(&"norm_below_baseline"), "batch norm is explained by the layout");
}

#[test]
fn attention_in_several_operations_makes_a_transformer() {
    // Neither modules nor an operation of attention: only products with a softmax between them.
    let a = analyse(&fixtures().join("h200/tiny_bmm_window.json.gz"), "H200").unwrap();
    let model = &a.prepared.model;
    assert_eq!((model.model.as_str(), model.architecture.as_str()), (ModelInfo::UNKNOWN, "Transformer"));
    assert!(model.evidence.architecture.contains("attention present"), "{}", model.evidence.architecture);
}
