//! Leases of a dead process. On SQLite only one process uses the file, so a starting process ends
//! all of them. On PostgreSQL another node may hold them, and they expire by themselves.

use crate::{DatabaseKind, Store, StoreError};

/// Ends the leases of requests, slot changes and the reconciliation that an earlier process left
/// open, and returns how many of the first two. Call it at start, before the first request.
pub async fn end(store: &Store) -> Result<u64, StoreError> {
    const REQUESTS: &str = "update own_requests set leased_until = 0 where state = 'running'";
    const CHANGES: &str = "update slot_changes set leased_until = 0 where state = 'open'";
    const RECONCILIATION: &str =
        "update reconciliations set leased_until = 0 where leased_until <> 0";
    if store.database() == DatabaseKind::Postgres {
        return Ok(0);
    }
    let mut tx = store.write().await?;
    let requests = tx.execute(REQUESTS, &[]).await?;
    let changes = tx.execute(CHANGES, &[]).await?;
    tx.execute(RECONCILIATION, &[]).await?;
    tx.commit().await?;
    Ok(requests.saturating_add(changes))
}
