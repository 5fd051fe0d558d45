//! Subscriptions: read from the processor, whose state always counts.
//!
//! Events, success pages, the reconciler and our own changes all end in `sync`. It reads the stored
//! version, then the processor, and writes only if nothing was written in between. Times of events
//! are never compared.

use domain::account::AccountState;
use domain::id::{CustomerId, OfferId};
use domain::plan::PlanVersion;
use domain::slot::ChangeProration;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use emails::EmailRequest;
use failures::Failure;
use processor_client::ListFilter;
use processor_client::objects::{
    CheckoutSession, ExpandableObject, ProcessorPrice, ProcessorSubscription, SessionStatus,
};
use runtime::audit::{self, AuditRecord, NAMED_MAX, named_accounts};
use serde_json::{Value, json};
use store::slot_assignment::SlotShift;
use store::slot_changes::{SlotChange, SlotChangeItem};
use store::subscriptions::{
    self, ChangeRecords, ItemBenefit, PaidItem, StoredSubscription, SubscriptionApplication,
    SubscriptionReading, SubscriptionUpdate, SubscriptionView,
};

use super::give_up::{self, PayingCustomer};
use super::period::{self, SubscriptionPeriod, seconds};
use super::plan_versions::{SoldItem, UnknownPrice, VersionLookup};
use crate::BillingState;

/// After being overtaken this often, another task has written a state that was read after this one
/// began.
const OVERTAKEN_MAX: usize = 2;

/// Reads the subscription of the processor's customer and stores it. Customers of the processor
/// that are not ours are ignored.
pub async fn sync(billing: &BillingState, processor_customer: &str) -> Result<(), Failure> {
    match store::processor_customers::owner(&billing.store, processor_customer).await? {
        Some(customer) => sync_customer(billing, customer, processor_customer).await,
        None => Ok(()),
    }
}

/// The same for a customer whose id at the processor is known. When it returns, the stored state
/// was read after the call began.
pub async fn sync_customer(
    billing: &BillingState,
    customer: CustomerId,
    processor_customer: &str,
) -> Result<(), Failure> {
    for _ in 0..OVERTAKEN_MAX {
        let known = subscriptions::find(&billing.store, customer).await?;
        let version = known.as_ref().map_or(0, |known| known.version);
        let read =
            read(billing, processor_customer, known.as_ref().map(|known| &known.view)).await?;
        let tell = |happened: &SubscriptionUpdate| tell(billing, happened);
        let reading = SubscriptionReading {
            customer,
            version,
            view: &read.view,
            allowances: &billing.allowances,
            at: billing.clock.now(),
            tell: &tell,
        };
        match subscriptions::apply(&billing.store, &reading).await? {
            SubscriptionApplication::Applied(happened) => {
                forget(billing, customer, &happened.shifts);
                let payer = PayingCustomer { customer, processor_customer };
                give_up::follow(billing, payer, &read.ended).await;
                return Ok(());
            }
            SubscriptionApplication::Overtaken => {}
        }
    }
    Ok(())
}

/// Whether a subscription as the processor lists it is what is stored.
pub(super) fn is_stored(listed: &ProcessorSubscription, view: &SubscriptionView) -> bool {
    let cancels_at = if listed.cancel_at_period_end { listed.period_end() } else { None };
    let items = &listed.items.data;
    view.subscription_id.as_deref() == Some(&listed.id)
        && view.status == status(listed)
        && view.period_start == listed.period_start().map(seconds)
        && view.period_end == listed.period_end().map(seconds)
        && view.cancels_at == listed.cancel_at.or(cancels_at).map(seconds)
        && view.latest_invoice_id.as_deref()
            == listed.latest_invoice.as_ref().map(ExpandableObject::id)
        && view.items.len() == items.len()
        && view.items.iter().zip(items).all(|(stored, item)| {
            (&stored.id, &stored.price_id, stored.quantity)
                == (&item.id, &item.price.id, item.quantity)
        })
}

/// Applies what is stored of a subscription again, because what plans and customers include may
/// have been configured differently since. Another task that writes at the same time comes later.
pub(super) async fn apply_again(
    billing: &BillingState,
    customer: CustomerId,
    known: &StoredSubscription,
) -> Result<(), Failure> {
    let tell = |happened: &SubscriptionUpdate| tell(billing, happened);
    let reading = SubscriptionReading {
        customer,
        version: known.version,
        view: &known.view,
        allowances: &billing.allowances,
        at: billing.clock.now(),
        tell: &tell,
    };
    if let SubscriptionApplication::Applied(happened) =
        subscriptions::apply(&billing.store, &reading).await?
    {
        forget(billing, customer, &happened.shifts);
    }
    Ok(())
}

/// Handles a page on which a plan is bought, as it was read from the processor: a purchase takes
/// effect immediately, and a page that has ended makes room for another.
pub async fn take_session(
    billing: &BillingState,
    session: &CheckoutSession,
) -> Result<(), Failure> {
    let Some(customer) = session.customer_id() else { return Ok(()) };
    let offer = session.client_reference_id.as_deref().and_then(|id| id.parse::<OfferId>().ok());
    let is_over = matches!(session.status, SessionStatus::Complete | SessionStatus::Expired);
    if let Some(offer) = offer.filter(|_| is_over) {
        store::subscription_offers::close(&billing.store, offer, billing.clock.now()).await?;
    }
    if session.status == SessionStatus::Complete { sync(billing, customer).await } else { Ok(()) }
}

/// Calls prepared with the old state of an account are refused anyway; forgetting it saves them the
/// attempt.
pub fn forget(billing: &BillingState, customer: CustomerId, shifts: &[SlotShift]) {
    for shift in shifts {
        billing.cached.forget_account(customer, &shift.creator_id);
    }
    if !shifts.is_empty() {
        billing.jobs.wake();
    }
}

/// The result of reading the processor.
struct ProcessorReading {
    view: SubscriptionView,
    /// Our subscriptions that have ended.
    ended: Vec<String>,
}

/// The subscription that counts: of several with our items, the one with the highest status, and of
/// those the oldest. One without any of our items is not ours.
async fn read(
    billing: &BillingState,
    processor_customer: &str,
    known: Option<&SubscriptionView>,
) -> Result<ProcessorReading, Failure> {
    let mut counts: Option<(ProcessorSubscription, Vec<PaidItem>)> = None;
    let mut ended = Vec::new();
    let mut live = 0;
    for subscription in listed(billing, processor_customer).await? {
        let items = items(billing, &subscription).await?;
        if items.iter().all(|item| item.gives == ItemBenefit::Other) {
            continue;
        }
        let own = status(&subscription);
        live += usize::from(own.is_live());
        if own == SubscriptionStatus::Canceled {
            ended.push(subscription.id.clone());
        }
        if counts.as_ref().is_none_or(|(other, _)| own.rank() >= status(other).rank()) {
            counts = Some((subscription, items));
        }
    }
    if live > 1 {
        tracing::error!(processor_customer, live, "a customer has several live subscriptions");
    }
    let view = match counts {
        Some((subscription, items)) => view(billing, &subscription, items, known).await?,
        None => SubscriptionView::none(),
    };
    Ok(ProcessorReading { view, ended })
}

/// All subscriptions of a customer at the processor, newest first.
async fn listed(
    billing: &BillingState,
    processor_customer: &str,
) -> Result<Vec<ProcessorSubscription>, Failure> {
    let processor = billing.processor()?;
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let listing = ListFilter {
            customer: Some(processor_customer),
            status: Some("all"),
            after: after.as_deref(),
            ..ListFilter::default()
        };
        let page = processor.list_subscriptions(&listing).await?;
        after = page.next().map(str::to_owned);
        found.extend(page.data);
        if after.is_none() {
            return Ok(found);
        }
    }
}

fn status(subscription: &ProcessorSubscription) -> SubscriptionStatus {
    SubscriptionStatus::from_processor(subscription.status.as_str())
}

async fn items(
    billing: &BillingState,
    subscription: &ProcessorSubscription,
) -> Result<Vec<PaidItem>, Failure> {
    let mut items = Vec::new();
    for item in &subscription.items.data {
        items.push(PaidItem {
            id: item.id.clone(),
            price_id: item.price.id.clone(),
            gives: gives(billing, &item.price).await?,
            quantity: item.quantity,
        });
    }
    Ok(items)
}

/// What an item at this price includes. The version of a plan is recorded, because limits are
/// counted by it.
pub(super) async fn gives(
    billing: &BillingState,
    price: &ProcessorPrice,
) -> Result<ItemBenefit, Failure> {
    match VersionLookup::of(billing).of_price(price).await {
        Ok(SoldItem::Plan(version)) => Ok(ItemBenefit::Plan(version.plan_id)),
        Ok(SoldItem::Slots(platform)) => Ok(ItemBenefit::Slots(platform)),
        Ok(SoldItem::Other) => Ok(ItemBenefit::Other),
        Err(unknown @ UnknownPrice::Version { .. }) => {
            tracing::error!(%unknown, "the terms of a subscribed plan are unknown, so it adds no accounts");
            let UnknownPrice::Version { plan_id, .. } = unknown else {
                return Ok(ItemBenefit::Other);
            };
            Ok(ItemBenefit::Plan(plan_id))
        }
        Err(error) => Err(error.into()),
    }
}

async fn view(
    billing: &BillingState,
    subscription: &ProcessorSubscription,
    items: Vec<PaidItem>,
    known: Option<&SubscriptionView>,
) -> Result<SubscriptionView, Failure> {
    let period_end = subscription.period_end();
    let cancels_at = if subscription.cancel_at_period_end { period_end } else { None };
    let mut view = SubscriptionView {
        subscription_id: Some(subscription.id.clone()),
        status: status(subscription),
        period_start: subscription.period_start().map(seconds),
        period_end: period_end.map(seconds),
        cancels_at: subscription.cancel_at.or(cancels_at).map(seconds),
        items,
        paid: None,
        paid_until: period_end.map(seconds),
        latest_invoice_id: subscription.latest_invoice.as_ref().map(|it| it.id().to_owned()),
    };
    view.paid = match known.filter(|known| is_as_known(&view, known)) {
        Some(known) => known.paid.clone(),
        None => paid(billing, subscription, &view).await?,
    };
    Ok(view)
}

/// Whether no invoice was created since the paid plan was last read.
fn is_as_known(view: &SubscriptionView, known: &SubscriptionView) -> bool {
    let of = |one: &SubscriptionView| {
        (one.subscription_id.clone(), one.status, one.period_end, one.latest_invoice_id.clone())
    };
    known.paid.is_some() && view.latest_invoice_id.is_some() && of(view) == of(known)
}

/// The plan version that the current period is paid for. If no invoice sells one, that of the
/// subscription's item.
async fn paid(
    billing: &BillingState,
    subscription: &ProcessorSubscription,
    view: &SubscriptionView,
) -> Result<Option<PlanVersion>, Failure> {
    let Some(item) = view.plan_item() else { return Ok(None) };
    if let (true, Some(start), Some(end)) =
        (view.status.entitles(), subscription.period_start(), subscription.period_end())
    {
        let period = SubscriptionPeriod { subscription: &subscription.id, start, end };
        if let Some(paid) = period::paid_plan(&period::invoices(billing, period).await?) {
            return Ok(Some(paid));
        }
    }
    Ok(store::plan_versions::find(&billing.store, &item.price_id).await?)
}

/// The records of a new state for the audit list and the customer. The results of a requested
/// change are attributed to its actor, all others to the processor.
fn tell(billing: &BillingState, happened: &SubscriptionUpdate) -> ChangeRecords {
    let mut told = ChangeRecords::default();
    let mut note = |actor: &str, action, details| {
        let (customer, actor) = (happened.customer, actor.to_owned());
        let record = AuditRecord { customer, actor, action, details };
        told.entries.push(record.now(&billing.clock, &billing.random));
    };
    let asked_by =
        happened.applied.as_ref().map_or(audit::PROCESSOR, |change| change.actor.as_str());
    if let Some(change) = &happened.applied {
        let (action, details) = describe(happened, change);
        note(asked_by, action, details);
    }
    let before = happened.before.as_ref().map(summary);
    let now = summary(&happened.now);
    if before.unwrap_or_else(|| summary(&SubscriptionView::none())) != now {
        note(audit::PROCESSOR, audit::SUBSCRIPTION_CHANGED, now);
    }
    let on = |state| -> Vec<&SlotShift> {
        happened.shifts.iter().filter(|shift| shift.state == state).take(NAMED_MAX).collect()
    };
    let given = on(AccountState::Active);
    if !given.is_empty() {
        note(asked_by, audit::ACCOUNTS_ACTIVATED, named_accounts(&given));
    }
    let taken = on(AccountState::Inactive);
    if !taken.is_empty() {
        note(asked_by, audit::ACCOUNTS_DEACTIVATED, named_accounts(&taken));
        let name = |shift: &&SlotShift| format!("{} on {}", shift.creator_id, shift.platform);
        let names = taken.iter().map(name).collect();
        let letter =
            EmailRequest::AccountsDeactivated { customer: happened.customer, accounts: names };
        told.jobs.push(emails::job(&billing.jobs, &letter));
    }
    told
}

fn summary(view: &SubscriptionView) -> Value {
    json!({"plan_id": view.plan_id(), "status": view.status})
}

/// A change that was carried out: its action in the audit list, and its fields.
fn describe(happened: &SubscriptionUpdate, change: &SlotChange) -> (&'static str, Value) {
    if let Some(item) = change.plan_item() {
        return describe_plan(happened, change, item);
    }
    let item = |item: &SlotChangeItem| {
        json!({
            "platform": item.platform, "count_before": item.count_before,
            "count_after": item.count_after,
        })
    };
    let items = change.items.iter().map(item).collect::<Vec<_>>();
    (audit::SLOTS_CHANGED, json!({"kind": change.kind, "items": items}))
}

/// A change of the plan: made immediately, pending until the period ends, or the withdrawal of a
/// pending one.
fn describe_plan(
    happened: &SubscriptionUpdate,
    change: &SlotChange,
    item: &SlotChangeItem,
) -> (&'static str, Value) {
    let before = happened.before.as_ref().and_then(SubscriptionView::plan_id);
    let plans = json!({"plan_id": item.plan_id, "plan_id_before": before});
    let effective_at = happened.now.period_end.map(Timestamp::to_rfc3339);
    if change.proration == ChangeProration::PayNow {
        (audit::PLAN_CHANGED, plans)
    } else if item.paid_price_id.as_deref() == Some(&item.price_id) {
        (audit::PLAN_CHANGE_TAKEN_BACK, json!({"plan_id": item.plan_id}))
    } else {
        let pending = json!({
            "plan_id": item.plan_id, "plan_id_before": before, "effective_at": effective_at,
        });
        (audit::PLAN_CHANGE_PENDING, pending)
    }
}
