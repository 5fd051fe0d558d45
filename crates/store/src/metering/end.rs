//! The one place where calls end, whoever ends them: the batch, the recovery at start, the sweeper.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use domain::charge::{self, Outcome};
use domain::credits::Credits;
use domain::id::{CallId, CustomerId, KeyId};
use domain::time::Timestamp;

use super::{Hold, Resolution};
use crate::StoreError;
use crate::balance::Balances;
use crate::idempotency::StoredAnswer;
use crate::parts::Part;
use crate::sql::{Kind, Row, Value, hex};
use crate::tx::{Table, Tx};

/// How a call ends, whoever says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) call_id: CallId,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<u16>,
    pub(crate) resolved_at: Timestamp,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) upstream_ms: Option<i64>,
    pub(crate) answer: Option<&'a StoredAnswer>,
}

/// A call that has just ended, and what its end is booked by.
#[derive(Debug, Clone)]
pub(crate) struct Ended<'a> {
    pub(crate) end: End<'a>,
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

impl<'a> End<'a> {
    /// The end of a call that nobody saw ending.
    pub(crate) const fn unseen(call_id: CallId, outcome: Outcome, resolved_at: Timestamp) -> Self {
        Self {
            call_id,
            outcome,
            status: None,
            resolved_at,
            duration_ms: None,
            upstream_ms: None,
            answer: None,
        }
    }

    /// The end that the owner of a call asked for.
    pub(crate) fn of(resolution: &'a Resolution) -> Self {
        Self {
            call_id: resolution.call_id,
            outcome: resolution.outcome,
            status: resolution.status,
            resolved_at: resolution.resolved_at,
            duration_ms: Some(resolution.duration_ms),
            upstream_ms: resolution.upstream_ms,
            answer: resolution.answer.as_ref(),
        }
    }

    /// What a call of this cost is charged.
    pub(crate) const fn credits(&self, cost: i64) -> i64 {
        if self.outcome.is_charged() { cost } else { 0 }
    }

    /// The status as it is stored.
    pub(crate) fn status_number(&self) -> Option<i64> {
        self.status.map(i64::from)
    }
}

impl<'a> Ended<'a> {
    /// The end of a call whose hold is at hand.
    pub(crate) fn of(hold: &'a Hold, end: End<'a>) -> Self {
        Self {
            end,
            customer: hold.customer,
            key: hold.key,
            creator_id: hold.account.as_str().into(),
            platform: hold.platform.as_str().into(),
            method: hold.method.as_str().into(),
            route: (&*hold.route).into(),
            cost: hold.cost.whole(),
            held_at: hold.held_at,
            idempotency_hash: hold.idempotency.map(|claim| hex(&claim.key_hash)),
        }
    }
}

/// What an end changes in the row of its call, if that is still held.
const COLUMNS: &[(&str, Kind)] = &[
    ("id", Kind::Text),
    ("state", Kind::Text),
    ("charged", Kind::Int),
    ("outcome", Kind::Text),
    ("status", Kind::Int),
    ("resolved_at", Kind::Int),
    ("duration_ms", Kind::Int),
    ("upstream_ms", Kind::Int),
];

fn row_of(end: &End<'_>) -> [Value<'static>; 8] {
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

/// What ends calls whose holds are at hand, and need not be read; `closed_own` reads what it gives.
///
/// The joined empty text, here and below, keeps PostgreSQL from looking for each call among all that are open, by the
/// index of those, which it takes for shorter than that of the ids.
pub(crate) fn closing_own(ends: &[(End<'_>, Arc<Hold>)]) -> Part<'static> {
    const SQL: &str = "
        update calls set
            state = {state}, credits = calls.cost * {charged}, outcome = {outcome},
            status = {status}, resolved_at = {resolved_at}, duration_ms = {duration_ms},
            upstream_ms = {upstream_ms}
        {from} where calls.id = {id} and calls.state || '' = 'held' {returning}";
    let mut seen = HashSet::with_capacity(ends.len());
    let mut values = Vec::with_capacity(ends.len() * COLUMNS.len());
    for (end, _) in ends {
        // Asked for twice, the first end counts.
        if seen.insert(end.call_id) {
            values.extend(row_of(end));
        }
    }
    Part::update(SQL, COLUMNS, values)
}

/// Those of the calls that were still held.
pub(crate) fn closed_own<'a>(
    ends: &'a [(End<'a>, Arc<Hold>)],
    rows: &[Row],
) -> Result<Vec<Ended<'a>>, StoreError> {
    let mut by_id = HashMap::with_capacity(ends.len());
    for (end, hold) in ends {
        by_id.entry(end.call_id).or_insert((end, hold));
    }
    rows.iter()
        .map(|row| {
            let id: CallId = row.parse(0, "calls")?;
            let (end, hold) = by_id.get(&id).ok_or_else(|| StoreError::corrupt("calls", id))?;
            Ok(Ended::of(hold, **end))
        })
        .collect()
}

/// Ends the calls that are still held; gives those that were. The others were ended by somebody else, and
/// stay as they are.
pub(crate) async fn close<'a>(tx: &mut Tx, ends: &[End<'a>]) -> Result<Vec<Ended<'a>>, StoreError> {
    const SQL: &str = "
        with v (id, state, charged, outcome, status, resolved_at, duration_ms, upstream_ms) as ({rows})
        update calls set
            state = v.state, credits = calls.cost * v.charged, outcome = v.outcome, status = v.status,
            resolved_at = v.resolved_at, duration_ms = v.duration_ms, upstream_ms = v.upstream_ms
        from v where calls.id = v.id and calls.state || '' = 'held'
        returning calls.id, customer_id, key_id, creator_id, platform, method, route, cost, held_at,
            idempotency_hash";
    const KINDS: &[Kind] = &[
        Kind::Text,
        Kind::Text,
        Kind::Int,
        Kind::Text,
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Int,
    ];
    let mut table = Table::new(KINDS);
    let mut by_id = BTreeMap::new();
    for end in ends {
        // Asked for twice, the first end counts.
        if let Entry::Vacant(place) = by_id.entry(end.call_id) {
            place.insert(*end);
            table.push(row_of(end));
        }
    }
    let rows = tx.rows_over(SQL, table).await?;
    rows.iter()
        .map(|row| {
            let id: CallId = row.parse(0, "calls")?;
            let end = by_id.get(&id).ok_or_else(|| StoreError::corrupt("calls", id))?;
            ended(row, *end)
        })
        .collect()
}

/// Books ended calls: credits, usage, and what their Idempotency-Keys answer from now on. The balances
/// must be locked, and are saved by the caller.
pub(crate) async fn book(
    tx: &mut Tx,
    balances: &mut Balances,
    calls: &[Ended<'_>],
) -> Result<(), StoreError> {
    settle(balances, calls)?;
    tx.together([counting_days(calls), counting_routes(calls)]).await?;
    end_idempotency(tx, calls).await
}

/// Charges or gives back what ended calls have held.
pub(crate) fn settle(balances: &mut Balances, calls: &[Ended<'_>]) -> Result<(), StoreError> {
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

#[derive(Debug, Default)]
struct Counts {
    calls: i64,
    credits: i64,
    errors: i64,
    last: Option<(Timestamp, Option<i64>)>,
}

impl Counts {
    fn add(&mut self, call: &Ended<'_>) {
        self.calls += 1;
        self.credits = self.credits.saturating_add(call.end.credits(call.cost));
        self.errors += i64::from(!charge::is_ok(call.end.outcome, call.end.status));
        let newest = self.last.is_none_or(|(at, _)| at <= call.held_at);
        if newest {
            self.last = Some((call.held_at, call.end.status_number()));
        }
    }
}

/// What counts ended calls by key and day.
pub(crate) fn counting_days(calls: &[Ended<'_>]) -> Part<'static> {
    const SQL: &str = "
        insert into usage_daily (customer_id, key_id, day, calls, credits, ok, errors)
        {rows}
        on conflict (customer_id, key_id, day) do update set
            calls = usage_daily.calls + excluded.calls,
            credits = usage_daily.credits + excluded.credits,
            ok = usage_daily.ok + excluded.ok, errors = usage_daily.errors + excluded.errors";
    let mut days: BTreeMap<_, Counts> = BTreeMap::new();
    for call in calls {
        days.entry((call.customer, call.key, call.held_at.day().number())).or_default().add(call);
    }
    let mut table = Table::new(&[
        Kind::Text,
        Kind::Text,
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Int,
    ]);
    for ((customer, key, day), counts) in days {
        table.push([
            customer.into(),
            key.into(),
            day.into(),
            counts.calls.into(),
            counts.credits.into(),
            (counts.calls - counts.errors).into(),
            counts.errors.into(),
        ]);
    }
    Part::over(SQL, table, &[])
}

/// What counts ended calls by endpoint and day.
pub(crate) fn counting_routes<'a>(calls: &'a [Ended<'_>]) -> Part<'a> {
    const SQL: &str = "
        insert into usage_routes (customer_id, key_id, day, creator_id, platform, method, route, calls,
                                  errors, last_status, last_at)
        {rows}
        on conflict (customer_id, key_id, day, creator_id, platform, method, route) do update set
            calls = usage_routes.calls + excluded.calls,
            errors = usage_routes.errors + excluded.errors,
            last_status = case when excluded.last_at >= usage_routes.last_at
                then excluded.last_status else usage_routes.last_status end,
            last_at = case when excluded.last_at >= usage_routes.last_at
                then excluded.last_at else usage_routes.last_at end";
    let mut routes: BTreeMap<_, Counts> = BTreeMap::new();
    for call in calls {
        let route = (
            (call.customer, call.key, call.held_at.day().number()),
            &*call.creator_id,
            &*call.platform,
            &*call.method,
            &*call.route,
        );
        routes.entry(route).or_default().add(call);
    }
    let mut table = Table::new(&[
        Kind::Text,
        Kind::Text,
        Kind::Int,
        Kind::Text,
        Kind::Text,
        Kind::Text,
        Kind::Text,
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Int,
    ]);
    for (((customer, key, day), creator_id, platform, method, route), counts) in routes {
        let (last_at, last_status) = counts.last.unzip();
        table.push([
            customer.into(),
            key.into(),
            day.into(),
            creator_id.into(),
            platform.into(),
            method.into(),
            route.into(),
            counts.calls.into(),
            counts.errors.into(),
            last_status.flatten().into(),
            last_at.into(),
        ]);
    }
    Part::over(SQL, table, &[])
}

/// What later requests with the keys of these calls get.
pub(crate) async fn end_idempotency(tx: &mut Tx, calls: &[Ended<'_>]) -> Result<(), StoreError> {
    for call in calls {
        if let Some(hash) = &call.idempotency_hash {
            end_key(tx, call, hash).await?;
        }
    }
    Ok(())
}

/// What a later request with the same key gets. A call that never left frees its key.
async fn end_key(tx: &mut Tx, call: &Ended<'_>, hash: &str) -> Result<(), StoreError> {
    const FREE: &str = "
        delete from idempotency where customer_id = $1 and key_hash = $2 and call_id = $3";
    const END: &str = "
        update idempotency set answer_state = $4, status = $5, answer = $6
        where customer_id = $1 and key_hash = $2 and call_id = $3";
    let row = [call.customer.into(), hash.into(), call.end.call_id.into()];
    let (state, answer) = match call.end.outcome {
        Outcome::NotDispatched | Outcome::ConnectFailed | Outcome::ClientGoneBeforeDispatch => {
            tx.execute(FREE, &row).await?;
            return Ok(());
        }
        Outcome::Answered | Outcome::Upstream5xx | Outcome::Upstream429 => match call.end.answer {
            Some(answer) => ("stored", Some(answer)),
            None => ("not_stored", None),
        },
        Outcome::UpstreamTimeout
        | Outcome::BadResponse
        | Outcome::OutcomeUnknown
        | Outcome::Expired => ("outcome_unknown", None),
    };
    let [owner, key_hash, call_id] = row;
    let values = [
        owner,
        key_hash,
        call_id,
        state.into(),
        answer.map(|answer| i64::from(answer.status)).into(),
        Value::Bytes(answer.map(|answer| answer.sealed.as_slice())),
    ];
    tx.execute(END, &values).await?;
    Ok(())
}

fn ended<'a>(row: &Row, end: End<'a>) -> Result<Ended<'a>, StoreError> {
    Ok(Ended {
        end,
        customer: row.parse(1, "calls")?,
        key: row.parse(2, "calls")?,
        creator_id: row.text(3)?.into(),
        platform: row.text(4)?.into(),
        method: row.text(5)?.into(),
        route: row.text(6)?.into(),
        cost: row.credits(7).map(Credits::whole)?,
        held_at: row.time(8)?,
        idempotency_hash: row.optional_text(9)?,
    })
}
