//! The same document in OpenAPI 3.0.3, for generators that do not read 3.1.
//!
//! 3.0 has no lists of types: what may be null is `nullable`, and several types are branches of
//! `anyOf`. Limits that are excluded are flags, constants are enums of one, and nothing may stand
//! beside a reference.

use serde_json::{Map, Value, json};

use super::platform::schema::change_inner;

/// Keywords that 3.0 does not know.
const UNKNOWN: [&str; 21] = [
    "$comment",
    "$schema",
    "$id",
    "$anchor",
    "$defs",
    "$dynamicRef",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "examples",
    "if",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedProperties",
];

/// The document in OpenAPI 3.0.3.
pub(super) fn converted(mut document: Value) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.insert("openapi".to_owned(), json!("3.0.3"));
        members.remove("webhooks");
        members.remove("jsonSchemaDialect");
    }
    if let Some(license) = document.pointer_mut("/info/license").and_then(Value::as_object_mut)
        && let Some(Value::String(name)) = license.remove("identifier")
    {
        license.insert("url".to_owned(), json!(format!("https://spdx.org/licenses/{name}.html")));
    }
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    for (_, named) in schemas.into_iter().flatten() {
        *named = schema(named.take());
    }
    convert_places(&mut document);
    document
}

/// Converts the schemas of parameters, headers and contents, wherever they are.
fn convert_places(place: &mut Value) {
    match place {
        Value::Object(members) => {
            for (key, value) in members {
                match key.as_str() {
                    "schema" => *value = schema(value.take()),
                    // Data, and what has been converted.
                    "schemas" | "example" | "examples" | "default" => {}
                    extension if extension.starts_with("x-") => {}
                    _ => convert_places(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(convert_places),
        _ => {}
    }
}

/// A schema in the dialect of OpenAPI 3.0.
fn schema(schema: Value) -> Value {
    let mut members = match schema {
        Value::Object(members) => members,
        Value::Bool(false) => return json!({ "not": {} }),
        _ => return json!({}),
    };
    change_inner(&mut members, &self::schema);
    if let Some(reference) = members.remove("$ref") {
        return beside_reference(&reference, members);
    }
    replace_words(&mut members);
    let is_null_branch = take_null_branches(&mut members);
    let is_null_type = split_types(&mut members);
    members.retain(|key, _| !UNKNOWN.contains(&key.as_str()));
    if members.get("required").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        members.remove("required");
    }
    if members.get("type").is_some_and(|name| name == "array") && !members.contains_key("items") {
        members.insert("items".to_owned(), json!({}));
    }
    if is_null_branch || is_null_type {
        members.insert("nullable".to_owned(), json!(true));
    }
    Value::Object(members)
}

/// A reference, in `allOf` if something stands beside it.
fn beside_reference(reference: &Value, mut members: Map<String, Value>) -> Value {
    members.retain(|key, _| !UNKNOWN.contains(&key.as_str()));
    if members.is_empty() {
        return json!({ "$ref": reference });
    }
    members.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
    Value::Object(members)
}

/// Writes keywords that have another name or form in 3.0.
fn replace_words(members: &mut Map<String, Value>) {
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if let Some(value @ Value::Number(_)) = members.get(exclusive).cloned() {
            members.insert(limit.to_owned(), value);
            members.insert(exclusive.to_owned(), json!(true));
        }
    }
    if let Some(value) = members.remove("const") {
        members.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(examples)) = members.remove("examples")
        && let Some(first) = examples.into_iter().next()
        && !members.contains_key("example")
    {
        members.insert("example".to_owned(), first);
    }
    if members.get("contentEncoding").is_some_and(|encoding| encoding == "base64") {
        members.entry("format").or_insert_with(|| json!("byte"));
    }
    if members.contains_key("patternProperties") {
        members.insert("additionalProperties".to_owned(), json!({}));
    }
    // A list whose first elements have schemas of their own.
    if members.contains_key("prefixItems") {
        members.insert("items".to_owned(), json!({}));
    }
}

/// Whether a schema says "null" and nothing else.
fn is_null(branch: &Value) -> bool {
    branch["enum"] == json!([null])
}

/// Takes the branches out that say "null"; a single branch that is left takes their place.
fn take_null_branches(members: &mut Map<String, Value>) -> bool {
    let mut found = false;
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = members.get_mut(key) else { continue };
        let before = branches.len();
        branches.retain(|branch| !is_null(branch));
        if branches.len() == before {
            continue;
        }
        found = true;
        let left = std::mem::take(branches);
        members.remove(key);
        match <[Value; 1]>::try_from(left) {
            Ok([Value::Object(only)]) if only.contains_key("$ref") => {
                members.insert("allOf".to_owned(), json!([only]));
            }
            Ok([Value::Object(only)]) => {
                for (name, value) in only {
                    members.entry(name).or_insert(value);
                }
            }
            Ok([_]) => {}
            Err(several) if several.is_empty() => {}
            Err(several) => {
                members.insert(key.to_owned(), Value::Array(several));
            }
        }
    }
    found
}

/// Replaces a list of types by one type, or by branches. Returns whether null is one of them.
fn split_types(members: &mut Map<String, Value>) -> bool {
    let names = match members.remove("type") {
        Some(Value::Array(names)) => names,
        Some(name) => vec![name],
        None => return false,
    };
    let before = names.len();
    let mut names: Vec<Value> = names.into_iter().filter(|name| name != "null").collect();
    let has_null = names.len() < before;
    match names.len() {
        // Null alone.
        0 => {
            members.insert("enum".to_owned(), json!([null]));
        }
        1 => {
            members.extend(names.pop().map(|name| ("type".to_owned(), name)));
        }
        _ => {
            let items = members.remove("items").unwrap_or_else(|| json!({}));
            let branches = names.into_iter().map(|name| {
                if name == "array" {
                    json!({ "type": name, "items": items, "nullable": has_null })
                } else {
                    json!({ "type": name, "nullable": has_null })
                }
            });
            let branches = json!({ "anyOf": branches.collect::<Vec<_>>() });
            if members.contains_key("anyOf") {
                let all = members.entry("allOf").or_insert_with(|| json!([]));
                all.as_array_mut().into_iter().for_each(|all| all.push(branches.clone()));
            } else if let Value::Object(branches) = branches {
                members.extend(branches);
            }
        }
    }
    has_null
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_written_in_the_words_of_3_0() {
        for (current, expected) in [
            (json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true})),
            (
                json!({"type": ["string", "integer"]}),
                json!({"anyOf": [{"type": "string", "nullable": false}, {"type": "integer", "nullable": false}]}),
            ),
            (
                json!({"type": ["array", "string", "null"], "items": {"type": "string"}}),
                json!({"nullable": true, "anyOf": [
                    {"type": "array", "items": {"type": "string"}, "nullable": true},
                    {"type": "string", "nullable": true}
                ]}),
            ),
            (json!({"type": "null"}), json!({"enum": [null], "nullable": true})),
            (
                json!({"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/A"}], "description": "d"}),
                json!({"allOf": [{"$ref": "#/components/schemas/A"}], "description": "d", "nullable": true}),
            ),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": true}),
            ),
            (
                json!({"anyOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"type": "null"}]}),
                json!({"type": "object", "properties": {"a": {"enum": [1]}}, "nullable": true}),
            ),
            (
                json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}),
                json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 9}),
            ),
            (
                json!({"type": "string", "examples": ["x", "y"], "$comment": "c"}),
                json!({"type": "string", "example": "x"}),
            ),
            (json!({"type": "array"}), json!({"type": "array", "items": {}})),
            (
                json!({"type": "array", "prefixItems": [{"type": "string"}]}),
                json!({"type": "array", "items": {}}),
            ),
            (
                json!({"$ref": "#/components/schemas/A", "description": "d"}),
                json!({"allOf": [{"$ref": "#/components/schemas/A"}], "description": "d"}),
            ),
            (json!(true), json!({})),
            (json!(false), json!({"not": {}})),
        ] {
            assert_eq!(schema(current.clone()), expected, "{current}");
        }
    }

    #[test]
    fn a_member_that_is_called_like_a_keyword_stays() {
        let current =
            json!({"type": "object", "properties": {"const": {"type": "string"}, "examples": {}}});

        let converted = schema(current.clone());

        assert_eq!(converted, current);
    }

    #[test]
    fn data_is_not_converted() {
        let document = json!({
            "openapi": "3.1.0", "info": {"license": {"name": "x", "identifier": "MIT"}},
            "paths": {"/a": {"get": {"parameters": [{"schema": {"type": ["integer", "null"]}}],
                "responses": {"200": {"content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/A"}, "example": {"schema": {"type": ["x"]}}
                }}}}}}},
            "components": {"schemas": {"A": {"type": ["object", "null"]}}},
        });

        let converted = converted(document);

        let get = &converted["paths"]["/a"]["get"];
        assert_eq!(get["parameters"][0]["schema"], json!({"type": "integer", "nullable": true}));
        let content = &get["responses"]["200"]["content"]["application/json"];
        assert_eq!(content["example"]["schema"]["type"], json!(["x"]));
        assert_eq!(
            converted["components"]["schemas"]["A"],
            json!({"type": "object", "nullable": true})
        );
        assert_eq!(
            converted["info"]["license"],
            json!({"name": "x", "url": "https://spdx.org/licenses/MIT.html"})
        );
        assert_eq!(converted["openapi"], "3.0.3");
    }
}
