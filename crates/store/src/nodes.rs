//! Nodes, the processes that share this database, and the single values of an installation.

use domain::id::NodeId;
use domain::time::Timestamp;

use crate::tx::Tx;
use crate::{Store, StoreError};

/// A node that uses, or once used, this database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// How many times it has started.
    pub epoch: i64,
    /// When it last reported that it is running.
    pub heartbeat_at: Timestamp,
}

/// Records that this node is running. The stored time changes even if the clock stands still,
/// because others see by it that the node lives. False when the node is unknown:
/// `metering::recover` registers it.
pub async fn heartbeat(store: &Store, id: NodeId, now: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str = "
        update nodes set heartbeat_at = case when heartbeat_at = $2 then $2 + 1 else $2 end
        where id = $1";
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &[id.into(), now.into()]).await?;
    tx.commit().await?;
    Ok(changed == 1)
}

/// The latest heartbeat of each node.
pub(crate) async fn heartbeats(tx: &mut Tx) -> Result<Vec<(String, Timestamp)>, StoreError> {
    const SQL: &str = "select id, heartbeat_at from nodes";
    let rows = tx.rows(SQL, &[]).await?;
    rows.iter().map(|row| Ok((row.text("id")?, row.time("heartbeat_at")?))).collect()
}

/// The number of nodes that have reported since then that they are running.
pub async fn count_live(store: &Store, since: Timestamp) -> Result<i64, StoreError> {
    const SQL: &str = "select count(*) as nodes from nodes where heartbeat_at >= $1";
    let row = store.read().await?.row(SQL, &[since.into()]).await?;
    row.map_or(Ok(0), |row| row.int("nodes"))
}

/// All nodes ever registered, most recently seen first.
pub async fn list(store: &Store) -> Result<Vec<Node>, StoreError> {
    const SQL: &str = "select id, epoch, heartbeat_at from nodes order by heartbeat_at desc, id";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Node {
                id: row.parse("id", "nodes")?,
                epoch: row.int("epoch")?,
                heartbeat_at: row.time("heartbeat_at")?,
            })
        })
        .collect()
}

/// A single value of this installation, such as the id of the only node on SQLite.
pub async fn setting(store: &Store, name: &str) -> Result<Option<String>, StoreError> {
    const SQL: &str = "select value from settings where name = $1";
    let row = store.read().await?.row(SQL, &[name.into()]).await?;
    row.map(|row| row.text("value")).transpose()
}

/// Stores a value unless the name has one already. Returns the stored value.
pub async fn settle_setting(store: &Store, name: &str, value: &str) -> Result<String, StoreError> {
    const SQL: &str = "
        insert into settings (name, value) values ($1, $2)
        on conflict (name) do update set value = settings.value returning value";
    let mut tx = store.write().await?;
    let row = tx.row(SQL, &[name.into(), value.into()]).await?;
    tx.commit().await?;
    row.map_or_else(|| Err(StoreError::corrupt("settings", name)), |row| row.text("value"))
}

/// Begins a node's next epoch, in the transaction that ends the calls of its previous one.
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
    row.map_or_else(|| Err(StoreError::corrupt("nodes", id)), |row| row.int("epoch"))
}
