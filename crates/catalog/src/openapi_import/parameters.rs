//! The parameters of an operation: in its path, in its query, and headers.

use serde_json::{Map, Value};

use super::document::OpenapiDocument;
use super::one_line;
use super::schema::{self, SchemaOwner};
use crate::route_docs::RouteParameter;

/// Headers that OpenAPI describes elsewhere; it says to ignore parameters for them.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// The parameters of one operation.
#[derive(Debug, Default)]
pub(super) struct OperationParameters {
    pub(super) path: Vec<RouteParameter>,
    pub(super) query: Vec<RouteParameter>,
    pub(super) headers: Vec<RouteParameter>,
    /// The path parameters that may span several segments, which some documents mark.
    pub(super) spanning: Vec<String>,
}

/// Reads the parameters of an operation and of its path; the operation's own come first.
pub(super) fn read<'a>(
    document: OpenapiDocument<'a>,
    item: &'a Map<String, Value>,
    operation: &'a Value,
) -> OperationParameters {
    let lists = [operation.get("parameters"), item.get("parameters")];
    let entries = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    let mut parameters = OperationParameters::default();
    for entry in entries {
        let entry = document.resolved(entry);
        let text = |key| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = one_line(text("name"));
        if name.is_empty() {
            continue;
        }
        let list = match text("in") {
            "path" => &mut parameters.path,
            "query" => &mut parameters.query,
            "header" if !IGNORED_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known)) => {
                &mut parameters.headers
            }
            _ => continue,
        };
        if list.iter().any(|known| known.name == name) {
            continue;
        }
        if text("in") == "path" && is_true(entry, "x-multi-segment") {
            parameters.spanning.push(name.clone());
        }
        list.push(RouteParameter {
            name,
            required: is_true(entry, "required"),
            description: one_line(text("description")),
            schema: schema_of(entry)
                .and_then(|schema| schema::compact(document, schema, SchemaOwner::Parameter)),
        });
    }
    parameters
}

/// The schema of a parameter, which is inside a media type if the value is, for example, JSON.
fn schema_of(entry: &Value) -> Option<&Value> {
    entry.get("schema").or_else(|| {
        let contents = entry.get("content")?.as_object()?;
        contents.values().next()?.get("schema")
    })
}

fn is_true(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_told_apart_by_place_and_the_operation_s_own_go_before() {
        let document =
            json!({"shared": {"name": "page", "in": "query", "schema": {"type": "integer"}}});
        let item = json!({"parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "full", "in": "query", "description": "of the path"},
            {"$ref": "#/shared"},
        ]});
        let operation = json!({"parameters": [
            {"name": "full", "in": "query", "required": true, "description": "its\nown"},
            {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
            {"name": "X-Version", "in": "header", "schema": {"enum": ["1", "2"]}},
            {"name": "Accept", "in": "header"},
            {"name": "id", "in": "cookie"},
            {"in": "query"},
        ]});

        let item = item.as_object().unwrap();
        let read = read(OpenapiDocument::new(&document), item, &operation);

        let names = |list: &[RouteParameter]| -> Vec<String> {
            list.iter().map(|parameter| parameter.name.clone()).collect()
        };
        assert_eq!(names(&read.path), ["id"]);
        assert_eq!(names(&read.query), ["full", "filter", "page"]);
        assert_eq!(names(&read.headers), ["X-Version"]);
        assert_eq!((read.query[0].required, read.query[0].description.as_str()), (true, "its own"));
        assert_eq!(read.query[1].schema.as_ref().unwrap().as_str(), "{\"type\":\"object\"}");
        assert_eq!(read.query[2].schema.as_ref().unwrap().as_str(), "{\"type\":\"integer\"}");
    }
}
