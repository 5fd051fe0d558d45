//! One HTTP/1.1 connection, moved on by whoever uses it: a call and its connection are one task, so
//! that nothing has to be woken or handed over between them. While it is idle nobody looks at it;
//! what happened meanwhile is seen before its next use.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::body::RequestBody;
use super::connect::{ConnectionWatch, WatchedStream};
use super::inline_waker::InlineWaker;
use super::upstream::HEAD_BYTES_MAX;

/// What a request that found no answer leaves behind.
pub(super) type UnansweredRequest = TrySendError<Request<RequestBody>>;

/// A connection for one request at a time.
pub(super) struct Http1Connection {
    sender: SendRequest<RequestBody>,
    connection: Http1Driver,
    inline_waker: InlineWaker,
    pub(super) watch: Arc<ConnectionWatch>,
}

/// What reads and writes for the sender; none when it has ended.
struct Http1Driver(Option<http1::Connection<TokioIo<WatchedStream>, RequestBody>>);

impl Http1Driver {
    /// Lets the connection read and write what it can.
    fn move_on(&mut self, context: &mut Context<'_>) {
        let connection = self.0.as_mut().map(Pin::new);
        if connection.is_some_and(|connection| connection.poll(context).is_ready()) {
            self.0 = None;
        }
    }
}

impl Http1Connection {
    /// On a stream that is open. Nothing is sent.
    pub(super) async fn open(stream: TokioIo<WatchedStream>) -> Result<Self, hyper::Error> {
        let watch = stream.inner().watch();
        // More than a hundred headers are hyper's own limit for an answer.
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX).writev(false);
        let (sender, connection) = builder.handshake(stream).await?;
        let connection = Http1Driver(Some(connection));
        Ok(Self { sender, connection, inline_waker: InlineWaker::new(), watch })
    }

    /// Polls what this connection brings, and while that is not there lets it read and write what
    /// it can.
    pub(super) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Self { connection, inline_waker, .. } = self;
        inline_waker.poll(context, |own| {
            let polled = poll(own);
            if polled.is_pending() {
                // What it brings now wakes, and is polled again at once.
                connection.move_on(own);
            }
            polled
        })
    }

    /// Whether it can take a request, as far as can be seen now.
    pub(super) fn look(&mut self, context: &mut Context<'_>) -> bool {
        let Self { connection, inline_waker, .. } = self;
        let looked = inline_waker.poll(context, |own| {
            connection.move_on(own);
            Poll::Ready(())
        });
        looked.is_ready() && self.is_ready()
    }

    /// Whether it could take a request when it last moved on.
    pub(super) fn is_ready(&self) -> bool {
        self.connection.0.is_some() && self.sender.is_ready()
    }

    /// Wakes nobody until it is used again.
    pub(super) fn rest(&self) {
        self.inline_waker.rest();
    }

    /// Sends a request; gives the head of its answer, to be polled with the connection.
    pub(super) fn begin(
        &mut self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<Response<Incoming>, UnansweredRequest>> + use<> {
        self.watch.expect_answer();
        // The task is about to poll it anyway.
        self.rest();
        self.sender.try_send_request(request)
    }
}
