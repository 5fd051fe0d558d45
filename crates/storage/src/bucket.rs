//! A bucket of an S3-compatible store, through the library's client: what is repeated, how long
//! anything may take, and what the answers mean here.

use std::future::Future;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::hosts::is_loopback_host;
use domain::time::Timestamp;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::Method;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpClient, HttpConnector as _, ReqwestConnector};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path as Key;
use object_store::signer::SignedUrlOptions;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, Error, GetOptions, GetRange, ObjectMeta,
    ObjectStore as _, ObjectStoreExt as _, PutMode, PutPayload, RetryConfig,
};
// The library's client; named here because its TLS is chosen by this crate: rustls with ring, as
// everywhere.
use reqwest as _;

use super::complete::{self, MultipartUpload};
use super::{
    BucketSettings, InvalidStorage, LIST_MAX, ObjectName, PutOutcome, StorageError, StoredObject,
};

/// How much of a file is one part of an upload, and the most that is put in one request. Stores
/// want at least 5 MiB, and at most 10,000 parts.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// How often a request is repeated that failed in a way that may pass.
const REPEATS_MAX: usize = 4;

/// A bucket.
#[derive(Debug, Clone)]
pub(super) struct BucketStorage {
    pub(super) store: Arc<AmazonS3>,
    pub(super) http: HttpClient,
    pub(super) request_timeout: Duration,
}

/// What is left of an object that is being read.
pub(super) struct ObjectParts {
    parts: BoxStream<'static, object_store::Result<Bytes>>,
    timeout: Duration,
    left: u64,
}

impl BucketStorage {
    pub(super) fn new(settings: &BucketSettings) -> Result<Self, InvalidStorage> {
        let invalid = |error: Error| InvalidStorage(error.to_string());
        // Whoever came first has chosen the same one.
        drop(rustls::crypto::ring::default_provider().install_default());
        let options = client_options(settings).map_err(invalid)?;
        let http = ReqwestConnector::default().connect(&options).map_err(invalid)?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_virtual_hosted_style_request(!settings.path_style)
            .with_client_options(options)
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(100),
                    max_backoff: Duration::from_secs(5),
                    base: 2.0,
                },
                max_retries: REPEATS_MAX,
                retry_timeout: settings.request_timeout,
            });
        if !settings.endpoint.is_empty() {
            builder = builder.with_endpoint(endpoint(settings)?);
        }
        if let Some((id, secret)) = &settings.credentials {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.as_str());
        }
        let store = Arc::new(builder.build().map_err(invalid)?);
        Ok(Self { store, http, request_timeout: settings.request_timeout })
    }

    /// A file goes up in parts, of which two are kept in memory; only the last request makes it an
    /// object.
    pub(super) async fn put_file(
        &self,
        name: &ObjectName,
        file: &Path,
    ) -> Result<PutOutcome, StorageError> {
        let file = std::fs::File::open(file).map_err(StorageError::file)?;
        let length = file.metadata().map_err(StorageError::file)?.len();
        if length <= PART_BYTES as u64 {
            let (_, content) = read_part(file).await?;
            return self.put_new(name, content).await;
        }
        let key = key(name);
        let upload = self.within(self.store.create_multipart(&key)).await.map_err(failure)?;
        let stored = match self.upload_parts(&key, &upload, file).await {
            Ok(tags) => {
                let whole =
                    MultipartUpload { name, key: &key, id: &upload, tags: &tags, bytes: length };
                complete::complete(self, &whole).await
            }
            Err(error) => Err(error),
        };
        if !matches!(stored, Ok(PutOutcome::Stored)) {
            // What cannot be given up now is given up by the bucket's own rule for such uploads.
            drop(self.within(self.store.abort_multipart(&key, &upload)).await);
        }
        stored
    }

    /// Sends the parts, each while the next is read, and returns their tags.
    async fn upload_parts(
        &self,
        key: &Key,
        upload: &String,
        file: std::fs::File,
    ) -> Result<Vec<String>, StorageError> {
        let mut tags = Vec::new();
        let (mut file, mut part) = read_part(file).await?;
        while !part.is_empty() {
            let send = self.within(self.store.put_part(
                key,
                upload,
                tags.len(),
                PutPayload::from_bytes(part),
            ));
            let (done, next) = tokio::join!(send, read_part(file));
            tags.push(done.map_err(failure)?.content_id);
            (file, part) = next?;
        }
        Ok(tags)
    }

    async fn put_new(&self, name: &ObjectName, content: Bytes) -> Result<PutOutcome, StorageError> {
        let key = key(name);
        let put = self.store.put_opts(&key, content.into(), PutMode::Create.into());
        match self.within(put).await {
            Ok(_) => Ok(PutOutcome::Stored),
            Err(Error::AlreadyExists { .. }) => Ok(PutOutcome::Exists),
            Err(error) => Err(failure(error)),
        }
    }

    /// Only one process writes to a segment, and a frame that is sent again is the same.
    pub(super) async fn put_frame(
        &self,
        name: &ObjectName,
        frame: Bytes,
    ) -> Result<(), StorageError> {
        self.within(self.store.put(&key(name), frame.into())).await.map_err(failure)?;
        Ok(())
    }

    pub(super) async fn find(
        &self,
        name: &ObjectName,
    ) -> Result<Option<StoredObject>, StorageError> {
        match self.within(self.store.head(&key(name))).await {
            Ok(about) => Ok(stored(&about)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) async fn read(
        &self,
        name: &ObjectName,
        range: Range<u64>,
    ) -> Result<Option<ObjectParts>, StorageError> {
        let left = range.end.saturating_sub(range.start);
        if left == 0 {
            let parts = futures_util::stream::empty().boxed();
            let found = self.find(name).await?;
            return Ok(found.map(|_| ObjectParts { parts, timeout: self.request_timeout, left }));
        }
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        match self.within(self.store.get_opts(&key(name), options)).await {
            Ok(found) => {
                let (parts, timeout) = (found.into_stream(), self.request_timeout);
                Ok(Some(ObjectParts { parts, timeout, left }))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) async fn presign_get(
        &self,
        name: &ObjectName,
        valid_for: Duration,
        file_name: &str,
        media_type: &str,
    ) -> Result<String, StorageError> {
        if !super::name::is_part(file_name) {
            return Err(StorageError::permanent("a download has no name that it can have"));
        }
        let disposition = format!("attachment; filename=\"{file_name}\"");
        let options = SignedUrlOptions::default().with_query([
            ("response-content-disposition", disposition.as_str()),
            ("response-content-type", media_type),
        ]);
        self.signed(Method::GET, &key(name), valid_for, &options).await
    }

    /// An address that may be used once or more by whoever has it.
    pub(super) async fn signed(
        &self,
        method: Method,
        key: &Key,
        valid_for: Duration,
        options: &SignedUrlOptions,
    ) -> Result<String, StorageError> {
        use object_store::signer::Signer as _;
        let signed = self.store.signed_url_opts(method, key, valid_for, options);
        Ok(self.within(signed).await.map_err(failure)?.into())
    }

    pub(super) async fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        match self.within(self.store.delete(&key(name))).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) async fn list(
        &self,
        prefix: &ObjectName,
        after: &str,
    ) -> Result<Vec<StoredObject>, StorageError> {
        let after = Key::from(after);
        let mut listed = if after.as_ref().is_empty() {
            self.store.list(Some(&key(prefix)))
        } else {
            self.store.list_with_offset(Some(&key(prefix)), &after)
        };
        let mut found = Vec::new();
        while found.len() < LIST_MAX {
            let Some(about) = self.within_ok(listed.next()).await? else { break };
            // What is no name was not put there by us.
            found.extend(stored(&about.map_err(failure)?));
        }
        Ok(found)
    }

    /// The result, or the error of a store that took too long.
    pub(super) async fn within<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        match tokio::time::timeout(self.request_timeout, request).await {
            Ok(done) => done,
            Err(late) => Err(Error::Generic { store: "S3", source: late.into() }),
        }
    }

    async fn within_ok<T>(&self, request: impl Future<Output = T>) -> Result<T, StorageError> {
        self.within(async { Ok(request.await) }).await.map_err(failure)
    }
}

impl ObjectParts {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        let late = |_| StorageError::temporary("the storage did not go on in time");
        let part = tokio::time::timeout(self.timeout, self.parts.next()).await.map_err(late)?;
        match part {
            Some(part) => {
                let part = part.map_err(failure)?;
                self.left = self.left.saturating_sub(part.len() as u64);
                Ok(Some(part))
            }
            None if self.left > 0 => {
                Err(StorageError::temporary("the storage ended a download before its end"))
            }
            None => Ok(None),
        }
    }
}

/// The next part of a file, read away from the tasks; empty at its end.
async fn read_part(file: std::fs::File) -> Result<(std::fs::File, Bytes), StorageError> {
    let read = tokio::task::spawn_blocking(move || {
        let mut part = Vec::with_capacity(PART_BYTES);
        (&file).take(PART_BYTES as u64).read_to_end(&mut part).map(|_| (file, part.into()))
    });
    read.await.map_err(std::io::Error::other).flatten().map_err(StorageError::file)
}

fn client_options(settings: &BucketSettings) -> Result<ClientOptions, Error> {
    let is_plain = settings.endpoint.starts_with("http://");
    let mut options = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_connect_timeout(settings.connect_timeout)
        // An answer that is not read on is noticed here, a whole request in `within`.
        .with_read_timeout(settings.request_timeout)
        .with_timeout_disabled();
    if let Some(certificates) = &settings.authorities {
        for authority in Certificate::from_pem_bundle(certificates)? {
            options = options.with_root_certificate(authority);
        }
    }
    Ok(options)
}

/// The address that the library wants: the bucket's own where its name is part of the host's.
fn endpoint(settings: &BucketSettings) -> Result<String, InvalidStorage> {
    let wrong =
        || InvalidStorage("the endpoint must be https://HOST or https://HOST:PORT".to_owned());
    let address = settings.endpoint.trim_end_matches('/');
    let (scheme, host) = address.split_once("://").ok_or_else(wrong)?;
    let authority: http::uri::Authority = host.parse().map_err(|_| wrong())?;
    // The library that reads it takes any text for a port.
    let is_host_alone = authority.as_str() == authority.host();
    if authority.as_str().contains('@') || !(is_host_alone || authority.port_u16().is_some()) {
        return Err(wrong());
    }
    match scheme {
        "https" => {}
        "http" if settings.allow_http || is_loopback_host(host_of(&authority)) => {}
        "http" => {
            let message = "the endpoint is reached without TLS; use https://, or allow http for it";
            return Err(InvalidStorage(message.to_owned()));
        }
        _ => return Err(wrong()),
    }
    Ok(if settings.path_style {
        address.to_owned()
    } else {
        format!("{scheme}://{}.{authority}", settings.bucket)
    })
}

fn host_of(authority: &http::uri::Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}

fn key(name: &ObjectName) -> Key {
    // Its parts are of characters that a key has as they are.
    Key::from(name.as_str())
}

fn stored(about: &ObjectMeta) -> Option<StoredObject> {
    let name = ObjectName::new(about.location.as_ref()).ok()?;
    let stored_at = Timestamp::from_unix_micros(about.last_modified.timestamp_micros());
    Some(StoredObject { name, bytes: about.size, stored_at })
}

/// What a failure of the store means.
pub(super) fn failure(error: Error) -> StorageError {
    match &error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            StorageError::permanent("the storage refuses these credentials").because(error)
        }
        Error::NotFound { .. } => {
            StorageError::permanent("the storage has no such bucket or object").because(error)
        }
        _ => StorageError::temporary("the storage did not do what it was asked").because(error),
    }
}
