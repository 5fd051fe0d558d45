//! A validator for the part of JSON Schema that the contract uses, independent of the one in the
//! service.
#![expect(
    clippy::panic,
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use std::collections::BTreeSet;

use domain::time::Timestamp;
use serde_json::Value;

/// The problems of the value with their locations; empty if it matches the schema and has no
/// undeclared members.
pub fn problems(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, (value, "$"), &mut found);
    undeclared(document, schema, (value, "$"), &mut found);
    found
}

fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

fn branches<'s>(schema: &'s Value, part: &str) -> Vec<&'s Value> {
    schema[part].as_array().into_iter().flatten().collect()
}

fn check(
    document: &Value,
    schema: &Value,
    (value, place): (&Value, &str),
    found: &mut Vec<String>,
) {
    let schema = resolved(document, schema);
    let mut refuse = |what: &str| found.push(format!("{place}: {what} ({value})"));
    if !has_type(schema, value) {
        refuse(&format!("is not of type {}", schema["type"]));
        return;
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        refuse(&format!("is none of {}", schema["enum"]));
    }
    if let Some(number) = value.as_f64() {
        let below = schema["minimum"].as_f64().is_some_and(|minimum| number < minimum);
        let above = schema["maximum"].as_f64().is_some_and(|maximum| number > maximum);
        if below || above {
            refuse("is out of range");
        }
    }
    if let Some(text) = value.as_str() {
        check_text(schema, text, &mut refuse);
    }
    for branch in branches(schema, "allOf") {
        check(document, branch, (value, place), found);
    }
    for part in ["oneOf", "anyOf"] {
        let all = branches(schema, part);
        let fits = |branch: &&Value| {
            let mut problems = Vec::new();
            check(document, branch, (value, place), &mut problems);
            problems.is_empty()
        };
        let good = all.iter().filter(|branch| fits(branch)).count();
        if !all.is_empty() && good == 0 {
            found.push(format!("{place}: is none of {part} ({value})"));
        }
    }
    check_children(document, schema, (value, place), found);
}

fn check_text(schema: &Value, text: &str, refuse: &mut impl FnMut(&str)) {
    let length = text.chars().count() as u64;
    let is_short = schema["minLength"].as_u64().is_some_and(|minimum| length < minimum);
    if is_short || schema["maxLength"].as_u64().is_some_and(|maximum| length > maximum) {
        refuse("has the wrong length");
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        refuse(&format!("does not match {pattern}"));
    }
    let is_good = match schema["format"].as_str() {
        Some("date-time") => Timestamp::from_rfc3339(text).is_some(),
        Some("date") => Timestamp::from_rfc3339(&format!("{text}T00:00:00Z")).is_some(),
        Some("email") => text.parse::<domain::customer::Email>().is_ok(),
        _ => true,
    };
    if !is_good {
        refuse(&format!("is no {}", schema["format"]));
    }
}

fn check_children(
    document: &Value,
    schema: &Value,
    (value, place): (&Value, &str),
    found: &mut Vec<String>,
) {
    if let Some(members) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                found.push(format!("{place}: has no {name}"));
            }
        }
        for (name, member) in members {
            let place = format!("{place}.{name}");
            let declared = schema["properties"].get(name);
            let other = schema.get("additionalProperties").filter(|other| other.is_object());
            if let Some(schema) = declared.or(other) {
                check(document, schema, (member, &place), found);
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if schema.get("items").is_some() {
            check(document, &schema["items"], (item, &format!("{place}[{index}]")), found);
        }
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    };
    match &schema["type"] {
        Value::String(one) => is(one),
        Value::Array(several) => several.iter().any(|one| is(one.as_str().unwrap())),
        _ => true,
    }
}

/// The members that a schema declares, including those of its parts; `None` if any are allowed.
fn declared(document: &Value, schema: &Value) -> Option<BTreeSet<String>> {
    let schema = resolved(document, schema);
    let parts: Vec<&Value> =
        ["allOf", "oneOf", "anyOf"].iter().flat_map(|part| branches(schema, part)).collect();
    let others = schema.get("additionalProperties");
    let is_described = schema.get("properties").is_some() || !parts.is_empty();
    if others.is_some_and(|others| *others != Value::Bool(false)) || !is_described {
        return if schema["type"] == "null" { Some(BTreeSet::new()) } else { None };
    }
    let own = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
    let mut names: BTreeSet<String> = own.collect();
    for part in parts {
        names.extend(declared(document, part)?);
    }
    Some(names)
}

/// Reports the members of a value that its schema does not declare, at any depth.
fn undeclared(
    document: &Value,
    schema: &Value,
    (value, place): (&Value, &str),
    found: &mut Vec<String>,
) {
    let schema = resolved(document, schema);
    if let (Some(members), Some(names)) = (value.as_object(), declared(document, schema)) {
        for name in members.keys().filter(|name| !names.contains(*name)) {
            found.push(format!("{place}.{name}: is not in the contract"));
        }
    }
    let parts = ["allOf", "oneOf", "anyOf"].iter().flat_map(|part| branches(schema, part));
    for part in parts {
        children(document, resolved(document, part), (value, place), found);
    }
    children(document, schema, (value, place), found);
}

fn children(
    document: &Value,
    schema: &Value,
    (value, place): (&Value, &str),
    found: &mut Vec<String>,
) {
    for (name, member) in value.as_object().into_iter().flatten() {
        if let Some(property) = schema["properties"].get(name) {
            undeclared(document, property, (member, &format!("{place}.{name}")), found);
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if schema.get("items").is_some() {
            undeclared(document, &schema["items"], (item, &format!("{place}[{index}]")), found);
        }
    }
}
