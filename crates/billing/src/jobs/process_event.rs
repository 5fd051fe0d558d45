//! Processes an event of the payment processor that could not be processed on arrival. Safe to run
//! again: the event's object is read again, and an event that has been processed is skipped.

use ::jobs::{JobError, chain, payload};
use domain::job::JobKind;
use store::jobs::{Job, NewJob};
use store::processor_events;

use crate::BillingState;
use crate::webhook;

#[derive(serde::Serialize, serde::Deserialize)]
struct Payload {
    event: String,
}

/// The work as a job, to be committed with the event.
pub fn job(billing: &BillingState, event: &str) -> NewJob {
    billing.jobs.job(JobKind::ProcessEvent, &Payload { event: event.to_owned() })
}

/// Processes the event, unless that was done.
pub async fn run(billing: &BillingState, job: &Job) -> Result<(), JobError> {
    let payload: Payload = payload(job)?;
    let Some(event) = processor_events::find_open(&billing.store, &payload.event).await? else {
        return Ok(());
    };
    webhook::process(billing, &event).await.map_err(|error| JobError::Later(chain(&error)))
}
