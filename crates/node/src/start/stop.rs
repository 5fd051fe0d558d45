//! The orderly stop. Each of its steps has an end.

use std::time::Duration;

use domain::id::NodeId;
use domain::time::Timestamp;
use store::Store;
use tokio::time::Instant;

use super::{RunningService, open};

/// How long each of the last steps of the stop may take.
const END_EACH: Duration = Duration::from_secs(5);
/// How long work that nobody cuts may take when the service stops: a refresh of a token takes up to
/// two minutes, and what it brings would be lost.
const CONTROL_END: Duration = Duration::from_mins(2);

impl RunningService {
    /// Accepts nothing new, lets running calls end for `http.timeouts.drain_ms`, cuts off and
    /// refunds the rest, lets refreshes of tokens end for two minutes, commits what is left, and
    /// closes the database. It takes no longer than `drain_ms`, two minutes and 20 seconds.
    pub async fn stop(self) {
        // Boxed, so that who stops a service need not carry the room of each step.
        Box::pin(self.stop_in_steps()).await;
    }

    async fn stop_in_steps(mut self) {
        // What earlier steps leave is the writer's: what it does not write is refunded later.
        let last = Instant::now() + self.drain + CONTROL_END + 3 * END_EACH;
        self.state.begin_stop();
        let drained = async {
            self.listener.drain().await;
            self.state.tasks.calls_ended().await;
        };
        if tokio::time::timeout(self.drain, drained).await.is_err() {
            tracing::warn!(
                "calls were still running at the end of the drain time; they are not charged"
            );
            self.state.tasks.cut_calls();
        }
        in_time(END_EACH, "the listener", self.listener.end()).await;
        self.stop.cancel();
        in_time(CONTROL_END, "a task", self.state.tasks.control_ended()).await;
        let cookies = gateway::account_cookies::store_changed(&self.state.gateway);
        in_time(END_EACH, "storing cookies", cookies).await;
        let store = self.state.store.clone();
        open::remove_admin_file(&self.state);
        let now = self.state.clock.now();
        drop(self.state);
        let written = async {
            if self.writer.await.is_err() {
                tracing::error!("the metering writer ended by a panic");
            }
            give_back(&store, self.node, now).await;
        };
        in_time(last.duration_since(Instant::now()), "the metering writer", written).await;
        in_time(END_EACH, "closing the database", store.close()).await;
    }
}

/// Waits for a step of the stop, and goes on without it if it takes too long.
async fn in_time(limit: Duration, what: &'static str, step: impl Future<Output = ()>) {
    if tokio::time::timeout(limit, step).await.is_err() {
        let limit_s = limit.as_secs();
        tracing::error!(what, limit_s, "the stop goes on without waiting any longer");
    }
}

/// Refunds the holds of calls that were cut off by the stop, because their outcome is unknown.
async fn give_back(store: &Store, node: NodeId, now: Timestamp) {
    match store::metering::recover(store, node, now).await {
        Ok(recovery) if recovery.refunded == 0 => {}
        Ok(recovery) => {
            tracing::warn!(calls = recovery.refunded, "calls were cut off and refunded");
        }
        Err(error) => {
            tracing::error!(%error, "calls that were cut off will be refunded at the next start");
        }
    }
}
