//! Every way in which the service's work can fail, in the terms of that work. The services below
//! the HTTP edge return these; the edge chooses the status and the code.

mod account;
mod conversions;
mod export;
mod field;
mod operator;
mod outcome;
mod payment;

pub use account::AccountProblem;
pub use export::ExportProblem;
pub use field::FieldProblem;
pub use operator::OperatorProblem;
pub use outcome::{NotStored, UnknownOutcome, UnknownReason};
pub use payment::{ChargePhase, ChargeUnderWay, PaymentProblem};

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::id::KeyId;
use domain::platform::Platform;
use domain::staff::Permission;
use domain::time::Timestamp;

/// Every way in which work can fail. `Display` is the message that the caller reads.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The key is malformed, unknown, revoked or expired; we do not say which.
    #[error("the key is not valid; check that it is complete and has not been rotated")]
    InvalidKey,
    /// The operator suspended the customer.
    #[error(
        "this customer is suspended; nothing was sent or charged, and nothing is lost; contact the operator of this \
         service"
    )]
    CustomerSuspended,
    /// The session has ended, or is unknown or malformed; we do not say which.
    #[error("the session has ended; log in again")]
    InvalidSession,
    /// No customer has this address, its customer is closed, or the password is wrong.
    #[error("the email address or the password is wrong")]
    WrongCredentials,
    /// The signed-in customer sent a wrong password.
    #[error("the current password is wrong; nothing was changed")]
    WrongPassword,
    /// A key that may only read was used for a write.
    #[error("this key is read-only; a full-scope key is needed for this request")]
    ReadOnlyKey,
    /// The account's token lacks scopes that the route needs.
    #[error("the account's access token lacks these scopes: {}", .0.join(", "))]
    MissingScope(Vec<String>),
    /// The account is inactive, or cannot be activated.
    #[error(transparent)]
    Account(#[from] AccountProblem),
    /// Not an account of this customer.
    #[error("there is no account with that id; `GET /v1/accounts` lists yours")]
    AccountNotFound,
    /// Nothing exists there.
    #[error("{0}")]
    NotFound(&'static str),
    /// The path is not in the catalogue, and this deployment refuses unlisted paths.
    #[error("this route is not in the catalog of {0}")]
    RouteNotListed(Platform),
    /// The balance does not cover the call.
    #[error("the balance is {balance}, this request costs {cost}")]
    InsufficientCredits {
        /// What is left.
        balance: Credits,
        /// What the request costs.
        cost: Credits,
    },
    /// The balance does not cover the call, and the customer's free trial waits for a confirmed
    /// email address.
    #[error(
        "the balance is {balance}, this request costs {cost}; confirm your email address to receive the {trial} \
         credits of your free trial (`POST /v1/auth/email/resend` sends the link again)"
    )]
    TrialPending {
        /// What is left.
        balance: Credits,
        /// What the request costs.
        cost: Credits,
        /// The credits that confirmation grants.
        trial: Credits,
    },
    /// The balance does not cover the call, and the customer owes credits that were taken back
    /// after they had been spent.
    #[error(
        "{debt} credits are owed, which your next purchase pays first; the balance is {balance}, this costs {cost}"
    )]
    InDebt {
        /// What is left.
        balance: Credits,
        /// What the request costs.
        cost: Credits,
        /// What is owed.
        debt: Credits,
    },
    /// The key's monthly budget does not cover the call.
    #[error(
        "the key {key} has used, or holds for requests that are running, {used} of the {budget} credits it may spend \
         this UTC month, and this request costs {cost}; its budget resets at {resets_at}"
    )]
    KeyBudgetExhausted {
        /// The key.
        key: KeyId,
        /// What it may spend in a month.
        budget: Credits,
        /// What it has spent or holds.
        used: Credits,
        /// What the request costs.
        cost: Credits,
        /// When the next month begins.
        resets_at: Timestamp,
    },
    /// The request costs more than its caller allows.
    #[error(
        "this request costs {cost}, and its `X-Max-Cost` allows {max}; nothing was sent or charged"
    )]
    CostAboveMax {
        /// What the request costs.
        cost: Credits,
        /// What the caller allows.
        max: Credits,
    },
    /// The customer has used the maximum number of different tags today.
    #[error(
        "{0} different values of `X-Tag` have been used today, which is the maximum; use one of them, or wait for \
         the next UTC day"
    )]
    TooManyTags(usize),
    /// The caller's key is limited, and the request would widen its rights.
    #[error(
        "this key is limited (accounts, budget or expiry); use a session or a key without limits for this \
         request"
    )]
    LimitedKey,
    /// The caller is not staff, or lacks a permission.
    #[error(
        "this takes the permission{} {}",
        if .0.len() == 1 { "" } else { "s" },
        .0.iter().map(|permission| permission.as_str()).collect::<Vec<_>>().join(", ")
    )]
    MissingPermission(&'static [Permission]),
    /// There is no such customer, or it does not allow support access; we do not say which.
    #[error("there is no customer with that id who currently allows support access")]
    SupportAccessClosed,
    /// The operation is retired.
    #[error("{0}")]
    Gone(&'static str),
    /// The customer has reached the maximum number of keys.
    #[error("there are already {0} keys; delete one that is no longer used")]
    TooManyKeys(i64),
    /// Uploads are not available on this platform.
    #[error(
        "uploads are available on platform_gamma only; on {0} upload media through its native routes"
    )]
    UnsupportedPlatform(Platform),
    /// Fields of the request are invalid.
    #[error("the request has invalid fields")]
    Invalid(Vec<FieldProblem>),
    /// Another customer has this address.
    #[error("a customer with this email address already exists; log in or reset the password")]
    EmailTaken,
    /// The token of an emailed link is unknown, or the link is for something else.
    #[error("this link is not valid; request a new one")]
    UnknownLink,
    /// The link, or another one for the same purpose, has been used.
    #[error("this link, or a newer one for the same purpose, has already been used")]
    LinkUsed,
    /// The link has expired.
    #[error("this link has expired; request a new one")]
    LinkExpired,
    /// The link's purpose is outdated.
    #[error(
        "this link belongs to an email address that is no longer the customer's; request a new one"
    )]
    LinkOutdated,
    /// The credentials belong to a different account of the platform from the connected one.
    #[error(
        "the account `{creator}` is connected as {connected}, and these credentials belong to {presented}; use another \
         creator_id, or send `\"replace_identity\": true` if `{creator}` is to be the other account from now on"
    )]
    OtherIdentity {
        /// The customer's id of the account.
        creator: CreatorId,
        /// The platform's id of the connected account.
        connected: String,
        /// The platform's id of the account that the credentials belong to.
        presented: String,
    },
    /// The platform did not accept the credentials.
    #[error("the platform did not confirm these credentials{}", .status.map_or(String::new(), |status| format!(" (it responded {status})")))]
    VerificationFailed {
        /// The platform's status, if it responded.
        status: Option<u16>,
    },
    /// The operator has not configured the platform.
    #[error("{0} is not offered by this deployment")]
    PlatformNotOffered(Platform),
    /// The stored credentials cannot be decrypted; connecting the account again fixes that.
    #[error("the stored credentials of this account cannot be decrypted; connect it again")]
    CredentialError,
    /// The stored credentials cannot be sent as the platform is configured now.
    #[error(
        "the stored credentials of this account cannot be used: {0}; connect it again with others"
    )]
    CredentialsUnusable(String),
    /// The request did not reach the platform, or the platform did not process it.
    #[error("the platform could not be reached; nothing was carried out and nothing was charged")]
    PlatformUnreachable,
    /// The platform's response broke the rules of HTTP or was cut off; nothing took effect.
    #[error("the platform's response was lost or cannot be used ({0}); nothing was charged")]
    BadPlatformAnswer(&'static str),
    /// The platform did not respond in time; nothing took effect.
    #[error("the platform did not respond in time; nothing was charged")]
    PlatformTimeout,
    /// Recent calls to this account failed; calls are refused for a moment.
    #[error("recent calls of this account to the platform failed; try again after `Retry-After`")]
    PlatformUnavailable {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// The account's access token is being refreshed, and the token endpoint takes long.
    #[error(
        "the access token of this account is being refreshed, which takes long; nothing was carried out or charged; \
         try again after `Retry-After`"
    )]
    TokenBeingRefreshed,
    /// The platform currently refuses the credentials of all accounts.
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
    /// The account's requests to its platform are paced, and its turn is too far away.
    #[error("this account sends more requests than its platform may get; nothing was sent")]
    AccountPaced {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// The key, the session, the network or the customer exceeded its rate limit.
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
    /// Too many logins failed: for one address from one network, for one network, or for one
    /// address.
    #[error("too many logins failed for this address or from this network; try again later")]
    TooManyLogins {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// Too many emails of one kind were requested from this network or by this customer.
    #[error("too many emails of this kind were requested recently; try again later")]
    TooManyMails {
        /// When to try again.
        retry_after_ms: i64,
    },
    /// Too many calls of this customer or account are running, or too many bodies of this caller
    /// are being received.
    #[error("too many requests are running for this {0}; wait for some to end")]
    TooManyInFlight(&'static str),
    /// The service cannot take more work.
    #[error("the service is busy; nothing was sent or charged")]
    Overloaded,
    /// The credits of a call could not be held, because the database does not respond.
    #[error("calls cannot be metered at the moment; nothing was sent or charged")]
    NotMetered,
    /// The first request with this Idempotency-Key is still running.
    #[error("the first request with this Idempotency-Key is still running")]
    IdempotencyInProgress,
    /// The Idempotency-Key was used for another request.
    #[error("this Idempotency-Key was used for another request; use a new one")]
    IdempotencyMismatch,
    /// The first response could not be stored.
    #[error("{0}")]
    AnswerNotStored(NotStored),
    /// It is unknown whether a write took effect.
    #[error("{0}")]
    OutcomeUnknown(UnknownOutcome),
    /// A payment, or a change of what is paid for, failed.
    #[error(transparent)]
    Payment(#[from] PaymentProblem),
    /// A request concerning exports failed.
    #[error(transparent)]
    Export(#[from] ExportProblem),
    /// An operator's command was refused.
    #[error(transparent)]
    Operator(#[from] OperatorProblem),
    /// The database does not respond.
    #[error("something went wrong on our side; nothing was charged")]
    Store(#[from] store::StoreError),
    /// Any other failure on our side.
    #[error("something went wrong on our side; nothing was charged")]
    Internal(String),
}
