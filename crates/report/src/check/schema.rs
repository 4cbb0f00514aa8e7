//! The schemas of the JSON files. What programs are told about the files is what `jarvis check` holds them to.

mod validator;

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::json::Json;
pub(super) use validator::Validator;

/// A schema: its name, and its text as it stands in `schemas/`.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Name of its file without `.schema.json`.
    pub name: &'static str,
    /// JSON Schema, draft 2020-12.
    pub text: &'static str,
}

macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        /// All schemas.
        pub const SCHEMAS: &[Schema] = &[
            $(Schema { name: $name, text: include_str!(concat!("../../../../schemas/", $name, ".schema.json")) }),*
        ];
    };
}

schemas![
    "findings",
    "category_manifest",
    "category_metadata",
    "category_metrics",
    "category_tree_data",
    "cpu_idle_metrics",
    "multi_kernel_data",
    "multi_kernel_metrics",
    "fusion_candidates",
    "kernel_fusion_metrics",
    "model_info",
    "comparison_metrics",
    "priority_data",
    "run_log",
    "replay_index",
];

/// The schema of a file, by its path in the output folder.
pub fn schema_of(path: &str) -> Option<&'static Schema> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = match (folder, file) {
        ("", "findings.json") => "findings",
        ("", "run_log.json") => "run_log",
        ("", "priority_data.json") => "priority_data",
        ("" | "category_data", "category_manifest.json") => "category_manifest",
        ("replay_packages", "index.json") => "replay_index",
        ("metadata", "model_info.json") => "model_info",
        ("metadata", f) if f.ends_with("_metadata.json") => "category_metadata",
        ("category_data", f) => match f.strip_suffix(".json") {
            Some(name) if SCHEMAS.iter().any(|s| s.name == name) => name,
            Some(name) if name.ends_with("_metrics") => "category_metrics",
            Some(name) if name.ends_with("_tree_data") => "category_tree_data",
            _ => return None,
        },
        _ => return None,
    };
    SCHEMAS.iter().find(|s| s.name == name)
}

/// Schemas that are read when they are needed, each once.
#[derive(Debug)]
pub(super) struct Schemas([OnceLock<Validator<'static>>; SCHEMAS.len()]);

impl Schemas {
    pub(super) fn new() -> Self {
        Self([const { OnceLock::new() }; SCHEMAS.len()])
    }

    /// The schema of a file, by its path in the output folder.
    pub(super) fn of(&self, path: &str) -> Option<&Validator<'static>> {
        let name = schema_of(path)?.name;
        let at = SCHEMAS.iter().position(|s| s.name == name)?;
        // Our own schemas parse; a test sees to it.
        Some(self.0[at].get_or_init(|| Validator::of(Json::read(SCHEMAS[at].text.as_bytes()).unwrap_or_default())))
    }
}

/// What of a document a schema does not allow, as `$.path: what`.
pub fn violations(schema: &Value, document: &Value) -> Vec<String> {
    // Every value of `serde_json` is one of ours.
    let ours = |value| Json::deserialize(value).unwrap_or_default();
    Validator::of(ours(schema)).violations(&ours(document))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Keywords that the validator knows or that say nothing about a document.
    const KNOWN: &[&str] = &[
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "title",
        "description",
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "const",
        "minimum",
        "minLength",
        "maxItems",
        "additionalProperties",
        "anyOf",
    ];

    fn keywords(schema: &Value, found: &mut Vec<String>) {
        let Some(object) = schema.as_object() else { return };
        for (key, value) in object {
            found.push(key.clone());
            match key.as_str() {
                "properties" | "$defs" => {
                    value.as_object().into_iter().flatten().for_each(|(_, v)| keywords(v, found));
                }
                "items" | "additionalProperties" => keywords(value, found),
                "anyOf" => value.as_array().into_iter().flatten().for_each(|v| keywords(v, found)),
                _ => {}
            }
        }
    }

    #[test]
    fn the_schemas_use_nothing_that_the_validator_does_not_know() {
        for schema in SCHEMAS {
            let parsed: Value = serde_json::from_str(schema.text).unwrap();
            let mut found = Vec::new();
            keywords(&parsed, &mut found);
            found.retain(|k| !KNOWN.contains(&k.as_str()));
            assert!(found.is_empty(), "{}: {found:?}", schema.name);
            assert_eq!(parsed["$schema"], "https://json-schema.org/draft/2020-12/schema");
        }
    }

    #[test]
    fn references_lead_to_definitions() {
        for schema in SCHEMAS {
            let parsed: Value = serde_json::from_str(schema.text).unwrap();
            for reference in schema.text.split("\"$ref\": \"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let name = reference.strip_prefix("#/$defs/").unwrap();
                assert!(parsed["$defs"][name].is_object(), "{}: {reference}", schema.name);
            }
        }
        assert_eq!(violations(&json!({"$ref": "#/$defs/none"}), &json!(1)), ["$: the schema refers to nothing"]);
    }

    #[test]
    fn faults_are_told_with_their_place() {
        let schema = json!({
            "type": "object",
            "required": ["a", "list"],
            "properties": {
                "a": {"$ref": "#/$defs/positive"},
                "list": {"type": "array", "maxItems": 2, "items": {"enum": ["x", null]}},
                "name": {"type": ["string", "null"], "minLength": 1},
                "n": {"type": "integer"}
            },
            "$defs": {"positive": {"type": "number", "minimum": 0}}
        });
        let of = |document: Value| violations(&schema, &document);
        assert!(of(json!({"a": 1.5, "list": ["x", null], "name": null, "n": 2.0, "unknown": 1})).is_empty());
        assert_eq!(
            of(json!({"a": -1, "list": ["y"]})),
            ["$.a: -1 is below 0", "$.list[0]: \"y\" is none of [\"x\",null]"]
        );
        assert_eq!(of(json!({"a": "1"})), ["$: `list` is missing", "$.a: expected \"number\", found \"1\""]);
        assert_eq!(of(json!({"a": 1, "list": [], "name": "", "n": 0.5})).len(), 2);
        assert_eq!(of(json!([])), ["$: expected \"object\", found a list of 0"]);
        assert_eq!(of(json!({})), ["$: `a` is missing", "$: `list` is missing"]);
    }

    #[test]
    fn one_of_several_forms_is_enough() {
        let schema = json!({"anyOf": [{"const": 1}, {"type": "string"}]});
        assert!(violations(&schema, &json!("x")).is_empty());
        assert!(violations(&schema, &json!(1.0)).is_empty());
        assert_eq!(violations(&schema, &json!(2)).len(), 1);
    }

    #[test]
    fn files_find_their_schemas() {
        let name = |path: &str| schema_of(path).map(|s| s.name);
        assert_eq!(name("category_data/gemm_metrics.json"), Some("category_metrics"));
        assert_eq!(name("category_data/cpu_idle_metrics.json"), Some("cpu_idle_metrics"));
        assert_eq!(name("category_data/multi_kernel_data.json"), Some("multi_kernel_data"));
        assert_eq!(name("category_data/category_manifest.json"), Some("category_manifest"));
        assert_eq!(name("metadata/cpu_idle_metadata.json"), Some("category_metadata"));
        assert_eq!(name("category_data/comparison_metrics.json"), Some("comparison_metrics"));
        assert_eq!(name("run_log.json"), Some("run_log"));
        assert_eq!(name("priority_data.json"), Some("priority_data"));
        assert_eq!(name("replay_packages/index.json"), Some("replay_index"));
        assert_eq!(name("perf_report.json"), None);
    }
}
