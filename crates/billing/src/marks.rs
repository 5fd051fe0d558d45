//! How our objects at the processor are recognised: by metadata whose names are ours alone.
//!
//! Another program may use the same account of the processor and write an `order_id` of its own, so
//! what it made must not be taken for ours. The plain names are still written, for people, and read
//! as far as they name one of our orders: payments that began before the names changed have only
//! those.

use std::collections::BTreeMap;

use domain::id::OrderId;
use failures::Failure;
use processor_client::objects::ObjectMetadata;
use store::orders::{self, Order};

use crate::BillingState;

/// The order that an object is for.
pub(super) const ORDER: &str = "creator_gateway_order_id";
/// The pack that an object is for.
pub(super) const PACK: &str = "creator_gateway_pack_id";
/// The price that a page sells, if it is one that exists at the processor.
pub(super) const PRICE: &str = "creator_gateway_price_id";
/// How the order is paid.
pub(super) const CHANNEL: &str = "creator_gateway_channel";
/// How many packs it buys.
pub(super) const PACKS: &str = "creator_gateway_packs";
/// The credits of all packs together.
pub(super) const CREDITS: &str = "creator_gateway_credits";
/// The price of all packs together, in cents.
pub(super) const AMOUNT: &str = "creator_gateway_amount_cents";
/// SHA-256 of the caller's `Idempotency-Key`, in hexadecimal digits.
pub(super) const REQUEST: &str = "creator_gateway_request";
/// The daily cap that a top-up was claimed under, in cents.
pub(super) const CAP: &str = "creator_gateway_cap_cents";
/// The customer of ours.
pub(super) const CUSTOMER: &str = "customer_id";
/// The name of an order before.
const PLAIN_ORDER: &str = "order_id";
/// The name of an order on the payment of a top-up.
pub(super) const TOP_UP: &str = "topup_id";

/// The order that an object names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OrderMark {
    /// None of ours.
    None,
    /// This order, which may not exist.
    Order(OrderId),
    /// Our name, with something that is not an order's id.
    Malformed,
}

/// What is written to the processor's objects for an order.
pub(super) struct OrderMetadata(Vec<(&'static str, String)>);

impl OrderMetadata {
    /// The metadata of everything that is made for this order: all that is needed to write the
    /// order again if the database loses it.
    pub(super) fn of(order: &Order) -> Self {
        let mut entries = vec![
            (ORDER, order.id.to_string()),
            (PACK, order.pack_id.clone()),
            (CHANNEL, order.channel.to_string()),
            (PACKS, order.packs.to_string()),
            (CREDITS, order.credits.whole().to_string()),
            (AMOUNT, order.amount_cents.to_string()),
            (PLAIN_ORDER, order.id.to_string()),
            (CUSTOMER, order.customer.to_string()),
        ];
        entries.extend(order.request_hash.clone().map(|hash| (REQUEST, hash)));
        Self(entries)
    }

    /// The same with another entry.
    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.0.push((name, value));
        self
    }

    /// The entries.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}

/// The order that this metadata names.
pub(super) async fn order_in(
    billing: &BillingState,
    metadata: &ObjectMetadata,
) -> Result<OrderMark, Failure> {
    if let Some(named) = metadata.get(ORDER) {
        return Ok(named.parse().map_or(OrderMark::Malformed, OrderMark::Order));
    }
    let plain = metadata.get(PLAIN_ORDER).and_then(|named| named.parse::<OrderId>().ok());
    let Some(id) = plain else { return Ok(OrderMark::None) };
    let known = orders::find_any(&billing.store, id).await?;
    Ok(known.map_or(OrderMark::None, |order| OrderMark::Order(order.id)))
}

/// The order that this metadata names, whether it exists or not.
pub(super) fn named_order(metadata: &ObjectMetadata) -> Option<OrderId> {
    let named = metadata.get(ORDER).or_else(|| metadata.get(PLAIN_ORDER));
    named.and_then(|named| named.parse().ok())
}

/// Whether this metadata names the order.
pub(super) fn names(metadata: &BTreeMap<String, String>, order: OrderId) -> bool {
    let order = order.to_string();
    [ORDER, PLAIN_ORDER].iter().any(|name| metadata.get(*name) == Some(&order))
}
