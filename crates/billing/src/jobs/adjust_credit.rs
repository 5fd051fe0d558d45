//! Changes a customer's credit at the processor. Safe to run again, however late: the processor's
//! list of changes is read first, because it forgets idempotency keys after a day and may have
//! stored an error as the response to a change that it made.
//!
//! A job brings what was withdrawn for its sale at the processor to what the ledger says, so it
//! does not matter how many jobs there are for a sale, or whether the database was restored from an
//! older copy since. The key counts the changes made before, so of two jobs at the same time one is
//! refused, and reads the list again.

use ::jobs::{JobError, chain, payload};
use domain::id::CustomerId;
use domain::job::JobKind;
use domain::sales::CreditWithdrawal;
use failures::Failure;
use processor_client::objects::BalanceTransaction;
use processor_client::{IdempotencyKey, NewBalanceTransaction, ProcessorError};
use settings::billing::CURRENCY;
use store::jobs::{Job, NewJob};

use crate::BillingState;
use crate::credit_adjustments::{self, JOB, SALE};

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

    /// The sale that causes it.
    pub(crate) fn sale(&self) -> &str {
        &self.sale
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
    let left = left(billing, job, &adjustment, &payer).await;
    let left = left.map_err(|error| JobError::Later(chain(&error)))?;
    let Some(LeftToChange { cents, key }) = left else { return Ok(()) };
    let id = job.id.to_string();
    let new = NewBalanceTransaction {
        customer: &payer,
        amount_cents: cents,
        currency: CURRENCY,
        description: Some("money that went back after it had been credited"),
        metadata: &[(SALE, &adjustment.sale), (JOB, &id)],
    };
    match processor.create_balance_transaction(&new, &key).await {
        // Missing: the customer was deleted at the processor, so there is nothing to change.
        Ok(_) | Err(ProcessorError::Missing) => Ok(()),
        Err(error) => Err(JobError::Later(chain(&error))),
    }
}

/// A change that is still to be made.
struct LeftToChange {
    cents: i64,
    key: IdempotencyKey,
}

/// What is left to change for the job's sale; none if it was done before.
async fn left(
    billing: &BillingState,
    job: &Job,
    adjustment: &CreditAdjustment,
    payer: &str,
) -> Result<Option<LeftToChange>, Failure> {
    let all = credit_adjustments::list(billing, payer, None).await?;
    let of_sale = || credit_adjustments::of_sale(&all, &adjustment.sale);
    let earlier = store::processor_customers::count(&billing.store, adjustment.customer).await?;
    let (cents, key) = if earlier > 1 {
        // Changes of the customer's earlier ids at the processor cannot be read any more.
        let is_made = of_sale().any(|made| is_of(made, job, adjustment));
        let cents = if is_made { 0 } else { adjustment.cents };
        (cents, crate::key("credit", job.id)?)
    } else {
        let total = store::sales::withdrawn(&billing.store, &adjustment.sale).await?;
        let Some(total) = total else { return Ok(None) };
        let cents = total.saturating_sub(credit_adjustments::sum(of_sale()));
        let before = of_sale().count();
        (cents, crate::key("credit", format!("{}:{before}", adjustment.sale))?)
    };
    Ok((cents != 0).then_some(LeftToChange { cents, key }))
}

/// Whether a change was made by this job. Earlier versions did not name the job; their change has
/// its amount and is no older than the job's id, while `admin retry-jobs` renews `created_at`.
fn is_of(made: &BalanceTransaction, job: &Job, adjustment: &CreditAdjustment) -> bool {
    match made.metadata.get(JOB) {
        Some(named) => *named == job.id.to_string(),
        None => {
            let asked_at = job.id.made_at().unwrap_or(job.created_at).unix_seconds();
            made.amount == adjustment.cents && made.created >= asked_at
        }
    }
}
