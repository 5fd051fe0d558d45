//! Keeps the files of an embedded database private to their owner: they hold customers, calls and
//! hashes of secrets.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Read and write for the owner only.
pub(crate) const MODE: u32 = 0o600;
const FOR_OTHERS: u32 = 0o077;

/// Suffixes of the files next to a database. SQLite gives its own files the mode of the database.
const BESIDE: [&str; 5] = ["-wal", "-shm", "-journal", ".lock", ".reserve"];

/// Creates the database file if it is missing, and removes the permissions of others from existing
/// files. Files of another owner are left as they are.
pub(crate) fn secure(database: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::File { path: database.display().to_string(), source };
    let mut options = File::options();
    options.create(true).truncate(false).write(true).mode(MODE);
    let made = options.open(database).and_then(|_| tighten(database));
    made.map_err(failed)?;
    for suffix in BESIDE {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        tighten(&PathBuf::from(name)).map_err(failed)?;
    }
    Ok(())
}

fn tighten(file: &Path) -> io::Result<()> {
    let mode = match std::fs::metadata(file) {
        Ok(facts) => facts.permissions().mode(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode & FOR_OTHERS == 0 {
        return Ok(());
    }
    match std::fs::set_permissions(file, Permissions::from_mode(mode & !FOR_OTHERS)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        set => set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, Store};

    fn mode(file: &Path) -> u32 {
        std::fs::metadata(file).unwrap().permissions().mode() & 0o777
    }

    /// Opens the database in the folder, writes to it, and returns the modes of all files while it
    /// is open.
    async fn modes_while_open(folder: &Path) -> Vec<(String, u32)> {
        let mut options = OpenOptions::new(format!("sqlite:{}", folder.join("a.db").display()));
        options.reserve_bytes = 4_096;
        let store = Store::open(&options).await.unwrap();
        store.migrate().await.unwrap();
        store.disk().unwrap().lay_reserve_in().unwrap();
        let mut modes: Vec<(String, u32)> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().to_string_lossy().into_owned(), mode(&entry.path()))
            })
            .collect();
        store.close().await;
        modes.sort();
        modes
    }

    #[tokio::test]
    async fn all_files_of_a_database_are_made_private() {
        let folder = tempfile::tempdir().unwrap();
        let all = ["a.db", "a.db-shm", "a.db-wal", "a.db.lock", "a.db.reserve"];
        let private: Vec<(String, u32)> = all.map(|name| (name.to_owned(), 0o600)).into();

        assert_eq!(modes_while_open(folder.path()).await, private);
        for name in all {
            let file = folder.path().join(name);
            if file.exists() {
                std::fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
            }
        }

        assert_eq!(modes_while_open(folder.path()).await, private);
    }
}
