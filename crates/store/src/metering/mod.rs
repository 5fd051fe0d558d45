//! Metering: credits are held before a call is sent, and settled (charged or refunded) exactly once
//! when it ends.
//!
//! One writer collects requests while the previous commit is flushed, and writes them in one
//! transaction; callers are notified after the commit. On SQLite the process is the authority for
//! every balance, so credits are reserved in memory immediately and the hold becomes durable with
//! the batch. On PostgreSQL only the committed hold counts. A call's row is its hold, its log entry
//! and its receipt.

mod batch;
mod budget;
mod count;
mod end;
mod meter;
mod outcome_dispatcher;
mod queue;
mod recovery;
mod usage_deltas;
mod usage_json;
mod writer;
mod writer_cache;

use std::sync::Arc;
use std::time::Duration;

use domain::account::CreatorId;
use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{CallId, CustomerId, KeyId, NodeId};
use domain::key::KeyHash;
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;

use crate::idempotency::{ExistingRequest, StoredAnswer};
use crate::{Store, StoreError};

pub(crate) use budget::used_in;
pub use meter::{Meter, PendingHold, PendingResolution};
pub use outcome_dispatcher::OutcomeDispatcher;
pub use recovery::{EpochRecovery, recover, sweep};
pub use usage_deltas::count_set_aside;
pub use writer::MeterWriter;

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
    /// How long a hold may be parked for the end of its call, while no caller waits for it.
    pub patience: Duration,
    /// How long the oldest waiting request may be delayed to gather more settlements into its
    /// batch.
    pub gather_max: Duration,
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
    /// 256 requests in a transaction, 4,096 waiting holds, none older than 250 ms, 5 ms of
    /// patience, 1 ms to gather settlements, a deadline of 10 s for a transaction, a write test
    /// after 2 s without requests, reports dropped.
    pub fn new(node: NodeId, epoch: i64) -> Self {
        Self {
            node,
            epoch,
            batch_max: 256,
            queue_max: 4096,
            queue_age_max: Duration::from_millis(250),
            patience: Duration::from_millis(5),
            gather_max: Duration::from_millis(1),
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
    /// The available credits of the affected customers.
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

/// Starts the metering of this node. The caller spawns the writer, a future that completes when
/// every `Meter` has been dropped and all requests are written.
pub fn start(store: &Store, options: MeterOptions) -> (Meter, MeterWriter) {
    meter::start(store, options)
}

/// A request to set credits aside for one call, and the data of its log entry.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The call.
    pub call_id: CallId,
    /// The customer who pays.
    pub customer: CustomerId,
    /// The key it came with.
    pub key: KeyId,
    /// The secret it came with. The hold is refused if the secret was rotated away or revoked
    /// meanwhile.
    pub key_hash: KeyHash,
    /// The version of the key when the call was authorized.
    pub key_version: i64,
    /// The account it is for.
    pub account: CreatorId,
    /// The version of the account when the call was prepared.
    pub account_version: i64,
    /// The account's platform.
    pub platform: Platform,
    /// The HTTP method.
    pub method: Method,
    /// The catalogue's name of the endpoint, the shape of the path, or `unlisted`.
    pub route: Arc<str>,
    /// The native path, without its query.
    pub path: String,
    /// The cost; zero or more.
    pub cost: Credits,
    /// When the call began.
    pub held_at: Timestamp,
    /// When the hold expires and is refunded, unless it is renewed.
    pub expires_at: Timestamp,
    /// The request id that the caller received.
    pub request_id: String,
    /// The `Idempotency-Key` it came with.
    pub idempotency: Option<IdempotencyClaim>,
}

/// An `Idempotency-Key` and the request it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// SHA-256 of the key as sent.
    pub key_hash: [u8; 32],
    /// SHA-256 of everything that identifies the request.
    pub fingerprint: [u8; 32],
    /// Until when its response is kept.
    pub expires_at: Timestamp,
}

/// Why a hold was refused before it was queued.
#[derive(Debug, thiserror::Error)]
pub enum HoldRefusal {
    /// The balance does not cover the cost.
    #[error("the balance is too low")]
    Insufficient {
        /// The available credits.
        balance: Credits,
    },
    /// The writer cannot keep up; retry shortly.
    #[error("too many calls wait to be metered")]
    Overloaded,
    /// The database does not respond, or its disk is full; retry shortly.
    #[error("calls cannot be metered at the moment")]
    Unavailable,
    /// The balance could not be read.
    #[error("the balance could not be read")]
    Store(#[source] StoreError),
}

/// The outcome of a hold.
#[derive(Debug, Clone)]
pub enum HoldOutcome {
    /// The credits are set aside, durably.
    Held {
        /// The available credits after the hold.
        balance: Credits,
    },
    /// The balance does not cover the cost.
    Insufficient {
        /// The available credits.
        balance: Credits,
    },
    /// The key's budget of this month does not cover the cost.
    BudgetExhausted {
        /// What the key may spend in the UTC month in which the call began.
        budget: Credits,
        /// What that month's calls and exports have spent or hold.
        used: Credits,
        /// When the next month begins.
        resets_at: Timestamp,
    },
    /// The key, its secret or its customer is no longer accepted.
    KeyRefused,
    /// The key's permissions have changed: authorize the call again.
    KeyChanged,
    /// The account is gone or has another version: prepare the call again.
    AccountChanged,
    /// The `Idempotency-Key` was used before.
    Idempotency(ExistingRequest),
    /// The database failed; nothing is held.
    Failed(Arc<StoreError>),
}

impl HoldOutcome {
    /// Whether the credits are set aside.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// How a call ended: a request to settle it.
#[derive(Debug, Clone)]
pub struct CallResolution {
    /// The call.
    pub call_id: CallId,
    /// The outcome, which decides whether the call is charged.
    pub outcome: Outcome,
    /// The platform's status code, if it responded.
    pub status: Option<u16>,
    /// When it ended.
    pub resolved_at: Timestamp,
    /// Total duration in milliseconds.
    pub duration_ms: i64,
    /// How long the platform took, in milliseconds.
    pub upstream_ms: Option<i64>,
    /// The response to keep for the call's `Idempotency-Key`; none if it is too large.
    pub answer: Option<StoredAnswer>,
    /// Whether the platform said that it did nothing and that the request may be retried. Then
    /// nothing is kept, and the next request with the same `Idempotency-Key` is carried out.
    pub frees_key: bool,
}
