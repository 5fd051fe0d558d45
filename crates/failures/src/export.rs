//! What can go wrong with exports.

use catalog::dataset::MediaArchive;
use domain::export::ExportState;
use storage::StorageError;

/// Every way a request for an export can fail.
#[derive(Debug, thiserror::Error)]
pub enum ExportProblem {
    /// No archive of media is available.
    #[error(
        "media archives are not available for this platform ({}); `GET /v1/exports/datasets` lists what can be exported",
        why.as_str()
    )]
    MediaArchive {
        /// The request field that asks for it.
        field: &'static str,
        /// Why none is available.
        why: MediaArchive,
    },
    /// The maximum number of exports is already waiting.
    #[error("{0} exports are already waiting; wait for some to finish, or cancel them")]
    TooMany(i64),
    /// It has ended and can no longer be cancelled.
    #[error("the export has already ended ({0}); nothing was changed")]
    Over(ExportState),
    /// It is still running and cannot be removed yet.
    #[error("the export is still running; cancel it first, and wait until it has stopped")]
    NotOver,
    /// It has no file to download.
    #[error("the export has no file: it is {0}")]
    NotReady(ExportState),
    /// Its file was deleted after its retention.
    #[error("the export's file has expired and was deleted; create a new export")]
    Expired,
    /// Its file disappeared from the storage before it expired.
    #[error(
        "the export's file is no longer in the storage of the service, which removed it before `expires_at`; create a new export"
    )]
    FileMissing,
    /// A signed link that is not ours, has expired, or is for something else.
    #[error(
        "this link is not valid or has expired; `GET /v1/exports/{{job_id}}` returns a new one"
    )]
    InvalidLink,
    /// The range begins after the end of the file.
    #[error("the file has {0} bytes; the range starts after its end")]
    RangeBehindEnd(i64),
    /// The storage does not respond.
    #[error("the file storage is not responding; try again in a moment")]
    Storage(#[source] StorageError),
}
