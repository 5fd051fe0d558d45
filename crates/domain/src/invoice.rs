//! Invoices: their ids and states.

use crate::wire::text_enum;

text_enum! {
    /// The state of an invoice that is no draft any more.
    InvoiceState, "one of open, paid, uncollectible, void" {
        /// It is to be paid.
        Open = "open",
        /// It is paid, or there was nothing to pay.
        Paid = "paid",
        /// The operator does not expect it to be paid.
        Uncollectible = "uncollectible",
        /// It was taken back; nothing is to be paid.
        Void = "void",
    }
}

/// The id of an invoice at the payment processor.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct InvoiceId(String);

impl InvoiceId {
    /// As a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for InvoiceId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
