//! CSV by RFC 4180: commas, double quotes, CRLF at the end of each line, UTF-8 without a byte order mark.
//!
//! The first line names the columns. Text cells, the names included, go through [`crate::safety`]; numbers, truth
//! values and JSON text are written as they came.

use std::io::Write;

use crate::columns::{Cell, Columns};
use crate::safety;
use crate::{TabularError, check_length};

const LINE_END: &[u8] = b"\r\n";

/// Writes rows as lines of a CSV file. It buffers one line: give it an output that buffers more.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    columns: Columns,
    line: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Begins a file with the line of names. Without any column nothing is written, now or for any row.
    pub fn new(out: W, columns: Columns) -> Result<Self, TabularError> {
        let mut writer = Self { out, columns, line: Vec::new() };
        let names = writer.columns.names();
        let names: Vec<String> =
            names.iter().map(|name| safety::text_cell(name).into_owned()).collect();
        for (index, name) in names.iter().enumerate() {
            writer.field(index, name);
        }
        writer.end_line()?;
        Ok(writer)
    }

    /// Writes one row: the text of a JSON object, at most [`crate::ROW_BYTES_MAX`] long. After an error the
    /// file is of no use.
    pub fn row(&mut self, row: &str) -> Result<(), TabularError> {
        check_length(row)?;
        let cells = self.columns.arrange(row)?;
        for (index, cell) in cells.iter().enumerate() {
            match cell {
                Cell::Empty => self.field(index, ""),
                Cell::Text(text) => self.field(index, &safety::text_cell(text)),
                Cell::Number(text) | Cell::Json(text) => self.field(index, text),
                Cell::Boolean(true) => self.field(index, "true"),
                Cell::Boolean(false) => self.field(index, "false"),
            }
        }
        self.end_line()
    }

    /// Ends the file and gives the output back, flushed.
    pub fn finish(mut self) -> Result<W, TabularError> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn field(&mut self, index: usize, text: &str) {
        if index > 0 {
            self.line.push(b',');
        }
        // A lone empty cell is quoted, for readers skip empty lines. So are outer spaces, which some cut off.
        let lone = text.is_empty() && self.columns.names().len() == 1;
        if lone || needs_quotes(text) {
            self.line.push(b'"');
            self.line.extend_from_slice(text.replace('"', "\"\"").as_bytes());
            self.line.push(b'"');
        } else {
            self.line.extend_from_slice(text.as_bytes());
        }
    }

    fn end_line(&mut self) -> Result<(), TabularError> {
        if self.columns.names().is_empty() {
            return Ok(());
        }
        self.line.extend_from_slice(LINE_END);
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

fn needs_quotes(text: &str) -> bool {
    text.contains([',', '"', '\r', '\n']) || text.starts_with(' ') || text.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn written(rows: &[String]) -> String {
        let mut columns = Columns::new();
        for row in rows {
            columns.add(row).unwrap();
        }
        let mut writer = CsvWriter::new(Vec::new(), columns).unwrap();
        for row in rows {
            writer.row(row).unwrap();
        }
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    /// The cells by a reader that is not ours.
    fn read(text: &str) -> Vec<Vec<String>> {
        let mut reader = ::csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(false)
            .from_reader(text.as_bytes());
        let records = reader.records().map(|record| record.expect("a record"));
        records.map(|record| record.iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn a_file_has_a_line_of_names_and_a_line_for_each_row() {
        let rows = [
            r#"{"id": 7, "name": "Ada, \"the\" first", "user": {"tags": ["a", "b"]}, "note": null}"#,
            r#"{"id": -5, "name": "-5", "late": true, "user": {"tags": []}, "note": "two\nlines"}"#,
        ];

        let text = written(&rows.map(str::to_owned));

        assert_eq!(
            text,
            "id,name,user.tags,note,late\r\n\
             7,\"Ada, \"\"the\"\" first\",\"[\"\"a\"\", \"\"b\"\"]\",,\r\n\
             -5,'-5,[],\"two\nlines\",true\r\n"
        );
    }

    #[test]
    fn the_names_of_columns_are_made_safe_as_well() {
        let text = written(&[r#"{"=cmd|' /C calc'!A0": 1, "a,b": "\u0000x"}"#.to_owned()]);

        assert_eq!(text, "'=cmd|' /C calc'!A0,\"a,b\"\r\n1,\u{fffd}x\r\n");
    }

    #[test]
    fn a_row_without_values_is_a_line_all_the_same() {
        let rows = [r#"{"a": null}"#, "{}", r#"{"a": ""}"#, r#"{"a": " "}"#].map(str::to_owned);

        assert_eq!(written(&rows), "a\r\n\"\"\r\n\"\"\r\n\"\"\r\n\" \"\r\n");
    }

    #[test]
    fn without_rows_and_columns_the_file_is_empty() {
        assert_eq!(written(&[]), "");
        assert_eq!(written(&["{}".to_owned()]), "");
    }

    #[test]
    fn an_output_that_takes_no_more_is_an_error() {
        let mut columns = Columns::new();
        columns.add(r#"{"a": 1}"#).unwrap();
        let mut space = [0_u8; 5];

        let mut writer = CsvWriter::new(&mut space[..], columns).unwrap();

        assert!(matches!(writer.row(r#"{"a": 12345}"#), Err(TabularError::Write(_))));
    }

    #[test]
    fn a_row_of_other_columns_is_refused_and_writes_nothing() {
        let mut columns = Columns::new();
        columns.add(r#"{"a": 1}"#).unwrap();
        let mut writer = CsvWriter::new(Vec::new(), columns).unwrap();

        let refused = writer.row(r#"{"a": 1, "b": 2}"#);

        assert!(matches!(refused, Err(TabularError::UnknownColumn(name)) if name == "b"));
        assert_eq!(writer.finish().unwrap(), b"a\r\n");
    }

    fn cell() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
            "[\\x00-\\x20=+@\",;'a\\-＝]{0,6}".prop_map(Value::from),
            proptest::collection::vec("[\"=,a]{0,3}", 0..3).prop_map(Value::from),
        ]
    }

    fn expected(value: &Value) -> String {
        match value {
            Value::Null => String::new(),
            Value::String(text) => safety::text_cell(text).into_owned(),
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn what_another_reader_reads_is_what_was_written(
            rows in proptest::collection::vec(proptest::collection::vec(cell(), 3), 1..6)
        ) {
            let texts: Vec<String> =
                rows.iter().map(|row| json!({"a": row[0], "b": row[1], "c": row[2]}).to_string()).collect();

            let text = written(&texts);

            let mut wanted = vec![vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]];
            wanted.extend(rows.iter().map(|row| row.iter().map(expected).collect::<Vec<_>>()));
            prop_assert_eq!(read(&text), wanted);
        }

        #[test]
        fn no_text_that_is_read_back_begins_like_a_formula(
            name in "[=+@\\-＝a\\t\\r\\n\u{0}]{1,4}",
            texts in proptest::collection::vec("[=+@\\-＝＋－＠a\\t\\r\\n\u{0}\"]{0,5}", 1..5)
        ) {
            let rows: Vec<String> =
                texts.iter().map(|text| json!({ name.as_str(): text }).to_string()).collect();

            for cell in read(&written(&rows)).into_iter().flatten() {
                prop_assert!(!safety::is_formula_like(&cell), "{cell:?}");
            }
        }
    }
}
