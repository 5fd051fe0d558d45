//! Invoices of subscriptions: what each paid one sold is written down once and brings its credits, and the customer is told
//! of a payment that failed.

use clients::processor::ProcessorError;
use clients::processor::objects::{Invoice, InvoiceStatus};
use domain::id::{CustomerId, EntryId};
use domain::time::Timestamp;
use store::invoice_notices::{self, FailedPayment};
use store::payments::{self, Paid, PaidFor};

use super::fulfil::{self, Fulfilment};
use super::give_up::{self, Payer};
use super::sold;
use crate::app::App;
use crate::error::ApiError;
use crate::jobs::send_mail;
use crate::letters::Letter;

/// Reads an invoice and grants the credits of what it sold.
pub(crate) async fn fulfil_invoice(app: &App, invoice: &str) -> Result<Fulfilment, ApiError> {
    match app.processor()?.retrieve_invoice(invoice).await {
        Ok(invoice) => take_invoice(app, &invoice).await,
        Err(ProcessorError::Missing) => Ok(Fulfilment::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// The same for an invoice that was just read from the processor, with its payments.
pub(crate) async fn take_invoice(app: &App, invoice: &Invoice) -> Result<Fulfilment, ApiError> {
    if !invoice.is_paid() {
        return Ok(match invoice.status {
            InvoiceStatus::Void | InvoiceStatus::Uncollectible => {
                Fulfilment::Ended { reason: invoice.status.as_str().to_owned() }
            }
            InvoiceStatus::Draft
            | InvoiceStatus::Open
            | InvoiceStatus::Paid
            | InvoiceStatus::Other => Fulfilment::Open,
        });
    }
    let Some(sold) = sold::read(app, invoice).await? else { return Ok(Fulfilment::NotOurs) };
    let now = app.clock.now();
    let paid = Paid {
        entry: EntryId::new(now, app.random.bytes()),
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
    Ok(fulfil::told(&paid, payments::fulfil(&app.store, &paid).await?))
}

/// Reads an invoice whose payment failed, or waits for the customer at its bank, and tells the customer once for each
/// attempt.
pub(crate) async fn payment_failed(app: &App, invoice: &str) -> Result<Fulfilment, ApiError> {
    let invoice = match app.processor()?.retrieve_invoice(invoice).await {
        Ok(invoice) => invoice,
        Err(ProcessorError::Missing) => return Ok(Fulfilment::NotOurs),
        Err(error) => return Err(error.into()),
    };
    if invoice.status != InvoiceStatus::Open {
        // It was paid in the meantime, or was taken back with the change that it was for.
        return take_invoice(app, &invoice).await;
    }
    let payer = invoice.customer_id().unwrap_or_default();
    match store::processor_customers::owner(&app.store, payer).await? {
        Some(customer) => {
            let Some(subscription) = invoice.subscription_id() else {
                return Ok(Fulfilment::NotOurs);
            };
            tell(app, customer, &invoice).await?;
            let is_renewal = invoice.billing_reason.as_deref() == Some("subscription_cycle");
            if is_renewal && invoice.next_payment_attempt.is_none() {
                let payer = Payer { customer, processor_customer: payer };
                give_up::tries_ended(app, payer, subscription).await?;
            }
            Ok(Fulfilment::Open)
        }
        None => Ok(Fulfilment::NotOurs),
    }
}

async fn tell(app: &App, customer: CustomerId, invoice: &Invoice) -> Result<(), ApiError> {
    let next = invoice.next_payment_attempt;
    let next = next.map(|unix| Timestamp::from_unix_micros(0).plus_seconds(unix));
    let letter = Letter::PaymentFailed {
        customer,
        amount_cents: invoice.amount_due,
        currency: invoice.currency.to_uppercase(),
        next_attempt: next.map(Timestamp::to_rfc3339),
    };
    let payment = FailedPayment {
        invoice_id: &invoice.id,
        attempt: invoice.attempt_count,
        customer,
        at: app.clock.now(),
    };
    let letter = send_mail::job(app, &letter);
    if invoice_notices::tell_once(&app.store, payment, &letter).await? {
        app.job_signal.notify_one();
    }
    Ok(())
}
