//! Money that goes back: refunds and disputes are read from the processor and take their credits.

use clients::processor::objects::{Dispute, DisputeStatus, PaymentIntent, Reference, Refund};
use clients::processor::{Listing, ProcessorError};
use domain::id::EntryId;
use domain::payment::{Mismatch, ReversalKind, ReversalState};
use store::reversals::{self, Reversal, Reversed};

use super::fulfil::{self, Fulfilment};
use super::invoices;
use crate::app::App;
use crate::error::ApiError;
use crate::metrics;

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
    let money = Money { kind: ReversalKind::Refund, id: &refund.id, amount: refund.amount, state };
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
    let money =
        Money { kind: ReversalKind::Dispute, id: &dispute.id, amount: dispute.amount, state };
    let charge = dispute.charge.as_ref().map(Reference::id);
    take(app, &money, dispute.payment_intent.as_ref(), charge).await
}

/// What goes back, and how far it is.
struct Money<'a> {
    kind: ReversalKind,
    id: &'a str,
    amount: i64,
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
    if !is_booked(app, &intent).await? {
        return Ok(Taken::NotOurs);
    }
    let now = app.clock.now();
    let reversal = Reversal {
        entry: EntryId::new(now, app.random.bytes()),
        id: money.id,
        kind: money.kind,
        intent: &intent,
        amount_cents: money.amount,
        state: money.state,
        at: now,
    };
    match reversals::apply(&app.store, &reversal).await? {
        Reversed::Booked { customer, taken } => {
            metrics::payment_reversed(money.kind);
            tracing::info!(
                customer.id = %customer, payment.object = money.id, credits = taken.whole(),
                "money went back, and its credits with it"
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

/// Whether the payment should be on the books. It may have gone back before anybody told of it: it is booked first then,
/// since the processor says that it was paid, for a pack or for an invoice.
async fn is_booked(app: &App, intent: &str) -> Result<bool, ApiError> {
    if store::payments::is_booked(&app.store, intent).await? {
        return Ok(true);
    }
    if is_ours(&fulfil::fulfil_intent(app, intent).await?) {
        return Ok(true);
    }
    for paid in app.processor()?.list_invoice_payments(intent).await?.data {
        let Some(invoice) = paid.invoice else { continue };
        if is_ours(&invoices::fulfil_invoice(app, invoice.id()).await?) {
            return Ok(true);
        }
    }
    Ok(false)
}

const fn is_ours(fulfilment: &Fulfilment) -> bool {
    match fulfilment {
        Fulfilment::Granted(_) | Fulfilment::Unmatched => true,
        Fulfilment::Open | Fulfilment::Ended { .. } | Fulfilment::NotOurs => false,
    }
}
