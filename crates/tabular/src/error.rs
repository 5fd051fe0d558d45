//! Why a file cannot be written.

use crate::limits::{
    CELL_LENGTH_MAX, COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, PAGE_BYTES_MAX, ROW_BYTES_MAX, ROWS_MAX,
};

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
    /// The rows of one page are longer together than
    /// [`PAGE_BYTES_MAX`](crate::spool::PAGE_BYTES_MAX).
    #[error("a page has more than {} bytes of rows", PAGE_BYTES_MAX)]
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
        CELL_LENGTH_MAX
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
