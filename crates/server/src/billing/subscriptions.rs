//! Subscriptions: the processor's is read, and what it says is what counts.
//!
//! Events, pages that come back, the reconciler and our own changes all end in `sync`. It reads the version of what is
//! known, then the processor, and writes only if nobody has written since; times of events are never compared.

use clients::processor::Listing;
use clients::processor::objects::{CheckoutSession, SessionStatus, Subscription, SubscriptionItem};
use domain::account::AccountState;
use domain::id::{CustomerId, OfferId};
use domain::slot::SlotChangeKind;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::places::Shift;
use store::slot_changes::{Change, ChangeItem};
use store::subscriptions::{self, Application, Happened, Item, Reading, Told, View};

use super::plan_versions::{UnknownPrice, Versions};
use super::plans;
use crate::app::App;
use crate::audit::{self, Deed};
use crate::config::Config;
use crate::error::ApiError;
use crate::jobs::send_mail;
use crate::letters::Letter;

/// After being overtaken so often, somebody has written what was read after this began.
const OVERTAKEN_MAX: usize = 2;
/// Accounts that a letter or an audit entry names.
const NAMED_MAX: usize = 50;

/// Reads the subscription of the processor's customer and writes down what it says. Somebody who is not ours is left
/// alone.
pub(crate) async fn sync(app: &App, processor_customer: &str) -> Result<(), ApiError> {
    match store::processor_customers::owner(&app.store, processor_customer).await? {
        Some(customer) => sync_customer(app, customer, processor_customer).await,
        None => Ok(()),
    }
}

/// The same for a customer whose id at the processor is known. When it returns, what is written down was read after
/// it was called.
pub(crate) async fn sync_customer(
    app: &App,
    customer: CustomerId,
    processor_customer: &str,
) -> Result<(), ApiError> {
    for _ in 0..OVERTAKEN_MAX {
        let version = subscriptions::version(&app.store, customer).await?;
        let view = read(app, processor_customer).await?;
        let tell = |happened: &Happened| tell(app, happened);
        let reading = Reading {
            customer,
            version,
            view: &view,
            allowances: &app.allowances,
            at: app.clock.now(),
            tell: &tell,
        };
        match subscriptions::apply(&app.store, &reading).await? {
            Application::Applied(happened) => {
                forget(app, customer, &happened.shifts);
                return Ok(());
            }
            Application::Overtaken => {}
        }
    }
    Ok(())
}

/// Takes note of a page on which a plan is bought, as it was read from the processor: what was bought counts at once,
/// and a page that is over makes room for another.
pub(crate) async fn take_session(app: &App, session: &CheckoutSession) -> Result<(), ApiError> {
    let Some(customer) = session.customer_id() else { return Ok(()) };
    let offer = session.client_reference_id.as_deref().and_then(|id| id.parse::<OfferId>().ok());
    let is_over = matches!(session.status, SessionStatus::Complete | SessionStatus::Expired);
    if let Some(offer) = offer.filter(|_| is_over) {
        store::subscription_offers::close(&app.store, offer, app.clock.now()).await?;
    }
    if session.status == SessionStatus::Complete { sync(app, customer).await } else { Ok(()) }
}

/// Calls prepared with what an account was before are refused anyway; forgetting it spares them that.
pub(crate) fn forget(app: &App, customer: CustomerId, shifts: &[Shift]) {
    for shift in shifts {
        app.cache.forget_account(customer, &shift.creator_id);
    }
    if !shifts.is_empty() {
        app.job_signal.notify_one();
    }
}

/// The processor's subscription that counts: of several the one that gives most, and of those the oldest.
async fn read(app: &App, processor_customer: &str) -> Result<View, ApiError> {
    let processor = app.processor()?;
    let mut counts: Option<Subscription> = None;
    let mut live = 0;
    let mut after = None;
    loop {
        let listing = Listing {
            customer: Some(processor_customer),
            status: Some("all"),
            after: after.as_deref(),
            ..Listing::default()
        };
        let page = processor.list_subscriptions(&listing).await?;
        after = page.next().map(str::to_owned);
        for subscription in page.data {
            let rank = status(&subscription).rank();
            live += usize::from(status(&subscription).is_live());
            if counts.as_ref().is_none_or(|other| rank >= status(other).rank()) {
                counts = Some(subscription);
            }
        }
        if after.is_none() {
            break;
        }
    }
    if live > 1 {
        tracing::error!(processor_customer, live, "a customer pays for several subscriptions");
    }
    let Some(subscription) = counts else { return Ok(View::none()) };
    write_versions_down(app, &subscription).await?;
    Ok(view(&app.config, &subscription))
}

/// Writes down which versions of plans it holds: limits are counted by them.
async fn write_versions_down(app: &App, subscription: &Subscription) -> Result<(), ApiError> {
    let versions = Versions::of(app);
    for item in &subscription.items.data {
        match versions.of_price(&item.price).await {
            Ok(_) => {}
            Err(unknown @ UnknownPrice::Version { .. }) => {
                tracing::error!(subscription = subscription.id, %unknown, "a plan adds no accounts");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn status(subscription: &Subscription) -> SubscriptionStatus {
    SubscriptionStatus::from_processor(subscription.status.as_str())
}

fn view(config: &Config, subscription: &Subscription) -> View {
    let period_end = subscription.period_end();
    let cancels_at = if subscription.cancel_at_period_end { period_end } else { None };
    let item = |item: &SubscriptionItem| Item {
        id: item.id.clone(),
        price_id: item.price.id.clone(),
        gives: plans::gives(config, &item.price),
        quantity: item.quantity,
    };
    View {
        subscription_id: Some(subscription.id.clone()),
        status: status(subscription),
        period_start: subscription.period_start().map(seconds),
        period_end: period_end.map(seconds),
        cancels_at: subscription.cancel_at.or(cancels_at).map(seconds),
        items: subscription.items.data.iter().map(item).collect(),
        paid_price_id: None,
        paid_until: None,
        latest_invoice_id: subscription.latest_invoice.as_ref().map(|it| it.id().to_owned()),
    }
}

const fn seconds(unix: i64) -> Timestamp {
    Timestamp::from_unix_micros(0).plus_seconds(unix)
}

/// What the audit list and the customer are told of a new state. What follows from a change that somebody asked for is
/// theirs; the rest is the processor's.
fn tell(app: &App, happened: &Happened) -> Told {
    let mut told = Told::default();
    let mut note = |actor: &str, action, details| {
        let (customer, actor) = (happened.customer, actor.to_owned());
        let deed = Deed { customer, actor, action, details };
        told.entries.push(deed.now(&app.clock, &app.random));
    };
    let asked_by =
        happened.applied.as_ref().map_or(audit::PROCESSOR, |change| change.actor.as_str());
    if let Some(change) = &happened.applied {
        let (action, details) = describe(happened, change);
        note(asked_by, action, details);
    }
    let before = happened.before.as_ref().map(summary);
    let now = summary(&happened.now);
    if before.unwrap_or_else(|| summary(&View::none())) != now {
        note(audit::PROCESSOR, audit::SUBSCRIPTION_CHANGED, now);
    }
    let on = |state| -> Vec<&Shift> {
        happened.shifts.iter().filter(|shift| shift.state == state).take(NAMED_MAX).collect()
    };
    let given = on(AccountState::Active);
    if !given.is_empty() {
        note(asked_by, audit::ACCOUNTS_ACTIVATED, accounts(&given));
    }
    let taken = on(AccountState::Inactive);
    if !taken.is_empty() {
        note(asked_by, audit::ACCOUNTS_DEACTIVATED, accounts(&taken));
        let name = |shift: &&Shift| format!("{} on {}", shift.creator_id, shift.platform);
        let names = taken.iter().map(name).collect();
        let letter = Letter::AccountsDeactivated { customer: happened.customer, accounts: names };
        told.jobs.push(send_mail::job(app, &letter));
    }
    told
}

fn plan_id(view: &View) -> Option<&str> {
    view.plan().map(|(_, plan)| plan)
}

fn summary(view: &View) -> Value {
    json!({"plan_id": plan_id(view), "status": view.status})
}

fn accounts(shifts: &[&Shift]) -> Value {
    let account =
        |shift: &&Shift| json!({"creator_id": shift.creator_id, "platform": shift.platform});
    json!({"accounts": shifts.iter().map(account).collect::<Vec<_>>()})
}

/// A change that was carried out: which action of the audit list it is, and its fields.
fn describe(happened: &Happened, change: &Change) -> (&'static str, Value) {
    if change.kind == SlotChangeKind::Plan {
        let plan = change.items.iter().find_map(|item| item.plan_id.as_deref());
        let before = happened.before.as_ref().and_then(plan_id);
        return (audit::PLAN_CHANGED, json!({"plan_id": plan, "plan_id_before": before}));
    }
    let item = |item: &ChangeItem| {
        json!({
            "platform": item.platform, "count_before": item.count_before,
            "count_after": item.count_after,
        })
    };
    let items = change.items.iter().map(item).collect::<Vec<_>>();
    (audit::SLOTS_CHANGED, json!({"kind": change.kind, "items": items}))
}
