//! The last request of an upload in parts: it makes the object, and only if its name is free.
//!
//! The library's own such request would write over what is there.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, IF_NONE_MATCH};
use http::{HeaderValue, Method, Request, StatusCode};
use object_store::client::{HttpError, HttpRequestBody};
use object_store::path::Path as Key;
use object_store::signer::SignedUrlOptions;

use super::bucket::BucketStorage;
use super::{ObjectName, PutOutcome, StorageError};

/// How often it is sent while the store is in trouble.
const ATTEMPTS_MAX: u32 = 4;
/// For how long the request is signed.
const VALID_FOR: Duration = Duration::from_mins(5);

/// An upload whose parts are all there.
pub(super) struct MultipartUpload<'a> {
    pub(super) name: &'a ObjectName,
    pub(super) key: &'a Key,
    pub(super) id: &'a str,
    /// The tags of its parts, in order.
    pub(super) tags: &'a [String],
    /// The length of all parts.
    pub(super) bytes: u64,
}

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// What the store said.
enum CompletionReply {
    Stored,
    Exists,
    /// It knows of no such upload.
    Gone,
    Trouble(StorageError),
}

/// Makes an object of the parts.
pub(super) async fn complete(
    bucket: &BucketStorage,
    whole: &MultipartUpload<'_>,
) -> Result<PutOutcome, StorageError> {
    let free = HeaderValue::from_static("*");
    let options = SignedUrlOptions::default()
        .with_query([("uploadId", whole.id)])
        .with_signed_header(IF_NONE_MATCH, free.clone());
    let url = bucket.signed(Method::POST, whole.key, VALID_FOR, &options).await?;
    let body = Bytes::from(parts_as_xml(whole.tags));
    let mut attempt = 1;
    loop {
        let request = Request::post(&url)
            .header(IF_NONE_MATCH, &free)
            .header(CONTENT_TYPE, "application/xml")
            .body(HttpRequestBody::from(body.clone()))
            .map_err(|error| StorageError::permanent("an upload has no address").because(error))?;
        match said(bucket, request).await {
            CompletionReply::Stored => return Ok(PutOutcome::Stored),
            // It may be there by an attempt whose answer was lost.
            CompletionReply::Exists | CompletionReply::Gone
                if attempt > 1 && is_there(bucket, whole).await? =>
            {
                return Ok(PutOutcome::Stored);
            }
            CompletionReply::Exists => return Ok(PutOutcome::Exists),
            CompletionReply::Gone => {
                return Err(StorageError::temporary("the storage lost an upload"));
            }
            CompletionReply::Trouble(error) if !error.retryable || attempt == ATTEMPTS_MAX => {
                return Err(error);
            }
            CompletionReply::Trouble(_) => {
                tokio::time::sleep(Duration::from_millis(100) * 4_u32.pow(attempt)).await;
                attempt += 1;
            }
        }
    }
}

async fn said(bucket: &BucketStorage, request: Request<HttpRequestBody>) -> CompletionReply {
    let exchange = async {
        let response = bucket.http.execute(request).await?;
        let status = response.status();
        Ok::<_, HttpError>((status, response.into_body().bytes().await?))
    };
    match tokio::time::timeout(bucket.request_timeout, exchange).await {
        Ok(Ok((status, text))) => understood(status, &text),
        Ok(Err(error)) => CompletionReply::Trouble(trouble().because(error)),
        Err(late) => CompletionReply::Trouble(trouble().because(late)),
    }
}

async fn is_there(
    bucket: &BucketStorage,
    whole: &MultipartUpload<'_>,
) -> Result<bool, StorageError> {
    Ok(bucket.find(whole.name).await?.is_some_and(|stored| stored.bytes == whole.bytes))
}

/// A store may begin a good answer and end it as an error.
fn understood(status: StatusCode, text: &[u8]) -> CompletionReply {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    match status {
        StatusCode::PRECONDITION_FAILED => return CompletionReply::Exists,
        StatusCode::NOT_FOUND => return CompletionReply::Gone,
        _ => {}
    }
    if status.is_success() && has(b"<CompleteMultipartUploadResult") {
        return CompletionReply::Stored;
    }
    let passes = status.is_success() || status.is_server_error() || status == StatusCode::CONFLICT;
    CompletionReply::Trouble(if passes {
        trouble()
    } else {
        StorageError::permanent("the storage refused to make an object of its parts")
    })
}

const fn trouble() -> StorageError {
    StorageError::temporary("the storage did not make an object of its parts")
}

fn parts_as_xml(tags: &[String]) -> String {
    let part = |(number, tag): (u32, &String)| {
        let tag = tag.replace('&', "&amp;").replace('<', "&lt;");
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
    };
    let parts: String = (1..).zip(tags).map(part).collect();
    format!("<CompleteMultipartUpload xmlns=\"{NAMESPACE}\">{parts}</CompleteMultipartUpload>")
}
