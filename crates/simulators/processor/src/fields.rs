//! Reads and writes JSON objects by dotted paths, such as
//! `invoice_settings.default_payment_method`.

use serde_json::{Map, Value};

static NOTHING: Value = Value::Null;

/// The value at the path; null if there is none. A number is an index of a list.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    let step = |found: &'a Value, name: &str| match found {
        Value::Array(list) => name.parse::<usize>().ok().and_then(|place| list.get(place)),
        other => other.get(name),
    };
    path.split('.').try_fold(value, step).unwrap_or(&NOTHING)
}

/// The text at the path; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The whole number at the path; 0 if there is none.
pub(crate) fn whole(value: &Value, path: &str) -> i64 {
    at(value, path).as_i64().unwrap_or_default()
}

/// Whether the value at the path is `true`.
pub(crate) fn flag(value: &Value, path: &str) -> bool {
    at(value, path).as_bool().unwrap_or_default()
}

/// The list at the path; empty if there is none.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// Sets the value at the path; missing objects on the path are created.
pub(crate) fn set(value: &mut Value, path: &str, new: impl Into<Value>) {
    let (mut place, mut rest) = (value, path);
    while let Some((name, behind)) = rest.split_once('.') {
        place = object(place).entry(name.to_owned()).or_insert(Value::Null);
        rest = behind;
    }
    object(place).insert(rest.to_owned(), new.into());
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it has just been made an object"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_value_can_be_read() {
        let mut value = json!({"a": null, "list": [{"b": 7}]});
        set(&mut value, "a.b.c", "x");
        set(&mut value, "d", 3);

        assert_eq!(text(&value, "a.b.c"), "x");
        assert_eq!((whole(&value, "d"), whole(&value, "list.0.b")), (3, 7));
        assert_eq!((text(&value, "list.1.b"), list(&value, "list").len()), ("", 1));
    }
}
