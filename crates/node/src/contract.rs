//! The contract as it is served: each document is made and compressed once, with an `ETag` by which
//! clients check their copy.

use std::io::Write as _;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::platform::Platform;
use failures::Failure;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use web::error::ApiError;

use crate::openapi::{self, DocumentScope, DocumentSources, OpenapiVersion};
use crate::state::NodeState;

/// The time that a copy may be used without revalidation.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=300");

const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const VARIES: HeaderValue = HeaderValue::from_static("Accept-Encoding");

/// All documents of the configuration in force, each made at the first request for it.
#[derive(Debug)]
pub(crate) struct ServedDocuments(Vec<DocumentSlot>);

/// One document, in one version of OpenAPI.
#[derive(Debug)]
struct DocumentSlot {
    scope: DocumentScope,
    version: OpenapiVersion,
    /// Requests that come while it is made wait for it, so that it is made once.
    served: OnceCell<ServedDocument>,
}

impl ServedDocuments {
    /// None of them made yet.
    pub(crate) fn new() -> Self {
        let platforms = Platform::all().into_iter().map(DocumentScope::Platform);
        let scopes = [DocumentScope::Own, DocumentScope::Whole].into_iter().chain(platforms);
        let both = [OpenapiVersion::Current, OpenapiVersion::Older];
        let slots = scopes.flat_map(|scope| {
            both.map(|version| DocumentSlot { scope, version, served: OnceCell::new() })
        });
        Self(slots.collect())
    }

    fn find(&self, scope: DocumentScope, version: OpenapiVersion) -> Option<&DocumentSlot> {
        self.0.iter().find(|slot| slot.scope == scope && slot.version == version)
    }
}

/// The response to a request for a document. Large ones take a while to make, so they are made
/// beside the control runtime.
pub(crate) async fn respond(
    node: &NodeState,
    scope: DocumentScope,
    version: OpenapiVersion,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let unknown = || ApiError::Failure(Failure::NotFound("nothing has that id"));
    let slot = node.documents.find(scope, version).ok_or_else(unknown)?;
    let served = slot.served.get_or_try_init(|| make(node.clone(), scope, version)).await?;
    Ok(served.response(headers))
}

async fn make(
    node: NodeState,
    scope: DocumentScope,
    version: OpenapiVersion,
) -> Result<ServedDocument, ApiError> {
    let made = tokio::task::spawn_blocking(move || {
        let sources = DocumentSources::new(&node.catalog, &node.config);
        ServedDocument::of(&openapi::written(&sources, scope, version))
    });
    made.await.map_err(|error| {
        ApiError::Failure(Failure::Internal(format!("a document was not made: {error}")))
    })
}

/// A JSON document that does not change while the service runs.
#[derive(Debug)]
pub(crate) struct ServedDocument {
    plain: EncodedDocument,
    /// None if it could not be compressed.
    compressed: Option<EncodedDocument>,
}

/// A document in one encoding. Each has its own tag, as HTTP asks for.
#[derive(Debug)]
struct EncodedDocument {
    bytes: Bytes,
    tag: String,
}

impl ServedDocument {
    /// The served form of a document.
    pub(crate) fn of(document: &serde_json::Value) -> Self {
        let bytes = Bytes::from(document.to_string());
        let digest = hex::encode(Sha256::digest(&bytes));
        let digest = digest.get(..32).unwrap_or_default();
        let compressed = compressed(&bytes).ok();
        Self {
            plain: EncodedDocument { bytes, tag: format!("\"{digest}\"") },
            compressed: compressed
                .map(|short| EncodedDocument { bytes: short, tag: format!("\"{digest}-gzip\"") }),
        }
    }

    /// The document, or 304 if the caller has the current one.
    pub(crate) fn response(&self, headers: &HeaderMap) -> Response {
        let wanted = self.compressed.as_ref().filter(|_| accepts_gzip(headers));
        let sent = wanted.unwrap_or(&self.plain);
        let kept = [(CACHE_CONTROL, CACHED), (ETAG, sent.tag()), (VARY, VARIES)];
        if self.is_known(headers) {
            return (StatusCode::NOT_MODIFIED, kept).into_response();
        }
        let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (kept, json, sent.bytes.clone()).into_response();
        if wanted.is_some() {
            response.headers_mut().insert(CONTENT_ENCODING, GZIP);
        }
        response
    }

    /// Whether the caller has it, in whatever encoding.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        words(headers, &IF_NONE_MATCH).any(|tag| {
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            let mut own = [Some(&self.plain), self.compressed.as_ref()].into_iter().flatten();
            tag == "*" || own.any(|encoded| encoded.tag == tag)
        })
    }
}

impl EncodedDocument {
    fn tag(&self) -> HeaderValue {
        HeaderValue::from_str(&self.tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
    }
}

fn compressed(bytes: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(Bytes::from(encoder.finish()?))
}

/// Whether the caller reads gzip: it is named, or everything is, with a quality other than zero.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let quality_of = |wanted: &str| {
        let mut codings = words(headers, &ACCEPT_ENCODING);
        codings.find_map(|coding| {
            let (name, parameter) = coding.split_once(';').unwrap_or((coding, ""));
            let quality = parameter.trim().strip_prefix("q=").unwrap_or("1");
            name.trim().eq_ignore_ascii_case(wanted).then(|| quality.parse::<f32>().unwrap_or(0.0))
        })
    };
    quality_of("gzip").or_else(|| quality_of("*")).is_some_and(|quality| quality > 0.0)
}

/// The words of a header's list, over all its lines.
fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_caller_with_the_current_copy_gets_304() {
        let contract = ServedDocument::of(&serde_json::json!({"openapi": "3.1.0"}));
        let tag = contract.plain.tag.clone();
        let compressed = contract.compressed.as_ref().unwrap().tag.clone();
        let status =
            |value: &str| contract.response(&headers(IF_NONE_MATCH, value)).status().as_u16();

        assert_eq!(contract.response(&HeaderMap::new()).status(), StatusCode::OK);
        let weak = format!("W/{tag}");
        for known in [&tag, &compressed, &weak, &format!("\"x\", {tag}"), &"*".to_owned()] {
            assert_eq!(status(known), 304, "{known}");
        }
        assert_eq!(status("\"x\""), 200);
        assert_ne!(ServedDocument::of(&serde_json::json!({})).plain.tag, tag);
        assert_ne!(compressed, tag);
    }

    #[test]
    fn a_document_is_compressed_for_callers_who_read_that() {
        let document = serde_json::json!({"openapi": "3.1.0", "paths": "x".repeat(10_000)});
        let contract = ServedDocument::of(&document);
        let coding = |accepted: &str| {
            let response = contract.response(&headers(ACCEPT_ENCODING, accepted));
            assert_eq!(response.headers().get(VARY).unwrap(), "Accept-Encoding");
            response.headers().get(CONTENT_ENCODING).cloned()
        };

        for accepted in ["gzip", "GZIP", "br, gzip;q=0.5", "deflate, *", "gzip; q=1.0"] {
            assert_eq!(coding(accepted), Some(GZIP), "{accepted}");
        }
        for accepted in ["", "identity", "gzip;q=0", "br", "gzip;q=0, *", "*;q=0.0", "gzip;q=x"] {
            assert_eq!(coding(accepted), None, "{accepted}");
        }
        let bytes = &contract.compressed.as_ref().unwrap().bytes;
        let mut read = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, document.to_string());
        assert!(bytes.len() < 1_000);
    }
}
