//! What a paid invoice sold: each line by its purpose and the time it covers (economics 9).
//!
//! Credits follow the plan version and the time, never the cents: a line for a whole period grants
//! the monthly credits, a proration grants the share of its time, and a line that returns time
//! takes that share back. The sum of the lines of one period is rounded up. Amounts of money are as
//! the processor computed them.

use domain::billing_period::BillingPeriod;
use domain::payment::Mismatch;
use domain::sales::PartKind;
use domain::time::Timestamp;
use failures::Failure;
use processor_client::ProcessorError;
use processor_client::objects::{InvoiceLine, ProcessorInvoice};
use settings::ExpirySection;
use settings::billing::CURRENCY;
use store::payments::{SoldInvoice, SoldPart};
use store::sales::SoldLine;

use super::period::{self, seconds};
use super::plans::{self, SoldItem};
use crate::BillingState;

/// What an invoice sold, and whether it is what we sell.
pub(super) struct ReadSale {
    pub(super) sold: SoldInvoice,
    /// What differs from what we sell: then it brings nothing until the operator decides.
    pub(super) difference: Option<SaleDifference>,
}

/// How an invoice differs from what we sell.
pub(super) struct SaleDifference {
    pub(super) reason: Mismatch,
    pub(super) details: String,
}

/// Reads what an invoice sold, with all its lines; `None` if no line is for something of ours.
pub(super) async fn read(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
) -> Result<Option<ReadSale>, Failure> {
    let Some(subscription) = invoice.subscription_id() else { return Ok(None) };
    let lines = period::all_lines(billing, invoice).await?;
    let mut bought = Vec::new();
    for line in &lines {
        bought.push(match line.price_id() {
            Some(price) => plans::bought(billing, price, line.product_id()).await?,
            None => SoldItem::Other,
        });
    }
    if bought.iter().all(|bought| *bought == SoldItem::Other) {
        return Ok(None);
    }
    let mut sorted = SortedLines {
        anchor: anchor(billing, subscription).await?,
        plan_days: billing.config.credits.expiry.plan_days,
        ..SortedLines::default()
    };
    for (line, what) in lines.iter().zip(&bought) {
        sorted.add(line, what, monthly_credits(billing, subscription, line, what).await?);
    }
    let difference = difference(invoice, lines.iter().zip(&bought));
    let sold = SoldInvoice {
        subscription: subscription.to_owned(),
        number: invoice.number.clone().unwrap_or_default(),
        sold_at: seconds(invoice.created),
        parts: sorted.parts(),
        lines: sorted.lines,
        livemode: billing.config.processor.livemode,
    };
    Ok(Some(ReadSale { sold, difference }))
}

/// Whether an invoice is in our currency, and its plan costs for a whole period what its version
/// costs, before discounts. A line of 0 cents is a trial, which brings nothing anyway; prorations
/// follow from whole periods.
fn difference<'a>(
    invoice: &ProcessorInvoice,
    mut lines: impl Iterator<Item = (&'a InvoiceLine, &'a SoldItem)>,
) -> Option<SaleDifference> {
    let (payer, number) =
        (invoice.customer_id().unwrap_or_default(), invoice.number.as_deref().unwrap_or_default());
    if invoice.currency != CURRENCY {
        let details = format!(
            "{number} of {payer} took {} {}, but plans are sold in {CURRENCY}",
            invoice.amount_paid, invoice.currency
        );
        return Some(SaleDifference { reason: Mismatch::OtherCurrency, details });
    }
    lines.find_map(|(line, bought)| {
        let SoldItem::Plan(version) = bought else { return None };
        let wanted = version.price_cents.saturating_mul(line.quantity.unwrap_or(1));
        if line.is_proration() || line.amount == 0 || line.amount == wanted {
            return None;
        }
        let details = format!(
            "{number} of {payer} has the plan `{}` for {} cents, but {} is sold for {wanted}",
            version.plan_id, line.amount, version.price_id
        );
        Some(SaleDifference { reason: Mismatch::OtherAmount, details })
    })
}

/// The anchor from which the months of a subscription are counted; `None` if the processor no
/// longer has it.
async fn anchor(billing: &BillingState, subscription: &str) -> Result<Option<Timestamp>, Failure> {
    match billing.processor()?.retrieve_subscription(subscription).await {
        Ok(subscription) => Ok(Some(seconds(subscription.billing_cycle_anchor))),
        Err(ProcessorError::Missing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The credits of a whole period of a line's plan, negative if the line returns time.
async fn monthly_credits(
    billing: &BillingState,
    subscription: &str,
    line: &InvoiceLine,
    bought: &SoldItem,
) -> Result<i64, Failure> {
    let SoldItem::Plan(version) = bought else { return Ok(0) };
    let credits = version.monthly_credits.saturating_mul(line.quantity.unwrap_or(1).max(0));
    if !line.is_proration() {
        // A whole period without a charge is a trial granted by the operator.
        let is_trial = line.amount == 0 && version.price_cents > 0;
        return Ok(if is_trial { 0 } else { credits });
    }
    let gives_back = match line.amount {
        0 => {
            // Too little time is left for a cent, so the sign is unknown: the price that we
            // requested is the new one.
            let start = line.period.start;
            let asked = store::sales::plan_price_at(&billing.store, subscription, start).await?;
            asked.is_some_and(|asked| line.price_id() != Some(&asked))
        }
        amount => amount < 0,
    };
    Ok(if gives_back { -credits } else { credits })
}

/// The kind of part that something is sold as.
pub(super) const fn kind_of(bought: &SoldItem) -> PartKind {
    match bought {
        SoldItem::Plan(_) => PartKind::Plan,
        SoldItem::Slots(_) => PartKind::Slot,
        SoldItem::Other => PartKind::Other,
    }
}

/// The lines of an invoice, grouped by purpose and period.
#[derive(Default)]
struct SortedLines {
    anchor: Option<Timestamp>,
    /// Days after the end of its period until a plan's credits expire; 0: after another period.
    plan_days: i64,
    parts: Vec<GatheredLines>,
    lines: Vec<SoldLine>,
}

/// The lines for one purpose and one period.
struct GatheredLines {
    part: SoldPart,
    /// Credits times seconds.
    exact: i128,
    period_s: i64,
}

impl SortedLines {
    fn add(&mut self, line: &InvoiceLine, bought: &SoldItem, monthly_credits: i64) {
        let (start, end) = (seconds(line.period.start), seconds(line.period.end));
        let kind = kind_of(bought);
        let place = self.place(kind, start, end);
        let Some(gathered) = self.parts.get_mut(place) else { return };
        gathered.part.money_cents = gathered.part.money_cents.saturating_add(line.net_amount());
        let covered = end.unix_seconds().saturating_sub(start.unix_seconds());
        gathered.exact += i128::from(monthly_credits) * i128::from(covered);
        if let (SoldItem::Plan(version), true) = (bought, monthly_credits >= 0) {
            gathered.part.reference.clone_from(&version.plan_id);
        }
        self.lines.push(SoldLine {
            part: place,
            price_id: line.price_id().map(str::to_owned),
            amount_cents: line.amount,
            discount_cents: line.discount(),
            quantity: line.quantity.unwrap_or(1),
            starts_at: start,
            ends_at: end,
            is_proration: line.is_proration(),
            monthly_credits,
            period_s: gathered.period_s,
        });
    }

    /// The index of the group for lines of this kind and period.
    fn place(&mut self, kind: PartKind, start: Timestamp, end: Timestamp) -> usize {
        let is_same = |one: &GatheredLines| one.part.kind == kind && one.part.period_end == end;
        if let Some(place) = self.parts.iter().position(is_same) {
            return place;
        }
        let period = self.anchor.and_then(|anchor| BillingPeriod::ending(anchor, end));
        let own = end.unix_seconds().saturating_sub(start.unix_seconds()).max(1);
        let next_end = || period.map_or(end.plus_seconds(own), |period| period.next_end);
        let part = SoldPart {
            kind,
            period_end: end,
            money_cents: 0,
            credits: 0,
            expires_at: ExpirySection::after(self.plan_days, end).or_else(|| Some(next_end())),
            reference: String::new(),
        };
        let period_s = period.map_or(own, |period| period.seconds());
        self.parts.push(GatheredLines { part, exact: 0, period_s });
        self.parts.len() - 1
    }

    /// The parts with their credits, in the order of their first lines.
    fn parts(&self) -> Vec<SoldPart> {
        let credits = |gathered: &GatheredLines| {
            // Rounded up, also below zero, in the customer's favour.
            let up = -(-gathered.exact).div_euclid(i128::from(gathered.period_s.max(1)));
            i64::try_from(up).unwrap_or(0)
        };
        let part = |gathered: &GatheredLines| SoldPart {
            credits: credits(gathered),
            ..gathered.part.clone()
        };
        self.parts.iter().map(part).collect()
    }
}
