//! Bundles: several files in one archive, made piece by piece, so that it can be sent while it
//! grows.
//!
//! Nothing is kept but what was not taken yet: each entry is compressed as it is written, and its
//! length follows it.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use zip::ZipWriter;
use zip::write::StreamWriter;

use crate::archive::{self, ArchiveWriter};
use crate::{CellValue, CsvWriter, TabularError};

/// An archive of several files that is being written.
pub struct BundleWriter {
    archive: ArchiveWriter<StreamWriter<TakenBytes>>,
    made: TakenBytes,
}

/// The bytes that were made and not taken yet.
#[derive(Clone, Default)]
struct TakenBytes(Arc<Mutex<Vec<u8>>>);

impl Default for BundleWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl BundleWriter {
    /// Starts an empty archive.
    pub fn new() -> Self {
        let made = TakenBytes::default();
        Self { archive: ZipWriter::new_stream(made.clone()), made }
    }

    /// Starts the next file.
    pub fn begin(&mut self, name: &str) -> Result<(), TabularError> {
        archive::begin(&mut self.archive, name, u64::MAX)
    }

    /// Adds text to the file.
    pub fn text(&mut self, text: &str) -> Result<(), TabularError> {
        Ok(self.archive.write_all(text.as_bytes())?)
    }

    /// Adds a line of a csv file. Texts that a spreadsheet would execute are marked.
    pub fn csv_line(&mut self, cells: Vec<CellValue<'_>>) -> Result<(), TabularError> {
        CsvWriter::of_width(&mut self.archive, cells.len()).row(cells)
    }

    /// Takes what was made since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        self.made.take()
    }

    /// Ends the archive and takes the rest of it.
    pub fn finish(self) -> Result<Vec<u8>, TabularError> {
        archive::finish(self.archive)?;
        Ok(self.made.take())
    }
}

impl TakenBytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for TakenBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::io::{Cursor, Read as _};

    use super::*;

    #[test]
    fn what_is_taken_piece_by_piece_is_one_archive() {
        let mut bundle = BundleWriter::new();
        let mut whole = Vec::new();
        bundle.begin("one.json").unwrap();
        bundle.text("[1").unwrap();
        whole.extend(bundle.take());
        bundle.text("]\n").unwrap();
        bundle.begin("two.csv").unwrap();
        let text = |text: &'static str| CellValue::Text(Cow::Borrowed(text));
        bundle.csv_line(vec![text("a"), text("b")]).unwrap();
        whole.extend(bundle.take());
        bundle.csv_line(vec![text("=1+1"), CellValue::Empty]).unwrap();
        whole.extend(bundle.finish().unwrap());

        let mut archive = zip::ZipArchive::new(Cursor::new(whole)).unwrap();
        let mut read = |name: &str| {
            let mut content = String::new();
            archive.by_name(name).unwrap().read_to_string(&mut content).unwrap();
            content
        };
        assert_eq!(read("one.json"), "[1]\n");
        assert_eq!(read("two.csv"), "a,b\r\n'=1+1,\r\n");
    }
}
