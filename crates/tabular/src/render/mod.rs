//! Renders the file of a job, in any format, in one pass over its spool.

mod file_writer;
mod layout;

use std::io::{ErrorKind, Read, Seek, Write};

use crate::capped::FileDigest;
use crate::{FileColumns, OUTPUT_BYTES_MAX, RowFlattener, SpoolReader, SpooledPages, TabularError};

pub(crate) use file_writer::FileWriter;
pub use layout::{FileFormat, FileLayout};

/// The facts in an archive's manifest that do not come from the rows. The bytes of the file depend
/// only on these and on the rows, so nothing here may change between two attempts of a job.
#[derive(Debug, Clone, Copy)]
pub struct ManifestFacts<'a> {
    /// The job's id.
    pub job: &'a str,
    /// The connected account.
    pub account: &'a str,
    /// The platform's name.
    pub platform: &'a str,
    /// The dataset's name.
    pub dataset: &'a str,
    /// The first date or time of the rows, as requested.
    pub start_date: Option<&'a str>,
    /// The last date, or the time before which the rows are, as requested.
    pub end_date: Option<&'a str>,
    /// The version of the program.
    pub tool_version: &'a str,
}

/// How to make a file.
#[derive(Clone, Copy)]
pub struct FileRendering<'a> {
    /// Format and options.
    pub layout: FileLayout,
    /// For the manifest.
    pub facts: ManifestFacts<'a>,
    /// The largest file, in bytes; also the most data in an archive. Usually [`OUTPUT_BYTES_MAX`].
    pub bytes_max: u64,
    /// Called at each page; `true` stops rendering with [`TabularError::Stopped`].
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Its rows.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

impl<'a> FileRendering<'a> {
    /// A file of at most [`OUTPUT_BYTES_MAX`] that is never stopped.
    pub fn new(layout: impl Into<FileLayout>, facts: ManifestFacts<'a>) -> Self {
        Self { layout: layout.into(), facts, bytes_max: OUTPUT_BYTES_MAX, is_stopped: &|| false }
    }
}

/// Renders the file from the spool's frames. `spooled` says what was written to the spool,
/// `columns` are those of all rows. `out` must be at its beginning. After an error the content of
/// `out` is unusable.
pub fn render<R: Read, W: Read + Write + Seek>(
    rendering: &FileRendering<'_>,
    spooled: &SpooledPages,
    columns: &FileColumns,
    mut frames: SpoolReader<R>,
    out: W,
) -> Result<RenderedFile, TabularError> {
    let limit = |error| too_large(error, rendering.bytes_max);
    let (layout, bytes_max) = (rendering.layout, rendering.bytes_max);
    let mut file = FileWriter::begin(layout, out, bytes_max, spooled, columns).map_err(limit)?;
    let mut flattener = RowFlattener::arranging(columns.clone());
    each_frame(rendering, spooled, &mut frames, |text| {
        if layout.keeps_rows(columns) {
            return file.lines(text);
        }
        text.split_terminator('\n').try_for_each(|row| {
            flattener.read(row)?;
            file.row(&flattener, row)
        })
    })
    .map_err(limit)?;
    let FileDigest { bytes, sha256 } =
        file.finish(&rendering.facts, spooled, columns).map_err(limit)?;
    Ok(RenderedFile { rows: spooled.rows, bytes, sha256 })
}

/// Passes the text of each frame to `write`, and checks that none is missing.
fn each_frame<R: Read>(
    rendering: &FileRendering<'_>,
    spooled: &SpooledPages,
    frames: &mut SpoolReader<R>,
    mut write: impl FnMut(&str) -> Result<(), TabularError>,
) -> Result<(), TabularError> {
    while frames.spooled().pages < spooled.pages
        && let Some(frame) = frames.next_frame()?
    {
        if (rendering.is_stopped)() {
            return Err(TabularError::Stopped);
        }
        write(frame.text())?;
    }
    let found = frames.spooled();
    if (found.pages, found.rows) != (spooled.pages, spooled.rows) {
        return Err(TabularError::Incomplete {
            pages: found.pages,
            rows: found.rows,
            pages_wanted: spooled.pages,
            rows_wanted: spooled.rows,
        });
    }
    Ok(())
}

pub(crate) fn too_large(error: TabularError, bytes_max: u64) -> TabularError {
    match error {
        TabularError::Io(error) if error.kind() == ErrorKind::FileTooLarge => {
            TabularError::TooLarge { bytes_max }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
