//! What can go wrong with exports, and its rows of the table.

use catalog::dataset::MediaArchive;
use clients::storage::StorageError;
use domain::export::ExportState;
use domain::field_error::FieldErrorKind;
use http::StatusCode;

use super::table::Row;
use super::{ApiError, FieldProblem};

/// How long a customer with too many exports is told to wait, in milliseconds: about as long as a short one takes.
const TOO_MANY_WAIT_MS: i64 = 30_000;

/// Every way a request for an export can fail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportProblem {
    /// There is no archive of media.
    #[error(
        "media archives are not available for this platform ({}); `GET /v1/exports/datasets` lists what can be exported",
        why.as_str()
    )]
    MediaArchive {
        /// The field that asks for it.
        field: &'static str,
        /// Why there is none.
        why: MediaArchive,
    },
    /// As many exports wait as may.
    #[error("{0} exports are already waiting; wait for some to finish, or cancel them")]
    TooMany(i64),
    /// It cannot be cancelled any more.
    #[error("the export has already ended ({0}); nothing was changed")]
    Over(ExportState),
    /// It cannot be removed yet.
    #[error("the export is still running; cancel it first, and wait until it has stopped")]
    NotOver,
    /// It has no file to download.
    #[error("the export has no file: it is {0}")]
    NotReady(ExportState),
    /// Its file was removed after its time.
    #[error("the export's file has expired and was deleted; create a new export")]
    Expired,
    /// Its file is not in the storage, before its time.
    #[error(
        "the export's file is no longer in the storage of the service, which removed it before `expires_at`; create a new export"
    )]
    FileMissing,
    /// A signed link that is not ours, not now, or not for this.
    #[error(
        "this link is not valid or has expired; `GET /v1/exports/{{job_id}}` returns a new one"
    )]
    InvalidLink,
    /// The range begins behind the end.
    #[error("the file has {0} bytes; the range starts after its end")]
    RangeBehindEnd(i64),
    /// The storage does not answer.
    #[error("the file storage is not responding; try again in a moment")]
    Storage(#[source] StorageError),
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        Self::Export(ExportProblem::Storage(error))
    }
}

impl ExportProblem {
    /// The row of the table.
    pub(super) const fn row(&self) -> Row {
        match self {
            Self::MediaArchive { .. } => MEDIA_ARCHIVE_UNAVAILABLE,
            Self::TooMany(_) => TOO_MANY_EXPORTS,
            Self::Over(_) => EXPORT_OVER,
            Self::NotOver => EXPORT_NOT_OVER,
            // Another try helps only while there may still be a file.
            Self::NotReady(state) => {
                let may_come = matches!(state, ExportState::Pending | ExportState::Running);
                Row { retryable: may_come, ..EXPORT_NOT_READY }
            }
            Self::Expired => EXPORT_EXPIRED,
            Self::FileMissing => EXPORT_FILE_MISSING,
            Self::InvalidLink => INVALID_LINK,
            Self::RangeBehindEnd(_) => RANGE_NOT_SATISFIABLE,
            Self::Storage(_) => STORAGE_UNAVAILABLE,
        }
    }

    /// The wrong field of a problem that is one of a field.
    pub(super) fn field_problem(&self) -> Option<FieldProblem> {
        match self {
            Self::MediaArchive { field, .. } => {
                let kind = FieldErrorKind::NotAllowed;
                Some(FieldProblem::new("body", field, kind, self.to_string()))
            }
            _ => None,
        }
    }

    /// When to try again, in milliseconds.
    pub(super) const fn retry_after_ms(&self) -> Option<i64> {
        match self {
            Self::TooMany(_) => Some(TOO_MANY_WAIT_MS),
            _ => None,
        }
    }
}

/// `media_archive_unavailable`
pub(in crate::error) const MEDIA_ARCHIVE_UNAVAILABLE: Row = Row {
    code: "media_archive_unavailable",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "No media archive",
    retryable: false,
    meaning: "Media archives are not available; `GET /v1/exports/datasets` says why for each platform, and what can be exported. Nothing was charged.",
};
/// `too_many_exports`
pub(in crate::error) const TOO_MANY_EXPORTS: Row = Row {
    code: "too_many_exports",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many exports",
    retryable: true,
    meaning: "The customer has the maximum number of exports waiting. Wait for some to finish, or cancel them. Nothing was charged.",
};
/// `export_over`
pub(in crate::error) const EXPORT_OVER: Row = Row {
    code: "export_over",
    status: StatusCode::CONFLICT,
    title: "Export already ended",
    retryable: false,
    meaning: "The export has ended already and cannot be cancelled.",
};
/// `export_not_over`
pub(in crate::error) const EXPORT_NOT_OVER: Row = Row {
    code: "export_not_over",
    status: StatusCode::CONFLICT,
    title: "Export still running",
    retryable: true,
    meaning: "Only an export that has ended can be deleted. Cancel it first, and wait until its status is final.",
};
/// `export_not_ready`
pub(in crate::error) const EXPORT_NOT_READY: Row = Row {
    code: "export_not_ready",
    status: StatusCode::CONFLICT,
    title: "No file",
    retryable: true,
    meaning: "The export has no file: it is not completed yet, or it failed or was cancelled. `GET /v1/exports/{job_id}` says which, and `retryable` is false once there will never be a file.",
};
/// `export_expired`
pub(in crate::error) const EXPORT_EXPIRED: Row = Row {
    code: "export_expired",
    status: StatusCode::GONE,
    title: "File expired",
    retryable: false,
    meaning: "The export's file was deleted at `expires_at`. Create a new export.",
};
/// `export_file_missing`
pub(in crate::error) const EXPORT_FILE_MISSING: Row = Row {
    code: "export_file_missing",
    status: StatusCode::GONE,
    title: "File missing",
    retryable: false,
    meaning: "The storage of the service no longer has the export's file, though `expires_at` is not reached: a rule of the storage removed it, for example. The record says so in `removal`. Create a new export.",
};
/// `invalid_link`
pub(in crate::error) const INVALID_LINK: Row = Row {
    code: "invalid_link",
    status: StatusCode::FORBIDDEN,
    title: "Invalid link",
    retryable: false,
    meaning: "The signed link was changed, is older than five minutes, is used with a method other than GET, or its export was deleted. `GET /v1/exports/{job_id}` returns a new one.",
};
/// `range_not_satisfiable`
pub(in crate::error) const RANGE_NOT_SATISFIABLE: Row = Row {
    code: "range_not_satisfiable",
    status: StatusCode::RANGE_NOT_SATISFIABLE,
    title: "Range not satisfiable",
    retryable: false,
    meaning: "The range starts after the end of the file; `Content-Range` has its length.",
};
/// `storage_unavailable`
pub(in crate::error) const STORAGE_UNAVAILABLE: Row = Row {
    code: "storage_unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Storage unavailable",
    retryable: true,
    meaning: "The file storage is temporarily unavailable. Nothing was lost or charged.",
};
