//! Exports: jobs whose credits are held while they are open, claimed by workers with a lease and a fencing token.
//!
//! A job's row is its hold, its record and its receipt. Whoever changes credits locks the customer's balance first
//! and the job second, so that no two transactions wait for each other. A worker's writes name its token and count
//! only while its lease lasts; what is late changes nothing.

mod cleanup;
mod create;
mod end;
mod lease;
mod read;

use domain::account::CreatorId;
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
pub use end::{ExportCancellation, ReapedExports, cancel, end_cancelled, fail, publish, reap};
pub use lease::{claim, give_back, gives_way, pause, postpone, release_left, renew};
pub use read::{ExportCounts, ExportList, count, find, find_of_any, list};

/// An export as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its id.
    pub id: ExportId,
    /// Whose it is.
    pub customer: CustomerId,
    /// The key that made it.
    pub key: KeyId,
    /// The account that is read.
    pub account: CreatorId,
    /// Where that account lives.
    pub platform: Platform,
    /// What is read there.
    pub dataset: DatasetName,
    /// The form of the file.
    pub format: ExportFormat,
    /// Whether a csv file begins with a byte order mark.
    pub csv_bom: bool,
    /// The only columns of the file, in their order; none: all of them.
    pub columns: Option<Vec<String>>,
    /// What the dataset needs to know besides, as a JSON object.
    pub params: String,
    /// From when on rows are taken, as the caller wrote it.
    pub start_date: Option<String>,
    /// Until when, as the caller wrote it.
    pub end_date: Option<String>,
    /// The most rows of the file.
    pub max_rows: Option<i64>,
    /// What it costs.
    pub cost: Credits,
    /// What became of that.
    pub credits: ExportCredits,
    /// Where it stands.
    pub state: ExportState,
    /// Claims since the last new page.
    pub attempt: i64,
    /// Pages of the platform that were read, as last written down.
    pub pages: i64,
    /// Rows taken from them.
    pub rows_read: i64,
    /// How long workers have been at it, as last written down, in microseconds.
    pub worked_micros: i64,
    /// What a worker does for it, as last written down.
    pub doing: ExportActivity,
    /// The finished file.
    pub output: Option<ExportOutput>,
    /// Why it failed.
    pub error: Option<ExportFailure>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When a worker first took it.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When its file goes.
    pub expires_at: Option<Timestamp>,
    /// The fencing token of the newest claim; 0 before the first.
    pub lease_token: i64,
    /// Why its file is gone, or the export itself. A completed export has one where the storage did not have the file.
    pub removal: Option<FileRemoval>,
}

/// Why something is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRemoval {
    /// Why.
    pub reason: ExportRemoval,
    /// Since when; for a missing file, when that was found out.
    pub at: Timestamp,
}

impl Export {
    /// Its state as its customer is shown it: one whose file is missing is no longer `completed`.
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
    /// Its name in the storage.
    pub key: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// Its length in bytes.
    pub bytes: i64,
    /// How many rows it has.
    pub rows: i64,
}

/// Why an export failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFailure {
    /// What clients match.
    pub code: String,
    /// What happened, for people.
    pub message: String,
}

/// An export to be made, and who asks for it.
#[derive(Debug, Clone)]
pub struct NewExport {
    /// Its id.
    pub id: ExportId,
    /// Whose it is.
    pub customer: CustomerId,
    /// The key it is asked for with.
    pub key: KeyId,
    /// The secret of that key: refused when it was rotated away or revoked meanwhile.
    pub key_hash: KeyHash,
    /// The account to be read.
    pub account: CreatorId,
    /// Where it is expected to live.
    pub platform: Platform,
    /// What is read.
    pub dataset: DatasetName,
    /// The form of the file.
    pub format: ExportFormat,
    /// Whether a csv file begins with a byte order mark.
    pub csv_bom: bool,
    /// The only columns of the file, in their order; none: all of them.
    pub columns: Option<Vec<String>>,
    /// A JSON object.
    pub params: String,
    /// As the caller wrote it.
    pub start_date: Option<String>,
    /// As the caller wrote it.
    pub end_date: Option<String>,
    /// One or more.
    pub max_rows: Option<i64>,
    /// What it costs; zero or more.
    pub cost: Credits,
    /// Now.
    pub created_at: Timestamp,
    /// The most exports of a customer that may wait for a worker.
    pub pending_max: i64,
    /// The Idempotency-Key it came with, and the answer to keep.
    pub idempotency: Option<(IdempotencyClaim, StoredAnswer)>,
}

/// What became of the wish for an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportCreation {
    /// It is written down and its credits are set aside.
    Created {
        /// What is available after it.
        balance: Credits,
    },
    /// The Idempotency-Key was used before.
    Repeated(ExistingRequest),
    /// The key, its secret or its customer is no longer accepted.
    KeyRefused,
    /// The key may only read.
    KeyReadOnly,
    /// There is no such account on that platform, or the key may not use it.
    NoAccount,
    /// The plan has no room for the account.
    AccountInactive {
        /// Whether its customer switched it off.
        is_switched_off: bool,
    },
    /// As many exports of the customer wait as may.
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
        /// What is available.
        balance: Credits,
    },
}

/// Who looks for work, and for how long it is taken.
#[derive(Debug, Clone, Copy)]
pub struct ExportClaimant {
    /// The node.
    pub node: NodeId,
    /// Now.
    pub now: Timestamp,
    /// Until when nobody else takes it.
    pub lease_until: Timestamp,
    /// The most exports of one customer that are worked on at once.
    pub running_max: i64,
    /// An export that was claimed so often without a new page is left to the reaper.
    pub attempts_max: i64,
}

/// The right to work on an export, as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportLease {
    /// The export.
    pub export: ExportId,
    /// Whose it is.
    pub customer: CustomerId,
    /// The fencing token.
    pub token: i64,
}

/// What a worker does for an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportActivity {
    /// What it does; nothing before the first worker.
    pub phase: Option<ExportPhase>,
    /// Rows of the platform's list, where the platform tells.
    pub list_rows: Option<i64>,
    /// How many of them were read, also those that are not taken.
    pub list_rows_read: i64,
    /// Until when nothing is asked of the platform.
    pub waiting_until: Option<Timestamp>,
}

/// How far a worker is, over all attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportProgress {
    /// Pages of the platform.
    pub pages: i64,
    /// Rows taken from them.
    pub rows: i64,
    /// How long workers have been at it, in microseconds.
    pub worked_micros: i64,
}

/// Whether a lease goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// Until the time that was asked for.
    Kept,
    /// Somebody asked for the export's end; the lease stands as it was.
    Cancelling,
    /// It is somebody else's, or over: nothing more may be written.
    Lost,
}
