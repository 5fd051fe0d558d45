//! Who customers and staff are: passwords and logins, what links in emails do, how staff are let in, and the work of
//! operators.

pub mod email_flows;
pub mod login;
pub mod mail_limits;
pub mod passwords;
pub mod staff;
pub mod support;

use std::ops::Deref;
use std::sync::Arc;

use jobs::JobQueue;
use runtime::clock::{Clock, Random};
use settings::Config;
use store::Store;

use crate::login::LoginLimits;
use crate::mail_limits::MailLimits;
use crate::passwords::PasswordHashing;

/// What identity uses. A clone is another handle to the same.
#[derive(Clone)]
pub struct IdentityState(Arc<IdentityParts>);

/// The parts of [`IdentityState`].
pub struct IdentityParts {
    /// Where customers and sessions are.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids, tokens and salts.
    pub random: Random,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Where emails are queued.
    pub jobs: JobQueue,
    /// Logins that failed.
    pub login_limits: LoginLimits,
    /// Emails that may be asked for.
    pub mail_limits: MailLimits,
    /// Where passwords are hashed: few at a time, since it is slow on purpose.
    pub hashing: PasswordHashing,
}

impl IdentityState {
    /// Puts the parts together.
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
