//! Subscriptions: read, changed, ended.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::listing::ListFilter;
use super::objects::{ListPage, ProcessorSubscription};
use super::transport::{IdempotencyKey, ProcessorClient};

/// A change of one item. Items that are not named stay as they are.
#[derive(Debug, Clone, Copy)]
pub struct ItemChange<'a> {
    /// The item that is there; none: an item is added.
    pub id: Option<&'a str>,
    /// Its price from now on; none: the one it has.
    pub price: Option<ItemPrice<'a>>,
    /// How many, absolutely. The processor takes 1 when the price changes and nothing is said.
    pub quantity: Option<i64>,
    /// Whether the item is taken away.
    pub is_deleted: bool,
}

/// The price of an item.
#[derive(Debug, Clone, Copy)]
pub enum ItemPrice<'a> {
    /// One that exists at the processor.
    Known(&'a str),
    /// One that is written out for a product that exists at the processor.
    OfProduct {
        /// The product.
        product: &'a str,
        /// In the currency's smallest unit.
        unit_amount_cents: i64,
        /// Such as `usd`.
        currency: &'a str,
        /// `month` or `year`.
        interval: &'a str,
    },
}

/// What becomes of the rest of the period when a price or a quantity changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProrationBehavior {
    /// It is paid at once, or the change does not happen: status 402.
    PayNow,
    /// It stands on the next invoice.
    NextInvoice,
    /// Nothing is computed.
    None,
}

/// A change of a subscription; what is none or empty stays.
#[derive(Debug, Clone, Copy)]
pub struct SubscriptionChange<'a> {
    /// Its items.
    pub items: &'a [ItemChange<'a>],
    /// What becomes of the rest of the period.
    pub proration: ProrationBehavior,
    /// The time that the rest is counted from, in seconds since 1970: the one of a preview.
    pub proration_date: Option<i64>,
    /// The card that its invoices are paid with.
    pub default_payment_method: Option<&'a str>,
    /// Whether it ends with its period.
    pub cancel_at_period_end: Option<bool>,
    /// What we know it by; keys that are not named stay.
    pub metadata: &'a [(&'a str, &'a str)],
}

impl ProcessorClient {
    /// Reads a subscription with its latest invoice.
    pub async fn retrieve_subscription(
        &self,
        id: &str,
    ) -> Result<ProcessorSubscription, ProcessorError> {
        let form = FormParameters::new().expanding(&["latest_invoice"]);
        self.get(&["subscriptions", id], form).await
    }

    /// Lists subscriptions, newest first; filters: customer, status, created. Ended ones only with
    /// the status `all`, `canceled` or `ended`.
    pub async fn list_subscriptions(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<ProcessorSubscription>, ProcessorError> {
        self.get(&["subscriptions"], listing.form()).await
    }

    /// Changes a subscription. The billing date stays. With [`ProrationBehavior::PayNow`] a payment
    /// that fails changes nothing and is [`ProcessorError::Declined`].
    pub async fn update_subscription(
        &self,
        id: &str,
        change: &SubscriptionChange<'_>,
        key: &IdempotencyKey,
    ) -> Result<ProcessorSubscription, ProcessorError> {
        let form = change
            .proration
            .write(write_items(FormParameters::new(), "items", change.items), "proration_behavior");
        let form = if change.proration == ProrationBehavior::PayNow {
            form.with("payment_behavior", "error_if_incomplete").with("off_session", true)
        } else {
            form
        };
        let form = form
            .with_some("proration_date", change.proration_date)
            .with_some("default_payment_method", change.default_payment_method)
            .with_some("cancel_at_period_end", change.cancel_at_period_end)
            .with_map("metadata", change.metadata)
            .expanding(&["latest_invoice"]);
        self.post(&["subscriptions", id], form, key).await
    }

    /// Ends a subscription at once. One that is over already is [`ProcessorError::Missing`].
    pub async fn cancel_subscription(
        &self,
        id: &str,
    ) -> Result<ProcessorSubscription, ProcessorError> {
        self.delete(&["subscriptions", id]).await
    }
}

impl ProrationBehavior {
    pub(super) fn write(self, form: FormParameters, key: &str) -> FormParameters {
        let word = match self {
            Self::PayNow => "always_invoice",
            Self::NextInvoice => "create_prorations",
            Self::None => "none",
        };
        form.with(key, word)
    }
}

pub(super) fn write_items(
    mut form: FormParameters,
    key: &str,
    items: &[ItemChange<'_>],
) -> FormParameters {
    for (index, item) in items.iter().enumerate() {
        let key = format!("{key}[{index}]");
        form = form
            .with_some(&format!("{key}[id]"), item.id)
            .with_some(&format!("{key}[quantity]"), item.quantity)
            .with_some(&format!("{key}[deleted]"), item.is_deleted.then_some(true));
        form = match item.price {
            None => form,
            Some(ItemPrice::Known(price)) => form.with(format!("{key}[price]"), price),
            Some(ItemPrice::OfProduct { product, unit_amount_cents, currency, interval }) => {
                let data = format!("{key}[price_data]");
                form.with(format!("{data}[currency]"), currency)
                    .with(format!("{data}[unit_amount]"), unit_amount_cents)
                    .with(format!("{data}[product]"), product)
                    .with(format!("{data}[recurring][interval]"), interval)
            }
        };
    }
    form
}
