//! JSON schemas as tables: one row for each member, with those of objects inside it below.

use catalog::SchemaText;
use serde_json::{Map, Value};

use crate::markdown;

/// Objects inside objects are shown to this depth.
const DEPTH_MAX: usize = 5;
/// A longer table is cut; the OpenAPI document has the rest.
const ROWS_MAX: usize = 120;

/// A member of a body, or a parameter.
#[derive(Debug)]
pub(crate) struct FieldRow {
    /// Its name; dots and brackets join the levels: `slots[].platform`.
    pub(crate) name: String,
    /// Its type and limits in a few words.
    pub(crate) kind: String,
    /// Whether it must be there.
    pub(crate) is_required: bool,
    /// What it means, as HTML.
    pub(crate) about: String,
}

/// Reads the schemas of one document.
pub(super) struct SchemaReader<'a> {
    /// The OpenAPI document, for references.
    document: &'a Value,
}

/// Where in a schema a row is.
struct SchemaPosition<'p> {
    /// The name of the object that the members belong to; empty at the top.
    name: &'p str,
    depth: usize,
    /// The members that the object must have, whichever of its parts lists them.
    required: &'p [&'p str],
}

impl<'p> SchemaPosition<'p> {
    const fn of(name: &'p str, depth: usize) -> Self {
        Self { name, depth, required: &[] }
    }
}

impl<'a> SchemaReader<'a> {
    pub(super) const fn new(document: &'a Value) -> Self {
        Self { document }
    }

    /// What a reference points to; the value itself if it is none.
    pub(super) fn resolved<'v>(&self, value: &'v Value) -> &'v Value
    where
        'a: 'v,
    {
        let path =
            value.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
        path.and_then(|path| self.document.pointer(path)).unwrap_or(value)
    }

    /// The members of a body.
    pub(super) fn rows(&self, schema: &Value) -> Vec<FieldRow> {
        let mut rows = Vec::new();
        self.members(schema, &SchemaPosition::of("", 0), &mut rows);
        rows.truncate(ROWS_MAX);
        rows
    }

    fn members(&self, schema: &Value, at: &SchemaPosition<'_>, rows: &mut Vec<FieldRow>) {
        if at.depth > DEPTH_MAX || rows.len() > ROWS_MAX {
            return;
        }
        let schema = self.resolved(schema);
        let required = [at.required, &self.required(schema, at.depth)].concat();
        let at = &SchemaPosition { required: &required, ..*at };
        for part in list(schema, "allOf") {
            self.members(part, &SchemaPosition { depth: at.depth + 1, ..*at }, rows);
        }
        self.variants(schema, at, rows);
        if let Some(items) = schema.get("items") {
            let name = format!("{}[]", at.name);
            self.members(items, &SchemaPosition::of(&name, at.depth + 1), rows);
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, member) in properties.into_iter().flatten() {
            let full =
                if at.name.is_empty() { name.clone() } else { format!("{}.{name}", at.name) };
            rows.push(self.row(&full, member, required.contains(&name.as_str())));
            self.members(member, &SchemaPosition::of(&full, at.depth + 1), rows);
        }
    }

    /// One of several forms: the members of each, under its title.
    fn variants(&self, schema: &Value, at: &SchemaPosition<'_>, rows: &mut Vec<FieldRow>) {
        let forms = list(schema, "oneOf").chain(list(schema, "anyOf"));
        let forms: Vec<&Value> =
            forms.map(|form| self.resolved(form)).filter(|form| form["type"] != "null").collect();
        let is_alone = forms.len() < 2;
        for form in forms {
            let title = form.get("title").and_then(Value::as_str).filter(|_| !is_alone);
            let name = match title {
                Some(title) if at.name.is_empty() => title.to_owned(),
                Some(title) => format!("{} ({title})", at.name),
                None => at.name.to_owned(),
            };
            self.members(form, &SchemaPosition { name: &name, depth: at.depth + 1, ..*at }, rows);
        }
    }

    /// The members that a schema or a part of it requires.
    fn required<'v>(&self, schema: &'v Value, depth: usize) -> Vec<&'v str>
    where
        'a: 'v,
    {
        let schema = self.resolved(schema);
        let mut names: Vec<&str> = list(schema, "required").filter_map(Value::as_str).collect();
        let parts = list(schema, "allOf").filter(|_| depth < DEPTH_MAX);
        names.extend(parts.flat_map(|part| self.required(part, depth + 1)));
        names
    }

    /// One member or parameter.
    pub(super) fn row(&self, name: &str, schema: &Value, is_required: bool) -> FieldRow {
        let about = schema.get("description").or_else(|| self.resolved(schema).get("description"));
        let about = about.and_then(Value::as_str).unwrap_or_default();
        FieldRow {
            name: name.to_owned(),
            kind: self.kind(schema),
            is_required,
            about: markdown::render_text(about),
        }
    }

    /// The type in a few words, without the members.
    fn kind(&self, schema: &Value) -> String {
        let flat = Value::Object(self.flat(schema, 0)).to_string();
        SchemaText::parse(&flat).map_or_else(|_| String::new(), |text| text.summary())
    }

    /// The schema, or the only form that it has besides null.
    fn flat(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let schema = self.resolved(schema);
        let forms = list(schema, "oneOf").chain(list(schema, "anyOf"));
        let (nulls, forms): (Vec<&Value>, Vec<&Value>) =
            forms.partition(|form| form["type"] == "null");
        let mut flat = match forms.as_slice() {
            [only] if depth < DEPTH_MAX => self.flat(only, depth + 1),
            _ => self.flat_object(schema, depth),
        };
        if !nulls.is_empty() {
            flat.insert("nullable".to_owned(), Value::Bool(true));
        }
        flat
    }

    fn flat_object(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut flat: Map<String, Value> = schema
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| {
                !matches!(name.as_str(), "properties" | "allOf" | "items" | "example" | "examples")
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if let Some(items) = schema.get("items").filter(|_| depth < DEPTH_MAX) {
            flat.insert("items".to_owned(), Value::Object(self.flat(items, depth + 1)));
        }
        let is_object = schema.get("properties").is_some() || schema.get("allOf").is_some();
        if is_object && !flat.contains_key("type") {
            flat.insert("type".to_owned(), Value::from("object"));
        }
        flat
    }
}

fn list<'v>(schema: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_of_objects_in_lists_have_rows_of_their_own() {
        let document = json!({"components": {"schemas": {
            "Slot": {"properties": {"platform": {"type": "string", "enum": ["a", "b"]}, "self": {"$ref": "#/components/schemas/Slot"}}},
        }}});
        let reader = SchemaReader::new(&document);
        let schema = json!({"allOf": [{"required": ["slots"], "properties": {
            "slots": {"type": "array", "items": {"$ref": "#/components/schemas/Slot"}, "description": "All `slots`."},
            "note": {"type": ["string", "null"]},
        }}]});

        let rows = reader.rows(&schema);

        let said: Vec<String> =
            rows.iter().map(|row| format!("{}: {}", row.name, row.kind)).collect();
        assert_eq!(said[0], "note: string or null");
        assert_eq!(said[1], "slots: list of object");
        assert_eq!(said[2], "slots[].platform: string, a|b");
        assert!(rows[1].is_required && !rows[0].is_required);
        assert_eq!(rows[1].about, "<p>All <code>slots</code>.</p>\n");
        assert!(rows.len() < 12, "a schema that contains itself ends");
    }

    fn rows_of(schema: &Value) -> Vec<String> {
        let document = json!({"components": {"schemas": {"Word": {"type": "string", "description": "A word."}}}});
        let rows = SchemaReader::new(&document).rows(schema);
        rows.into_iter().map(|row| format!("{}: {}", row.name, row.kind)).collect()
    }

    #[test]
    fn each_form_of_a_member_has_its_rows_under_its_title() {
        let form = |title: &str, name: &str| json!({"title": title, "properties": {name: {"type": "integer"}}});
        let both =
            json!({"properties": {"by": {"oneOf": [form("Card", "last4"), form("Bank", "iban")]}}});
        let one =
            json!({"properties": {"by": {"anyOf": [form("Card", "last4"), {"type": "null"}]}}});
        let top = json!({"oneOf": [form("Card", "last4"), {"properties": {"other": {"type": "boolean"}}}]});

        assert_eq!(rows_of(&both)[1..], ["by (Card).last4: integer", "by (Bank).iban: integer"]);
        assert_eq!(rows_of(&one)[1..], ["by.last4: integer"]);
        assert_eq!(rows_of(&top), ["Card.last4: integer", "other: boolean"]);
    }

    #[test]
    fn what_a_member_means_is_its_own_word_or_that_of_its_type() {
        let document = json!({"components": {"schemas": {"Word": {"type": "string", "description": "A word."}}}});
        let reader = SchemaReader::new(&document);
        let word = json!({"$ref": "#/components/schemas/Word"});
        let own = json!({"$ref": "#/components/schemas/Word", "description": "The `name`."});

        assert_eq!(reader.row("a", &word, false).about, "<p>A word.</p>\n");
        assert_eq!(reader.row("a", &own, false).about, "<p>The <code>name</code>.</p>\n");
        assert_eq!(reader.row("a", &json!({}), false).about, "");
        assert_eq!(reader.row("a", &word, true).kind, "string");
    }

    #[test]
    fn a_reference_that_leads_nowhere_is_a_member_without_a_type() {
        let lost = json!({"properties": {"a": {"$ref": "#/components/schemas/Nobody"}, "b": {"$ref": "other.json"}}});

        let rows = rows_of(&lost);

        assert_eq!(rows.len(), 2, "{rows:?}");
    }

    #[test]
    fn a_table_has_at_most_120_rows_and_a_depth() {
        let members: Map<String, Value> =
            (0..200).map(|at| (format!("m{at}"), json!({"type": "string"}))).collect();
        let deep =
            (0..40).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"a": inner}}));

        assert_eq!(rows_of(&json!({"properties": members})).len(), ROWS_MAX);
        assert_eq!(rows_of(&deep).len(), DEPTH_MAX + 1);
    }

    #[test]
    fn what_is_no_schema_has_no_rows() {
        for nothing in [json!(null), json!(true), json!([]), json!("x"), json!({"properties": []})]
        {
            assert_eq!(rows_of(&nothing), [""; 0], "{nothing}");
        }
    }
}
