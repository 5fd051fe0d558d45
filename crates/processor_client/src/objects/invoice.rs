//! Invoices and their lines.

use serde::Deserialize;

use super::{
    ClientSecret, ExpandableObject, InvoiceLine, LinePeriod, ListPage, ObjectMetadata,
    PaymentIntent, ProcessorCustomer, ProcessorSubscription, or_default, sum, words,
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
pub struct ProcessorInvoice {
    /// `in_…`; a preview has none that can be asked for.
    #[serde(default, deserialize_with = "or_default")]
    pub id: String,
    /// Its number for people, such as `A1B2C3D4-0001`; a draft has none.
    #[serde(default)]
    pub number: Option<String>,
    /// Who pays.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// Where it stands.
    #[serde(default, deserialize_with = "or_default")]
    pub status: InvoiceStatus,
    /// Why it was made: `subscription_create`, `subscription_cycle`, `subscription_update` and
    /// others.
    #[serde(default)]
    pub billing_reason: Option<String>,
    /// What the card is to pay: the total and what the customer owed before, less the customer's
    /// credit. 0 where that is below the processor's minimum, and is carried on the customer's
    /// balance.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_due: i64,
    /// What of it was paid.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_paid: i64,
    /// By how much credit notes made it ask for less, before it was paid.
    #[serde(default, deserialize_with = "or_default")]
    pub pre_payment_credit_notes_amount: i64,
    /// What credit notes say went back after it was paid.
    #[serde(default, deserialize_with = "or_default")]
    pub post_payment_credit_notes_amount: i64,
    /// The sum of the lines before discounts and tax; negative when more is given back than is
    /// sold.
    #[serde(default, deserialize_with = "or_default")]
    pub subtotal: i64,
    /// The sum of the lines less discounts, with tax; negative when more is given back than is
    /// sold.
    #[serde(default, deserialize_with = "or_default")]
    pub total: i64,
    /// The customer's balance before the invoice: below zero it was the customer's credit.
    #[serde(default, deserialize_with = "or_default")]
    pub starting_balance: i64,
    /// The customer's balance after it; none while the invoice is a draft or a preview.
    /// `starting_balance` less this is what the balance paid of it, with a minus sign.
    #[serde(default)]
    pub ending_balance: Option<i64>,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// What is on it.
    #[serde(default, deserialize_with = "or_default")]
    pub lines: ListPage<InvoiceLine>,
    /// What the customer's browser needs to pay it, where that was asked for.
    #[serde(default)]
    pub confirmation_secret: Option<ConfirmationSecret>,
    /// A page on which the customer can pay it.
    #[serde(default)]
    pub hosted_invoice_url: Option<String>,
    /// The document.
    #[serde(default)]
    pub invoice_pdf: Option<String>,
    /// How often it was tried to be paid.
    #[serde(default, deserialize_with = "or_default")]
    pub attempt_count: i64,
    /// When a renewal is tried again.
    #[serde(default)]
    pub next_payment_attempt: Option<i64>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
    #[serde(default, deserialize_with = "or_default")]
    status_transitions: StatusTransitions,
    #[serde(default, deserialize_with = "or_default")]
    period_start: i64,
    #[serde(default, deserialize_with = "or_default")]
    period_end: i64,
    #[serde(default, deserialize_with = "or_default")]
    total_discount_amounts: Vec<InvoiceAmount>,
    #[serde(default)]
    total_taxes: Option<Vec<InvoiceAmount>>,
    #[serde(default)]
    total_excluding_tax: Option<i64>,
    #[serde(default)]
    tax: Option<i64>,
    #[serde(default)]
    paid: Option<bool>,
    #[serde(default)]
    subscription: Option<ExpandableObject<ProcessorSubscription>>,
    #[serde(default)]
    subscription_details: Option<SubscriptionDetails>,
    #[serde(default)]
    parent: Option<InvoiceParent>,
    #[serde(default)]
    payment_intent: Option<ExpandableObject<PaymentIntent>>,
    #[serde(default, deserialize_with = "or_default")]
    payments: ListPage<InvoicePayment>,
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
    pub invoice: Option<ExpandableObject<ProcessorInvoice>>,
    /// `open`, `paid` or `canceled`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "or_default")]
    payment: PaymentOfInvoice,
}

/// When it came to where it stands, in seconds since 1970.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct StatusTransitions {
    #[serde(default)]
    paid_at: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct InvoiceAmount {
    #[serde(default, deserialize_with = "or_default")]
    amount: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct InvoiceParent {
    #[serde(default)]
    subscription_details: Option<SubscriptionDetails>,
}

#[derive(Debug, Clone, Deserialize)]
struct SubscriptionDetails {
    #[serde(default)]
    subscription: Option<ExpandableObject<ProcessorSubscription>>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: ObjectMetadata,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct PaymentOfInvoice {
    #[serde(default)]
    payment_intent: Option<ExpandableObject<PaymentIntent>>,
}

impl ProcessorInvoice {
    /// The customer's id.
    pub fn customer_id(&self) -> Option<&str> {
        self.customer.as_ref().map(ExpandableObject::id)
    }

    /// The subscription's id.
    pub fn subscription_id(&self) -> Option<&str> {
        let details = self.details().and_then(|details| details.subscription.as_ref());
        details.or(self.subscription.as_ref()).map(ExpandableObject::id)
    }

    /// What the subscription was known by when the invoice was made.
    pub fn subscription_metadata(&self) -> Option<&ObjectMetadata> {
        self.details().map(|details| &details.metadata)
    }

    /// The id of the payment that paid it or is to pay it; none when nothing was to be paid, or
    /// where payments were not asked for.
    pub fn payment_intent_id(&self) -> Option<&str> {
        let intents = || self.payments.data.iter().map(|of| (of, of.payment_intent_id()));
        let paid = intents().find(|(of, id)| of.status == "paid" && id.is_some());
        let any = || intents().find(|(_, id)| id.is_some());
        let of_payments = paid.or_else(any).and_then(|(_, id)| id);
        of_payments.or_else(|| self.payment_intent.as_ref().map(ExpandableObject::id))
    }

    /// The tax in it: the sum of its taxes, or what the total has above the total without tax; in
    /// older versions a field of its own.
    pub fn tax(&self) -> i64 {
        let listed = self.total_taxes.as_ref().map(|taxes| sum(taxes.iter().map(|tax| tax.amount)));
        let computed = || self.total_excluding_tax.map(|net| self.total.saturating_sub(net));
        listed.or_else(computed).or(self.tax).unwrap_or_default()
    }

    /// The time in which its items were collected. For a renewal this is the period *before* the
    /// one that is paid: what is paid for stands on the lines.
    pub const fn period(&self) -> LinePeriod {
        LinePeriod { start: self.period_start, end: self.period_end }
    }

    /// Whether a credit note was issued that counts.
    pub const fn has_credit_notes(&self) -> bool {
        self.pre_payment_credit_notes_amount != 0 || self.post_payment_credit_notes_amount != 0
    }

    /// Whether it is paid, also when there was nothing to pay.
    pub fn is_paid(&self) -> bool {
        self.status == InvoiceStatus::Paid || self.paid == Some(true)
    }

    /// What came off by discounts.
    pub fn discount(&self) -> i64 {
        sum(self.total_discount_amounts.iter().map(|off| off.amount))
    }

    /// When it was paid, in seconds since 1970; of one that is not paid, when it was made.
    pub fn paid_at(&self) -> i64 {
        self.status_transitions.paid_at.unwrap_or(self.created)
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
        self.payment.payment_intent.as_ref().map(ExpandableObject::id)
    }
}
