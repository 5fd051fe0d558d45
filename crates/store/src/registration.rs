//! Registration: creates a customer with its first key, trial and email, all or nothing.

use domain::customer::TrialState;
use domain::time::UtcDay;

use crate::customers::{self, NewCustomer};
use crate::jobs::{self, NewJob};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A registration.
#[derive(Debug, Clone)]
pub struct NewRegistration<'a> {
    /// The customer. A pending trial is stored as `None` if a limit is reached.
    pub customer: &'a NewCustomer,
    /// The daily limits of trials, by what they count.
    pub trial_limits: &'a [TrialLimit],
    /// Jobs to enqueue, such as the email that asks for confirmation.
    pub jobs: &'a [NewJob],
}

/// A limit on trials for each UTC day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialLimit {
    /// What the counted registrations have in common, such as `network 203.0.113.7`.
    pub scope: String,
    /// The maximum number of trials.
    pub per_day: i64,
}

/// The outcome of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// The customer exists, with a trial in this state.
    Created {
        /// `Pending`, or `None` if none was requested or a limit was reached.
        trial: TrialState,
    },
    /// The address belongs to another customer; nothing was stored.
    EmailTaken,
}

/// Registers a customer, in one transaction.
pub async fn register(
    store: &Store,
    registration: &NewRegistration<'_>,
) -> Result<RegistrationOutcome, StoreError> {
    const NO_TRIAL: &str = "update customers set trial_state = 'none' where id = $1";
    let new = registration.customer;
    let mut tx = store.write().await?;
    if !customers::insert(&mut tx, new).await? {
        return Ok(RegistrationOutcome::EmailTaken);
    }
    let mut trial = new.trial;
    if trial == TrialState::Pending
        && !begin_trial(&mut tx, registration.trial_limits, new.created_at.day()).await?
    {
        tx.execute(NO_TRIAL, &[new.id.into()]).await?;
        trial = TrialState::None;
    }
    jobs::insert_all(&mut tx, registration.jobs).await?;
    tx.commit().await?;
    Ok(RegistrationOutcome::Created { trial })
}

/// Deletes the counts of days before `day`.
pub async fn delete_trial_counts(store: &Store, day: UtcDay) -> Result<u64, StoreError> {
    const SQL: &str = "delete from trial_starts where day < $1";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[day.into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// Counts the trial under every limit, or under none: false if a limit is reached.
async fn begin_trial(tx: &mut Tx, limits: &[TrialLimit], day: UtcDay) -> Result<bool, StoreError> {
    const COUNT: &str = "
        insert into trial_starts (scope, day, trials) values ($1, $2, 1)
        on conflict (scope, day) do update set trials = trial_starts.trials + 1
            where trial_starts.trials < $3
        returning trials";
    const TAKE_BACK: &str = "
        update trial_starts set trials = trials - 1 where scope = $1 and day = $2";
    // Always in the same order, so that two registrations never deadlock.
    let mut ordered: Vec<&TrialLimit> = limits.iter().collect();
    ordered.sort_by(|one, other| one.scope.cmp(&other.scope));
    for (counted, limit) in ordered.iter().enumerate() {
        let values = [limit.scope.as_str().into(), day.into(), limit.per_day.into()];
        if limit.per_day < 1 || tx.row(COUNT, &values).await?.is_none() {
            for earlier in ordered.iter().take(counted) {
                tx.execute(TAKE_BACK, &[earlier.scope.as_str().into(), day.into()]).await?;
            }
            return Ok(false);
        }
    }
    Ok(true)
}
