//! CSV by RFC 4180: commas, double quotes, CRLF at the end of each line, UTF-8, with a byte order
//! mark only on request.
//!
//! The first line names the columns. Text cells, including the names, go through [`crate::safety`];
//! numbers, booleans and JSON text are written unchanged.
//!
//! `null` and a missing field are empty, an empty text is two quotes (`""`). Readers skip empty
//! lines, so in a file with a single column `null` is `""`, and an empty text is the apostrophe
//! that marks texts, alone.

use std::io::Write;

use crate::TabularError;
use crate::columns::{CellValue, FileColumns};
use crate::safety;

const LINE_END: &[u8] = b"\r\n";
/// Some spreadsheets recognize UTF-8 by it.
const BYTE_ORDER_MARK: char = '\u{feff}';
const QUOTED_EMPTY: &[u8] = b"\"\"";
/// An empty text in a file with one column: [`safety::TEXT_MARK`] alone.
const LONE_EMPTY_TEXT: &[u8] = b"'";

/// Writes rows as lines of a CSV file. It buffers one line, so give it a buffered output.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    width: usize,
    line: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Starts a file with the line of names. Without columns, nothing is written, now or for any
    /// row.
    pub fn new(out: W, columns: &FileColumns) -> Result<Self, TabularError> {
        let names = columns.names();
        let mut writer = Self { out, width: names.len(), line: Vec::new() };
        for (index, name) in names.iter().enumerate() {
            writer.begin_field(index);
            writer.text(name);
        }
        writer.end_line()?;
        Ok(writer)
    }

    /// Starts a file as [`Self::new`] does, after a byte order mark, which is written even without
    /// columns.
    pub fn with_byte_order_mark(mut out: W, columns: &FileColumns) -> Result<Self, TabularError> {
        out.write_all(BYTE_ORDER_MARK.encode_utf8(&mut [0; 4]).as_bytes())?;
        Self::new(out, columns)
    }

    /// Continues a file of this many columns, whose line of names is written as a row.
    pub const fn of_width(out: W, width: usize) -> Self {
        Self { out, width, line: Vec::new() }
    }

    /// The number of columns.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Writes one row: one cell for each column. After an error the file is unusable.
    pub fn row<'c>(
        &mut self,
        cells: impl IntoIterator<Item = CellValue<'c>>,
    ) -> Result<(), TabularError> {
        for (index, cell) in cells.into_iter().enumerate() {
            self.begin_field(index);
            match cell {
                CellValue::Empty if self.width == 1 => self.line.extend_from_slice(QUOTED_EMPTY),
                CellValue::Empty => {}
                CellValue::Text(text) => self.text(&text),
                CellValue::Number(text) | CellValue::Json(text) => push_field(&mut self.line, text),
                CellValue::Boolean(true) => self.line.extend_from_slice(b"true"),
                CellValue::Boolean(false) => self.line.extend_from_slice(b"false"),
            }
        }
        self.end_line()
    }

    fn begin_field(&mut self, index: usize) {
        if index > 0 {
            self.line.push(b',');
        }
    }

    /// Writes a text so that it is not a formula, and not `null` if it is empty.
    fn text(&mut self, text: &str) {
        match (text.is_empty(), self.width) {
            (false, _) => push_field(&mut self.line, &safety::text_cell(text)),
            (true, 1) => self.line.extend_from_slice(LONE_EMPTY_TEXT),
            (true, _) => self.line.extend_from_slice(QUOTED_EMPTY),
        }
    }

    /// Ends the file and returns the output, flushed.
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

/// Writes a non-empty text, quoted if necessary.
fn push_field(line: &mut Vec<u8>, text: &str) {
    if !needs_quotes(text) {
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

/// Outer spaces are quoted because some readers trim them, a leading byte order mark because at the
/// beginning of a file readers take it for that of the file.
fn needs_quotes(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first() == Some(&b' ')
        || bytes.last() == Some(&b' ')
        || text.starts_with(BYTE_ORDER_MARK)
        || safety::any_byte(text, |byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::columns::RowFlattener;

    fn written(rows: &[String]) -> String {
        let mut flattener = RowFlattener::collecting(FileColumns::new());
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

    /// The cells as an independent reader reads them.
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
    fn column_names_are_escaped_too() {
        let text = written(&[r#"{"=cmd|' /C calc'!A0": 1, "a,b": "\u0000x"}"#.to_owned()]);

        assert_eq!(text, "'=cmd|' /C calc'!A0,\"a,b\"\r\n1,\u{fffd}x\r\n");
    }

    #[test]
    fn a_row_without_values_is_a_line() {
        let rows = [r#"{"a": null}"#, "{}", r#"{"a": ""}"#, r#"{"a": " "}"#].map(str::to_owned);

        assert_eq!(written(&rows), "a\r\n\"\"\r\n\"\"\r\n'\r\n\" \"\r\n");
    }

    #[test]
    fn an_empty_text_is_quoted_and_null_is_not() {
        let rows = [r#"{"a": null, "b": "", "c": {"d": []}}"#, r#"{"a": "", "c": {}}"#];

        assert_eq!(written(&rows.map(str::to_owned)), "a,b,c.d\r\n,\"\",[]\r\n\"\",,\r\n");
    }

    #[test]
    fn texts_that_differ_in_an_apostrophe_stay_different() {
        let rows = [r#"{"a": "=1", "b": "'=1"}"#, r#"{"a": "''", "b": "'"}"#].map(str::to_owned);

        assert_eq!(written(&rows), "a,b\r\n'=1,''=1\r\n''',''\r\n");
    }

    #[test]
    fn a_byte_order_mark_comes_first_on_request() {
        let row = "{\"\u{feff}a\": 1}";
        let mut flattener = RowFlattener::collecting(FileColumns::new());
        flattener.read(row).unwrap();
        let columns = flattener.columns();

        let plain = CsvWriter::new(Vec::new(), columns).unwrap().finish().unwrap();
        let marked = CsvWriter::with_byte_order_mark(Vec::new(), columns).unwrap();
        let empty = CsvWriter::with_byte_order_mark(Vec::new(), &FileColumns::new()).unwrap();

        assert_eq!(plain, "\"\u{feff}a\"\r\n".as_bytes());
        assert_eq!(marked.finish().unwrap(), "\u{feff}\"\u{feff}a\"\r\n".as_bytes());
        assert_eq!(empty.finish().unwrap(), "\u{feff}".as_bytes());
    }

    #[test]
    fn without_rows_and_columns_the_file_is_empty() {
        assert_eq!(written(&[]), "");
        assert_eq!(written(&["{}".to_owned()]), "");
    }

    #[test]
    fn a_full_output_is_an_error() {
        let mut flattener = RowFlattener::collecting(FileColumns::new());
        flattener.read(r#"{"a": 1}"#).unwrap();
        let mut space = [0_u8; 5];

        let mut writer = CsvWriter::new(&mut space[..], flattener.columns()).unwrap();

        assert!(matches!(writer.row([CellValue::Number("12345")]), Err(TabularError::Io(_))));
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

    /// A field as written in the file: its text, and whether it is quoted.
    #[derive(Debug, Default, PartialEq)]
    struct CsvField {
        text: String,
        is_quoted: bool,
    }

    /// Reads a file by the grammar of RFC 4180; panics at anything that the grammar does not allow.
    fn read_strictly(file: &str) -> Vec<Vec<CsvField>> {
        let (mut lines, mut line, mut rest) = (Vec::new(), Vec::new(), file);
        while !rest.is_empty() {
            let mut field = CsvField::default();
            if let Some(mut inside) = rest.strip_prefix('"') {
                field.is_quoted = true;
                loop {
                    let (before, behind) = inside.split_once('"').expect("a quote at the end");
                    field.text.push_str(before);
                    let Some(more) = behind.strip_prefix('"') else {
                        rest = behind;
                        break;
                    };
                    field.text.push('"');
                    inside = more;
                }
            } else {
                let end = rest.find([',', '\r', '\n', '"']).expect("an end of the field");
                let (text, behind) = rest.split_at(end);
                field.text.push_str(text);
                rest = behind;
            }
            line.push(field);
            if let Some(behind) = rest.strip_prefix(',') {
                rest = behind;
            } else {
                rest = rest.strip_prefix("\r\n").expect("the end of a line");
                lines.push(std::mem::take(&mut line));
            }
        }
        assert!(line.is_empty(), "the last line has no end");
        lines
    }

    /// The value of a field by the documented rule.
    fn undone(field: &CsvField, width: usize) -> Option<String> {
        let is_null = field.text.is_empty() && (width == 1 || !field.is_quoted);
        (!is_null).then(|| field.text.strip_prefix('\'').unwrap_or(&field.text).to_owned())
    }

    /// A value as text; `None` for `null`.
    fn said(value: &Value) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(safety::without_controls(text).into_owned()),
            other => Some(other.to_string()),
        }
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
        fn another_reader_reads_what_was_written(
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
        fn every_value_is_recovered_by_the_documented_rule(
            names in proptest::collection::btree_set("[=',\"a\u{feff} \\n]{0,3}", 1..4),
            rows in proptest::collection::vec(proptest::collection::vec(cell(), 3), 1..6)
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let text_of = |row: &Vec<Value>| {
                let members = names.iter().cloned().zip(row.iter().cloned());
                Value::Object(members.collect()).to_string()
            };
            let texts: Vec<String> = rows.iter().map(text_of).collect();

            let read = read_strictly(&written(&texts));

            let width = names.len();
            let read: Vec<Vec<Option<String>>> =
                read.iter().map(|line| line.iter().map(|field| undone(field, width)).collect()).collect();
            let mut wanted = vec![names.iter().cloned().map(Some).collect::<Vec<_>>()];
            wanted.extend(rows.iter().map(|row| row.iter().take(width).map(said).collect()));
            prop_assert_eq!(read, wanted);
        }

        #[test]
        fn no_cell_read_by_another_reader_starts_like_a_formula(
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
