//! Whose numbers a row shows, and what is known of it besides its cost.

use jarvis_perf::call::{Dims, InputLists, OpCall};
use jarvis_perf::models::{ModelError, evaluate, evaluate_backward, has_model};
use jarvis_perf::ops::{self, ModelSource};
use jarvis_perf::parity::Quirks;

const REFERENCE: &Quirks = &Quirks::REFERENCE;
const CORRECT: &Quirks = &Quirks::NONE;

fn inputs(shapes: &[&[i64]], dtype: &str, concrete: &[&str]) -> InputLists {
    let dims: Vec<Dims> = shapes.iter().map(|shape| Dims::Shape(shape.to_vec())).collect();
    InputLists {
        types: Some(vec![dtype.to_owned(); dims.len()].into()),
        strides: None,
        dims: Some(dims.into()),
        concrete: Some(concrete.iter().map(|&text| text.to_owned()).collect()),
    }
}

/// The same with another type in one slot.
fn with_type(mut inputs: InputLists, slot: usize, dtype: &str) -> InputLists {
    let mut types = inputs.types.unwrap().to_vec();
    dtype.clone_into(&mut types[slot]);
    inputs.types = Some(types.into());
    inputs
}

fn call<'a>(name: &'a str, inputs: &'a InputLists, kernels: &'a [&'a str]) -> OpCall<'a> {
    OpCall { name, inputs, kernels, launches: &[], sequence: None, annotation: None, extra: &[], forward: None }
}

fn close(ours: Option<f64>, theirs: f64) {
    let ours = ours.unwrap();
    assert!((ours - theirs).abs() <= 1e-12 * theirs.abs(), "{ours} is not {theirs}");
}

#[test]
fn numbers_that_no_correction_touches_stay_the_references() {
    let product = inputs(&[&[128, 256], &[256, 512]], "c10::BFloat16", &[]);
    let mm = call("aten::mm", &product, &[]);
    assert_eq!(evaluate(&mm, REFERENCE).source, Some(ModelSource::Reference));
    assert_eq!(evaluate(&mm, CORRECT).source, Some(ModelSource::Reference));
    // Eight bits more in one slot, and the numbers are ours.
    let sum = inputs(&[&[64, 100]], "float", &["", "[1]"]);
    let reduced = call("aten::sum", &sum, &[]);
    assert_eq!(evaluate(&reduced, REFERENCE).source, Some(ModelSource::Reference));
    assert_eq!(evaluate(&reduced, CORRECT).source, Some(ModelSource::Extended));
    assert_eq!(ModelSource::Extended.as_str(), "extended");
}

#[test]
fn other_operands_are_parameters_where_they_decide_the_bytes() {
    let x: &[i64] = &[64, 100];
    let bf16 = |second: &[i64], concrete: &[&str]| inputs(&[x, second, &[]], "c10::BFloat16", concrete);
    let params = |name: &str, inputs: &InputLists, quirks: &Quirks| {
        let list = evaluate(&call(name, inputs, &[]), quirks).params;
        let list: Vec<String> = list.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        list.join(" ")
    };
    for (name, other, parameter) in [
        ("aten::masked_fill", bf16(&[1, 100], &[]), "mask_shape=(1, 100)"),
        ("aten::clamp", bf16(&[100], &[]), "least_shape=(100,)"),
        ("aten::copy_", bf16(&[1, 100], &[]), "source_shape=(1, 100)"),
        ("aten::pow", bf16(&[1, 100], &[]), "operand_shape=(1, 100)"),
        ("aten::silu_backward", with_type(bf16(x, &[]), 1, "float"), "saved_dtype='float'"),
        ("aten::cumsum", bf16(&[], &["", "1", "6"]), "output_bytes_per_elem=4"),
        (
            "aten::sum",
            inputs(&[x, &[], &[], &[]], "c10::BFloat16", &["", "[1]", "False", "6"]),
            "output_bytes_per_elem=4",
        ),
    ] {
        let key = parameter.split('=').next().unwrap();
        let told = params(name, &other, CORRECT);
        assert!(told.contains(parameter), "{name}: {told}");
        assert!(!params(name, &other, REFERENCE).contains(key), "{name}");
        let plain = if name == "aten::cumsum" { bf16(&[], &["", "1", ""]) } else { bf16(x, &["", "", ""]) };
        assert!(!params(name, &plain, CORRECT).contains(key), "{name}: only where it is not as usual");
    }
}

#[test]
fn operations_of_our_own_are_unknown_under_parity() {
    let x = inputs(&[&[8, 1024]], "c10::BFloat16", &[]);
    let gelu = call("aten::gelu", &x, &[]);
    assert!(!has_model(&gelu, REFERENCE) && has_model(&gelu, CORRECT));
    assert_eq!(evaluate(&gelu, REFERENCE).source, None);
    assert_eq!(evaluate(&gelu, CORRECT).source, Some(ModelSource::Extended));
    let unknown = call("my::op", &x, &[]);
    assert!(!has_model(&unknown, CORRECT));
    assert_eq!(evaluate(&unknown, REFERENCE).source, None);
    let generic = evaluate(&unknown, CORRECT);
    assert_eq!(generic.source, Some(ModelSource::Generic));
    close(generic.cost.unwrap().bytes, 2.0 * 8192.0);
}

#[test]
fn a_model_claims_by_name_even_what_it_cannot_read() {
    let broken = inputs(&[&[5]], "float", &[]);
    let mm = call("aten::mm", &broken, &[]);
    assert!(has_model(&mm, REFERENCE));
    let evaluation = evaluate(&mm, REFERENCE);
    assert!(matches!(evaluation.cost, Err(ModelError::Fail(_))));
    assert!(evaluation.params.is_empty());
    // Models of our own leave what they can't read to the operations below.
    let mask = call("aten::where", &broken, &[]);
    assert!(!has_model(&mask, CORRECT) && evaluate(&mask, CORRECT).cost.is_err());
    // Only the reference lets what has no formula vanish (F22).
    let instance = call("aten::instance_norm_backward", &broken, &[]);
    assert!(evaluate(&instance, REFERENCE).is_dropped());
    assert!(matches!(evaluate(&instance, CORRECT).cost, Err(ModelError::Fail(_))));
}

/// The backward row of a language model's attention, known through its forward call alone.
#[test]
fn backward_of_attention_through_its_forward() {
    let (q, kv): (&[i64], &[i64]) = (&[4, 16, 1024, 128], &[4, 4, 1024, 128]);
    let attention = inputs(&[q, kv, kv], "c10::BFloat16", &["", "", "", "", "", "0.", "True"]);
    let forward = call("aten::_scaled_dot_product_cudnn_attention", &attention, &[]);
    let entry = ops::find(forward.name).unwrap();
    assert_eq!(entry.backward_category, Some("SDPA_bwd"));
    let evaluation = evaluate_backward(&forward, REFERENCE);
    assert_eq!(evaluation.params[0].0, "B");
    let cost = evaluation.cost.unwrap();
    close(cost.flops, 34.361_311_232e9);
    close(cost.bytes, 64.0 * 1_048_576.0);
    assert_eq!(cost.spec().as_deref(), Some("matrix_bf16"));
    // Exact pairs, recomputed scores, all sums; the output and the row sums are read too.
    let cost = evaluate_backward(&forward, CORRECT).cost.unwrap();
    let pairs = 1024.0 * 1025.0 / 2.0;
    close(cost.flops, 2.0 * 4.0 * 16.0 * pairs * 640.0 + 4.0 * 1024.0 * 256.0 * 12.0);
    close(cost.bytes, 64.0 * 1_048_576.0 + 4.0 * 1024.0 * 16.0 * (128.0 * 2.0 + 4.0));
}

/// A row of a report's `SDPA_bwd` sheet: flash attention, not causal.
#[test]
fn backward_of_flash_attention() {
    let shape: &[i64] = &[512, 176, 16, 64];
    let mut attention = inputs(&[shape; 3], "c10::BFloat16", &["", "", "", "0.1", "0.125", "False"]);
    attention.strides = attention.dims.clone();
    let cost = evaluate_backward(&call("FlashAttnFunc", &attention, &[]), REFERENCE).cost.unwrap();
    close(cost.flops, 162.403_450_88e9);
    close(cost.bytes, 1232.0 * 1_048_576.0);
}

#[test]
fn backward_of_convolutions_and_of_what_has_none() {
    let shapes: [&[i64]; 2] = [&[128, 64, 56, 56], &[64, 64, 3, 3]];
    let arguments = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"];
    let convolution = inputs(&shapes, "c10::Half", &arguments);
    let cost = evaluate_backward(&call("aten::convolution", &convolution, &[]), REFERENCE).cost.unwrap();
    close(cost.flops, 59_190_018_048.0);
    close(cost.bytes, 196.140_625 * 1_048_576.0);
    let product = inputs(&[&[128, 256], &[256, 512]], "float", &[]);
    assert!(evaluate_backward(&call("aten::mm", &product, &[]), REFERENCE).is_dropped());
    assert_eq!(evaluate_backward(&call("my::op", &product, &[]), REFERENCE).source, None);
    // A reduction's gradient passes over as much.
    let x = inputs(&[&[64, 100]], "float", &["", "[1]"]);
    close(evaluate_backward(&call("aten::sum", &x, &[]), REFERENCE).cost.unwrap().flops, 6400.0);
}

#[test]
fn what_else_is_known_of_a_call() {
    // Batch norm in training reads x twice.
    let norm = inputs(&[&[128, 64, 56, 56]], "float", &["", "", "", "", "", "True"]);
    let evaluation = evaluate(&call("aten::batch_norm", &norm, &[]), CORRECT);
    close(evaluation.cost.unwrap().bytes, 12.0 * 25_690_112.0 + 64.0 * 8.0);
    // A copy from the host is traffic of the link.
    let copy = inputs(&[&[64, 1024], &[64, 1024]], "float", &[]);
    let evaluation = evaluate(&call("aten::copy_", &copy, &["Memcpy HtoD (Pageable -> Device)"]), CORRECT);
    close(evaluation.link_bytes, 65536.0 * 4.0);
    assert_eq!(evaluation.cost.unwrap().bytes, None);
    // PyTorch's counter knows no bias and no causality.
    let product = inputs(&[&[512], &[128, 256], &[256, 512]], "float", &[]);
    close(evaluate(&call("aten::addmm", &product, &[]), CORRECT).torch_flops, 33_554_432.0);
    let shape: &[i64] = &[16, 16, 559, 64];
    let attention = inputs(&[shape; 3], "float", &["", "", "", "0.", "True"]);
    let evaluation = evaluate(&call("aten::_scaled_dot_product_flash_attention", &attention, &[]), CORRECT);
    close(evaluation.torch_flops, 2.0 * 10_239_377_408.0);
    let bias = ["", "", "[64]", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, True]"];
    let backward = inputs(&[&[8, 64, 8, 8], &[8, 32, 8, 8], &[64, 32, 3, 3]], "float", &bias);
    let evaluation = evaluate(&call("aten::convolution_backward", &backward, &[]), CORRECT);
    close(evaluation.torch_flops, 2.0 * 2.0 * 32.0 * 9.0 * 8.0 * 64.0 * 64.0);
}

#[test]
fn kernel_names_add_parameters() {
    let product = inputs(&[&[4096, 4096], &[4096, 4096]], "c10::BFloat16", &[]);
    let kernels = ["Memset (Device)", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"];
    let mm = call("aten::mm", &product, &kernels);
    let shown = |quirks| {
        let params = evaluate(&mm, quirks).params;
        params.iter().skip(7).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(REFERENCE), "B=1 transpose=(True, False)");
    assert_eq!(shown(CORRECT), "B=1 transpose=(True, False) tile_m=256 tile_n=128 tile_k=64");
}

/// Calls whose costs differ must not share a row of a category sheet, and rows are told apart by parameters.
#[test]
fn what_decides_the_cost_is_a_parameter() {
    let packed = |sequences: i64, longest: &str| {
        let q: &[i64] = &[4096, 32, 128];
        let concrete = ["", "", "", "", "", longest, longest, "0.", "True"];
        inputs(&[q, q, q, &[sequences + 1], &[sequences + 1], &[], &[], &[], &[]], "c10::BFloat16", &concrete)
    };
    let masked = |mask: &str| {
        let shapes: [&[i64]; 3] = [&[8, 128, 28, 28], &[8, 64, 56, 56], &[128, 64, 3, 3]];
        inputs(&shapes, "float", &["", "", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", mask])
    };
    let scaled = |bias: &[i64], out: &str| {
        let concrete = ["", "", "", "", "", "", out, "True"];
        inputs(&[&[128, 256], &[256, 512], &[], &[], bias, &[], &[], &[]], "c10::Float8_e4m3fn", &concrete)
    };
    let biased = |bias: &[i64], dtype: &str| {
        let q: &[i64] = &[2, 32, 1024, 128];
        with_type(
            inputs(&[q, q, q, bias, &[], &[], &[]], "c10::BFloat16", &["", "", "", "", "True", "0.", "False"]),
            3,
            dtype,
        )
    };
    let with_output = |given: &[i64]| {
        let q: &[i64] = &[2, 1024, 32, 128];
        with_type(inputs(&[q, q, q, &[], &[], &[], given], "c10::Float8_e4m3fn", &[]), 6, "float")
    };
    let (dense, row): (&[i64], &[i64]) = (&[2, 32, 1024, 1024], &[2, 1, 1, 1024]);
    let pairs = [
        ("aten::_flash_attention_forward", packed(1, "4096"), packed(64, "64")),
        ("aten::convolution_backward", masked("[True, True, False]"), masked("[False, True, False]")),
        ("aten::_scaled_mm", scaled(&[], "15"), scaled(&[], "6")),
        ("aten::_scaled_dot_product_efficient_attention", biased(&[], ""), biased(row, "float")),
        ("aten::_scaled_dot_product_efficient_attention", biased(row, "float"), biased(dense, "float")),
        ("aten::_scaled_dot_product_efficient_attention", biased(dense, "float"), biased(dense, "bool")),
        ("flash_attn_3::fwd", with_output(&[]), with_output(&[2, 1024, 32, 128])),
    ];
    for (name, one, other) in &pairs {
        let [one, other] = [one, other].map(|inputs| evaluate(&call(name, inputs, &[]), CORRECT));
        assert_ne!(one.cost.unwrap(), other.cost.unwrap(), "{name}");
        assert_ne!(one.params, other.params, "{name}");
    }
}

#[test]
fn groups_of_a_weight_gradient_are_those_of_its_bytes() {
    let inputs = inputs(&[&[4096, 1024], &[4096, 2048], &[8]], "c10::BFloat16", &[]);
    let groups = |quirks| {
        let params = evaluate(&call("primus_turbo::grouped_gemm_variable_k", &inputs, &[]), quirks).params;
        params.into_iter().find(|(name, _)| *name == "G").unwrap().1.to_string()
    };
    assert_eq!((groups(REFERENCE).as_str(), groups(CORRECT).as_str()), ("1", "8"));
}
