//! Connected accounts: how their platform confirms them when they are connected, which platforms
//! refuse all credentials or have changed, and how credentials are sealed.

pub mod connect;
mod connected_cookies;
pub mod drift;
pub mod pacing;
pub mod platform_health;
pub mod sealed_credentials;

use std::sync::Arc;

use catalog::Catalog;
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use failures::Failure;
use platform_client::{PlatformClient, PlatformTarget};
use runtime::cached::CachedEntries;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use runtime::vault::Vault;
use store::Store;

use crate::pacing::PaceBook;
use crate::platform_health::PlatformHealth;

/// The platforms that are offered, and how each is reached.
pub type PlatformTargets = PerPlatform<PlatformTarget>;

/// What connecting accounts uses, as one core sees it.
#[derive(Clone)]
pub struct AccountsState {
    /// Stores accounts.
    pub store: Store,
    /// Tells the time.
    pub clock: Clock,
    /// Generates ids and nonces.
    pub random: Random,
    /// Runs the writes of platform health.
    pub tasks: Tasks,
    /// The credentials that each platform's accounts need.
    pub catalog: Arc<Catalog>,
    /// How platforms are reached.
    pub targets: Arc<PlatformTargets>,
    /// Seals credentials.
    pub vault: Arc<Vault>,
    /// The accounts that customers and plans include, besides paid slots.
    pub allowances: Arc<AccountAllowances>,
    /// This node's cache of accounts.
    pub cached: Arc<dyn CachedEntries>,
    /// Which platforms refuse all credentials, and whose responses have drifted.
    pub platform_health: Arc<PlatformHealth>,
    /// How often each account's requests may be sent.
    pub paces: Arc<PaceBook>,
    /// This core's connections to the platforms.
    pub upstream: Arc<PlatformClient>,
}

impl AccountsState {
    /// How to reach a platform, or the failure that it is not offered.
    pub fn target(&self, platform: Platform) -> Result<&PlatformTarget, Failure> {
        self.targets.get(platform).ok_or(Failure::PlatformNotOffered(platform))
    }
}
