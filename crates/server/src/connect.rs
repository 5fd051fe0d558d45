//! Connecting an account: the platform confirms the credentials, then they are sealed and stored.

use std::sync::Arc;

use catalog::AuthValues;
use clients::platform::{SigningInput, Verification, verify};
use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::platform::Platform;
use serde_json::{Map, Value};
use store::accounts::{Account, Connection, NewAccount};

use crate::app::App;
use crate::audit::{self, Deed};
use crate::error::{ApiError, FieldProblem};
use crate::vault;

/// An account to be connected.
pub(crate) struct Import {
    /// Whose it will be.
    pub(crate) customer: CustomerId,
    /// The key that asks for it; none with a session.
    pub(crate) key: Option<KeyId>,
    /// Who asks for it, for the audit list.
    pub(crate) actor: String,
    /// The id that the customer chose.
    pub(crate) creator: CreatorId,
    /// Where it lives.
    pub(crate) platform: Platform,
    /// The platform's `auth` fields, unchecked.
    pub(crate) auth: Map<String, Value>,
}

/// A connected account, and whether it is a new one.
pub(crate) struct Connected {
    pub(crate) account: Account,
    pub(crate) is_new: bool,
}

/// Verifies the account at its platform and attaches it, or replaces its credentials.
pub(crate) async fn connect(app: &App, import: Import) -> Result<Connected, ApiError> {
    let Import { customer, key, actor, creator, platform, auth } = import;
    let auth = app.catalog.platform(platform).check_auth(&auth).map_err(|problems| {
        ApiError::Invalid(problems.into_iter().map(FieldProblem::from).collect())
    })?;
    let platform_account_id = confirm(app, platform, &auth).await?;
    let credentials = app.vault.seal_credentials(customer, platform, &creator, &auth).await?;
    let details = format!("{creator} on {platform}");
    let deed = Deed { customer, actor, action: audit::ACCOUNT_CONNECTED, details };
    let new = NewAccount {
        customer,
        creator_id: creator,
        platform,
        platform_account_id: platform_account_id.unwrap_or_default(),
        credentials,
        at: app.clock.now(),
        allowances: Arc::clone(&app.allowances),
        entry: deed.now(&app.clock, &app.random),
    };
    let connection = store::accounts::connect(&app.store, &new).await?;
    // A key that is limited to some accounts may use what it imports; for another key this does nothing.
    if let Some(key) = key
        && store::keys::allow_account(&app.store, key, &new.creator_id).await?
    {
        app.cache.forget_keys();
    }
    app.cache.forget_account(customer, &new.creator_id);
    let is_new = match connection {
        Connection::Connected { created, .. } => created,
        Connection::OtherPlatform(other) => return Err(ApiError::CreatorExists(other)),
        Connection::NoCustomer => return Err(ApiError::InvalidKey),
    };
    let stored = store::accounts::find(&app.store, customer, &new.creator_id).await?;
    Ok(Connected { account: stored.ok_or(ApiError::AccountNotFound)?, is_new })
}

/// Asks the platform whose credentials these are.
async fn confirm(
    app: &App,
    platform: Platform,
    auth: &AuthValues,
) -> Result<Option<String>, ApiError> {
    let target = app.target(platform)?;
    let signing = SigningInput { now: app.clock.now(), nonce: app.random.bytes() };
    let credentials = vault::credentials(auth);
    match verify::verify(app.upstream(), target, &credentials, signing).await {
        Ok(Verification::Confirmed { platform_account_id }) => Ok(platform_account_id),
        Ok(Verification::Refused { status }) => {
            Err(ApiError::VerificationFailed { status: Some(status) })
        }
        Ok(Verification::Mismatch) => Err(ApiError::VerificationFailed { status: None }),
        Err(error) => {
            tracing::warn!(%error, %platform, "a platform could not be reached to verify an account");
            Err(ApiError::PlatformUnreachable)
        }
    }
}
