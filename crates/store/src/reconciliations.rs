//! The comparison with the payment processor: of several nodes one makes it, and the next one goes
//! on where it ended.

use domain::id::NodeId;
use domain::time::{Timestamp, UtcDay};

use crate::{Store, StoreError};

/// How far the comparison has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconciliationProgress {
    /// Everything that the processor recorded before this has been read; none if nothing was.
    pub read_until: Option<Timestamp>,
    /// The day on which everything was last compared.
    pub compared_on: Option<UtcDay>,
}

/// Claims the comparison for a node, and returns how far it has come. None if another node has it.
pub async fn claim(
    store: &Store,
    node: NodeId,
    until: Timestamp,
) -> Result<Option<ReconciliationProgress>, StoreError> {
    const SQL: &str = "
        update reconciliations set leased_by = $1, leased_until = $2
        where id = 1 and (leased_by is null or leased_by = $1)
        returning read_until, compared_on";
    let mut tx = store.write().await?;
    let Some(row) = tx.row(SQL, &[node.into(), until.into()]).await? else {
        return Ok(None);
    };
    let progress = ReconciliationProgress {
        read_until: row.optional_time("read_until")?,
        compared_on: row.optional_int("compared_on")?.map(UtcDay::from_number),
    };
    tx.commit().await?;
    Ok(Some(progress))
}

/// Extends a node's claim. False if it has lost it.
pub async fn renew(store: &Store, node: NodeId, until: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str =
        "update reconciliations set leased_until = $2 where id = 1 and leased_by = $1";
    let mut tx = store.write().await?;
    let renewed = tx.execute(SQL, &[node.into(), until.into()]).await?;
    tx.commit().await?;
    Ok(renewed == 1)
}

/// Ends a node's claim, with how far it has come, unless another node has claimed it since.
pub async fn release(
    store: &Store,
    node: NodeId,
    progress: &ReconciliationProgress,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update reconciliations set leased_by = null, leased_until = 0, read_until = $2, compared_on = $3
        where id = 1 and leased_by = $1";
    let day = progress.compared_on.map(UtcDay::number);
    let mut tx = store.write().await?;
    tx.execute(SQL, &[node.into(), progress.read_until.into(), day.into()]).await?;
    tx.commit().await
}
