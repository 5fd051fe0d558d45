//! Schemas of catalogue files as JSON Schema 2020-12, which OpenAPI 3.1 uses.
//!
//! A file may have been made from a document of OpenAPI 3.0, where `nullable` and
//! `exclusiveMinimum: true` are other ways to say the same, or be written by hand. What has no
//! meaning here, such as a reference into another document, becomes an open schema.

use serde_json::{Map, Value, json};

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// Keywords whose members are schemas.
const OF_NAMES: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// Keywords whose value is a list of schemas.
const OF_LISTS: [&str; 4] = ["prefixItems", "oneOf", "anyOf", "allOf"];

/// Keywords whose value is a schema.
const OF_ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords of other dialects, and those that name what is not in the document.
const DROPPED: [&str; 12] = [
    "nullable",
    "discriminator",
    "xml",
    "externalDocs",
    "$ref",
    "$dynamicRef",
    "$schema",
    "$id",
    "$anchor",
    "$defs",
    "definitions",
    "example",
];

/// The levels of a schema that are kept.
const DEPTH_MAX: usize = 32;

/// A schema in the dialect of OpenAPI 3.1.
pub(crate) fn current(schema: Value) -> Value {
    at_depth(schema, 0)
}

/// Applies a change to every schema directly inside one.
pub(crate) fn change_inner(members: &mut Map<String, Value>, change: &dyn Fn(Value) -> Value) {
    for (key, value) in members.iter_mut() {
        let key = key.as_str();
        if OF_NAMES.contains(&key) {
            for inner in value.as_object_mut().into_iter().flatten().map(|(_, inner)| inner) {
                *inner = change(inner.take());
            }
        } else if OF_LISTS.contains(&key) {
            for inner in value.as_array_mut().into_iter().flatten() {
                *inner = change(inner.take());
            }
        } else if OF_ONE.contains(&key) && (value.is_object() || value.is_boolean()) {
            *value = change(value.take());
        }
    }
}

fn at_depth(schema: Value, depth: usize) -> Value {
    let mut members = match schema {
        Value::Object(members) if depth < DEPTH_MAX => members,
        Value::Bool(allowed) => return Value::Bool(allowed),
        _ => return json!({}),
    };
    let is_reference = members.contains_key("$ref");
    let is_nullable = members.get("nullable").and_then(Value::as_bool) == Some(true);
    if let Some(example) = members.remove("example")
        && !members.contains_key("examples")
    {
        members.insert("examples".to_owned(), json!([example]));
    }
    members.retain(|key, _| !DROPPED.contains(&key.as_str()));
    if is_reference {
        members.insert("$comment".to_owned(), json!("cut: it is described elsewhere"));
    }
    keep_known_types(&mut members);
    tidy(&mut members);
    change_inner(&mut members, &|inner| at_depth(inner, depth + 1));
    if is_nullable { nullable(members) } else { Value::Object(members) }
}

fn keep_known_types(members: &mut Map<String, Value>) {
    let is_known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    let keep = match members.get_mut("type") {
        Some(Value::Array(names)) => {
            names.retain(is_known);
            let mut seen: Vec<Value> = Vec::new();
            names.retain(|name| {
                !seen.contains(name) && {
                    seen.push(name.clone());
                    true
                }
            });
            !names.is_empty()
        }
        Some(name) => is_known(name),
        None => true,
    };
    if !keep {
        members.remove("type");
    }
}

/// Rewrites keywords of older dialects, and drops values that no dialect allows.
fn tidy(members: &mut Map<String, Value>) {
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match members.get(exclusive) {
            Some(Value::Bool(true)) => {
                let value = members.remove(limit);
                members.remove(exclusive);
                if let Some(value) = value {
                    members.insert(exclusive.to_owned(), value);
                }
            }
            Some(Value::Number(_)) | None => {}
            Some(_) => {
                members.remove(exclusive);
            }
        }
    }
    if let Some(Value::Array(inner)) = members.get("items") {
        let first = inner.clone();
        members.insert("prefixItems".to_owned(), Value::Array(first));
        members.remove("items");
    }
    let is_list = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    for key in ["required", "enum", "allOf", "anyOf", "oneOf", "prefixItems", "examples"] {
        if members.get(key).is_some_and(|value| !is_list(value)) {
            members.remove(key);
        }
    }
    for key in ["properties", "patternProperties"] {
        if members.get(key).is_some_and(|value| !value.is_object()) {
            members.remove(key);
        }
    }
    for key in ["items", "additionalProperties", "not"] {
        if members.get(key).is_some_and(|value| !value.is_object() && !value.is_boolean()) {
            members.remove(key);
        }
    }
    unique(members, "required");
    unique(members, "enum");
}

/// Keeps each value of a list once.
fn unique(members: &mut Map<String, Value>, key: &str) {
    if let Some(Value::Array(values)) = members.get_mut(key) {
        let mut kept: Vec<Value> = Vec::with_capacity(values.len());
        for value in values.drain(..) {
            if !kept.contains(&value) {
                kept.push(value);
            }
        }
        *values = kept;
    }
}

/// The schema, or null.
fn nullable(mut members: Map<String, Value>) -> Value {
    let types = match members.get("type") {
        Some(Value::String(name)) => vec![json!(name)],
        Some(Value::Array(names)) => names.clone(),
        _ => {
            let is_open = members.keys().all(|key| key == "description" || key == "$comment");
            if is_open {
                return Value::Object(members);
            }
            return json!({ "anyOf": [members, { "type": "null" }] });
        }
    };
    let mut types = types;
    if !types.contains(&json!("null")) {
        types.push(json!("null"));
    }
    members.insert("type".to_owned(), Value::Array(types));
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_words_become_current_ones() {
        for (older, expected) in [
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
            (json!({"type": "string", "nullable": false}), json!({"type": "string"})),
            (
                json!({"type": "string", "enum": ["a"], "nullable": true}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (
                json!({"allOf": [{"type": "object"}], "nullable": true}),
                json!({"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]}),
            ),
            (
                json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
                json!({"type": "integer", "exclusiveMinimum": 0}),
            ),
            (
                json!({"type": "integer", "maximum": 9, "exclusiveMaximum": false}),
                json!({"type": "integer", "maximum": 9}),
            ),
            (
                json!({"type": "string", "example": "x"}),
                json!({"type": "string", "examples": ["x"]}),
            ),
            (
                json!({"type": "array", "items": [{"type": "file"}]}),
                json!({"type": "array", "prefixItems": [{}]}),
            ),
            (json!({"type": "any", "required": true, "enum": []}), json!({})),
            (
                json!({"type": "object", "required": ["a", "a"]}),
                json!({"type": "object", "required": ["a"]}),
            ),
        ] {
            assert_eq!(current(older.clone()), expected, "{older}");
        }
    }

    #[test]
    fn references_that_lead_nowhere_become_open_schemas() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "$ref": {"type": "string"}}});

        let current = current(schema);

        assert_eq!(
            current["properties"]["a"],
            json!({"$comment": "cut: it is described elsewhere"})
        );
        assert_eq!(current["properties"]["$ref"]["type"], "string");
    }

    #[test]
    fn a_deep_schema_ends() {
        let mut schema = json!({});
        for _ in 0..100 {
            schema = json!({"type": "array", "items": schema});
        }

        assert!(current(schema).to_string().len() < 2_000);
    }
}
