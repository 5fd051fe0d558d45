//! Opening an order: the row that is committed before the processor receives the purchase.

use domain::credits::Credits;
use domain::id::{CustomerId, OrderId};
use domain::payment::OrderChannel;
use domain::request_key::RequestKey;
use failures::Failure;
use failures::PaymentProblem;
use settings::billing::{CURRENCY, Pack};
use store::orders::{self, NewOrder, Order, OrderOpening};

use crate::BillingState;

/// What a customer wants to buy, and how.
pub(super) struct PackPurchase<'a> {
    pub(super) customer: CustomerId,
    pub(super) pack: &'a Pack,
    pub(super) channel: OrderChannel,
    /// The customer's id at the processor.
    pub(super) payer: &'a str,
    /// The saved card, if it is charged.
    pub(super) card: Option<&'a str>,
    pub(super) idempotency: Option<RequestKey>,
}

/// Opens the order, or returns the existing one: that of the same `Idempotency-Key`, or of a charge
/// in progress.
pub(super) async fn open(
    billing: &BillingState,
    purchase: &PackPurchase<'_>,
) -> Result<Order, Failure> {
    let now = billing.clock.now();
    let new = NewOrder {
        id: OrderId::new(now, billing.random.bytes()),
        customer: purchase.customer,
        channel: purchase.channel,
        pack_id: &purchase.pack.id,
        packs: 1,
        credits: Credits::from_whole(purchase.pack.credits),
        amount_cents: purchase.pack.price_cents,
        currency: CURRENCY,
        livemode: billing.config.processor.livemode,
        processor_customer: purchase.payer,
        payment_method: purchase.card,
        idempotency_hash: purchase.idempotency.map(RequestKey::hash),
        at: now,
    };
    match orders::open(&billing.store, &new).await? {
        OrderOpening::Opened(order) | OrderOpening::UnderWay(order) => Ok(order),
        OrderOpening::Known(order)
            if order.pack_id == purchase.pack.id && order.channel == purchase.channel =>
        {
            Ok(order)
        }
        OrderOpening::Known(_) => Err(Failure::IdempotencyMismatch),
        OrderOpening::Busy(order) => Err(super::charge::under_way(billing, order).into()),
        OrderOpening::JustEnded => Err(PaymentProblem::ChangeInProgress.into()),
    }
}
