//! Logging in and changing the password: who knows the password of a customer, and what that begins.
//!
//! Guesses are limited for each customer and network together, so that nobody can lock a customer out from
//! elsewhere. An address that nobody has costs and answers what a wrong password does.

use std::net::IpAddr;

use domain::customer::Email;
use domain::id::{CustomerId, SessionId};
use domain::token::Token;
use store::customers::{Customer, PasswordHash};
use store::sessions::{Login, NewSession, PasswordChange};

use crate::app::App;
use crate::audit::{self, Deed};
use crate::auth::device::Device;
use crate::error::ApiError;
use crate::middleware::real_ip::neighbourhood_of;
use crate::passwords;

/// A session that began, with its token, which is shown to its device and kept nowhere.
pub(crate) struct Begun {
    /// Who is signed in.
    pub(crate) customer: Customer,
    /// The session as it was stored.
    pub(crate) session: NewSession,
    /// Its token.
    pub(crate) token: Token,
}

/// Begins a session for whoever knows the password. The session that the device held before ends.
pub(crate) async fn log_in(
    app: &App,
    email: Email,
    password: String,
    device: &Device,
) -> Result<Begun, ApiError> {
    passwords::check_length_of_given("password", &password)?;
    let guess = Guess::begin(app, &email, device.ip)?;
    let found = store::customers::find_by_email(&app.store, &email).await?;
    let nobody = PasswordHash::none();
    let checked = found.as_ref().map_or(&nobody, |customer| &customer.password_hash);
    let is_right = passwords::is_right(app, password.clone(), checked).await?;
    let customer = found.filter(|customer| is_right && customer.disabled_at.is_none());
    let customer = customer.ok_or(ApiError::WrongCredentials)?;
    guess.was_right(app);
    let rehashed = if passwords::is_out_of_date(&customer.password_hash) {
        Some(passwords::hash(app, password).await?)
    } else {
        None
    };
    let (session, token) = new_session(app, customer.id, device);
    let login = Login {
        session: &session,
        checked: &customer.password_hash,
        rehashed: rehashed.as_ref(),
        replaced: device.held,
        sessions_max: app.config.sessions.per_customer_max,
    };
    if store::sessions::log_in(&app.store, &login).await? {
        Ok(Begun { customer, session, token })
    } else {
        Err(ApiError::WrongCredentials)
    }
}

/// Replaces the password of a customer who knows the old one: every session ends, and the calling device
/// gets a new one.
pub(crate) async fn change_password(
    app: &App,
    id: CustomerId,
    (current, new): (String, String),
    device: &Device,
) -> Result<Begun, ApiError> {
    if let Some(problem) = passwords::problem_of_new("new_password", &new) {
        return Err(problem.into());
    }
    let customer = confirm(app, id, current, device.ip).await?;
    let hash = passwords::hash(app, new).await?;
    let (session, token) = new_session(app, customer.id, device);
    let deed = Deed {
        customer: customer.id,
        actor: session.id.to_string(),
        action: audit::PASSWORD_CHANGED,
        details: format!("from {}; every other session ended", session.network),
    };
    let entry = deed.now(&app.clock, &app.random);
    let change = PasswordChange {
        session: &session,
        checked: &customer.password_hash,
        new: &hash,
        entry: &entry,
    };
    if store::sessions::change_password(&app.store, &change).await? {
        Ok(Begun { customer, session, token })
    } else {
        Err(ApiError::WrongPassword)
    }
}

/// Asks a customer who is signed in for the password again: what must not be done with a session that was
/// left open. `password` is the field `current_password` of the body.
pub(crate) async fn confirm(
    app: &App,
    id: CustomerId,
    password: String,
    ip: IpAddr,
) -> Result<Customer, ApiError> {
    passwords::check_length_of_given("current_password", &password)?;
    let found = store::customers::find_by_id(&app.store, id).await?;
    let customer = found.ok_or(ApiError::InvalidSession)?;
    let guess = Guess::begin(app, &customer.email, ip)?;
    if passwords::is_right(app, password, &customer.password_hash).await? {
        guess.was_right(app);
        Ok(customer)
    } else {
        Err(ApiError::WrongPassword)
    }
}

/// A try at the password of an address from a network. It is counted before the password is checked, so that
/// many at once gain nothing, and no longer once it was right.
struct Guess((Email, IpAddr));

impl Guess {
    fn begin(app: &App, email: &Email, ip: IpAddr) -> Result<Self, ApiError> {
        let guess = Self((email.clone(), neighbourhood_of(ip)));
        let decision = app.wrong_passwords.check(guess.0.clone(), 1, app.clock.now());
        match decision.retry_after_ms {
            None => Ok(guess),
            Some(retry_after_ms) => Err(ApiError::TooManyLogins { retry_after_ms }),
        }
    }

    fn was_right(self, app: &App) {
        app.wrong_passwords.give_back(self.0, 1, app.clock.now());
    }
}

fn new_session(app: &App, customer: CustomerId, device: &Device) -> (NewSession, Token) {
    let token = Token::new(app.random.bytes());
    let now = app.clock.now();
    let session = NewSession {
        id: SessionId::new(now, app.random.bytes()),
        customer,
        token_hash: token.hash(),
        user_agent: device.user_agent.clone(),
        network: device.network(),
        created_at: now,
    };
    (session, token)
}
