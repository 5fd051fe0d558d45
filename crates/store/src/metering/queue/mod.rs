//! What waits for the writer, in the order it was asked for.
//!
//! A hold that nobody waits for yet is *parked* for a moment: a read's answer often comes before that moment is
//! over, and a call whose end is known is written once, as it ended, instead of twice. Whoever ends the call has the
//! hold at hand and joins the two, so nothing has to be looked for.
//!
//! While more holds are parked than wait, their ends are about to come, so the writer *gathers* for a moment: half as
//! many commits cost each call less. A call that is alone never waits for others.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::CallId;
use domain::time::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{CallResolution, Hold, HoldOutcome};

/// Above so many ends of calls waiting, no further holds are taken.
const RESOLUTIONS_MAX: usize = 10_000;

/// A hold that waits.
pub(crate) struct HoldRequest {
    pub(crate) hold: Arc<Hold>,
    /// Whether its cost is reserved in the balance cache.
    pub(crate) reserved: bool,
    pub(crate) reply: oneshot::Sender<HoldOutcome>,
    /// The mailbox in which the outcome is handed out, if not right by the writer.
    pub(crate) mailbox: Option<usize>,
    /// The end of its call, where that came before the hold was written.
    pub(crate) end: Option<Box<ResolveRequest>>,
}

/// The end of a call that waits.
pub(crate) struct ResolveRequest {
    pub(crate) resolution: CallResolution,
    /// Who wants to know when it is written.
    pub(crate) reply: Option<oneshot::Sender<bool>>,
    /// When it was asked for; kept when it must be tried again, so that holds are refused meanwhile.
    pub(crate) since: Instant,
}

impl ResolveRequest {
    /// Says whether this end is the one that counts, to who wants to know.
    pub(crate) fn tell(self, is_first: bool) {
        if let Some(reply) = self.reply {
            // Whoever asked may be gone.
            let _ = reply.send(is_first);
        }
    }
}

/// A hold that is parked, until somebody takes it: who waits for it or ends its call, or the queue, when its moment is
/// over.
#[derive(Clone)]
pub(crate) struct ParkedHold(Arc<Mutex<Option<HoldRequest>>>);

impl ParkedHold {
    fn new(request: HoldRequest) -> Self {
        Self(Arc::new(Mutex::new(Some(request))))
    }

    fn place(&self) -> MutexGuard<'_, Option<HoldRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<HoldRequest> {
        self.place().take()
    }

    fn is_taken(&self) -> bool {
        self.place().is_none()
    }
}

/// Whatever waits.
pub(crate) enum MeterRequest {
    Hold(HoldRequest),
    Resolve(Box<ResolveRequest>),
    Renew { call_id: CallId, expires_at: Timestamp },
}

/// What the writer takes at once.
#[derive(Default)]
pub(crate) struct RequestBatch {
    pub(crate) holds: Vec<HoldRequest>,
    /// The ends that came apart from their holds.
    pub(crate) resolutions: Vec<ResolveRequest>,
    pub(crate) renewals: Vec<(CallId, Timestamp)>,
}

impl RequestBatch {
    /// How many calls are to be ended.
    pub(crate) fn ends(&self) -> usize {
        self.resolutions.len() + self.holds.iter().filter(|request| request.end.is_some()).count()
    }
}

/// The queue between those who ask and the writer.
#[derive(Default)]
pub(crate) struct MeterQueue {
    waiting: Mutex<WaitingRequests>,
    changed: Notify,
}

#[derive(Default)]
struct WaitingRequests {
    requests: VecDeque<(Instant, MeterRequest)>,
    /// Holds that nobody waits for yet, and when each joins the others at the latest, soonest first; also some that
    /// were taken already.
    parked: VecDeque<(Instant, ParkedHold)>,
    /// How many of them are parked still.
    parked_count: usize,
    /// The writer waits for more; it is woken when there is enough.
    is_gathering: bool,
    /// Holds that wait, the parked ones included.
    holds: usize,
    resolutions: usize,
    /// Nobody can add anything any more.
    closed: bool,
    /// Nobody will ever take anything again.
    abandoned: bool,
}

/// The queue has no place for another hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueOverloaded;

/// What the writer finds when it looks.
enum QueueReadiness {
    /// There is enough to write.
    Take,
    /// Nothing more can come.
    End,
    /// Too little: look again when something changes, or then.
    Wait(Option<Instant>),
}

/// How full the queue is.
pub(crate) struct QueueFill {
    pub(crate) holds: usize,
    pub(crate) resolutions: usize,
    pub(crate) oldest: Duration,
}

impl MeterQueue {
    /// Adds a hold, unless too many wait or the oldest has waited too long; parks it first where there is patience.
    pub(crate) fn push_hold(
        &self,
        request: HoldRequest,
        patience: Duration,
        (holds_max, age_max): (usize, Duration),
    ) -> Result<Option<ParkedHold>, QueueOverloaded> {
        let now = Instant::now();
        let mut waiting = self.waiting();
        if waiting.is_overloaded(holds_max, age_max, now) {
            return Err(QueueOverloaded);
        }
        let (parked, is_news) = if patience.is_zero() {
            waiting.push_back(MeterRequest::Hold(request), now);
            (None, true)
        } else {
            let (parked, is_first) = waiting.park(request, now + patience);
            (Some(parked), is_first)
        };
        self.tell(waiting, is_news);
        Ok(parked)
    }

    /// Somebody waits for this hold: it is parked no longer.
    pub(crate) fn hurry(&self, parked: &ParkedHold) {
        if let Some(request) = parked.take() {
            let mut waiting = self.waiting();
            waiting.join(request, Instant::now());
            self.tell(waiting, true);
        }
    }

    /// Adds the end of a call whose hold may still be parked.
    pub(crate) fn push_end(&self, parked: Option<&ParkedHold>, end: Box<ResolveRequest>) {
        let (now, hold) = (end.since, parked.and_then(ParkedHold::take));
        let mut waiting = self.waiting();
        match hold {
            Some(mut hold) => {
                hold.end = Some(end);
                waiting.join(hold, now);
            }
            None => waiting.push_back(MeterRequest::Resolve(end), now),
        }
        self.tell(waiting, true);
    }

    /// Adds a renewal of a hold that is not parked.
    pub(crate) fn push_renewal(&self, call_id: CallId, expires_at: Timestamp) {
        let mut waiting = self.waiting();
        waiting.push_back(MeterRequest::Renew { call_id, expires_at }, Instant::now());
        self.tell(waiting, true);
    }

    /// Wakes the writer, if there is news for it and it need not gather any longer.
    fn tell(&self, waiting: MutexGuard<'_, WaitingRequests>, is_news: bool) {
        let is_enough = !waiting.is_gathering || waiting.is_gathered();
        drop(waiting);
        if is_news && is_enough {
            self.changed.notify_one();
        }
    }

    /// Puts what could not be written back to the front, in its order.
    pub(crate) fn put_back(&self, batch: RequestBatch) {
        let mut waiting = self.waiting();
        let now = Instant::now();
        for (call_id, expires_at) in batch.renewals.into_iter().rev() {
            waiting.push_front(now, MeterRequest::Renew { call_id, expires_at });
        }
        for request in batch.resolutions.into_iter().rev() {
            waiting.push_front(request.since, MeterRequest::Resolve(Box::new(request)));
        }
    }

    /// The writer is gone: whoever waits is told by the end of the channel they wait on.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.waiting();
        waiting.abandoned = true;
        waiting.parked_count = 0;
        let left = (std::mem::take(&mut waiting.requests), std::mem::take(&mut waiting.parked));
        drop(waiting);
        drop(left);
    }

    /// Nobody can add anything any more.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_one();
    }

    /// Waits for something to do, and while more ends are about to come than wait, so long for those; nothing when the
    /// queue is closed and empty.
    pub(crate) async fn next(
        &self,
        requests_max: usize,
        gather_max: Duration,
    ) -> Option<RequestBatch> {
        let requests_max = requests_max.max(1);
        loop {
            let changed = self.changed.notified();
            let until = {
                let mut waiting = self.waiting();
                waiting.join_due();
                match waiting.look(requests_max, gather_max) {
                    QueueReadiness::Take => return Some(waiting.take(requests_max)),
                    QueueReadiness::End => return None,
                    QueueReadiness::Wait(until) => until,
                }
            };
            match until {
                Some(until) => drop(tokio::time::timeout_at(until, changed).await),
                None => changed.await,
            }
        }
    }

    pub(crate) fn fill(&self) -> QueueFill {
        let waiting = self.waiting();
        QueueFill {
            holds: waiting.holds,
            resolutions: waiting.resolutions,
            oldest: waiting.oldest(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingRequests> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingRequests {
    /// Parks a hold; says too whether the writer may have to be told that there is one.
    fn park(&mut self, request: HoldRequest, due: Instant) -> (ParkedHold, bool) {
        let parked = ParkedHold::new(request);
        if self.abandoned {
            drop(parked.take());
            return (parked, false);
        }
        let is_first = self.parked.is_empty();
        self.holds += 1;
        self.parked_count += 1;
        self.parked.push_back((due, parked.clone()));
        (parked, is_first)
    }

    /// Puts a hold that was parked among the others.
    fn join(&mut self, request: HoldRequest, now: Instant) {
        self.parked_count = self.parked_count.saturating_sub(1);
        if self.abandoned {
            return;
        }
        self.resolutions += usize::from(request.end.is_some());
        self.requests.push_back((now, MeterRequest::Hold(request)));
    }

    /// Whether the writer should take what there is.
    fn look(&mut self, requests_max: usize, gather_max: Duration) -> QueueReadiness {
        let first = self.requests.front().map(|(since, _)| *since);
        self.is_gathering = false;
        match first {
            None if self.closed => QueueReadiness::End,
            None => QueueReadiness::Wait(self.parked.front().map(|(due, _)| *due)),
            Some(_) if self.is_gathered() || self.requests.len() >= requests_max => {
                QueueReadiness::Take
            }
            Some(since) if since.elapsed() >= gather_max => QueueReadiness::Take,
            Some(since) => {
                self.is_gathering = true;
                QueueReadiness::Wait(Some(since + gather_max))
            }
        }
    }

    /// Whether no more ends are about to come than wait already.
    fn is_gathered(&self) -> bool {
        self.closed || self.parked_count <= self.requests.len()
    }

    /// Puts those among the others whose time is over; all of them when nothing more can come.
    fn join_due(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((due, parked)) = self.parked.front() {
            if *due > now && !self.closed && !parked.is_taken() {
                return;
            }
            let taken = parked.take();
            self.parked.pop_front();
            if let Some(request) = taken {
                self.join(request, now);
            }
        }
    }

    fn is_overloaded(&self, holds_max: usize, age_max: Duration, now: Instant) -> bool {
        let oldest = self.requests.front().map(|(since, _)| now.saturating_duration_since(*since));
        self.holds >= holds_max
            || self.resolutions > RESOLUTIONS_MAX
            || oldest.is_some_and(|oldest| oldest > age_max)
    }

    fn oldest(&self) -> Duration {
        self.requests.front().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    fn push_back(&mut self, request: MeterRequest, since: Instant) {
        if self.abandoned {
            return;
        }
        self.count(&request);
        self.requests.push_back((since, request));
    }

    fn push_front(&mut self, since: Instant, request: MeterRequest) {
        self.count(&request);
        self.requests.push_front((since, request));
    }

    fn count(&mut self, request: &MeterRequest) {
        match request {
            MeterRequest::Hold(_) => self.holds += 1,
            MeterRequest::Resolve(_) => self.resolutions += 1,
            MeterRequest::Renew { .. } => {}
        }
    }

    fn take(&mut self, requests_max: usize) -> RequestBatch {
        let mut batch = RequestBatch::default();
        let count = self.requests.len().min(requests_max);
        for (_, request) in self.requests.drain(..count) {
            match request {
                MeterRequest::Hold(hold) => batch.holds.push(hold),
                MeterRequest::Resolve(resolve) => batch.resolutions.push(*resolve),
                MeterRequest::Renew { call_id, expires_at } => {
                    batch.renewals.push((call_id, expires_at));
                }
            }
        }
        self.holds = self.holds.saturating_sub(batch.holds.len());
        self.resolutions = self.resolutions.saturating_sub(batch.ends());
        batch
    }
}
