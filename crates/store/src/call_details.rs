//! One call, with everything that is recorded about it.
//!
//! A request id that this service made contains its time, which bounds the search by the primary
//! key, so that these calls need no index by it. One that the caller chose has an index.

use domain::id::{CallId, CustomerId, NodeId, RequestId};
use domain::time::Timestamp;

use crate::calls::{self, Call};
use crate::options::DatabaseKind;
use crate::sql::{SqlRow, SqlValue, hex};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// How many calls one search returns: the newest.
const CALLS_MAX: i64 = 20;
/// A call begins at most this long before its request's id was made: clocks of nodes differ.
const EARLIER_S: i64 = 60;
/// A call begins at most this long after its request's id was made: its body is read first.
const LATER_S: i64 = 3_600;

/// A call with what only operators see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDetails {
    /// The call.
    pub call: Call,
    /// The node that made it.
    pub node: NodeId,
    /// The epoch of that node.
    pub epoch: i64,
    /// Until when its hold counts; none once it has ended.
    pub expires_at: Option<Timestamp>,
    /// Whether it had an `Idempotency-Key`.
    pub has_idempotency_key: bool,
}

/// What names a call.
#[derive(Debug, Clone, Copy)]
enum CallName<'a> {
    Call(CallId),
    Request(&'a str),
    IdempotencyKey([u8; 32]),
}

/// Which calls to find.
#[derive(Debug, Clone, Copy)]
pub struct CallSearch<'a> {
    name: CallName<'a>,
    customer: Option<CustomerId>,
}

impl<'a> CallSearch<'a> {
    /// The call with this id, or the calls of the request with this id.
    pub fn of_request(text: &'a str, customer: Option<CustomerId>) -> Self {
        let name = text.parse().map_or(CallName::Request(text), CallName::Call);
        Self { name, customer }
    }

    /// The calls that the customer made with an `Idempotency-Key`, given as its hash.
    pub const fn of_key(hash: [u8; 32], customer: CustomerId) -> Self {
        Self { name: CallName::IdempotencyKey(hash), customer: Some(customer) }
    }
}

/// The calls that match, the newest first.
pub async fn find(store: &Store, wanted: &CallSearch<'_>) -> Result<Vec<CallDetails>, StoreError> {
    find_in(&mut store.inspect().await?, wanted).await
}

/// The same under the usual limits on time, for requests of customers.
pub async fn find_soon(
    store: &Store,
    wanted: &CallSearch<'_>,
) -> Result<Vec<CallDetails>, StoreError> {
    find_in(&mut store.snapshot().await?, wanted).await
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    wanted: &CallSearch<'_>,
) -> Result<Vec<CallDetails>, StoreError> {
    match wanted.name {
        CallName::Call(id) => {
            found_by(tx, wanted, ("row_id = $1", vec![SqlValue::row_id(id)])).await
        }
        CallName::IdempotencyKey(hash) => {
            found_by(tx, wanted, ("idempotency_hash = $1", vec![hex(&hash).into()])).await
        }
        CallName::Request(text) => {
            let own: Option<RequestId> = text.parse().ok();
            match own.and_then(RequestId::made_at) {
                Some(made_at) => found_by(tx, wanted, around(text, made_at)).await,
                None => of_chosen_id(tx, wanted, text).await,
            }
        }
    }
}

/// The calls of a request whose id contains its time.
fn around(text: &str, made_at: Timestamp) -> (&'static str, Vec<SqlValue<'_>>) {
    let first = CallId::new(made_at.plus_seconds(-EARLIER_S), [0; 10]);
    let last = CallId::new(made_at.plus_seconds(LATER_S), [0; 10]);
    let values = vec![text.into(), SqlValue::row_id(first), SqlValue::row_id(last)];
    ("request_id = $1 and row_id >= $2 and row_id < $3", values)
}

/// The calls of a request whose caller chose its id.
async fn of_chosen_id(
    tx: &mut Tx,
    wanted: &CallSearch<'_>,
    text: &str,
) -> Result<Vec<CallDetails>, StoreError> {
    let mut found = Vec::new();
    for id in ids_of(tx, text, wanted.customer).await? {
        found.extend(found_by(tx, wanted, ("row_id = $1", vec![SqlValue::row_id(id)])).await?);
    }
    let has_our_form = text.parse::<RequestId>().is_ok();
    if found.is_empty() && has_our_form {
        // Former builds stored such an id like one of ours, which have no index.
        return found_by(tx, wanted, ("request_id = $1", vec![text.into()])).await;
    }
    Ok(found)
}

/// The ids of the newest calls with this id of the request, the newest first.
async fn ids_of(
    tx: &mut Tx,
    text: &str,
    customer: Option<CustomerId>,
) -> Result<Vec<CallId>, StoreError> {
    let mut values = vec![text.into()];
    values.extend(customer.map(SqlValue::from));
    let sql = ids_statement(tx.database(), customer.is_some());
    let rows = tx.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    rows.iter().map(|row| row.row_id("id")).collect()
}

fn ids_statement(database: DatabaseKind, has_customer: bool) -> String {
    let whose =
        if has_customer { "and customer = (select number from words where word = $2)" } else { "" };
    let new = match database {
        DatabaseKind::Sqlite => {
            format!("union all select id, held_at from new_calls where request_text = $1 {whose}")
        }
        DatabaseKind::Postgres => String::new(),
    };
    format!(
        "select id from (
            select * from (
                select id, held_at from ended_calls where request_text = $1 {whose}
                order by held_at desc, id desc limit {CALLS_MAX}
            ) as ended
            {new}
            union all
            select id, held_at from open_calls where request_text = $1 {whose}
        ) as calls order by held_at desc, id desc limit {CALLS_MAX}"
    )
}

/// The newest calls that meet the condition and belong to the customer, if there is one.
async fn found_by(
    tx: &mut Tx,
    wanted: &CallSearch<'_>,
    (condition, mut values): (&str, Vec<SqlValue<'_>>),
) -> Result<Vec<CallDetails>, StoreError> {
    const COLUMNS: &str = "
        id, customer_id, key_id, creator_id, platform, method, path, route, cost, credits, state,
        outcome, status, request_id, held_at, resolved_at, duration_ms, upstream_ms, tag, node_id, epoch,
        expires_at, cast(case when idempotency_hash is null then 0 else 1 end as bigint) as has_key";
    let customer = match wanted.customer {
        Some(customer) => {
            values.push(customer.into());
            format!(" and customer_id = ${}", values.len())
        }
        None => String::new(),
    };
    let sql = format!(
        "select {COLUMNS} from call_rows where {condition}{customer}
         order by held_at desc, id desc limit {CALLS_MAX}"
    );
    let rows = tx.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    rows.iter().map(details).collect()
}

fn details(row: &SqlRow) -> Result<CallDetails, StoreError> {
    Ok(CallDetails {
        call: calls::call(row)?,
        node: row.parse("node_id", "calls")?,
        epoch: row.int("epoch")?,
        expires_at: row.optional_time("expires_at")?,
        has_idempotency_key: row.int("has_key")? != 0,
    })
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};

    use super::*;
    use crate::testing;

    const INDEX: &str = "ended_calls_by_request";

    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn postgres_finds_the_calls_of_a_chosen_id_by_the_index() {
        let store = testing::postgres().await;
        let mut connection = PgConnection::connect(&store.options().url).await.unwrap();
        sqlx::query("set enable_seqscan = off").execute(&mut connection).await.unwrap();
        for has_customer in [false, true] {
            let sql = ids_statement(DatabaseKind::Postgres, has_customer);
            let sql = sql.replace("$1", "'mine'").replace("$2", "'cus_1'");

            let plan = sqlx::query(AssertSqlSafe(format!("explain {sql}")));
            let plan = plan.fetch_all(&mut connection).await.unwrap();

            let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            assert!(lines.iter().any(|line| line.contains(INDEX)), "{}", lines.join("\n"));
        }
        connection.close().await.unwrap();
    }

    #[tokio::test]
    async fn sqlite_finds_the_calls_of_a_chosen_id_by_the_index() {
        let mut store = testing::sqlite().await;
        store.shut().await;
        let mut connection = SqliteConnection::connect(&store.options().url).await.unwrap();
        for has_customer in [false, true] {
            let sql = ids_statement(DatabaseKind::Sqlite, has_customer);
            let sql = sql.replace("$1", "'mine'").replace("$2", "'cus_1'");

            let plan = sqlx::query(AssertSqlSafe(format!("explain query plan {sql}")));
            let plan = plan.fetch_all(&mut connection).await.unwrap();

            let lines: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            assert!(lines.iter().any(|line| line.contains(INDEX)), "{}", lines.join("\n"));
        }
        connection.close().await.unwrap();
    }
}
