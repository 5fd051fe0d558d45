//! A storage in a bucket, for tests against a store that a listener plays and against those that
//! others made.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use storage::{
    BucketSettings, ObjectName, PutOutcome, Storage, StorageError, StorageLocation, StorageSettings,
};

pub(crate) const MEBIBYTE: usize = 1024 * 1024;
pub(crate) const SECONDS: Duration = Duration::from_secs(30);
const BUCKET: &str = "exports";

pub(crate) struct TestBucket {
    pub(crate) storage: Storage,
    /// Keeps the folder for work.
    _folder: tempfile::TempDir,
}

/// A storage in the bucket of a store at this address.
pub(crate) fn bucket_at(endpoint: &str, secret: &str, timeout: Duration) -> TestBucket {
    let folder = tempfile::tempdir().unwrap();
    let place = StorageLocation::Bucket(BucketSettings {
        bucket: BUCKET.to_owned(),
        endpoint: endpoint.to_owned(),
        region: "us-east-1".to_owned(),
        path_style: true,
        allow_http: false,
        credentials: Some(("test".to_owned(), secret.to_owned().into())),
        authorities: None,
        connect_timeout: Duration::from_secs(5),
        request_timeout: timeout,
    });
    let work_folder: PathBuf = folder.path().join("work");
    let storage = Storage::open(&StorageSettings { place, work_folder }).unwrap();
    TestBucket { storage, _folder: folder }
}

pub(crate) fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

/// Bytes of a length, of which no two stretches that follow each other are the same.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

impl TestBucket {
    pub(crate) async fn put(&self, at: &str, content: &[u8]) -> Result<PutOutcome, StorageError> {
        let work = self.storage.work_file("work").unwrap();
        work.file().write_all(content).unwrap();
        self.storage.put_file(&name(at), work).await
    }
}
