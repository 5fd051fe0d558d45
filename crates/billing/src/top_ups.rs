//! Automatic top-up: a saved card is charged without the customer when the balance becomes low.
//!
//! The store decides in one transaction whether a charge may be made. This module sends it, always
//! with the key of its order, and brings it to its end: paid, declined, or waiting for the
//! customer. A charge with an unknown outcome stays claimed; any node continues it after its lease,
//! first by looking it up, then by repeating the same request.

use domain::credits::Credits;
use domain::id::{CustomerId, OrderId};
use domain::top_up::{LEASE_S, SAME_KEY_S, TopUpState, WAIT_S};
use emails::EmailRequest;
use failures::Failure;
use failures::PaymentProblem;
use processor_client::objects::{IntentStatus, PaymentIntent};
use processor_client::{
    CustomerPresence, NewIntent, PaymentDecline, ProcessorError, RequestRefusal,
};
use runtime::metrics;
use settings::billing::CURRENCY;
use store::orders::{self, Order};
use store::top_up_settings::{self, TopUpRequest};
use store::top_ups::{self, TopUp, TopUpClaim, TopUpClaiming, TopUpFailureOutcome, TopUpOffer};

use super::fulfil;
use super::lost::{self, FoundPayment};
use super::marks::{self, OrderMetadata};
use super::top_up_view::{self, TopUpView};
use crate::BillingState;

/// The number of charges that one check of all customers starts or continues.
const CHARGES_MAX: i64 = 1_000;

/// The customers to charge and the charges to continue, read at the start and then periodically.
#[derive(Debug, Default)]
pub(super) struct DueTopUps {
    /// Customers whose balance is low.
    pub(super) customers: Vec<CustomerId>,
    /// Charges that a worker left unfinished.
    pub(super) left: Vec<TopUp>,
    /// Charges that have waited too long for the customer.
    pub(super) overdue: Vec<TopUp>,
}

/// Turns it on, or changes it. A charge that waits for the customer is cancelled; one in progress
/// continues.
///
/// Returns the state before the charge that this may begin.
pub async fn turn_on(
    billing: &BillingState,
    wish: &TopUpRequest<'_>,
) -> Result<TopUpView, Failure> {
    billing.processor()?;
    give_up_waiting(billing, wish.customer).await?;
    if !top_up_settings::turn_on(&billing.store, wish).await? {
        return Err(PaymentProblem::NoSavedCard.into());
    }
    let set = top_up_view::view(billing, wish.customer).await?;
    billing.low_balances.watch(wish.customer, wish.threshold);
    if billing.low_balances.begin(wish.customer) {
        let (worker, customer) = (billing.clone(), wish.customer);
        // The balance may already be low. The charge runs in the background.
        drop(billing.tasks.on_control(async move { attempt_begun(&worker, customer).await }));
    }
    Ok(set)
}

/// Turns it off. A charge that waits for the customer is cancelled; one in progress continues.
pub async fn turn_off(billing: &BillingState, customer: CustomerId) -> Result<(), Failure> {
    top_up_settings::turn_off(&billing.store, customer, billing.clock.now()).await?;
    billing.low_balances.forget(customer);
    give_up_waiting(billing, customer).await
}

/// Finds everything that is due, for all customers.
pub(super) async fn look(billing: &BillingState) -> Result<DueTopUps, Failure> {
    let now = billing.clock.now();
    top_up_settings::forget_ended_waits(&billing.store).await?;
    billing.low_balances.watch_all(top_up_settings::list_thresholds(&billing.store).await?);
    Ok(DueTopUps {
        customers: top_up_settings::list_due(&billing.store, now, CHARGES_MAX).await?,
        left: top_ups::list_left(&billing.store, now, CHARGES_MAX).await?,
        overdue: top_ups::list_waiting(&billing.store, now.plus_seconds(-WAIT_S), CHARGES_MAX)
            .await?,
    })
}

/// Charges a customer whose balance is low, unless something prevents it. True if a charge was
/// made.
pub(super) async fn attempt(billing: &BillingState, customer: CustomerId) -> bool {
    billing.low_balances.begin(customer) && attempt_begun(billing, customer).await
}

async fn attempt_begun(billing: &BillingState, customer: CustomerId) -> bool {
    let charged = claim_and_charge(billing, customer).await;
    billing.low_balances.end(customer);
    charged.unwrap_or_else(|error| {
        tracing::warn!(%error, customer.id = %customer, "an automatic top-up failed and will be retried");
        false
    })
}

/// Continues a charge that a worker left unfinished.
pub(super) async fn resume(billing: &BillingState, left: &TopUp) {
    let until = billing.clock.now().plus_seconds(LEASE_S);
    let resumed = async {
        if !top_ups::take_over(&billing.store, left, until).await? {
            return Ok(());
        }
        let looked_up = look_up(billing, left).await;
        top_ups::release(&billing.store, left.order).await?;
        looked_up
    };
    if let Err(error) = resumed.await {
        tracing::warn!(%error, order.id = %left.order, "the outcome of a top-up is still unknown");
    }
}

/// Cancels a charge that has waited too long for the customer.
pub(super) async fn give_up(billing: &BillingState, overdue: &TopUp) {
    if let Err(error) = withdraw(billing, overdue).await {
        tracing::warn!(%error, order.id = %overdue.order, "a top-up that was not confirmed could not be cancelled yet");
    }
}

/// Handles an unpaid payment intent of a top-up, as it was read from the processor. True if the
/// charge waits for the customer.
pub(super) async fn take_unpaid(
    billing: &BillingState,
    order: OrderId,
    intent: &PaymentIntent,
) -> Result<bool, Failure> {
    let Some(top_up) = top_ups::find(&billing.store, order).await? else { return Ok(false) };
    if top_up.state.is_open() {
        unpaid(billing, &top_up, intent).await?;
    }
    let now = top_ups::find(&billing.store, order).await?;
    Ok(now.is_some_and(|now| now.state == TopUpState::RequiresAction))
}

async fn claim_and_charge(billing: &BillingState, customer: CustomerId) -> Result<bool, Failure> {
    // A database that was restored from an older copy does not know the latest payments.
    if !billing.low_balances.has_looked(customer) {
        lost::take_unknown(billing, customer).await?;
        billing.low_balances.note_look(customer);
    }
    let now = billing.clock.now();
    let offers: Vec<TopUpOffer<'_>> = billing.config.packs.iter().map(offer).collect();
    let claim = TopUpClaim {
        customer,
        order: OrderId::new(now, billing.random.bytes()),
        offers: &offers,
        currency: CURRENCY,
        livemode: billing.config.processor.livemode,
        at: now,
        leased_until: now.plus_seconds(LEASE_S),
    };
    match top_ups::claim(&billing.store, &claim).await? {
        TopUpClaiming::Claimed(top_up) => {
            let carried = carry_on(billing, &top_up).await;
            top_ups::release(&billing.store, top_up.order).await?;
            carried.map(|()| true)
        }
        TopUpClaiming::Hindered(hindrance) => {
            tracing::debug!(customer.id = %customer, ?hindrance, "no automatic top-up");
            Ok(false)
        }
    }
}

fn offer(pack: &settings::billing::Pack) -> TopUpOffer<'_> {
    TopUpOffer {
        pack_id: &pack.id,
        credits: Credits::from_whole(pack.credits),
        price_cents: pack.price_cents,
    }
}

/// Brings a claimed charge to its end, or as far as possible now.
async fn carry_on(billing: &BillingState, top_up: &TopUp) -> Result<(), Failure> {
    if let Some(intent) = &top_up.intent {
        let intent = billing.processor()?.retrieve_intent(intent).await?;
        return conclude(billing, top_up, &intent).await;
    }
    let order = orders::find(&billing.store, top_up.customer, top_up.order).await?;
    let Some(order) = order else { return Ok(()) };
    match send(billing, top_up, &order).await {
        Ok(intent) => conclude(billing, top_up, &intent).await,
        Err(ProcessorError::Declined(decline)) => declined(billing, top_up, &decline).await,
        Err(ProcessorError::Refused(refusal)) => refused(billing, top_up, &refusal).await,
        Err(ProcessorError::Missing) => fail(billing, top_up, "refused", true).await,
        Err(
            error @ (ProcessorError::LockTimeout
            | ProcessorError::RateLimited(_)
            | ProcessorError::Unreachable(_)
            | ProcessorError::Unknown(_)),
        ) => {
            metrics::top_up_ended("unknown");
            tracing::warn!(%error, order.id = %top_up.order, "the outcome of a top-up is unknown; it will be continued");
            Ok(())
        }
    }
}

/// Sends the charge. Its content comes from rows that never change, so it is the same request each
/// time.
async fn send(
    billing: &BillingState,
    top_up: &TopUp,
    order: &Order,
) -> Result<PaymentIntent, ProcessorError> {
    let unsendable = |_| ProcessorError::Missing;
    let metadata = OrderMetadata::of(order)
        .with(marks::TOP_UP, order.id.to_string())
        .with(marks::CAP, top_up.cap_cents.to_string());
    let new = NewIntent {
        amount_cents: top_up.cents,
        currency: &top_up.currency,
        customer: &top_up.processor_customer,
        payment_method: &top_up.payment_method,
        presence: CustomerPresence::OffSession,
        description: None,
        metadata: &metadata.pairs(),
    };
    let processor = billing.processor().map_err(unsendable)?;
    processor.create_intent(&new, &super::key("topup", top_up.order).map_err(unsendable)?).await
}

/// Looks up a charge that was left unfinished. This comes before sending it again, because the
/// processor may have stored a failure as the response to the key, and forgets the key after a day.
async fn look_up(billing: &BillingState, top_up: &TopUp) -> Result<(), Failure> {
    let order = orders::find(&billing.store, top_up.customer, top_up.order).await?;
    let Some(order) = order else { return Ok(()) };
    match lost::find_intent(billing, &order).await? {
        FoundPayment::Intent(intent) => conclude(billing, top_up, &intent).await,
        FoundPayment::Nothing
            if billing.clock.now() >= top_up.claimed_at.plus_seconds(SAME_KEY_S) =>
        {
            fail(billing, top_up, "never_made", false).await
        }
        // It may still be in transit: the same request with the same key takes effect once.
        FoundPayment::Nothing => carry_on(billing, top_up).await,
    }
}

async fn conclude(
    billing: &BillingState,
    top_up: &TopUp,
    intent: &PaymentIntent,
) -> Result<(), Failure> {
    if intent.status != IntentStatus::Succeeded {
        return unpaid(billing, top_up, intent).await;
    }
    fulfil::take_intent(billing, intent).await?;
    metrics::top_up_ended("succeeded");
    // The balance may become low again before the next check of all customers.
    if let Some(settings) = top_up_settings::find(&billing.store, top_up.customer).await?
        && settings.enabled
    {
        billing.low_balances.watch(top_up.customer, settings.threshold);
    }
    Ok(())
}

async fn unpaid(
    billing: &BillingState,
    top_up: &TopUp,
    intent: &PaymentIntent,
) -> Result<(), Failure> {
    let fault = intent.last_payment_error.as_ref();
    let decline = PaymentDecline {
        code: fault.and_then(|fault| fault.code.clone()),
        decline_code: fault.and_then(|fault| fault.decline_code.clone()),
        ..PaymentDecline::default()
    };
    match intent.status {
        IntentStatus::RequiresAction => wait(billing, top_up, &intent.id).await,
        IntentStatus::RequiresPaymentMethod if decline.wants_authentication() => {
            wait(billing, top_up, &intent.id).await
        }
        IntentStatus::RequiresPaymentMethod => {
            declined_there(billing, top_up, intent, &decline).await
        }
        IntentStatus::Canceled => {
            let (reason, is_decline) = end_of_canceled(billing, top_up, &decline);
            fail(billing, top_up, reason, is_decline).await
        }
        IntentStatus::Processing
        | IntentStatus::RequiresConfirmation
        | IntentStatus::RequiresCapture
        | IntentStatus::Succeeded
        | IntentStatus::Other => {
            Ok(top_ups::note_intent(&billing.store, top_up.order, &intent.id).await?)
        }
    }
}

/// Handles a charge that the bank declined, perhaps while the customer confirmed it. One that the
/// customer's browser knows is cancelled, so that it cannot be paid later in addition to the next
/// one.
async fn declined_there(
    billing: &BillingState,
    top_up: &TopUp,
    intent: &PaymentIntent,
    decline: &PaymentDecline,
) -> Result<(), Failure> {
    if top_up.state == TopUpState::RequiresAction {
        let now = cancel(billing, top_up, &intent.id).await?;
        if now.status == IntentStatus::Succeeded {
            // Paid at this moment; its event grants it.
            return Ok(());
        }
    }
    fail(billing, top_up, decline.reason(), true).await
}

/// Why a charge was cancelled, derived from its last attempt and its age, and whether the card was
/// at fault. Every caller gets the same reason.
fn end_of_canceled<'a>(
    billing: &BillingState,
    top_up: &TopUp,
    decline: &'a PaymentDecline,
) -> (&'a str, bool) {
    let was_declined = decline.code.is_some() && !decline.wants_authentication();
    if was_declined {
        (decline.reason(), true)
    } else if billing.clock.now() >= top_up.claimed_at.plus_seconds(WAIT_S) {
        ("not_confirmed", true)
    } else {
        ("canceled", false)
    }
}

async fn declined(
    billing: &BillingState,
    top_up: &TopUp,
    decline: &PaymentDecline,
) -> Result<(), Failure> {
    if let Some(intent) = &decline.payment_intent {
        if decline.wants_authentication() {
            return wait(billing, top_up, &intent.id).await;
        }
        top_ups::note_intent(&billing.store, top_up.order, &intent.id).await?;
    }
    fail(billing, top_up, decline.reason(), true).await
}

async fn refused(
    billing: &BillingState,
    top_up: &TopUp,
    refusal: &RequestRefusal,
) -> Result<(), Failure> {
    tracing::warn!(%refusal, order.id = %top_up.order, "the processor refused a top-up");
    if refusal.is_key_reused() {
        // Left open; it is found later by looking it up.
        return Ok(());
    }
    if refusal.param.as_deref() == Some("payment_method") {
        fail(billing, top_up, "card_gone", true).await?;
        let now = billing.clock.now();
        store::cards::remove_detached(&billing.store, &top_up.payment_method, now).await?;
        return Ok(());
    }
    fail(billing, top_up, refusal.code.as_deref().unwrap_or("refused"), true).await
}

/// The bank requires the customer: the charge waits, and an email says so.
async fn wait(billing: &BillingState, top_up: &TopUp, intent: &str) -> Result<(), Failure> {
    let letter =
        emails::job(&billing.jobs, &EmailRequest::TopUpWaits { customer: top_up.customer });
    if top_ups::wait_for_customer(&billing.store, top_up.order, intent, &letter).await? {
        billing.jobs.wake();
        metrics::top_up_ended("requires_action");
        tracing::info!(order.id = %top_up.order, "a top-up waits for its customer");
    }
    Ok(())
}

async fn fail(
    billing: &BillingState,
    top_up: &TopUp,
    reason: &str,
    is_decline: bool,
) -> Result<(), Failure> {
    let letter =
        emails::job(&billing.jobs, &EmailRequest::TopUpStopped { customer: top_up.customer });
    let at = billing.clock.now();
    let failure = top_ups::TopUpFailure { reason, is_decline, letter: Some(&letter), at };
    match top_ups::fail(&billing.store, top_up.order, &failure).await? {
        TopUpFailureOutcome::Ended => return Ok(()),
        TopUpFailureOutcome::Later => metrics::top_up_ended("failed"),
        TopUpFailureOutcome::TurnedOff => {
            billing.jobs.wake();
            billing.low_balances.forget(top_up.customer);
            metrics::top_up_ended("turned_off");
        }
    }
    tracing::info!(order.id = %top_up.order, reason, "a top-up failed");
    Ok(())
}

/// Cancels a charge that waits for the customer, so that it cannot be paid later. If it was paid in
/// the meantime, it is granted.
async fn give_up_waiting(billing: &BillingState, customer: CustomerId) -> Result<(), Failure> {
    let Some(open) = top_ups::find_open(&billing.store, customer).await? else { return Ok(()) };
    if open.state == TopUpState::RequiresAction { withdraw(billing, &open).await } else { Ok(()) }
}

async fn withdraw(billing: &BillingState, open: &TopUp) -> Result<(), Failure> {
    let Some(intent) = &open.intent else { return Ok(()) };
    let now = cancel(billing, open, intent).await?;
    conclude(billing, open, &now).await
}

/// Cancels the payment of a charge at the processor, and returns its state after that.
async fn cancel(
    billing: &BillingState,
    open: &TopUp,
    intent: &str,
) -> Result<PaymentIntent, Failure> {
    let processor = billing.processor()?;
    match processor.cancel_intent(intent, &super::key("cancel", open.order)?).await {
        // It may have been paid or cancelled before.
        Err(ProcessorError::Refused(_) | ProcessorError::Missing) => {
            Ok(processor.retrieve_intent(intent).await?)
        }
        canceled => Ok(canceled?),
    }
}
