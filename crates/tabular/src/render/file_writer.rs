//! A file of any format, written row by row.

use std::io::{BufWriter, Read, Seek, Write};

use super::{FileFormat, FileLayout, ManifestFacts};
use crate::archive::{self, ArchiveWriter};
use crate::capped::{self, CappedWriter, DigestingWriter, FileDigest};
use crate::jsonl::ObjectsWriter;
use crate::xlsx::XlsxWriter;
use crate::{CsvWriter, FileColumns, RowFlattener, SpooledPages, TabularError};

/// How much of a file is buffered before it is written.
const BUFFER_BYTES: usize = 64 * 1024;

/// The output for an archive's data.
type ArchivedData<W> = CappedWriter<DigestingWriter<ArchiveWriter<CappedWriter<W>>>>;

/// A file of any format that is being written.
pub(crate) enum FileWriter<W: Read + Write + Seek> {
    /// JSON lines, written unchanged.
    Lines(DigestingWriter<CappedWriter<W>>),
    /// JSON lines of chosen columns.
    Objects(ObjectsWriter<BufWriter<DigestingWriter<CappedWriter<W>>>>),
    /// CSV.
    Csv(CsvWriter<BufWriter<DigestingWriter<CappedWriter<W>>>>),
    /// CSV in an archive.
    Zip(CsvWriter<BufWriter<ArchivedData<W>>>),
    /// A workbook.
    Xlsx(XlsxWriter<CappedWriter<W>>),
}

impl<W: Read + Write + Seek> FileWriter<W> {
    /// Starts a file of at most `bytes_max` bytes. Only a workbook reads `spooled`: its head names
    /// its size.
    pub(crate) fn begin(
        layout: FileLayout,
        out: W,
        bytes_max: u64,
        spooled: &SpooledPages,
        columns: &FileColumns,
    ) -> Result<Self, TabularError> {
        let out = CappedWriter::new(out, bytes_max);
        Ok(match layout.format {
            FileFormat::Jsonl if layout.keeps_rows(columns) => {
                Self::Lines(DigestingWriter::new(out))
            }
            FileFormat::Jsonl => {
                let buffer = BufWriter::with_capacity(BUFFER_BYTES, DigestingWriter::new(out));
                Self::Objects(ObjectsWriter::new(buffer, columns))
            }
            FileFormat::Csv => {
                let buffer = BufWriter::with_capacity(BUFFER_BYTES, DigestingWriter::new(out));
                let begin =
                    if layout.csv_bom { CsvWriter::with_byte_order_mark } else { CsvWriter::new };
                Self::Csv(begin(buffer, columns)?)
            }
            FileFormat::Xlsx => Self::Xlsx(XlsxWriter::new(out, spooled, columns)?),
            FileFormat::Zip => {
                let data = CappedWriter::new(archive::begin_data(out)?, bytes_max);
                let buffer = BufWriter::with_capacity(BUFFER_BYTES, data);
                Self::Zip(CsvWriter::new(buffer, columns)?)
            }
        })
    }

    /// Writes rows that are each followed by a line break, if the format writes rows unchanged;
    /// other formats use `row`.
    pub(crate) fn lines(&mut self, text: &str) -> Result<(), TabularError> {
        match self {
            Self::Lines(out) => Ok(out.write_all(text.as_bytes())?),
            Self::Objects(_) | Self::Csv(_) | Self::Zip(_) | Self::Xlsx(_) => Ok(()),
        }
    }

    /// Writes the last row read. JSON lines are written by `lines` instead.
    pub(crate) fn row(&mut self, flattener: &RowFlattener, row: &str) -> Result<(), TabularError> {
        match self {
            Self::Lines(_) => Ok(()),
            Self::Objects(writer) => writer.row(flattener, row),
            Self::Csv(writer) => writer.row(flattener.cells(row)),
            Self::Zip(writer) => writer.row(flattener.cells(row)),
            Self::Xlsx(writer) => writer.row(flattener, row),
        }
    }

    /// Ends the file; returns its length and digest. A file written sequentially was hashed on the
    /// way; a file written out of order is read again.
    pub(crate) fn finish(
        self,
        facts: &ManifestFacts<'_>,
        spooled: &SpooledPages,
        columns: &FileColumns,
    ) -> Result<FileDigest, TabularError> {
        let archive = match self {
            Self::Lines(out) => return Ok(digested(out)?),
            Self::Objects(writer) => {
                let out = writer.finish()?.into_inner().map_err(std::io::Error::from)?;
                return Ok(digested(out)?);
            }
            Self::Csv(writer) => {
                let out = writer.finish()?.into_inner().map_err(std::io::Error::from)?;
                return Ok(digested(out)?);
            }
            Self::Zip(writer) => {
                let written = writer.finish()?.into_inner().map_err(std::io::Error::from)?;
                archive::finish_data(written.into_inner(), facts, spooled, columns)?
            }
            Self::Xlsx(writer) => writer.finish()?,
        };
        let mut file = archive.into_inner();
        file.flush()?;
        Ok(capped::digest_of(&mut file)?)
    }
}

fn digested<W: Write>(mut out: DigestingWriter<CappedWriter<W>>) -> std::io::Result<FileDigest> {
    out.flush()?;
    Ok(out.finish().digest)
}
