//! What the operator decided about unmatched payments.

use domain::payment::Mismatch;
use domain::time::Timestamp;

use crate::sql::SqlRow;
use crate::{Store, StoreError};

/// An unmatched payment with what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedPayment {
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
    /// When it was last seen.
    pub last_at: Timestamp,
    /// When it was settled; none while it waits for a decision.
    pub settled_at: Option<Timestamp>,
    /// Who settled it.
    pub settled_by: Option<String>,
    /// What was decided.
    pub settlement: Option<String>,
}

/// A decision about an unmatched payment.
#[derive(Debug, Clone, Copy)]
pub struct UnmatchedSettlement<'a> {
    /// The processor's object.
    pub object: &'a str,
    /// What was decided.
    pub decision: &'a str,
    /// Who decided.
    pub by: &'a str,
    /// The current time.
    pub at: Timestamp,
}

const COLUMNS: &str = "
    object_id, reason, details, times, first_at, last_at, settled_at, settled_by, settlement";

/// The newest unmatched payments; settled ones only if `with_settled` is set.
pub async fn list(
    store: &Store,
    with_settled: bool,
    limit: i64,
) -> Result<Vec<UnmatchedPayment>, StoreError> {
    let sql = format!(
        "select {COLUMNS} from unmatched_payments where $1 = 1 or settled_at is null
         order by first_at desc, object_id, reason limit $2"
    );
    let values = [i64::from(with_settled).into(), limit.into()];
    let rows = store.read().await?.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    rows.iter().map(payment).collect()
}

/// What is known about one object, one row for each reason.
pub async fn find(store: &Store, object: &str) -> Result<Vec<UnmatchedPayment>, StoreError> {
    let sql =
        format!("select {COLUMNS} from unmatched_payments where object_id = $1 order by reason");
    let rows = store.read().await?.rows(sqlx::AssertSqlSafe(sql), &[object.into()]).await?;
    rows.iter().map(payment).collect()
}

/// What became of a claim to settle an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettlementClaim {
    /// The decision is recorded for every row that was open, and is now to be carried out.
    Claimed,
    /// The same decision was recorded before.
    Repeated,
    /// Another decision was recorded before; nothing changed.
    Otherwise(String),
}

/// Records a decision for every open row of an object. Of concurrent claims one succeeds. A
/// decision that `moves_money` is refused if any row of the object was settled by another one.
pub async fn claim(
    store: &Store,
    settled: &UnmatchedSettlement<'_>,
    moves_money: bool,
) -> Result<SettlementClaim, StoreError> {
    const SQL: &str = "
        update unmatched_payments set settled_at = $2, settled_by = $3, settlement = $4
        where object_id = $1 and settled_at is null";
    const OTHER: &str = "
        select min(settlement) as settlement from unmatched_payments
        where object_id = $1 and settled_at is not null and settlement <> $2";
    let values =
        [settled.object.into(), settled.at.into(), settled.by.into(), settled.decision.into()];
    let mut tx = store.write().await?;
    let claimed = tx.execute(SQL, &values).await? > 0;
    let row = tx.row(OTHER, &[settled.object.into(), settled.decision.into()]).await?;
    let other = row.map(|row| row.optional_text("settlement")).transpose()?.flatten();
    match other {
        Some(other) if moves_money || !claimed => Ok(SettlementClaim::Otherwise(other)),
        _ if !claimed => Ok(SettlementClaim::Repeated),
        _ => {
            tx.commit().await?;
            Ok(SettlementClaim::Claimed)
        }
    }
}

/// Takes back a claim whose decision was certainly not carried out.
pub async fn reopen(store: &Store, settled: &UnmatchedSettlement<'_>) -> Result<(), StoreError> {
    const SQL: &str = "
        update unmatched_payments set settled_at = null, settled_by = null, settlement = null
        where object_id = $1 and settled_at = $2 and settled_by = $3 and settlement = $4";
    let values =
        [settled.object.into(), settled.at.into(), settled.by.into(), settled.decision.into()];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// Records an object that need not wait for a decision, such as the refund that settled another
/// one, before the processor reports it.
pub async fn note_settled(
    store: &Store,
    settled: &UnmatchedSettlement<'_>,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into unmatched_payments
            (object_id, reason, details, times, first_at, last_at, settled_at, settled_by, settlement)
        values ($1, $2, $4, 1, $3, $3, $3, $5, $4)
        on conflict (object_id, reason) do update set
            settled_at = coalesce(unmatched_payments.settled_at, excluded.settled_at),
            settled_by = coalesce(unmatched_payments.settled_by, excluded.settled_by),
            settlement = coalesce(unmatched_payments.settlement, excluded.settlement)";
    let values = [
        settled.object.into(),
        Mismatch::UnknownPayment.as_str().into(),
        settled.at.into(),
        settled.decision.into(),
        settled.by.into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

fn payment(row: &SqlRow) -> Result<UnmatchedPayment, StoreError> {
    Ok(UnmatchedPayment {
        object: row.text("object_id")?,
        reason: row.parse("reason", "unmatched_payments")?,
        details: row.text("details")?,
        times: row.int("times")?,
        first_at: row.time("first_at")?,
        last_at: row.time("last_at")?,
        settled_at: row.optional_time("settled_at")?,
        settled_by: row.optional_text("settled_by")?,
        settlement: row.optional_text("settlement")?,
    })
}
