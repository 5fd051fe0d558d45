//! `Idempotency-Key`: what a caller chose so that a repeated write takes effect once.

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::error::ApiError;

/// The hash of a key that a caller chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdempotencyKey([u8; 32]);

/// The key of a request, where it has one.
pub(crate) struct Chosen(pub(crate) Option<IdempotencyKey>);

impl IdempotencyKey {
    /// Reads the header: absent, or one value of 1 to 255 visible characters.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let mut values = headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(None) };
        let bytes = value.as_bytes();
        let usable = (1..=255).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
        if !usable || values.next().is_some() {
            return Err(ApiError::InvalidIdempotencyKey);
        }
        Ok(Some(Self(Sha256::digest(bytes).into())))
    }

    /// SHA-256 of the key: what is stored.
    pub(crate) const fn hash(self) -> [u8; 32] {
        self.0
    }
}

impl FromRequestParts<App> for Chosen {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        IdempotencyKey::from_headers(&parts.headers).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&'static str]) -> Result<bool, ApiError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("idempotency-key", HeaderValue::from_static(value));
        }
        IdempotencyKey::from_headers(&headers).map(|key| key.is_some())
    }

    #[test]
    fn one_visible_key_is_taken_and_none_is_fine() {
        assert!(matches!(read(&[]), Ok(false)));
        assert!(matches!(read(&["order-1"]), Ok(true)));
    }

    #[test]
    fn two_keys_or_an_unusable_one_are_refused() {
        for values in [&["a", "b"][..], &[""], &["with space"]] {
            assert!(matches!(read(values), Err(ApiError::InvalidIdempotencyKey)), "{values:?}");
        }
    }
}
