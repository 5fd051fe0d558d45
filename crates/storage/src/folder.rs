//! A folder as storage. Everything in it is reached part by part from the open folder, and no part
//! may be a symbolic link: what others put into it leads nowhere.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use domain::time::Timestamp;
use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{LIST_MAX, ObjectName, PutOutcome, StorageError, StoredObject, WorkFile};

/// Owner only: exports are customers' data.
const FOLDER_MODE: u32 = 0o700;
/// How much of a file is read at once.
const PART_BYTES: u64 = 256 * 1024;
/// How often a folder is made again that was removed, being empty, before something was put into
/// it.
const ATTEMPTS_MAX: usize = 16;

/// An open folder.
#[derive(Debug, Clone)]
pub(super) struct FolderStorage {
    root: Arc<OwnedFd>,
}

/// What is left of a file that is being read.
pub(super) struct FileParts {
    file: Arc<File>,
    left: u64,
}

impl FolderStorage {
    /// Makes the folder if it is missing, and closes it to others.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        let root = fs::openat(CWD, path, folder_flags(), Mode::empty())?;
        let root = File::from(root);
        if root.metadata()?.permissions().mode() & 0o777 != FOLDER_MODE {
            root.set_permissions(std::fs::Permissions::from_mode(FOLDER_MODE))?;
        }
        Ok(Self { root: Arc::new(root.into()) })
    }

    /// The file gets its name only when its content is on the disk, and the name is on the disk
    /// when this returns.
    pub(super) async fn put(
        &self,
        name: &ObjectName,
        work: WorkFile,
    ) -> Result<PutOutcome, StorageError> {
        self.blocking(name, move |folder, name| {
            work.file().sync_all()?;
            let linked = folder.in_folder_of(name, |parent, last| {
                fs::linkat(CWD, work.path(), parent, last, AtFlags::empty())?;
                fs::fsync(parent)
            });
            match linked {
                Ok(()) => Ok(PutOutcome::Stored),
                Err(Errno::EXIST) => Ok(PutOutcome::Exists),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Makes an empty file to be written to. `None`: the name is taken.
    pub(super) async fn create(&self, name: &ObjectName) -> Result<Option<File>, StorageError> {
        self.blocking(name, |folder, name| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND;
            let mode = Mode::RUSR | Mode::WUSR;
            let opened = folder.in_folder_of(name, |parent, last| {
                fs::openat(parent, last, flags | safe_flags(), mode)
            });
            match opened {
                Ok(file) => Ok(Some(file.into())),
                Err(Errno::EXIST) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Opens a file to be read.
    pub(super) async fn open_file(&self, name: &ObjectName) -> Result<Option<File>, StorageError> {
        self.blocking(name, Self::opened).await
    }

    pub(super) async fn find(
        &self,
        name: &ObjectName,
    ) -> Result<Option<StoredObject>, StorageError> {
        self.blocking(name, |folder, name| {
            folder.opened(name)?.map(|file| stored(name.clone(), &file)).transpose()
        })
        .await
    }

    pub(super) async fn read(
        &self,
        name: &ObjectName,
        range: Range<u64>,
    ) -> Result<Option<FileParts>, StorageError> {
        self.blocking(name, move |folder, name| {
            let Some(mut file) = folder.opened(name)? else { return Ok(None) };
            file.seek(SeekFrom::Start(range.start))?;
            let left = range.end.saturating_sub(range.start);
            Ok(Some(FileParts { file: Arc::new(file), left }))
        })
        .await
    }

    /// Folders that become empty are removed as well.
    pub(super) async fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.blocking(name, |folder, name| {
            let (folders, last) = name.folders_and_last();
            let mut path = vec![("", folder.root.try_clone()?)];
            for part in folders {
                let Some((_, parent)) = path.last() else { break };
                match fs::openat(parent, part, folder_flags(), Mode::empty()) {
                    Ok(child) => path.push((part, child)),
                    Err(Errno::NOENT) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some((_, parent)) = path.last() {
                match fs::unlinkat(parent, last, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => fs::fsync(parent)?,
                    Err(error) => return Err(error.into()),
                }
            }
            while let Some((part, _)) = path.pop()
                && let Some((_, parent)) = path.last()
                && fs::unlinkat(parent, part, AtFlags::REMOVEDIR).is_ok()
            {}
            Ok(())
        })
        .await
    }

    pub(super) async fn list(
        &self,
        prefix: &ObjectName,
        after: &str,
    ) -> Result<Vec<StoredObject>, StorageError> {
        let after = after.to_owned();
        self.blocking(prefix, move |folder, prefix| {
            let mut found = Vec::new();
            if let Some(below) = folder.descended(prefix)? {
                collect(&below, prefix.as_str(), &after, &mut found)?;
            }
            Ok(found)
        })
        .await
    }

    /// Does work that waits for the disk, away from the tasks.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &ObjectName,
        work: impl FnOnce(&Self, &ObjectName) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (folder, name) = (self.clone(), name.clone());
        let done = tokio::task::spawn_blocking(move || work(&folder, &name)).await;
        done.map_err(std::io::Error::other).flatten().map_err(StorageError::file)
    }

    /// Does something in the folder that a name lies in, which is made if it is missing.
    fn in_folder_of<T>(
        &self,
        name: &ObjectName,
        mut work: impl FnMut(&OwnedFd, &str) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (folders, last) = name.folders_and_last();
        let folders: Vec<&str> = folders.collect();
        let mut attempts = 0;
        loop {
            let done = self.made(&folders).and_then(|parent| work(&parent, last));
            attempts += 1;
            // Somebody removed a folder that was still empty.
            if matches!(done, Err(Errno::NOENT)) && attempts < ATTEMPTS_MAX {
                continue;
            }
            return done;
        }
    }

    fn made(&self, folders: &[&str]) -> Result<OwnedFd, Errno> {
        let mut folder = fs::openat(&*self.root, ".", folder_flags(), Mode::empty())?;
        for part in folders {
            match fs::mkdirat(&folder, *part, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) => fs::fsync(&folder)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            folder = fs::openat(&folder, *part, folder_flags(), Mode::empty())?;
        }
        Ok(folder)
    }

    fn descended(&self, name: &ObjectName) -> std::io::Result<Option<OwnedFd>> {
        let mut folder = self.root.try_clone()?;
        for part in name.as_str().split('/') {
            match fs::openat(&folder, part, folder_flags(), Mode::empty()) {
                Ok(child) => folder = child,
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(folder))
    }

    fn opened(&self, name: &ObjectName) -> std::io::Result<Option<File>> {
        let (folders, last) = name.folders_and_last();
        let mut folder = self.root.try_clone()?;
        for part in folders {
            match fs::openat(&folder, part, folder_flags(), Mode::empty()) {
                Ok(child) => folder = child,
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        match fs::openat(&folder, last, OFlags::RDONLY | safe_flags(), Mode::empty()) {
            Ok(file) => {
                // A folder is on the way to something stored, and is nothing stored itself.
                let file = File::from(file);
                Ok(file.metadata()?.is_file().then_some(file))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl FileParts {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        if self.left == 0 {
            return Ok(None);
        }
        let (file, wanted) = (Arc::clone(&self.file), self.left.min(PART_BYTES));
        let read = tokio::task::spawn_blocking(move || {
            let mut part = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
            (&*file).take(wanted).read_to_end(&mut part).map(|_| part)
        });
        let read = read.await.map_err(std::io::Error::other).flatten();
        let part = read.map_err(StorageError::file)?;
        if part.is_empty() {
            return Err(StorageError::permanent("something stored is shorter than it was"));
        }
        self.left -= part.len() as u64;
        Ok(Some(part.into()))
    }
}

const fn safe_flags() -> OFlags {
    OFlags::NOFOLLOW.union(OFlags::CLOEXEC)
}

const fn folder_flags() -> OFlags {
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(safe_flags())
}

fn stored(name: ObjectName, file: &File) -> std::io::Result<StoredObject> {
    let about = file.metadata()?;
    let age = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    Ok(StoredObject { name, bytes: about.len(), stored_at: Timestamp::from_unix_micros(micros) })
}

/// Adds what lies in a folder, in the order of the whole names.
fn collect(
    folder: &OwnedFd,
    prefix: &str,
    after: &str,
    found: &mut Vec<StoredObject>,
) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        // What is no name was not put here by us.
        let name = entry.file_name().to_str().map(|part| format!("{prefix}/{part}"));
        let Some(Ok(name)) = name.ok().map(ObjectName::new) else { continue };
        entries.push(name);
    }
    // Below `a` everything begins with `a/`, which stands behind `a.b`.
    let mut keyed = Vec::new();
    for name in entries {
        let last = name.folders_and_last().1.to_owned();
        let about = fs::statat(folder, last.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let Ok(about) = about else { continue };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => keyed.push((format!("{name}/"), name, true)),
            FileType::RegularFile => keyed.push((name.as_str().to_owned(), name, false)),
            _ => {}
        }
    }
    keyed.sort();
    for (key, name, is_folder) in keyed {
        if found.len() >= LIST_MAX {
            return Ok(());
        }
        let (_, last) = name.folders_and_last();
        if is_folder {
            // What lies below may stand behind `after` although the folder itself does not.
            if key.as_str() < after && !after.starts_with(&key) {
                continue;
            }
            if let Ok(below) = fs::openat(folder, last, folder_flags(), Mode::empty()) {
                collect(&below, name.as_str(), after, found)?;
            }
        } else if key.as_str() > after
            && let Ok(file) = fs::openat(folder, last, OFlags::RDONLY | safe_flags(), Mode::empty())
        {
            found.push(stored(name.clone(), &File::from(file))?);
        }
    }
    Ok(())
}
