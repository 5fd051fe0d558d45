//! Every way a request can fail, and the only place that turns a failure into HTTP (RFC 9457).
//! A handler returns an `ApiError`; its row in the table gives the stable code, the status and the title.
//! The body is written by `render`, called by the outermost layer, which knows the request's id.

pub(crate) mod accounts;
pub(crate) mod exports;
pub(crate) mod failure;
mod of_runtime;
pub(crate) mod outcome;
pub(crate) mod payments;
pub(crate) mod reference;
pub(crate) mod render;
mod table;

use axum::response::{IntoResponse, Response};
use domain::account::CreatorId;
use domain::credits::Credits;
use domain::field_error::FieldErrorKind;
use domain::id::KeyId;
use domain::staff::Permission;
use domain::time::Timestamp;

use crate::middleware::framing::FrameProblem;
use table::{Row, callers};

/// Every way a request can fail. `Display` is the `detail` that the caller reads.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The head of the request breaks a rule of HTTP or of ours.
    #[error("{0}")]
    Frame(#[from] FrameProblem),
    /// No key was sent.
    #[error(
        "send your key as `X-API-Key: …` or `Authorization: Bearer …`, or log in where a session is accepted"
    )]
    MissingKey,
    /// The key is malformed, unknown, revoked or expired; which one is not told.
    #[error("the key is not valid; check that it is complete and has not been rotated")]
    InvalidKey,
    /// Two headers carry two different keys.
    #[error("`X-API-Key` and `Authorization` carry different keys; send one")]
    AmbiguousKey,
    /// A session's cookie and a key of different customers came together.
    #[error("the session's cookie and the key belong to different customers; send one of them")]
    ConflictingCustomers,
    /// No session was sent to a route that takes nothing else.
    #[error("this route needs a session; log in with `POST /v1/auth/login`")]
    MissingSession,
    /// The session is over, unknown or malformed; which one is not told.
    #[error("the session has ended; log in again")]
    InvalidSession,
    /// The address has no customer, its customer is closed, or the password is another.
    #[error("the email address or the password is wrong")]
    WrongCredentials,
    /// Who is signed in did not know the password.
    #[error("the current password is wrong; nothing was changed")]
    WrongPassword,
    /// A browser may have been made to send the request by another site's page.
    #[error("the request does not come from a page of this service (`Sec-Fetch-Site`, `Origin`)")]
    CrossSite,
    /// Sessions do not travel unencrypted, nor do keys through a proxy where the public address is https.
    #[error(
        "sessions and keys need https; a proxy in front of the service must say with `X-Forwarded-Proto: https` that \
         its caller's connection is encrypted"
    )]
    HttpsRequired,
    /// A key that may only read was used for a write.
    #[error("this key is read-only; a full-scope key is needed for this request")]
    ReadOnlyKey,
    /// The account's token lacks scopes that the route needs.
    #[error("the account's access token lacks these scopes: {}", .0.join(", "))]
    MissingScope(Vec<String>),
    /// An account is not in use, or cannot be.
    #[error(transparent)]
    Account(#[from] accounts::AccountProblem),
    /// Not an account of this customer.
    #[error("there is no account with that id; `GET /v1/accounts` lists yours")]
    AccountNotFound,
    /// Nothing is there.
    #[error("{0}")]
    NotFound(&'static str),
    /// The path is not in the catalogue, and unlisted ones are refused here.
    #[error("this route is not in the catalog of {0}")]
    RouteNotListed(domain::platform::Platform),
    /// The path exists, the method does not.
    #[error("this path does not support that method; see the `Allow` header")]
    MethodNotAllowed,
    /// A method that no platform is called with. The router names the methods of its other paths itself.
    #[error("native calls are made with GET, POST, PUT, PATCH or DELETE")]
    NativeMethod,
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
    UnsupportedPlatform(domain::platform::Platform),
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
    PlatformNotOffered(domain::platform::Platform),
    /// The stored credentials do not open; a new import mends it.
    #[error("the stored credentials of this account cannot be decrypted; connect it again")]
    CredentialError,
    /// The request certainly did not reach the platform, or the platform did not look at it.
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
    PlatformRefusing(domain::platform::Platform),
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
    #[error("too many emails of this kind were asked for lately; try again later")]
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
    #[error("calls cannot be metered for the moment; nothing was sent or charged")]
    NotMetered,
    /// The first request with this Idempotency-Key is still running.
    #[error("the first request with this Idempotency-Key is still running")]
    IdempotencyInProgress,
    /// The Idempotency-Key was used for another request.
    #[error("this Idempotency-Key was used for another request; use a new one")]
    IdempotencyMismatch,
    /// The Idempotency-Key header has no usable form.
    #[error("`Idempotency-Key` must be given once, with 1 to 255 visible ASCII characters")]
    InvalidIdempotencyKey,
    /// The first response could not be kept.
    #[error("{0}")]
    AnswerNotStored(outcome::NotStored),
    /// Nobody knows whether a write took effect.
    #[error("{0}")]
    OutcomeUnknown(outcome::UnknownOutcome),
    /// The body is larger than allowed.
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    /// An upload or a part of it is larger than allowed.
    #[error("{0} is larger than {1} bytes")]
    UploadTooLarge(&'static str, u64),
    /// The body came too slowly.
    #[error("the body did not arrive in time")]
    BodyTimeout,
    /// The body's framing is broken or the caller hung up.
    #[error("the body could not be read completely")]
    BrokenBody,
    /// The path or the query has a form that is never forwarded.
    #[error("the path or query cannot be forwarded: {0}")]
    InvalidPath(String),
    /// The body is not what the route takes.
    #[error("send the body as `Content-Type: application/json`")]
    UnsupportedMediaType,
    /// More than one range was asked for.
    #[error("request one range at a time")]
    SeveralRanges,
    /// The body is not a form.
    #[error("send the file as `Content-Type: multipart/form-data` with a boundary")]
    NotAForm,
    /// A payment, or a change of what is paid.
    #[error(transparent)]
    Payment(#[from] payments::PaymentProblem),
    /// Something about exports.
    #[error(transparent)]
    Export(#[from] exports::ExportProblem),
    /// The database does not answer.
    #[error("something went wrong on our side; nothing was charged")]
    Store(#[from] store::StoreError),
    /// Anything else of ours.
    #[error("something went wrong on our side; nothing was charged")]
    Internal(String),
}

/// One wrong field, in the shape that API tools know.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct FieldProblem {
    /// Where it is: `body`, `query`, `path` or `header`, then the way down to the field.
    pub(crate) loc: Vec<String>,
    /// What is wrong, and what to send instead.
    pub(crate) msg: String,
    /// What kind of mistake it is.
    #[serde(rename = "type")]
    pub(crate) kind: FieldErrorKind,
}

impl FieldProblem {
    /// A problem with one field of the place (`body`, `query`, `path`, `header`).
    pub(crate) fn new(
        place: &str,
        field: &str,
        kind: FieldErrorKind,
        msg: impl Into<String>,
    ) -> Self {
        Self { loc: vec![place.to_owned(), field.to_owned()], msg: msg.into(), kind }
    }
}

impl From<catalog::FieldProblem> for FieldProblem {
    fn from(problem: catalog::FieldProblem) -> Self {
        Self { loc: problem.location, msg: problem.message, kind: problem.kind }
    }
}

impl ApiError {
    /// The row of the table that this failure has.
    pub(crate) fn row(&self) -> Row {
        match self {
            Self::Frame(problem) => failure::frame_row(*problem),
            Self::MissingKey => callers::MISSING_KEY,
            Self::InvalidKey => callers::INVALID_KEY,
            Self::AmbiguousKey => callers::AMBIGUOUS_KEY,
            Self::ConflictingCustomers => callers::CONFLICTING_CUSTOMERS,
            Self::MissingSession => callers::MISSING_SESSION,
            Self::InvalidSession => callers::INVALID_SESSION,
            Self::WrongCredentials => callers::WRONG_CREDENTIALS,
            Self::WrongPassword => callers::WRONG_PASSWORD,
            Self::CrossSite => callers::CROSS_SITE,
            Self::HttpsRequired => callers::HTTPS_REQUIRED,
            Self::ReadOnlyKey => callers::READ_ONLY_KEY,
            Self::MissingScope(_) => table::MISSING_SCOPE,
            Self::Account(problem) => problem.row(),
            Self::AccountNotFound => table::ACCOUNT_NOT_FOUND,
            Self::NotFound(_) => table::NOT_FOUND,
            Self::RouteNotListed(_) => table::ROUTE_NOT_LISTED,
            Self::MethodNotAllowed | Self::NativeMethod => table::METHOD_NOT_ALLOWED,
            Self::InsufficientCredits { .. } | Self::TrialPending { .. } | Self::InDebt { .. } => {
                table::INSUFFICIENT_CREDITS
            }
            Self::KeyBudgetExhausted { .. } => callers::KEY_BUDGET_EXHAUSTED,
            Self::TooManyKeys(_) => callers::TOO_MANY_KEYS,
            Self::UnsupportedPlatform(_) => table::UNSUPPORTED_PLATFORM,
            Self::LimitedKey => callers::LIMITED_KEY,
            Self::MissingPermission(_) => callers::MISSING_PERMISSION,
            Self::SupportAccessClosed => callers::SUPPORT_ACCESS_CLOSED,
            Self::Gone(_) => table::GONE,
            Self::Invalid(_) => table::INVALID,
            Self::EmailTaken => callers::EMAIL_TAKEN,
            Self::UnknownLink => callers::UNKNOWN_LINK,
            Self::LinkUsed => callers::LINK_USED,
            Self::LinkExpired => callers::LINK_EXPIRED,
            Self::LinkOutdated => callers::LINK_OUTDATED,
            Self::OtherIdentity { .. } => table::OTHER_IDENTITY,
            Self::VerificationFailed { .. } => table::VERIFICATION_FAILED,
            Self::PlatformNotOffered(_) => table::PLATFORM_NOT_OFFERED,
            Self::CredentialError => table::CREDENTIAL_ERROR,
            Self::PlatformUnreachable => table::PLATFORM_UNREACHABLE,
            Self::BadPlatformAnswer(_) => table::BAD_PLATFORM_ANSWER,
            Self::PlatformTimeout => table::PLATFORM_TIMEOUT,
            Self::PlatformUnavailable { .. } => table::PLATFORM_UNAVAILABLE,
            Self::PlatformRefusing(_) => table::PLATFORM_REFUSING,
            Self::AccountPaused { .. } => table::ACCOUNT_PAUSED,
            Self::RateLimited { .. } => table::RATE_LIMITED,
            Self::TooManyRegistrations { .. } => callers::TOO_MANY_REGISTRATIONS,
            Self::TooManyLogins { .. } => callers::TOO_MANY_LOGINS,
            Self::TooManyMails { .. } => callers::TOO_MANY_MAILS,
            Self::TooManyInFlight(_) => table::TOO_MANY_IN_FLIGHT,
            Self::Overloaded => table::OVERLOADED,
            Self::IdempotencyInProgress => table::IDEMPOTENCY_IN_PROGRESS,
            Self::IdempotencyMismatch => table::IDEMPOTENCY_MISMATCH,
            Self::InvalidIdempotencyKey => table::INVALID_IDEMPOTENCY_KEY,
            Self::AnswerNotStored(_) => table::ANSWER_NOT_STORED,
            Self::OutcomeUnknown(unknown) => unknown.row(),
            Self::BodyTooLarge(_) | Self::UploadTooLarge(..) => table::BODY_TOO_LARGE,
            Self::BodyTimeout => table::BODY_TIMEOUT,
            Self::BrokenBody => table::BROKEN_BODY,
            Self::InvalidPath(_) => table::INVALID_PATH,
            Self::SeveralRanges => table::SEVERAL_RANGES,
            Self::UnsupportedMediaType | Self::NotAForm => table::UNSUPPORTED_MEDIA_TYPE,
            Self::Payment(problem) => problem.row(),
            Self::Export(problem) => problem.row(),
            Self::NotMetered => table::DATABASE_UNAVAILABLE,
            Self::Store(error) if error.is_outage() => table::DATABASE_UNAVAILABLE,
            Self::Store(_) | Self::Internal(_) => table::INTERNAL,
        }
    }

    /// The row for a request that changes nothing or certainly changed nothing (`is_harmless`), or for one that
    /// may have been carried out before it failed.
    pub(crate) fn row_of(&self, is_harmless: bool) -> Row {
        match self {
            Self::Store(error) if !is_harmless && error.is_outage() => {
                table::DATABASE_UNAVAILABLE_IN_CHANGE
            }
            Self::Store(_) | Self::Internal(_) if !is_harmless => table::INTERNAL_IN_CHANGE,
            _ => self.row(),
        }
    }

    /// The wrong fields of a failure that is a 422: each of those has them.
    pub(crate) fn field_problems(&self) -> Option<Vec<FieldProblem>> {
        match self {
            Self::Invalid(problems) => Some(problems.clone()),
            Self::IdempotencyMismatch => {
                let kind = FieldErrorKind::AlreadyUsed;
                Some(vec![FieldProblem::new("header", "Idempotency-Key", kind, self.to_string())])
            }
            Self::Export(problem) => problem.field_problem().map(|problem| vec![problem]),
            _ if self.row().status == http::StatusCode::UNPROCESSABLE_ENTITY => {
                let (loc, kind) = (vec!["request".to_owned()], FieldErrorKind::NotAllowed);
                Some(vec![FieldProblem { loc, msg: self.to_string(), kind }])
            }
            _ => None,
        }
    }

    /// Milliseconds after which the same request may succeed, where that is known.
    fn retry_after_ms(&self) -> Option<i64> {
        match self {
            Self::PlatformUnavailable { retry_after_ms }
            | Self::AccountPaused { retry_after_ms }
            | Self::RateLimited { retry_after_ms }
            | Self::TooManyRegistrations { retry_after_ms }
            | Self::TooManyLogins { retry_after_ms }
            | Self::TooManyMails { retry_after_ms } => Some(*retry_after_ms),
            Self::TooManyInFlight(_)
            | Self::Overloaded
            | Self::NotMetered
            | Self::IdempotencyInProgress => Some(1_000),
            Self::PlatformRefusing(_) => Some(60_000),
            Self::Payment(problem) => problem.retry_after_ms(),
            Self::Export(problem) => problem.retry_after_ms(),
            Self::Store(error) if error.is_outage() => Some(1_000),
            _ => None,
        }
    }
}

/// Marks the response to a request that may be repeated although it failed on our side: it was refused before it did
/// anything, or its `Idempotency-Key` keeps it from taking effect twice.
#[derive(Clone, Copy)]
pub(crate) struct Harmless;

/// A failure on its way out: rendered into the body by the outermost layer.
#[derive(Clone)]
pub(crate) struct Pending(pub(crate) std::sync::Arc<ApiError>);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.row().status.into_response();
        response.extensions_mut().insert(Pending(std::sync::Arc::new(self)));
        response
    }
}
