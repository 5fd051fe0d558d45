//! A file that is written while its rows are still arriving, page by page.
//!
//! JSON lines can always be written that way, and so can all text formats if columns are chosen.
//! Otherwise CSV, alone or in an archive, names its columns in its first line: the draft starts
//! with the declared columns and those of the first page that has rows, and is abandoned if a later
//! row has another one. The head of a workbook depends on its size, so a workbook is never drafted.
//! An abandoned or undrafted file is rendered from the spool once all pages are there; the bytes
//! are the same either way. A draft keeps no rows.

use std::io::{Read, Seek, Write};

use crate::capped::FileDigest;
use crate::render::{FileWriter, too_large};
use crate::{
    FileColumns, FileFormat, FileLayout, ManifestFacts, RenderedFile, RowFlattener, SpooledPages,
    TabularError,
};

/// A file being written, and the columns of all rows so far.
pub struct TabularDraft<W: Read + Write + Seek> {
    layout: FileLayout,
    bytes_max: u64,
    flattener: RowFlattener,
    file: DraftFile<W>,
    pages: u64,
    rows: u64,
}

enum DraftFile<W: Read + Write + Seek> {
    /// No row has arrived.
    Waiting(W),
    /// It contains all rows so far, with all of their columns.
    Begun(Box<FileWriter<W>>),
    /// The file must be rendered from the spool.
    GivenUp,
}

/// The result of a draft.
#[derive(Debug)]
pub enum DraftOutcome {
    /// The whole file.
    File(RenderedFile),
    /// Only the columns of all rows; the file is to be rendered.
    Columns(FileColumns),
}

impl<W: Read + Write + Seek> TabularDraft<W> {
    /// Creates an empty draft. `out` must be at its beginning; the file may have up to `bytes_max`
    /// bytes.
    pub fn new(layout: impl Into<FileLayout>, out: W, bytes_max: u64) -> Self {
        let layout = layout.into();
        let is_begun = layout.format != FileFormat::Xlsx;
        let file = if is_begun { DraftFile::Waiting(out) } else { DraftFile::GivenUp };
        let flattener = RowFlattener::collecting(FileColumns::new());
        Self { layout, bytes_max, flattener, file, pages: 0, rows: 0 }
    }

    /// Sets declared or chosen columns. Call it before the first page.
    #[must_use]
    pub fn with_columns(self, columns: FileColumns) -> Self {
        Self { flattener: RowFlattener::collecting(columns), ..self }
    }

    /// Adds the next page: its rows, each the text of a JSON object followed by a line break. After
    /// an error the draft is unusable.
    pub fn page(&mut self, text: &str) -> Result<(), TabularError> {
        self.pages += 1;
        if let DraftFile::Waiting(_) = self.file
            && !text.is_empty()
        {
            self.begin(text)?;
        }
        let bytes_max = self.bytes_max;
        self.rows_of(text).map_err(|error| too_large(error, bytes_max))
    }

    /// Starts the file with the columns of the first page that has rows.
    fn begin(&mut self, text: &str) -> Result<(), TabularError> {
        let columns = self.flattener.columns();
        if !columns.is_closed() && !self.layout.keeps_rows(columns) {
            text.split_terminator('\n').try_for_each(|row| self.flattener.read(row))?;
        }
        let DraftFile::Waiting(out) = std::mem::replace(&mut self.file, DraftFile::GivenUp) else {
            return Ok(());
        };
        let (nothing, known) = (SpooledPages::default(), self.flattener.columns());
        let begun = FileWriter::begin(self.layout, out, self.bytes_max, &nothing, known);
        let begun = begun.map_err(|error| too_large(error, self.bytes_max))?;
        self.file = DraftFile::Begun(Box::new(begun));
        Ok(())
    }

    fn rows_of(&mut self, text: &str) -> Result<(), TabularError> {
        let width = self.flattener.columns().names().len();
        let is_table = !self.layout.keeps_rows(self.flattener.columns());
        for row in text.split_terminator('\n') {
            self.flattener.read(row)?;
            self.rows += 1;
            let is_wider = self.flattener.columns().names().len() > width;
            match &mut self.file {
                DraftFile::Begun(_) if is_table && is_wider => self.file = DraftFile::GivenUp,
                DraftFile::Begun(file) if is_table => file.row(&self.flattener, row)?,
                DraftFile::Begun(_) | DraftFile::Waiting(_) | DraftFile::GivenUp => {}
            }
        }
        match &mut self.file {
            DraftFile::Begun(file) => file.lines(text),
            DraftFile::Waiting(_) | DraftFile::GivenUp => Ok(()),
        }
    }

    /// Ends it after all pages of the spool were added.
    pub fn finish(
        self,
        facts: &ManifestFacts<'_>,
        spooled: &SpooledPages,
    ) -> Result<DraftOutcome, TabularError> {
        if (self.pages, self.rows) != (spooled.pages, spooled.rows) {
            return Err(TabularError::Incomplete {
                pages: self.pages,
                rows: self.rows,
                pages_wanted: spooled.pages,
                rows_wanted: spooled.rows,
            });
        }
        let (bytes_max, columns) = (self.bytes_max, self.flattener.into_columns());
        let limit = |error| too_large(error, bytes_max);
        let file = match self.file {
            DraftFile::GivenUp => return Ok(DraftOutcome::Columns(columns)),
            DraftFile::Begun(file) => *file,
            DraftFile::Waiting(out) => {
                FileWriter::begin(self.layout, out, bytes_max, spooled, &columns).map_err(limit)?
            }
        };
        let FileDigest { bytes, sha256 } = file.finish(facts, spooled, &columns).map_err(limit)?;
        Ok(DraftOutcome::File(RenderedFile { rows: spooled.rows, bytes, sha256 }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        DeclaredColumn, FileRendering, OUTPUT_BYTES_MAX, SpoolReader, SpoolWriter, render,
    };

    const FACTS: ManifestFacts<'_> = ManifestFacts {
        job: "exp_1",
        account: "ada",
        platform: "platform_alpha",
        dataset: "subscribers",
        start_date: None,
        end_date: None,
        tool_version: "1",
    };

    /// The drafted file (`None` if the draft was abandoned), and the file rendered from the spool.
    /// Checks that both agree.
    fn both(layout: impl Into<FileLayout>, pages: &[Vec<&str>]) -> (Option<Vec<u8>>, Vec<u8>) {
        both_behind(&FileColumns::new(), layout, pages)
    }

    /// The same, after these columns.
    fn both_behind(
        known: &FileColumns,
        layout: impl Into<FileLayout>,
        pages: &[Vec<&str>],
    ) -> (Option<Vec<u8>>, Vec<u8>) {
        let layout = layout.into();
        let mut file = Cursor::new(Vec::new());
        let draft = TabularDraft::new(layout, &mut file, OUTPUT_BYTES_MAX);
        let mut draft = draft.with_columns(known.clone());
        let mut writer = SpoolWriter::new(Vec::new(), SpooledPages::default());
        let mut flattener = RowFlattener::collecting(known.clone());
        let mut text = String::new();
        for page in pages {
            writer.append(b"", page.iter().copied()).unwrap();
            writer.swap_text(&mut text);
            draft.page(&text).unwrap();
            for row in page {
                flattener.read(row).unwrap();
            }
        }
        let (bytes, spooled) = writer.finish();
        let drafted = draft.finish(&FACTS, &spooled).unwrap();

        let mut whole = Cursor::new(Vec::new());
        let frames = SpoolReader::new([bytes.as_slice()]).unwrap();
        let rendering = FileRendering::new(layout, FACTS);
        let rendered =
            render(&rendering, &spooled, flattener.columns(), frames, &mut whole).unwrap();
        let drafted = match drafted {
            DraftOutcome::File(drafted) => {
                assert_eq!(drafted, rendered);
                Some(file.into_inner())
            }
            DraftOutcome::Columns(columns) => {
                assert_eq!(&columns, flattener.columns());
                None
            }
        };
        (drafted, whole.into_inner())
    }

    #[test]
    fn a_draft_of_similar_rows_equals_the_rendered_file() {
        let pages = [
            vec![],
            vec![r#"{"a":1,"b":{"c":"=x"}}"#, r#"{"b":{"c":"y"}}"#],
            vec![],
            vec![r#"{"b":{},"a":null}"#],
        ];
        for format in [FileFormat::Csv, FileFormat::Jsonl, FileFormat::Zip] {
            let (drafted, rendered) = both(format, &pages);

            assert!(drafted.is_some_and(|drafted| drafted == rendered), "{format:?}");
        }
    }

    #[test]
    fn a_draft_starts_with_a_byte_order_mark_on_request() {
        let layout = FileLayout { format: FileFormat::Csv, csv_bom: true };
        for (pages, whole) in
            [(vec![vec![r#"{"a":1}"#]], "\u{feff}a\r\n1\r\n"), (vec![], "\u{feff}")]
        {
            let (drafted, rendered) = both(layout, &pages);

            assert_eq!(String::from_utf8(rendered.clone()).unwrap(), whole);
            assert_eq!(drafted, Some(rendered));
        }
    }

    #[test]
    fn a_draft_is_abandoned_if_a_later_page_has_another_column() {
        let wider = [vec![r#"{"a":1}"#], vec![r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":2}"#]];
        // A row without columns becomes a line as soon as another row has a column.
        let later = [vec!["{}"], vec![r#"{"a":1}"#]];
        for pages in [&wider, &later] {
            for format in [FileFormat::Csv, FileFormat::Zip] {
                assert!(both(format, pages).0.is_none(), "{format:?}");
            }
            assert!(both(FileFormat::Jsonl, pages).0.is_some());
        }
        assert!(both(FileFormat::Xlsx, &[vec![r#"{"a":1}"#]]).0.is_none());
    }

    fn named(name: &str) -> DeclaredColumn {
        DeclaredColumn { name: name.to_owned(), kind: None, unit: None }
    }

    fn declared_ab() -> FileColumns {
        FileColumns::declared(["a", "b"].map(named)).unwrap()
    }

    fn chosen_ab() -> FileColumns {
        FileColumns::chosen(["a", "b"].map(named)).unwrap()
    }

    #[test]
    fn a_draft_has_the_declared_columns_before_a_row_has_their_fields() {
        let later = [vec![r#"{"a":1}"#], vec![r#"{"b":1}"#]];
        let other = [vec![r#"{"a":1}"#], vec![r#"{"c":1}"#]];
        for (pages, is_drafted, whole) in [
            (&later[..], true, "a,b\r\n1,\r\n,1\r\n"),
            (&other, false, "a,b,c\r\n1,,\r\n,,1\r\n"),
            (&[], true, "a,b\r\n"),
        ] {
            let (drafted, rendered) = both_behind(&declared_ab(), FileFormat::Csv, pages);

            assert_eq!(drafted.is_some(), is_drafted, "{pages:?}");
            assert!(drafted.is_none_or(|drafted| drafted == rendered));
            assert_eq!(String::from_utf8(rendered).unwrap(), whole);
            assert_eq!(both_behind(&declared_ab(), FileFormat::Zip, pages).0.is_some(), is_drafted);
        }
    }

    #[test]
    fn a_draft_of_chosen_columns_is_never_abandoned() {
        let pages = [vec![r#"{"c":1}"#, r#"{"a":"x"}"#], vec![r#"{"d":1,"b":2}"#]];

        let csv = both_behind(&chosen_ab(), FileFormat::Csv, &pages);
        let lines = both_behind(&chosen_ab(), FileFormat::Jsonl, &pages);
        let archive = both_behind(&chosen_ab(), FileFormat::Zip, &pages);
        let nothing = both_behind(&chosen_ab(), FileFormat::Jsonl, &[]);

        assert_eq!(csv.0.unwrap(), b"a,b\r\n,\r\nx,\r\n,2\r\n");
        let objects = [r#"{"a":null,"b":null}"#, r#"{"a":"x","b":null}"#, r#"{"a":null,"b":2}"#];
        let objects = objects.map(|object| format!("{object}\n"));
        assert_eq!(String::from_utf8(lines.0.unwrap()).unwrap(), objects.concat());
        assert!(archive.0.is_some());
        assert_eq!(nothing.0.unwrap(), b"");
    }

    #[test]
    fn a_draft_without_a_page_or_a_row_is_an_error() {
        for (pages, rows) in [(2, 1), (1, 2)] {
            let mut draft =
                TabularDraft::new(FileFormat::Jsonl, Cursor::new(Vec::new()), OUTPUT_BYTES_MAX);
            draft.page("{}\n").unwrap();

            let spooled = SpooledPages { pages, rows, ..SpooledPages::default() };

            let refused = draft.finish(&FACTS, &spooled);
            assert!(matches!(refused, Err(TabularError::Incomplete { pages: 1, rows: 1, .. })));
        }
    }

    #[test]
    fn a_draft_beyond_the_limit_is_an_error() {
        for format in [FileFormat::Csv, FileFormat::Jsonl, FileFormat::Zip] {
            let mut draft = TabularDraft::new(format, Cursor::new(Vec::new()), 50);
            let row = "{\"a\":\"xxxxxxxxxxxxxxxx\"}\n";
            let taken = (0..9_000).try_for_each(|_| draft.page(row));
            assert!(
                matches!(taken, Err(TabularError::TooLarge { bytes_max: 50 })),
                "{format:?} {taken:?}"
            );
        }
    }

    fn row() -> impl Strategy<Value = String> {
        proptest::collection::vec(("[ab]", "[a=,\"\\\\ ]{0,3}"), 0..3).prop_map(|members| {
            let members = members.into_iter().map(|(name, text)| (name, text.into()));
            serde_json::Value::Object(members.collect()).to_string()
        })
    }

    proptest! {
        #[test]
        fn a_draft_is_either_the_rendered_file_or_abandoned(
            pages in proptest::collection::vec(proptest::collection::vec(row(), 0..4), 0..4)
        ) {
            let pages: Vec<Vec<&str>> =
                pages.iter().map(|page| page.iter().map(String::as_str).collect()).collect();
            for format in FileFormat::ALL {
                for columns in [FileColumns::new(), declared_ab(), chosen_ab()] {
                    let (drafted, rendered) = both_behind(&columns, format, &pages);
                    prop_assert!(drafted.is_none_or(|drafted| drafted == rendered));
                }
            }
        }
    }
}
