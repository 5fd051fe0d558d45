//! What a paid page sold, and for how much: read from the page's lines, never from the amount that
//! arrived. Tax is added to the price and discounts are taken off it, but what was bought stays the
//! same.

use domain::payment::OrderChannel;
use failures::Failure;
use processor_client::objects::{CheckoutLineItem, CheckoutSession, PaymentIntent};
use processor_client::{ListFilter, ProcessorError};
use store::orders::Order;

use super::marks;
use crate::BillingState;

/// What was paid for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PaidGoods {
    /// Before discounts and without tax.
    pub(super) subtotal_cents: i64,
    /// The tax in what was paid.
    pub(super) tax_cents: i64,
    /// What differs from the order, if something else was sold.
    pub(super) difference: Option<String>,
}

/// What a payment intent paid for. The intent of a page has the page's total; that of a saved card
/// has the order's price.
pub(super) async fn of_intent(
    billing: &BillingState,
    order: &Order,
    intent: &PaymentIntent,
) -> Result<PaidGoods, Failure> {
    let plain =
        PaidGoods { subtotal_cents: intent.amount_received, tax_cents: 0, difference: None };
    match order.channel {
        OrderChannel::Charge | OrderChannel::TopUp => return Ok(plain),
        OrderChannel::Checkout => {}
    }
    let Some(session) = session(billing, order, intent).await? else { return Ok(plain) };
    Ok(of_session(order, &session).unwrap_or(plain))
}

/// What a page sold; `None` if it does not say.
pub(super) fn of_session(order: &Order, session: &CheckoutSession) -> Option<PaidGoods> {
    Some(PaidGoods {
        subtotal_cents: session.amount_subtotal?,
        tax_cents: session.total_details.amount_tax,
        difference: difference(order, session),
    })
}

/// The page on which an intent was paid: the recorded one, or if that is not paid by this intent or
/// was never recorded, because its request ended without a response, the one that the processor
/// names.
async fn session(
    billing: &BillingState,
    order: &Order,
    intent: &PaymentIntent,
) -> Result<Option<CheckoutSession>, Failure> {
    if let Some(recorded) = &order.session
        && let Some(session) = read(billing, recorded).await?
        && session.payment_intent_id() == Some(&intent.id)
    {
        return Ok(Some(session));
    }
    let of_intent = ListFilter { payment_intent: Some(&intent.id), ..ListFilter::default() };
    let found = billing.processor()?.list_checkouts(&of_intent).await?.data;
    match found.first() {
        Some(session) => read(billing, &session.id).await,
        None => Ok(None),
    }
}

async fn read(billing: &BillingState, session: &str) -> Result<Option<CheckoutSession>, Failure> {
    match billing.processor()?.retrieve_checkout(session).await {
        Ok(session) => Ok(Some(session)),
        Err(ProcessorError::Missing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What on the page differs from the order: the number of packs, or the price.
fn difference(order: &Order, session: &CheckoutSession) -> Option<String> {
    let lines = session.line_items.as_ref().filter(|lines| !lines.has_more)?;
    let packs: i64 = lines.data.iter().map(|line| line.quantity.unwrap_or(1)).sum();
    if packs != order.packs {
        return Some(format!("{} sold {packs} packs, not {}", session.id, order.packs));
    }
    let subtotal: i64 = lines.data.iter().map(|line| line.amount_subtotal).sum();
    if session.amount_subtotal != Some(subtotal) {
        return Some(format!("the lines of {} add up to {subtotal} cents", session.id));
    }
    let wanted = session.metadata.get(marks::PRICE);
    let is_other = |line: &&CheckoutLineItem| {
        line.price.as_ref().is_some_and(|price| wanted.is_some_and(|wanted| *wanted != price.id))
    };
    let other = lines.data.iter().find(is_other)?;
    Some(format!("{} of {} has another price than the order", other.id, session.id))
}
