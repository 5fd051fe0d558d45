//! Phase 2, hold: the credits are set aside before anything leaves.
//!
//! A write waits until its hold is durable. A read waits for that only if its key has a budget or
//! the balance may not cover it; otherwise it is sent immediately, and its *response* waits for the
//! durable hold, which may still refuse it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{CallId, KeyId};
use domain::time::Timestamp;
use failures::Failure;
use failures::{NotStored, UnknownOutcome};
use runtime::metrics;
use store::idempotency::{ExistingRequest, StoredAnswer};
use store::metering::{
    CallResolution, Hold, HoldOutcome, HoldRefusal, PendingHold, PendingResolution,
};
use tokio::time::Instant;
use web::error::ApiError;

use super::call_context::CallContext;
use super::{idempotency, settle};

/// A hold that is being committed, or has been. It is renewed while this exists. Dropped before the
/// call was settled, because the call panicked or was cut off, it is refunded.
pub(super) struct HeldCall {
    pub(super) call: CallId,
    /// The key that pays.
    key: KeyId,
    pub(super) cost: Credits,
    /// When the hold was requested.
    since: Instant,
    /// Whether the call waits for it before it is sent.
    waits: bool,
    settled: AtomicBool,
    reservation: PendingHold,
}

/// Why a call did not get its credits.
pub(super) enum NotHeld {
    /// The call is refused.
    Refused(ApiError),
    /// A repetition of an earlier request, whose response is sent again.
    Replay(StoredAnswer),
    /// The account has changed since it was read; reading it again may help.
    Stale,
    /// The key was refused, or its permissions have changed since it was read; the call must be
    /// admitted again.
    KeyChanged,
}

/// Reserves the credits. For a write, or where the database decides, waits until they are held.
pub(super) async fn take(setting: &CallContext<'_>) -> Result<HeldCall, NotHeld> {
    let CallContext { gateway, whole, account, plan, inbound, .. } = *setting;
    let arrival = &whole.arrival;
    let held_at = setting.now;
    let call = CallId::new(held_at, gateway.random.bytes());
    let wanted = Hold {
        call_id: call,
        customer: arrival.key.customer,
        key: arrival.key.key,
        key_hash: arrival.key.hash,
        key_version: arrival.key.version,
        account: account.creator.clone(),
        account_version: account.version,
        platform: account.platform,
        method: arrival.method,
        route: std::sync::Arc::clone(plan.route.name()),
        path: arrival.native_path().to_owned(),
        cost: plan.cost,
        held_at,
        expires_at: held_at.plus_seconds(gateway.config.metering.hold_ttl_s),
        request_id: inbound.label.as_str().to_owned(),
        idempotency: idempotency::claim(whole, account, held_at),
        tag: arrival.tag.clone(),
    };
    // Only the hold's transaction knows what is left of a key's budget.
    let reserved = if arrival.method.is_read() && !arrival.key.has_budget {
        gateway.meter().reserve_read(wanted).await
    } else {
        gateway.meter().reserve(wanted).await
    };
    let mut reservation = reserved.map_err(|refusal| {
        NotHeld::Refused(match refusal {
            HoldRefusal::Insufficient { balance } => {
                ApiError::Failure(Failure::InsufficientCredits { balance, cost: plan.cost })
            }
            HoldRefusal::Overloaded => ApiError::Failure(Failure::Overloaded),
            HoldRefusal::Unavailable => ApiError::Failure(Failure::NotMetered),
            HoldRefusal::Store(error) => ApiError::Failure(Failure::Store(error)),
        })
    })?;
    reservation.keep_alive();
    let (waits, settled) = (!reservation.may_leave(), AtomicBool::new(false));
    let (key, cost, since) = (arrival.key.key, plan.cost, Instant::now());
    let mut held = HeldCall { call, key, cost, since, waits, settled, reservation };
    if waits {
        // Boxed: most reads do not wait here, and their future needs no room for it.
        Box::pin(held.durable_in_time(setting)).await?;
    }
    Ok(held)
}

impl HeldCall {
    /// Whether its hold was requested longer ago than this, if the call had to wait for it.
    pub(super) fn has_waited(&self, limit: Duration) -> bool {
        self.waits && self.since.elapsed() > limit
    }

    /// Like [`Self::durable`], before anything is sent, and for no longer than
    /// `metering.hold_wait_max_ms`. A hold that is committed later is refunded.
    async fn durable_in_time(&mut self, setting: &CallContext<'_>) -> Result<Credits, NotHeld> {
        let limit = setting.gateway.config.metering.hold_wait_max();
        if let Ok(held) = tokio::time::timeout(limit, self.durable()).await {
            return held;
        }
        let (call, waited_ms) = (self.call, limit.as_millis());
        settle::settle_unsent(setting, self);
        tracing::warn!(call.id = %call, waited_ms, "a hold was not committed in time; the call was not sent");
        Err(NotHeld::Refused(ApiError::Failure(Failure::NotMetered)))
    }

    /// Waits until the hold is committed: returns the balance after it, or why it was refused.
    pub(super) async fn durable(&mut self) -> Result<Credits, NotHeld> {
        let outcome = self.reservation.durable().await;
        if !self.waits
            && let Some(cause) = withholding_cause(&outcome)
        {
            metrics::read_withheld(cause);
        }
        if !outcome.is_held() {
            // There is nothing to settle.
            self.settled.store(true, Ordering::Relaxed);
        }
        let refused = match outcome {
            HoldOutcome::Held { balance } => return Ok(balance),
            HoldOutcome::Insufficient { balance } => {
                ApiError::Failure(Failure::InsufficientCredits { balance, cost: self.cost })
            }
            HoldOutcome::BudgetExhausted { budget, used, resets_at } => {
                let (key, cost) = (self.key, self.cost);
                ApiError::Failure(Failure::KeyBudgetExhausted {
                    key,
                    budget,
                    used,
                    cost,
                    resets_at,
                })
            }
            // Reading a refused key again tells why: it was revoked, or its customer is suspended.
            HoldOutcome::KeyRefused | HoldOutcome::KeyChanged => return Err(NotHeld::KeyChanged),
            HoldOutcome::AccountChanged => return Err(NotHeld::Stale),
            HoldOutcome::Idempotency(existing) => match existing {
                ExistingRequest::Replay(answer) => return Err(NotHeld::Replay(answer)),
                ExistingRequest::Running => ApiError::Failure(Failure::IdempotencyInProgress),
                ExistingRequest::OutcomeUnknown { call } => {
                    ApiError::Failure(Failure::OutcomeUnknown(UnknownOutcome::repeated(call)))
                }
                ExistingRequest::NotStored { call } => {
                    ApiError::Failure(Failure::AnswerNotStored(NotStored(Some(call))))
                }
                ExistingRequest::OtherRequest => ApiError::Failure(Failure::IdempotencyMismatch),
            },
            HoldOutcome::Failed(error) => {
                tracing::warn!(call.id = %self.call, %error, "a hold could not be committed");
                ApiError::Failure(Failure::NotMetered)
            }
        };
        Err(NotHeld::Refused(refused))
    }

    /// Settles the call.
    pub(super) fn resolve(&self, resolution: CallResolution) {
        self.settled.store(true, Ordering::Relaxed);
        self.reservation.resolve(resolution);
    }

    /// Like `resolve`, for callers that need to know when it is written.
    pub(super) fn resolve_and_tell(&self, resolution: CallResolution) -> PendingResolution {
        self.settled.store(true, Ordering::Relaxed);
        self.reservation.resolve_and_tell(resolution)
    }

    /// Settles the call, together with its hold if that is not written yet, and waits until the
    /// hold is.
    pub(super) async fn resolve_with_hold(
        &mut self,
        resolution: CallResolution,
    ) -> Result<Credits, NotHeld> {
        let apart = self.reservation.resolve_together(resolution);
        let balance = self.durable().await?;
        if let Some(apart) = apart {
            self.reservation.resolve_apart(apart);
        }
        self.settled.store(true, Ordering::Relaxed);
        Ok(balance)
    }
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        if *self.settled.get_mut() {
            return;
        }
        let micros = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX);
        let held_at = self.call.made_at().unwrap_or_else(|| Timestamp::from_unix_micros(0));
        let outcome = Outcome::OutcomeUnknown;
        self.reservation.resolve(CallResolution {
            call_id: self.call,
            outcome,
            status: None,
            resolved_at: held_at.plus_micros(micros),
            duration_ms: micros / 1_000,
            upstream_ms: None,
            answer: None,
            frees_key: false,
        });
        tracing::error!(call.id = %self.call, outcome = outcome.as_str(), "a call was cut off; its credits are given back");
    }
}

/// Why the response of a read is withheld whose hold had this outcome; none if it is not.
const fn withholding_cause(outcome: &HoldOutcome) -> Option<&'static str> {
    match outcome {
        HoldOutcome::Held { .. } | HoldOutcome::Idempotency(_) => None,
        HoldOutcome::Insufficient { .. } => Some("credits"),
        HoldOutcome::BudgetExhausted { .. } => Some("budget"),
        HoldOutcome::KeyRefused | HoldOutcome::KeyChanged => Some("key"),
        HoldOutcome::AccountChanged => Some("account"),
        HoldOutcome::Failed(_) => Some("database"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_a_hold_has_a_declared_cause() {
        let refusals = [
            HoldOutcome::Insufficient { balance: Credits::ZERO },
            HoldOutcome::KeyRefused,
            HoldOutcome::KeyChanged,
            HoldOutcome::AccountChanged,
            HoldOutcome::Failed(std::sync::Arc::new(store::StoreError::Stopped)),
        ];

        for refusal in refusals {
            let cause = withholding_cause(&refusal).unwrap();
            assert!(metrics::WITHHOLDING_CAUSES.contains(&cause), "{cause}");
        }
        assert_eq!(withholding_cause(&HoldOutcome::Held { balance: Credits::ZERO }), None);
    }
}
