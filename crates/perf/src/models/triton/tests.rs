use super::{can_model, compiled, fused_words};
use crate::call::{Dims, InputLists, OpCall};
use crate::models::{Cost, ModelError};
use crate::parity::Quirks;
use crate::value::Value;

const PARITY: &Quirks = &Quirks::REFERENCE;
const DEFAULT: &Quirks = &Quirks::NONE;

/// Tensors as `dims:type`, `.` for no dimensions, then the whole-number arguments.
fn inputs(tensors: &str, integers: &[&str]) -> InputLists {
    let (mut dims, mut types, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut push = |shape: Vec<i64>, dtype: &str, concrete: &str| {
        dims.push(Dims::Shape(shape));
        types.push(dtype.to_owned());
        texts.push(concrete.to_owned());
    };
    for tensor in tensors.split_whitespace() {
        let (dims, word) = tensor.split_once(':').unwrap();
        let dtype = match word {
            "bf16" => "c10::BFloat16",
            "f32" => "float",
            "i64" => "long int",
            "b" => "bool",
            other => other,
        };
        let dims = if dims == "." { vec![] } else { dims.split('x').map(|d| d.parse().unwrap()).collect() };
        push(dims, dtype, "");
    }
    for integer in integers {
        push(vec![], "Scalar", integer);
    }
    InputLists { dims: Some(dims.into()), types: Some(types.into()), strides: None, concrete: Some(texts.into()) }
}

fn call<'a>(name: &'a str, inputs: &'a InputLists) -> OpCall<'a> {
    OpCall { name, inputs, kernels: &[], launches: &[], sequence: None, annotation: None, extra: &[], forward: None }
}

fn cost(name: &str, inputs: &InputLists, quirks: &Quirks) -> Cost {
    compiled(&call(name, inputs), quirks).unwrap().forward().unwrap()
}

fn bytes(name: &str, tensors: &str, integers: &[&str], quirks: &Quirks) -> Option<f64> {
    cost(name, &inputs(tensors, integers), quirks).bytes
}

fn words(name: &str, quirks: &Quirks) -> String {
    fused_words(name.strip_prefix("triton_poi_").unwrap(), quirks).join(" ")
}

#[test]
fn names_are_cut_into_the_longest_words_from_the_end() {
    for (name, expected) in [
        ("triton_poi_fused_add_mul_3", "add mul"),
        ("triton_poi_fused__to_copy__unsafe_view_add_mean_4", "_to_copy _unsafe_view add mean"),
        ("triton_poi_fused__unsafe_view_mul_silu_silu_backward_view_1", "_unsafe_view mul silu silu_backward view"),
        // Not `embedding` and two unknown words.
        ("triton_poi_fused_embedding_dense_backward_8", "embedding_dense_backward"),
        ("triton_poi_fused_add__5", "add_"),
        ("triton_poi_fused_add_clone_permute_select_backward_12", "add clone permute select_backward"),
        ("triton_poi_fused_0", ""),
        ("triton_poi_fused__0", ""),
        ("triton_poi_fused_add", ""),
        ("triton_poi_add_1", ""),
    ] {
        assert_eq!(words(name, PARITY), expected, "{name}");
    }
}

#[test]
fn unknown_words_are_passed_over_by_default() {
    let name = "triton_poi_fused_add_my_kernel_mul_silu_0";
    assert_eq!(words(name, PARITY), "");
    assert_eq!(words(name, DEFAULT), "add mul silu");
    // F38: 1024 elements, (1 + 1 + 4) operations each.
    let lists = inputs("1024:bf16 1024:bf16", &["1024"]);
    assert_eq!(cost(name, &lists, PARITY).flops, Some(0.0));
    assert_eq!(cost(name, &lists, DEFAULT).flops, Some(6144.0));
}

#[test]
fn composites_have_weights_by_default() {
    // F38: a softmax is five operations an element, a layer norm too; 8 × 1024 elements.
    let lists = inputs("8x1024:bf16 8x1024:bf16", &["8", "1024"]);
    for (name, each) in [
        ("triton_per_fused__softmax_5", 5.0),
        ("triton_red_fused_native_layer_norm_5", 5.0),
        ("triton_red_fused_var_mean_0", 3.0),
        ("triton_red_fused_addmm_0", 0.0),
        ("triton_red_fused_addmm_relu__0", 1.0),
    ] {
        assert_eq!(cost(name, &lists, PARITY).flops, Some(0.0), "{name}");
        assert_eq!(cost(name, &lists, DEFAULT).flops, Some(each * 8192.0), "{name}");
    }
}

/// Every compiled kernel of two H200 traces and one MI300X trace: tensors, extents, then FLOPs, bytes and label in
/// parity and by default. By default no rate exceeds 4.6 TB/s on the H200, whose memory gives 4.8.
#[rustfmt::skip]
#[expect(clippy::type_complexity, reason = "a table of literals")]
const REAL: &[(&str, &str, &[&str], (f64, f64, &str), (f64, f64, &str))] = &[
    ("triton_red_fused_add_mean_mul_pow_relu_sigmoid_sub_tanh_0", "8192x8192:bf16 8192x8192:bf16 8192x8192:bf16 8192x8192:bf16", &["8192", "8192"], (1_006_632_960.0, 536_870_912.0, "bfloat16"), (1_006_632_960.0, 536_870_912.0, "bf16")),
    ("triton_poi_fused__unsafe_view_mul_silu_silu_backward_view_1", "2x2048x8192:bf16 4096x8192:bf16 4096x8192:bf16 2x2048x8192:bf16", &["33554432"], (167_772_160.0, 335_544_320.0, "bfloat16"), (369_098_752.0, 268_435_456.0, "bf16")),
    ("triton_poi_fused__unsafe_view_mul_silu_2", "4096x8192:bf16 4096x8192:bf16 2x2048x8192:bf16", &["33554432"], (167_772_160.0, 268_435_456.0, "bfloat16"), (167_772_160.0, 201_326_592.0, "bf16")),
    ("triton_poi_fused_embedding_dense_backward_8", "32000x2048:f32 32000x2048:bf16", &["65536000"], (0.0, 131_072_000.0, "bfloat16"), (0.0, 393_216_000.0, "fp32")),
    ("triton_poi_fused_add_clone_permute_select_backward_3", "2x16x2048x128:bf16 2x16x2048x128:bf16 2x16x2048x128:bf16 2x2048x3x16x128:bf16", &["25165824"], (25_165_824.0, 150_994_944.0, "bfloat16"), (25_165_824.0, 100_663_296.0, "bf16")),
    ("triton_red_fused__to_copy__unsafe_view_add_mean_mul_pow_rsqrt_4", "2x2048x2048:bf16 2x2048x1:f32 2x2048x2048:bf16 2048:bf16 2x2048x2048:bf16", &["4096", "2048"], (58_720_256.0, 50_335_744.0, "bfloat16"), (58_720_256.0, 50_352_128.0, "bf16")),
    ("triton_poi_fused_embedding_dense_backward_6", "32000x2048:f32", &["65536000"], (0.0, 0.0, ""), (0.0, 262_144_000.0, "fp32")),
    ("triton_per_fused__to_copy_add_div_expand_mul_pow_sum_view_2", "2x2048x2048:bf16 4096x2048:bf16 4096x2048:bf16 2048:bf16 2x2048x2048:bf16 2x2048x1:f32 524288:f32", &["4096", "2048"], (50_331_648.0, 67_112_960.0, "bfloat16"), (50_331_648.0, 69_226_496.0, "bf16")),
    ("triton_per_fused__to_copy__unsafe_view_add_div_embedding_dense_backward_expand_mul_pow_sum_view_7", "4096x2048:bf16 2048:bf16 2x2048x2048:bf16 2x2048:i64 2x2048x2048:bf16 2x2048x1:f32 4096x2048:bf16 4096x2048:bf16 4096x2048:bf16 2x2048x1:f32 32000x2048:f32 1048576:f32", &["4096", "2048"], (50_331_648.0, 100_667_392.0, "bfloat16"), (50_331_648.0, 138_481_664.0, "bf16")),
    ("triton_per_fused__to_copy_add_div_expand_mul_pow_sum_view_4", "2x2048x2048:bf16 4096x2048:bf16 2048:bf16 2x2048x2048:bf16 2x2048x1:f32 524288:f32", &["4096", "2048"], (50_331_648.0, 50_335_744.0, "bfloat16"), (50_331_648.0, 52_449_280.0, "bf16")),
    ("triton_red_fused__to_copy__unsafe_view_add_div_expand_mul_pow_sum_view_5", "2x2048x2048:bf16 4096x2048:bf16 4096x2048:bf16 2048:bf16 2x2048x2048:bf16 4096x2048:bf16 2x2048x1:f32", &["4096", "2048"], (50_331_648.0, 83_890_176.0, "bfloat16"), (50_331_648.0, 83_906_560.0, "bf16")),
    ("triton_per_fused__to_copy_add_div_expand_mul_pow_sum_view_0", "4096x2048:bf16 2048:bf16 2x2048x2048:bf16 2x2048x1:f32 2x2048x2048:bf16 524288:f32", &["4096", "2048"], (50_331_648.0, 50_335_744.0, "bfloat16"), (50_331_648.0, 52_449_280.0, "bf16")),
    ("triton_red_fused__to_copy__unsafe_view_add_mean_mul_pow_rsqrt_3", "2x2048x2048:bf16 2x2048x1:f32 2x2048x2048:bf16 4096x2048:bf16 2048:bf16 2x2048x2048:bf16", &["4096", "2048"], (58_720_256.0, 67_112_960.0, "bfloat16"), (58_720_256.0, 67_129_344.0, "bf16")),
    ("triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt_0", "2x2048x1:f32 2x2048:i64 32000x2048:bf16 2048:bf16 2x2048x2048:bf16 2x2048x2048:bf16", &["4096", "2048"], (58_720_256.0, 164_630_528.0, "bfloat16"), (58_720_256.0, 50_384_896.0, "bf16")),
    ("triton_red_fused__to_copy__unsafe_view_add_mean_mul_pow_rsqrt_1", "2x2048x1:f32 2x2048x2048:bf16 4096x2048:bf16 2048:bf16 2x2048x2048:bf16", &["4096", "2048"], (58_720_256.0, 50_335_744.0, "bfloat16"), (58_720_256.0, 50_352_128.0, "bf16")),
    ("triton_poi_fused__unsafe_view_mul_silu_2", "8x4096x8192:bf16 32768x8192:bf16", &["268435456"], (1_342_177_280.0, 1_610_612_736.0, "bfloat16"), (1_342_177_280.0, 1_610_612_736.0, "bf16")),
    ("triton_poi_fused__unsafe_view_add_3", "8x4096x2048:bf16 8x4096x2048:bf16 32768x2048:bf16", &["67108864"], (67_108_864.0, 536_870_912.0, "bfloat16"), (67_108_864.0, 536_870_912.0, "bf16")),
    ("triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1", "8x4096x2048:bf16 32768x2048:bf16 2048:bf16 8x4096x2048:bf16", &["32768", "2048"], (469_762_048.0, 402_657_280.0, "bfloat16"), (469_762_048.0, 402_657_280.0, "bf16")),
    ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "8x4096x2048:bf16 2048:bf16 8x4096x2048:bf16", &["32768", "2048"], (469_762_048.0, 268_439_552.0, "bfloat16"), (469_762_048.0, 268_439_552.0, "bf16")),
    // Made up.
    ("triton_poi_fused_add_mul_3", "8x1024:bf16 8x1024:f32 8x1024:bf16", &["8192"], (16384.0, 49152.0, "bfloat16"), (16384.0, 65536.0, "bf16")),
];

#[test]
fn real_kernels_in_both_fidelities() {
    for &(name, tensors, integers, parity, default) in REAL {
        let lists = inputs(tensors, integers);
        for (quirks, (flops, bytes, label)) in [(PARITY, parity), (DEFAULT, default)] {
            let cost = cost(name, &lists, quirks);
            let got = (cost.flops, cost.bytes, cost.precision.as_deref().unwrap_or(""));
            assert_eq!(got, (Some(flops), Some(bytes), label), "{name}");
        }
    }
}

#[test]
fn parameters_are_the_words_and_the_extents() {
    let lists = inputs("8x4096x8192:bf16 32768x8192:bf16", &["268435456"]);
    let name = "triton_poi_fused__unsafe_view_mul_silu_2";
    let model = compiled(&call(name, &lists), PARITY).unwrap();
    let fused = Value::from("aten._unsafe_view, aten.mul, aten.silu");
    let expected = vec![("fused_ops", fused), ("xnumel", Value::Int(268_435_456)), ("rnumel", Value::Int(1))];
    assert_eq!(model.backward(), Err(ModelError::Drop));
    assert_eq!(model.into_params(), expected);
}

#[test]
fn what_can_be_modelled() {
    let name = "triton_poi_fused_0";
    let empty = inputs("8:bf16", &["", "1.5", "True"]);
    assert!(!can_model(&call(name, &empty), PARITY));
    // Without extents the largest tensor tells the element count.
    assert!(can_model(&call(name, &empty), DEFAULT));
    let given = inputs("8:bf16", &["8"]);
    assert!(can_model(&call(name, &given), PARITY) && can_model(&call(name, &given), DEFAULT));
    for other in ["aten::mm", "triton_", "triton_tem_fused_mm_0", "my_triton_poi_fused_0"] {
        assert!(!can_model(&call(other, &given), PARITY) && !can_model(&call(other, &given), DEFAULT));
    }
    let unrecorded = InputLists::default();
    for quirks in [PARITY, DEFAULT] {
        assert!(!can_model(&call(name, &unrecorded), quirks));
        assert!(compiled(&call(name, &unrecorded), quirks).is_err());
    }
}

#[test]
fn grids_of_two_dimensions_count_the_largest_tensor() {
    // F37: ynumel 64, xnumel 1000; the reference takes 1000 elements, the tensors have 64000.
    let lists = inputs("64x1000:bf16 64x1000:bf16", &["64", "1000"]);
    let name = "triton_poi_fused_add_0";
    assert_eq!(cost(name, &lists, PARITY).flops, Some(1000.0));
    assert_eq!(cost(name, &lists, DEFAULT).flops, Some(64000.0));
    // A reduction whose row length was fixed at compile time.
    let lists = inputs("64x1000:bf16 64:bf16", &["64"]);
    let name = "triton_per_fused_sum_0";
    assert_eq!(cost(name, &lists, PARITY).flops, Some(64.0));
    assert_eq!(cost(name, &lists, DEFAULT).flops, Some(64000.0));
}

#[test]
fn a_write_is_added_only_where_the_first_tensor_is_updated() {
    let name = "triton_poi_fused_relu_0";
    // F35: input and output are both listed: 2·1000·2 bytes, the reference adds 2000 more.
    assert_eq!(bytes(name, "1000:bf16 1000:bf16", &["1000"], PARITY), Some(6000.0));
    assert_eq!(bytes(name, "1000:bf16 1000:bf16", &["1000"], DEFAULT), Some(4000.0));
    // One tensor, read and written.
    assert_eq!(bytes(name, "1000:bf16", &["1000"], DEFAULT), Some(4000.0));
    // One tensor with a bias row of 10: read, written, and 20 bytes.
    assert_eq!(bytes("triton_poi_fused_addmm_0", "100x10:bf16 10:bf16", &["1000"], DEFAULT), Some(4020.0));
    // A fill writes only.
    assert_eq!(bytes("triton_poi_fused_zeros_0", "1000:bf16", &["1000"], DEFAULT), Some(2000.0));
    // The only full-sized tensor stands last: an output that is written and not read.
    assert_eq!(bytes("triton_poi_fused_add_0", "10:bf16 100x10:bf16", &["1000"], DEFAULT), Some(2020.0));
    // Reductions list what they write.
    assert_eq!(bytes("triton_red_fused_sum_0", "100x10:bf16", &["100", "10"], DEFAULT), Some(2000.0));
}

#[test]
fn lookups_touch_no_more_than_they_return() {
    // F36: 4 rows of 8 from a table of 1000 rows. 4 numbers of 8 bytes, 32 elements read, 32 written.
    let tensors = "4:i64 1000x8:f32 4x8:f32";
    let name = "triton_poi_fused_embedding_0";
    // The reference: no weight for plain types, nor for the write.
    assert_eq!(bytes(name, tensors, &["32"], PARITY), Some(0.0));
    assert_eq!(bytes(name, tensors, &["32"], DEFAULT), Some(32.0 + 128.0 + 128.0));
    // What the name says nothing of may be read whole: 8 elements for each that is written.
    let tensors = "4:i64 32x8:f32 4x8:f32";
    assert_eq!(bytes("triton_poi_fused_add_0", tensors, &["32"], DEFAULT), Some(32.0 + 1024.0 + 128.0));
    // The loss takes the logit of each target: a number, the targets, as many logits, and two numbers a row.
    let tensors = ".:f32 2048:i64 2048x32000:f32 2048x1:f32 2048x1:f32";
    let name = "triton_red_fused__log_softmax_nll_loss_forward_sub_1";
    assert_eq!(bytes(name, tensors, &["1", "2048"], DEFAULT), Some(4.0 + 2048.0 * (8.0 + 3.0 * 4.0)));
}

#[test]
fn a_part_of_a_tensor_is_not_all_of_it() {
    let of = |name: &str, tensors: &str, extents: &[&str]| bytes(name, tensors, extents, DEFAULT);
    let name = "triton_poi_fused_mul_slice_0";
    assert_eq!(of(name, "4096x4096:bf16 4096x100:bf16", &["409600"]), Some(2.0 * 409_600.0 * 2.0));
    assert_eq!(of(name, "4096x4096:bf16 4096x1500:bf16", &["6144000"]), Some(2.0 * 6_144_000.0 * 2.0));
    // Whatever its name, no kernel writes out a row of 40.
    assert_eq!(of("triton_poi_fused_mul_0", "64x40:f32 64:f32", &["64"]), Some(2.0 * 64.0 * 4.0));
    assert_eq!(bytes("triton_poi_fused_mul_0", "64x40:bf16 64:bf16", &["64"], PARITY), Some((2560.0 + 128.0) * 2.0));
    // Both halves of a gated activation, a short row written out, the windows of a pooling.
    let name = "triton_poi_fused_mul_silu_split_0";
    assert_eq!(of(name, "64x200:bf16 64x100:bf16", &["6400"]), Some(3.0 * 6400.0 * 2.0));
    assert_eq!(of("triton_poi_fused_sum_0", "64x8:f32 64:f32", &["64"]), Some(9.0 * 64.0 * 4.0));
    let name = "triton_poi_fused_max_pool2d_with_indices_select_0";
    assert_eq!(of(name, "64x25x25:f32 64x5x5:f32", &["1600"]), Some(26.0 * 1600.0 * 4.0));
}

#[test]
fn expanded_tensors_are_read_once_and_numbers_too() {
    let mut lists = inputs("4096x4096:bf16 4096x4096:bf16 4096x4096:bf16", &["16777216"]);
    let strides = [[4096, 1], [0, 1], [4096, 1]].map(|stride| Dims::Shape(stride.to_vec()));
    lists.strides = Some(strides.into_iter().chain([Dims::Shape(vec![])]).collect());
    let name = "triton_poi_fused_mul_0";
    assert_eq!(cost(name, &lists, DEFAULT).bytes, Some(67_117_056.0));
    assert_eq!(cost(name, &lists, PARITY).bytes, Some(4.0 * 33_554_432.0));
    // A counter that is raised by one, into another.
    assert_eq!(bytes("triton_poi_fused_add_copy__0", ".:i64 .:i64", &["1"], DEFAULT), Some(16.0));
    assert_eq!(bytes("triton_poi_fused_add_copy__0", ".:c10::Long .:c10::Long", &["1"], PARITY), Some(0.0));
}

#[test]
fn plain_types_weigh_something_and_unknown_ones_leave_a_blank() {
    // F34
    let name = "triton_poi_fused_add_0";
    assert_eq!(bytes(name, "10:f32 10:b 10:f32", &["10"], PARITY), Some(0.0));
    assert_eq!(bytes(name, "10:f32 10:b 10:f32", &["10"], DEFAULT), Some(40.0 + 10.0 + 40.0));
    assert_eq!(bytes(name, "10:bf16 10:mystery", &["10"], PARITY), Some(40.0));
    assert_eq!(bytes(name, "10:bf16 10:mystery", &["10"], DEFAULT), None);
}

#[test]
fn hostile_calls_do_not_panic() {
    let long = format!("triton_poi_fused_{}_0", "add_".repeat(2_000));
    let huge = "9223372036854775807x9223372036854775807x9223372036854775807:bf16";
    for name in [long.as_str(), "triton_red_fused_add_0", "triton_poi_fused___________0", "triton_poi_fused_é_ü_0"] {
        for tensors in [huge, "0:bf16", "-1x-5:f32", ""] {
            for integers in [&["9223372036854775807", "9223372036854775807"][..], &["-1"], &["0"], &["x"]] {
                let lists = inputs(tensors, integers);
                for quirks in [PARITY, DEFAULT] {
                    if let Ok(model) = compiled(&call(name, &lists), quirks) {
                        let _ = (model.forward(), model.into_params());
                    }
                }
            }
        }
    }
    let mut lists = inputs("8:bf16", &["8"]);
    lists.dims = Some([Dims::List(vec![vec![1], vec![2]]), Dims::Shape(vec![])].into());
    for quirks in [PARITY, DEFAULT] {
        assert!(compiled(&call("triton_poi_fused_add_0", &lists), quirks).unwrap().forward().is_err());
    }
}
