//! Who is calling: the key in the request, as an argument of every handler that needs a caller.
//!
//! Everything is closed but the routes in `OPEN_ROUTES`. The control plane looks the key up each time;
//! the data plane may use a cached record, because the hold checks it again in its own transaction.

use axum::extract::FromRequestParts;
use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::key::{KeyScope, KeySecret};
use http::request::Parts;
use http::{HeaderMap, Method};
use store::keys::Presented;

use crate::app::App;
use crate::error::ApiError;

/// Operations that need no caller: (method, path template, why).
pub(crate) const OPEN_ROUTES: &[(&str, &str, &str)] = &[
    ("get", "/health", "liveness, asked by load balancers"),
    ("get", "/v1/platforms", "what a customer reads before registering"),
    ("get", "/v1/platforms/{platform}/routes", "what a customer reads before registering"),
    ("post", "/v1/auth/register", "there is no key yet"),
];

/// The customer behind the request, by key. A handler that asks for it cannot run without one.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Who pays.
    pub(crate) customer: CustomerId,
    /// The key that was used.
    pub(crate) key: KeyId,
    /// What the key may do.
    pub(crate) scope: KeyScope,
    /// The first characters of the key.
    pub(crate) shown_prefix: String,
    /// The accounts it is limited to; empty: all.
    pub(crate) allowed_accounts: Vec<CreatorId>,
    /// Whether the customer's address is confirmed.
    pub(crate) is_email_verified: bool,
}

impl Caller {
    /// Whether the key may use this account.
    pub(crate) fn may_use(&self, creator: &CreatorId) -> bool {
        self.allowed_accounts.is_empty() || self.allowed_accounts.contains(creator)
    }

    fn of(presented: Presented) -> Self {
        Self {
            customer: presented.key.customer,
            key: presented.key.id,
            scope: presented.key.scope,
            shown_prefix: presented.key.shown_prefix,
            allowed_accounts: presented.key.accounts,
            is_email_verified: presented.email_verified_at.is_some(),
        }
    }
}

/// A caller whose key has the full scope: what every write needs (specification 5.2).
#[derive(Debug, Clone)]
pub(crate) struct FullCaller(pub(crate) Caller);

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let secret = presented_key(&parts.headers)?;
        let found = store::keys::find_by_hash(&app.store, &secret.hash()).await?;
        let usable = found.filter(|presented| presented.is_usable(app.clock.now()));
        let caller = Self::of(usable.ok_or(ApiError::InvalidKey)?);
        if parts.method == Method::GET || caller.scope == KeyScope::Full {
            Ok(caller)
        } else {
            Err(ApiError::ReadOnlyKey)
        }
    }
}

impl FromRequestParts<App> for FullCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        if caller.scope == KeyScope::Full { Ok(Self(caller)) } else { Err(ApiError::ReadOnlyKey) }
    }
}

/// Reads the key that the request carries. Form and checksum are checked here, before any lookup.
pub(crate) fn presented_key(headers: &HeaderMap) -> Result<KeySecret, ApiError> {
    let own = headers.get("x-api-key").map(http::HeaderValue::as_bytes);
    let bearer = headers.get(http::header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let bearer = match bearer {
        Some(value) => Some(bearer_token(value).ok_or(ApiError::InvalidKey)?),
        None => None,
    };
    let text = match (own, bearer) {
        (None, None) => return Err(ApiError::MissingKey),
        (Some(own), Some(bearer)) if own != bearer => return Err(ApiError::AmbiguousKey),
        (Some(text), _) | (None, Some(text)) => text,
    };
    let text = std::str::from_utf8(text).map_err(|_| ApiError::InvalidKey)?;
    KeySecret::parse(text).map_err(|_| ApiError::InvalidKey)
}

fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

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
    fn a_key_is_taken_from_either_header_or_from_both_if_equal() {
        let (one, other) = (key(1), key(2));

        assert_eq!(code(Some(&one), None), "accepted");
        assert_eq!(code(None, Some(&format!("Bearer {one}"))), "accepted");
        assert_eq!(code(None, Some(&format!("bearer  {one}"))), "accepted");
        assert_eq!(code(Some(&one), Some(&format!("Bearer {one}"))), "accepted");
        assert_eq!(code(Some(&one), Some(&format!("Bearer {other}"))), "ambiguous_key");
    }

    #[test]
    fn anything_else_is_no_key() {
        let one = key(1);

        assert_eq!(code(None, None), "missing_key");
        assert_eq!(code(Some(""), None), "invalid_key");
        assert_eq!(code(Some("cgw_live_x"), None), "invalid_key");
        assert_eq!(code(None, Some(&format!("Basic {one}"))), "invalid_key");
        assert_eq!(code(None, Some(&one)), "invalid_key");
    }
}
