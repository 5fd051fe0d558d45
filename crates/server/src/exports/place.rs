//! Where an export's things lie in the storage: everything below a folder of its own, each claim's in one of its own.

use clients::storage::ObjectName;
use domain::export::ExportFormat;
use domain::id::ExportId;
use failures::Failure;
use web::error::ApiError;

/// What all exports lie below.
pub(crate) const ROOT: &str = "exports";

/// Everything of one export.
pub(crate) fn folder(export: ExportId) -> Result<ObjectName, ApiError> {
    name(format!("{ROOT}/{export}"))
}

/// The segment of the spool that one claim writes.
pub(crate) fn segment(export: ExportId, token: i64) -> Result<ObjectName, ApiError> {
    name(format!("{ROOT}/{export}/{token}/spool"))
}

/// The file that one claim finishes.
pub(crate) fn output(
    export: ExportId,
    token: i64,
    format: ExportFormat,
) -> Result<ObjectName, ApiError> {
    name(format!("{ROOT}/{export}/{token}/data.{format}"))
}

/// Everything of one claim.
pub(crate) fn own(export: ExportId, token: i64) -> Result<ObjectName, ApiError> {
    name(format!("{ROOT}/{export}/{token}"))
}

/// Whether something of a claim is a part of the spool.
pub(crate) fn is_page(name: &str) -> bool {
    name.split('/').nth(3) == Some("spool")
}

/// The export that a name belongs to.
pub(crate) fn owner(name: &ObjectName) -> Option<ExportId> {
    name.as_str().strip_prefix(ROOT)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// A name of ours that was written down.
pub(crate) fn name(text: String) -> Result<ObjectName, ApiError> {
    ObjectName::new(text).map_err(|error| ApiError::Failure(Failure::Internal(error.to_string())))
}
