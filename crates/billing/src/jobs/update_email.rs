//! Gives the processor the customer's email address after a change: receipts and failed payments are emailed there. Safe to
//! run again: the address is read anew each time.

use ::jobs::{JobError, chain, payload};
use clients::processor::{CustomerChange, ProcessorError};
use domain::customer::Email;
use domain::id::CustomerId;
use domain::job::{AddressChange, JobKind};
use store::jobs::{Job, NewJob};

use crate::BillingState;

/// The work as a job, to be written down with the change of the address.
pub fn job(billing: &BillingState, customer: CustomerId) -> NewJob {
    billing.jobs.job(JobKind::UpdateEmail, &AddressChange { customer })
}

/// Sends the address that the customer has now.
pub async fn run(billing: &BillingState, job: &Job) -> Result<(), JobError> {
    let AddressChange { customer } = payload(job)?;
    let payer = store::processor_customers::find(&billing.store, customer).await?;
    let Some(payer) = payer else { return Ok(()) };
    let Some(email) = current(billing, customer).await? else { return Ok(()) };
    let processor = billing.processor().map_err(|error| JobError::Later(error.to_string()))?;
    // An attempt may have another address than the one before, so each has a key of its own.
    let key = crate::key("email", format!("{}:{}", job.id, job.attempt))
        .map_err(|error| JobError::Never(error.to_string()))?;
    let change = CustomerChange { email: Some(email.as_str()), ..CustomerChange::default() };
    match processor.update_customer(&payer, &change, &key).await {
        Ok(_) => {}
        // The customer was deleted at the processor, so there is nothing left to be changed.
        Err(ProcessorError::Missing) => return Ok(()),
        Err(error) => return Err(JobError::Later(chain(&error))),
    }
    // A later change may have been sent before this one arrived.
    if current(billing, customer).await?.is_some_and(|now| now != email) {
        return Err(JobError::Later("the address changed meanwhile".to_owned()));
    }
    Ok(())
}

async fn current(billing: &BillingState, customer: CustomerId) -> Result<Option<Email>, JobError> {
    let found = store::customers::find_by_id(&billing.store, customer).await?;
    Ok(found.map(|found| found.email))
}
