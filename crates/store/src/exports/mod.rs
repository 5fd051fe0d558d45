//! Exports: long-running work whose credits are held until it ends, claimed by workers with a lease
//! and a fencing token.
//!
//! An export's row is its hold, its record and its receipt. Transactions that change credits lock
//! the customer's balance first and the export second, so that no two deadlock. A worker's writes
//! carry its token and only count while its lease is valid; late writes change nothing.

mod cleanup;
mod create;
mod end;
mod lease;
mod read;

use domain::account::CreatorId;
use domain::call_tag::CallTag;
use domain::credits::Credits;
use domain::dataset::DatasetName;
use domain::export::{ExportCredits, ExportFormat, ExportPhase, ExportRemoval, ExportState};
use domain::id::{CustomerId, ExportId, KeyId, NodeId};
use domain::key::KeyHash;
use domain::platform::Platform;
use domain::time::Timestamp;

use crate::idempotency::{ExistingRequest, StoredAnswer};
use crate::metering::IdempotencyClaim;

pub use cleanup::{
    ExportCleanup, ExportDeletion, StorageInUse, cleaned, delete, due_cleanups, expire, keeps,
    note_file,
};
pub use create::create;
pub use end::{
    ExportCancellation, ExportPublication, ReapedExports, cancel, end_cancelled, fail, publish,
    reap,
};
pub use lease::{ClaimedExport, claim, give_back, gives_way, pause, postpone, renew};
pub use read::{ExportCounts, ExportList, count, find, find_of_any, list};

/// An export as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its id.
    pub id: ExportId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The key that requested it.
    pub key: KeyId,
    /// The account it reads.
    pub account: CreatorId,
    /// The account's platform.
    pub platform: Platform,
    /// The dataset it reads.
    pub dataset: DatasetName,
    /// The format of the file.
    pub format: ExportFormat,
    /// Whether a CSV file begins with a byte order mark.
    pub csv_bom: bool,
    /// The columns of the file, in order; none: all of them.
    pub columns: Option<Vec<String>>,
    /// Further parameters of the dataset, as a JSON object.
    pub params: String,
    /// The start of the window, as the caller wrote it.
    pub start_date: Option<String>,
    /// The end of the window, as the caller wrote it.
    pub end_date: Option<String>,
    /// The maximum number of rows in the file.
    pub max_rows: Option<i64>,
    /// Its cost.
    pub cost: Credits,
    /// Whether the cost is held, charged or refunded.
    pub credits: ExportCredits,
    /// Its state.
    pub state: ExportState,
    /// The number of claims since the last new page.
    pub attempt: i64,
    /// The number of platform pages read, as last recorded.
    pub pages: i64,
    /// The number of rows taken from them.
    pub rows_read: i64,
    /// How long workers have worked on it, as last recorded, in microseconds.
    pub worked_micros: i64,
    /// What its worker is doing, as last recorded.
    pub doing: ExportActivity,
    /// The finished file.
    pub output: Option<ExportOutput>,
    /// Why it failed.
    pub error: Option<ExportFailure>,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When a worker first claimed it.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When its file expires.
    pub expires_at: Option<Timestamp>,
    /// The fencing token of the newest claim; 0 before the first.
    pub lease_token: i64,
    /// Why its file or the export itself was removed. Also set on a completed export whose file is
    /// missing from the storage.
    pub removal: Option<FileRemoval>,
}

/// Why and when a file or an export was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRemoval {
    /// The reason.
    pub reason: ExportRemoval,
    /// When it was removed; for a missing file, when that was discovered.
    pub at: Timestamp,
}

impl Export {
    /// The state as shown to its customer: an export whose file is missing is no longer
    /// `completed`.
    pub fn shown_state(&self) -> ExportState {
        if self.state == ExportState::Completed && self.removal.is_some() {
            ExportState::Expired
        } else {
            self.state
        }
    }
}

/// A finished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOutput {
    /// Its object key in the storage.
    pub key: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Its length in bytes.
    pub bytes: i64,
    /// The number of rows.
    pub rows: i64,
}

/// Why an export failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFailure {
    /// The error code that clients match.
    pub code: String,
    /// An explanation for people.
    pub message: String,
}

/// A request for an export.
#[derive(Debug, Clone)]
pub struct NewExport {
    /// Its id.
    pub id: ExportId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The key that requests it.
    pub key: KeyId,
    /// The secret of that key. The export is refused if the secret was rotated away or revoked
    /// meanwhile.
    pub key_hash: KeyHash,
    /// The account to read.
    pub account: CreatorId,
    /// The platform that the account is expected to be on.
    pub platform: Platform,
    /// The dataset to read.
    pub dataset: DatasetName,
    /// The format of the file.
    pub format: ExportFormat,
    /// Whether a CSV file begins with a byte order mark.
    pub csv_bom: bool,
    /// The columns of the file, in order; none: all of them.
    pub columns: Option<Vec<String>>,
    /// Further parameters of the dataset, as a JSON object.
    pub params: String,
    /// As the caller wrote it.
    pub start_date: Option<String>,
    /// As the caller wrote it.
    pub end_date: Option<String>,
    /// The maximum number of rows in the file; one or more.
    pub max_rows: Option<i64>,
    /// Its cost; zero or more.
    pub cost: Credits,
    /// The current time.
    pub created_at: Timestamp,
    /// The maximum number of a customer's exports that may wait for a worker.
    pub pending_max: i64,
    /// What it is for, in the customer's own words.
    pub tag: Option<CallTag>,
    /// The `Idempotency-Key` it came with, and the response to keep.
    pub idempotency: Option<(IdempotencyClaim, StoredAnswer)>,
}

/// The outcome of a request for an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportCreation {
    /// It is stored and its credits are held.
    Created {
        /// The available credits afterwards.
        balance: Credits,
    },
    /// The `Idempotency-Key` was used before.
    Repeated(ExistingRequest),
    /// The key, its secret or its customer is no longer accepted.
    KeyRefused,
    /// The key is read-only.
    KeyReadOnly,
    /// There is no such account on that platform, or the key may not use it.
    NoAccount,
    /// The account is inactive.
    AccountInactive {
        /// Whether its customer switched it off; otherwise it has no slot.
        is_switched_off: bool,
    },
    /// The maximum number of the customer's exports is waiting.
    TooManyPending,
    /// The key's budget of this month does not cover the cost.
    BudgetExhausted {
        /// What the key may spend in the UTC month.
        budget: Credits,
        /// What it has spent and holds.
        used: Credits,
        /// When the next month begins.
        resets_at: Timestamp,
    },
    /// The balance does not cover the cost.
    Insufficient {
        /// The available credits.
        balance: Credits,
    },
}

/// A node that claims exports, and the terms of its claims.
#[derive(Debug, Clone, Copy)]
pub struct ExportClaimant {
    /// The node.
    pub node: NodeId,
    /// The current time.
    pub now: Timestamp,
    /// When the lease may be taken over, if the node is gone then.
    pub lease_until: Timestamp,
    /// The maximum number of one customer's exports that run concurrently.
    pub running_max: i64,
    /// An export with this many claims without a new page is left to the reaper.
    pub attempts_max: i64,
}

/// The time-limited right to work on an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportLease {
    /// The export.
    pub export: ExportId,
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The fencing token.
    pub token: i64,
}

/// What a worker is doing for an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportActivity {
    /// The phase; none before the first worker.
    pub phase: Option<ExportPhase>,
    /// The number of rows in the platform's list, if it reports that.
    pub list_rows: Option<i64>,
    /// How many of them were read, including rows that are not taken.
    pub list_rows_read: i64,
    /// Until when no requests are made to the platform.
    pub waiting_until: Option<Timestamp>,
}

/// Progress of an export, over all attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportProgress {
    /// The number of platform pages read.
    pub pages: i64,
    /// The number of rows taken from them.
    pub rows: i64,
    /// How long workers have worked on it, in microseconds.
    pub worked_micros: i64,
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerReport {
    /// What has been read.
    pub progress: ExportProgress,
    /// What the worker is doing.
    pub doing: ExportActivity,
    /// Whether this claim has read a page that no earlier one had read, which resets the count of
    /// attempts.
    pub has_new_page: bool,
}

/// The outcome of a lease renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// The lease is extended to the requested time.
    Kept,
    /// The export is being cancelled; the lease is unchanged.
    Cancelling,
    /// The lease has expired or passed to another worker: nothing more may be written.
    Lost,
}
