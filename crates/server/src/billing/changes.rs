//! Changes of slots and of the plan: decided from what the processor shows, written down, carried out by one request,
//! and closed by what the processor shows afterwards.
//!
//! The row is committed first and its id is what the processor knows the request by, so that sending it again is not
//! doing it again. While its outcome is unknown the row stays open, and whoever comes next, or the background work,
//! goes on with the same request. One is open for each customer at a time.

use clients::processor::{
    ItemChange, ItemPrice, Processor, ProcessorError, Proration, SubscriptionChange,
};
use domain::id::CustomerId;
use domain::slot::{SlotChangeKind, SlotChangeState};
use domain::time::Timestamp;
use store::slot_changes::{self, Change, Failure, Start};
use store::subscriptions::Told;

use super::decide::{self, Wish};
use super::subscriptions;
use crate::app::App;
use crate::error::ApiError;
use crate::error::payments::PaymentProblem;

/// So long nobody else carries a change out: longer than all attempts of the request together.
pub(crate) const LEASE_S: i64 = 240;
/// The processor remembers a request for a day; one that is older is not sent again.
const SENT_AGAIN_S: i64 = 23 * 3_600;
/// A request that was not carried out by then never will be.
const SETTLED_AFTER_S: i64 = 600;
/// So long after an unknown outcome the background work tries again.
const AGAIN_AFTER_S: i64 = 10;
/// How often a decision is made anew when the subscription is written meanwhile.
const ROUNDS_MAX: usize = 50;
/// Changes that one round of the background work takes up.
const LEFT_MAX: i64 = 20;

/// Does what is wished for, to its end, also when the one who asks goes away.
pub(crate) async fn make(app: &App, wish: Wish) -> Result<(), ApiError> {
    let worker = app.clone();
    app.tasks.on_control(async move { make_now(&worker, &wish).await }).await?
}

/// Goes on with changes that nobody carries out at this moment.
pub(crate) async fn resume_left(app: &App) {
    if app.processor().is_err() {
        return;
    }
    let left = match slot_changes::list_left(&app.store, app.clock.now(), LEFT_MAX).await {
        Ok(left) => left,
        Err(error) => return tracing::warn!(%error, "open changes of slots could not be read"),
    };
    for change in left {
        if let Err(error) = resume(app, &change).await {
            tracing::warn!(%error, change.id = %change.id, "a change of slots is still open or failed");
        }
    }
}

async fn make_now(app: &App, wish: &Wish) -> Result<(), ApiError> {
    app.processor()?;
    let payer = store::processor_customers::find(&app.store, wish.customer).await?;
    let payer = payer.ok_or(PaymentProblem::NoSubscription)?;
    if let Some(made) = made_before(app, wish).await? {
        return continued(app, &made).await;
    }
    if let Some(open) = slot_changes::find_open(&app.store, wish.customer).await? {
        let ended = resume(app, &open).await;
        // Whoever repeats what is open gets its end; anybody else goes on once it has one.
        if wish.is_of(&open) {
            return ended;
        }
        if is_open(app, &open).await? {
            return Err(PaymentProblem::ChangeInProgress.into());
        }
    }
    subscriptions::sync_customer(app, wish.customer, &payer).await?;
    for _ in 0..ROUNDS_MAX {
        let Some(new) = decide::decide(app, wish).await? else { return Ok(()) };
        match slot_changes::start(&app.store, &new, &app.allowances).await? {
            Start::Started(change) => return carry_out(app, &change).await,
            Start::Busy(open) if wish.id == Some(open.id) => return continued(app, &open).await,
            Start::Busy(_) => return Err(PaymentProblem::ChangeInProgress.into()),
            Start::InUse(occupants) => {
                let accounts = occupants.iter().map(|occupant| occupant.creator_id.to_string());
                return Err(PaymentProblem::SlotsInUse { accounts: accounts.collect() }.into());
            }
            Start::Overtaken => {}
        }
    }
    Err(PaymentProblem::ChangeInProgress.into())
}

/// The change that an earlier attempt at the same request made.
async fn made_before(app: &App, wish: &Wish) -> Result<Option<Change>, ApiError> {
    let Some(id) = wish.id else { return Ok(None) };
    let found = slot_changes::find(&app.store, id).await?;
    Ok(found.filter(|change| change.customer == wish.customer))
}

/// What became of it, or becomes of it now. While somebody else carries it out its outcome is unknown.
async fn continued(app: &App, change: &Change) -> Result<(), ApiError> {
    match (change.state, &change.decline_code) {
        (SlotChangeState::Applied, _) => Ok(()),
        (SlotChangeState::Failed, Some(code)) => {
            Err(PaymentProblem::Failed { decline_code: code.clone() }.into())
        }
        (SlotChangeState::Failed, None) => Err(PaymentProblem::ChangeInProgress.into()),
        (SlotChangeState::Open, _) => match resume(app, change).await {
            Err(ApiError::Payment(PaymentProblem::ChangeInProgress)) => {
                let reason = "another attempt carries it out".to_owned();
                Err(PaymentProblem::ChangeUnknown(reason).into())
            }
            ended => ended,
        },
    }
}

/// Takes an open change over, if nobody has it, and carries it out.
async fn resume(app: &App, change: &Change) -> Result<(), ApiError> {
    let now = app.clock.now();
    let until = now.plus_seconds(LEASE_S);
    match slot_changes::take_over(&app.store, change, now, until).await? {
        Some(taken) => carry_out(app, &taken).await,
        None => Err(PaymentProblem::ChangeInProgress.into()),
    }
}

/// Sends the one request of a change and writes down what became of it.
async fn carry_out(app: &App, change: &Change) -> Result<(), ApiError> {
    let age = |seconds| app.clock.now() >= change.created_at.plus_seconds(seconds);
    if age(SENT_AGAIN_S) {
        return settle(app, change, "expired").await;
    }
    match send(app.processor()?, change).await {
        Ok(()) => settle(app, change, "superseded").await,
        Err(ProcessorError::Declined(decline)) => {
            let code = decline.code.as_deref().unwrap_or("card_declined");
            fail(app, change, code, Some(decline.reason())).await?;
            Err(ProcessorError::Declined(decline).into())
        }
        Err(error @ (ProcessorError::Refused(_) | ProcessorError::Missing)) => {
            settle(app, change, "refused").await?;
            Err(error.into())
        }
        // What this attempt did not do, an earlier one may have done.
        Err(
            error @ (ProcessorError::LockTimeout
            | ProcessorError::RateLimited(_)
            | ProcessorError::Unreachable(_)),
        ) if change.attempts == 1 => {
            fail(app, change, "not_sent", None).await?;
            Err(error.into())
        }
        Err(error) => unknown(app, change, error, age(SETTLED_AFTER_S)).await,
    }
}

async fn send(processor: &Processor, change: &Change) -> Result<(), ProcessorError> {
    let item = |item: &slot_changes::ChangeItem| -> (Option<String>, Option<String>, i64) {
        let keeps_price = item.item_id.is_some() && change.kind != SlotChangeKind::Plan;
        let price = (!keeps_price).then(|| item.price_id.clone());
        (item.item_id.clone(), price, item.count_after)
    };
    let owned: Vec<_> = change.items.iter().map(item).collect();
    let items: Vec<_> = owned
        .iter()
        .map(|(id, price, quantity)| ItemChange {
            id: id.as_deref(),
            price: price.as_deref().map(ItemPrice::Known),
            quantity: Some(*quantity),
            is_deleted: false,
        })
        .collect();
    let request = SubscriptionChange {
        items: &items,
        proration: proration(change.is_charged_at_once),
        proration_date: Some(change.proration_date_s),
        default_payment_method: None,
        cancel_at_period_end: None,
        metadata: &[],
    };
    let key = clients::processor::IdempotencyKey::of("slot", change.id);
    // The id of a row always makes a key.
    let Ok(key) = key else { return Err(ProcessorError::Missing) };
    let changed = processor.update_subscription(&change.subscription_id, &request, &key).await?;
    let invoice = changed.latest_invoice.as_ref().and_then(|invoice| invoice.object());
    if change.is_charged_at_once && invoice.is_some_and(|invoice| !invoice.is_paid()) {
        tracing::error!(change.id = %change.id, "slots were raised although their invoice is not paid");
    }
    Ok(())
}

/// What becomes of the rest of the period.
pub(crate) const fn proration(is_charged_at_once: bool) -> Proration {
    if is_charged_at_once { Proration::PayNow } else { Proration::NextInvoice }
}

/// Reads the subscription, which closes the change if it shows it. What it does not show by now was not done, or was
/// changed again since: then the change is closed with this word, and the limits are the processor's in any case.
async fn settle(app: &App, change: &Change, otherwise: &str) -> Result<(), ApiError> {
    if let Err(error) = read_again(app, change).await {
        let again = app.clock.now().plus_seconds(AGAIN_AFTER_S);
        slot_changes::release(&app.store, change, again).await?;
        return Err(PaymentProblem::ChangeUnknown(error.to_string()).into());
    }
    if is_open(app, change).await? {
        fail(app, change, otherwise, None).await?;
    }
    Ok(())
}

/// The processor may or may not have carried the change out.
async fn unknown(
    app: &App,
    change: &Change,
    error: ProcessorError,
    is_settled: bool,
) -> Result<(), ApiError> {
    let read = read_again(app, change).await;
    if !is_open(app, change).await? {
        return Ok(());
    }
    if read.is_ok() && is_settled {
        fail(app, change, "not_done", None).await?;
        return Err(error.into());
    }
    let again: Timestamp = app.clock.now().plus_seconds(AGAIN_AFTER_S);
    slot_changes::release(&app.store, change, again).await?;
    Err(PaymentProblem::ChangeUnknown(chain(&error)).into())
}

/// An error and its causes as one sentence.
fn chain(error: &ProcessorError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

async fn read_again(app: &App, change: &Change) -> Result<(), ApiError> {
    let payer = payer(app, change.customer).await?;
    subscriptions::sync_customer(app, change.customer, &payer).await
}

async fn payer(app: &App, customer: CustomerId) -> Result<String, ApiError> {
    let payer = store::processor_customers::find(&app.store, customer).await?;
    Ok(payer.ok_or(PaymentProblem::NoSubscription)?)
}

async fn is_open(app: &App, change: &Change) -> Result<bool, ApiError> {
    let found = slot_changes::find(&app.store, change.id).await?;
    Ok(found.is_some_and(|found| found.state == SlotChangeState::Open))
}

async fn fail(
    app: &App,
    change: &Change,
    code: &str,
    decline_code: Option<&str>,
) -> Result<(), ApiError> {
    let failure = Failure { code, decline_code, at: app.clock.now() };
    let told = Told::default();
    let shifts = slot_changes::fail(&app.store, change, failure, &app.allowances, &told).await?;
    subscriptions::forget(app, change.customer, &shifts.unwrap_or_default());
    Ok(())
}
