//! How rows become a data file, in constant memory.
//!
//! A row is the text of one JSON object, as a platform gave it. Pages of rows are kept in a [`spool`] of checked frames
//! while they arrive. A [`TabularDraft`] takes each page as well: it collects the columns of all rows and, where it can,
//! writes the file on the way. Where it cannot, [`render()`] makes the file in one pass over the spool. Nothing keeps
//! more than one page. The same rows give the same bytes, always.

pub mod archive;
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
/// The most rows of a file in any format: a workbook's sheet has 1,048,576, one of them for the names.
pub const ROWS_MAX: u64 = 1_048_575;
/// The largest file, in bytes; also the most text that all rows of a spool, or the data inside an archive, may have.
pub const OUTPUT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TabularError {
    /// A row is longer than [`ROW_BYTES_MAX`].
    #[error("a row has {bytes} bytes; at most {ROW_BYTES_MAX} are written")]
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
    /// The names that lead to a field are longer than [`COLUMN_NAME_BYTES_MAX`] together.
    #[error("a column's name has more than {COLUMN_NAME_BYTES_MAX} bytes")]
    ColumnNameTooLong,
    /// The rows of one page are longer together than [`spool::PAGE_BYTES_MAX`].
    #[error("a page has more than {} bytes of rows", spool::PAGE_BYTES_MAX)]
    PageTooLong,
    /// The file, the data in it or the text of all rows is longer than is allowed.
    #[error("the rows are more than a file of {bytes_max} bytes holds")]
    TooLarge {
        /// What is allowed.
        bytes_max: u64,
    },
    /// A text is longer than a cell of a workbook can be; other formats take it.
    #[error(
        "row {row} has a text of {length} characters in the column {column:?}; a cell of a workbook holds {}",
        xlsx::CELL_LENGTH_MAX
    )]
    CellTooLong {
        /// The number of the row, from 1.
        row: u64,
        /// The column's name.
        column: String,
        /// The length of its text, counted as workbooks count: in UTF-16 units.
        length: usize,
    },
    /// A row has a field that was not there when the columns were collected.
    #[error("a row has the column {0:?}, which was not collected before")]
    UnknownColumn(String),
    /// A row is not the text of a JSON object.
    #[error("a row is not a JSON object")]
    NotAnObject,
    /// A row is not JSON.
    #[error("a row is not JSON at byte {at}")]
    NotJson {
        /// Where it ceases to be.
        at: usize,
    },
    /// The spool does not hold what was put into it: a frame is missing, torn or damaged.
    #[error("the spool holds {pages} pages and {rows} rows of {pages_wanted} and {rows_wanted}")]
    Incomplete {
        /// The pages that it holds.
        pages: u64,
        /// The rows in them.
        rows: u64,
        /// The pages that were put into it.
        pages_wanted: u64,
        /// The rows in those.
        rows_wanted: u64,
    },
    /// Whoever asked for the file wants it no more.
    #[error("the file is no longer wanted")]
    Stopped,
    /// The output does not take more, or the spool cannot be read.
    #[error("the file cannot be written or its spool cannot be read")]
    Io(#[from] std::io::Error),
}

/// Refuses a row that is too long before anything is made of it.
pub(crate) const fn check_length(row: &str) -> Result<(), TabularError> {
    if row.len() > ROW_BYTES_MAX {
        return Err(TabularError::RowTooLong { bytes: row.len() });
    }
    Ok(())
}
