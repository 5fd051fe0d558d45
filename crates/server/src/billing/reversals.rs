//! Money that goes back: refunds and disputes are read from the processor and take their credits.

use clients::processor::objects::{Dispute, DisputeStatus, PaymentIntent, Reference, Refund};
use clients::processor::{Listing, ProcessorError};
use domain::id::EntryId;
use domain::payment::{Mismatch, PaymentSource, ReversalKind, ReversalState};
use domain::sales::Withdrawal;
use runtime::metrics;
use store::jobs::NewJob;
use store::reversals::{self, Change, Reversal, Reversed};

use super::fulfil::{self, Fulfilment};
use super::{credit, invoices, slot_credits};
use crate::app::App;
use crate::error::ApiError;
use crate::jobs::{adjust_credit, send_mail};
use crate::letters::Letter;

/// What became of a refund or dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is on the books.
    Booked,
    /// It is about money that is not ours to book.
    NotOurs,
    /// It is about a payment of ours that was never booked.
    Unmatched,
}

/// Reads a refund and books it.
pub(crate) async fn refund(app: &App, id: &str) -> Result<Taken, ApiError> {
    match app.processor()?.retrieve_refund(id).await {
        Ok(read) => take_refund(app, &read).await,
        Err(ProcessorError::Missing) => Ok(Taken::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// Reads the refunds of a charge and books each.
pub(crate) async fn refunds_of_charge(app: &App, charge: &str) -> Result<Taken, ApiError> {
    let processor = app.processor()?;
    let read = match processor.retrieve_charge(charge).await {
        Ok(read) => read,
        Err(ProcessorError::Missing) => return Ok(Taken::NotOurs),
        Err(error) => return Err(error.into()),
    };
    let Some(intent) = read.payment_intent.as_ref().map(Reference::id) else {
        return Ok(Taken::NotOurs);
    };
    let listing = Listing { payment_intent: Some(intent), ..Listing::default() };
    let mut taken = Taken::NotOurs;
    for refund in processor.list_refunds(&listing).await?.data {
        taken = take_refund(app, &refund).await?;
    }
    Ok(taken)
}

/// Reads a dispute and books it.
pub(crate) async fn dispute(app: &App, id: &str) -> Result<Taken, ApiError> {
    match app.processor()?.retrieve_dispute(id).await {
        Ok(read) => take_dispute(app, &read).await,
        Err(ProcessorError::Missing) => Ok(Taken::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// Books a refund as it was read from the processor.
pub(crate) async fn take_refund(app: &App, refund: &Refund) -> Result<Taken, ApiError> {
    let state = match refund.status.as_deref() {
        Some("failed" | "canceled") => ReversalState::Undone,
        // Under way, or a word that is new: the money is about to be with the customer.
        _ => ReversalState::Standing,
    };
    let money = Money {
        kind: ReversalKind::Refund,
        id: &refund.id,
        amount: refund.amount,
        currency: &refund.currency,
        state,
    };
    let charge = refund.charge.as_ref().map(Reference::id);
    take(app, &money, refund.payment_intent.as_ref(), charge).await
}

/// Books a dispute as it was read from the processor.
pub(crate) async fn take_dispute(app: &App, dispute: &Dispute) -> Result<Taken, ApiError> {
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
    let money = Money {
        kind: ReversalKind::Dispute,
        id: &dispute.id,
        amount: dispute.amount,
        currency: &dispute.currency,
        state,
    };
    let charge = dispute.charge.as_ref().map(Reference::id);
    take(app, &money, dispute.payment_intent.as_ref(), charge).await
}

/// What goes back, and how far it is.
struct Money<'a> {
    kind: ReversalKind,
    id: &'a str,
    amount: i64,
    currency: &'a str,
    state: ReversalState,
}

async fn take(
    app: &App,
    money: &Money<'_>,
    intent: Option<&Reference<PaymentIntent>>,
    charge: Option<&str>,
) -> Result<Taken, ApiError> {
    let intent = match (intent, charge) {
        (Some(intent), _) => intent.id().to_owned(),
        (None, Some(charge)) => {
            let read = app.processor()?.retrieve_charge(charge).await?;
            let Some(paid_by) = read.payment_intent else { return Ok(Taken::NotOurs) };
            paid_by.id().to_owned()
        }
        (None, None) => return Ok(Taken::NotOurs),
    };
    let Some(source) = booked(app, &intent).await? else { return Ok(Taken::NotOurs) };
    let credit_cents = match source {
        PaymentSource::Intent => 0,
        PaymentSource::Invoice => {
            slot_credits::read_all(app).await;
            credit::of_payer_of(app, &intent).await?
        }
    };
    let now = app.clock.now();
    let reversal = Reversal {
        entry: EntryId::new(now, app.random.bytes()),
        id: money.id,
        kind: money.kind,
        intent: &intent,
        amount_cents: money.amount,
        state: money.state,
        credit_cents,
        at: now,
    };
    let follow = |change: &Change| following(app, money, change);
    match reversals::apply(&app.store, &reversal, &follow).await? {
        Reversed::Booked(booked) => {
            metrics::payment_reversed(money.kind);
            app.job_signal.notify_one();
            tracing::info!(
                customer.id = %booked.customer, payment.object = money.id, credits = booked.taken.whole(),
                debt = booked.debt.whole(), "money went back, and its credits with it"
            );
            Ok(Taken::Booked)
        }
        Reversed::Unchanged => Ok(Taken::Booked),
        Reversed::Unmatched { is_new } => {
            let reason = Mismatch::UnknownPayment;
            fulfil::tell_unmatched(money.id, reason, "its payment was never booked", is_new);
            Ok(Taken::Unmatched)
        }
    }
}

/// What follows from money that went back: an email to the customer, and changes of its credit at the processor.
fn following(app: &App, money: &Money<'_>, change: &Change) -> Vec<NewJob> {
    let of_credit = |withdrawal: &Withdrawal| {
        let customer = change.customer;
        adjust_credit::job(app, &adjust_credit::Adjustment::of(customer, withdrawal))
    };
    let mut jobs: Vec<NewJob> = change.withdrawals.iter().map(of_credit).collect();
    if money.state != ReversalState::Waiting {
        jobs.push(send_mail::job(
            app,
            &Letter::MoneyReversed {
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

/// How the payment is known, if it should be. It may have gone back before anybody told of it: it is booked first then,
/// since the processor says that it was paid, for a pack or for an invoice.
async fn booked(app: &App, intent: &str) -> Result<Option<PaymentSource>, ApiError> {
    if let Some(source) = store::payments::source_of(&app.store, intent).await? {
        return Ok(Some(source));
    }
    if is_ours(&fulfil::fulfil_intent(app, intent).await?) {
        return Ok(Some(PaymentSource::Intent));
    }
    for paid in app.processor()?.list_invoice_payments(intent).await?.data {
        let Some(invoice) = paid.invoice else { continue };
        if is_ours(&invoices::fulfil_invoice(app, invoice.id()).await?) {
            return Ok(Some(PaymentSource::Invoice));
        }
    }
    Ok(None)
}

const fn is_ours(fulfilment: &Fulfilment) -> bool {
    match fulfilment {
        Fulfilment::Granted(_) | Fulfilment::Unmatched => true,
        Fulfilment::Open | Fulfilment::Ended { .. } | Fulfilment::NotOurs => false,
    }
}
