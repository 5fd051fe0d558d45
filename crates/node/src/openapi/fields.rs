//! The fields of the document: their meaning, form and example.
//!
//! A doc comment on a field takes precedence. `glossary.json` has the meaning and an example of
//! names that mean the same everywhere (`customer_id`), and of single fields (`KeyIn.name`).
//! Examples of whole bodies are built from these, so that they always match their schema.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Meanings and examples, by `Schema.field` or `field`.
static GLOSSARY: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("glossary.json")).unwrap_or_default());

/// The depth of references that an example follows.
const DEPTH_MAX: usize = 12;

/// Patterns for the values of our formats.
const PATTERNS: &[(&str, &str)] = &[
    ("creator-id", "^[0-9A-Za-z_.-]+$"),
    ("key-id", "^key_[0-9a-f]{32}$"),
    ("order-id", "^ord_[0-9a-f]{32}$"),
    ("audit-id", "^(aud|ent)_[0-9a-f]{32}$"),
    ("utc-day", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
    ("breakdown-cursor", "^([0-9a-f]{2})+$"),
    ("ledger-line", "^(ent_[0-9a-f]{32}|(usage|export)_[0-9]{4}-[0-9]{2}-[0-9]{2})$"),
    ("export-id", "^exp_[0-9a-f]{32}$"),
    ("customer-id", "^cus_[0-9a-f]{32}$"),
    ("line", "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"),
];

/// The glossary's entry for a field.
fn entry<'g>(schema: &str, field: &str, member: &str) -> Option<&'g Value> {
    let of = |name: &str| GLOSSARY.get(name)?.get(member);
    of(&format!("{schema}.{field}")).or_else(|| of(field))
}

/// Describes every field that has no description, and adds the patterns of ids.
pub(super) fn describe(document: &mut Value) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    for (name, schema) in schemas {
        describe_schema(name, schema);
    }
}

fn describe_schema(name: &str, schema: &mut Value) {
    for part in ["allOf", "oneOf", "anyOf"] {
        for branch in schema.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten() {
            describe_schema(name, branch);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (field, property) in properties.into_iter().flatten() {
        describe_field(name, field, property);
    }
}

fn describe_field(schema: &str, field: &str, property: &mut Value) {
    if property.get("description").is_none()
        && let Some(words) = entry(schema, field, "description")
    {
        property["description"] = words.clone();
    }
    let is_text = has_type(property, "string") && property.get("enum").is_none();
    if is_text
        && property.get("pattern").is_none()
        && let Some(pattern) = entry(schema, field, "pattern")
        && property.get("format").is_none()
        && GLOSSARY.get(format!("{schema}.{field}")).is_none()
    {
        property["pattern"] = pattern.clone();
    }
    add_pattern(property);
    if let Some(items) = property.get_mut("items") {
        add_pattern(items);
    }
}

/// Adds the description of a parameter, and the pattern of an id in a path.
pub(super) fn describe_parameter(parameter: &mut Value) {
    let name = parameter["name"].as_str().unwrap_or_default().to_owned();
    if parameter.get("description").is_none() {
        let words =
            parameter.pointer("/schema/description").or_else(|| entry("", &name, "description"));
        if let Some(words) = words.cloned() {
            parameter["description"] = words;
        }
    }
    let pattern = match (parameter["in"].as_str(), name.as_str()) {
        (Some("path"), "account") => Some(json!("^[0-9A-Za-z_.-]{1,64}$")),
        (Some("path"), _) => entry("", &name, "pattern").cloned(),
        _ => None,
    };
    if let Some(schema) = parameter.get_mut("schema") {
        add_pattern(schema);
        if let Some(pattern) = pattern {
            schema["pattern"] = pattern;
        }
    }
}

/// Adds the pattern for one of our formats, because every tool understands patterns.
pub(super) fn add_pattern(schema: &mut Value) {
    let format = schema["format"].as_str();
    let known = PATTERNS.iter().find(|(name, _)| Some(*name) == format);
    if let Some((_, pattern)) = known {
        schema["pattern"] = json!(pattern);
    }
}

fn has_type(schema: &Value, wanted: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == wanted,
        Value::Array(several) => several.iter().any(|one| one == wanted),
        _ => false,
    }
}

/// Adds an example to each JSON request body and to each JSON body of a successful response.
pub(super) fn add_examples(document: &mut Value) {
    let known = document.clone();
    for (_, _, operation) in super::operations::operations(document) {
        add_example(&known, operation.pointer_mut("/requestBody/content/application~1json"));
        let responses =
            operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
        for (_, response) in responses.filter(|(status, _)| status.starts_with('2')) {
            add_example(&known, response.pointer_mut("/content/application~1json"));
        }
    }
}

fn add_example(document: &Value, content: Option<&mut Value>) {
    let Some(content) = content else { return };
    if content.get("example").is_none() {
        content["example"] = example(document, &content["schema"], "", "", 0);
    }
}

/// An example for the schema of the field `field` of `owner`.
fn example(document: &Value, schema: &Value, owner: &str, field: &str, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
        let name = reference.rsplit('/').next().unwrap_or_default();
        return example(document, target, name, field, depth + 1);
    }
    let own = schema
        .get("example")
        .or_else(|| entry(owner, field, "example").filter(|_| !field.is_empty()));
    if let Some(own) = own
        && fits(schema, own)
    {
        return own.clone();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.first().cloned().unwrap_or_default();
    }
    if let Some(branches) = schema["allOf"].as_array() {
        let mut whole = Map::new();
        for branch in branches {
            if let Value::Object(part) = example(document, branch, owner, "", depth + 1) {
                whole.extend(part);
            }
        }
        return Value::Object(whole);
    }
    for part in ["oneOf", "anyOf"] {
        let branches = schema[part].as_array().into_iter().flatten();
        if let Some(branch) = branches.into_iter().find(|branch| branch["type"] != "null") {
            return example(document, branch, owner, field, depth + 1);
        }
    }
    plain(document, schema, owner, field, depth)
}

/// Whether an example fits this schema; a name may be used for several types.
fn fits(schema: &Value, value: &Value) -> bool {
    let is_listed = schema["enum"].as_array().is_none_or(|words| words.contains(value));
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_open = schema.get("type").is_none()
        && schema.get("$ref").is_none()
        && schema.get("oneOf").is_none();
    is_listed && (has_type(schema, kind) || (is_open && schema.get("allOf").is_none()))
}

fn plain(document: &Value, schema: &Value, owner: &str, field: &str, depth: usize) -> Value {
    if has_type(schema, "object") || schema.get("properties").is_some() {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let members = properties.map(|(name, property)| {
            (name.clone(), example(document, property, owner, name, depth + 1))
        });
        return Value::Object(members.collect());
    }
    if has_type(schema, "array") {
        return json!([example(document, &schema["items"], owner, "", depth + 1)]);
    }
    match schema["format"].as_str() {
        Some("date-time") => return json!("2026-11-21T12:00:00Z"),
        Some("date") => return json!("2026-11-21"),
        Some("email") => return json!("ada@example.com"),
        Some("epoch-seconds") => return json!(1_790_000_000.123_456),
        _ => {}
    }
    if has_type(schema, "null") {
        return Value::Null;
    }
    if has_type(schema, "integer") || has_type(schema, "number") {
        return schema.get("minimum").cloned().unwrap_or_else(|| json!(1));
    }
    if has_type(schema, "boolean") { json!(true) } else { json!(field) }
}
