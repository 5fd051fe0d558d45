//! Previews: what a change would cost, as computed by the processor, and from which second it is
//! counted. A change made soon afterwards is counted from the same second, so it costs what was
//! shown.

use domain::id::CustomerId;
use domain::slot::{ChangeProration, ChangeStep, SlotChangeKind};
use domain::time::Timestamp;
use failures::Failure;
use processor_client::objects::{InvoiceLine, ProcessorInvoice};
use processor_client::{InvoicePreview, ItemChange, ItemPrice};
use store::change_previews;
use store::slot_changes::SlotChangeItem;
use store::subscriptions::SubscriptionView;

use super::decide::{self, ChangeDecision, PREVIEW_HOLDS_S, PreviewKey, Target};
use super::{change_requests, period};
use crate::BillingState;

/// What a change would cost.
#[derive(Debug, Clone)]
pub struct ChangePreview {
    /// The subscription as it is.
    pub view: SubscriptionView,
    /// Whether the change would take effect immediately; a cheaper plan takes effect at the
    /// period's end.
    pub is_immediate: bool,
    /// The price of the plan after the change.
    pub plan_price_id: Option<String>,
    /// Whether it would be an upgrade of the plan.
    pub is_upgrade: bool,
    /// What would be charged immediately, in cents, including tax and after credit.
    pub charged_now_cents: i64,
    /// What would be added to the next invoice, in cents; negative for a credit.
    pub next_invoice_cents: i64,
    /// The credit for unused time of the paid plan within the immediate charge, in cents.
    pub unused_cents: i64,
    /// The time from which the rest of the period is counted.
    pub proration_date: Timestamp,
    /// How long a change costs this.
    pub holds_until: Timestamp,
}

/// Computes what reaching a target would cost, without changing anything.
pub async fn preview(
    billing: &BillingState,
    customer: CustomerId,
    target: &Target,
) -> Result<ChangePreview, Failure> {
    billing.processor()?;
    let view = decide::subscription(billing, customer).await?.view;
    let now = billing.clock.now();
    let date = decide::within(&view, now.unix_seconds());
    let decision = decide::items(billing, &view, target).await?;
    let mut preview = ChangePreview {
        is_immediate: true,
        is_upgrade: false,
        plan_price_id: view.plan_item().map(|item| item.price_id.clone()),
        charged_now_cents: 0,
        next_invoice_cents: 0,
        unused_cents: 0,
        proration_date: period::seconds(date),
        holds_until: now.plus_seconds(PREVIEW_HOLDS_S),
        view,
    };
    let Some(decision) = decision else { return Ok(preview) };
    if let Some(item) = decision.items.iter().find(|item| item.platform.is_none()) {
        preview.plan_price_id = Some(item.price_id.clone());
    }
    match decision.proration {
        ChangeProration::PayNow => {
            let charge = charge(billing, &preview.view, &decision, date).await?;
            preview.is_upgrade = decision.kind == SlotChangeKind::Plan;
            (preview.charged_now_cents, preview.unused_cents) =
                (charge.due_cents, charge.unused_cents);
        }
        ChangeProration::NextInvoice => {
            let invoice = ask(billing, &preview.view, &decision.items, &decision, date).await?;
            preview.next_invoice_cents = own_lines(&invoice, date).sum();
        }
        ChangeProration::None => {
            preview.is_immediate =
                decision.kind != SlotChangeKind::Plan || is_taken_back(&decision);
        }
    }
    let PreviewKey { subject, wanted } = target.told_as(&decision);
    let told =
        change_previews::StoredPreview { subject, wanted, proration_date_s: date, made_at: now };
    change_previews::remember(&billing.store, customer, &told).await?;
    Ok(preview)
}

/// What would be charged immediately.
struct Charge {
    due_cents: i64,
    unused_cents: i64,
}

/// The invoice that would be created immediately. If a cheaper plan is pending, the upgrade
/// withdraws it first: amounts that the processor counts from the pending plan are corrected to
/// count from the paid one.
async fn charge(
    billing: &BillingState,
    view: &SubscriptionView,
    decision: &ChangeDecision,
    date: i64,
) -> Result<Charge, Failure> {
    let invoice = ask(billing, view, &decision.items, decision, date).await?;
    let credits: i64 = own_lines(&invoice, date).filter(|cents| *cents < 0).sum();
    let charge =
        Charge { due_cents: invoice.amount_due.max(0), unused_cents: credits.saturating_neg() };
    if decision.step != ChangeStep::TakeBack {
        return Ok(charge);
    }
    let back: Vec<_> = decision.items.iter().map(taken_back).collect();
    let taking_back = ask(billing, view, &back, decision, date).await?;
    let difference: i64 = own_lines(&taking_back, date).sum();
    if difference == 0 {
        return Ok(charge);
    }
    let total = invoice.total.saturating_add(invoice.starting_balance);
    Ok(Charge {
        due_cents: total.saturating_sub(difference).max(0),
        unused_cents: charge.unused_cents.saturating_add(difference),
    })
}

async fn ask(
    billing: &BillingState,
    view: &SubscriptionView,
    items: &[SlotChangeItem],
    decision: &ChangeDecision,
    date: i64,
) -> Result<ProcessorInvoice, Failure> {
    let items: Vec<_> = items.iter().map(|it| item(it, decision.kind)).collect();
    let request = InvoicePreview {
        subscription: view.subscription_id.as_deref().unwrap_or_default(),
        items: &items,
        proration: change_requests::proration(decision.proration),
        proration_date: Some(date),
    };
    Ok(billing.processor()?.preview_invoice(&request).await?)
}

fn item(item: &SlotChangeItem, kind: SlotChangeKind) -> ItemChange<'_> {
    let is_new_price = item.item_id.is_none() || kind == SlotChangeKind::Plan;
    ItemChange {
        id: item.item_id.as_deref(),
        price: is_new_price.then_some(ItemPrice::Known(&item.price_id)),
        quantity: Some(item.count_after),
        is_deleted: false,
    }
}

/// The plan's item after the pending plan is withdrawn.
fn taken_back(item: &SlotChangeItem) -> SlotChangeItem {
    let paid = item.paid_price_id.clone().unwrap_or_else(|| item.price_id.clone());
    SlotChangeItem { price_id: paid, ..item.clone() }
}

fn is_taken_back(decision: &ChangeDecision) -> bool {
    let mut items = decision.items.iter();
    items.any(|item| item.paid_price_id.as_deref() == Some(&item.price_id))
}

/// The lines of an invoice that come from this change, after discounts: those that begin at its
/// time.
fn own_lines(invoice: &ProcessorInvoice, date: i64) -> impl Iterator<Item = i64> {
    let own = invoice.lines.data.iter();
    let own = own.filter(move |line| line.is_proration() && line.period.start == date);
    own.map(InvoiceLine::net_amount)
}
