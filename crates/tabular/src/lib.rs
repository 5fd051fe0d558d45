//! Turns rows into data files, in constant memory.
//!
//! A row is the text of one JSON object, as a platform returned it. Pages of rows are kept in a
//! [`spool`] of checked frames while they arrive. A [`TabularDraft`] receives each page as well: it
//! collects the columns of all rows and, if possible, writes the file on the way. Otherwise
//! [`render()`] makes the file in one pass over the spool. No more than one page is kept in memory.
//! The same rows always produce the same bytes.

pub mod archive;
pub mod bundle;
mod capped;
pub mod columns;
pub mod csv;
mod dates;
mod declared;
pub mod draft;
pub mod jsonl;
pub mod render;
pub mod safety;
pub mod scan;
pub mod spool;
pub mod xlsx;

pub use columns::{CellValue, ColumnKind, FileColumns, RowFlattener};
pub use csv::CsvWriter;
pub use declared::DeclaredColumn;
pub use draft::{DraftOutcome, TabularDraft};
pub use render::{FileFormat, FileLayout, FileRendering, ManifestFacts, RenderedFile, render};
pub use spool::{SpoolReader, SpoolWriter, SpooledPages};

/// The longest row, in bytes of its JSON text.
pub const ROW_BYTES_MAX: usize = 1024 * 1024;
/// The most columns of a file.
pub const COLUMNS_MAX: usize = 512;
/// The longest name of a column, in bytes.
pub const COLUMN_NAME_BYTES_MAX: usize = 1024;
/// The most rows of a file in any format: a workbook's sheet has 1,048,576, one of them for the
/// names.
pub const ROWS_MAX: u64 = 1_048_575;
/// The largest file, in bytes; also the most text of all rows of a spool, or of the data inside an
/// archive.
pub const OUTPUT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TabularError {
    /// A row is longer than [`ROW_BYTES_MAX`].
    #[error("a row has {bytes} bytes; at most {ROW_BYTES_MAX} are allowed")]
    RowTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The rows have more different fields than [`COLUMNS_MAX`].
    #[error("the rows have more than {COLUMNS_MAX} different columns")]
    TooManyColumns,
    /// There are more rows than [`ROWS_MAX`].
    #[error("there are more than {ROWS_MAX} rows")]
    TooManyRows,
    /// The names on the path to a field are longer than [`COLUMN_NAME_BYTES_MAX`] together.
    #[error("a column's name has more than {COLUMN_NAME_BYTES_MAX} bytes")]
    ColumnNameTooLong,
    /// The rows of one page are longer together than [`spool::PAGE_BYTES_MAX`].
    #[error("a page has more than {} bytes of rows", spool::PAGE_BYTES_MAX)]
    PageTooLong,
    /// The file, the data in it or the text of all rows exceeds the limit.
    #[error("the rows do not fit into a file of {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// A text is longer than a cell of a workbook can hold; other formats accept it.
    #[error(
        "row {row} has a text of {length} characters in the column {column:?}; a cell of a workbook holds {}",
        xlsx::CELL_LENGTH_MAX
    )]
    CellTooLong {
        /// The number of the row, from 1.
        row: u64,
        /// The column's name.
        column: String,
        /// The length of its text in UTF-16 units, as workbooks count.
        length: usize,
    },
    /// A row has a field without a column.
    #[error("a row has the column {0:?}, which earlier passes did not collect")]
    UnknownColumn(String),
    /// A row is not the text of a JSON object.
    #[error("a row is not a JSON object")]
    NotAnObject,
    /// A row is not valid JSON.
    #[error("a row is not JSON at byte {at}")]
    NotJson {
        /// The offset of the error.
        at: usize,
    },
    /// The spool does not contain all that was written to it: a frame is missing, torn or damaged.
    #[error("the spool has {pages} of {pages_wanted} pages and {rows} of {rows_wanted} rows")]
    Incomplete {
        /// The pages that it has.
        pages: u64,
        /// The rows that it has.
        rows: u64,
        /// The pages that were written to it.
        pages_wanted: u64,
        /// The rows that were written to it.
        rows_wanted: u64,
    },
    /// The caller no longer wants the file.
    #[error("the file is no longer wanted")]
    Stopped,
    /// The output cannot be written, or the spool cannot be read.
    #[error("the file cannot be written or its spool cannot be read")]
    Io(#[from] std::io::Error),
}

/// Refuses a row that is too long before it is parsed.
pub(crate) const fn check_length(row: &str) -> Result<(), TabularError> {
    if row.len() > ROW_BYTES_MAX {
        return Err(TabularError::RowTooLong { bytes: row.len() });
    }
    Ok(())
}
