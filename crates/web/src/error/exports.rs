//! Failures of exports, and their rows of the table.

use domain::export::ExportState;
use domain::field_error::FieldErrorKind;
use failures::{ExportProblem, FieldProblem};
use http::StatusCode;

use super::table::FailureRow;

/// `Retry-After` for a customer with too many exports, in milliseconds: about as long as a short
/// export takes.
const TOO_MANY_WAIT_MS: i64 = 30_000;

/// The row of the table for this failure.
pub(super) const fn row(problem: &ExportProblem) -> FailureRow {
    match problem {
        ExportProblem::MediaArchive { .. } => MEDIA_ARCHIVE_UNAVAILABLE,
        ExportProblem::TooMany(_) => TOO_MANY_EXPORTS,
        ExportProblem::Over(_) => EXPORT_OVER,
        ExportProblem::NotOver => EXPORT_NOT_OVER,
        // A retry helps only while the export may still produce a file.
        ExportProblem::NotReady(state) => {
            let may_come = matches!(state, ExportState::Pending | ExportState::Running);
            FailureRow { retryable: may_come, ..EXPORT_NOT_READY }
        }
        ExportProblem::Expired => EXPORT_EXPIRED,
        ExportProblem::FileMissing => EXPORT_FILE_MISSING,
        ExportProblem::InvalidLink => INVALID_LINK,
        ExportProblem::RangeBehindEnd(_) => RANGE_NOT_SATISFIABLE,
        ExportProblem::Storage(_) => STORAGE_UNAVAILABLE,
    }
}

/// The field error of a failure that concerns one field.
pub(super) fn field_problem(problem: &ExportProblem) -> Option<FieldProblem> {
    match problem {
        ExportProblem::MediaArchive { field, .. } => {
            let kind = FieldErrorKind::NotAllowed;
            Some(FieldProblem::new("body", field, kind, problem.to_string()))
        }
        _ => None,
    }
}

/// The milliseconds after which to try again.
pub(super) const fn retry_after_ms(problem: &ExportProblem) -> Option<i64> {
    match problem {
        ExportProblem::TooMany(_) => Some(TOO_MANY_WAIT_MS),
        _ => None,
    }
}
/// `media_archive_unavailable`
pub(in crate::error) const MEDIA_ARCHIVE_UNAVAILABLE: FailureRow = FailureRow {
    code: "media_archive_unavailable",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "No media archive",
    retryable: false,
    meaning: "Media archives are not available; `GET /v1/exports/datasets` says why for each platform, and what can be exported. Nothing was charged.",
};
/// `too_many_exports`
pub(in crate::error) const TOO_MANY_EXPORTS: FailureRow = FailureRow {
    code: "too_many_exports",
    status: StatusCode::TOO_MANY_REQUESTS,
    title: "Too many exports",
    retryable: true,
    meaning: "The customer has the maximum number of exports waiting. Wait for some to finish, or cancel them. Nothing was charged.",
};
/// `export_over`
pub(in crate::error) const EXPORT_OVER: FailureRow = FailureRow {
    code: "export_over",
    status: StatusCode::CONFLICT,
    title: "Export already ended",
    retryable: false,
    meaning: "The export has ended already and cannot be cancelled.",
};
/// `export_not_over`
pub(in crate::error) const EXPORT_NOT_OVER: FailureRow = FailureRow {
    code: "export_not_over",
    status: StatusCode::CONFLICT,
    title: "Export still running",
    retryable: true,
    meaning: "Only an export that has ended can be deleted. Cancel it first, and wait until its status is final.",
};
/// `export_not_ready`
pub(in crate::error) const EXPORT_NOT_READY: FailureRow = FailureRow {
    code: "export_not_ready",
    status: StatusCode::CONFLICT,
    title: "No file",
    retryable: true,
    meaning: "The export has no file: it is not completed yet, or it failed or was cancelled. `GET /v1/exports/{job_id}` says which, and `retryable` is false once there will never be a file.",
};
/// `export_expired`
pub(in crate::error) const EXPORT_EXPIRED: FailureRow = FailureRow {
    code: "export_expired",
    status: StatusCode::GONE,
    title: "File expired",
    retryable: false,
    meaning: "The export's file was deleted at `expires_at`. Create a new export.",
};
/// `export_file_missing`
pub(in crate::error) const EXPORT_FILE_MISSING: FailureRow = FailureRow {
    code: "export_file_missing",
    status: StatusCode::GONE,
    title: "File missing",
    retryable: false,
    meaning: "The storage of the service no longer has the export's file, although `expires_at` has not passed; for example, a rule of the storage removed it. The record says so in `removal`. Create a new export.",
};
/// `invalid_link`
pub(in crate::error) const INVALID_LINK: FailureRow = FailureRow {
    code: "invalid_link",
    status: StatusCode::FORBIDDEN,
    title: "Invalid link",
    retryable: false,
    meaning: "The signed link was changed, is older than five minutes, is used with a method other than GET, or its export was deleted. `GET /v1/exports/{job_id}` returns a new one.",
};
/// `range_not_satisfiable`
pub(in crate::error) const RANGE_NOT_SATISFIABLE: FailureRow = FailureRow {
    code: "range_not_satisfiable",
    status: StatusCode::RANGE_NOT_SATISFIABLE,
    title: "Range not satisfiable",
    retryable: false,
    meaning: "The range starts after the end of the file; `Content-Range` has its length.",
};
/// `storage_unavailable`
pub(in crate::error) const STORAGE_UNAVAILABLE: FailureRow = FailureRow {
    code: "storage_unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Storage unavailable",
    retryable: true,
    meaning: "The file storage is temporarily unavailable. Nothing was lost or charged.",
};
