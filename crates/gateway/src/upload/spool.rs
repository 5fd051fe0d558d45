//! The folder that stores the files of uploads until they are sent.
//!
//! A spooled file is unlinked as soon as it is open, so no other process can open it, and its space
//! is freed when its call ends or the process dies.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use domain::id::CustomerId;
use runtime::clock::Random;
use tokio::io::{AsyncWriteExt as _, BufWriter};
use transport::LoadMap;
use web::middleware::body::BodyProblem;
use web::middleware::budget::{BudgetRoom, BudgetShare, MemoryBudget};

/// Bytes collected in memory before they are written.
const WRITE_BYTES: usize = 256 * 1024;
/// The prefix of file names, before the files are unlinked.
const PREFIX: &str = "upload-";

/// The folder, and the disk space that all uploads share.
#[derive(Debug)]
pub struct UploadSpool {
    folder: PathBuf,
    budget: MemoryBudget,
    customers: LoadMap<CustomerId>,
}

/// A file that is being written.
pub(super) struct SpoolWriter {
    file: BufWriter<tokio::fs::File>,
    share: BudgetShare,
    bytes: u64,
    bytes_max: u64,
}

/// A complete file on disk, without a name. Dropping it frees its space.
#[derive(Debug)]
pub(super) struct SpooledFile {
    file: Arc<UnnamedFile>,
    bytes: u64,
    _share: BudgetShare,
}

/// A file without a name, whose space is freed when it is closed. Closing a large one takes a
/// while, so that is done on a blocking thread.
#[derive(Debug)]
pub(super) struct UnnamedFile(Option<File>);

/// Why a part of a file was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpoolProblem {
    /// The file exceeds its size limit.
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    /// The files of all customers, or those of this one, have reached their size limit; or this one
    /// arrived so slowly that it was dropped to make room for others.
    #[error(transparent)]
    NoRoom(#[from] BodyProblem),
    /// The file could not be written.
    #[error("the file could not be written")]
    Disk(#[from] io::Error),
}

impl UploadSpool {
    /// A folder with a limit in bytes for all its files, and another for those of one customer.
    /// Opens nothing.
    pub fn new(folder: PathBuf, bytes_max: usize, customer_bytes_max: usize) -> Self {
        let budget = MemoryBudget::new(bytes_max, customer_bytes_max);
        Self { folder, budget, customers: LoadMap::new() }
    }

    /// Creates the folder, readable only by this user, and removes files of a process that died
    /// between creating and unlinking them.
    pub fn prepare(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes on disk; for metrics.
    pub fn bytes_used(&self) -> usize {
        self.budget.bytes_used()
    }

    /// Opens a new file of at most `bytes_max` bytes that only this process can read.
    pub(super) async fn create(
        &self,
        random: &Random,
        customer: CustomerId,
        bytes_max: u64,
    ) -> Result<SpoolWriter, SpoolProblem> {
        let holder = self.customers.of(customer);
        let mut share = BudgetRoom { budget: &self.budget, holder: &holder }.share();
        share.begin_receiving()?;
        let name = format!("{PREFIX}{}", hex::encode(random.bytes::<16>()));
        let path = self.folder.join(name);
        let mut options = tokio::fs::OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = options.open(&path).await?;
        tokio::fs::remove_file(&path).await?;
        file.set_max_buf_size(WRITE_BYTES);
        let file = BufWriter::with_capacity(WRITE_BYTES, file);
        Ok(SpoolWriter { file, share, bytes: 0, bytes_max })
    }
}

/// Another process may have removed it first.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl SpoolWriter {
    /// Appends a part. A part that would exceed the limit is not written at all.
    pub(super) async fn add(&mut self, part: &[u8]) -> Result<(), SpoolProblem> {
        let bytes = self.bytes.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        if bytes > self.bytes_max {
            return Err(SpoolProblem::TooLarge(self.bytes_max));
        }
        self.share.grow(part.len())?;
        self.file.write_all(part).await?;
        self.bytes = bytes;
        Ok(())
    }

    /// Completes when this file is dropped to make room for others, because it arrives too slowly.
    pub(super) async fn given_up(&self) {
        self.share.given_up().await;
    }

    /// The file, complete.
    pub(super) async fn finish(mut self) -> Result<SpooledFile, SpoolProblem> {
        self.share.end_receiving()?;
        self.file.flush().await?;
        let file = self.file.into_inner().into_std().await;
        let file = Arc::new(UnnamedFile(Some(file)));
        Ok(SpooledFile { file, bytes: self.bytes, _share: self.share })
    }
}

impl SpooledFile {
    /// Its length in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A handle for reading it.
    pub(super) fn file(&self) -> Arc<UnnamedFile> {
        Arc::clone(&self.file)
    }
}

impl UnnamedFile {
    /// Reads `bytes` bytes from offset `at`; fails if there are fewer. It blocks.
    pub(super) fn read_at(&self, at: u64, bytes: usize) -> io::Result<Bytes> {
        let file = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut space = BytesMut::zeroed(bytes);
        file.read_exact_at(&mut space, at)?;
        Ok(space.freeze())
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        let file = self.0.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(file)));
        }
    }
}
