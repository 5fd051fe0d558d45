//! What goes over the wire in the end: a reply that HTTP can carry, or a script for the socket.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};
use serde_json::Value;

/// A whole answer, before it is framed.
#[derive(Clone, Debug)]
pub struct WireReply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers, without those that frame it.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// How a request is answered.
#[derive(Debug)]
pub enum SocketReply {
    /// HTTP can carry it.
    Whole(WireReply),
    /// It is played on the socket.
    Script(SocketScript),
}

/// What happens on the socket, step by step, and then.
#[derive(Debug)]
pub struct SocketScript {
    /// The status that is sent; `None` when none is.
    pub status: Option<u16>,
    /// What happens, in this order.
    pub steps: Vec<ScriptStep>,
    /// What becomes of the connection then.
    pub end: ConnectionEnd,
}

/// One step of a script.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// Sends these bytes.
    Send(Bytes),
    /// Sends the same bytes many times.
    Repeat {
        /// What is sent.
        bytes: Bytes,
        /// How many times.
        times: u64,
    },
    /// Sends a few bytes at a time, and waits after each.
    Drip {
        /// What is sent, in all.
        bytes: Bytes,
        /// How many of them at a time.
        size: usize,
        /// How long the wait is.
        pause: Duration,
    },
    /// Sends nothing for this long.
    Wait(Duration),
}

/// What becomes of the connection after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The next request is served.
    Keep,
    /// It is closed in order.
    Close,
    /// It is reset, so that the other side gets an error.
    Reset,
    /// It stays open and silent until the other side closes it.
    Hang,
}

impl WireReply {
    /// An answer with this status, without headers or a body.
    pub fn new(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// The same with this header; a value that no header can hold leaves it out.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// The same with this body and its type.
    #[must_use]
    pub fn content(self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self.header(CONTENT_TYPE, content_type) }
    }

    /// An answer with this status that is JSON, or nothing.
    pub fn json(status: StatusCode, body: Option<&Value>) -> Self {
        let reply = Self::new(status);
        match body {
            Some(body) => reply.content("application/json", body.to_string()),
            None => reply,
        }
    }

    /// The status line and the headers with these, up to the empty line that ends them.
    pub(crate) fn head(&self, more: &[(HeaderName, String)]) -> Vec<u8> {
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

    /// The head of a response whose body has this many bytes.
    pub(crate) fn head_with_length(&self, bytes: u64) -> Vec<u8> {
        self.head(&[(http::header::CONTENT_LENGTH, bytes.to_string())])
    }

    /// The head of an answer in chunks.
    pub(crate) fn head_in_chunks(&self) -> Vec<u8> {
        self.head(&[(http::header::TRANSFER_ENCODING, "chunked".to_owned())])
    }

    /// The answer as it should be, framed with its length.
    pub(crate) fn framed(&self) -> Vec<u8> {
        [&self.head_with_length(self.body.len() as u64)[..], &self.body].concat()
    }

    /// A script that sends this and has the status of this answer.
    pub(crate) fn script(&self, bytes: impl Into<Bytes>, end: ConnectionEnd) -> SocketScript {
        let status = Some(self.status.as_u16());
        SocketScript { status, steps: vec![ScriptStep::Send(bytes.into())], end }
    }
}

impl SocketScript {
    /// Nothing is sent.
    pub fn nothing(end: ConnectionEnd) -> Self {
        Self { status: None, steps: Vec::new(), end }
    }
}

impl SocketReply {
    /// The status that is sent; `None` when none is.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Whole(reply) => Some(reply.status.as_u16()),
            Self::Script(script) => script.status,
        }
    }
}
