//! The uploaded files, identified by the SHA-256 of their bytes. A platform never returns them
//! through its own routes; `/control/files/{sha256}` does, so that tests can see what arrived.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use simulator_kit::json_lines::PRIVATE;

/// Files in a folder, or in memory if there is no data folder.
#[derive(Debug)]
pub(crate) enum UploadedFiles {
    Folder(PathBuf),
    Memory(Mutex<HashMap<String, Bytes>>),
}

impl UploadedFiles {
    /// Creates the folder if it is missing.
    pub(crate) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self::Memory(Mutex::default())) };
        std::fs::create_dir_all(folder)?;
        Ok(Self::Folder(folder.to_owned()))
    }

    /// Stores a file, unless it is already stored.
    pub(crate) fn keep(&self, file: &Bytes) -> io::Result<()> {
        let name = name_of(file);
        match self {
            Self::Folder(folder) => {
                // Written under a temporary name first, so that an existing file is always
                // complete.
                let (partial, whole) = (folder.join(format!("{name}.part")), folder.join(name));
                let mut open = std::fs::OpenOptions::new();
                open.write(true).create(true).truncate(true).mode(PRIVATE);
                open.open(&partial)?.write_all(file)?;
                std::fs::rename(partial, whole)
            }
            Self::Memory(files) => {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                files.insert(name, file.clone());
                Ok(())
            }
        }
    }

    /// The file with this SHA-256, in hexadecimal digits.
    pub(crate) fn find(&self, sha256: &str) -> io::Result<Option<Bytes>> {
        if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        match self {
            Self::Folder(folder) => match std::fs::read(folder.join(sha256)) {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
            Self::Memory(files) => {
                Ok(files.lock().unwrap_or_else(PoisonError::into_inner).get(sha256).cloned())
            }
        }
    }

    /// Removes all files.
    pub(crate) fn clear(&self) -> io::Result<()> {
        match self {
            Self::Folder(folder) => {
                for entry in std::fs::read_dir(folder)? {
                    std::fs::remove_file(entry?.path())?;
                }
            }
            Self::Memory(files) => files.lock().unwrap_or_else(PoisonError::into_inner).clear(),
        }
        Ok(())
    }
}

/// The name of a file.
pub(crate) fn name_of(file: &[u8]) -> String {
    hex::encode(Sha256::digest(file))
}
