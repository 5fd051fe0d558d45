//! Appending pages to a spool.

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
    /// Goes on behind what is there: `SpooledPages::default()` for nothing, or what a [`super::SpoolReader`] found.
    /// `out` is a new segment, or the last one cut to where its good frames end.
    pub const fn new(out: W, spooled: SpooledPages) -> Self {
        Self {
            out,
            spooled,
            text_bytes_max: OUTPUT_BYTES_MAX,
            text: String::new(),
            frame: Vec::new(),
        }
    }

    /// The same with another limit than [`OUTPUT_BYTES_MAX`] for the text of all rows.
    #[must_use]
    pub const fn with_text_bytes_max(mut self, bytes: u64) -> Self {
        self.text_bytes_max = bytes;
        self
    }

    /// Appends a page: its rows, each the text of a JSON object, and the point to go on from behind it. Returns the
    /// frame, for storages that keep each as an object of its own. After an error the writer is of no use; the frames
    /// before stay good.
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

    /// Takes the rows of a page over and returns how many there are.
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

    /// Gives the text of the page that was appended last away, a line for each row, and takes room for the next one's.
    pub const fn swap_text(&mut self, text: &mut String) {
        std::mem::swap(&mut self.text, text);
    }

    /// How many pages there are, those before this writer included.
    pub const fn pages(&self) -> u64 {
        self.spooled.pages
    }

    /// How many rows there are, those before this writer included.
    pub const fn rows(&self) -> u64 {
        self.spooled.rows
    }

    /// Ends writing and says what the whole spool holds.
    pub fn finish(self) -> (W, SpooledPages) {
        (self.out, self.spooled)
    }
}
