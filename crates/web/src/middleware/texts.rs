//! Writes header values for one response, one after another into the same buffer.

use bytes::BytesMut;
use http::HeaderValue;

/// Initial capacity; it grows if needed.
const ROOM_BYTES: usize = 128;

/// A buffer that values are written into, part by part.
#[derive(Debug)]
pub struct HeaderTexts(BytesMut);

impl Default for HeaderTexts {
    fn default() -> Self {
        Self::new()
    }
}

impl HeaderTexts {
    /// An empty buffer.
    pub fn new() -> Self {
        Self(BytesMut::with_capacity(ROOM_BYTES))
    }

    /// Adds a word.
    pub fn word(&mut self, word: &str) -> &mut Self {
        self.0.extend_from_slice(word.as_bytes());
        self
    }

    /// Adds a number.
    pub fn number<N: itoa::Integer>(&mut self, number: N) -> &mut Self {
        self.word(itoa::Buffer::new().format(number))
    }

    /// The value written so far; the next one begins empty. Text that is not allowed in a header
    /// becomes an empty value; numbers are always allowed.
    pub fn value(&mut self) -> HeaderValue {
        let value = HeaderValue::from_maybe_shared(self.0.split().freeze());
        value.unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_was_written_since_the_last_one() {
        let mut texts = HeaderTexts::new();

        let first = texts.word("r=").number(7_u32).word(";t=").number(-3_i64).value();
        let second = texts.number(u64::MAX).value();

        assert_eq!(
            (first.as_bytes(), second.as_bytes()),
            (&b"r=7;t=-3"[..], &b"18446744073709551615"[..])
        );
    }

    #[test]
    fn text_that_is_not_allowed_in_a_header_is_left_out() {
        let mut texts = HeaderTexts::new();

        assert_eq!(texts.word("a\nb").value(), "");
        assert_eq!(texts.word("c").value(), "c");
    }
}
