//! Turns rows into data files, in constant memory.
//!
//! A row is the text of one JSON object, as a platform returned it. Pages of rows are kept in a
//! [`spool`] of checked frames while they arrive. A [`TabularDraft`] receives each page as well: it
//! collects the columns of all rows and, if possible, writes the file on the way. Otherwise
//! [`render()`] makes the file in one pass over the spool. No more than one page is kept in memory.
//! The same rows always produce the same bytes.

pub mod archive;
mod capped;
pub mod columns;
pub mod csv;
mod dates;
mod declared;
pub mod draft;
mod error;
pub mod jsonl;
mod limits;
pub mod render;
pub mod safety;
pub mod scan;
pub mod spool;
pub mod xlsx;

pub use columns::{CellValue, ColumnKind, FileColumns, RowFlattener};
pub use csv::CsvWriter;
pub use declared::DeclaredColumn;
pub use draft::{DraftOutcome, TabularDraft};
pub use error::TabularError;
pub(crate) use error::check_length;
pub use limits::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, OUTPUT_BYTES_MAX, ROW_BYTES_MAX, ROWS_MAX};
pub use render::{FileFormat, FileLayout, FileRendering, ManifestFacts, RenderedFile, render};
pub use spool::{SpoolReader, SpoolWriter, SpooledPages};
