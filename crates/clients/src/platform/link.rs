//! One HTTP/1.1 connection, moved on by whoever uses it: a call and its connection are one task, so that nothing has to
//! be woken or handed over between them. While it is idle nobody looks at it; what happened meanwhile is seen before
//! its next use.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::body::RequestBody;
use super::client::HEAD_BYTES_MAX;
use super::connect::{Watch, Watched};

/// What a request that found no answer leaves behind.
pub(super) type Unanswered = TrySendError<Request<RequestBody>>;

/// A connection for one request at a time.
pub(super) struct Link {
    sender: SendRequest<RequestBody>,
    connection: Moving,
    pub(super) watch: Arc<Watch>,
}

/// What reads and writes for the sender; none when it has ended.
pub(super) struct Moving(Option<http1::Connection<TokioIo<Watched>, RequestBody>>);

impl Moving {
    /// Lets the connection read and write what it can.
    pub(super) fn move_on(&mut self, context: &mut Context<'_>) {
        let connection = self.0.as_mut().map(Pin::new);
        if connection.is_some_and(|connection| connection.poll(context).is_ready()) {
            self.0 = None;
        }
    }
}

impl Link {
    /// On a stream that is open. Nothing is sent.
    pub(super) async fn open(stream: TokioIo<Watched>) -> Result<Self, hyper::Error> {
        let watch = stream.inner().watch();
        // More than a hundred headers are hyper's own limit for an answer.
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX).writev(false);
        let (sender, connection) = builder.handshake(stream).await?;
        Ok(Self { sender, connection: Moving(Some(connection)), watch })
    }

    /// Lets the connection read and write what it can.
    pub(super) fn move_on(&mut self, context: &mut Context<'_>) {
        self.connection.move_on(context);
    }

    /// Whether it would take a request. To be asked after it has moved on.
    pub(super) fn is_ready(&self) -> bool {
        self.connection.0.is_some() && self.sender.is_ready()
    }

    /// Sends a request: gives the head of its answer, to be waited for, and the connection, to be moved on meanwhile.
    pub(super) fn begin(
        &mut self,
        request: Request<RequestBody>,
    ) -> (impl Future<Output = Result<Response<Incoming>, Unanswered>> + use<>, &mut Moving) {
        self.watch.expect_answer();
        (self.sender.try_send_request(request), &mut self.connection)
    }
}
