//! Storage of finished exports and of their spools: a folder, or a bucket of an S3-compatible
//! store.
//!
//! What is stored is complete and stays as it is: nothing is written over, and a name is either not
//! there or names whole content. Names are ours and checked ([`ObjectName`]); none leads out of the
//! storage.

mod bucket;
mod complete;
mod folder;
mod name;
mod segment;
mod work;

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use domain::time::Timestamp;
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use bucket::BucketStorage;
use folder::FolderStorage;
pub use name::{InvalidObjectName, ObjectName};
pub use segment::{OpenSegment, SegmentReader, UnsentFrame};
pub use work::WorkFile;

/// The most objects that one [`Storage::list`] gives.
pub const LIST_MAX: usize = 1_000;

/// Where things are stored.
#[derive(Debug, Clone)]
pub struct StorageSettings {
    /// The folder or the bucket.
    pub place: StorageLocation,
    /// For a bucket, a folder of this machine for files on their way; a folder has its own below
    /// it.
    pub work_folder: PathBuf,
}

/// A folder or a bucket.
#[derive(Debug, Clone)]
pub enum StorageLocation {
    /// A folder, made when it is missing; its owner alone may read it. Nodes that share jobs share
    /// the folder.
    Folder(PathBuf),
    /// A bucket of an S3-compatible store.
    Bucket(BucketSettings),
}

/// A bucket, and how it is reached.
#[derive(Clone)]
pub struct BucketSettings {
    /// Its name.
    pub bucket: String,
    /// The store's address; empty: Amazon's for the region.
    pub endpoint: String,
    /// The region.
    pub region: String,
    /// Whether the bucket is named in paths and not in the host's name.
    pub path_style: bool,
    /// Whether `endpoint` may be `http://` on another machine.
    pub allow_http: bool,
    /// Key id and secret; without them the machine's role is asked for some.
    pub credentials: Option<(String, Zeroizing<String>)>,
    /// Certificate authorities in PEM that are trusted besides the system's.
    pub authorities: Option<Vec<u8>>,
    /// The longest that connecting may take.
    pub connect_timeout: Duration,
    /// The longest that one request may take, its repetitions included; a download: each of its
    /// parts.
    pub request_timeout: Duration,
}

impl BucketSettings {
    /// Finds what makes them unusable, as far as it can be seen from here.
    pub fn check(&self) -> Result<(), InvalidStorage> {
        BucketStorage::new(self).map(|_| ())
    }
}

/// How storing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is stored, durably.
    Stored,
    /// The name is taken; what it names was not touched.
    Exists,
}

/// Something that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name.
    pub name: ObjectName,
    /// Its length.
    pub bytes: u64,
    /// When it was stored, by the clock of the storage.
    pub stored_at: Timestamp,
}

/// Settings that no storage can be opened with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidStorage(String);

/// Something that the storage did not do. Its text names no address and no credential.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StorageError {
    what: &'static str,
    /// Whether trying again later is of use.
    pub retryable: bool,
    /// Whether there is no room: on the disk of this machine, or in what it may use of it.
    pub is_full: bool,
    /// The error below, for those who look after the service.
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Stores things and gives them back.
#[derive(Debug)]
pub struct Storage {
    way: StorageBackend,
    work_folder: PathBuf,
}

#[derive(Debug)]
enum StorageBackend {
    Folder(FolderStorage),
    Bucket(BucketStorage),
}

/// The bytes of something stored, part by part.
pub struct ObjectDownload {
    parts: DownloadParts,
}

enum DownloadParts {
    File(folder::FileParts),
    Object(bucket::ObjectParts),
}

impl Storage {
    /// Opens a storage: a folder is made and closed to others, a bucket is not asked yet.
    pub fn open(settings: &StorageSettings) -> Result<Self, InvalidStorage> {
        let (way, work_folder) = match &settings.place {
            StorageLocation::Folder(path) => {
                let folder = FolderStorage::open(path).map_err(|error| {
                    InvalidStorage(format!("the folder cannot be used: {error}"))
                })?;
                (StorageBackend::Folder(folder), path.join(work::FOLDER_NAME))
            }
            StorageLocation::Bucket(bucket) => {
                (StorageBackend::Bucket(BucketStorage::new(bucket)?), settings.work_folder.clone())
            }
        };
        FolderStorage::open(&work_folder).map_err(|error| {
            InvalidStorage(format!("the folder for work cannot be used: {error}"))
        })?;
        Ok(Self { way, work_folder })
    }

    /// Makes an empty file for work, of this name below the folder for work; one that was left is
    /// replaced. It is removed when it is dropped. The label is checked like a part of an
    /// [`ObjectName`].
    pub fn work_file(&self, label: &str) -> Result<WorkFile, StorageError> {
        WorkFile::create(&self.work_folder, label)
    }

    /// Removes files for work that nobody has written to since `before`: those of processes that
    /// were killed. Returns how many.
    pub fn remove_left_work(&self, before: Timestamp) -> Result<usize, StorageError> {
        work::remove_left(&self.work_folder, before)
    }

    /// Lets the disk begin to take a file that is still written to, where [`Storage::put_file`]
    /// will wait for the disk. Nothing depends on it; what it gives ends with it.
    pub fn flush_early(&self, file: &WorkFile) -> Option<JoinHandle<()>> {
        match &self.way {
            StorageBackend::Folder(_) => Some(file.flush()),
            StorageBackend::Bucket(_) => None,
        }
    }

    /// Stores a file under a name that must be free, durably and at once: until it is whole,
    /// nothing is there.
    pub async fn put_file(
        &self,
        name: &ObjectName,
        file: WorkFile,
    ) -> Result<PutOutcome, StorageError> {
        match &self.way {
            StorageBackend::Folder(folder) => folder.put(name, file).await,
            StorageBackend::Bucket(bucket) => bucket.put_file(name, file.path()).await,
        }
    }

    /// What stands under a name.
    pub async fn find(&self, name: &ObjectName) -> Result<Option<StoredObject>, StorageError> {
        match &self.way {
            StorageBackend::Folder(folder) => folder.find(name).await,
            StorageBackend::Bucket(bucket) => bucket.find(name).await,
        }
    }

    /// The bytes of a range, which must lie within the content; `None` when nothing has that name.
    pub async fn read(
        &self,
        name: &ObjectName,
        range: Range<u64>,
    ) -> Result<Option<ObjectDownload>, StorageError> {
        let parts = match &self.way {
            StorageBackend::Folder(folder) => {
                folder.read(name, range).await?.map(DownloadParts::File)
            }
            StorageBackend::Bucket(bucket) => {
                bucket.read(name, range).await?.map(DownloadParts::Object)
            }
        };
        Ok(parts.map(|parts| ObjectDownload { parts }))
    }

    /// An address by which anybody can download something for a time, as a file of that name
    /// (letters, digits, `_`, `-` and `.`). `None`: a folder has none.
    pub async fn presign_get(
        &self,
        name: &ObjectName,
        valid_for: Duration,
        file_name: &str,
        media_type: &str,
    ) -> Result<Option<String>, StorageError> {
        match &self.way {
            StorageBackend::Folder(_) => Ok(None),
            StorageBackend::Bucket(bucket) => {
                bucket.presign_get(name, valid_for, file_name, media_type).await.map(Some)
            }
        }
    }

    /// Removes what stands under a name, if anything does.
    pub async fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        match &self.way {
            StorageBackend::Folder(folder) => folder.delete(name).await,
            StorageBackend::Bucket(bucket) => bucket.delete(name).await,
        }
    }

    /// What stands below a prefix, in the order of the names, behind the name `after` (empty: from
    /// the first), at most [`LIST_MAX`].
    pub async fn list(
        &self,
        prefix: &ObjectName,
        after: &str,
    ) -> Result<Vec<StoredObject>, StorageError> {
        match &self.way {
            StorageBackend::Folder(folder) => folder.list(prefix, after).await,
            StorageBackend::Bucket(bucket) => bucket.list(prefix, after).await,
        }
    }

    /// Removes everything below a prefix.
    pub async fn delete_all(&self, prefix: &ObjectName) -> Result<(), StorageError> {
        loop {
            let found = self.list(prefix, "").await?;
            for stored in &found {
                self.delete(&stored.name).await?;
            }
            if found.is_empty() {
                return Ok(());
            }
        }
    }

    /// Begins a segment of a spool under a name that must be free. `None`: it is taken.
    pub async fn begin_segment(
        &self,
        name: &ObjectName,
    ) -> Result<Option<OpenSegment>, StorageError> {
        match &self.way {
            StorageBackend::Folder(folder) => {
                Ok(folder.create(name).await?.map(OpenSegment::in_file))
            }
            StorageBackend::Bucket(bucket) => {
                if !bucket.list(name, "").await?.is_empty() {
                    return Ok(None);
                }
                let copy = self.work_file(&name.label())?;
                Ok(Some(OpenSegment::in_bucket(bucket.clone(), name.clone(), copy)))
            }
        }
    }

    /// A segment that was begun, by whichever node, to read it from its beginning. `None`: there is
    /// none.
    pub async fn segment(&self, name: &ObjectName) -> Result<Option<OpenSegment>, StorageError> {
        match &self.way {
            StorageBackend::Folder(folder) => {
                Ok(folder.open_file(name).await?.map(OpenSegment::in_file))
            }
            StorageBackend::Bucket(bucket) => {
                let copy = self.work_file(&name.label())?;
                segment::fetched(bucket.clone(), name.clone(), copy).await
            }
        }
    }

    /// Removes a segment, if there is one.
    pub async fn delete_segment(&self, name: &ObjectName) -> Result<(), StorageError> {
        match &self.way {
            StorageBackend::Folder(folder) => folder.delete(name).await,
            StorageBackend::Bucket(_) => self.delete_all(name).await,
        }
    }

    /// The folder for work.
    pub fn work_folder(&self) -> &Path {
        &self.work_folder
    }
}

impl ObjectDownload {
    /// The next part; `None` at the end. A part has at most a few mebibytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        match &mut self.parts {
            DownloadParts::File(parts) => parts.next().await,
            DownloadParts::Object(parts) => parts.next().await,
        }
    }
}

impl StorageError {
    /// Something that may work later.
    const fn temporary(what: &'static str) -> Self {
        Self { what, retryable: true, is_full: false, source: None }
    }

    /// Something that somebody must change first.
    const fn permanent(what: &'static str) -> Self {
        Self { what, retryable: false, is_full: false, source: None }
    }

    fn because(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Of a file of this machine: full disks and the like may pass.
    fn file(error: std::io::Error) -> Self {
        if is_full(&error) {
            let full = Self::temporary("the storage has no room left").because(error);
            return Self { is_full: true, ..full };
        }
        Self::temporary("a file of the storage cannot be read or written").because(error)
    }
}

/// Whether a file cannot be written because there is no room for it.
pub fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl std::fmt::Debug for BucketSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "BucketSettings({} at {:?})", self.bucket, self.endpoint)
    }
}

impl std::fmt::Debug for ObjectDownload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Download")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_from_one_that_fails() {
        // What the system answers: ENOSPC, EDQUOT and EIO.
        for (code, is_full) in [(28, true), (122, true), (5, false)] {
            let error = StorageError::file(std::io::Error::from_raw_os_error(code));
            assert_eq!((error.is_full, error.retryable), (is_full, true), "{error}");
        }
    }
}
