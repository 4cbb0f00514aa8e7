use super::{causal_convolution, cross_entropy, hyper_post, latent_rope_cat, mamba, rope_flat};
use crate::call::{Dims, InputLists, OpCall};
use crate::models::collective::{all_reduce, all_reduce_norm_short};
use crate::models::{ComputeUnit, Cost, ModelError, Reader};
use crate::parity::Quirks;
use crate::value::Value;

const PARITY: &Quirks = &Quirks::REFERENCE;
const DEFAULT: &Quirks = &Quirks::NONE;

const BF16: &str = "c10::BFloat16";

fn lists(shapes: &[&[i64]], types: &[&str], concrete: &[&str]) -> InputLists {
    InputLists {
        dims: Some(shapes.iter().map(|s| Dims::Shape(s.to_vec())).collect()),
        types: Some(types.iter().map(|&t| t.to_owned()).collect()),
        strides: None,
        concrete: Some(concrete.iter().map(|&c| c.to_owned()).collect()),
    }
}

fn call(inputs: &InputLists) -> OpCall<'_> {
    OpCall {
        name: "",
        inputs,
        kernels: &[],
        launches: &[],
        sequence: None,
        annotation: None,
        extra: &[],
        forward: None,
    }
}

fn cost(reader: Reader, inputs: &InputLists, quirks: &Quirks) -> Result<Cost, ModelError> {
    reader(&call(inputs), quirks)?.forward()
}

fn numbers(reader: Reader, inputs: &InputLists, quirks: &Quirks) -> (Option<f64>, Option<f64>) {
    let cost = cost(reader, inputs, quirks).unwrap();
    (cost.flops, cost.bytes)
}

#[test]
fn cross_entropy_counts_all_rows_by_default() {
    // Logits (length 3, batch 2, 10 words): 6 rows, though the first dimension is 3.
    let inputs = lists(&[&[3, 2, 10]], &[BF16], &[]);
    assert_eq!(numbers(cross_entropy, &inputs, PARITY), (Some(150.0), Some(120.0 + 36.0)));
    assert_eq!(numbers(cross_entropy, &inputs, DEFAULT), (Some(300.0), Some(120.0 + 72.0)));
    assert!(cost(cross_entropy, &lists(&[&[]], &[BF16], &[]), DEFAULT).is_err());
}

#[test]
fn a_depthwise_convolution_runs_on_vector_lanes() {
    // F45. 2·(2·3·5)·4 FLOPs; (2·30 + 12 + 3)·2 bytes.
    let inputs = lists(&[&[2, 3, 5], &[3, 4], &[3]], &[BF16, BF16, BF16], &[]);
    for (quirks, unit) in [(PARITY, ComputeUnit::Matrix), (DEFAULT, ComputeUnit::Vector)] {
        let cost = cost(causal_convolution, &inputs, quirks).unwrap();
        assert_eq!((cost.flops, cost.bytes, cost.unit), (Some(240.0), Some(150.0), unit));
    }
    let without_bias = lists(&[&[2, 3, 5], &[3, 4], &[]], &[BF16, BF16, ""], &[]);
    assert_eq!(numbers(causal_convolution, &without_bias, PARITY).1, Some(144.0));
}

#[test]
fn mamba_needs_a_whole_state_width() {
    let inputs = |combined: i64| {
        let shapes: [&[i64]; 6] = [&[1, 2, combined], &[5, 3], &[5], &[4], &[4], &[4]];
        lists(&shapes, &[BF16; 6], &["", "", "", "", "", "", "8", "", "", "", "", "", "", "", "", "2", "3"])
    };
    // H 4, P 2, G 3: 2·8 + 4 = 20, so 26 leaves one number a group and side, 23 half a one, 20 none.
    let model = mamba(&call(&inputs(26)), PARITY).unwrap();
    // 2·2·5·3 + 2·2·3·8·1 + 2·2·4·8·2 + 4·2·4·1·2; (52 + 15 + 5 + 16)·2 + 4·(2 + 2 + 2).
    let cost = model.forward().unwrap();
    assert_eq!((cost.flops, cost.bytes), (Some(60.0 + 96.0 + 256.0 + 64.0), Some(176.0 + 24.0)));
    assert_eq!(model.backward(), Ok(cost));
    assert!(model.into_params().contains(&("N", Value::Int(1))));
    assert!(mamba(&call(&inputs(23)), PARITY).is_err() && mamba(&call(&inputs(20)), PARITY).is_err());
}

#[test]
fn flat_rotary_embedding_falls_back_on_the_shapes() {
    // 3 tokens, (8 + 4)/4 heads, all 4 numbers of a head.
    let shapes: [&[i64]; 3] = [&[3], &[3, 8], &[3, 4]];
    let inputs = lists(&shapes, &["long int", BF16, BF16], &["", "", "", "4"]);
    assert_eq!(numbers(rope_flat, &inputs, PARITY), (Some(108.0), Some(144.0)));
    // No head width given: the whole of q is one head, k is less than one.
    let inputs = lists(&shapes, &["long int", BF16, BF16], &[]);
    assert_eq!(numbers(rope_flat, &inputs, PARITY), (Some(72.0), Some(96.0)));
}

#[test]
fn an_unknown_type_leaves_the_bytes_blank() {
    let shapes: [&[i64]; 5] = [&[2, 4, 8], &[2, 4, 4], &[2, 1, 8], &[2, 1, 4], &[9, 1, 12]];
    let inputs = lists(&shapes, &["mystery"; 5], &[]);
    assert_eq!(numbers(latent_rope_cat, &inputs, PARITY), (Some(120.0), None));
    // The hyper-connections take bfloat16 for granted only if the types were not recorded at all.
    let shapes: [&[i64]; 2] = [&[2, 3, 4], &[2, 4]];
    assert_eq!(numbers(hyper_post, &lists(&shapes, &["", ""], &[]), PARITY), (Some(192.0), None));
    // (8 + 2·24)·2 + 4·6 + 4·18.
    assert_eq!(numbers(hyper_post, &lists(&shapes, &[], &[]), PARITY), (Some(192.0), Some(208.0)));
}

#[test]
fn collectives_need_strides_only_in_parity() {
    let mut inputs = lists(&[&[], &[2, 4]], &["Scalar", BF16], &[]);
    assert!(cost(all_reduce, &inputs, PARITY).is_err());
    assert_eq!(numbers(all_reduce, &inputs, DEFAULT), (Some(0.0), Some(32.0)));
    inputs.strides = Some([Dims::Shape(vec![]), Dims::Shape(vec![4, 1])].into());
    let model = all_reduce(&call(&inputs), PARITY).unwrap();
    let expected =
        vec![("op_shape", Value::shape(&[2, 4])), ("dtype_in", BF16.into()), ("stride_input", Value::shape(&[4, 1]))];
    let cost = model.forward().unwrap();
    assert_eq!(model.into_params(), expected);
    assert_eq!((cost.unit, cost.precision), (ComputeUnit::Unknown, None));
}

#[test]
fn the_norm_after_an_all_reduce_by_hand() {
    // N 8, 2 rows of 4: 8 + 2·10 + 16 FLOPs; (32 + 4)·2 bytes.
    let inputs = lists(&[&[2, 4], &[2, 4], &[4]], &[BF16; 3], &[]);
    assert_eq!(numbers(all_reduce_norm_short, &inputs, DEFAULT), (Some(44.0), Some(72.0)));
    let inputs = lists(&[&[2, 4], &[2, 4], &[0]], &[BF16; 3], &[]);
    assert!(cost(all_reduce_norm_short, &inputs, DEFAULT).is_err());
}
