//! The key and the session that come with a request to an open route: it works without them, but
//! they show who uses an emailed link.

use axum::extract::{FromRef, FromRequestParts};
use domain::id::{CustomerId, KeyId, SessionId};
use http::request::Parts;

use super::{KeyCaller, holder_of, presented, session_token};
use crate::WebState;
use crate::error::ApiError;

/// A customer's credentials that came with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccompanyingCredentials {
    /// Whose they are.
    pub customer: CustomerId,
    /// The key, if one came.
    pub key: Option<KeyId>,
    /// The session, if one came.
    pub session: Option<SessionId>,
}

/// The credentials that came with a request, if they are accepted. Those that are not count as
/// none, because browsers keep sending a cookie whose session has ended.
pub struct OptionalCredentials(pub Option<AccompanyingCredentials>);

impl<S> FromRequestParts<S> for OptionalCredentials
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        find(&WebState::from_ref(state), parts).await.map(Self)
    }
}

async fn find(web: &WebState, parts: &Parts) -> Result<Option<AccompanyingCredentials>, ApiError> {
    let by_session = match session_token(web, parts) {
        Ok(token) => unless_refused(holder_of(web, parts, token.hash()).await)?,
        Err(error) => unless_refused(Err(error))?,
    };
    let by_key = if presented::comes_with_key(parts) {
        unless_refused(KeyCaller::find(web, parts).await)?
    } else {
        None
    };
    let customer = match (&by_key, &by_session) {
        (Some(caller), _) => caller.customer,
        (None, Some(signed_in)) => signed_in.customer,
        (None, None) => return Ok(None),
    };
    Ok(Some(AccompanyingCredentials {
        customer,
        key: by_key.map(|caller| caller.key.id),
        session: by_session.map(|signed_in| signed_in.session),
    }))
}

/// None instead of the refusal of a credential. Requests that another site may have caused, and
/// those with credentials of two customers, stay refused.
fn unless_refused<T>(found: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error @ (ApiError::CrossSite | ApiError::ConflictingCustomers)) => Err(error),
        Err(error) if error.row().status.is_client_error() => Ok(None),
        Err(error) => Err(error),
    }
}
