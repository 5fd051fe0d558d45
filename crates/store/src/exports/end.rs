//! Ending an export: each way is one conditional update, together with settling its credits.

use domain::export::{ExportCredits, ExportState, credits_when_cancelled};
use domain::id::{CustomerId, ExportId};
use domain::time::Timestamp;

use super::{Export, ExportFailure, ExportLease, ExportOutput, ExportProgress, read};
use crate::balance;
use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// The outcome of a request to cancel an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportCancellation {
    /// It is cancelled.
    Cancelled(Box<Export>),
    /// A worker is running it and will stop.
    Stopping(Box<Export>),
    /// It had already ended.
    Over(ExportState),
    /// The customer has no such export.
    NotFound,
}

/// A finished file to be published.
#[derive(Debug, Clone, Copy)]
pub struct ExportPublication<'a> {
    /// The file.
    pub output: &'a ExportOutput,
    /// Now.
    pub now: Timestamp,
    /// Until when it can be downloaded.
    pub expires_at: Timestamp,
}

/// Publishes the finished file and charges the credits. Only this makes a file downloadable. False,
/// with nothing changed, if the lease is lost or the export is being cancelled.
pub async fn publish(
    store: &Store,
    lease: &ExportLease,
    ExportPublication { output, now, expires_at }: ExportPublication<'_>,
    progress: ExportProgress,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update export_jobs set state = 'completed', credit_state = 'settled', output_key = $4,
            sha256 = $5, bytes = $6, rows = $7, pages = $8, rows_read = $9, finished_at = $3,
            expires_at = $10, lease_until = null, leased_by = null, cleanup_due_at = $3
        where id = $1 and lease_token = $2 and state = 'running' and leased_by <> ''
        returning cost";
    let values = [
        lease.export.into(),
        lease.token.into(),
        now.into(),
        output.key.as_str().into(),
        output.sha256.as_str().into(),
        output.bytes.into(),
        output.rows.into(),
        progress.pages.into(),
        progress.rows.into(),
        expires_at.into(),
    ];
    end(store, lease.customer, SQL, &values, ExportCredits::Settled).await
}

/// Ends an export without a file and refunds its credits. False, with nothing changed, if the lease
/// is lost or the export is being cancelled.
pub async fn fail(
    store: &Store,
    lease: &ExportLease,
    now: Timestamp,
    failure: &ExportFailure,
    progress: ExportProgress,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update export_jobs set state = 'failed', credit_state = 'refunded', error_code = $4,
            error_message = $5, pages = $6, rows_read = $7, finished_at = $3, lease_until = null,
            leased_by = null, cleanup_due_at = $3
        where id = $1 and lease_token = $2 and state = 'running' and leased_by <> ''
        returning cost";
    let message = shown(&failure.message);
    let values = [
        lease.export.into(),
        lease.token.into(),
        now.into(),
        failure.code.as_str().into(),
        message.as_str().into(),
        progress.pages.into(),
        progress.rows.into(),
    ];
    end(store, lease.customer, SQL, &values, ExportCredits::Refunded).await
}

/// Ends an export that was cancelled while this worker was running it. It is charged if a page was
/// read. False if it has already ended, or another worker has the lease.
pub async fn end_cancelled(
    store: &Store,
    lease: &ExportLease,
    now: Timestamp,
    progress: ExportProgress,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update export_jobs set state = 'cancelled', credit_state = $4, pages = $5, rows_read = $6,
            finished_at = $3, lease_until = null, leased_by = null, cleanup_due_at = $3
        where id = $1 and lease_token = $2 and state = 'cancelling'
        returning cost";
    let credits = credits_when_cancelled(progress.pages);
    let values = [
        lease.export.into(),
        lease.token.into(),
        now.into(),
        credits.as_str().into(),
        progress.pages.into(),
        progress.rows.into(),
    ];
    end(store, lease.customer, SQL, &values, credits).await
}

/// Cancels a waiting export, or asks the worker of a running one to stop.
pub async fn cancel(
    store: &Store,
    customer: CustomerId,
    id: ExportId,
    now: Timestamp,
) -> Result<ExportCancellation, StoreError> {
    const PENDING: &str = "
        update export_jobs set state = 'cancelled', credit_state = 'refunded', finished_at = $3,
            cleanup_due_at = $3
        where id = $1 and customer_id = $2 and state = 'pending' returning cost";
    const RUNNING: &str = "
        update export_jobs set state = 'cancelling', error_code = null, error_message = null
        where id = $1 and customer_id = $2 and state = 'running'";
    let mut tx = store.write().await?;
    let mut balances = balance::lock(&mut tx, std::iter::once(customer)).await?;
    let own: [SqlValue<'_>; 2] = [id.into(), customer.into()];
    let [wanted, owner] = own.clone();
    let ended = tx.row(PENDING, &[wanted, owner, now.into()]).await?;
    if let Some(row) = &ended {
        if let Some(balance) = balances.get_mut(customer) {
            balance.refund(row.int("cost")?);
        }
        balance::save(&mut tx, &balances).await?;
    } else {
        tx.execute(RUNNING, &own).await?;
    }
    let Some(export) = read::find_in(&mut tx, id, customer).await? else {
        return Ok(ExportCancellation::NotFound);
    };
    match export.state {
        ExportState::Cancelled if ended.is_some() => {
            tx.commit().await?;
            Ok(ExportCancellation::Cancelled(Box::new(export)))
        }
        ExportState::Cancelling => {
            tx.commit().await?;
            Ok(ExportCancellation::Stopping(Box::new(export)))
        }
        state => Ok(ExportCancellation::Over(state)),
    }
}

/// The number of dead workers' exports that were ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReapedExports {
    /// Exports that failed.
    pub failed: u64,
    /// Exports that were cancelled on request.
    pub cancelled: u64,
}

/// Ends the exports of dead workers: one that was claimed too often without a new page fails as
/// `worker_lost`, one that was being cancelled is cancelled. Returns how many.
pub async fn reap(
    store: &Store,
    now: Timestamp,
    attempts_max: i64,
) -> Result<ReapedExports, StoreError> {
    const LEFT: &str = "
        select id, customer_id, state from export_jobs
        where credit_state = 'held' and leased_by = '' and lease_until <= $1
          and (state = 'cancelling' or (state = 'running' and attempt >= $2))
        order by lease_until limit 100";
    const FAIL: &str = "
        update export_jobs set state = 'failed', credit_state = 'refunded', error_code = 'worker_lost',
            error_message = $4, finished_at = $2, lease_until = null, leased_by = null,
            cleanup_due_at = $2
        where id = $1 and state = 'running' and leased_by = '' and lease_until <= $2 and attempt >= $3 returning cost";
    const CANCEL: &str = "
        update export_jobs set state = 'cancelled',
            credit_state = case when pages >= 1 then 'settled' else 'refunded' end,
            finished_at = $2, lease_until = null, leased_by = null, cleanup_due_at = $2
        where id = $1 and state = 'cancelling' and leased_by = '' and lease_until <= $2 returning cost, pages";
    let rows = store.read().await?.rows(LEFT, &[now.into(), attempts_max.into()]).await?;
    let mut reaped = ReapedExports::default();
    for row in &rows {
        let id: ExportId = row.parse("id", "export_jobs")?;
        let customer: CustomerId = row.parse("customer_id", "export_jobs")?;
        let message = format!("{attempts_max} workers in a row were lost without a new page");
        if row.parse::<ExportState>("state", "export_jobs")? == ExportState::Running {
            let values = [id.into(), now.into(), attempts_max.into(), message.as_str().into()];
            let ended = end(store, customer, FAIL, &values, ExportCredits::Refunded).await?;
            reaped.failed += u64::from(ended);
        } else {
            let values = [id.into(), now.into()];
            let credits = |ended: &SqlRow| Ok(credits_when_cancelled(ended.int("pages")?));
            let ended = end_as(store, customer, CANCEL, &values, credits).await?;
            reaped.cancelled += u64::from(ended);
        }
    }
    Ok(reaped)
}

/// Runs a conditional update that returns the cost, and settles it. False if it changed nothing.
async fn end(
    store: &Store,
    customer: CustomerId,
    sql: &'static str,
    values: &[SqlValue<'_>],
    credits: ExportCredits,
) -> Result<bool, StoreError> {
    end_as(store, customer, sql, values, |_| Ok(credits)).await
}

/// Like `end`, deciding from the returned row whether the credits are charged.
async fn end_as(
    store: &Store,
    customer: CustomerId,
    sql: &'static str,
    values: &[SqlValue<'_>],
    credits: impl Fn(&SqlRow) -> Result<ExportCredits, StoreError>,
) -> Result<bool, StoreError> {
    let mut tx: Tx = store.write().await?;
    let mut balances = balance::lock(&mut tx, std::iter::once(customer)).await?;
    let Some(row) = tx.row(sql, values).await? else { return Ok(false) };
    let cost = row.int("cost")?;
    let balance = balances
        .get_mut(customer)
        .ok_or_else(|| StoreError::corrupt("customer_credits", customer))?;
    match credits(&row)? {
        ExportCredits::Settled => balance.settle(cost),
        ExportCredits::Refunded => balance.refund(cost),
        ExportCredits::Held => {}
    }
    balance::save(&mut tx, &balances).await?;
    tx.commit().await?;
    Ok(true)
}

/// A message as stored: without NUL, which PostgreSQL cannot store, and shortened.
fn shown(message: &str) -> String {
    const CHARS_MAX: usize = 500;
    message.chars().filter(|letter| *letter != '\0').take(CHARS_MAX).collect()
}
