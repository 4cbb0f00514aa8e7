#![expect(clippy::float_cmp, reason = "sums and products of whole numbers are exact")]

use super::*;
use crate::call::{Dims, InputLists, OpCall};
use crate::models::evaluate;
use crate::roofline::Bound;

/// Splits `key=value` as a command line does.
fn ask(text: &str) -> Result<Calculation, CalculatorError> {
    let mut words = text.split_whitespace();
    let model = words.next().unwrap();
    let given: Vec<(&str, Option<&str>)> =
        words.map(|word| word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)))).collect();
    calculate(model, &given)
}

fn numbers(text: &str) -> (f64, f64, String) {
    let found = ask(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (found.cost.flops.unwrap(), found.cost.bytes.unwrap(), found.cost.spec().unwrap_or_default().into_owned())
}

fn refusal(text: &str) -> (String, String) {
    let error = ask(text).expect_err(text);
    (error.to_string(), error.help())
}

fn spec(text: &str) -> String {
    text.to_owned()
}

#[test]
fn products_by_hand() {
    // 2·128·512·256; (128·256 + 256·512 + 128·512)·2.
    assert_eq!(numbers("gemm M=128 N=512 K=256"), (33_554_432.0, 458_752.0, spec("matrix_bf16")));
    // A bias: + 128·512 and + 512·2; four of them.
    assert_eq!(numbers("gemm M=128 N=512 K=256 B=4 bias"), (4.0 * 33_619_968.0, 4.0 * 459_776.0, spec("matrix_bf16")));
    // fp8 in, 16 bits out: 128·256 + 256·512 + 128·512·2.
    assert_eq!(numbers("gemm m=128 n=512 k=256 dtype=fp8"), (33_554_432.0, 294_912.0, spec("matrix_fp8")));
    // int8 in, 32 bits out: 128·256 + 256·512 + 128·512·4, as the model of the real operation has it.
    let int8 = numbers("gemm M=128 N=512 K=256 dtype=int8");
    assert_eq!(int8, (33_554_432.0, 425_984.0, spec("matrix_int8")));
    assert_eq!(numbers("aten::_int_mm dims=128x256,256x512 types=int8"), int8);
    // 4-bit weights: 128·256·2 + 256·512/2 + 128·512·2.
    assert_eq!(
        numbers("gemm M=128 N=512 K=256 dtype=bf16 dtype_b=fp4"),
        (33_554_432.0, 262_144.0, spec("matrix_bf16"))
    );
    assert_eq!(numbers("gemm M=2 N=2 K=2 dtype=tf32").2, "matrix_tf32");
    // 2·16·8·4; (16·8 + 3·8·4 + 16·4)·2.
    assert_eq!(numbers("grouped_gemm M=16 K=8 N=4 G=3"), (1024.0, 576.0, spec("matrix_bf16")));
}

#[test]
fn attention_by_hand() {
    // Full: 2·2·4·10·10·(64 + 32); bytes 2·(10·4·96 + 10·2·96)·2.
    let full = "sdpa B=2 N_Q=10 H_Q=4 H_KV=2 d_h_qk=64 d_h_v=32";
    assert_eq!(numbers(full), (153_600.0, 23_040.0, spec("matrix_bf16")));
    // Causal: 55 of 100 pairs.
    assert_eq!(numbers(&format!("{full} causal=1")).0, 84_480.0);
    // 10 queries, 20 keys: from the start 55 pairs, from the end 155.
    let rectangle = ask(&format!("{full} N_KV=20 causal")).unwrap();
    assert_eq!(rectangle.cost.flops, Some(84_480.0));
    // The later ten keys nobody sees.
    assert_eq!(rectangle.cost.bytes, Some(23_040.0));
    assert!(rectangle.notes[0].contains("causal_from=end"), "{:?}", rectangle.notes);
    assert_eq!(numbers(&format!("{full} N_KV=20 causal causal_from=end")).0, 84_480.0 / 55.0 * 155.0);
    // Backward: 2·2·4·100·(64 + 128 + 64), sums 2·10·96·(4 − 2); without the scores once more 2·2·4·100·64 less.
    assert_eq!(numbers(&format!("{full} bwd")).0, 409_600.0 + 3840.0);
    assert_eq!(numbers(&format!("{full} bwd flash=no")).0, 409_600.0 + 3840.0 - 102_400.0);
    // Q, K, V and their gradients, the output and its gradient, and 4 bytes for each of the 2·10·4 rows.
    let moved = 2.0 * (2.0 * (40.0 * 64.0 + 20.0 * 96.0) + 2.0 * 40.0 * 32.0) * 2.0 + 80.0 * 4.0;
    assert_eq!(numbers(&format!("{full} bwd")).1, moved);
    // 4 bytes an element.
    assert_eq!(numbers(&format!("{full} dtype=fp32")).1, 46_080.0);
}

#[test]
fn convolutions_by_hand() {
    // out (2, 8, 4, 4): 2·(3·3·3)·256; (2·3·16 + 8·27 + 256)·2.
    let call = "conv x=2,3,4,4 w=8,3,3,3 padding=1 dtype=fp16";
    assert_eq!(numbers(call), (13_824.0, 1136.0, spec("matrix_fp16")));
    assert_eq!(ask(call).unwrap().notes, ["output (2, 8, 4, 4)"]);
    assert_eq!(numbers(&format!("{call} bias")), (14_080.0, 1152.0, spec("matrix_fp16")));
    // Both gradients: twice the products, twice the tensors.
    assert_eq!(numbers(&format!("{call} bwd")), (27_648.0, 2272.0, spec("matrix_fp16")));
    // A kernel of one, stride 2: 28 of 56 rows are read, and of the columns too where they lie far apart.
    let moved = |more: &str| numbers(&format!("conv x=128,256,56,56 w=512,256,1,1 stride=2 dtype=fp16 {more}")).1;
    let rest = (512.0 * 256.0 + 128.0 * 512.0 * 28.0 * 28.0) * 2.0;
    assert_eq!(moved("") - rest, 128.0 * 256.0 * 28.0 * 56.0 * 2.0);
    assert_eq!(moved("channels_last") - rest, 128.0 * 256.0 * 28.0 * 28.0 * 2.0);
    // Stride 2: out (2, 8, 2, 2).
    assert_eq!(numbers("conv x=[2,3,4,4] w=8x3x3x3 padding=1,1 stride=2").0, 3456.0);
}

/// The written calls are those of a trace, so each number is that of the operation.
#[test]
fn the_other_families_agree_with_their_operations() {
    // 5·n; n·2 read, n·2 written.
    assert_eq!(numbers("softmax N=1000"), (5000.0, 4000.0, spec("vector_bf16")));
    assert_eq!(numbers("softmax N=1000 bwd"), (4000.0, 6000.0, spec("vector_bf16")));
    assert_eq!(numbers("elementwise N=1000 dtype=fp32"), (1000.0, 8000.0, spec("vector_fp32")));
    assert_eq!(numbers("elementwise N=1000 dtype=int8").1, 2000.0, "whole numbers stay whole");
    assert_eq!(numbers("elementwise N=1000 dtype=int64").1, 16_000.0);
    assert_eq!(numbers("elementwise a=10,100 out_dtype=fp32"), (1000.0, 6000.0, spec("vector_bf16")));
    // A row is added to every row: 1000·2 + 100·2 + 1000·2.
    assert_eq!(numbers("elementwise kind=binary a=10,100 b=100"), (1000.0, 4200.0, spec("vector_bf16")));
    assert_eq!(numbers("reduce N_in=4096 N_out=64 dtype=fp32"), (4096.0, 16_640.0, spec("vector_fp32")));
    // Layer norm, 8 rows of 64: 6·64 + 5·512; 2·512·2, weight and bias 2·64·2, statistics 2·8·4.
    assert_eq!(numbers("norm kind=layer N=512 C=64"), (2944.0, 2368.0, spec("vector_bf16")));
    assert_eq!(numbers("norm kind=layer N=512 C=64 affine=no").1, 2112.0);
    // RMS: 8·(2·64 + 2) + 512·2; 2·512·2 + 64·2.
    assert_eq!(numbers("norm kind=rms N=512 C=64"), (2064.0, 2176.0, spec("vector_bf16")));
    // Batch norm at inference: 6·4 + 2·512; 2·512·2, weight and bias 2·4·2, statistics 2·4·4.
    assert_eq!(numbers("norm kind=batch N=512 C=4 training=no"), (1048.0, 2096.0, spec("vector_bf16")));
    // Training reads x twice, writes the running statistics back and the batch's own: + 512·2 + 4·4·4.
    assert_eq!(numbers("norm kind=batch N=512 C=4"), (2584.0, 3184.0, spec("vector_bf16")));
    for call in ["kind=batch", "kind=layer", "kind=group groups=2", "kind=rms"] {
        let (flops, bytes, _) = numbers(&format!("norm {call} N=512 C=4 bwd"));
        assert!(flops >= 2048.0 && bytes >= 3072.0, "{call}: {flops} {bytes}");
    }
    assert!(numbers("norm kind=group N=512 C=4 groups=2").1 > 2048.0);
    assert!(numbers("norm kind=instance N=512 C=4").1 > 2048.0);
}

#[test]
fn experts_by_hand() {
    // One expert, one choice, ungated: 2·(2·4·8·16) + 4·8·(2 − 1); 4·8·2 + 2·8·16·2 + 4·8·2.
    let one = "moe tokens=4 hidden=8 inter=16 experts=1 topk=1 gated=no";
    assert_eq!(numbers(one), (2080.0, 640.0, spec("matrix_bf16")));
    assert_eq!(numbers(&format!("{one} stage=up")).0, 1024.0);
    assert_eq!(numbers(&format!("{one} stage=down")).0, 1024.0);
    // A gate is a third matrix.
    assert_eq!(numbers("moe tokens=4 hidden=8 inter=16 experts=1 topk=1").0, 3104.0);
    // Packed weights weigh half a byte: 128 + 2·128/2.
    assert_eq!(numbers(&format!("{one} weight_dtype=fp4")).1, 256.0);
}

#[test]
fn a_real_operation_has_the_numbers_of_its_call() {
    let inputs = InputLists {
        dims: Some([Dims::Shape(vec![64, 32]), Dims::Shape(vec![32, 16])].into()),
        types: Some(vec!["c10::BFloat16".to_owned(); 2].into()),
        strides: None,
        concrete: Some(vec![String::new(); 2].into()),
    };
    let call = OpCall {
        name: "aten::mm",
        inputs: &inputs,
        kernels: &[],
        launches: &[],
        sequence: None,
        annotation: None,
        extra: &[],
        forward: None,
    };
    let expected = evaluate(&call, &Quirks::NONE).cost.unwrap();
    for text in [
        "aten::mm dims=64x32,32x16 types=bf16",
        "aten::mm dims=[[64,32],[32,16]] types=['c10::BFloat16','c10::BFloat16']",
        "aten::mm dims=((64,32),(32,16)) types=bf16,bf16 strides=32x1,16x1",
    ] {
        assert_eq!(ask(text).unwrap().cost, expected, "{text}");
    }
    // Inputs that are no tensors: nothing between two commas.
    assert_eq!(numbers("aten::add dims=8x8,8x8, types=fp32").0, 64.0);
    let concrete = "aten::_softmax dims=8x8,, types=bf16 concrete=['','-1','True']";
    // The result is 4 bytes wide.
    assert_eq!(numbers(concrete).1, 64.0 * 6.0);
    let backward = "aten::_scaled_dot_product_flash_attention dims=1x2x4x8,1x2x4x8,1x2x4x8,,,,,, types=bf16";
    assert!(numbers(&format!("{backward} bwd")).0 > numbers(backward).0);
    assert_eq!(numbers(&format!("{backward} bwd")), numbers("sdpa B=1 N_Q=4 H_Q=2 d=8 bwd"));
}

#[test]
fn the_type_given_is_that_of_lists_too() {
    // Two tensors of 80 elements read and written.
    assert_eq!(numbers("aten::cat dims=[[[8,10],[8,10]],[]] types=bf16").1, 4.0 * 80.0 * 2.0);
    assert_eq!(numbers("aten::stack dims=[[[8,10],[8,10]],[]] types=['float','Scalar']").1, 4.0 * 80.0 * 4.0);
    // In place with a list: two reads and a write.
    assert_eq!(numbers("aten::_foreach_add_ dims=[[[8],[4]],[[8],[4]],[]] types=fp32").1, 3.0 * 12.0 * 4.0);
    let adam = "aten::_fused_adamw_ dims=[[[8,10]],[[8,10]],[[8,10]],[[8,10]],[],[]] types=fp32";
    assert_eq!(numbers(adam).1, 7.0 * 80.0 * 4.0);
    // Named as a trace names it, nothing tells the type.
    let unknown = ask("aten::cat dims=[[[8,10],[8,10]],[]] types=['TensorList','Scalar']").unwrap();
    assert_eq!(unknown.cost.bytes, None);
}

#[test]
fn what_no_list_of_inputs_holds_can_not_be_asked() {
    let mut needing = 0;
    for entry in ops::all().iter().filter(|entry| entry.reader.is_some() && needs_trace(entry.name)) {
        needing += 1;
        let dims = ["4x64x128"; 8].join(",");
        assert!(ask(&format!("{} dims={dims} types=bf16", entry.name)).is_err(), "{}", entry.name);
    }
    assert_eq!(needing, 20);
    assert!(!needs_trace("aten::mm") && !needs_trace("aiter::mha_fwd"));
    assert!(TOLD_MORE.iter().all(|name| ops::find(name).is_some()));
}

#[test]
fn refusals_name_the_key_and_show_the_way() {
    let (what, help) = refusal("gemm M=128 N=512");
    assert_eq!(what, "`gemm` needs `K`: length of the sums");
    assert_eq!(
        help,
        "keys are M= N= K= [B=1] [bias] [dtype=bf16] [dtype_b=dtype] [out_dtype=]\n\
         for example: jarvis model gemm M=4096 N=4096 K=4096 dtype=bf16 --platform H200"
    );
    let (what, help) = refusal("sdpa B=1 NQ=3");
    assert_eq!(what, "`sdpa` has no key `NQ`");
    assert!(help.starts_with("did you mean `N_Q`?\nkeys are B= N_Q="), "{help}");
    for (text, what) in [
        ("gemm M=0 N=1 K=1", "`M=0`: expected a whole number above 0"),
        ("gemm M=1 N=1 K", "`K=`: expected a whole number above 0"),
        ("gemm M=1 M=2 N=1 K=1", "`M` is given twice"),
        ("gemm M=1 N=1 K=1 bias=maybe", "`bias=maybe`: expected yes or no"),
        ("norm kind=layer N=10 C=3", "`N=10`: expected a multiple of C (3)"),
        (
            "norm kind=instance N=12 C=3 bwd",
            "`bwd=yes`: expected a kind with a backward formula: batch, layer, group or rms",
        ),
        ("norm kind=max N=10 C=5", "`kind=max`: expected one of batch, layer, group, instance, rms"),
        ("sdpa B=1 N_Q=8 H_Q=3 H_KV=2 d=4", "`H_KV=2`: expected a number that divides H_Q (3)"),
        ("conv x=2,3,4,4 w=8,4,3,3", "`w=8,4,3,3`: expected w[1] times groups to be the 3 channels of x"),
        ("conv x=2,3,2,2 w=8,3,5,5", "`w=8,3,5,5`: expected a kernel that fits into the padded input"),
        ("conv x=2,3,4,4 w=8,3,3,3 stride=0", "`stride=0`: expected a step above 0"),
        ("softmax N=8 dtype=fp4", "`dtype=fp4`: expected a type of at least one byte"),
        ("moe tokens=1 hidden=2 inter=2 experts=2 topk=3", "`topk=3`: expected at most the number of experts (2)"),
        ("elementwise kind=binary a=3 b=4", "`b=4`: expected a shape that broadcasts with a"),
        ("aten::mm dims=64x32", "`aten::mm` needs `types`: Input type: one for all tensors, or a list"),
        ("aten::mm dims=64x32 types=bf16", "`aten::mm`: Input Dims has 1 entries, input 1 is needed"),
        ("aten::mm dims=-64x32,32x8 types=bf16", "`dims=-64x32,32x8`: expected sizes from 0 on"),
        ("aten::cat dims=[[[-8]]] types=bf16", "`dims=[[[-8]]]`: expected sizes from 0 on"),
        (
            "aten::_fused_rms_norm dims=4x0,,0 types=bf16 concrete=['','[0]','']",
            "`aten::_fused_rms_norm`: its arguments give no count of operations or bytes",
        ),
    ] {
        assert_eq!(refusal(text).0, what, "{text}");
    }
    let (what, help) = refusal("gem M=1");
    assert_eq!(what, "there is no model `gem`");
    assert!(help.starts_with("did you mean `gemm`?\nfamilies are gemm, sdpa, conv, "), "{help}");
}

#[test]
fn a_platform_turns_numbers_into_times() {
    // 2·4096³ / 708 TFLOPS = 194.1 µs; 3·4096²·2 / 5300 GB/s = 19.0 µs.
    let large = ask("gemm M=4096 N=4096 K=4096").unwrap();
    let platform = Platform::find("MI300X").unwrap();
    let estimate = large.estimate(platform);
    let peak = platform.peak("matrix_bf16").unwrap().value;
    let expected = 2.0 * 4096_f64.powi(3) / (peak * 1e12) * 1e6;
    assert!((estimate.compute_us.unwrap() / expected - 1.0).abs() < 1e-12);
    assert_eq!(estimate.roofline.unwrap().bound, Bound::Compute);
    assert!(large.intensity().unwrap() > estimate.knee.unwrap());
    let skinny = ask("gemm M=1 N=4096 K=4096").unwrap();
    let estimate = skinny.estimate(platform);
    assert_eq!(estimate.roofline.unwrap().bound, Bound::Memory);
    assert_eq!(estimate.roofline.unwrap().time_us, estimate.memory_us.unwrap());
    assert!(skinny.intensity().unwrap() < estimate.knee.unwrap());
}

/// The list is what help and errors are made of.
#[test]
fn every_family_explains_itself_and_its_example_works() {
    for family in FAMILIES.iter().chain([real_operation()]) {
        assert!(!family.about.is_empty() && !family.keys.is_empty(), "{}", family.name);
        let example = family.example.split(" --platform").next().unwrap();
        let found = ask(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        assert!(found.cost.flops > Some(0.0) && found.cost.bytes > Some(0.0), "{example}");
        for key in family.keys {
            assert!(!key.meaning.is_empty());
            let taken = family.keys.iter().filter(|other| other.usage() == key.usage()).count();
            assert_eq!(taken, 1, "{}", key.name);
            if let Fallback::Key(other) = key.fallback {
                assert!(family.keys.iter().any(|key| key.name == other), "{other}");
            }
        }
    }
}

#[test]
fn matrices_that_can_not_be_multiplied_are_refused() {
    let with = |op: &str, dims: &str| calculate(op, &[("dims", Some(dims)), ("types", Some("bf16"))]);
    assert!(with("aten::mm", "4096x1024,1024x512").is_ok());
    assert!(with("aten::addmm", "512,4096x1024,1024x512").is_ok());
    for (op, dims, problem) in [
        ("aten::mm", "4096x1024,512x4096", "4096x1024 can't be multiplied with 512x4096"),
        ("aten::bmm", "8x64x32,4x32x64", "8x64x32 can't be multiplied with 4x32x64"),
        ("aten::addmm", "512,4096x1024,512x1024", "4096x1024 can't be multiplied with 512x1024"),
        ("aten::addmm", "500,4096x1024,1024x512", "500 can't be added to 4096x512"),
        ("aten::addmm", "2x4096x512,4096x1024,1024x512", "2x4096x512 can't be added to 4096x512"),
        ("aten::baddbmm", "4x64x65,4x64x32,4x32x64", "4x64x65 can't be added to 4x64x64"),
    ] {
        let error = with(op, dims).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn weights_of_other_channels_are_refused() {
    let ask_for = |x: &str, w: &str, transposed: &str, groups: i64| {
        let concrete = format!("['','','','[1,1]','[1,1]','[1,1]','{transposed}','[0,0]','{groups}']");
        ask(&format!("aten::convolution dims={x},{w},,,,,,, types=bf16 concrete={concrete}"))
    };
    assert!(ask_for("8x64x56x56", "128x64x3x3", "False", 1).is_ok());
    assert!(ask_for("8x64x56x56", "64x1x3x3", "False", 64).is_ok());
    assert!(ask_for("8x64x28x28", "64x32x4x4", "True", 2).is_ok());
    for (x, w, transposed, groups, taken) in [
        ("8x64x56x56", "128x32x3x3", "False", 1, 32),
        ("8x64x56x56", "128x64x3x3", "False", 2, 128),
        ("8x64x28x28", "32x64x4x4", "True", 1, 32),
    ] {
        let error = ask_for(x, w, transposed, groups).unwrap_err().to_string();
        assert!(error.ends_with(&format!("take {taken} channels, not 64")), "{error}");
    }
}

#[test]
fn words_that_are_no_type_are_refused() {
    for (types, word) in [("foo", "foo"), ("bf16,foo", "foo"), ("['float','']", ""), ("bf17,bf16", "bf17")] {
        let what = refusal(&format!("aten::mm dims=64x32,32x8 types={types}")).0;
        assert!(what.ends_with(&format!("or a name from a trace, not `{word}`")), "{what}");
    }
    assert!(refusal("aten::cat dims=[[[8],[8]],[]] types=foo,Scalar").0.ends_with("not `foo`"));
    // What is no tensor may have any word of a trace.
    assert!(ask("aten::add dims=8x8,8x8, types=float,float,Scalar").is_ok());
}
