//! The record of an export, as its customer sees it.

use ::exports::links::DownloadLink;
use ::exports::pages::is_retryable;
use domain::account::CreatorId;
use domain::dataset::DatasetName;
use domain::export::{ExportCredits, ExportFormat, ExportPhase, ExportRemoval, ExportState};
use domain::id::ExportId;
use domain::platform::Platform;
use domain::time::{MICROS_PER_SECOND, Timestamp};
use store::exports::{Export, ExportFailure, FileRemoval};

use crate::ApiState;

/// An export.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct ExportOut {
    #[schema(value_type = String)]
    job_id: ExportId,
    #[schema(value_type = String)]
    account: CreatorId,
    #[schema(schema_with = web::words::platform)]
    platform: Platform,
    #[schema(schema_with = web::words::dataset)]
    dataset: DatasetName,
    #[schema(schema_with = web::words::export_format)]
    fmt: ExportFormat,
    /// Whether a csv file starts with a byte order mark.
    csv_bom: bool,
    /// The chosen columns of the file; null means all.
    columns: Option<Vec<String>>,
    /// The parameters of the dataset.
    #[schema(value_type = std::collections::BTreeMap<String, serde_json::Value>)]
    params: serde_json::Value,
    /// As requested.
    start_date: Option<String>,
    /// As requested.
    end_date: Option<String>,
    max_rows: Option<i64>,
    #[schema(schema_with = web::words::export_state)]
    status: ExportState,
    /// Its cost, and the state of its credits.
    credits: CreditsOut,
    progress: ProgressOut,
    /// The number of rows in the finished file.
    rows: Option<i64>,
    /// The length of the finished file in bytes.
    bytes: Option<i64>,
    /// The SHA-256 of the finished file, in hexadecimal.
    sha256: Option<String>,
    /// Why it failed, or what it is waiting for while `running`.
    error: Option<ErrorOut>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// When the finished file is deleted.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// Why the file or the export was removed; null otherwise.
    removal: Option<RemovalOut>,
    /// A link that needs no key, new with each response; absent without a finished file.
    download_url: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    download_url_expires_at: Option<Timestamp>,
}

/// Its progress, recorded every two seconds while it changes.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ProgressOut {
    /// The current activity: `reading` the list, `checking` whether its head has changed meanwhile,
    /// or `writing` the file. Null before a worker starts and after the end.
    #[schema(schema_with = web::words::export_phase)]
    phase: Option<ExportPhase>,
    /// The number of pages read from the platform.
    pages: i64,
    /// The number of rows taken from them.
    rows: i64,
    /// Rows per second since the start, including time spent waiting.
    rows_per_second: i64,
    /// The number of rows in the platform's whole list; null if the platform does not report it.
    list_rows: Option<i64>,
    /// The number of rows of the list read so far, including those outside the dates.
    list_rows_read: i64,
    /// When reading the list is expected to end, at the pace so far; null if its length is unknown.
    #[schema(value_type = Option<String>, format = DateTime)]
    estimated_end: Option<Timestamp>,
    /// Until when it waits, because the platform asked for a pause or a retry is scheduled. Null
    /// while it does not wait.
    #[schema(value_type = Option<String>, format = DateTime)]
    waiting_until: Option<Timestamp>,
}

impl ProgressOut {
    fn of(export: &Export, now: Timestamp) -> Self {
        let doing = export.doing;
        let is_running = export.state == ExportState::Running;
        Self {
            phase: doing.phase.filter(|_| is_running),
            pages: export.pages,
            rows: export.rows_read,
            rows_per_second: rate(export, now),
            list_rows: doing.list_rows,
            list_rows_read: doing.list_rows_read,
            estimated_end: estimated_end(export, now).filter(|_| is_running),
            waiting_until: doing.waiting_until.filter(|until| is_running && *until > now),
        }
    }
}

/// When the rest of the list will have been read, at the pace so far. Reads that are limited by
/// dates or by `max_rows` end earlier.
fn estimated_end(export: &Export, now: Timestamp) -> Option<Timestamp> {
    let (rows, read) = (export.doing.list_rows?, export.doing.list_rows_read);
    let (micros, rest) = (now.micros_since(export.started_at?), rows.saturating_sub(read).max(0));
    let left = i128::from(micros.max(0)) * i128::from(rest) / i128::from(read).max(1);
    (read > 0).then(|| now.plus_micros(i64::try_from(left).unwrap_or(i64::MAX)))
}

/// The credits of an export: its cost is in one of the three fields, and the others are 0.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct CreditsOut {
    /// The credits charged.
    charged: i64,
    /// The credits held until it ends.
    held: i64,
    /// The credits refunded when it ended.
    refunded: i64,
}

impl CreditsOut {
    fn of(export: &Export) -> Self {
        let cost = export.cost.whole();
        let only = |state| if export.credits == state { cost } else { 0 };
        Self {
            charged: only(ExportCredits::Settled),
            held: only(ExportCredits::Held),
            refunded: only(ExportCredits::Refunded),
        }
    }
}

/// Why the file of an export, or the export, was removed.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct RemovalOut {
    #[schema(schema_with = web::words::export_removal)]
    reason: ExportRemoval,
    /// Since when; for a missing file, when that was noticed.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<FileRemoval> for RemovalOut {
    fn from(removal: FileRemoval) -> Self {
        Self { reason: removal.reason, at: removal.at }
    }
}

/// Why it failed, or what it waits for.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ErrorOut {
    /// The code for programs; see docs/api.md.
    code: String,
    message: String,
    /// Whether a new export of the same data may succeed.
    retryable: bool,
}

impl From<ExportFailure> for ErrorOut {
    fn from(ExportFailure { code, message }: ExportFailure) -> Self {
        let retryable = is_retryable(&code);
        Self { code, message, retryable }
    }
}

/// What the caller may see of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// Its customer, who may download the file.
    Own,
    /// Staff, who may see the record but not the data.
    Record,
}

impl ExportOut {
    /// The record at this moment.
    pub(super) fn of(api: &ApiState, export: Export, sight: Sight) -> Self {
        let now = api.clock.now();
        let status = export.shown_state();
        let is_ready = status == ExportState::Completed && sight == Sight::Own;
        let link = is_ready.then(|| DownloadLink::new(export.id, export.lease_token, now));
        let download_url = link.and_then(|link| link.url(&api.exports));
        let progress = ProgressOut::of(&export, now);
        let credits = CreditsOut::of(&export);
        let output = export.output.filter(|_| status == ExportState::Completed);
        Self {
            job_id: export.id,
            account: export.account,
            platform: export.platform,
            dataset: export.dataset,
            fmt: export.format,
            csv_bom: export.csv_bom,
            columns: export.columns,
            params: serde_json::from_str(&export.params).unwrap_or_default(),
            start_date: export.start_date,
            end_date: export.end_date,
            max_rows: export.max_rows,
            status,
            credits,
            progress,
            rows: output.as_ref().map(|output| output.rows),
            bytes: output.as_ref().map(|output| output.bytes),
            sha256: output.map(|output| output.sha256),
            error: export.error.map(ErrorOut::from),
            created_at: export.created_at,
            started_at: export.started_at,
            finished_at: export.finished_at,
            expires_at: export.expires_at,
            removal: export.removal.map(RemovalOut::from),
            download_url_expires_at: download_url.as_ref().and(link).map(|link| link.ends_at()),
            download_url,
        }
    }
}

fn rate(export: &Export, now: Timestamp) -> i64 {
    let Some(started_at) = export.started_at else { return 0 };
    let micros = export.finished_at.unwrap_or(now).micros_since(started_at);
    export.rows_read.saturating_mul(MICROS_PER_SECOND).checked_div(micros.max(1)).unwrap_or(0)
}
