//! Deletes an erased customer at the payment processor. Safe to run again: a deleted one stays
//! deleted.

use ::jobs::{JobError, chain, payload};
use domain::job::{JobKind, PayerDeletion};
use processor_client::ProcessorError;
use store::jobs::{Job, NewJob};

use crate::BillingState;

/// The work as a job, to be committed with the erasure.
pub fn job(billing: &BillingState, processor_customer: &str) -> NewJob {
    let payload = PayerDeletion { processor_customer: processor_customer.to_owned() };
    billing.jobs.job(JobKind::DeletePayer, &payload)
}

/// Deletes the customer there.
pub async fn run(billing: &BillingState, job: &Job) -> Result<(), JobError> {
    let PayerDeletion { processor_customer } = payload(job)?;
    let processor = billing.processor().map_err(|error| JobError::Later(error.to_string()))?;
    match processor.delete_customer(&processor_customer).await {
        Ok(_) | Err(ProcessorError::Missing) => Ok(()),
        Err(error) => Err(JobError::Later(chain(&error))),
    }
}
