//! Access tokens that expire or that the platform refuses: refreshed once for all calls that wait
//! (RFC 6749, section 6).
//!
//! A token endpoint may return a new refresh token at each use, so two concurrent refreshes would
//! lose one. A claim on the account's row prevents that, also between nodes. The refresh runs apart
//! from the calls, which wait for it, on this node or another, for a limited time. An endpoint that
//! fails or refuses is retried with a growing backoff.

use std::sync::Arc;
use std::time::Duration;

use domain::time::{MICROS_PER_SECOND, Timestamp};
use failures::Failure;
use platform_client::PlatformTarget;
use store::platform_health::RefusalCause;

use super::account_entry::AccountEntry;
use super::refresh_watch::RefreshRun;
use super::token_pauses::{LastRefresh, TokenMark};
use super::{cache, reconnect, token_exchange};
use crate::state::GatewayState;

/// A token is refreshed when less than a third of its life is left, but never earlier than this.
const REFRESH_BEFORE_S: i64 = 60;
/// How long a call waits for a refresh.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The first and the longest pause before looking again whether another node has refreshed a token.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(800));

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
    Box::pin(in_time(gateway, refreshed(gateway, account))).await
}

/// Waits for a refresh, and refuses the call if that takes too long. The refresh goes on.
async fn in_time<T>(
    gateway: &GatewayState,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        done = work => done,
        () = gateway.clock.sleep(WAIT_MAX) => Err(Failure::TokenBeingRefreshed),
    }
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

/// The account with a different token from the refused one, or `None` if there is none. Fails if
/// that takes too long to find out.
pub(super) async fn after_refusal(
    gateway: &GatewayState,
    account: &Arc<AccountEntry>,
) -> Result<Option<Arc<AccountEntry>>, Failure> {
    let replaced = async {
        match replaced(gateway, account).await {
            // The platform's refusal says more than why nothing could be done about it.
            Err(_) => Ok(None),
            found => found,
        }
    };
    in_time(gateway, replaced).await
}

async fn replaced(
    gateway: &GatewayState,
    account: &Arc<AccountEntry>,
) -> Result<Option<Arc<AccountEntry>>, Failure> {
    let health = Arc::clone(&account.health);
    let _single = health.mending.lock().await;
    let mut looks = LookPause::default();
    loop {
        let current = reread(gateway, account).await?;
        if current.platform_account_id != account.platform_account_id {
            return Ok(None);
        }
        if access_token(&current) != access_token(account) {
            return Ok(Some(current));
        }
        note_token(&current);
        let run = match health.refreshes.running() {
            Some(run) => Some(run),
            None => {
                let may_replace = health.tokens.may_replace_refused(gateway.clock.now());
                if !may_replace || !has_refresh_token(&current) {
                    return Ok(None);
                }
                token_exchange::begin(gateway, &current, true).await?
            }
        };
        let Some(run) = run else {
            looks.wait().await;
            continue;
        };
        if !run.ended().await {
            return Ok(None);
        }
        let fresh = reread(gateway, account).await?;
        let is_same = fresh.platform_account_id == account.platform_account_id;
        return Ok(is_same.then_some(fresh));
    }
}

async fn refreshed(
    gateway: &GatewayState,
    account: Arc<AccountEntry>,
) -> Result<Arc<AccountEntry>, Failure> {
    let health = Arc::clone(&account.health);
    let _single = health.mending.lock().await;
    let mut looks = LookPause::default();
    loop {
        let current = reread(gateway, &account).await?;
        let now = gateway.clock.now();
        if !needs_refresh(&current, now) || !has_refresh_token(&current) {
            return Ok(current);
        }
        note_token(&current);
        if let Some(run) = health.refreshes.running() {
            return after(gateway, &current, run).await;
        }
        if !health.tokens.may_ask(now)
            || !gateway.accounts().platform_health.takes_refresh(current.platform, now)
        {
            return without_refresh(gateway, current, now);
        }
        if let Some(run) = token_exchange::begin(gateway, &current, false).await? {
            return after(gateway, &current, run).await;
        }
        if !has_ended(&current, now) {
            return Ok(current);
        }
        looks.wait().await;
    }
}

/// The account once a refresh has ended.
async fn after(
    gateway: &GatewayState,
    account: &AccountEntry,
    run: RefreshRun,
) -> Result<Arc<AccountEntry>, Failure> {
    let is_fresh = run.ended().await;
    let current = reread(gateway, account).await?;
    if is_fresh { Ok(current) } else { without_refresh(gateway, current, gateway.clock.now()) }
}

/// The pauses while another node refreshes a token.
struct LookPause(Duration);

impl Default for LookPause {
    fn default() -> Self {
        Self(LOOK_AGAIN.0)
    }
}

impl LookPause {
    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LOOK_AGAIN.1);
    }
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

/// Whether a token should be refreshed: no more than a third of its life is left, and no more
/// than a minute; the latter alone counts where its life is not known.
fn needs_refresh(account: &AccountEntry, now: Timestamp) -> bool {
    let Some(end) = account.token_expires_at else { return false };
    if end > now.plus_seconds(REFRESH_BEFORE_S) {
        return false;
    }
    let life_s = account.credentials().ok().and_then(|credentials| {
        credentials.get(token_exchange::LIFE_FIELD).and_then(|life| life.parse::<i64>().ok())
    });
    let third = |seconds: i64| seconds.saturating_mul(MICROS_PER_SECOND) / 3;
    life_s.is_none_or(|seconds| end <= now.plus_micros(third(seconds)))
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
