//! Calls that ended lately, on SQLite: they are not yet where they stay, nor counted as usage.
//!
//! The calls of one transaction have many keys and endpoints, each of which would be a row to
//! change in two tables, on scattered pages; and their customers have places all over the index of
//! ended calls. So a transaction appends its calls to one table without an index, and every few
//! transactions these calls are counted and moved to where they stay, in its order. Usage is read
//! from the views `usage_by_day` and `usage_by_route`, and calls from `calls`, which include both.
//!
//! Earlier versions appended counts, as JSON by position, as JSON with named members and as
//! columns, to tables of their own, which are read until they are empty. A row that cannot be read
//! is set aside and reported; it delays no call.

use domain::id::KeyId;

use super::count::{CallCounts, CountedEndpoint, EndedCallCounts};
use super::usage_json;
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// After this number of transactions, new calls are counted and moved.
const COMMITS_MAX: usize = 32;

/// They are also counted when there are this many: the commit that does it must not take much
/// longer than others, and every reader of usage reads them as well.
const CALLS_MAX: usize = 1_500;

/// The table in which the previous version stored pending counts.
const PENDING: &str = "usage_pending";

/// The tables of earlier versions, with counts as JSON.
const EARLIER: [&str; 2] = ["usage_deltas", "usage_notes"];

/// What is not in the usage tables yet. Only the writer adds or removes any.
#[derive(Debug, Default)]
pub(crate) struct NewCalls {
    /// The sum of what earlier versions have left.
    counted: EndedCallCounts<'static>,
    /// The number of transactions that have added new calls.
    commits: usize,
    /// The number of new calls.
    calls: usize,
}

impl NewCalls {
    /// Reads them. Rows that cannot be read are set aside.
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let mut found = Self::default();
        found.read_pending(tx).await?;
        for table in EARLIER {
            found.read_earlier(tx, table).await?;
        }
        let row = tx.row("select count(*) as calls from new_calls", &[]).await?;
        let calls = row.map_or(Ok(0), |row| row.int("calls"))?;
        found.calls = usize::try_from(calls).unwrap_or(usize::MAX);
        Ok(found)
    }

    async fn read_pending(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        const ALL: &str = "
            select id, customer_id, key_id, day, creator_id, platform, method, route, calls, credits,
                   errors, last_status, last_at
            from usage_pending order by id";
        const AS_JSON: &str = "
            select json_object('customer', customer_id, 'key', key_id, 'day', day, 'account', creator_id,
                'platform', platform, 'method', method, 'route', route, 'calls', calls, 'credits', credits,
                'errors', errors, 'last_status', last_status, 'last_at', last_at) as counts
            from usage_pending where id = $1";
        for row in tx.rows(ALL, &[]).await? {
            match pending(&row) {
                Ok((endpoint, key, counts)) => self.counted.add_one(&endpoint, key, &counts),
                Err(error) => {
                    let id = row.int("id")?;
                    let Some(json) = tx.row(AS_JSON, &[id.into()]).await? else { continue };
                    set_aside(tx, PENDING, id, &json.text("counts")?, &error.to_string()).await?;
                }
            }
        }
        Ok(())
    }

    async fn read_earlier(&mut self, tx: &mut Tx, table: &str) -> Result<(), StoreError> {
        let sql = format!("select id, counts from {table} order by id");
        for row in tx.rows(sqlx::AssertSqlSafe(sql), &[]).await? {
            let (id, text) = (row.int("id")?, row.text("counts")?);
            match usage_json::read(&text) {
                Ok(counted) => self.counted.add(counted),
                Err(reason) => set_aside(tx, table, id, &text, &reason).await?,
            }
        }
        Ok(())
    }

    /// Notes that a transaction has added so many new calls. Counts and moves them if that is due,
    /// or if usage is read all the time.
    pub(crate) async fn note(
        &mut self,
        tx: &mut Tx,
        calls: usize,
        is_read: bool,
    ) -> Result<(), StoreError> {
        if calls == 0 {
            return Ok(());
        }
        self.commits += 1;
        self.calls += calls;
        let is_due = self.commits >= COMMITS_MAX || self.calls >= CALLS_MAX;
        if is_read || is_due { self.add_up(tx).await } else { Ok(()) }
    }

    async fn add_up(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        tx.together(self.counted.parts()).await?;
        for table in [PENDING].into_iter().chain(EARLIER) {
            let sql = format!("delete from {table}");
            tx.execute(sqlx::AssertSqlSafe(sql), &[]).await?;
        }
        sort_in(tx).await?;
        *self = Self::default();
        Ok(())
    }
}

/// Counts new calls and moves them to where they stay. Any writer may do it: what the metering's
/// writer remembers only decides when it does it next.
pub(crate) async fn sort_in(tx: &mut Tx) -> Result<(), StoreError> {
    for sql in [ADD_DAYS, ADD_ROUTES, MOVE, EMPTY] {
        tx.execute(sql, &[]).await?;
    }
    Ok(())
}

/// A failure undoes the whole transaction, as in `dialect::undoing_all`.
const ADD_DAYS: &str = "
    insert or rollback into usage_daily (customer_id, key_id, day, calls, credits, ok, errors)
    select customer.word, key.word, n.day, n.calls, n.credits, n.ok, n.calls - n.ok
    from (
        select customer, key, held_at / 86400000000 as day, count(*) as calls,
               sum(cost * charged) as credits,
               sum(case when charged = 1 and status < 400 then 1 else 0 end) as ok
        from new_calls group by customer, key, held_at / 86400000000
    ) n
    join words customer on customer.number = n.customer
    join words key on key.number = n.key
    where true
    on conflict (customer_id, key_id, day) do update set
        calls = usage_daily.calls + excluded.calls,
        credits = usage_daily.credits + excluded.credits,
        ok = usage_daily.ok + excluded.ok, errors = usage_daily.errors + excluded.errors";

/// On SQLite, a column beside `max` has its value in the row with the maximum.
const ADD_ROUTES: &str = "
    insert or rollback into usage_routes (customer_id, key_id, day, creator_id, platform, method, route, calls,
                              errors, last_status, last_at)
    select customer.word, key.word, n.day, account.word, platform.word, method.word, route.word,
           n.calls, n.errors, n.last_status, n.last_at
    from (
        select customer, key, held_at / 86400000000 as day, account, platform, method, route,
               count(*) as calls,
               sum(case when charged = 1 and status < 400 then 0 else 1 end) as errors,
               status as last_status, max(held_at) as last_at
        from new_calls
        group by customer, key, held_at / 86400000000, account, platform, method, route
    ) n
    join words customer on customer.number = n.customer
    join words key on key.number = n.key
    join words account on account.number = n.account
    join words platform on platform.number = n.platform
    join words method on method.number = n.method
    join words route on route.number = n.route
    where true
    on conflict (customer_id, key_id, day, creator_id, platform, method, route) do update set
        calls = usage_routes.calls + excluded.calls,
        errors = usage_routes.errors + excluded.errors,
        last_status = case when excluded.last_at >= usage_routes.last_at
            then excluded.last_status else usage_routes.last_status end,
        last_at = case when excluded.last_at >= usage_routes.last_at
            then excluded.last_at else usage_routes.last_at end";

/// A call that is there already stays as it is, and `verify` reports its counts: it must not stop
/// all others.
const MOVE: &str = "insert or ignore into ended_calls select * from new_calls order by id";

const EMPTY: &str = "delete from new_calls";

/// Parses one pending row.
fn pending(row: &SqlRow) -> Result<(CountedEndpoint<'static>, KeyId, CallCounts), StoreError> {
    let name = |column| row.text(column).map(Into::into);
    let endpoint = CountedEndpoint {
        customer: row.parse("customer_id", PENDING)?,
        day: row.int("day")?,
        names: [name("creator_id")?, name("platform")?, name("method")?, name("route")?],
    };
    let counts = CallCounts {
        calls: row.int("calls")?,
        credits: row.int("credits")?,
        errors: row.int("errors")?,
        last_status: row.optional_int("last_status")?,
        last_at: row.optional_time("last_at")?,
    };
    Ok((endpoint, row.parse("key_id", PENDING)?, counts))
}

/// Moves an unreadable row to a table that nothing else reads.
async fn set_aside(
    tx: &mut Tx,
    table: &str,
    id: i64,
    counts: &str,
    reason: &str,
) -> Result<(), StoreError> {
    const KEEP: &str = "
        insert into usage_notes_set_aside (source, counts, reason) values ($1, $2, $3)";
    tx.execute(KEEP, &[table.into(), counts.into(), reason.into()]).await?;
    let sql = format!("delete from {table} where id = $1");
    tx.execute(sqlx::AssertSqlSafe(sql), &[id.into()]).await?;
    tracing::error!(
        table,
        id,
        reason,
        "an unreadable row of usage counts was set aside; `verify` shows what is missing"
    );
    Ok(())
}

/// Adds up what is pending at start, so that unreadable rows are set aside before the first call.
/// Returns how many rows are set aside in total.
pub(crate) async fn check_in(tx: &mut Tx) -> Result<i64, StoreError> {
    NewCalls::read(tx).await?.add_up(tx).await?;
    count_in(tx).await
}

/// The number of usage rows set aside because they could not be read. 0 on PostgreSQL, which adds
/// to the usage tables immediately.
pub async fn count_set_aside(store: &Store) -> Result<i64, StoreError> {
    if store.database() == crate::options::DatabaseKind::Postgres {
        return Ok(0);
    }
    count_in(&mut store.read().await?).await
}

async fn count_in(tx: &mut Tx) -> Result<i64, StoreError> {
    let row = tx.row("select count(*) as set_aside from usage_notes_set_aside", &[]).await?;
    row.map_or(Ok(0), |row| row.int("set_aside"))
}
