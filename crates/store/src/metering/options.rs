//! The settings and the reports of a node's metering.

use std::sync::Arc;
use std::time::Duration;

use domain::credits::Credits;
use domain::id::{CustomerId, NodeId};

/// Settings of a node's metering.
#[derive(Clone)]
pub struct MeterOptions {
    /// The node, recorded in every hold.
    pub node: NodeId,
    /// Its epoch, as returned by `recover`.
    pub epoch: i64,
    /// Maximum number of holds, settlements and renewals in one transaction.
    pub batch_max: usize,
    /// Maximum number of waiting holds; more are refused as overloaded.
    pub queue_max: usize,
    /// Holds are refused as overloaded while the oldest entry of the queue is older than this.
    pub queue_age_max: Duration,
    /// Holds are refused as overloaded while they would be behind at least one full transaction and
    /// wait longer than this at the speed of the latest commits.
    pub commit_wait_max: Duration,
    /// How long a hold may be parked for the end of its call, while no caller waits for it.
    pub patience: Duration,
    /// How long the end of a parked call is expected at any moment, so that it is gathered for.
    pub fresh: Duration,
    /// How long the oldest waiting request may be delayed to gather more settlements into its
    /// batch.
    pub gather_max: Duration,
    /// On PostgreSQL, how long the hold of a read that was sent may wait to be written while the
    /// read's caller waits for it, whatever the database does. Then it fails.
    pub read_wait_max: Duration,
    /// Deadline of a transaction. After it, the connection is discarded, and whether the
    /// transaction was committed is checked on another one.
    pub batch_deadline: Duration,
    /// How long the queue may be idle before the writer checks whether a shared database still
    /// accepts writes.
    pub probe_every: Duration,
    /// Called after every transaction, after the waiting callers have been notified.
    pub on_batch: Arc<dyn Fn(&BatchReport) + Send + Sync>,
}

impl MeterOptions {
    /// 256 requests in a transaction, 4,096 waiting holds, none older than 3 s, 500 ms of expected
    /// waiting, 250 ms of patience, 5 of them fresh, 1 ms to gather settlements, 3 s for reads that
    /// were sent, a deadline of 10 s for a transaction, a write test after 2 s without requests,
    /// reports dropped.
    pub fn new(node: NodeId, epoch: i64) -> Self {
        Self {
            node,
            epoch,
            batch_max: 256,
            queue_max: 4096,
            queue_age_max: Duration::from_secs(3),
            commit_wait_max: Duration::from_millis(500),
            patience: Duration::from_millis(250),
            fresh: Duration::from_millis(5),
            gather_max: Duration::from_millis(1),
            read_wait_max: Duration::from_secs(3),
            batch_deadline: Duration::from_secs(10),
            probe_every: Duration::from_secs(2),
            on_batch: Arc::new(|_| {}),
        }
    }
}

impl std::fmt::Debug for MeterOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MeterOptions({}, epoch {})", self.node, self.epoch)
    }
}

/// What one transaction of the writer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchReport {
    /// The number of holds requested.
    pub holds: usize,
    /// The number of holds granted.
    pub held: usize,
    /// The number of settlements.
    pub resolutions: usize,
    /// From the start of the transaction to the end of its commit.
    pub duration: Duration,
    /// The credits of the affected customers that are available or held.
    pub balances: Vec<(CustomerId, Credits)>,
    /// Whether it was committed. If not, its holds failed and its settlements are retried.
    pub committed: bool,
}

/// The state of the metering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterStats {
    /// Holds that wait for the writer.
    pub holds_waiting: usize,
    /// Settlements that wait for the writer.
    pub resolutions_waiting: usize,
    /// The age of the oldest of them, or of the writer's current transaction, whichever is longer.
    pub oldest: Duration,
    /// Settlements of calls that had already ended, since start, not counting calls that were never
    /// sent.
    pub late_resolution_total: u64,
    /// Transactions that failed, since start.
    pub failed_batch_total: u64,
}
