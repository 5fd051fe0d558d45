//! Phase 6, settle: the end of the call goes on the books, exactly once.
//!
//! The writer keeps trying until it is there; the call does not wait unless a repeat must find its answer.

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::CallId;
use runtime::metrics;
use store::idempotency::StoredAnswer;
use store::metering::CallResolution;
use tokio::time::Instant;

use super::call::{CallContext, milliseconds};
use super::hold::{HeldCall, NotHeld};

/// How a call ended.
pub(super) struct CallEnding {
    pub(super) outcome: Outcome,
    /// The status that the caller sees.
    pub(super) status: Option<u16>,
    pub(super) upstream_ms: Option<f64>,
    /// When.
    pub(super) at: Instant,
    /// The answer to give again, for calls with an `Idempotency-Key`.
    pub(super) stored: Option<StoredAnswer>,
    /// Whether the platform said that it did nothing, so that the key is free again.
    pub(super) frees_key: bool,
}

impl CallEnding {
    /// An end without an answer of the platform.
    pub(super) fn of(outcome: Outcome, status: Option<u16>) -> Self {
        let at = Instant::now();
        Self { outcome, status, upstream_ms: None, at, stored: None, frees_key: false }
    }
}

/// A call whose end was handed to the writer. What it says to the log comes last: nothing that becomes of the log may
/// keep the settlement or the response.
#[must_use = "the log and the metrics learn of the end of a call"]
pub(super) struct EndedCall {
    call: CallId,
    outcome: Outcome,
    status: Option<u16>,
    credits: i64,
    duration_ms: f64,
    upstream_ms: Option<f64>,
}

/// Hands the end of the call to the writer.
pub(super) fn settle(setting: &CallContext<'_>, held: &HeldCall, ending: CallEnding) -> EndedCall {
    let (ended, resolution) = resolved(setting, held, ending);
    held.reservation.resolve(resolution);
    ended
}

/// Ends a call that does not leave. It has a line in the log as the refused request that it is.
pub(super) fn settle_unsent(setting: &CallContext<'_>, held: &HeldCall) {
    let ending = CallEnding::of(Outcome::NotDispatched, None);
    held.reservation.resolve(resolved(setting, held, ending).1);
}

/// The same, for a call whose answer is still here. Gives the balance once the hold is durable, and where a repeat of the
/// call must find what became of it, once its end is as well; the caller waits for that no
/// longer than for a hold. The writer continues, and until the end is committed a repeat gets 409 `idempotency_in_progress`.
pub(super) async fn settle_before_answer(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    ending: CallEnding,
) -> Result<(Credits, EndedCall), NotHeld> {
    let (ended, resolution) = resolved(setting, held, ending);
    if setting.whole.arrival.idempotency.is_none() {
        held.reservation.resolve(resolution);
        return Ok((held.durable().await?, ended));
    }
    let settled = held.reservation.resolve_and_tell(resolution);
    let balance = held.durable().await?;
    let limit = setting.gateway.config.metering.hold_wait_max();
    // Boxed: few calls have an `Idempotency-Key`.
    drop(Box::pin(tokio::time::timeout(limit, settled)).await);
    Ok((balance, ended))
}

/// What the log is told, and what goes to the writer.
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
    /// Tells the log and the metrics: the last thing that is done for a call. `code` is that of a failure of ours.
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
