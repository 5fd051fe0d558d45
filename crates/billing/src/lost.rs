//! Old orders whose request ended without a response. The processor no longer recognises the
//! request by its key, so its result is looked up before anything else is done.

use domain::id::CustomerId;
use domain::payment::{OrderChannel, OrderState};
use failures::Failure;
use processor_client::ListFilter;
use processor_client::objects::{IntentStatus, PaymentIntent};
use store::orders::{self, Order};

use super::listing::all;
use super::{fulfil, marks};
use crate::BillingState;

/// The processor keeps idempotency keys for at least 24 hours; a request older than this is not
/// sent again.
pub(super) const RESENT_FOR_S: i64 = 23 * 3_600;
/// A checkout page closes after 24 hours; the extra hour allows for clock differences.
pub(super) const PAGE_OPEN_FOR_S: i64 = 25 * 3_600;
/// Allowance for a processor's clock that is behind ours.
const CLOCKS_S: i64 = 600;
/// The number of pages of a customer's payments that are searched.
const PAGES_MAX: usize = 20;
/// The number of orders handled in one pass.
const ORDERS_MAX: i64 = 100;

/// The result of looking for an order's payment.
pub(super) enum FoundPayment {
    /// The payment that was created.
    Intent(Box<PaymentIntent>),
    /// The processor never received the request; the order is closed.
    Nothing,
}

/// Whether the order's request is too old to be sent again.
pub(super) fn is_old(billing: &BillingState, order: &Order) -> bool {
    billing.clock.now() >= order.created_at.plus_seconds(RESENT_FOR_S)
}

/// Looks for the payment of an old order among all payments of its customer since then. If there is
/// none, the processor never received the request, and the order is closed.
pub(super) async fn find_intent(
    billing: &BillingState,
    order: &Order,
) -> Result<FoundPayment, Failure> {
    let processor = billing.processor()?;
    let mut after: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let listing = ListFilter {
            customer: Some(&order.processor_customer),
            created_from: Some(order.created_at.unix_seconds().saturating_sub(CLOCKS_S)),
            after: after.as_deref(),
            ..ListFilter::default()
        };
        let page = processor.list_intents(&listing).await?;
        let next = page.next().map(str::to_owned);
        let named = |intent: &PaymentIntent| marks::names(&intent.metadata, order.id);
        if let Some(intent) = page.data.into_iter().find(named) {
            return Ok(FoundPayment::Intent(Box::new(intent)));
        }
        match next {
            Some(next) => after = Some(next),
            None => {
                orders::close(
                    &billing.store,
                    order.id,
                    OrderState::Failed,
                    Some("never_made"),
                    billing.clock.now(),
                )
                .await?;
                return Ok(FoundPayment::Nothing);
            }
        }
    }
    Err(Failure::Internal(format!("the customer of {} has too many payments to search", order.id)))
}

/// Grants what the customer paid in the last day for orders that are unknown here, so that an
/// automatic charge is decided with the balance that it brings.
pub(super) async fn take_unknown(
    billing: &BillingState,
    customer: CustomerId,
) -> Result<(), Failure> {
    let payer = store::processor_customers::find(&billing.store, customer).await?;
    let Some(payer) = payer.as_deref() else { return Ok(()) };
    let (processor, now) = (billing.processor()?, billing.clock.now());
    let from = now.plus_seconds(-PAGE_OPEN_FOR_S).unix_seconds();
    let made: Vec<PaymentIntent> = all(move |after| {
        let processor = processor.clone();
        async move {
            let of_payer = ListFilter {
                customer: Some(payer),
                created_from: Some(from),
                after: after.as_deref(),
                ..ListFilter::default()
            };
            processor.list_intents(&of_payer).await
        }
    })
    .await?;
    for intent in made.iter().filter(|intent| intent.status == IntentStatus::Succeeded) {
        let Some(named) = marks::named_order(&intent.metadata) else { continue };
        if orders::find_any(&billing.store, named).await?.is_none() {
            fulfil::take_intent(billing, intent).await?;
        }
    }
    Ok(())
}

/// Settles orders that have been pending for more than a day: grants what was paid and closes the
/// rest. Top-ups are handled in `top_ups`. What fails is tried again in the next pass.
pub async fn settle_old(billing: &BillingState) {
    if !billing.config.processor.is_configured() {
        return;
    }
    let before = billing.clock.now().plus_seconds(-PAGE_OPEN_FOR_S);
    let old = match orders::list_pending(&billing.store, before, ORDERS_MAX).await {
        Ok(old) => old,
        Err(error) => return tracing::warn!(%error, "old orders could not be read"),
    };
    for order in &old {
        let settled = match order.channel {
            OrderChannel::Checkout => settle_checkout(billing, order).await,
            OrderChannel::Charge => settle_charge(billing, order).await,
            OrderChannel::TopUp => Ok(()),
        };
        if let Err(error) = settled {
            tracing::warn!(%error, order.id = %order.id, "an old order could not be settled yet");
        }
    }
}

async fn settle_checkout(billing: &BillingState, order: &Order) -> Result<(), Failure> {
    if let Some(session) = &order.session {
        fulfil::fulfil_session(billing, session).await?;
    } else if let FoundPayment::Intent(intent) = find_intent(billing, order).await? {
        fulfil::take_intent(billing, &intent).await?;
    }
    orders::close(
        &billing.store,
        order.id,
        OrderState::Expired,
        Some("expired"),
        billing.clock.now(),
    )
    .await?;
    Ok(())
}

/// A customer who left while authenticating may not come back: the payment is cancelled, so that it
/// cannot succeed unexpectedly later.
async fn settle_charge(billing: &BillingState, order: &Order) -> Result<(), Failure> {
    let intent = match &order.payment {
        Some(intent) => intent.clone(),
        None => match find_intent(billing, order).await? {
            FoundPayment::Intent(intent) => intent.id,
            FoundPayment::Nothing => return Ok(()),
        },
    };
    if fulfil::fulfil_intent(billing, &intent).await? == fulfil::FulfilmentOutcome::Open {
        let canceled =
            billing.processor()?.cancel_intent(&intent, &super::key("cancel", order.id)?).await;
        if canceled.is_ok() {
            fulfil::fulfil_intent(billing, &intent).await?;
        }
    }
    Ok(())
}
