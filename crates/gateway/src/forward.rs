//! Phase 4, forward: the request is sent within its time limit, and a write at most once.
//!
//! A read is retried once, if no byte of a response arrived and the connection was a reused one or
//! was refused. A write is never retried.

use domain::charge::Outcome;
use domain::repeat::PlatformStatus;
use failures::Failure;
use failures::UnknownOutcome;
use platform_client::{CallErrorKind, ClientError, PlatformResponse};
use web::error::ApiError;

use super::call_context::CallContext;
use super::hold::HeldCall;
use super::pacing;
use super::prepare::{self, CallDestination};

/// How long after its hold a call may still be sent. Protects against a process that was suspended
/// in between.
const DISPATCH_GUARD: std::time::Duration = std::time::Duration::from_secs(5);

/// A call without a usable response.
pub(super) struct ForwardFailure {
    pub(super) outcome: Outcome,
    pub(super) error: ApiError,
    /// Whether the platform did nothing, according to the head of its response.
    pub(super) frees_key: bool,
}

impl ForwardFailure {
    /// The call was never sent.
    pub(super) const fn not_dispatched(error: ApiError) -> Self {
        Self { outcome: Outcome::NotDispatched, error, frees_key: true }
    }
}

/// Whether the hold is too old for the call to be sent.
pub(super) fn is_late(held: &HeldCall) -> bool {
    held.has_waited(DISPATCH_GUARD)
}

/// Sends the call, and retries it once where that is safe.
pub(super) async fn forward(
    setting: &CallContext<'_>,
    held: &HeldCall,
    destination: &CallDestination<'_>,
) -> Result<PlatformResponse, ForwardFailure> {
    let CallContext { gateway, target, whole, account, .. } = *setting;
    if is_late(held) {
        return Err(ForwardFailure::not_dispatched(ApiError::Failure(Failure::Overloaded)));
    }
    gateway.retry_budget.record_call();
    let mut may_retry = whole.arrival.method.is_read();
    loop {
        let request = prepare::request(setting, destination, held.call)
            .map_err(ForwardFailure::not_dispatched)?;
        match gateway.accounts().upstream.send(target, request).await {
            Ok(answer) => return Ok(answer),
            Err(error) if may_retry && error.retryable && gateway.retry_budget.take() => {
                may_retry = false;
                pacing::charge_again(setting);
            }
            Err(error) => {
                if !matches!(error.kind, CallErrorKind::Signing(_)) {
                    account.health.breaker.failed(gateway.clock.now());
                }
                note(setting, held, &error);
                return Err(failure(setting, held, &error, None));
            }
        }
    }
}

/// Logs why there is no response. What concerns security, or this side, is a warning: a request
/// that could not be signed, and a platform that could not prove who it is.
fn note(setting: &CallContext<'_>, held: &HeldCall, error: &ClientError) {
    let (call, platform) = (&held.call, setting.platform().as_str());
    let cause = error.source.as_deref().map(tracing::field::display);
    match error.kind {
        CallErrorKind::Signing(_) | CallErrorKind::Tls => {
            tracing::warn!(call.id = %call, platform, %error, cause, "a call was not sent");
        }
        _ => {
            tracing::debug!(call.id = %call, platform, %error, cause, "no response from the platform");
        }
    }
}

/// What a call without a usable response means for the caller and for the ledger. `responded` is
/// what the head of the response said, if it arrived.
pub(super) fn failure(
    setting: &CallContext<'_>,
    held: &HeldCall,
    error: &ClientError,
    responded: Option<PlatformStatus>,
) -> ForwardFailure {
    if error.kind == CallErrorKind::Build {
        return ForwardFailure::not_dispatched(ApiError::Failure(Failure::Internal(
            error.to_string(),
        )));
    }
    let arrival = &setting.whole.arrival;
    let frees_key = responded.is_some_and(PlatformStatus::is_not_carried_out);
    let is_harmless = arrival.method.is_read() || !error.sent || frees_key;
    let reported = if is_harmless {
        Failure::of_harmless(error).into()
    } else {
        let status = responded.map(|responded| responded.status);
        let has_key = arrival.idempotency.is_some();
        ApiError::Failure(Failure::OutcomeUnknown(UnknownOutcome::of(
            error, held.call, status, has_key,
        )))
    };
    ForwardFailure { outcome: outcome_of(error), error: reported, frees_key }
}

/// The outcome under which a call without a usable response is logged.
pub(super) const fn outcome_of(error: &ClientError) -> Outcome {
    match error.kind {
        _ if !error.sent => Outcome::ConnectFailed,
        CallErrorKind::Timeout(_) => Outcome::UpstreamTimeout,
        CallErrorKind::BadResponse(_)
        | CallErrorKind::Closed
        | CallErrorKind::Connect
        | CallErrorKind::Tls
        | CallErrorKind::Build
        | CallErrorKind::Signing(_) => Outcome::BadResponse,
    }
}
