//! Phase 4, forward: the request leaves, within its time, at most once for a write.
//!
//! A read is tried a second time if no byte of an answer came and the connection was an old one or refused;
//! a write never is.

use clients::platform::{Answer, ClientError, Kind};
use domain::charge::Outcome;

use super::admit::Content;
use super::call::Setting;
use super::hold::Held;
use super::prepare::{self, Destination};
use crate::error::ApiError;

/// How late after its hold a call may still leave: protects against a process that was stopped in between.
const DISPATCH_GUARD: std::time::Duration = std::time::Duration::from_secs(5);

/// A call that got no usable answer.
pub(super) struct Failure {
    pub(super) outcome: Outcome,
    pub(super) error: ApiError,
}

impl Failure {
    /// The call never left.
    pub(super) const fn not_dispatched(error: ApiError) -> Self {
        Self { outcome: Outcome::NotDispatched, error }
    }
}

/// Whether the hold is too old for the call to leave.
pub(super) fn is_late(held: &Held) -> bool {
    held.since.is_some_and(|since| since.elapsed() > DISPATCH_GUARD)
}

/// Sends the call, and once more where that is safe.
pub(super) async fn forward(
    setting: &Setting<'_>,
    held: &Held,
    destination: &Destination<'_>,
) -> Result<Answer, Failure> {
    let Setting { app, target, whole, account, .. } = *setting;
    if is_late(held) {
        return Err(Failure::not_dispatched(ApiError::Overloaded));
    }
    app.retry_budget.record_call();
    let mut may_retry = whole.arrival.method.is_read();
    loop {
        let request =
            prepare::request(setting, destination, held.call).map_err(Failure::not_dispatched)?;
        let sending = app.upstream().send(target, request);
        let sent = match &whole.content {
            Content::Native(_) => sending.await,
            Content::Upload(_) => Box::pin(held.alive_during(app, sending)).await,
        };
        match sent {
            Ok(answer) => return Ok(answer),
            Err(error) if may_retry && error.retryable && app.retry_budget.take() => {
                may_retry = false;
            }
            Err(error) => {
                account.health.breaker.failed(app.clock.now());
                tracing::debug!(call.id = %held.call, %error, "no answer from the platform");
                return Err(failure(&error));
            }
        }
    }
}

/// What a failure to get an answer means for the caller and for the books.
pub(super) fn failure(error: &ClientError) -> Failure {
    match error.kind {
        Kind::Build => Failure::not_dispatched(ApiError::Internal(error.to_string())),
        Kind::Timeout(_) if error.sent => {
            Failure { outcome: Outcome::UpstreamTimeout, error: ApiError::PlatformTimeout }
        }
        Kind::BadResponse(what) => {
            Failure { outcome: Outcome::BadResponse, error: ApiError::BadPlatformAnswer(what) }
        }
        Kind::Connect | Kind::Tls | Kind::Timeout(_) | Kind::Closed => Failure {
            outcome: if error.sent { Outcome::BadResponse } else { Outcome::ConnectFailed },
            error: ApiError::PlatformUnreachable,
        },
    }
}
