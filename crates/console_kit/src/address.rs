//! Addresses: values put into paths and queries so that they stay one value.

use std::fmt::Write;

/// Writes a value as one segment of a path (RFC 3986, section 3.3). Dots alone would be a way up,
/// so they are written as `%2E`, and nothing but unreserved characters stays as it is.
pub fn segment(value: &str) -> String {
    if matches!(value, "." | "..") {
        return value.replace('.', "%2E");
    }
    encoded(value, "")
}

/// Writes everything but unreserved characters and those in `kept` as `%XX`.
pub fn encoded(value: &str, kept: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        let letter = char::from(byte);
        let is_plain = byte.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | '~');
        if is_plain || (byte.is_ascii() && kept.contains(letter)) {
            text.push(letter);
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// A query of the pairs that have a value, with its `?`; empty if none has.
pub fn query(pairs: &[(&str, &str)]) -> String {
    let kept: Vec<_> = pairs.iter().filter(|(_, value)| !value.is_empty()).collect();
    let text = serde_urlencoded::to_string(&kept).unwrap_or_default();
    if text.is_empty() { text } else { format!("?{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_segment() {
        for (value, segment_of_it) in [
            ("me", "me"),
            ("a/b", "a%2Fb"),
            ("..", "%2E%2E"),
            (".", "%2E"),
            ("...", "..."),
            ("a b?c#d%e", "a%20b%3Fc%23d%25e"),
            ("ä", "%C3%A4"),
            ("", ""),
        ] {
            assert_eq!(segment(value), segment_of_it, "{value:?}");
        }
    }

    #[test]
    fn empty_values_stay_out_of_addresses() {
        assert_eq!(query(&[("account", "a"), ("q", "")]), "?account=a");
        assert_eq!(query(&[("q", "a&b")]), "?q=a%26b");
        assert_eq!(query(&[("q", "")]), "");
    }
}
