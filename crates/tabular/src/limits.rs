//! The limits of rows and files.

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

/// The most text of the rows of one page together, in bytes.
pub const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest text of a cell of a workbook, in UTF-16 units.
pub const CELL_LENGTH_MAX: usize = 32_767;
