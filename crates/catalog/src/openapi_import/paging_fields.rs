//! Finds the rows, the next cursor and the URL of the next page in a response, by their names.

use serde_json::Value;

use super::document::OpenapiDocument;
use super::paging::plain;
use crate::dataset::JsonPointer;

/// Fields that hold the rows, the most likely first.
const ROWS: [&str; 14] = [
    "data",
    "items",
    "results",
    "rows",
    "list",
    "entries",
    "records",
    "values",
    "elements",
    "objects",
    "collection",
    "content",
    "resources",
    "nodes",
];

/// Objects that may hold the rows.
const AROUND_ROWS: [&str; 5] = ["data", "result", "response", "page", "embedded"];

/// Fields with the value for the next request.
const NEXT_CURSOR: [&str; 16] = [
    "nextcursor",
    "nextpagetoken",
    "nexttoken",
    "nextpage",
    "nextpagecursor",
    "endcursor",
    "after",
    "cursor",
    "continuationtoken",
    "continuation",
    "next",
    "paginationtoken",
    "nextkey",
    "marker",
    "scrollid",
    "bookmark",
];

/// Fields with the URL of the next page.
const NEXT_URL: [&str; 7] =
    ["next", "nexturl", "nextpageurl", "nextlink", "odatanextlink", "nexthref", "nextpageuri"];

/// Objects that may hold the cursor or URL of the next page.
const AROUND_NEXT: [&str; 13] = [
    "meta",
    "paging",
    "pagination",
    "pageinfo",
    "cursors",
    "cursor",
    "responsemetadata",
    "metadata",
    "links",
    "data",
    "page",
    "pages",
    "result",
];

/// Maximum depth of objects within objects.
const DEPTH_MAX: usize = 3;

/// Maximum number of parts of one object.
const PARTS_MAX: usize = 32;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct PageFields {
    pub(super) rows: Option<JsonPointer>,
    pub(super) next_cursor: Option<JsonPointer>,
    pub(super) next_url: Option<JsonPointer>,
}

/// A field of an object.
struct SchemaField<'a> {
    name: &'a str,
    plain: String,
    schema: &'a Value,
}

/// Searches the schema of a response.
pub(super) fn read<'a>(document: OpenapiDocument<'a>, schema: Option<&'a Value>) -> PageFields {
    let Some(schema) = schema else { return PageFields::default() };
    let schema = document.resolved(schema);
    let reader = FieldReader { document };
    if is_list(schema) {
        return PageFields { rows: pointer(&[]), ..PageFields::default() };
    }
    let is_next_url =
        |field: &SchemaField<'a>| NEXT_URL.contains(&field.plain.as_str()) && is_url(field);
    let is_cursor = |field: &SchemaField<'a>| {
        NEXT_CURSOR.contains(&field.plain.as_str()) && is_scalar(field.schema) && !is_url(field)
    };
    PageFields {
        rows: reader.rows(schema),
        next_cursor: reader.find(schema, &NEXT_CURSOR, &is_cursor, &mut Vec::new()),
        next_url: reader.find(schema, &NEXT_URL, &is_next_url, &mut Vec::new()),
    }
}

#[derive(Clone, Copy)]
struct FieldReader<'a> {
    document: OpenapiDocument<'a>,
}

impl<'a> FieldReader<'a> {
    /// The rows: in the object itself, otherwise in an inner object that usually holds them.
    fn rows(self, schema: &'a Value) -> Option<JsonPointer> {
        let fields = self.fields(schema, 0);
        if let Some(field) = list_of_rows(&fields) {
            return pointer(&[field.name]);
        }
        let around = |field: &&SchemaField<'a>| AROUND_ROWS.contains(&field.plain.as_str());
        fields.iter().filter(around).find_map(|outer| {
            let inner = self.fields(outer.schema, 0);
            pointer(&[outer.name, list_of_rows(&inner)?.name])
        })
    }

    /// A wanted field, in the object or in an inner object that usually holds it.
    fn find(
        self,
        schema: &'a Value,
        names: &[&str],
        is_wanted: &dyn Fn(&SchemaField<'a>) -> bool,
        path: &mut Vec<&'a str>,
    ) -> Option<JsonPointer> {
        let fields = self.fields(schema, 0);
        let wanted: Vec<&SchemaField<'a>> =
            fields.iter().filter(|field| is_wanted(field)).collect();
        let first = names.iter().find_map(|name| wanted.iter().find(|it| it.plain == *name));
        if let Some(field) = first {
            path.push(field.name);
            return pointer(path);
        }
        if path.len() + 1 >= DEPTH_MAX {
            return None;
        }
        for field in fields.iter().filter(|field| AROUND_NEXT.contains(&field.plain.as_str())) {
            path.push(field.name);
            let found = self.find(field.schema, names, is_wanted, path);
            if found.is_some() {
                return found;
            }
            path.pop();
        }
        None
    }

    /// The fields of an object, including those of its parts.
    fn fields(self, schema: &'a Value, depth: usize) -> Vec<SchemaField<'a>> {
        let schema = self.document.resolved(schema);
        let mut fields: Vec<SchemaField<'a>> = Vec::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, member) in properties.into_iter().flatten() {
            let member = self.document.resolved(member);
            fields.push(SchemaField { name, plain: plain(name), schema: member });
        }
        if depth < DEPTH_MAX {
            let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
            let alternatives = ["oneOf", "anyOf"].iter().filter_map(|key| schema.get(*key)?.get(0));
            for part in parts.chain(alternatives).take(PARTS_MAX) {
                fields.extend(self.fields(part, depth + 1));
            }
        }
        fields
    }
}

/// The list that holds the rows: one with a known name, otherwise the only one.
fn list_of_rows<'f, 'a>(fields: &'f [SchemaField<'a>]) -> Option<&'f SchemaField<'a>> {
    let lists: Vec<&SchemaField<'a>> =
        fields.iter().filter(|field| is_list(field.schema)).collect();
    let named = ROWS.iter().find_map(|name| lists.iter().find(|field| field.plain == *name));
    named.or_else(|| lists.first().filter(|_| lists.len() == 1)).copied()
}

fn is_list(schema: &Value) -> bool {
    has_type(schema, "array") || (schema.get("type").is_none() && schema.get("items").is_some())
}

fn is_scalar(schema: &Value) -> bool {
    let is_other = ["object", "array", "boolean"].iter().any(|other| has_type(schema, other));
    !is_other && schema.get("properties").is_none()
}

/// Whether a field is a URL: its format or its name says so.
fn is_url(field: &SchemaField<'_>) -> bool {
    let format = field.schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let says_so = ["uri", "url", "uri-reference", "iri"].contains(&format);
    let named = ["url", "uri", "link", "href"].iter().any(|end| field.plain.ends_with(end));
    is_scalar(field.schema) && (says_so || named)
}

/// Whether a schema has this type, possibly among others.
fn has_type(schema: &Value, wanted: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == wanted,
        Some(Value::Array(names)) => names.iter().any(|name| name == wanted),
        _ => false,
    }
}

/// A pointer to a field; nothing if the pointer cannot express a name.
fn pointer(names: &[&str]) -> Option<JsonPointer> {
    if names.iter().any(|name| name.contains('/')) {
        return None;
    }
    let text: String = names.iter().flat_map(|name| ["/", name]).collect();
    JsonPointer::parse(&text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What was found: the rows, the cursor and the URL, with a dash for what was not.
    fn found(schema: &Value) -> String {
        let fields = read(OpenapiDocument::new(schema), Some(schema));
        let found = [fields.rows, fields.next_cursor, fields.next_url];
        let texts = found
            .map(|it| it.map_or("-".to_owned(), |pointer| format!("{:?}", pointer.to_string())));
        texts.join(" ")
    }

    #[test]
    fn fields_are_found_through_references_and_parts() {
        let schema = json!({
            "allOf": [{"$ref": "#/page"}, {"properties": {"items": {"type": "array"}, "tags": {"type": "array"}}}],
            "page": {"properties": {"paging": {"properties": {"cursors": {"properties": {"after": {"type": "string"}}}}}}},
        });

        assert_eq!(found(&schema), "\"/items\" \"/paging/cursors/after\" -");
    }

    #[test]
    fn a_url_is_no_cursor() {
        let schema = json!({"properties": {
            "links": {"properties": {"next": {"type": ["string", "null"], "format": "uri"}}},
            "data": {"properties": {"posts": {"type": ["array", "null"]}}},
        }});

        assert_eq!(found(&schema), "\"/data/posts\" - \"/links/next\"");
    }

    #[test]
    fn two_lists_without_a_known_name_are_no_rows_and_odd_names_are_passed_over() {
        let lists = json!({"properties": {"a": {"type": "array"}, "b": {"type": "array"}}});
        let odd = json!({"properties": {"a/b": {"type": "array"}, "@odata.nextLink": {"type": "string"}}});

        assert_eq!(found(&lists), "- - -");
        assert_eq!(found(&odd), "- - \"/@odata.nextLink\"");
        assert_eq!(found(&json!({"type": "array"})), "\"\" - -");
    }
}
