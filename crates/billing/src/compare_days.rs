//! The other direction of the reconciliation: every payment that the ledger recorded on a day must
//! be at the processor with the same amount, and nothing else may have been made there twice or
//! without us.

use domain::payment::{Mismatch, PaymentSource};
use domain::time::UtcDay;
use failures::Failure;
use processor_client::objects::IntentStatus;
use processor_client::{ProcessorClient, ProcessorError};
use store::recorded_payments::{self, RecordedPayment};

use super::{doubles, fulfil};
use crate::BillingState;

/// The prefix of the processor's ids of pages.
const PAGE_PREFIX: &str = "cs_";

/// Compares a day with the processor, and returns how many payments and other objects differ. Each
/// one is reported.
pub async fn compare(billing: &BillingState, day: UtcDay) -> Result<u64, Failure> {
    let processor = billing.processor()?;
    let mut differing = 0;
    for booked in recorded_payments::list(&billing.store, day).await? {
        let difference = match booked.source {
            PaymentSource::Intent => of_intent(&booked, processor).await,
            PaymentSource::Invoice => of_invoice(&booked, processor).await,
        };
        if let Some((reason, details)) = difference? {
            differing += 1;
            fulfil::note_unmatched(billing, &booked.payment, reason, &details).await?;
        }
    }
    Ok(doubles::report(billing, day).await?.saturating_add(differing))
}

type LedgerDifference = Option<(Mismatch, String)>;

async fn of_intent(
    booked: &RecordedPayment,
    processor: &ProcessorClient,
) -> Result<LedgerDifference, ProcessorError> {
    if booked.payment.starts_with(PAGE_PREFIX) {
        return of_page(booked, processor).await;
    }
    let intent = match processor.retrieve_intent(&booked.payment).await {
        Err(ProcessorError::Missing) => return Ok(Some(missing(booked))),
        read => read?,
    };
    let is_paid = intent.status == IntentStatus::Succeeded;
    Ok(differing(booked, is_paid.then_some(intent.amount_received), &intent.currency))
}

/// The same for a page on which there was nothing to pay.
async fn of_page(
    booked: &RecordedPayment,
    processor: &ProcessorClient,
) -> Result<LedgerDifference, ProcessorError> {
    let session = match processor.retrieve_checkout(&booked.payment).await {
        Err(ProcessorError::Missing) => return Ok(Some(missing(booked))),
        read => read?,
    };
    let paid = session.amount_total.filter(|_| session.is_paid());
    Ok(differing(booked, paid, &session.currency))
}

async fn of_invoice(
    booked: &RecordedPayment,
    processor: &ProcessorClient,
) -> Result<LedgerDifference, ProcessorError> {
    let invoice = match processor.retrieve_invoice(&booked.payment).await {
        Err(ProcessorError::Missing) => return Ok(Some(missing(booked))),
        read => read?,
    };
    Ok(differing(booked, invoice.is_paid().then_some(invoice.amount_paid), &invoice.currency))
}

fn missing(booked: &RecordedPayment) -> (Mismatch, String) {
    let details =
        format!("{} cents are recorded, but the processor has no such payment", booked.cents);
    (Mismatch::MissingPayment, details)
}

fn differing(booked: &RecordedPayment, paid: Option<i64>, currency: &str) -> LedgerDifference {
    if paid == Some(booked.cents) && currency == booked.currency {
        return None;
    }
    let found = paid.map_or_else(|| "nothing".to_owned(), |cents| format!("{cents} {currency}"));
    let details =
        format!("{} {} are recorded, but the processor has {found}", booked.cents, booked.currency);
    Some((Mismatch::OtherAmount, details))
}
