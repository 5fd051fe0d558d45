//! The folder in which the files of uploads wait on disk until they have left.
//!
//! A spooled file loses its name as soon as it is open. So nobody else can open it, and it is gone when its
//! call ends, however that is, and also when the process dies.

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
use web::middleware::budget::{BudgetRoom, MemoryBudget, Share};

/// What is gathered in memory before it is written.
const WRITE_BYTES: usize = 256 * 1024;
/// What the names of files begin with while they have one.
const PREFIX: &str = "upload-";

/// The folder, and the room on disk that all uploads share.
#[derive(Debug)]
pub struct UploadSpool {
    folder: PathBuf,
    budget: MemoryBudget,
    customers: LoadMap<CustomerId>,
}

/// A file that is being written.
pub(super) struct SpoolWriter {
    file: BufWriter<tokio::fs::File>,
    share: Share,
    bytes: u64,
    bytes_max: u64,
}

/// A whole file on disk, without a name. Dropping it gives its room back.
#[derive(Debug)]
pub(super) struct SpooledFile {
    file: Arc<UnnamedFile>,
    bytes: u64,
    _share: Share,
}

/// A file without a name, which takes its room on disk with it when it is closed. That takes a while for a
/// large one, so it is not done where requests are served.
#[derive(Debug)]
pub(super) struct UnnamedFile(Option<File>);

/// Why a part of a file was not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpoolProblem {
    /// The file is larger than it may be.
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    /// All files together, or those of the customer, take as much room as they may; or this one came so slowly that it was
    /// given up for others.
    #[error(transparent)]
    NoRoom(#[from] BodyProblem),
    /// The disk does not take it.
    #[error("the disk does not take it")]
    Disk(#[from] io::Error),
}

impl UploadSpool {
    /// A folder whose files take at most `bytes_max` bytes together, and those of one customer `customer_bytes_max`.
    /// Nothing is opened.
    pub fn new(folder: PathBuf, bytes_max: usize, customer_bytes_max: usize) -> Self {
        let budget = MemoryBudget::new(bytes_max, customer_bytes_max);
        Self { folder, budget, customers: LoadMap::new() }
    }

    /// Makes the folder, readable by nobody else, and removes what a process left that died in the moment
    /// between the opening of a file and the loss of its name.
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

    /// Where it is.
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

/// Another process may have been faster.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl SpoolWriter {
    /// Adds a part. Nothing of a part that would be too much is written.
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

    /// Ends when the file was given up for others, since it comes too slowly.
    pub(super) async fn given_up(&self) {
        self.share.given_up().await;
    }

    /// The file with all that was added.
    pub(super) async fn finish(mut self) -> Result<SpooledFile, SpoolProblem> {
        self.share.end_receiving()?;
        self.file.flush().await?;
        let file = self.file.into_inner().into_std().await;
        let file = Arc::new(UnnamedFile(Some(file)));
        Ok(SpooledFile { file, bytes: self.bytes, _share: self.share })
    }
}

impl SpooledFile {
    /// How long it is.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file for somebody who reads it.
    pub(super) fn file(&self) -> Arc<UnnamedFile> {
        Arc::clone(&self.file)
    }
}

impl UnnamedFile {
    /// Reads `bytes` bytes from `at` on; fails if there are fewer. It blocks.
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
