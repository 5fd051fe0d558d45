//! Invoices of subscriptions: each paid period brings the plan's credits once, and a payment that failed is told.
//!
//! Credits come with the first invoice of a subscription and with each renewal, never with one for a change in between.
//! What the period costs is the line of the plan; what is paid of it with credit from earlier changes is paid too.

use clients::processor::ProcessorError;
use clients::processor::objects::{Invoice, InvoiceLine, InvoiceStatus};
use domain::credits::Credits;
use domain::id::{CustomerId, EntryId};
use domain::time::Timestamp;
use store::invoice_notices::{self, FailedPayment};
use store::payments::{self, Paid, PaidFor};
use store::subscriptions::Gives;

use super::fulfil::{self, Fulfilment};
use super::plans;
use crate::app::App;
use crate::config::billing::Plan;
use crate::error::ApiError;
use crate::jobs::send_mail;
use crate::letters::Letter;

/// Why an invoice is made that pays for a whole period.
const PERIODS: [&str; 2] = ["subscription_create", "subscription_cycle"];

/// Reads an invoice and grants the credits of the period that it paid for.
pub(crate) async fn fulfil_invoice(app: &App, invoice: &str) -> Result<Fulfilment, ApiError> {
    match app.processor()?.retrieve_invoice(invoice).await {
        Ok(invoice) => take_invoice(app, &invoice).await,
        Err(ProcessorError::Missing) => Ok(Fulfilment::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// The same for an invoice that was just read from the processor, with its payments.
pub(crate) async fn take_invoice(app: &App, invoice: &Invoice) -> Result<Fulfilment, ApiError> {
    let reason = invoice.billing_reason.as_deref().unwrap_or_default();
    if !PERIODS.contains(&reason) {
        return Ok(Fulfilment::NotOurs);
    }
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
    let Some(plan) = plan_of(app, invoice).await? else { return Ok(Fulfilment::NotOurs) };
    if plan.monthly_credits <= 0 {
        return Ok(Fulfilment::NotOurs);
    }
    let now = app.clock.now();
    let paid = Paid {
        entry: EntryId::new(now, app.random.bytes()),
        what: PaidFor::Plan {
            credits: Credits::from_whole(plan.monthly_credits),
            reference: &plan.id,
            livemode: app.config.processor.livemode,
        },
        payment: &invoice.id,
        intent: invoice.payment_intent_id(),
        processor_customer: invoice.customer_id(),
        amount_cents: invoice.amount_paid,
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
        Some(customer) if invoice.subscription_id().is_some() => {
            tell(app, customer, &invoice).await?;
            Ok(Fulfilment::Open)
        }
        Some(_) | None => Ok(Fulfilment::NotOurs),
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

/// The plan that the invoice pays a whole period of. Nothing for a trial, for something of the operator's, and for a
/// plan that is no longer configured.
async fn plan_of<'a>(app: &'a App, invoice: &Invoice) -> Result<Option<&'a Plan>, ApiError> {
    let mut lines = invoice.lines.clone();
    loop {
        for line in lines.data.iter().filter(|line| line.amount > 0 && !line.is_proration()) {
            if let Some(Gives::Plan(id)) = gives(app, line).await? {
                let plan = app.config.plans.iter().find(|plan| plan.id == id);
                if plan.is_none() {
                    tracing::error!(
                        invoice.id,
                        plan = id,
                        "a paid plan is not configured; no credits are granted"
                    );
                }
                return Ok(plan);
            }
        }
        let Some(after) = lines.next().map(str::to_owned) else { return Ok(None) };
        lines = app.processor()?.list_invoice_lines(&invoice.id, &after).await?;
    }
}

/// What a line is for. A price that neither the configuration nor its product tells is asked.
async fn gives(app: &App, line: &InvoiceLine) -> Result<Option<Gives>, ApiError> {
    let known = plans::known(&app.config, line.price_id(), line.product_id());
    let (None, Some(price)) = (&known, line.price_id()) else { return Ok(known) };
    match app.processor()?.retrieve_price(price).await {
        Ok(price) => Ok(Some(plans::gives(&app.config, &price))),
        Err(ProcessorError::Missing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
