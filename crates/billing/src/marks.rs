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
/// The name of an order before.
const PLAIN_ORDER: &str = "order_id";

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
    /// The metadata of everything that is made for this order.
    pub(super) fn of(order: &Order) -> Self {
        Self(vec![
            (ORDER, order.id.to_string()),
            (PACK, order.pack_id.clone()),
            (PLAIN_ORDER, order.id.to_string()),
            ("customer_id", order.customer.to_string()),
        ])
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

/// Whether this metadata names the order.
pub(super) fn names(metadata: &BTreeMap<String, String>, order: OrderId) -> bool {
    let order = order.to_string();
    [ORDER, PLAIN_ORDER].iter().any(|name| metadata.get(*name) == Some(&order))
}
