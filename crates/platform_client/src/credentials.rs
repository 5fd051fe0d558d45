//! The secrets of one connected account.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use zeroize::Zeroizing;

/// The fields that a customer connected an account with, and what a refresh put in their place.
///
/// Values are wiped from memory when this is dropped, and do not show in debug output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AccountCredentials {
    fields: BTreeMap<String, Zeroizing<String>>,
    /// Which account it is, where somebody said.
    account: String,
}

/// Bytes that are not a JSON object of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a JSON object of credentials")]
pub struct MalformedCredentials;

impl AccountCredentials {
    /// Reads a JSON object. Strings stay as they are, `null` is left out, and any other value is
    /// kept as its JSON text.
    pub fn from_json(json: &[u8]) -> Result<Self, MalformedCredentials> {
        let fields: BTreeMap<String, Value> =
            serde_json::from_slice(json).map_err(|_| MalformedCredentials)?;
        let kept = fields.into_iter().filter_map(|(field, value)| match value {
            Value::Null => None,
            Value::String(text) => Some((field, Zeroizing::new(text))),
            other => Some((field, Zeroizing::new(other.to_string()))),
        });
        Ok(Self { fields: kept.collect(), account: String::new() })
    }

    /// The same as those of this account. The label tells it from every other one, and never
    /// changes; it is not sealed with them, and no platform is told it.
    #[must_use]
    pub fn of_account(self, label: impl Into<String>) -> Self {
        Self { account: label.into(), ..self }
    }

    /// The label of the account; empty where nobody said which it is.
    pub(super) fn account(&self) -> &str {
        &self.account
    }

    /// Writes a JSON object of strings, to be sealed. The bytes are wiped when dropped.
    pub fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let fields: BTreeMap<&str, &str> =
            self.fields.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
        // Sized in advance, because a buffer that grows leaves copies of the secrets behind it.
        let bytes =
            fields.iter().map(|(field, value)| field.len() + 6 * value.len() + 8).sum::<usize>();
        let mut json = Zeroizing::new(Vec::with_capacity(bytes + 2));
        match serde_json::to_writer(&mut *json, &fields) {
            Ok(()) => json,
            // Strings under string keys always have a JSON form, and a vector takes all bytes.
            Err(_) => Zeroizing::new(b"{}".to_vec()),
        }
    }

    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(|value| value.as_str())
    }

    /// Puts a value in place of what the field held.
    pub fn set(&mut self, field: &str, value: impl Into<Zeroizing<String>>) {
        self.fields.insert(field.to_owned(), value.into());
    }

    /// The names of the fields, sorted.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// The fields whose values cannot stand in a header: empty ones, and those that hold something
    /// else than visible ASCII and inner spaces. Such credentials are refused before they are
    /// stored.
    pub fn unsendable(&self) -> impl Iterator<Item = &str> {
        let is_unsendable = |value: &str| {
            value.is_empty()
                || value.trim() != value
                || !value.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
        };
        self.fields
            .iter()
            .filter(move |(_, value)| is_unsendable(value))
            .map(|(field, _)| field.as_str())
    }
}

impl fmt::Debug for AccountCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.fields.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_read_back_as_they_were_sealed() {
        let mut credentials = AccountCredentials::from_json(
            br#"{"token":"a\"b\u00e9","expires_at":17,"extra":{"k":[1]},"gone":null}"#,
        )
        .unwrap();
        credentials.set("refresh_token", "r".to_owned());

        let again = AccountCredentials::from_json(&credentials.to_json()).unwrap();

        assert_eq!(again, credentials);
        assert_eq!(again.get("token"), Some("a\"bé"));
        assert_eq!(again.get("expires_at"), Some("17"));
        assert_eq!(again.get("extra"), Some(r#"{"k":[1]}"#));
        assert_eq!(again.get("refresh_token"), Some("r"));
        assert_eq!(again.get("gone"), None);
        assert_eq!(again.fields().count(), 4);
    }

    #[test]
    fn other_json_than_an_object_is_refused() {
        for json in ["", "[]", "\"token\"", "{\"token\":", "null"] {
            assert_eq!(
                AccountCredentials::from_json(json.as_bytes()),
                Err(MalformedCredentials),
                "{json}"
            );
        }
    }

    #[test]
    fn debug_output_names_fields_and_no_value() {
        let credentials = AccountCredentials::from_json(br#"{"token":"hush"}"#).unwrap();

        assert_eq!(format!("{credentials:?}"), r#"["token"]"#);
    }

    #[test]
    fn values_that_no_header_can_hold_are_named() {
        let json = br#"{"line":"a\r\nb","empty":"","space":" a","wide":"\u00e9","fine":"a b-c"}"#;
        let credentials = AccountCredentials::from_json(json).unwrap();

        let unsendable: Vec<_> = credentials.unsendable().collect();

        assert_eq!(unsendable, ["empty", "line", "space", "wide"]);
    }
}
