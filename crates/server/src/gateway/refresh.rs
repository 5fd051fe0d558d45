//! Access tokens that end: refreshed before they do, once for all calls that wait (RFC 6749, section 6).
//!
//! A token endpoint may give a new refresh token at each use, so two refreshes at once would lose one. In this
//! process a lock on the account serves one at a time; between nodes a short claim on its row does.

use std::sync::Arc;

use clients::platform::{Credentials, Target, Tokens, oauth};
use domain::account::AccountState;
use domain::time::Timestamp;

use super::accounts::AccountEntry;
use super::{cache, reconnect};
use crate::app::App;
use crate::error::ApiError;

/// A token is refreshed when it has less than this left.
const REFRESH_BEFORE_S: i64 = 60;
/// How long another node has for its refresh before this one tries.
const CLAIM_S: i64 = 40;
const WAITS_MAX: u32 = 40;
const WAIT: std::time::Duration = std::time::Duration::from_millis(100);

/// The account with a token that still lasts, refreshed if need be and possible.
pub(super) async fn with_fresh_token(
    app: &App,
    target: &Target,
    account: Arc<AccountEntry>,
    now: Timestamp,
) -> Result<Arc<AccountEntry>, ApiError> {
    if !needs_refresh(&account, now) || !target.has_oauth() {
        return Ok(account);
    }
    // Boxed, so that calls whose token lasts do not carry the room of a refresh.
    Box::pin(refreshed(app, target, account)).await
}

async fn refreshed(
    app: &App,
    target: &Target,
    account: Arc<AccountEntry>,
) -> Result<Arc<AccountEntry>, ApiError> {
    let health = Arc::clone(&account.health);
    let _single = health.mending.lock().await;
    for _ in 0..WAITS_MAX {
        let current = reread(app, &account).await?;
        if !needs_refresh(&current, app.clock.now()) {
            return Ok(current);
        }
        if claim(app, &current).await? {
            return refresh(app, target, current).await;
        }
        if !has_ended(&current, app.clock.now()) {
            return Ok(current);
        }
        tokio::time::sleep(WAIT).await;
    }
    Ok(account)
}

/// An account that must be connected again has nothing to refresh with: its calls go on as they are.
fn needs_refresh(account: &AccountEntry, now: Timestamp) -> bool {
    let is_due =
        account.token_expires_at.is_some_and(|end| end <= now.plus_seconds(REFRESH_BEFORE_S));
    is_due && account.state != AccountState::ReconnectNeeded
}

fn has_ended(account: &AccountEntry, now: Timestamp) -> bool {
    account.token_expires_at.is_some_and(|end| end <= now)
}

async fn reread(app: &App, account: &AccountEntry) -> Result<Arc<AccountEntry>, ApiError> {
    app.cache.forget_account(account.customer, &account.creator);
    cache::account(app, account.customer, &account.creator, app.clock.now()).await
}

async fn claim(app: &App, account: &AccountEntry) -> Result<bool, ApiError> {
    let store = app.store.clone();
    let now = app.clock.now();
    let (customer, creator, version) = (account.customer, account.creator.clone(), account.version);
    let claim = async move {
        let until = now.plus_seconds(CLAIM_S);
        store::accounts::claim_refresh(&store, (customer, &creator, version), now, until).await
    };
    Ok(app.tasks.on_control(claim).await??)
}

async fn refresh(
    app: &App,
    target: &Target,
    account: Arc<AccountEntry>,
) -> Result<Arc<AccountEntry>, ApiError> {
    let credentials = account.credentials()?;
    let Some(refresh_token) = credentials.get("refresh_token") else { return Ok(account) };
    match oauth::refresh(app.upstream(), target, refresh_token).await {
        Ok(tokens) => {
            keep(app, &account, tokens).await?;
            reread(app, &account).await
        }
        Err(oauth::RefreshFailure::Refused { code }) => {
            tracing::info!(account = account.creator.as_str(), code, "a token refresh was refused");
            reconnect::mark(app, &account).await;
            // Marking changed the account; a call with what it was before would be made twice.
            reread(app, &account).await
        }
        Err(oauth::RefreshFailure::Client(error)) => {
            tracing::warn!(account = account.creator.as_str(), %error, "a token refresh failed");
            if has_ended(&account, app.clock.now()) {
                return Err(ApiError::PlatformUnreachable);
            }
            Ok(account)
        }
    }
}

/// Seals the new tokens in place of the old ones, unless the account was connected anew meanwhile.
async fn keep(app: &App, account: &AccountEntry, tokens: Tokens) -> Result<(), ApiError> {
    let expires_at = tokens.expires_in_s.map(|seconds| app.clock.now().plus_seconds(seconds));
    let mut credentials = Credentials::clone(&*account.credentials()?);
    let scopes = tokens.scopes.clone().or_else(|| account.scopes.clone());
    credentials.set("access_token", tokens.access_token);
    if let Some(refresh_token) = tokens.refresh_token {
        credentials.set("refresh_token", refresh_token);
    }
    let (sealed, data_key) = account
        .reseal(&app.random, &credentials)
        .ok_or_else(|| ApiError::Internal("refreshed tokens could not be sealed".to_owned()))?;
    let store = app.store.clone();
    let (customer, creator, version) = (account.customer, account.creator.clone(), account.version);
    let change = async move {
        let fresh =
            store::accounts::Credentials { sealed, data_key, scopes, token_expires_at: expires_at };
        store::accounts::replace_credentials(&store, customer, &creator, version, &fresh).await
    };
    app.tasks.on_control(change).await??;
    Ok(())
}
