//! Unmatched payments: money at the processor that granted nothing and is left for the operator.

use domain::payment::Mismatch;
use domain::time::Timestamp;

use crate::tx::Tx;
use crate::{Store, StoreError};

/// Money that matches no order, or not what was agreed.
#[derive(Debug, Clone, Copy)]
pub struct UnmatchedMoney<'a> {
    /// The processor's object.
    pub object: &'a str,
    /// Why it does not match.
    pub reason: Mismatch,
    /// What was expected and what was found; never a secret.
    pub details: &'a str,
    /// The current time.
    pub at: Timestamp,
}

/// An unmatched payment as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedCount {
    /// The processor's object.
    pub object: String,
    /// Why it does not match.
    pub reason: Mismatch,
    /// What was expected and what was found.
    pub details: String,
    /// How often it was seen.
    pub times: i64,
    /// When it was first seen.
    pub first_at: Timestamp,
}

/// The newest unmatched payments, at most `limit`.
pub async fn list(store: &Store, limit: i64) -> Result<Vec<UnmatchedCount>, StoreError> {
    const SQL: &str = "
        select object_id, reason, details, times, first_at from unmatched_payments
        order by first_at desc, object_id, reason limit $1";
    let rows = store.read().await?.rows(SQL, &[limit.into()]).await?;
    rows.iter()
        .map(|row| {
            Ok(UnmatchedCount {
                object: row.text("object_id")?,
                reason: row.parse("reason", "unmatched_payments")?,
                details: row.text("details")?,
                times: row.int("times")?,
                first_at: row.time("first_at")?,
            })
        })
        .collect()
}

/// Ends the open rows of an object that was granted after all, so that nobody decides about it.
pub(crate) async fn close_granted(
    tx: &mut Tx,
    object: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        update unmatched_payments
        set settled_at = $2, settled_by = 'creator-gateway', settlement = 'granted since'
        where object_id = $1 and settled_at is null";
    tx.execute(SQL, &[object.into(), at.into()]).await?;
    Ok(())
}

/// Records an unmatched payment. True if it was not known yet.
pub(crate) async fn note(tx: &mut Tx, unmatched: &UnmatchedMoney<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into unmatched_payments (object_id, reason, details, times, first_at, last_at)
        values ($1, $2, $3, 1, $4, $4)
        on conflict (object_id, reason) do update set
            times = unmatched_payments.times + 1, last_at = excluded.last_at
        returning times";
    let values = [
        unmatched.object.into(),
        unmatched.reason.as_str().into(),
        unmatched.details.into(),
        unmatched.at.into(),
    ];
    let row = tx.row(SQL, &values).await?;
    row.map_or(Ok(false), |row| Ok(row.int("times")? == 1))
}
