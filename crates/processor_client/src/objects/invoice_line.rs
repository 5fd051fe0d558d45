//! What is on an invoice, and what waits for the next one.

use serde::Deserialize;

use super::{
    ExpandableObject, ProcessorCustomer, ProcessorInvoice, ProcessorPrice, ProcessorProduct,
    ProcessorSubscription, SubscriptionItem, or_default, sum, words,
};

/// A time from and until.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct LinePeriod {
    /// Its first second.
    #[serde(default, deserialize_with = "or_default")]
    pub start: i64,
    /// The second after its last.
    #[serde(default, deserialize_with = "or_default")]
    pub end: i64,
}

words! {
    /// What a line comes from.
    LineParentKind {
        /// An item of a subscription: a full period, or a part of one that was billed immediately.
        SubscriptionItem = "subscription_item_details",
        /// An invoice item: something that had waited for the invoice.
        InvoiceItem = "invoice_item_details",
    }
}

/// One line of an invoice.
#[derive(Debug, Clone, Deserialize)]
pub struct InvoiceLine {
    /// `il_…`
    #[serde(default, deserialize_with = "or_default")]
    pub id: String,
    /// What it costs before discounts and tax; negative for what is given back.
    /// [`Self::net_amount`] is what it costs after discounts. A proration of a subscription whose
    /// discounts are `included` is after discounts already, and has discounts of 0.
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
    pub period: LinePeriod,
    #[serde(default, deserialize_with = "or_default")]
    discount_amounts: Vec<DiscountAmount>,
    #[serde(default, deserialize_with = "or_default")]
    taxes: Vec<LineTax>,
    #[serde(default, deserialize_with = "or_default")]
    tax_amounts: Vec<LineTax>,
    #[serde(default)]
    proration: Option<bool>,
    #[serde(default)]
    price: Option<ProcessorPrice>,
    #[serde(default)]
    pricing: Option<LinePricing>,
    #[serde(default)]
    parent: Option<LineParent>,
}

/// The lines of an earlier invoice that a line gives money back for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CreditedItems {
    /// The invoice.
    #[serde(default, deserialize_with = "or_default")]
    pub invoice: String,
    /// Its lines.
    #[serde(default, deserialize_with = "or_default")]
    pub invoice_line_items: Vec<String>,
}

/// Something that waits for the next invoice of a customer, or that an invoice took.
#[derive(Debug, Clone, Deserialize)]
pub struct InvoiceItem {
    /// `ii_…`
    pub id: String,
    /// What it costs before discounts and tax; negative for what is given back.
    /// [`Self::net_amount`] is what it costs after discounts.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// Such as `usd`.
    #[serde(default, deserialize_with = "or_default")]
    pub currency: String,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// How many.
    #[serde(default, deserialize_with = "or_default")]
    pub quantity: i64,
    /// What it is for.
    #[serde(default, deserialize_with = "or_default")]
    pub period: LinePeriod,
    /// Whether it is for a part of a period.
    #[serde(default, deserialize_with = "or_default")]
    pub proration: bool,
    /// When it was made: the time that a proration was counted from, unless a `proration_date` was
    /// given.
    #[serde(default, deserialize_with = "or_default")]
    pub date: i64,
    /// Whose it is.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// The invoice that took it; none while it waits.
    #[serde(default)]
    pub invoice: Option<ExpandableObject<ProcessorInvoice>>,
    #[serde(default)]
    net_amount: Option<i64>,
    #[serde(default)]
    price: Option<ProcessorPrice>,
    #[serde(default)]
    pricing: Option<LinePricing>,
    #[serde(default)]
    subscription: Option<ExpandableObject<ProcessorSubscription>>,
    #[serde(default)]
    parent: Option<ItemParent>,
    #[serde(default)]
    proration_details: Option<ItemProration>,
}

#[derive(Debug, Clone, Deserialize)]
struct DiscountAmount {
    #[serde(default, deserialize_with = "or_default")]
    amount: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct LineTax {
    #[serde(default, deserialize_with = "or_default")]
    amount: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct LinePricing {
    #[serde(default)]
    price_details: Option<PriceDetails>,
}

#[derive(Debug, Clone, Deserialize)]
struct PriceDetails {
    #[serde(default)]
    price: Option<ExpandableObject<ProcessorPrice>>,
    #[serde(default)]
    product: Option<ExpandableObject<ProcessorProduct>>,
}

#[derive(Debug, Clone, Deserialize)]
struct LineParent {
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    kind: LineParentKind,
    #[serde(default)]
    subscription_item_details: Option<LineDetails>,
    #[serde(default)]
    invoice_item_details: Option<LineDetails>,
}

#[derive(Debug, Clone, Deserialize)]
struct LineDetails {
    #[serde(default, deserialize_with = "or_default")]
    proration: bool,
    #[serde(default)]
    proration_details: Option<LineProration>,
    #[serde(default)]
    subscription_item: Option<ExpandableObject<SubscriptionItem>>,
    #[serde(default)]
    invoice_item: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct LineProration {
    #[serde(default)]
    credited_items: Option<CreditedItems>,
}

#[derive(Debug, Clone, Deserialize)]
struct ItemParent {
    #[serde(default)]
    subscription_details: Option<ItemSubscription>,
}

#[derive(Debug, Clone, Deserialize)]
struct ItemSubscription {
    #[serde(default)]
    subscription: Option<ExpandableObject<ProcessorSubscription>>,
}

#[derive(Debug, Clone, Deserialize)]
struct ItemProration {
    #[serde(default, deserialize_with = "or_default")]
    discount_amounts: Vec<DiscountAmount>,
}

impl InvoiceLine {
    /// What came off by discounts; of a line that gives money back it is negative, like its amount.
    pub fn discount(&self) -> i64 {
        discount(&self.discount_amounts)
    }

    /// The tax on it; in older versions it stands elsewhere.
    pub fn tax(&self) -> i64 {
        let taxes = if self.taxes.is_empty() { &self.tax_amounts } else { &self.taxes };
        sum(taxes.iter().map(|tax| tax.amount))
    }

    /// What it costs after discounts, before tax.
    pub fn net_amount(&self) -> i64 {
        self.amount.saturating_sub(self.discount())
    }

    /// Whether it is for a part of a period.
    pub fn is_proration(&self) -> bool {
        self.details().any(|details| details.proration) || self.proration == Some(true)
    }

    /// What it comes from; none in older versions.
    pub fn parent_kind(&self) -> Option<LineParentKind> {
        self.parent.as_ref().map(|parent| parent.kind)
    }

    /// The item of the subscription that it is for, where it says so.
    pub fn subscription_item_id(&self) -> Option<&str> {
        self.details()
            .find_map(|details| details.subscription_item.as_ref())
            .map(ExpandableObject::id)
    }

    /// The invoice item that it was made of, if it was made of one.
    pub fn invoice_item_id(&self) -> Option<&str> {
        self.details().find_map(|details| details.invoice_item.as_deref())
    }

    /// The lines of an earlier invoice that it gives money back for, where the processor says so.
    pub fn credited_items(&self) -> Option<&CreditedItems> {
        self.details()
            .find_map(|details| details.proration_details.as_ref()?.credited_items.as_ref())
    }

    /// The price's id.
    pub fn price_id(&self) -> Option<&str> {
        price_id(self.pricing.as_ref(), self.price.as_ref())
    }

    /// The product's id.
    pub fn product_id(&self) -> Option<&str> {
        product_id(self.pricing.as_ref(), self.price.as_ref())
    }

    fn details(&self) -> impl Iterator<Item = &LineDetails> {
        let parents = self.parent.iter();
        let each = parents
            .flat_map(|parent| [&parent.subscription_item_details, &parent.invoice_item_details]);
        each.flatten()
    }
}

impl InvoiceItem {
    /// What it costs after discounts, before tax.
    pub fn net_amount(&self) -> i64 {
        let discounts =
            self.proration_details.as_ref().map(|details| discount(&details.discount_amounts));
        let computed = || self.amount.saturating_sub(discounts.unwrap_or_default());
        self.net_amount.unwrap_or_else(computed)
    }

    /// The subscription that it comes from, if it comes from one.
    pub fn subscription_id(&self) -> Option<&str> {
        let of_parent =
            || self.parent.as_ref()?.subscription_details.as_ref()?.subscription.as_ref();
        of_parent().or(self.subscription.as_ref()).map(ExpandableObject::id)
    }

    /// The price's id.
    pub fn price_id(&self) -> Option<&str> {
        price_id(self.pricing.as_ref(), self.price.as_ref())
    }

    /// The product's id.
    pub fn product_id(&self) -> Option<&str> {
        product_id(self.pricing.as_ref(), self.price.as_ref())
    }
}

fn discount(amounts: &[DiscountAmount]) -> i64 {
    sum(amounts.iter().map(|discount| discount.amount))
}

fn price_id<'a>(
    pricing: Option<&'a LinePricing>,
    price: Option<&'a ProcessorPrice>,
) -> Option<&'a str> {
    let details = pricing.and_then(|pricing| pricing.price_details.as_ref());
    let detailed = details.and_then(|details| details.price.as_ref()).map(ExpandableObject::id);
    detailed.or_else(|| price.map(|price| price.id.as_str()))
}

fn product_id<'a>(
    pricing: Option<&'a LinePricing>,
    price: Option<&'a ProcessorPrice>,
) -> Option<&'a str> {
    let details = pricing.and_then(|pricing| pricing.price_details.as_ref());
    let detailed = details.and_then(|details| details.product.as_ref());
    detailed.or_else(|| price.and_then(|price| price.product.as_ref())).map(ExpandableObject::id)
}
