//! The shape of requests: the part of JSON Schema that our requests use, read from their schemas.

use serde_json::{Map, Value};

use super::formats::{self, ValueFormat};

/// What a value must be.
#[derive(Debug)]
pub struct ValueShape {
    /// The kind of value.
    pub(super) kind: FieldKind,
    /// Whether null is allowed, meaning "not given".
    pub(super) is_nullable: bool,
}

/// The kinds of values.
#[derive(Debug)]
pub(super) enum FieldKind {
    /// Any JSON value.
    Any,
    /// True or false.
    Flag,
    /// A whole number within limits.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A number within limits.
    Number {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
        /// How its digits must be written.
        format: Option<&'static ValueFormat>,
    },
    /// A text.
    Text(Text),
    /// A list.
    List {
        /// The shape of each item.
        items: Box<ValueShape>,
        /// The fewest items.
        min: usize,
        /// The most items.
        max: usize,
    },
    /// An object.
    Object(Object),
}

/// What a text must be.
#[derive(Debug)]
pub(super) struct Text {
    /// The fewest characters.
    pub(super) min: usize,
    /// The most characters.
    pub(super) max: usize,
    /// The allowed words; any text if empty.
    pub(super) words: Vec<String>,
    /// How it must be written.
    pub(super) format: Option<&'static ValueFormat>,
}

/// What an object must hold.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// The declared fields.
    pub(super) fields: Vec<ShapeField>,
    /// The shape of undeclared fields; `None` if they are not allowed.
    pub(super) others: Option<Box<ValueShape>>,
}

/// A declared field.
#[derive(Debug)]
pub(super) struct ShapeField {
    pub(super) name: String,
    pub(super) is_required: bool,
    pub(super) shape: ValueShape,
}

impl Object {
    /// The declared names, for people.
    pub(super) fn names(&self) -> String {
        self.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl ValueShape {
    /// Reads a schema.
    pub(super) fn of_schema(schema: &Value) -> Self {
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let kind = match types.iter().find(|one| **one != "null") {
            Some(&"boolean") => FieldKind::Flag,
            Some(&"integer") => FieldKind::Integer {
                min: schema["minimum"].as_i64().unwrap_or(-WHOLE_MAX),
                max: schema["maximum"].as_i64().unwrap_or(WHOLE_MAX),
            },
            Some(&"number") => FieldKind::Number {
                min: schema["minimum"].as_f64().unwrap_or(f64::MIN),
                max: schema["maximum"].as_f64().unwrap_or(f64::MAX),
                format: format(schema),
            },
            Some(&"string") => FieldKind::Text(Text {
                min: size(schema, "minLength").unwrap_or(0),
                max: size(schema, "maxLength").unwrap_or(usize::MAX),
                words: words(schema),
                format: format(schema),
            }),
            Some(&"array") => FieldKind::List {
                items: Box::new(Self::of_schema(&schema["items"])),
                min: size(schema, "minItems").unwrap_or(0),
                max: size(schema, "maxItems").unwrap_or(usize::MAX),
            },
            Some(&"object") => FieldKind::Object(object(schema)),
            _ => FieldKind::Any,
        };
        Self { kind, is_nullable: types.contains(&"null") }
    }

    /// Reads the declared parameters of a query as an object of them.
    pub(super) fn of_parameters(parameters: &Value) -> Self {
        let field = |parameter: &Value| ShapeField {
            name: parameter["name"].as_str().unwrap_or_default().to_owned(),
            is_required: parameter["required"].as_bool().unwrap_or(false),
            shape: Self::of_schema(&parameter["schema"]),
        };
        let fields = parameters.as_array().into_iter().flatten().map(field).collect();
        Self { kind: FieldKind::Object(Object { fields, others: None }), is_nullable: false }
    }

    /// An object with these fields, of any value.
    pub(super) fn of_any(names: &[&str]) -> Self {
        let field = |name: &&str| ShapeField {
            name: (*name).to_owned(),
            is_required: false,
            shape: Self { kind: FieldKind::Any, is_nullable: true },
        };
        let fields = names.iter().map(field).collect();
        Self { kind: FieldKind::Object(Object { fields, others: None }), is_nullable: false }
    }

    /// The object, if it is one; every request is.
    pub(super) fn as_object(&self) -> Option<&Object> {
        if let FieldKind::Object(object) = &self.kind { Some(object) } else { None }
    }
}

/// The largest integer that all JSON libraries represent exactly (RFC 8259, section 6).
pub(super) const WHOLE_MAX: i64 = 9_007_199_254_740_991;

fn size(schema: &Value, keyword: &str) -> Option<usize> {
    schema[keyword].as_u64().and_then(|size| usize::try_from(size).ok())
}

fn format(schema: &Value) -> Option<&'static ValueFormat> {
    schema["format"].as_str().and_then(formats::find)
}

fn words(schema: &Value) -> Vec<String> {
    let words = schema["enum"].as_array().into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn object(schema: &Value) -> Object {
    let required = |name: &str| {
        let names = schema["required"].as_array().into_iter().flatten();
        names.into_iter().any(|required| required == name)
    };
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let field = |(name, property): (&String, &Value)| ShapeField {
        name: name.clone(),
        is_required: required(name),
        shape: ValueShape::of_schema(property),
    };
    let others = match schema.get("additionalProperties") {
        None | Some(Value::Bool(false)) => None,
        Some(others) => Some(Box::new(ValueShape::of_schema(others))),
    };
    Object { fields: properties.iter().map(field).collect(), others }
}
