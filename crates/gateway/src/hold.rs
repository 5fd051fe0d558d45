//! Phase 2, hold: the credits are set aside before anything leaves.
//!
//! A write waits until its hold is durable. A read waits for that only if its key has a budget or
//! the balance may not cover it; otherwise it is sent immediately, and its *response* waits for the
//! durable hold, which may still refuse it.

use domain::credits::Credits;
use domain::id::{CallId, KeyId};
use failures::Failure;
use failures::{NotStored, UnknownOutcome};
use runtime::metrics;
use store::idempotency::{ExistingRequest, StoredAnswer};
use store::metering::{Hold, HoldOutcome, HoldRefusal, PendingHold};
use web::error::ApiError;

use super::call_context::CallContext;
use super::{idempotency, settle};

/// A hold that is being committed, or has been.
pub(super) struct HeldCall {
    pub(super) call: CallId,
    /// The key that pays.
    key: KeyId,
    pub(super) cost: Credits,
    /// When the hold was requested, on the monotonic clock; `None` if the call need not wait for
    /// it.
    pub(super) since: Option<tokio::time::Instant>,
    pub(super) reservation: PendingHold,
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
        idempotency: idempotency::claim(whole, held_at),
        tag: arrival.tag.clone(),
    };
    // Only the hold's transaction knows what is left of a key's budget.
    let reserved = if arrival.method.is_read() && !arrival.key.has_budget {
        gateway.meter().reserve_read(wanted).await
    } else {
        gateway.meter().reserve(wanted).await
    };
    let reservation = reserved.map_err(|refusal| {
        NotHeld::Refused(match refusal {
            HoldRefusal::Insufficient { balance } => {
                ApiError::Failure(Failure::InsufficientCredits { balance, cost: plan.cost })
            }
            HoldRefusal::Overloaded => ApiError::Failure(Failure::Overloaded),
            HoldRefusal::Unavailable => ApiError::Failure(Failure::NotMetered),
            HoldRefusal::Store(error) => ApiError::Failure(Failure::Store(error)),
        })
    })?;
    let may_leave = reservation.may_leave();
    let since = (!may_leave).then(tokio::time::Instant::now);
    let mut held = HeldCall { call, key: arrival.key.key, cost: plan.cost, since, reservation };
    if !may_leave {
        // Boxed: most reads do not wait here, and their future needs no room for it.
        Box::pin(held.durable_in_time(setting)).await?;
    }
    Ok(held)
}

impl HeldCall {
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
        if self.since.is_none()
            && let Some(cause) = withholding_cause(&outcome)
        {
            metrics::read_withheld(cause);
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

    /// Waits for work that may take long, and renews the hold every minute, so that it does not
    /// expire meanwhile.
    pub(super) async fn alive_during<T>(
        &self,
        gateway: &crate::state::GatewayState,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let mut minute = tokio::time::interval(std::time::Duration::from_mins(1));
        minute.tick().await;
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = minute.tick() => self.renew(gateway),
            }
        }
    }

    fn renew(&self, gateway: &crate::state::GatewayState) {
        let expires_at = gateway.clock.now().plus_seconds(gateway.config.metering.hold_ttl_s);
        self.reservation.renew(expires_at);
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
