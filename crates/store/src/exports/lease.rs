//! Leases: which worker has an export, and its progress. A worker keeps its lease until it ends it,
//! or until it is taken over (`takeover`); an export that nobody has waits until `lease_until`.

use domain::export::ExportPhase;
use domain::id::{CustomerId, ExportId};
use domain::time::Timestamp;

use super::{
    Export, ExportClaimant, ExportFailure, ExportLease, ExportProgress, LeaseRenewal, WorkerReport,
    read,
};
use crate::balance;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// How often a claim is retried after another node was faster. After that, the next round tries
/// again.
const TRIES_MAX: usize = 8;

/// An export that a worker has just claimed.
#[derive(Debug, Clone)]
pub struct ClaimedExport {
    /// The right to work on it.
    pub lease: ExportLease,
    /// The export, as claimed.
    pub export: Export,
}

/// The export that is claimed next, unless another node is faster.
struct ExportCandidate {
    export: ExportId,
    customer: CustomerId,
}

/// Claims an export, if one is waiting. Prefers the customer with the fewest active workers, then
/// exports left by a worker, then the oldest. No customer gets more than `running_max`
/// concurrently.
pub async fn claim(
    store: &Store,
    claimant: &ExportClaimant,
) -> Result<Option<ClaimedExport>, StoreError> {
    for _ in 0..TRIES_MAX {
        let mut tx = store.write().await?;
        let Some(next) = candidate(&mut tx, claimant).await? else { return Ok(None) };
        let ExportCandidate { export: id, customer } = next;
        balance::lock(&mut tx, std::iter::once(customer)).await?;
        if let Some(export) = take(&mut tx, claimant, id, customer).await? {
            tx.commit().await?;
            let lease = ExportLease { export: id, customer, token: export.lease_token };
            return Ok(Some(ClaimedExport { lease, export }));
        }
    }
    Ok(None)
}

async fn candidate(
    tx: &mut Tx,
    claimant: &ExportClaimant,
) -> Result<Option<ExportCandidate>, StoreError> {
    const SQL: &str = "
        select e.id, e.customer_id
        from export_jobs e
        left join (
            select customer_id, count(*) as running,
                sum(case when leased_by <> '' then 1 else 0 end) as at_work
            from export_jobs where credit_state = 'held' and state <> 'pending' group by customer_id
        ) r on r.customer_id = e.customer_id
        where e.credit_state = 'held'
          and not exists (select 1 from customers c where c.id = e.customer_id and c.disabled_at is not null)
          and (
            (e.state = 'pending' and coalesce(r.running, 0) < $2)
            or (e.state = 'running' and e.leased_by = '' and e.lease_until <= $1 and e.attempt < $3)
        )
        order by coalesce(r.at_work, 0), case when e.state = 'running' then 0 else 1 end,
                 e.created_at, e.id
        limit 1";
    let values = [claimant.now.into(), claimant.running_max.into(), claimant.attempts_max.into()];
    let row = tx.row(SQL, &values).await?;
    row.map(|row| {
        Ok(ExportCandidate {
            export: row.parse("id", "export_jobs")?,
            customer: row.parse("customer_id", "export_jobs")?,
        })
    })
    .transpose()
}

/// Takes it unless another node was faster. The customer's balance is locked.
async fn take(
    tx: &mut Tx,
    claimant: &ExportClaimant,
    id: ExportId,
    customer: CustomerId,
) -> Result<Option<Export>, StoreError> {
    const SQL: &str = "
        update export_jobs set state = 'running', lease_token = lease_token + 1, lease_until = $4,
            leased_by = $5, attempt = attempt + 1, started_at = coalesce(started_at, $3),
            error_code = null, error_message = null, waiting_until = null
        where id = $1
          and not exists (select 1 from customers c where c.id = $2 and c.disabled_at is not null)
          and (
            (state = 'pending' and $6 > (
                select count(*) from export_jobs other
                where other.customer_id = $2 and other.credit_state = 'held' and other.state <> 'pending'))
            or (state = 'running' and leased_by = '' and lease_until <= $3 and attempt < $7)
        ) returning ";
    let values = [
        id.into(),
        customer.into(),
        claimant.now.into(),
        claimant.lease_until.into(),
        claimant.node.into(),
        claimant.running_max.into(),
        claimant.attempts_max.into(),
    ];
    let row = tx.row(read::with_columns(SQL), &values).await?;
    row.map(|row| read::export(&row)).transpose()
}

/// Extends a lease and records how far the worker is.
pub async fn renew(
    store: &Store,
    lease: &ExportLease,
    until: Timestamp,
    WorkerReport { progress, doing, has_new_page }: WorkerReport,
) -> Result<LeaseRenewal, StoreError> {
    const SQL: &str = "
        update export_jobs set lease_until = $3, pages = $4, rows_read = $5, worked_micros = $7,
            attempt = case when $6 = 1 then 0 else attempt end, phase = $8, list_rows = $9,
            list_rows_read = $10, waiting_until = $11
        where id = $1 and lease_token = $2 and state = 'running' and leased_by <> ''";
    const CANCELLING: &str = "
        select 1 from export_jobs
        where id = $1 and lease_token = $2 and state = 'cancelling' and leased_by <> ''";
    let mut tx = store.write().await?;
    let values = [
        lease.export.into(),
        lease.token.into(),
        until.into(),
        progress.pages.into(),
        progress.rows.into(),
        i64::from(has_new_page).into(),
        progress.worked_micros.into(),
        doing.phase.map(ExportPhase::as_str).into(),
        doing.list_rows.into(),
        doing.list_rows_read.into(),
        doing.waiting_until.into(),
    ];
    if tx.execute(SQL, &values).await? == 1 {
        tx.commit().await?;
        return Ok(LeaseRenewal::Kept);
    }
    let held = [lease.export.into(), lease.token.into()];
    let is_cancelling = tx.row(CANCELLING, &held).await?.is_some();
    Ok(if is_cancelling { LeaseRenewal::Cancelling } else { LeaseRenewal::Lost })
}

/// Whether this export should be given back in favor of another customer: one without a worker, and
/// neither closed nor suspended, has waited since `waiting_since`, and this is the most recently
/// started of several exports of its customer on the same node. It continues later, after its last
/// page.
pub async fn gives_way(
    store: &Store,
    lease: &ExportLease,
    waiting_since: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        select 1 from export_jobs own
        where own.id = $1 and own.state = 'running'
          and exists (
            select 1 from export_jobs older
            where older.customer_id = own.customer_id and older.leased_by = own.leased_by
              and older.state = 'running' and older.leased_by <> ''
              and (older.started_at, older.id) < (own.started_at, own.id))
          and exists (
            select 1 from export_jobs waiting
            where waiting.state = 'pending' and waiting.created_at <= $2
              and not exists (
                select 1 from customers c where c.id = waiting.customer_id and c.disabled_at is not null)
              and not exists (
                select 1 from export_jobs theirs
                where theirs.customer_id = waiting.customer_id and theirs.credit_state = 'held'
                  and theirs.state <> 'pending'))";
    let values = [lease.export.into(), waiting_since.into()];
    Ok(store.read().await?.row(SQL, &values).await?.is_some())
}

/// Ends a lease so that another worker can continue immediately: the worker stops, the export does
/// not. The attempt does not count as failed.
pub async fn give_back(
    store: &Store,
    lease: &ExportLease,
    now: Timestamp,
    progress: ExportProgress,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update export_jobs set lease_until = $3, leased_by = '', pages = $4, rows_read = $5, attempt = 0,
            worked_micros = $6
        where id = $1 and lease_token = $2 and state = 'running' and leased_by <> ''";
    let mut tx = store.write().await?;
    let values = [
        lease.export.into(),
        lease.token.into(),
        now.into(),
        progress.pages.into(),
        progress.rows.into(),
        progress.worked_micros.into(),
    ];
    let given = tx.execute(SQL, &values).await? == 1;
    tx.commit().await?;
    Ok(given)
}

/// Postpones an export after a temporary failure; any worker may claim it then. The attempt counts
/// unless it read a new page.
pub async fn postpone(
    store: &Store,
    lease: &ExportLease,
    until: Timestamp,
    progress: ExportProgress,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update export_jobs set lease_until = $3, leased_by = '', pages = $4, rows_read = $5,
            worked_micros = $6, waiting_until = $3
        where id = $1 and lease_token = $2 and state = 'running' and leased_by <> ''";
    let mut tx = store.write().await?;
    let values = [
        lease.export.into(),
        lease.token.into(),
        until.into(),
        progress.pages.into(),
        progress.rows.into(),
        progress.worked_micros.into(),
    ];
    let postponed = tx.execute(SQL, &values).await? == 1;
    tx.commit().await?;
    Ok(postponed)
}

/// Postpones an export with a reason: its platform refuses all credentials, or the storage is full.
/// The attempt does not count as failed.
pub async fn pause(
    store: &Store,
    lease: &ExportLease,
    until: Timestamp,
    reason: &ExportFailure,
    progress: ExportProgress,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update export_jobs set lease_until = $3, leased_by = '', pages = $4, rows_read = $5,
            worked_micros = $6, attempt = 0, error_code = $7, error_message = $8, waiting_until = $3
        where id = $1 and lease_token = $2 and state = 'running' and leased_by <> ''";
    let mut tx = store.write().await?;
    let values = [
        lease.export.into(),
        lease.token.into(),
        until.into(),
        progress.pages.into(),
        progress.rows.into(),
        progress.worked_micros.into(),
        reason.code.as_str().into(),
        reason.message.as_str().into(),
    ];
    let paused = tx.execute(SQL, &values).await? == 1;
    tx.commit().await?;
    Ok(paused)
}
