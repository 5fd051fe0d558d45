//! `Idempotency-Key`: the same write is sent once, and its first answer is given again.
//!
//! The claim is part of the hold's transaction, the sealed answer part of the settlement's, so neither can
//! be lost without the other. The fingerprint covers method, path, query, content type and body.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use store::idempotency::StoredAnswer;
use store::metering::IdempotencyClaim;

use super::accounts::AccountEntry;
use super::admit::{Content, Whole};
use super::answer;
use super::call::Setting;
use crate::error::ApiError;

const KEPT_FOR_S: i64 = 24 * 3_600;

/// What the hold's transaction claims, if the caller asked for it.
pub(super) fn claim(whole: &Whole, now: Timestamp) -> Option<IdempotencyClaim> {
    let key = whole.arrival.idempotency?;
    Some(IdempotencyClaim {
        key_hash: key.hash(),
        fingerprint: fingerprint(whole),
        expires_at: now.plus_seconds(KEPT_FOR_S),
    })
}

fn fingerprint(whole: &Whole) -> [u8; 32] {
    let parts = &whole.arrival.parts;
    let own_type = parts.headers.get(http::header::CONTENT_TYPE);
    let (content_type, body) = match &whole.content {
        Content::Native(body) => {
            (own_type.map_or(&[][..], HeaderValue::as_bytes), Sha256::digest(&body.bytes).into())
        }
        // Clients frame the same form anew with each try.
        Content::Upload(upload) => (&b"multipart/form-data"[..], upload.digest()),
    };
    let mut hash = Sha256::new();
    for part in [
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        parts.uri.query().unwrap_or_default().as_bytes(),
        content_type,
        &body[..],
    ] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn place(account: &AccountEntry) -> String {
    format!("v1|{}|idempotency|answer", account.customer)
}

/// Seals an answer so that it can be given again.
pub(super) fn seal(
    setting: &Setting<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
) -> Option<StoredAnswer> {
    let head: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let head = serde_json::to_vec(&head).ok()?;
    let mut plain = u32::try_from(head.len()).ok()?.to_be_bytes().to_vec();
    plain.extend_from_slice(&head);
    plain.extend_from_slice(body);
    let account = setting.account;
    let sealed = account.data_key().seal(&plain, &place(account), &setting.app.random)?;
    Some(StoredAnswer { status: status.as_u16(), sealed })
}

/// Gives a stored answer again: nothing is sent, nothing is charged.
pub(super) fn replay(account: &AccountEntry, stored: &StoredAnswer) -> Result<Response, ApiError> {
    let unreadable = || ApiError::Internal("a stored answer does not open".to_owned());
    let opened = account.data_key().open(&stored.sealed, &place(account));
    let plain = opened.map_err(|_| unreadable())?;
    let (length, rest) = plain.split_first_chunk::<4>().ok_or_else(unreadable)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| unreadable())?;
    let (head, body) = rest.split_at_checked(length).ok_or_else(unreadable)?;
    let pairs: Vec<(String, Vec<u8>)> = serde_json::from_slice(head).map_err(|_| unreadable())?;
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(&value))
        {
            headers.append(name, value);
        }
    }
    let status = StatusCode::from_u16(stored.status).map_err(|_| unreadable())?;
    let body = Body::from(Bytes::copy_from_slice(body));
    let mut response = answer::platform_head(status, headers, body);
    let own = response.headers_mut();
    own.insert("idempotent-replayed", HeaderValue::from_static("true"));
    own.insert("x-credits-cost", HeaderValue::from_static("0"));
    Ok(response)
}
