//! The writes that a platform accepted. At the next start they are replayed through the same
//! handlers, in the same order, with their original times, which restores the state.

use serde::{Deserialize, Serialize};

/// One accepted write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JournalEntry {
    /// The number of the creator; `None` for routes that need no credentials.
    pub(crate) creator: Option<usize>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) content_type: Option<String>,
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) body: String,
    /// The body in hexadecimal digits, if it is not text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) body_hex: String,
    pub(crate) at_ms: i64,
    pub(crate) status: u16,
}

impl JournalEntry {
    /// Stores the body in the fitting field.
    pub(crate) fn set_body(&mut self, body: &[u8]) {
        match std::str::from_utf8(body) {
            Ok(text) => text.clone_into(&mut self.body),
            Err(_) => self.body_hex = hex::encode(body),
        }
    }

    /// The body as received.
    pub(crate) fn body(&self) -> Vec<u8> {
        if self.body_hex.is_empty() {
            self.body.clone().into_bytes()
        } else {
            hex::decode(&self.body_hex).unwrap_or_default()
        }
    }
}
