//! Every way a request can fail, and the only place that turns a failure into HTTP (RFC 9457). A
//! handler returns an `ApiError`; its row in the table has the stable code, the status and the
//! title. `render` writes the body; the outermost layer calls it, because it knows the request's
//! id.

pub mod accounts;
pub mod documented;
pub mod exports;
mod of_failure;
pub mod payments;
pub mod reference;
pub mod render;
mod table;

use axum::response::{IntoResponse, Response};
use domain::field_error::FieldErrorKind;
use failures::{Failure, FieldProblem};
use table::{FailureRow, callers};

use crate::middleware::framing::FrameProblem;

/// Every way a request can fail. `Display` is the `detail` that the caller reads.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The head of the request breaks a rule of HTTP or of this service.
    #[error("{0}")]
    Frame(#[from] FrameProblem),
    /// No key was sent.
    #[error(
        "send your key as `X-API-Key: …` or `Authorization: Bearer …`, or log in where a session is accepted"
    )]
    MissingKey,
    /// Two headers carry two different keys.
    #[error("`X-API-Key` and `Authorization` carry different keys; send one")]
    AmbiguousKey,
    /// The session cookie and the key belong to different customers.
    #[error("the session's cookie and the key belong to different customers; send one of them")]
    ConflictingCustomers,
    /// No session was sent to a route that accepts nothing else.
    #[error("this route needs a session; log in with `POST /v1/auth/login`")]
    MissingSession,
    /// Another site's page may have made a browser send the request.
    #[error("the request does not come from a page of this service (`Sec-Fetch-Site`, `Origin`)")]
    CrossSite,
    /// Sessions need an encrypted connection; so do keys sent through a proxy if the public address
    /// is https.
    #[error(
        "sessions and keys need https; a proxy in front of the service must say with `X-Forwarded-Proto: https` that \
         its caller's connection is encrypted"
    )]
    HttpsRequired,
    /// The path exists, but not with this method.
    #[error("this path does not support that method; see the `Allow` header")]
    MethodNotAllowed,
    /// A method that no platform accepts. For other paths the router lists the allowed methods
    /// itself.
    #[error("native calls are made with GET, POST, PUT, PATCH or DELETE")]
    NativeMethod,
    /// The Idempotency-Key header has no usable form.
    #[error("`Idempotency-Key` must be given once, with 1 to 255 visible ASCII characters")]
    InvalidIdempotencyKey,
    /// `X-Max-Cost` has no usable form.
    #[error("`X-Max-Cost` must be given once, as a whole number of credits from 0 to 999999999")]
    InvalidMaxCost,
    /// `X-Tag` has no usable form.
    #[error(
        "`X-Tag` must be given once, with 1 to 64 letters, digits, `.`, `_`, `:`, `/` or `-`, starting with a letter \
         or a digit"
    )]
    InvalidTag,
    /// The body is larger than allowed.
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    /// An upload or a part of it is larger than allowed.
    #[error("{0} is larger than {1} bytes")]
    UploadTooLarge(&'static str, u64),
    /// The body arrived too slowly.
    #[error("the body did not arrive in time")]
    BodyTimeout,
    /// The body's framing is broken, or the caller disconnected.
    #[error("the body could not be read completely")]
    BrokenBody,
    /// The path or the query has a form that is never forwarded to a platform.
    #[error("the path or query cannot be forwarded: {0}")]
    InvalidPath(String),
    /// The route does not accept a body of this type.
    #[error("send the body as `Content-Type: application/json`")]
    UnsupportedMediaType,
    /// The request asks for more than one range.
    #[error("request one range at a time")]
    SeveralRanges,
    /// The body is not a form.
    #[error("send the file as `Content-Type: multipart/form-data` with a boundary")]
    NotAForm,
    /// A service failed to do the work.
    #[error(transparent)]
    Failure(Failure),
}

impl ApiError {
    /// The row of the table for this failure.
    pub fn row(&self) -> FailureRow {
        match self {
            Self::Frame(problem) => documented::frame_row(*problem),
            Self::MissingKey => callers::MISSING_KEY,
            Self::AmbiguousKey => callers::AMBIGUOUS_KEY,
            Self::ConflictingCustomers => callers::CONFLICTING_CUSTOMERS,
            Self::MissingSession => callers::MISSING_SESSION,
            Self::CrossSite => callers::CROSS_SITE,
            Self::HttpsRequired => callers::HTTPS_REQUIRED,
            Self::MethodNotAllowed | Self::NativeMethod => table::METHOD_NOT_ALLOWED,
            Self::InvalidIdempotencyKey => table::INVALID_IDEMPOTENCY_KEY,
            Self::InvalidMaxCost => callers::INVALID_MAX_COST,
            Self::InvalidTag => callers::INVALID_TAG,
            Self::BodyTooLarge(_) | Self::UploadTooLarge(..) => table::BODY_TOO_LARGE,
            Self::BodyTimeout => table::BODY_TIMEOUT,
            Self::BrokenBody => table::BROKEN_BODY,
            Self::InvalidPath(_) => table::INVALID_PATH,
            Self::SeveralRanges => table::SEVERAL_RANGES,
            Self::UnsupportedMediaType | Self::NotAForm => table::UNSUPPORTED_MEDIA_TYPE,
            Self::Failure(failure) => of_failure::row(failure),
        }
    }

    /// The row for a request that changes nothing or certainly changed nothing (`is_harmless`), or
    /// for one that may have taken effect before it failed.
    pub fn row_of(&self, is_harmless: bool) -> FailureRow {
        match self {
            Self::Failure(Failure::Store(error)) if !is_harmless && error.is_outage() => {
                table::DATABASE_UNAVAILABLE_IN_CHANGE
            }
            Self::Failure(Failure::Store(_) | Failure::Internal(_)) if !is_harmless => {
                table::INTERNAL_IN_CHANGE
            }
            _ => self.row(),
        }
    }

    /// The wrong fields, if the failure is a 422; every 422 has at least one.
    pub fn field_problems(&self) -> Option<Vec<FieldProblem>> {
        match self {
            Self::Failure(Failure::Invalid(problems)) => Some(problems.clone()),
            Self::Failure(Failure::IdempotencyMismatch) => {
                let kind = FieldErrorKind::AlreadyUsed;
                Some(vec![FieldProblem::new("header", "Idempotency-Key", kind, self.to_string())])
            }
            Self::Failure(Failure::Export(problem)) => {
                exports::field_problem(problem).map(|problem| vec![problem])
            }
            _ if self.row().status == http::StatusCode::UNPROCESSABLE_ENTITY => {
                let (loc, kind) = (vec!["request".to_owned()], FieldErrorKind::NotAllowed);
                Some(vec![FieldProblem { loc, msg: self.to_string(), kind }])
            }
            _ => None,
        }
    }
}

impl ApiError {
    /// Members of the problem besides the code, for programs.
    pub fn members(&self) -> serde_json::Map<String, serde_json::Value> {
        match self {
            Self::Failure(failure) => of_failure::members(failure),
            _ => serde_json::Map::new(),
        }
    }

    /// Milliseconds after which the same request may succeed, if known.
    fn retry_after_ms(&self) -> Option<i64> {
        match self {
            Self::Failure(failure) => of_failure::retry_after_ms(failure),
            _ => None,
        }
    }
}

/// Every failure of a service is also a failure of the request.
impl<E: Into<Failure>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

/// Marks the response to a request that failed on our side and is safe to repeat: it was refused
/// before it did anything, or its `Idempotency-Key` keeps it from taking effect twice.
#[derive(Clone, Copy)]
pub struct HarmlessFailure;

/// A failure on its way out; the outermost layer renders it as the body.
#[derive(Clone)]
pub struct PendingFailure(pub std::sync::Arc<ApiError>);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.row().status.into_response();
        response.extensions_mut().insert(PendingFailure(std::sync::Arc::new(self)));
        response
    }
}
