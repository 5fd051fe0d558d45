//! Named points of a job's life at which a trial can stop the process or kill it. They do something in debug builds
//! alone, and only where the environment names one; a released binary passes them without looking.
//!
//! `CREATOR_GATEWAY_FAIL_POINT=NAME:COUNT:FILE`: when the point is reached for that time, the process writes FILE and
//! waits until the file is gone. Whoever runs the trial sees it, and kills or stops the process exactly there.

/// A point at which a job can be cut off. The names are those of `scripts/export-kill-test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failpoint {
    /// The job is claimed.
    Claimed,
    /// What earlier attempts kept is taken in.
    Restored,
    /// The segment of this attempt is begun.
    SegmentBegun,
    /// A page came and was checked.
    PageFetched,
    /// The page is kept.
    PageKept,
    /// How far the job is was written down.
    ProgressNoted,
    /// The last page is kept.
    ListRead,
    /// The file is being made.
    Rendering,
    /// The file is made.
    Rendered,
    /// The file is in the storage.
    Stored,
    /// The file is published.
    Published,
    /// What is of no more use is about to be removed.
    Cleaning,
}

#[cfg(debug_assertions)]
impl Failpoint {
    /// The name in the environment.
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

/// Passes a point; in a trial, waits there.
pub(crate) async fn reach(point: Failpoint) {
    if let Some(file) = trial::file_at(point) {
        while trial::is_there(&file) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

/// The same where nothing else runs on the thread.
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

    /// The file that is written, where this is the point and the time that the environment names.
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
