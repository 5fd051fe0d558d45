//! The names of an export's objects in the storage: each export has a folder, and each claim a
//! folder within it.

use domain::export::ExportFormat;
use domain::id::ExportId;
use failures::Failure;
use storage::ObjectName;

/// The prefix of all exports.
pub const ROOT: &str = "exports";

/// The folder of one export.
pub fn folder(export: ExportId) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}"))
}

/// The segment of the spool that one claim writes.
pub fn segment(export: ExportId, token: i64) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}/{token}/spool"))
}

/// The file that one claim completes.
pub fn output(export: ExportId, token: i64, format: ExportFormat) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}/{token}/data.{format}"))
}

/// The folder of one claim.
pub fn own(export: ExportId, token: i64) -> Result<ObjectName, Failure> {
    name(format!("{ROOT}/{export}/{token}"))
}

/// Whether an object of a claim is part of the spool.
pub fn is_page(name: &str) -> bool {
    name.split('/').nth(3) == Some("spool")
}

/// The export that an object belongs to.
pub fn owner(name: &ObjectName) -> Option<ExportId> {
    name.as_str().strip_prefix(ROOT)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// A name that was built here or stored earlier.
pub fn name(text: String) -> Result<ObjectName, Failure> {
    ObjectName::new(text).map_err(|error| Failure::Internal(error.to_string()))
}
