//! Reads request bodies within limits on size, time and the memory of all bodies together.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::budget::{BudgetRoom, BudgetShare};

/// Minimum rates at which a body must arrive after the grace period: (up to this many bytes, bytes
/// per second). The more memory a body holds, the faster it must arrive.
type LowestRates = &'static [(u64, u64)];
/// For bodies kept in memory.
const MEMORY: LowestRates = &[(16 * KIB, KIB), (128 * KIB, 8 * KIB), (u64::MAX, 64 * KIB)];
/// For bodies written to disk.
const DISK: LowestRates = &[(16 * KIB, KIB), (u64::MAX, 8 * KIB)];
const KIB: u64 = 1024;

/// The first reservation for a body whose length is only announced: at most this multiple of what
/// has arrived.
const AHEAD: usize = 4;
/// And at most this many bytes more than what has arrived.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Where a body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPlace {
    /// Into memory.
    InMemory,
    /// To disk.
    OnDisk,
}

/// The limits for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// The most bytes.
    pub bytes_max: usize,
    /// Extra time at the start, before the minimum rate counts.
    pub grace: Duration,
    /// The time within which the whole body must arrive.
    pub total: Duration,
    /// Where it is kept, which decides the minimum rates.
    pub kept: BodyPlace,
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyProblem {
    /// It is larger than this many bytes: 413.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// It did not arrive within its time, or was so slow that other bodies needed its memory: 408.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// Its framing is broken, or the caller disconnected: 400.
    #[error("the body could not be read to its end")]
    Broken,
    /// All bodies together use all the memory they may: 503.
    #[error("too many request bodies are being read; try again")]
    NoRoom,
    /// The bodies of this caller use all the memory they may: 429.
    #[error("too many request bodies of this caller are being read; wait for some to end")]
    ShareFull,
}

/// A whole body. Dropping it returns its share of the budget.
#[derive(Debug, Default)]
pub struct BufferedRequestBody {
    /// The bytes.
    pub bytes: Bytes,
    /// Its share of the budget; none for an empty body.
    _share: Option<BudgetShare>,
}

/// Reads a body part by part within its limits, for bodies that are not kept in memory.
#[derive(Debug)]
pub struct BodyReader<B> {
    body: B,
    limits: BodyLimits,
    began: Instant,
    bytes: usize,
}

impl<B> BodyReader<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// Starts the clock. A body that announces more than the limit is refused unread.
    pub fn new(body: B, limits: &BodyLimits) -> Result<Self, BodyProblem> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > limits.bytes_max {
            return Err(BodyProblem::TooLarge(limits.bytes_max));
        }
        Ok(Self { body, limits: *limits, began: Instant::now(), bytes: 0 })
    }

    /// The next part, or `None` at the end. Trailers are dropped.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyProblem> {
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

    /// The time by which the next part must arrive: each byte that has arrived extends it at the
    /// minimum rate.
    fn deadline(&self) -> Instant {
        let bytes = u64::try_from(self.bytes).unwrap_or(u64::MAX);
        let rates = match self.limits.kept {
            BodyPlace::InMemory => MEMORY,
            BodyPlace::OnDisk => DISK,
        };
        self.began + (self.limits.grace + time_for(bytes, rates)).min(self.limits.total)
    }
}

/// The time that this many bytes may take at the minimum rates.
fn time_for(bytes: u64, rates: LowestRates) -> Duration {
    let (mut from, mut millis) = (0, 0_u64);
    for (up_to, per_second) in rates {
        let at_this_rate = bytes.min(*up_to).saturating_sub(from);
        millis = millis.saturating_add(at_this_rate.saturating_mul(1_000) / per_second);
        from = *up_to;
    }
    Duration::from_millis(millis)
}

/// Reads a whole body into memory, if the budget allows.
pub async fn read_body<B>(
    body: B,
    limits: &BodyLimits,
    room: BudgetRoom<'_>,
) -> Result<BufferedRequestBody, BodyProblem>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return Ok(BufferedRequestBody { bytes: Bytes::new(), _share: None });
    }
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut reader = BodyReader::new(body, limits)?;
    let Some(first) = reader.next().await? else {
        return Ok(BufferedRequestBody { bytes: Bytes::new(), _share: None });
    };
    let mut share = room.share();
    share.grow(first.len())?;
    if first.len() == announced && reader.body.is_end_stream() {
        return Ok(BufferedRequestBody { bytes: first, _share: Some(share) });
    }
    share.begin_receiving()?;
    let Some(second) = next_part(&mut reader, &share).await? else {
        share.end_receiving()?;
        return Ok(BufferedRequestBody { bytes: first, _share: Some(share) });
    };
    let mut whole = GrowingBody { bytes: Vec::new(), announced };
    whole.add(&first, &mut share)?;
    let mut part = Some(second);
    while let Some(bytes) = part {
        whole.add(&bytes, &mut share)?;
        part = next_part(&mut reader, &share).await?;
    }
    share.end_receiving()?;
    Ok(BufferedRequestBody { bytes: whole.bytes.into(), _share: Some(share) })
}

/// The next part, or an error if other bodies need the memory before it arrives.
async fn next_part<B>(
    reader: &mut BodyReader<B>,
    share: &BudgetShare,
) -> Result<Option<Bytes>, BodyProblem>
where
    B: Body<Data = Bytes> + Unpin,
{
    tokio::select! {
        biased;
        () = share.given_up() => Err(BodyProblem::TooSlow),
        part = reader.next() => part,
    }
}

/// A body that arrives in parts. The budget counts what is reserved for it, not only what has
/// arrived.
struct GrowingBody {
    bytes: Vec<u8>,
    announced: usize,
}

impl GrowingBody {
    fn add(&mut self, part: &Bytes, share: &mut BudgetShare) -> Result<(), BodyProblem> {
        let needed = self.bytes.len() + part.len();
        if needed > self.bytes.capacity() {
            let more = match self.bytes.capacity() {
                0 => (needed * AHEAD).min(needed + AHEAD_BYTES_MAX),
                capacity => needed.max(capacity * 2),
            };
            let wanted = if self.announced >= needed { more.min(self.announced) } else { more };
            share.hold(wanted)?;
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use http::HeaderMap;
    use http_body::Frame;
    use http_body_util::Full;
    use tokio::time::Sleep;

    use crate::middleware::budget::MemoryBudget;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: BodyLimits = BodyLimits {
        bytes_max: 1_000_000,
        grace: Duration::from_secs(10),
        total: Duration::from_mins(1),
        kept: BodyPlace::InMemory,
    };

    /// Reads a body for a separate holder.
    async fn read<B>(
        body: B,
        limits: &BodyLimits,
        budget: &MemoryBudget,
    ) -> Result<BufferedRequestBody, BodyProblem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        read_body(body, limits, BudgetRoom { budget, holder: &Arc::default() }).await
    }

    fn budget(bytes_max: usize) -> MemoryBudget {
        MemoryBudget::new(bytes_max, bytes_max)
    }

    /// A body that yields its parts after pauses.
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
    async fn a_body_in_one_part_is_not_copied() {
        let bytes = Bytes::from_static(b"{\"a\":1}");
        let budget = budget(100_000);

        let buffered = read(Full::new(bytes.clone()), &LIMITS, &budget).await.unwrap();

        assert_eq!(buffered.bytes.as_ptr(), bytes.as_ptr());
        assert_eq!(budget.bytes_used(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn the_parts_of_a_body_are_joined_and_its_trailers_dropped() {
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

        let buffered = read(body, &LIMITS, &budget(100_000)).await.unwrap();

        assert_eq!(buffered.bytes, "abcdef");
    }

    #[tokio::test]
    async fn an_empty_body_needs_no_memory() {
        let full = budget(0);

        let buffered = read(Full::new(Bytes::new()), &LIMITS, &full).await.unwrap();
        let ended_late = read(scripted([]), &LIMITS, &full).await.unwrap();

        assert!(buffered.bytes.is_empty());
        assert!(ended_late.bytes.is_empty());
    }

    #[tokio::test]
    async fn a_body_that_announces_too_much_is_refused_unread() {
        let limits = BodyLimits { bytes_max: 10, ..LIMITS };
        let budget = budget(100_000);

        let problem = read(Full::new(Bytes::from(vec![0; 11])), &limits, &budget).await;

        assert_eq!(problem.unwrap_err(), BodyProblem::TooLarge(10));
        assert!(read(Full::new(Bytes::from(vec![0; 10])), &limits, &budget).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_grows_too_large_is_refused_and_returns_its_memory() {
        let limits = BodyLimits { bytes_max: 10, ..LIMITS };
        let budget = budget(100_000);
        let body = scripted([(Duration::ZERO, part(6)), (SECOND, part(6)), (SECOND, part(6))]);

        let problem = read(body, &limits, &budget).await.unwrap_err();

        assert_eq!(problem, BodyProblem::TooLarge(10));
        assert_eq!(budget.bytes_used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dripping_body_is_refused_after_the_grace_period() {
        let began = Instant::now();
        let drip = (0..1_000).map(|_| (SECOND, part(1)));

        let problem = read(scripted(drip), &LIMITS, &budget(100_000)).await.unwrap_err();

        assert_eq!(problem, BodyProblem::TooSlow);
        assert_eq!(began.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_a_body_holds_the_faster_it_must_arrive() {
        let steady = |seconds: usize, bytes: usize| {
            scripted((0..seconds).map(move |_| (SECOND, part(bytes))))
        };
        let limits = BodyLimits { bytes_max: 2_000_000, ..LIMITS };
        let budget = budget(10_000_000);
        let small = read(steady(16, 1_024), &limits, &budget).await;
        let slow = read(steady(50, 1_024), &limits, &budget).await;
        let fast = read(steady(50, 25_600), &limits, &budget).await;
        let long = read(steady(70, 25_600), &limits, &budget).await;

        assert!(small.is_ok() && fast.is_ok(), "{small:?} {fast:?}");
        assert_eq!(slow.unwrap_err(), BodyProblem::TooSlow);
        assert_eq!(
            long.unwrap_err(),
            BodyProblem::TooSlow,
            "no body may take longer than the total"
        );
    }

    #[test]
    fn the_time_for_a_body_follows_from_the_minimum_rates() {
        let seconds = |bytes, rates| time_for(bytes, rates).as_secs();

        assert_eq!([0, 4, 16].map(|kib| seconds(kib * KIB, MEMORY)), [0, 4, 16]);
        assert_eq!(seconds(128 * KIB, MEMORY), 16 + 14);
        assert_eq!(seconds(1_024 * KIB, MEMORY), 16 + 14 + 14);
        assert_eq!(seconds(1_040 * KIB, DISK), 16 + 128);
    }

    #[test]
    fn the_budget_counts_reserved_bytes_not_only_received_ones() {
        let budget = budget(1_000_000);
        let mut share = BudgetRoom { budget: &budget, holder: &Arc::default() }.share();
        let mut whole = GrowingBody { bytes: Vec::new(), announced: 900_000 };

        whole.add(&Bytes::from(vec![0; 1_000]), &mut share).unwrap();
        assert_eq!((whole.bytes.capacity(), budget.bytes_used()), (4_000, 4_000));
        whole.add(&Bytes::from(vec![0; 899_000]), &mut share).unwrap();
        assert_eq!((whole.bytes.capacity(), budget.bytes_used()), (900_000, 900_000));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_give_way_to_one_that_arrives_whole() {
        let budget = budget(64 * 1_024);
        let drip = || scripted((0..1_000).map(|_| (SECOND, part(900))));
        let late = async {
            tokio::time::sleep(5 * SECOND).await;
            read(Full::new(Bytes::from(vec![b'x'; 60_000])), &LIMITS, &budget).await
        };

        let (one, other, late) =
            tokio::join!(read(drip(), &LIMITS, &budget), read(drip(), &LIMITS, &budget), late,);

        assert!(late.is_ok(), "{late:?}");
        assert_eq!(one.unwrap_err(), BodyProblem::TooSlow);
        assert_eq!(other.unwrap_err(), BodyProblem::TooSlow);
        drop(late);
        assert_eq!(budget.bytes_used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_with_broken_framing_is_refused() {
        let body = scripted([(Duration::ZERO, part(5)), (SECOND, Err("invalid chunk size"))]);

        let problem = read(body, &LIMITS, &budget(100_000)).await.unwrap_err();

        assert_eq!(problem, BodyProblem::Broken);
    }

    #[tokio::test]
    async fn all_bodies_together_stay_within_the_budget() {
        let budget = budget(10);
        let six = || Full::new(Bytes::from_static(b"sixsix"));
        let held = read(six(), &LIMITS, &budget).await.unwrap();

        let problem = read(six(), &LIMITS, &budget).await.unwrap_err();
        assert_eq!(problem, BodyProblem::NoRoom);
        drop(held);

        assert!(read(six(), &LIMITS, &budget).await.is_ok());
        assert_eq!(budget.bytes_used(), 0);
    }
}
