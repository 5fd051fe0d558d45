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

/// A whole number as JSON; what is none is passed on, so that the service says what is wrong.
pub fn number(text: &str) -> Value {
    let number = ungrouped(text).and_then(|plain| plain.parse::<i64>().ok());
    number.map_or_else(|| json!(text), |number| json!(number))
}

/// The same for a number that may have decimals.
pub fn decimal(text: &str) -> Value {
    let number = ungrouped(text).and_then(|plain| plain.parse::<serde_json::Number>().ok());
    number.map_or_else(|| json!(text), Value::Number)
}

/// The number without commas between its thousands; none if it has a comma elsewhere. `10,50` is
/// ten and a half in many countries, and must not become 1,050.
fn ungrouped(text: &str) -> Option<String> {
    let text = text.trim();
    let (whole, decimals) = text.split_once('.').map_or((text, None), |(w, d)| (w, Some(d)));
    let mut groups = whole.trim_start_matches('-').split(',');
    let first = groups.next().unwrap_or_default();
    let is_grouped = whole.contains(',');
    let is_first = !is_grouped || (1..=3).contains(&first.len());
    let are_thousands = groups.all(|group| group.len() == 3);
    let has_comma_after = decimals.is_some_and(|digits| digits.contains(','));
    (is_first && are_thousands && !has_comma_after).then(|| text.replace(',', ""))
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
    fn numbers_have_commas_between_thousands_alone() {
        for (text, number_of_it) in [
            ("0", 0),
            ("1500", 1_500),
            ("1,500", 1_500),
            (" 12,345,678 ", 12_345_678),
            ("-1,000", -1_000),
        ] {
            assert_eq!(number(text), json!(number_of_it), "{text}");
            assert_eq!(decimal(text), json!(number_of_it), "{text}");
        }
        assert_eq!(decimal("1,234.50"), json!(1234.50));
        for none in ["10,50", "1,5", ",500", "1,,000", "1234,567", "1.000,50", "5,", "many", ""] {
            assert_eq!(number(none), json!(none));
            assert_eq!(decimal(none), json!(none));
        }
        assert_eq!(number("1.5"), json!("1.5"));
    }

    #[test]
    fn lists_and_members_are_written_in_lines() {
        assert_eq!(words(" a\nb  c "), json!(["a", "b", "c"]));
        assert_eq!(members("a: 1\n\n b = x=y "), Some(json!({"a": "1", "b": "x=y"})));
        assert_eq!(members("no name"), None);
        assert_eq!(members(": value"), None);
    }
}
