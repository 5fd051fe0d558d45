//! Customers and cards.

use serde::Deserialize;

use super::{ExpandableObject, ObjectMetadata, or_default};

/// A customer of the processor.
#[derive(Debug, Clone, Deserialize)]
pub struct ProcessorCustomer {
    /// `cus_…`
    pub id: String,
    /// Its mail address.
    #[serde(default)]
    pub email: Option<String>,
    /// Whether it was deleted; then nothing else is known.
    #[serde(default, deserialize_with = "or_default")]
    pub deleted: bool,
    /// How its invoices are paid.
    #[serde(default, deserialize_with = "or_default")]
    pub invoice_settings: InvoiceSettings,
    /// What we know it by: `customer_id`.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// What is settled with its next invoice, in the currency's smallest unit: below zero it is the
    /// customer's credit, above zero the customer owes it. Items that wait for the next invoice are
    /// not in it.
    #[serde(default, deserialize_with = "or_default")]
    pub balance: i64,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
}

impl ProcessorCustomer {
    /// The customer of ours that it was made for, if it says so.
    pub fn made_for(&self) -> Option<&str> {
        self.metadata.get("customer_id").map(String::as_str)
    }
}

/// How a customer's invoices are paid.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct InvoiceSettings {
    /// The card.
    #[serde(default)]
    pub default_payment_method: Option<ExpandableObject<PaymentMethod>>,
}

/// A way to pay; here a card.
#[derive(Debug, Clone, Deserialize)]
pub struct PaymentMethod {
    /// `pm_…`
    pub id: String,
    /// `card`
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    pub kind: String,
    /// The card.
    #[serde(default)]
    pub card: Option<ProcessorCard>,
    /// Whose it is; none when it was detached.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
}

/// What may be known of a card.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ProcessorCard {
    /// Such as `visa`.
    #[serde(default, deserialize_with = "or_default")]
    pub brand: String,
    /// The last four digits.
    #[serde(default, deserialize_with = "or_default")]
    pub last4: String,
    /// The month it ends with, 1 to 12.
    #[serde(default, deserialize_with = "or_default")]
    pub exp_month: i64,
    /// The year it ends in, four digits.
    #[serde(default, deserialize_with = "or_default")]
    pub exp_year: i64,
    /// The same for the same card number.
    #[serde(default)]
    pub fingerprint: Option<String>,
}
