//! Jobs: work that follows a commit. They are written in that commit, claimed with a lease, and
//! done at least once.
//!
//! A claim increments the job's attempt number. Only the claim with the newest number may finish or
//! postpone a job, so that a node believed dead cannot undo what its successor did.

use domain::id::{JobId, NodeId};
use domain::job::JobKind;
use domain::time::Timestamp;

use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, dialect};

/// The maximum length of a stored error, in characters.
const ERROR_CHARS_MAX: usize = 500;

/// A job to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// The kind of work.
    pub kind: JobKind,
    /// Its parameters as JSON; never a secret.
    pub payload: String,
    /// The current time; the job may run immediately.
    pub created_at: Timestamp,
}

/// A claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The kind of work.
    pub kind: JobKind,
    /// Its parameters as JSON.
    pub payload: String,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// The number of this attempt, from 1: the claim's fencing number.
    pub attempt: i64,
}

/// The node that claims, and the time of its lease.
#[derive(Debug, Clone, Copy)]
pub struct JobClaimant {
    /// The node that claims.
    pub node: NodeId,
    /// The current time.
    pub now: Timestamp,
    /// When the job may be taken over, if the node is gone then.
    pub leased_until: Timestamp,
}

/// The number of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCounts {
    /// Waiting or running.
    pub waiting: i64,
    /// Given up: an operator must look at them.
    pub given_up: i64,
}

/// Enqueues a job that belongs to no other change.
pub async fn enqueue(store: &Store, new: &NewJob) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    insert(&mut tx, new).await?;
    tx.commit().await
}

/// Like `enqueue`, to run no earlier than `run_at`: the caller does the work now, and the job is
/// the fallback.
pub async fn enqueue_at(store: &Store, new: &NewJob, run_at: Timestamp) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    insert_at(&mut tx, new, run_at).await?;
    tx.commit().await
}

/// Deletes a job whose work the caller has done, unless it is running.
pub async fn discard(store: &Store, id: JobId) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    drop_unclaimed(&mut tx, id).await?;
    tx.commit().await
}

/// Claims the job that has been due longest, if any. Jobs of kinds that this version does not know
/// are left to nodes that do.
pub async fn claim(store: &Store, claimant: &JobClaimant) -> Result<Option<Job>, StoreError> {
    const DUE: &str = "
        select id from jobs
        where given_up_at is null and run_at <= $1 and leased_by is null
              and kind in ({kinds})
        order by run_at, id limit 1{lock}";
    const CLAIM: &str = "
        update jobs set attempts = attempts + 1, leased_until = $2, leased_by = $3
        where id = $1
        returning id, kind, payload, created_at, attempts";
    let kinds: Vec<String> = JobKind::ALL.iter().map(|kind| format!("'{kind}'")).collect();
    let mut tx = store.write().await?;
    let due = DUE.replacen("{kinds}", &kinds.join(", "), 1).replacen(
        "{lock}",
        dialect::for_update_skip_locked(tx.database()),
        1,
    );
    let Some(free) = tx.row(sqlx::AssertSqlSafe(due), &[claimant.now.into()]).await? else {
        return Ok(None);
    };
    let id: JobId = free.parse("id", "jobs")?;
    let values = [id.into(), claimant.leased_until.into(), claimant.node.into()];
    let claimed = tx.row(CLAIM, &values).await?;
    tx.commit().await?;
    claimed.as_ref().map(job).transpose()
}

/// Deletes a finished job. False if another claim has been made since.
pub async fn finish(store: &Store, id: JobId, attempt: i64) -> Result<bool, StoreError> {
    const SQL: &str = "delete from jobs where id = $1 and attempts = $2";
    let mut tx = store.write().await?;
    let done = tx.execute(SQL, &[id.into(), attempt.into()]).await?;
    tx.commit().await?;
    Ok(done == 1)
}

/// Releases a job, to be retried at `run_at`. False if another claim has been made since.
pub async fn postpone(
    store: &Store,
    id: JobId,
    attempt: i64,
    run_at: Timestamp,
    error: &str,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update jobs set run_at = $3, last_error = $4, leased_until = null, leased_by = null
        where id = $1 and attempts = $2";
    end_attempt(store, SQL, JobAttempt { id, attempt }, run_at, error).await
}

/// Gives a job up: it is kept for inspection and not retried. False if another claim has been made
/// since.
pub async fn give_up(
    store: &Store,
    id: JobId,
    attempt: i64,
    now: Timestamp,
    error: &str,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update jobs set given_up_at = $3, last_error = $4, leased_until = null, leased_by = null
        where id = $1 and attempts = $2";
    end_attempt(store, SQL, JobAttempt { id, attempt }, now, error).await
}

/// Makes all given-up jobs due as if they were new, and returns how many.
pub async fn retry_given_up(store: &Store, now: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "
        update jobs set given_up_at = null, run_at = $1, created_at = $1
        where given_up_at is not null";
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &[now.into()]).await?;
    tx.commit().await?;
    Ok(changed)
}

/// Deletes jobs that were given up before `before`, at most `limit`, and returns how many.
pub async fn delete_given_up(
    store: &Store,
    before: Timestamp,
    limit: i64,
) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from jobs where id in (
            select id from jobs where given_up_at < $1 order by given_up_at limit $2
        )";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[before.into(), limit.max(1).into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// The parameters of all jobs of a kind that are not finished, given-up ones too.
pub async fn list_payloads(store: &Store, kind: JobKind) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "select payload from jobs where kind = $1";
    let rows = store.read().await?.rows(SQL, &[kind.as_str().into()]).await?;
    rows.iter().map(|row| row.text("payload")).collect()
}

/// The numbers of waiting and given-up jobs.
pub async fn count(store: &Store) -> Result<JobCounts, StoreError> {
    const SQL: &str = "select count(*) as jobs, count(given_up_at) as given_up from jobs";
    let row = store.read().await?.row(SQL, &[]).await?;
    let Some(row) = row else { return Ok(JobCounts::default()) };
    let (all, given_up) = (row.int("jobs")?, row.int("given_up")?);
    Ok(JobCounts { waiting: all.saturating_sub(given_up), given_up })
}

/// When the next job is due or its lease expires; for tests and monitoring.
pub async fn next_due(store: &Store) -> Result<Option<Timestamp>, StoreError> {
    const SQL: &str = "
        select min(case when leased_until > run_at then leased_until else run_at end) as due_at
        from jobs where given_up_at is null";
    let row = store.read().await?.row(SQL, &[]).await?;
    row.map_or(Ok(None), |row| row.optional_time("due_at"))
}

/// Enqueues a job in the transaction of the change that requires it.
pub(crate) async fn insert(tx: &mut Tx, new: &NewJob) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into jobs (id, kind, payload, created_at, run_at, attempts)
        values ($1, $2, $3, $4, $4, 0)";
    let values = [
        new.id.into(),
        new.kind.as_str().into(),
        new.payload.as_str().into(),
        new.created_at.into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

/// Like `insert`, to run no earlier than `run_at`: the caller intends to do the work immediately,
/// and the job is the fallback.
pub(crate) async fn insert_at(
    tx: &mut Tx,
    new: &NewJob,
    run_at: Timestamp,
) -> Result<(), StoreError> {
    const LATER: &str = "update jobs set run_at = $2 where id = $1";
    insert(tx, new).await?;
    tx.execute(LATER, &[new.id.into(), run_at.into()]).await?;
    Ok(())
}

/// Deletes a job whose work was done elsewhere, unless it is claimed.
pub(crate) async fn drop_unclaimed(tx: &mut Tx, id: JobId) -> Result<(), StoreError> {
    const SQL: &str = "delete from jobs where id = $1 and leased_by is null";
    tx.execute(SQL, &[id.into()]).await?;
    Ok(())
}

/// Enqueues several jobs.
pub(crate) async fn insert_all(tx: &mut Tx, new: &[NewJob]) -> Result<(), StoreError> {
    for job in new {
        insert(tx, job).await?;
    }
    Ok(())
}

/// One attempt at a job.
struct JobAttempt {
    id: JobId,
    attempt: i64,
}

async fn end_attempt(
    store: &Store,
    sql: &'static str,
    of: JobAttempt,
    at: Timestamp,
    error: &str,
) -> Result<bool, StoreError> {
    let JobAttempt { id, attempt } = of;
    // PostgreSQL cannot store NUL in texts.
    let shown: String =
        error.chars().filter(|letter| *letter != '\0').take(ERROR_CHARS_MAX).collect();
    let values = [id.into(), attempt.into(), at.into(), shown.as_str().into()];
    let mut tx = store.write().await?;
    let changed = tx.execute(sql, &values).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

fn job(row: &SqlRow) -> Result<Job, StoreError> {
    Ok(Job {
        id: row.parse("id", "jobs")?,
        kind: row.parse("kind", "jobs")?,
        payload: row.text("payload")?,
        created_at: row.time("created_at")?,
        attempt: row.int("attempts")?,
    })
}
