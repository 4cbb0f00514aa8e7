//! Patterns in forms that people write them in, captured on a GPU.

use crate::support::{files, fixture, jarvis};

/// A recording, and the pattern that has to come first.
const FORMS: &[(&str, &str)] = &[
    // Products by `einsum`.
    ("a_einsum", "unfused_attention"),
    // A bias added by the product, softmax in float.
    ("a_baddbmm", "unfused_attention"),
    // Exponentials, sums and a division instead of a softmax; with its backward.
    ("a_manual_t", "unfused_attention"),
    // The root is cast back before it scales; with its backward.
    ("n_castrow_t", "unfused_norm"),
    // `F.normalize` and a weight.
    ("n_normalize", "unfused_norm"),
    // One is added to the weight.
    ("n_gemma", "unfused_norm"),
    // GELU by `erf`.
    ("e_erf", "elementwise_chain"),
];

#[test]
fn each_form_is_recognised_and_comes_first() {
    let out = tempfile::tempdir().unwrap();
    for (form, pattern) in FORMS {
        let (trace, folder) = (fixture(&format!("forms/{form}.json.gz")), out.path().join(form));
        let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder.to_str().unwrap()]);
        assert_eq!(run.status, 0, "{form}: {}", run.err);
        assert!(!run.err.contains("fault of jarvis"), "{form}: {}", run.err);
        let findings: serde_json::Value = serde_json::from_slice(&files(&folder)["findings.json"]).unwrap();
        assert_eq!(findings["findings"][0]["pattern"], *pattern, "{form}: {findings:#}");
    }
}
