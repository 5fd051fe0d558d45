//! Orders whose request ended without an answer, long ago: the processor no longer knows the request by its key, so
//! what became of it is looked up before anything else is done.

use clients::processor::ListFilter;
use clients::processor::objects::PaymentIntent;
use domain::payment::{OrderChannel, OrderState};
use failures::Failure;
use store::orders::{self, Order};

use super::fulfil;
use crate::BillingState;

/// The processor keeps keys for 24 hours at least; beyond this age no request is sent again.
const RESENT_FOR_S: i64 = 23 * 3_600;
/// A hosted page closes after 24 hours; an hour more is for clocks.
pub(super) const PAGE_OPEN_FOR_S: i64 = 25 * 3_600;
/// The processor's clock may be behind ours.
const CLOCKS_S: i64 = 600;
/// Pages of a customer's payments that are looked through.
const PAGES_MAX: usize = 20;
/// Orders that are looked after in one pass.
const ORDERS_MAX: i64 = 100;

/// What the processor knows of an order.
pub(super) enum FoundPayment {
    /// The payment that it made.
    Intent(Box<PaymentIntent>),
    /// It never heard of it; the order is closed.
    Nothing,
}

/// Whether the order's request must not be sent again.
pub(super) fn is_old(billing: &BillingState, order: &Order) -> bool {
    billing.clock.now() >= order.created_at.plus_seconds(RESENT_FOR_S)
}

/// Looks for the payment of an old order among all of its customer's since then. There is none only if the processor
/// never got the request: then the order is closed.
pub(super) async fn find_intent(
    billing: &BillingState,
    order: &Order,
) -> Result<FoundPayment, Failure> {
    let processor = billing.processor()?;
    let order_id = order.id.to_string();
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
        let named = |intent: &PaymentIntent| intent.metadata.get("order_id") == Some(&order_id);
        if let Some(intent) = page.data.into_iter().find(named) {
            return Ok(FoundPayment::Intent(Box::new(intent)));
        }
        match next {
            Some(next) => after = Some(next),
            None => {
                let ending = (OrderState::Failed, Some("never_made"));
                orders::close(&billing.store, order.id, ending, billing.clock.now()).await?;
                return Ok(FoundPayment::Nothing);
            }
        }
    }
    Err(Failure::Internal(format!("{order_id} has too many payments to look through")))
}

/// Looks after orders that have been pending for more than a day: grants what was paid and closes what was not. Top-ups
/// are looked after where their attempts are counted. What fails is tried again in the next pass.
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
            tracing::warn!(%error, order.id = %order.id, "an old order stays pending");
        }
    }
}

async fn settle_checkout(billing: &BillingState, order: &Order) -> Result<(), Failure> {
    if let Some(session) = &order.session {
        fulfil::fulfil_session(billing, session).await?;
    } else if let FoundPayment::Intent(intent) = find_intent(billing, order).await? {
        fulfil::take_intent(billing, &intent).await?;
    }
    // Whatever the page's end was called, it is over; money that should still arrive pays the order all the same.
    let ending = (OrderState::Expired, Some("expired"));
    orders::close(&billing.store, order.id, ending, billing.clock.now()).await?;
    Ok(())
}

/// A customer who left in the middle of authenticating may not come back: the payment is cancelled, so that it cannot
/// be made by surprise.
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
