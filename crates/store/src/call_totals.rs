//! Retention of calls: what ended long ago is summed up by day, key, account, route, tag and
//! outcome, and its rows are deleted.
//!
//! One transaction does both for a batch, so that `ended_calls` and `call_totals` together have
//! every ended call once, at any time and after any crash. Nodes skip each other's rows.

use domain::id::CallId;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::sql::{SqlKind, SqlValue};
use crate::tx::{RowTable, Tx};
use crate::{DatabaseKind, Store, StoreError, dialect, metering};

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
    if tx.database() == DatabaseKind::Sqlite {
        // Only calls that are counted as usage may go.
        metering::sort_in(&mut tx).await?;
    }
    let ids = oldest(&mut tx, after, before, limit).await?;
    let Some(last) = ids.last().copied() else {
        return Ok(RollUpBatch { calls: 0, last: None });
    };
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
) -> Result<Vec<CallId>, StoreError> {
    const SQL: &str = "
        select e.id from ended_calls e
        where e.id > $1 and e.id < $2 and e.held_at < $3
          and (e.idempotency_hash is null or not exists (
              select 1 from idempotency i
              where i.customer_id = (select word from words where number = e.customer)
                and i.key_hash = {hash} and i.call_id = {call}))
        order by e.id limit $4";
    let database = tx.database();
    let sql = SQL.replacen("{hash}", &dialect::hex_of(database, "e.idempotency_hash"), 1).replacen(
        "{call}",
        &dialect::call_id(database, "e.id"),
        1,
    );
    let lock = dialect::for_update_of_skip_locked(database, "e");
    let after = after.unwrap_or_else(|| CallId::from_bytes([0; 16]));
    let first_to_stay = CallId::new(before, [0; 10]);
    let values = [
        SqlValue::row_id(after),
        SqlValue::row_id(first_to_stay),
        before.into(),
        limit.max(1).into(),
    ];
    let found = tx.rows(AssertSqlSafe(format!("{sql}{lock}")), &values).await?;
    found.iter().map(|row| row.row_id("id")).collect()
}

fn rows(ids: &[CallId]) -> RowTable<'static> {
    let mut table = RowTable::new(&[SqlKind::Uuid]);
    for id in ids {
        table.push([SqlValue::row_id(*id)]);
    }
    table
}

/// In the order of the key, so that two nodes never wait for each other's totals.
///
/// The calls are found and counted before their words: PostgreSQL orders eight joined tables at
/// once, and would join the whole log with the words first.
const ADD: &str = "
    with v (id) as ({rows}),
    n as (
        select customer, held_at / 86400000000 as day, key, account, platform, method, route,
               coalesce(tag, '') as tag, outcome, count(*) as calls,
               cast(sum(cost * charged) as bigint) as credits,
               cast(sum(case when charged = 1 and status < 400 then 1 else 0 end) as bigint) as ok
        from ended_calls where id in (select id from v)
        group by customer, held_at / 86400000000, key, account, platform, method, route,
                 coalesce(tag, ''), outcome
    )
    insert into call_totals (customer_id, day, key_id, creator_id, platform, method, route, tag, outcome,
        calls, credits, ok)
    select customer.word, n.day, key.word, account.word, platform.word, method.word, route.word, n.tag,
           outcome.word, n.calls, n.credits, n.ok
    from n
    join words customer on customer.number = n.customer
    join words key on key.number = n.key
    join words account on account.number = n.account
    join words platform on platform.number = n.platform
    join words method on method.number = n.method
    join words route on route.number = n.route
    join words outcome on outcome.number = n.outcome
    where true
    order by customer.word, n.day, key.word, account.word, platform.word, method.word, route.word,
             n.tag, outcome.word
    on conflict (customer_id, day, key_id, creator_id, platform, method, route, tag, outcome)
    do update set
        calls = call_totals.calls + excluded.calls,
        credits = call_totals.credits + excluded.credits,
        ok = call_totals.ok + excluded.ok";

const DELETE: &str = "
    with v (id) as ({rows})
    delete from ended_calls where id in (select id from v)";

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, PgConnection, Row as _};

    use super::*;
    use crate::testing;

    /// However large the log is, a batch reads its own calls and no others: the plan finds them by
    /// their ids, even if the tables are too small for PostgreSQL to care.
    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn a_batch_finds_its_calls_by_their_ids() {
        let store = testing::postgres().await;
        let mut connection = PgConnection::connect(&store.options().url).await.unwrap();
        sqlx::query("set enable_seqscan = off").execute(&mut connection).await.unwrap();
        let ids = "select unnest(array['00000000-0000-7000-8000-000000000000']::uuid[])";
        for sql in [ADD, DELETE] {
            let sql = format!("explain {}", sql.replacen("{rows}", ids, 1));

            let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();

            let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let by_id = |line: &String| line.contains("Index Cond: (id = ");
            assert!(plan.iter().any(by_id), "{}", plan.join("\n"));
        }
        connection.close().await.unwrap();
    }
}
