//! Summarizes a JSON Schema in a few words, for a terminal.

use serde_json::{Map, Value};

use crate::route_docs::SchemaText;

/// Maximum number of enumerated values that are listed.
const VALUES_MAX: usize = 12;

/// Maximum depth of lists within lists.
const DEPTH_MAX: usize = 4;

/// A member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaMember {
    /// Its name.
    pub name: String,
    /// Whether it is required.
    pub required: bool,
    /// Its type, values and default.
    pub summary: String,
}

impl SchemaText {
    /// Its type, values, limits and default, such as `integer, 1 to 100, default 30`.
    pub fn summary(&self) -> String {
        summary(&self.value(), 0)
    }

    /// The members of the object that it describes, or of the objects in the list that it
    /// describes.
    pub fn members(&self) -> Vec<SchemaMember> {
        let value = self.value();
        let mut schema = &value;
        for _ in 0..DEPTH_MAX {
            match schema.get("items") {
                Some(items) => schema = items,
                None => break,
            }
        }
        let parts = parts(schema, 0);
        let required: Vec<&Value> =
            parts.iter().filter_map(|part| part.get("required")?.as_array()).flatten().collect();
        let properties = parts.iter().filter_map(|part| part.get("properties")?.as_object());
        let mut members: Vec<SchemaMember> = Vec::new();
        for (name, member) in properties.flatten() {
            if members.iter().all(|known| known.name != *name) {
                members.push(SchemaMember {
                    name: name.clone(),
                    required: required.iter().any(|known| *known == name),
                    summary: summary(member, 0),
                });
            }
        }
        members
    }
}

/// The schema and those of `allOf`, which describe one object together: one may require what
/// another lists.
fn parts(schema: &Value, depth: usize) -> Vec<&Value> {
    let mut found = vec![schema];
    if depth < DEPTH_MAX {
        let inner = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        found.extend(inner.flat_map(|part| parts(part, depth + 1)));
    }
    found
}

fn summary(schema: &Value, depth: usize) -> String {
    let Some(schema) = schema.as_object() else { return "anything".to_owned() };
    let mut facts = vec![kind(schema, depth)];
    if let Some(Value::Array(values)) = schema.get("enum") {
        let listed: Vec<String> = values.iter().take(VALUES_MAX).map(plain).collect();
        let more = if values.len() > VALUES_MAX { "|…" } else { "" };
        facts.push(format!("{}{more}", listed.join("|")));
    }
    if let Some(value) = schema.get("const") {
        facts.push(format!("always {}", plain(value)));
    }
    let limits = (schema.get("minimum"), schema.get("maximum"));
    match limits {
        (Some(least), Some(most)) => facts.push(format!("{least} to {most}")),
        (Some(least), None) => facts.push(format!("at least {least}")),
        (None, Some(most)) => facts.push(format!("at most {most}")),
        (None, None) => {}
    }
    if let Some(value) = schema.get("default").filter(|value| !value.is_null()) {
        facts.push(format!("default {}", plain(value)));
    }
    if schema.contains_key("$comment") {
        facts.push("not shown whole".to_owned());
    }
    facts.join(", ")
}

/// The type and its format; for a list, the type of its items.
fn kind(schema: &Map<String, Value>, depth: usize) -> String {
    let (name, is_or_null) = match schema.get("type") {
        Some(Value::String(name)) => (name.clone(), false),
        Some(Value::Array(names)) => types(names),
        _ => (untyped(schema).to_owned(), false),
    };
    let items = schema.get("items").filter(|_| name == "array" && depth < DEPTH_MAX);
    let name = match (items, schema.get("format").and_then(Value::as_str)) {
        (Some(items), _) => format!("list of {}", summary(items, depth + 1)),
        (None, Some(format)) => format!("{name} ({format})"),
        (None, None) => name,
    };
    let may_be_null = schema.get("nullable").and_then(Value::as_bool) == Some(true);
    if may_be_null || is_or_null { format!("{name} or null") } else { name }
}

/// Several types, and whether null is one of them beside others.
fn types(names: &[Value]) -> (String, bool) {
    let (nulls, others): (Vec<&Value>, Vec<&Value>) =
        names.iter().partition(|name| *name == "null");
    let is_or_null = !nulls.is_empty() && !others.is_empty();
    let listed = if is_or_null { others } else { names.iter().collect() };
    (listed.into_iter().map(plain).collect::<Vec<_>>().join(" or "), is_or_null)
}

fn untyped(schema: &Map<String, Value>) -> &'static str {
    if schema.contains_key("properties") || schema.contains_key("allOf") {
        "object"
    } else if schema.contains_key("oneOf") || schema.contains_key("anyOf") {
        "one of several forms"
    } else {
        "anything"
    }
}

/// A text without its quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        SchemaText::parse(text).unwrap().summary()
    }

    #[test]
    fn a_schema_is_said_in_a_few_words() {
        for (schema, expected) in [
            ("{}", "anything"),
            (
                r#"{"type":"integer","minimum":1,"maximum":100,"default":30}"#,
                "integer, 1 to 100, default 30",
            ),
            (
                r#"{"type":"string","enum":["open","all"],"default":"all"}"#,
                "string, open|all, default all",
            ),
            (r#"{"type":["string","null"],"format":"date-time"}"#, "string (date-time) or null"),
            (r#"{"type":"string","nullable":true}"#, "string or null"),
            (r#"{"type":"array","items":{"type":"array","items":{}}}"#, "list of list of anything"),
            (r#"{"allOf":[]}"#, "object"),
            (r#"{"oneOf":[]}"#, "one of several forms"),
            (r#"{"const":1,"minimum":0}"#, "anything, always 1, at least 0"),
            (r#"{"type":"object","$comment":"cut"}"#, "object, not shown whole"),
        ] {
            assert_eq!(said(schema), expected, "{schema}");
        }
        let many: Vec<String> = (0..20).map(|value| value.to_string()).collect();
        assert!(said(&format!("{{\"enum\":[{}]}}", many.join(","))).ends_with("|11|…"));
    }

    #[test]
    fn members_are_those_of_the_object_or_of_the_objects_in_the_list() {
        let schema = r#"{"type":"array","items":{"required":["a"],"properties":{"a":{"type":"string"}},
            "allOf":[{"properties":{"a":{},"b":{"type":"integer"}}}]}}"#;

        let members = SchemaText::parse(schema).unwrap().members();

        let said: Vec<String> = members
            .iter()
            .map(|member| format!("{} {} {}", member.name, member.required, member.summary))
            .collect();
        assert_eq!(said, ["a true string", "b false integer"]);
    }
}
