//! What waits for the writer, in the order it was asked for.
//!
//! A hold that nobody waits for yet is *parked* for a moment: a read's answer often comes before that moment is
//! over, and a call whose end is known is written once, as it ended, instead of twice.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::CallId;
use domain::time::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::courier::Bag;
use super::{Hold, HoldOutcome, Resolution};

/// Above so many ends of calls waiting, no further holds are taken.
const RESOLUTIONS_MAX: usize = 10_000;

/// A hold that waits.
pub(crate) struct HoldRequest {
    pub(crate) hold: Hold,
    /// Whether its cost is reserved in the mirror.
    pub(crate) reserved: bool,
    pub(crate) reply: oneshot::Sender<HoldOutcome>,
    /// Where the outcome is handed out, if not right by the writer.
    pub(crate) bag: Option<Arc<Bag>>,
}

/// The end of a call that waits.
pub(crate) struct ResolveRequest {
    pub(crate) resolution: Resolution,
    pub(crate) reply: oneshot::Sender<bool>,
    /// When it was asked for; kept when it must be tried again, so that holds are refused meanwhile.
    pub(crate) since: Instant,
}

/// Whatever waits.
pub(crate) enum Request {
    Hold(Box<HoldRequest>),
    Resolve(Box<ResolveRequest>),
    Renew { call_id: CallId, expires_at: Timestamp },
}

/// What the writer takes at once.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) holds: Vec<HoldRequest>,
    pub(crate) resolutions: Vec<ResolveRequest>,
    pub(crate) renewals: Vec<(CallId, Timestamp)>,
}

/// The queue between those who ask and the writer.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<(Instant, Request)>,
    /// Holds that nobody waits for yet.
    parked: HashMap<CallId, HoldRequest>,
    /// When each of them joins the others at the latest, soonest first; also of some that have joined already.
    due: VecDeque<(Instant, CallId)>,
    /// Holds that wait, the parked ones included.
    holds: usize,
    resolutions: usize,
    /// Nobody can add anything any more.
    closed: bool,
    /// Nobody will ever take anything again.
    abandoned: bool,
}

/// Whether a hold was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    Queued,
    Overloaded,
}

/// How full the queue is.
pub(crate) struct Fill {
    pub(crate) holds: usize,
    pub(crate) resolutions: usize,
    pub(crate) oldest: Duration,
}

impl Queue {
    /// Adds a hold, unless too many wait or the oldest has waited too long.
    pub(crate) fn push_hold(
        &self,
        request: HoldRequest,
        patience: Duration,
        (holds_max, age_max): (usize, Duration),
    ) -> Pushed {
        let mut waiting = self.waiting();
        if waiting.is_overloaded(holds_max, age_max) {
            return Pushed::Overloaded;
        }
        let is_news = if patience.is_zero() {
            waiting.push_back(Request::Hold(Box::new(request)));
            true
        } else {
            waiting.park(request, Instant::now() + patience)
        };
        drop(waiting);
        if is_news {
            self.changed.notify_one();
        }
        Pushed::Queued
    }

    /// Somebody waits for this hold: it is parked no longer.
    pub(crate) fn hurry(&self, call_id: CallId) {
        let has_joined = self.waiting().join(call_id);
        if has_joined {
            self.changed.notify_one();
        }
    }

    /// Whether a hold would be refused now.
    pub(crate) fn is_overloaded(&self, holds_max: usize, age_max: Duration) -> bool {
        self.waiting().is_overloaded(holds_max, age_max)
    }

    /// Adds what is never refused. The hold it is about goes before it.
    pub(crate) fn push(&self, request: Request) {
        let mut waiting = self.waiting();
        waiting.join(request.call_id());
        waiting.push_back(request);
        drop(waiting);
        self.changed.notify_one();
    }

    /// Puts what could not be written back to the front, in its order.
    pub(crate) fn put_back(&self, batch: Batch) {
        let mut waiting = self.waiting();
        let now = Instant::now();
        for (call_id, expires_at) in batch.renewals.into_iter().rev() {
            waiting.push_front(now, Request::Renew { call_id, expires_at });
        }
        for request in batch.resolutions.into_iter().rev() {
            waiting.push_front(request.since, Request::Resolve(Box::new(request)));
        }
    }

    /// The writer is gone: whoever waits is told by the end of the channel they wait on.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.waiting();
        waiting.abandoned = true;
        let left = (std::mem::take(&mut waiting.requests), std::mem::take(&mut waiting.parked));
        drop(waiting);
        drop(left);
    }

    /// Nobody can add anything any more.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_one();
    }

    /// Waits for something to do; nothing when the queue is closed and empty.
    pub(crate) async fn next(&self, requests_max: usize) -> Option<Batch> {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut waiting = self.waiting();
                waiting.join_due(Instant::now());
                if !waiting.requests.is_empty() {
                    return Some(waiting.take(requests_max.max(1)));
                }
                if waiting.closed {
                    return None;
                }
                waiting.due.front().map(|(due, _)| *due)
            };
            match due {
                Some(due) => drop(tokio::time::timeout_at(due, changed).await),
                None => changed.await,
            }
        }
    }

    pub(crate) fn fill(&self) -> Fill {
        let waiting = self.waiting();
        Fill { holds: waiting.holds, resolutions: waiting.resolutions, oldest: waiting.oldest() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    /// The call it is about.
    fn call_id(&self) -> CallId {
        match self {
            Self::Hold(request) => request.hold.call_id,
            Self::Resolve(request) => request.resolution.call_id,
            Self::Renew { call_id, .. } => *call_id,
        }
    }
}

impl Waiting {
    /// Parks a hold. True when the writer may sleep longer than it may now.
    fn park(&mut self, request: HoldRequest, due: Instant) -> bool {
        if self.abandoned {
            return false;
        }
        let is_first = self.parked.is_empty();
        self.holds += 1;
        self.due.push_back((due, request.hold.call_id));
        self.parked.insert(request.hold.call_id, request);
        is_first
    }

    /// Puts a parked hold among the others. False when it is not parked.
    fn join(&mut self, call_id: CallId) -> bool {
        let Some(request) = self.parked.remove(&call_id) else {
            return false;
        };
        self.requests.push_back((Instant::now(), Request::Hold(Box::new(request))));
        true
    }

    /// Puts those among the others whose time is over; all of them when nothing more can come.
    fn join_due(&mut self, now: Instant) {
        while let Some((due, call_id)) = self.due.front().copied() {
            let is_parked = self.parked.contains_key(&call_id);
            if is_parked && due > now && !self.closed {
                return;
            }
            self.due.pop_front();
            self.join(call_id);
        }
    }

    fn is_overloaded(&self, holds_max: usize, age_max: Duration) -> bool {
        self.holds >= holds_max || self.resolutions > RESOLUTIONS_MAX || self.oldest() > age_max
    }

    fn oldest(&self) -> Duration {
        self.requests.front().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    fn push_back(&mut self, request: Request) {
        if self.abandoned {
            return;
        }
        self.count(&request);
        self.requests.push_back((Instant::now(), request));
    }

    fn push_front(&mut self, since: Instant, request: Request) {
        self.count(&request);
        self.requests.push_front((since, request));
    }

    fn count(&mut self, request: &Request) {
        match request {
            Request::Hold(_) => self.holds += 1,
            Request::Resolve(_) => self.resolutions += 1,
            Request::Renew { .. } => {}
        }
    }

    fn take(&mut self, requests_max: usize) -> Batch {
        let mut batch = Batch::default();
        let count = self.requests.len().min(requests_max);
        for (_, request) in self.requests.drain(..count) {
            match request {
                Request::Hold(hold) => batch.holds.push(*hold),
                Request::Resolve(resolve) => batch.resolutions.push(*resolve),
                Request::Renew { call_id, expires_at } => {
                    batch.renewals.push((call_id, expires_at));
                }
            }
        }
        self.holds = self.holds.saturating_sub(batch.holds.len());
        self.resolutions = self.resolutions.saturating_sub(batch.resolutions.len());
        batch
    }
}
