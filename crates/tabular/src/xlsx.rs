//! Workbooks: one sheet whose first row names the columns, written in one pass. That row is bold,
//! frozen, and has buttons that filter the rows.
//!
//! * A text that is exactly a time (RFC 3339, with its zone) is a date of the sheet, in UTC: see
//!   [`crate::dates`].
//! * Any other text is a string of the sheet (`t="inlineStr"`), however it starts. There are no
//!   formulas and no links.
//! * A number stays a number with its own digits, unless a spreadsheet would change it: a whole
//!   number of more than 15 digits (an id), one of more than 17 significant digits, and one beyond
//!   the range of a double are texts.
//! * A boolean is a boolean of the sheet.
//! * Characters that a workbook cannot contain become U+FFFD, one for one.
//! * A text longer than [`CELL_LENGTH_MAX`] is an error: nothing is truncated.
//! * It contains no times but those of the rows.

use std::borrow::Cow;
use std::io::{Seek, Write};

use zip::ZipWriter;

use crate::archive::{self, ArchiveWriter};
use crate::columns::{CellValue, FileColumns, RowFlattener};
use crate::{SpooledPages, TabularError, dates, safety};

pub use crate::limits::CELL_LENGTH_MAX;

const SHEET_NAME: &str = "xl/worksheets/sheet1.xml";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const RELATIONS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
/// How much of a sheet is buffered before it is compressed.
const BUFFER_BYTES: usize = 64 * 1024;
/// An upper limit of the markup around a cell.
const CELL_MARKUP_BYTES_MAX: u64 = 96;
/// An upper limit of a sheet's size without its rows.
const SHEET_MARKUP_BYTES_MAX: u64 = 4096;
/// An upper limit of the bytes in a sheet for one byte of a row.
const ESCAPE_FACTOR_MAX: u64 = 8;

/// The styles of [`STYLES`] by index: data cells have none, names are bold, dates have a date
/// format.
const NAME_STYLE: &str = " s=\"1\"";
const DATE_STYLE: &str = " s=\"2\"";
/// The content of the styles: the fonts and fills that every workbook has, a bold font, and the
/// date format.
const STYLES: &str = "<numFmts count=\"1\"><numFmt numFmtId=\"164\" formatCode=\"yyyy\\-mm\\-dd\\ hh:mm:ss\"/></numFmts>\
     <fonts count=\"2\"><font><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font>\
     <font><b/><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font></fonts>\
     <fills count=\"2\"><fill><patternFill patternType=\"none\"/></fill><fill><patternFill patternType=\"gray125\"/></fill></fills>\
     <borders count=\"1\"><border><left/><right/><top/><bottom/><diagonal/></border></borders>\
     <cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/></cellStyleXfs>\
     <cellXfs count=\"3\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>\
     <xf numFmtId=\"0\" fontId=\"1\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyFont=\"1\"/>\
     <xf numFmtId=\"164\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyNumberFormat=\"1\"/></cellXfs>\
     <cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles>";
/// The part of a sheet before its rows: the first row is frozen, and columns are as wide as a date
/// needs.
const VIEW: &str = "<sheetViews><sheetView tabSelected=\"1\" workbookViewId=\"0\">\
     <pane ySplit=\"1\" topLeftCell=\"A2\" activePane=\"bottomLeft\" state=\"frozen\"/>\
     <selection pane=\"bottomLeft\"/></sheetView></sheetViews>\
     <sheetFormatPr defaultColWidth=\"20\" defaultRowHeight=\"15\"/>";

/// Writes rows as rows of a sheet.
pub(crate) struct XlsxWriter<W: Write + Seek> {
    archive: ArchiveWriter<W>,
    /// `A`, `B` … for each column.
    letters: Vec<String>,
    rows: u64,
    sheet: Vec<u8>,
    /// The filter over all rows, written after them.
    filter: String,
}

impl<W: Write + Seek> XlsxWriter<W> {
    /// Starts a workbook with the row of names.
    pub(crate) fn new(
        out: W,
        spooled: &SpooledPages,
        columns: &FileColumns,
    ) -> Result<Self, TabularError> {
        let mut archive = ZipWriter::new(out);
        let range = range(spooled, columns);
        for (name, text) in parts(range.as_ref()) {
            archive::begin(&mut archive, name, 0)?;
            archive.write_all(text.as_bytes())?;
        }
        archive::begin(&mut archive, SHEET_NAME, sheet_bytes_max(spooled, columns))?;
        let mut writer = Self {
            archive,
            letters: (0..columns.names().len()).map(letters).collect(),
            rows: 0,
            sheet: Vec::with_capacity(2 * BUFFER_BYTES),
            filter: range.map(|range| range.filter()).unwrap_or_default(),
        };
        writer.sheet.extend_from_slice(HEAD.as_bytes());
        write!(writer.sheet, "<worksheet xmlns=\"{MAIN}\">{VIEW}<sheetData>")?;
        writer.names(columns)?;
        Ok(writer)
    }

    /// Writes the last row read.
    pub(crate) fn row(&mut self, flattener: &RowFlattener, row: &str) -> Result<(), TabularError> {
        self.rows += 1;
        // The first row of the sheet contains the names.
        let number = (self.rows + 1).to_string();
        let mut line = SheetRow::begin(&mut self.sheet, &number);
        let cells = self.letters.iter().zip(flattener.cells(row));
        for (index, (letters, cell)) in cells.enumerate() {
            let text: Cow<'_, str> = match cell {
                CellValue::Empty => continue,
                CellValue::Number(digits) if is_kept(digits) => {
                    line.number(letters, digits);
                    continue;
                }
                CellValue::Boolean(value) => {
                    line.boolean(letters, value);
                    continue;
                }
                CellValue::Text(text) => match dates::serial(&text) {
                    Some(serial) => {
                        line.date(letters, serial);
                        continue;
                    }
                    None => text,
                },
                CellValue::Number(text) | CellValue::Json(text) => text.into(),
            };
            line.text(letters, "", &text).map_err(|TooLong { length }| {
                TabularError::CellTooLong {
                    row: self.rows,
                    column: flattener.columns().names().get(index).cloned().unwrap_or_default(),
                    length,
                }
            })?;
        }
        line.end();
        self.drain(BUFFER_BYTES)
    }

    /// Ends the workbook and returns the output.
    pub(crate) fn finish(mut self) -> Result<W, TabularError> {
        push(&mut self.sheet, &["</sheetData>", &self.filter, "</worksheet>"]);
        self.drain(0)?;
        archive::finish(self.archive)
    }

    fn names(&mut self, columns: &FileColumns) -> Result<(), TabularError> {
        if columns.names().is_empty() {
            return Ok(());
        }
        let mut line = SheetRow::begin(&mut self.sheet, "1");
        for (letters, name) in self.letters.iter().zip(columns.names()) {
            // Names are shorter than the limit of a cell.
            line.text(letters, NAME_STYLE, name).map_err(|_| TabularError::ColumnNameTooLong)?;
        }
        line.end();
        Ok(())
    }

    /// Compresses the buffered part of the sheet once it has `bytes` bytes.
    fn drain(&mut self, bytes: usize) -> Result<(), TabularError> {
        if self.sheet.len() >= bytes {
            self.archive.write_all(&self.sheet)?;
            self.sheet.clear();
        }
        Ok(())
    }
}

/// A row of the sheet that is being written.
struct SheetRow<'s> {
    sheet: &'s mut Vec<u8>,
    number: &'s str,
}

struct TooLong {
    length: usize,
}

impl<'s> SheetRow<'s> {
    fn begin(sheet: &'s mut Vec<u8>, number: &'s str) -> Self {
        push(sheet, &["<row r=\"", number, "\">"]);
        Self { sheet, number }
    }

    fn end(self) {
        push(self.sheet, &["</row>"]);
    }

    fn number(&mut self, letters: &str, digits: &str) {
        push(self.sheet, &["<c r=\"", letters, self.number, "\"><v>", digits, "</v></c>"]);
    }

    fn boolean(&mut self, letters: &str, value: bool) {
        let digit = if value { "1" } else { "0" };
        push(self.sheet, &["<c r=\"", letters, self.number, "\" t=\"b\"><v>", digit, "</v></c>"]);
    }

    fn date(&mut self, letters: &str, serial: f64) {
        // The shortest digits that identify the number, never with an exponent.
        let digits = serial.to_string();
        let head = ["<c r=\"", letters, self.number, "\"", DATE_STYLE, "><v>"];
        push(self.sheet, &head);
        push(self.sheet, &[&digits, "</v></c>"]);
    }

    fn text(&mut self, letters: &str, style: &str, text: &str) -> Result<(), TooLong> {
        // A text never has more UTF-16 units than bytes.
        if text.len() > CELL_LENGTH_MAX {
            let length = text.encode_utf16().count();
            if length > CELL_LENGTH_MAX {
                return Err(TooLong { length });
            }
        }
        let head = ["<c r=\"", letters, self.number, "\"", style, " t=\"inlineStr\"><is><t"];
        push(self.sheet, &head);
        if text.starts_with(is_space) || text.ends_with(is_space) {
            push(self.sheet, &[" xml:space=\"preserve\""]);
        }
        push(self.sheet, &[">"]);
        push_text(self.sheet, &safety::without_controls(text));
        push(self.sheet, &["</t></is></c>"]);
        Ok(())
    }
}

const fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

fn push(sheet: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        sheet.extend_from_slice(part.as_bytes());
    }
}

/// Writes a text without control characters as XML, escaping what must be.
fn push_text(sheet: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let rest = bytes.get(at..).unwrap_or_default();
        let (instead, length) = match byte {
            b'&' => ("&amp;", 1),
            b'<' => ("&lt;", 1),
            b'>' => ("&gt;", 1),
            // XML readers would turn a bare one into a line feed.
            b'\r' => ("&#13;", 1),
            // Spreadsheets read _x0041_ as a letter, so its first underscore is escaped the same
            // way.
            b'_' if is_escape_like(rest) => ("_x005F_", 1),
            // U+FFFE and U+FFFF, which XML does not allow.
            0xef if rest.starts_with(b"\xef\xbf\xbe") || rest.starts_with(b"\xef\xbf\xbf") => {
                ("\u{fffd}", 3)
            }
            _ => continue,
        };
        sheet.extend_from_slice(bytes.get(written..at).unwrap_or_default());
        sheet.extend_from_slice(instead.as_bytes());
        written = at + length;
    }
    sheet.extend_from_slice(bytes.get(written..).unwrap_or_default());
}

fn is_escape_like(text: &[u8]) -> bool {
    matches!(text, [b'_', b'x', a, b, c, d, b'_', ..]
        if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()))
}

/// Whether a spreadsheet, which calculates in doubles, keeps this number unchanged.
fn is_kept(number: &str) -> bool {
    let is_whole = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_whole {
        return number.trim_start_matches('-').len() <= 15;
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.trim_start_matches(['-', '0', '.']);
    if digits.bytes().filter(u8::is_ascii_digit).count() > 17 {
        return false;
    }
    let is_zero = digits.is_empty();
    number.parse::<f64>().is_ok_and(|value| is_zero || value.is_normal())
}

/// An upper limit of the sheet's size.
fn sheet_bytes_max(spooled: &SpooledPages, columns: &FileColumns) -> u64 {
    let cells = (spooled.rows + 1) * columns.names().len() as u64;
    spooled.text_bytes * ESCAPE_FACTOR_MAX + cells * CELL_MARKUP_BYTES_MAX + SHEET_MARKUP_BYTES_MAX
}

/// The range of cells with names and rows.
struct CellRange {
    last_column: String,
    last_row: u64,
}

/// `None` without columns.
fn range(spooled: &SpooledPages, columns: &FileColumns) -> Option<CellRange> {
    let last = columns.names().len().checked_sub(1)?;
    Some(CellRange { last_column: letters(last), last_row: spooled.rows + 1 })
}

impl CellRange {
    fn filter(&self) -> String {
        format!("<autoFilter ref=\"A1:{}{}\"/>", self.last_column, self.last_row)
    }

    /// The name that spreadsheets use for the filtered range.
    fn name(&self) -> String {
        format!(
            "<definedNames><definedName name=\"_xlnm._FilterDatabase\" localSheetId=\"0\" hidden=\"1\">\
             data!$A$1:${}${}</definedName></definedNames>",
            self.last_column, self.last_row
        )
    }
}

/// The letters of a column, counted from 0: `A` … `Z`, `AA` …
fn letters(index: usize) -> String {
    let mut letters = Vec::new();
    let mut left = index + 1;
    while left > 0 {
        left -= 1;
        letters.push(b'A'.saturating_add(u8::try_from(left % 26).unwrap_or_default()));
        left /= 26;
    }
    letters.into_iter().rev().map(char::from).collect()
}

/// The parts of a workbook besides its sheet.
fn parts(range: Option<&CellRange>) -> [(&'static str, String); 5] {
    let document = "application/vnd.openxmlformats-officedocument.spreadsheetml";
    let types = format!(
        "{HEAD}<Types xmlns=\"{PACKAGE}/content-types\">\
         <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"xml\" ContentType=\"application/xml\"/>\
         <Override PartName=\"/xl/workbook.xml\" ContentType=\"{document}.sheet.main+xml\"/>\
         <Override PartName=\"/xl/styles.xml\" ContentType=\"{document}.styles+xml\"/>\
         <Override PartName=\"/{SHEET_NAME}\" ContentType=\"{document}.worksheet+xml\"/></Types>"
    );
    let relations = |all: &[(&str, &str)]| {
        let one = |(number, (kind, target)): (usize, &(&str, &str))| {
            format!(
                "<Relationship Id=\"rId{}\" Type=\"{RELATIONS}/{kind}\" Target=\"{target}\"/>",
                number + 1
            )
        };
        let all: String = all.iter().enumerate().map(one).collect();
        format!("{HEAD}<Relationships xmlns=\"{PACKAGE}/relationships\">{all}</Relationships>")
    };
    let workbook = format!(
        "{HEAD}<workbook xmlns=\"{MAIN}\" xmlns:r=\"{RELATIONS}\">\
         <bookViews><workbookView/></bookViews>\
         <sheets><sheet name=\"data\" sheetId=\"1\" r:id=\"rId1\"/></sheets>{}</workbook>",
        range.map(CellRange::name).unwrap_or_default()
    );
    let styles = format!("{HEAD}<styleSheet xmlns=\"{MAIN}\">{STYLES}</styleSheet>");
    let sheet_and_styles = [("worksheet", "worksheets/sheet1.xml"), ("styles", "styles.xml")];
    [
        ("[Content_Types].xml", types),
        ("_rels/.rels", relations(&[("officeDocument", "xl/workbook.xml")])),
        ("xl/workbook.xml", workbook),
        ("xl/_rels/workbook.xml.rels", relations(&sheet_and_styles)),
        ("xl/styles.xml", styles),
    ]
}
