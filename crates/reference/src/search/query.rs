//! What a visitor typed, as it stands in an address.

/// A longer text is cut: nobody types more.
const LENGTH_MAX: usize = 200;
/// More words make a search slower and find nothing.
const WORDS_MAX: usize = 12;

/// The value of a parameter, without spaces around it; empty if it is absent.
pub(crate) fn value(raw: &str, name: &str) -> String {
    let mut pairs = form_urlencoded::parse(raw.as_bytes());
    let found = pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    found.unwrap_or_default().trim().chars().take(LENGTH_MAX).collect()
}

/// The words to look for, in lower case.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().take(WORDS_MAX).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_decoded_trimmed_and_cut() {
        assert_eq!(value("a=1&q=%20missing+key%20", "q"), "missing key");
        assert_eq!(value("a=1", "q"), "");
        assert_eq!(value(&format!("q={}", "x".repeat(500)), "q").len(), 200);
        assert_eq!(words("  Missing  KEY "), ["missing", "key"]);
        assert_eq!(value(&format!("q={}", "ü".repeat(500)), "q").chars().count(), 200);
        assert_eq!(value("q=a&q=b", "q"), "a");
        assert_eq!(value("q=%ff%zz+&", "q"), "\u{fffd}%zz");
        assert_eq!(words(&"a ".repeat(50)).len(), 12);
        assert_eq!(words(" \u{2003} "), [""; 0]);
    }
}
