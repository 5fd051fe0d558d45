//! One transaction of the writer. It reads, decides and writes, in this order on both databases.
//!
//! Every transaction locks calls before balances, and balances in the order of their customers, so
//! that no two transactions deadlock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::id::{CallId, CustomerId};
use domain::key::KeyHash;
use domain::time::Timestamp;
use foldhash::fast::RandomState;

use super::budget::KeyBudgets;
use super::count::EndedCallCounts;
use super::end::{self, CallEnd, SettledCall, TakenCalls};
use super::queue::{HoldRequest, RequestBatch};
use super::rows::{NewRows, RowOrigin, TakenRow};
use super::seen_balances::LockedSight;
use super::writer_cache::WriterCache;
use super::{Hold, HoldOutcome, IdempotencyClaim, MeterOptions};
use crate::StoreError;
use crate::balance::{self, LockedBalances};
use crate::idempotency::{self, ExistingRequest, WantedRequest};
use crate::options::DatabaseKind;
use crate::sql::{SqlKind, SqlValue, hex};
use crate::statement_batch::BatchedStatement;
use crate::tx::{RowTable, Tx};

type CustomerSet = HashSet<CustomerId, RandomState>;

/// What a transaction decided, to be reported once it is committed.
pub(crate) struct BatchDecisions {
    /// One outcome for each hold of the batch, in order.
    pub(crate) holds: Vec<HoldOutcome>,
    /// The calls that this transaction settled, except those whose settlement came with their hold.
    pub(crate) ended: HashSet<CallId>,
    /// The available credits of the affected customers.
    pub(crate) balances: Vec<(CustomerId, Credits)>,
    /// The same balances, before and after.
    pub(crate) sights: Vec<LockedSight>,
    /// A call of the transaction, which shows whether it was committed.
    pub(crate) probe: Option<CommitProbe>,
}

/// What to look up when the outcome of a commit is unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommitProbe {
    pub(crate) call_id: CallId,
    pub(crate) customer: CustomerId,
    pub(crate) change: ProbeChange,
}

/// What the transaction did to the probe's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeChange {
    Inserted,
    Ended,
}

/// Runs the statements of a batch. The caller commits.
pub(crate) async fn write(
    tx: &mut Tx,
    batch: &RequestBatch,
    options: &MeterOptions,
    cache: &mut WriterCache,
) -> Result<BatchDecisions, StoreError> {
    cache.refresh(tx);
    let new = new_calls(batch);
    // A call whose hold is also in this batch is written once, as ended.
    let (at_once, later): (Vec<CallEnd<'_>>, Vec<CallEnd<'_>>) = batch
        .resolutions
        .iter()
        .map(|request| CallEnd::of(&request.resolution))
        .partition(|end| new.contains(&end.call_id));
    let (own, others) = cache.tell_apart(later);
    let taken = TakenCalls::take(tx, &others).await?;
    let mut ended = taken.settled()?;
    let renewals = latest(&batch.renewals);
    renew(tx, renewals.iter().filter(|(call_id, _)| !new.contains(call_id))).await?;
    let BatchState { mut balances, closed } = read(tx, batch, &own, &ended, cache).await?;
    ended.extend(closed.iter().map(|(hold, end)| SettledCall::of(hold, *end)));
    let mut budgets = KeyBudgets::beside(&ended);
    let holds = decide(tx, batch, &mut balances, &mut budgets, cache).await?;
    let is_usage_read = budgets.are_asked();
    let probe = probe(batch, &holds, &ended);
    // In reverse order, so that the first of several settlements of a call wins.
    let ends: HashMap<CallId, CallEnd<'_>> =
        at_once.into_iter().rev().map(|end| (end.call_id, end)).collect();
    let results = HoldResults { holds: &holds, ends: &ends, renewals: &renewals };
    let rows = new_rows(batch, &results, closed, taken.rows());
    let node = options.node.to_string();
    let origin = RowOrigin { node: &node, epoch: options.epoch };
    let calls = rows.statements(tx, origin, &mut cache.words).await?;
    ended.extend(ended_at_once(batch, &results));
    let told_apart = ended.iter().map(|call| call.end.call_id).collect();
    ended.extend(ended_together(batch, &results));
    end::settle(&mut balances, &ended)?;
    let saving = balance::saving(balances.changed());
    let statements = ClosingStatements { calls, saving, is_usage_read };
    write_down(tx, statements, &ended, cache).await?;
    balances.note(tx);
    end::end_idempotency(tx, &ended).await?;
    cache.balances.extend(balances.current());
    Ok(BatchDecisions {
        holds,
        ended: told_apart,
        balances: balances
            .current()
            .map(|(customer, balance)| {
                let credits = balance.available.saturating_add(balance.held);
                (customer, Credits::from_whole(credits))
            })
            .collect(),
        sights: balances.sights().collect(),
        probe,
    })
}

/// What a batch writes when everything is decided.
struct ClosingStatements<'a> {
    /// Inserts the calls that have ended, and the others.
    calls: [BatchedStatement<'a>; 2],
    /// Saves the balances.
    saving: BatchedStatement<'a>,
    /// Whether the batch read counts of usage, which must then be brought up to date first.
    is_usage_read: bool,
}

/// Inserts calls, saves balances and adds settled calls to the usage counts.
async fn write_down(
    tx: &mut Tx,
    statements: ClosingStatements<'_>,
    ended: &[SettledCall<'_>],
    cache: &mut WriterCache,
) -> Result<(), StoreError> {
    let ClosingStatements { calls, saving, is_usage_read } = statements;
    let [done, open] = calls;
    if !cache.remembers() {
        let counted = EndedCallCounts::of(ended);
        let [days, routes] = counted.parts();
        tx.together([done, open, days, routes, saving]).await?;
        return Ok(());
    }
    tx.together([done, open, saving]).await?;
    cache.new_calls(tx).await?.note(tx, ended.len(), is_usage_read).await
}

/// The calls that begin in this batch, to find settlements and renewals that came separately from
/// their holds.
fn new_calls(batch: &RequestBatch) -> HashSet<CallId> {
    if batch.resolutions.is_empty() && batch.renewals.is_empty() {
        return HashSet::new();
    }
    batch.holds.iter().map(|request| request.hold.call_id).collect()
}

/// What a batch locks and reads before it decides.
struct BatchState<'a> {
    balances: LockedBalances,
    /// Calls whose holds are in memory, taken out of the open ones.
    closed: Vec<(&'a Hold, CallEnd<'a>)>,
}

/// Takes the calls whose holds are in memory out of the open ones. Then locks the balances of all
/// affected customers and reads what the decisions on holds need, except what is cached.
async fn read<'a>(
    tx: &mut Tx,
    batch: &RequestBatch,
    own: &'a [(CallEnd<'a>, Arc<Hold>)],
    ended: &[SettledCall<'_>],
    cache: &mut WriterCache,
) -> Result<BatchState<'a>, StoreError> {
    let holders = batch.holds.iter().map(|request| request.hold.customer);
    let own_holders = own.iter().map(|(_, hold)| hold.customer);
    let customers = holders.chain(own_holders).chain(ended.iter().map(|call| call.customer));
    let (remembered, unknown): (CustomerSet, CustomerSet) =
        customers.partition(|customer| cache.balances.contains_key(customer));
    let wanted = cache.unknown_secrets(batch);
    let closing = end::closing_own(own);
    let locking = balance::locking(unknown.into_iter());
    let parts = [closing, locking, secrets_of(&wanted), versions_of(batch, cache)];
    let [closed, locked, secrets, versions] = tx.together(parts).await?;
    let closed = end::closed_own(own, &closed)?;
    let mut balances = LockedBalances::default();
    balances.read(&locked)?;
    let remembered = remembered.into_iter();
    balances.add(remembered.filter_map(|id| cache.balances.get(&id).map(|balance| (id, *balance))));
    cache.learn_secrets(&wanted, &secrets)?;
    cache.learn_versions(&versions)?;
    Ok(BatchState { balances, closed })
}

/// Whether a batch whose commit has an unknown outcome is in the database. The lock waits for a
/// transaction that the server may still be committing.
pub(crate) async fn is_written(tx: &mut Tx, probe: CommitProbe) -> Result<bool, StoreError> {
    const SQL: &str = "
        select (select count(*) from open_calls where id = $1) as open,
               (select count(*) from all_ended_calls where id = $1) as ended";
    balance::lock(tx, std::iter::once(probe.customer)).await?;
    let row = tx.row(SQL, &[SqlValue::row_id(probe.call_id)]).await?;
    let Some(row) = row else { return Ok(false) };
    let has_ended = row.int("ended")? > 0;
    Ok(match probe.change {
        ProbeChange::Inserted => has_ended || row.int("open")? > 0,
        ProbeChange::Ended => has_ended,
    })
}

fn probe(
    batch: &RequestBatch,
    holds: &[HoldOutcome],
    ended: &[SettledCall<'_>],
) -> Option<CommitProbe> {
    let inserted =
        batch.holds.iter().zip(holds).find(|(_, outcome)| outcome.is_held()).map(|(request, _)| {
            CommitProbe {
                call_id: request.hold.call_id,
                customer: request.hold.customer,
                change: ProbeChange::Inserted,
            }
        });
    inserted.or_else(|| {
        ended.first().map(|call| CommitProbe {
            call_id: call.end.call_id,
            customer: call.customer,
            change: ProbeChange::Ended,
        })
    })
}

/// Decides every hold, in request order.
async fn decide(
    tx: &mut Tx,
    batch: &RequestBatch,
    balances: &mut LockedBalances,
    budgets: &mut KeyBudgets<'_>,
    cache: &WriterCache,
) -> Result<Vec<HoldOutcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(batch.holds.len());
    for request in &batch.holds {
        let hold = &request.hold;
        let secret = cache.secrets.get(&hold.key_hash).filter(|secret| secret.opens(hold));
        let version = cache.version(hold.customer, &hold.account);
        // On SQLite, a hold without a reservation may only be a repetition.
        let may_take = request.reserved || tx.database() == DatabaseKind::Postgres;
        let outcome = if secret.is_none() {
            HoldOutcome::KeyRefused
        } else if secret.is_some_and(|secret| secret.version != hold.key_version) {
            HoldOutcome::KeyChanged
        } else if version != Some(hold.account_version) {
            repeated(tx, hold).await?.unwrap_or(HoldOutcome::AccountChanged)
        } else if let Some(budget) = secret.and_then(|secret| secret.monthly_budget)
            && let Some(exhausted) = budgets.refuse(tx, hold, budget).await?
        {
            repeated(tx, hold).await?.unwrap_or(exhausted)
        } else {
            let outcome = take(tx, hold, balances, may_take).await?;
            budgets.note(hold, &outcome);
            outcome
        };
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Takes both the credits and the `Idempotency-Key`, or neither.
async fn take(
    tx: &mut Tx,
    hold: &Hold,
    balances: &mut LockedBalances,
    may_take: bool,
) -> Result<HoldOutcome, StoreError> {
    let Some(balance) = balances.get_mut(hold.customer) else {
        return Ok(HoldOutcome::Insufficient { balance: Credits::ZERO });
    };
    let before = *balance;
    if !may_take || !balance.hold(hold.cost.whole()) {
        let earlier = repeated(tx, hold).await?;
        return Ok(earlier.unwrap_or(HoldOutcome::Insufficient {
            balance: Credits::from_whole(before.available),
        }));
    }
    if let Some(claim) = &hold.idempotency
        && !claim_key(tx, hold, claim).await?
    {
        *balance = before;
        let earlier = repeated(tx, hold).await?;
        return Ok(earlier.unwrap_or(HoldOutcome::Idempotency(ExistingRequest::Running)));
    }
    Ok(HoldOutcome::Held { balance: Credits::from_whole(balance.available) })
}

async fn repeated(tx: &mut Tx, hold: &Hold) -> Result<Option<HoldOutcome>, StoreError> {
    let Some(claim) = &hold.idempotency else {
        return Ok(None);
    };
    let (key_hash, fingerprint) = (hex(&claim.key_hash), hex(&claim.fingerprint));
    let identity = claim.identity.map(|identity| hex(&identity));
    let wanted = WantedRequest {
        key_hash: &key_hash,
        fingerprint: &fingerprint,
        identity: identity.as_deref(),
    };
    let existing = idempotency::find_in(tx, hold.customer, wanted, hold.held_at).await?;
    Ok(existing.map(HoldOutcome::Idempotency))
}

/// Writes the row of an `Idempotency-Key`, replacing an expired one. False if the key is in use.
async fn claim_key(tx: &mut Tx, hold: &Hold, claim: &IdempotencyClaim) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into idempotency
            (customer_id, key_hash, fingerprint, call_id, answer_state, created_at, expires_at, identity)
        values ($1, $2, $3, $4, 'running', $5, $6, $7)
        on conflict (customer_id, key_hash) do update set
            fingerprint = excluded.fingerprint, call_id = excluded.call_id, answer_state = 'running',
            status = null, answer = null, created_at = excluded.created_at,
            expires_at = excluded.expires_at, identity = excluded.identity
        where idempotency.expires_at <= excluded.created_at and idempotency.answer_state <> 'running'";
    let identity = claim.identity.map(|identity| hex(&identity));
    let values = [
        hold.customer.into(),
        hex(&claim.key_hash).into(),
        hex(&claim.fingerprint).into(),
        hold.call_id.into(),
        hold.held_at.into(),
        claim.expires_at.into(),
        identity.as_deref().into(),
    ];
    Ok(tx.execute(SQL, &values).await? == 1)
}

/// The statement that reads these secrets, by their hashes.
fn secrets_of(wanted: &HashMap<String, KeyHash>) -> BatchedStatement<'_> {
    const SQL: &str = "
        with v (hash) as ({rows})
        select s.hash, s.key_id, k.customer_id, s.valid_until, k.expires_at, k.revoked_at,
               c.disabled_at, k.version, k.monthly_budget
        from key_secrets s
        join keys k on k.id = s.key_id
        join customers c on c.id = k.customer_id
        where s.hash in (select hash from v)";
    const RETURNS: &[(&str, SqlKind)] = &[
        ("hash", SqlKind::Text),
        ("key_id", SqlKind::Text),
        ("customer_id", SqlKind::Text),
        ("valid_until", SqlKind::Int),
        ("expires_at", SqlKind::Int),
        ("revoked_at", SqlKind::Int),
        ("disabled_at", SqlKind::Int),
        ("version", SqlKind::Int),
        ("monthly_budget", SqlKind::Int),
    ];
    let mut table = RowTable::new(&[SqlKind::Text]);
    for hash in wanted.keys() {
        table.push([hash.as_str().into()]);
    }
    BatchedStatement::over(SQL, table, RETURNS)
}

/// The statement that reads the account versions that the holds need, except cached ones.
fn versions_of<'a>(batch: &'a RequestBatch, cache: &WriterCache) -> BatchedStatement<'a> {
    const SQL: &str = "
        with v (customer_id, creator_id) as ({rows})
        select a.customer_id, a.creator_id, a.version
        from v join accounts a on a.customer_id = v.customer_id and a.creator_id = v.creator_id";
    const RETURNS: &[(&str, SqlKind)] =
        &[("customer_id", SqlKind::Text), ("creator_id", SqlKind::Text), ("version", SqlKind::Int)];
    let mut wanted: HashSet<(CustomerId, &CreatorId)> = HashSet::new();
    let mut table = RowTable::new(&[SqlKind::Text, SqlKind::Text]);
    for request in &batch.holds {
        let (customer, account) = (request.hold.customer, &request.hold.account);
        if cache.version(customer, account).is_none() && wanted.insert((customer, account)) {
            table.push([customer.into(), account.into()]);
        }
    }
    BatchedStatement::over(SQL, table, RETURNS)
}

/// What is known about the holds of a batch when their calls are inserted.
struct HoldResults<'b, 'a> {
    /// One outcome for each hold, in order.
    holds: &'b [HoldOutcome],
    /// The calls settled in the same batch.
    ends: &'b HashMap<CallId, CallEnd<'a>>,
    /// The calls renewed in the same batch.
    renewals: &'b HashMap<CallId, Timestamp>,
}

impl HoldResults<'_, '_> {
    /// The holds that were granted.
    fn held<'h>(&self, batch: &'h RequestBatch) -> impl Iterator<Item = &'h HoldRequest> {
        let granted = |(_, outcome): &(_, &HoldOutcome)| outcome.is_held();
        batch.holds.iter().zip(self.holds).filter(granted).map(|(request, _)| request)
    }
}

/// The rows to insert: the granted calls, and those that have ended.
fn new_rows<'a>(
    batch: &'a RequestBatch,
    results: &HoldResults<'_, 'a>,
    closed: Vec<(&'a Hold, CallEnd<'a>)>,
    taken: Vec<(&'a TakenRow, CallEnd<'a>)>,
) -> NewRows<'a> {
    let mut rows = NewRows { open: Vec::new(), ended: closed, taken };
    for request in results.held(batch) {
        let hold = &*request.hold;
        match end_of(request).or_else(|| results.ends.get(&hold.call_id).copied()) {
            Some(end) => rows.ended.push((hold, end)),
            None => {
                let renewed = results.renewals.get(&hold.call_id).copied();
                let expires_at = renewed.map_or(hold.expires_at, |it| it.max(hold.expires_at));
                rows.open.push((hold, expires_at));
            }
        }
    }
    rows
}

/// The settlement that came with a hold.
fn end_of(request: &HoldRequest) -> Option<CallEnd<'_>> {
    request.end.as_ref().map(|end| CallEnd::of(&end.resolution))
}

/// The granted calls whose settlement came with their hold.
fn ended_together<'a>(
    batch: &'a RequestBatch,
    results: &HoldResults<'_, '_>,
) -> impl Iterator<Item = SettledCall<'a>> {
    results.held(batch).filter_map(|request| Some(SettledCall::of(&request.hold, end_of(request)?)))
}

/// The granted calls whose settlement is in the same batch, but came separately from the hold.
fn ended_at_once<'a>(
    batch: &'a RequestBatch,
    results: &HoldResults<'_, 'a>,
) -> impl Iterator<Item = SettledCall<'a>> {
    let apart = results.held(batch).filter(|request| request.end.is_none());
    apart.filter_map(|request| {
        let end = results.ends.get(&request.hold.call_id)?;
        Some(SettledCall::of(&request.hold, *end))
    })
}

/// The latest requested expiry of each call.
fn latest(renewals: &[(CallId, Timestamp)]) -> HashMap<CallId, Timestamp> {
    let mut latest = HashMap::new();
    for (call_id, expires_at) in renewals {
        let entry = latest.entry(*call_id).or_insert(*expires_at);
        *entry = (*entry).max(*expires_at);
    }
    latest
}

async fn renew(
    tx: &mut Tx,
    renewals: impl Iterator<Item = (&CallId, &Timestamp)>,
) -> Result<(), StoreError> {
    const SQL: &str = "
        with v (id, expires_at) as ({rows})
        update open_calls set expires_at = v.expires_at from v
        where open_calls.id = v.id and open_calls.expires_at < v.expires_at";
    let mut table = RowTable::new(&[SqlKind::Uuid, SqlKind::Int]);
    for (call_id, expires_at) in renewals {
        table.push([SqlValue::row_id(*call_id), (*expires_at).into()]);
    }
    tx.rows_over(SQL, table).await?;
    Ok(())
}
