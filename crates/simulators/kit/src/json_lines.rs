//! An append-only file of JSON lines. Each line goes to the kernel in one write, so that a process
//! killed at any moment leaves whole lines, and earlier lines are kept.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Readable by its owner only: it contains emails with links and the data of accounts.
pub const PRIVATE: u32 = 0o600;

/// JSON lines in a file; without a file nothing is kept.
#[derive(Debug)]
pub struct JsonLines {
    file: Option<File>,
    bytes: u64,
}

impl JsonLines {
    /// Opens or creates the file. A last line that was cut off by a power loss is removed: its
    /// write was never confirmed.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { file: None, bytes: 0 });
        };
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
        let mut file = open.open(path)?;
        // Also sets the mode of a file that an earlier version created.
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
        let bytes = end_of_last_line(&mut file)?;
        if bytes < file.metadata()?.len() {
            file.set_len(bytes)?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file: Some(file), bytes })
    }

    /// Appends a line; when this returns, the kernel has it. Returns the offset of the line in the
    /// file.
    pub fn append<T: Serialize>(&mut self, line: &T) -> io::Result<u64> {
        let at = self.bytes;
        if let Some(file) = &mut self.file {
            let mut bytes = serde_json::to_vec(line)?;
            bytes.push(b'\n');
            file.write_all(&bytes)?;
            self.bytes += bytes.len() as u64;
        }
        Ok(at)
    }

    /// Whether lines are kept.
    pub fn are_kept(&self) -> bool {
        self.file.is_some()
    }

    /// Calls `show` with the lines from this offset on and their offsets, until it is told to stop.
    /// Only one line at a time is in memory.
    pub fn scan<T: DeserializeOwned>(
        &mut self,
        from: u64,
        mut show: impl FnMut(u64, T) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.seek(SeekFrom::Start(from))?;
        let (mut at, mut line) = (from, String::new());
        let mut reader = BufReader::new(&*file);
        loop {
            line.clear();
            let read = reader.read_line(&mut line)?;
            if read == 0 || show(at, serde_json::from_str(&line)?).is_break() {
                break;
            }
            at += read as u64;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(())
    }

    /// Removes all lines.
    pub fn clear(&mut self) -> io::Result<()> {
        self.bytes = 0;
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.set_len(0)?;
        file.rewind()
    }
}

/// The offset after the file's last line break, searched from the end.
fn end_of_last_line(file: &mut File) -> io::Result<u64> {
    const BLOCK: u64 = 64 * 1024;
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        let mut block = Vec::new();
        Read::take(&mut *file, end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn all(lines: &mut JsonLines) -> Vec<Value> {
        let mut all = Vec::new();
        lines
            .scan(0, |_, line| {
                all.push(line);
                ControlFlow::Continue(())
            })
            .unwrap();
        all
    }

    #[test]
    fn lines_survive_a_restart_and_a_cut_line_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        JsonLines::open(Some(&path)).unwrap().append(&json!({"n": 1})).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(format!("{{\"n\": \"{}", "x".repeat(200_000)).as_bytes()).unwrap();

        let mut lines = JsonLines::open(Some(&path)).unwrap();
        let at = lines.append(&json!({"n": 3})).unwrap();

        assert_eq!(at, 8);
        assert_eq!(all(&mut lines), [json!({"n": 1}), json!({"n": 3})]);
        lines.clear().unwrap();
        assert!(all(&mut lines).is_empty());
    }

    #[test]
    fn a_scan_starts_at_an_offset_and_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = JsonLines::open(Some(&folder.path().join("lines.jsonl"))).unwrap();
        let places: Vec<u64> = (0..5).map(|n| lines.append(&n).unwrap()).collect();

        let mut seen = Vec::new();
        lines
            .scan(places[1], |at, n: u32| {
                seen.push((at, n));
                if n == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        lines.append(&5).unwrap();

        assert_eq!(seen, [(places[1], 1), (places[2], 2), (places[3], 3)]);
        assert_eq!(all(&mut lines), [0, 1, 2, 3, 4, 5].map(Value::from));
    }
}
