//! What a call's response says beyond its content.

use platform_client::ClientError;

use super::call_context::CallContext;
use super::drift::{self, DriftSign};
use super::receive::{Content, ReceivedAnswer};
use super::{limits, reconnect};

/// Reports to the breaker, once the head of a response has arrived. A streamed response is reported
/// at its end.
pub(super) fn report_to_breaker(
    setting: &CallContext<'_>,
    received: &Result<ReceivedAnswer, ClientError>,
) {
    let breaker = &setting.account.health.breaker;
    match received {
        Ok(ReceivedAnswer { content: Content::Whole(_), .. }) => breaker.succeeded(),
        Ok(ReceivedAnswer { content: Content::Stream { .. }, .. }) => {}
        Err(_) => breaker.failed(setting.gateway.clock.now()),
    }
}

/// Acts on what a response says beyond its content: a pause, credentials that work or may be dead,
/// a route that works.
pub(super) fn observe_response(setting: &CallContext<'_>, received: &ReceivedAnswer) {
    let CallContext { gateway, account, plan, now, .. } = setting;
    let seen = DriftSign { status: received.status, lacks_envelope: received.lacks_envelope() };
    drift::note(gateway, account, plan.route.drift(), seen);
    match received.status.as_u16() {
        200..=299 => {
            reconnect::note_success(gateway, account, *now);
            if plan.route.is_unverified() {
                gateway.mark_verified(account.platform, &plan.route);
            }
        }
        401 => reconnect::confirm_in_background(gateway, account),
        429 => limits::note_pause(gateway, account, &received.headers),
        _ => {}
    }
}
