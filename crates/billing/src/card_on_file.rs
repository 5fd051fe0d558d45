//! The saved card: it becomes the default for invoices and for every live subscription, and pays
//! their open invoices.
//!
//! A job is committed before the first request and removed after the last one. After a crash in
//! between, the job repeats all steps. Setting a card twice changes nothing, and an invoice is paid
//! once: the idempotency key of its payment is derived from the job, so a repetition is not a
//! second attempt at the bank. Once the processor may have forgotten the key, the charges of the
//! invoice are read first.

use domain::id::{CustomerId, JobId};
use domain::job::JobKind;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use failures::Failure;
use processor_client::objects::{
    ExpandableObject, InvoiceStatus, PaymentMethod, ProcessorInvoice, ProcessorSubscription,
};
use processor_client::{
    CustomerChange, ListFilter, ProcessorClient, ProcessorError, ProrationBehavior,
    SubscriptionChange,
};
use store::cards::{self, SavedCard};
use store::jobs::{self, NewJob};
use store::processor_customers;
use store::subscriptions::ItemBenefit;

use super::{invoices, lost, subscriptions};
use crate::BillingState;

/// Seconds after which the job completes whatever is unfinished.
const JOB_AFTER_S: i64 = 60;
/// How often the steps may be restarted because another card was saved in the meantime.
const ROUNDS_MAX: usize = 5;

/// The result for the open invoices of a customer's subscriptions.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct OpenInvoices {
    /// Invoices that the card paid.
    pub paid: Vec<PaidInvoice>,
    /// Invoices that are still open.
    pub failed: Vec<UnpaidInvoice>,
}

/// An invoice that was paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaidInvoice {
    /// Its id at the processor.
    pub id: String,
    /// The amount charged, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// The currency, such as `usd`.
    pub currency: String,
}

/// An invoice that the card did not pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpaidInvoice {
    /// Its id at the processor.
    pub id: String,
    /// The amount due, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// The currency, such as `usd`.
    pub currency: String,
    /// The reason given by the bank or the processor.
    pub decline_code: String,
    /// The processor's page on which the invoice can be paid.
    pub url: Option<String>,
}

/// A card to be put on file and charged.
struct Work {
    job: JobId,
    customer: CustomerId,
    /// The processor's id of the customer.
    payer: String,
    card: SavedCard,
    /// Whether the card is already the saved one.
    is_saved: bool,
    /// Whether an earlier attempt may have done part of it.
    is_resumed: bool,
}

/// The work on a card, as the payload of a job.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct CardWork {
    /// The customer.
    pub(crate) customer: CustomerId,
    /// The processor's id of the card.
    pub(crate) payment_method: String,
}

/// The work as a job, to be committed before the card is saved.
pub fn job(billing: &BillingState, customer: CustomerId, payment_method: &str) -> NewJob {
    let work = CardWork { customer, payment_method: payment_method.to_owned() };
    billing.jobs.job(JobKind::UseCard, &work)
}

/// Saves a card and pays open invoices with it. Runs to its end even if the caller disconnects.
pub(super) async fn save(
    billing: &BillingState,
    customer: CustomerId,
    payer: &str,
    card: SavedCard,
) -> Result<OpenInvoices, Failure> {
    let job = job(billing, customer, &card.payment_method);
    let run_at = job.created_at.plus_seconds(JOB_AFTER_S);
    jobs::enqueue_at(&billing.store, &job, run_at).await?;
    let (worker, job) = (billing.clone(), job.id);
    let payer = payer.to_owned();
    let work = Work { job, customer, payer, card, is_saved: false, is_resumed: false };
    let done = billing.tasks.on_control(async move {
        let done = carry_out(&worker, work).await?;
        jobs::discard(&worker.store, job).await?;
        Ok::<_, Failure>(done)
    });
    done.await?
}

/// Runs a job that was first enqueued at `since`. A card that has been detached is removed. If
/// another card was saved since then, that one is used.
pub async fn resume(
    billing: &BillingState,
    job: JobId,
    customer: CustomerId,
    method: &str,
    since: Timestamp,
) -> Result<(), Failure> {
    let Some(payer) = processor_customers::find(&billing.store, customer).await? else {
        return Ok(());
    };
    let later = cards::find_saved_after(&billing.store, customer, since).await?;
    let later = later.filter(|card| card.payment_method != method);
    let is_saved = later.is_some();
    let card = match later {
        Some(card) => Some(card),
        None => attached(billing.processor()?, method, &payer).await?,
    };
    let Some(card) = card else {
        cards::remove_detached(&billing.store, method, billing.clock.now()).await?;
        return Ok(());
    };
    let work = Work { job, customer, payer, card, is_saved, is_resumed: true };
    carry_out(billing, work).await.map(drop)
}

/// The stored form of a card.
pub(super) fn kept(method: &PaymentMethod) -> Option<SavedCard> {
    let card = method.card.as_ref()?;
    Some(SavedCard {
        payment_method: method.id.clone(),
        brand: card.brand.clone(),
        last4: card.last4.clone(),
        exp_month: card.exp_month,
        exp_year: card.exp_year,
        fingerprint: card.fingerprint.clone(),
    })
}

/// The card at the processor; `None` if it no longer belongs to this customer.
async fn attached(
    processor: &ProcessorClient,
    method: &str,
    payer: &str,
) -> Result<Option<SavedCard>, ProcessorError> {
    let read = match processor.retrieve_payment_method(method).await {
        Err(ProcessorError::Missing) => return Ok(None),
        read => read?,
    };
    let is_theirs = read.customer.as_ref().map(ExpandableObject::id) == Some(payer);
    Ok(kept(&read).filter(|_| is_theirs))
}

async fn carry_out(billing: &BillingState, mut work: Work) -> Result<OpenInvoices, Failure> {
    for _ in 0..ROUNDS_MAX {
        let subscriptions = put_on(billing, &work).await?;
        match cards::find(&billing.store, work.customer).await? {
            Some(card) if card.payment_method == work.card.payment_method => {
                return pay_open(billing, &work, &subscriptions).await;
            }
            // It was removed in the meantime.
            None => return Ok(OpenInvoices::default()),
            // A card saved in the meantime wins, whichever was set last at the processor.
            Some(card) => work = Work { card, is_saved: true, ..work },
        }
    }
    Err(Failure::Internal("the saved card keeps changing".to_owned()))
}

/// Makes the card the default for invoices and for the live subscriptions, and returns those.
async fn put_on(
    billing: &BillingState,
    work: &Work,
) -> Result<Vec<ProcessorSubscription>, Failure> {
    let (processor, method) = (billing.processor()?, work.card.payment_method.as_str());
    let change = CustomerChange { default_payment_method: Some(method), email: None };
    let key = key_now(billing, work, &work.payer)?;
    processor.update_customer(&work.payer, &change, &key).await?;
    if !work.is_saved {
        cards::save(&billing.store, work.customer, &work.card, billing.clock.now()).await?;
    }
    let live = subscriptions_of(billing, &work.payer).await?;
    for subscription in &live {
        let own = subscription.default_payment_method.as_ref().map(ExpandableObject::id);
        if own != Some(method) {
            put_on_one(billing, work, &subscription.id).await?;
        }
    }
    Ok(live)
}

async fn put_on_one(
    billing: &BillingState,
    work: &Work,
    subscription: &str,
) -> Result<(), Failure> {
    let change = SubscriptionChange {
        items: &[],
        proration: ProrationBehavior::None,
        proration_date: None,
        default_payment_method: Some(&work.card.payment_method),
        cancel_at_period_end: None,
        metadata: &[],
    };
    let key = key_now(billing, work, subscription)?;
    billing.processor()?.update_subscription(subscription, &change, &key).await?;
    Ok(())
}

/// The idempotency key of a request that sets something. The same card may be set again later, so
/// the key contains the time.
fn key_now(
    billing: &BillingState,
    work: &Work,
    object: &str,
) -> Result<processor_client::IdempotencyKey, Failure> {
    let now = billing.clock.now().unix_micros();
    let method = &work.card.payment_method;
    let chance = hex::encode(billing.random.bytes::<4>());
    super::key("card", format!("{}:{method}:{object}:{now}:{chance}", work.job))
}

/// The customer's subscriptions that sell something of ours and will be charged again.
async fn subscriptions_of(
    billing: &BillingState,
    payer: &str,
) -> Result<Vec<ProcessorSubscription>, Failure> {
    let processor = billing.processor()?;
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let listing =
            ListFilter { customer: Some(payer), after: after.as_deref(), ..ListFilter::default() };
        let page = processor.list_subscriptions(&listing).await?;
        after = page.next().map(str::to_owned);
        for subscription in page.data {
            if is_ours(billing, &subscription).await? {
                found.push(subscription);
            }
        }
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// A subscription whose first payment was never made does not count: no card is charged for it
/// unasked.
async fn is_ours(
    billing: &BillingState,
    subscription: &ProcessorSubscription,
) -> Result<bool, Failure> {
    let status = SubscriptionStatus::from_processor(subscription.status.as_str());
    if !status.is_live() || status == SubscriptionStatus::Incomplete {
        return Ok(false);
    }
    // What our checkout sold carries this metadata, even if its prices are no longer configured.
    if subscription.metadata.contains_key("offer_id") {
        return Ok(true);
    }
    for item in &subscription.items.data {
        if subscriptions::gives(billing, &item.price).await? != ItemBenefit::Other {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Pays every open invoice of these subscriptions.
async fn pay_open(
    billing: &BillingState,
    work: &Work,
    subscriptions: &[ProcessorSubscription],
) -> Result<OpenInvoices, Failure> {
    let mut outcome = OpenInvoices::default();
    if subscriptions.is_empty() {
        return Ok(outcome);
    }
    for invoice in open_invoices(billing.processor()?, &work.payer).await? {
        let of = |subscription: &ProcessorSubscription| {
            invoice.subscription_id() == Some(&subscription.id)
        };
        if invoice.amount_due > 0 && subscriptions.iter().any(of) {
            pay(billing, work, &invoice, &mut outcome).await?;
        }
    }
    if work.is_resumed {
        grant_paid(billing, subscriptions).await?;
    }
    if work.is_resumed || !outcome.paid.is_empty() {
        subscriptions::sync_customer(billing, work.customer, &work.payer).await?;
    }
    Ok(outcome)
}

/// Grants credits for payments whose result an earlier attempt missed: such an invoice is no longer
/// open.
async fn grant_paid(
    billing: &BillingState,
    subscriptions: &[ProcessorSubscription],
) -> Result<(), Failure> {
    for subscription in subscriptions {
        if let Some(latest) = &subscription.latest_invoice {
            invoices::fulfil_invoice(billing, latest.id()).await?;
        }
    }
    Ok(())
}

/// The open invoices, oldest first.
async fn open_invoices(
    processor: &ProcessorClient,
    payer: &str,
) -> Result<Vec<ProcessorInvoice>, ProcessorError> {
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let listing = ListFilter {
            customer: Some(payer),
            status: Some("open"),
            after: after.as_deref(),
            ..ListFilter::default()
        };
        let page = processor.list_invoices(&listing).await?;
        after = page.next().map(str::to_owned);
        found.extend(page.data);
        if after.is_none() {
            found.reverse();
            return Ok(found);
        }
    }
}

/// Pays one invoice. The customer cannot authenticate here, so a bank that requires authentication
/// declines.
async fn pay(
    billing: &BillingState,
    work: &Work,
    invoice: &ProcessorInvoice,
    outcome: &mut OpenInvoices,
) -> Result<(), Failure> {
    let processor = billing.processor()?;
    let method = work.card.payment_method.as_str();
    let key = super::key("pay", format!("{}:{method}:{}", work.job, invoice.id))?;
    let reason = if was_tried(billing, work, &invoice.id).await? {
        "card_declined".to_owned()
    } else {
        match processor.pay_invoice(&invoice.id, Some(method), true, &key).await {
            Ok(_) => "processing".to_owned(),
            Err(ProcessorError::Declined(decline)) => decline.reason().to_owned(),
            // It may have been paid or voided in the meantime; the invoice is read below.
            Err(ProcessorError::Refused(refusal)) => {
                refusal.code.clone().unwrap_or_else(|| "refused".to_owned())
            }
            Err(error) => return Err(error.into()),
        }
    };
    let now = match processor.retrieve_invoice(&invoice.id).await {
        Err(ProcessorError::Missing) => return Ok(()),
        read => read?,
    };
    // Grants what was paid, or notifies the customer of the failed attempt.
    if now.is_paid() {
        invoices::take_invoice(billing, &now).await?;
        outcome.paid.push(paid(now));
    } else if now.status == InvoiceStatus::Open {
        invoices::payment_failed(billing, &now.id).await?;
        outcome.failed.push(unpaid(now, reason));
    }
    Ok(())
}

/// Whether an earlier attempt of a job that is too old for its idempotency keys has charged this
/// card for the invoice.
async fn was_tried(billing: &BillingState, work: &Work, invoice: &str) -> Result<bool, Failure> {
    let Some(begun_at) = work.job.made_at().filter(|_| work.is_resumed) else { return Ok(false) };
    if billing.clock.now() < begun_at.plus_seconds(lost::RESENT_FOR_S) {
        return Ok(false);
    }
    let processor = billing.processor()?;
    let invoice = processor.retrieve_invoice(invoice).await?;
    let Some(intent) = invoice.payment_intent_id() else { return Ok(false) };
    let of_intent = ListFilter { payment_intent: Some(intent), ..ListFilter::default() };
    let charges = processor.list_charges(&of_intent).await?.data;
    let method = work.card.payment_method.as_str();
    Ok(charges.iter().any(|charge| {
        charge.payment_method.as_deref() == Some(method)
            && charge.created >= begun_at.unix_seconds()
    }))
}

fn paid(invoice: ProcessorInvoice) -> PaidInvoice {
    let ProcessorInvoice { id, amount_paid, currency, .. } = invoice;
    PaidInvoice { id, amount_cents: amount_paid, currency }
}

fn unpaid(invoice: ProcessorInvoice, decline_code: String) -> UnpaidInvoice {
    let ProcessorInvoice { id, amount_due, currency, hosted_invoice_url, .. } = invoice;
    UnpaidInvoice { id, amount_cents: amount_due, currency, decline_code, url: hosted_invoice_url }
}
