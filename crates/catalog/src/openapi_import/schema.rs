//! Writes the JSON Schemas of a document as compact text, with references resolved and size
//! bounded.
//!
//! What a caller needs is kept: types, names, values, limits and descriptions. Examples, titles and
//! extensions are dropped. A schema that is too large is written without descriptions, then with
//! fewer levels. Each cut leaves a `$comment`.

use serde_json::{Map, Value};

use super::document::OpenapiDocument;
use super::one_line;
use crate::route_docs::SchemaText;

/// What a schema belongs to, which determines its maximum size in bytes of JSON text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaOwner {
    Parameter,
    Body,
    Response,
}

impl SchemaOwner {
    const fn bytes_max(self) -> usize {
        match self {
            Self::Parameter => 4 * 1024,
            Self::Body => 16 * 1024,
            Self::Response => 8 * 1024,
        }
    }
}

/// Maximum length of a chain of references within a schema.
const REFERENCES_MAX: usize = 64;

/// Levels of detail, tried until a schema is small enough.
const ATTEMPTS: [SchemaDetail; 5] = [
    SchemaDetail { levels: 8, descriptions: true },
    SchemaDetail { levels: 8, descriptions: false },
    SchemaDetail { levels: 4, descriptions: false },
    SchemaDetail { levels: 2, descriptions: false },
    SchemaDetail { levels: 1, descriptions: false },
];

/// How much of a schema is written.
#[derive(Clone, Copy)]
struct SchemaDetail {
    /// Depth of schemas within schemas.
    levels: usize,
    descriptions: bool,
}

/// Keywords that are copied unchanged.
const COPIED: [&str; 25] = [
    "type",
    "format",
    "enum",
    "const",
    "default",
    "nullable",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "readOnly",
    "writeOnly",
    "deprecated",
    "contentEncoding",
    "contentMediaType",
    "required",
];

/// Keywords whose members are schemas.
const OF_NAMES: [&str; 2] = ["properties", "patternProperties"];

/// Keywords whose value is a schema.
const OF_ONE: [&str; 3] = ["items", "additionalProperties", "not"];

/// Keywords whose value is a list of schemas.
const OF_LISTS: [&str; 4] = ["prefixItems", "oneOf", "anyOf", "allOf"];

/// The text of a schema; nothing if the schema is empty.
pub(super) fn compact<'a>(
    document: OpenapiDocument<'a>,
    schema: &'a Value,
    owner: SchemaOwner,
) -> Option<SchemaText> {
    let bytes_max = owner.bytes_max();
    let written = ATTEMPTS.iter().find_map(|detail| {
        let (text, references) = (String::new(), Vec::new());
        let mut writer = SchemaWriter { document, detail: *detail, bytes_max, text, references };
        writer.schema(schema, 0).ok()?;
        Some(writer.text)
    });
    let written = written.unwrap_or_else(|| "{\"$comment\":\"cut: it is too large\"}".to_owned());
    SchemaText::parse(&written).ok().filter(|_| written != "{}")
}

/// The text exceeds its maximum size.
struct TooLarge;

struct SchemaWriter<'a> {
    document: OpenapiDocument<'a>,
    detail: SchemaDetail,
    bytes_max: usize,
    text: String,
    /// The references that lead to the current schema, to detect cycles.
    references: Vec<&'a str>,
}

impl<'a> SchemaWriter<'a> {
    fn schema(&mut self, schema: &'a Value, level: usize) -> Result<(), TooLarge> {
        match schema {
            Value::Object(members) => match members.get("$ref").and_then(Value::as_str) {
                Some(reference) => self.reference(reference, level),
                None => self.object(members, level),
            },
            Value::Bool(false) => self.push("{\"not\":{}}"),
            _ => self.push("{}"),
        }
    }

    fn reference(&mut self, reference: &'a str, level: usize) -> Result<(), TooLarge> {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if self.references.contains(&reference) || self.references.len() >= REFERENCES_MAX {
            return self.cut(&format!("{name} again"));
        }
        let Some(target) = self.document.target(reference) else {
            return self.cut(&format!("{reference} is not in the document"));
        };
        self.references.push(reference);
        let done = self.schema(target, level);
        self.references.pop();
        done
    }

    fn object(&mut self, members: &'a Map<String, Value>, level: usize) -> Result<(), TooLarge> {
        let is_cut = level >= self.detail.levels && has_inner(members);
        self.push("{")?;
        let mut first = true;
        // The names of required members are useless without the members.
        for key in COPIED.iter().filter(|key| !is_cut || **key != "required") {
            if let Some(value) = members.get(*key) {
                self.key(key, &mut first)?;
                self.push(&value.to_string())?;
            }
        }
        if self.detail.descriptions {
            let description = members.get("description").and_then(Value::as_str);
            let description = description.map(one_line).filter(|line| !line.is_empty());
            if let Some(description) = description {
                self.key("description", &mut first)?;
                self.push(&Value::from(description).to_string())?;
            }
        }
        if is_cut {
            self.key("$comment", &mut first)?;
            self.push("\"cut\"")?;
        } else {
            self.inner(members, level + 1, &mut first)?;
        }
        self.push("}")
    }

    fn inner(
        &mut self,
        members: &'a Map<String, Value>,
        level: usize,
        first: &mut bool,
    ) -> Result<(), TooLarge> {
        for key in OF_NAMES {
            if let Some(Value::Object(schemas)) = members.get(key) {
                self.key(key, first)?;
                self.push("{")?;
                let mut first_name = true;
                for (name, schema) in schemas {
                    self.key(name, &mut first_name)?;
                    self.schema(schema, level)?;
                }
                self.push("}")?;
            }
        }
        for key in OF_ONE {
            match members.get(key) {
                Some(schema @ Value::Object(_)) => {
                    self.key(key, first)?;
                    self.schema(schema, level)?;
                }
                Some(Value::Bool(allowed)) => {
                    self.key(key, first)?;
                    self.push(&allowed.to_string())?;
                }
                _ => {}
            }
        }
        for key in OF_LISTS {
            if let Some(Value::Array(schemas)) = members.get(key) {
                self.key(key, first)?;
                self.list(schemas, level)?;
            }
        }
        Ok(())
    }

    fn list(&mut self, schemas: &'a [Value], level: usize) -> Result<(), TooLarge> {
        self.push("[")?;
        for (index, schema) in schemas.iter().enumerate() {
            if index > 0 {
                self.push(",")?;
            }
            self.schema(schema, level)?;
        }
        self.push("]")
    }

    fn cut(&mut self, why: &str) -> Result<(), TooLarge> {
        let why = Value::from(format!("cut: {}", one_line(why)));
        self.push(&format!("{{\"$comment\":{why}}}"))
    }

    fn key(&mut self, key: &str, first: &mut bool) -> Result<(), TooLarge> {
        if !std::mem::take(first) {
            self.push(",")?;
        }
        self.push(&Value::from(key).to_string())?;
        self.push(":")
    }

    fn push(&mut self, text: &str) -> Result<(), TooLarge> {
        self.text.push_str(text);
        if self.text.len() > self.bytes_max { Err(TooLarge) } else { Ok(()) }
    }
}

fn has_inner(members: &Map<String, Value>) -> bool {
    let holds = |key: &str| members.get(key).is_some_and(|value| !value.is_boolean());
    OF_NAMES.iter().chain(&OF_ONE).chain(&OF_LISTS).any(|key| holds(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(document: &Value, owner: SchemaOwner) -> Value {
        let schema = compact(OpenapiDocument::new(document), &document["schema"], owner);
        schema.map_or(Value::Null, |schema| schema.value())
    }

    #[test]
    fn references_are_put_in_and_what_nobody_needs_goes() {
        let document = json!({
            "components": {"schemas": {"Pet": {
                "type": "object", "title": "Pet", "example": {"id": 1}, "x-own": 1, "required": ["id"],
                "properties": {"id": {"type": "integer", "description": "its\n id"}},
            }}},
            "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
        });

        assert_eq!(
            written(&document, SchemaOwner::Body),
            json!({"type": "array", "items": {
                "type": "object", "required": ["id"],
                "properties": {"id": {"type": "integer", "description": "its id"}},
            }})
        );
    }

    #[test]
    fn circles_and_references_that_lead_nowhere_are_cut_and_say_so() {
        let document = json!({
            "Node": {"type": "object", "properties": {
                "next": {"$ref": "#/Node"}, "gone": {"$ref": "#/none"}, "out": {"$ref": "a.json"},
                "any": true, "none": false,
            }},
            "schema": {"$ref": "#/Node"},
        });

        assert_eq!(
            written(&document, SchemaOwner::Body)["properties"],
            json!({
                "next": {"$comment": "cut: Node again"},
                "gone": {"$comment": "cut: #/none is not in the document"},
                "out": {"$comment": "cut: a.json is not in the document"},
                "any": {}, "none": {"not": {}},
            })
        );
    }

    #[test]
    fn a_large_schema_loses_descriptions_first_and_levels_then() {
        let properties = |inner: &Value| -> Value {
            (0..40).map(|index| (format!("property_{index}"), inner.clone())).collect()
        };
        let leaf = json!({"type": "string", "description": "x".repeat(150)});
        let flat = json!({"schema": {"type": "object", "properties": properties(&leaf)}});
        let middle = json!({"type": "object", "required": ["x"], "properties": properties(&leaf)});
        let deep = json!({"schema": {"type": "object", "properties": properties(&middle)}});

        let flat = written(&flat, SchemaOwner::Parameter);
        let deep = written(&deep, SchemaOwner::Response);

        assert_eq!(flat["properties"]["property_39"], json!({"type": "string"}));
        assert_eq!(deep["properties"]["property_39"], json!({"type": "object", "$comment": "cut"}));
    }

    #[test]
    fn a_schema_that_stays_too_large_is_left_out_and_says_so() {
        let values: Vec<String> = (0..2000).map(|index| format!("value {index}")).collect();
        let document = json!({"schema": {"type": "string", "enum": values}});

        let schema = written(&document, SchemaOwner::Parameter);

        assert_eq!(schema, json!({"$comment": "cut: it is too large"}));
    }

    /// Each level refers twice to the next: without a bound, 2^60 schemas.
    #[test]
    fn schemas_that_multiply_end() {
        let mut document = json!({"schema": {"$ref": "#/s0"}});
        for level in 0..60 {
            let next = json!({"$ref": format!("#/s{}", level + 1)});
            document[format!("s{level}")] = json!({"allOf": [next.clone(), next]});
        }

        let text = written(&document, SchemaOwner::Body).to_string();

        assert!(text.contains("cut"), "{text}");
    }

    #[test]
    fn a_long_chain_of_references_ends() {
        let mut document = json!({"schema": {"$ref": "#/s0"}});
        for level in 0..10_000 {
            document[format!("s{level}")] = json!({"$ref": format!("#/s{}", level + 1)});
        }

        assert_eq!(written(&document, SchemaOwner::Body), json!({"$comment": "cut: s64 again"}));
    }

    #[test]
    fn a_schema_that_says_nothing_is_none() {
        for schema in [json!({}), json!(true), json!({"title": "x"})] {
            assert_eq!(written(&json!({"schema": schema}), SchemaOwner::Body), Value::Null);
        }
    }
}
