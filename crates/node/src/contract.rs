//! The contract as it is served: each document is made once, with an `ETag` by which clients check
//! their copy.

use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::platform::Platform;
use failures::Failure;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};
use web::error::ApiError;

use crate::openapi::{self, DocumentScope, DocumentSources, OpenapiVersion};
use crate::state::NodeState;

/// The time that a copy may be used without revalidation.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// All documents of the configuration in force, each made at the first request for it.
#[derive(Debug)]
pub(crate) struct ServedDocuments(Vec<DocumentSlot>);

/// One document, in one version of OpenAPI.
#[derive(Debug)]
struct DocumentSlot {
    scope: DocumentScope,
    version: OpenapiVersion,
    served: OnceLock<ServedDocument>,
}

impl ServedDocuments {
    /// None of them made yet.
    pub(crate) fn new() -> Self {
        let platforms = Platform::all().into_iter().map(DocumentScope::Platform);
        let scopes = [DocumentScope::Own, DocumentScope::Whole].into_iter().chain(platforms);
        let both = [OpenapiVersion::Current, OpenapiVersion::Older];
        let slots = scopes.flat_map(|scope| {
            both.map(|version| DocumentSlot { scope, version, served: OnceLock::new() })
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
    wanted: (DocumentScope, OpenapiVersion),
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let (scope, version) = wanted;
    let nothing = || ApiError::Failure(Failure::NotFound("nothing has that id"));
    let slot = node.documents.find(scope, version).ok_or_else(nothing)?;
    if slot.served.get().is_none() {
        let making = node.clone();
        let made = tokio::task::spawn_blocking(move || {
            if let Some(slot) = making.documents.find(scope, version) {
                slot.served.get_or_init(|| {
                    let sources = DocumentSources::new(&making.catalog, &making.config);
                    ServedDocument::of(&openapi::written(&sources, scope, version))
                });
            }
        });
        made.await.map_err(|error| {
            ApiError::Failure(Failure::Internal(format!("a document was not made: {error}")))
        })?;
    }
    slot.served.get().map(|served| served.response(headers)).ok_or_else(nothing)
}

/// A JSON document that does not change while the service runs.
#[derive(Debug)]
pub(crate) struct ServedDocument {
    bytes: Bytes,
    tag: String,
}

impl ServedDocument {
    /// The served form of a document.
    pub(crate) fn of(document: &serde_json::Value) -> Self {
        let bytes = Bytes::from(document.to_string());
        let digest = hex::encode(Sha256::digest(&bytes));
        let tag = format!("\"{}\"", digest.get(..32).unwrap_or_default());
        Self { bytes, tag }
    }

    /// The document, or 304 if the caller has the current one.
    pub(crate) fn response(&self, headers: &HeaderMap) -> Response {
        let kept = [(CACHE_CONTROL, CACHED), (ETAG, self.tag())];
        if self.is_known(headers) {
            return (StatusCode::NOT_MODIFIED, kept).into_response();
        }
        let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (kept, json, self.bytes.clone()).into_response()
    }

    fn tag(&self) -> HeaderValue {
        HeaderValue::from_str(&self.tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let lines = headers.get_all(IF_NONE_MATCH).iter();
        let mut tags = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        tags.any(|tag| {
            let tag = tag.trim();
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_with_the_current_copy_gets_304() {
        let contract = ServedDocument::of(&serde_json::json!({"openapi": "3.1.0"}));
        let tag = contract.tag.clone();
        let status = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap());
            contract.response(&headers).status().as_u16()
        };

        assert_eq!(contract.response(&HeaderMap::new()).status(), StatusCode::OK);
        for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            assert_eq!(status(&known), 304, "{known}");
        }
        assert_eq!(status("\"x\""), 200);
        assert_ne!(ServedDocument::of(&serde_json::json!({})).tag, tag);
    }
}
