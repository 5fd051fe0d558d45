//! Phase 6, settle: the end of the call goes on the books, exactly once.
//!
//! The writer keeps trying until it is there; the call does not wait unless a repeat must find its answer.

use domain::charge::Outcome;
use domain::credits::Credits;
use store::idempotency::StoredAnswer;
use store::metering::Resolution;
use tokio::time::Instant;

use super::call::{Setting, milliseconds};
use super::hold::{Held, NotHeld};
use crate::metrics;

/// How a call ended.
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    /// The status that the caller sees.
    pub(super) status: Option<u16>,
    pub(super) upstream_ms: Option<f64>,
    /// When.
    pub(super) at: Instant,
    /// The answer to give again, for calls with an `Idempotency-Key`.
    pub(super) stored: Option<StoredAnswer>,
}

impl Ending {
    /// An end without an answer of the platform.
    pub(super) fn of(outcome: Outcome, status: Option<u16>) -> Self {
        Self { outcome, status, upstream_ms: None, at: Instant::now(), stored: None }
    }
}

/// Hands the end of the call to the writer, and tells the log and the metrics.
pub(super) fn settle(setting: &Setting<'_>, held: &Held, ending: Ending) {
    let resolution = told(setting, held, ending);
    held.reservation.resolve(resolution);
}

/// The same, for a call whose answer is still here. Gives the balance once the hold is durable, and where a repeat of the
/// call must find what became of it, once its end is as well.
pub(super) async fn settle_before_answer(
    setting: &Setting<'_>,
    held: &mut Held,
    ending: Ending,
) -> Result<Credits, NotHeld> {
    if setting.whole.arrival.idempotency.is_none() {
        settle(setting, held, ending);
        return held.durable().await;
    }
    let resolved = held.reservation.resolve_and_tell(told(setting, held, ending));
    let balance = held.durable().await?;
    resolved.await;
    Ok(balance)
}

/// Tells the log and the metrics; gives what goes to the writer.
fn told(setting: &Setting<'_>, held: &Held, ending: Ending) -> Resolution {
    let duration_ms = milliseconds(setting.started, ending.at);
    let resolution = Resolution {
        call_id: held.call,
        outcome: ending.outcome,
        status: ending.status,
        resolved_at: setting.app.clock.now(),
        duration_ms: whole(duration_ms),
        upstream_ms: ending.upstream_ms.map(whole),
        answer: ending.stored,
    };
    let credits = if ending.outcome.is_charged() { held.cost.whole() } else { 0 };
    tracing::info!(
        call.id = %held.call,
        request.id = setting.request_id,
        customer.id = %setting.account.customer,
        account = setting.account.creator.as_str(),
        platform = setting.platform().as_str(),
        route = &**setting.plan.route.name(),
        status = ending.status,
        outcome = ending.outcome.as_str(),
        credits,
        duration_ms,
        upstream_ms = ending.upstream_ms,
        "call ended"
    );
    metrics::call_ended(setting.platform(), ending.outcome, duration_ms, ending.upstream_ms);
    resolution
}

#[expect(clippy::cast_possible_truncation, reason = "a duration in milliseconds fits")]
fn whole(milliseconds: f64) -> i64 {
    milliseconds.round() as i64
}
