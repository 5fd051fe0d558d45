//! Previews: what a change of slots would cost, by the processor's own computation, and from which instant. A change
//! that is made soon afterwards is counted from the same instant, so it costs what was shown.

use clients::processor::objects::Invoice;
use clients::processor::{InvoicePreview, ItemChange, ItemPrice};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use store::slot_previews;

use super::changes;
use super::decide::{self, Decision, PREVIEW_HOLDS_S, Target};
use crate::app::App;
use crate::error::ApiError;

/// What a change would cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Preview {
    /// How many extra slots there are.
    pub(crate) count_before: i64,
    /// What would be charged at once, in cents.
    pub(crate) charged_now_cents: i64,
    /// What would be credited on the next invoice, in cents.
    pub(crate) credited_cents: i64,
    /// When the billing date is; it stays.
    pub(crate) period_end: Option<Timestamp>,
    /// The instant that the rest of the period is counted from.
    pub(crate) proration_date: Timestamp,
    /// Until when a change costs this.
    pub(crate) holds_until: Timestamp,
}

/// Computes what bringing the extra slots of a platform to `count` would cost.
pub(crate) async fn preview(
    app: &App,
    customer: CustomerId,
    platform: Platform,
    count: i64,
) -> Result<Preview, ApiError> {
    let processor = app.processor()?;
    let view = decide::subscription(app, customer).await?.view;
    let now = app.clock.now();
    let date = decide::within(&view, now.unix_seconds());
    let nothing = Preview {
        count_before: view.slots(platform),
        charged_now_cents: 0,
        credited_cents: 0,
        period_end: view.period_end,
        proration_date: Timestamp::from_unix_micros(0).plus_seconds(date),
        holds_until: now.plus_seconds(PREVIEW_HOLDS_S),
    };
    let Some(decision) = decide::items(app, &view, &Target::Slots(platform, count)).await? else {
        return Ok(nothing);
    };
    let items: Vec<_> = decision.items.iter().map(item).collect();
    let request = InvoicePreview {
        subscription: view.subscription_id.as_deref().unwrap_or_default(),
        items: &items,
        proration: changes::proration(decision.is_charged_at_once),
        proration_date: Some(date),
    };
    let invoice = processor.preview_invoice(&request).await?;
    let told =
        slot_previews::Preview { platform, slots: count, proration_date_s: date, made_at: now };
    slot_previews::remember(&app.store, customer, &told).await?;
    Ok(costing(&decision, &invoice, date, nothing))
}

fn item(item: &store::slot_changes::ChangeItem) -> ItemChange<'_> {
    let new_price = item.item_id.is_none().then_some(ItemPrice::Known(&item.price_id));
    ItemChange {
        id: item.item_id.as_deref(),
        price: new_price,
        quantity: Some(item.count_after),
        is_deleted: false,
    }
}

/// A raise is the invoice that would be made at once. A decrease is what of the next invoice comes from this change:
/// the lines that begin at its instant.
fn costing(decision: &Decision, invoice: &Invoice, date: i64, nothing: Preview) -> Preview {
    if decision.is_charged_at_once {
        return Preview { charged_now_cents: invoice.amount_due.max(0), ..nothing };
    }
    let own = invoice.lines.data.iter();
    let own = own.filter(|line| line.is_proration() && line.period.start == date);
    let sum = own.fold(0_i64, |sum, line| sum.saturating_add(line.amount));
    Preview { credited_cents: sum.saturating_neg().max(0), ..nothing }
}
