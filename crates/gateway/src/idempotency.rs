//! `Idempotency-Key` of native calls: what makes two calls the same, and how a response is stored
//! and replayed.
//!
//! The claim is part of the hold's transaction and the sealed response part of the settlement's, so
//! neither can be lost alone.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::time::Timestamp;
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use store::idempotency::StoredAnswer;
use store::metering::IdempotencyClaim;
use web::error::ApiError;
use web::idempotency::{self, RequestIdentity, ResponseSeal};

use super::account_entry::AccountEntry;
use super::admit::{Content, Whole};
use super::answer;
use super::call_context::CallContext;

/// What the hold's transaction claims, if the caller sent an idempotency key.
pub(super) fn claim(
    whole: &Whole,
    account: &AccountEntry,
    now: Timestamp,
) -> Option<IdempotencyClaim> {
    let key = whole.arrival.idempotency?;
    let parts = &whole.arrival.parts;
    let own_type = parts.headers.get(http::header::CONTENT_TYPE);
    let (content_type, body_digest) = match &whole.content {
        Content::Native(body) => {
            (own_type.map_or(&[][..], HeaderValue::as_bytes), Sha256::digest(&body.bytes).into())
        }
        // Clients choose a new form boundary with each attempt.
        Content::Upload(upload) => (&b"multipart/form-data"[..], upload.digest()),
    };
    let request =
        RequestIdentity { method: &parts.method, uri: &parts.uri, content_type, body_digest };
    Some(request.claim(key, Some(account.identity()), now))
}

/// Seals a response so that it can be replayed.
pub(super) fn seal(
    setting: &CallContext<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
) -> Option<StoredAnswer> {
    let place = ResponseSeal::of_customer(setting.account.data_key(), setting.account.customer);
    idempotency::seal(&place, &setting.gateway.random, (status, headers, body))
}

/// Replays a stored response. Nothing is sent and nothing is charged.
pub(super) fn replay(account: &AccountEntry, stored: &StoredAnswer) -> Result<Response, ApiError> {
    let place = ResponseSeal::of_customer(account.data_key(), account.customer);
    let (status, headers, body) = idempotency::open(&place, stored)?;
    let mut response = answer::platform_head(status, headers, Body::from(body));
    idempotency::mark_replayed(response.headers_mut());
    answer::put_final_hint(&mut response);
    Ok(response)
}
