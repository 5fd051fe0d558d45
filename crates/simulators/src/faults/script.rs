//! What goes over the wire in the end: an answer that HTTP can carry, or a script for the socket.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};

use crate::platform::answer::Answer;

/// A whole answer, before it is framed.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What a fault left of an answer.
#[derive(Debug)]
pub(crate) enum Spoiled {
    /// HTTP can carry it.
    Reply(Reply),
    /// It is played on the socket.
    Script(Script),
}

/// What happens on the socket, step by step, and then.
#[derive(Debug)]
pub(crate) struct Script {
    /// The status that is sent; `None` when none is.
    pub(crate) status: Option<u16>,
    pub(crate) steps: Vec<Step>,
    pub(crate) end: End,
}

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Bytes),
    /// Sends the same bytes many times.
    Repeat {
        bytes: Bytes,
        times: u64,
    },
    /// Sends a few bytes at a time, and waits after each.
    Drip {
        bytes: Bytes,
        size: usize,
        pause: Duration,
    },
    Wait(Duration),
}

/// What becomes of the connection after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The next request is served.
    Keep,
    /// It is closed in order.
    Close,
    /// It is reset, so that the other side gets an error.
    Reset,
    /// It stays open and silent until the other side closes it.
    Hang,
}

impl Reply {
    /// The answer of a platform: its JSON, or nothing.
    pub(crate) fn of(answer: &Answer) -> Self {
        let mut headers = HeaderMap::new();
        let body = answer.body.as_ref().map_or_else(Bytes::new, |body| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Bytes::from(body.to_string())
        });
        Self { status: answer.status, headers, body }
    }

    /// The status line and the headers with these, up to the empty line that ends them.
    pub(super) fn head(&self, more: &[(HeaderName, String)]) -> Vec<u8> {
        let mut head = BytesMut::new();
        let reason = self.status.canonical_reason().unwrap_or("Unknown");
        head.put_slice(format!("HTTP/1.1 {} {reason}\r\n", self.status.as_u16()).as_bytes());
        for (name, value) in &self.headers {
            head.put_slice(name.as_str().as_bytes());
            head.put_slice(b": ");
            head.put_slice(value.as_bytes());
            head.put_slice(b"\r\n");
        }
        for (name, value) in more {
            head.put_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        head.put_slice(b"\r\n");
        head.to_vec()
    }

    /// The head of an answer of so many bytes.
    pub(super) fn head_with_length(&self, bytes: u64) -> Vec<u8> {
        self.head(&[(http::header::CONTENT_LENGTH, bytes.to_string())])
    }

    /// The head of an answer in chunks.
    pub(super) fn head_in_chunks(&self) -> Vec<u8> {
        self.head(&[(http::header::TRANSFER_ENCODING, "chunked".to_owned())])
    }

    /// The answer as it should be, framed with its length.
    pub(super) fn framed(&self) -> Vec<u8> {
        [&self.head_with_length(self.body.len() as u64)[..], &self.body].concat()
    }

    /// A script that sends this and has the status of this answer.
    pub(super) fn script(&self, bytes: impl Into<Bytes>, end: End) -> Script {
        let status = Some(self.status.as_u16());
        Script { status, steps: vec![Step::Send(bytes.into())], end }
    }
}

impl Script {
    /// Nothing is sent.
    pub(crate) fn nothing(end: End) -> Self {
        Self { status: None, steps: Vec::new(), end }
    }
}

impl Spoiled {
    /// The status that is sent; `None` when none is.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Reply(reply) => Some(reply.status.as_u16()),
            Self::Script(script) => script.status,
        }
    }
}
