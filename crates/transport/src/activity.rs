//! What a connection is doing, and how long it may continue to do so.
//!
//! There is one rule for each way to hold a connection without using it, for HTTP/1 and HTTP/2
//! alike. Each connection has a single timer, which is reset only when it fires: a request costs a
//! few stores and no timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How long a closing connection may still send data, which is discarded. Closing immediately would
/// make the kernel reset the connection, and the client could lose the response that says why.
const LINGER: Duration = Duration::from_secs(2);

/// How long a connection without a request is kept after the listener stops.
const DRAIN_IDLE: Duration = Duration::from_secs(2);

/// Writes of at most this many bytes are HTTP/2 housekeeping (a ping's acknowledgement, a window
/// update). They do not count as use, otherwise a peer could keep an idle connection open forever.
const HOUSEKEEPING_BYTES_MAX: usize = 64;

/// How long each state may last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActivityTimeouts {
    /// Without a request.
    pub(crate) head: Duration,
    /// With bytes that the peer does not accept.
    pub(crate) stall: Duration,
    /// From the stop of the listener until the connection is closed.
    pub(crate) drain: Duration,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnding {
    /// Closed by either side, in order or by a failure.
    Closed,
    /// No complete request head arrived in time.
    Idle,
    /// The peer did not read its response.
    Stalled,
    /// The listener stopped and could not wait any longer.
    Drained,
}

/// Whether the connection may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActivityVerdict {
    /// It may, at least until this moment.
    Until(Instant),
    /// It must be closed.
    Close(ConnectionEnding),
}

/// What one connection is doing. Moments are milliseconds since the connection began, plus one; 0
/// means unset.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    began: Instant,
    allowances: ActivityTimeouts,
    /// Requests between their head and the end of their response body.
    requests: AtomicU32,
    /// When the last request ended or the peer last accepted bytes of a response.
    idle_since: AtomicU64,
    /// When the socket stopped taking bytes.
    blocked_since: AtomicU64,
    /// Bodies that returned a part and were not asked for the next one yet.
    waiting_bodies: AtomicU32,
    /// When a body last returned a part.
    handed_out: AtomicU64,
    /// Whether the last request had a body, which the peer may still be sending.
    had_body: AtomicBool,
    /// When the write side was closed.
    lingering_since: AtomicU64,
    /// When the listener was told to stop.
    draining_since: AtomicU64,
}

impl ConnectionActivity {
    pub(crate) fn new(allowances: ActivityTimeouts) -> Self {
        Self {
            began: Instant::now(),
            allowances,
            requests: AtomicU32::new(0),
            idle_since: AtomicU64::new(1),
            blocked_since: AtomicU64::new(0),
            waiting_bodies: AtomicU32::new(0),
            handed_out: AtomicU64::new(0),
            had_body: AtomicBool::new(false),
            lingering_since: AtomicU64::new(0),
            draining_since: AtomicU64::new(0),
        }
    }

    /// A request's head has arrived. The request ends when the returned value is dropped.
    #[inline]
    pub(crate) fn begin_request(self: &Arc<Self>, has_body: bool) -> RunningRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.had_body.store(has_body, Ordering::Relaxed);
        RunningRequest { activity: Arc::clone(self), waiting: false }
    }

    /// The socket took bytes.
    #[inline]
    pub(crate) fn wrote(&self, bytes: usize) {
        self.blocked_since.store(0, Ordering::Relaxed);
        if bytes > HOUSEKEEPING_BYTES_MAX {
            self.idle_since.store(self.moment(), Ordering::Relaxed);
        }
    }

    /// The socket does not take bytes at the moment.
    #[inline]
    pub(crate) fn blocked(&self) {
        self.stamp_first(&self.blocked_since);
    }

    /// The write side is closed; returns whether the peer may still be sending a body.
    pub(crate) fn linger(&self) -> bool {
        self.stamp_first(&self.lingering_since);
        self.had_body.load(Ordering::Relaxed)
    }

    /// The listener is stopping.
    pub(crate) fn drain(&self) {
        self.stamp_first(&self.draining_since);
    }

    /// Whether the connection only waits for the peer to finish sending.
    #[inline]
    pub(crate) fn is_lingering(&self) -> bool {
        self.lingering_since.load(Ordering::Relaxed) != 0
    }

    /// The earliest time after its beginning at which a connection must be judged.
    pub(crate) fn first_look(&self) -> Duration {
        self.allowances.head.min(self.allowances.stall)
    }

    /// Judges the connection at `now`. Whatever starts later has its full time ahead of it, so
    /// judging again at the returned moment is never too late.
    pub(crate) fn judge(&self, now: Instant) -> ActivityVerdict {
        let ConnectionDeadline { at, ending } = self.deadline(now);
        if at <= now { ActivityVerdict::Close(ending) } else { ActivityVerdict::Until(at) }
    }

    fn deadline(&self, now: Instant) -> ConnectionDeadline {
        let ActivityTimeouts { head, stall, drain } = self.allowances;
        let own = self.own_deadline(now, head, stall);
        let Some(draining_since) = self.since(&self.draining_since) else {
            return own;
        };
        let in_use = self.requests.load(Ordering::Relaxed) > 0 || self.is_blocked();
        let allowed = if in_use { drain } else { drain.min(DRAIN_IDLE) };
        let drained = ConnectionEnding::Drained.at(draining_since + allowed);
        if drained.at < own.at { drained } else { own }
    }

    fn own_deadline(&self, now: Instant, head: Duration, stall: Duration) -> ConnectionDeadline {
        if let Some(since) = self.since(&self.lingering_since) {
            return ConnectionEnding::Closed.at(since + LINGER);
        }
        if let Some(since) = self.since(&self.blocked_since) {
            return ConnectionEnding::Stalled.at(since + stall);
        }
        if self.waiting_bodies.load(Ordering::Relaxed) > 0
            && let Some(since) = self.since(&self.handed_out)
        {
            return ConnectionEnding::Stalled.at(since + stall);
        }
        if self.requests.load(Ordering::Relaxed) == 0
            && let Some(since) = self.since(&self.idle_since)
        {
            return ConnectionEnding::Idle.at(since + head);
        }
        ConnectionEnding::Idle.at(now + self.first_look())
    }

    fn is_blocked(&self) -> bool {
        self.blocked_since.load(Ordering::Relaxed) != 0
    }

    /// The current moment in its stored form.
    #[inline]
    fn moment(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1).saturating_add(1)
    }

    fn since(&self, stored: &AtomicU64) -> Option<Instant> {
        let moment = stored.load(Ordering::Relaxed).checked_sub(1)?;
        self.began.checked_add(Duration::from_millis(moment))
    }

    #[inline]
    fn stamp_first(&self, stored: &AtomicU64) {
        if stored.load(Ordering::Relaxed) == 0 {
            stored.store(self.moment(), Ordering::Relaxed);
        }
    }
}

/// When a connection ends unless something happens, and how.
struct ConnectionDeadline {
    at: Instant,
    ending: ConnectionEnding,
}

impl ConnectionEnding {
    const fn at(self, at: Instant) -> ConnectionDeadline {
        ConnectionDeadline { at, ending: self }
    }
}

/// One request of a connection, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    activity: Arc<ConnectionActivity>,
    waiting: bool,
}

impl RunningRequest {
    /// The response body returned a part and has more: the peer must read.
    #[inline]
    pub(crate) fn handed_out(&mut self) {
        self.activity.handed_out.store(self.activity.moment(), Ordering::Relaxed);
        if !self.waiting {
            self.waiting = true;
            self.activity.waiting_bodies.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The response body is asked for its next part: this service must produce it.
    #[inline]
    pub(crate) fn asked(&mut self) {
        if self.waiting {
            self.waiting = false;
            self.activity.waiting_bodies.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for RunningRequest {
    #[inline]
    fn drop(&mut self) {
        self.asked();
        self.activity.idle_since.store(self.activity.moment(), Ordering::Relaxed);
        self.activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn activity() -> Arc<ConnectionActivity> {
        let allowances =
            ActivityTimeouts { head: 30 * SECOND, stall: 20 * SECOND, drain: 10 * SECOND };
        Arc::new(ConnectionActivity::new(allowances))
    }

    fn seconds_left(activity: &ConnectionActivity) -> u64 {
        match activity.judge(Instant::now()) {
            ActivityVerdict::Until(moment) => (moment - Instant::now()).as_secs(),
            ActivityVerdict::Close(_) => 0,
        }
    }

    fn verdict(activity: &ConnectionActivity) -> ActivityVerdict {
        activity.judge(Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_idle_after_the_head_timeout() {
        let activity = activity();

        assert_eq!(seconds_left(&activity), 30);
        tokio::time::advance(29 * SECOND).await;
        assert_eq!(seconds_left(&activity), 1);
        tokio::time::advance(SECOND).await;

        assert_eq!(verdict(&activity), ActivityVerdict::Close(ConnectionEnding::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_request_has_no_deadline_and_its_end_starts_the_head_timeout() {
        let activity = activity();
        let request = activity.begin_request(false);

        tokio::time::advance(100 * SECOND).await;
        assert_eq!(seconds_left(&activity), 20, "judged again, not closed");
        drop(request);

        assert_eq!(seconds_left(&activity), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_accepts_no_bytes_is_stalled_until_it_makes_progress() {
        let activity = activity();
        let _request = activity.begin_request(false);
        activity.blocked();

        tokio::time::advance(19 * SECOND).await;
        activity.wrote(1);
        activity.blocked();
        tokio::time::advance(19 * SECOND).await;
        assert_eq!(seconds_left(&activity), 1);
        activity.blocked();
        tokio::time::advance(SECOND).await;

        assert_eq!(verdict(&activity), ActivityVerdict::Close(ConnectionEnding::Stalled));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_body_that_waits_for_the_peer_is_stalled() {
        let activity = activity();
        let mut request = activity.begin_request(false);

        request.handed_out();
        request.asked();
        tokio::time::advance(100 * SECOND).await;
        assert_eq!(seconds_left(&activity), 20);
        request.handed_out();
        tokio::time::advance(20 * SECOND).await;

        assert_eq!(verdict(&activity), ActivityVerdict::Close(ConnectionEnding::Stalled));
    }

    #[tokio::test(start_paused = true)]
    async fn accepted_response_bytes_count_as_use_and_pings_do_not() {
        let activity = activity();
        drop(activity.begin_request(false));

        tokio::time::advance(20 * SECOND).await;
        activity.wrote(17);
        assert_eq!(seconds_left(&activity), 10);
        activity.wrote(1_000);

        assert_eq!(seconds_left(&activity), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_listener_closes_idle_connections_before_those_with_running_requests() {
        let busy = activity();
        let idle = activity();
        let _request = busy.begin_request(false);

        busy.drain();
        idle.drain();

        assert_eq!((seconds_left(&busy), seconds_left(&idle)), (10, 2));
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(verdict(&busy), ActivityVerdict::Close(ConnectionEnding::Drained));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closing_connection_waits_two_seconds_for_the_rest_of_a_body() {
        let activity = activity();
        drop(activity.begin_request(true));

        assert!(activity.linger());

        assert_eq!(seconds_left(&activity), 2);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(verdict(&activity), ActivityVerdict::Close(ConnectionEnding::Closed));
    }
}
