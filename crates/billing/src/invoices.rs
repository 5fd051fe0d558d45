//! Invoices of subscriptions: what a paid invoice sold is recorded once and grants its credits, and
//! the customer is notified of a failed payment.

use domain::id::{CustomerId, EntryId};
use domain::time::Timestamp;
use emails::EmailRequest;
use failures::Failure;
use processor_client::ProcessorError;
use processor_client::objects::{InvoiceStatus, ProcessorInvoice};
use store::invoice_notices::{self, FailedPayment};
use store::payments::{self, NewPayment, PaidFor};
use store::recorded_payments;

use super::fulfil::{self, FulfilmentOutcome};
use super::give_up::{self, PayingCustomer};
use super::sold::{self, ReadSale, SaleDifference};
use super::{invoice_notes, invoice_records};
use crate::BillingState;

/// Reads an invoice and grants the credits of what it sold.
pub async fn fulfil_invoice(
    billing: &BillingState,
    invoice: &str,
) -> Result<FulfilmentOutcome, Failure> {
    match billing.processor()?.retrieve_invoice(invoice).await {
        Ok(invoice) => {
            let taken = take_invoice(billing, &invoice).await;
            invoice_records::note_or_log(billing, &invoice).await;
            taken
        }
        Err(ProcessorError::Missing) => Ok(FulfilmentOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// The same for an invoice that was just read from the processor, with its payments.
pub async fn take_invoice(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
) -> Result<FulfilmentOutcome, Failure> {
    if !invoice.is_paid() {
        return Ok(match invoice.status {
            InvoiceStatus::Void | InvoiceStatus::Uncollectible => {
                FulfilmentOutcome::Ended { reason: invoice.status.as_str().to_owned() }
            }
            InvoiceStatus::Draft
            | InvoiceStatus::Open
            | InvoiceStatus::Paid
            | InvoiceStatus::Other => FulfilmentOutcome::Open,
        });
    }
    let Some(ReadSale { sold, difference }) = sold::read(billing, invoice).await? else {
        return Ok(FulfilmentOutcome::NotOurs);
    };
    if let Some(difference) = difference
        // What earlier versions granted stays granted.
        && !recorded_payments::is_granted(&billing.store, &invoice.id).await?
    {
        return unlike_ours(billing, invoice, &difference).await;
    }
    let now = billing.clock.now();
    let paid = NewPayment {
        entry: EntryId::new(now, billing.random.bytes()),
        what: PaidFor::Invoice(&sold),
        payment: &invoice.id,
        intent: invoice.payment_intent_id(),
        processor_customer: invoice.customer_id(),
        amount_cents: invoice.amount_paid,
        tax_cents: invoice.tax().max(0),
        currency: &invoice.currency,
        livemode: invoice.livemode,
        at: now,
    };
    let told = fulfil::told(&paid, payments::fulfil(&billing.store, &paid).await?);
    if invoice.has_credit_notes() {
        invoice_notes::follow(billing, invoice).await?;
    }
    Ok(told)
}

/// Notes a paid invoice that is not what we sell. It brings nothing.
async fn unlike_ours(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
    difference: &SaleDifference,
) -> Result<FulfilmentOutcome, Failure> {
    let payer = invoice.customer_id().unwrap_or_default();
    let owner = store::processor_customers::owner(&billing.store, payer).await?;
    let who = owner.map_or_else(|| "no customer of ours".to_owned(), |owner| owner.to_string());
    let details = format!("{who}: {}", difference.details);
    fulfil::note_unmatched(billing, &invoice.id, difference.reason, &details).await?;
    Ok(FulfilmentOutcome::Unmatched)
}

/// Reads an invoice whose payment failed or needs the customer to authenticate, and notifies the
/// customer once for each attempt.
pub async fn payment_failed(
    billing: &BillingState,
    invoice: &str,
) -> Result<FulfilmentOutcome, Failure> {
    let invoice = match billing.processor()?.retrieve_invoice(invoice).await {
        Ok(invoice) => invoice,
        Err(ProcessorError::Missing) => return Ok(FulfilmentOutcome::NotOurs),
        Err(error) => return Err(error.into()),
    };
    invoice_records::note_or_log(billing, &invoice).await;
    if invoice.status != InvoiceStatus::Open {
        // It was paid in the meantime, or voided together with its change.
        return take_invoice(billing, &invoice).await;
    }
    let payer = invoice.customer_id().unwrap_or_default();
    match store::processor_customers::owner(&billing.store, payer).await? {
        Some(customer) => {
            let Some(subscription) = invoice.subscription_id() else {
                return Ok(FulfilmentOutcome::NotOurs);
            };
            tell(billing, customer, &invoice).await?;
            let is_renewal = invoice.billing_reason.as_deref() == Some("subscription_cycle");
            if is_renewal && invoice.next_payment_attempt.is_none() {
                let payer = PayingCustomer { customer, processor_customer: payer };
                give_up::tries_ended(billing, payer, subscription).await?;
            }
            Ok(FulfilmentOutcome::Open)
        }
        None => Ok(FulfilmentOutcome::NotOurs),
    }
}

async fn tell(
    billing: &BillingState,
    customer: CustomerId,
    invoice: &ProcessorInvoice,
) -> Result<(), Failure> {
    let next = invoice.next_payment_attempt;
    let next = next.map(|unix| Timestamp::from_unix_micros(0).plus_seconds(unix));
    let letter = EmailRequest::PaymentFailed {
        customer,
        amount_cents: invoice.amount_due,
        currency: invoice.currency.to_uppercase(),
        next_attempt: next.map(Timestamp::to_rfc3339),
    };
    let payment = FailedPayment {
        invoice_id: &invoice.id,
        attempt: invoice.attempt_count,
        customer,
        at: billing.clock.now(),
    };
    let letter = emails::job(&billing.jobs, &letter);
    if invoice_notices::tell_once(&billing.store, payment, &letter).await? {
        billing.jobs.wake();
    }
    Ok(())
}
