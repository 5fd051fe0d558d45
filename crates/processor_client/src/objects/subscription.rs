//! Subscriptions, their items and prices.

use serde::Deserialize;

use super::{
    AppliedDiscount, ExpandableObject, ListPage, ObjectMetadata, PaymentMethod, ProcessorCustomer,
    ProcessorInvoice, or_default, words,
};

words! {
    /// Where a subscription stands.
    SubscriptionStatus {
        /// The first payment failed or waits for the customer, for 23 hours.
        Incomplete = "incomplete",
        /// The first payment never came. Over for good.
        IncompleteExpired = "incomplete_expired",
        /// It costs nothing yet.
        Trialing = "trialing",
        /// It is paid.
        Active = "active",
        /// A renewal was not paid; the processor tries again.
        PastDue = "past_due",
        /// It is over.
        Canceled = "canceled",
        /// A renewal was not paid; the processor tries no more.
        Unpaid = "unpaid",
        /// It rests.
        Paused = "paused",
    }
}

/// A subscription.
#[derive(Debug, Clone, Deserialize)]
pub struct ProcessorSubscription {
    /// `sub_…`
    pub id: String,
    /// Where it stands.
    #[serde(default, deserialize_with = "or_default")]
    pub status: SubscriptionStatus,
    /// Whose it is.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// What is in it.
    #[serde(default, deserialize_with = "or_default")]
    pub items: ListPage<SubscriptionItem>,
    /// The card its invoices are paid with, if it has one of its own.
    #[serde(default)]
    pub default_payment_method: Option<ExpandableObject<PaymentMethod>>,
    /// Its last invoice.
    #[serde(default)]
    pub latest_invoice: Option<ExpandableObject<ProcessorInvoice>>,
    /// Whether it ends with its period.
    #[serde(default, deserialize_with = "or_default")]
    pub cancel_at_period_end: bool,
    /// When it will end.
    #[serde(default)]
    pub cancel_at: Option<i64>,
    /// When its end was asked for.
    #[serde(default)]
    pub canceled_at: Option<i64>,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<i64>,
    /// The discounts of its invoices.
    #[serde(default, deserialize_with = "or_default")]
    pub discounts: Vec<ExpandableObject<AppliedDiscount>>,
    /// What its billing date is counted from.
    #[serde(default, deserialize_with = "or_default")]
    pub billing_cycle_anchor: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
    #[serde(default)]
    current_period_start: Option<i64>,
    #[serde(default)]
    current_period_end: Option<i64>,
}

/// One thing in a subscription.
#[derive(Debug, Clone, Deserialize)]
pub struct SubscriptionItem {
    /// `si_…`
    pub id: String,
    /// What it is.
    pub price: ProcessorPrice,
    /// How many.
    #[serde(default, deserialize_with = "or_default")]
    pub quantity: i64,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
    #[serde(default)]
    current_period_start: Option<i64>,
    #[serde(default)]
    current_period_end: Option<i64>,
}

/// A price.
#[derive(Debug, Clone, Deserialize)]
pub struct ProcessorPrice {
    /// `price_…`
    pub id: String,
    /// Whether it may be used for something new; none if it is not said.
    #[serde(default)]
    pub active: Option<bool>,
    /// What one costs.
    #[serde(default)]
    pub unit_amount: Option<i64>,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// What it is the price of.
    #[serde(default)]
    pub product: Option<ExpandableObject<ProcessorProduct>>,
    /// How often it is paid; none: once.
    #[serde(default)]
    pub recurring: Option<BillingInterval>,
    /// What it can be found by.
    #[serde(default)]
    pub lookup_key: Option<String>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
}

/// How often something is paid.
#[derive(Debug, Clone, Deserialize)]
pub struct BillingInterval {
    /// `month` or `year`.
    #[serde(default, deserialize_with = "or_default")]
    pub interval: String,
    /// How many of them are between two payments; none: one.
    #[serde(default)]
    pub interval_count: Option<i64>,
}

/// What a price is the price of.
#[derive(Debug, Clone, Deserialize)]
pub struct ProcessorProduct {
    /// `prod_…`, or the id that was asked for.
    pub id: String,
    /// For people.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
}

impl ProcessorSubscription {
    /// The customer's id.
    pub fn customer_id(&self) -> Option<&str> {
        self.customer.as_ref().map(ExpandableObject::id)
    }

    /// When the period that is paid for began: of its items, and in older versions its own.
    pub fn period_start(&self) -> Option<i64> {
        let items = self.items.data.iter().filter_map(|item| item.current_period_start);
        items.min().or(self.current_period_start)
    }

    /// When the period that is paid for ends: of its items, and in older versions its own.
    pub fn period_end(&self) -> Option<i64> {
        let items = self.items.data.iter().filter_map(|item| item.current_period_end);
        items.max().or(self.current_period_end)
    }
}

impl SubscriptionItem {
    /// The product's id.
    pub fn product_id(&self) -> Option<&str> {
        self.price.product.as_ref().map(ExpandableObject::id)
    }
}
