//! Logging in and changing the password: checking a customer's password, and starting a session.
//!
//! Only wrong passwords are counted: for each pair of address and network, for each network, and
//! for each address. The last two exempt networks from which the customer logged in recently, so
//! that a customer cannot be locked out from elsewhere. An address without a customer costs as much
//! work as a wrong password, and gets the same response.

use std::net::IpAddr;

use domain::customer::Email;
use domain::id::{CustomerId, SessionId};
use domain::time::Timestamp;
use domain::token::SecretToken;
use failures::Failure;
use runtime::audit::{self, AuditRecord};
use serde_json::json;
use settings::RateLimitsSection;
use store::customers::{Customer, PasswordHash};
use store::sessions::{NewSession, PasswordChange, VerifiedLogin};
use transport::neighbourhood_of;
use web::auth::device::SessionDevice;
use web::middleware::network_limit::NetworkLimiter;
use web::middleware::rate_limit::{RateLimiter, RateQuota};

use crate::IdentityState;
use crate::passwords::{self, HashRequester};

/// The number of networks, addresses and pairs that are remembered.
const REMEMBERED_MAX: usize = 100_000;

/// Limits failed logins, on this node.
pub struct LoginLimits {
    /// For an address from one network.
    here: RateLimiter<(Email, IpAddr)>,
    /// For strangers in one network, whatever the address.
    network: NetworkLimiter,
    /// For strangers and one address, whatever the network.
    email: RateLimiter<Email>,
}

impl LoginLimits {
    /// Starts without failed logins.
    pub fn new(rates: &RateLimitsSection) -> Self {
        let here = RateQuota::per_hour(rates.wrong_passwords_per_hour);
        let network = RateQuota::per_hour(rates.failed_logins_per_network_per_hour);
        let email = RateQuota::per_hour(rates.failed_logins_per_address_per_hour);
        Self {
            here: RateLimiter::new(here, REMEMBERED_MAX),
            network: NetworkLimiter::new(network, REMEMBERED_MAX),
            email: RateLimiter::new(email, REMEMBERED_MAX),
        }
    }

    /// Forgets entries that no longer limit anything. Called by housekeeping.
    pub fn forget_idle(&self, now: Timestamp) {
        self.here.forget_idle(now);
        self.network.forget_idle(now);
        self.email.forget_idle(now);
    }
}

/// A new session with its token, which is sent to its device and never stored.
pub struct NewLogin {
    /// The customer who signed in.
    pub customer: Customer,
    /// The session as it was stored.
    pub session: NewSession,
    /// Its token.
    pub token: SecretToken,
}

/// Starts a session if the password is right. The device's previous session ends.
pub async fn log_in(
    identity: &IdentityState,
    email: Email,
    password: String,
    device: &SessionDevice,
) -> Result<NewLogin, Failure> {
    passwords::check_length_of_given("password", &password)?;
    let (network, now) = (device.network(), identity.clock.now());
    let found =
        store::login_networks::find_candidate(&identity.store, &email, &network, now).await?;
    let requester = match &found {
        Some(found) if found.is_known_network => HashRequester::Known(found.customer.id, device.ip),
        Some(_) | None => HashRequester::Stranger(device.ip),
    };
    let guess = LoginAttempt::begin(identity, &email, device.ip, requester)?;
    let nobody = PasswordHash::none();
    let checked = found.as_ref().map_or(&nobody, |found| &found.customer.password_hash);
    let is_right = passwords::is_right(identity, requester, password.clone(), checked).await?;
    let customer = found.map(|found| found.customer).filter(|_| is_right);
    if let Some(closed) = customer.as_ref().filter(|customer| customer.disabled_at.is_some())
        && store::suspensions::is_suspended(&identity.store, closed.id).await?
    {
        return Err(Failure::CustomerSuspended);
    }
    let customer = customer.filter(|customer| customer.disabled_at.is_none());
    let Some(customer) = customer else {
        guess.was_wrong();
        return Err(Failure::WrongCredentials);
    };
    drop(guess);
    let rehashed = if passwords::is_out_of_date(&customer.password_hash) {
        Some(
            passwords::hash(identity, HashRequester::Known(customer.id, device.ip), password)
                .await?,
        )
    } else {
        None
    };
    let (session, token) = new_session(identity, customer.id, device);
    let login = VerifiedLogin {
        session: &session,
        checked: &customer.password_hash,
        rehashed: rehashed.as_ref(),
        replaced: device.held,
        sessions_max: identity.config.sessions.per_customer_max,
    };
    if store::sessions::log_in(&identity.store, &login).await? {
        Ok(NewLogin { customer, session, token })
    } else {
        Err(Failure::WrongCredentials)
    }
}

/// Replaces the password of a customer who sent the current one. Every session ends, and the
/// calling device gets a new one.
pub async fn change_password(
    identity: &IdentityState,
    id: CustomerId,
    current: String,
    new: String,
    device: &SessionDevice,
) -> Result<NewLogin, Failure> {
    let customer = confirm(identity, id, current, device.ip).await?;
    passwords::check_new(identity, &new, &customer.email)?;
    let hash = passwords::hash(identity, HashRequester::Known(id, device.ip), new).await?;
    let (session, token) = new_session(identity, customer.id, device);
    let record = AuditRecord {
        customer: customer.id,
        actor: session.id.to_string(),
        action: audit::PASSWORD_CHANGED,
        details: json!({"network": session.network, "other_sessions_ended": true}),
    };
    let entry = record.now(&identity.clock, &identity.random);
    let change = PasswordChange {
        session: &session,
        checked: &customer.password_hash,
        new: &hash,
        entry: &entry,
    };
    if store::sessions::change_password(&identity.store, &change).await? {
        Ok(NewLogin { customer, session, token })
    } else {
        Err(Failure::WrongPassword)
    }
}

/// Asks a signed-in customer for the password again, before changes that an unattended session must
/// not allow. `password` is the field `current_password` of the body.
pub async fn confirm(
    identity: &IdentityState,
    id: CustomerId,
    password: String,
    ip: IpAddr,
) -> Result<Customer, Failure> {
    passwords::check_length_of_given("current_password", &password)?;
    let found = store::customers::find_by_id(&identity.store, id).await?;
    let customer = found.ok_or(Failure::InvalidSession)?;
    let requester = HashRequester::Known(id, ip);
    let guess = LoginAttempt::begin(identity, &customer.email, ip, requester)?;
    if passwords::is_right(identity, requester, password, &customer.password_hash).await? {
        Ok(customer)
    } else {
        guess.was_wrong();
        Err(Failure::WrongPassword)
    }
}

/// An attempt at the password of an address from a network. It is counted before the password is
/// checked, so that concurrent attempts gain nothing. It stays counted only if the password was
/// wrong, not if it was right or never checked.
struct LoginAttempt<'a> {
    identity: &'a IdentityState,
    email: Email,
    ip: IpAddr,
    /// The counters it was counted in, to be given back.
    counted: CountedAttempt,
}

#[derive(Default)]
struct CountedAttempt {
    here: bool,
    network: bool,
    email: bool,
}

impl<'a> LoginAttempt<'a> {
    fn begin(
        identity: &'a IdentityState,
        email: &Email,
        ip: IpAddr,
        requester: HashRequester,
    ) -> Result<Self, Failure> {
        let mut guess =
            Self { identity, email: email.clone(), ip, counted: CountedAttempt::default() };
        let now = identity.clock.now();
        // The network comes first: once it is refused, the addresses that it makes up leave no
        // trace.
        if let HashRequester::Stranger(_) = requester {
            let of_network = identity.login_limits.network.check(ip, now);
            allowed(of_network.and_then(|decision| decision.retry_after_ms))?;
            guess.counted.network = true;
        }
        let here = identity.login_limits.here.check(guess.here(), 1, now);
        allowed(here.retry_after_ms)?;
        guess.counted.here = true;
        if let HashRequester::Stranger(_) = requester {
            let of_email = identity.login_limits.email.check(email.clone(), 1, now);
            allowed(of_email.retry_after_ms)?;
            guess.counted.email = true;
        }
        Ok(guess)
    }

    fn here(&self) -> (Email, IpAddr) {
        (self.email.clone(), neighbourhood_of(self.ip))
    }

    fn was_wrong(mut self) {
        self.counted = CountedAttempt::default();
    }
}

impl Drop for LoginAttempt<'_> {
    fn drop(&mut self) {
        let (limits, now) = (&self.identity.login_limits, self.identity.clock.now());
        if self.counted.here {
            limits.here.give_back(self.here(), 1, now);
        }
        if self.counted.network {
            limits.network.give_back(self.ip, now);
        }
        if self.counted.email {
            limits.email.give_back(self.email.clone(), 1, now);
        }
    }
}

fn allowed(retry_after_ms: Option<i64>) -> Result<(), Failure> {
    retry_after_ms.map_or(Ok(()), |retry_after_ms| Err(Failure::TooManyLogins { retry_after_ms }))
}

fn new_session(
    identity: &IdentityState,
    customer: CustomerId,
    device: &SessionDevice,
) -> (NewSession, SecretToken) {
    let token = SecretToken::new(identity.random.bytes());
    let now = identity.clock.now();
    let session = NewSession {
        id: SessionId::new(now, identity.random.bytes()),
        customer,
        token_hash: token.hash(),
        user_agent: device.user_agent.clone(),
        network: device.network(),
        created_at: now,
    };
    (session, token)
}
