//! What happened at the processor twice, or without us: the other half of the day's comparison.
//!
//! Payments, refunds and disputes are compared by the reconciler, whoever made them. This looks for
//! what is not a payment: changes of a customer's credit that nobody asked for or that were made
//! more than once, a second customer at the processor for one of ours, a second live subscription.

use std::collections::BTreeSet;

use domain::job::JobKind;
use domain::payment::Mismatch;
use domain::subscription::SubscriptionStatus;
use domain::time::UtcDay;
use failures::Failure;
use processor_client::EventListing;
use processor_client::objects::{BalanceTransaction, ProcessorEvent, ProcessorSubscription};
use store::processor_customers;

use super::credit_adjustments::{self, JOB, SALE, VOIDED};
use super::listing::{all, listing};
use super::{fulfil, payer};
use crate::BillingState;
use crate::jobs::adjust_credit::CreditAdjustment;

/// Reports everything of a day, and returns how much there was.
pub(super) async fn report(billing: &BillingState, day: UtcDay) -> Result<u64, Failure> {
    let customers = second_customers(billing, day).await?;
    let subscriptions = second_subscriptions(billing, day).await?;
    let credits = credits(billing, day).await?;
    Ok(customers.saturating_add(subscriptions).saturating_add(credits))
}

/// Whether a time (seconds since 1970) is on this day.
fn is_on(day: UtcDay, at: i64) -> bool {
    (day.start().unix_seconds()..day.plus_days(1).start().unix_seconds()).contains(&at)
}

/// Customers made at the processor on this day for one of ours who has another one there.
async fn second_customers(billing: &BillingState, day: UtcDay) -> Result<u64, Failure> {
    let mut found = 0;
    for made in payer::made_since(billing, day.start().unix_seconds()).await? {
        if !is_on(day, made.created) {
            continue;
        }
        let Some(customer) = payer::names_ours(billing, &made).await? else { continue };
        if processor_customers::owner(&billing.store, &made.id).await?.is_some() {
            continue;
        }
        let current = processor_customers::find(&billing.store, customer).await?;
        let details = format!(
            "it was made for {customer}, who is {} at the processor",
            current.as_deref().unwrap_or("nobody")
        );
        fulfil::note_unmatched(billing, &made.id, Mismatch::SecondCustomer, &details).await?;
        found += 1;
    }
    Ok(found)
}

/// Live subscriptions begun on this day by a customer who has another live one.
async fn second_subscriptions(billing: &BillingState, day: UtcDay) -> Result<u64, Failure> {
    let (processor, from) = (billing.processor()?, day.start().unix_seconds());
    let begun: Vec<ProcessorSubscription> = all(move |after| {
        let processor = processor.clone();
        async move { processor.list_subscriptions(&listing(from, after.as_deref())).await }
    })
    .await?;
    let mut found = 0;
    for subscription in begun.iter().filter(|begun| is_on(day, begun.created)) {
        let Some(payer) = subscription.customer_id() else { continue };
        let Some(customer) = processor_customers::owner(&billing.store, payer).await? else {
            continue;
        };
        let known = store::subscriptions::find(&billing.store, customer).await?;
        let Some(known) = known.filter(|known| known.view.status.is_live()) else { continue };
        let other = known.view.subscription_id.filter(|other| *other != subscription.id);
        let status = SubscriptionStatus::from_processor(subscription.status.as_str());
        let Some(other) = other.filter(|_| status.is_live()) else { continue };
        let details = format!("{customer} is subscribed by {other} as well");
        let reason = Mismatch::SecondSubscription;
        fulfil::note_unmatched(billing, &subscription.id, reason, &details).await?;
        found += 1;
    }
    Ok(found)
}

/// Changes of customers' credit.
async fn credits(billing: &BillingState, day: UtcDay) -> Result<u64, Failure> {
    let waiting = store::jobs::list_payloads(&billing.store, JobKind::AdjustCredit).await?;
    let waiting = waiting.iter().filter_map(|it| serde_json::from_str(it).ok());
    let waiting: BTreeSet<String> =
        waiting.map(|it: CreditAdjustment| it.sale().to_owned()).collect();
    let mut found = 0;
    for payer in changed(billing, day).await? {
        found += credits_of(billing, day, &payer, &waiting).await?;
    }
    Ok(found)
}

/// The processor's ids of customers of ours whose credit may have been changed on this day: those
/// whose balance changed according to its events, and those from whom we have withdrawn some.
async fn changed(billing: &BillingState, day: UtcDay) -> Result<BTreeSet<String>, Failure> {
    let (processor, from) = (billing.processor()?, day.start().unix_seconds());
    let events: Vec<ProcessorEvent> = all(move |after| {
        let processor = processor.clone();
        async move {
            let listing = EventListing {
                types: &["customer.updated"],
                created_from: Some(from),
                after: after.as_deref(),
                ..EventListing::default()
            };
            processor.list_events(&listing).await
        }
    })
    .await?;
    let withdrawn = processor_customers::list_withdrawn(&billing.store).await?;
    let mut changed: BTreeSet<String> = withdrawn.into_iter().collect();
    for event in events.iter().filter(|event| event.changes("balance")) {
        let Some(payer) = event.customer_id().filter(|_| is_on(day, event.created)) else {
            continue;
        };
        if processor_customers::owner(&billing.store, payer).await?.is_some() {
            changed.insert(payer.to_owned());
        }
    }
    Ok(changed)
}

async fn credits_of(
    billing: &BillingState,
    day: UtcDay,
    payer: &str,
    waiting: &BTreeSet<String>,
) -> Result<u64, Failure> {
    let since = Some(day.start().unix_seconds());
    let of_day = credit_adjustments::list(billing, payer, since).await?;
    let of_day: Vec<_> = of_day.into_iter().filter(|made| is_on(day, made.created)).collect();
    if of_day.is_empty() {
        return Ok(0);
    }
    let known = credit_adjustments::list(billing, payer, None).await?;
    let mut found = BTreeSet::new();
    for made in &of_day {
        if let Some((object, reason, details)) = problem(billing, made, &known, waiting).await? {
            fulfil::note_unmatched(billing, &object, reason, &details).await?;
            found.insert(object);
        }
    }
    Ok(u64::try_from(found.len()).unwrap_or(u64::MAX))
}

/// What is wrong with a change: its object, the reason, and what was found.
type CreditProblem = Option<(String, Mismatch, String)>;

async fn problem(
    billing: &BillingState,
    made: &BalanceTransaction,
    known: &[BalanceTransaction],
    waiting: &BTreeSet<String>,
) -> Result<CreditProblem, Failure> {
    if let Some(earlier) = earlier_of_job(made, known) {
        let details =
            format!("{} {} were changed before by {}", made.amount, made.currency, earlier);
        return Ok(Some((made.id.clone(), Mismatch::RepeatedCredit, details)));
    }
    if let Some(invoice) = made.metadata.get(VOIDED) {
        let asked = store::ended_subscriptions::returned_for(&billing.store, invoice).await?;
        return Ok(unasked(made, asked.map(i64::saturating_neg), made.amount));
    }
    let Some(sale) = made.metadata.get(SALE) else { return Ok(unasked(made, None, made.amount)) };
    if waiting.contains(sale) {
        return Ok(None);
    }
    let asked = store::sales::withdrawn(&billing.store, sale).await?;
    // Repeated ones are reported as such.
    let first = |one: &&BalanceTransaction| earlier_of_job(one, known).is_none();
    let of_sale = || credit_adjustments::of_sale(known, sale).filter(first);
    let latest = of_sale().last().unwrap_or(made);
    Ok(unasked(latest, asked, credit_adjustments::sum(of_sale())))
}

/// An earlier change by the same job, or for the same voided invoice.
fn earlier_of_job<'a>(
    made: &BalanceTransaction,
    known: &'a [BalanceTransaction],
) -> Option<&'a str> {
    let is_same = |earlier: &&BalanceTransaction| {
        [JOB, VOIDED].iter().any(|name| {
            let named = made.metadata.get(*name);
            named.is_some() && named == earlier.metadata.get(*name)
        })
    };
    let first = known.iter().find(is_same)?;
    (first.id != made.id).then_some(first.id.as_str())
}

/// The problem of a change if not as much was asked for as was made.
fn unasked(made: &BalanceTransaction, asked: Option<i64>, sum: i64) -> CreditProblem {
    if asked == Some(sum) {
        return None;
    }
    let asked = asked.map_or_else(|| "nothing".to_owned(), |cents| format!("{cents} cents"));
    let details = format!(
        "{} {} were changed, {sum} cents in all; {asked} were asked for",
        made.amount, made.currency
    );
    Some((made.id.clone(), Mismatch::UnaskedCredit, details))
}
