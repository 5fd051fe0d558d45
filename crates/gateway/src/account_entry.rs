//! A connected account as the data plane keeps it between calls.
//!
//! The first call that needs the credentials opens them. They stay open, also in the headers of its
//! requests, while the entry lives (a minute or two at most), and are wiped from memory with it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use accounts::pacing::AccountPace;
use accounts::sealed_credentials;
use domain::account::{AccountState, CreatorId};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use failures::AccountProblem;
use failures::Failure;
use platform_client::breaker::Breaker;
use platform_client::{
    AccountCredentials, AccountHeaders, CallErrorKind, CookieJar, PlatformTarget,
};
use runtime::sealing::DataKey;
use transport::LoadCounter;
use web::idempotency;

use super::account_cookies::{self, AccountCookies};
use super::refresh_watch::RefreshWatch;
use super::resealing;
use super::token_pauses::TokenPauses;
use crate::state::GatewayState;

/// One account, ready for calls.
pub struct AccountEntry {
    /// The customer who connected it.
    pub customer: CustomerId,
    /// The id the customer chose.
    pub creator: CreatorId,
    /// The platform it belongs to.
    pub platform: Platform,
    /// The platform's own id for it; empty where the identity check does not return one.
    pub platform_account_id: String,
    /// When it was connected under this name; replacing its credentials does not change that.
    connected_at: Timestamp,
    /// Whether calls may use it.
    pub state: AccountState,
    /// Whether the customer turned it off.
    is_switched_off: bool,
    /// Changes with every change of the account; the hold checks it.
    pub version: i64,
    /// The scopes of its token, if known.
    pub scopes: Option<Vec<String>>,
    /// When its token expires.
    pub token_expires_at: Option<Timestamp>,
    sealed: Vec<u8>,
    data_key: DataKey,
    opened: OnceLock<Arc<AccountCredentials>>,
    headers: OnceLock<AccountHeaders>,
    /// The cookies that its platform sets, if they are kept.
    cookies: Option<Arc<AccountCookies>>,
    /// The state of its connection to the platform; shared by all versions of the entry.
    pub health: Arc<AccountHealth>,
    /// Its calls in flight; also shared by all versions.
    pub load: Arc<LoadCounter>,
    /// How often its requests may be sent; `None` if its platform is not paced.
    pub(super) pace: Option<Arc<AccountPace>>,
}

/// What the calls of an account reveal about it, beyond a single call.
#[derive(Default)]
pub struct AccountHealth {
    /// Opens after consecutive failures.
    pub breaker: Breaker,
    paused_until_micros: AtomicI64,
    /// Locked by the call that finds out whether its token can be refreshed; others wait for that.
    pub(super) mending: tokio::sync::Mutex<()>,
    /// The refresh that is running, and those of other nodes.
    pub(super) refreshes: RefreshWatch,
    /// When its token may be refreshed again.
    pub(super) tokens: TokenPauses,
    /// Locked while its credentials are being checked again.
    pub(super) checking: tokio::sync::Mutex<()>,
    next_check_micros: AtomicI64,
    /// The version whose mark is being cleared.
    unmarked_version: AtomicI64,
}

/// Seconds between two checks of an account's credentials after a 401.
const CHECK_EVERY_S: i64 = 10;

impl AccountHealth {
    /// How long calls still have to wait because the platform asked for a pause, in milliseconds.
    pub fn pause_ms(&self, now: Timestamp) -> Option<i64> {
        let until = self.paused_until_micros.load(Ordering::Relaxed);
        let left = until.saturating_sub(now.unix_micros()) / domain::time::MICROS_PER_MILLI;
        (left > 0).then_some(left)
    }

    /// Holds calls back until this time.
    pub fn pause_until(&self, until: Timestamp) {
        self.paused_until_micros.fetch_max(until.unix_micros(), Ordering::Relaxed);
    }

    /// Whether its credentials should be checked now. The caller that gets `true` does it.
    pub(super) fn begins_check(&self, now: Timestamp) -> bool {
        let from = self.next_check_micros.load(Ordering::Relaxed);
        let next = now.plus_seconds(CHECK_EVERY_S).unix_micros();
        let place = &self.next_check_micros;
        from <= now.unix_micros()
            && place.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether the mark of this version should be cleared. Of all calls that succeed, one gets
    /// `true` and does it.
    pub(super) fn begins_unmark(&self, account: &AccountEntry) -> bool {
        self.unmarked_version.swap(account.version, Ordering::Relaxed) != account.version
    }

    /// Lets the next success try again, after the mark could not be cleared.
    pub(super) fn unmark_failed(&self) {
        self.unmarked_version.store(0, Ordering::Relaxed);
    }
}

impl AccountEntry {
    /// Builds the entry of a stored account. Its data key is unwrapped; its credentials stay
    /// sealed.
    pub(super) async fn open(
        gateway: &GatewayState,
        stored: store::accounts::Account,
    ) -> Result<Self, Failure> {
        let cookies = account_cookies::open(gateway, &stored).await?;
        let id = stored.credentials.data_key;
        let shared = gateway.clone();
        let opening = async move {
            let key = shared.vault.find(id).await?;
            resealing::credentials(&shared, &stored, &key).await;
            Ok::<_, Failure>((stored, key))
        };
        let (account, data_key) = gateway.tasks.on_control(opening).await??;
        Ok(Self {
            health: gateway.health.of(account.customer, &account.creator_id),
            pace: gateway.accounts().paces.of(
                account.platform,
                account.customer,
                &account.creator_id,
            ),
            load: gateway.in_flight.of_account((account.customer, account.creator_id.clone())),
            customer: account.customer,
            creator: account.creator_id,
            platform: account.platform,
            platform_account_id: account.platform_account_id,
            connected_at: account.connected_at,
            state: account.state,
            is_switched_off: account.switched_off_at.is_some(),
            version: account.version,
            scopes: account.credentials.scopes,
            token_expires_at: account.credentials.token_expires_at,
            sealed: account.credentials.sealed,
            data_key,
            opened: OnceLock::new(),
            headers: OnceLock::new(),
            cookies,
        })
    }

    /// A hash of who it is on its platform.
    pub fn identity(&self) -> [u8; 32] {
        idempotency::identity(self.platform, &self.platform_account_id, self.connected_at)
    }

    /// Refuses an inactive account.
    pub fn check_in_use(&self) -> Result<(), Failure> {
        match self.state {
            AccountState::Inactive => {
                Err(AccountProblem::of_inactive(&self.creator, self.is_switched_off).into())
            }
            AccountState::Active | AccountState::ReconnectNeeded => Ok(()),
        }
    }

    /// The credentials, opened on first use.
    pub fn credentials(&self) -> Result<Arc<AccountCredentials>, Failure> {
        if let Some(opened) = self.opened.get() {
            return Ok(Arc::clone(opened));
        }
        let owner = (self.customer, self.platform, &self.creator);
        let opened = sealed_credentials::open(&self.data_key, owner, &self.sealed)
            .ok_or(Failure::CredentialError)?;
        let opened =
            opened.value.of_account(sealed_credentials::label(self.customer, &self.creator));
        Ok(Arc::clone(self.opened.get_or_init(|| Arc::new(opened))))
    }

    /// The headers of requests to its platform, built on first use.
    pub fn headers(&self, target: &PlatformTarget) -> Result<&AccountHeaders, Failure> {
        if let Some(headers) = self.headers.get() {
            return Ok(headers);
        }
        let headers = target.headers_of(&*self.credentials()?).map_err(|error| {
            let (customer, account) = (self.customer, self.creator.as_str());
            match (error.kind, &error.source) {
                // What customers gave, and what the configuration permitted when they gave it.
                (CallErrorKind::Build, Some(reason)) => {
                    tracing::warn!(customer.id = %customer, account, platform = %self.platform, %reason, "an account's credentials cannot be used; its customer must connect it again");
                    Failure::CredentialsUnusable(reason.to_string())
                }
                _ => {
                    tracing::error!(customer.id = %customer, account, %error, "an account's credentials could not be put into headers");
                    Failure::Internal("a request to a platform could not be built".to_owned())
                }
            }
        })?;
        let headers = match self.cookies() {
            Some(jar) => headers.with_cookies(Arc::clone(jar)),
            None => headers,
        };
        Ok(self.headers.get_or_init(|| headers))
    }

    /// The cookies that its platform sets, if they are kept.
    pub fn cookies(&self) -> Option<&Arc<CookieJar>> {
        self.cookies.as_deref().map(AccountCookies::jar)
    }

    /// The customer's data key, for responses that are stored.
    pub const fn data_key(&self) -> &DataKey {
        &self.data_key
    }
}

/// The health of recently used accounts.
pub(crate) struct HealthBook(quick_cache::sync::Cache<(CustomerId, CreatorId), Arc<AccountHealth>>);

impl HealthBook {
    /// Starts empty.
    pub(crate) fn new() -> Self {
        Self(quick_cache::sync::Cache::new(100_000))
    }

    /// The health of one account. A new one starts out healthy.
    pub(crate) fn of(&self, customer: CustomerId, creator: &CreatorId) -> Arc<AccountHealth> {
        let place = (customer, creator.clone());
        if let Some(health) = self.0.get(&place) {
            return health;
        }
        let health = Arc::new(AccountHealth::default());
        self.0.insert(place, Arc::clone(&health));
        health
    }
}
