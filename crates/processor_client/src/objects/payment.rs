//! Payment intents.

use serde::Deserialize;

use super::{
    CardCharge, ClientSecret, ExpandableObject, ObjectMetadata, PaymentMethod, ProcessorCustomer,
    ProcessorInvoice, or_default, words,
};

words! {
    /// Where a payment stands.
    IntentStatus {
        /// It needs a card, for instance because the last one was declined.
        RequiresPaymentMethod = "requires_payment_method",
        /// It has a card and was not confirmed.
        RequiresConfirmation = "requires_confirmation",
        /// The customer must authenticate.
        RequiresAction = "requires_action",
        /// It is under way; an event tells its end.
        Processing = "processing",
        /// The money is set aside.
        RequiresCapture = "requires_capture",
        /// It ended without a payment.
        Canceled = "canceled",
        /// It is paid.
        Succeeded = "succeeded",
    }
}

/// One payment.
#[derive(Debug, Clone, Deserialize)]
pub struct PaymentIntent {
    /// `pi_…`
    pub id: String,
    /// What is to be paid.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// What was paid.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_received: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// Where it stands.
    #[serde(default, deserialize_with = "or_default")]
    pub status: IntentStatus,
    /// Who pays.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// The card.
    #[serde(default)]
    pub payment_method: Option<ExpandableObject<PaymentMethod>>,
    /// What the customer's browser needs to go on.
    #[serde(default)]
    pub client_secret: Option<ClientSecret>,
    /// What the customer must do.
    #[serde(default)]
    pub next_action: Option<NextAction>,
    /// Why the last attempt failed.
    #[serde(default)]
    pub last_payment_error: Option<PaymentFault>,
    /// Its last charge.
    #[serde(default)]
    pub latest_charge: Option<ExpandableObject<CardCharge>>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// The invoice it pays; only older versions say so.
    #[serde(default)]
    pub invoice: Option<ExpandableObject<ProcessorInvoice>>,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
}

/// What the customer must do before a payment can go on.
#[derive(Debug, Clone, Deserialize)]
pub struct NextAction {
    /// `use_stripe_sdk` or `redirect_to_url`.
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    pub kind: String,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Deserialize)]
pub struct PaymentFault {
    /// Such as `card_declined`.
    #[serde(default)]
    pub code: Option<String>,
    /// The bank's reason.
    #[serde(default)]
    pub decline_code: Option<String>,
    /// For people.
    #[serde(default)]
    pub message: Option<String>,
    /// The card that failed.
    #[serde(default)]
    pub payment_method: Option<ExpandableObject<PaymentMethod>>,
}

impl PaymentIntent {
    /// The customer's id.
    pub fn customer_id(&self) -> Option<&str> {
        self.customer.as_ref().map(ExpandableObject::id)
    }

    /// The card's id, also of the one that was declined last.
    pub fn payment_method_id(&self) -> Option<&str> {
        let declined = || self.last_payment_error.as_ref()?.payment_method.as_ref();
        self.payment_method.as_ref().or_else(declined).map(ExpandableObject::id)
    }
}
