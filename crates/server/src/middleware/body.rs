//! Reading request bodies: never more than allowed, never slower than allowed, never more of all together
//! than there is memory for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

/// The rate below which a body counts as held back, once the grace is over.
const BYTES_PER_SECOND_MIN: u64 = 1024;

/// What is reserved for a body whose length is only claimed; more follows as bytes arrive.
const FIRST_CAPACITY_BYTES: usize = 64 * 1024;

/// What a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLimits {
    /// The most bytes.
    pub(crate) bytes_max: usize,
    /// How long it may take to come into its stride.
    pub(crate) grace: Duration,
    /// When all of it must be there.
    pub(crate) total: Duration,
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyProblem {
    /// It is larger than this many bytes: 413.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// It came slower than 1 KiB/s, or not whole within its time: 408.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// Its framing is broken, or the caller hung up: 400.
    #[error("the body could not be read to its end")]
    Broken,
    /// All bodies together take as much memory as they may: 503.
    #[error("too many request bodies are being read; try again")]
    NoRoom,
}

/// Memory that all buffered bodies share. Clones share it too.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bytes_max: usize,
    bytes_used: AtomicUsize,
}

/// A part of a [`Budget`]; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    bytes: usize,
}

/// A whole body. Its share of the budget is given back with it.
#[derive(Debug)]
pub(crate) struct Buffered {
    /// The bytes.
    pub(crate) bytes: Bytes,
    /// Their place in memory; none for an empty body.
    pub(crate) _share: Option<Share>,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Shared { bytes_max, bytes_used: AtomicUsize::new(0) }))
    }

    /// Bytes in use; for metrics.
    pub(crate) fn bytes_used(&self) -> usize {
        self.0.bytes_used.load(Ordering::Relaxed)
    }

    /// A share of nothing, which grows.
    pub(crate) fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// Takes `bytes`, if there are so many left.
    fn take(&self, bytes: usize) -> Result<(), BodyProblem> {
        let taken = self.0.bytes_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.0.bytes_max)
        });
        taken.map(drop).map_err(|_| BodyProblem::NoRoom)
    }
}

impl Share {
    /// Takes `bytes` more, if there are so many left.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BodyProblem> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.bytes_used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads a body part by part within its limits; for what is not kept in memory.
#[derive(Debug)]
pub(crate) struct BodyReader<B> {
    body: B,
    limits: BodyLimits,
    began: Instant,
    bytes: usize,
}

impl<B> BodyReader<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// Starts the clock. A body that announces more than it may have is refused unread.
    pub(crate) fn new(body: B, limits: &BodyLimits) -> Result<Self, BodyProblem> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > limits.bytes_max {
            return Err(BodyProblem::TooLarge(limits.bytes_max));
        }
        Ok(Self { body, limits: *limits, began: Instant::now(), bytes: 0 })
    }

    /// The next part, or none at the end. Trailers are dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BodyProblem> {
        loop {
            let frame = match tokio::time::timeout_at(self.deadline(), self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_))) => return Err(BodyProblem::Broken),
                Ok(None) => return Ok(None),
                Err(_) => return Err(BodyProblem::TooSlow),
            };
            let Ok(data) = frame.into_data() else { continue };
            self.bytes = self.bytes.saturating_add(data.len());
            if self.bytes > self.limits.bytes_max {
                return Err(BodyProblem::TooLarge(self.limits.bytes_max));
            }
            if data.has_remaining() {
                return Ok(Some(data));
            }
        }
    }

    /// When the next part must be there: what has come buys time at the lowest rate.
    fn deadline(&self) -> Instant {
        let bytes = u64::try_from(self.bytes).unwrap_or(u64::MAX);
        let earned = self.limits.grace
            + Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND_MIN);
        self.began + earned.min(self.limits.total)
    }
}

/// Reads a whole body into memory, as long as the budget has room for what has arrived.
pub(crate) async fn read_body<B>(
    body: B,
    limits: &BodyLimits,
    budget: &Budget,
) -> Result<Buffered, BodyProblem>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return Ok(Buffered { bytes: Bytes::new(), _share: None });
    }
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut reader = BodyReader::new(body, limits)?;
    let Some(first) = reader.next().await? else {
        return Ok(Buffered { bytes: Bytes::new(), _share: None });
    };
    let mut share = budget.share();
    share.grow(first.len())?;
    let Some(second) = reader.next().await? else {
        return Ok(Buffered { bytes: first, _share: Some(share) });
    };
    let mut whole = BytesMut::with_capacity(announced.min(FIRST_CAPACITY_BYTES));
    whole.extend_from_slice(&first);
    let mut part = Some(second);
    while let Some(bytes) = part {
        share.grow(bytes.len())?;
        whole.extend_from_slice(&bytes);
        part = reader.next().await?;
    }
    Ok(Buffered { bytes: whole.freeze(), _share: Some(share) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http::HeaderMap;
    use http_body::Frame;
    use http_body_util::Full;
    use tokio::time::Sleep;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: BodyLimits = BodyLimits {
        bytes_max: 1_000_000,
        grace: Duration::from_secs(10),
        total: Duration::from_mins(1),
    };

    /// A body that hands out parts with pauses before them.
    struct Scripted {
        steps: VecDeque<(Duration, Result<Frame<Bytes>, &'static str>)>,
        pause: Option<Pin<Box<Sleep>>>,
    }

    fn scripted(
        steps: impl IntoIterator<Item = (Duration, Result<Frame<Bytes>, &'static str>)>,
    ) -> Scripted {
        Scripted { steps: steps.into_iter().collect(), pause: None }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a step of a script is a result")]
    fn part(bytes: usize) -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::data(Bytes::from(vec![b'x'; bytes])))
    }

    impl Body for Scripted {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            let Some((pause, _)) = self.steps.front() else { return Poll::Ready(None) };
            let pause = *pause;
            let sleep = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
            std::task::ready!(sleep.as_mut().poll(context));
            self.pause = None;
            Poll::Ready(self.steps.pop_front().map(|(_, frame)| frame))
        }
    }

    #[tokio::test]
    async fn a_body_in_one_part_is_passed_on_without_a_copy() {
        let bytes = Bytes::from_static(b"{\"a\":1}");
        let budget = Budget::new(100);

        let buffered = read_body(Full::new(bytes.clone()), &LIMITS, &budget).await.unwrap();

        assert_eq!(buffered.bytes.as_ptr(), bytes.as_ptr());
        assert_eq!(budget.bytes_used(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn the_parts_of_a_body_are_put_together_and_its_trailers_dropped() {
        let trailers = Ok(Frame::trailers(HeaderMap::from_iter([(
            http::header::CONTENT_LENGTH,
            http::HeaderValue::from_static("5"),
        )])));
        let body = scripted([
            (Duration::ZERO, Ok(Frame::data(Bytes::from_static(b"ab")))),
            (SECOND, Ok(Frame::data(Bytes::new()))),
            (SECOND, Ok(Frame::data(Bytes::from_static(b"cd")))),
            (SECOND, Ok(Frame::data(Bytes::from_static(b"ef")))),
            (SECOND, trailers),
        ]);

        let buffered = read_body(body, &LIMITS, &Budget::new(100)).await.unwrap();

        assert_eq!(buffered.bytes, "abcdef");
    }

    #[tokio::test]
    async fn an_empty_body_needs_no_room() {
        let full = Budget::new(0);

        let buffered = read_body(Full::new(Bytes::new()), &LIMITS, &full).await.unwrap();
        let ended_late = read_body(scripted([]), &LIMITS, &full).await.unwrap();

        assert!(buffered.bytes.is_empty());
        assert!(ended_late.bytes.is_empty());
    }

    #[tokio::test]
    async fn a_body_that_announces_too_much_is_refused_unread() {
        let limits = BodyLimits { bytes_max: 10, ..LIMITS };
        let budget = Budget::new(100);

        let problem = read_body(Full::new(Bytes::from(vec![0; 11])), &limits, &budget).await;

        assert_eq!(problem.unwrap_err(), BodyProblem::TooLarge(10));
        assert!(read_body(Full::new(Bytes::from(vec![0; 10])), &limits, &budget).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_grows_too_large_is_refused_and_gives_its_room_back() {
        let limits = BodyLimits { bytes_max: 10, ..LIMITS };
        let budget = Budget::new(100);
        let body = scripted([(Duration::ZERO, part(6)), (SECOND, part(6)), (SECOND, part(6))]);

        let problem = read_body(body, &limits, &budget).await.unwrap_err();

        assert_eq!(problem, BodyProblem::TooLarge(10));
        assert_eq!(budget.bytes_used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dripping_body_is_refused_when_the_grace_is_over() {
        let began = Instant::now();
        let drip = (0..1_000).map(|_| (SECOND, part(1)));

        let problem = read_body(scripted(drip), &LIMITS, &Budget::new(100)).await.unwrap_err();

        assert_eq!(problem, BodyProblem::TooSlow);
        assert_eq!(began.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_at_the_lowest_rate_is_read_and_not_beyond_its_total_time() {
        let steady = |seconds: usize| (0..seconds).map(|_| (SECOND, part(1_024)));
        let budget = Budget::new(1_000_000);

        assert!(read_body(scripted(steady(50)), &LIMITS, &budget).await.is_ok());
        let problem = read_body(scripted(steady(70)), &LIMITS, &budget).await.unwrap_err();

        assert_eq!(problem, BodyProblem::TooSlow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_with_broken_framing_is_refused() {
        let body = scripted([(Duration::ZERO, part(5)), (SECOND, Err("invalid chunk size"))]);

        let problem = read_body(body, &LIMITS, &Budget::new(100)).await.unwrap_err();

        assert_eq!(problem, BodyProblem::Broken);
    }

    #[tokio::test]
    async fn all_bodies_together_stay_within_the_budget() {
        let budget = Budget::new(10);
        let six = || Full::new(Bytes::from_static(b"sixsix"));
        let held = read_body(six(), &LIMITS, &budget).await.unwrap();

        let problem = read_body(six(), &LIMITS, &budget).await.unwrap_err();
        assert_eq!(problem, BodyProblem::NoRoom);
        drop(held);

        assert!(read_body(six(), &LIMITS, &budget).await.is_ok());
        assert_eq!(budget.bytes_used(), 0);
    }
}
