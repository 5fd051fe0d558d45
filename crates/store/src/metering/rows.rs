//! Calls as rows: open ones in `open_calls`, ended ones in `ended_calls` (on SQLite first in
//! `new_calls`), with the numbers of words in place of texts that repeat.

use std::collections::BTreeSet;

use domain::call_tag::CallTag;
use domain::id::{CallId, RequestId};
use domain::time::Timestamp;
use sqlx::types::Uuid;

use super::Hold;
use super::end::CallEnd;
use crate::StoreError;
use crate::options::DatabaseKind;
use crate::sql::{SqlKind, SqlRow, SqlValue};
use crate::statement_batch::BatchedStatement;
use crate::tx::{RowTable, Tx};
use crate::words::{self, WordCache, WordNumbers};

/// The numbers of the words that a call has from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallNumbers {
    pub(super) customer: i64,
    pub(super) key: i64,
    pub(super) account: i64,
    pub(super) platform: i64,
    pub(super) method: i64,
    pub(super) route: i64,
}

impl CallNumbers {
    /// Those of a hold, if all its words are known.
    fn of(hold: &Hold, words: &WordCache) -> Option<Self> {
        Some(Self {
            customer: words.get(&hold.customer.to_string())?,
            key: words.get(&hold.key.to_string())?,
            account: words.get(hold.account.as_str())?,
            platform: words.get(hold.platform.stored_name())?,
            method: words.get(hold.method.as_str())?,
            route: words.get(&hold.route)?,
        })
    }
}

fn words_of(hold: &Hold) -> [String; 6] {
    [
        hold.customer.to_string(),
        hold.key.to_string(),
        hold.account.as_str().to_owned(),
        hold.platform.stored_name().to_owned(),
        hold.method.as_str().to_owned(),
        hold.route.to_string(),
    ]
}

/// What both tables have of a call.
#[derive(Debug, Clone, Copy)]
struct RowParts<'r> {
    id: CallId,
    numbers: CallNumbers,
    node: i64,
    path: Option<&'r str>,
    cost: i64,
    request: Option<Uuid>,
    request_text: Option<&'r str>,
    epoch: i64,
    held_at: Timestamp,
    hash: Option<&'r [u8]>,
    tag: Option<&'r str>,
}

/// A call that was taken out of `open_calls`.
#[derive(Debug)]
pub(super) struct TakenRow {
    pub(super) id: CallId,
    pub(super) numbers: CallNumbers,
    node: i64,
    path: Option<String>,
    pub(super) cost: i64,
    request: Option<Uuid>,
    request_text: Option<String>,
    epoch: i64,
    pub(super) held_at: Timestamp,
    pub(super) hash: Option<Vec<u8>>,
    tag: Option<String>,
}

impl TakenRow {
    /// Takes these calls out of `open_calls`, those that are in it.
    pub(super) async fn take(
        tx: &mut Tx,
        ids: impl Iterator<Item = CallId>,
    ) -> Result<Vec<Self>, StoreError> {
        const TAKE: &str = "
            with v (id) as ({rows})
            delete from open_calls where open_calls.id in (select id from v)
            returning id, cast(customer as bigint) as customer, cast(key as bigint) as key,
                cast(account as bigint) as account, cast(platform as bigint) as platform,
                cast(method as bigint) as method, cast(route as bigint) as route,
                cast(node as bigint) as node, path, cost, request, request_text, epoch, held_at,
                idempotency_hash, tag";
        let rows = tx.rows_over(TAKE, id_rows(ids)).await?;
        rows.iter().map(Self::read).collect()
    }

    fn read(row: &SqlRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.row_id("id")?,
            numbers: CallNumbers {
                customer: row.int("customer")?,
                key: row.int("key")?,
                account: row.int("account")?,
                platform: row.int("platform")?,
                method: row.int("method")?,
                route: row.int("route")?,
            },
            node: row.int("node")?,
            path: row.optional_text("path")?,
            cost: row.int("cost")?,
            request: row.optional_uuid("request")?,
            request_text: row.optional_text("request_text")?,
            epoch: row.int("epoch")?,
            held_at: row.time("held_at")?,
            hash: row.optional_bytes("idempotency_hash")?,
            tag: row.optional_text("tag")?,
        })
    }

    fn parts(&self) -> RowParts<'_> {
        RowParts {
            id: self.id,
            numbers: self.numbers,
            node: self.node,
            path: self.path.as_deref(),
            cost: self.cost,
            request: self.request,
            request_text: self.request_text.as_deref(),
            epoch: self.epoch,
            held_at: self.held_at,
            hash: self.hash.as_deref(),
            tag: self.tag.as_deref(),
        }
    }
}

/// The node that holds calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowOrigin<'a> {
    pub(super) node: &'a str,
    pub(super) epoch: i64,
}

/// The rows that a batch writes. Sorted by id, so that neighboring rows are neighbors in the table.
#[derive(Default)]
pub(super) struct NewRows<'a> {
    /// Granted calls that go on, and until when their holds count.
    pub(super) open: Vec<(&'a Hold, Timestamp)>,
    /// Calls of this node that have ended.
    pub(super) ended: Vec<(&'a Hold, CallEnd<'a>)>,
    /// Calls that were taken out of `open_calls`.
    pub(super) taken: Vec<(&'a TakenRow, CallEnd<'a>)>,
}

impl<'a> NewRows<'a> {
    /// The statements that insert the ended and the open calls.
    pub(super) async fn statements(
        &self,
        tx: &mut Tx,
        origin: RowOrigin<'_>,
        words: &mut WordCache,
    ) -> Result<[BatchedStatement<'a>; 2], StoreError> {
        let mut of_holds = self.numbers(tx, origin, words).await?.into_iter();
        let number = |word: &str| words.get(word).ok_or_else(|| StoreError::corrupt("words", word));
        let node = number(origin.node)?;
        let mut ended = Vec::with_capacity(self.ended.len() + self.taken.len());
        for ((hold, end), numbers) in self.ended.iter().zip(of_holds.by_ref()) {
            let row = parts_of(hold, numbers, node, origin.epoch);
            ended.push((row, number(end.outcome.as_str())?, *end));
        }
        for (row, end) in &self.taken {
            ended.push((row.parts(), number(end.outcome.as_str())?, *end));
        }
        let mut open = Vec::with_capacity(self.open.len());
        for ((hold, expires_at), numbers) in self.open.iter().zip(of_holds) {
            open.push((parts_of(hold, numbers, node, origin.epoch), *expires_at));
        }
        ended.sort_unstable_by_key(|(row, ..)| row.id);
        open.sort_unstable_by_key(|(row, _)| row.id);
        Ok([inserting_ended(Self::insert(tx), &ended), inserting_open(&open)])
    }

    /// Inserts calls that have ended. On SQLite they are counted as usage later.
    fn insert(tx: &Tx) -> &'static str {
        match tx.database() {
            DatabaseKind::Sqlite => INSERT_NEW,
            DatabaseKind::Postgres => INSERT_ENDED,
        }
    }

    /// The holds of this node's calls: those of `ended`, then those of `open`.
    fn holds(&self) -> impl Iterator<Item = &'a Hold> {
        let ended = self.ended.iter().map(|(hold, _)| *hold);
        ended.chain(self.open.iter().map(|(hold, _)| *hold))
    }

    /// The numbers of each of `holds`. Words that are not known yet are read or added, and so are
    /// the node and the outcomes.
    async fn numbers(
        &self,
        tx: &mut Tx,
        origin: RowOrigin<'_>,
        words: &mut WordCache,
    ) -> Result<Vec<CallNumbers>, StoreError> {
        // Looked up once for nearly all calls, whose words are known.
        let known: Vec<Option<CallNumbers>> =
            self.holds().map(|hold| CallNumbers::of(hold, words)).collect();
        let unknown = self.holds().zip(&known).filter(|(_, numbers)| numbers.is_none());
        let mut wanted: BTreeSet<String> = unknown.flat_map(|(hold, _)| words_of(hold)).collect();
        let ends = self.ended.iter().map(|(_, end)| end);
        let ends = ends.chain(self.taken.iter().map(|(_, end)| end));
        let others = ends.map(|end| end.outcome.as_str()).chain([origin.node]);
        let others: BTreeSet<&str> = others.filter(|word| words.get(word).is_none()).collect();
        wanted.extend(others.into_iter().map(str::to_owned));
        wanted.retain(|word| words.get(word).is_none());
        if !wanted.is_empty() {
            words.learn(tx, &wanted).await?;
        }
        let numbered = self.holds().zip(known).map(|(hold, found)| {
            let numbers = found.or_else(|| CallNumbers::of(hold, words));
            numbers.ok_or_else(|| StoreError::corrupt("words", hold.call_id))
        });
        numbered.collect()
    }
}

/// Inserts calls that were taken out of `open_calls`, as ended and already counted as usage.
pub(super) async fn insert_taken(
    tx: &mut Tx,
    taken: &[(&TakenRow, CallEnd<'_>)],
) -> Result<(), StoreError> {
    let outcomes = taken.iter().map(|(_, end)| end.outcome.as_str().to_owned()).collect();
    let numbers: WordNumbers = words::numbers(tx, &outcomes).await?;
    let mut rows = Vec::with_capacity(taken.len());
    for (row, end) in taken {
        let outcome = end.outcome.as_str();
        let number = numbers.get(outcome).ok_or_else(|| StoreError::corrupt("words", outcome))?;
        rows.push((row.parts(), *number, *end));
    }
    rows.sort_unstable_by_key(|(parts, ..)| parts.id);
    tx.together([inserting_ended(INSERT_ENDED, &rows)]).await?;
    Ok(())
}

fn parts_of(hold: &Hold, numbers: CallNumbers, node: i64, epoch: i64) -> RowParts<'_> {
    // Other ids are found by their text: see `call_details`.
    let request: Option<RequestId> = hold.request_id.parse().ok();
    let request = request.filter(|id| id.made_at().is_some());
    RowParts {
        id: hold.call_id,
        numbers,
        node,
        path: (hold.path != *hold.route).then_some(hold.path.as_str()),
        cost: hold.cost.whole(),
        request: request.map(|id| Uuid::from_bytes(id.bytes())),
        request_text: request.is_none().then_some(hold.request_id.as_str()),
        epoch,
        held_at: hold.held_at,
        hash: hold.idempotency.as_ref().map(|claim| claim.key_hash.as_slice()),
        tag: hold.tag.as_ref().map(CallTag::as_str),
    }
}

/// Ids as the rows of a statement.
pub(super) fn id_rows(ids: impl Iterator<Item = CallId>) -> RowTable<'static> {
    let mut table = RowTable::new(&[SqlKind::Uuid]);
    for id in ids {
        table.push([SqlValue::row_id(id)]);
    }
    table
}

const INSERT_ENDED: &str = "
    insert into ended_calls (id, customer, key, account, platform, method, route, outcome, node,
        path, cost, charged, status, request, request_text, epoch, held_at, lasted, duration_ms,
        upstream_ms, idempotency_hash, tag)
    {rows}";

const INSERT_NEW: &str = "
    insert into new_calls (id, customer, key, account, platform, method, route, outcome, node,
        path, cost, charged, status, request, request_text, epoch, held_at, lasted, duration_ms,
        upstream_ms, idempotency_hash, tag)
    {rows}";

fn inserting_ended<'a>(
    sql: &'static str,
    rows: &[(RowParts<'a>, i64, CallEnd<'_>)],
) -> BatchedStatement<'a> {
    let mut table = RowTable::new(ENDED_KINDS);
    for (parts, outcome, end) in rows {
        let [id, customer, key, account, platform, method, route] = beginning(parts);
        let lasted = end.resolved_at.unix_micros().saturating_sub(parts.held_at.unix_micros());
        table.push([
            id,
            customer,
            key,
            account,
            platform,
            method,
            route,
            (*outcome).into(),
            parts.node.into(),
            parts.path.into(),
            parts.cost.into(),
            i64::from(end.outcome.is_charged()).into(),
            end.status_number().into(),
            SqlValue::Uuid(parts.request),
            parts.request_text.into(),
            parts.epoch.into(),
            parts.held_at.into(),
            lasted.into(),
            end.duration_ms.map(stored_ms).into(),
            end.upstream_ms.map(stored_ms).into(),
            SqlValue::Bytes(parts.hash),
            parts.tag.into(),
        ]);
    }
    BatchedStatement::over(sql, table, &[])
}

fn inserting_open<'a>(rows: &[(RowParts<'a>, Timestamp)]) -> BatchedStatement<'a> {
    const SQL: &str = "
        insert into open_calls (id, customer, key, account, platform, method, route, node, path,
            cost, request, request_text, epoch, held_at, expires_at, idempotency_hash, tag)
        {rows}";
    let mut table = RowTable::new(OPEN_KINDS);
    for (parts, expires_at) in rows {
        let [id, customer, key, account, platform, method, route] = beginning(parts);
        table.push([
            id,
            customer,
            key,
            account,
            platform,
            method,
            route,
            parts.node.into(),
            parts.path.into(),
            parts.cost.into(),
            SqlValue::Uuid(parts.request),
            parts.request_text.into(),
            parts.epoch.into(),
            parts.held_at.into(),
            (*expires_at).into(),
            SqlValue::Bytes(parts.hash),
            parts.tag.into(),
        ]);
    }
    BatchedStatement::over(SQL, table, &[])
}

/// A duration as stored. One that four bytes cannot hold (a stream of 24 days) must not stop the
/// other calls of its commit.
fn stored_ms(duration: i64) -> i64 {
    duration.min(i32::MAX.into())
}

/// The first columns of both tables.
fn beginning(parts: &RowParts<'_>) -> [SqlValue<'static>; 7] {
    let numbers = &parts.numbers;
    [
        SqlValue::row_id(parts.id),
        numbers.customer.into(),
        numbers.key.into(),
        numbers.account.into(),
        numbers.platform.into(),
        numbers.method.into(),
        numbers.route.into(),
    ]
}

const ENDED_KINDS: &[SqlKind] = &[
    SqlKind::Uuid,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Text,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Uuid,
    SqlKind::Text,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Bytes,
    SqlKind::Text,
];

const OPEN_KINDS: &[SqlKind] = &[
    SqlKind::Uuid,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Text,
    SqlKind::Int,
    SqlKind::Uuid,
    SqlKind::Text,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Bytes,
    SqlKind::Text,
];
