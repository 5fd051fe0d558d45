//! Orders that the database has lost, because it was restored from an older copy: each is written
//! again as its payment describes it, and then paid by it.
//!
//! The metadata of a payment says everything about its order. Payments of earlier versions name
//! only their pack, so their order is written again only if the pack's price is what was paid.
//! Anything else is left to the operator, with all that is known of it.

use domain::credits::Credits;
use domain::id::{CustomerId, OrderId};
use domain::payment::{Mismatch, OrderChannel};
use failures::Failure;
use processor_client::ListFilter;
use processor_client::objects::{CheckoutSession, ObjectMetadata, PaymentIntent};
use settings::billing::CURRENCY;
use store::lost_orders::{self, LostOrder, OrderRebuilding};
use store::orders::{self, Order};

use super::period::seconds;
use super::{marks, mismatches};
use crate::BillingState;

/// Shown for each entry that a payment of a pack may have, except the hash of the caller's key.
const SHOWN: [&str; 7] = [
    marks::CUSTOMER,
    marks::PACK,
    marks::CHANNEL,
    marks::PACKS,
    marks::CREDITS,
    marks::AMOUNT,
    marks::TOP_UP,
];

/// What was agreed, as a payment or a page says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgreedOrder {
    pub(super) id: OrderId,
    pub(super) customer: CustomerId,
    pub(super) channel: OrderChannel,
    pub(super) pack_id: String,
    pub(super) packs: i64,
    pub(super) credits: Credits,
    pub(super) amount_cents: i64,
    pub(super) request_hash: Option<[u8; 32]>,
    cap_cents: Option<i64>,
}

/// A payment whose order is unknown.
struct OrphanedPayment<'a> {
    order: OrderId,
    /// The payment intent, or a page on which there was nothing to pay.
    object: &'a str,
    metadata: &'a ObjectMetadata,
    payer: Option<&'a str>,
    paid_cents: i64,
    currency: &'a str,
    livemode: bool,
    /// Seconds since 1970.
    made_s: i64,
    card: Option<&'a str>,
    page: Option<&'a CheckoutSession>,
}

/// The order of a paid intent, which was unknown and is written again. None if that is not
/// possible: then the payment is listed for the operator.
pub(super) async fn of_intent(
    billing: &BillingState,
    order: OrderId,
    intent: &PaymentIntent,
) -> Result<Option<Order>, Failure> {
    let of_intent = ListFilter { payment_intent: Some(&intent.id), ..ListFilter::default() };
    let pages = billing.processor()?.list_checkouts(&of_intent).await?.data;
    let page = pages.first();
    let payment = OrphanedPayment {
        order,
        object: &intent.id,
        metadata: &intent.metadata,
        payer: intent.customer_id(),
        paid_cents: intent.amount_received,
        currency: &intent.currency,
        livemode: intent.livemode,
        made_s: page.map_or(intent.created, |page| page.created),
        card: intent.payment_method_id().filter(|_| page.is_none()),
        page,
    };
    rebuild_or_list(billing, &payment).await
}

/// The same for a page on which a discount left nothing to pay.
pub(super) async fn of_page(
    billing: &BillingState,
    order: OrderId,
    page: &CheckoutSession,
) -> Result<Option<Order>, Failure> {
    let payment = OrphanedPayment {
        order,
        object: &page.id,
        metadata: &page.metadata,
        payer: page.customer_id(),
        paid_cents: 0,
        currency: &page.currency,
        livemode: page.livemode,
        made_s: page.created,
        card: None,
        page: Some(page),
    };
    rebuild_or_list(billing, &payment).await
}

async fn rebuild_or_list(
    billing: &BillingState,
    payment: &OrphanedPayment<'_>,
) -> Result<Option<Order>, Failure> {
    let reason = match rebuild(billing, payment).await? {
        Ok(OrderRebuilding::Rebuilt) => {
            return Ok(orders::find_any(&billing.store, payment.order).await?);
        }
        Ok(OrderRebuilding::Settled) => return Ok(None),
        Ok(OrderRebuilding::NoCustomer) => "there is no such customer",
        Ok(OrderRebuilding::OtherPayer) => "the payer is not this customer's",
        Err(reason) => reason,
    };
    let details = payment.described(reason);
    mismatches::note_unmatched(billing, payment.object, Mismatch::UnknownOrder, &details).await?;
    Ok(None)
}

/// Writes the order again. An error says why not.
async fn rebuild(
    billing: &BillingState,
    payment: &OrphanedPayment<'_>,
) -> Result<Result<OrderRebuilding, &'static str>, Failure> {
    if payment.livemode != billing.config.processor.livemode || payment.currency != CURRENCY {
        return Ok(Err("it is in another mode or currency"));
    }
    let agreed = AgreedOrder::read(payment.order, payment.metadata);
    let Some(agreed) = agreed.or_else(|| payment.of_pack(billing)) else {
        return Ok(Err("it does not say which credits it brings, and no pack has this price"));
    };
    let Some(payer) = payment.payer else { return Ok(Err("it names no payer")) };
    let lost = LostOrder {
        id: agreed.id,
        customer: agreed.customer,
        channel: agreed.channel,
        pack_id: &agreed.pack_id,
        packs: agreed.packs,
        credits: agreed.credits,
        amount_cents: agreed.amount_cents,
        currency: CURRENCY,
        livemode: payment.livemode,
        processor_customer: payer,
        payment_method: payment.card,
        session: payment.page.map(|page| page.id.as_str()),
        idempotency_hash: agreed.request_hash,
        cap_cents: agreed.cap_cents,
        payment: payment.object,
        opened_at: agreed.id.made_at().unwrap_or_else(|| seconds(payment.made_s)),
        at: billing.clock.now(),
    };
    // The customer may have become one of the processor's after the copy was made.
    super::payer::find(billing, agreed.customer).await?;
    let rebuilding = lost_orders::rebuild(&billing.store, &lost).await?;
    if rebuilding == OrderRebuilding::Rebuilt {
        tracing::info!(
            order.id = %lost.id, customer.id = %lost.customer, payment.object = payment.object,
            "an order that was unknown here was written again as its payment describes it"
        );
    }
    Ok(Ok(rebuilding))
}

impl AgreedOrder {
    /// What the metadata of an order says; `None` unless it says everything.
    pub(super) fn read(order: OrderId, metadata: &ObjectMetadata) -> Option<Self> {
        let number = |name: &str| metadata.get(name)?.parse::<i64>().ok().filter(|it| *it > 0);
        let request_hash = metadata.get(marks::REQUEST).and_then(|hash| {
            let bytes = hex::decode(hash).ok()?;
            <[u8; 32]>::try_from(bytes).ok()
        });
        Some(Self {
            id: order,
            customer: metadata.get(marks::CUSTOMER)?.parse().ok()?,
            channel: metadata.get(marks::CHANNEL)?.parse().ok()?,
            pack_id: metadata.get(marks::PACK)?.clone(),
            packs: number(marks::PACKS)?,
            credits: Credits::from_whole(number(marks::CREDITS)?),
            amount_cents: number(marks::AMOUNT)?,
            request_hash,
            cap_cents: number(marks::CAP),
        })
    }
}

impl OrphanedPayment<'_> {
    /// What an earlier version agreed: one pack at its price.
    fn of_pack(&self, billing: &BillingState) -> Option<AgreedOrder> {
        let pack = super::pack(billing, self.metadata.get(marks::PACK)?).ok()?;
        let of_page = self.page.and_then(|page| page.amount_subtotal);
        let is_price = of_page.unwrap_or(self.paid_cents) == pack.price_cents;
        let channel = match self.page {
            Some(_) => OrderChannel::Checkout,
            None => OrderChannel::Charge,
        };
        let is_purchase = is_price && !self.metadata.contains_key(marks::CREDITS);
        is_purchase.then_some(AgreedOrder {
            id: self.order,
            customer: self.metadata.get(marks::CUSTOMER)?.parse().ok()?,
            channel,
            pack_id: pack.id.clone(),
            packs: 1,
            credits: Credits::from_whole(pack.credits),
            amount_cents: pack.price_cents,
            request_hash: None,
            cap_cents: None,
        })
    }

    /// All that is known of the payment, for the operator.
    fn described(&self, reason: &str) -> String {
        let (order, payer) = (self.order, self.payer.unwrap_or("nobody"));
        let (cents, currency) = (self.paid_cents, self.currency);
        let at = seconds(self.made_s).to_rfc3339();
        let known = SHOWN.iter().filter_map(|name| Some((name, self.metadata.get(*name)?)));
        let known: Vec<String> = known.map(|(name, value)| format!("{name}={value}")).collect();
        format!(
            "{order} is no order of ours, and was not written again: {reason}; {payer} paid {cents} {currency} at {at} ({})",
            known.join(", ")
        )
    }
}
