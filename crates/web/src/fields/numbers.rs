//! Numbers in requests: which ones are whole, and amounts that keep the digits they were written
//! with.

use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use super::shape::WHOLE_MAX;

/// The number as an integer if it is whole, even if written as `548.0` or `1e2`, as JSON Schema
/// defines it.
pub(super) fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| whole_of(number.as_f64()?))
}

#[expect(clippy::cast_possible_truncation, reason = "the value is whole and within ±2^53")]
#[expect(clippy::cast_precision_loss, reason = "the limit is below 2^53")]
fn whole_of(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= WHOLE_MAX as f64).then_some(value as i64)
}

/// Parses a number in a query, which is written as in JSON.
pub(super) fn written(text: &str) -> Option<Number> {
    text.parse().ok()
}

/// A decimal number as its shortest digits, so that two decimals stay two decimals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecimalNumber(pub String);

impl<'de> Deserialize<'de> for DecimalNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Number::deserialize(from).map(|number| Self(digits(&number)))
    }
}

/// The digits of a number. A whole number has no exponent: `100` for `1e2`.
pub(super) fn digits(number: &Number) -> String {
    whole(number).map_or_else(|| number.to_string(), |whole| whole.to_string())
}

/// The number, as an integer if its fraction is zero.
pub(super) fn normal(number: &Number) -> Value {
    whole(number).map_or_else(|| Value::Number(number.clone()), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<i64> {
        whole(&written(text)?)
    }

    #[test]
    fn a_whole_number_is_recognized_however_it_is_written() {
        for text in ["548", "548.0", "5.48e2", "548.000"] {
            assert_eq!(read(text), Some(548), "{text}");
        }
        assert_eq!(read("1e2"), Some(100));
        assert_eq!(read("-0.0"), Some(0));
        assert_eq!(read("9007199254740991"), Some(WHOLE_MAX));
    }

    #[test]
    fn other_texts_are_not_whole_numbers() {
        for text in ["548.5", "1e-2", "", "05", "+5", " 5", "0x5", "NaN", "1e400", "five", "1e20"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn an_amount_keeps_its_decimals() {
        for (text, kept) in [
            ("19.99", "19.99"),
            ("20.00", "20"),
            ("50.5", "50.5"),
            ("1e2", "100"),
            ("0.001", "0.001"),
        ] {
            assert_eq!(
                serde_json::from_str::<DecimalNumber>(text).unwrap(),
                DecimalNumber(kept.to_owned()),
                "{text}"
            );
        }
    }
}
