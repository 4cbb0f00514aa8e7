//! What the model seems to be, from modules, time shares and shapes.

use std::collections::{BTreeMap, BTreeSet};

use jarvis_perf::call::InputLists;
use jarvis_trace::InOrder;

use super::category;
use crate::prepared::{Category, ModelEvidence, ModelInfo, Row};
use crate::program::{Direction, Leaf, ModuleId, Program};
use crate::rounding::shown;

/// Modules that only wrap another.
const WRAPPERS: &[&str] = &[
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "CheckpointWrapper",
    "OptimizedModule",
    "Sequential",
    "ModuleList",
];

/// Endings that say what a model is for and not which one it is.
const SUFFIXES: &[&str] = &[
    "ForCausalLM",
    "ForConditionalGeneration",
    "ForSequenceClassification",
    "ForImageClassification",
    "ForObjectDetection",
    "ForVideoClassification",
    "LMHeadModel",
    "WithProjection",
    "Model",
];

/// Most roots named.
const MOST_ROOTS: usize = 3;

/// A root with less than this share of the modules' time is an accessory (a loss, a metric).
const MIN_ROOT_SHARE: f64 = 0.1;

/// Fewer weights than this say nothing about the size of a model.
const MIN_WEIGHTS: usize = 10;

/// Share of convolution time from which a model is one of convolutions.
const CNN_PERCENT: f64 = 20.0;

/// Share of state-space time from which a model is one of state spaces.
const SSM_PERCENT: f64 = 10.0;

/// Share of matrix time from which a second precision is named.
const SECOND_PRECISION: f64 = 0.2;

/// Reads the model off the program and its rows.
pub(crate) fn model_info(program: &Program, rows: &[Row], categories: &[Category]) -> ModelInfo {
    let (model, model_evidence) = name(program);
    let unfused = Shown { attention: has_attention_module(program), experts: has_grouped_products(program) };
    let (architecture, architecture_evidence) = architecture(unfused, categories);
    let (scale, scale_evidence) = scale(program);
    let (precision, precision_evidence) = precision(rows);
    let known = |text: Option<String>| text.unwrap_or_else(|| ModelInfo::UNKNOWN.to_owned());
    ModelInfo {
        model: known(model),
        architecture: known(architecture),
        scale: known(scale),
        precision: known(precision),
        evidence: ModelEvidence {
            model: model_evidence,
            architecture: architecture_evidence,
            scale: scale_evidence,
            precision: precision_evidence,
        },
    }
}

fn time_of(program: &Program, module: ModuleId) -> f64 {
    program.leaves[program.module(module).leaves.clone()].iter().map(|l| l.us).sum()
}

fn name(program: &Program) -> (Option<String>, String) {
    let mut by_root: BTreeMap<String, f64> = BTreeMap::new();
    let mut total = 0.0;
    for (i, module) in program.modules.iter().enumerate() {
        if module.parent.is_some() {
            continue;
        }
        let root = unwrapped(program, ModuleId(i as u32));
        let time = time_of(program, root);
        total += time;
        *by_root.entry(without_suffix(&program.module(root).base).to_owned()).or_default() += time;
    }
    // A module may be called nothing at all.
    by_root.retain(|name, time| !name.trim().is_empty() && *time >= MIN_ROOT_SHARE * total);
    let mut roots: Vec<(String, f64)> = by_root.into_iter().collect();
    roots.order_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if roots.is_empty() || total <= 0.0 {
        return (None, "no module frames in the trace".to_owned());
    }
    let names: Vec<String> = roots.into_iter().take(MOST_ROOTS).map(|(name, _)| name).collect();
    (Some(names.join(" + ")), "outermost modules with most kernel time".to_owned())
}

/// The module inside wrappers that has most of the time.
fn unwrapped(program: &Program, mut module: ModuleId) -> ModuleId {
    while WRAPPERS.contains(&&*program.module(module).base) {
        let inside = program.module(module).leaves.clone();
        // Modules stand in order of first leaf, so those inside follow at once.
        let children = (module.0 + 1..program.modules.len() as u32)
            .map(ModuleId)
            .take_while(|&m| program.module(m).leaves.start < inside.end)
            .filter(|&m| program.module(m).parent == Some(module));
        let Some(most) = children.max_by(|a, b| time_of(program, *a).total_cmp(&time_of(program, *b)).then(b.cmp(a)))
        else {
            break;
        };
        module = most;
    }
    module
}

fn without_suffix(name: &str) -> &str {
    let shorter = SUFFIXES.iter().find_map(|s| name.strip_suffix(s));
    shorter.filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// What patterns over several operations show, and no category.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shown {
    pub(crate) attention: bool,
    pub(crate) experts: bool,
}

/// The same where attention or experts were found in operations that only together make them up.
pub(crate) fn with_patterns(info: &mut ModelInfo, program: &Program, categories: &[Category], shown: Shown) {
    let attention = shown.attention || has_attention_module(program);
    let experts = shown.experts || has_grouped_products(program);
    let (architecture, evidence) = architecture(Shown { attention, experts }, categories);
    info.architecture = architecture.unwrap_or_else(|| ModelInfo::UNKNOWN.to_owned());
    info.evidence.architecture = evidence;
}

/// From the shares of categories, and what else shows that none of them does.
fn architecture(unfused: Shown, categories: &[Category]) -> (Option<String>, String) {
    let share = |key: &str| categories.iter().filter(|c| &*c.key == key).map(|c| c.percent_of_compute).sum::<f64>();
    let has = |key: &str| categories.iter().any(|c| &*c.key == key);
    let convolution = share("convolution");
    let attention = has("sdpa_fwd") || has("sdpa_bwd") || has("inferenceattention") || unfused.attention;
    let experts = has("moe_fused") || has("moe_unfused") || unfused.experts;
    let states: f64 = categories.iter().filter(|c| c.key.starts_with("ssm")).map(|c| c.percent_of_compute).sum::<f64>();
    let cnn = convolution >= CNN_PERCENT;
    let name = match () {
        () if states >= SSM_PERCENT => "SSM",
        () if attention && experts => "Transformer (MoE)",
        () if attention && cnn => "Transformer + CNN",
        () if attention => "Transformer",
        () if cnn => "CNN",
        // An expert layer alone is of no known kind of model.
        () if experts => "MoE",
        () => return (None, "neither attention, convolution nor state-space work stands out".to_owned()),
    };
    let evidence = format!(
        "convolution {}% of compute, attention {}, experts {}",
        shown(convolution, 1),
        if attention { "present" } else { "absent" },
        if experts { "present" } else { "absent" },
    );
    (Some(name.to_owned()), evidence)
}

/// Whether softmax runs inside a module of attention: attention without an attention operation.
fn has_attention_module(program: &Program) -> bool {
    program.leaves.iter().any(|leaf| {
        leaf.name.contains("softmax")
            && program.module_chain(leaf).iter().any(|&m| program.module(m).base.to_lowercase().contains("attention"))
    })
}

/// Whether products of different sizes run in one call, each with a weight of its own: experts.
fn has_grouped_products(program: &Program) -> bool {
    program.leaves.iter().any(|leaf| is_grouped(&leaf.name))
}

fn is_grouped(name: &str) -> bool {
    matches!(name, "aten::_grouped_mm" | "aten::_scaled_grouped_mm" | "aten::_scaled_grouped_mm_v2")
}

fn scale(program: &Program) -> (Option<String>, String) {
    let mut seen: BTreeSet<(String, Vec<i64>)> = BTreeSet::new();
    for leaf in program.leaves.iter().filter(|l| l.direction == Direction::Forward && !l.is_recompute) {
        let Some(shape) = weight_shape(program, leaf) else { continue };
        let chain = program.module_chain(leaf);
        if chain.is_empty() {
            continue;
        }
        let path: Vec<&str> = chain.iter().map(|&m| &*program.module(m).name).collect();
        seen.insert((path.join("/"), shape.to_vec()));
    }
    if seen.len() < MIN_WEIGHTS {
        return (None, format!("{} weight tensors with module paths", seen.len()));
    }
    let elements: f64 = seen.iter().map(|(_, shape)| shape.iter().map(|&d| d as f64).product::<f64>()).sum();
    let amount = if elements >= 1e8 { format!("{:.2}B", elements / 1e9) } else { format!("{:.1}M", elements / 1e6) };
    (Some(format!("{amount} parameters (lower bound from weights seen)")), format!("{} weight tensors", seen.len()))
}

/// Sizes of the weight of a matrix product, convolution or embedding.
fn weight_shape<'a>(program: &Program, leaf: &'a Leaf) -> Option<&'a [i64]> {
    let at = match &*leaf.name {
        "aten::mm"
        | "aten::linear"
        | "aten::convolution"
        | "aten::_convolution"
        | "aten::cudnn_convolution"
        | "aten::miopen_convolution" => 1,
        name if is_grouped(name) => 1,
        "aten::addmm" | "aten::_addmm_activation" => 2,
        "aten::embedding" => 0,
        // Embeddings are looked up by `index_select` in some versions.
        "aten::index_select" if program.ops_around(leaf).any(|op| &**op == "aten::embedding") => 0,
        _ => return None,
    };
    shape(&leaf.inputs, at).filter(|s| s.len() >= 2)
}

fn shape(inputs: &InputLists, at: usize) -> Option<&[i64]> {
    inputs.dims.as_ref()?.get(at)?.shape()
}

fn precision(rows: &[Row]) -> (Option<String>, String) {
    let times = |wanted: &dyn Fn(&Row) -> bool| {
        let mut by_label: BTreeMap<String, f64> = BTreeMap::new();
        for row in rows.iter().filter(|r| wanted(r)) {
            let label = row.efficiency.compute_spec.as_deref().and_then(|s| s.split_once('_')).map(|(_, p)| p);
            if let Some(label) = label {
                *by_label.entry(label.to_uppercase()).or_default() += row.time_ms;
            }
        }
        let mut list: Vec<(String, f64)> = by_label.into_iter().collect();
        list.order_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        list
    };
    let mut list = times(&|r| category::is_matrix(&r.category));
    let mut evidence = "kernel time of matrix work by precision";
    if list.is_empty() {
        list = times(&|r| &*r.category == "elementwise");
        list.truncate(1);
        evidence = "kernel time of elementwise work by precision";
    }
    let total: f64 = list.iter().map(|(_, t)| t).sum();
    let Some((first, _)) = list.first() else { return (None, "no operation with a known precision".to_owned()) };
    let second = list.get(1).filter(|(_, t)| *t > SECOND_PRECISION * total);
    let name = second.map_or_else(|| first.clone(), |(second, _)| format!("{first}/{second}"));
    (Some(name), evidence.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_say_what_no_category_shows() {
        let told = |attention, experts| architecture(Shown { attention, experts }, &[]);
        assert_eq!(told(true, true).0.as_deref(), Some("Transformer (MoE)"));
        assert_eq!(told(true, false).0.as_deref(), Some("Transformer"));
        let (name, evidence) = told(false, true);
        assert_eq!(name.as_deref(), Some("MoE"));
        assert!(evidence.ends_with("attention absent, experts present"), "{evidence}");
        assert_eq!(told(false, false).0, None);
    }

    #[test]
    fn grouped_products_are_known_by_their_names() {
        assert!(is_grouped("aten::_grouped_mm") && !is_grouped("aten::bmm"));
    }

    #[test]
    fn endings_that_say_nothing_go() {
        for (name, short) in
            [("Qwen2ForCausalLM", "Qwen2"), ("GPT2LMHeadModel", "GPT2"), ("Model", "Model"), ("ResNet", "ResNet")]
        {
            assert_eq!(without_suffix(name), short);
        }
    }
}
