//! A file of JSON lines that is only ever added to. Each line goes to the kernel in one write, so
//! that a process killed at any moment leaves whole lines, and what was added before is kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Lines in a file, or in memory when there is no data folder.
#[derive(Debug)]
pub(crate) struct Lines(Mutex<Place>);

#[derive(Debug)]
enum Place {
    File(File),
    Memory(Vec<u8>),
}

impl Lines {
    /// Opens or makes the file; `None` keeps the lines in memory. A last line that was cut off by
    /// a loss of power is removed, for nobody was told that it was kept.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self(Mutex::new(Place::Memory(Vec::new()))));
        };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Self(Mutex::new(Place::File(file))))
    }

    /// Adds a line; when this returns, the kernel has it.
    pub(crate) fn append<T: Serialize>(&self, line: &T) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Place::File(file) => file.write_all(&bytes),
            Place::Memory(kept) => {
                kept.extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    /// All lines, first the oldest.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> io::Result<Vec<T>> {
        let mut bytes = Vec::new();
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Place::File(file) => {
                file.rewind()?;
                file.read_to_end(&mut bytes)?;
            }
            Place::Memory(kept) => bytes.clone_from(kept),
        }
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
    }

    /// Forgets all lines.
    pub(crate) fn clear(&self) -> io::Result<()> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Place::File(file) => {
                file.set_len(0)?;
                file.rewind()
            }
            Place::Memory(kept) => {
                kept.clear();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn lines_outlive_the_one_who_wrote_them_and_a_cut_line_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        Lines::open(Some(&path)).unwrap().append(&json!({"n": 1})).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"n\": 2").unwrap();

        let lines = Lines::open(Some(&path)).unwrap();
        lines.append(&json!({"n": 3})).unwrap();

        assert_eq!(lines.read::<Value>().unwrap(), [json!({"n": 1}), json!({"n": 3})]);
        lines.clear().unwrap();
        assert!(lines.read::<Value>().unwrap().is_empty());
    }
}
