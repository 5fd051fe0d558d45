//! Outputs that count what is written to them and refuse more than a limit.

use std::io::{self, Error, ErrorKind, Read, Seek, SeekFrom, Write};

use sha2::{Digest as _, Sha256};

/// Passes on writes up to a length; beyond it they fail with [`ErrorKind::FileTooLarge`].
#[derive(Debug)]
pub(crate) struct CappedWriter<W> {
    inner: W,
    position: u64,
    bytes_max: u64,
}

/// Passes on writes and computes their length and SHA-256.
#[derive(Debug)]
pub(crate) struct DigestingWriter<W> {
    inner: W,
    bytes: u64,
    digest: Sha256,
}

/// The length of what was written, and its SHA-256 in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// An output, and what was written to it.
pub(crate) struct DigestedOutput<W> {
    pub(crate) out: W,
    pub(crate) digest: FileDigest,
}

impl<W> CappedWriter<W> {
    /// Wraps an output at its beginning.
    pub(crate) const fn new(inner: W, bytes_max: u64) -> Self {
        Self { inner, position: 0, bytes_max }
    }

    pub(crate) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for CappedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.position.saturating_add(bytes.len() as u64) > self.bytes_max {
            return Err(Error::from(ErrorKind::FileTooLarge));
        }
        let written = self.inner.write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Seek> Seek for CappedWriter<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = self.inner.seek(to)?;
        Ok(self.position)
    }
}

impl<W> DigestingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, bytes: 0, digest: Sha256::new() }
    }

    /// The output, and what was written to it.
    pub(crate) fn finish(self) -> DigestedOutput<W> {
        let digest = FileDigest { bytes: self.bytes, sha256: hex::encode(self.digest.finalize()) };
        DigestedOutput { out: self.inner, digest }
    }
}

impl<W: Write> Write for DigestingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The length and the SHA-256 of a whole file, read from its beginning.
pub(crate) fn digest_of(file: &mut (impl Read + Seek)) -> io::Result<FileDigest> {
    file.rewind()?;
    let mut digesting = DigestingWriter::new(io::sink());
    let mut block = vec![0; 64 * 1024];
    loop {
        let length = file.read(&mut block)?;
        if length == 0 {
            return Ok(digesting.finish().digest);
        }
        digesting.write_all(block.get(..length).unwrap_or_default())?;
    }
}
