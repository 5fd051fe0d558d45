//! A call from its first moment, and how it is refused: a response that costs nothing, and a log
//! line.

use std::net::IpAddr;
use std::pin::Pin;

use axum::response::IntoResponse as _;
use http::StatusCode;
use tokio::time::Instant;
use web::error::{ApiError, HarmlessFailure};
use web::middleware::request_id::RequestLabel;
use web::request_log::{KnownCaller, RequestLine};
use web::trial;

use super::admit::CallEntrance;
use super::answer::AnswerSender;
use super::balance;
use super::cache::KeyEntry;
use crate::state::GatewayState;

/// What is known of a call as soon as it arrives.
pub(super) struct InboundRequest {
    pub(super) entrance: CallEntrance,
    pub(super) label: RequestLabel,
    pub(super) client_ip: IpAddr,
    pub(super) method: http::Method,
    pub(super) started: Instant,
}

impl InboundRequest {
    /// Writes the log line of a call without a hold. `code` says why it was refused; `None` means
    /// that an earlier response was replayed.
    pub(super) fn log(
        &self,
        caller: Option<&KeyEntry>,
        status: StatusCode,
        code: Option<&'static str>,
    ) {
        RequestLine { status: Some(status), code, is_replay: code.is_none(), ..self.line(caller) }
            .write();
    }

    /// Writes the log line of a call whose caller disconnected before anything was held.
    pub(super) fn log_abandoned(&self, caller: &KeyEntry) {
        self.line(Some(caller)).write();
    }

    /// A line without an end.
    fn line(&self, caller: Option<&KeyEntry>) -> RequestLine<'_> {
        let known = |key: &KeyEntry| KnownCaller { customer: key.customer, key: Some(key.key) };
        RequestLine {
            id: self.label.as_str(),
            method: &self.method,
            route: Some(self.entrance.route()),
            client_ip: self.client_ip,
            caller: caller.map(known),
            started: self.started,
            status: None,
            code: None,
            is_replay: false,
        }
    }
}

/// Sends a refusal of ours and writes its log line. Nothing was sent to the platform, and nothing
/// is charged.
pub(super) fn refuse<'a>(
    gateway: &'a GatewayState,
    inbound: &'a InboundRequest,
    caller: Option<&'a KeyEntry>,
    refusal: ApiError,
    answer: &'a mut AnswerSender,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    // Boxed: a call that is not refused needs no room for it.
    Box::pin(async move {
        let balance = match caller {
            Some(caller) => balance::shown(gateway, caller, &refusal).await,
            None => None,
        };
        let refusal = match caller {
            Some(caller) => trial::explained(&gateway.web, caller.customer, refusal).await,
            None => refusal,
        };
        let row = refusal.row();
        let (status, code) = (row.status, row.code);
        let mut response = refusal.into_response();
        response.extensions_mut().insert(HarmlessFailure);
        web::idempotency::put_free(response.headers_mut(), balance);
        answer.send(response);
        inbound.log(caller, status, Some(code));
    })
}
