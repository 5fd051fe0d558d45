//! Networks in which customers logged in, as earlier versions stored them. Nothing reads them any
//! more; a node of an earlier version may still write them.

use domain::time::Timestamp;

use crate::{Store, StoreError};

/// How long a network is kept after its last login, in seconds.
const KEPT_S: i64 = 90 * 86_400;

/// Deletes networks whose last login is too old, and returns how many.
pub async fn delete_old(store: &Store, now: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "delete from login_networks where last_login_at <= $1";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[now.plus_seconds(-KEPT_S).into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}
