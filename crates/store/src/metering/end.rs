//! Settling calls, whether by the batch, by recovery at start or by the sweeper.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{CallId, CustomerId, KeyId};
use domain::time::Timestamp;

use super::count::EndedCallCounts;
use super::{CallResolution, Hold};
use crate::StoreError;
use crate::balance::LockedBalances;
use crate::idempotency::StoredAnswer;
use crate::sql::{SqlKind, SqlRow, SqlValue, hex};
use crate::statement_batch::BatchedStatement;
use crate::tx::{RowTable, Tx};

/// How a call ends, whichever part of the code ends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallEnd<'a> {
    pub(crate) call_id: CallId,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<u16>,
    pub(crate) resolved_at: Timestamp,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) upstream_ms: Option<i64>,
    pub(crate) answer: Option<&'a StoredAnswer>,
    pub(crate) frees_key: bool,
}

/// A call that was just settled, with what its settlement is recorded by.
#[derive(Debug, Clone)]
pub(crate) struct SettledCall<'a> {
    pub(crate) end: CallEnd<'a>,
    pub(crate) customer: CustomerId,
    pub(crate) key: KeyId,
    pub(crate) creator_id: Cow<'a, str>,
    pub(crate) platform: Cow<'a, str>,
    pub(crate) method: Cow<'a, str>,
    pub(crate) route: Cow<'a, str>,
    pub(crate) cost: i64,
    pub(crate) held_at: Timestamp,
    pub(crate) idempotency_hash: Option<String>,
}

impl<'a> CallEnd<'a> {
    /// The end of a call that was never reported.
    pub(crate) const fn unseen(call_id: CallId, outcome: Outcome, resolved_at: Timestamp) -> Self {
        Self {
            call_id,
            outcome,
            status: None,
            resolved_at,
            duration_ms: None,
            upstream_ms: None,
            answer: None,
            frees_key: false,
        }
    }

    /// The end that the call's owner reported.
    pub(crate) fn of(resolution: &'a CallResolution) -> Self {
        Self {
            call_id: resolution.call_id,
            outcome: resolution.outcome,
            status: resolution.status,
            resolved_at: resolution.resolved_at,
            duration_ms: Some(resolution.duration_ms),
            upstream_ms: resolution.upstream_ms,
            answer: resolution.answer.as_ref(),
            frees_key: resolution.frees_key,
        }
    }

    /// What a call with this cost is charged.
    pub(crate) const fn credits(&self, cost: i64) -> i64 {
        if self.outcome.is_charged() { cost } else { 0 }
    }

    /// The status as stored.
    pub(crate) fn status_number(&self) -> Option<i64> {
        self.status.map(i64::from)
    }
}

impl<'a> SettledCall<'a> {
    /// A call settled with this end, whose hold is in memory.
    pub(crate) fn of(hold: &'a Hold, end: CallEnd<'a>) -> Self {
        Self {
            end,
            customer: hold.customer,
            key: hold.key,
            creator_id: hold.account.as_str().into(),
            platform: hold.platform.stored_name().into(),
            method: hold.method.as_str().into(),
            route: (&*hold.route).into(),
            cost: hold.cost.whole(),
            held_at: hold.held_at,
            idempotency_hash: hold.idempotency.map(|claim| hex(&claim.key_hash)),
        }
    }
}

/// The columns that settling a call sets in its row, if it is still held.
const COLUMNS: &[(&str, SqlKind)] = &[
    ("id", SqlKind::Text),
    ("state", SqlKind::Text),
    ("charged", SqlKind::Int),
    ("outcome", SqlKind::Text),
    ("status", SqlKind::Int),
    ("resolved_at", SqlKind::Int),
    ("duration_ms", SqlKind::Int),
    ("upstream_ms", SqlKind::Int),
];

fn row_of(end: &CallEnd<'_>) -> [SqlValue<'static>; 8] {
    [
        end.call_id.into(),
        end.outcome.state().as_str().into(),
        i64::from(end.outcome.is_charged()).into(),
        end.outcome.as_str().into(),
        end.status_number().into(),
        end.resolved_at.into(),
        end.duration_ms.into(),
        end.upstream_ms.into(),
    ]
}

/// The statement that settles calls whose holds are in memory. `closed_own` takes its rows.
///
/// The `|| ''`, here and below, keeps PostgreSQL from looking up each call in the index of open
/// calls, which it estimates to be cheaper than the index by id.
pub(crate) fn closing_own(ends: &[(CallEnd<'_>, Arc<Hold>)]) -> BatchedStatement<'static> {
    const SQL: &str = "
        update calls set
            state = {state}, credits = calls.cost * {charged}, outcome = {outcome},
            status = {status}, resolved_at = {resolved_at}, duration_ms = {duration_ms},
            upstream_ms = {upstream_ms}
        {from} where calls.id = {id} and calls.state || '' = 'held' {returning}";
    let mut seen = HashSet::with_capacity(ends.len());
    let mut values = Vec::with_capacity(ends.len() * COLUMNS.len());
    for (end, _) in ends {
        // The first of several settlements of a call wins.
        if seen.insert(end.call_id) {
            values.extend(row_of(end));
        }
    }
    BatchedStatement::update(SQL, COLUMNS, values)
}

/// The calls that were still held.
pub(crate) fn closed_own<'a>(
    ends: &'a [(CallEnd<'a>, Arc<Hold>)],
    rows: &[SqlRow],
) -> Result<Vec<SettledCall<'a>>, StoreError> {
    let mut by_id = HashMap::with_capacity(ends.len());
    for (end, hold) in ends {
        by_id.entry(end.call_id).or_insert((end, hold));
    }
    rows.iter()
        .map(|row| {
            let id: CallId = row.parse("id", "calls")?;
            let (end, hold) = by_id.get(&id).ok_or_else(|| StoreError::corrupt("calls", id))?;
            Ok(SettledCall::of(hold, **end))
        })
        .collect()
}

/// Settles the calls that are still held and returns those. Calls that had already ended stay as
/// they are.
pub(crate) async fn close<'a>(
    tx: &mut Tx,
    ends: &[CallEnd<'a>],
) -> Result<Vec<SettledCall<'a>>, StoreError> {
    const SQL: &str = "
        with v (id, state, charged, outcome, status, resolved_at, duration_ms, upstream_ms) as ({rows})
        update calls set
            state = v.state, credits = calls.cost * v.charged, outcome = v.outcome, status = v.status,
            resolved_at = v.resolved_at, duration_ms = v.duration_ms, upstream_ms = v.upstream_ms
        from v where calls.id = v.id and calls.state || '' = 'held'
        returning calls.id, customer_id, key_id, creator_id, platform, method, route, cost, held_at,
            idempotency_hash";
    const KINDS: &[SqlKind] = &[
        SqlKind::Text,
        SqlKind::Text,
        SqlKind::Int,
        SqlKind::Text,
        SqlKind::Int,
        SqlKind::Int,
        SqlKind::Int,
        SqlKind::Int,
    ];
    let mut table = RowTable::new(KINDS);
    let mut by_id = BTreeMap::new();
    for end in ends {
        // The first of several settlements of a call wins.
        if let Entry::Vacant(place) = by_id.entry(end.call_id) {
            place.insert(*end);
            table.push(row_of(end));
        }
    }
    let rows = tx.rows_over(SQL, table).await?;
    rows.iter()
        .map(|row| {
            let id: CallId = row.parse("id", "calls")?;
            let end = by_id.get(&id).ok_or_else(|| StoreError::corrupt("calls", id))?;
            ended(row, *end)
        })
        .collect()
}

/// Records settled calls: credits, usage, and what their `Idempotency-Key`s return from now on. The
/// balances must be locked; the caller saves them.
pub(crate) async fn book(
    tx: &mut Tx,
    balances: &mut LockedBalances,
    calls: &[SettledCall<'_>],
) -> Result<(), StoreError> {
    settle(balances, calls)?;
    let counted = EndedCallCounts::of(calls);
    tx.together(counted.parts()).await?;
    end_idempotency(tx, calls).await
}

/// Charges or refunds what settled calls have held.
pub(crate) fn settle(
    balances: &mut LockedBalances,
    calls: &[SettledCall<'_>],
) -> Result<(), StoreError> {
    for call in calls {
        let balance = balances
            .get_mut(call.customer)
            .ok_or_else(|| StoreError::corrupt("customer_credits", call.customer))?;
        if call.end.outcome.is_charged() {
            balance.settle(call.cost);
        } else {
            balance.refund(call.cost);
        }
    }
    Ok(())
}

/// Sets what later requests with the `Idempotency-Key`s of these calls get.
pub(crate) async fn end_idempotency(
    tx: &mut Tx,
    calls: &[SettledCall<'_>],
) -> Result<(), StoreError> {
    for call in calls {
        if let Some(hash) = &call.idempotency_hash {
            end_key(tx, call, hash).await?;
        }
    }
    Ok(())
}

/// Sets what a later request with the same key gets. A call that was certainly not carried out
/// frees its key.
async fn end_key(tx: &mut Tx, call: &SettledCall<'_>, hash: &str) -> Result<(), StoreError> {
    const FREE: &str = "
        delete from idempotency where customer_id = $1 and key_hash = $2 and call_id = $3";
    const END: &str = "
        update idempotency set answer_state = $4, status = $5, answer = $6
        where customer_id = $1 and key_hash = $2 and call_id = $3";
    let row = [call.customer.into(), hash.into(), call.end.call_id.into()];
    if call.end.frees_key || call.end.outcome.is_certainly_not_carried_out() {
        tx.execute(FREE, &row).await?;
        return Ok(());
    }
    let (state, answer) = match call.end.answer {
        _ if call.end.outcome.may_have_happened() => ("outcome_unknown", None),
        Some(answer) => ("stored", Some(answer)),
        None => ("not_stored", None),
    };
    let [owner, key_hash, call_id] = row;
    let values = [
        owner,
        key_hash,
        call_id,
        state.into(),
        answer.map(|answer| i64::from(answer.status)).into(),
        SqlValue::Bytes(answer.map(|answer| answer.sealed.as_slice())),
    ];
    tx.execute(END, &values).await?;
    Ok(())
}

fn ended<'a>(row: &SqlRow, end: CallEnd<'a>) -> Result<SettledCall<'a>, StoreError> {
    Ok(SettledCall {
        end,
        customer: row.parse("customer_id", "calls")?,
        key: row.parse("key_id", "calls")?,
        creator_id: row.text("creator_id")?.into(),
        platform: row.text("platform")?.into(),
        method: row.text("method")?.into(),
        route: row.text("route")?.into(),
        cost: row.credits("cost").map(Credits::whole)?,
        held_at: row.time("held_at")?,
        idempotency_hash: row.optional_text("idempotency_hash")?,
    })
}
