//! The body of a request to a platform.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;

/// Why a body could not be read to its end, for logs.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request to a platform: bytes in memory, or spooled ones that are read as they
/// leave.
#[derive(Debug)]
pub struct RequestBody(BodyContent);

#[derive(Debug)]
enum BodyContent {
    /// Empty when it has left.
    Whole(Bytes),
    Spooled {
        body: BoxBody<Bytes, BodyError>,
        progress: SendProgress,
    },
}

/// The body as far as a signature can know it.
#[derive(Debug, Clone, Copy)]
pub enum BodyContentView<'a> {
    /// Its bytes.
    InMemory(&'a [u8]),
    /// Nothing: it is read as it leaves.
    Spooled,
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::empty()
    }
}

/// How much of a spooled body has left, for the time limit on the answer's head.
#[derive(Debug, Clone, Default)]
pub(super) struct SendProgress(Option<Arc<AtomicU64>>);

impl RequestBody {
    /// No body at all.
    pub fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    /// Bytes in memory.
    pub fn whole(bytes: Bytes) -> Self {
        Self(BodyContent::Whole(bytes))
    }

    /// A body that is read while it is sent, such as a spooled upload. Its size hint should be
    /// exact, so that it goes out with a `Content-Length`; otherwise it is chunked.
    pub fn spooled<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Send + Sync + 'static,
    {
        let body = body.map_err(Into::into).boxed();
        Self(BodyContent::Spooled { body, progress: SendProgress(Some(Arc::default())) })
    }

    /// What a signature can know of it.
    pub fn view(&self) -> BodyContentView<'_> {
        match &self.0 {
            BodyContent::Whole(bytes) => BodyContentView::InMemory(bytes),
            BodyContent::Spooled { .. } => BodyContentView::Spooled,
        }
    }

    /// The same counter that the body moves.
    pub(super) fn progress(&self) -> SendProgress {
        match &self.0 {
            BodyContent::Whole(_) => SendProgress::default(),
            BodyContent::Spooled { progress, .. } => progress.clone(),
        }
    }
}

impl SendProgress {
    /// How many parts have left.
    pub(super) fn get(&self) -> u64 {
        self.0.as_ref().map_or(0, |parts| parts.load(Ordering::Relaxed))
    }

    fn add_one(&self) {
        if let Some(parts) = &self.0 {
            parts.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            BodyContent::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            BodyContent::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            BodyContent::Spooled { body, progress } => {
                let polled = Pin::new(body).poll_frame(context);
                if polled.is_ready() {
                    progress.add_one();
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyContent::Whole(bytes) => bytes.is_empty(),
            BodyContent::Spooled { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyContent::Whole(bytes) => SizeHint::with_exact(as_u64(bytes.len())),
            BodyContent::Spooled { body, .. } => body.size_hint(),
        }
    }
}

fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
