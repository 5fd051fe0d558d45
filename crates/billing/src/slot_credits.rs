//! Records what lowering slots credited, read from the processor's items. A customer whose payment
//! for slots is reversed later must not keep that credit as well, so we track how much of the
//! period's slots was credited.

use domain::id::ChangeId;
use domain::time::Timestamp;
use failures::Failure;
use processor_client::objects::{InvoiceItem, InvoiceLine};
use store::sales::{self, SlotCredit};
use store::slot_changes::{SlotChange, SlotChangeItem};
use store::slot_credits;

use super::period;
use crate::BillingState;

/// Seconds after which the background work reads what the change itself could not.
const LEFT_AFTER_S: i64 = 60;
/// The number of changes that one round of the background work handles.
const LEFT_MAX: i64 = 20;

/// An item that waits for the next invoice, or did until an invoice included it.
struct PendingItem {
    item: String,
    cents: i64,
    /// The end of the period, in seconds since 1970.
    period_end_s: i64,
}

/// Continues with changes whose credit has not been read.
pub async fn resume_left(billing: &BillingState) {
    if billing.processor().is_ok() {
        read_closed_before(billing, billing.clock.now().plus_seconds(-LEFT_AFTER_S)).await;
    }
}

/// Reads all unread changes, however new, before handling a reversal of money that may have been
/// credited.
pub(super) async fn read_all(billing: &BillingState) {
    read_closed_before(billing, billing.clock.now().plus_seconds(1)).await;
}

async fn read_closed_before(billing: &BillingState, closed_before: Timestamp) {
    let left = match slot_credits::list_unread(&billing.store, closed_before, LEFT_MAX).await {
        Ok(left) => left,
        Err(error) => return tracing::warn!(%error, "changes that lowered slots could not be read"),
    };
    for change in left {
        follow(billing, change).await;
    }
}

/// Reads and records what a lowering credited. If that fails now, it is left to the background
/// work.
pub(super) async fn follow(billing: &BillingState, id: ChangeId) {
    if let Err(error) = read(billing, id).await {
        tracing::warn!(%error, change.id = %id, "the credit for lowered slots could not be recorded yet");
    }
}

async fn read(billing: &BillingState, id: ChangeId) -> Result<(), Failure> {
    let Some(change) = slot_credits::find_unread(&billing.store, id).await? else { return Ok(()) };
    let change = &change;
    let Some(item) = change.items.first() else { return Ok(()) };
    let counted = slot_credits::list_counted(&billing.store, change).await?;
    let is_new = |waiting: &PendingItem| !counted.contains(&waiting.item);
    let mut own = pending(billing, change, item).await?;
    own.retain(is_new);
    if own.is_empty() {
        own = invoiced(billing, change, item).await?;
        own.retain(is_new);
    }
    let ids: Vec<_> = own.iter().map(|waiting| waiting.item.clone()).collect();
    slot_credits::claim(&billing.store, change.id, &ids).await?;
    let sum = own.iter().fold(0_i64, |sum, waiting| sum.saturating_add(waiting.cents));
    let credited = sum.saturating_neg().max(0);
    if let Some(waiting) = own.first() {
        let credit = SlotCredit {
            subscription: &change.subscription_id,
            period_end: period::seconds(waiting.period_end_s),
            change: &change.id.to_string(),
            cents: credited,
        };
        sales::note_slot_credit(&billing.store, change.customer, credit).await?;
    }
    Ok(slot_credits::note(&billing.store, change.id, credited).await?)
}

/// The items of the change that wait for the next invoice.
async fn pending(
    billing: &BillingState,
    change: &SlotChange,
    of: &SlotChangeItem,
) -> Result<Vec<PendingItem>, Failure> {
    let payer = store::processor_customers::find(&billing.store, change.customer).await?;
    let Some(payer) = payer else { return Ok(Vec::new()) };
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = billing.processor()?.list_pending_items(&payer, after.as_deref()).await?;
        after = page.next().map(str::to_owned);
        let is_own = |item: &&InvoiceItem| {
            item.proration
                && item.period.start == change.proration_date_s
                && item.price_id() == Some(&of.price_id)
                && is_part_of(of, item.quantity, item.amount)
        };
        let waiting = |item: &InvoiceItem| PendingItem {
            item: item.id.clone(),
            cents: item.net_amount(),
            period_end_s: item.period.end,
        };
        found.extend(page.data.iter().filter(is_own).map(waiting));
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// The same items, if an invoice has included them in the meantime.
async fn invoiced(
    billing: &BillingState,
    change: &SlotChange,
    of: &SlotChangeItem,
) -> Result<Vec<PendingItem>, Failure> {
    let mut found = Vec::new();
    let from = change.created_at.unix_seconds().saturating_sub(86_400);
    for invoice in period::listed(billing, &change.subscription_id, from).await? {
        for line in period::all_lines(billing, &invoice).await? {
            let is_own = line.is_proration()
                && line.period.start == change.proration_date_s
                && line.price_id() == Some(&of.price_id)
                && is_part_of(of, line.quantity.unwrap_or_default(), line.amount);
            if let (true, Some(item)) = (is_own, InvoiceLine::invoice_item_id(&line)) {
                let (item, period_end_s) = (item.to_owned(), line.period.end);
                found.push(PendingItem { item, cents: line.net_amount(), period_end_s });
            }
        }
    }
    Ok(found)
}

/// A lowering credits the old number and debits the new one, for the same rest of the period.
const fn is_part_of(of: &SlotChangeItem, quantity: i64, cents: i64) -> bool {
    (quantity == of.count_before && cents <= 0) || (quantity == of.count_after && cents >= 0)
}
