//! What choosing a plan means. An upgrade takes effect immediately; a downgrade takes effect at the
//! end of the period, which is already paid. Choosing the paid plan withdraws a pending one.

use domain::plan::PlanVersion;
use domain::slot::{ChangeProration, ChangeStep, SlotChangeKind};
use failures::Failure;
use failures::PaymentProblem;
use store::plan_versions;
use store::slot_changes::SlotChangeItem;
use store::subscriptions::{PaidItem, SubscriptionView};

use super::decide::ChangeDecision;
use super::plans::{self, OfferedItem, SoldItem};
use crate::BillingState;

/// The change that choosing this plan needs; `None` if nothing needs to change. A plan that is not
/// sold is 404, unless it is the one that is paid for.
pub(super) async fn decide(
    billing: &BillingState,
    view: &SubscriptionView,
    plan_id: &str,
) -> Result<Option<ChangeDecision>, Failure> {
    let item = view.plan_item().ok_or(PaymentProblem::NoSubscription)?;
    let next = next(billing, item).await?;
    let paid = view.paid.clone().unwrap_or_else(|| next.clone());
    let sold = plans::plan(billing, plan_id);
    let is_pending = !next.is_same_offer(&paid);
    let is_paid_plan = plan_id == paid.plan_id;
    let is_current = |plan| plans::version(plan, "").is_same_offer(&paid);
    if is_paid_plan && (is_pending || sold.as_ref().ok().is_none_or(|plan| is_current(plan))) {
        let taken_back = change(item, &paid, &paid, ChangeProration::None, ChangeStep::Change);
        return Ok(is_pending.then_some(taken_back));
    }
    let plan = sold?;
    let wanted = plans::version(plan, &plans::price(billing, OfferedItem::Plan(plan)).await?);
    if paid.is_raised_by(&wanted) {
        let first = if is_pending { ChangeStep::TakeBack } else { ChangeStep::Change };
        return Ok(Some(change(item, &wanted, &paid, ChangeProration::PayNow, first)));
    }
    let pending = change(item, &wanted, &paid, ChangeProration::None, ChangeStep::Change);
    Ok((!wanted.is_same_offer(&next)).then_some(pending))
}

/// The plan version that the subscription will renew.
pub async fn next(billing: &BillingState, item: &PaidItem) -> Result<PlanVersion, Failure> {
    if let Some(known) = plan_versions::find(&billing.store, &item.price_id).await? {
        return Ok(known);
    }
    match plans::bought(billing, &item.price_id, None).await? {
        SoldItem::Plan(version) => Ok(version),
        SoldItem::Slots(_) | SoldItem::Other => {
            Err(Failure::Internal(format!("the price {} is not that of a plan", item.price_id)))
        }
    }
}

fn change(
    item: &PaidItem,
    wanted: &PlanVersion,
    paid: &PlanVersion,
    proration: ChangeProration,
    step: ChangeStep,
) -> ChangeDecision {
    let item = SlotChangeItem {
        platform: None,
        plan_id: Some(wanted.plan_id.clone()),
        item_id: Some(item.id.clone()),
        price_id: wanted.price_id.clone(),
        price_before: Some(item.price_id.clone()),
        paid_price_id: Some(paid.price_id.clone()),
        count_before: item.quantity,
        count_after: 1,
    };
    ChangeDecision { kind: SlotChangeKind::Plan, items: vec![item], proration, step }
}
