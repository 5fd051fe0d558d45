//! Completes what could not be done when a card was saved. Safe to run again: the card and the open
//! invoices are read again.

use ::jobs::{JobError, chain, payload};
use store::jobs::Job;

use crate::BillingState;
use crate::card_on_file::{self, CardWork};

/// Sets the card wherever it is used, and pays open invoices with it.
pub async fn run(billing: &BillingState, job: &Job) -> Result<(), JobError> {
    let payload: CardWork = payload(job)?;
    let done = card_on_file::resume(
        billing,
        job.id,
        payload.customer,
        payload.payment_method.as_str(),
        // An operator who retries the job renews `created_at`.
        job.id.made_at().unwrap_or(job.created_at),
    )
    .await;
    done.map_err(|error| JobError::Later(chain(&error)))
}
