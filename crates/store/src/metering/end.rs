//! Settling calls, whether by the batch, by recovery at start or by the sweeper.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use domain::charge::Outcome;
use domain::id::{CallId, CustomerId, KeyId};
use domain::time::Timestamp;

use super::count::EndedCallCounts;
use super::rows::{self, CallNumbers, TakenRow};
use super::{CallResolution, Hold};
use crate::StoreError;
use crate::balance::LockedBalances;
use crate::idempotency::StoredAnswer;
use crate::sql::{SqlKind, SqlRow, SqlValue, hex};
use crate::statement_batch::BatchedStatement;
use crate::tx::Tx;
use crate::words;

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

/// The statement that takes calls whose holds are in memory out of the open ones. `closed_own`
/// takes its rows.
pub(super) fn closing_own(ends: &[(CallEnd<'_>, Arc<Hold>)]) -> BatchedStatement<'static> {
    const SQL: &str = "
        with v (id) as ({rows})
        delete from open_calls where open_calls.id in (select id from v) returning id";
    const RETURNS: &[(&str, SqlKind)] = &[("id", SqlKind::Uuid)];
    let ids: BTreeSet<CallId> = ends.iter().map(|(end, _)| end.call_id).collect();
    BatchedStatement::over(SQL, rows::id_rows(ids.into_iter()), RETURNS)
}

/// The calls that were still held, and how they end. The first of several settlements of a call
/// wins.
pub(super) fn closed_own<'a>(
    ends: &'a [(CallEnd<'a>, Arc<Hold>)],
    rows: &[SqlRow],
) -> Result<Vec<(&'a Hold, CallEnd<'a>)>, StoreError> {
    let mut by_id = HashMap::with_capacity(ends.len());
    for (end, hold) in ends {
        by_id.entry(end.call_id).or_insert((hold, *end));
    }
    rows.iter()
        .map(|row| {
            let id = row.row_id("id")?;
            let (hold, end) = by_id.get(&id).ok_or_else(|| StoreError::corrupt("calls", id))?;
            Ok((&***hold, *end))
        })
        .collect()
}

/// Calls that were taken out of the open ones, to be inserted as ended.
#[derive(Default)]
pub(super) struct TakenCalls<'a> {
    rows: Vec<(TakenRow, CallEnd<'a>)>,
    words: HashMap<i64, String>,
}

impl<'a> TakenCalls<'a> {
    /// Takes the calls that are still held. Calls that had already ended stay as they are.
    pub(super) async fn take(tx: &mut Tx, ends: &[CallEnd<'a>]) -> Result<Self, StoreError> {
        let mut by_id = BTreeMap::new();
        for end in ends {
            // The first of several settlements of a call wins.
            by_id.entry(end.call_id).or_insert(*end);
        }
        if by_id.is_empty() {
            return Ok(Self::default());
        }
        let mut rows = Vec::new();
        for row in TakenRow::take(tx, by_id.keys().copied()).await? {
            let end = by_id.get(&row.id).ok_or_else(|| StoreError::corrupt("calls", row.id))?;
            rows.push((row, *end));
        }
        let wanted = rows.iter().flat_map(|(row, _)| numbers(row)).collect();
        Ok(Self { words: words::texts(tx, &wanted).await?, rows })
    }

    /// The rows to insert.
    pub(super) fn rows(&self) -> Vec<(&TakenRow, CallEnd<'a>)> {
        self.rows.iter().map(|(row, end)| (row, *end)).collect()
    }

    /// The same calls, as they are booked.
    pub(super) fn settled(&self) -> Result<Vec<SettledCall<'a>>, StoreError> {
        self.rows.iter().map(|(row, end)| self.settle(row, *end)).collect()
    }

    fn settle(&self, row: &TakenRow, end: CallEnd<'a>) -> Result<SettledCall<'a>, StoreError> {
        let corrupt = || StoreError::corrupt("calls", row.id);
        let word = |number: i64| self.words.get(&number).cloned().ok_or_else(corrupt);
        let numbers = row.numbers;
        Ok(SettledCall {
            end,
            customer: word(numbers.customer)?.parse().map_err(|_| corrupt())?,
            key: word(numbers.key)?.parse().map_err(|_| corrupt())?,
            creator_id: word(numbers.account)?.into(),
            platform: word(numbers.platform)?.into(),
            method: word(numbers.method)?.into(),
            route: word(numbers.route)?.into(),
            cost: row.cost,
            held_at: row.held_at,
            idempotency_hash: row.hash.as_deref().map(hex),
        })
    }
}

fn numbers(row: &TakenRow) -> [i64; 6] {
    let CallNumbers { customer, key, account, platform, method, route } = row.numbers;
    [customer, key, account, platform, method, route]
}

/// Settles the calls that are still held and returns those. Calls that had already ended stay as
/// they are.
pub(crate) async fn close<'a>(
    tx: &mut Tx,
    ends: &[CallEnd<'a>],
) -> Result<Vec<SettledCall<'a>>, StoreError> {
    let taken = TakenCalls::take(tx, ends).await?;
    rows::insert_taken(tx, &taken.rows()).await?;
    taken.settled()
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
