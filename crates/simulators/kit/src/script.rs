//! What is finally sent: a reply that HTTP can carry, or a script for the socket.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};
use serde_json::Value;

/// A complete response before framing.
#[derive(Clone, Debug)]
pub struct WireReply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers, without those that frame it.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// How a request gets its response.
#[derive(Debug)]
pub enum SocketReply {
    /// HTTP can carry it.
    Whole(WireReply),
    /// Played on the socket.
    Script(SocketScript),
}

/// The steps on the socket, and how the connection ends.
#[derive(Debug)]
pub struct SocketScript {
    /// The status that is sent; `None` if none is sent.
    pub status: Option<u16>,
    /// The steps, in order.
    pub steps: Vec<ScriptStep>,
    /// What happens to the connection afterwards.
    pub end: ConnectionEnd,
}

/// One step of a script.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// Sends these bytes.
    Send(Bytes),
    /// Sends the same bytes several times.
    Repeat {
        /// The bytes.
        bytes: Bytes,
        /// How many times.
        times: u64,
    },
    /// Sends a few bytes at a time, and waits after each.
    Drip {
        /// All bytes.
        bytes: Bytes,
        /// The number of bytes sent at a time.
        size: usize,
        /// The pause after each.
        pause: Duration,
    },
    /// Sends nothing for this long.
    Wait(Duration),
}

/// What happens to the connection after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The next request is served.
    Keep,
    /// It is closed in order.
    Close,
    /// It is reset, so that the peer gets an error.
    Reset,
    /// It stays open and silent until the peer closes it.
    Hang,
}

impl WireReply {
    /// A response with this status, without headers or a body.
    pub fn new(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// Adds this header; an invalid value is omitted.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Sets this body and its type.
    #[must_use]
    pub fn content(self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self.header(CONTENT_TYPE, content_type) }
    }

    /// A response with this status and a JSON body, or none.
    pub fn json(status: StatusCode, body: Option<&Value>) -> Self {
        let reply = Self::new(status);
        match body {
            Some(body) => reply.content("application/json", body.to_string()),
            None => reply,
        }
    }

    /// The status line and the headers together with `more`, up to the empty line that ends them.
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

    /// The head of a chunked response.
    pub(crate) fn head_in_chunks(&self) -> Vec<u8> {
        self.head(&[(http::header::TRANSFER_ENCODING, "chunked".to_owned())])
    }

    /// The correct response, framed with its length.
    pub(crate) fn framed(&self) -> Vec<u8> {
        [&self.head_with_length(self.body.len() as u64)[..], &self.body].concat()
    }

    /// A script that sends these bytes and has the status of this response.
    pub(crate) fn script(&self, bytes: impl Into<Bytes>, end: ConnectionEnd) -> SocketScript {
        let status = Some(self.status.as_u16());
        SocketScript { status, steps: vec![ScriptStep::Send(bytes.into())], end }
    }
}

impl SocketScript {
    /// Sends nothing.
    pub fn nothing(end: ConnectionEnd) -> Self {
        Self { status: None, steps: Vec::new(), end }
    }
}

impl SocketReply {
    /// The status that is sent; `None` if none is sent.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Whole(reply) => Some(reply.status.as_u16()),
            Self::Script(script) => script.status,
        }
    }
}
