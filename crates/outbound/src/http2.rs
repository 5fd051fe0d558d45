//! One HTTP/2 connection, which carries many requests at a time and is moved on by a task of its
//! own.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::body::RequestBody;
use super::connect::{ConnectionWatch, WatchedStream};
use super::http1::UnansweredRequest;
use super::upstream::HEAD_BYTES_MAX;

const STREAM_WINDOW_BYTES: u32 = 262_144;
/// Room for 64 answers whose callers do not read on; more of them on one connection hold the others
/// up.
const CONNECTION_WINDOW_BYTES: u32 = 64 * STREAM_WINDOW_BYTES;
const PING_AFTER: Duration = Duration::from_secs(20);
const PING_WAIT: Duration = Duration::from_secs(10);

/// A connection for many requests. Clones share it.
#[derive(Clone)]
pub(super) struct Http2Connection {
    sender: SendRequest<RequestBody>,
    pub(super) watch: Arc<ConnectionWatch>,
}

impl Http2Connection {
    pub(super) async fn open(stream: TokioIo<WatchedStream>) -> Result<Self, hyper::Error> {
        let watch = stream.inner().watch();
        let executor = TokioExecutor::new();
        let mut builder = http2::Builder::new(executor.clone());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_WAIT);
        let (sender, connection) = builder.handshake(stream).await?;
        executor.execute(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an HTTP/2 connection to a platform ended");
            }
        });
        Ok(Self { sender, watch })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and waits for the head of its answer. What only informs is passed over;
    /// hyper does not tell of it here, so the time for the head is what ends it.
    pub(super) async fn exchange(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, UnansweredRequest> {
        self.sender.try_send_request(request).await
    }
}
