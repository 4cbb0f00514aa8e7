//! Recurrent layers, tables, and what else a program does again and again.

use super::sketch::Sketch;
use crate::finding::PatternId;
use crate::patterns::{Code, Confidence};

/// The loop over time of an LSTM: products from the state to all gates at once, and what comes of them.
fn lstm(s: &mut Sketch, steps: usize, module: impl Fn(usize) -> String) {
    let (h, gates): (&[i64], &[i64]) = (&[32, 512], &[32, 2048]);
    for step in 0..steps {
        s.module(&module(step), |s| {
            s.op("aten::addmm", &[&[2048], h, &[512, 2048], &[], &[]], 20.0);
        });
        s.op("aten::add", &[gates, gates], 3.0).op("aten::sigmoid", &[h], 2.0).op("aten::mul", &[h, h], 2.0);
        s.op("aten::sigmoid", &[h], 2.0).op("aten::tanh", &[h], 2.0).op("aten::mul", &[h, h], 2.0);
        s.op("aten::add", &[h, h], 2.0).op("aten::sigmoid", &[h], 2.0).op("aten::tanh", &[h], 2.0);
        s.op("aten::mul", &[h, h], 2.0);
    }
}

#[test]
fn a_recurrent_layer_step_by_step() {
    let mut s = Sketch::new();
    s.op("aten::addmm", &[&[2048], &[4096, 512], &[512, 2048], &[], &[]], 60.0);
    s.module("Recurrent_0", |s| lstm(s, 64, |_| "Linear_1".to_owned()));
    let p = s.cat(&[], 5.0).one(Code::UnfusedRecurrence);
    assert_eq!((p.id, p.instances, p.ops.len()), (PatternId::UNFUSED_MODULE, 1, 64 * 11));
    assert_eq!(p.evidence, ["64 equal turns of 11 operations pass a state on as an LSTM does"]);
    // 64 steps of 10 to 30 us.
    let fused = p.fused_ms.unwrap();
    assert!((fused.low - 0.64).abs() < 1e-9 && (fused.high - 1.92).abs() < 1e-9, "{fused:?}");
    s.look(|_, _, findings| {
        let advice = findings.iter().find(|f| f.pattern == PatternId::UNFUSED_MODULE).map(|f| &f.paths.algorithmic[0]);
        assert!(advice.unwrap().contains("`torch.nn.LSTM`"), "{advice:?}");
    });
    // Few steps, or layers one after another.
    let mut s = Sketch::new();
    lstm(&mut s, 15, |_| "Linear_1".to_owned());
    s.none(Code::UnfusedRecurrence);
    let mut s = Sketch::new();
    lstm(&mut s, 64, |step| format!("Linear_{step}"));
    s.none(Code::UnfusedRecurrence);
}

#[test]
fn a_recurrent_layer_with_one_tangent_is_a_gru() {
    let (h, gates): (&[i64], &[i64]) = (&[16, 256], &[16, 512]);
    let draw = |gate: &str, state: &[i64]| {
        let mut s = Sketch::new();
        for _ in 0..32 {
            s.op("aten::mm", &[h, &[256, 512]], 6.0).op("aten::add", &[gates, gates], 3.0);
            s.op(gate, &[gates], 2.0).op("aten::mul", &[h, h], 2.0).op("aten::mm", &[h, &[256, 256]], 6.0);
            s.op("aten::add", &[h, h], 2.0).op("aten::tanh", &[h], 2.0).op("aten::lerp", &[state, state, state], 2.0);
        }
        s
    };
    let p = draw("aten::sigmoid", h).one(Code::UnfusedRecurrence);
    assert_eq!(p.evidence, ["32 equal turns of 8 operations pass a state on as a GRU does"]);
    draw("aten::relu", h).none(Code::UnfusedRecurrence);
    // gates = torch.cat([x, h], 1) @ w
    let draw = |state: &[i64]| {
        let mut s = Sketch::new();
        for _ in 0..32 {
            s.cat(&[&[16, 128], state], 3.0).op("aten::mm", &[&[16, 384], &[384, 1024]], 6.0);
            s.op("aten::sigmoid", &[&[16, 768]], 2.0).op("aten::tanh", &[h], 2.0).op("aten::mul", &[h, h], 2.0);
            s.op("aten::addcmul", &[h, h, h], 2.0).op("aten::tanh", &[h], 2.0).op("aten::mul", &[h, h], 2.0);
        }
        s
    };
    // The first turn is looked for from its product on.
    assert_eq!(draw(h).one(Code::UnfusedRecurrence).ops.len(), 31 * 8);
    draw(&[16, 512]).none(Code::UnfusedRecurrence);
}

#[test]
fn cells_of_the_library_called_again_and_again_are_a_recurrent_layer() {
    let draw = |dtype: &'static str, around: &str, features: i64| {
        let (h, gates) = ([32, features], [32, 4 * features]);
        let mut s = Sketch::new();
        s.dtype(dtype);
        for _ in 0..50 {
            s.module("LSTMCell_0", |s| {
                s.within(around, |s| {
                    s.select(&[50, 32, features]);
                    for _ in 0..2 {
                        s.op("aten::mm", &[&h, &[features, 4 * features]], 8.0);
                    }
                    s.op("aten::_thnn_fused_lstm_cell", &[&gates, &gates, &h, &[4 * features], &[4 * features]], 3.0);
                });
            });
        }
        s
    };
    let fused = |dtype: &'static str, features: i64| {
        let p = draw(dtype, "aten::lstm_cell", features).one(Code::UnfusedRecurrence);
        assert_eq!(p.evidence, ["50 equal turns of 3 operations pass a state on as an LSTM does"]);
        p.fused_ms.unwrap().low
    };
    // 50 steps of 10, 1.8 and 1.3 us.
    for (dtype, features, best) in [("float", 256, 0.5), ("c10::Half", 256, 0.09), ("c10::Half", 128, 0.065)] {
        assert!((fused(dtype, features) - best).abs() < 1e-9, "{dtype} {features}: {}", fused(dtype, features));
    }
    assert!((fused("c10::BFloat16", 128) - 0.5).abs() < 1e-9, "bf16 has no kernels for small layers");
    // The layer itself runs so where it has no kernel.
    draw("float", "aten::lstm", 256).none(Code::UnfusedRecurrence);
    // It is not said to be called on slices.
    let told = draw("float", "aten::lstm_cell", 128).analysis();
    assert!(told.findings.iter().all(|f| f.paths.algorithmic.iter().all(|a| !a.contains("on a slice"))));
    assert!(told.findings.iter().any(|f| f.pattern == PatternId::UNFUSED_MODULE));
}

/// `torch.cat([t(i) for t, i in zip(tables, ids)], 1)`, each lookup in its module, if they are recorded.
fn lookups(tables: usize, widths: &[i64], module: impl Fn(usize) -> Option<String>, between: Option<&str>) -> Sketch {
    let mut s = Sketch::new();
    s.op("aten::relu", &[&[4096, 64]], 3.0);
    for table in 0..tables {
        let (rows, width) = (1000 * (1 + table as i64), widths[table % widths.len()]);
        if table > 0 {
            _ = between.map(|op| s.op(op, &[&[4096], &[4096]], 2.0));
        }
        let look_up = |s: &mut Sketch| {
            s.within("aten::embedding", |s| {
                s.typed("aten::gather", &[&[rows, width], &[], &[4096, width]], &["float", "Scalar", "long int"], 4.0);
            });
        };
        match module(table) {
            Some(name) => _ = s.module(&name, look_up),
            None => look_up(&mut s),
        }
    }
    s.cat(&[], 5.0);
    s
}

#[test]
fn tables_looked_up_one_after_another_could_be_one() {
    let own = |table: usize| Some(format!("Embedding_{table}"));
    let p = lookups(12, &[32], own, None).one(Code::LoopedLookups);
    assert_eq!((p.id, p.instances, p.ops.len()), (PatternId::UNFUSED_MODULE, 1, 12 + 1));
    assert_eq!(p.evidence, ["12 lookups in a row pick 4096 rows of 32 elements each"]);
    assert_eq!(p.confidence, Confidence::High);
    // As long as all of them at worst, and as one at best, or as its bytes take.
    let fused = p.fused_ms.unwrap();
    assert!((fused.high - 0.053).abs() < 1e-9 && fused.low >= 0.053 / 12.0 && fused.low < 0.02, "{fused:?}");
    // Without modules; with indices that are made in between.
    assert_eq!(lookups(12, &[32], |_| None, None).one(Code::LoopedLookups).confidence, Confidence::Medium);
    assert_eq!(lookups(12, &[32], own, Some("aten::copy_")).patterns(Code::LoopedLookups).len(), 1);
    // Few; of different widths; one table again and again; with work in between.
    lookups(7, &[32], own, None).none(Code::LoopedLookups);
    lookups(12, &[32, 64], own, None).none(Code::LoopedLookups);
    lookups(12, &[32], |_| Some("Embedding_0".to_owned()), None).none(Code::LoopedLookups);
    lookups(12, &[32], own, Some("aten::relu")).none(Code::LoopedLookups);
    // It is the launches that gain.
    let findings = lookups(12, &[32], own, None).with_host();
    let f = findings.iter().find(|f| f.pattern == PatternId::UNFUSED_MODULE).unwrap();
    assert!(f.issue.starts_with("12 tables are looked up one after another"), "{}", f.issue);
    assert!(f.paths.algorithmic[0].contains("takes the place of 12"), "{:?}", f.paths);
}

#[test]
fn a_loop_within_one_call_of_a_module_is_named_where_the_gpu_waits_for_launches() {
    // for t in range(steps): h = a[t] * h + b[t]; y.append(h @ c[t]), in the module itself or in one for each step
    let advice = |steps: usize, module: fn(usize) -> Option<String>, others: usize| {
        let h: &[i64] = &[4, 1024, 16];
        let mut s = Sketch::new();
        s.module("Mixer_0", |s| {
            for _ in 0..others {
                s.op("aten::relu", &[h], 2.0).op("aten::sum", &[h], 2.0);
            }
            for t in 0..steps {
                let step = |s: &mut Sketch| {
                    s.op("aten::mul", &[h, h], 2.0).op("aten::add", &[h, h], 2.0);
                    s.op("aten::bmm", &[h, &[4, 16, 1]], 2.0);
                };
                match module(t) {
                    Some(name) => _ = s.module(&name, step),
                    None => step(s),
                }
            }
        });
        let findings = s.analysis().findings;
        findings.into_iter().find(|f| f.pattern == PatternId::LAUNCH_BOUND).unwrap().paths.algorithmic[0].clone()
    };
    let told = advice(64, |_| None, 0);
    let loops =
        "100% of the operations stand in loops, as in `Mixer`: 3 operations (`add`, `bmm`, `mul`) 64 times in a row";
    assert!(told.starts_with(loops), "{told}");
    assert!(advice(15, |_| None, 0).starts_with("Capture"), "too few");
    assert!(advice(64, |t| Some(format!("Layer_{t}")), 0).starts_with("Capture"), "layers one after another");
    assert!(advice(16, |_| None, 7).starts_with("77%"), "{}", advice(16, |_| None, 7));
}
