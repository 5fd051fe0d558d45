//! How rows become a data file, in constant memory.
//!
//! A row is the text of one JSON object, as a platform gave it. Text formats are written in two passes over the
//! rows: the first collects the columns ([`Columns::add`]), the second writes them ([`CsvWriter`]). No pass keeps
//! more than one row. The same rows give the same bytes, always.

pub mod columns;
pub mod csv;
pub mod jsonl;
pub mod safety;

pub use columns::{Cell, ColumnKind, Columns};
pub use csv::CsvWriter;
pub use jsonl::JsonlWriter;

/// The longest row, in bytes of its JSON text.
pub const ROW_BYTES_MAX: usize = 1024 * 1024;
/// The most columns of a file.
pub const COLUMNS_MAX: usize = 512;
/// The longest name of a column, in bytes.
pub const COLUMN_NAME_BYTES_MAX: usize = 1024;

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
    /// The names that lead to a field are longer than [`COLUMN_NAME_BYTES_MAX`] together.
    #[error("a column's name has more than {COLUMN_NAME_BYTES_MAX} bytes")]
    ColumnNameTooLong,
    /// A row has a field that was not there when the columns were collected.
    #[error("a row has the column {0:?}, which was not collected before")]
    UnknownColumn(String),
    /// A row is not the text of a JSON object.
    #[error("a row is not a JSON object")]
    NotAnObject,
    /// A row is not JSON.
    #[error("a row is not JSON")]
    NotJson(#[from] serde_json::Error),
    /// A row for a file with one row a line has a line break in it.
    #[error("a row has a line break outside its texts")]
    LineBreak,
    /// The output does not take more.
    #[error("the file cannot be written")]
    Write(#[from] std::io::Error),
}

/// Refuses a row that is too long before anything is made of it.
pub(crate) const fn check_length(row: &str) -> Result<(), TabularError> {
    if row.len() > ROW_BYTES_MAX {
        return Err(TabularError::RowTooLong { bytes: row.len() });
    }
    Ok(())
}
