//! The requests to the processor that make up a change. Each has an idempotency key derived from
//! the change's id, and the same content however often it is sent.

use domain::slot::{ChangeProration, SlotChangeKind};
use domain::time::Timestamp;
use processor_client::objects::ProcessorInvoice;
use processor_client::{
    IdempotencyKey, ItemChange, ItemPrice, ProcessorError, ProrationBehavior, SubscriptionChange,
};
use store::slot_changes::{self, SlotChange, SlotChangeItem};

use super::changes::ChangeResult;
use crate::BillingState;

/// Metadata for people who look at the subscription at the processor: while a cheaper plan is
/// pending, the item already shows that plan.
const PAID_PLAN_KEY: &str = "paid_plan";
const PAID_UNTIL_KEY: &str = "paid_until";

/// Sets the price of the plan's item from the next period on.
pub(super) async fn send_plan(
    billing: &BillingState,
    change: &SlotChange,
    price: &str,
    kind: &str,
) -> Result<(), ProcessorError> {
    let id = change.plan_item().and_then(|item| item.item_id.as_deref());
    let item = ItemChange {
        id,
        price: Some(ItemPrice::Known(price)),
        quantity: Some(1),
        is_deleted: false,
    };
    let request = SubscriptionChange {
        items: &[item],
        proration: ProrationBehavior::None,
        proration_date: None,
        default_payment_method: None,
        cancel_at_period_end: None,
        metadata: &[],
    };
    // The id of a row always forms a valid key.
    let key = IdempotencyKey::of(kind, change.id);
    let (Ok(key), Ok(processor)) = (key, billing.processor()) else {
        return Err(ProcessorError::Missing);
    };
    processor.update_subscription(&change.subscription_id, &request, &key).await?;
    Ok(())
}

/// Sends the change, and records what was charged for it.
pub(super) async fn send(
    billing: &BillingState,
    change: &SlotChange,
) -> Result<ChangeResult, ProcessorError> {
    let item = |item: &SlotChangeItem| -> (Option<String>, Option<String>, i64) {
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
    let paid = paid_for_people(billing, change).await;
    let metadata: Vec<_> = paid.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let request = SubscriptionChange {
        items: &items,
        proration: proration(change.proration),
        proration_date: (change.proration != ChangeProration::None)
            .then_some(change.proration_date_s),
        default_payment_method: None,
        cancel_at_period_end: None,
        metadata: &metadata,
    };
    let key = IdempotencyKey::of("slot", change.id);
    let (Ok(key), Ok(processor)) = (key, billing.processor()) else {
        return Err(ProcessorError::Missing);
    };
    let changed = processor.update_subscription(&change.subscription_id, &request, &key).await?;
    let invoice = changed.latest_invoice.as_ref().and_then(|invoice| invoice.object());
    if change.proration != ChangeProration::PayNow {
        return Ok(ChangeResult::nothing());
    }
    Ok(match invoice.filter(|invoice| is_of(change, invoice)) {
        Some(invoice) => note_charge(billing, change, invoice).await,
        None => ChangeResult::default(),
    })
}

/// Whether the latest invoice was created by this change.
fn is_of(change: &SlotChange, invoice: &ProcessorInvoice) -> bool {
    invoice.lines.data.iter().any(|line| line.period.start == change.proration_date_s)
}

async fn note_charge(
    billing: &BillingState,
    change: &SlotChange,
    invoice: &ProcessorInvoice,
) -> ChangeResult {
    if !invoice.is_paid() {
        tracing::error!(change.id = %change.id, "a change was made, but its invoice is not paid");
    }
    let charged = invoice.amount_paid;
    let noted = slot_changes::note_charge(&billing.store, change.id, &invoice.id, charged).await;
    if let Err(error) = noted {
        tracing::warn!(%error, change.id = %change.id, "the cost of a change could not be recorded");
    }
    ChangeResult {
        invoice_id: Some(invoice.id.clone()),
        charged_cents: Some(charged),
        credits_granted: None,
    }
}

/// While another plan is pending: the plan that is paid for, and until when. Otherwise empty
/// values, which remove both.
async fn paid_for_people(
    billing: &BillingState,
    change: &SlotChange,
) -> Vec<(&'static str, String)> {
    let Some(item) = change.plan_item() else { return Vec::new() };
    let paid = item.paid_price_id.as_deref().unwrap_or_default();
    let is_pending = change.proration == ChangeProration::None && item.price_id != paid;
    let (plan, until) = if is_pending {
        let version = store::plan_versions::find(&billing.store, paid).await.ok().flatten();
        let plan = version.map(|version| version.plan_id).unwrap_or_default();
        (plan, change.period_end.map(Timestamp::to_rfc3339).unwrap_or_default())
    } else {
        (String::new(), String::new())
    };
    vec![(PAID_PLAN_KEY, plan), (PAID_UNTIL_KEY, until)]
}

/// How the rest of the period is charged.
pub(crate) const fn proration(of: ChangeProration) -> ProrationBehavior {
    match of {
        ChangeProration::PayNow => ProrationBehavior::PayNow,
        ChangeProration::NextInvoice => ProrationBehavior::NextInvoice,
        ChangeProration::None => ProrationBehavior::None,
    }
}
