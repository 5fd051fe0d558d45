//! JSON lines: each row as the platform gave it, byte for byte, one a line.

use std::borrow::Cow;

/// A row without its line breaks and outer spaces, for platforms that write their JSON over several lines. In
/// valid JSON a line break stands between two tokens only, and no two tokens need one to be told apart; so the
/// value stays the same, to the byte wherever there was none.
pub fn one_line(row: &str) -> Cow<'_, str> {
    let trimmed = row.trim_matches([' ', '\t', '\r', '\n']);
    let bytes = trimmed.as_bytes();
    if bytes.contains(&b'\n') || bytes.contains(&b'\r') {
        Cow::Owned(trimmed.replace(['\n', '\r'], ""))
    } else {
        Cow::Borrowed(trimmed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_row_over_several_lines_becomes_one() {
        assert_eq!(one_line("{\r\n  \"a\": \"b\\n\"\n}\n"), "{  \"a\": \"b\\n\"}");
        assert!(matches!(one_line("{\"a\": 1}"), Cow::Borrowed("{\"a\": 1}")));
    }

    proptest! {
        #[test]
        fn every_row_is_read_back_equal_from_its_own_line(
            rows in proptest::collection::vec(("[a\\n\\r\"]{0,4}", "\\PC{0,8}|[\\x00-\\x20]{0,4}"), 0..6)
        ) {
            let values: Vec<Value> = rows.iter().map(|(name, text)| json!({ name.as_str(): text })).collect();
            let pretty: Vec<String> =
                values.iter().map(|value| serde_json::to_string_pretty(value).unwrap()).collect();
            let lines: Vec<Cow<'_, str>> = pretty.iter().map(|row| one_line(row)).collect();

            prop_assert!(lines.iter().all(|line| !line.contains(['\n', '\r'])));
            let read: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            prop_assert_eq!(read, values);
        }
    }
}
