//! Where an export's things lie in the storage: everything below a folder of its own, each claim's in one of its own.

use clients::storage::ObjectName;
use domain::export::ExportFormat;
use domain::id::ExportId;
use failures::Failure;

/// What all exports lie below.
pub const ROOT: &str = "exports";

/// Everything of one export.
pub fn folder(export: ExportId) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}"))
}

/// The segment of the spool that one claim writes.
pub fn segment(export: ExportId, token: i64) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}/{token}/spool"))
}

/// The file that one claim finishes.
pub fn output(export: ExportId, token: i64, format: ExportFormat) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}/{token}/data.{format}"))
}

/// Everything of one claim.
pub fn own(export: ExportId, token: i64) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}/{token}"))
}

/// Whether something of a claim is a part of the spool.
pub fn is_page(name: &str) -> bool {
    name.split('/').nth(3) == Some("spool")
}

/// The export that a name belongs to.
pub fn owner(name: &ObjectName) -> Option<ExportId> {
    name.as_str().strip_prefix(ROOT)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// A name of ours that was written down.
pub fn name(text: String) -> Result<ObjectName, Failure> {
    ObjectName::new(text).map_err(|error| Failure::Internal(error.to_string()))
}
