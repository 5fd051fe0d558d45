//! Responses stored for an `Idempotency-Key`: when two requests are the same, and how the first
//! response is replayed.
//!
//! The fingerprint of a call or an export covers method, path, query, content type and body.
//! Responses are sealed and kept for a day. Requests to the other routes of the service are in
//! `own_requests`.

use bytes::Bytes;
use domain::credits::Credits;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::request_key::RequestKey;
use domain::time::Timestamp;
use failures::Failure;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use runtime::clock::Random;
use runtime::sealing::DataKey;
use sha2::{Digest, Sha256};
use store::idempotency::StoredAnswer;
use store::metering::IdempotencyClaim;
use store::own_requests::RequestName;

use crate::error::ApiError;

/// How long a response is kept, counted from the start of its request.
pub const KEPT_FOR_S: i64 = 24 * 3_600;

/// The parts by which two requests are the same.
pub struct RequestIdentity<'r> {
    /// Its method.
    pub method: &'r Method,
    /// Its path and query.
    pub uri: &'r Uri,
    /// Its `Content-Type`, as sent.
    pub content_type: &'r [u8],
    /// SHA-256 of its body.
    pub body_digest: [u8; 32],
}

/// How a stored response is sealed: with which key, and under which name.
pub struct ResponseSeal<'p> {
    data_key: &'p DataKey,
    name: String,
}

impl<'p> ResponseSeal<'p> {
    /// For a call or an export of this customer.
    pub fn of_customer(data_key: &'p DataKey, customer: CustomerId) -> Self {
        Self { data_key, name: format!("v1|{customer}|idempotency|answer") }
    }

    /// For a request to one of the service's own routes.
    pub fn of_request(data_key: &'p DataKey, request: &RequestName) -> Self {
        let RequestName { customer, caller, key_hash } = request;
        let name = format!("v1|{customer}|own_request|{caller}|{}", hex::encode(key_hash));
        Self { data_key, name }
    }
}

impl RequestIdentity<'_> {
    /// The claim to store for this key. `identity` is a hash of who the account is on its platform.
    pub fn claim(
        &self,
        key: RequestKey,
        identity: Option<[u8; 32]>,
        now: Timestamp,
    ) -> IdempotencyClaim {
        IdempotencyClaim {
            key_hash: key.hash(),
            fingerprint: self.fingerprint(),
            identity,
            expires_at: now.plus_seconds(KEPT_FOR_S),
        }
    }

    fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [
            self.method.as_str().as_bytes(),
            self.uri.path().as_bytes(),
            self.uri.query().unwrap_or_default().as_bytes(),
            self.content_type,
            &self.body_digest[..],
        ] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// A hash of who an account is on its platform. Where the platform does not say that, an account
/// that was deleted and connected again is another one; one whose credentials were replaced is not.
pub fn identity(platform: Platform, own_id: &str, connected_at: Timestamp) -> [u8; 32] {
    let connected = connected_at.unix_micros().to_be_bytes();
    let own = if own_id.is_empty() { &connected[..] } else { own_id.as_bytes() };
    let mut hash = Sha256::new();
    for part in [platform.stored_name().as_bytes(), own] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Seals a response so that it can be replayed.
pub fn seal(
    place: &ResponseSeal<'_>,
    random: &Random,
    (status, headers, body): (StatusCode, &HeaderMap, &Bytes),
) -> Option<StoredAnswer> {
    let head: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let head = serde_json::to_vec(&head).ok()?;
    let mut plain = u32::try_from(head.len()).ok()?.to_be_bytes().to_vec();
    plain.extend_from_slice(&head);
    plain.extend_from_slice(body);
    let sealed = place.data_key.seal(&plain, &place.name, random)?;
    Some(StoredAnswer { status: status.as_u16(), sealed })
}

/// Opens a stored response.
pub fn open(
    place: &ResponseSeal<'_>,
    stored: &StoredAnswer,
) -> Result<(StatusCode, HeaderMap, Bytes), ApiError> {
    let unreadable =
        || ApiError::Failure(Failure::Internal("a stored response cannot be opened".to_owned()));
    let opened = place.data_key.open(&stored.sealed, &place.name);
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
    Ok((status, headers, Bytes::copy_from_slice(body)))
}

/// Marks the response as a replay of an earlier one.
pub fn mark_replayed(headers: &mut HeaderMap) {
    headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
}

/// Writes the receipt of a response that costs nothing: a refusal of ours, or a replay.
pub fn put_free(headers: &mut HeaderMap, balance: Option<Credits>) {
    headers.insert("x-credits-cost", HeaderValue::from_static("0"));
    if let Some(balance) = balance {
        headers.insert("x-credits-balance", HeaderValue::from(balance.whole()));
    }
}
