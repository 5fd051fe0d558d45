//! The disk under an embedded database: detects lost writes, and keeps a reserve for when the disk
//! is full.
//!
//! After a failed flush the contents of the disk are unknown, and a second flush would report
//! success without having written the lost data. So the store stops writing, and the process exits
//! and recovers from what is on disk. A full disk loses nothing: the reserve file is deleted so
//! that running calls can settle, and no new call is accepted until the reserve could be created
//! again.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::{StoreError, private_files};

/// How many bytes are written at a time while the reserve is created.
const BLOCK: usize = 1024 * 1024;

/// What is known about the disk. Clones share it.
#[derive(Clone)]
pub(crate) struct DiskSpace(Arc<DiskState>);

struct DiskState {
    failed: watch::Sender<bool>,
    reserve: Option<ReserveFile>,
    is_short: AtomicBool,
}

/// A file that exists only to be deleted.
struct ReserveFile {
    path: PathBuf,
    bytes: u64,
}

impl DiskSpace {
    /// The disk under this database, with a reserve file of `reserve_bytes` next to it; 0: none.
    pub(crate) fn new(database: &Path, reserve_bytes: u64) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push(".reserve");
        let reserve = (reserve_bytes > 0)
            .then(|| ReserveFile { path: PathBuf::from(name), bytes: reserve_bytes });
        Self(Arc::new(DiskState {
            failed: watch::Sender::new(false),
            is_short: AtomicBool::new(reserve.is_some()),
            reserve,
        }))
    }

    /// Updates the state from an error that SQLite returned.
    pub(crate) fn note(&self, error: &StoreError) {
        if error.is_lost_write() {
            self.0.failed.send_replace(true);
        } else if error.is_full() {
            self.give_up_reserve();
        }
    }

    /// Whether a flush failed.
    pub(crate) fn has_failed(&self) -> bool {
        *self.0.failed.borrow()
    }

    /// Waits until a flush fails.
    pub(crate) async fn failure(&self) {
        let mut failed = self.0.failed.subscribe();
        // The sender lives as long as `self`.
        drop(failed.wait_for(|failed| *failed).await);
    }

    /// Whether the reserve file is missing.
    pub(crate) fn is_short(&self) -> bool {
        self.0.is_short.load(Ordering::Relaxed)
    }

    /// Creates the reserve file if it is missing. Blocks while it writes.
    pub(crate) fn lay_reserve_in(&self) -> io::Result<()> {
        let Some(reserve) = &self.0.reserve else { return Ok(()) };
        if !self.is_short() {
            return Ok(());
        }
        reserve.lay_in().inspect_err(|_| reserve.remove())?;
        self.0.is_short.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn give_up_reserve(&self) {
        if let Some(reserve) = &self.0.reserve {
            self.0.is_short.store(true, Ordering::Relaxed);
            reserve.remove();
        }
    }
}

impl ReserveFile {
    /// Writes every byte: a sparse file would reserve nothing.
    fn lay_in(&self) -> io::Result<()> {
        let there = std::fs::metadata(&self.path).map_or(0, |facts| facts.len());
        if there == self.bytes {
            return Ok(());
        }
        let mut options = File::options();
        options.create(true).truncate(true).write(true).mode(private_files::MODE);
        let mut file = options.open(&self.path)?;
        let block = vec![0; BLOCK];
        let mut left = self.bytes;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            file.write_all(block.get(..part).unwrap_or_default())?;
            left -= part as u64;
        }
        file.sync_all()
    }

    fn remove(&self) {
        // If it cannot be removed, the disk has the same room as before.
        drop(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The code of a flush that failed.
    pub(crate) const LOST_WRITE: &str = "1034";

    pub(crate) fn refused(code: &'static str) -> StoreError {
        StoreError::Database(sqlx::Error::Database(Box::new(RefusedWrite(code))))
    }

    #[derive(Debug, thiserror::Error)]
    #[error("refused with {0}")]
    struct RefusedWrite(&'static str);

    impl sqlx::error::DatabaseError for RefusedWrite {
        fn message(&self) -> &'static str {
            self.0
        }

        fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }
    }

    #[test]
    fn the_reserve_is_deleted_on_a_full_disk_and_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let reserve = folder.path().join("store.db.reserve");
        let disk = DiskSpace::new(&path, 3 * 1024 * 1024 + 7);
        assert!(disk.is_short(), "the reserve does not exist yet");

        disk.lay_reserve_in().unwrap();
        assert!(!disk.is_short());
        assert_eq!(std::fs::metadata(&reserve).unwrap().len(), 3 * 1024 * 1024 + 7);

        disk.note(&refused("13"));
        assert!(disk.is_short() && !reserve.exists() && !disk.has_failed());

        disk.lay_reserve_in().unwrap();
        assert!(!disk.is_short() && reserve.exists());
    }

    #[test]
    fn without_a_reserve_the_disk_is_never_short() {
        let disk = DiskSpace::new(Path::new("nowhere/store.db"), 0);

        disk.note(&refused("13"));
        disk.lay_reserve_in().unwrap();

        assert!(!disk.is_short() && !disk.has_failed());
    }

    #[tokio::test]
    async fn only_a_failed_flush_is_final() {
        let disk = DiskSpace::new(Path::new("nowhere/store.db"), 0);
        // Busy, a constraint, no room for the index of the write-ahead log, a shared-memory lock
        // error.
        for code in ["5", "2067", "4874", "3850"] {
            disk.note(&refused(code));
            assert!(!disk.has_failed(), "{code}");
        }

        disk.note(&refused(LOST_WRITE));

        assert!(disk.has_failed());
        disk.failure().await;
    }
}
