//! The writer's queue, in request order.
//!
//! A hold that no caller waits for is *parked* for a moment: a read often ends within that time,
//! and then the call is written once, as ended, instead of twice. The task that settles the call
//! has the parked hold at hand and joins the two, so nothing has to be looked up.
//!
//! While more holds are freshly parked than requests wait, settlements are about to come, so the
//! writer *gathers* for a moment: half as many commits make each call cheaper. A single call never
//! waits for others. A hold that has been parked for longer is that of a slow platform: it *rests*,
//! still to be written together with its end, but nobody gathers for it, and it does not count as
//! waiting.

mod commit_times;
mod parked;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::CallId;
use domain::time::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub(crate) use self::parked::{ParkedHold, ParkingTime};

use self::commit_times::CommitTimes;
use self::parked::{ParkedEntry, TakenHold};
use super::{CallResolution, Hold, HoldOutcome};

/// Above this number of waiting settlements, no further holds are accepted.
const RESOLUTIONS_MAX: usize = 10_000;

/// How many holds may wait, and for how long.
#[derive(Clone, Copy)]
pub(crate) struct QueueLimits {
    pub(crate) holds_max: usize,
    /// The age of the oldest.
    pub(crate) age_max: Duration,
    /// How long a hold behind them may be expected to wait.
    pub(crate) wait_max: Duration,
    /// The most requests that the writer takes for one transaction.
    pub(crate) batch: usize,
}

/// A hold to be written.
pub(crate) struct HoldRequest {
    pub(crate) hold: Arc<Hold>,
    /// Whether its cost is reserved in the balance cache.
    pub(crate) reserved: bool,
    /// Whether its read may have been sent although other nodes may take its credits first.
    pub(crate) travels: bool,
    /// Since when it waits to be written.
    pub(crate) since: Instant,
    /// Receives the outcome; none once the hold has failed because it waited too long.
    pub(crate) reply: Option<oneshot::Sender<HoldOutcome>>,
    /// The mailbox that receives the outcome; none if the writer sends it directly.
    pub(crate) mailbox: Option<usize>,
    /// The settlement of its call, if it came before the hold was written.
    pub(crate) end: Option<Box<ResolveRequest>>,
}

/// A settlement to be written.
pub(crate) struct ResolveRequest {
    pub(crate) resolution: CallResolution,
    /// Receives whether this settlement counts, once it is written.
    pub(crate) reply: Option<oneshot::Sender<bool>>,
    /// When it was requested. Kept across retries, so that holds are refused meanwhile.
    pub(crate) since: Instant,
}

impl ResolveRequest {
    /// Reports whether this settlement counts, if a caller waits for that.
    pub(crate) fn tell(self, is_first: bool) {
        if let Some(reply) = self.reply {
            // The caller may have stopped waiting.
            let _ = reply.send(is_first);
        }
    }
}

/// A request to the writer.
pub(crate) enum MeterRequest {
    Hold(HoldRequest),
    Resolve(Box<ResolveRequest>),
    Renew { call_id: CallId, expires_at: Timestamp },
}

/// What the writer takes for one transaction.
#[derive(Default)]
pub(crate) struct RequestBatch {
    pub(crate) holds: Vec<HoldRequest>,
    /// The settlements that came separately from their holds.
    pub(crate) resolutions: Vec<ResolveRequest>,
    pub(crate) renewals: Vec<(CallId, Timestamp)>,
}

impl RequestBatch {
    /// The number of settlements.
    pub(crate) fn ends(&self) -> usize {
        self.resolutions.len() + self.holds.iter().filter(|request| request.end.is_some()).count()
    }
}

/// The queue between callers and the writer.
#[derive(Default)]
pub(crate) struct MeterQueue {
    waiting: Mutex<WaitingRequests>,
    changed: Notify,
}

#[derive(Default)]
struct WaitingRequests {
    requests: VecDeque<(Instant, MeterRequest)>,
    /// Parked holds, those that are due soonest first; includes some that were already taken.
    parked: VecDeque<ParkedEntry>,
    /// How many of them, from the first one on, rest or were taken before they could.
    resting: usize,
    /// How many of the others are still parked.
    fresh_count: usize,
    /// The writer is gathering; it is woken when there is enough.
    is_gathering: bool,
    /// Waiting holds, including freshly parked ones.
    holds: usize,
    resolutions: usize,
    commit_times: CommitTimes,
    /// The last meter has been dropped: no more requests can come.
    closed: bool,
    /// The writer is gone: nothing will be taken any more.
    abandoned: bool,
}

/// The queue accepts no further hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueOverloaded;

/// What the writer should do next.
enum QueueReadiness {
    /// Take a batch.
    Take,
    /// Stop: nothing more can come.
    End,
    /// Wait until something changes or this time has come, then look again.
    Wait(Option<Instant>),
}

/// How full the queue is.
pub(crate) struct QueueFill {
    pub(crate) holds: usize,
    pub(crate) resolutions: usize,
    pub(crate) oldest: Duration,
}

impl MeterQueue {
    /// Adds a hold, unless too many wait or the oldest has waited too long. With a parking
    /// time, the hold is parked first.
    pub(crate) fn push_hold(
        &self,
        request: HoldRequest,
        parking: Option<ParkingTime>,
        limits: QueueLimits,
    ) -> Result<Option<ParkedHold>, QueueOverloaded> {
        let now = Instant::now();
        let mut waiting = self.waiting();
        waiting.let_rest(now);
        if waiting.is_overloaded(limits, now) {
            return Err(QueueOverloaded);
        }
        let (parked, is_news) = match parking.filter(|time| !time.whole.is_zero()) {
            None => {
                waiting.push_back(MeterRequest::Hold(request), now);
                (None, true)
            }
            Some(time) => {
                let (parked, is_first) = waiting.park(request, time, now);
                (Some(parked), is_first)
            }
        };
        self.tell(waiting, is_news);
        Ok(parked)
    }

    /// Ends the parking of a hold, because a caller waits for it.
    pub(crate) fn hurry(&self, parked: &ParkedHold) {
        if let Some(taken) = parked.take() {
            let mut waiting = self.waiting();
            waiting.join(taken, Instant::now());
            self.tell(waiting, true);
        }
    }

    /// Adds the settlement of a call whose hold may still be parked.
    pub(crate) fn push_end(&self, parked: Option<&ParkedHold>, end: Box<ResolveRequest>) {
        if let Some(end) = self.join_end(parked, end) {
            let (since, mut waiting) = (end.since, self.waiting());
            waiting.push_back(MeterRequest::Resolve(end), since);
            self.tell(waiting, true);
        }
    }

    /// Adds the settlement of a call to its hold, if that is still parked; otherwise returns it.
    pub(crate) fn join_end(
        &self,
        parked: Option<&ParkedHold>,
        end: Box<ResolveRequest>,
    ) -> Option<Box<ResolveRequest>> {
        let Some(mut taken) = parked.and_then(ParkedHold::take) else { return Some(end) };
        let since = end.since;
        taken.request.end = Some(end);
        let mut waiting = self.waiting();
        waiting.join(taken, since);
        self.tell(waiting, true);
        None
    }

    /// Takes the holds of traveling reads that have waited for this long.
    pub(crate) fn take_overdue(&self, limit: Duration) -> Vec<HoldRequest> {
        self.waiting().take_overdue(limit)
    }

    /// Adds a renewal of a hold that is not parked.
    pub(crate) fn push_renewal(&self, call_id: CallId, expires_at: Timestamp) {
        let mut waiting = self.waiting();
        waiting.push_back(MeterRequest::Renew { call_id, expires_at }, Instant::now());
        self.tell(waiting, true);
    }

    /// Wakes the writer if there is news for it, unless it should keep gathering.
    fn tell(&self, waiting: MutexGuard<'_, WaitingRequests>, is_news: bool) {
        let is_enough = !waiting.is_gathering || waiting.is_gathered();
        drop(waiting);
        if is_news && is_enough {
            self.changed.notify_one();
        }
    }

    /// Notes how long a transaction took, from its start to the end of its commit.
    pub(crate) fn note_commit(&self, took: Duration) {
        self.waiting().commit_times.add(took);
    }

    /// Puts settlements and renewals that could not be written back to the front, in order.
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

    /// Called when the writer is gone. Callers notice it because their channels close.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.waiting();
        waiting.abandoned = true;
        (waiting.fresh_count, waiting.resting) = (0, 0);
        let left = (std::mem::take(&mut waiting.requests), std::mem::take(&mut waiting.parked));
        drop(waiting);
        drop(left);
    }

    /// Called when the last meter is dropped.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_one();
    }

    /// Waits for the next batch, and for up to `gather_max` while more settlements are about to
    /// come. None when the queue is closed and empty.
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
    /// Parks a hold. Also returns whether the writer may have to be woken for it.
    fn park(
        &mut self,
        request: HoldRequest,
        time: ParkingTime,
        now: Instant,
    ) -> (ParkedHold, bool) {
        let parked = ParkedHold::new(request);
        if self.abandoned {
            drop(parked.take());
            return (parked, false);
        }
        let is_first = self.parked.is_empty();
        self.holds += 1;
        self.fresh_count += 1;
        let (rests_at, due) = (now + time.fresh, now + time.whole);
        self.parked.push_back(ParkedEntry { rests_at, due, hold: parked.clone() });
        (parked, is_first)
    }

    /// Lets the holds rest that have been parked for a while.
    fn let_rest(&mut self, now: Instant) {
        while let Some(entry) = self.parked.get(self.resting)
            && entry.rests_at <= now
        {
            if entry.hold.rest() {
                self.fresh_count = self.fresh_count.saturating_sub(1);
                self.holds = self.holds.saturating_sub(1);
            }
            self.resting += 1;
        }
    }

    /// Queues a hold that was parked.
    fn join(&mut self, taken: TakenHold, now: Instant) {
        let TakenHold { request, was_resting } = taken;
        if self.abandoned {
            return;
        }
        if was_resting {
            self.holds += 1;
        } else {
            self.fresh_count = self.fresh_count.saturating_sub(1);
        }
        self.resolutions += usize::from(request.end.is_some());
        self.requests.push_back((now, MeterRequest::Hold(request)));
    }

    /// Decides what the writer should do next.
    fn look(&mut self, requests_max: usize, gather_max: Duration) -> QueueReadiness {
        let first = self.requests.front().map(|(since, _)| *since);
        self.is_gathering = false;
        match first {
            None if self.closed => QueueReadiness::End,
            None => QueueReadiness::Wait(self.parked.front().map(|entry| entry.due)),
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

    /// Whether at least as many requests wait as settlements are about to come.
    fn is_gathered(&self) -> bool {
        self.closed || self.fresh_count <= self.requests.len()
    }

    /// Queues the parked holds that are due; all of them once the queue is closed.
    fn join_due(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let now = Instant::now();
        self.let_rest(now);
        while let Some(ParkedEntry { due, hold, .. }) = self.parked.front() {
            if *due > now && !self.closed && !hold.is_taken() {
                return;
            }
            let taken = hold.take();
            self.parked.pop_front();
            self.resting = self.resting.saturating_sub(1);
            if let Some(taken) = taken {
                self.join(taken, now);
            }
        }
    }

    fn take_overdue(&mut self, limit: Duration) -> Vec<HoldRequest> {
        let is_overdue = |(since, request): &(Instant, MeterRequest)| {
            matches!(request, MeterRequest::Hold(hold) if hold.travels) && since.elapsed() >= limit
        };
        if !self.requests.iter().any(is_overdue) {
            return Vec::new();
        }
        let mut overdue = Vec::new();
        for entry in std::mem::take(&mut self.requests) {
            let is_taken = is_overdue(&entry);
            match entry {
                (_, MeterRequest::Hold(hold)) if is_taken => overdue.push(hold),
                kept => self.requests.push_back(kept),
            }
        }
        let ends = overdue.iter().filter(|hold| hold.end.is_some()).count();
        self.holds = self.holds.saturating_sub(overdue.len());
        self.resolutions = self.resolutions.saturating_sub(ends);
        overdue
    }

    fn is_overloaded(&self, limits: QueueLimits, now: Instant) -> bool {
        let oldest = self.requests.front().map(|(since, _)| now.saturating_duration_since(*since));
        self.holds >= limits.holds_max
            || self.resolutions > RESOLUTIONS_MAX
            || oldest.is_some_and(|oldest| oldest > limits.age_max)
            || self.is_expected_to_wait(limits)
    }

    /// Whether a further hold would wait too long at the speed of the latest commits. Requests that
    /// fit into one transaction are never too many: then the database is merely slow, and refusing
    /// calls would make none of them faster.
    fn is_expected_to_wait(&self, limits: QueueLimits) -> bool {
        let full = self.requests.len() / limits.batch.max(1);
        let full = u32::try_from(full).unwrap_or(u32::MAX);
        let wait = self.commit_times.usual().saturating_mul(full.saturating_add(1));
        full > 0 && wait > limits.wait_max
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
        for (since, request) in self.requests.drain(..count) {
            match request {
                MeterRequest::Hold(hold) => batch.holds.push(HoldRequest { since, ..hold }),
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
