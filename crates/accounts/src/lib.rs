//! Connected accounts: how their platform confirms them when they are connected, which platforms refuse everybody, and how
//! credentials are sealed for the place where they are kept.

pub mod connect;
pub mod platform_health;
pub mod sealed_credentials;

use std::collections::HashMap;
use std::sync::Arc;

use catalog::Catalog;
use clients::platform::{PlatformClient, PlatformTarget};
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use failures::Failure;
use foldhash::fast::RandomState;
use runtime::cached::CachedEntries;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use runtime::vault::Vault;
use store::Store;

use crate::platform_health::PlatformHealth;

/// The platforms that are offered, and how each is reached.
pub type Targets = PerPlatform<PlatformTarget>;

/// What connecting accounts uses, as one core sees it.
#[derive(Clone)]
pub struct AccountsState {
    /// Where accounts are.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids and what signatures want.
    pub random: Random,
    /// Where changes of a platform's health are written.
    pub tasks: Tasks,
    /// What credentials the platforms' accounts have.
    pub catalog: Arc<Catalog>,
    /// How platforms are reached.
    pub targets: Arc<Targets>,
    /// Seals credentials.
    pub vault: Arc<Vault>,
    /// How many accounts customers and plans have, besides what is paid for.
    pub allowances: Arc<AccountAllowances>,
    /// What this node remembers of accounts.
    pub cached: Arc<dyn CachedEntries>,
    /// Which platforms refuse everybody's credentials.
    pub platform_health: Arc<PlatformHealth>,
    /// This core's connections to the platforms.
    pub upstream: Arc<PlatformClient>,
}

impl AccountsState {
    /// How to reach a platform, or that it is not offered.
    pub fn target(&self, platform: Platform) -> Result<&PlatformTarget, Failure> {
        self.targets.get(platform).ok_or(Failure::PlatformNotOffered(platform))
    }
}
