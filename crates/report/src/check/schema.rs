//! The schemas of the JSON files, and a validator for the part of JSON Schema that they use. What programs are told
//! about the files is thereby what `jarvis check` holds them to.

use std::sync::OnceLock;

use serde_json::{Map, Value};

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
];

/// The schema of a file, by its path in the output folder.
pub fn schema_of(path: &str) -> Option<&'static Schema> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = match (folder, file) {
        ("", "findings.json") => "findings",
        ("" | "category_data", "category_manifest.json") => "category_manifest",
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
pub(super) struct Schemas([OnceLock<Value>; SCHEMAS.len()]);

impl Schemas {
    pub(super) fn new() -> Self {
        Self([const { OnceLock::new() }; SCHEMAS.len()])
    }

    /// The schema of a file, by its path in the output folder.
    pub(super) fn of(&self, path: &str) -> Option<&Value> {
        let name = schema_of(path)?.name;
        let at = SCHEMAS.iter().position(|s| s.name == name)?;
        // Our own schemas parse; a test sees to it.
        Some(self.0[at].get_or_init(|| serde_json::from_str(SCHEMAS[at].text).unwrap_or_default()))
    }
}

/// Most faults told of one document: one is enough to act on, a broken file has thousands.
const MOST: usize = 5;

/// What of a document a schema does not allow, as `$.path: what`. Unknown keywords allow everything.
pub fn violations(schema: &Value, document: &Value) -> Vec<String> {
    let mut validator = Validator { root: schema, found: Vec::new() };
    validator.value(schema, document, &mut "$".to_owned());
    validator.found
}

struct Validator<'a> {
    root: &'a Value,
    found: Vec<String>,
}

impl Validator<'_> {
    fn fault(&mut self, at: &str, what: &str) {
        if self.found.len() < MOST {
            self.found.push(format!("{at}: {what}"));
        }
    }

    fn value(&mut self, schema: &Value, document: &Value, at: &mut String) {
        if self.found.len() >= MOST {
            return;
        }
        let Some(schema) = schema.as_object() else {
            if schema == &Value::Bool(false) {
                self.fault(at, "not allowed here");
            }
            return;
        };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            match target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => self.value(target, document, at),
                None => self.fault(at, "the schema refers to nothing"),
            }
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            self.any_of(choices, document, at);
        }
        if !has_type(schema.get("type"), document) {
            let expected = schema.get("type").map(Value::to_string).unwrap_or_default();
            self.fault(at, &format!("expected {expected}, found {}", short(document)));
            return;
        }
        if schema.get("const").is_some_and(|only| !same(only, document)) {
            self.fault(at, &format!("expected {}, found {}", schema["const"], short(document)));
        }
        if schema.get("enum").and_then(Value::as_array).is_some_and(|all| !all.iter().any(|v| same(v, document))) {
            self.fault(at, &format!("{} is none of {}", short(document), schema["enum"]));
        }
        match document {
            Value::Object(object) => self.object(schema, object, at),
            Value::Array(items) => self.array(schema, items, at),
            Value::Number(_) | Value::String(_) => self.scalar(schema, document, at),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn any_of(&mut self, choices: &[Value], document: &Value, at: &mut String) {
        let mut best: Option<Vec<String>> = None;
        for choice in choices {
            let mut alone = Validator { root: self.root, found: Vec::new() };
            alone.value(choice, document, at);
            if best.as_ref().is_none_or(|b| alone.found.len() < b.len()) {
                best = Some(alone.found);
            }
        }
        self.found.extend(best.unwrap_or_default());
        self.found.truncate(MOST);
    }

    fn object(&mut self, schema: &Map<String, Value>, object: &Map<String, Value>, at: &mut String) {
        for key in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(key) {
                self.fault(at, &format!("`{key}` is missing"));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let length = at.len();
        for (key, value) in object {
            let Some(inner) = properties.and_then(|p| p.get(key)).or(others) else { continue };
            at.push('.');
            at.push_str(key);
            self.value(inner, value, at);
            at.truncate(length);
        }
    }

    fn array(&mut self, schema: &Map<String, Value>, items: &[Value], at: &mut String) {
        if schema.get("maxItems").and_then(Value::as_u64).is_some_and(|most| items.len() as u64 > most) {
            self.fault(at, &format!("{} items, at most {} are allowed", items.len(), schema["maxItems"]));
        }
        let Some(inner) = schema.get("items") else { return };
        let length = at.len();
        for (i, item) in items.iter().enumerate() {
            at.push_str(&format!("[{i}]"));
            self.value(inner, item, at);
            at.truncate(length);
        }
    }

    fn scalar(&mut self, schema: &Map<String, Value>, document: &Value, at: &str) {
        let least = schema.get("minimum").and_then(Value::as_f64);
        if let (Some(least), Some(number)) = (least, document.as_f64())
            && number < least
        {
            self.fault(at, &format!("{number} is below {least}"));
        }
        let shortest = schema.get("minLength").and_then(Value::as_u64).unwrap_or_default();
        if document.as_str().is_some_and(|text| (text.chars().count() as u64) < shortest) {
            self.fault(at, "the text is empty");
        }
    }
}

/// Whether two values are equal, where `1` and `1.0` are.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

fn has_type(types: Option<&Value>, document: &Value) -> bool {
    match types {
        None => true,
        Some(Value::Array(all)) => all.iter().any(|t| has_type(Some(t), document)),
        Some(one) => match (one.as_str(), document) {
            (Some("null"), Value::Null)
            | (Some("boolean"), Value::Bool(_))
            | (Some("number"), Value::Number(_))
            | (Some("string"), Value::String(_))
            | (Some("array"), Value::Array(_))
            | (Some("object"), Value::Object(_)) => true,
            (Some("integer"), Value::Number(n)) => {
                n.is_i64() || n.is_u64() || n.as_f64().is_some_and(|x| x.fract().abs() < f64::MIN_POSITIVE)
            }
            _ => false,
        },
    }
}

/// A value, cut to a length that fits a line.
fn short(value: &Value) -> String {
    let text = match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    let mut cut: String = text.chars().take(60).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    cut
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
        assert_eq!(name("run_log.json"), None);
    }
}
