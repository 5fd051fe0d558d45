//! What a requested change means for the current subscription: which items change, whether the
//! difference is paid immediately, and what is refused before the processor is called.

use domain::account::CreatorId;
use domain::field_error::FieldErrorKind;
use domain::id::{ChangeId, CustomerId};
use domain::platform::Platform;
use domain::slot::{ChangeProration, ChangeStep, SlotChangeKind};
use domain::subscription::SubscriptionStatus;
use domain::time::{MICROS_PER_SECOND, Timestamp};
use failures::Failure;
use failures::FieldProblem;
use failures::PaymentProblem;
use store::change_previews;
use store::slot_changes::{NewSlotChange, SlotChange, SlotChangeItem};
use store::subscriptions::{self, StoredSubscription, SubscriptionView};

use super::changes::LEASE_S;
use super::period::{self, SubscriptionPeriod};
use super::{offered_prices, plan_changes, plans};
use crate::BillingState;

/// The maximum number of extra slots on one platform.
pub const SLOTS_MAX: i64 = 1_000;
/// How long a preview's price holds.
pub const PREVIEW_HOLDS_S: i64 = 600;

/// What a customer asks for.
#[derive(Debug, Clone)]
pub struct ChangeRequest {
    /// The id that the change will have. If a change with this id exists, it is this one, and is
    /// not made again.
    pub id: Option<ChangeId>,
    /// The customer who asks.
    pub customer: CustomerId,
    /// The key or session that asks, for the audit list.
    pub actor: String,
    /// The account that gets a slot first.
    pub creator: Option<CreatorId>,
    /// The requested state.
    pub target: Target,
}

/// The requested state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// This number of extra slots on a platform.
    Slots(Platform, i64),
    /// One extra slot fewer on the first platform and one more on the second.
    Switch(Platform, Platform),
    /// Another plan.
    Plan(String),
}

/// The items that change, and how.
pub struct ChangeDecision {
    /// What is changed.
    pub kind: SlotChangeKind,
    /// The items of the subscription after the change.
    pub items: Vec<SlotChangeItem>,
    /// How the rest of the period is charged.
    pub proration: ChangeProration,
    /// The first request.
    pub step: ChangeStep,
}

impl ChangeRequest {
    /// Whether an open change is the requested one.
    pub fn is_of(&self, change: &SlotChange) -> bool {
        let on = |place: usize| change.items.get(place).and_then(|item| item.platform);
        let first = change.items.first();
        match &self.target {
            Target::Slots(platform, count) => {
                matches!(change.kind, SlotChangeKind::Raise | SlotChangeKind::Lower)
                    && on(0) == Some(*platform)
                    && first.is_some_and(|item| item.count_after == *count)
            }
            Target::Switch(from, to) => {
                change.kind == SlotChangeKind::Switch && (on(0), on(1)) == (Some(*from), Some(*to))
            }
            Target::Plan(plan) => {
                change.kind == SlotChangeKind::Plan
                    && first.is_some_and(|item| item.plan_id.as_deref() == Some(plan))
            }
        }
    }
}

/// The change needed for a request, from the newest known state; `None` if nothing needs to change.
pub async fn decide(
    billing: &BillingState,
    wish: &ChangeRequest,
) -> Result<Option<NewSlotChange>, Failure> {
    let known = subscription(billing, wish.customer).await?;
    let view = &known.view;
    let Some(decision) = items(billing, view, &wish.target).await? else { return Ok(None) };
    let now = billing.clock.now();
    Ok(Some(NewSlotChange {
        id: wish.id.unwrap_or_else(|| ChangeId::new(now, billing.random.bytes())),
        customer: wish.customer,
        version: known.version,
        kind: decision.kind,
        subscription_id: view.subscription_id.clone().unwrap_or_default(),
        creator: wish.creator.clone(),
        proration: decision.proration,
        step: decision.step,
        period_end: view.period_end,
        proration_date_s: proration_date(billing, wish, &decision, view).await?,
        actor: wish.actor.clone(),
        items: decision.items,
        at: now,
        leased_until: now.plus_seconds(LEASE_S),
    }))
}

/// The subscription of a customer, unless it has ended. Right after a renewal its event may still
/// be on its way: a period that is over is read again.
pub async fn subscription(
    billing: &BillingState,
    customer: CustomerId,
) -> Result<StoredSubscription, Failure> {
    let known = live(billing, customer).await?;
    if known.view.period_end.is_none_or(|end| end > billing.clock.now()) {
        return Ok(known);
    }
    let payer = store::processor_customers::find(&billing.store, customer).await?;
    let Some(payer) = payer else { return Ok(known) };
    super::subscriptions::sync_customer(billing, customer, &payer).await?;
    live(billing, customer).await
}

async fn live(billing: &BillingState, customer: CustomerId) -> Result<StoredSubscription, Failure> {
    let known = subscriptions::find(&billing.store, customer).await?;
    let live = known.filter(|known| known.view.status.is_live());
    Ok(live.ok_or(PaymentProblem::NoSubscription)?)
}

/// The items of the subscription that the target changes; `None` if nothing needs to change.
pub async fn items(
    billing: &BillingState,
    view: &SubscriptionView,
    target: &Target,
) -> Result<Option<ChangeDecision>, Failure> {
    let decided = match target {
        Target::Slots(platform, count) => slots(billing, view, *platform, *count).await?,
        Target::Switch(from, to) => Some(switch(billing, view, *from, *to).await?),
        Target::Plan(plan_id) => plan_changes::decide(billing, view, plan_id).await?,
    };
    let Some(decision) = decided else { return Ok(None) };
    refuse_unpaid(view.status, &decision)?;
    Ok(Some(decision))
}

async fn slots(
    billing: &BillingState,
    view: &SubscriptionView,
    platform: Platform,
    count: i64,
) -> Result<Option<ChangeDecision>, Failure> {
    let before = view.slots(platform);
    if before == count {
        return Ok(None);
    }
    let items = vec![slot_item(billing, view, platform, count).await?];
    let (kind, proration) = if count > before {
        (SlotChangeKind::Raise, ChangeProration::PayNow)
    } else if time_is_paid(billing, view).await? {
        (SlotChangeKind::Lower, ChangeProration::NextInvoice)
    } else {
        (SlotChangeKind::Lower, ChangeProration::None)
    };
    Ok(Some(ChangeDecision { kind, items, proration, step: ChangeStep::Change }))
}

async fn switch(
    billing: &BillingState,
    view: &SubscriptionView,
    from: Platform,
    to: Platform,
) -> Result<ChangeDecision, Failure> {
    if view.status == SubscriptionStatus::PastDue {
        return Err(PaymentProblem::SubscriptionPastDue.into());
    }
    let (fewer, more) = (view.slots(from) - 1, view.slots(to) + 1);
    if fewer < 0 {
        return Err(PaymentProblem::NoSlot { platform: from }.into());
    }
    if !time_is_paid(billing, view).await? {
        return Err(PaymentProblem::PaymentReversed.into());
    }
    let given = slot_item(billing, view, from, fewer).await?;
    Ok(ChangeDecision {
        kind: SlotChangeKind::Switch,
        items: vec![given, slot_item(billing, view, to, more).await?],
        proration: ChangeProration::NextInvoice,
        step: ChangeStep::Change,
    })
}

/// Whether this period's slots are paid for: only paid time is credited.
async fn time_is_paid(billing: &BillingState, view: &SubscriptionView) -> Result<bool, Failure> {
    let (Some(subscription), Some(start), Some(end)) =
        (view.subscription_id.as_deref(), view.period_start, view.period_end)
    else {
        return Ok(true);
    };
    if !store::sales::slot_money_is_whole(&billing.store, subscription, end).await? {
        return Ok(false);
    }
    let (start, end) = (start.unix_seconds(), end.unix_seconds());
    let period = SubscriptionPeriod { subscription, start, end };
    Ok(period::slots_are_paid(&period::invoices(billing, period).await?))
}

/// Raises need a paid subscription; lowering only needs one that still entitles the customer to
/// something.
const fn refuse_unpaid(
    status: SubscriptionStatus,
    decision: &ChangeDecision,
) -> Result<(), PaymentProblem> {
    let is_open_to = match decision.proration {
        ChangeProration::PayNow => status.takes_raises(),
        ChangeProration::NextInvoice | ChangeProration::None => status.entitles(),
    };
    match status {
        _ if is_open_to => Ok(()),
        SubscriptionStatus::PastDue => Err(PaymentProblem::SubscriptionPastDue),
        status => Err(PaymentProblem::SubscriptionNotPaid { status }),
    }
}

async fn slot_item(
    billing: &BillingState,
    view: &SubscriptionView,
    platform: Platform,
    count: i64,
) -> Result<SlotChangeItem, Failure> {
    let item = view.slot_item(platform);
    let price_id = match (item, plans::slot(billing, platform)) {
        (Some(item), _) => item.price_id.clone(),
        (None, Some(offered)) => plans::price(billing, offered).await?,
        (None, None) => {
            let message = format!("extra slots on {platform} are not for sale here");
            return Err(
                FieldProblem::new("body", "platform", FieldErrorKind::NotAllowed, message).into()
            );
        }
    };
    let count_before = view.slots(platform);
    if item.is_some() && count > count_before {
        offered_prices::check_item(billing, platform, &price_id).await?;
    }
    if item.is_some_and(|item| item.quantity != count_before) {
        let message = format!("the subscription has several items for slots on {platform}");
        return Err(Failure::Internal(message));
    }
    Ok(SlotChangeItem {
        platform: Some(platform),
        plan_id: None,
        item_id: item.map(|item| item.id.clone()),
        price_id,
        price_before: None,
        paid_price_id: None,
        count_before,
        count_after: count,
    })
}

/// The second from which the difference is counted: that of a preview of the same change, or now.
/// It is always within the period, even if the clocks differ.
async fn proration_date(
    billing: &BillingState,
    wish: &ChangeRequest,
    decision: &ChangeDecision,
    view: &SubscriptionView,
) -> Result<i64, Failure> {
    let now = billing.clock.now();
    let PreviewKey { subject, wanted } = wish.target.told_as(decision);
    let told = change_previews::find(&billing.store, wish.customer, &subject).await?;
    let holds = |preview: &change_previews::StoredPreview| {
        preview.wanted == wanted
            && now.micros_since(preview.made_at) <= PREVIEW_HOLDS_S * MICROS_PER_SECOND
    };
    let told = told.filter(holds).map(|preview| preview.proration_date_s);
    Ok(within(view, told.unwrap_or_else(|| now.unix_seconds())))
}

/// The key under which a preview is stored.
pub(super) struct PreviewKey {
    /// What changes.
    pub(super) subject: String,
    /// The new value.
    pub(super) wanted: String,
}

impl Target {
    /// The key under which a preview of this change is stored.
    pub(super) fn told_as(&self, decision: &ChangeDecision) -> PreviewKey {
        match self {
            Self::Slots(platform, count) => {
                let subject = platform.stored_name().to_owned();
                PreviewKey { subject, wanted: count.to_string() }
            }
            Self::Switch(from, to) => {
                let counts = decision.items.iter().map(|item| item.count_after.to_string());
                let counts = counts.collect::<Vec<_>>().join(",");
                PreviewKey { subject: "switch".to_owned(), wanted: format!("{from},{to}:{counts}") }
            }
            Self::Plan(_) => {
                let price = decision.items.first().map(|item| item.price_id.clone());
                PreviewKey { subject: "plan".to_owned(), wanted: price.unwrap_or_default() }
            }
        }
    }
}

/// The date, moved into the period if it lies outside.
pub fn within(view: &SubscriptionView, date: i64) -> i64 {
    let start = view.period_start.map_or(date, Timestamp::unix_seconds);
    let end = view.period_end.map_or(date, |end| end.unix_seconds().saturating_sub(1));
    date.min(end).max(start)
}
