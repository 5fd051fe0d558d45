//! Changes a customer's credit at the processor. Safe to run again: the idempotency key is derived
//! from the job.

use ::jobs::{JobError, chain, payload};
use domain::id::CustomerId;
use domain::job::JobKind;
use domain::sales::CreditWithdrawal;
use processor_client::{NewBalanceTransaction, ProcessorError};
use settings::billing::CURRENCY;
use store::jobs::{Job, NewJob};

use crate::BillingState;

/// A change of a customer's credit.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CreditAdjustment {
    /// The customer.
    customer: CustomerId,
    /// The sale that causes it.
    sale: String,
    /// Cents to withdraw (positive) or return (negative).
    cents: i64,
}

impl CreditAdjustment {
    /// For a withdrawal, or the return of one.
    pub fn of(customer: CustomerId, withdrawal: &CreditWithdrawal) -> Self {
        Self { customer, sale: withdrawal.sale.clone(), cents: withdrawal.cents }
    }
}

/// The change as a job, to be committed with its cause.
pub fn job(billing: &BillingState, adjustment: &CreditAdjustment) -> NewJob {
    billing.jobs.job(JobKind::AdjustCredit, adjustment)
}

/// Makes the change.
pub async fn run(billing: &BillingState, job: &Job) -> Result<(), JobError> {
    let adjustment: CreditAdjustment = payload(job)?;
    let payer = store::processor_customers::find(&billing.store, adjustment.customer).await?;
    let Some(payer) = payer else { return Ok(()) };
    let processor = billing.processor().map_err(|error| JobError::Later(error.to_string()))?;
    let new = NewBalanceTransaction {
        customer: &payer,
        amount_cents: adjustment.cents,
        currency: CURRENCY,
        description: Some("money that went back after it had been credited"),
        metadata: &[("sale", &adjustment.sale)],
    };
    let key = crate::key("credit", job.id).map_err(|error| JobError::Never(error.to_string()))?;
    match processor.create_balance_transaction(&new, &key).await {
        // Missing: the customer was deleted at the processor, so there is nothing to change.
        Ok(_) | Err(ProcessorError::Missing) => Ok(()),
        Err(error) => Err(JobError::Later(chain(&error))),
    }
}
