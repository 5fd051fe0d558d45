//! The tag of a call: a word of the customer's own, by which it tells apart what it spends.

use std::str::FromStr;
use std::sync::Arc;

/// The most bytes of a tag.
pub const TAG_BYTES_MAX: usize = 64;

/// A tag: 1 to 64 letters, digits and `.`, `_`, `:`, `/`, `-`; the first is a letter or a digit.
/// Cloning it is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallTag(Arc<str>);

/// A text that cannot be a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a tag has 1 to 64 letters, digits, `.`, `_`, `:`, `/` or `-`, and begins with a letter or a digit"
)]
pub struct MalformedTag;

impl CallTag {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CallTag {
    type Err = MalformedTag;

    fn from_str(text: &str) -> Result<Self, MalformedTag> {
        let is_usable = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'/' | b'-')
        };
        let begins_well = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if begins_well && text.len() <= TAG_BYTES_MAX && text.bytes().all(is_usable) {
            Ok(Self(text.into()))
        } else {
            Err(MalformedTag)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_customers_are_tags() {
        let longest = "a".repeat(TAG_BYTES_MAX);
        for text in ["a", "7", "team-a/nightly_sync:2.1", &longest] {
            assert_eq!(text.parse::<CallTag>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = "a".repeat(TAG_BYTES_MAX + 1);
        for text in ["", " ", "a b", "-a", "/a", "=1+1", "é", "a,b", "a\"b", &long] {
            assert_eq!(text.parse::<CallTag>(), Err(MalformedTag), "{text:?}");
        }
    }
}
