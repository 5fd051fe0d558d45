//! Reads query parameters into the types of their schemas.

use domain::field_error::FieldErrorKind;
use serde_json::{Map, Value};

use super::numbers;
use super::shape::{FieldKind, ValueShape};
use super::{FieldProblems, check};

/// The parameters that were sent. A repeated one is a problem. Text where the schema has a number
/// stays text, so the shape check refuses it.
pub(super) fn values(
    shape: &ValueShape,
    query: Option<&str>,
    problems: &mut FieldProblems,
) -> Map<String, Value> {
    let mut given = Map::new();
    for (name, text) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if given.contains_key(&*name) {
            let place = check::short(&name);
            problems.query(
                &place,
                FieldErrorKind::Duplicate,
                "is given more than once; send it once",
            );
            continue;
        }
        let value = value(kind_of(shape, &name), &text);
        given.insert(name.into_owned(), value);
    }
    given
}

fn kind_of<'s>(shape: &'s ValueShape, name: &str) -> Option<&'s FieldKind> {
    let field = shape.as_object()?.fields.iter().find(|field| field.name == name);
    field.map(|field| &field.shape.kind)
}

fn value(kind: Option<&FieldKind>, text: &str) -> Value {
    let read = match kind {
        Some(FieldKind::Integer { .. } | FieldKind::Number { .. }) => {
            numbers::written(text).map(Value::Number)
        }
        Some(FieldKind::Flag) => text.parse().ok().map(Value::Bool),
        _ => None,
    };
    read.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Refuses every parameter except `known`.
pub(super) fn refuse_beside(query: Option<&str>, known: &[&str], problems: &mut FieldProblems) {
    if query.is_none_or(str::is_empty) {
        return;
    }
    let shape = ValueShape::of_any(known);
    let given = values(&shape, query, problems);
    check::object(&shape, given, &mut check::Place::of("query", problems));
}
