//! Archives: `data.csv` and a `manifest.json` that describes it and how to verify it.
//!
//! Names in the archive are fixed and its times are constant: the same rows always produce the same
//! bytes.

use std::io::{Seek, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::capped::{DigestedOutput, DigestingWriter};
use crate::columns::FileColumns;
use crate::{DeclaredColumn, ManifestFacts, SpooledPages, TabularError};

/// The name of the rows' entry in an archive.
pub const DATA_NAME: &str = "data.csv";
/// The name of the entry that describes them.
pub const MANIFEST_NAME: &str = "manifest.json";

/// The compression level of archives and workbooks: higher levels take longer and hardly save
/// space.
const COMPRESSION_LEVEL: i64 = 4;

/// An archive while an entry is being written, or between two entries.
pub(crate) type ArchiveWriter<W> = ZipWriter<W>;

#[derive(serde::Serialize)]
struct ArchiveManifest<'a> {
    job: &'a str,
    account: &'a str,
    platform: &'a str,
    dataset: &'a str,
    window: ManifestWindow<'a>,
    rows: u64,
    pages: u64,
    bytes: u64,
    sha256: &'a str,
    columns: Vec<ManifestColumn<'a>>,
    tool_version: &'a str,
}

#[derive(serde::Serialize)]
struct ManifestWindow<'a> {
    start_date: Option<&'a str>,
    end_date: Option<&'a str>,
}

#[derive(serde::Serialize)]
struct ManifestColumn<'a> {
    name: &'a str,
    /// The declared kind; if none is declared, what its cells contain.
    #[serde(rename = "type")]
    kind: &'static str,
    unit: Option<&'static str>,
    /// What its cells contain in this file.
    values: &'static str,
}

/// Starts an entry. Readers of small archives need not support 64-bit lengths, so those are used
/// only if `bytes_max` may require them.
pub(crate) fn begin<W: Write + Seek>(
    archive: &mut ArchiveWriter<W>,
    name: &str,
    bytes_max: u64,
) -> Result<(), TabularError> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(COMPRESSION_LEVEL))
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(bytes_max >= u64::from(u32::MAX));
    archive.start_file(name, options).map_err(failure)
}

/// Starts the entry of the rows; what is written to it is counted and hashed.
pub(crate) fn begin_data<W: Write + Seek>(
    out: W,
) -> Result<DigestingWriter<ArchiveWriter<W>>, TabularError> {
    let mut archive = ZipWriter::new(out);
    begin(&mut archive, DATA_NAME, u64::MAX)?;
    Ok(DigestingWriter::new(archive))
}

/// Ends the entry of the rows, adds the manifest, and returns the output.
pub(crate) fn finish_data<W: Write + Seek>(
    data: DigestingWriter<ArchiveWriter<W>>,
    facts: &ManifestFacts<'_>,
    spooled: &SpooledPages,
    columns: &FileColumns,
) -> Result<W, TabularError> {
    let DigestedOutput { out: mut archive, digest } = data.finish();
    let manifest = ArchiveManifest {
        job: facts.job,
        account: facts.account,
        platform: facts.platform,
        dataset: facts.dataset,
        window: ManifestWindow { start_date: facts.start_date, end_date: facts.end_date },
        rows: spooled.rows,
        pages: spooled.pages,
        bytes: digest.bytes,
        sha256: &digest.sha256,
        columns: described(columns),
        tool_version: facts.tool_version,
    };
    begin(&mut archive, MANIFEST_NAME, 0)?;
    serde_json::to_writer_pretty(&mut archive, &manifest).map_err(std::io::Error::from)?;
    archive.write_all(b"\n")?;
    finish(archive)
}

/// Ends an archive.
pub(crate) fn finish<W: Write + Seek>(archive: ArchiveWriter<W>) -> Result<W, TabularError> {
    archive.finish().map_err(failure)
}

fn described(columns: &FileColumns) -> Vec<ManifestColumn<'_>> {
    let declarations = columns.declarations().iter().map(Some).chain(std::iter::repeat(None));
    let found = columns.names().iter().zip(columns.kinds()).zip(declarations);
    found
        .map(|((name, found), declared)| ManifestColumn::of(name, found.as_str(), declared))
        .collect()
}

impl<'a> ManifestColumn<'a> {
    fn of(name: &'a str, values: &'static str, declared: Option<&DeclaredColumn>) -> Self {
        let kind = declared.and_then(|column| column.kind).unwrap_or(values);
        Self { name, kind, unit: declared.and_then(|column| column.unit), values }
    }
}

fn failure(error: zip::result::ZipError) -> TabularError {
    TabularError::Io(error.into())
}
