//! Reversals: refunds and disputes are read from the processor and take back their credits.

use domain::id::EntryId;
use domain::payment::{Mismatch, ReversalKind, ReversalState};
use domain::time::Timestamp;
use emails::EmailRequest;
use failures::Failure;
use processor_client::objects::{
    DisputeStatus, ExpandableObject, PaymentDispute, PaymentIntent, PaymentRefund,
};
use processor_client::{ListFilter, ProcessorClient, ProcessorError};
use runtime::metrics;
use store::jobs::NewJob;
use store::money_back::{self, RecordedSale};
use store::reversals::{self, PaymentReversal, ReversalChange, ReversalEffect};

use super::fulfil::{self, FulfilmentOutcome};
use super::listing::{all, listing};
use super::{invoice_notes, invoices};
use crate::BillingState;

/// The metadata of a refund whose credits are kept: for what was taken, it counts as money that did
/// not go back.
pub const KEEP: (&str, &str) = ("creator_gateway_credits", "keep");

/// The result of handling a refund or dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReversalOutcome {
    /// It is recorded in the ledger.
    Booked,
    /// It concerns a payment that is not ours.
    NotOurs,
    /// It concerns one of our payments, which was never recorded.
    Unmatched,
}

/// Reads a refund and records it.
pub async fn refund(billing: &BillingState, id: &str) -> Result<ReversalOutcome, Failure> {
    let read_at = billing.clock.now();
    match billing.processor()?.retrieve_refund(id).await {
        Ok(read) => take_refund(billing, &read, read_at).await,
        Err(ProcessorError::Missing) => Ok(ReversalOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// Reads the refunds of a charge and records each.
pub async fn refunds_of_charge(
    billing: &BillingState,
    charge: &str,
) -> Result<ReversalOutcome, Failure> {
    let read = match billing.processor()?.retrieve_charge(charge).await {
        Ok(read) => read,
        Err(ProcessorError::Missing) => return Ok(ReversalOutcome::NotOurs),
        Err(error) => return Err(error.into()),
    };
    let Some(intent) = read.payment_intent.as_ref().map(ExpandableObject::id) else {
        return Ok(ReversalOutcome::NotOurs);
    };
    refunds_of_intent(billing, intent).await
}

/// Reads the refunds of a payment and records each.
pub(super) async fn refunds_of_intent(
    billing: &BillingState,
    intent: &str,
) -> Result<ReversalOutcome, Failure> {
    let read_at = billing.clock.now();
    let listing = ListFilter { payment_intent: Some(intent), ..ListFilter::default() };
    let mut taken = ReversalOutcome::NotOurs;
    for refund in billing.processor()?.list_refunds(&listing).await?.data {
        taken = take_refund(billing, &refund, read_at).await?;
    }
    Ok(taken)
}

/// The refunds made at this time (seconds since 1970) or later, oldest first.
pub(super) async fn refunds_since(
    processor: &ProcessorClient,
    from: i64,
) -> Result<Vec<PaymentRefund>, ProcessorError> {
    all(|after| async move { processor.list_refunds(&listing(from, after.as_deref())).await }).await
}

/// Whether the credits of a refund are kept.
pub fn is_kept(refund: &PaymentRefund) -> bool {
    refund.metadata.get(KEEP.0).is_some_and(|mark| mark == KEEP.1)
}

/// Records a refund as it was read from the processor at this time.
pub async fn take_refund(
    billing: &BillingState,
    refund: &PaymentRefund,
    read_at: Timestamp,
) -> Result<ReversalOutcome, Failure> {
    let state = match refund.status.as_deref() {
        Some("failed" | "canceled") => ReversalState::Undone,
        // In progress, or an unknown status: the money will probably reach the customer.
        _ => ReversalState::Standing,
    };
    let money = ReturnedMoney {
        kind: ReversalKind::Refund,
        id: &refund.id,
        amount: refund.amount,
        currency: &refund.currency,
        state,
        is_kept: is_kept(refund),
        read_at,
    };
    let charge = refund.charge.as_ref().map(ExpandableObject::id);
    take(billing, &money, refund.payment_intent.as_ref(), charge).await
}

/// Records a dispute as it was read from the processor.
pub async fn take_dispute(
    billing: &BillingState,
    dispute: &PaymentDispute,
) -> Result<ReversalOutcome, Failure> {
    let state = match dispute.status {
        DisputeStatus::WarningNeedsResponse | DisputeStatus::WarningUnderReview => {
            ReversalState::Waiting
        }
        DisputeStatus::NeedsResponse
        | DisputeStatus::UnderReview
        | DisputeStatus::Lost
        | DisputeStatus::Other => ReversalState::Standing,
        DisputeStatus::WarningClosed | DisputeStatus::Won | DisputeStatus::Prevented => {
            ReversalState::Undone
        }
    };
    let money = ReturnedMoney {
        kind: ReversalKind::Dispute,
        id: &dispute.id,
        amount: dispute.amount,
        currency: &dispute.currency,
        state,
        is_kept: false,
        read_at: billing.clock.now(),
    };
    let charge = dispute.charge.as_ref().map(ExpandableObject::id);
    take(billing, &money, dispute.payment_intent.as_ref(), charge).await
}

/// The money that is returned, and the state of its return.
struct ReturnedMoney<'a> {
    kind: ReversalKind,
    id: &'a str,
    amount: i64,
    currency: &'a str,
    state: ReversalState,
    is_kept: bool,
    read_at: Timestamp,
}

async fn take(
    billing: &BillingState,
    money: &ReturnedMoney<'_>,
    intent: Option<&ExpandableObject<PaymentIntent>>,
    charge: Option<&str>,
) -> Result<ReversalOutcome, Failure> {
    let Some(intent) = intent_of(billing, intent, charge).await? else {
        return Ok(ReversalOutcome::NotOurs);
    };
    let (credit_cents, notes) = match booked(billing, &intent).await? {
        BookedPayment::NotOurs => return Ok(ReversalOutcome::NotOurs),
        BookedPayment::Unmatched => (0, Vec::new()),
        BookedPayment::Sale(sale) => {
            let notes = invoice_notes::of_sale(billing, &sale).await?;
            (invoice_notes::credit_of(billing, &sale).await?, notes)
        }
    };
    let now = billing.clock.now();
    let reversal = PaymentReversal {
        entry: EntryId::new(now, billing.random.bytes()),
        id: money.id,
        kind: money.kind,
        intent: &intent,
        amount_cents: money.amount,
        state: money.state,
        is_kept: money.is_kept,
        notes: &notes,
        credit_cents,
        read_at: money.read_at,
        at: now,
    };
    let follow = |change: &ReversalChange| following(billing, money, change);
    match reversals::apply(&billing.store, &reversal, &follow).await? {
        ReversalEffect::Booked(booked) => {
            if booked.is_news {
                metrics::payment_reversed(money.kind);
            }
            billing.jobs.wake();
            tracing::info!(
                customer.id = %booked.customer, payment.object = money.id, credits = booked.taken.whole(),
                debt = booked.debt.whole(), kept = money.is_kept, "a payment was reversed, and what follows for its credits was recorded"
            );
            Ok(ReversalOutcome::Booked)
        }
        ReversalEffect::Unchanged => Ok(ReversalOutcome::Booked),
        ReversalEffect::Unmatched { is_new } => {
            let reason = Mismatch::UnknownPayment;
            fulfil::tell_unmatched(money.id, reason, "its payment was never recorded", is_new);
            Ok(ReversalOutcome::Unmatched)
        }
    }
}

/// The payment intent of an object that names it or its charge; `None` if there is none.
pub(super) async fn intent_of(
    billing: &BillingState,
    intent: Option<&ExpandableObject<PaymentIntent>>,
    charge: Option<&str>,
) -> Result<Option<String>, Failure> {
    match (intent, charge) {
        (Some(intent), _) => Ok(Some(intent.id().to_owned())),
        (None, Some(charge)) => {
            let read = billing.processor()?.retrieve_charge(charge).await?;
            Ok(read.payment_intent.map(|paid_by| paid_by.id().to_owned()))
        }
        (None, None) => Ok(None),
    }
}

/// The jobs that follow a reversal: an email to the customer, and changes of its credit at the
/// processor.
fn following(
    billing: &BillingState,
    money: &ReturnedMoney<'_>,
    change: &ReversalChange,
) -> Vec<NewJob> {
    let mut jobs = invoice_notes::withdrawals(billing, change);
    if change.is_news && money.state != ReversalState::Waiting {
        jobs.push(emails::job(
            &billing.jobs,
            &EmailRequest::MoneyReversed {
                customer: change.customer,
                kind: money.kind,
                is_undone: money.state == ReversalState::Undone,
                amount_cents: money.amount,
                currency: money.currency.to_uppercase(),
                credits: change.taken.whole(),
                balance: change.balance.whole(),
                debt: change.debt.whole(),
                stops_top_up: change.stops_top_up,
            },
        ));
    }
    jobs
}

/// A payment of which money went back.
enum BookedPayment {
    /// It is recorded.
    Sale(RecordedSale),
    /// It is ours, but matches nothing that we sold.
    Unmatched,
    /// It is not ours.
    NotOurs,
}

/// Whether a payment is one of ours; it is recorded if it was not.
pub(super) async fn is_payment_of_ours(
    billing: &BillingState,
    intent: &str,
) -> Result<bool, Failure> {
    Ok(!matches!(booked(billing, intent).await?, BookedPayment::NotOurs))
}

/// The reversed payment, if it is one of ours. The reversal may arrive before the payment was
/// recorded; then the payment is recorded first, since the processor says that it was made, for a
/// pack or for an invoice.
async fn booked(billing: &BillingState, intent: &str) -> Result<BookedPayment, Failure> {
    if let Some(sale) = money_back::sale_paid_by(&billing.store, intent).await? {
        return Ok(BookedPayment::Sale(sale));
    }
    let mut is_known = is_ours(&fulfil::fulfil_intent(billing, intent).await?);
    if !is_known {
        for paid in billing.processor()?.list_invoice_payments(intent).await?.data {
            let Some(invoice) = paid.invoice else { continue };
            if is_ours(&invoices::fulfil_invoice(billing, invoice.id()).await?) {
                is_known = true;
                break;
            }
        }
    }
    match money_back::sale_paid_by(&billing.store, intent).await? {
        Some(sale) => Ok(BookedPayment::Sale(sale)),
        None if is_known => Ok(BookedPayment::Unmatched),
        None => Ok(BookedPayment::NotOurs),
    }
}

const fn is_ours(fulfilment: &FulfilmentOutcome) -> bool {
    match fulfilment {
        FulfilmentOutcome::Granted(_) | FulfilmentOutcome::Unmatched => true,
        FulfilmentOutcome::Open | FulfilmentOutcome::Ended { .. } | FulfilmentOutcome::NotOurs => {
            false
        }
    }
}
