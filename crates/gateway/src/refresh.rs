//! Access tokens that expire or that the platform refuses: refreshed once for all calls that wait
//! (RFC 6749, section 6).
//!
//! A token endpoint may return a new refresh token at each use, so two concurrent refreshes would
//! lose one. A lock on the account serializes them in this process, and a short claim on its row
//! does so between nodes. An endpoint that fails or refuses is retried with a growing backoff.

use std::sync::Arc;

use domain::time::Timestamp;
use failures::Failure;
use platform_client::oauth::{self, RefreshFailure};
use platform_client::{AccountCredentials, OauthTokens, PlatformTarget};
use runtime::metrics;
use store::platform_health::RefusalCause;

use super::account_entry::AccountEntry;
use super::token_pauses::{LastRefresh, TokenMark};
use super::{cache, pacing, reconnect};
use crate::state::GatewayState;

/// A token is refreshed when it expires within this time.
const REFRESH_BEFORE_S: i64 = 60;
/// How long another node has for its refresh before this one tries.
const CLAIM_S: i64 = 40;
const WAITS_MAX: u32 = 40;
const WAIT: std::time::Duration = std::time::Duration::from_millis(100);

/// The account with a valid token, refreshed if necessary and possible.
pub(super) async fn with_fresh_token(
    gateway: &GatewayState,
    target: &PlatformTarget,
    account: Arc<AccountEntry>,
    now: Timestamp,
) -> Result<Arc<AccountEntry>, Failure> {
    if !needs_refresh(&account, now) || !target.has_oauth() {
        return Ok(account);
    }
    // Boxed, so that calls with a valid token carry no room for a refresh.
    Box::pin(refreshed(gateway, target, account)).await
}

/// Whether a token that the platform has just refused with 401 can be replaced. While the platform
/// refuses every account, this is tried now and then: a fresh token may be the remedy.
pub(super) fn may_replace_token(
    gateway: &GatewayState,
    target: &PlatformTarget,
    account: &AccountEntry,
) -> bool {
    if !target.has_oauth() || !has_refresh_token(account) {
        return false;
    }
    let now = gateway.clock.now();
    gateway.accounts().platform_health.refusing_since(account.platform).is_none()
        || (account.health.tokens.may_replace_refused(now)
            && gateway.accounts().platform_health.takes_refresh(account.platform, now))
}

/// The account with a different token from the refused one, or `None` if there is none.
pub(super) async fn after_refusal(
    gateway: &GatewayState,
    target: &PlatformTarget,
    account: &Arc<AccountEntry>,
) -> Option<Arc<AccountEntry>> {
    let health = Arc::clone(&account.health);
    let _single = health.mending.lock().await;
    for _ in 0..WAITS_MAX {
        let current = reread(gateway, account).await.ok()?;
        if current.platform_account_id != account.platform_account_id {
            return None;
        }
        if access_token(&current) != access_token(account) {
            return Some(current);
        }
        let now = gateway.clock.now();
        note_token(&current);
        if !health.tokens.may_replace_refused(now) || !has_refresh_token(&current) {
            return None;
        }
        if claim(gateway, &current).await.ok()? {
            return match refresh(gateway, target, &current).await.ok()? {
                RefreshOutcome::Fresh(fresh) => {
                    health.tokens.replaced_refused(now);
                    Some(fresh)
                }
                RefreshOutcome::Refused | RefreshOutcome::Failed => None,
            };
        }
        tokio::time::sleep(WAIT).await;
    }
    None
}

async fn refreshed(
    gateway: &GatewayState,
    target: &PlatformTarget,
    account: Arc<AccountEntry>,
) -> Result<Arc<AccountEntry>, Failure> {
    let health = Arc::clone(&account.health);
    let _single = health.mending.lock().await;
    for _ in 0..WAITS_MAX {
        let current = reread(gateway, &account).await?;
        let now = gateway.clock.now();
        if !needs_refresh(&current, now) || !has_refresh_token(&current) {
            return Ok(current);
        }
        note_token(&current);
        if !health.tokens.may_ask(now)
            || !gateway.accounts().platform_health.takes_refresh(current.platform, now)
        {
            return without_refresh(gateway, current, now);
        }
        if claim(gateway, &current).await? {
            return match refresh(gateway, target, &current).await? {
                RefreshOutcome::Fresh(fresh) => Ok(fresh),
                RefreshOutcome::Refused | RefreshOutcome::Failed => {
                    without_refresh(gateway, current, now)
                }
            };
        }
        if !has_ended(&current, now) {
            return Ok(current);
        }
        tokio::time::sleep(WAIT).await;
    }
    Ok(account)
}

/// An expired token is not sent while it is unknown whether it can be refreshed. If its refresh was
/// refused, it is sent, and the platform decides.
fn without_refresh(
    gateway: &GatewayState,
    account: Arc<AccountEntry>,
    now: Timestamp,
) -> Result<Arc<AccountEntry>, Failure> {
    if !has_ended(&account, now) {
        return Ok(account);
    }
    let last = account.health.tokens.last();
    if gateway.accounts().platform_health.refusing_since(account.platform).is_some() {
        // Also if this account's token was not refreshed because too many others had just been.
        let is_refused = matches!(last, LastRefresh::Refused | LastRefresh::TokenDead);
        return if is_refused {
            Ok(account)
        } else {
            Err(Failure::PlatformRefusing(account.platform))
        };
    }
    if last == LastRefresh::EndpointRefused {
        reconnect::note_endpoint_refusal(gateway, &account);
    }
    if account.health.tokens.is_endpoint_failing() {
        return Err(Failure::PlatformUnreachable);
    }
    Ok(account)
}

/// Why the platform refuses the account's credentials, judging by the account's latest refresh.
/// `None` if the endpoint failed: then it is unknown whether they are good.
pub(super) fn refusal_cause(account: &AccountEntry) -> Option<RefusalCause> {
    note_token(account);
    match account.health.tokens.last() {
        LastRefresh::Failed => None,
        LastRefresh::EndpointRefused => Some(RefusalCause::TokenEndpoint),
        LastRefresh::TokenDead => Some(RefusalCause::RefreshToken),
        LastRefresh::Fine | LastRefresh::Refused => Some(RefusalCause::Unknown),
    }
}

/// A new refresh token clears what was recorded about the old one.
fn note_token(account: &AccountEntry) {
    let token = account
        .credentials()
        .ok()
        .and_then(|credentials| credentials.get("refresh_token").map(TokenMark::of));
    account.health.tokens.note_token(token);
}

fn needs_refresh(account: &AccountEntry, now: Timestamp) -> bool {
    account.token_expires_at.is_some_and(|end| end <= now.plus_seconds(REFRESH_BEFORE_S))
}

fn has_ended(account: &AccountEntry, now: Timestamp) -> bool {
    account.token_expires_at.is_some_and(|end| end <= now)
}

fn has_refresh_token(account: &AccountEntry) -> bool {
    account.credentials().is_ok_and(|credentials| credentials.get("refresh_token").is_some())
}

fn access_token(account: &AccountEntry) -> Option<zeroize::Zeroizing<String>> {
    let credentials = account.credentials().ok()?;
    credentials.get("access_token").map(|token| zeroize::Zeroizing::new(token.to_owned()))
}

/// The account as it is stored now.
pub(super) async fn reread(
    gateway: &GatewayState,
    account: &AccountEntry,
) -> Result<Arc<AccountEntry>, Failure> {
    gateway.cache.forget_account(account.customer, &account.creator);
    cache::account(gateway, account.customer, &account.creator, gateway.clock.now()).await
}

async fn claim(gateway: &GatewayState, account: &AccountEntry) -> Result<bool, Failure> {
    let store = gateway.store.clone();
    let now = gateway.clock.now();
    let (customer, creator, version) = (account.customer, account.creator.clone(), account.version);
    let claim = async move {
        let until = now.plus_seconds(CLAIM_S);
        store::refresh_claims::claim(&store, (customer, &creator, version), now, until).await
    };
    Ok(gateway.tasks.on_control(claim).await??)
}

/// How a refresh ended.
enum RefreshOutcome {
    /// The account has a fresh token.
    Fresh(Arc<AccountEntry>),
    /// The endpoint refused the refresh token.
    Refused,
    /// The endpoint could not be reached, or returned an unusable response.
    Failed,
}

async fn refresh(
    gateway: &GatewayState,
    target: &PlatformTarget,
    account: &Arc<AccountEntry>,
) -> Result<RefreshOutcome, Failure> {
    let credentials = account.credentials()?;
    let Some(refresh_token) = credentials.get("refresh_token") else {
        return Ok(RefreshOutcome::Refused);
    };
    let tokens = &account.health.tokens;
    let upstream = &gateway.accounts().upstream;
    let (headers, now) = (account.headers(target)?, gateway.clock.now());
    pacing::charge_own(gateway, account, false);
    match oauth::refresh_for(upstream, target, headers, now, refresh_token).await {
        Ok(fresh) => {
            tokens.refreshed();
            keep(gateway, account, fresh).await?;
            return reread(gateway, account).await.map(RefreshOutcome::Fresh);
        }
        Err(error) => {
            let how = how_it_ended(&error);
            tokens.failed(gateway.clock.now(), how);
            metrics::token_not_refreshed(account.platform, how.as_str());
            let (customer, name) = (account.customer, account.creator.as_str());
            tracing::warn!(customer.id = %customer, account = name, %error, "an access token could not be refreshed");
        }
    }
    release(gateway, account).await;
    Ok(if tokens.is_endpoint_failing() { RefreshOutcome::Failed } else { RefreshOutcome::Refused })
}

fn how_it_ended(error: &RefreshFailure) -> LastRefresh {
    match error {
        RefreshFailure::Client(_) => LastRefresh::Failed,
        RefreshFailure::Service { .. } => LastRefresh::EndpointRefused,
        RefreshFailure::Refused { .. } if error.is_final() => LastRefresh::TokenDead,
        RefreshFailure::Refused { .. } => LastRefresh::Refused,
    }
}

/// Releases the claim, so that other nodes can try. If that fails, the claim expires.
async fn release(gateway: &GatewayState, account: &AccountEntry) {
    let store = gateway.store.clone();
    let (customer, creator, version) = (account.customer, account.creator.clone(), account.version);
    let release =
        async move { store::refresh_claims::release(&store, (customer, &creator, version)).await };
    if let Ok(Err(error)) = gateway.tasks.on_control(release).await {
        tracing::warn!(%error, "the claim of a token refresh could not be released");
    }
}

/// Seals and stores the new tokens, unless the account was connected again in the meantime.
async fn keep(
    gateway: &GatewayState,
    account: &AccountEntry,
    tokens: OauthTokens,
) -> Result<(), Failure> {
    let expires_at = tokens.expires_in_s.map(|seconds| gateway.clock.now().plus_seconds(seconds));
    let mut credentials = AccountCredentials::clone(&*account.credentials()?);
    let scopes = tokens.scopes.clone().or_else(|| account.scopes.clone());
    credentials.set("access_token", tokens.access_token);
    if let Some(refresh_token) = tokens.refresh_token {
        credentials.set("refresh_token", refresh_token);
    }
    let (sealed, data_key) = account
        .reseal(&gateway.random, &credentials)
        .ok_or_else(|| Failure::Internal("refreshed tokens could not be sealed".to_owned()))?;
    let store = gateway.store.clone();
    let (customer, creator, version) = (account.customer, account.creator.clone(), account.version);
    let change = async move {
        let fresh = store::accounts::SealedCredentials {
            sealed,
            data_key,
            scopes,
            token_expires_at: expires_at,
        };
        store::accounts::replace_credentials(&store, customer, &creator, version, &fresh).await
    };
    gateway.tasks.on_control(change).await??;
    Ok(())
}
