//! Nodes: the servers that share this database, and this installation's single facts.

use domain::id::NodeId;
use domain::time::Timestamp;

use crate::tx::Tx;
use crate::{Store, StoreError};

/// A server that uses, or used, this database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// How often it started.
    pub epoch: i64,
    /// When it last said that it runs.
    pub heartbeat_at: Timestamp,
}

/// Says that this node runs. False when the node is unknown: `metering::recover` makes it known.
pub async fn heartbeat(store: &Store, id: NodeId, now: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str = "update nodes set heartbeat_at = $2 where id = $1";
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &[id.into(), now.into()]).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// All nodes that ever were, the one seen last first.
pub async fn list(store: &Store) -> Result<Vec<Node>, StoreError> {
    const SQL: &str = "select id, epoch, heartbeat_at from nodes order by heartbeat_at desc, id";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Node { id: row.parse(0, "nodes")?, epoch: row.int(1)?, heartbeat_at: row.time(2)? })
        })
        .collect()
}

/// A single fact of this installation, such as the id of the only node on SQLite.
pub async fn setting(store: &Store, name: &str) -> Result<Option<String>, StoreError> {
    const SQL: &str = "select value from settings where name = $1";
    let row = store.read().await?.row(SQL, &[name.into()]).await?;
    row.map(|row| row.text(0)).transpose()
}

/// Stores a fact unless there is one of this name; gives the stored one.
pub async fn settle_setting(store: &Store, name: &str, value: &str) -> Result<String, StoreError> {
    const SQL: &str = "
        insert into settings (name, value) values ($1, $2)
        on conflict (name) do update set value = settings.value returning value";
    let mut tx = store.write().await?;
    let row = tx.row(SQL, &[name.into(), value.into()]).await?;
    tx.commit().await?;
    row.map_or_else(|| Err(StoreError::corrupt("settings", name)), |row| row.text(0))
}

/// Begins the next epoch of a node, in the transaction that ends the calls of the one before.
pub(crate) async fn begin_epoch(
    tx: &mut Tx,
    id: NodeId,
    now: Timestamp,
) -> Result<i64, StoreError> {
    const SQL: &str = "
        insert into nodes (id, epoch, heartbeat_at) values ($1, 1, $2)
        on conflict (id) do update
            set epoch = nodes.epoch + 1, heartbeat_at = excluded.heartbeat_at
        returning epoch";
    let row = tx.row(SQL, &[id.into(), now.into()]).await?;
    row.map_or_else(|| Err(StoreError::corrupt("nodes", id)), |row| row.int(0))
}
