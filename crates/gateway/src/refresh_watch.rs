//! The refresh of one account's token that this node makes, for the calls that wait for it.

use parking_lot::Mutex;
use tokio::sync::watch;

/// The refresh of one account's token that this node makes, if it makes one.
#[derive(Default)]
pub(super) struct RefreshWatch(Mutex<Option<RefreshRun>>);

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
        self.0.lock().clone().filter(|run| run.0.has_changed().is_ok())
    }

    /// A refresh begins.
    pub(super) fn begin(&self) -> (RefreshRun, RefreshEnd) {
        let (sender, receiver) = watch::channel(None);
        let run = RefreshRun(receiver);
        *self.0.lock() = Some(run.clone());
        (run, RefreshEnd(sender))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
