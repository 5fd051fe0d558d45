//! Pacing of calls: each waits for its turn before anything is held for it.

use std::sync::Arc;

use accounts::pacing::{AccountPace, PaceClass, PaceSlot};
use domain::method::Method;
use domain::time::Timestamp;
use failures::Failure;

use super::account_entry::AccountEntry;
use super::answer::AnswerSender;
use super::call_context::CallContext;
use super::limits;
use super::routes::KnownRoute;
use crate::state::GatewayState;

/// How long a page of an export waits for its turn, in milliseconds.
const OWN_WAIT_MS: i64 = 60_000;

/// When a call may be sent.
pub(super) enum CallTurn {
    /// It did not have to wait.
    Now,
    /// It has waited until this time.
    Later(Timestamp),
    /// It was waiting when its caller disconnected.
    CallerLeft,
}

/// The pace of a call; `None` if it is not paced.
fn of<'a>(
    account: &'a AccountEntry,
    route: &KnownRoute,
    method: Method,
) -> Option<(&'a Arc<AccountPace>, PaceClass)> {
    let pace = account.pace.as_ref()?;
    Some((pace, pace.rule().class_of(method.is_read(), route.is_sensitive())?))
}

/// Waits for the call's turn while its caller waits. Nothing is held meanwhile but its permits and
/// its body.
pub(super) async fn turn(
    gateway: &GatewayState,
    account: &AccountEntry,
    route: &KnownRoute,
    method: Method,
    answer: &mut AnswerSender,
) -> Result<CallTurn, Failure> {
    let Some((pace, class)) = of(account, route, method) else { return Ok(CallTurn::Now) };
    let taking = pace.take(class, pace.rule().max_wait_ms, &gateway.clock);
    let slot = tokio::select! {
        biased;
        taken = taking => taken.map_err(|refusal| Failure::AccountPaced {
            retry_after_ms: refusal.retry_after_ms,
        })?,
        () = answer.abandoned() => return Ok(CallTurn::CallerLeft),
    };
    if !slot.has_waited {
        slot.spend();
        return Ok(CallTurn::Now);
    }
    let now = gateway.clock.now();
    limits::check_health(account, now)?;
    slot.spend();
    Ok(CallTurn::Later(now))
}

/// Gives the turn of a call back that is not sent.
pub(super) fn give_back(setting: &CallContext<'_>) {
    let CallContext { account, plan, whole, .. } = setting;
    if let Some((pace, class)) = of(account, &plan.route, whole.arrival.method) {
        pace.give_back(class);
    }
}

/// Counts one more request of a call, which does not wait for its turn.
pub(super) fn charge_again(setting: &CallContext<'_>) {
    let CallContext { gateway, account, plan, whole, .. } = setting;
    if let Some((pace, class)) = of(account, &plan.route, whole.arrival.method) {
        pace.charge(class, gateway.clock.now());
    }
}

/// Counts a request of our own that keeps the account connected, and does not wait for its turn.
pub(super) fn charge_own(gateway: &GatewayState, account: &AccountEntry, is_read: bool) {
    let Some(pace) = &account.pace else { return };
    if let Some(class) = pace.rule().class_of(is_read, false) {
        pace.charge(class, gateway.clock.now());
    }
}

/// Waits for the turn of a page of an export, for longer than calls wait. Returns how long to wait
/// before trying again if even that is too short.
pub(super) async fn own_turn(
    gateway: &GatewayState,
    account: &AccountEntry,
    is_sensitive: bool,
) -> Result<(), i64> {
    let Some(pace) = &account.pace else { return Ok(()) };
    let Some(class) = pace.rule().class_of(true, is_sensitive) else { return Ok(()) };
    let patience_ms = pace.rule().max_wait_ms.max(OWN_WAIT_MS);
    let slot = pace.take(class, patience_ms, &gateway.clock).await;
    slot.map(PaceSlot::spend).map_err(|refusal| refusal.retry_after_ms)
}
