//! Why the credentials of suspended customers are refused.

use domain::id::CustomerId;
use failures::Failure;

use crate::WebState;

/// The customer of a token whose session would still be valid if its customer were not closed.
pub(super) async fn closed_session(
    web: &WebState,
    hash: &domain::token::TokenHash,
) -> Result<Option<CustomerId>, store::StoreError> {
    let found = store::sessions::find_by_hash(&web.store, hash).await?;
    let (now, lifetime) = (web.clock.now(), web.config.sessions.lifetime());
    Ok(found.and_then(|presented| presented.closed_customer(now, lifetime)))
}

/// Why a credential is refused that would be valid if its customer, `closed`, were not closed:
/// because it is suspended, or `otherwise`.
pub(super) async fn refusal(
    web: &WebState,
    closed: Option<CustomerId>,
    otherwise: Failure,
) -> Result<Failure, store::StoreError> {
    match closed {
        Some(customer) if store::suspensions::is_suspended(&web.store, customer).await? => {
            Ok(Failure::CustomerSuspended)
        }
        Some(_) | None => Ok(otherwise),
    }
}
