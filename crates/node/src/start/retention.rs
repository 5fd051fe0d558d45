//! Retention: what ended long ago is summed up or deleted, in small batches beside calls.

use std::time::Duration;

use domain::time::Timestamp;
use runtime::metrics;
use store::StoreError;
use tokio::time::Instant;

use crate::state::NodeState;

/// The most customers looked at, or jobs or audit entries deleted, in one step.
const STEP_MAX: i64 = 100;

/// Sums up the calls that are older than `retention.calls_days`. Continues at the next round after
/// an error.
pub(super) async fn sum_up(state: &NodeState) {
    if let Err(error) = calls(state).await {
        tracing::warn!(%error, "old calls could not be summed up");
    }
}

/// Deletes customers that were never confirmed, jobs that were given up long ago, and old entries
/// of the audit lists.
pub(super) async fn delete_unused(state: &NodeState) {
    if let Err(error) = customers(state).await {
        tracing::warn!(%error, "customers that were never confirmed could not be deleted");
    }
    if let Err(error) = jobs(state).await {
        tracing::warn!(%error, "jobs that were given up could not be deleted");
    }
    if let Err(error) = audit(state).await {
        tracing::warn!(%error, "old entries of audit lists could not be deleted");
    }
}

/// Sums up batches of calls until none is left. After each it pauses, so that it takes no more than
/// its share of the time.
async fn calls(state: &NodeState) -> Result<(), StoreError> {
    let section = &state.config.retention;
    let Some(before) = kept_since(state, section.calls_days) else { return Ok(()) };
    let (mut after, mut total) = (None, 0_u64);
    while !state.is_stopping() {
        let began = Instant::now();
        let batch =
            store::call_totals::roll_up(&state.store, after, before, section.batch_calls).await?;
        metrics::rows_removed("calls", batch.calls);
        total = total.saturating_add(batch.calls);
        if batch.calls < section.batch_calls.unsigned_abs() {
            break;
        }
        after = batch.last;
        tokio::time::sleep(pause_after(began.elapsed(), section.load_percent)).await;
    }
    if total > 0 {
        tracing::info!(calls = total, "old calls were summed up and removed");
    }
    Ok(())
}

/// The pause with which work of this duration takes `load_percent` of the time.
fn pause_after(took: Duration, load_percent: u32) -> Duration {
    let share = load_percent.clamp(1, 100);
    took.saturating_mul(100 - share) / share
}

async fn customers(state: &NodeState) -> Result<(), StoreError> {
    let days = state.config.retention.unconfirmed_customers_days;
    let Some(before) = kept_since(state, days) else { return Ok(()) };
    let mut after = None;
    while !state.is_stopping() {
        let step = store::unconfirmed::delete(&state.store, after, before, STEP_MAX).await?;
        metrics::rows_removed("customers", step.deleted);
        if step.last.is_none() {
            break;
        }
        after = step.last;
    }
    Ok(())
}

async fn jobs(state: &NodeState) -> Result<(), StoreError> {
    let days = state.config.retention.given_up_jobs_days;
    let Some(before) = kept_since(state, days) else { return Ok(()) };
    in_steps(state, "jobs", || store::jobs::delete_given_up(&state.store, before, STEP_MAX)).await
}

async fn audit(state: &NodeState) -> Result<(), StoreError> {
    let days = state.config.retention.audit_days;
    let Some(before) = kept_since(state, days) else { return Ok(()) };
    in_steps(state, "audit", || store::audit::delete_old(&state.store, before, STEP_MAX)).await
}

/// Deletes rows of a table, step by step, until a step finds fewer than it may delete. After each
/// it pauses, so that it takes no more than its share of the time.
async fn in_steps<F: Future<Output = Result<u64, StoreError>>>(
    state: &NodeState,
    table: &'static str,
    step: impl Fn() -> F,
) -> Result<(), StoreError> {
    while !state.is_stopping() {
        let began = Instant::now();
        let deleted = step().await?;
        metrics::rows_removed(table, deleted);
        if deleted < STEP_MAX.unsigned_abs() {
            break;
        }
        let pause = pause_after(began.elapsed(), state.config.retention.load_percent);
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// The start of the first day that is kept; none if everything is.
fn kept_since(state: &NodeState, days: i64) -> Option<Timestamp> {
    (days > 0).then(|| state.clock.now().day().plus_days(days.saturating_neg()).start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_leaves_the_rest_of_the_time_to_others() {
        let took = Duration::from_millis(10);

        assert_eq!(pause_after(took, 10), Duration::from_millis(90));
        assert_eq!(pause_after(took, 50), took);
        assert_eq!(pause_after(took, 100), Duration::ZERO);
    }
}
