//! What a wish means for the subscription as it is: which items change, whether the difference is paid at once, and
//! what is refused before the processor is asked.

use domain::account::CreatorId;
use domain::field_error::FieldErrorKind;
use domain::id::{ChangeId, CustomerId};
use domain::platform::Platform;
use domain::slot::SlotChangeKind;
use domain::time::{MICROS_PER_SECOND, Timestamp};
use store::slot_changes::{Change, ChangeItem, NewChange};
use store::slot_previews;
use store::subscriptions::{self, Subscription, View};

use super::changes::LEASE_S;
use super::plans::{self, Offered};
use crate::app::App;
use crate::error::payments::PaymentProblem;
use crate::error::{ApiError, FieldProblem};

/// The most extra slots of one platform.
pub(crate) const SLOTS_MAX: i64 = 1_000;
/// So long a change costs what a preview said.
pub(crate) const PREVIEW_HOLDS_S: i64 = 600;

/// What a customer asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// The id that the change gets; with one, a change of that id is this one and is not made again.
    pub(crate) id: Option<ChangeId>,
    /// Who asks.
    pub(crate) customer: CustomerId,
    /// By which key or session, for the audit list.
    pub(crate) actor: String,
    /// The account that gets a place first.
    pub(crate) creator: Option<CreatorId>,
    /// What is to be.
    pub(crate) target: Target,
}

/// What is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// So many extra slots on a platform.
    Slots(Platform, i64),
    /// One extra slot less on the first platform and one more on the second.
    Switch(Platform, Platform),
    /// Another plan.
    Plan(String),
}

/// Items that change, and how.
pub(crate) struct Decision {
    pub(crate) kind: SlotChangeKind,
    pub(crate) items: Vec<ChangeItem>,
    pub(crate) is_charged_at_once: bool,
}

impl Wish {
    /// Whether an open change is this wish.
    pub(crate) fn is_of(&self, change: &Change) -> bool {
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

/// The change that a wish needs, from the newest state that is known; nothing when it is so already.
pub(crate) async fn decide(app: &App, wish: &Wish) -> Result<Option<NewChange>, ApiError> {
    let known = subscription(app, wish.customer).await?;
    let view = &known.view;
    let Some(decision) = items(app, view, &wish.target).await? else { return Ok(None) };
    let now = app.clock.now();
    Ok(Some(NewChange {
        id: wish.id.unwrap_or_else(|| ChangeId::new(now, app.random.bytes())),
        customer: wish.customer,
        version: known.version,
        kind: decision.kind,
        subscription_id: view.subscription_id.clone().unwrap_or_default(),
        creator: wish.creator.clone(),
        is_charged_at_once: decision.is_charged_at_once,
        proration_date_s: proration_date(app, wish, view).await?,
        actor: wish.actor.clone(),
        items: decision.items,
        at: now,
        leased_until: now.plus_seconds(LEASE_S),
    }))
}

/// The subscription of a customer, if it is not over.
pub(crate) async fn subscription(
    app: &App,
    customer: CustomerId,
) -> Result<Subscription, ApiError> {
    let known = subscriptions::find(&app.store, customer).await?;
    let live = known.filter(|known| known.view.status.is_live());
    Ok(live.ok_or(PaymentProblem::NoSubscription)?)
}

/// Which items of the subscription a target changes; none when it is so already.
pub(crate) async fn items(
    app: &App,
    view: &View,
    target: &Target,
) -> Result<Option<Decision>, ApiError> {
    let decision = match target {
        Target::Slots(platform, count) => {
            let before = view.slots(*platform);
            if before == *count {
                return Ok(None);
            }
            let is_raise = *count > before;
            let kind = if is_raise { SlotChangeKind::Raise } else { SlotChangeKind::Lower };
            let items = vec![slot_item(app, view, *platform, *count).await?];
            Decision { kind, items, is_charged_at_once: is_raise }
        }
        Target::Switch(from, to) => {
            let (fewer, more) = (view.slots(*from) - 1, view.slots(*to) + 1);
            if fewer < 0 {
                let message = format!("there is no extra slot on {from} to be moved");
                return Err(
                    FieldProblem::new("body", "from", FieldErrorKind::NotAllowed, message).into()
                );
            }
            let given = slot_item(app, view, *from, fewer).await?;
            let items = vec![given, slot_item(app, view, *to, more).await?];
            Decision { kind: SlotChangeKind::Switch, items, is_charged_at_once: false }
        }
        Target::Plan(plan_id) => match plan_item(app, view, plan_id).await? {
            Some(decision) => decision,
            None => return Ok(None),
        },
    };
    refuse_unpaid(view, &decision)?;
    Ok(Some(decision))
}

/// More is sold on a paid subscription alone; less is taken back while the subscription gives something.
fn refuse_unpaid(view: &View, decision: &Decision) -> Result<(), ApiError> {
    let status = view.status;
    let is_open_to =
        if decision.is_charged_at_once { status.takes_raises() } else { status.entitles() };
    if is_open_to { Ok(()) } else { Err(PaymentProblem::SubscriptionNotPaid { status }.into()) }
}

async fn slot_item(
    app: &App,
    view: &View,
    platform: Platform,
    count: i64,
) -> Result<ChangeItem, ApiError> {
    let item = view.slot_item(platform);
    let price_id = match (item, plans::slot(app, platform)) {
        (Some(item), _) => item.price_id.clone(),
        (None, Some(offered)) => plans::price(app, offered).await?,
        (None, None) => {
            let message = format!("this deployment sells no extra slots on {platform}");
            return Err(
                FieldProblem::new("body", "platform", FieldErrorKind::NotAllowed, message).into()
            );
        }
    };
    let count_before = view.slots(platform);
    if item.is_some_and(|item| item.quantity != count_before) {
        let message = format!("the subscription has several items for slots on {platform}");
        return Err(ApiError::Internal(message));
    }
    Ok(ChangeItem {
        platform: Some(platform),
        plan_id: None,
        item_id: item.map(|item| item.id.clone()),
        price_id,
        count_before,
        count_after: count,
    })
}

/// A dearer plan is paid at once for the rest of the period, a cheaper one is credited on the next invoice.
async fn plan_item(app: &App, view: &View, plan_id: &str) -> Result<Option<Decision>, ApiError> {
    let plan = plans::plan(app, plan_id)?;
    let (item, current) = view.plan().ok_or(PaymentProblem::NoSubscription)?;
    if current == plan_id {
        return Ok(None);
    }
    let before = app.config.plans.iter().find(|other| other.id == current);
    let is_dearer = before.is_none_or(|before| plan.price_cents > before.price_cents);
    let item = ChangeItem {
        platform: None,
        plan_id: Some(plan_id.to_owned()),
        item_id: Some(item.id.clone()),
        price_id: plans::price(app, Offered::Plan(plan)).await?,
        count_before: item.quantity,
        count_after: 1,
    };
    let kind = SlotChangeKind::Plan;
    Ok(Some(Decision { kind, items: vec![item], is_charged_at_once: is_dearer }))
}

/// The instant that the difference is counted from: the one of the preview of the same change, or now; always within
/// the period, whatever the clocks say.
async fn proration_date(app: &App, wish: &Wish, view: &View) -> Result<i64, ApiError> {
    let now = app.clock.now();
    let mut date = now.unix_seconds();
    if let Target::Slots(platform, count) = wish.target
        && let Some(preview) = slot_previews::find(&app.store, wish.customer, platform).await?
        && preview.slots == count
        && now.micros_since(preview.made_at) < PREVIEW_HOLDS_S * MICROS_PER_SECOND
    {
        date = preview.proration_date_s;
    }
    Ok(within(view, date))
}

/// The nearest second of the period.
pub(crate) fn within(view: &View, date: i64) -> i64 {
    let start = view.period_start.map_or(date, Timestamp::unix_seconds);
    let end = view.period_end.map_or(date, |end| end.unix_seconds().saturating_sub(1));
    date.min(end).max(start)
}
