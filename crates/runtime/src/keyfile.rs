//! The key file of the embedded default: master keys, one per line, the current one first, mode
//! 0600.
//!
//! It is generated with the database. The database and this file together reveal every credential,
//! so back them up separately. The file is authoritative: it is read again before it is written,
//! its keys are kept, and a file that cannot be parsed is refused and left unchanged.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use domain::time::Timestamp;
use zeroize::Zeroizing;

use crate::clock::Random;
use crate::sealing::{Keyring, MasterKey};

/// Only its owner may read and write it.
const FILE_MODE: u32 = 0o600;

/// What is wrong with the key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read or written.
    #[error("the key file {path} cannot be used")]
    Io {
        /// The file.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A line is not a key.
    #[error("line {line} of the key file {path} {message}")]
    Malformed {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// Another process is changing it.
    #[error("the key file {path} is being changed by another process; try again")]
    Busy {
        /// The file.
        path: String,
    },
    /// It is missing, but data that its keys sealed exists.
    #[error(
        "the key file {path} is missing, but this database contains data that its keys sealed: restore the file from its \
         backup, or name it with `secrets.key_file`; a new one could not open anything"
    )]
    Missing {
        /// The file.
        path: String,
    },
}

/// The key file, locked against changes by other processes until this is dropped.
pub struct LockedKeyFile<'p> {
    path: &'p Path,
    /// Holds the lock. The lock file is not deleted.
    _lock: File,
}

/// Reads the keys; `None` if there is no file.
pub fn read(path: &Path) -> Result<Option<Keyring>, KeyFileError> {
    let Some(keys) = keys(path)? else { return Ok(None) };
    // A copy from a backup may have a wider mode. If the mode cannot be changed, another user owns
    // the file.
    drop(std::fs::set_permissions(path, Permissions::from_mode(FILE_MODE)));
    Keyring::new(keys).map(Some).ok_or_else(|| empty(path))
}

/// Creates the file with a first key. If another process has created it in the meantime, its keys
/// are returned.
pub fn create(path: &Path, random: &Random) -> Result<Keyring, KeyFileError> {
    let file = LockedKeyFile::lock(path)?;
    if let Some(keyring) = read(path)? {
        return Ok(keyring);
    }
    let keyring =
        Keyring::new(vec![MasterKey::generate("1", random)]).ok_or_else(|| empty(path))?;
    file.write(&keyring)?;
    Ok(keyring)
}

impl<'p> LockedKeyFile<'p> {
    /// Locks the file against other processes.
    pub fn lock(path: &'p Path) -> Result<Self, KeyFileError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(FILE_MODE);
        let lock = options.open(PathBuf::from(name)).map_err(|source| io(path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(KeyFileError::Busy { path: path.display().to_string() })
            }
            Err(TryLockError::Error(source)) => Err(io(path, source)),
        }
    }

    /// A new key followed by the keys of the file. A key of `in_force` that is not in the file is
    /// kept only if it is in `needed`, because data is still wrapped by it.
    pub fn with_new_key(
        &self,
        in_force: &Keyring,
        needed: &[String],
        random: &Random,
        now: Timestamp,
    ) -> Result<Keyring, KeyFileError> {
        let path = self.path;
        let kept = keys(path)?
            .ok_or_else(|| KeyFileError::Missing { path: path.display().to_string() })?;
        let lost = in_force.keys().filter(|key| {
            needed.iter().any(|wanted| wanted == key.id())
                && kept.iter().all(|known| known.id() != key.id())
        });
        let lost: Vec<MasterKey> = lost.cloned().collect();
        let older = [kept, lost].concat();
        let id = fresh_id(&older, now);
        let all = [MasterKey::generate(&id, random)].into_iter().chain(older).collect();
        Keyring::new(all).ok_or_else(|| empty(path))
    }

    /// Writes a temporary file of mode 0600, syncs it and renames it, so that the file always has
    /// either the old or the new content.
    pub fn write(&self, keyring: &Keyring) -> Result<(), KeyFileError> {
        let mut text = Zeroizing::new(String::new());
        for key in keyring.keys() {
            text.push_str(&key.expose());
            text.push('\n');
        }
        replace(self.path, text.as_bytes()).map_err(|source| io(self.path, source))
    }
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    // A file left behind by an interrupted write may have another mode.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// The keys of the file in their order; `None` if there is no file.
fn keys(path: &Path) -> Result<Option<Vec<MasterKey>>, KeyFileError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io(path, source)),
    };
    let mut keys: Vec<MasterKey> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let key = MasterKey::parse(line).map_err(|message| malformed(path, index + 1, &message))?;
        if keys.iter().any(|known| known.id() == key.id()) {
            let message = format!("repeats the id `{}`: ids must be unique", key.id());
            return Err(malformed(path, index + 1, &message));
        }
        keys.push(key);
    }
    Ok(Some(keys))
}

/// The current time in microseconds, or the next number that is not the id of a key.
fn fresh_id(keys: &[MasterKey], now: Timestamp) -> String {
    let mut number = now.unix_micros();
    while keys.iter().any(|key| key.id() == number.to_string()) {
        number = number.saturating_add(1);
    }
    number.to_string()
}

fn io(path: &Path, source: std::io::Error) -> KeyFileError {
    KeyFileError::Io { path: path.display().to_string(), source }
}

fn empty(path: &Path) -> KeyFileError {
    malformed(path, 1, "is missing: the file is empty")
}

fn malformed(path: &Path, line: usize, message: &str) -> KeyFileError {
    KeyFileError::Malformed { path: path.display().to_string(), line, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_HAND: &str = "hand:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    fn ids(keyring: &Keyring) -> Vec<String> {
        keyring.keys().map(|key| key.id().to_owned()).collect()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        (folder, path)
    }

    /// Rotates the key and writes the file.
    fn rotated(path: &Path, in_force: &Keyring, needed: &[&str]) -> Result<Keyring, KeyFileError> {
        let file = LockedKeyFile::lock(path)?;
        let needed: Vec<String> = needed.iter().map(|id| (*id).to_owned()).collect();
        let now = Timestamp::from_unix_micros(7);
        let keyring = file.with_new_key(in_force, &needed, &Random::seeded(5), now)?;
        file.write(&keyring)?;
        Ok(keyring)
    }

    #[test]
    fn the_first_key_is_generated_with_mode_0600() {
        let (_folder, path) = folder();

        assert!(read(&path).unwrap().is_none());
        let made = create(&path, &Random::seeded(1)).unwrap();
        let again = create(&path, &Random::seeded(2)).unwrap();

        let sealed = made.current().unwrap().seal(b"x", "place", &Random::seeded(3)).unwrap();
        assert!(again.current().unwrap().open(&sealed, "place").is_some());
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_rotation_keeps_keys_added_by_hand() {
        let (_folder, path) = folder();
        let first = create(&path, &Random::seeded(1)).unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{BY_HAND}\n\n{before}")).unwrap();

        let all = rotated(&path, &first, &["1"]).unwrap();

        assert_eq!(ids(&all), ["7", "hand", "1"]);
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.contains(BY_HAND) && written.contains(before.trim()), "{written}");
        assert_eq!(ids(&read(&path).unwrap().unwrap()), ["7", "hand", "1"]);
        assert_eq!(ids(&rotated(&path, &all, &[]).unwrap()), ["8", "7", "hand", "1"]);
    }

    #[test]
    fn a_key_removed_from_the_file_is_restored_only_while_data_needs_it() {
        let (_folder, path) = folder();
        let first = create(&path, &Random::seeded(1)).unwrap();
        std::fs::write(&path, BY_HAND).unwrap();

        assert_eq!(ids(&rotated(&path, &first, &["1"]).unwrap()), ["7", "hand", "1"]);
        std::fs::write(&path, BY_HAND).unwrap();
        assert_eq!(ids(&rotated(&path, &first, &[]).unwrap()), ["7", "hand"]);
    }

    #[test]
    fn a_malformed_file_is_refused_and_left_unchanged() {
        let (_folder, path) = folder();
        let first = create(&path, &Random::seeded(1)).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for (wrong, line) in [
            (format!("{good}# a note of the operator\n"), "line 2"),
            (format!("{good}\n{good}"), "line 3"),
            (String::new(), "line 1"),
        ] {
            std::fs::write(&path, &wrong).unwrap();

            let refused = rotated(&path, &first, &["1"]);

            if wrong.is_empty() {
                // An empty file has nothing to lose, and the needed key is restored.
                assert_eq!(ids(&refused.unwrap()), ["7", "1"]);
                continue;
            }
            let refused = refused.map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains(line), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wrong);
            assert!(read(&path).is_err());
        }
    }

    #[test]
    fn a_missing_or_locked_file_is_not_written() {
        let (_folder, path) = folder();
        let first = create(&path, &Random::seeded(1)).unwrap();
        let held = LockedKeyFile::lock(&path).unwrap();
        assert!(matches!(rotated(&path, &first, &[]), Err(KeyFileError::Busy { .. })));
        drop(held);
        std::fs::remove_file(&path).unwrap();

        let refused = rotated(&path, &first, &["1"]).map(|_| ()).unwrap_err();

        assert!(matches!(refused, KeyFileError::Missing { .. }), "{refused}");
        assert!(!path.exists());
    }

    #[test]
    fn the_file_has_mode_0600_whatever_it_replaces() {
        let (_folder, path) = folder();
        let first = create(&path, &Random::seeded(1)).unwrap();
        let left = path.with_file_name("keys.tmp");
        for file in [&path, &left] {
            std::fs::write(file, std::fs::read_to_string(&path).unwrap()).unwrap();
            std::fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }

        read(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        rotated(&path, &first, &[]).unwrap();

        assert_eq!(mode(&path), 0o600);
        assert!(!left.exists());
    }

    #[test]
    fn a_malformed_line_is_named() {
        let (_folder, path) = folder();
        std::fs::write(&path, "\nnot a key\n").unwrap();

        let refused = read(&path).map(|_| ()).unwrap_err().to_string();

        assert!(refused.contains("line 2"), "{refused}");
    }

    /// Otherwise the file would name one id twice, and be refused from then on.
    #[test]
    fn a_new_key_never_gets_the_id_of_one_that_is_restored() {
        let (_folder, path) = folder();
        let first = create(&path, &Random::seeded(1)).unwrap();
        let all = rotated(&path, &first, &["1"]).unwrap();
        assert_eq!(ids(&all), ["7", "1"]);
        std::fs::write(&path, BY_HAND).unwrap();

        let restored = rotated(&path, &all, &["1", "7"]).unwrap();

        assert_eq!(ids(&restored), ["8", "hand", "7", "1"]);
        assert_eq!(ids(&read(&path).unwrap().unwrap()), ["8", "hand", "7", "1"]);
    }

    #[test]
    fn what_is_wrong_is_said_without_a_key() {
        let (folder, path) = folder();
        let said = |error: KeyFileError| error.to_string();
        let shown = path.display();

        std::fs::write(&path, format!("{BY_HAND}\n{BY_HAND}\n")).unwrap();
        let repeated = said(read(&path).map(|_| ()).unwrap_err());
        std::fs::write(&path, "\n \n").unwrap();
        let nothing = said(read(&path).map(|_| ()).unwrap_err());
        std::fs::write(&path, "hush:aHVzaA==").unwrap();
        let short = said(read(&path).map(|_| ()).unwrap_err());
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        let binary = said(read(&path).map(|_| ()).unwrap_err());

        assert_eq!(
            repeated,
            format!("line 2 of the key file {shown} repeats the id `hand`: ids must be unique")
        );
        assert_eq!(
            nothing,
            format!("line 1 of the key file {shown} is missing: the file is empty")
        );
        assert!(short.starts_with(&format!("line 1 of the key file {shown} must be ID:BASE64")));
        assert!(!short.contains("hush") && !short.contains("aHVz"), "{short}");
        assert_eq!(binary, format!("the key file {shown} cannot be used"));
        assert!(read(folder.path()).is_err(), "a folder is no key file");
    }

    #[test]
    fn a_file_that_another_process_creates_in_the_meantime_is_kept() {
        let (_folder, path) = folder();
        std::fs::write(&path, BY_HAND).unwrap();

        let keyring = create(&path, &Random::seeded(1)).unwrap();

        assert_eq!(ids(&keyring), ["hand"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), BY_HAND);
    }

    #[test]
    fn of_many_that_create_a_file_all_have_the_same_key_or_are_told_to_try_again() {
        let (_folder, path) = folder();
        let made: Vec<Result<Keyring, KeyFileError>> = std::thread::scope(|scope| {
            let path = &path;
            let threads: Vec<_> = (0..8)
                .map(|seed| scope.spawn(move || create(path, &Random::seeded(seed))))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });

        let written = std::fs::read_to_string(&path).unwrap();
        for one in made {
            match one {
                Ok(keyring) => {
                    let key = keyring.current().unwrap().expose();
                    assert_eq!(written.trim(), key.as_str());
                }
                Err(error) => assert!(matches!(error, KeyFileError::Busy { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped_and_is_no_key_file() {
        let (_folder, path) = folder();
        let held = LockedKeyFile::lock(&path).unwrap();

        let refused = LockedKeyFile::lock(&path).map(|_| ()).unwrap_err();

        assert_eq!(
            refused.to_string(),
            format!(
                "the key file {} is being changed by another process; try again",
                path.display()
            )
        );
        assert!(read(&path).unwrap().is_none());
        assert_eq!(mode(&path.with_file_name("keys.lock")), 0o600);
        drop(held);
        assert!(LockedKeyFile::lock(&path).is_ok());
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error_and_not_a_missing_file() {
        let (folder, _) = folder();
        let path = folder.path().join("missing").join("keys");

        assert!(read(&path).unwrap().is_none());
        let refused = create(&path, &Random::seeded(1)).map(|_| ()).unwrap_err();
        assert!(matches!(refused, KeyFileError::Io { .. }), "{refused}");
    }
}
