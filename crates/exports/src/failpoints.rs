//! Named points in an export's run at which a test can stop or kill the process. They act only in
//! debug builds, and only if the environment names one; in a release build they do nothing.
//!
//! `CREATOR_GATEWAY_FAIL_POINT=NAME:COUNT:FILE`: when the point is reached for the COUNT-th time,
//! the process writes FILE and waits until the file is removed. The test sees the file, and kills
//! or stops the process exactly there.

/// A point at which an export can be interrupted. `scripts/export-kill-test` uses the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failpoint {
    /// The export is claimed.
    Claimed,
    /// The pages of earlier attempts are restored.
    Restored,
    /// The segment of this attempt is created.
    SegmentBegun,
    /// A page was fetched and checked.
    PageFetched,
    /// The page is stored.
    PageKept,
    /// The progress was recorded.
    ProgressNoted,
    /// The last page is stored.
    ListRead,
    /// The file is being written.
    Rendering,
    /// The file is complete.
    Rendered,
    /// The file is in the storage.
    Stored,
    /// The file is published.
    Published,
    /// Obsolete objects are about to be deleted.
    Cleaning,
}

#[cfg(debug_assertions)]
impl Failpoint {
    /// Its name in the environment.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Restored => "restored",
            Self::SegmentBegun => "segment_begun",
            Self::PageFetched => "page_fetched",
            Self::PageKept => "page_kept",
            Self::ProgressNoted => "progress_noted",
            Self::ListRead => "list_read",
            Self::Rendering => "rendering",
            Self::Rendered => "rendered",
            Self::Stored => "stored",
            Self::Published => "published",
            Self::Cleaning => "cleaning",
        }
    }
}

/// Passes a point; in a test, waits there.
pub(crate) async fn reach(point: Failpoint) {
    if let Some(file) = trial::file_at(point) {
        while trial::is_there(&file) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

/// The same on a blocking thread.
pub(crate) fn reach_blocking(point: Failpoint) {
    if let Some(file) = trial::file_at(point) {
        while trial::is_there(&file) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

#[cfg(debug_assertions)]
mod trial {
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Failpoint;

    struct FailpointTrial {
        point: String,
        count: u64,
        file: PathBuf,
        reached: AtomicU64,
    }

    /// The file written, if this is the point and count that the environment names.
    pub(super) fn file_at(point: Failpoint) -> Option<PathBuf> {
        static TRIAL: OnceLock<Option<FailpointTrial>> = OnceLock::new();
        let trial = TRIAL.get_or_init(read).as_ref()?;
        if trial.point != point.name()
            || trial.reached.fetch_add(1, Ordering::SeqCst) + 1 != trial.count
        {
            return None;
        }
        std::fs::write(&trial.file, point.name()).ok()?;
        Some(trial.file.clone())
    }

    pub(super) fn is_there(file: &Path) -> bool {
        file.exists()
    }

    fn read() -> Option<FailpointTrial> {
        let text = std::env::var("CREATOR_GATEWAY_FAIL_POINT").ok()?;
        let mut parts = text.splitn(3, ':');
        Some(FailpointTrial {
            point: parts.next()?.to_owned(),
            count: parts.next()?.parse().ok()?,
            file: parts.next()?.into(),
            reached: AtomicU64::new(0),
        })
    }
}

#[cfg(not(debug_assertions))]
mod trial {
    use std::path::{Path, PathBuf};

    use super::Failpoint;

    pub(super) const fn file_at(_: Failpoint) -> Option<PathBuf> {
        None
    }

    pub(super) const fn is_there(_: &Path) -> bool {
        false
    }
}
