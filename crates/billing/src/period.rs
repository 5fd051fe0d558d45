//! The invoices of a subscription's current period: which plan it is paid for, and whether its
//! slots are.
//!
//! The subscription's item says which plan renews. The plan in force until then is on invoices: the
//! plan's line whose period ends when the subscription's does. The latest purchase counts.

use domain::plan::PlanVersion;
use domain::time::Timestamp;
use failures::Failure;
use processor_client::ListFilter;
use processor_client::objects::{InvoiceLine, InvoiceStatus, ProcessorInvoice};

use super::plans::{self, SoldItem};
use crate::BillingState;

/// How many seconds an invoice may be older than the period it is for, by the processor's clock.
const BEFORE_S: i64 = 86_400;

/// A period of a subscription.
#[derive(Debug, Clone, Copy)]
pub(super) struct SubscriptionPeriod<'a> {
    pub(super) subscription: &'a str,
    /// Seconds since 1970.
    pub(super) start: i64,
    /// Seconds since 1970.
    pub(super) end: i64,
}

/// What an invoice sells or returns for a period.
#[derive(Debug, Clone)]
pub(super) struct PeriodInvoice {
    status: InvoiceStatus,
    lines: Vec<PeriodLine>,
}

#[derive(Debug, Clone)]
struct PeriodLine {
    bought: SoldItem,
    /// Before discounts and tax.
    cents: i64,
}

/// Reads the invoices with lines of this period, oldest first.
pub(super) async fn invoices(
    billing: &BillingState,
    period: SubscriptionPeriod<'_>,
) -> Result<Vec<PeriodInvoice>, Failure> {
    let mut found = Vec::new();
    for invoice in
        listed(billing, period.subscription, period.start.saturating_sub(BEFORE_S)).await?
    {
        let mut lines = Vec::new();
        for line in all_lines(billing, &invoice).await? {
            let (true, Some(price)) = (line.period.end == period.end, line.price_id()) else {
                continue;
            };
            let bought = plans::bought(billing, price, line.product_id()).await?;
            lines.push(PeriodLine { bought, cents: line.amount });
        }
        if !lines.is_empty() {
            found.push(PeriodInvoice { status: invoice.status, lines });
        }
    }
    found.reverse();
    Ok(found)
}

/// The plan version that the period is paid for, or will be if the processor's retries succeed.
/// `None` if no invoice sells a plan for it.
pub(super) fn paid_plan(invoices: &[PeriodInvoice]) -> Option<PlanVersion> {
    let mut paid: Option<&PlanVersion> = None;
    for invoice in invoices.iter().filter(|invoice| invoice.status != InvoiceStatus::Void) {
        let plans = invoice.lines.iter().filter_map(|line| match &line.bought {
            SoldItem::Plan(version) => Some((version, line.cents)),
            SoldItem::Slots(_) | SoldItem::Other => None,
        });
        let plans: Vec<_> = plans.collect();
        let mut debits = plans.iter().filter(|(_, cents)| *cents > 0);
        // In a period's last seconds both lines of an upgrade may be 0 cents: the new plan is the
        // one that was not paid for before.
        let is_new = |version: &PlanVersion| paid.is_none_or(|it| it.price_id != version.price_id);
        let mut of_nothing = plans.iter().filter(|(version, cents)| *cents == 0 && is_new(version));
        let latest = debits.next_back().or_else(|| of_nothing.next_back());
        paid = latest.map(|(version, _)| *version).or(paid);
    }
    paid.cloned()
}

/// Whether every invoice with slots of the period is paid: only then does lowering them return
/// money.
pub(super) fn slots_are_paid(invoices: &[PeriodInvoice]) -> bool {
    let sells_slots = |invoice: &&PeriodInvoice| {
        invoice.lines.iter().any(|line| matches!(line.bought, SoldItem::Slots(_)))
    };
    invoices.iter().filter(sells_slots).all(|invoice| invoice.status == InvoiceStatus::Paid)
}

/// A subscription's invoices created at or after `created_from` (seconds since 1970), newest first.
pub(super) async fn listed(
    billing: &BillingState,
    subscription: &str,
    created_from: i64,
) -> Result<Vec<ProcessorInvoice>, Failure> {
    let processor = billing.processor()?;
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let listing = ListFilter {
            subscription: Some(subscription),
            created_from: Some(created_from),
            after: after.as_deref(),
            ..ListFilter::default()
        };
        let page = processor.list_invoices(&listing).await?;
        after = page.next().map(str::to_owned);
        found.extend(page.data);
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Every line of an invoice; the invoice itself contains only the first ones.
pub(super) async fn all_lines(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
) -> Result<Vec<InvoiceLine>, Failure> {
    let mut after = invoice.lines.next().map(str::to_owned);
    let mut lines = invoice.lines.data.clone();
    while let Some(last) = after {
        let page = billing.processor()?.list_invoice_lines(&invoice.id, &last).await?;
        after = page.next().map(str::to_owned);
        lines.extend(page.data);
    }
    Ok(lines)
}

/// A time from the processor, given in seconds since 1970.
pub(super) const fn seconds(unix: i64) -> Timestamp {
    Timestamp::from_unix_micros(0).plus_seconds(unix)
}

#[cfg(test)]
mod tests {
    use domain::platform::Platform;
    use domain::slot::AccountCounts;

    use super::*;

    fn plan(price_id: &str, cents: i64) -> PeriodLine {
        let version = PlanVersion {
            price_id: price_id.to_owned(),
            plan_id: "pro".to_owned(),
            price_cents: 100,
            monthly_credits: 1,
            accounts: AccountCounts::default(),
        };
        PeriodLine { bought: SoldItem::Plan(version), cents }
    }

    fn slots(cents: i64) -> PeriodLine {
        PeriodLine { bought: SoldItem::Slots(Platform::ALPHA), cents }
    }

    fn invoice(status: InvoiceStatus, lines: &[PeriodLine]) -> PeriodInvoice {
        PeriodInvoice { status, lines: lines.to_vec() }
    }

    fn paid(invoices: &[PeriodInvoice]) -> Option<String> {
        paid_plan(invoices).map(|version| version.price_id)
    }

    #[test]
    fn period_is_paid_for_the_plan_bought_last() {
        use InvoiceStatus::{Draft, Open, Paid, Void};
        let first = invoice(Paid, &[slots(10), plan("small", 4_900)]);
        let raise = invoice(Paid, &[plan("small", -2_450), plan("big", 9_950), slots(5)]);
        let last_second = invoice(Paid, &[plan("big", 0), plan("huge", 0)]);
        let slot_change = invoice(Paid, &[slots(-5), slots(10)]);

        assert_eq!(paid(&[]), None);
        assert_eq!(paid(std::slice::from_ref(&slot_change)), None);
        assert_eq!(paid(std::slice::from_ref(&first)).as_deref(), Some("small"));
        let all = [first, raise, slot_change, last_second];
        assert_eq!(paid(&all[..3]).as_deref(), Some("big"));
        assert_eq!(paid(&all).as_deref(), Some("huge"));
        for status in [Draft, Open, Paid] {
            assert_eq!(paid(&[invoice(status, &[plan("big", 1)])]).as_deref(), Some("big"));
        }
        assert_eq!(paid(&[invoice(Void, &[plan("big", 1)])]), None);
    }

    #[test]
    fn slots_are_paid_when_all_their_invoices_are() {
        use InvoiceStatus::{Draft, Open, Paid, Uncollectible, Void};
        let of_plan = invoice(Open, &[plan("small", 4_900)]);
        let of_slots = |status| invoice(status, &[plan("small", 4_900), slots(10)]);

        assert!(slots_are_paid(std::slice::from_ref(&of_plan)));
        assert!(slots_are_paid(&[of_plan.clone(), of_slots(Paid)]));
        for status in [Draft, Open, Uncollectible, Void] {
            assert!(!slots_are_paid(&[of_slots(Paid), of_slots(status)]), "{status:?}");
        }
    }
}
