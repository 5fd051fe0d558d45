//! What a node knows of refreshes of one account's token: its own that is running, and the claims
//! of other nodes as it has seen them.

use std::time::Duration;

use domain::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

/// How long a claim lasts beyond its latest renewal, in seconds. Others take it over after they
/// have seen it unrenewed for that time.
pub(super) const CLAIM_S: i64 = 40;

/// The refreshes of one account's token.
#[derive(Default)]
pub(super) struct RefreshWatch(Mutex<Watched>);

#[derive(Default)]
struct Watched {
    run: Option<RefreshRun>,
    /// How another node's claim was last renewed, and since when this node has seen it so.
    claim: Option<(Timestamp, Duration)>,
}

/// A refresh that this node makes.
#[derive(Clone)]
pub(super) struct RefreshRun(watch::Receiver<Option<bool>>);

/// Tells those who wait how a refresh ended; dropped without that, it ended badly.
pub(super) struct RefreshEnd(watch::Sender<Option<bool>>);

impl RefreshRun {
    /// Waits for its end: whether there is a fresh token, which is stored then.
    pub(super) async fn ended(mut self) -> bool {
        let ended = self.0.wait_for(Option::is_some).await;
        ended.is_ok_and(|is_fresh| *is_fresh == Some(true))
    }
}

impl RefreshEnd {
    /// The refresh has ended.
    pub(super) fn tell(self, is_fresh: bool) {
        self.0.send_replace(Some(is_fresh));
    }
}

impl RefreshWatch {
    /// The refresh that is running, if any.
    pub(super) fn running(&self) -> Option<RefreshRun> {
        self.0.lock().run.clone().filter(|run| run.0.has_changed().is_ok())
    }

    /// A refresh begins.
    pub(super) fn begin(&self) -> (RefreshRun, RefreshEnd) {
        let (sender, receiver) = watch::channel(None);
        let run = RefreshRun(receiver);
        *self.0.lock() = Watched { run: Some(run.clone()), claim: None };
        (run, RefreshEnd(sender))
    }

    /// This is how another node's claim looks after this node has been running for `at`.
    pub(super) fn saw(&self, stamp: Timestamp, at: Duration) {
        let mut watched = self.0.lock();
        if watched.claim.is_none_or(|(seen, _)| seen != stamp) {
            watched.claim = Some((stamp, at));
        }
    }

    /// The claim of another node that may be taken over if it still looks the same.
    pub(super) fn overdue(&self, at: Duration) -> Option<Timestamp> {
        let (stamp, since) = self.0.lock().claim?;
        let length = Duration::from_secs(CLAIM_S.unsigned_abs());
        (at.saturating_sub(since) >= length).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_claim_is_overdue_once_it_was_seen_unrenewed_for_its_whole_length() {
        let watch = RefreshWatch::default();
        // What it says about the time does not matter.
        let [old, renewed] = [-5, 7_200].map(|s| Timestamp::from_unix_micros(0).plus_seconds(s));
        assert_eq!(watch.overdue(at(1_000)), None);

        watch.saw(old, at(10));
        watch.saw(old, at(49));
        assert_eq!(watch.overdue(at(49)), None);
        assert_eq!(watch.overdue(at(50)), Some(old));

        watch.saw(renewed, at(50));
        assert_eq!((watch.overdue(at(89)), watch.overdue(at(90))), (None, Some(renewed)));
    }

    #[tokio::test]
    async fn a_refresh_runs_until_it_ends_or_is_lost() {
        let watch = RefreshWatch::default();
        assert!(watch.running().is_none());

        for is_fresh in [true, false] {
            let (run, end) = watch.begin();
            assert!(watch.running().is_some());
            end.tell(is_fresh);
            assert!(watch.running().is_none());
            assert_eq!(run.ended().await, is_fresh);
        }
        let (run, end) = watch.begin();
        drop(end);
        assert!(watch.running().is_none() && !run.ended().await);
    }
}
