//! What waits for the writer, in the order it was asked for.

use std::collections::VecDeque;
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
        holds_max: usize,
        age_max: Duration,
    ) -> Pushed {
        let mut waiting = self.waiting();
        if waiting.is_overloaded(holds_max, age_max) {
            return Pushed::Overloaded;
        }
        waiting.push_back(Request::Hold(Box::new(request)));
        drop(waiting);
        self.changed.notify_one();
        Pushed::Queued
    }

    /// Whether a hold would be refused now.
    pub(crate) fn is_overloaded(&self, holds_max: usize, age_max: Duration) -> bool {
        self.waiting().is_overloaded(holds_max, age_max)
    }

    /// Adds what is never refused.
    pub(crate) fn push(&self, request: Request) {
        self.waiting().push_back(request);
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
        let left = std::mem::take(&mut waiting.requests);
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
            {
                let mut waiting = self.waiting();
                if !waiting.requests.is_empty() {
                    return Some(waiting.take(requests_max.max(1)));
                }
                if waiting.closed {
                    return None;
                }
            }
            changed.await;
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

impl Waiting {
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
