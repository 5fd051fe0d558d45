//! Phase 6, settle: the end of the call is recorded in the ledger, exactly once.
//!
//! The writer retries until the settlement is committed. The call waits for that only if a
//! repetition must find its response, or the credits that come back.

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::CallId;
use runtime::metrics;
use store::idempotency::StoredAnswer;
use store::metering::CallResolution;
use tokio::time::Instant;

use super::call_context::{CallContext, milliseconds};
use super::hold::{HeldCall, NotHeld};

/// How a call ended.
pub(super) struct CallEnding {
    pub(super) outcome: Outcome,
    /// The status that the caller sees.
    pub(super) status: Option<u16>,
    pub(super) upstream_ms: Option<f64>,
    /// When it ended.
    pub(super) at: Instant,
    /// The response to replay, for calls with an `Idempotency-Key`.
    pub(super) stored: Option<StoredAnswer>,
    /// Whether the platform said that it did nothing, so that the key can be used again.
    pub(super) frees_key: bool,
}

impl CallEnding {
    /// A call that ended without a response from the platform.
    pub(super) fn of(outcome: Outcome, status: Option<u16>) -> Self {
        let at = Instant::now();
        Self { outcome, status, upstream_ms: None, at, stored: None, frees_key: false }
    }
}

/// A call whose end was passed to the writer. It is logged last, so that a problem with the log
/// cannot delay the settlement or the response.
#[must_use = "report the end of the call to the log and the metrics"]
pub(super) struct EndedCall {
    call: CallId,
    outcome: Outcome,
    status: Option<u16>,
    credits: i64,
    duration_ms: f64,
    upstream_ms: Option<f64>,
}

/// Passes the end of the call to the writer.
pub(super) fn settle(setting: &CallContext<'_>, held: &HeldCall, ending: CallEnding) -> EndedCall {
    let (ended, resolution) = resolved(setting, held, ending);
    held.resolve(resolution);
    ended
}

/// Ends a call that is never sent. The log has it as a refused request.
pub(super) fn settle_unsent(setting: &CallContext<'_>, held: &HeldCall) {
    let ending = CallEnding::of(Outcome::NotDispatched, None);
    held.resolve(resolved(setting, held, ending).1);
}

/// Settles a call whose response has not been sent yet. Returns the balance once the hold is
/// durable and, if the call is free or has an `Idempotency-Key`, once its end is durable too: the
/// caller may repeat it immediately. It waits for the latter no longer than for a hold; then the
/// writer continues, and until it commits a repetition gets 409 `idempotency_in_progress`, or may
/// not be covered.
pub(super) async fn settle_before_answer(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    ending: CallEnding,
) -> Result<(Credits, EndedCall), NotHeld> {
    let (ended, resolution) = resolved(setting, held, ending);
    if setting.whole.arrival.idempotency.is_some() || !ended.outcome.is_charged() {
        // Boxed: few calls are free or have an `Idempotency-Key`.
        let balance = Box::pin(settle_for_repetition(setting, held, resolution)).await?;
        return Ok((balance, ended));
    }
    let balance = held.resolve_with_hold(resolution).await?;
    Ok((balance, ended))
}

async fn settle_for_repetition(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    resolution: CallResolution,
) -> Result<Credits, NotHeld> {
    let settled = held.resolve_and_tell(resolution);
    let balance = held.durable().await?;
    let limit = setting.gateway.config.metering.hold_wait_max();
    drop(tokio::time::timeout(limit, settled).await);
    Ok(balance)
}

/// Settles a call whose response is being streamed, and waits until its credits are back if it is
/// free, for no longer than for a hold.
pub(super) async fn settle_before_end(
    setting: &CallContext<'_>,
    held: &HeldCall,
    ending: CallEnding,
) -> EndedCall {
    let (ended, resolution) = resolved(setting, held, ending);
    let settled = held.resolve_and_tell(resolution);
    if !ended.outcome.is_charged() {
        let limit = setting.gateway.config.metering.hold_wait_max();
        drop(tokio::time::timeout(limit, settled).await);
    }
    ended
}

/// The values for the log, and those for the writer.
fn resolved(
    setting: &CallContext<'_>,
    held: &HeldCall,
    ending: CallEnding,
) -> (EndedCall, CallResolution) {
    let CallEnding { outcome, status, upstream_ms, at, stored, frees_key } = ending;
    let duration_ms = milliseconds(setting.inbound.started, at);
    let credits = if outcome.is_charged() { held.cost.whole() } else { 0 };
    let resolution = CallResolution {
        call_id: held.call,
        outcome,
        status,
        resolved_at: setting.gateway.clock.now(),
        duration_ms: whole(duration_ms),
        upstream_ms: upstream_ms.map(whole),
        answer: stored,
        frees_key,
    };
    let ended = EndedCall { call: held.call, outcome, status, credits, duration_ms, upstream_ms };
    (ended, resolution)
}

impl EndedCall {
    /// Reports the call to the log and the metrics, as the last step. `code` is the code of our own
    /// failure, if any.
    pub(super) fn report(self, setting: &CallContext<'_>, code: Option<&'static str>) {
        let arrival = &setting.whole.arrival;
        let Self { call, outcome, status, credits, duration_ms, upstream_ms } = self;
        metrics::call_ended(setting.platform(), outcome, duration_ms, upstream_ms);
        tracing::info!(
            call.id = %call,
            request.id = setting.inbound.label.as_str(),
            client.ip = %setting.inbound.client_ip,
            customer.id = %setting.account.customer,
            key.id = %arrival.key.key,
            method = arrival.method.as_str(),
            account = setting.account.creator.as_str(),
            platform = setting.platform().as_str(),
            route = &**setting.plan.route.name(),
            status,
            code,
            outcome = outcome.as_str(),
            credits,
            duration_ms,
            upstream_ms,
            "call ended"
        );
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a duration in milliseconds fits")]
fn whole(milliseconds: f64) -> i64 {
    milliseconds.round() as i64
}
