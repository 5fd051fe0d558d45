//! Usage that SQLite's writer has counted but not yet added to the usage tables.
//!
//! The calls of one transaction have many keys and endpoints, each of which would be a row to
//! change in two tables, on scattered pages. So a transaction appends its counts to one table, and
//! every few transactions the appended counts are added up. Usage is read from the views
//! `usage_by_day` and `usage_by_route`, which include both.
//!
//! Earlier versions wrote JSON, first by position and then with named members, into tables of their
//! own, which are read until they are empty. A row that cannot be read is set aside and reported;
//! it delays no call.

use domain::id::KeyId;

use super::count::{CallCounts, CountedEndpoint, EndedCallCounts};
use super::usage_json;
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// After this number of transactions, the pending counts are added up.
const NOTES_MAX: usize = 32;

/// Pending counts are also added up when there are this many: the commit that adds them up must not
/// take much longer than others, and every reader of usage reads them as well.
const COUNTS_MAX: usize = 512;

const NOTE: &str = "
    insert into usage_pending (customer_id, key_id, day, creator_id, platform, method, route, calls,
                               credits, errors, last_status, last_at)
    {rows}";

/// The table in which this version stores pending counts.
const PENDING: &str = "usage_pending";

/// The tables of earlier versions, with counts as JSON.
const EARLIER: [&str; 2] = ["usage_deltas", "usage_notes"];

/// The sum of the pending counts in the database. Only the writer adds or removes any.
#[derive(Debug, Default)]
pub(crate) struct UsageDeltas {
    counted: EndedCallCounts<'static>,
    count: usize,
}

impl UsageDeltas {
    /// Reads them. Rows that cannot be read are set aside.
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let mut deltas = Self::default();
        deltas.read_pending(tx).await?;
        for table in EARLIER {
            deltas.read_earlier(tx, table).await?;
        }
        Ok(deltas)
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
        self.count += usize::from(!self.counted.is_empty());
        Ok(())
    }

    async fn read_earlier(&mut self, tx: &mut Tx, table: &str) -> Result<(), StoreError> {
        let sql = format!("select id, counts from {table} order by id");
        for row in tx.rows(sqlx::AssertSqlSafe(sql), &[]).await? {
            let (id, text) = (row.int("id")?, row.text("counts")?);
            match usage_json::read(&text) {
                Ok(counted) => {
                    self.counted.add(counted);
                    self.count += 1;
                }
                Err(reason) => set_aside(tx, table, id, &text, &reason).await?,
            }
        }
        Ok(())
    }

    /// Appends a transaction's counts. Adds up all pending counts instead if that is due, or if
    /// usage is read all the time.
    pub(crate) async fn take(
        &mut self,
        tx: &mut Tx,
        counted: EndedCallCounts<'_>,
        is_read: bool,
    ) -> Result<(), StoreError> {
        if counted.is_empty() {
            return Ok(());
        }
        let is_due =
            self.count + 1 >= NOTES_MAX || self.counted.len() + counted.len() >= COUNTS_MAX;
        if is_read || is_due {
            self.counted.add(counted);
            return self.add_up(tx).await;
        }
        tx.rows_over(NOTE, counted.rows()).await?;
        self.counted.add(counted);
        self.count += 1;
        Ok(())
    }

    async fn add_up(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        tx.together(self.counted.parts()).await?;
        for table in [PENDING].into_iter().chain(EARLIER) {
            let sql = format!("delete from {table}");
            tx.execute(sqlx::AssertSqlSafe(sql), &[]).await?;
        }
        *self = Self::default();
        Ok(())
    }
}

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

/// Reads the pending counts at start, so that unreadable rows are set aside before the first call.
/// Returns how many rows are set aside in total.
pub(crate) async fn check_in(tx: &mut Tx) -> Result<i64, StoreError> {
    UsageDeltas::read(tx).await?;
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
