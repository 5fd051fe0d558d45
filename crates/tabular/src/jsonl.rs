//! JSON lines: each row as the platform gave it, byte for byte, one a line.

use std::borrow::Cow;
use std::io::Write;

use crate::{TabularError, check_length};

/// Writes rows as lines. It does not buffer: give it an output that does.
#[derive(Debug)]
pub struct JsonlWriter<W> {
    out: W,
}

impl<W: Write> JsonlWriter<W> {
    /// Begins a file.
    pub const fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes one row: the text of a JSON object, at most [`crate::ROW_BYTES_MAX`] long and without line breaks
    /// (see [`one_line`]). What is between its braces is not looked at.
    pub fn row(&mut self, row: &str) -> Result<(), TabularError> {
        check_length(row)?;
        if row.contains(['\n', '\r']) {
            return Err(TabularError::LineBreak);
        }
        if !(row.starts_with('{') && row.ends_with('}')) {
            return Err(TabularError::NotAnObject);
        }
        self.out.write_all(row.as_bytes())?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Ends the file and gives the output back, flushed.
    pub fn finish(mut self) -> Result<W, TabularError> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A row without its line breaks and outer spaces, for platforms that write their JSON over several lines. In
/// valid JSON a line break stands between two tokens only, and no two tokens need one to be told apart; so the
/// value stays the same, to the byte wherever there was none.
pub fn one_line(row: &str) -> Cow<'_, str> {
    let trimmed = row.trim_matches([' ', '\t', '\r', '\n']);
    if trimmed.contains(['\n', '\r']) {
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
    use crate::ROW_BYTES_MAX;

    fn written(rows: &[&str]) -> Result<String, TabularError> {
        let mut writer = JsonlWriter::new(Vec::new());
        rows.iter().try_for_each(|row| writer.row(row))?;
        Ok(String::from_utf8(writer.finish()?).unwrap())
    }

    #[test]
    fn rows_are_written_byte_for_byte() {
        let rows = [r#"{"b":1.10,  "a":"\u0041=\n", "a":2}"#, "{}", r#"{"x":"＝😀"}"#];

        assert_eq!(written(&rows).unwrap(), rows.map(|row| format!("{row}\n")).concat());
        assert_eq!(written(&[]).unwrap(), "");
    }

    #[test]
    fn a_row_that_would_not_be_one_line_is_refused() {
        for row in ["{\n}", "{}\n", "{\r}", "{\"a\":\n1}"] {
            assert!(matches!(written(&[row]), Err(TabularError::LineBreak)), "{row:?}");
        }
        for row in ["", "[]", "{} ", "{", "7"] {
            assert!(matches!(written(&[row]), Err(TabularError::NotAnObject)), "{row:?}");
        }
    }

    #[test]
    fn a_row_that_is_too_long_is_refused_by_its_length() {
        let row = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));

        assert!(written(&[&row(ROW_BYTES_MAX)]).is_ok());
        let refused = written(&[&row(ROW_BYTES_MAX + 1)]).unwrap_err();
        assert_eq!(refused.to_string(), "a row has 1048577 bytes; at most 1048576 are written");
    }

    #[test]
    fn a_row_over_several_lines_becomes_one() {
        assert_eq!(one_line("{\r\n  \"a\": \"b\\n\"\n}\n"), "{  \"a\": \"b\\n\"}");
        assert!(matches!(one_line("{\"a\": 1}"), Cow::Borrowed("{\"a\": 1}")));
    }

    proptest! {
        #[test]
        fn every_row_is_read_back_equal_from_its_own_line(
            rows in proptest::collection::vec(("[a\\n\\r\"]{0,4}", "\\PC{0,8}|[\\x00-\\x20]{0,4}"), 0..6)
        ) {
            let values: Vec<Value> = rows.iter().map(|(name, text)| json!({ name.as_str(): text })).collect();
            let pretty: Vec<String> =
                values.iter().map(|value| serde_json::to_string_pretty(value).unwrap()).collect();
            let lines: Vec<Cow<'_, str>> = pretty.iter().map(|row| one_line(row)).collect();
            let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();

            let text = written(&lines).unwrap();

            let read: Vec<Value> = text.split_terminator('\n').map(|line| serde_json::from_str(line).unwrap()).collect();
            prop_assert_eq!(read, values);
        }
    }
}
