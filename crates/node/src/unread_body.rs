//! Requests that are answered before their body is here.
//!
//! hyper closes the connection then, because the rest of the body stands where the next request
//! should. The response has to say so: a client that keeps connections would otherwise send its
//! next request into it (RFC 9112, section 9.6).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;

/// How much of an unread body is read to keep the connection, in bytes.
const DRAINED_MAX: usize = 65_536;
/// How often the connection is given a turn to read what has arrived.
const TURNS_MAX: usize = 8;

/// Watches how much of a request's body is read; nothing to watch if it has none.
pub(crate) struct BodyWatch(Option<Arc<Mutex<LeftBody>>>);

/// What has become of a body.
#[derive(Default)]
struct LeftBody {
    /// The body, once nobody reads it any more.
    body: Option<Incoming>,
    is_ended: bool,
    was_asked_for: bool,
}

/// A body that comes back when it is dropped before its end.
struct WatchedBody {
    body: Option<Incoming>,
    left: Arc<Mutex<LeftBody>>,
}

/// The body for the handler, and its watch. An empty body needs no allocation.
pub(crate) fn watched(incoming: Incoming) -> (Body, BodyWatch) {
    if incoming.is_end_stream() {
        return (Body::empty(), BodyWatch(None));
    }
    let left = Arc::default();
    let body = WatchedBody { body: Some(incoming), left: Arc::clone(&left) };
    (Body::new(body), BodyWatch(Some(left)))
}

impl BodyWatch {
    /// Whether the request has a body.
    pub(crate) const fn is_watching(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a part of the body has not arrived although the response is there. What has arrived
    /// is read, up to 64 KiB. A client that waits for `100 Continue` is not asked for its body.
    pub(crate) async fn finds_rest(self, awaits_continue: bool) -> bool {
        let Some(left) = self.0 else { return false };
        let (body, was_asked_for) = {
            let mut left = left.lock();
            if left.is_ended {
                return false;
            }
            (left.body.take(), left.was_asked_for)
        };
        match body {
            Some(body) if body.is_end_stream() => false,
            Some(body) if was_asked_for || !awaits_continue => !has_arrived(body).await,
            Some(_) | None => true,
        }
    }
}

/// Reads what has arrived, and returns whether that is the whole body.
async fn has_arrived(mut body: Incoming) -> bool {
    let (mut drained, mut turns) = (0, 0);
    loop {
        let next = poll_fn(|context| match Pin::new(&mut body).poll_frame(context) {
            Poll::Ready(next) => Poll::Ready(Some(next)),
            Poll::Pending => Poll::Ready(None),
        });
        match next.await {
            Some(None) => return true,
            Some(Some(Err(_))) => return false,
            Some(Some(Ok(frame))) => drained += frame.data_ref().map_or(0, Bytes::len),
            None => {
                turns += 1;
                tokio::task::yield_now().await;
            }
        }
        if drained > DRAINED_MAX || turns > TURNS_MAX {
            return body.is_end_stream();
        }
    }
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        let mut left = self.left.lock();
        left.was_asked_for = true;
        left.is_ended |= matches!(polled, Poll::Ready(None));
        drop(left);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        self.left.lock().body = self.body.take();
    }
}
