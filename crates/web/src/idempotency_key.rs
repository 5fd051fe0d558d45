//! `Idempotency-Key`: chosen by the caller, so that a repeated write takes effect once.

use axum::extract::FromRequestParts;
use domain::request_key::RequestKey;
use http::HeaderMap;
use http::request::Parts;

use crate::error::ApiError;

/// The key of a request, if it has one.
pub struct OptionalRequestKey(pub Option<RequestKey>);

/// Reads the header: absent, or one value of 1 to 255 visible characters.
pub fn read(headers: &HeaderMap) -> Result<Option<RequestKey>, ApiError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bytes = value.as_bytes();
    let usable = (1..=255).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    if !usable || values.next().is_some() {
        return Err(ApiError::InvalidIdempotencyKey);
    }
    Ok(Some(RequestKey::new(bytes)))
}

impl<S> FromRequestParts<S> for OptionalRequestKey
where
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        read(&parts.headers).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(values: &[&'static str]) -> Result<bool, ApiError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("idempotency-key", HeaderValue::from_static(value));
        }
        read(&headers).map(|key| key.is_some())
    }

    #[test]
    fn a_visible_key_is_accepted_and_so_is_none() {
        assert!(matches!(check(&[]), Ok(false)));
        assert!(matches!(check(&["order-1"]), Ok(true)));
    }

    #[test]
    fn several_keys_or_an_unusable_one_are_refused() {
        for values in [&["a", "b"][..], &[""], &["with space"]] {
            assert!(matches!(check(values), Err(ApiError::InvalidIdempotencyKey)), "{values:?}");
        }
    }

    #[test]
    fn a_key_has_up_to_255_visible_characters_of_ascii() {
        let check = |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            read(&HeaderMap::from_iter([(http::HeaderName::from_static("idempotency-key"), value)]))
        };
        let longest = [b'k'; 255];

        assert_eq!(check(&longest).unwrap(), Some(RequestKey::new(&longest)));
        for wrong in [&[b'k'; 256][..], b"a\tb", "\u{e9}".as_bytes(), b"a b", b" "] {
            assert!(matches!(check(wrong), Err(ApiError::InvalidIdempotencyKey)), "{wrong:?}");
        }
    }
}
