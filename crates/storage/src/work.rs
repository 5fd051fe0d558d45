//! Files for work: made for one purpose, gone when it is done with.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use domain::time::Timestamp;
use tokio::task::JoinHandle;

use super::StorageError;
use super::name::is_part;

/// The folder for work below a storage that is a folder. No name of anything stored begins with a
/// dot.
pub(super) const FOLDER_NAME: &str = ".work";
/// A label is what two names of things stored can have in length.
const LABEL_BYTES_MAX: usize = 200;

/// A file of this process; it is removed when this is dropped, or becomes what is stored.
#[derive(Debug)]
pub struct WorkFile {
    file: File,
    path: PathBuf,
}

impl WorkFile {
    pub(super) fn create(folder: &Path, label: &str) -> Result<Self, StorageError> {
        let is_label = label.len() <= LABEL_BYTES_MAX && label.split("..").all(is_part);
        if !is_label {
            return Err(StorageError::permanent("a file for work has no name that it can have"));
        }
        let path = folder.join(label);
        // One that was left is removed and not emptied: whoever left it may still write to it.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StorageError::file(error));
            }
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(StorageError::file)?;
        Ok(Self { file, path })
    }

    /// The open file, for reading and writing.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Makes it empty again, to be written from its beginning.
    pub fn empty(&self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).rewind()
    }

    /// Lets the disk take what was written so far. It opens the file anew, so that an error of the
    /// disk is also told to whoever flushes it at the end.
    pub(super) fn flush(&self) -> JoinHandle<()> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || {
            drop(File::open(path).and_then(|file| file.sync_data()));
        })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkFile {
    fn drop(&mut self) {
        // It may have become what is stored; and one that stays is found by `remove_left`.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Removes files that nobody has written to since `before`.
pub(super) fn remove_left(folder: &Path, before: Timestamp) -> Result<usize, StorageError> {
    let before = SystemTime::UNIX_EPOCH + Duration::from_millis(before.unix_millis());
    let mut removed = 0;
    for entry in std::fs::read_dir(folder).map_err(StorageError::file)? {
        let entry = entry.map_err(StorageError::file)?;
        // What is gone meanwhile was in use.
        let Ok(about) = entry.metadata() else { continue };
        let is_old = about.modified().is_ok_and(|modified| modified < before);
        if about.is_file() && is_old && std::fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}
