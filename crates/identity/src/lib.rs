//! Customers and staff: passwords and logins, emailed links, the access of staff, and the commands
//! of operators.

pub mod devices;
pub mod email_flows;
pub mod link_proof;
pub mod login;
pub mod login_limits;
pub mod mail_limits;
pub mod passwords;
pub mod staff;
pub mod support;

use std::ops::Deref;
use std::sync::Arc;

use jobs::JobQueue;
use runtime::cached::CachedEntries;
use runtime::clock::{Clock, Random};
use runtime::vault::Vault;
use settings::Config;
use store::Store;

use crate::login_limits::LoginLimits;
use crate::mail_limits::MailLimits;
use crate::passwords::PasswordHashing;

/// What identity uses. Cloning it is cheap.
#[derive(Clone)]
pub struct IdentityState(Arc<IdentityParts>);

/// The parts of [`IdentityState`].
pub struct IdentityParts {
    /// Stores customers and sessions.
    pub store: Store,
    /// Tells the time.
    pub clock: Clock,
    /// Generates ids, tokens and salts.
    pub random: Random,
    /// Holds the master keys that sign device cookies.
    pub vault: Arc<Vault>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The queue for emails.
    pub jobs: JobQueue,
    /// Learns whose keys have ended.
    pub cached: Arc<dyn CachedEntries>,
    /// Counts failed logins.
    pub login_limits: LoginLimits,
    /// Limits emails on request.
    pub mail_limits: MailLimits,
    /// Hashes passwords, few at a time, because hashing is slow on purpose.
    pub hashing: PasswordHashing,
}

impl IdentityState {
    /// Builds the state.
    pub fn new(parts: IdentityParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for IdentityState {
    type Target = IdentityParts;

    fn deref(&self) -> &IdentityParts {
        &self.0
    }
}
