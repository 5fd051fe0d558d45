//! The contract as it is served: serialized once, with an `ETag` by which clients check their copy.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};

/// The time that a copy may be used without revalidation.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=300");

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
