//! One refresh of an account's token, apart from the calls that wait for it: the refresh token is
//! exchanged, and what came is stored.
//!
//! It goes on when its callers have left and while the service stops, because an endpoint that
//! rotates refresh tokens has made the old one worthless with its answer. Fresh tokens stay in
//! memory until they are stored, wherever the used refresh token still is: whatever else changed an
//! account meanwhile, those tokens are its newest.

use std::sync::Arc;
use std::time::Duration;

use accounts::sealed_credentials;
use domain::account::AccountState;
use domain::time::Timestamp;
use failures::Failure;
use platform_client::oauth::{self, RefreshFailure, TokenRequest};
use platform_client::{AccountCredentials, ClientError, OauthTokens};
use runtime::metrics;
use store::accounts::{Account, SealedCredentials};
use store::refresh_claims::{self, ClaimOutcome, RefreshClaim, RefreshSubject, RenewedCredentials};
use tokio::sync::Notify;
use zeroize::Zeroizing;

use super::account_entry::AccountEntry;
use super::pacing;
use super::refresh_watch::{RefreshEnd, RefreshRun};
use super::token_pauses::LastRefresh;
use crate::state::GatewayState;

/// How long a token endpoint may take, from the request to the end of its answer.
const EXCHANGE_MAX: Duration = Duration::from_mins(2);
/// How long a claim lasts beyond its latest renewal, in seconds.
const CLAIM_S: i64 = 40;
/// How often the claim is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// The first and the longest pause before fresh tokens that could not be stored are tried again.
const STORE_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// One of so many failures to store the same tokens is logged.
const FAILURES_LOGGED: u32 = 30;
/// The field of the sealed credentials that holds how long the access token lived when it came, in
/// seconds.
pub(super) const LIFE_FIELD: &str = "access_token_life_s";

/// Begins to refresh the account's token, unless another node does: then nothing. `is_refused` says
/// that the platform refused the token before its expiry.
pub(super) async fn begin(
    gateway: &GatewayState,
    account: &Arc<AccountEntry>,
    is_refused: bool,
) -> Result<Option<RefreshRun>, Failure> {
    let credentials = account.credentials()?;
    let Some(token) = credentials.get("refresh_token") else { return Ok(None) };
    // What cannot be sent must not be claimed.
    account.headers(gateway.beside.target(account.platform)?)?;
    let exchange = TokenExchange {
        used: Zeroizing::new(token.to_owned()),
        gateway: gateway.clone(),
        account: Arc::clone(account),
        is_refused,
    };
    // To its end, even if the caller leaves: nobody else would know of the claim.
    Ok(gateway.tasks.on_control(Box::pin(exchange.claim())).await??)
}

struct TokenExchange {
    gateway: GatewayState,
    account: Arc<AccountEntry>,
    /// The refresh token.
    used: Zeroizing<String>,
    is_refused: bool,
}

/// What an exchange brought.
struct FreshTokens {
    tokens: OauthTokens,
    expires_at: Option<Timestamp>,
}

impl TokenExchange {
    async fn claim(self) -> Result<Option<RefreshRun>, store::StoreError> {
        let (gateway, account) = (&self.gateway, &self.account);
        let watch = &account.health.refreshes;
        let subject = RefreshSubject {
            customer: account.customer,
            creator: &account.creator,
            version: account.version,
        };
        let at = gateway.clock.running_for();
        let until = gateway.clock.now().plus_seconds(CLAIM_S);
        let claim = refresh_claims::claim(&gateway.store, subject, gateway.clock.now(), until);
        match claim.await? {
            ClaimOutcome::Claimed(claim) => {
                let (run, end) = watch.begin();
                gateway.tasks.clone().spawn_control(Box::pin(self.run(claim, at, end)));
                Ok(Some(run))
            }
            ClaimOutcome::Taken | ClaimOutcome::Changed => Ok(None),
        }
    }

    async fn run(self, claim: RefreshClaim, at: Duration, end: RefreshEnd) {
        let ended = Notify::new();
        let work = async {
            let is_fresh = self.refresh().await;
            ended.notify_one();
            is_fresh
        };
        let (is_fresh, claim) = tokio::join!(work, self.keep(claim, at, &ended));
        // If this fails, others take it over in time.
        if let Err(error) = refresh_claims::release(&self.gateway.store, &claim).await {
            tracing::warn!(%error, "the claim of a token refresh could not be released");
        }
        end.tell(is_fresh);
    }

    /// Renews the claim, which was made at `at`, until the refresh has ended.
    async fn keep(
        &self,
        mut claim: RefreshClaim,
        mut at: Duration,
        ended: &Notify,
    ) -> RefreshClaim {
        let gateway = &self.gateway;
        let mut has_failed = false;
        loop {
            let pause = async {
                if has_failed {
                    tokio::time::sleep(STORE_AGAIN.1).await;
                } else {
                    gateway.clock.sleep_since(at, RENEW_EVERY).await;
                }
            };
            tokio::select! {
                biased;
                () = ended.notified() => return claim,
                () = pause => {}
            }
            at = gateway.clock.running_for();
            let until = gateway.clock.now().plus_seconds(CLAIM_S);
            match refresh_claims::renew(&gateway.store, &mut claim, until).await {
                Ok(true) => has_failed = false,
                Ok(false) => {
                    tracing::info!("the claim of a token refresh is gone");
                    ended.notified().await;
                    return claim;
                }
                Err(error) => {
                    has_failed = true;
                    tracing::warn!(%error, "the claim of a token refresh could not be renewed");
                }
            }
        }
    }

    /// Exchanges the refresh token and stores what came; whether there are fresh tokens.
    async fn refresh(&self) -> bool {
        let (clock, tokens) = (&self.gateway.clock, &self.account.health.tokens);
        match self.exchanged().await {
            Ok(fresh) => {
                let lasts_s = fresh.expires_in_s;
                let expires_at = lasts_s.map(|seconds| clock.now().plus_seconds(seconds));
                self.store(&FreshTokens { tokens: fresh, expires_at }).await;
                tokens.refreshed();
                if self.is_refused {
                    tokens.replaced_refused(clock.now());
                }
                true
            }
            Err(error) => {
                let how = how_it_ended(&error);
                tokens.failed(clock.now(), how);
                metrics::token_not_refreshed(self.account.platform, how.as_str());
                let (customer, account) = (self.account.customer, self.account.creator.as_str());
                tracing::warn!(customer.id = %customer, account, %error, "an access token could not be refreshed");
                false
            }
        }
    }

    async fn exchanged(&self) -> Result<OauthTokens, RefreshFailure> {
        let Self { gateway, account, .. } = self;
        let unusable = |error: Failure| ClientError::build(error.to_string());
        // Over connections that the stop leaves alone while this runs.
        let target = gateway.beside.target(account.platform).map_err(unusable)?;
        let headers = account.headers(target).map_err(unusable)?;
        let wanted = TokenRequest {
            refresh_token: &self.used,
            account: Some((headers, gateway.clock.now())),
            patience: EXCHANGE_MAX,
        };
        pacing::charge_own(gateway, account, false);
        tokio::select! {
            biased;
            tokens = oauth::refresh(&gateway.beside.upstream, target, &wanted) => tokens,
            () = gateway.clock.sleep(EXCHANGE_MAX) => {
                Err(ClientError::bad_response("it did not end within two minutes").into())
            }
        }
    }

    /// Stores fresh tokens, again and again until they are in.
    async fn store(&self, fresh: &FreshTokens) {
        let (mut pause, longest) = STORE_AGAIN;
        for failures in 0_u32.. {
            let Err(error) = self.merge(fresh).await else { return };
            let (customer, account) = (self.account.customer, self.account.creator.as_str());
            if !matches!(error, Failure::Store(_)) {
                tracing::error!(customer.id = %customer, account, %error, "refreshed tokens cannot be sealed; the account must be connected again");
                return;
            }
            if failures % FAILURES_LOGGED == 0 {
                tracing::error!(customer.id = %customer, account, %error, "refreshed tokens could not be stored; they stay in memory until they are");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Puts fresh tokens in place of the used refresh token, under each id that still holds it.
    async fn merge(&self, fresh: &FreshTokens) -> Result<(), Failure> {
        let (store, customer) = (&self.gateway.store, self.account.customer);
        loop {
            let mut renewed = Vec::new();
            for account in refresh_claims::covered(store, customer, &self.account.creator).await? {
                renewed.extend(self.renewed(&account, fresh).await?);
            }
            if renewed.is_empty() {
                return Ok(());
            }
            let versions = refresh_claims::store_renewed(store, customer, &renewed).await?;
            for one in &renewed {
                self.gateway.cache.forget_account(customer, &one.creator);
            }
            // What was changed meanwhile is looked at again.
            if versions.iter().all(Option::is_some) {
                return Ok(());
            }
        }
    }

    /// The account's credentials with the fresh tokens, if they hold the used refresh token.
    async fn renewed(
        &self,
        account: &Account,
        fresh: &FreshTokens,
    ) -> Result<Option<RenewedCredentials>, Failure> {
        let FreshTokens { tokens, expires_at } = fresh;
        let owner = (account.customer, account.platform, &account.creator_id);
        let stored = &account.credentials;
        let key = self.gateway.vault.find(stored.data_key).await?;
        let opened = sealed_credentials::open(&key, owner, &stored.sealed);
        let opened = opened.map(|opened| opened.value);
        let is_of_used = |it: &AccountCredentials| {
            let is_old = it.get("access_token") != Some(tokens.access_token.as_str());
            is_old && it.get("refresh_token") == Some(self.used.as_str())
        };
        let Some(mut credentials) = opened.filter(is_of_used) else { return Ok(None) };
        credentials.set("access_token", tokens.access_token.clone());
        if let Some(refresh_token) = &tokens.refresh_token {
            credentials.set("refresh_token", refresh_token.clone());
        }
        if let Some(seconds) = tokens.expires_in_s {
            credentials.set(LIFE_FIELD, seconds.to_string());
        }
        let place = sealed_credentials::place(owner);
        let sealed = key.seal(&credentials.to_json(), &place, &self.gateway.random);
        let sealed = sealed
            .ok_or_else(|| Failure::Internal("refreshed tokens could not be sealed".to_owned()))?;
        Ok(Some(RenewedCredentials {
            creator: account.creator_id.clone(),
            version: account.version,
            credentials: SealedCredentials {
                sealed,
                data_key: stored.data_key,
                scopes: tokens.scopes.clone().or_else(|| stored.scopes.clone()),
                token_expires_at: *expires_at,
            },
            // One that was made since was made for the old token.
            clears_mark: self.account.state != AccountState::ReconnectNeeded,
        }))
    }
}

fn how_it_ended(error: &RefreshFailure) -> LastRefresh {
    match error {
        RefreshFailure::Client(_) => LastRefresh::Failed,
        RefreshFailure::Service { .. } => LastRefresh::EndpointRefused,
        RefreshFailure::Refused { .. } if error.is_final() => LastRefresh::TokenDead,
        RefreshFailure::Refused { .. } => LastRefresh::Refused,
    }
}
