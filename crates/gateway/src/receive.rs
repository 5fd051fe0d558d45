//! Phase 5, receive: the platform's response, unchanged except that an envelope is removed.
//!
//! Small responses are read whole before their head is passed on, so that their receipt is final
//! and a cut one becomes a clean 502. Larger ones are streamed. Bytes are never changed.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use domain::charge::Outcome;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use platform_client::{
    AnswerBody, CalledWith, ClientError, PlatformResponse, PlatformTarget, ReadLimits, ReadUpTo,
    envelope,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use web::middleware::budget::{BudgetRoom, BudgetShare};

use super::answer::{CutBody, RelayedBody};
use super::cache::KeyEntry;
use super::call_context::CallContext;
use super::forward;
use super::prepare::CallDestination;
use crate::state::GatewayState;

/// How much of a response is still read after its caller has left, and for how long; then it is
/// dropped.
#[derive(Clone, Copy)]
pub(super) struct ReadOn {
    bytes_max: u64,
    pub(super) time_max: Duration,
}

impl ReadOn {
    /// To keep the connection.
    const CONNECTION: Self = Self { bytes_max: 1_048_576, time_max: Duration::from_mins(1) };
    /// To keep the response for its `Idempotency-Key`.
    const RESPONSE_TIME: Duration = Duration::from_mins(10);

    /// For this call.
    pub(super) fn of(setting: &CallContext<'_>) -> Self {
        if setting.whole.arrival.idempotency.is_none() {
            return Self::CONNECTION;
        }
        let stored_max = setting.gateway.config.http.limits.stored_answer_bytes_max;
        let stored_max = u64::try_from(stored_max).unwrap_or(u64::MAX);
        let bytes_max = stored_max.max(Self::CONNECTION.bytes_max);
        Self { bytes_max, time_max: Self::RESPONSE_TIME }
    }
}

/// Set on responses that are passed on with their envelope; platforms cannot set it.
const ENVELOPE: HeaderName = HeaderName::from_static("x-envelope");

/// Marks a response that is passed on with its envelope.
fn mark_kept(headers: &mut HeaderMap) {
    headers.insert(ENVELOPE, HeaderValue::from_static("kept"));
}

/// A response whose head is known.
pub(super) struct ReceivedAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) content: Content,
}

/// The body of a response.
pub(super) enum Content {
    /// All of them.
    Whole(Bytes),
    /// Its beginning, possibly empty; the rest is still arriving.
    Stream {
        /// What has been read so far; empty if the head does not wait for the body.
        first: Bytes,
        /// Where the rest comes from.
        rest: AnswerBody,
    },
}

impl ReceivedAnswer {
    /// Whether a response that was read whole has no envelope that reports success, on a platform
    /// that has envelopes.
    pub(super) fn lacks_envelope(&self) -> bool {
        matches!(self.content, Content::Whole(_)) && self.headers.contains_key(ENVELOPE)
    }
}

impl Content {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }
}

/// Reads as much of the response as must be known before its head is passed on.
// Not an async function: that would store the response twice in the future.
pub(super) fn receive<'a>(
    setting: &'a CallContext<'a>,
    destination: &CallDestination<'_>,
    answer: PlatformResponse,
) -> impl Future<Output = Result<ReceivedAnswer, ClientError>> + Send + use<'a> {
    let CallContext { gateway, target, account, whole, .. } = *setting;
    let key: &KeyEntry = &whole.arrival.key;
    let PlatformResponse { status, headers, mut body } = answer;
    let called = CalledWith {
        account: account.creator.as_str(),
        path: &destination.path,
        query: &destination.query,
    };
    let mut headers = target.headers_for_caller(&headers, called, account.headers(target).ok());
    async move {
        if is_event_stream(&headers) {
            body.allow_silence(target.stream_idle());
            if target.has_envelope() {
                mark_kept(&mut headers);
            }
            let content = Content::Stream { first: Bytes::new(), rest: body };
            return Ok(ReceivedAnswer { status, headers, content });
        }
        let has_envelope = target.has_envelope() && is_json(&headers);
        let read = body.read_up_to(reading(gateway, has_envelope)).await;
        let content = match read? {
            ReadUpTo::Whole(bytes) => Content::Whole(bytes),
            ReadUpTo::Partial(first) => Content::Stream { first, rest: body },
        };
        let content = if has_envelope {
            // Boxed: most platforms have no envelope.
            Box::pin(unwrap(gateway, target, key, &mut headers, content)).await?
        } else {
            if target.has_envelope() && !content.is_empty() {
                mark_kept(&mut headers);
            }
            content
        };
        Ok(ReceivedAnswer { status, headers, content })
    }
}

/// How much is read before a head is passed on. A response with an envelope must be read whole,
/// however slowly.
fn reading(gateway: &GatewayState, has_envelope: bool) -> ReadLimits {
    let http = &gateway.config.http;
    let silence = Duration::from_millis(http.timeouts.stream_after_ms);
    ReadLimits {
        bytes_max: http.limits.answer_buffer_bytes_max,
        silence_max: (!has_envelope && !silence.is_zero()).then_some(silence),
        // The caller's patience decides.
        time_max: None,
    }
}

/// Types of responses that send one event after another while the caller listens.
const EVENT_STREAMS: [&str; 10] = [
    "text/event-stream",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/jsonlines",
    "application/x-jsonlines",
    "application/json-seq",
    "application/stream+json",
    "application/x-json-stream",
    "multipart/x-mixed-replace",
];

/// Whether the content type is that of an event stream, whose head must not wait for an event.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let essence = value.split(';').next().unwrap_or_default().trim();
        EVENT_STREAMS.iter().any(|stream| essence.eq_ignore_ascii_case(stream))
    })
}

/// Whether the content type is JSON: `application/json`, the older `text/json`, or a type that ends
/// in `+json` (RFC 6839, section 3.1).
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let essence =
            value.split([';', ',']).next().unwrap_or_default().trim().to_ascii_lowercase();
        matches!(essence.as_str(), "application/json" | "text/json") || essence.ends_with("+json")
    })
}

/// Whether the body is compressed with gzip.
pub(super) fn is_gzip(headers: &HeaderMap) -> bool {
    headers
        .get(http::header::CONTENT_ENCODING)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// Removes the envelope, if the response fits the buffers and has one; otherwise marks it as kept.
async fn unwrap(
    gateway: &GatewayState,
    target: &PlatformTarget,
    key: &KeyEntry,
    headers: &mut HeaderMap,
    content: Content,
) -> Result<Content, ClientError> {
    let (whole, _share) = match content {
        Content::Whole(bytes) => (bytes, None),
        Content::Stream { first, rest } => match buffer(gateway, key, first, rest).await? {
            BufferedBody::Whole(bytes, share) => (bytes, Some(share)),
            BufferedBody::TooLarge(unread) => {
                mark_kept(headers);
                return Ok(unread);
            }
        },
    };
    let plain = if is_gzip(headers) { decoded(gateway, &whole)? } else { Some(whole.clone()) };
    match plain.as_deref().map(|plain| target.unwrap(plain)) {
        Some(envelope::EnvelopeContent::Inner(inner)) => {
            headers.remove(http::header::CONTENT_ENCODING);
            Ok(Content::Whole(inner))
        }
        Some(envelope::EnvelopeContent::Kept) | None => {
            mark_kept(headers);
            Ok(Content::Whole(whole))
        }
    }
}

/// The decoded bytes, or `None` if they would be too long.
fn decoded(gateway: &GatewayState, bytes: &Bytes) -> Result<Option<Bytes>, ClientError> {
    let decoded = envelope::decode_gzip(bytes, gateway.config.http.limits.envelope_bytes_max);
    match decoded? {
        envelope::DecodedBody::Decoded(plain) => Ok(Some(plain)),
        envelope::DecodedBody::TooLarge => Ok(None),
    }
}

enum BufferedBody {
    Whole(Bytes, BudgetShare),
    TooLarge(Content),
}

/// Reads the rest of a response into memory, within the limits for one response and one customer,
/// and the budget for all. A response of unknown length takes its room as it arrives.
async fn buffer(
    gateway: &GatewayState,
    key: &KeyEntry,
    first: Bytes,
    mut rest: AnswerBody,
) -> Result<BufferedBody, ClientError> {
    let bytes_max = gateway.config.http.limits.envelope_bytes_max;
    let mut share =
        BudgetRoom { budget: &gateway.envelopes, holder: &key.buffers.envelopes }.share();
    let expected = rest.length().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let expected = expected.unwrap_or(first.len());
    if expected > bytes_max || share.hold(expected).is_err() {
        return Ok(BufferedBody::TooLarge(Content::Stream { first, rest }));
    }
    let mut whole = BytesMut::from(first);
    while let Some(chunk) = rest.next().await? {
        whole.extend_from_slice(&chunk);
        if whole.len() > bytes_max || share.hold(whole.len()).is_err() {
            let read = whole.freeze();
            return Ok(BufferedBody::TooLarge(Content::Stream { first: read, rest }));
        }
    }
    Ok(BufferedBody::Whole(whole.freeze(), share))
}

/// The body for the caller and the sender that feeds it, for a streamed response.
pub(super) fn relayed(rest: &AnswerBody) -> (BodySender, Body) {
    let (sender, body) = RelayedBody::new(rest.length());
    (sender, Body::new(body))
}

/// The copy of a streamed response for an `Idempotency-Key`, up to a limit.
pub(super) struct Copy {
    bytes: Option<BytesMut>,
    bytes_max: usize,
}

impl Copy {
    /// Keeps up to `bytes_max`; 0 keeps nothing.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: (bytes_max > 0).then(BytesMut::new), bytes_max }
    }

    fn add(&mut self, chunk: &Bytes) {
        if let Some(bytes) = &mut self.bytes {
            if bytes.len() + chunk.len() > self.bytes_max {
                self.bytes = None;
            } else {
                bytes.extend_from_slice(chunk);
            }
        }
    }

    /// The whole response, if it fitted.
    pub(super) fn whole(self) -> Option<Bytes> {
        self.bytes.map(BytesMut::freeze)
    }
}

/// What feeds the caller's body.
pub(super) type BodySender = mpsc::Sender<Result<Bytes, CutBody>>;

/// A long response on its way to the caller.
pub(super) struct BodyRelay<'a> {
    pub(super) status: StatusCode,
    pub(super) sender: BodySender,
    pub(super) copy: &'a mut Copy,
}

/// The next part to pass on, or that the caller has left.
enum Next {
    Part(Option<Bytes>),
    Failed(ClientError),
    CallerLeft,
}

impl BodyRelay<'_> {
    /// Passes a response on to its end. When the caller of an event stream leaves, reading stops,
    /// as it would without the gateway. Of any other response some more is read, so that its
    /// connection, or the response for its `Idempotency-Key`, can be kept. Returns how it ended,
    /// and the sender of a caller who is still there: its body ends when that is dropped.
    pub(super) async fn run(
        self,
        setting: &CallContext<'_>,
        content: (Bytes, AnswerBody),
    ) -> (Outcome, Option<BodySender>) {
        let (first, mut rest) = content;
        let bytes_max = setting.gateway.config.http.limits.answer_bytes_max;
        let charged = Outcome::of_status(self.status.as_u16());
        let read_on = ReadOn::of(setting);
        let mut sizes = BodySizes { total: 0, unread: 0 };
        let mut next = first;
        let mut caller = Some(self.sender);
        let mut until = None;
        loop {
            self.copy.add(&next);
            sizes.add(next.len(), caller.is_none());
            if bytes_max > 0 && sizes.total > bytes_max {
                return (Outcome::BadResponse, caller);
            }
            if sizes.unread > read_on.bytes_max {
                return (charged, None);
            }
            if let Some(sender) = &caller
                && !next.is_empty()
                && sender.send(Ok(next)).await.is_err()
            {
                caller = None;
            }
            let wanted = Wanted { caller: caller.as_ref(), time_max: read_on.time_max };
            next = match next_part(&mut rest, wanted, &mut until).await {
                Next::Part(Some(chunk)) => chunk,
                Next::Part(None) => return (charged, caller),
                Next::CallerLeft if caller.is_none() || rest.is_event_stream() => {
                    return (charged, None);
                }
                Next::CallerLeft => {
                    caller = None;
                    Bytes::new()
                }
                Next::Failed(error) => return (forward::outcome_of(&error), caller),
            };
        }
    }
}

/// Who waits for a response.
struct Wanted<'a> {
    /// None if it has left.
    caller: Option<&'a BodySender>,
    /// How long it is read then.
    time_max: Duration,
}

/// Waits for the next part while the caller is there, and for a limited time after it has left.
async fn next_part(
    rest: &mut AnswerBody,
    Wanted { caller, time_max }: Wanted<'_>,
    until: &mut Option<Instant>,
) -> Next {
    let left = async {
        match caller {
            Some(sender) => sender.closed().await,
            None => {
                let until = until.get_or_insert_with(|| Instant::now() + time_max);
                tokio::time::sleep_until(*until).await;
            }
        }
    };
    tokio::select! {
        biased;
        part = rest.next() => part.map_or_else(Next::Failed, Next::Part),
        () = left => Next::CallerLeft,
    }
}

/// Bytes of a response: all of them, and those read after the caller left.
struct BodySizes {
    total: u64,
    unread: u64,
}

impl BodySizes {
    fn add(&mut self, bytes: usize, is_unread: bool) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.total = self.total.saturating_add(bytes);
        if is_unread {
            self.unread = self.unread.saturating_add(bytes);
        }
    }
}

/// Aborts the caller's body.
pub(super) async fn cut(caller: &BodySender) {
    drop(caller.send(Err(CutBody)).await);
}

/// The response to the caller with a body that was read whole.
pub(super) fn whole_response(status: StatusCode, headers: HeaderMap, bytes: Bytes) -> Response {
    super::answer::platform_head(status, headers, Body::from(bytes))
}
