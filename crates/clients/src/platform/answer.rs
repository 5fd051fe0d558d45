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

use super::client::{HEAD_BYTES_MAX, HEADERS_MAX};
use super::connections::Lease;
use super::within::within;
use crate::error::{ClientError, Fault, Kind, Phase};

/// The head of a platform's answer, with its body still to be read.
#[derive(Debug)]
pub struct Answer {
    /// The status, 200 to 599.
    pub status: StatusCode,
    /// The headers as the platform sent them; a caller gets [`for_caller`](super::headers::for_caller) of them.
    pub headers: HeaderMap,
    /// The body. Dropping it before its end closes the connection or resets the stream.
    pub body: AnswerBody,
}

/// The body of an answer, read part by part. Trailers are dropped.
#[derive(Debug)]
pub struct AnswerBody {
    incoming: Incoming,
    /// The connection, until all of the body is here, where nobody else moves it on.
    lease: Option<Lease>,
    between_bytes: Duration,
    length: Option<u64>,
}

/// What [`AnswerBody::read_up_to`] found.
#[derive(Debug)]
pub enum ReadUpTo {
    /// All of the body.
    Whole(Bytes),
    /// The body is larger than asked for; this is what was read of it so far, and the rest is still to come.
    Larger(Bytes),
}

impl Answer {
    pub(super) fn new(
        response: Response<Incoming>,
        lease: Option<Lease>,
        between_bytes: Duration,
    ) -> Self {
        let (head, incoming) = response.into_parts();
        let length = incoming.size_hint().exact();
        Self {
            status: head.status,
            headers: head.headers,
            body: AnswerBody { incoming, lease, between_bytes, length },
        }
    }
}

impl AnswerBody {
    /// The length of the whole body, where the platform announced it.
    pub const fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next part of the body, never empty, or `None` after its end.
    ///
    /// Fails when the platform is silent for too long while this waits, and when the body ends before the
    /// length or the chunks that were announced; that is never a clean end. The pause between two calls of
    /// this is not counted.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let wait = self.between_bytes;
            let next = poll_fn(|context| self.poll_frame(context));
            let frame = match within(wait, next).await {
                Some(None) => {
                    self.end();
                    return Ok(None);
                }
                Some(Some(Ok(frame))) => frame,
                Some(Some(Err(error))) => {
                    return Err(ClientError::bad_response("it was cut short").because(error));
                }
                None => return Err(silent()),
            };
            match frame.into_data() {
                Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Reads the body whole if it has at most `bytes_max` bytes.
    pub async fn read_up_to(&mut self, bytes_max: usize) -> Result<ReadUpTo, ClientError> {
        let Some(first) = self.next().await? else { return Ok(ReadUpTo::Whole(Bytes::new())) };
        if first.len() > bytes_max || self.is_announced_above(bytes_max) {
            return Ok(ReadUpTo::Larger(first));
        }
        if self.incoming.is_end_stream() {
            self.end();
            return Ok(ReadUpTo::Whole(first));
        }
        let Some(second) = self.next().await? else { return Ok(ReadUpTo::Whole(first)) };
        // The length that was announced, and is not above the limit: it need not grow on the way.
        let announced = self.length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        let mut read = BytesMut::with_capacity(announced.max(first.len() + second.len()));
        read.extend_from_slice(&first);
        read.extend_from_slice(&second);
        while read.len() <= bytes_max {
            match self.next().await? {
                Some(bytes) => read.extend_from_slice(&bytes),
                None => return Ok(ReadUpTo::Whole(read.freeze())),
            }
        }
        Ok(ReadUpTo::Larger(read.freeze()))
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
        fault: Fault::Theirs,
        kind: Kind::Timeout(Phase::BetweenBytes),
        sent: true,
        retryable: false,
        source: None,
    }
}
