//! Reversals: refunds and disputes are read from the processor and take back their credits.

use domain::id::EntryId;
use domain::payment::{Mismatch, PaymentSource, ReversalKind, ReversalState};
use domain::sales::CreditWithdrawal;
use emails::EmailRequest;
use failures::Failure;
use processor_client::objects::{
    DisputeStatus, ExpandableObject, PaymentDispute, PaymentIntent, PaymentRefund,
};
use processor_client::{ListFilter, ProcessorError};
use runtime::metrics;
use store::jobs::NewJob;
use store::reversals::{self, PaymentReversal, ReversalChange, ReversalEffect};

use super::fulfil::{self, FulfilmentOutcome};
use super::{credit, invoices, slot_credits};
use crate::BillingState;
use crate::jobs::adjust_credit;

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
    match billing.processor()?.retrieve_refund(id).await {
        Ok(read) => take_refund(billing, &read).await,
        Err(ProcessorError::Missing) => Ok(ReversalOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// Reads the refunds of a charge and records each.
pub async fn refunds_of_charge(
    billing: &BillingState,
    charge: &str,
) -> Result<ReversalOutcome, Failure> {
    let processor = billing.processor()?;
    let read = match processor.retrieve_charge(charge).await {
        Ok(read) => read,
        Err(ProcessorError::Missing) => return Ok(ReversalOutcome::NotOurs),
        Err(error) => return Err(error.into()),
    };
    let Some(intent) = read.payment_intent.as_ref().map(ExpandableObject::id) else {
        return Ok(ReversalOutcome::NotOurs);
    };
    let listing = ListFilter { payment_intent: Some(intent), ..ListFilter::default() };
    let mut taken = ReversalOutcome::NotOurs;
    for refund in processor.list_refunds(&listing).await?.data {
        taken = take_refund(billing, &refund).await?;
    }
    Ok(taken)
}

/// Records a refund as it was read from the processor.
pub async fn take_refund(
    billing: &BillingState,
    refund: &PaymentRefund,
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
    let Some(source) = booked(billing, &intent).await? else { return Ok(ReversalOutcome::NotOurs) };
    let credit_cents = match source {
        PaymentSource::Intent => 0,
        PaymentSource::Invoice => {
            slot_credits::read_all(billing).await;
            credit::of_payer_of(billing, &intent).await?
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
        credit_cents,
        at: now,
    };
    let follow = |change: &ReversalChange| following(billing, money, change);
    match reversals::apply(&billing.store, &reversal, &follow).await? {
        ReversalEffect::Booked(booked) => {
            metrics::payment_reversed(money.kind);
            billing.jobs.wake();
            tracing::info!(
                customer.id = %booked.customer, payment.object = money.id, credits = booked.taken.whole(),
                debt = booked.debt.whole(), "a payment was reversed, and its credits were taken back"
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
    let of_credit = |withdrawal: &CreditWithdrawal| {
        let customer = change.customer;
        adjust_credit::job(billing, &adjust_credit::CreditAdjustment::of(customer, withdrawal))
    };
    let mut jobs: Vec<NewJob> = change.withdrawals.iter().map(of_credit).collect();
    if money.state != ReversalState::Waiting {
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

/// The kind of the reversed payment, if it is one of ours. The reversal may arrive before the
/// payment was recorded; then the payment is recorded first, since the processor says that it was
/// made, for a pack or for an invoice.
pub(super) async fn booked(
    billing: &BillingState,
    intent: &str,
) -> Result<Option<PaymentSource>, Failure> {
    if let Some(source) = store::payments::source_of(&billing.store, intent).await? {
        return Ok(Some(source));
    }
    if is_ours(&fulfil::fulfil_intent(billing, intent).await?) {
        return Ok(Some(PaymentSource::Intent));
    }
    for paid in billing.processor()?.list_invoice_payments(intent).await?.data {
        let Some(invoice) = paid.invoice else { continue };
        if is_ours(&invoices::fulfil_invoice(billing, invoice.id()).await?) {
            return Ok(Some(PaymentSource::Invoice));
        }
    }
    Ok(None)
}

const fn is_ours(fulfilment: &FulfilmentOutcome) -> bool {
    match fulfilment {
        FulfilmentOutcome::Granted(_) | FulfilmentOutcome::Unmatched => true,
        FulfilmentOutcome::Open | FulfilmentOutcome::Ended { .. } | FulfilmentOutcome::NotOurs => {
            false
        }
    }
}
