//! Events of the processor: verified by their signature, stored before they are processed, and used
//! only as a hint which object to read again.

use std::time::Duration;

use domain::payment::Mismatch;
use domain::time::Timestamp;
use failures::Failure;
use failures::PaymentProblem;
use processor_client::objects::{self, MalformedEvent};
use processor_client::webhook as signature;
use runtime::metrics;
use secrecy::ExposeSecret;
use store::processor_events::{self, DeliveredEvent, EventOutcome, EventReceipt};

use super::fulfil::{self, FulfilmentOutcome};
use super::reversals::{self, ReversalOutcome};
use super::{cards, credit_notes, disputes, invoice_records, invoices, subscriptions};
use crate::BillingState;

/// How long a webhook request waits for the event to be processed. After that it is answered, and
/// processing continues in the background.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The prefix of a thin event's `object`.
const THIN_EVENTS: &str = "v2.core.event";
/// Other events of invoices after which their state may have changed.
const MIRRORED: [&str; 5] = ["finalized", "voided", "marked_uncollectible", "updated", "overdue"];
/// Seconds after which a job processes an event that is still unprocessed.
const JOB_AFTER_S: i64 = 30;

/// Receives a delivery. Fails unless it is signed and stored. It is processed immediately if that
/// is quick.
pub async fn receive(
    billing: &BillingState,
    signature: Option<&str>,
    body: &[u8],
) -> Result<(), Failure> {
    billing.processor()?;
    let event = believed(billing, signature, body)?;
    accept(billing, event).await.map(drop)
}

/// Stores an event that is known to come from the processor, and processes it immediately if that
/// is quick. False if it was processed before, or is not for this deployment.
pub(super) async fn accept(
    billing: &BillingState,
    event: objects::ProcessorEvent,
) -> Result<bool, Failure> {
    if event.livemode != billing.config.processor.livemode {
        let object = event.object_id().unwrap_or(&event.id);
        let details = format!("{} {} has livemode {}", event.kind, event.id, event.livemode);
        fulfil::note_unmatched(billing, object, Mismatch::OtherMode, &details).await?;
        return Ok(false);
    }
    let event = DeliveredEvent {
        object: event.object_id().map(str::to_owned),
        processor_customer: event.customer_id().map(str::to_owned),
        created_at: Timestamp::from_unix_micros(event.created.saturating_mul(1_000_000)),
        id: event.id,
        kind: event.kind,
        api_version: event.api_version,
    };
    let job = crate::jobs::process_event::job(billing, &event.id);
    let run_at = job.created_at.plus_seconds(JOB_AFTER_S);
    match processor_events::receive(&billing.store, &event, &job, run_at).await? {
        EventReceipt::Ended => return Ok(false),
        EventReceipt::Open => {}
    }
    let worker = billing.clone();
    let work = billing.tasks.on_control(async move {
        if let Err(error) = process(&worker, &event).await {
            tracing::warn!(%error, event.id, event.kind, "an event could not be processed yet");
        }
    });
    // After the timeout the work continues in the background.
    drop(tokio::time::timeout(ANSWER_WITHIN, work).await);
    Ok(true)
}

/// Processes a stored event and records the result. Safe to run again.
pub async fn process(billing: &BillingState, event: &DeliveredEvent) -> Result<(), Failure> {
    let outcome = act(billing, event).await?;
    processor_events::finish(&billing.store, &event.id, outcome, billing.clock.now()).await?;
    metrics::event_ended(outcome);
    Ok(())
}

fn believed(
    billing: &BillingState,
    header: Option<&str>,
    body: &[u8],
) -> Result<objects::ProcessorEvent, PaymentProblem> {
    let unsigned = |problem: String| PaymentProblem::UnsignedEvent(problem);
    let header = header.ok_or_else(|| unsigned("there is no `Stripe-Signature`".to_owned()))?;
    let secrets = billing.config.processor.webhook_secrets.iter();
    let secrets: Vec<&str> = secrets.map(ExposeSecret::expose_secret).collect();
    signature::verify(&secrets, header, body, billing.clock.now())
        .map_err(|problem| unsigned(problem.to_string()))?;
    objects::ProcessorEvent::parse(body).map_err(|problem| match problem {
        MalformedEvent::OtherKind(kind) if kind.starts_with(THIN_EVENTS) => {
            tracing::warn!(
                kind,
                "the webhook endpoint sends thin events; configure it to send snapshot events"
            );
            PaymentProblem::ThinEvent(kind)
        }
        problem => unsigned(problem.to_string()),
    })
}

/// The types of events that change something here. The endpoint at the processor must send them.
pub const EVENTS: [&str; 42] = [
    "charge.dispute.closed",
    "charge.dispute.created",
    "charge.dispute.funds_reinstated",
    "charge.dispute.funds_withdrawn",
    "charge.dispute.updated",
    "charge.refunded",
    "checkout.session.async_payment_failed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.completed",
    "checkout.session.expired",
    "credit_note.created",
    "credit_note.updated",
    "credit_note.voided",
    "customer.deleted",
    "customer.subscription.created",
    "customer.subscription.deleted",
    "customer.subscription.paused",
    "customer.subscription.resumed",
    "customer.subscription.updated",
    "customer.updated",
    "invoice.finalized",
    "invoice.marked_uncollectible",
    "invoice.overdue",
    "invoice.paid",
    "invoice.payment_action_required",
    "invoice.payment_failed",
    "invoice.updated",
    "invoice.voided",
    "payment_intent.canceled",
    "payment_intent.payment_failed",
    "payment_intent.processing",
    "payment_intent.requires_action",
    "payment_intent.succeeded",
    "payment_method.attached",
    "payment_method.automatically_updated",
    "payment_method.detached",
    "payment_method.updated",
    "radar.early_fraud_warning.created",
    "radar.early_fraud_warning.updated",
    "refund.created",
    "refund.failed",
    "refund.updated",
];

/// What is read again after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventSubject {
    Payment,
    CheckoutPage,
    Refund,
    RefundsOfCharge,
    Dispute,
    FraudWarning,
    CreditNote,
    Subscription,
    UnpaidInvoice,
    PaidInvoice,
    OtherInvoice,
    Card,
    Payer,
}

impl EventSubject {
    fn of(kind: &str) -> Option<Self> {
        let (family, what) = kind.split_once('.').unwrap_or((kind, ""));
        match (family, what) {
            ("payment_intent", _) => Some(Self::Payment),
            ("checkout", _) => Some(Self::CheckoutPage),
            ("refund", _) | ("charge", "refund.updated") => Some(Self::Refund),
            ("charge", "refunded") => Some(Self::RefundsOfCharge),
            ("charge", what) if what.starts_with("dispute.") => Some(Self::Dispute),
            ("radar", what) if what.starts_with("early_fraud_warning.") => Some(Self::FraudWarning),
            ("credit_note", _) => Some(Self::CreditNote),
            ("customer", what) if what.starts_with("subscription.") => Some(Self::Subscription),
            ("invoice", "payment_failed" | "payment_action_required") => Some(Self::UnpaidInvoice),
            ("invoice", "paid" | "payment_succeeded") => Some(Self::PaidInvoice),
            ("invoice", what) if MIRRORED.contains(&what) => Some(Self::OtherInvoice),
            ("payment_method", _) => Some(Self::Card),
            ("customer", "updated" | "deleted") => Some(Self::Payer),
            _ => None,
        }
    }
}

/// Reads the event's object again. Events come in any order and more than once, so only what is
/// read counts.
async fn act(billing: &BillingState, event: &DeliveredEvent) -> Result<EventOutcome, Failure> {
    let Some(object) = event.object.as_deref() else { return Ok(EventOutcome::Ignored) };
    let Some(subject) = EventSubject::of(&event.kind) else { return Ok(EventOutcome::Ignored) };
    match subject {
        EventSubject::Payment => Ok(of_payment(&fulfil::fulfil_intent(billing, object).await?)),
        EventSubject::CheckoutPage => {
            Ok(of_payment(&fulfil::fulfil_session(billing, object).await?))
        }
        EventSubject::Refund => Ok(of_reversal(reversals::refund(billing, object).await?)),
        EventSubject::RefundsOfCharge => {
            Ok(of_reversal(reversals::refunds_of_charge(billing, object).await?))
        }
        EventSubject::Dispute => Ok(of_reversal(disputes::dispute(billing, object).await?)),
        EventSubject::FraudWarning => Ok(of_reversal(disputes::warning(billing, object).await?)),
        EventSubject::CreditNote => {
            Ok(of_reversal(credit_notes::credit_note(billing, object).await?))
        }
        EventSubject::Subscription => of_subscription(billing, event).await,
        EventSubject::UnpaidInvoice => {
            let failed = invoices::payment_failed(billing, object).await?;
            of_subscription(billing, event).await?;
            Ok(of_payment(&failed))
        }
        EventSubject::PaidInvoice => {
            let paid = invoices::fulfil_invoice(billing, object).await?;
            of_subscription(billing, event).await?;
            Ok(of_payment(&paid))
        }
        EventSubject::OtherInvoice => {
            invoice_records::read_again(billing, object).await?;
            Ok(EventOutcome::Done)
        }
        EventSubject::Card => {
            cards::refresh(billing, object).await?;
            Ok(EventOutcome::Done)
        }
        EventSubject::Payer => {
            cards::take_default(billing, object, event.created_at).await?;
            Ok(EventOutcome::Done)
        }
    }
}

/// Reads the subscription of the event's customer again.
async fn of_subscription(
    billing: &BillingState,
    event: &DeliveredEvent,
) -> Result<EventOutcome, Failure> {
    let Some(payer) = &event.processor_customer else { return Ok(EventOutcome::Ignored) };
    subscriptions::sync(billing, payer).await?;
    Ok(EventOutcome::Done)
}

const fn of_payment(fulfilment: &FulfilmentOutcome) -> EventOutcome {
    match fulfilment {
        FulfilmentOutcome::Granted(_)
        | FulfilmentOutcome::Open
        | FulfilmentOutcome::Ended { .. } => EventOutcome::Done,
        FulfilmentOutcome::NotOurs => EventOutcome::Ignored,
        FulfilmentOutcome::Unmatched => EventOutcome::Unmatched,
    }
}

const fn of_reversal(taken: ReversalOutcome) -> EventOutcome {
    match taken {
        ReversalOutcome::Booked => EventOutcome::Done,
        ReversalOutcome::NotOurs => EventOutcome::Ignored,
        ReversalOutcome::Unmatched => EventOutcome::Unmatched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_that_the_endpoint_must_send_changes_something() {
        for kind in EVENTS {
            assert!(EventSubject::of(kind).is_some(), "{kind}");
        }
        assert!(EVENTS.is_sorted());
        assert_eq!(EventSubject::of("product.created"), None);
    }
}
