//! Retention of calls: what ended long ago is summed up by day, key, account, route, tag and
//! outcome, and its rows are deleted.
//!
//! One transaction does both for a batch, so that `calls` and `call_totals` together have every
//! ended call once, at any time and after any crash. Nodes skip each other's rows.

use domain::id::CallId;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::sql::SqlKind;
use crate::tx::{RowTable, Tx};
use crate::{Store, StoreError, dialect};

/// What one batch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollUpBatch {
    /// The number of calls that were summed up and deleted.
    pub calls: u64,
    /// The last one; the next batch begins after it. None if there was nothing to do.
    pub last: Option<CallId>,
}

/// Sums up and deletes the oldest ended calls that began before `before`, at most `limit`. Calls up
/// to `after` are passed over, because an earlier batch has seen them.
///
/// A call that is open, or that an `Idempotency-Key` refers to, stays.
pub async fn roll_up(
    store: &Store,
    after: Option<CallId>,
    before: Timestamp,
    limit: i64,
) -> Result<RollUpBatch, StoreError> {
    let mut tx = store.write().await?;
    let ids = oldest(&mut tx, after, before, limit).await?;
    let Some(last) = ids.last() else { return Ok(RollUpBatch { calls: 0, last: None }) };
    let last = last.parse().map_err(|_| StoreError::corrupt("calls", last))?;
    tx.rows_over(ADD, rows(&ids)).await?;
    tx.rows_over(DELETE, rows(&ids)).await?;
    tx.commit().await?;
    Ok(RollUpBatch { calls: u64::try_from(ids.len()).unwrap_or(u64::MAX), last: Some(last) })
}

/// Locks the oldest calls that may go. Ids sort by time, so that the primary key finds them.
async fn oldest(
    tx: &mut Tx,
    after: Option<CallId>,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "
        select id from calls
        where id > $1 and id < $2 and held_at < $3 and state <> 'held'
          and (idempotency_hash is null or not exists (
              select 1 from idempotency i
              where i.customer_id = calls.customer_id and i.key_hash = calls.idempotency_hash
                and i.call_id = calls.id))
        order by id limit $4";
    let sql = format!("{SQL}{}", dialect::for_update_skip_locked(tx.database()));
    let after = after.map_or_else(String::new, |id| id.to_string());
    let first_to_stay = CallId::new(before, [0; 10]);
    let values = [after.as_str().into(), first_to_stay.into(), before.into(), limit.max(1).into()];
    let found = tx.rows(AssertSqlSafe(sql), &values).await?;
    found.iter().map(|row| row.text("id")).collect()
}

fn rows(ids: &[String]) -> RowTable<'_> {
    let mut table = RowTable::new(&[SqlKind::Text]);
    for id in ids {
        table.push([id.as_str().into()]);
    }
    table
}

/// In the order of the key, so that two nodes never wait for each other's totals.
const ADD: &str = "
    with v (id) as ({rows})
    insert into call_totals (customer_id, day, key_id, creator_id, platform, method, route, tag, outcome,
        calls, credits, ok)
    select customer_id, held_at / 86400000000, key_id, creator_id, platform, method, route,
           coalesce(tag, ''), outcome, count(*), cast(sum(credits) as bigint),
           cast(sum(case when state = 'settled' and status < 400 then 1 else 0 end) as bigint)
    from calls where id in (select id from v)
    group by customer_id, held_at / 86400000000, key_id, creator_id, platform, method, route,
             coalesce(tag, ''), outcome
    order by customer_id, held_at / 86400000000, key_id, creator_id, platform, method, route,
             coalesce(tag, ''), outcome
    on conflict (customer_id, day, key_id, creator_id, platform, method, route, tag, outcome)
    do update set
        calls = call_totals.calls + excluded.calls,
        credits = call_totals.credits + excluded.credits,
        ok = call_totals.ok + excluded.ok";

const DELETE: &str = "
    with v (id) as ({rows})
    delete from calls where id in (select id from v)";
