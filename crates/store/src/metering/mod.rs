//! Metering: credits are held before a call counts, and charged or given back exactly once when it ends.
//!
//! One writer gathers what is asked for while the last commit is flushed and writes it in one transaction;
//! callers are told after the commit. On SQLite the process is the authority for every balance, so a
//! reservation is taken in memory at once and made durable with the batch; on PostgreSQL only the
//! committed hold counts. A call's row is its hold, its log entry and its receipt.

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

/// How the metering of a node works.
#[derive(Clone)]
pub struct MeterOptions {
    /// The node, written into every hold.
    pub node: NodeId,
    /// Its epoch, as `recover` gave it.
    pub epoch: i64,
    /// The most holds, ends and renewals in one transaction.
    pub batch_max: usize,
    /// The most holds that may wait; more are refused as overloaded.
    pub queue_max: usize,
    /// Holds are refused as overloaded while the oldest entry of the queue is older than this.
    pub queue_age_max: Duration,
    /// How long a hold may wait for the end of its call before it is written, where nobody waits for it.
    pub patience: Duration,
    /// How long the first that waits for the writer may be kept waiting while more ends are about to come.
    pub gather_max: Duration,
    /// How long a transaction may take. After that its connection is given up, and whether it was committed is found
    /// out on another one.
    pub batch_deadline: Duration,
    /// How long nothing may be asked for until the writer looks whether a shared database still takes writes.
    pub probe_every: Duration,
    /// Told about every transaction, after those who wait for it.
    pub on_batch: Arc<dyn Fn(&BatchReport) + Send + Sync>,
}

impl MeterOptions {
    /// 256 in a transaction, 4,096 waiting holds, none older than 250 ms, 5 ms of patience, ends gathered for 1 ms,
    /// 10 s for a transaction, a look at the database after 2 s without one, reports dropped.
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
    /// How many holds were asked for.
    pub holds: usize,
    /// How many of them were granted.
    pub held: usize,
    /// How many calls were to be ended.
    pub resolutions: usize,
    /// From the beginning of the transaction to the end of its commit.
    pub duration: Duration,
    /// What the customers concerned have available now.
    pub balances: Vec<(CustomerId, Credits)>,
    /// Whether it was committed; if not, its holds failed and its ends are tried again.
    pub committed: bool,
}

/// How the metering is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterStats {
    /// Holds that wait for the writer.
    pub holds_waiting: usize,
    /// Ends of calls that wait for the writer.
    pub resolutions_waiting: usize,
    /// How long the oldest of them has waited, or the writer has been at one transaction, whichever is longer.
    pub oldest: Duration,
    /// Ends that came after somebody else had ended the call, since the start; without those of calls that never left.
    pub late_resolution_total: u64,
    /// Transactions that failed, since the start.
    pub failed_batch_total: u64,
}

/// Starts the metering of this node. The writer is a future to be spawned; it ends when every `Meter` is
/// dropped and all that was asked for is written.
pub fn start(store: &Store, options: MeterOptions) -> (Meter, MeterWriter) {
    meter::start(store, options)
}

/// Credits to be set aside for one call, and what its log entry says.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The call.
    pub call_id: CallId,
    /// Who pays.
    pub customer: CustomerId,
    /// The key it came with.
    pub key: KeyId,
    /// The secret it came with: refused when it was rotated away or revoked meanwhile.
    pub key_hash: KeyHash,
    /// The version of the key it was admitted with.
    pub key_version: i64,
    /// The account it is for.
    pub account: CreatorId,
    /// The version of the account it was prepared with.
    pub account_version: i64,
    /// Where the account lives.
    pub platform: Platform,
    /// The method.
    pub method: Method,
    /// The catalogue's name of the endpoint, the shape of the path, or `unlisted`.
    pub route: Arc<str>,
    /// The native path, without its query.
    pub path: String,
    /// What it costs; zero or more.
    pub cost: Credits,
    /// When the call began.
    pub held_at: Timestamp,
    /// When the hold is given back unless it is renewed.
    pub expires_at: Timestamp,
    /// The request it came in, as the caller was told.
    pub request_id: String,
    /// The Idempotency-Key it came with.
    pub idempotency: Option<IdempotencyClaim>,
}

/// An `Idempotency-Key` and the request it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// SHA-256 of the key as sent.
    pub key_hash: [u8; 32],
    /// SHA-256 of what makes the request the same one.
    pub fingerprint: [u8; 32],
    /// Until when its answer is kept.
    pub expires_at: Timestamp,
}

/// Why a hold was not even queued.
#[derive(Debug, thiserror::Error)]
pub enum HoldRefusal {
    /// The balance does not cover the cost.
    #[error("the balance is too low")]
    Insufficient {
        /// What is available.
        balance: Credits,
    },
    /// The writer does not keep up; ask again in a moment.
    #[error("too many calls wait to be metered")]
    Overloaded,
    /// The database does not respond, or has no room; ask again in a moment.
    #[error("calls cannot be metered for the moment")]
    Unavailable,
    /// The balance could not be read.
    #[error("the balance could not be read")]
    Store(#[source] StoreError),
}

/// What became of a hold.
#[derive(Debug, Clone)]
pub enum HoldOutcome {
    /// The credits are set aside, durably.
    Held {
        /// What is available after it.
        balance: Credits,
    },
    /// The balance does not cover the cost.
    Insufficient {
        /// What is available.
        balance: Credits,
    },
    /// The key's budget of this month does not cover the cost.
    BudgetExhausted {
        /// What the key may spend in the UTC month in which the call began.
        budget: Credits,
        /// What calls of that month have spent or hold.
        used: Credits,
        /// When the next month begins.
        resets_at: Timestamp,
    },
    /// The key, its secret or its customer is no longer accepted.
    KeyRefused,
    /// What the key may do has changed: admit the call anew.
    KeyChanged,
    /// The account is gone or has another version: prepare the call anew.
    AccountChanged,
    /// The Idempotency-Key was used before.
    Idempotency(ExistingRequest),
    /// Nothing is held; the database failed.
    Failed(Arc<StoreError>),
}

impl HoldOutcome {
    /// Whether the credits are set aside.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// The end of a call.
#[derive(Debug, Clone)]
pub struct CallResolution {
    /// The call.
    pub call_id: CallId,
    /// How it came out; decides whether it is charged.
    pub outcome: Outcome,
    /// The platform's status, where it answered.
    pub status: Option<u16>,
    /// Now.
    pub resolved_at: Timestamp,
    /// How long it took in all, in milliseconds.
    pub duration_ms: i64,
    /// How long the platform took, in milliseconds.
    pub upstream_ms: Option<i64>,
    /// The answer to keep for the Idempotency-Key the call came with; nothing when it is too large.
    pub answer: Option<StoredAnswer>,
    /// Whether the platform said that it did nothing and that the request may come again: nothing is
    /// kept, and the next request with the same Idempotency-Key is carried out.
    pub frees_key: bool,
}
