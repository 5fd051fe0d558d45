//! A platform's answer: its head as it came, its body as it comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

use super::connection_pool::ConnectionLease;
use super::timeout::within;
use super::upstream::{HEAD_BYTES_MAX, HEADERS_MAX};
use crate::error::{CallErrorKind, CallFault, CallPhase, ClientError};

/// The head of a platform's answer, with its body still to be read.
#[derive(Debug)]
pub struct PlatformResponse {
    /// The status, 200 to 599.
    pub status: StatusCode,
    /// The headers as the other side sent them; which of them reach a caller is not decided here.
    pub headers: HeaderMap,
    /// The body. Dropping it before its end closes the connection or resets the stream.
    pub body: AnswerBody,
}

/// The body of an answer, read part by part. Trailers are dropped.
#[derive(Debug)]
pub struct AnswerBody {
    incoming: Incoming,
    /// The connection, until all of the body is here, where nobody else moves it on.
    lease: Option<ConnectionLease>,
    between_bytes: Duration,
    is_event_stream: bool,
    length: Option<u64>,
}

/// How much of a body [`AnswerBody::read_up_to`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// A longer body is not read whole.
    pub bytes_max: usize,
    /// A body of unknown length that brings nothing for this long, or is not whole after twenty
    /// times this, is not read whole. Nothing: it is waited for.
    pub silence_max: Option<Duration>,
    /// A body that is not whole after this time is given up. Nothing: it is waited for while it
    /// brings something.
    pub time_max: Option<Duration>,
}

/// How long a body may take that nobody but this service waits for.
const OWN_READ_MAX: Duration = Duration::from_mins(2);

/// What [`AnswerBody::read_up_to`] found.
#[derive(Debug)]
pub enum ReadUpTo {
    /// All of the body.
    Whole(Bytes),
    /// What was read of a body that is longer or slower than asked for; the rest is still to come.
    Partial(Bytes),
}

/// A body that never falls silent is waited for this often the longest silence.
const SILENCES_MAX: u32 = 20;

impl ReadLimits {
    /// A body up to this length that this service reads for itself, within two minutes.
    pub const fn bytes(bytes_max: usize) -> Self {
        Self { bytes_max, silence_max: None, time_max: Some(OWN_READ_MAX) }
    }
}

/// What there was next of a body.
enum BodyStep {
    Part(Bytes),
    End,
    Silence,
}

/// The parts of a body so far. One alone is not copied.
struct GatheredBody {
    first: Bytes,
    /// All of them, where there is more than one.
    joined: BytesMut,
}

impl GatheredBody {
    fn bytes(&self) -> usize {
        self.first.len().max(self.joined.len())
    }

    fn add(&mut self, part: &Bytes, announced: Option<u64>) {
        if self.joined.is_empty() {
            // The length that was announced, and is not above the limit: it need not grow on the
            // way.
            let announced = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
            self.joined.reserve(announced.max(self.first.len() + part.len()));
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(part);
    }

    fn finish(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

impl PlatformResponse {
    pub(super) fn new(
        response: Response<Incoming>,
        lease: Option<ConnectionLease>,
        between_bytes: Duration,
    ) -> Self {
        let (head, incoming) = response.into_parts();
        let length = incoming.size_hint().exact();
        Self {
            status: head.status,
            headers: head.headers,
            body: AnswerBody { incoming, lease, between_bytes, is_event_stream: false, length },
        }
    }
}

impl AnswerBody {
    /// The length of the whole body, where the platform announced it.
    pub const fn length(&self) -> Option<u64> {
        self.length
    }

    /// Lets pauses between two parts be this long from now on: the body is a stream of events.
    pub const fn allow_silence(&mut self, between_bytes: Duration) {
        self.between_bytes = between_bytes;
        self.is_event_stream = true;
    }

    /// Whether it is known to be a stream of events.
    pub const fn is_event_stream(&self) -> bool {
        self.is_event_stream
    }

    /// The next part of the body, never empty, or `None` after its end.
    ///
    /// Fails when the platform is silent for too long while this waits, and when the body ends
    /// before the length or the chunks that were announced; that is never a clean end. The pause
    /// between two calls of this is not counted. Nothing is lost when it is dropped before it is
    /// done.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let wait = self.between_bytes;
        self.next_within(wait).await.unwrap_or_else(|| Err(silent()))
    }

    /// The same within a time of the caller's own; nothing when it is over.
    async fn next_within(&mut self, wait: Duration) -> Option<Result<Option<Bytes>, ClientError>> {
        loop {
            let next = poll_fn(|context| self.poll_frame(context));
            let frame = match within(wait, next).await? {
                None => {
                    self.end();
                    return Some(Ok(None));
                }
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Some(Err(ClientError::bad_response("it was cut short").because(error)));
                }
            };
            match frame.into_data() {
                Ok(bytes) if !bytes.is_empty() => return Some(Ok(Some(bytes))),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Reads the body whole if it is neither longer nor slower than these limits.
    pub async fn read_up_to(&mut self, limits: ReadLimits) -> Result<ReadUpTo, ClientError> {
        match limits.time_max {
            None => self.gather(limits).await,
            // Boxed: bodies that callers wait for have no such limit.
            Some(most) => tokio::time::timeout(most, Box::pin(self.gather(limits)))
                .await
                .unwrap_or_else(|_| Err(silent())),
        }
    }

    async fn gather(&mut self, limits: ReadLimits) -> Result<ReadUpTo, ClientError> {
        let ReadLimits { bytes_max, silence_max, .. } = limits;
        let silence_max = silence_max.filter(|_| self.length.is_none());
        let first = match self.step(silence_max).await? {
            BodyStep::Part(first) => first,
            BodyStep::End => return Ok(ReadUpTo::Whole(Bytes::new())),
            BodyStep::Silence => return Ok(ReadUpTo::Partial(Bytes::new())),
        };
        if first.len() > bytes_max || self.is_announced_above(bytes_max) {
            return Ok(ReadUpTo::Partial(first));
        }
        if self.incoming.is_end_stream() {
            self.end();
            return Ok(ReadUpTo::Whole(first));
        }
        let until = silence_max.map(|most| Instant::now() + most * SILENCES_MAX);
        let mut read = GatheredBody { first, joined: BytesMut::new() };
        while read.bytes() <= bytes_max {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match self.step(left.min(silence_max)).await? {
                BodyStep::Part(bytes) => read.add(&bytes, self.length),
                BodyStep::End => return Ok(ReadUpTo::Whole(read.finish())),
                BodyStep::Silence => break,
            }
        }
        Ok(ReadUpTo::Partial(read.finish()))
    }

    /// The next part, the end, or that nothing came for as long as silence may last.
    async fn step(&mut self, silence_max: Option<Duration>) -> Result<BodyStep, ClientError> {
        let wait = silence_max.map_or(self.between_bytes, |most| most.min(self.between_bytes));
        match self.next_within(wait).await {
            Some(next) => Ok(next?.map_or(BodyStep::End, BodyStep::Part)),
            None if silence_max.is_some() => Ok(BodyStep::Silence),
            None => Err(silent()),
        }
    }

    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming, lease, .. } = self;
        match lease {
            Some(lease) => lease.poll(context, |own| Pin::new(&mut *incoming).poll_frame(own)),
            None => Pin::new(incoming).poll_frame(context),
        }
    }

    /// All of the body is here.
    fn end(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.end();
        }
    }

    fn is_announced_above(&self, bytes_max: usize) -> bool {
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        self.length.is_some_and(|length| length > bytes_max)
    }
}

/// Refuses a head that must not be passed on, and says why.
pub(super) fn check_head<B>(response: &Response<B>) -> Result<(), &'static str> {
    let headers = response.headers();
    match response.status().as_u16() {
        101 => return Err("it switches protocols"),
        200..=599 => {}
        _ => return Err("its status is none of HTTP's"),
    }
    if headers.len() > HEADERS_MAX {
        return Err("it has too many headers");
    }
    // hyper stops reading near the limit, but passes a head that came in one large piece.
    if head_bytes(headers) > HEAD_BYTES_MAX {
        return Err("its head is too large");
    }
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => Ok(()),
        (Some(_), _) if headers.contains_key(CONTENT_LENGTH) => {
            Err("it has both Transfer-Encoding and Content-Length")
        }
        (Some(encoding), None) if encoding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => Err("its Transfer-Encoding is not chunked"),
    }
}

/// The bytes of the header lines, without the status line.
fn head_bytes(headers: &HeaderMap) -> usize {
    const SEPARATORS: usize = ": \r\n".len();
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS).sum()
}

const fn silent() -> ClientError {
    ClientError {
        fault: CallFault::Theirs,
        kind: CallErrorKind::Timeout(CallPhase::BetweenBytes),
        sent: true,
        retryable: false,
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::sleep;

    use super::*;
    use crate::body::RequestBody;

    const SILENCE: Duration = Duration::from_millis(50);
    const LIMITS: ReadLimits =
        ReadLimits { bytes_max: 1_000, silence_max: Some(SILENCE), time_max: None };

    /// The body of a response of which each part comes after so many milliseconds; what follows the
    /// last never comes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test's runtime ends these tasks with itself"
    )]
    async fn body(head: &'static str, parts: Vec<(u64, String)>) -> AnswerBody {
        let (ours, mut theirs) = tokio::io::duplex(1_024);
        tokio::spawn(async move {
            theirs.read_u8().await.unwrap();
            theirs
                .write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes())
                .await
                .unwrap();
            for (pause, part) in parts {
                sleep(Duration::from_millis(pause)).await;
                theirs.write_all(part.as_bytes()).await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::new(RequestBody::empty());
        let response = sender.send_request(request).await.unwrap();
        PlatformResponse::new(response, None, Duration::from_secs(15)).body
    }

    fn chunk(pause: u64, text: &str) -> (u64, String) {
        (pause, format!("{:x}\r\n{text}\r\n", text.len()))
    }

    async fn read(head: &'static str, parts: Vec<(u64, String)>) -> (bool, String) {
        let read = body(head, parts).await.read_up_to(LIMITS).await.unwrap();
        let (is_whole, bytes) = match read {
            ReadUpTo::Whole(bytes) => (true, bytes),
            ReadUpTo::Partial(bytes) => (false, bytes),
        };
        (is_whole, String::from_utf8(bytes.to_vec()).unwrap())
    }

    const CHUNKED: &str = "Transfer-Encoding: chunked";

    #[tokio::test(start_paused = true)]
    async fn a_body_of_unknown_length_is_whole_if_it_never_falls_silent() {
        let parts = vec![chunk(40, "a"), chunk(40, "b"), chunk(40, "")];

        assert_eq!(read(CHUNKED, parts).await, (true, "ab".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_unknown_length_that_falls_silent_is_given_so_far() {
        for (parts, so_far) in [
            (vec![chunk(60, "a")], ""),
            (vec![chunk(1, "a"), chunk(60, "b")], "a"),
            (vec![chunk(1, "a"), chunk(1, "b"), chunk(60, "")], "ab"),
        ] {
            assert_eq!(read(CHUNKED, parts).await, (false, so_far.to_owned()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_without_an_end_is_given_so_far_after_a_while() {
        let begun = Instant::now();

        let (is_whole, so_far) = read(CHUNKED, vec![chunk(30, "a"); 100]).await;

        assert!(!is_whole && (30..=35).contains(&so_far.len()), "{so_far}");
        assert!(begun.elapsed() < SILENCE * (SILENCES_MAX + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_this_service_reads_for_itself_may_drip_for_two_minutes() {
        for length in ["Transfer-Encoding: chunked", "Content-Length: 900"] {
            let drop = if length == CHUNKED { chunk(1_000, "a") } else { (1_000, "a".to_owned()) };
            let mut body = body(length, vec![drop; 900]).await;
            let begun = Instant::now();

            let given_up = body.read_up_to(ReadLimits::bytes(1_000)).await;

            let timeout = CallErrorKind::Timeout(CallPhase::BetweenBytes);
            assert_eq!(given_up.unwrap_err().kind, timeout);
            assert_eq!(begun.elapsed().as_secs(), 120);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_was_given_so_far_goes_on_where_it_stopped() {
        let mut body = body(CHUNKED, vec![chunk(1, "a"), chunk(60, "b"), chunk(1, "")]).await;

        assert!(matches!(body.read_up_to(LIMITS).await.unwrap(), ReadUpTo::Partial(_)));
        assert_eq!(body.next().await.unwrap().as_deref(), Some(&b"b"[..]));
        assert_eq!(body.next().await.unwrap(), None);
    }

    /// It tells how long it is, so that its end can be waited for, and silence is a fault.
    #[tokio::test(start_paused = true)]
    async fn a_body_of_known_length_is_waited_for() {
        let part = |pause| (pause, "a".to_owned());

        let whole = read("Content-Length: 2", vec![part(60), part(60)]).await;
        let cut = body("Content-Length: 2", vec![part(1)]).await.read_up_to(LIMITS).await;

        assert_eq!(whole, (true, "aa".to_owned()));
        assert_eq!(cut.unwrap_err().kind, CallErrorKind::Timeout(CallPhase::BetweenBytes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_events_may_have_nothing_to_say_for_long() {
        let parts = || vec![chunk(1, "a"), chunk(100_000, "b")];
        let mut stream = body(CHUNKED, parts()).await;
        let mut other = body(CHUNKED, parts()).await;
        stream.allow_silence(Duration::from_mins(5));

        for body in [&mut stream, &mut other] {
            assert_eq!(body.next().await.unwrap().as_deref(), Some(&b"a"[..]));
        }

        assert_eq!(
            other.next().await.unwrap_err().kind,
            CallErrorKind::Timeout(CallPhase::BetweenBytes)
        );
        assert_eq!(stream.next().await.unwrap().as_deref(), Some(&b"b"[..]));
        assert_eq!(
            stream.next().await.unwrap_err().kind,
            CallErrorKind::Timeout(CallPhase::BetweenBytes)
        );
    }

    fn head(status: u16, headers: &[(&'static str, &'static str)]) -> Response<()> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap()
    }

    #[test]
    fn a_head_is_passed_on_only_if_its_status_and_framing_leave_no_doubt() {
        let (twice, length) = (
            [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            [("transfer-encoding", "chunked"), ("content-length", "1")],
        );
        for (response, problem) in [
            (head(200, &[]), None),
            (head(599, &[("content-length", "1")]), None),
            (head(200, &[("transfer-encoding", "Chunked")]), None),
            (head(101, &[]), Some("it switches protocols")),
            (head(100, &[]), Some("its status is none of HTTP's")),
            (head(199, &[]), Some("its status is none of HTTP's")),
            (head(600, &[]), Some("its status is none of HTTP's")),
            (head(999, &[]), Some("its status is none of HTTP's")),
            (head(200, &length), Some("it has both Transfer-Encoding and Content-Length")),
            (head(200, &twice), Some("its Transfer-Encoding is not chunked")),
            (
                head(200, &[("transfer-encoding", "gzip, chunked")]),
                Some("its Transfer-Encoding is not chunked"),
            ),
            (head(200, &[("transfer-encoding", "")]), Some("its Transfer-Encoding is not chunked")),
        ] {
            assert_eq!(check_head(&response).err(), problem, "{response:?}");
        }
    }

    #[test]
    fn a_head_has_at_most_a_hundred_headers_and_64_kib() {
        let with = |headers: usize, bytes: usize| {
            let mut response = Response::new(());
            for number in 1..headers {
                let name = http::HeaderName::try_from(format!("x-{number}")).unwrap();
                response.headers_mut().insert(name, http::HeaderValue::from_static(""));
            }
            let rest = bytes - head_bytes(response.headers()) - "y: \r\n".len();
            let value = http::HeaderValue::try_from("a".repeat(rest)).unwrap();
            response.headers_mut().insert("y", value);
            check_head(&response).err()
        };

        assert_eq!(with(100, HEAD_BYTES_MAX), None);
        assert_eq!(with(101, HEAD_BYTES_MAX), Some("it has too many headers"));
        assert_eq!(with(1, HEAD_BYTES_MAX + 1), Some("its head is too large"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_longer_than_asked_for_is_given_from_its_beginning_and_goes_on() {
        let limits = ReadLimits::bytes(4);
        for (head, parts) in [
            (CHUNKED, vec![chunk(1, "abc"), chunk(1, "de"), chunk(1, "f"), chunk(1, "")]),
            ("Content-Length: 6", vec![(1, "abcde".to_owned()), (1, "f".to_owned())]),
        ] {
            let mut body = body(head, parts).await;
            let ReadUpTo::Partial(first) = body.read_up_to(limits).await.unwrap() else {
                panic!("it is longer")
            };
            assert_eq!(first, "abcde");
            assert_eq!(body.next().await.unwrap().as_deref(), Some(&b"f"[..]));
            assert_eq!(body.next().await.unwrap(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_exactly_the_limit_is_whole() {
        for (head, parts) in [
            (CHUNKED, vec![chunk(1, "ab"), chunk(1, "cd"), chunk(1, "")]),
            ("Content-Length: 4", vec![(1, "abcd".to_owned())]),
        ] {
            let mut body = body(head, parts).await;
            let read = body.read_up_to(ReadLimits::bytes(4)).await.unwrap();
            assert!(matches!(read, ReadUpTo::Whole(bytes) if bytes == "abcd"), "{head}");
            assert_eq!(body.next().await.unwrap(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_length_is_known_where_it_was_announced() {
        let announced = body("Content-Length: 4", Vec::new()).await;
        let unknown = body(CHUNKED, Vec::new()).await;

        assert_eq!((announced.length(), unknown.length()), (Some(4), None));
        assert!(!announced.is_event_stream());
    }

    #[tokio::test(start_paused = true)]
    async fn trailers_are_dropped_and_no_part_is_empty() {
        let end = (1, "0\r\nx-trailer: 1\r\n\r\n".to_owned());
        let mut body = body(CHUNKED, vec![chunk(1, "a"), end]).await;

        assert_eq!(body.next().await.unwrap().as_deref(), Some(&b"a"[..]));
        assert_eq!(body.next().await.unwrap(), None);
        assert_eq!(body.next().await.unwrap(), None, "the end stays the end");
    }
}
