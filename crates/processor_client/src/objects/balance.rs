//! Movements of a customer's balance.

use serde::Deserialize;

use super::{ExpandableObject, ObjectMetadata, ProcessorCustomer, ProcessorInvoice, or_default};

/// One movement of a customer's balance.
#[derive(Debug, Clone, Deserialize)]
pub struct BalanceTransaction {
    /// `cbtxn_…`
    pub id: String,
    /// In the currency's smallest unit: above zero the customer owes more, below zero it is credit.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// The balance after it, with the same sign.
    #[serde(default, deserialize_with = "or_default")]
    pub ending_balance: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// Why: `adjustment` (by a request), `applied_to_invoice`, `unapplied_from_invoice` (its
    /// invoice was voided), `invoice_too_small` and others.
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    pub kind: String,
    /// Whose it is.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// The invoice that moved it, if one did.
    #[serde(default)]
    pub invoice: Option<ExpandableObject<ProcessorInvoice>>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
}
