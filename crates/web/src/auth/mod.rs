//! Authentication: each handler that needs a caller takes it as an argument.
//!
//! Only the routes in `OPEN_ROUTES` and signed links to finished exports work without a caller. A
//! handler takes `Caller` (a key or a session), `FullCaller` (the same, with full scope),
//! `KeyCaller` (a key) or `SignedIn` (a session), and cannot run without one. If a key is sent, it
//! decides, because browsers add the session cookie by themselves; a wrong key never falls back to
//! the session. A request with a key and a session of different customers is always refused. The
//! control plane looks up keys and sessions each time; the data plane may use a cached key, because
//! the hold checks it again.

mod accompanying;
pub mod cookie;
pub mod csrf;
pub mod device;
mod page_visitor;
mod presented;
mod suspended;

use axum::extract::FromRef;
use axum::extract::FromRequestParts;
use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId, SessionId};
use domain::key::KeyScope;
use domain::time::MICROS_PER_SECOND;
use domain::token::{SecretToken, TokenHash};
use failures::Failure;
use http::Method;
use http::request::Parts;
use store::authority::ChangeAuthority;
use store::keys::PresentedKey;
use store::sessions::Session;

pub use accompanying::{AccompanyingCredentials, OptionalCredentials};
pub use page_visitor::{FormSecret, PageVisitor};
pub use presented::{DelegatedKey, PresentedCredential, carries_key, key_hash};

use self::suspended::{closed_session, refusal};
use crate::control_limits::QuotaShare;
use crate::error::ApiError;
use crate::extract;
use crate::middleware::real_ip::ClientAddress;
use crate::request_log::RequestRecord;
use crate::{BodyOf, WebState};

/// Operations that need no caller: (method, path template, why).
pub const OPEN_ROUTES: &[(&str, &str, &str)] = &[
    ("get", "/health", "load balancers check liveness"),
    ("get", "/v1/platforms", "customers read it before they register"),
    ("get", "/v1/platforms/{platform}/routes", "customers read it before they register"),
    ("post", "/v1/auth/register", "there is no key yet"),
    ("post", "/v1/auth/login", "there is no session yet"),
    ("get", "/v1/auth/email/verify", "the token in the emailed link is the proof"),
    ("post", "/v1/auth/email/verify", "the token in the emailed link is the proof"),
    ("post", "/v1/auth/email/resend", "the first email may be lost, and the key too"),
    ("post", "/v1/auth/password/forgot", "the caller cannot log in"),
    ("post", "/v1/auth/password/reset", "the token in the emailed link is the proof"),
    ("post", "/v1/billing/webhook", "the processor's signature is the proof"),
    ("post", "/v1/signup", "retired: it creates nothing"),
];

/// Paths that accept a key and no session, because their calls are metered.
pub const KEY_PATHS: [&str; 2] =
    ["/v1/{account}/native/{native_path}", "/v1/{account}/media/upload"];

/// Operations that accept a key and no session, on paths whose other operations accept both.
pub const KEY_OPERATIONS: &[(&str, &str)] = &[("post", "/v1/{account}/exports")];

/// Paths that accept a session and no key: they belong to a person, not to a program.
pub const SESSION_PATHS: &[&str] = &[
    "/v1/auth/logout",
    "/v1/auth/me",
    "/v1/auth/password",
    "/v1/auth/sessions",
    "/v1/auth/sessions/{session_id}",
];

/// The last use of a key or session is stored at most this often.
const TOUCH_EVERY_MICROS: i64 = 60 * MICROS_PER_SECOND;

/// A key that was used.
#[derive(Debug, Clone)]
pub struct UsedKey {
    /// Its id.
    pub id: KeyId,
    /// What it may do.
    pub scope: KeyScope,
    /// Its first characters.
    pub shown_prefix: String,
    /// The accounts it is limited to; empty: all.
    pub allowed_accounts: Vec<CreatorId>,
    /// Whether it has limits besides its scope: accounts, a budget, or an expiry.
    pub is_limited: bool,
}

/// A customer identified by a key. Anything but a read needs a key with full scope.
#[derive(Debug, Clone)]
pub struct KeyCaller {
    /// Who pays.
    pub customer: CustomerId,
    /// The key that was used.
    pub key: UsedKey,
    /// Whether the customer's address is confirmed.
    pub is_email_verified: bool,
}

/// The customer that a key identified, kept in the request's extensions even if the request is then
/// refused.
#[derive(Debug, Clone, Copy)]
pub struct AuthenticatedCustomer(pub CustomerId);

/// A customer identified by a session.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// Who is signed in.
    pub customer: CustomerId,
    /// The session.
    pub session: SessionId,
    /// Whether the customer's address is confirmed.
    pub is_email_verified: bool,
}

/// How a customer authenticated.
#[derive(Debug, Clone)]
pub enum Credential {
    /// By a key, with that key's limits.
    Key(UsedKey),
    /// By a session, which may do everything.
    Session(SessionId),
}

/// A customer identified by a key or a session. Anything but a read needs full scope, which a
/// session has.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who pays.
    pub customer: CustomerId,
    /// The key or session.
    pub by: Credential,
    /// Whether the customer's address is confirmed.
    pub is_email_verified: bool,
}

/// A caller with full scope whatever the method, as every write needs (specification 5.2).
#[derive(Debug, Clone)]
pub struct FullCaller(pub Caller);

/// A caller with full scope and no limits: it may decide what other keys may do.
#[derive(Debug, Clone)]
pub struct UnrestrictedCaller(pub Caller);

impl Caller {
    /// The key that was used; none with a session.
    pub const fn key(&self) -> Option<&UsedKey> {
        match &self.by {
            Credential::Key(key) => Some(key),
            Credential::Session(_) => None,
        }
    }

    /// Whose quota its requests count against.
    pub fn share(&self) -> QuotaShare {
        share_of(self.customer, self.key())
    }

    /// Who acts, for the audit list: the id of the key or of the session.
    pub fn actor(&self) -> String {
        match &self.by {
            Credential::Key(key) => key.id.to_string(),
            Credential::Session(session) => session.to_string(),
        }
    }

    /// The credential it acts with, for changes that check it again in their transaction.
    pub const fn authority(&self) -> ChangeAuthority {
        match &self.by {
            Credential::Key(key) => ChangeAuthority::Key(key.id),
            Credential::Session(session) => ChangeAuthority::Session(*session),
        }
    }

    /// The accounts that the caller is limited to; empty: all.
    pub fn allowed_accounts(&self) -> &[CreatorId] {
        self.key().map_or(&[], |key| key.allowed_accounts.as_slice())
    }

    /// What the caller may do.
    pub fn scope(&self) -> KeyScope {
        self.key().map_or(KeyScope::Full, |key| key.scope)
    }

    /// Whether the caller may use this account.
    pub fn may_use(&self, creator: &CreatorId) -> bool {
        let allowed = self.allowed_accounts();
        allowed.is_empty() || allowed.contains(creator)
    }
}

impl Caller {
    /// Refuses a limited key: the response would show data beyond its limits, or the request could
    /// widen them.
    pub fn refuse_limited(&self) -> Result<(), Failure> {
        if self.key().is_some_and(|key| key.is_limited) { Err(Failure::LimitedKey) } else { Ok(()) }
    }

    /// Refuses a limited key that asks for a key other than itself.
    pub fn refuse_other_keys(&self, wanted: KeyId) -> Result<(), Failure> {
        if self.key().is_some_and(|key| key.id == wanted) { Ok(()) } else { self.refuse_limited() }
    }
}

impl From<KeyCaller> for Caller {
    fn from(caller: KeyCaller) -> Self {
        Self {
            customer: caller.customer,
            by: Credential::Key(caller.key),
            is_email_verified: caller.is_email_verified,
        }
    }
}

impl From<SignedIn> for Caller {
    fn from(caller: SignedIn) -> Self {
        Self {
            customer: caller.customer,
            by: Credential::Session(caller.session),
            is_email_verified: caller.is_email_verified,
        }
    }
}

impl KeyCaller {
    /// Identifies the caller by its key, and refuses a session of another customer beside it.
    async fn find(web: &WebState, parts: &Parts) -> Result<Self, ApiError> {
        let caller = caller_of(web, parts).await?;
        RequestRecord::note_caller(&parts.extensions, caller.customer, Some(caller.key.id));
        refuse_other_session(web, parts, caller.customer).await?;
        Ok(caller)
    }
}

impl SignedIn {
    /// Identifies the caller by its session, and refuses a key of another customer beside it.
    async fn find(web: &WebState, parts: &Parts) -> Result<Self, ApiError> {
        let signed_in = signed_in(web, parts).await?;
        if presented::comes_with_key(parts) {
            let caller = caller_of(web, parts).await?;
            if caller.customer != signed_in.customer {
                return Err(ApiError::ConflictingCustomers);
            }
        }
        Ok(signed_in)
    }
}

/// Identifies the caller of a request, without counting the request and without checking what some
/// routes require in addition (a scope, no limits).
pub async fn identify(
    web: &WebState,
    parts: &Parts,
    is_for_sessions: bool,
) -> Result<Caller, ApiError> {
    if is_for_sessions {
        return SignedIn::find(web, parts).await.map(Caller::from);
    }
    if presented::comes_with_key(parts) {
        return KeyCaller::find(web, parts).await.map(Caller::from);
    }
    match signed_in(web, parts).await {
        Err(ApiError::MissingSession) => Err(ApiError::MissingKey),
        found => found.map(Caller::from),
    }
}

impl<S> FromRequestParts<S> for KeyCaller
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let web = &WebState::from_ref(state);
        let caller = Self::find(web, parts).await?;
        parts.extensions.insert(AuthenticatedCustomer(caller.customer));
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        if !is_read && caller.key.scope != KeyScope::Full {
            return Err(ApiError::Failure(Failure::ReadOnlyKey));
        }
        admit(web, parts, share_of(caller.customer, Some(&caller.key)))?;
        Ok(caller)
    }
}

impl<S> FromRequestParts<S> for SignedIn
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let web = &WebState::from_ref(state);
        let signed_in = Self::find(web, parts).await?;
        admit(web, parts, share_of(signed_in.customer, None))?;
        Ok(signed_in)
    }
}

impl<S> FromRequestParts<S> for Caller
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let web = &WebState::from_ref(state);
        if presented::comes_with_key(parts) {
            return KeyCaller::from_request_parts(parts, state).await.map(Self::from);
        }
        let caller = identify(web, parts, false).await?;
        admit(web, parts, caller.share())?;
        Ok(caller)
    }
}

impl<S> FromRequestParts<S> for UnrestrictedCaller
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let FullCaller(caller) = FullCaller::from_request_parts(parts, state).await?;
        caller.refuse_limited()?;
        Ok(Self(caller))
    }
}

impl<S> FromRequestParts<S> for FullCaller
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        if caller.scope() == KeyScope::Full {
            Ok(Self(caller))
        } else {
            Err(ApiError::Failure(Failure::ReadOnlyKey))
        }
    }
}

/// Counts the request against its customer's limits, and lets its body use the customer's share of
/// memory.
fn admit(web: &WebState, parts: &mut Parts, share: QuotaShare) -> Result<(), ApiError> {
    web.control_limits.admit_work(parts, share, web.clock.now())?;
    parts.extensions.insert(BodyOf(share.customer));
    Ok(())
}

fn share_of(customer: CustomerId, key: Option<&UsedKey>) -> QuotaShare {
    QuotaShare { customer, limited_key: key.filter(|key| key.is_limited).map(|key| key.id) }
}

/// Refuses a request whose cookie belongs to a customer other than its key's. A cookie that is no
/// longer valid is ignored: browsers keep sending it until it expires.
pub async fn refuse_other_session(
    web: &WebState,
    parts: &Parts,
    customer: CustomerId,
) -> Result<(), ApiError> {
    let Some(Ok(token)) = presented::presented_token(&parts.headers, web.cookies.cookie()) else {
        return Ok(());
    };
    let (web, hash) = (web.clone(), token.hash());
    let shared = web.clone();
    let lookup = async move { usable_session(&shared, &hash).await };
    match web.tasks.on_control(lookup).await?? {
        Some(found) if found.session.customer != customer => Err(ApiError::ConflictingCustomers),
        Some(_) | None => Ok(()),
    }
}

/// The customer that a key belongs to.
async fn caller_of(web: &WebState, parts: &Parts) -> Result<KeyCaller, ApiError> {
    let hash = key_hash(parts)?;
    let found = store::keys::find_by_hash(&web.store, &hash).await?;
    let is_closed = found.as_ref().and_then(|presented| presented.closed_customer(web.clock.now()));
    let usable = found.filter(|presented| presented.is_usable(web.clock.now()));
    let Some(presented) = usable else {
        return Err(ApiError::Failure(refusal(web, is_closed, Failure::InvalidKey).await?));
    };
    note_key_use(web, &presented).await?;
    let is_limited = presented.key.is_limited();
    Ok(KeyCaller {
        customer: presented.key.customer,
        key: UsedKey {
            id: presented.key.id,
            scope: presented.key.scope,
            shown_prefix: presented.key.shown_prefix,
            is_limited,
            allowed_accounts: presented.key.accounts,
        },
        is_email_verified: presented.email_verified_at.is_some(),
    })
}

/// The customer that a session belongs to. A change must come from a page of ours, as JSON.
async fn signed_in(web: &WebState, parts: &Parts) -> Result<SignedIn, ApiError> {
    let token = session_token(web, parts)?;
    if csrf::is_change(&parts.method) {
        refuse_forms(parts)?;
    }
    holder_of(web, parts, token.hash()).await
}

/// The session's token, if the connection may carry it and, for a change, the request comes from a
/// page of ours.
fn session_token(web: &WebState, parts: &Parts) -> Result<SecretToken, ApiError> {
    let token = presented::presented_token(&parts.headers, web.cookies.cookie());
    let token = token.ok_or(ApiError::MissingSession)??;
    let client = parts.extensions.get::<ClientAddress>().copied();
    web.cookies.check(client.ok_or(ApiError::HttpsRequired)?)?;
    if csrf::is_change(&parts.method) {
        web.own_pages().check(&parts.headers)?;
    }
    Ok(token)
}

/// The customer whose session has this token.
async fn holder_of(web: &WebState, parts: &Parts, hash: TokenHash) -> Result<SignedIn, ApiError> {
    let Some(UsableSession { session, is_email_verified }) = usable_session(web, &hash).await?
    else {
        let closed = closed_session(web, &hash).await?;
        return Err(ApiError::Failure(refusal(web, closed, Failure::InvalidSession).await?));
    };
    RequestRecord::note_caller(&parts.extensions, session.customer, None);
    note_use(web, &session).await?;
    Ok(SignedIn { customer: session.customer, session: session.id, is_email_verified })
}

/// Refuses what an HTML form can send. Sending JSON needs a script, and a script of another site
/// needs our permission. A form always sets `Content-Type`; without one the body is not read,
/// because handlers that read a body require JSON.
fn refuse_forms(parts: &Parts) -> Result<(), ApiError> {
    let is_described = parts.headers.contains_key(http::header::CONTENT_TYPE);
    if !is_described || extract::is_json(&parts.headers) {
        Ok(())
    } else {
        Err(ApiError::UnsupportedMediaType)
    }
}

/// A session that is still valid.
struct UsableSession {
    session: Session,
    /// Whether its customer's address is confirmed.
    is_email_verified: bool,
}

/// The session of a token if it is still valid.
async fn usable_session(
    web: &WebState,
    hash: &TokenHash,
) -> Result<Option<UsableSession>, store::StoreError> {
    let found = store::sessions::find_by_hash(&web.store, hash).await?;
    let lifetime = web.config.sessions.lifetime();
    let usable = found.filter(|presented| presented.is_usable(web.clock.now(), lifetime));
    Ok(usable.map(|presented| UsableSession {
        session: presented.session,
        is_email_verified: presented.email_verified_at.is_some(),
    }))
}

/// Stores a key's last use, to the minute. Native calls are in the call log and are not recorded
/// here.
async fn note_key_use(web: &WebState, presented: &PresentedKey) -> Result<(), ApiError> {
    let now = web.clock.now();
    let is_noted =
        presented.last_used_at.is_some_and(|used| now.micros_since(used) < TOUCH_EVERY_MICROS);
    if !is_noted {
        store::keys::touch(&web.store, presented.key.id, now).await?;
    }
    Ok(())
}

/// Stores a session's last use, to the minute.
async fn note_use(web: &WebState, session: &Session) -> Result<(), ApiError> {
    let now = web.clock.now();
    if now.micros_since(session.last_used_at) >= TOUCH_EVERY_MICROS {
        store::sessions::touch(&web.store, session.id, now).await?;
    }
    Ok(())
}
