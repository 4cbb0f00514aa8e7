use super::{
    delta_net, latent_decode, linear_attention, packed, paged_decode, sparse_latent, v4_compressed, v4_sparse,
};
use crate::call::{Dims, InputLists, OpCall};
use crate::models::{Cost, ModelError, Reader};
use crate::parity::Quirks;
use crate::value::Value;

const PARITY: &Quirks = &Quirks::REFERENCE;
const DEFAULT: &Quirks = &Quirks::NONE;

const BF16: &str = "c10::BFloat16";

/// Context: one request, 4 new tokens of 10. Generation: 2 requests, 20 keys in all.
const STEP: &str = "execute_6_context_1(sq4sk10sqsq16sqsk40)_generation_2(sq2sk20sqsq2sqsk20)";
const DECODE: &str = "execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk20sqsq2sqsk20)";
const IDLE: &str = "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)";

fn lists(shapes: &[&[i64]], types: &[&str], concrete: &[&str]) -> InputLists {
    InputLists {
        dims: Some(shapes.iter().map(|s| Dims::Shape(s.to_vec())).collect()),
        types: Some(types.iter().map(|&t| t.to_owned()).collect()),
        strides: None,
        concrete: Some(concrete.iter().map(|&c| c.to_owned()).collect()),
    }
}

fn call<'a>(inputs: &'a InputLists, annotation: &'a str, extra: &'a [(&'a str, Value)]) -> OpCall<'a> {
    OpCall {
        name: "",
        inputs,
        kernels: &[],
        launches: &[],
        sequence: None,
        annotation: Some(annotation),
        extra,
        forward: None,
    }
}

fn cost(reader: Reader, call: &OpCall<'_>, quirks: &Quirks) -> Result<Cost, ModelError> {
    reader(call, quirks)?.forward()
}

fn numbers(reader: Reader, call: &OpCall<'_>, quirks: &Quirks) -> (f64, f64) {
    let cost = cost(reader, call, quirks).unwrap();
    (cost.flops.unwrap(), cost.bytes.unwrap())
}

/// 6 queries, 4 heads of width 8; 2 key heads.
fn small(types: &[&str]) -> InputLists {
    lists(&[&[6, 4, 8], &[6, 2, 8]], types, &[])
}

#[test]
fn one_step_by_hand() {
    let inputs = small(&[BF16, BF16]);
    // Pairs, doubled: 2·40 − 16 + 2·20 = 104; FLOPs 4·(8 + 8)·104.
    // New: 6 tokens·(4 + 2) heads·16·2 bytes; cache: (6 + 18) tokens·2 heads·16·2 bytes.
    let expected = (64.0 * 104.0, 1152.0 + 1536.0);
    assert_eq!(numbers(packed, &call(&inputs, STEP, &[]), PARITY), expected);
    assert_eq!(numbers(packed, &call(&inputs, STEP, &[]), DEFAULT), expected);
    // A cache of bytes, and queries of an unknown type taken for two bytes.
    let inputs = small(&["mystery", "c10::Float8_e4m3fn"]);
    assert_eq!(numbers(packed, &call(&inputs, STEP, &[]), PARITY), (6656.0, 1152.0 + 768.0));
}

#[test]
fn parameters_in_order() {
    let inputs = small(&[BF16, BF16]);
    let model = packed(&call(&inputs, STEP, &[]), PARITY).unwrap();
    let text: Vec<String> = model.into_params().iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        text.join(" "),
        "B=1 N_Q=6 H_Q=4 H_V=2 H_K=2 N_KV=6 H_KV=2 d_h_qk=8 d_h_v=8 dropout=0.0 causal=False flash_impl=True c_sq=4 \
         c_sk=10 c_sqsq=16 c_sqsk=40 g_sq=2 g_sk=20 g_sqsq=2 g_sqsk=20 dtype_Q='c10::BFloat16' \
         dtype_KV='c10::BFloat16'"
    );
}

#[test]
fn without_sums_there_is_nothing_to_count() {
    let inputs = small(&[BF16, BF16]);
    for annotation in ["NA", "None", "execute_context_2(14721)_generation_0(0)"] {
        for quirks in [PARITY, DEFAULT] {
            assert!(matches!(cost(packed, &call(&inputs, annotation, &[]), quirks), Err(ModelError::Fail(_))));
        }
    }
    // F22: a step without tokens.
    assert_eq!(cost(packed, &call(&inputs, IDLE, &[]), PARITY), Err(ModelError::Drop));
    assert!(matches!(cost(packed, &call(&inputs, IDLE, &[]), DEFAULT), Err(ModelError::Fail(_))));
}

#[test]
fn a_configured_window_bounds_the_pairs() {
    // F19: window 3. Doubled pairs: min(64, 2·4·3) + 2·min(20, 2·3) = 36. Cache: 6 + (6 − 2) tokens.
    let inputs = small(&[BF16, BF16]);
    let extra = [("sliding_window", Value::Int(3))];
    let call = call(&inputs, STEP, &extra);
    assert_eq!(numbers(packed, &call, PARITY), (64.0 * 104.0, 2688.0));
    assert_eq!(numbers(packed, &call, DEFAULT), (64.0 * 36.0, 1152.0 + 10.0 * 2.0 * 16.0 * 2.0));
    assert_eq!(packed(&call, DEFAULT).unwrap().into_params().pop(), Some(("sliding_window", Value::Int(3))));
}

#[test]
fn the_window_of_paged_decode_is_an_argument() {
    let mut concrete = [""; 20];
    let shapes: [&[i64]; 3] = [&[2, 4, 8], &[], &[100, 2, 1, 16, 8]];
    let types = [BF16, "", BF16];
    for (text, keys) in [("3", 6.0), ("0", 20.0), ("-1", 20.0), ("", 20.0), ("1000", 20.0)] {
        concrete[19] = text;
        let inputs = lists(&shapes, &types, &concrete);
        // 4 heads·16·2·keys; 2 tokens·6 heads·16·2 bytes and (keys − 2)·2 heads·16·2 bytes.
        let expected = (128.0 * keys, 384.0 + (keys - 2.0) * 64.0);
        // Context requests belong to another kernel.
        for annotation in [STEP, DECODE] {
            assert_eq!(numbers(paged_decode, &call(&inputs, annotation, &[]), PARITY), expected, "{text}");
        }
    }
}

#[test]
fn a_latent_is_read_once() {
    // F20: 16 + 64 wide latent whose first 16 numbers are the value.
    let inputs = lists(&[&[2, 4, 80], &[100, 1, 1, 80]], &[BF16, BF16], &[]);
    let call = call(&inputs, DECODE, &[]);
    // 4·160·2·20; 2·5·160·2 + 18·160·2.
    assert_eq!(numbers(latent_decode, &call, PARITY), (25600.0, 3200.0 + 5760.0));
    // 4·96·2·20; 2·(4·96 + 80)·2 + 18·80·2.
    assert_eq!(numbers(latent_decode, &call, DEFAULT), (15360.0, 1856.0 + 2880.0));
    assert!(latent_decode(&call, DEFAULT).unwrap().into_params().contains(&("d_h_v", Value::Int(16))));
}

#[test]
fn sparse_attention_reads_its_width_and_its_indices() {
    // F21: value width 64 as argument 4. F19: 5 indices a query, so that 10 of 20 keys are seen.
    let concrete = ["", "", "", "0.1", "64"];
    let inputs = lists(&[&[2, 4, 80], &[100, 1, 80], &[2, 1, 5]], &[BF16, BF16, "int"], &concrete);
    let call = call(&inputs, DECODE, &[]);
    // 4·(80 + 512)·2·20; 2·5·592·2 + 18·592·2.
    assert_eq!(numbers(sparse_latent, &call, PARITY), (94720.0, 11840.0 + 21312.0));
    // 4·144·2·10; 2·(4·144 + 80)·2 + 8·80·2.
    assert_eq!(numbers(sparse_latent, &call, DEFAULT), (11520.0, 2624.0 + 1280.0));
}

#[test]
fn v4_layers_see_window_and_compressed_keys() {
    // 2 requests of 4096 keys: 1024 keys compressed four to one, of which the smaller model takes 512.
    let step = "execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk8192sqsq2sqsk8192)";
    let inputs = lists(&[&[2, 4096]], &[BF16], &[]);
    let window = |reader: Reader, name: &str| {
        let extra = [("v4_model_name", Value::from(name)), ("v4_tp", Value::Int(8))];
        let mut params = reader(&call(&inputs, step, &extra), PARITY).unwrap().into_params();
        (params.pop().unwrap().1, params[2].1.clone())
    };
    let expect = |window: i64, heads: i64| (Value::Int(window), Value::Int(heads));
    assert_eq!(window(v4_sparse, "deepseek-ai/DeepSeek-V4-Flash"), expect(128 + 512, 8));
    assert_eq!(window(v4_sparse, "deepseek-ai/DeepSeek-V4-Pro"), expect(128 + 1024, 16));
    assert_eq!(window(v4_compressed, "anything"), expect(128 + 32, 8));
}

#[test]
fn the_delta_net_needs_its_annotation() {
    let inputs = lists(&[&[6, 64], &[6, 4], &[6, 4], &[6, 4, 8]], &["float"; 4], &[]);
    // F22
    for annotation in ["NA", "execute_context_2(14721)_generation_0(0)"] {
        let call = call(&inputs, annotation, &[]);
        assert_eq!(cost(delta_net, &call, PARITY), Err(ModelError::Drop));
        assert!(matches!(cost(delta_net, &call, DEFAULT), Err(ModelError::Fail(_))));
    }
    // d_k = (64 − 4·8)/2/2 = 8. 6 tokens·4 heads·7·8·8; 6·4·(8 + 16 + 2) elements of 2 bytes, or of 4 in truth.
    let call = call(&inputs, STEP, &[]);
    assert_eq!(numbers(delta_net, &call, PARITY), (10752.0, 1248.0));
    assert_eq!(numbers(delta_net, &call, DEFAULT), (10752.0, 2496.0));
    // F23
    assert_eq!(cost(linear_attention, &call, PARITY), Err(ModelError::Drop));
    assert_eq!(numbers(linear_attention, &call, DEFAULT), (10752.0, 2496.0));
}
