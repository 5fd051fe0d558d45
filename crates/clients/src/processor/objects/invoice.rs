//! Invoices and their lines.

use serde::Deserialize;

use super::{
    ClientSecret, Customer, List, Metadata, PaymentIntent, Price, Product, Reference, Subscription,
    or_default, words,
};

words! {
    /// Where an invoice stands.
    InvoiceStatus {
        /// It may still change.
        Draft = "draft",
        /// It is to be paid.
        Open = "open",
        /// It is paid, or there was nothing to pay.
        Paid = "paid",
        /// Nobody expects it to be paid.
        Uncollectible = "uncollectible",
        /// It was taken back.
        Void = "void",
    }
}

/// An invoice, or the preview of one.
#[derive(Debug, Clone, Deserialize)]
pub struct Invoice {
    /// `in_…`; a preview has none that can be asked for.
    #[serde(default, deserialize_with = "or_default")]
    pub id: String,
    /// Who pays.
    #[serde(default)]
    pub customer: Option<Reference<Customer>>,
    /// Where it stands.
    #[serde(default, deserialize_with = "or_default")]
    pub status: InvoiceStatus,
    /// Why it was made: `subscription_create`, `subscription_cycle`, `subscription_update` and others.
    #[serde(default)]
    pub billing_reason: Option<String>,
    /// What is to be paid.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_due: i64,
    /// What was paid.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_paid: i64,
    /// The sum, which is negative when something is given back.
    #[serde(default, deserialize_with = "or_default")]
    pub total: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// What is on it.
    #[serde(default, deserialize_with = "or_default")]
    pub lines: List<InvoiceLine>,
    /// What the customer's browser needs to pay it, where that was asked for.
    #[serde(default)]
    pub confirmation_secret: Option<ConfirmationSecret>,
    /// A page on which the customer can pay it.
    #[serde(default)]
    pub hosted_invoice_url: Option<String>,
    /// How often it was tried to be paid.
    #[serde(default, deserialize_with = "or_default")]
    pub attempt_count: i64,
    /// When a renewal is tried again.
    #[serde(default)]
    pub next_payment_attempt: Option<i64>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
    #[serde(default)]
    paid: Option<bool>,
    #[serde(default)]
    subscription: Option<Reference<Subscription>>,
    #[serde(default)]
    subscription_details: Option<SubscriptionDetails>,
    #[serde(default)]
    parent: Option<Parent>,
    #[serde(default)]
    payment_intent: Option<Reference<PaymentIntent>>,
    #[serde(default, deserialize_with = "or_default")]
    payments: List<InvoicePayment>,
}

/// What a browser needs to pay an invoice.
#[derive(Debug, Clone, Deserialize)]
pub struct ConfirmationSecret {
    /// The secret of its payment.
    pub client_secret: ClientSecret,
}

/// One payment of an invoice.
#[derive(Debug, Clone, Deserialize)]
pub struct InvoicePayment {
    /// The invoice.
    #[serde(default)]
    pub invoice: Option<Reference<Invoice>>,
    /// `open`, `paid` or `canceled`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "or_default")]
    payment: PaymentOfInvoice,
}

/// A time from and until.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Period {
    /// Its first second.
    #[serde(default, deserialize_with = "or_default")]
    pub start: i64,
    /// The second after its last.
    #[serde(default, deserialize_with = "or_default")]
    pub end: i64,
}

/// One line of an invoice.
#[derive(Debug, Clone, Deserialize)]
pub struct InvoiceLine {
    /// `il_…`
    #[serde(default, deserialize_with = "or_default")]
    pub id: String,
    /// What it costs; negative for what is given back.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// How many.
    #[serde(default)]
    pub quantity: Option<i64>,
    /// What it is for.
    #[serde(default, deserialize_with = "or_default")]
    pub period: Period,
    #[serde(default)]
    proration: Option<bool>,
    #[serde(default)]
    price: Option<Price>,
    #[serde(default)]
    pricing: Option<Pricing>,
    #[serde(default)]
    parent: Option<LineParent>,
}

#[derive(Debug, Clone, Deserialize)]
struct Parent {
    #[serde(default)]
    subscription_details: Option<SubscriptionDetails>,
}

#[derive(Debug, Clone, Deserialize)]
struct SubscriptionDetails {
    #[serde(default)]
    subscription: Option<Reference<Subscription>>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct PaymentOfInvoice {
    #[serde(default)]
    payment_intent: Option<Reference<PaymentIntent>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Pricing {
    #[serde(default)]
    price_details: Option<PriceDetails>,
}

#[derive(Debug, Clone, Deserialize)]
struct PriceDetails {
    #[serde(default)]
    price: Option<Reference<Price>>,
    #[serde(default)]
    product: Option<Reference<Product>>,
}

#[derive(Debug, Clone, Deserialize)]
struct LineParent {
    #[serde(default)]
    subscription_item_details: Option<LineDetails>,
    #[serde(default)]
    invoice_item_details: Option<LineDetails>,
}

#[derive(Debug, Clone, Deserialize)]
struct LineDetails {
    #[serde(default, deserialize_with = "or_default")]
    proration: bool,
}

impl Invoice {
    /// The customer's id.
    pub fn customer_id(&self) -> Option<&str> {
        self.customer.as_ref().map(Reference::id)
    }

    /// The subscription's id.
    pub fn subscription_id(&self) -> Option<&str> {
        let details = self.details().and_then(|details| details.subscription.as_ref());
        details.or(self.subscription.as_ref()).map(Reference::id)
    }

    /// What the subscription was known by when the invoice was made.
    pub fn subscription_metadata(&self) -> Option<&Metadata> {
        self.details().map(|details| &details.metadata)
    }

    /// The id of the payment that paid it or is to pay it; none when nothing was to be paid, or where payments
    /// were not asked for.
    pub fn payment_intent_id(&self) -> Option<&str> {
        let intents = || self.payments.data.iter().map(|of| (of, of.payment_intent_id()));
        let paid = intents().find(|(of, id)| of.status == "paid" && id.is_some());
        let any = || intents().find(|(_, id)| id.is_some());
        let of_payments = paid.or_else(any).and_then(|(_, id)| id);
        of_payments.or_else(|| self.payment_intent.as_ref().map(Reference::id))
    }

    /// Whether it is paid, also when there was nothing to pay.
    pub fn is_paid(&self) -> bool {
        self.status == InvoiceStatus::Paid || self.paid == Some(true)
    }

    fn details(&self) -> Option<&SubscriptionDetails> {
        let of_parent =
            self.parent.as_ref().and_then(|parent| parent.subscription_details.as_ref());
        of_parent.or(self.subscription_details.as_ref())
    }
}

impl InvoicePayment {
    /// The id of the intent that paid.
    pub fn payment_intent_id(&self) -> Option<&str> {
        self.payment.payment_intent.as_ref().map(Reference::id)
    }
}

impl InvoiceLine {
    /// Whether it is for a part of a period.
    pub fn is_proration(&self) -> bool {
        let of = |details: &Option<LineDetails>| {
            details.as_ref().is_some_and(|details| details.proration)
        };
        let of_parent = self.parent.as_ref().is_some_and(|parent| {
            of(&parent.subscription_item_details) || of(&parent.invoice_item_details)
        });
        of_parent || self.proration == Some(true)
    }

    /// The price's id.
    pub fn price_id(&self) -> Option<&str> {
        let details = self.pricing.as_ref().and_then(|pricing| pricing.price_details.as_ref());
        let detailed = details.and_then(|details| details.price.as_ref()).map(Reference::id);
        detailed.or_else(|| self.price.as_ref().map(|price| price.id.as_str()))
    }

    /// The product's id.
    pub fn product_id(&self) -> Option<&str> {
        let details = self.pricing.as_ref().and_then(|pricing| pricing.price_details.as_ref());
        let product = details.and_then(|details| details.product.as_ref());
        let of_price = || self.price.as_ref().and_then(|price| price.product.as_ref());
        product.or_else(of_price).map(Reference::id)
    }
}
