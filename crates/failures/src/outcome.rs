//! What a request to a platform without a usable response means for its caller.
//!
//! A read may be repeated, and so may a write that was not sent. For any other write only the
//! platform knows whether it took effect; we can only say so.

use std::fmt;

use domain::id::CallId;
use platform_client::{CallErrorKind, ClientError};

use crate::Failure;

/// A write that may or may not have taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownOutcome {
    /// The call in the log; `None` for a request to one of the service's own routes.
    pub call: Option<CallId>,
    /// Why the outcome is unknown.
    pub reason: UnknownReason,
    /// The status of the platform's response, if its head arrived.
    pub platform_status: Option<u16>,
    /// Whether the request came with an `Idempotency-Key`.
    pub has_key: bool,
}

/// Why it is unknown whether a write took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownReason {
    /// There is no usable response; the text says why.
    Unusable(&'static str),
    /// The response, or the rest of it, did not arrive in time.
    Late,
    /// It is a repetition, and the outcome of the first request with its `Idempotency-Key` is
    /// unknown.
    Repeated,
    /// The same, for a request to one of the service's own routes.
    RepeatedHere,
}

/// The response to the first request with an `Idempotency-Key` could not be stored, because it is
/// too large. Contains the call in the log; `None` for a request to one of the service's own
/// routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotStored(pub Option<CallId>);

impl fmt::Display for NotStored {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the first request was carried out, and its response could not be stored")?;
        self.0.map_or(Ok(()), |call| write!(to, "; its call is {call}"))
    }
}

impl UnknownOutcome {
    /// The outcome of a write that may have been sent and failed like this.
    pub fn of(
        error: &ClientError,
        call: CallId,
        platform_status: Option<u16>,
        has_key: bool,
    ) -> Self {
        let reason = match error.kind {
            CallErrorKind::Timeout(_) => UnknownReason::Late,
            CallErrorKind::BadResponse(what) => UnknownReason::Unusable(what),
            CallErrorKind::Closed
            | CallErrorKind::Connect
            | CallErrorKind::Tls
            | CallErrorKind::Build
            | CallErrorKind::Signing(_) => UnknownReason::Unusable(CLOSED),
        };
        Self { call: Some(call), reason, platform_status, has_key }
    }

    /// The outcome of the first request with a key, for a repetition.
    pub const fn repeated(call: CallId) -> Self {
        let reason = UnknownReason::Repeated;
        Self { call: Some(call), reason, platform_status: None, has_key: true }
    }

    /// The same, for a request to one of the service's own routes.
    pub const fn of_own_request() -> Self {
        let reason = UnknownReason::RepeatedHere;
        Self { call: None, reason, platform_status: None, has_key: true }
    }
}

const CLOSED: &str = "the connection was closed before it began";

impl fmt::Display for UnknownOutcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            UnknownReason::Unusable(what) => {
                write!(to, "the platform's response was lost or cannot be used ({what})")?;
            }
            UnknownReason::Late => to.write_str("the platform's response timed out")?,
            UnknownReason::Repeated => to.write_str(
                "the platform's response to the first request with this Idempotency-Key was lost",
            )?,
            UnknownReason::RepeatedHere => {
                return to.write_str(
                    "the first request with this Idempotency-Key was interrupted on our side and may have taken effect; \
                     check whether it took effect, and repeat it with a new Idempotency-Key only if it did not",
                );
            }
        }
        to.write_str(
            "; the request may have taken effect, and nothing was charged. Check on the platform whether it \
             did, and repeat it only if it did not, ",
        )?;
        to.write_str(if self.has_key {
            "with a new Idempotency-Key"
        } else {
            "with an `Idempotency-Key`: repetitions under one key are sent once"
        })
    }
}

impl Failure {
    /// The failure of a read without a usable response, or of a write that the platform certainly
    /// did not carry out.
    pub const fn of_harmless(error: &ClientError) -> Self {
        match error.kind {
            _ if !error.sent => Self::PlatformUnreachable,
            CallErrorKind::Timeout(_) => Self::PlatformTimeout,
            CallErrorKind::BadResponse(what) => Self::BadPlatformAnswer(what),
            CallErrorKind::Closed
            | CallErrorKind::Connect
            | CallErrorKind::Tls
            | CallErrorKind::Build
            | CallErrorKind::Signing(_) => Self::BadPlatformAnswer(CLOSED),
        }
    }
}
