//! A validator for the part of JSON Schema that our schemas use.

use std::borrow::Cow;
use std::fmt;

use crate::check::json::{Json, Object};

/// Most faults told of one document: one is enough to act on, a broken file has thousands.
const MOST: usize = 5;

/// A schema, made ready to be held against documents.
#[derive(Debug)]
pub(in crate::check) struct Validator<'a> {
    root: Rules<'a>,
    /// What it refers to: `$defs`.
    named: Vec<(Cow<'a, str>, Rules<'a>)>,
}

/// What a schema says of a value. Unknown keywords allow everything.
#[derive(Debug, Default)]
struct Rules<'a> {
    /// The schema `false`, which no value satisfies.
    is_never: bool,
    reference: Option<Json<'a>>,
    any_of: Vec<Rules<'a>>,
    types: Option<Types<'a>>,
    constant: Option<Json<'a>>,
    choices: Option<Json<'a>>,
    /// In order of their keys.
    properties: Vec<(Cow<'a, str>, Rules<'a>)>,
    /// As the schema has them.
    required: Vec<Cow<'a, str>>,
    /// The same in order.
    required_in_order: Vec<Cow<'a, str>>,
    other_properties: Option<Box<Rules<'a>>>,
    most_items: Option<u64>,
    items: Option<Box<Rules<'a>>>,
    minimum: Option<f64>,
    shortest: u64,
}

/// The types that a value may have: as the schema has them, and a bit for each.
#[derive(Debug)]
struct Types<'a> {
    said: Json<'a>,
    bits: u8,
}

const NULL: u8 = 1;
const BOOLEAN: u8 = 1 << 1;
const NUMBER: u8 = 1 << 2;
const INTEGER: u8 = 1 << 3;
const STRING: u8 = 1 << 4;
const ARRAY: u8 = 1 << 5;
const OBJECT: u8 = 1 << 6;

impl<'a> Types<'a> {
    fn of(said: Json<'a>) -> Self {
        let bit = |name: &Json<'_>| match name.as_str() {
            Some("null") => NULL,
            Some("boolean") => BOOLEAN,
            Some("number") => NUMBER,
            Some("integer") => INTEGER,
            Some("string") => STRING,
            Some("array") => ARRAY,
            Some("object") => OBJECT,
            _ => 0,
        };
        let bits = said.items().iter().fold(bit(&said), |bits, name| bits | bit(name));
        Self { said, bits }
    }

    fn include(&self, document: &Json<'_>) -> bool {
        let of_document = match document {
            Json::Null => NULL,
            Json::Bool(_) => BOOLEAN,
            Json::Number(n) => {
                let is_whole =
                    n.is_i64() || n.is_u64() || n.as_f64().is_some_and(|x| x.fract().abs() < f64::MIN_POSITIVE);
                if is_whole { NUMBER | INTEGER } else { NUMBER }
            }
            Json::String(_) => STRING,
            Json::List(_) => ARRAY,
            Json::Object(_) => OBJECT,
        };
        self.bits & of_document != 0
    }
}

impl<'a> Rules<'a> {
    /// The rules of a schema; what it calls `$defs` is added to those with names.
    fn of(schema: Json<'a>, named: &mut Vec<(Cow<'a, str>, Self)>) -> Self {
        let mut rules = Self { is_never: schema == Json::Bool(false), ..Self::default() };
        let Json::Object(keywords) = schema else { return rules };
        for (keyword, value) in keywords.into_entries() {
            match &*keyword {
                "$ref" => rules.reference = Some(value),
                "$defs" => {
                    let all = Self::of_each(value, named);
                    named.extend(all);
                }
                "anyOf" => rules.any_of = list(value).into_iter().map(|choice| Self::of(choice, named)).collect(),
                "type" => rules.types = Some(Types::of(value)),
                "const" => rules.constant = Some(value),
                "enum" => rules.choices = Some(value),
                "properties" => rules.properties = Self::of_each(value, named),
                "required" => {
                    rules.required = list(value).into_iter().filter_map(text).collect();
                    rules.required_in_order.clone_from(&rules.required);
                    rules.required_in_order.sort_unstable();
                }
                "additionalProperties" => rules.other_properties = Some(Box::new(Self::of(value, named))),
                "maxItems" => rules.most_items = value.as_u64(),
                "items" => rules.items = Some(Box::new(Self::of(value, named))),
                "minimum" => rules.minimum = value.as_f64(),
                "minLength" => rules.shortest = value.as_u64().unwrap_or_default(),
                _ => {}
            }
        }
        rules
    }

    fn of_each(schemas: Json<'a>, named: &mut Vec<(Cow<'a, str>, Self)>) -> Vec<(Cow<'a, str>, Self)> {
        let Json::Object(schemas) = schemas else { return Vec::new() };
        schemas.into_entries().into_iter().map(|(name, schema)| (name, Self::of(schema, named))).collect()
    }
}

fn list(value: Json<'_>) -> Vec<Json<'_>> {
    if let Json::List(items) = value { items } else { Vec::new() }
}

fn text(value: Json<'_>) -> Option<Cow<'_, str>> {
    if let Json::String(text) = value { Some(text) } else { None }
}

impl<'a> Validator<'a> {
    pub(in crate::check) fn of(schema: Json<'a>) -> Self {
        let mut named = Vec::new();
        Self { root: Rules::of(schema, &mut named), named }
    }

    /// What of a document the schema does not allow, as `$.path: what`.
    pub(in crate::check) fn violations(&self, document: &Json<'_>) -> Vec<String> {
        let mut faults = Faults::default();
        self.value(&self.root, document, Place::Root, &mut faults);
        faults.0
    }

    fn named(&self, reference: &Json<'_>) -> Option<&Rules<'a>> {
        let name = reference.as_str()?.strip_prefix("#/$defs/")?;
        self.named.iter().find(|(other, _)| other == name).map(|(_, rules)| rules)
    }

    fn value(&self, rules: &Rules<'_>, document: &Json<'_>, at: Place<'_>, faults: &mut Faults) {
        if faults.are_enough() {
            return;
        }
        if rules.is_never {
            faults.add(at, "not allowed here");
        }
        if let Some(reference) = &rules.reference {
            match self.named(reference) {
                Some(rules) => self.value(rules, document, at, faults),
                None => faults.add(at, "the schema refers to nothing"),
            }
        }
        if !rules.any_of.is_empty() {
            self.any_of(&rules.any_of, document, at, faults);
        }
        if let Some(types) = rules.types.as_ref().filter(|types| !types.include(document)) {
            faults.add(at, &format!("expected {}, found {}", types.said, short(document)));
            return;
        }
        if let Some(only) = rules.constant.as_ref().filter(|only| !same(only, document)) {
            faults.add(at, &format!("expected {only}, found {}", short(document)));
        }
        if let Some(all) = rules.choices.as_ref().filter(|all| !all.items().iter().any(|v| same(v, document))) {
            faults.add(at, &format!("{} is none of {all}", short(document)));
        }
        match document {
            Json::Object(object) => self.object(rules, object, at, faults),
            Json::List(items) => self.list(rules, items, at, faults),
            Json::Number(_) | Json::String(_) => scalar(rules, document, at, faults),
            Json::Null | Json::Bool(_) => {}
        }
    }

    fn any_of(&self, choices: &[Rules<'_>], document: &Json<'_>, at: Place<'_>, faults: &mut Faults) {
        let mut best: Option<Faults> = None;
        for choice in choices {
            let mut alone = Faults::default();
            self.value(choice, document, at, &mut alone);
            if best.as_ref().is_none_or(|b| alone.0.len() < b.0.len()) {
                best = Some(alone);
            }
        }
        faults.0.extend(best.unwrap_or_default().0);
        faults.0.truncate(MOST);
    }

    fn object(&self, rules: &Rules<'_>, object: &Object<'_>, at: Place<'_>, faults: &mut Faults) {
        // The keys of the object are in order too, so that all are found in one go.
        let mut keys = object.iter().map(|(key, _)| key);
        if !rules.required_in_order.iter().all(|wanted| keys.any(|key| key == wanted)) {
            for key in rules.required.iter().filter(|key| object.get(key).is_none()) {
                faults.add(at, &format!("`{key}` is missing"));
            }
        }
        let mut properties = rules.properties.iter().peekable();
        for (key, value) in object.iter() {
            while properties.next_if(|(property, _)| **property < *key).is_some() {}
            let property = properties.next_if(|(property, _)| *property == key).map(|(_, rules)| rules);
            if let Some(inner) = property.or(rules.other_properties.as_deref()) {
                self.value(inner, value, Place::Key(&at, key), faults);
            }
        }
    }

    fn list(&self, rules: &Rules<'_>, items: &[Json<'_>], at: Place<'_>, faults: &mut Faults) {
        if let Some(most) = rules.most_items.filter(|&most| items.len() as u64 > most) {
            faults.add(at, &format!("{} items, at most {most} are allowed", items.len()));
        }
        let Some(inner) = &rules.items else { return };
        for (i, item) in items.iter().enumerate() {
            self.value(inner, item, Place::Item(&at, i), faults);
        }
    }
}

fn scalar(rules: &Rules<'_>, document: &Json<'_>, at: Place<'_>, faults: &mut Faults) {
    if let (Some(least), Some(number)) = (rules.minimum, document.as_f64())
        && number < least
    {
        faults.add(at, &format!("{number} is below {least}"));
    }
    if rules.shortest > 0 && document.as_str().is_some_and(|text| (text.chars().count() as u64) < rules.shortest) {
        faults.add(at, "the text is empty");
    }
}

#[derive(Debug, Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, at: Place<'_>, what: &str) {
        if !self.are_enough() {
            self.0.push(format!("{at}: {what}"));
        }
    }

    fn are_enough(&self) -> bool {
        self.0.len() >= MOST
    }
}

/// Where a value stands. It is written out for a fault only.
#[derive(Clone, Copy)]
enum Place<'p> {
    Root,
    Key(&'p Self, &'p str),
    Item(&'p Self, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("$"),
            Self::Key(above, key) => write!(f, "{above}.{key}"),
            Self::Item(above, at) => write!(f, "{above}[{at}]"),
        }
    }
}

/// Whether two values are equal, where `1` and `1.0` are.
fn same(a: &Json<'_>, b: &Json<'_>) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

/// A value, cut to a length that fits a line.
fn short(value: &Json<'_>) -> String {
    let text = match value {
        Json::List(items) => format!("a list of {}", items.len()),
        Json::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    let mut cut: String = text.chars().take(60).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    cut
}
