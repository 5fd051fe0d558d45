//! Lines of TOML, as catalogue files have them.

use std::fmt::Write as _;

pub(crate) fn line(text: &mut String, key: &str, value: &str) {
    // Writing into a String cannot fail.
    let _infallible = writeln!(text, "{key} = {value}");
}

pub(crate) fn pairs_text(pairs: &[(String, String)]) -> String {
    let tables: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{{ name = {}, value = {} }}", quoted(name), quoted(value)))
        .collect();
    format!("[{}]", tables.join(", "))
}

/// A TOML basic string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            control if control.is_control() => {
                let _infallible = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
