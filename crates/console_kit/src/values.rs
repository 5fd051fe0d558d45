//! Values of forms, as the service reads them.

use serde_json::{Map, Value, json};

/// A time that a browser's field or a person wrote, as the service reads it: UTC.
pub fn time(text: &str) -> String {
    let is_local = text.get(10..11).is_some_and(|separator| separator == "T")
        && text.get(11..).is_some_and(|time| !time.contains(['Z', 'z', '+', '-']));
    match (is_local, text.len()) {
        (true, 16) => format!("{text}:00Z"),
        (true, _) => format!("{text}Z"),
        (false, _) => text.to_owned(),
    }
}

/// A number as JSON; what is none is passed on, so that the service says what is wrong.
pub fn number(text: &str) -> Value {
    text.replace(',', "").parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// Words with spaces or line ends between them, as a list.
pub fn words(text: &str) -> Value {
    json!(text.split_whitespace().collect::<Vec<_>>())
}

/// Lines of `name: value` or `name=value`, as an object; none if a line has no name.
pub fn members(text: &str) -> Option<Value> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pairs = lines.map(|line| {
        let (name, value) = line.split_once([':', '='])?;
        let name = Some(name.trim()).filter(|name| !name.is_empty())?;
        Some((name.to_owned(), json!(value.trim())))
    });
    pairs.collect::<Option<Map<_, _>>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_a_zone_are_utc() {
        assert_eq!(time("2026-12-01T10:00"), "2026-12-01T10:00:00Z");
        assert_eq!(time("2026-12-01T10:00:30"), "2026-12-01T10:00:30Z");
        assert_eq!(time("2026-12-01T10:00:30+02:00"), "2026-12-01T10:00:30+02:00");
        assert_eq!(time("2026-12-01T10:00:30Z"), "2026-12-01T10:00:30Z");
        assert_eq!(time("tomorrow"), "tomorrow");
        assert_eq!(time("ä"), "ä");
    }

    #[test]
    fn lists_and_members_are_written_in_lines() {
        assert_eq!(words(" a\nb  c "), json!(["a", "b", "c"]));
        assert_eq!(members("a: 1\n\n b = x=y "), Some(json!({"a": "1", "b": "x=y"})));
        assert_eq!(members("no name"), None);
        assert_eq!(members(": value"), None);
    }
}
