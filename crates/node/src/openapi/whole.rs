//! The whole document: the service's own routes and the routes of every platform.
//!
//! Two platforms may have the same path: which of them a call reaches depends on its account. Such
//! operations are one in the document, with the parameters and bodies of both.
#![expect(clippy::indexing_slicing, reason = "indexing a JSON object by name inserts the member")]

use domain::platform::Platform;
use serde_json::{Value, json};

use super::DocumentSources;
use super::platform::path_items::PathItems;
use super::platform::{self, groups};

/// The OpenAPI 3.1 document of everything.
pub(super) fn document(sources: &DocumentSources<'_>) -> Value {
    let mut document = super::document(sources);
    let mut items = PathItems::default();
    let mut tags = Vec::new();
    for platform in Platform::all() {
        let catalog = sources.catalog.platform(platform);
        let mut own = platform::path_items(sources, platform);
        own.operations().for_each(|operation| name_platform(platform, operation));
        items.add_all(own, merge);
        let names = groups(catalog.routes()).into_iter();
        tags.extend(names.map(|name| json!({ "name": tag(platform, name) })));
    }
    let parts = [("paths", items.into_json()), ("components", platform::components())];
    for (member, added) in parts {
        add(&mut document[member], added);
    }
    document["tags"].as_array_mut().into_iter().for_each(|known| known.append(&mut tags));
    document
}

/// Adds members, and the members of members; what is there stays.
fn add(known: &mut Value, added: Value) {
    match (known, added) {
        (Value::Object(known), Value::Object(added)) => {
            for (name, value) in added {
                match known.get_mut(&name) {
                    Some(inner) => add(inner, value),
                    None => {
                        known.insert(name, value);
                    }
                }
            }
        }
        (known @ Value::Null, added) => *known = added,
        _ => {}
    }
}

fn tag(platform: Platform, group: &str) -> String {
    format!("{platform} {group}")
}

/// Makes the id and the tag of an operation unlike those of other platforms.
fn name_platform(platform: Platform, operation: &mut Value) {
    let id = operation["operationId"].as_str().unwrap_or_default();
    operation["operationId"] = json!(format!("{platform}_{id}"));
    let group = operation["tags"][0].as_str().unwrap_or_default();
    operation["tags"] = json!([tag(platform, group)]);
    operation["x-platforms"] = json!([platform.as_str()]);
}

/// Joins the operation of another platform to one of the same path and method.
fn merge(known: &mut Value, mut other: Value) {
    let (id, summary) = (&other["operationId"], &other["summary"]);
    let added = format!(
        "`{}`: {}",
        other["x-platforms"][0].as_str().unwrap_or_default(),
        summary.as_str().unwrap_or_default()
    );
    let words =
        known["description"].as_str().map(|words| format!("{words}\n\n")).unwrap_or_default();
    known["description"] = json!(format!("{words}{added}"));
    let also =
        json!({ "operationId": id, "x-route": other["x-route"], "x-scopes": other["x-scopes"] });
    push(&mut known["x-also"], also);
    push(&mut known["x-platforms"], other["x-platforms"][0].take());
    merge_parameters(&mut known["parameters"], other["parameters"].take());
    let bodies = (known.get("requestBody").is_some(), other.get("requestBody").is_some());
    match bodies {
        (true, true) => {
            let required = known["requestBody"]["required"] == true
                && other["requestBody"]["required"] == true;
            merge_content(
                &mut known["requestBody"]["content"],
                other["requestBody"]["content"].take(),
            );
            known["requestBody"]["required"] = json!(required);
        }
        (false, true) => {
            known["requestBody"] = other["requestBody"].take();
            known["requestBody"]["required"] = json!(false);
        }
        (true, false) => known["requestBody"]["required"] = json!(false),
        (false, false) => {}
    }
    merge_responses(&mut known["responses"], other["responses"].take());
}

fn push(list: &mut Value, value: Value) {
    match list.as_array_mut() {
        Some(values) => values.push(value),
        None => *list = json!([value]),
    }
}

/// Parameters of one platform alone are not required.
fn merge_parameters(known: &mut Value, other: Value) {
    let (Value::Array(known), Value::Array(mut other)) = (known, other) else { return };
    let is_same = |a: &Value, b: &Value| {
        a["name"] == b["name"] && a["in"] == b["in"] && a["$ref"] == b["$ref"]
    };
    for parameter in known.iter_mut().filter(|parameter| parameter.get("$ref").is_none()) {
        match other.iter_mut().find(|candidate| is_same(parameter, candidate)) {
            Some(twin) => {
                let required = parameter["required"] == true && twin["required"] == true;
                parameter["required"] = json!(required);
                merge_schema(&mut parameter["schema"], twin["schema"].take());
            }
            None => parameter["required"] = json!(parameter["in"] == "path"),
        }
    }
    let new: Vec<Value> =
        other.into_iter().filter(|one| !known.iter().any(|each| is_same(each, one))).collect();
    known.extend(new.into_iter().map(|mut one| {
        if one.get("$ref").is_none() {
            one["required"] = json!(one["in"] == "path");
        }
        one
    }));
}

fn merge_responses(known: &mut Value, other: Value) {
    let Value::Object(other) = other else { return };
    for (status, mut response) in other {
        if known.get(&status).is_none() {
            known[status] = response;
        } else if let Some(content) = response.get_mut("content") {
            // Otherwise it has no body, or it is a reference that all operations share.
            merge_content(&mut known[&status]["content"], content.take());
        }
    }
}

fn merge_content(known: &mut Value, other: Value) {
    let Value::Object(other) = other else { return };
    for (media_type, mut content) in other {
        match known.get_mut(&media_type) {
            Some(same) => merge_schema(&mut same["schema"], content["schema"].take()),
            None => known[media_type] = content,
        }
    }
}

/// Either of two schemas.
fn merge_schema(known: &mut Value, other: Value) {
    if *known == other || *known == json!({}) {
        return;
    }
    if other == json!({}) {
        *known = other;
        return;
    }
    let mut branches = match known.take() {
        Value::Object(mut members) if members.len() == 1 && members.contains_key("anyOf") => {
            members["anyOf"].take()
        }
        single => json!([single]),
    };
    if let Some(list) = branches.as_array_mut()
        && !list.contains(&other)
    {
        list.push(other);
    }
    *known = json!({ "anyOf": branches });
}
