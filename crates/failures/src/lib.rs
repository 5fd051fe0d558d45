//! Every way in which work of the service can fail, in the words of what it does: the services below the HTTP edge return
//! these. Which status and which code a failure has is for the edge to say.

mod account;
mod conversions;
mod export;
mod field;
mod outcome;
mod payment;

pub use account::AccountProblem;
pub use export::ExportProblem;
pub use field::FieldProblem;
pub use outcome::{NotStored, UnknownOutcome, UnknownReason};
pub use payment::{ChargePhase, ChargeUnderWay, PaymentProblem};

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::id::KeyId;
use domain::platform::Platform;
use domain::staff::Permission;
use domain::time::Timestamp;

/// Every way in which work can fail. `Display` is the sentence that the caller reads.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The key is malformed, unknown, revoked or expired; which one is not told.
    #[error("the key is not valid; check that it is complete and has not been rotated")]
    InvalidKey,
    /// The session is over, unknown or malformed; which one is not told.
    #[error("the session has ended; log in again")]
    InvalidSession,
    /// The address has no customer, its customer is closed, or the password is another.
    #[error("the email address or the password is wrong")]
    WrongCredentials,
    /// Who is signed in did not know the password.
    #[error("the current password is wrong; nothing was changed")]
    WrongPassword,
    /// A key that may only read was used for a write.
    #[error("this key is read-only; a full-scope key is needed for this request")]
    ReadOnlyKey,
    /// The account's token lacks scopes that the route needs.
    #[error("the account's access token lacks these scopes: {}", .0.join(", "))]
    MissingScope(Vec<String>),
    /// An account is not in use, or cannot be.
    #[error(transparent)]
    Account(#[from] AccountProblem),
    /// Not an account of this customer.
    #[error("there is no account with that id; `GET /v1/accounts` lists yours")]
    AccountNotFound,
    /// Nothing is there.
    #[error("{0}")]
    NotFound(&'static str),
    /// The path is not in the catalogue, and unlisted ones are refused here.
    #[error("this route is not in the catalog of {0}")]
    RouteNotListed(Platform),
    /// The balance does not cover the call.
    #[error("the balance is {balance}, this request costs {cost}")]
    InsufficientCredits {
        /// What is left.
        balance: Credits,
        /// What was asked for.
        cost: Credits,
    },
    /// The same, of a customer whose free trial waits for a confirmed email address.
    #[error(
        "the balance is {balance}, this request costs {cost}; confirm your email address to receive the {trial} \
         credits of your free trial (`POST /v1/auth/email/resend` sends the link again)"
    )]
    TrialPending {
        /// What is left.
        balance: Credits,
        /// What was asked for.
        cost: Credits,
        /// What the confirmation brings.
        trial: Credits,
    },
    /// The same, of a customer who owes credits: spent ones that a refund or a dispute took back.
    #[error(
        "{debt} credits are owed, which your next purchase pays first; the balance is {balance}, this costs {cost}"
    )]
    InDebt {
        /// What is left.
        balance: Credits,
        /// What was asked for.
        cost: Credits,
        /// What is owed.
        debt: Credits,
    },
    /// The month's budget of the key does not cover the call.
    #[error(
        "the key {key} has used {used} of the {budget} credits it may spend this UTC month, and this request \
         costs {cost}; its budget resets at {resets_at}"
    )]
    KeyBudgetExhausted {
        /// The key.
        key: KeyId,
        /// What it may spend in a month.
        budget: Credits,
        /// What it has spent and holds.
        used: Credits,
        /// What was asked for.
        cost: Credits,
        /// When the next month begins.
        resets_at: Timestamp,
    },
    /// The caller's key is limited and asked for what would widen it.
    #[error(
        "this key is limited (accounts, budget or expiry); use a session or a key without limits for this \
         request"
    )]
    LimitedKey,
    /// The caller is no staff, or may not do this as staff.
    #[error(
        "this takes the permission{} {}",
        if .0.len() == 1 { "" } else { "s" },
        .0.iter().map(|permission| permission.as_str()).collect::<Vec<_>>().join(", ")
    )]
    MissingPermission(&'static [Permission]),
    /// There is no such customer, or it does not allow staff to look; which one is not told.
    #[error("there is no customer with that id who currently allows support access")]
    SupportAccessClosed,
    /// The operation is retired.
    #[error("{0}")]
    Gone(&'static str),
    /// The customer has as many keys as it may have.
    #[error("there are already {0} keys; delete one that is no longer used")]
    TooManyKeys(i64),
    /// Uploads are offered for another platform.
    #[error(
        "uploads are available on platform_gamma only; on {0} upload media through its native routes"
    )]
    UnsupportedPlatform(Platform),
    /// Fields of the request are wrong.
    #[error("the request has invalid fields")]
    Invalid(Vec<FieldProblem>),
    /// The address has a customer already.
    #[error("a customer with this email address already exists; log in or reset the password")]
    EmailTaken,
    /// The token of a mailed link is unknown, or the link is for something else.
    #[error("this link is not valid; request a new one")]
    UnknownLink,
    /// The link was used, or another one for the same thing was.
    #[error("this link, or a newer one for the same purpose, has already been used")]
    LinkUsed,
    /// The link's time is over.
    #[error("this link has expired; request a new one")]
    LinkExpired,
    /// What the link was for is no longer wanted.
    #[error(
        "this link belongs to an email address that is no longer the customer's; request a new one"
    )]
    LinkOutdated,
    /// The credentials belong to another account of the platform than the one that is connected.
    #[error(
        "the account `{creator}` is connected as {connected}, and these credentials belong to {presented}; use another \
         creator_id, or send `\"replace_identity\": true` if `{creator}` is to be the other account from now on"
    )]
    OtherIdentity {
        /// The customer's id of the account.
        creator: CreatorId,
        /// What the platform calls the account that is connected.
        connected: String,
        /// What it calls the account of the credentials.
        presented: String,
    },
    /// The platform did not accept the credentials.
    #[error("the platform did not confirm these credentials{}", .status.map_or(String::new(), |status| format!(" (it responded {status})")))]
    VerificationFailed {
        /// What the platform answered, if it answered.
        status: Option<u16>,
    },
    /// The operator has not configured the platform.
    #[error("{0} is not offered by this deployment")]
    PlatformNotOffered(Platform),
    /// The stored credentials do not open; a new import mends it.
    #[error("the stored credentials of this account cannot be decrypted; connect it again")]
    CredentialError,
    /// The request did not reach the platform, or the platform did not look at it.
    #[error("the platform could not be reached; nothing was carried out and nothing was charged")]
    PlatformUnreachable,
    /// The platform's response broke the rules of HTTP or was cut; nothing took effect.
    #[error("the platform's response was lost or cannot be used ({0}); nothing was charged")]
    BadPlatformAnswer(&'static str),
    /// The platform did not respond in time; nothing took effect.
    #[error("the platform did not respond in time; nothing was charged")]
    PlatformTimeout,
    /// Recent calls to this account failed; none is tried for a moment.
    #[error("recent calls of this account to the platform failed; try again after `Retry-After`")]
    PlatformUnavailable {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// The platform refuses the credentials of everybody for the time being.
    #[error(
        "{0} currently refuses the credentials of all accounts, so nothing is known about these; nothing was stored or \
         charged; try again later (`GET /v1/platforms` says when it accepts credentials again)"
    )]
    PlatformRefusing(Platform),
    /// The platform asked for a pause for this account.
    #[error("the platform asked this account to slow down; nothing was sent")]
    AccountPaused {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// The key, the session, the network or the customer asked too often.
    #[error("more requests than the limit allows; see `RateLimit-Policy`")]
    RateLimited {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// Too many registrations from one network.
    #[error("too many registrations from this network; try again later")]
    TooManyRegistrations {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// Too many logins failed: for one address from one network, for one network, or for one address.
    #[error("too many logins failed for this address or from this network; try again later")]
    TooManyLogins {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// Too many emails of one kind were asked for from this network, or by this customer.
    #[error("too many emails of this kind were requested recently; try again later")]
    TooManyMails {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// Too many calls of this customer or account are running, or too many bodies of this caller are on their way.
    #[error("too many requests are running for this {0}; wait for some to end")]
    TooManyInFlight(&'static str),
    /// We cannot take more work.
    #[error("the service is busy; nothing was sent or charged")]
    Overloaded,
    /// The credits of a call could not be held: the database does not respond.
    #[error("calls cannot be metered at the moment; nothing was sent or charged")]
    NotMetered,
    /// The first request with this Idempotency-Key is still running.
    #[error("the first request with this Idempotency-Key is still running")]
    IdempotencyInProgress,
    /// The Idempotency-Key was used for another request.
    #[error("this Idempotency-Key was used for another request; use a new one")]
    IdempotencyMismatch,
    /// The first response could not be kept.
    #[error("{0}")]
    AnswerNotStored(NotStored),
    /// Nobody knows whether a write took effect.
    #[error("{0}")]
    OutcomeUnknown(UnknownOutcome),
    /// A payment, or a change of what is paid.
    #[error(transparent)]
    Payment(#[from] PaymentProblem),
    /// Something about exports.
    #[error(transparent)]
    Export(#[from] ExportProblem),
    /// The database does not answer.
    #[error("something went wrong on our side; nothing was charged")]
    Store(#[from] store::StoreError),
    /// Anything else of ours.
    #[error("something went wrong on our side; nothing was charged")]
    Internal(String),
}
