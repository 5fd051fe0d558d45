//! Reads the fields of a rule: each field is read once, with its limits, and unknown fields are
//! mistakes. A mistake names its field.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMistake {
    /// Its name.
    pub field: String,
    /// Why it is invalid, to be read after the name.
    pub problem: String,
}

impl FieldMistake {
    /// A mistake in the field of this name.
    pub fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

/// A field of a kind of fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultField {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) value: FieldValue,
}

/// The possible values of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldValue {
    Number {
        default: u64,
        least: u64,
        most: u64,
    },
    Text {
        default: &'static str,
    },
    /// An object of texts; empty by default.
    Headers,
    /// Any JSON; absent by default.
    Json,
}

impl FaultField {
    pub(super) const fn number(
        name: &'static str,
        says: &'static str,
        default: u64,
        least: u64,
        most: u64,
    ) -> Self {
        Self { name, says, value: FieldValue::Number { default, least, most } }
    }

    pub(super) const fn text(
        name: &'static str,
        says: &'static str,
        default: &'static str,
    ) -> Self {
        Self { name, says, value: FieldValue::Text { default } }
    }

    /// The field as the catalogue shows it.
    pub(super) fn shown(&self) -> Value {
        let (name, says) = (self.name, self.says);
        match self.value {
            FieldValue::Number { default, least, most } => json!({
                "name": name, "says": says, "default": default, "least": least, "most": most,
            }),
            FieldValue::Text { default } => json!({"name": name, "says": says, "default": default}),
            FieldValue::Headers => json!({"name": name, "says": says, "default": {}}),
            FieldValue::Json => json!({"name": name, "says": says, "default": null}),
        }
    }
}

/// The fields that were sent, and those that have been read.
pub(super) struct SentFields {
    sent: Map<String, Value>,
    used: Map<String, Value>,
}

impl SentFields {
    pub(super) fn of(sent: Map<String, Value>) -> Self {
        Self { sent, used: Map::new() }
    }

    /// A text; `None` if it is absent or null.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, FieldMistake> {
        match self.sent.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => {
                self.used.insert(name.to_owned(), json!(text));
                Ok(Some(text))
            }
            Some(_) => Err(FieldMistake::new(name, "must be a non-empty text")),
        }
    }

    /// A whole number within limits; `None` if it is absent or null.
    pub(super) fn whole(
        &mut self,
        name: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, FieldMistake> {
        let number = match self.sent.remove(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(number) => number.as_u64().filter(|number| (least..=most).contains(number)),
        };
        let problem = || format!("must be a whole number from {least} to {most}");
        let number = number.ok_or_else(|| FieldMistake::new(name, problem()))?;
        self.used.insert(name.to_owned(), json!(number));
        Ok(Some(number))
    }

    /// A probability; `None` if it is absent or null.
    pub(super) fn probability(&mut self, name: &str) -> Result<Option<f64>, FieldMistake> {
        let number = match self.sent.remove(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(number) => number.as_f64().filter(|number| *number > 0.0 && *number <= 1.0),
        };
        let number = number
            .ok_or_else(|| FieldMistake::new(name, "must be a number above 0 and up to 1"))?;
        self.used.insert(name.to_owned(), json!(number));
        Ok(Some(number))
    }

    /// A boolean; `None` if it is absent or null.
    pub(super) fn truth(&mut self, name: &str) -> Result<Option<bool>, FieldMistake> {
        match self.sent.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(truth)) => {
                self.used.insert(name.to_owned(), json!(truth));
                Ok(Some(truth))
            }
            Some(_) => Err(FieldMistake::new(name, "must be true or false")),
        }
    }

    /// The number in a field of a kind.
    pub(super) fn number(&mut self, field: &FaultField) -> Result<u64, FieldMistake> {
        let FieldValue::Number { default, least, most } = field.value else {
            return Ok(0);
        };
        let number = self.whole(field.name, least, most)?.unwrap_or(default);
        self.used.insert(field.name.to_owned(), json!(number));
        Ok(number)
    }

    /// The number in a field of a kind, as a size in memory.
    pub(super) fn size(&mut self, field: &FaultField) -> Result<usize, FieldMistake> {
        Ok(usize::try_from(self.number(field)?).unwrap_or(usize::MAX))
    }

    /// The text in a field of a kind, as the value of a header.
    pub(super) fn header_value(&mut self, field: &FaultField) -> Result<HeaderValue, FieldMistake> {
        let FieldValue::Text { default } = field.value else {
            return Ok(HeaderValue::from_static(""));
        };
        let text = self.text(field.name)?.unwrap_or_else(|| default.to_owned());
        self.used.insert(field.name.to_owned(), json!(text));
        HeaderValue::from_str(&text)
            .map_err(|_| FieldMistake::new(field.name, "must be a valid header value"))
    }

    /// The text in a field of a kind.
    pub(super) fn words(&mut self, field: &FaultField) -> Result<String, FieldMistake> {
        let FieldValue::Text { default } = field.value else {
            return Ok(String::new());
        };
        let text = self.text(field.name)?.unwrap_or_else(|| default.to_owned());
        self.used.insert(field.name.to_owned(), json!(text));
        Ok(text)
    }

    /// The headers in a field of a kind.
    pub(super) fn headers(&mut self, field: &FaultField) -> Result<HeaderMap, FieldMistake> {
        let sent = match self.sent.remove(field.name) {
            None | Some(Value::Null) => return Ok(HeaderMap::new()),
            Some(Value::Object(sent)) => sent,
            Some(_) => return Err(FieldMistake::new(field.name, "must be an object of texts")),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &sent {
            let text = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
            let Some((name, text)) = HeaderName::from_bytes(name.as_bytes()).ok().zip(text) else {
                let place = format!("{}.{name}", field.name);
                return Err(FieldMistake::new(&place, "must be a header with a text"));
            };
            headers.append(name, text);
        }
        self.used.insert(field.name.to_owned(), Value::Object(sent));
        Ok(headers)
    }

    /// The JSON in a field of a kind.
    pub(super) fn json(&mut self, field: &FaultField) -> Option<Value> {
        let sent = self.sent.remove(field.name)?;
        self.used.insert(field.name.to_owned(), sent.clone());
        Some(sent)
    }

    /// All fields that were read. Fails if any others are left; `known` are the possible fields.
    pub(super) fn finish(self, known: &[&str]) -> Result<Map<String, Value>, FieldMistake> {
        match self.sent.keys().next() {
            None => Ok(self.used),
            Some(unknown) => {
                let problem = format!("is unknown; expected one of {}", known.join(", "));
                Err(FieldMistake::new(unknown, problem))
            }
        }
    }
}
