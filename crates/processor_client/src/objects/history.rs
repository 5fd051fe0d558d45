//! Charges, refunds and disputes.

use serde::Deserialize;

use super::{
    ExpandableObject, ObjectMetadata, PaymentIntent, ProcessorCustomer, or_default, words,
};

/// One movement of money from a card.
#[derive(Debug, Clone, Deserialize)]
pub struct CardCharge {
    /// `ch_…`
    pub id: String,
    /// What was taken.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// What of it was given back.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_refunded: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// Whether it succeeded.
    #[serde(default, deserialize_with = "or_default")]
    pub paid: bool,
    /// The address of its receipt; works for a limited time without the customer's email address.
    #[serde(default)]
    pub receipt_url: Option<String>,
    /// Whether it is or was disputed.
    #[serde(default, deserialize_with = "or_default")]
    pub disputed: bool,
    /// Who paid.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// The payment it belongs to.
    #[serde(default)]
    pub payment_intent: Option<ExpandableObject<PaymentIntent>>,
    /// The card.
    #[serde(default)]
    pub payment_method: Option<String>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
}

impl CardCharge {
    /// Whether all of it was given back.
    pub const fn is_refunded(&self) -> bool {
        self.amount_refunded >= self.amount
    }
}

/// Money given back.
#[derive(Debug, Clone, Deserialize)]
pub struct PaymentRefund {
    /// `re_…`
    pub id: String,
    /// How much.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// `pending`, `requires_action`, `succeeded`, `failed` or `canceled`. One that succeeded can
    /// still fail later: then the money is with us again.
    #[serde(default)]
    pub status: Option<String>,
    /// Why it failed, such as `lost_or_stolen_card`.
    #[serde(default)]
    pub failure_reason: Option<String>,
    /// The charge.
    #[serde(default)]
    pub charge: Option<ExpandableObject<CardCharge>>,
    /// The payment.
    #[serde(default)]
    pub payment_intent: Option<ExpandableObject<PaymentIntent>>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
}

words! {
    /// Where a dispute stands.
    DisputeStatus {
        /// The bank asks; no money has moved.
        WarningNeedsResponse = "warning_needs_response",
        /// The bank reads the answer; no money has moved.
        WarningUnderReview = "warning_under_review",
        /// The question was dropped; no money has moved.
        WarningClosed = "warning_closed",
        /// The money is gone; an answer is due.
        NeedsResponse = "needs_response",
        /// The money is gone; the bank reads the answer.
        UnderReview = "under_review",
        /// The money came back.
        Won = "won",
        /// The money is gone for good.
        Lost = "lost",
        /// It was settled before it began.
        Prevented = "prevented",
    }
}

/// A payment that its customer disputes at the bank.
#[derive(Debug, Clone, Deserialize)]
pub struct PaymentDispute {
    /// `dp_…`
    pub id: String,
    /// How much.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// Where it stands.
    #[serde(default, deserialize_with = "or_default")]
    pub status: DisputeStatus,
    /// Why, such as `fraudulent`.
    #[serde(default)]
    pub reason: Option<String>,
    /// The charge.
    #[serde(default)]
    pub charge: Option<ExpandableObject<CardCharge>>,
    /// The payment.
    #[serde(default)]
    pub payment_intent: Option<ExpandableObject<PaymentIntent>>,
    /// Until when it can be answered.
    #[serde(default, deserialize_with = "or_default")]
    pub evidence_details: EvidenceDetails,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
}

/// How a dispute can be answered.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct EvidenceDetails {
    /// Until when evidence is taken, in seconds since 1970; none if it takes none any more.
    #[serde(default)]
    pub due_by: Option<i64>,
}

/// A card network's warning that a payment may be fraudulent. No money has moved.
#[derive(Debug, Clone, Deserialize)]
pub struct EarlyFraudWarning {
    /// `issfr_…`
    pub id: String,
    /// Whether a refund would still help: the payment was neither refunded nor disputed.
    #[serde(default, deserialize_with = "or_default")]
    pub actionable: bool,
    /// What kind of fraud it may be, such as `unauthorized_use_of_card`.
    #[serde(default, deserialize_with = "or_default")]
    pub fraud_type: String,
    /// The charge.
    #[serde(default)]
    pub charge: Option<ExpandableObject<CardCharge>>,
    /// The payment.
    #[serde(default)]
    pub payment_intent: Option<ExpandableObject<PaymentIntent>>,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
}
