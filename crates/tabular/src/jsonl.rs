//! JSON lines: each row as the platform returned it, byte for byte, one per line.
//!
//! If columns are chosen, each line is an object with exactly these: the names of the columns in
//! order, each with its value as the platform wrote it, or `null`.

use std::borrow::Cow;
use std::io::Write;

use crate::{FileColumns, RowFlattener, TabularError};

/// Writes rows as objects of the chosen columns. It buffers one line, so give it a buffered output.
#[derive(Debug)]
pub(crate) struct ObjectsWriter<W> {
    out: W,
    /// The text before each value: `{"a":`, then `,"b":`.
    heads: Vec<String>,
    line: Vec<u8>,
}

impl<W: Write> ObjectsWriter<W> {
    /// Starts a file, which has nothing before its first row.
    pub(crate) fn new(out: W, columns: &FileColumns) -> Self {
        let head = |(index, name): (usize, &String)| {
            let opening = if index == 0 { '{' } else { ',' };
            format!("{opening}{}:", serde_json::Value::from(name.as_str()))
        };
        let heads = columns.names().iter().enumerate().map(head).collect();
        Self { out, heads, line: Vec::new() }
    }

    /// Writes the last row read.
    pub(crate) fn row(&mut self, flattener: &RowFlattener, row: &str) -> Result<(), TabularError> {
        if self.heads.is_empty() {
            self.line.push(b'{');
        }
        for (head, value) in self.heads.iter().zip(flattener.values(row)) {
            self.line.extend_from_slice(head.as_bytes());
            self.line.extend_from_slice(value.as_bytes());
        }
        self.line.extend_from_slice(b"}\n");
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }

    /// Ends the file and returns the output, flushed.
    pub(crate) fn finish(mut self) -> Result<W, TabularError> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A row without line breaks and outer spaces, for platforms that format their JSON over several
/// lines. Valid JSON has line breaks only between tokens, and no two tokens need one as a
/// separator, so the value stays the same. A row without line breaks stays the same byte for byte,
/// apart from outer spaces.
pub fn one_line(row: &str) -> Cow<'_, str> {
    let trimmed = row.trim_matches([' ', '\t', '\r', '\n']);
    let bytes = trimmed.as_bytes();
    if bytes.contains(&b'\n') || bytes.contains(&b'\r') {
        Cow::Owned(trimmed.replace(['\n', '\r'], ""))
    } else {
        Cow::Borrowed(trimmed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_row_over_several_lines_becomes_one() {
        assert_eq!(one_line("{\r\n  \"a\": \"b\\n\"\n}\n"), "{  \"a\": \"b\\n\"}");
        assert!(matches!(one_line("{\"a\": 1}"), Cow::Borrowed("{\"a\": 1}")));
    }

    proptest! {
        #[test]
        fn every_row_survives_a_round_trip_through_its_line(
            rows in proptest::collection::vec(("[a\\n\\r\"]{0,4}", "\\PC{0,8}|[\\x00-\\x20]{0,4}"), 0..6)
        ) {
            let values: Vec<Value> = rows.iter().map(|(name, text)| json!({ name.as_str(): text })).collect();
            let pretty: Vec<String> =
                values.iter().map(|value| serde_json::to_string_pretty(value).unwrap()).collect();
            let lines: Vec<Cow<'_, str>> = pretty.iter().map(|row| one_line(row)).collect();

            prop_assert!(lines.iter().all(|line| !line.contains(['\n', '\r'])));
            let read: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            prop_assert_eq!(read, values);
        }
    }
}
