//! Sessions of hosted pages.

use serde::Deserialize;

use super::{
    ExpandableObject, ListPage, ObjectMetadata, PaymentIntent, PaymentMethod, ProcessorCustomer,
    ProcessorInvoice, ProcessorPrice, ProcessorSubscription, or_default, words,
};

words! {
    /// Whether a page can still be used.
    SessionStatus {
        /// It can.
        Open = "open",
        /// It was paid, or the payment is under way.
        Complete = "complete",
        /// Its time is over.
        Expired = "expired",
    }
}

words! {
    /// Whether a session was paid.
    PaymentStatus {
        /// It was.
        Paid = "paid",
        /// It was not, or not yet.
        Unpaid = "unpaid",
        /// There was nothing to pay.
        NothingToPay = "no_payment_required",
    }
}

/// A page on which something is bought.
#[derive(Debug, Clone, Deserialize)]
pub struct CheckoutSession {
    /// `cs_…`
    pub id: String,
    /// `payment`, `subscription` or `setup`.
    #[serde(default, deserialize_with = "or_default")]
    pub mode: String,
    /// Whether it can still be used.
    #[serde(default, deserialize_with = "or_default")]
    pub status: SessionStatus,
    /// Whether it was paid.
    #[serde(default, deserialize_with = "or_default")]
    pub payment_status: PaymentStatus,
    /// Where the page is, while it is open.
    #[serde(default)]
    pub url: Option<String>,
    /// Who buys.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// What we know it by.
    #[serde(default)]
    pub client_reference_id: Option<String>,
    /// The payment, of a session that makes one.
    #[serde(default)]
    pub payment_intent: Option<ExpandableObject<PaymentIntent>>,
    /// The saving of a card, of a session that does that.
    #[serde(default)]
    pub setup_intent: Option<ExpandableObject<SetupIntent>>,
    /// The subscription, of a session that makes one.
    #[serde(default)]
    pub subscription: Option<ExpandableObject<ProcessorSubscription>>,
    /// The first invoice of it.
    #[serde(default)]
    pub invoice: Option<ExpandableObject<ProcessorInvoice>>,
    /// The lines of what is bought, where they were asked for.
    #[serde(default)]
    pub line_items: Option<ListPage<CheckoutLineItem>>,
    /// What is bought, before discounts and tax.
    #[serde(default)]
    pub amount_subtotal: Option<i64>,
    /// What is to be paid: after discounts, with tax.
    #[serde(default)]
    pub amount_total: Option<i64>,
    /// What makes the difference between the two.
    #[serde(default, deserialize_with = "or_default")]
    pub total_details: TotalDetails,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// When the page closes.
    #[serde(default, deserialize_with = "or_default")]
    pub expires_at: i64,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
}

/// One line of what is bought on a page.
#[derive(Debug, Clone, Deserialize)]
pub struct CheckoutLineItem {
    /// `li_…`
    pub id: String,
    /// How many.
    #[serde(default)]
    pub quantity: Option<i64>,
    /// What they cost together, before discounts and tax.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_subtotal: i64,
    /// What one costs.
    #[serde(default)]
    pub price: Option<ProcessorPrice>,
}

/// What makes the difference between what is bought and what is paid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct TotalDetails {
    /// What came off by discounts.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_discount: i64,
    /// What was added as tax.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_tax: i64,
}

/// The saving of a card without a payment.
#[derive(Debug, Clone, Deserialize)]
pub struct SetupIntent {
    /// `seti_…`
    pub id: String,
    /// The card.
    #[serde(default)]
    pub payment_method: Option<ExpandableObject<PaymentMethod>>,
}

/// A page of the portal.
#[derive(Debug, Clone, Deserialize)]
pub struct PortalSession {
    /// `bps_…`
    pub id: String,
    /// Where it is; for one use, soon.
    pub url: String,
}

/// What the portal offers.
#[derive(Debug, Clone, Deserialize)]
pub struct PortalConfiguration {
    /// `bpc_…`
    pub id: String,
    /// Whether it may be used.
    #[serde(default, deserialize_with = "or_default")]
    pub active: bool,
    /// What customers may do.
    #[serde(default, deserialize_with = "or_default")]
    pub features: PortalFeatures,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
}

/// What customers may do in the portal.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PortalFeatures {
    /// End a subscription.
    #[serde(default, deserialize_with = "or_default")]
    pub subscription_cancel: PortalFeature,
    /// Change plans and quantities.
    #[serde(default, deserialize_with = "or_default")]
    pub subscription_update: PortalFeature,
}

/// One thing that customers may do in the portal.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PortalFeature {
    /// Whether they may.
    #[serde(default, deserialize_with = "or_default")]
    pub enabled: bool,
    /// When it happens, such as `at_period_end`.
    #[serde(default, deserialize_with = "or_default")]
    pub mode: String,
}

impl CheckoutSession {
    /// The customer's id.
    pub fn customer_id(&self) -> Option<&str> {
        self.customer.as_ref().map(ExpandableObject::id)
    }

    /// The payment's id.
    pub fn payment_intent_id(&self) -> Option<&str> {
        self.payment_intent.as_ref().map(ExpandableObject::id)
    }

    /// The card that paid or was saved, where it was asked for.
    pub fn payment_method(&self) -> Option<&ExpandableObject<PaymentMethod>> {
        let of_payment = || self.payment_intent.as_ref()?.object()?.payment_method.as_ref();
        let of_setup = || self.setup_intent.as_ref()?.object()?.payment_method.as_ref();
        of_payment().or_else(of_setup)
    }

    /// Whether what was bought may be given.
    pub const fn is_paid(&self) -> bool {
        matches!(self.payment_status, PaymentStatus::Paid | PaymentStatus::NothingToPay)
    }
}
