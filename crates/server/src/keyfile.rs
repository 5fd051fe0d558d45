//! The key file of the embedded default: master keys, one a line, the current one first, mode 0600.
//!
//! It is generated at the first start. Whoever has the database and this file can read every credential, so
//! back them up apart.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use domain::time::Timestamp;
use zeroize::Zeroizing;

use crate::clock::Random;
use crate::sealing::{Keyring, MasterKey};

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
}

/// Reads the keys, or makes the first one.
pub(crate) fn load(path: &Path, random: &Random) -> Result<Keyring, KeyFileError> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &Zeroizing::new(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let keys = vec![MasterKey::generate("1", random)];
            write(path, &keys)?;
            Keyring::new(keys).ok_or_else(|| malformed(path, 1, "is missing"))
        }
        Err(source) => Err(io(path, source)),
    }
}

fn parse(path: &Path, text: &str) -> Result<Keyring, KeyFileError> {
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            let key =
                MasterKey::parse(line).map_err(|message| malformed(path, index + 1, &message))?;
            keys.push(key);
        }
    }
    Keyring::new(keys).ok_or_else(|| malformed(path, 1, "is missing: the file is empty"))
}

/// Makes a new key and puts it in front of the file; the older ones stay for reading.
pub(crate) fn add_key(
    path: &Path,
    keyring: &Keyring,
    random: &Random,
    now: Timestamp,
) -> Result<Keyring, KeyFileError> {
    let id = format!("{}", now.unix_micros());
    let mut keys = vec![MasterKey::generate(&id, random)];
    keys.extend(keyring.keys().cloned());
    write(path, &keys)?;
    Keyring::new(keys).ok_or_else(|| malformed(path, 1, "is missing"))
}

/// Writes a temporary file of mode 0600, syncs it and renames it, so that the file is whole or the old one.
fn write(path: &Path, keys: &[MasterKey]) -> Result<(), KeyFileError> {
    let temporary = path.with_extension("tmp");
    let mut text = Zeroizing::new(String::new());
    for key in keys {
        text.push_str(&key.expose());
        text.push('\n');
    }
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path))
        .and_then(|()| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            std::fs::File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
        });
    written.map_err(|source| io(path, source))
}

fn io(path: &Path, source: std::io::Error) -> KeyFileError {
    KeyFileError::Io { path: path.display().to_string(), source }
}

fn malformed(path: &Path, line: usize, message: &str) -> KeyFileError {
    KeyFileError::Malformed { path: path.display().to_string(), line, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn ids(keyring: &Keyring) -> Vec<String> {
        keyring.keys().map(|key| key.id().to_owned()).collect()
    }

    #[test]
    fn the_first_key_is_generated_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");

        let made = load(&path, &Random::seeded(1)).unwrap();
        let read = load(&path, &Random::seeded(2)).unwrap();

        let sealed = made.current().unwrap().seal(b"x", "place", &Random::seeded(3)).unwrap();
        assert!(read.current().unwrap().open(&sealed, "place").is_some());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_new_key_goes_in_front_of_the_old_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let random = Random::seeded(1);
        let first = load(&path, &random).unwrap();

        let both = add_key(&path, &first, &random, Timestamp::from_unix_micros(7)).unwrap();

        assert_eq!(ids(&both), ["7", "1"]);
        assert_eq!(ids(&load(&path, &random).unwrap()), ["7", "1"]);
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "\nnot a key\n").unwrap();

        let refused = load(&path, &Random::seeded(1)).map(|_| ()).unwrap_err().to_string();

        assert!(refused.contains("line 2"), "{refused}");
    }
}
