//! Calls that their owner will not settle: those of a stopped process, and those whose hold has
//! expired and is renewed by nobody (`takeover`).

use domain::charge::Outcome;
use domain::id::{CallId, CustomerId, NodeId};
use domain::time::Timestamp;

use super::end::{self, CallEnd};
use super::new_calls;
use crate::balance;
use crate::options::DatabaseKind;
use crate::sql::{SqlKind, SqlRow, SqlValue};
use crate::tx::{RowTable, Tx};
use crate::{Store, StoreError, nodes};

/// How many calls one transaction of the sweeper ends.
const SWEEP_MAX: usize = 500;
/// How many calls one statement ends.
const PART_MAX: usize = 512;

/// What recovery at start found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochRecovery {
    /// The node's new epoch, for `MeterOptions`.
    pub epoch: i64,
    /// The number of calls of earlier epochs that were refunded.
    pub refunded: usize,
    /// The number of usage rows set aside because they could not be read.
    pub set_aside: i64,
}

/// Begins the next epoch of this node and, in the same transaction, refunds every call that an
/// earlier one left open (`outcome_unknown`). On SQLite this covers calls of any node, since only
/// one process uses the file. Call it at start, before the first hold.
pub async fn recover(
    store: &Store,
    node: NodeId,
    now: Timestamp,
) -> Result<EpochRecovery, StoreError> {
    const ALL: &str = "
        select o.id, customer.word as customer_id from open_calls o
        join words customer on customer.number = o.customer order by o.id";
    const OWN: &str = "
        select o.id, customer.word as customer_id from open_calls o
        join words customer on customer.number = o.customer
        where o.node = (select number from words where word = $1) and o.epoch < $2
        order by o.id for update of o";
    let mut tx = store.write().await?;
    let epoch = nodes::begin_epoch(&mut tx, node, now).await?;
    let open = match store.database() {
        DatabaseKind::Sqlite => tx.rows(ALL, &[]).await?,
        DatabaseKind::Postgres => tx.rows(OWN, &[node.into(), epoch.into()]).await?,
    };
    let refunded = end_all(&mut tx, &open, Outcome::OutcomeUnknown, now).await?;
    let set_aside = match store.database() {
        DatabaseKind::Sqlite => new_calls::check_in(&mut tx).await?,
        DatabaseKind::Postgres => 0,
    };
    tx.commit().await?;
    Ok(EpochRecovery { epoch, refunded, set_aside })
}

/// A hold that nobody has renewed in time.
#[derive(Debug, Clone)]
pub(crate) struct ExpiredHold {
    pub(crate) call: CallId,
    /// The node that made it.
    pub(crate) node: String,
    pub(crate) expires_at: Timestamp,
}

/// The holds that have expired at `now`, the oldest first, at most `limit`.
pub(crate) async fn expired(
    tx: &mut Tx,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<ExpiredHold>, StoreError> {
    const SQL: &str = "
        select o.id, node.word as node, o.expires_at from open_calls o
        join words node on node.number = o.node
        where o.expires_at < $1 order by o.expires_at limit $2";
    let rows = tx.rows(SQL, &[now.into(), limit.into()]).await?;
    let hold = |row: &SqlRow| {
        Ok(ExpiredHold {
            call: row.row_id("id")?,
            node: row.text("node")?,
            expires_at: row.time("expires_at")?,
        })
    };
    rows.iter().map(hold).collect()
}

/// Refunds these calls (`expired`), unless they were renewed, and returns how many. Skips calls
/// that another node is just settling.
pub(crate) async fn refund(
    store: &Store,
    holds: &[(CallId, Timestamp)],
    now: Timestamp,
) -> Result<usize, StoreError> {
    const UNRENEWED: [&str; 2] = [
        "with v (id, expires_at) as ({rows})
        select o.id, customer.word as customer_id from open_calls o
        join v on v.id = o.id and v.expires_at = o.expires_at
        join words customer on customer.number = o.customer",
        "with v (id, expires_at) as ({rows})
        select o.id, customer.word as customer_id from open_calls o
        join v on v.id = o.id and v.expires_at = o.expires_at
        join words customer on customer.number = o.customer for update of o skip locked",
    ];
    let [embedded, shared] = UNRENEWED;
    let mut refunded = 0;
    for part in holds.chunks(SWEEP_MAX) {
        let mut table = RowTable::new(&[SqlKind::Uuid, SqlKind::Int]);
        for (call, expires_at) in part {
            table.push([SqlValue::row_id(*call), (*expires_at).into()]);
        }
        let mut tx = store.write().await?;
        let unrenewed = match store.database() {
            DatabaseKind::Sqlite => embedded,
            DatabaseKind::Postgres => shared,
        };
        let open = tx.rows_over(unrenewed, table).await?;
        refunded += end_all(&mut tx, &open, Outcome::Expired, now).await?;
        tx.commit().await?;
    }
    Ok(refunded)
}

async fn end_all(
    tx: &mut Tx,
    open: &[SqlRow],
    outcome: Outcome,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut ends = Vec::with_capacity(open.len());
    let mut customers = Vec::with_capacity(open.len());
    for row in open {
        ends.push(CallEnd::unseen(row.row_id("id")?, outcome, now));
        customers.push(row.parse::<CustomerId>("customer_id", "calls")?);
    }
    // Lock all balances together and in order, before the calls are settled in chunks.
    let mut balances = balance::lock(tx, customers.into_iter()).await?;
    let mut count = 0;
    for part in ends.chunks(PART_MAX) {
        let ended = end::close(tx, part).await?;
        end::book(tx, &mut balances, &ended).await?;
        count += ended.len();
    }
    balance::save(tx, &balances).await?;
    Ok(count)
}
