//! Completes what could not be done when a card was saved. Safe to run again: the card and the open
//! invoices are read again.

use ::jobs::{JobError, chain, payload};
use domain::id::CustomerId;
use domain::job::JobKind;
use store::jobs::{Job, NewJob};

use crate::BillingState;
use crate::card_on_file;

#[derive(serde::Serialize, serde::Deserialize)]
struct Payload {
    customer: CustomerId,
    payment_method: String,
}

/// The work as a job, to be committed before the card is saved.
pub fn job(billing: &BillingState, customer: CustomerId, payment_method: &str) -> NewJob {
    let payload = Payload { customer, payment_method: payment_method.to_owned() };
    billing.jobs.job(JobKind::UseCard, &payload)
}

/// Sets the card wherever it is used, and pays open invoices with it.
pub async fn run(billing: &BillingState, job: &Job) -> Result<(), JobError> {
    let payload: Payload = payload(job)?;
    let card = (payload.customer, payload.payment_method.as_str());
    let done = card_on_file::resume(billing, job.id, card, job.created_at).await;
    done.map_err(|error| JobError::Later(chain(&error)))
}
