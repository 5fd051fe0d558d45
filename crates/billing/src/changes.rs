//! Changes of slots and of the plan: decided from the processor's current state, recorded, carried
//! out, and closed once the processor shows the result.
//!
//! The row is committed first, and the idempotency keys of its requests are derived from its id, so
//! a request that is sent again does nothing twice. While an outcome is unknown the row stays open,
//! and the next request of the customer, or the background work, continues with the same requests.
//! Each customer has at most one open change.
//!
//! Most changes are one request. An upgrade while a cheaper plan is pending is two: the pending
//! plan is withdrawn, so that the upgrade is priced from the plan that is paid for, and then the
//! upgrade is paid. If that fails, a third request restores the pending plan before the change is
//! closed.

use domain::id::CustomerId;
use domain::slot::{ChangeProration, ChangeStep, SlotChangeKind, SlotChangeState};
use domain::time::Timestamp;
use failures::Failure;
use failures::PaymentProblem;
use processor_client::ProcessorError;
use runtime::audit;
use store::slot_changes::{self, SlotChange, SlotChangeStart};

use super::change_requests::{send, send_plan};
use super::decide::{self, ChangeRequest};
use super::fulfil::FulfilmentOutcome;
use super::{invoices, slot_credits, subscriptions};
use crate::BillingState;

/// How long one attempt owns a change: longer than all retries of its request together.
pub const LEASE_S: i64 = 240;
/// The processor remembers an idempotency key for a day; an older request is not sent again.
const SENT_AGAIN_S: i64 = 23 * 3_600;
/// A request that has not taken effect after this time never will.
const SETTLED_AFTER_S: i64 = 600;
/// The time after which we stop trying to restore a pending plan.
const GIVEN_UP_AFTER_S: i64 = 25 * 3_600;
/// The time after an unknown outcome at which the background work tries again.
const AGAIN_AFTER_S: i64 = 10;
/// How often a decision is repeated because the subscription was written in the meantime.
const ROUNDS_MAX: usize = 50;
/// The change was made, but the processor no longer shows it: something changed it again.
const SUPERSEDED: &str = "superseded";
/// The number of changes that one round of the background work continues.
const LEFT_MAX: i64 = 20;

/// What a change cost and granted, as far as that is known when it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeResult {
    /// The invoice that was paid for it.
    pub invoice_id: Option<String>,
    /// The amount charged, in cents.
    pub charged_cents: Option<i64>,
    /// The credits granted.
    pub credits_granted: Option<i64>,
}

impl ChangeResult {
    /// The result of a change that was made before.
    fn of(change: &SlotChange) -> Self {
        if change.proration != ChangeProration::PayNow {
            return Self::nothing();
        }
        let (invoice_id, charged_cents) = (change.invoice_id.clone(), change.charged_cents);
        Self { invoice_id, charged_cents, credits_granted: None }
    }

    /// The result of a change that moves no money now.
    pub(super) const fn nothing() -> Self {
        Self { invoice_id: None, charged_cents: Some(0), credits_granted: Some(0) }
    }
}

/// Makes the requested change. Runs to its end even if the caller disconnects.
pub async fn make(billing: &BillingState, wish: ChangeRequest) -> Result<ChangeResult, Failure> {
    let worker = billing.clone();
    billing.tasks.on_control(async move { make_now(&worker, &wish).await }).await?
}

/// Continues open changes that no attempt owns.
pub async fn resume_left(billing: &BillingState) {
    if billing.processor().is_err() {
        return;
    }
    let left = match slot_changes::list_left(&billing.store, billing.clock.now(), LEFT_MAX).await {
        Ok(left) => left,
        Err(error) => return tracing::warn!(%error, "open slot changes could not be read"),
    };
    for change in left {
        if let Err(error) = resume(billing, &change).await {
            tracing::warn!(%error, change.id = %change.id, "a slot change is still open or has failed");
        }
    }
}

async fn make_now(billing: &BillingState, wish: &ChangeRequest) -> Result<ChangeResult, Failure> {
    billing.processor()?;
    let payer = store::processor_customers::find(&billing.store, wish.customer).await?;
    let payer = payer.ok_or(PaymentProblem::NoSubscription)?;
    if let Some(made) = made_before(billing, wish).await? {
        return continued(billing, &made).await;
    }
    if let Some(open) = slot_changes::find_open(&billing.store, wish.customer).await? {
        let ended = resume(billing, &open).await;
        // A repetition of the open change gets its result. Any other request continues once the
        // open change is closed.
        if wish.is_of(&open) {
            return ended;
        }
        if is_open(billing, &open).await? {
            return Err(PaymentProblem::ChangeInProgress.into());
        }
    }
    subscriptions::sync_customer(billing, wish.customer, &payer).await?;
    for _ in 0..ROUNDS_MAX {
        let Some(new) = decide::decide(billing, wish).await? else {
            return Ok(ChangeResult::nothing());
        };
        match slot_changes::start(&billing.store, &new, &billing.allowances).await? {
            SlotChangeStart::Started(change) => return carry_out(billing, &change).await,
            SlotChangeStart::Busy(open) if wish.id == Some(open.id) => {
                return continued(billing, &open).await;
            }
            SlotChangeStart::Busy(_) => return Err(PaymentProblem::ChangeInProgress.into()),
            SlotChangeStart::InUse(occupied) => {
                return Err(PaymentProblem::SlotsInUse(occupied).into());
            }
            SlotChangeStart::Overtaken => {}
        }
    }
    Err(PaymentProblem::ChangeInProgress.into())
}

/// The change that an earlier attempt of the same request made.
async fn made_before(
    billing: &BillingState,
    wish: &ChangeRequest,
) -> Result<Option<SlotChange>, Failure> {
    let Some(id) = wish.id else { return Ok(None) };
    let found = slot_changes::find(&billing.store, id).await?;
    Ok(found.filter(|change| change.customer == wish.customer))
}

/// The result of a change, continued if necessary. While another attempt owns it, the outcome is
/// unknown.
async fn continued(billing: &BillingState, change: &SlotChange) -> Result<ChangeResult, Failure> {
    match (change.state, &change.decline_code) {
        (SlotChangeState::Applied, _) => {
            Ok(follow(billing, change, ChangeResult::of(change)).await)
        }
        (SlotChangeState::Failed, Some(code)) => {
            Err(PaymentProblem::Failed { decline_code: code.clone() }.into())
        }
        (SlotChangeState::Failed, None) => Err(PaymentProblem::ChangeInProgress.into()),
        (SlotChangeState::Open, _) => match resume(billing, change).await {
            Err(Failure::Payment(PaymentProblem::ChangeInProgress)) => {
                let reason = "another attempt is in progress".to_owned();
                Err(PaymentProblem::ChangeUnknown(reason).into())
            }
            ended => ended,
        },
    }
}

/// Takes over an open change that no attempt owns, and carries it out.
async fn resume(billing: &BillingState, change: &SlotChange) -> Result<ChangeResult, Failure> {
    let now = billing.clock.now();
    let until = now.plus_seconds(LEASE_S);
    match slot_changes::take_over(&billing.store, change, now, until).await? {
        Some(taken) => carry_out(billing, &taken).await,
        None => Err(PaymentProblem::ChangeInProgress.into()),
    }
}

/// Sends the remaining requests of a change and records their results.
async fn carry_out(billing: &BillingState, change: &SlotChange) -> Result<ChangeResult, Failure> {
    match change.step {
        ChangeStep::TakeBack => {
            let Some(next) = take_back(billing, change).await? else {
                return Ok(ChangeResult::default());
            };
            carry_out_change(billing, &next).await
        }
        ChangeStep::Change => carry_out_change(billing, change).await,
        ChangeStep::Restore => {
            restore(billing, change).await?;
            refused_before(change)
        }
    }
}

/// The response to a repetition of a change that was declined while the pending plan was being
/// restored.
fn refused_before(change: &SlotChange) -> Result<ChangeResult, Failure> {
    match &change.decline_code {
        Some(reason) => Err(PaymentProblem::Failed { decline_code: reason.clone() }.into()),
        None => Ok(ChangeResult::default()),
    }
}

/// Sets the plan's item back to the price that is paid for, which moves no money. Returns `None` if
/// another attempt continues the change.
async fn take_back(
    billing: &BillingState,
    change: &SlotChange,
) -> Result<Option<SlotChange>, Failure> {
    let paid = change.plan_item().and_then(|item| item.paid_price_id.as_deref());
    let paid = paid.unwrap_or_default();
    if let Err(error) = send_plan(billing, change, paid, "slot_back").await {
        let is_certain = matches!(error, ProcessorError::Refused(_) | ProcessorError::Missing)
            || (change.attempts == 1 && is_not_sent(&error));
        if is_certain {
            fail(billing, change, "not_taken_back", None).await?;
            return Err(error.into());
        }
        if !shows_plan_at(billing, change, paid).await? {
            if is_older(billing, change, SETTLED_AFTER_S) {
                fail(billing, change, "not_taken_back", None).await?;
                return Err(PaymentProblem::Unavailable(error).into());
            }
            release(billing, change).await?;
            return Err(PaymentProblem::ChangeUnknown(chain(&error)).into());
        }
    }
    let until = billing.clock.now().plus_seconds(LEASE_S);
    Ok(slot_changes::set_step(&billing.store, change, ChangeStep::Change, until).await?)
}

async fn carry_out_change(
    billing: &BillingState,
    change: &SlotChange,
) -> Result<ChangeResult, Failure> {
    if is_older(billing, change, SENT_AGAIN_S) {
        settle(billing, change, "expired").await?;
        return Ok(ChangeResult::default());
    }
    match send(billing, change).await {
        Ok(made) => {
            settle(billing, change, SUPERSEDED).await?;
            Ok(follow(billing, change, made).await)
        }
        Err(ProcessorError::Declined(decline)) => {
            let code = decline.code.as_deref().unwrap_or("card_declined");
            fail(billing, change, code, Some(decline.reason())).await?;
            Err(ProcessorError::Declined(decline).into())
        }
        Err(error @ (ProcessorError::Refused(_) | ProcessorError::Missing)) => {
            settle(billing, change, "refused").await?;
            Err(error.into())
        }
        // This attempt was not sent, but an earlier one may have been.
        Err(error) if change.attempts == 1 && is_not_sent(&error) => {
            fail(billing, change, "not_sent", None).await?;
            Err(error.into())
        }
        Err(error) => {
            unknown(billing, change, error).await?;
            Ok(ChangeResult::default())
        }
    }
}

/// Follow-up of a change that was made: grants the credits of an upgrade, and records what a
/// lowering credited. If either fails now, background work does it a little later.
async fn follow(
    billing: &BillingState,
    change: &SlotChange,
    mut made: ChangeResult,
) -> ChangeResult {
    if change.kind == SlotChangeKind::Lower && change.proration == ChangeProration::NextInvoice {
        slot_credits::follow(billing, change.id).await;
    }
    let invoice = made.invoice_id.as_deref().filter(|_| change.kind == SlotChangeKind::Plan);
    if let Some(invoice) = invoice {
        match invoices::fulfil_invoice(billing, invoice).await {
            Ok(FulfilmentOutcome::Granted(receipt)) => {
                made.credits_granted = Some(receipt.credits.whole());
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, change.id = %change.id, "the credits of an upgrade could not be granted yet");
            }
        }
    }
    made
}

/// Restores the plan that was pending before a failed upgrade, and closes the change.
async fn restore(billing: &BillingState, change: &SlotChange) -> Result<(), Failure> {
    let before = change.pending_before().unwrap_or_default();
    let sent = send_plan(billing, change, before, "slot_again").await;
    let is_over = match &sent {
        Ok(()) | Err(ProcessorError::Refused(_) | ProcessorError::Missing) => true,
        Err(_) => is_older(billing, change, GIVEN_UP_AFTER_S),
    };
    if !is_over && !shows_plan_at(billing, change, before).await.unwrap_or(false) {
        release(billing, change).await?;
        return Err(PaymentProblem::ChangeInProgress.into());
    }
    if let Err(error) = sent {
        tracing::warn!(%error, change.id = %change.id, "a pending plan may not have been restored");
    }
    if let Err(error) = read_again(billing, change).await {
        tracing::warn!(%error, change.id = %change.id, "a subscription could not be read again yet");
    }
    let code = change.failure.as_deref().unwrap_or("not_done");
    close_failed(billing, change, code, change.decline_code.as_deref()).await
}

const fn is_not_sent(error: &ProcessorError) -> bool {
    matches!(
        error,
        ProcessorError::LockTimeout
            | ProcessorError::RateLimited(_)
            | ProcessorError::Unreachable(_)
    )
}

fn is_older(billing: &BillingState, change: &SlotChange, seconds: i64) -> bool {
    billing.clock.now() >= change.created_at.plus_seconds(seconds)
}

/// Whether the processor shows the plan's item at this price.
async fn shows_plan_at(
    billing: &BillingState,
    change: &SlotChange,
    price: &str,
) -> Result<bool, Failure> {
    if read_again(billing, change).await.is_err() {
        return Ok(false);
    }
    let known = store::subscriptions::find(&billing.store, change.customer).await?;
    let item = known.as_ref().and_then(|known| known.view.plan_item());
    Ok(item.is_some_and(|item| item.price_id == price))
}

/// Reads the subscription, which closes the change if it shows the change. If not, it was not made,
/// or something changed it again since: the change is closed with the code `otherwise`. Either way
/// the limits follow the processor.
async fn settle(
    billing: &BillingState,
    change: &SlotChange,
    otherwise: &str,
) -> Result<(), Failure> {
    if let Err(error) = read_again(billing, change).await {
        release(billing, change).await?;
        return Err(PaymentProblem::ChangeUnknown(error.to_string()).into());
    }
    if !is_open(billing, change).await? {
        return Ok(());
    }
    match otherwise {
        // The change was made, so nothing from before it is restored.
        SUPERSEDED => close_failed(billing, change, otherwise, None).await,
        _ => fail(billing, change, otherwise, None).await,
    }
}

/// Handles a request of which it is unknown whether the processor carried it out.
async fn unknown(
    billing: &BillingState,
    change: &SlotChange,
    error: ProcessorError,
) -> Result<(), Failure> {
    let read = read_again(billing, change).await;
    if !is_open(billing, change).await? {
        return Ok(());
    }
    if read.is_ok() && is_older(billing, change, SETTLED_AFTER_S) {
        fail(billing, change, "not_done", None).await?;
        return Err(PaymentProblem::Unavailable(error).into());
    }
    release(billing, change).await?;
    Err(PaymentProblem::ChangeUnknown(chain(&error)).into())
}

/// Releases a change to the next request of the customer, or to the background work a little later.
async fn release(billing: &BillingState, change: &SlotChange) -> Result<(), Failure> {
    let again: Timestamp = billing.clock.now().plus_seconds(AGAIN_AFTER_S);
    Ok(slot_changes::release(&billing.store, change, again).await?)
}

/// An error and its cause in one sentence.
fn chain(error: &ProcessorError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

async fn read_again(billing: &BillingState, change: &SlotChange) -> Result<(), Failure> {
    let payer = payer(billing, change.customer).await?;
    subscriptions::sync_customer(billing, change.customer, &payer).await
}

async fn payer(billing: &BillingState, customer: CustomerId) -> Result<String, Failure> {
    let payer = store::processor_customers::find(&billing.store, customer).await?;
    Ok(payer.ok_or(PaymentProblem::NoSubscription)?)
}

async fn is_open(billing: &BillingState, change: &SlotChange) -> Result<bool, Failure> {
    let found = slot_changes::find(&billing.store, change.id).await?;
    Ok(found.is_some_and(|found| found.state == SlotChangeState::Open))
}

/// Ends a change that was not made. A plan that was pending before is restored first; if that fails
/// now, the background work continues.
async fn fail(
    billing: &BillingState,
    change: &SlotChange,
    code: &str,
    decline_code: Option<&str>,
) -> Result<(), Failure> {
    if change.step != ChangeStep::Change || change.pending_before().is_none() {
        return close_failed(billing, change, code, decline_code).await;
    }
    let failure = slot_changes::SlotChangeFailure { code, decline_code, at: billing.clock.now() };
    let until = failure.at.plus_seconds(LEASE_S);
    let begun = slot_changes::begin_restore(&billing.store, change, failure, until).await?;
    let Some(restoring) = begun else { return Ok(()) };
    if let Err(error) = restore(billing, &restoring).await {
        tracing::warn!(%error, change.id = %change.id, "a pending plan could not be restored yet");
    }
    Ok(())
}

async fn close_failed(
    billing: &BillingState,
    change: &SlotChange,
    code: &str,
    decline_code: Option<&str>,
) -> Result<(), Failure> {
    let failure = slot_changes::SlotChangeFailure { code, decline_code, at: billing.clock.now() };
    // The slots that it was to give up stay, and waiting accounts get them.
    let note =
        audit::noting_activated(&billing.clock, &billing.random, change.customer, &change.actor);
    let shifts =
        slot_changes::fail(&billing.store, change, failure, &billing.allowances, &note).await?;
    subscriptions::forget(billing, change.customer, &shifts.unwrap_or_default());
    Ok(())
}
