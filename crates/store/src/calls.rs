//! The call log: one row for each metered call, which is also its hold, in `open_calls` until it
//! ends and in `ended_calls` from then on, on SQLite after a moment in `new_calls`.

use domain::account::CreatorId;
use domain::charge::CallState;
use domain::credits::Credits;
use domain::id::{CallId, CustomerId, KeyId};
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::options::DatabaseKind;
use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A logged call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call's id.
    pub id: CallId,
    /// The customer who made it.
    pub customer: CustomerId,
    /// The key it came with.
    pub key: KeyId,
    /// The account it was for.
    pub account: CreatorId,
    /// The account's platform.
    pub platform: Platform,
    /// The HTTP method.
    pub method: Method,
    /// The native path as requested, without its query.
    pub path: String,
    /// The catalogue's name of the endpoint, the shape of the path, or `unlisted`.
    pub route: String,
    /// What was held for it.
    pub cost: Credits,
    /// What was charged; none while it is running.
    pub credits: Option<Credits>,
    /// Whether it is held, settled or refunded.
    pub state: CallState,
    /// The outcome, usually an [`domain::charge::Outcome`]; none while it is running. A text,
    /// because a node of a newer version may have written a word that this version does not know.
    pub outcome: Option<String>,
    /// The platform's status code, if it responded.
    pub status: Option<u16>,
    /// What it is for, in the customer's own words.
    pub tag: Option<String>,
    /// The request id that the caller received.
    pub request: String,
    /// When it began.
    pub at: Timestamp,
    /// When it ended.
    pub resolved_at: Option<Timestamp>,
    /// Total duration in milliseconds.
    pub duration_ms: Option<i64>,
    /// How long the platform took, in milliseconds.
    pub upstream_ms: Option<i64>,
}

/// A filter by how calls ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusClass {
    /// The platform responded with 200–299.
    Success,
    /// The platform responded with 300–399.
    Redirection,
    /// The platform responded with 400–499.
    ClientError,
    /// The platform responded with 500–599.
    ServerError,
    /// Charged, with a status below 400.
    Ok,
    /// Ended in any other way.
    Error,
}

/// Which calls to list.
#[derive(Debug, Clone)]
pub struct RecentCalls {
    /// The customer whose calls to list.
    pub customer: CustomerId,
    /// Only those of this key.
    pub key: Option<KeyId>,
    /// Only those for the accounts that the key is limited to, if any. For a key that lists its own
    /// calls.
    pub only_allowed: bool,
    /// Only those for this account.
    pub account: Option<CreatorId>,
    /// Only those of this route, as the log names it.
    pub route: Option<String>,
    /// Only those with this tag.
    pub tag: Option<String>,
    /// Only those that ended this way.
    pub status_class: Option<StatusClass>,
    /// Only those that began before this instant.
    pub before: Option<Timestamp>,
    /// Approximate page size; at least one.
    pub limit: i64,
    /// The most ended calls that a page looks at for those that match, so that a rare one does not
    /// make it read millions. Only filters that the index does not answer count: all but `key`.
    pub scanned_max: i64,
}

impl RecentCalls {
    /// The most calls that a page looks at: a fraction of a second's work on either database.
    pub const SCANNED_MAX: i64 = 50_000;

    /// The newest calls of a customer, whatever they are.
    pub const fn of(customer: CustomerId, limit: i64) -> Self {
        Self {
            customer,
            key: None,
            only_allowed: false,
            account: None,
            route: None,
            tag: None,
            status_class: None,
            before: None,
            limit,
            scanned_max: Self::SCANNED_MAX,
        }
    }

    /// Whether each call must be read to know if it matches.
    const fn reads_calls(&self) -> bool {
        self.account.is_some()
            || self.route.is_some()
            || self.tag.is_some()
            || self.status_class.is_some()
    }
}

/// Calls, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPage {
    /// The calls. A page may exceed the limit when several calls began at the same instant: it
    /// never ends within an instant, so that no call is skipped or repeated.
    pub calls: Vec<Call>,
    /// The cursor for the next page; none on the last. A page that looked at its most calls has one
    /// with fewer calls than the limit too, even with none.
    pub next_before: Option<Timestamp>,
}

/// The newest calls that match.
pub async fn recent(store: &Store, wanted: &RecentCalls) -> Result<CallPage, StoreError> {
    let limit = wanted.limit.max(1);
    let mut tx = store.snapshot().await?;
    let is_bounded = wanted.reads_calls() || is_limited(&mut tx, wanted).await?;
    let looked_back_to = if is_bounded { last_scanned(&mut tx, wanted).await? } else { None };
    let found = newest(&mut tx, wanted, looked_back_to, limit).await?;
    let Some(&oldest) = found.last() else {
        return Ok(CallPage { calls: Vec::new(), next_before: looked_back_to });
    };
    let mut calls = since(&mut tx, wanted, oldest).await?;
    calls.sort_unstable_by_key(|call| std::cmp::Reverse((call.at, call.id)));
    let is_full = i64::try_from(found.len()).is_ok_and(|found| found >= limit);
    Ok(CallPage { calls, next_before: if is_full { Some(oldest) } else { looked_back_to } })
}

/// Whether the key that lists its own calls is limited to some accounts.
async fn is_limited(tx: &mut Tx, wanted: &RecentCalls) -> Result<bool, StoreError> {
    const SQL: &str = "select 1 as one from key_accounts where key_id = $1 limit 1";
    let Some(key) = wanted.key.filter(|_| wanted.only_allowed) else { return Ok(false) };
    Ok(tx.row(SQL, &[key.into()]).await?.is_some())
}

/// When the last of the calls that a page looks at began, if there are that many. Found by the
/// index.
async fn last_scanned(tx: &mut Tx, wanted: &RecentCalls) -> Result<Option<Timestamp>, StoreError> {
    const SQL: &str = "
        select held_at from ended_calls
        where customer = (select number from words where word = $1)
            and (cast($2 as text) is null or key = (select number from words where word = $2))
            and held_at < $3
        order by held_at desc limit 1 offset $4";
    let values = [
        wanted.customer.into(),
        wanted.key.map_or_else(|| None::<&str>.into(), SqlValue::from),
        wanted.before.map_or(i64::MAX, Timestamp::unix_micros).into(),
        (wanted.scanned_max.max(1) - 1).into(),
    ];
    let row = tx.row(SQL, &values).await?;
    row.map(|row| row.time("held_at")).transpose()
}

/// When the `limit` newest calls since `first` began, newest first.
async fn newest(
    tx: &mut Tx,
    wanted: &RecentCalls,
    first: Option<Timestamp>,
    limit: i64,
) -> Result<Vec<Timestamp>, StoreError> {
    // On SQLite, the latest calls are in a table of their own.
    let new = match tx.database() {
        DatabaseKind::Sqlite => {
            format!("union all select held_at from new_calls where {FILTER} and {ENDED_FILTER}")
        }
        DatabaseKind::Postgres => String::new(),
    };
    let sql = format!(
        "select held_at from (
            select * from (
                select held_at from ended_calls where {FILTER} and {ENDED_FILTER}
                order by held_at desc limit $11
            ) as ended
            {new}
            union all
            select held_at from open_calls where {FILTER} and {OPEN_FILTER}
        ) as calls order by held_at desc limit $11"
    );
    let mut values = values(wanted, first).to_vec();
    values.push(limit.into());
    let rows = tx.rows(AssertSqlSafe(sql), &values).await?;
    rows.iter().map(|row| row.time("held_at")).collect()
}

/// When the `nth` of the customer's calls after `after` began, in microseconds since 1970, if there
/// are that many. Found by the index, however many calls there are.
pub(crate) async fn instant_of(
    tx: &mut Tx,
    customer: CustomerId,
    after: i64,
    nth: usize,
) -> Result<Option<i64>, StoreError> {
    const WHERE: &str =
        "where customer = (select number from words where word = $1) and held_at > $2";
    let new = match tx.database() {
        DatabaseKind::Sqlite => format!("union all select held_at from new_calls {WHERE}"),
        DatabaseKind::Postgres => String::new(),
    };
    let sql = format!(
        "select held_at from (
            select * from (
                select held_at from ended_calls {WHERE} order by held_at limit $3 + 1
            ) as ended
            {new}
            union all
            select held_at from open_calls {WHERE}
        ) as calls order by held_at limit 1 offset $3"
    );
    let before = i64::try_from(nth.saturating_sub(1)).unwrap_or(i64::MAX - 1);
    let values = [customer.into(), after.into(), before.into()];
    let row = tx.row(AssertSqlSafe(sql), &values).await?;
    row.map(|row| row.int("held_at")).transpose()
}

/// The calls that began at `first` or later.
async fn since(
    tx: &mut Tx,
    wanted: &RecentCalls,
    first: Timestamp,
) -> Result<Vec<Call>, StoreError> {
    const COLUMNS: &str = "
        id, customer_id, key_id, creator_id, platform, method, path, route, cost, credits, state,
        outcome, status, request_id, held_at, resolved_at, duration_ms, upstream_ms, tag";
    let sql = format!("select {COLUMNS} from calls where {ROW_FILTER}");
    let rows = tx.rows(AssertSqlSafe(sql), &values(wanted, Some(first))).await?;
    rows.iter().map(call).collect()
}

/// The filter's values, with the instant of the first call.
fn values(wanted: &RecentCalls, first: Option<Timestamp>) -> [SqlValue<'_>; 10] {
    let before = wanted.before.map_or(i64::MAX, Timestamp::unix_micros);
    let ClassFilter { status_min, ended } = ClassFilter::of(wanted.status_class);
    [
        wanted.customer.into(),
        wanted.key.map_or_else(|| None::<&str>.into(), SqlValue::from),
        wanted.account.as_ref().map(CreatorId::as_str).into(),
        before.into(),
        status_min.into(),
        ended.into(),
        i64::from(wanted.only_allowed).into(),
        wanted.route.as_deref().into(),
        wanted.tag.as_deref().into(),
        first.map_or(i64::MIN, Timestamp::unix_micros).into(),
    ]
}

/// The filter's conditions on the tables of calls. A filter that is not set is null.
const FILTER: &str = "
    customer = (select number from words where word = $1)
    and (cast($2 as text) is null or key = (select number from words where word = $2))
    and (cast($3 as text) is null or account = (select number from words where word = $3))
    and held_at < $4 and held_at >= $10
    and ($7 = 0
        or account in (
            select w.number from key_accounts a join words w on w.word = a.creator_id where a.key_id = $2)
        or not exists (select 1 from key_accounts where key_id = $2))
    and (cast($8 as text) is null or route = (select number from words where word = $8))
    and (cast($9 as text) is null or tag = $9)";

/// Its conditions on how a call ended.
const ENDED_FILTER: &str = "
    (cast($5 as bigint) is null or (status >= $5 and status < $5 + 100))
    and (cast($6 as text) is null
        or $6 = case when charged = 1 and status < 400 then 'ok' else 'error' end)";

/// The same for calls that have not ended.
const OPEN_FILTER: &str = "cast($5 as bigint) is null and cast($6 as text) is null";

/// All of them, on the view of all tables.
const ROW_FILTER: &str = "
    customer_id = $1
    and (cast($2 as text) is null or key_id = $2)
    and (cast($3 as text) is null or creator_id = $3)
    and held_at < $4 and held_at >= $10
    and (cast($5 as bigint) is null or (status >= $5 and status < $5 + 100))
    and (cast($6 as text) is null or (
        state <> 'held' and $6 = case when state = 'settled' and status < 400 then 'ok' else 'error' end
    ))
    and ($7 = 0 or creator_id in (select creator_id from key_accounts where key_id = $2)
        or not exists (select 1 from key_accounts where key_id = $2))
    and (cast($8 as text) is null or route = $8)
    and (cast($9 as text) is null or tag = $9)";

/// A class as the filter takes it.
struct ClassFilter {
    /// The lowest status of the class.
    status_min: Option<i64>,
    /// `ok` or `error`.
    ended: Option<&'static str>,
}

impl ClassFilter {
    const fn of(class: Option<StatusClass>) -> Self {
        let (status_min, ended) = match class {
            None => (None, None),
            Some(StatusClass::Success) => (Some(200), None),
            Some(StatusClass::Redirection) => (Some(300), None),
            Some(StatusClass::ClientError) => (Some(400), None),
            Some(StatusClass::ServerError) => (Some(500), None),
            Some(StatusClass::Ok) => (None, Some("ok")),
            Some(StatusClass::Error) => (None, Some("error")),
        };
        Self { status_min, ended }
    }
}

/// The call in the first columns of a row.
pub(crate) fn call(row: &SqlRow) -> Result<Call, StoreError> {
    Ok(Call {
        id: row.parse("id", "calls")?,
        customer: row.parse("customer_id", "calls")?,
        key: row.parse("key_id", "calls")?,
        account: row.parse("creator_id", "calls")?,
        platform: row.platform("platform", "calls")?,
        method: row.parse("method", "calls")?,
        path: row.text("path")?,
        route: row.text("route")?,
        cost: row.credits("cost")?,
        credits: row.optional_int("credits")?.map(Credits::from_whole),
        state: row.parse("state", "calls")?,
        outcome: row.optional_text("outcome")?,
        status: row.status("status")?,
        tag: row.optional_text("tag")?,
        request: row.text("request_id")?,
        at: row.time("held_at")?,
        resolved_at: row.optional_time("resolved_at")?,
        duration_ms: row.optional_int("duration_ms")?,
        upstream_ms: row.optional_int("upstream_ms")?,
    })
}
