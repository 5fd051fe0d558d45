//! Logging in and changing the password: checking a customer's password, and starting a session.
//!
//! Wrong passwords are limited (`login_limits.rs`). An address without a customer costs as much
//! work as a wrong password, and gets the same response.

use std::net::IpAddr;

use domain::customer::Email;
use domain::id::{CustomerId, SessionId};
use domain::token::SecretToken;
use failures::Failure;
use runtime::audit::{self, AuditRecord};
use serde_json::json;
use store::customers::{Customer, PasswordHash};
use store::sessions::{NewSession, PasswordChange, VerifiedLogin};
use web::auth::device::{CallingDevice, SessionDevice};

use crate::IdentityState;
use crate::devices::{DeviceCookie, DeviceOwner};
use crate::login_limits::{Guesser, LoginAttempt};
use crate::passwords::{self, HashRequester};

/// A new session with its token, which is sent to its device and never stored.
pub struct NewLogin {
    /// The customer who signed in.
    pub customer: Customer,
    /// The session as it was stored.
    pub session: NewSession,
    /// Its token.
    pub token: SecretToken,
    /// The device cookie of its browser.
    pub device_cookie: String,
}

/// Starts a session if the password is right. The device's previous session ends.
pub async fn log_in(
    identity: &IdentityState,
    email: Email,
    password: String,
    device: &SessionDevice,
) -> Result<NewLogin, Failure> {
    passwords::check_length_of_given("password", &password)?;
    let cookie = DeviceCookie::read(identity, device.calling.cookie.as_deref());
    let customer = check_credentials(identity, email, password.clone(), device, &cookie).await?;
    let rehashed = if passwords::is_out_of_date(&customer.password_hash) {
        let requester = HashRequester::Known(customer.id, device.calling.ip);
        Some(passwords::hash(identity, requester, password).await?)
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
    let stored = rehashed.as_ref().unwrap_or(&customer.password_hash);
    let owner = DeviceOwner { customer: customer.id, password: stored };
    let device_cookie = cookie.renewed(DeviceOwner::of(&customer), owner)?;
    if store::sessions::log_in(&identity.store, &login).await? {
        Ok(NewLogin { customer, session, token, device_cookie })
    } else {
        Err(Failure::WrongCredentials)
    }
}

/// The customer with this address, if the password is right and the customer may log in.
async fn check_credentials(
    identity: &IdentityState,
    email: Email,
    password: String,
    device: &SessionDevice,
    cookie: &DeviceCookie<'_>,
) -> Result<Customer, Failure> {
    let found = store::customers::find_by_email(&identity.store, &email).await?;
    let (ip, nobody) = (device.calling.ip, PasswordHash::none());
    let known = found.as_ref().and_then(|customer| {
        let id = cookie.device_of(DeviceOwner::of(customer))?;
        Some((HashRequester::Known(customer.id, ip), Guesser::Device(customer.id, id)))
    });
    let (requester, guesser) = known.unwrap_or((HashRequester::Stranger(ip), Guesser::Stranger));
    let guess = LoginAttempt::begin(identity, &email, ip, guesser)?;
    let checked = found.as_ref().map_or(&nobody, |found| &found.password_hash);
    let is_right = passwords::is_right(identity, requester, password, checked).await?;
    let tried = found.as_ref().map(|found| found.id);
    let customer = found.filter(|_| is_right);
    if let Some(closed) = customer.as_ref().filter(|customer| customer.disabled_at.is_some())
        && store::suspensions::is_suspended(&identity.store, closed.id).await?
    {
        return Err(Failure::CustomerSuspended);
    }
    let customer = customer.filter(|customer| customer.disabled_at.is_none());
    customer.ok_or_else(|| {
        note_wrong_password(tried, device.calling.ip);
        guess.was_wrong();
        Failure::WrongCredentials
    })
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
    let customer = confirm(identity, id, current, &device.calling).await?;
    passwords::check_new(identity, &new, &customer.email)?;
    let hash = passwords::hash(identity, HashRequester::Known(id, device.calling.ip), new).await?;
    let cookie = DeviceCookie::read(identity, device.calling.cookie.as_deref());
    let owner = DeviceOwner { customer: id, password: &hash };
    let device_cookie = cookie.renewed(DeviceOwner::of(&customer), owner)?;
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
        Ok(NewLogin { customer, session, token, device_cookie })
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
    caller: &CallingDevice,
) -> Result<Customer, Failure> {
    passwords::check_length_of_given("current_password", &password)?;
    let found = store::customers::find_by_id(&identity.store, id).await?;
    let customer = found.ok_or(Failure::InvalidSession)?;
    let cookie = DeviceCookie::read(identity, caller.cookie.as_deref());
    let device = cookie.device_of(DeviceOwner::of(&customer));
    let guesser = device.map_or(Guesser::Caller, |device| Guesser::Device(id, device));
    let guess = LoginAttempt::begin(identity, &customer.email, caller.ip, guesser)?;
    let requester = HashRequester::Known(id, caller.ip);
    if passwords::is_right(identity, requester, password, &customer.password_hash).await? {
        Ok(customer)
    } else {
        note_wrong_password(Some(id), caller.ip);
        guess.was_wrong();
        Err(Failure::WrongPassword)
    }
}

/// Logs whose password was guessed wrongly, and from where. The line of the request says neither
/// for a login, because its caller is not the customer. Addresses without a customer are not named:
/// they may be passwords in the wrong field.
fn note_wrong_password(customer: Option<CustomerId>, ip: IpAddr) {
    let customer = customer.map(tracing::field::display);
    tracing::info!(customer.id = customer, client.ip = %ip, "a password was wrong");
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
