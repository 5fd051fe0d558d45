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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A spooled body of these parts; an error is its end.
    struct SpooledParts(VecDeque<Result<&'static [u8], &'static str>>);

    impl Body for SpooledParts {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            let part = self.0.pop_front();
            Poll::Ready(part.map(|part| match part {
                Ok(bytes) => Ok(Frame::data(Bytes::from_static(bytes))),
                Err(problem) => Err(problem.into()),
            }))
        }

        fn size_hint(&self) -> SizeHint {
            let bytes = self.0.iter().flatten().map(|part| as_u64(part.len())).sum();
            SizeHint::with_exact(bytes)
        }
    }

    fn spooled<const N: usize>(parts: [Result<&'static [u8], &'static str>; N]) -> RequestBody {
        RequestBody::spooled(SpooledParts(parts.into()))
    }

    async fn next(body: &mut RequestBody) -> Option<Result<Bytes, String>> {
        let frame = body.frame().await?;
        Some(frame.map(|frame| frame.into_data().unwrap()).map_err(|error| error.to_string()))
    }

    #[tokio::test]
    async fn bytes_in_memory_leave_in_one_part_and_can_be_signed_before() {
        let mut body = RequestBody::whole(Bytes::from_static(b"abc"));

        assert!(matches!(body.view(), BodyContentView::InMemory(b"abc")));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"abc"))));
        assert_eq!(next(&mut body).await, None);
        assert!(body.is_end_stream());
        assert_eq!(body.progress().get(), 0, "nothing counts them");
    }

    #[tokio::test]
    async fn no_body_is_at_its_end_before_it_begins() {
        for mut body in [RequestBody::empty(), RequestBody::default()] {
            assert!(matches!(body.view(), BodyContentView::InMemory(b"")));
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
            assert_eq!(next(&mut body).await, None);
        }
    }

    #[tokio::test]
    async fn a_spooled_body_is_read_as_it_leaves_and_each_part_is_counted() {
        let mut body = spooled([Ok(b"ab"), Ok(b"c")]);
        let progress = body.progress();

        assert!(matches!(body.view(), BodyContentView::Spooled));
        assert_eq!((body.size_hint().exact(), progress.get()), (Some(3), 0));
        assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"ab"))));
        assert_eq!((body.size_hint().exact(), progress.get()), (Some(1), 1));
        assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"c"))));
        assert_eq!(next(&mut body).await, None);
        assert_eq!(progress.get(), 3, "its end is progress too");
        assert_eq!(body.progress().get(), 3, "the counter is that of the body");
    }

    #[tokio::test]
    async fn a_spooled_body_that_cannot_be_read_fails_with_its_own_error() {
        let mut body = spooled([Ok(b"ab"), Err("the file is gone")]);

        assert!(next(&mut body).await.unwrap().is_ok());
        assert_eq!(next(&mut body).await, Some(Err("the file is gone".to_owned())));
    }
}
