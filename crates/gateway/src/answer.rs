//! The response to the caller: the platform's response or our refusal, with a receipt.
//!
//! The call sends one response head; a long response streams its body afterwards. When the caller
//! has disconnected, the call finds its sender closed and runs to its end without it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::credits::Credits;
use domain::method::Method;
use domain::repeat::PlatformStatus;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use web::error::render::put_hint;
use web::middleware::rate_limit::RateDecision;
use web::middleware::texts::HeaderTexts;

/// The call's side of the channel: sends the response head once.
pub(super) struct AnswerSender(Option<oneshot::Sender<Response>>);

/// What a call cost, as known when its response head is sent.
pub(super) struct CallReceipt {
    /// Credits charged for this call.
    pub(super) cost: Credits,
    /// What the customer may still spend.
    pub(super) balance: Credits,
}

/// Creates the channel between the call (sender) and the handler (receiver).
pub(super) fn channel() -> (AnswerSender, oneshot::Receiver<Response>) {
    let (sender, receiver) = oneshot::channel();
    (AnswerSender(Some(sender)), receiver)
}

impl AnswerSender {
    /// Whether the caller has disconnected.
    pub(super) fn is_abandoned(&self) -> bool {
        self.0.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Waits until the caller has disconnected.
    pub(super) async fn abandoned(&mut self) {
        if let Some(sender) = &mut self.0 {
            sender.closed().await;
        }
    }

    /// Waits for work while the caller is there, and for up to `limit` after it has left; then
    /// none.
    // Not an async function: that would store what the work returns in the future.
    pub(super) fn while_wanted<'a, T>(
        &'a mut self,
        limit: impl Fn() -> Duration + Send + 'a,
        mut work: Pin<&'a mut (impl Future<Output = T> + Send)>,
    ) -> impl Future<Output = Option<T>> + Send + 'a {
        // Boxed: most callers stay.
        let mut rest: Option<Pin<Box<Sleep>>> = None;
        poll_fn(move |context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            if rest.is_none() {
                ready!(self.poll_abandoned(context));
            }
            let rest = rest.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit())));
            rest.as_mut().poll(context).map(|()| None)
        })
    }

    fn poll_abandoned(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(sender) => sender.poll_closed(context),
            None => Poll::Ready(()),
        }
    }

    /// Sends the head with its body. If the caller has disconnected, the response is dropped.
    pub(super) fn send(&mut self, response: Response) {
        if let Some(sender) = self.0.take() {
            drop(sender.send(response));
        }
    }
}

/// What the response headers say about the call.
pub(super) struct ReceiptHeaders<'a> {
    pub(super) receipt: &'a CallReceipt,
    pub(super) route: HeaderValue,
    pub(super) rate: &'a RateDecision,
    pub(super) rate_policy: HeaderValue,
    /// Milliseconds spent waiting for the platform.
    pub(super) upstream_ms: f64,
    /// Milliseconds spent in the gateway.
    pub(super) gateway_ms: f64,
}

/// Writes the receipt, the rate limit and the time spent in the platform and in the gateway (Server
/// Timing, W3C).
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

/// Tenths of a millisecond: integers are much faster to format.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration is not negative and fits"
)]
fn tenths(milliseconds: f64) -> u64 {
    (milliseconds * 10.0).round() as u64
}

/// Builds the head of a platform's response from its status and its allowed headers.
pub(super) fn platform_head(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if status.as_u16() >= 400 {
        response.headers_mut().insert(name("x-error-source"), HeaderValue::from_static("platform"));
    }
    response
}

/// What the head of a platform's response says beyond its outcome.
pub(super) fn platform_status(status: StatusCode, headers: &HeaderMap) -> PlatformStatus {
    let has_retry_after = headers.contains_key(http::header::RETRY_AFTER);
    PlatformStatus { status: status.as_u16(), has_retry_after }
}

/// On an error of the platform, says whether the same request may be sent again.
pub(super) fn put_platform_hint(response: &mut Response, method: Method) {
    if response.status().as_u16() >= 400 {
        let platform = platform_status(response.status(), response.headers());
        put_hint(response.headers_mut(), platform.should_retry(method));
    }
}

/// Says that a stored error is final: repeating the request returns the same error.
pub(super) fn put_final_hint(response: &mut Response) {
    response.headers_mut().remove(http::header::RETRY_AFTER);
    if response.status().as_u16() >= 400 {
        put_hint(response.headers_mut(), false);
    }
}

const fn name(text: &'static str) -> HeaderName {
    HeaderName::from_static(text)
}

/// A body that the call feeds. An error aborts it, so that the caller never takes it for complete.
pub(super) struct RelayedBody {
    chunks: mpsc::Receiver<Result<Bytes, CutBody>>,
    length: Option<u64>,
}

/// The platform's response was cut off after its head was passed on.
#[derive(Debug, thiserror::Error)]
#[error("the platform's response was cut off")]
pub(super) struct CutBody;

impl RelayedBody {
    /// A body and the sender that feeds it, at most one chunk ahead of the caller.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_for_a_limited_time_after_the_caller_has_left() {
        const LIMIT: Duration = Duration::from_mins(1);
        let hour = || Box::pin(tokio::time::sleep(Duration::from_hours(1)));
        let begun = tokio::time::Instant::now();

        let (mut there, caller) = channel();
        assert_eq!(there.while_wanted(|| LIMIT, hour().as_mut()).await, Some(()));
        let leaves = async {
            tokio::time::sleep(Duration::from_mins(5)).await;
            drop(caller);
        };
        let mut work = hour();
        let ((), ended) = tokio::join!(leaves, there.while_wanted(|| LIMIT, work.as_mut()));

        assert_eq!(ended, None);
        assert_eq!(begun.elapsed(), Duration::from_mins(66));
        let mut short = Box::pin(tokio::time::sleep(Duration::from_secs(59)));
        assert_eq!(there.while_wanted(|| LIMIT, short.as_mut()).await, Some(()));
    }
}
