//! Sends the processor the customer's email address after a change: receipts and failed payments
//! are emailed there. Safe to run again: the address is read again each time.

use ::jobs::{JobError, chain, payload};
use domain::customer::Email;
use domain::id::CustomerId;
use domain::job::{AddressChange, JobKind};
use processor_client::{CustomerChange, ProcessorError};
use store::jobs::{Job, NewJob};

use crate::BillingState;

/// The work as a job, to be committed with the change of the address.
pub fn job(billing: &BillingState, customer: CustomerId) -> NewJob {
    billing.jobs.job(JobKind::UpdateEmail, &AddressChange { customer })
}

/// Sends the customer's current address.
pub async fn run(billing: &BillingState, job: &Job) -> Result<(), JobError> {
    let AddressChange { customer } = payload(job)?;
    let payer = store::processor_customers::find(&billing.store, customer).await?;
    let Some(payer) = payer else { return Ok(()) };
    let Some(email) = current(billing, customer).await? else { return Ok(()) };
    let processor = billing.processor().map_err(|error| JobError::Later(error.to_string()))?;
    // Each attempt may send a different address, so each has its own key.
    let key = crate::key("email", format!("{}:{}", job.id, job.attempt))
        .map_err(|error| JobError::Never(error.to_string()))?;
    let change = CustomerChange { email: Some(email.as_str()), ..CustomerChange::default() };
    match processor.update_customer(&payer, &change, &key).await {
        Ok(_) => {}
        // The customer was deleted at the processor, so there is nothing to change.
        Err(ProcessorError::Missing) => return Ok(()),
        Err(error) => return Err(JobError::Later(chain(&error))),
    }
    // An older address may have arrived after a newer one.
    if current(billing, customer).await?.is_some_and(|now| now != email) {
        return Err(JobError::Later("the address changed in the meantime".to_owned()));
    }
    Ok(())
}

async fn current(billing: &BillingState, customer: CustomerId) -> Result<Option<Email>, JobError> {
    let found = store::customers::find_by_id(&billing.store, customer).await?;
    Ok(found.map(|found| found.email))
}
