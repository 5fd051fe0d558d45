//! Credit notes: read from the processor, they say what money that went back was for (economics 6).
//!
//! Operators issue them at the processor. A note of an open invoice counts once the invoice is
//! paid; what it says of a paid one is applied at once, also to refunds of before.

use failures::Failure;
use processor_client::objects::{self, ExpandableObject};
use processor_client::{ProcessorClient, ProcessorError};

use super::reversals::{self, ReversalOutcome};
use super::{invoice_notes, invoice_records, invoices, listing};
use crate::BillingState;

/// Reads a credit note, and what all notes of its invoice say.
pub async fn credit_note(billing: &BillingState, id: &str) -> Result<ReversalOutcome, Failure> {
    match billing.processor()?.retrieve_credit_note(id).await {
        Ok(read) => take_note(billing, &read).await,
        Err(ProcessorError::Missing) => Ok(ReversalOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// The same for a credit note that was just read from the processor.
pub async fn take_note(
    billing: &BillingState,
    note: &objects::CreditNote,
) -> Result<ReversalOutcome, Failure> {
    let Some(invoice) = note.invoice.as_ref().map(ExpandableObject::id) else {
        return Ok(ReversalOutcome::NotOurs);
    };
    let invoice = match billing.processor()?.retrieve_invoice(invoice).await {
        Ok(invoice) => invoice,
        Err(ProcessorError::Missing) => return Ok(ReversalOutcome::NotOurs),
        Err(error) => return Err(error.into()),
    };
    invoice_records::note_or_log(billing, &invoice).await;
    if !invoice.is_paid() {
        return Ok(ReversalOutcome::NotOurs);
    }
    if let Some(intent) = invoice.payment_intent_id() {
        // Records the payment too, if it is not recorded yet.
        reversals::refunds_of_intent(billing, intent).await?;
    }
    if invoice.subscription_id().is_some()
        && invoice_notes::sale_of(billing, &invoice).await?.is_none()
    {
        invoices::take_invoice(billing, &invoice).await?;
    }
    let is_ours = invoice_notes::follow(billing, &invoice).await?;
    Ok(if is_ours { ReversalOutcome::Booked } else { ReversalOutcome::NotOurs })
}

/// The credit notes issued at this time (seconds since 1970) or later, oldest first.
pub(super) async fn notes_since(
    processor: &ProcessorClient,
    from: i64,
) -> Result<Vec<objects::CreditNote>, ProcessorError> {
    let page = |after: Option<String>| async move {
        processor.list_credit_notes(&listing::listing(from, after.as_deref())).await
    };
    listing::all(page).await
}
