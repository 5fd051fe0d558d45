//! What the caller gets: the platform's answer or our refusal, with an honest receipt.
//!
//! The call sends one head, and for a long answer its bytes after it. A call whose caller has left finds its
//! sender closed and goes on without it.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::credits::Credits;
use domain::method::Method;
use domain::repeat::PlatformStatus;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};
use web::error::render::put_hint;
use web::middleware::rate_limit::RateDecision;
use web::middleware::texts::HeaderTexts;

/// The call's end: takes the head of the answer, once.
pub(super) struct AnswerSender(Option<oneshot::Sender<Response>>);

/// What a call cost, as known when its head is sent.
pub(super) struct CallReceipt {
    /// Credits taken for this call.
    pub(super) cost: Credits,
    /// What the customer may still spend.
    pub(super) balance: Credits,
}

/// A new answer: the end for the call and the end for the handler.
pub(super) fn channel() -> (AnswerSender, oneshot::Receiver<Response>) {
    let (sender, receiver) = oneshot::channel();
    (AnswerSender(Some(sender)), receiver)
}

impl AnswerSender {
    /// Whether the caller has hung up.
    pub(super) fn is_abandoned(&self) -> bool {
        self.0.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Sends the head, with whatever body it has. A caller that has left misses it.
    pub(super) fn send(&mut self, response: Response) {
        if let Some(sender) = self.0.take() {
            drop(sender.send(response));
        }
    }
}

/// What an answer's head tells of its call.
pub(super) struct ReceiptHeaders<'a> {
    pub(super) receipt: &'a CallReceipt,
    pub(super) route: HeaderValue,
    pub(super) rate: &'a RateDecision,
    pub(super) rate_policy: HeaderValue,
    /// Milliseconds that the platform took.
    pub(super) upstream_ms: f64,
    /// Milliseconds that we took.
    pub(super) gateway_ms: f64,
}

/// Writes it: the receipt, the rate, and how long the platform and we took (Server Timing, W3C).
pub(super) fn put_told(headers: &mut HeaderMap, told: ReceiptHeaders<'_>) {
    let ReceiptHeaders { receipt, rate, .. } = &told;
    let mut texts = HeaderTexts::new();
    let cost = texts.number(receipt.cost.whole()).value();
    let balance = texts.number(receipt.balance.whole()).value();
    let (upstream, gateway) = (tenths(told.upstream_ms), tenths(told.gateway_ms));
    texts.word("upstream;dur=").number(upstream / 10).word(".").number(upstream % 10);
    texts.word(", gateway;dur=").number(gateway / 10).word(".").number(gateway % 10);
    let timing = texts.value();
    headers.insert(name("x-credits-cost"), cost);
    headers.insert(name("x-credits-balance"), balance);
    headers.insert(name("server-timing"), timing);
    rate.put_headers(told.rate_policy, headers, &mut texts);
    headers.insert(name("x-route"), told.route);
}

/// Tenths of a millisecond: whole numbers are written in a fraction of the time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration is not negative and fits"
)]
fn tenths(milliseconds: f64) -> u64 {
    (milliseconds * 10.0).round() as u64
}

/// Builds the head of a platform's answer: its status and its allowed headers.
pub(super) fn platform_head(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if status.as_u16() >= 400 {
        response.headers_mut().insert(name("x-error-source"), HeaderValue::from_static("platform"));
    }
    response
}

/// What a platform's response says beside its outcome, by its head.
pub(super) fn platform_status(status: StatusCode, headers: &HeaderMap) -> PlatformStatus {
    let has_retry_after = headers.contains_key(http::header::RETRY_AFTER);
    PlatformStatus { status: status.as_u16(), has_retry_after }
}

/// Says on an error of the platform whether the same request may be sent again.
pub(super) fn put_platform_hint(response: &mut Response, method: Method) {
    if response.status().as_u16() >= 400 {
        let platform = platform_status(response.status(), response.headers());
        put_hint(response.headers_mut(), platform.should_retry(method));
    }
}

/// Says of a stored error that it stays what it is: nothing else comes however often it is asked for.
pub(super) fn put_final_hint(response: &mut Response) {
    response.headers_mut().remove(http::header::RETRY_AFTER);
    if response.status().as_u16() >= 400 {
        put_hint(response.headers_mut(), false);
    }
}

const fn name(text: &'static str) -> HeaderName {
    HeaderName::from_static(text)
}

/// A body that is fed by the call. An error ends it as a cut, never as a clean end.
pub(super) struct RelayedBody {
    chunks: mpsc::Receiver<Result<Bytes, CutBody>>,
    length: Option<u64>,
}

/// The platform's answer broke off after its head was passed on.
#[derive(Debug, thiserror::Error)]
#[error("the platform's answer broke off")]
pub(super) struct CutBody;

impl RelayedBody {
    /// A body and the end that feeds it, one chunk ahead of the caller at most.
    pub(super) fn new(length: Option<u64>) -> (mpsc::Sender<Result<Bytes, CutBody>>, Self) {
        let (sender, chunks) = mpsc::channel(1);
        (sender, Self { chunks, length })
    }
}

impl http_body::Body for RelayedBody {
    type Data = Bytes;
    type Error = CutBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutBody>>> {
        self.chunks.poll_recv(context).map(|next| next.map(|chunk| chunk.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
