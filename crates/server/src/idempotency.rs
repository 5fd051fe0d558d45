//! Answers kept for an `Idempotency-Key`: what makes a request the same one, and how its first answer is given again.
//!
//! The fingerprint covers method, path, query, content type and body. Answers are kept sealed, for a day.

use bytes::Bytes;
use domain::credits::Credits;
use domain::id::CustomerId;
use domain::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use sha2::{Digest, Sha256};
use store::idempotency::StoredAnswer;
use store::metering::IdempotencyClaim;

use crate::clock::Random;
use crate::error::ApiError;
use crate::idempotency_key::IdempotencyKey;
use crate::sealing::DataKey;

const KEPT_FOR_S: i64 = 24 * 3_600;

/// What makes a request the same one.
pub(crate) struct Request<'r> {
    /// Its method.
    pub(crate) method: &'r Method,
    /// Its path and query.
    pub(crate) uri: &'r Uri,
    /// What its body is, as sent.
    pub(crate) content_type: &'r [u8],
    /// SHA-256 of its body.
    pub(crate) body_digest: [u8; 32],
}

/// Whose answer it is, and the key that seals it.
type Place<'p> = (&'p DataKey, CustomerId);

impl Request<'_> {
    /// What is claimed with this key.
    pub(crate) fn claim(&self, key: IdempotencyKey, now: Timestamp) -> IdempotencyClaim {
        IdempotencyClaim {
            key_hash: key.hash(),
            fingerprint: self.fingerprint(),
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

fn name_of(customer: CustomerId) -> String {
    format!("v1|{customer}|idempotency|answer")
}

/// Seals an answer so that it can be given again.
pub(crate) fn seal(
    (data_key, customer): Place<'_>,
    random: &Random,
    (status, headers, body): (StatusCode, &HeaderMap, &Bytes),
) -> Option<StoredAnswer> {
    let head: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let head = serde_json::to_vec(&head).ok()?;
    let mut plain = u32::try_from(head.len()).ok()?.to_be_bytes().to_vec();
    plain.extend_from_slice(&head);
    plain.extend_from_slice(body);
    let sealed = data_key.seal(&plain, &name_of(customer), random)?;
    Some(StoredAnswer { status: status.as_u16(), sealed })
}

/// Opens a stored answer.
pub(crate) fn open(
    (data_key, customer): Place<'_>,
    stored: &StoredAnswer,
) -> Result<(StatusCode, HeaderMap, Bytes), ApiError> {
    let unreadable = || ApiError::Internal("a stored answer does not open".to_owned());
    let opened = data_key.open(&stored.sealed, &name_of(customer));
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

/// Says that an answer was given before.
pub(crate) fn mark_replayed(headers: &mut HeaderMap) {
    headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
}

/// Writes the receipt of what costs nothing: a refusal of ours, or a response that is given again.
pub(crate) fn put_free(headers: &mut HeaderMap, balance: Option<Credits>) {
    headers.insert("x-credits-cost", HeaderValue::from_static("0"));
    if let Some(balance) = balance {
        headers.insert("x-credits-balance", HeaderValue::from(balance.whole()));
    }
}
