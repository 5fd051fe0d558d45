//! CSV by RFC 4180: commas, double quotes, CRLF at the end of each line, UTF-8 without a byte order mark.
//!
//! The first line names the columns. Text cells, the names included, go through [`crate::safety`]; numbers, truth
//! values and JSON text are written as they came.

use std::io::Write;

use crate::TabularError;
use crate::columns::{Cell, Columns};
use crate::safety;

const LINE_END: &[u8] = b"\r\n";

/// Writes rows as lines of a CSV file. It buffers one line: give it an output that buffers more.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    width: usize,
    line: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Begins a file with the line of names. Without any column nothing is written, now or for any row.
    pub fn new(out: W, columns: &Columns) -> Result<Self, TabularError> {
        let names = columns.names();
        let mut writer = Self { out, width: names.len(), line: Vec::new() };
        for (index, name) in names.iter().enumerate() {
            push_field(&mut writer.line, index, &safety::text_cell(name), names.len() == 1);
        }
        writer.end_line()?;
        Ok(writer)
    }

    /// How many columns the file has.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Writes one row: its cells, one for each column. After an error the file is of no use.
    pub fn row<'c>(
        &mut self,
        cells: impl IntoIterator<Item = Cell<'c>>,
    ) -> Result<(), TabularError> {
        let (line, is_lone) = (&mut self.line, self.width == 1);
        for (index, cell) in cells.into_iter().enumerate() {
            match cell {
                Cell::Empty => push_field(line, index, "", is_lone),
                Cell::Text(text) => push_field(line, index, &safety::text_cell(&text), is_lone),
                Cell::Number(text) | Cell::Json(text) => push_field(line, index, text, is_lone),
                Cell::Boolean(true) => push_field(line, index, "true", is_lone),
                Cell::Boolean(false) => push_field(line, index, "false", is_lone),
            }
        }
        self.end_line()
    }

    /// Ends the file and gives the output back, flushed.
    pub fn finish(mut self) -> Result<W, TabularError> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn end_line(&mut self) -> Result<(), TabularError> {
        if self.width == 0 {
            return Ok(());
        }
        self.line.extend_from_slice(LINE_END);
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

fn push_field(line: &mut Vec<u8>, index: usize, text: &str, is_lone: bool) {
    if index > 0 {
        line.push(b',');
    }
    // A lone empty cell is quoted, for readers skip empty lines. So are outer spaces, which some cut off.
    let is_lone_and_empty = is_lone && text.is_empty();
    if !needs_quotes(text) && !is_lone_and_empty {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(b'"');
    for (piece, part) in text.split('"').enumerate() {
        if piece > 0 {
            line.extend_from_slice(b"\"\"");
        }
        line.extend_from_slice(part.as_bytes());
    }
    line.push(b'"');
}

fn needs_quotes(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first() == Some(&b' ')
        || bytes.last() == Some(&b' ')
        || safety::any_byte(text, |byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::columns::Flattener;

    fn written(rows: &[String]) -> String {
        let mut flattener = Flattener::collecting(Columns::new());
        for row in rows {
            flattener.read(row).unwrap();
        }
        let mut writer = CsvWriter::new(Vec::new(), flattener.columns()).unwrap();
        for row in rows {
            flattener.read(row).unwrap();
            writer.row(flattener.cells(row)).unwrap();
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
        let mut flattener = Flattener::collecting(Columns::new());
        flattener.read(r#"{"a": 1}"#).unwrap();
        let mut space = [0_u8; 5];

        let mut writer = CsvWriter::new(&mut space[..], flattener.columns()).unwrap();

        assert!(matches!(writer.row([Cell::Number("12345")]), Err(TabularError::Io(_))));
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
