//! Values of headers that are written for one answer, in one piece of memory.

use std::fmt::{Arguments, Write as _};

use bytes::BytesMut;
use http::HeaderValue;

/// Where the values are written, one behind the other.
#[derive(Debug)]
pub(crate) struct Texts(BytesMut);

impl Texts {
    /// With room for values of so many bytes together; more is made where it is needed.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(BytesMut::with_capacity(bytes))
    }

    /// Writes one. What cannot stand in a header becomes an empty value; no number can do that.
    pub(crate) fn value(&mut self, text: Arguments<'_>) -> HeaderValue {
        let is_whole = self.0.write_fmt(text).is_ok();
        let written = self.0.split().freeze();
        let value = HeaderValue::from_maybe_shared(written).ok().filter(|_| is_whole);
        value.unwrap_or_else(|| HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_for_themselves_also_when_there_are_more_of_them_than_was_thought() {
        let mut texts = Texts::with_capacity(4);

        let values: Vec<_> = (0..100).map(|number| texts.value(format_args!("{number}"))).collect();

        for (number, value) in values.iter().enumerate() {
            assert_eq!(value, number.to_string().as_str());
        }
    }

    #[test]
    fn what_cannot_stand_in_a_header_is_left_out() {
        let mut texts = Texts::with_capacity(4);

        assert_eq!(texts.value(format_args!("a\nb")), "");
        assert_eq!(texts.value(format_args!("c")), "c");
    }
}
