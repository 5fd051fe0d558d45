//! One call, with everything that is recorded about it.
//!
//! Calls have no index by request id, because every call would pay for it. An id that this service
//! made contains its time, which bounds the search by the primary key. One that the caller chose is
//! searched among the customer's calls, or, without a customer, in the whole table.

use domain::id::{CallId, CustomerId, NodeId, RequestId};
use domain::time::Timestamp;

use crate::calls::{self, Call};
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

/// The newest of the customer's calls that match, under the usual limits on time.
pub async fn find_one(
    store: &Store,
    wanted: &CallSearch<'_>,
) -> Result<Option<CallDetails>, StoreError> {
    Ok(find_in(&mut store.snapshot().await?, wanted).await?.into_iter().next())
}

pub(crate) async fn find_in(
    tx: &mut Tx,
    wanted: &CallSearch<'_>,
) -> Result<Vec<CallDetails>, StoreError> {
    const COLUMNS: &str = "
        id, customer_id, key_id, creator_id, platform, method, path, route, cost, credits, state,
        outcome, status, request_id, held_at, resolved_at, duration_ms, upstream_ms, tag, node_id, epoch,
        expires_at, cast(case when idempotency_hash is null then 0 else 1 end as bigint) as has_key";
    let (condition, mut values) = condition(wanted);
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

fn condition<'a>(wanted: &CallSearch<'a>) -> (&'static str, Vec<SqlValue<'a>>) {
    match wanted.name {
        CallName::Call(id) => ("row_id = $1", vec![SqlValue::row_id(id)]),
        CallName::IdempotencyKey(hash) => ("idempotency_hash = $1", vec![hex(&hash).into()]),
        CallName::Request(text) => {
            let own: Option<RequestId> = text.parse().ok();
            match own.and_then(RequestId::made_at) {
                Some(made_at) => {
                    let first = CallId::new(made_at.plus_seconds(-EARLIER_S), [0; 10]);
                    let last = CallId::new(made_at.plus_seconds(LATER_S), [0; 10]);
                    let values = vec![text.into(), SqlValue::row_id(first), SqlValue::row_id(last)];
                    ("request_id = $1 and row_id >= $2 and row_id < $3", values)
                }
                None => ("request_id = $1", vec![text.into()]),
            }
        }
    }
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
