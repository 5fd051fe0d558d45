//! Appending pages to a spool.

use std::io::Write;

use super::frame::{self, Parts};
use super::{PAGE_BYTES_MAX, RESUME_POINT_BYTES_MAX, Spooled};
use crate::columns::{Flattener, Kinds};
use crate::{OUTPUT_BYTES_MAX, ROWS_MAX, TabularError, jsonl};

/// Appends frames to one segment. The output needs no buffer: each frame is one write.
#[derive(Debug)]
pub struct SpoolWriter<W> {
    out: W,
    pages: u64,
    rows: u64,
    text_bytes: u64,
    text_bytes_max: u64,
    resume_point: Vec<u8>,
    flattener: Flattener,
    known: Vec<Kinds>,
    text: Vec<u8>,
    columns: Vec<u8>,
    frame: Vec<u8>,
}

impl<W: Write> SpoolWriter<W> {
    /// Goes on behind what is there: `Spooled::default()` for nothing, or what a [`super::SpoolReader`] found. `out`
    /// is a new segment, or the last one cut to where its good frames end.
    pub fn new(out: W, spooled: Spooled) -> Self {
        Self {
            out,
            pages: spooled.pages,
            rows: spooled.rows,
            text_bytes: spooled.text_bytes,
            text_bytes_max: OUTPUT_BYTES_MAX,
            resume_point: spooled.resume_point,
            known: spooled.columns.kind_sets().to_vec(),
            flattener: Flattener::collecting(spooled.columns),
            text: Vec::new(),
            columns: Vec::new(),
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
        frame::write_columns(&self.known, self.flattener.columns(), &mut self.columns);
        let parts = Parts {
            page: self.pages,
            rows: count,
            resume_point,
            columns: &self.columns,
            text: &self.text,
        };
        frame::encode(&parts, &mut self.frame)?;
        self.out.write_all(&self.frame)?;
        self.out.flush()?;
        self.pages += 1;
        self.known.clear();
        self.known.extend_from_slice(self.flattener.columns().kind_sets());
        self.resume_point.clear();
        self.resume_point.extend_from_slice(resume_point);
        Ok(&self.frame)
    }

    /// Takes the rows of a page over and returns how many there are.
    fn take<'r>(&mut self, rows: impl IntoIterator<Item = &'r str>) -> Result<u32, TabularError> {
        self.text.clear();
        let mut count = 0;
        for row in rows {
            let row = jsonl::one_line(row);
            self.flattener.read(&row)?;
            if self.text.len() + row.len() >= PAGE_BYTES_MAX {
                return Err(TabularError::PageTooLong);
            }
            self.text.extend_from_slice(row.as_bytes());
            self.text.push(b'\n');
            count += 1;
        }
        self.rows += u64::from(count);
        if self.rows > ROWS_MAX {
            return Err(TabularError::TooManyRows);
        }
        self.text_bytes += self.text.len() as u64;
        if self.text_bytes > self.text_bytes_max {
            return Err(TabularError::TooLarge { bytes_max: self.text_bytes_max });
        }
        Ok(count)
    }

    /// How many pages there are, those before this writer included.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// How many rows there are, those before this writer included.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends writing and says what the whole spool holds.
    pub fn finish(self) -> (W, Spooled) {
        let spooled = Spooled {
            pages: self.pages,
            rows: self.rows,
            text_bytes: self.text_bytes,
            resume_point: self.resume_point,
            columns: self.flattener.into_columns(),
        };
        (self.out, spooled)
    }
}
