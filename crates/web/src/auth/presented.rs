//! The credentials in a request's headers: a key, a session's token, or both.
//!
//! Form and checksum are checked here, before any lookup.

use domain::key::{KeyHash, KeySecret};
use domain::token::{SecretToken, TokenHash};
use failures::Failure;
use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;

use crate::error::ApiError;

/// Whether the request has a header for a key, valid or not.
pub fn carries_key(headers: &HeaderMap) -> bool {
    headers.contains_key("x-api-key") || headers.contains_key(AUTHORIZATION)
}

/// The key that pays for a request which a page sends inside the service, for the person who is
/// signed in. It is in the extensions of such requests; nothing on the wire can set it.
#[derive(Debug, Clone, Copy)]
pub struct DelegatedKey(pub KeyHash);

/// Whether a key comes with the request: in a header, or chosen by a page.
pub(super) fn comes_with_key(parts: &Parts) -> bool {
    parts.extensions.get::<DelegatedKey>().is_some() || carries_key(&parts.headers)
}

/// The hash of the key that comes with the request: the one that a page chose, or the one in its
/// headers.
pub fn key_hash(parts: &Parts) -> Result<KeyHash, ApiError> {
    match parts.extensions.get() {
        Some(DelegatedKey(hash)) => Ok(*hash),
        None => Ok(presented_key(&parts.headers)?.hash()),
    }
}

/// The credential that a request carries, as the hash by which it is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresentedCredential {
    /// A key.
    Key(KeyHash),
    /// A session's token.
    Session(TokenHash),
}

impl PresentedCredential {
    /// The credential that counts. `None` if there is none or its form is wrong: such a credential
    /// is never looked up.
    pub fn of(headers: &HeaderMap, cookie: &str) -> Option<Self> {
        if carries_key(headers) {
            return presented_key(headers).ok().map(|key| Self::Key(key.hash()));
        }
        let token = presented_token(headers, cookie)?.ok()?;
        Some(Self::Session(token.hash()))
    }
}

/// Reads the key that the request carries. Form and checksum are checked here, before any lookup.
pub(super) fn presented_key(headers: &HeaderMap) -> Result<KeySecret, ApiError> {
    let own = headers.get("x-api-key").map(http::HeaderValue::as_bytes);
    let bearer = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let bearer = match bearer {
        Some(value) => Some(bearer_token(value).ok_or(ApiError::Failure(Failure::InvalidKey))?),
        None => None,
    };
    let text = match (own, bearer) {
        (None, None) => return Err(ApiError::MissingKey),
        (Some(own), Some(bearer)) if own != bearer => return Err(ApiError::AmbiguousKey),
        (Some(text), _) | (None, Some(text)) => text,
    };
    let text = std::str::from_utf8(text).map_err(|_| ApiError::Failure(Failure::InvalidKey))?;
    KeySecret::parse(text).map_err(|_| ApiError::Failure(Failure::InvalidKey))
}

fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Reads the session's token from the cookie of that name; `None` if there is no such cookie.
///
/// Two cookies of one name mean that another host could have set one of them, so neither is
/// trusted.
pub(super) fn presented_token(
    headers: &HeaderMap,
    cookie: &str,
) -> Option<Result<SecretToken, ApiError>> {
    let value = presented_cookie(headers, cookie)?;
    let token = value.ok().and_then(|text| SecretToken::parse(text).ok());
    Some(token.ok_or(ApiError::Failure(Failure::InvalidSession)))
}

/// The value of the cookie of that name; `None` if there is no such cookie. Refused if there are
/// two or if it is not text.
pub(super) fn presented_cookie<'a>(
    headers: &'a HeaderMap,
    cookie: &str,
) -> Option<Result<&'a str, ApiError>> {
    let lines = headers.get_all(COOKIE).iter().map(http::HeaderValue::as_bytes);
    let pairs = lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    let mut values =
        pairs.filter_map(|pair| pair.strip_prefix(cookie.as_bytes())?.strip_prefix(b"="));
    let value = values.next()?;
    let only = if values.next().is_none() { std::str::from_utf8(value).ok() } else { None };
    Some(only.ok_or(ApiError::Failure(Failure::InvalidSession)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const GUESSES: usize = 20_000;

    fn key(seed: u8) -> String {
        let mut next = seed;
        let secret = KeySecret::generate(|bound| {
            next = next.wrapping_mul(29).wrapping_add(17);
            next % bound
        });
        secret.expose().to_owned()
    }

    fn code(own: Option<&str>, authorization: Option<&str>) -> &'static str {
        let mut headers = HeaderMap::new();
        if let Some(value) = own {
            headers.insert("x-api-key", HeaderValue::from_str(value).unwrap());
        }
        if let Some(value) = authorization {
            headers.insert("authorization", HeaderValue::from_str(value).unwrap());
        }
        match presented_key(&headers) {
            Ok(_) => "accepted",
            Err(error) => error.row().code,
        }
    }

    #[test]
    fn a_key_is_read_from_either_header_or_from_both_if_equal() {
        let (one, other) = (key(1), key(2));

        assert_eq!(code(Some(&one), None), "accepted");
        assert_eq!(code(None, Some(&format!("Bearer {one}"))), "accepted");
        assert_eq!(code(None, Some(&format!("bearer  {one}"))), "accepted");
        assert_eq!(code(Some(&one), Some(&format!("Bearer {one}"))), "accepted");
        assert_eq!(code(Some(&one), Some(&format!("Bearer {other}"))), "ambiguous_key");
    }

    #[test]
    fn any_other_credential_is_refused() {
        let one = key(1);

        assert_eq!(code(None, None), "missing_key");
        assert_eq!(code(Some(""), None), "invalid_key");
        assert_eq!(code(Some("cgw_live_x"), None), "invalid_key");
        assert_eq!(code(None, Some(&format!("Basic {one}"))), "invalid_key");
        assert_eq!(code(None, Some(&one)), "invalid_key");
    }

    fn token(lines: &[&str]) -> Option<Result<String, &'static str>> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, HeaderValue::from_str(line).unwrap());
        }
        let found = presented_token(&headers, "__Host-session")?;
        Some(found.map(|token| token.expose().to_owned()).map_err(|error| error.row().code))
    }

    #[test]
    fn a_session_is_read_from_its_own_cookie_only() {
        let text = SecretToken::new([5; 32]).expose().to_owned();
        let cookie = format!("__Host-session={text}");

        assert_eq!(token(&[&cookie]), Some(Ok(text.clone())));
        assert_eq!(token(&[&format!("theme=dark; {cookie};a=b")]), Some(Ok(text.clone())));
        assert_eq!(token(&["theme=dark", &cookie]), Some(Ok(text.clone())));
        assert_eq!(token(&[]), None);
        assert_eq!(token(&[&format!("session={text}; X__Host-session={text}")]), None);
        assert_eq!(token(&[&format!("__Host-session2={text}")]), None);
    }

    #[test]
    fn a_malformed_or_repeated_cookie_is_invalid() {
        let text = SecretToken::new([5; 32]).expose().to_owned();
        let cookie = format!("__Host-session={text}");

        for lines in [
            vec![format!("{cookie}; {cookie}")],
            vec![cookie.clone(), cookie.clone()],
            vec![format!("__Host-session=; {cookie}")],
            vec!["__Host-session=".to_owned()],
            vec![format!("__Host-session=\"{text}\"")],
            vec![format!("{cookie}A")],
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(token(&lines), Some(Err("invalid_session")), "{lines:?}");
        }
    }

    /// `presented_key` has no store to ask, so the checksum alone refuses the guesses.
    #[test]
    fn guessed_keys_are_refused_by_their_checksum_without_a_lookup() {
        let mut state: u64 = 1;
        let mut draw = |bound: u8| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u8::try_from((state >> 33) % u64::from(bound)).unwrap()
        };
        let alphabet = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut headers = HeaderMap::new();
        let mut passed = 0;
        for _ in 0..GUESSES {
            let guess = (0..36).map(|_| char::from(alphabet[usize::from(draw(62))]));
            let guess = format!("{}{}", domain::key::PREFIX, guess.collect::<String>());
            headers.insert("x-api-key", HeaderValue::try_from(guess).unwrap());
            passed += usize::from(presented_key(&headers).is_ok());
        }

        // The six checksum digits let one guess in 2^32 through.
        assert_eq!(passed, 0);
    }
}
