//! One call from its arrival to its end: the phases in order, and nothing else.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use domain::charge::Outcome;
use domain::credits::Credits;
use failures::Failure;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use tokio::time::Instant;
use web::error::{ApiError, HarmlessFailure};
use web::middleware::body;
use web::middleware::budget::BudgetRoom;

use super::account_entry::AccountEntry;
use super::admit::{self, CallEntrance, RequestHead, Whole};
use super::answer::{self, AnswerSender, CallReceipt};
use super::cache::KeyEntry;
use super::call_context::{CallContext, milliseconds};
use super::fetch::{AnswerTiming, FetchedAnswer, Unreceived, fetch};
use super::forward::{self, ForwardFailure};
use super::hold::{self, HeldCall, NotHeld};
use super::inbound::{InboundRequest, refuse};
use super::limits;
use super::pacing::{self, CallTurn};
use super::prepare::{self, CallDestination};
use super::receive::{self, Content, Copy, ReceivedAnswer};
use super::settle::{self, CallEnding};
use super::{balance, cache, idempotency, observe, refresh, upload};
use crate::state::GatewayState;

/// Sends one call to the platform, charges it, and writes its log line. It runs to its end whatever
/// the caller does. The phases borrow its arguments: a value moved between them would take room in
/// each future.
pub(super) fn run(
    gateway: GatewayState,
    inbound: InboundRequest,
    mut request: Request,
    mut answer: AnswerSender,
) -> impl Future<Output = ()> + Send {
    let mut caller = None;
    async move {
        // A block of its own, so that the variables of a call and those of a refusal share their
        // room.
        let refusal = 'call: {
            let arrived = arrive(&gateway, inbound.entrance, &mut request, &mut caller).await;
            let (mut whole, account) = match arrived {
                Ok(arrived) => arrived,
                Err(refusal) => break 'call refusal,
            };
            let mut account = Some(account);
            // If a key or an account changes between being read and the hold, it is read again.
            for _ in 0..3 {
                match attempt(&gateway, &whole, account.take(), &inbound, &mut answer).await {
                    Ok(()) => return,
                    Err(NotHeld::Refused(refusal)) => break 'call refusal,
                    Err(NotHeld::Replay(stored)) => {
                        return Box::pin(replay(&gateway, &whole, &inbound, &stored, &mut answer))
                            .await;
                    }
                    Err(NotHeld::Stale) => {
                        let arrival = &whole.arrival;
                        gateway.cache.forget_account(arrival.key.customer, &arrival.creator);
                    }
                    Err(NotHeld::KeyChanged) => {
                        if let Err(refusal) = admit::identify_again(&gateway, &mut whole).await {
                            break 'call refusal;
                        }
                    }
                }
            }
            ApiError::Failure(Failure::Overloaded)
        };
        refuse(&gateway, &inbound, caller.as_deref(), refusal, &mut answer).await;
    }
}

async fn arrive(
    gateway: &GatewayState,
    entrance: CallEntrance,
    request: &mut Request,
    caller: &mut Option<Arc<KeyEntry>>,
) -> Result<(Whole, Arc<AccountEntry>), ApiError> {
    let now = gateway.clock.now();
    let (parts, body) = std::mem::take(request).into_parts();
    let identified = admit::identify(gateway, entrance, &parts, now, caller).await?;
    let mut arrival = RequestHead::new(identified, parts);
    let account = cache::account(gateway, arrival.key.customer, &arrival.creator, now).await?;
    if entrance == CallEntrance::Native {
        arrival.decode_slashes(gateway, &account);
    }
    let whole = match entrance {
        // This is an upload by its native path, so the checks of an upload apply.
        CallEntrance::Native if arrival.is_upload(gateway, &account) => {
            admit::check_query(CallEntrance::Upload, arrival.query())?;
            Box::pin(upload::receive(gateway, arrival, &account, body)).await?
        }
        // Read whole, so that body rules, signing and idempotency can see it.
        CallEntrance::Native => {
            let limits = gateway.web.body_limits(gateway.config.http.limits.native_body_bytes_max);
            let room =
                BudgetRoom { budget: &gateway.web.bodies, holder: &arrival.key.buffers.bodies };
            let body = if body.is_end_stream() {
                body::BufferedRequestBody::default()
            } else {
                // Boxed: reads have no body, and their future needs no room for reading one.
                Box::pin(body::read_body(body, &limits, room)).await?
            };
            Whole { arrival, content: admit::Content::Native(body), passed: None }
        }
        CallEntrance::Upload => Box::pin(upload::receive(gateway, arrival, &account, body)).await?,
    };
    Ok((whole, account))
}

async fn replay(
    gateway: &GatewayState,
    whole: &Whole,
    inbound: &InboundRequest,
    stored: &store::idempotency::StoredAnswer,
    answer: &mut AnswerSender,
) {
    let arrival = &whole.arrival;
    let (customer, now) = (arrival.key.customer, gateway.clock.now());
    let replayed = match cache::account(gateway, customer, &arrival.creator, now).await {
        Ok(account) => idempotency::replay(&account, stored),
        Err(error) => Err(error.into()),
    };
    match replayed {
        Ok(mut response) => {
            let balance = balance::known(gateway, &arrival.key).await;
            web::idempotency::put_free(response.headers_mut(), balance);
            let status = response.status();
            answer.send(response);
            inbound.log(Some(&arrival.key), status, None);
        }
        Err(error) => refuse(gateway, inbound, Some(&arrival.key), error, answer).await,
    }
}

impl<E: Into<ApiError>> From<E> for NotHeld {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// One attempt: admits the call, holds its credits and runs it to its end. `account` is the account
/// if it was just read.
async fn attempt(
    gateway: &GatewayState,
    whole: &Whole,
    account: Option<Arc<AccountEntry>>,
    inbound: &InboundRequest,
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let arrival = &whole.arrival;
    let mut now = gateway.clock.now();
    let account = match account {
        Some(account) => account,
        None => cache::account(gateway, arrival.key.customer, &arrival.creator, now).await?,
    };
    let target = gateway.accounts().target(account.platform)?;
    let account = refresh::with_fresh_token(gateway, target, account, now).await?;
    let plan = admit::plan(gateway, whole, &account)?;
    let destination = prepare::destination(target, whole, &account, &plan)?;
    let fresh;
    let passed = match &whole.passed {
        Some(passed) => {
            limits::check_health(&account, now)?;
            passed
        }
        None => {
            fresh = limits::check(gateway, &arrival.key, &account, plan.cost, now).await?;
            &fresh
        }
    };
    if account.pace.is_some() {
        // Boxed: most platforms are not paced.
        match Box::pin(pacing::turn(gateway, &account, &plan.route, arrival.method, answer)).await?
        {
            CallTurn::Now => {}
            CallTurn::Later(then) => now = then,
            CallTurn::CallerLeft => {
                inbound.log_abandoned(&arrival.key);
                return Ok(());
            }
        }
    }
    let setting = CallContext {
        gateway,
        target,
        whole,
        account: &account,
        plan: &plan,
        passed,
        inbound,
        now,
    };
    let mut held = hold::take(&setting).await.inspect_err(|_| pacing::give_back(&setting))?;
    if answer.is_abandoned() {
        pacing::give_back(&setting);
        let ending = CallEnding::of(Outcome::ClientGoneBeforeDispatch, None);
        settle::settle(&setting, &held, ending).report(&setting, None);
        return Ok(());
    }
    carry(&setting, &mut held, &destination, answer).await
}

/// Sends the call, passes its response on and settles its hold.
async fn carry(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    destination: &CallDestination<'_>,
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let fetched = fetch(setting, held, destination, answer).await;
    // Matched without a reference, which would reserve room in the future for a second copy.
    let is_refused =
        matches!(fetched.received, Ok(ReceivedAnswer { status: StatusCode::UNAUTHORIZED, .. }));
    if is_refused && refresh::may_replace_token(setting.gateway, setting.target, setting.account) {
        // Boxed: replacing a token is rare.
        return Box::pin(carry_refused(setting, held, destination, fetched, answer)).await;
    }
    conclude(setting, held, fetched, answer).await
}

/// Sends the call again if the token can be replaced: a platform that responds 401 has not carried
/// it out (RFC 9110, section 15.5.2), so a write may be repeated too.
async fn carry_refused(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    destination: &CallDestination<'_>,
    fetched: FetchedAnswer,
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let CallContext { gateway, account, .. } = *setting;
    // A refresh changes the account's version, so a hold committed after it would be refused as
    // stale.
    held.durable().await?;
    match refresh::after_refusal(gateway, account).await {
        Ok(None) => conclude(setting, held, fetched, answer).await,
        // The token's fault and not the account's: the caller comes again.
        Err(failure) => refused_for_now(setting, held, fetched, failure, answer).await,
        Ok(Some(_)) if forward::is_late(held) => {
            let failure = Failure::TokenBeingRefreshed;
            refused_for_now(setting, held, fetched, failure, answer).await
        }
        Ok(Some(refreshed)) => {
            let again = CallContext { account: &refreshed, ..*setting };
            pacing::charge_again(&again);
            let second = fetch(&again, held, destination, answer).await;
            conclude(&again, held, second, answer).await
        }
    }
}

/// Ends a call that the platform refused for a token that is still being refreshed.
async fn refused_for_now(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    fetched: FetchedAnswer,
    failure: Failure,
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let failure = ForwardFailure {
        outcome: Outcome::of_status(StatusCode::UNAUTHORIZED.as_u16()),
        error: failure.into(),
        frees_key: true,
    };
    fail(setting, held, failure, fetched.timing, answer).await
}

/// Passes the response on and settles the hold.
async fn conclude(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    fetched: FetchedAnswer,
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let FetchedAnswer { received, timing } = fetched;
    match received {
        Ok(received) => {
            observe::observe_response(setting, &received);
            let ReceivedAnswer { status, headers, content } = received;
            let first = ResponseHead { status, headers, timing };
            match content {
                Content::Whole(bytes) => deliver(setting, held, first, bytes, answer).await,
                Content::Stream { first: bytes, rest } => {
                    // Boxed: most responses are read whole and need no room for streaming.
                    Box::pin(stream(setting, held, first, (bytes, rest), answer)).await
                }
            }
        }
        // Boxed: few calls fail.
        Err(Unreceived::Failed(failure)) => {
            Box::pin(fail(setting, held, failure, timing, answer)).await
        }
        Err(Unreceived::CallerLeft(responded)) => {
            let outcome = Outcome::of_status(responded.status);
            let ending = CallEnding {
                outcome,
                status: Some(responded.status),
                upstream_ms: Some(timing.upstream_ms),
                at: timing.at,
                stored: None,
                frees_key: responded.is_not_carried_out(),
            };
            settle::settle(setting, held, ending).report(setting, None);
            Ok(())
        }
    }
}

/// The head of a response, and when it arrived.
struct ResponseHead {
    status: StatusCode,
    headers: HeaderMap,
    timing: AnswerTiming,
}

impl ResponseHead {
    /// Whether the platform says that it did nothing, so that the call's `Idempotency-Key` can be
    /// used again.
    fn frees_key(&self) -> bool {
        answer::platform_status(self.status, &self.headers).is_not_carried_out()
    }
}

/// Ends a call whose response was read whole: the hold is settled before the caller gets the
/// response.
async fn deliver(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    begun: ResponseHead,
    bytes: Bytes,
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let outcome = Outcome::of_status(begun.status.as_u16());
    let stored = stored_answer(setting, &begun, Some(&bytes));
    let ending = CallEnding {
        outcome,
        status: Some(begun.status.as_u16()),
        upstream_ms: Some(begun.timing.upstream_ms),
        at: begun.timing.at,
        stored,
        frees_key: begun.frees_key(),
    };
    let (balance, ended) = settle::settle_before_answer(setting, held, ending).await?;
    let ResponseHead { status, headers, timing } = begun;
    let mut response = receive::whole_response(status, headers, bytes);
    answer::put_platform_hint(&mut response, setting.whole.arrival.method);
    let receipt = receipt(held.cost, balance, outcome);
    put_receipt(setting, response.headers_mut(), &receipt, timing.upstream_ms);
    answer.send(response);
    ended.report(setting, None);
    Ok(())
}

/// Streams a long response to the caller. Its end decides what the call cost.
async fn stream(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    begun: ResponseHead,
    content: (Bytes, platform_client::AnswerBody),
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let outcome = Outcome::of_status(begun.status.as_u16());
    let balance = held.durable().await?;
    let (sender, body) = receive::relayed(&content.1);
    let mut response = answer::platform_head(begun.status, begun.headers.clone(), body);
    answer::put_platform_hint(&mut response, setting.whole.arrival.method);
    let receipt = receipt(held.cost, balance, outcome);
    put_receipt(setting, response.headers_mut(), &receipt, begun.timing.upstream_ms);
    answer.send(response);
    let is_repeatable = setting.whole.arrival.idempotency.is_some();
    let stored_bytes_max = setting.gateway.config.http.limits.stored_answer_bytes_max;
    let mut copy = Copy::new(if is_repeatable { stored_bytes_max } else { 0 });
    let relay = receive::BodyRelay { status: begun.status, sender, copy: &mut copy };
    let (reached, caller) = relay.run(setting, content).await;
    if reached == outcome {
        setting.account.health.breaker.succeeded();
    } else {
        setting.account.health.breaker.failed(setting.gateway.clock.now());
    }
    let stored = stored_answer(setting, &begun, copy.whole().as_ref());
    let ending = CallEnding {
        outcome: reached,
        status: Some(begun.status.as_u16()),
        upstream_ms: Some(begun.timing.upstream_ms),
        at: Instant::now(),
        stored: stored.filter(|_| !reached.may_have_happened()),
        frees_key: begun.frees_key(),
    };
    let ended = settle::settle_before_end(setting, held, ending).await;
    if reached != outcome
        && let Some(caller) = &caller
    {
        receive::cut(caller).await;
    }
    drop(caller);
    ended.report(setting, None);
    Ok(())
}

/// Ends a call without a usable response: its credits are refunded.
async fn fail(
    setting: &CallContext<'_>,
    held: &mut HeldCall,
    failure: ForwardFailure,
    timing: AnswerTiming,
    answer: &mut AnswerSender,
) -> Result<(), NotHeld> {
    let row = failure.error.row();
    let (status, code) = (row.status.as_u16(), row.code);
    let ending = CallEnding {
        outcome: failure.outcome,
        status: Some(status),
        upstream_ms: Some(timing.upstream_ms),
        at: timing.at,
        stored: None,
        frees_key: failure.frees_key,
    };
    let (balance, ended) = settle::settle_before_answer(setting, held, ending).await?;
    let mut response = failure.error.into_response();
    if failure.outcome.is_certainly_not_carried_out() {
        response.extensions_mut().insert(HarmlessFailure);
    }
    let receipt = receipt(held.cost, balance, failure.outcome);
    put_receipt(setting, response.headers_mut(), &receipt, timing.upstream_ms);
    answer.send(response);
    ended.report(setting, Some(code));
    Ok(())
}

fn stored_answer(
    setting: &CallContext<'_>,
    begun: &ResponseHead,
    body: Option<&Bytes>,
) -> Option<store::idempotency::StoredAnswer> {
    setting.whole.arrival.idempotency?;
    if begun.frees_key() {
        return None;
    }
    let bytes_max = setting.gateway.config.http.limits.stored_answer_bytes_max;
    let body = body.filter(|body| body.len() <= bytes_max)?;
    idempotency::seal(setting, begun.status, &begun.headers, body)
}

/// The receipt, given the balance after the hold.
fn receipt(held: Credits, balance: Credits, outcome: Outcome) -> CallReceipt {
    if outcome.is_charged() {
        CallReceipt { cost: held, balance }
    } else {
        CallReceipt { cost: Credits::ZERO, balance: balance.checked_add(held).unwrap_or(balance) }
    }
}

/// Adds what the call cost, which route it took, and the time spent in the platform and in the
/// gateway.
fn put_receipt(
    setting: &CallContext<'_>,
    headers: &mut HeaderMap,
    receipt: &CallReceipt,
    upstream_ms: f64,
) {
    setting.whole.arrival.key.shown.note(receipt.balance, setting.now);
    let whole_ms = milliseconds(setting.inbound.started, Instant::now());
    let gateway_ms = (whole_ms - upstream_ms).max(0.0);
    let told = answer::ReceiptHeaders {
        receipt,
        route: setting.plan.route.header(),
        rate: &setting.passed.rate,
        rate_policy: setting.gateway.rate_policy(),
        upstream_ms,
        gateway_ms,
    };
    answer::put_told(headers, told);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// A future of this size is moved for each call, so what is rarely needed belongs in a box.
    #[test]
    fn future_of_a_call_stays_small() {
        let bytes = size_of_future(run);

        assert!(bytes <= 3_850, "{bytes}");
    }
}
