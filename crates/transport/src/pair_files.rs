//! The files of a certificate and its key, read within limits: anything may have replaced them, and
//! they may be on a network disk that does not respond.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// The largest file that is accepted, in bytes.
const BYTES_MAX: usize = 1_048_576;
/// The bytes read of a file: one more than accepted, to detect a larger file.
const READ_MAX: u64 = 1_048_577;
/// How long reading both files may take.
const READ_TIME: Duration = Duration::from_secs(10);
/// Reads that may be stuck at the same time. At this number no read starts until one of them ends.
const STUCK_MAX: usize = 4;

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the server's certificate, then those between it and a root.
    pub certificate_file: PathBuf,
    /// PEM: the certificate's private key.
    pub key_file: PathBuf,
}

/// The content of both files.
pub(crate) struct PairBytes {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Zeroizing<Vec<u8>>,
}

impl PairBytes {
    fn read(files: &TlsFiles) -> io::Result<Self> {
        let read = |file: &Path| regular_file(file).map_err(|error| unusable(file, error));
        Ok(Self {
            certificate: read(&files.certificate_file)?,
            key: Zeroizing::new(read(&files.key_file)?),
        })
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        let of_each = Sha256::new()
            .chain_update(Sha256::digest(&self.certificate))
            .chain_update(Sha256::digest(&*self.key));
        of_each.finalize().into()
    }
}

/// Reads the whole file. Only regular files are opened: opening a pipe would wait for its other
/// end.
fn regular_file(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(READ_MAX);
    file.read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        let problem = format!("it is larger than {BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Ok(bytes)
}

/// Reads the files, each time in a new thread, which is abandoned if the disk does not respond.
pub(crate) struct PairReader {
    pub(crate) files: TlsFiles,
    stuck: Arc<AtomicUsize>,
}

impl PairReader {
    pub(crate) fn new(files: &TlsFiles) -> Self {
        Self { files: files.clone(), stuck: Arc::default() }
    }

    /// Reads both files. Errors name the file, never its content. Blocks for at most ten seconds.
    pub(crate) fn read(&self) -> io::Result<PairBytes> {
        let files = self.files.clone();
        self.within(READ_TIME, move || PairBytes::read(&files))
    }

    fn within<T: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let late = |()| unusable(&self.files.certificate_file, "its disk does not respond");
        let stuck = ReadGuard::begin(&self.stuck).ok_or(()).map_err(late)?;
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("certificate".to_owned()).spawn(move || {
            let done = work();
            drop(stuck);
            // The receiver may have given up.
            drop(sender.send(done));
        })?;
        receiver.recv_timeout(time).unwrap_or_else(|_| Err(late(())))
    }
}

/// Counts a read until it ends.
struct ReadGuard(Arc<AtomicUsize>);

impl ReadGuard {
    fn begin(count: &Arc<AtomicUsize>) -> Option<Self> {
        let begun = Self(Arc::clone(count));
        (count.fetch_add(1, Ordering::SeqCst) < STUCK_MAX).then_some(begun)
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn unusable(file: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> PairReader {
        PairReader::new(&TlsFiles {
            certificate_file: "own.pem".into(),
            key_file: "own.key".into(),
        })
    }

    #[test]
    fn an_unresponsive_disk_times_out_and_holds_few_threads() {
        let reader = reader();
        let mut ends = Vec::new();
        for _ in 0..STUCK_MAX {
            let (end, ended) = mpsc::channel::<()>();
            let stuck = move || {
                let ended = ended.recv();
                assert!(ended.is_err(), "only dropping the sender ends it");
                Ok(())
            };
            let error = reader.within(Duration::from_millis(1), stuck).unwrap_err();
            assert_eq!(error.to_string(), "own.pem: its disk does not respond");
            ends.push(end);
        }
        let refused: io::Result<()> = reader.within(READ_TIME, || panic!("no read starts"));
        assert!(refused.is_err());

        drop(ends);
        while reader.stuck.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(reader.within(READ_TIME, || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn irregular_and_large_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let problem = |path: &Path| regular_file(path).unwrap_err().to_string();
        assert_eq!(problem(folder.path()), "it is not a regular file");
        assert_eq!(problem(Path::new("/dev/zero")), "it is not a regular file");

        File::create(&file).unwrap().set_len(READ_MAX).unwrap();
        assert_eq!(problem(&file), "it is larger than 1048576 bytes");
        File::create(&file).unwrap().set_len(READ_MAX - 1).unwrap();
        assert_eq!(regular_file(&file).unwrap().len(), 1_048_576);
    }
}
