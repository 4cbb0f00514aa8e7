//! `jarvis platforms`, `jarvis model`, `jarvis explain`, and the help of every command.

use crate::support::jarvis;

fn said(args: &[&str]) -> String {
    let run = jarvis(args);
    assert_eq!((run.status, run.err.as_str()), (0, ""), "{args:?}");
    run.out
}

fn refused(args: &[&str]) -> String {
    let run = jarvis(args);
    assert_eq!((run.status, run.out.as_str()), (2, ""), "{args:?}");
    run.err
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&said(&[args, &["--json"]].concat())).expect("JSON")
}

#[test]
fn platforms_are_listed_and_explained() {
    insta::assert_snapshot!("platforms", said(&["platforms"]));
    insta::assert_snapshot!("platform", said(&["platforms", "mi300x"]));
    insta::assert_snapshot!("platform_unknown", refused(&["platforms", "b300"]));
    let all = json(&["platforms"]);
    assert_eq!(all["platforms"].as_array().unwrap().len(), 9);
    let one = json(&["platforms", "NVIDIA H200"]);
    assert_eq!(one["platforms"][0]["peak_tflops"]["matrix_bf16"]["value"], 990.0);
}

#[test]
fn an_operation_is_costed_without_a_trace() {
    let gemm = ["model", "gemm", "M=4096", "N=4096", "K=4096", "--platform", "H200"];
    insta::assert_snapshot!("model_gemm", said(&gemm));
    insta::assert_snapshot!(
        "model_sdpa",
        said(&["model", "sdpa", "B=1", "N_Q=128", "N_KV=4096", "H_Q=32", "H_KV=8", "d_h_qk=128", "causal"])
    );
    insta::assert_snapshot!("model_families", said(&["model"]));
    let answer = json(&gemm);
    assert_eq!(answer["flops"], 137_438_953_472.0);
    assert_eq!(answer["estimate"]["bound"], "COMPUTE_BOUND");
    let real = json(&["model", "aten::mm", "dims=[[64, 32], [32, 16]]", "types=bf16"]);
    assert_eq!((real["flops"].as_f64(), real["bytes"].as_f64()), (Some(65_536.0), Some(7168.0)));
    // PyTorch's own counter knows no bias; where both say the same the text does not repeat it.
    assert_eq!(real["flops_torch"], real["flops"]);
    let biased = ["model", "aten::addmm", "dims=512,128x256,256x512", "types=float"];
    assert_eq!(json(&biased)["flops_torch"], 33_554_432.0);
    assert!(said(&biased).contains("of PyTorch    33,554,432 (33.6 MFLOP) by torch.utils.flop_counter\n"));
    assert!(!said(&gemm).contains("flop_counter"));
    // Figures alone make a platform.
    let custom = ["model", "softmax", "N=1000", "--peak-hbm-tbs", "1", "--peak-maf-tflops", "100"];
    assert_eq!(json(&custom)["estimate"]["memory_us"], 0.004);
}

#[test]
fn wrong_models_keys_and_values_are_explained() {
    insta::assert_snapshot!("model_missing_key", refused(&["model", "gemm", "M=1", "N=2"]));
    insta::assert_snapshot!("model_unknown_key", refused(&["model", "sdpa", "B=1", "NQ=2"]));
    insta::assert_snapshot!("model_wrong_value", refused(&["model", "norm", "kind=layer", "N=10", "C=3"]));
    insta::assert_snapshot!("model_unknown", refused(&["model", "aten::mmm", "dims=1x1", "types=bf16"]));
    let lone = refused(&["model", "softmax", "N=8", "--peak-hbm-tbs", "1"]);
    assert!(lone.contains("nothing to replace figures of") && lone.contains("--platform NAME"), "{lone}");
    let zero = refused(&["model", "softmax", "N=8", "--platform", "H200", "--peak-hbm-tbs", "0"]);
    assert!(zero.contains("--peak-hbm-tbs must be a number above 0"), "{zero}");
}

#[test]
fn operations_are_explained() {
    for (name, op) in [
        ("explain_model", "aten::mm"),
        ("explain_extended", "aten::_softmax"),
        ("explain_category", "aten::cudnn_convolution"),
        ("explain_prefix", "triton_poi_fused_add_0"),
        ("explain_text", "rms_norm"),
        ("explain_unknown", "mine::op"),
    ] {
        insta::assert_snapshot!(name, said(&["explain", op]));
    }
    let answer = json(&["explain", "aten::_softmax"]);
    assert_eq!((answer["model_source"].as_str(), answer["parity_model"].as_bool()), (Some("extended"), Some(false)));
    assert_eq!(json(&["explain", "mine::op"])["known"], false);
    assert!(refused(&["explain", " "]).contains("an operation needs a name"));
}

#[test]
fn the_help_of_every_command_has_examples() {
    let all = said(&["--help"]);
    let commands: Vec<&str> = all
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|&command| command != "help")
        .collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let help = said(&[command, "--help"]);
        assert!(help.contains("Examples:\n  ") && help.contains(&format!("jarvis {command}")), "{help}");
        assert!(["--json", "--quiet", "--verbose"].iter().all(|option| help.contains(option)), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    }
    assert!(all.contains("Exit status: 0 done") && all.contains("jarvis demo"), "{all}");
    insta::assert_snapshot!("help_report", said(&["report", "--help"]));
    insta::assert_snapshot!("help_model", said(&["model", "--help"]));
}
