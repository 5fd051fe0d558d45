//! The sender of a request, and what makes two requests the same.

use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::key::KeyScope;
use domain::request_key::RequestKey;
use failures::Failure;
use http::request::Parts;
use http::{HeaderValue, header};
use runtime::sealing::DataKey;
use sha2::{Digest as _, Sha256};
use store::own_requests::{RequestCaller, RequestName};

use crate::WebState;
use crate::auth::{Caller, Credential};
use crate::error::ApiError;

const FINGERPRINTS: &str = "own_requests";

/// The sender of a request, and its permissions.
#[derive(Debug, Clone)]
pub(super) struct RequestSender {
    pub(super) customer: CustomerId,
    key: Option<KeyId>,
    /// A hash of the caller's permissions. A caller with other permissions does not get the stored
    /// response.
    pub(super) permissions: [u8; 32],
}

impl RequestSender {
    /// The sender that this caller is.
    pub(super) fn of(caller: &Caller) -> Self {
        let permissions = match &caller.by {
            Credential::Session(_) => of_session(),
            Credential::Key(key) => permissions(key.scope, key.is_limited, &key.allowed_accounts),
        };
        Self { customer: caller.customer, key: caller.key().map(|key| key.id), permissions }
    }

    /// The name of the request that the caller identifies with this key.
    pub(super) fn request(&self, key: RequestKey) -> RequestName {
        let caller = self.key.map_or(RequestCaller::Session, RequestCaller::Key);
        RequestName { customer: self.customer, caller, key_hash: key.hash() }
    }

    /// The caller's current permissions: its own request may have changed them.
    pub(super) async fn permissions_now(&self, web: &WebState) -> [u8; 32] {
        let Some(key) = self.key else { return self.permissions };
        match store::keys::find(&web.store, self.customer, key).await {
            Ok(Some(key)) => permissions(key.scope, key.is_limited(), &key.accounts),
            Ok(None) => self.permissions,
            Err(error) => {
                tracing::warn!(%error, "a key's current permissions could not be read");
                self.permissions
            }
        }
    }
}

fn of_session() -> [u8; 32] {
    Sha256::digest("session").into()
}

fn permissions(scope: KeyScope, is_limited: bool, accounts: &[CreatorId]) -> [u8; 32] {
    let mut names: Vec<&str> = accounts.iter().map(CreatorId::as_str).collect();
    names.sort_unstable();
    let limits = if is_limited { "limited" } else { "unlimited" };
    Sha256::digest(format!("{} {limits} {}", scope.as_str(), names.join(" "))).into()
}

/// A keyed hash of the request, because bodies contain passwords.
pub(super) fn fingerprint(
    data_key: &DataKey,
    parts: &Parts,
    body: &[u8],
) -> Result<[u8; 32], ApiError> {
    let content_type = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let asked = [
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        parts.uri.query().unwrap_or_default().as_bytes(),
        content_type.unwrap_or_default(),
        body,
    ];
    let digest = data_key.digest(FINGERPRINTS, &asked);
    digest.ok_or_else(|| {
        ApiError::Failure(Failure::Internal("a request could not be hashed".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_cover_scope_and_limits_in_any_order() {
        let accounts = |names: &[&str]| -> Vec<CreatorId> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let full = permissions(KeyScope::Full, true, &accounts(&["a", "b"]));

        assert_eq!(permissions(KeyScope::Full, true, &accounts(&["b", "a"])), full);
        for other in [
            permissions(KeyScope::ReadOnly, true, &accounts(&["a", "b"])),
            permissions(KeyScope::Full, true, &accounts(&["a"])),
            permissions(KeyScope::Full, true, &[]),
            permissions(KeyScope::Full, false, &[]),
            of_session(),
        ] {
            assert_ne!(other, full);
        }
    }
}
