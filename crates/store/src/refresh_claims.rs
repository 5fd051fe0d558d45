//! Claims of token refreshes, so that of several nodes one refreshes the token of an account.

use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::{Store, StoreError};

/// Claims the refresh of a token for one node until `until`. False if another node's claim has not
/// expired, or the account was changed meanwhile.
pub async fn claim(
    store: &Store,
    (customer, creator_id, version): (CustomerId, &CreatorId, i64),
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update accounts set refresh_claimed_until = $5
        where customer_id = $1 and creator_id = $2 and version = $3
          and (refresh_claimed_until is null or refresh_claimed_until <= $4)";
    let values = [customer.into(), creator_id.into(), version.into(), now.into(), until.into()];
    let mut tx = store.write().await?;
    let claimed = tx.execute(SQL, &values).await?;
    tx.commit().await?;
    Ok(claimed == 1)
}

/// Releases a claimed refresh, so that the next one need not wait until the claim expires.
pub async fn release(
    store: &Store,
    (customer, creator_id, version): (CustomerId, &CreatorId, i64),
) -> Result<(), StoreError> {
    const SQL: &str = "
        update accounts set refresh_claimed_until = null
        where customer_id = $1 and creator_id = $2 and version = $3";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[customer.into(), creator_id.into(), version.into()]).await?;
    tx.commit().await
}
