//! Cleaning up what exports leave in the storage. It is recorded as due in the transaction that
//! makes it useless, and done afterwards.

use std::collections::HashSet;

use domain::export::ExportRemoval;
use domain::id::{CustomerId, ExportId};
use domain::time::Timestamp;

use crate::balance;
use crate::sql::SqlKind;
use crate::tx::RowTable;
use crate::{Store, StoreError};

/// An order to remove everything that an export has in the storage, except its file if it still has
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportCleanup {
    /// The export.
    pub export: ExportId,
    /// When it became due; identifies this cleanup when it is marked as done.
    pub due_at: Timestamp,
    /// The object to keep.
    pub keep: Option<String>,
}

/// The outcome of a request to delete an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportDeletion {
    /// It is deleted.
    Deleted,
    /// It has not ended yet.
    NotOver,
    /// The customer has no such export.
    NotFound,
}

/// Deletes an export that has ended: it can no longer be found, and its file is due for removal.
/// Its cost and the reason for its deletion are kept.
pub async fn delete(
    store: &Store,
    customer: CustomerId,
    id: ExportId,
    reason: ExportRemoval,
    now: Timestamp,
) -> Result<ExportDeletion, StoreError> {
    const SQL: &str = "
        update export_jobs set state = 'deleted', output_key = null, sha256 = null, bytes = null, rows = null,
            params = '{}', columns = null, start_date = null, end_date = null, error_code = null,
            error_message = null, cleanup_due_at = $3, removal = $4, removed_at = $3
        where id = $1 and customer_id = $2 and credit_state <> 'held' and state <> 'deleted'";
    const OPEN: &str =
        "select 1 from export_jobs where id = $1 and customer_id = $2 and credit_state = 'held'";
    let values = [id.into(), customer.into(), now.into(), reason.as_str().into()];
    let mut tx = store.write().await?;
    balance::lock(&mut tx, std::iter::once(customer)).await?;
    if tx.execute(SQL, &values).await? == 1 {
        tx.commit().await?;
        return Ok(ExportDeletion::Deleted);
    }
    let is_open = tx.row(OPEN, &[id.into(), customer.into()]).await?.is_some();
    Ok(if is_open { ExportDeletion::NotOver } else { ExportDeletion::NotFound })
}

/// Expires the files whose retention has ended, and returns how many.
pub async fn expire(store: &Store, now: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "
        update export_jobs set state = 'expired', output_key = null, cleanup_due_at = $1,
            removal = coalesce(removal, 'retention'), removed_at = coalesce(removed_at, $1)
        where state = 'completed' and expires_at <= $1";
    let mut tx = store.write().await?;
    let expired = tx.execute(SQL, &[now.into()]).await?;
    tx.commit().await?;
    Ok(expired)
}

/// Records whether the storage has the file of a completed export: since when it is missing, or
/// that it is there after all. True if that changed. The state stays as it is, because fixing a
/// misconfigured storage may bring the file back.
pub async fn note_file(
    store: &Store,
    id: ExportId,
    missing_since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    const MISSING: &str = "
        update export_jobs set removal = 'file_missing', removed_at = $2
        where id = $1 and state = 'completed' and removal is null";
    const FOUND: &str = "
        update export_jobs set removal = null, removed_at = null
        where id = $1 and state = 'completed' and removal is not null";
    let mut tx = store.write().await?;
    let changed = match missing_since {
        Some(now) => tx.execute(MISSING, &[id.into(), now.into()]).await?,
        None => tx.execute(FOUND, &[id.into()]).await?,
    };
    tx.commit().await?;
    Ok(changed == 1)
}

/// The cleanups that are due, longest due first.
pub async fn due_cleanups(
    store: &Store,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<ExportCleanup>, StoreError> {
    const SQL: &str = "
        select id, cleanup_due_at, output_key from export_jobs
        where cleanup_due_at is not null and cleanup_due_at <= $1
        order by cleanup_due_at limit $2";
    let rows = store.read().await?.rows(SQL, &[now.into(), limit.into()]).await?;
    rows.iter()
        .map(|row| {
            Ok(ExportCleanup {
                export: row.parse("id", "export_jobs")?,
                due_at: row.time("cleanup_due_at")?,
                keep: row.optional_text("output_key")?,
            })
        })
        .collect()
}

/// Marks a cleanup as done, unless more has become due since.
pub async fn cleaned(store: &Store, cleanup: &ExportCleanup) -> Result<(), StoreError> {
    const SQL: &str = "
        update export_jobs set cleanup_due_at = null where id = $1 and cleanup_due_at = $2";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[cleanup.export.into(), cleanup.due_at.into()]).await?;
    tx.commit().await
}

/// What the storage must keep.
#[derive(Debug, Default)]
pub struct StorageInUse {
    /// Exports that are still open.
    pub open: HashSet<ExportId>,
    /// The files of exports that have ended.
    pub outputs: HashSet<String>,
}

/// What these exports still need in the storage. Waits for transactions that are ending one of
/// them, so that a file being published is never considered useless.
pub async fn keeps(store: &Store, exports: &[ExportId]) -> Result<StorageInUse, StoreError> {
    const SQL: &str = "
        with v (id) as ({rows})
        select e.id, e.credit_state, e.output_key from export_jobs e
        where e.id in (select id from v) order by e.id{lock}";
    const AT_ONCE: usize = 500;
    let mut in_use = StorageInUse::default();
    for chunk in exports.chunks(AT_ONCE) {
        let mut table = RowTable::new(&[SqlKind::Text]);
        for id in chunk {
            table.push([(*id).into()]);
        }
        let mut tx = store.write().await?;
        for row in &tx.rows_over(SQL, table).await? {
            if row.text("credit_state")? == "held" {
                in_use.open.insert(row.parse("id", "export_jobs")?);
            }
            in_use.outputs.extend(row.optional_text("output_key")?);
        }
    }
    Ok(in_use)
}
