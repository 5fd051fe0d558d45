//! From the processor's state to the ledger: the object is read, and what was paid is granted once.
//!
//! Called by the webhook, the charge, its confirmation, the success page, the reconciler and
//! automatic top-up, in any order and concurrently. The result does not depend on which of them
//! comes first.

use domain::id::{EntryId, OrderId};
use domain::payment::{Mismatch, OrderChannel, OrderState};
use failures::Failure;
use processor_client::ProcessorError;
use processor_client::objects::{CheckoutSession, IntentStatus, PaymentIntent, SessionStatus};
use runtime::metrics;
use settings::ExpirySection;
use store::orders::{self, Order};
use store::payments::{self, NewPayment, PaidFor, PaymentOutcome, PaymentReceipt};

use super::marks::{self, OrderMark};
pub use super::mismatches::{note_unmatched, tell_unmatched};
use super::page_goods::{self, PaidGoods};
use super::{cards, invoices, lost_orders, receipts, subscriptions, top_ups};
use crate::BillingState;

/// The result of handling a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FulfilmentOutcome {
    /// Its credits are granted, now or earlier.
    Granted(PaymentReceipt),
    /// It is not paid yet, but may still be.
    Open,
    /// It was declined or cancelled.
    Ended {
        /// The processor's reason.
        reason: String,
    },
    /// It does not belong to an order of ours.
    NotOurs,
    /// It does not match its order; it is recorded for the operator.
    Unmatched,
}

/// Reads a payment intent and grants what it paid.
pub async fn fulfil_intent(
    billing: &BillingState,
    intent: &str,
) -> Result<FulfilmentOutcome, Failure> {
    match billing.processor()?.retrieve_intent(intent).await {
        Ok(intent) => take_intent(billing, &intent).await,
        Err(ProcessorError::Missing) => Ok(FulfilmentOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// Reads the session of a hosted page and grants what it sold.
pub async fn fulfil_session(
    billing: &BillingState,
    session: &str,
) -> Result<FulfilmentOutcome, Failure> {
    match billing.processor()?.retrieve_checkout(session).await {
        Ok(session) => take_session(billing, &session).await,
        Err(ProcessorError::Missing) => Ok(FulfilmentOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// Handles an intent as it was read from the processor.
pub async fn take_intent(
    billing: &BillingState,
    intent: &PaymentIntent,
) -> Result<FulfilmentOutcome, Failure> {
    let named = match marks::order_in(billing, &intent.metadata).await? {
        OrderMark::Order(order) => order,
        OrderMark::Malformed if intent.status == IntentStatus::Succeeded => {
            let details = "its order_id is not a valid order id";
            note_unmatched(billing, &intent.id, Mismatch::UnknownOrder, details).await?;
            return Ok(FulfilmentOutcome::Unmatched);
        }
        // Intents that pay for a subscription, or for something of another program, name none.
        OrderMark::None | OrderMark::Malformed => return Ok(FulfilmentOutcome::NotOurs),
    };
    match intent.status {
        IntentStatus::Succeeded => grant(billing, named, intent).await,
        IntentStatus::Canceled | IntentStatus::RequiresPaymentMethod => {
            end(billing, named, intent).await
        }
        IntentStatus::RequiresConfirmation
        | IntentStatus::RequiresAction
        | IntentStatus::Processing
        | IntentStatus::RequiresCapture
        | IntentStatus::Other => {
            if let Some(order) = order_of(billing, named, intent.customer_id()).await? {
                orders::set_payment(&billing.store, order.id, &intent.id).await?;
            }
            Ok(FulfilmentOutcome::Open)
        }
    }
}

/// Handles a checkout session as it was read from the processor, with its payment.
pub async fn take_session(
    billing: &BillingState,
    session: &CheckoutSession,
) -> Result<FulfilmentOutcome, Failure> {
    if session.mode == "subscription" {
        subscriptions::take_session(billing, session).await?;
        return match &session.invoice {
            Some(invoice) if session.is_paid() => {
                invoices::fulfil_invoice(billing, invoice.id()).await
            }
            Some(_) | None => Ok(FulfilmentOutcome::NotOurs),
        };
    }
    if session.mode != "payment" {
        return Ok(FulfilmentOutcome::NotOurs);
    }
    let Some(named) = session.client_reference_id.as_deref() else {
        return Ok(FulfilmentOutcome::NotOurs);
    };
    let intent = session.payment_intent.as_ref();
    let Ok(named) = named.parse::<OrderId>() else { return Ok(FulfilmentOutcome::NotOurs) };
    if session.is_paid() {
        let Some(intent) = intent else { return grant_free(billing, named, session).await };
        let fulfilment = match intent.object() {
            Some(read) => take_intent(billing, read).await?,
            None => fulfil_intent(billing, intent.id()).await?,
        };
        remember_card(billing, session, &fulfilment).await;
        return Ok(fulfilment);
    }
    let is_over = match session.status {
        SessionStatus::Expired => true,
        // A delayed payment that failed. While the page is open, the customer may try another card.
        SessionStatus::Complete => {
            intent.and_then(|intent| intent.object()).is_some_and(|intent| {
                matches!(
                    intent.status,
                    IntentStatus::RequiresPaymentMethod | IntentStatus::Canceled
                )
            })
        }
        SessionStatus::Open | SessionStatus::Other => false,
    };
    if !is_over {
        return Ok(FulfilmentOutcome::Open);
    }
    let (state, reason) = if session.status == SessionStatus::Expired {
        (OrderState::Expired, "expired")
    } else {
        (OrderState::Failed, "payment_failed")
    };
    if let Some(order) = order_of(billing, named, session.customer_id()).await? {
        orders::close(&billing.store, order.id, state, Some(reason), billing.clock.now()).await?;
    }
    Ok(FulfilmentOutcome::Ended { reason: reason.to_owned() })
}

async fn grant(
    billing: &BillingState,
    order: OrderId,
    intent: &PaymentIntent,
) -> Result<FulfilmentOutcome, Failure> {
    let known = match orders::find_any(&billing.store, order).await? {
        Some(known) => Some(known),
        None => lost_orders::of_intent(billing, order, intent).await?,
    };
    let Some(known) = known else { return Ok(FulfilmentOutcome::Unmatched) };
    let goods = page_goods::of_intent(billing, &known, intent).await?;
    let payment = PagePayment {
        id: &intent.id,
        intent: Some(&intent.id),
        customer: intent.customer_id(),
        amount_cents: intent.amount_received,
        currency: &intent.currency,
        livemode: intent.livemode,
    };
    let granted = grant_goods(billing, order, &payment, goods).await?;
    if let FulfilmentOutcome::Granted(_) = &granted {
        receipts::note(billing, order, intent).await;
    }
    Ok(granted)
}

/// Grants the order of a page on which a discount left nothing to pay: the page stands for the
/// payment.
async fn grant_free(
    billing: &BillingState,
    order: OrderId,
    session: &CheckoutSession,
) -> Result<FulfilmentOutcome, Failure> {
    let known = match orders::find_any(&billing.store, order).await? {
        Some(_) => order_of(billing, order, session.customer_id()).await?,
        None => lost_orders::of_page(billing, order, session).await?,
    };
    let goods = known.as_ref().and_then(|known| page_goods::of_session(known, session));
    let (Some(goods), Some(0)) = (goods, session.amount_total) else {
        return Ok(FulfilmentOutcome::NotOurs);
    };
    let payment = PagePayment {
        id: &session.id,
        intent: None,
        customer: session.customer_id(),
        amount_cents: 0,
        currency: &session.currency,
        livemode: session.livemode,
    };
    grant_goods(billing, order, &payment, goods).await
}

/// The payment of an order: a payment intent, or a page on which there was nothing to pay.
struct PagePayment<'a> {
    id: &'a str,
    intent: Option<&'a str>,
    customer: Option<&'a str>,
    amount_cents: i64,
    currency: &'a str,
    livemode: bool,
}

async fn grant_goods(
    billing: &BillingState,
    order: OrderId,
    payment: &PagePayment<'_>,
    goods: PaidGoods,
) -> Result<FulfilmentOutcome, Failure> {
    if let Some(difference) = &goods.difference {
        note_unmatched(billing, payment.id, Mismatch::OtherGoods, difference).await?;
        return Ok(FulfilmentOutcome::Unmatched);
    }
    let now = billing.clock.now();
    let expires_at = ExpirySection::after(billing.config.credits.expiry.pack_days, now);
    let paid = NewPayment {
        entry: EntryId::new(now, billing.random.bytes()),
        what: PaidFor::Order { id: order, subtotal_cents: goods.subtotal_cents, expires_at },
        payment: payment.id,
        intent: payment.intent,
        processor_customer: payment.customer,
        amount_cents: payment.amount_cents,
        tax_cents: goods.tax_cents,
        currency: payment.currency,
        livemode: payment.livemode,
        at: now,
    };
    Ok(told(&paid, payments::fulfil(&billing.store, &paid).await?))
}

/// The result for the caller. It is counted, and the operator is alerted if necessary.
pub fn told(paid: &NewPayment<'_>, fulfilled: PaymentOutcome) -> FulfilmentOutcome {
    match fulfilled {
        PaymentOutcome::Granted(receipt) => {
            metrics::payment_granted();
            tracing::info!(
                customer.id = %receipt.customer, payment.object = paid.payment, credits = receipt.credits.whole(),
                "a payment was granted"
            );
            FulfilmentOutcome::Granted(receipt)
        }
        PaymentOutcome::Repeated(receipt) => FulfilmentOutcome::Granted(receipt),
        PaymentOutcome::Unmatched { reason, details, is_new } => {
            tell_unmatched(paid.payment, reason, &details, is_new);
            FulfilmentOutcome::Unmatched
        }
    }
}

/// Handles a payment that was declined or cancelled. On the processor's page the customer may try
/// another card, so only a cancellation closes the order. The attempts of a top-up are counted in
/// `top_ups`.
async fn end(
    billing: &BillingState,
    named: OrderId,
    intent: &PaymentIntent,
) -> Result<FulfilmentOutcome, Failure> {
    let is_canceled = intent.status == IntentStatus::Canceled;
    let fault = intent.last_payment_error.as_ref();
    let reason = fault.and_then(|fault| fault.decline_code.as_deref().or(fault.code.as_deref()));
    let reason = reason.unwrap_or(if is_canceled { "canceled" } else { "payment_failed" });
    let Some(order) = order_of(billing, named, intent.customer_id()).await? else {
        return Ok(FulfilmentOutcome::NotOurs);
    };
    orders::set_payment(&billing.store, order.id, &intent.id).await?;
    let closes = match order.channel {
        OrderChannel::Charge => true,
        OrderChannel::Checkout => is_canceled,
        OrderChannel::TopUp => {
            if top_ups::take_unpaid(billing, order.id, intent).await? {
                return Ok(FulfilmentOutcome::Open);
            }
            false
        }
    };
    if closes {
        orders::close(
            &billing.store,
            order.id,
            OrderState::Failed,
            Some(reason),
            billing.clock.now(),
        )
        .await?;
        return Ok(FulfilmentOutcome::Ended { reason: reason.to_owned() });
    }
    let is_open = order.channel == OrderChannel::Checkout;
    Ok(if is_open {
        FulfilmentOutcome::Open
    } else {
        FulfilmentOutcome::Ended { reason: reason.to_owned() }
    })
}

/// The order that an object names, if the same customer pays.
async fn order_of(
    billing: &BillingState,
    named: OrderId,
    payer: Option<&str>,
) -> Result<Option<Order>, Failure> {
    let found = orders::find_any(&billing.store, named).await?;
    Ok(found.filter(|order| payer == Some(order.processor_customer.as_str())))
}

/// Saves the card that paid for later charges. A failure to save it does not undo the payment.
async fn remember_card(
    billing: &BillingState,
    session: &CheckoutSession,
    fulfilment: &FulfilmentOutcome,
) {
    let (FulfilmentOutcome::Granted(receipt), Some(card)) =
        (fulfilment, session.payment_method().and_then(|method| method.object()))
    else {
        return;
    };
    if let Err(error) = cards::remember_newest(billing, receipt.customer, card).await {
        tracing::warn!(%error, customer.id = %receipt.customer, "the card of a payment was not saved");
    }
}
