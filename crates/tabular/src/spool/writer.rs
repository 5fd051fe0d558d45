//! Appends pages to a spool.

use std::io::Write;

use super::frame::{self, FrameParts};
use super::{PAGE_BYTES_MAX, RESUME_POINT_BYTES_MAX, SpooledPages};
use crate::{OUTPUT_BYTES_MAX, ROWS_MAX, TabularError, check_length, jsonl};

/// Appends frames to one segment. The output needs no buffer: each frame is one write.
#[derive(Debug)]
pub struct SpoolWriter<W> {
    out: W,
    spooled: SpooledPages,
    text_bytes_max: u64,
    text: String,
    frame: Vec<u8>,
}

impl<W: Write> SpoolWriter<W> {
    /// Continues after `spooled`: `SpooledPages::default()` for an empty spool, or what a
    /// [`super::SpoolReader`] found. `out` is a new segment, or the last one truncated to its valid
    /// frames.
    pub const fn new(out: W, spooled: SpooledPages) -> Self {
        Self {
            out,
            spooled,
            text_bytes_max: OUTPUT_BYTES_MAX,
            text: String::new(),
            frame: Vec::new(),
        }
    }

    /// Replaces the limit [`OUTPUT_BYTES_MAX`] for the text of all rows.
    #[must_use]
    pub const fn with_text_bytes_max(mut self, bytes: u64) -> Self {
        self.text_bytes_max = bytes;
        self
    }

    /// Appends a page: its rows, each the text of a JSON object, and the resume point after it.
    /// Returns the frame, for storages that keep each frame as an object of its own. After an error
    /// the writer is unusable; earlier frames stay valid.
    pub fn append<'r>(
        &mut self,
        resume_point: &[u8],
        rows: impl IntoIterator<Item = &'r str>,
    ) -> Result<&[u8], TabularError> {
        if resume_point.len() > RESUME_POINT_BYTES_MAX {
            return Err(std::io::Error::other("a resume point is too long").into());
        }
        let count = self.take(rows)?;
        let parts = FrameParts {
            page: self.spooled.pages,
            rows: count,
            resume_point,
            text: self.text.as_bytes(),
        };
        frame::encode(&parts, &mut self.frame)?;
        self.out.write_all(&self.frame)?;
        self.out.flush()?;
        self.spooled.pages += 1;
        self.spooled.resume_point.clear();
        self.spooled.resume_point.extend_from_slice(resume_point);
        Ok(&self.frame)
    }

    /// Copies the rows of a page and returns their number.
    fn take<'r>(&mut self, rows: impl IntoIterator<Item = &'r str>) -> Result<u32, TabularError> {
        self.text.clear();
        let mut count = 0;
        for row in rows {
            let row = jsonl::one_line(row);
            check_length(&row)?;
            if self.text.len() + row.len() >= PAGE_BYTES_MAX {
                return Err(TabularError::PageTooLong);
            }
            self.text.push_str(&row);
            self.text.push('\n');
            count += 1;
        }
        self.spooled.rows += u64::from(count);
        if self.spooled.rows > ROWS_MAX {
            return Err(TabularError::TooManyRows);
        }
        self.spooled.text_bytes += self.text.len() as u64;
        if self.spooled.text_bytes > self.text_bytes_max {
            return Err(TabularError::TooLarge { bytes_max: self.text_bytes_max });
        }
        Ok(count)
    }

    /// Swaps out the text of the last page, a line for each row, for a buffer for the next page.
    pub const fn swap_text(&mut self, text: &mut String) {
        std::mem::swap(&mut self.text, text);
    }

    /// The number of pages, including those before this writer.
    pub const fn pages(&self) -> u64 {
        self.spooled.pages
    }

    /// The number of rows, including those before this writer.
    pub const fn rows(&self) -> u64 {
        self.spooled.rows
    }

    /// Ends writing; returns the output and what the whole spool contains.
    pub fn finish(self) -> (W, SpooledPages) {
        (self.out, self.spooled)
    }
}
