//! How serving ends: no new connections are accepted, running requests finish, then the cores end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

use super::connection_limits::ConnectionLimits;

/// The command to stop, given once.
#[derive(Debug)]
pub(crate) struct StopCommand {
    is_given: AtomicBool,
    notify: Notify,
}

impl StopCommand {
    pub(crate) const fn new() -> Self {
        Self { is_given: AtomicBool::new(false), notify: Notify::const_new() }
    }

    pub(crate) fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Whether the command was given. Cheap: connections check it at every poll.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Acquire)
    }

    /// Wakes the waiting task when the command is given. Check [`StopCommand::is_given`] after its
    /// first poll.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Waits for the command.
    pub(crate) async fn given(&self) {
        let notified = self.notified();
        if !self.is_given() {
            notified.await;
        }
    }
}

/// One core's thread and the channels to it.
#[derive(Debug)]
pub(crate) struct CoreThread {
    /// Resolves when the core has no connection left after the command to stop.
    pub(crate) drained: oneshot::Receiver<()>,
    /// Dropping it lets the core's runtime end.
    pub(crate) end: oneshot::Sender<()>,
    /// The thread.
    pub(crate) thread: JoinHandle<()>,
}

/// A listener that is serving. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct RunningListener {
    address: SocketAddr,
    stop: Arc<StopCommand>,
    limits: Arc<ConnectionLimits>,
    cores: Vec<CoreThread>,
}

impl RunningListener {
    pub(crate) const fn new(
        address: SocketAddr,
        stop: Arc<StopCommand>,
        limits: Arc<ConnectionLimits>,
    ) -> Self {
        Self { address, stop, limits, cores: Vec::new() }
    }

    pub(crate) fn add(&mut self, core: CoreThread) {
        self.cores.push(core);
    }

    /// The address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The limits and counts of its connections.
    pub fn limits(&self) -> Arc<ConnectionLimits> {
        Arc::clone(&self.limits)
    }

    /// Stops accepting, lets running requests continue for up to the drain timeout, and returns
    /// when no connection is left. The cores' runtimes still run the tasks spawned on them, so that
    /// calls which outlive their connection can be settled before [`RunningListener::stop`].
    pub async fn drain(&mut self) {
        self.stop.give();
        for core in &mut self.cores {
            // A core that ended early has dropped its end; a receiver that has resolved must not be
            // polled again.
            if !core.drained.is_terminated() {
                drop((&mut core.drained).await);
            }
        }
    }

    /// Drains, then ends the cores' runtimes.
    pub async fn stop(mut self) {
        self.drain().await;
        self.end().await;
    }

    /// Ends the cores' runtimes, with all connections and everything else that still runs on them.
    pub async fn end(mut self) {
        self.stop.give();
        let threads: Vec<_> = std::mem::take(&mut self.cores)
            .into_iter()
            .map(|core| {
                drop(core.end);
                core.thread
            })
            .collect();
        let joined =
            tokio::task::spawn_blocking(|| threads.into_iter().try_for_each(JoinHandle::join));
        if !matches!(joined.await, Ok(Ok(()))) {
            tracing::error!("a core of the listener panicked");
        }
    }
}

impl Drop for RunningListener {
    fn drop(&mut self) {
        self.stop.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings;

    fn listener(stop: &Arc<StopCommand>) -> RunningListener {
        let limits = Arc::new(ConnectionLimits::new(&settings()));
        RunningListener::new("127.0.0.1:7".parse().unwrap(), Arc::clone(stop), limits)
    }

    #[tokio::test]
    async fn whoever_waits_for_the_command_learns_of_it_before_and_after() {
        let stop = StopCommand::new();
        assert!(!stop.is_given());

        tokio::join!(stop.given(), stop.given(), async { stop.give() });

        assert!(stop.is_given());
        stop.given().await;
        stop.give();
        stop.given().await;
    }

    /// A command that comes between the look and the wait is not missed.
    #[test]
    fn no_command_is_lost_between_threads() {
        for _ in 0..500 {
            let stop = Arc::new(StopCommand::new());
            let giving = Arc::clone(&stop);
            let thread = std::thread::spawn(move || giving.give());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(stop.given());
            thread.join().unwrap();
        }
    }

    #[tokio::test]
    async fn dropping_a_listener_gives_the_command() {
        let stop = Arc::new(StopCommand::new());
        let listener = listener(&stop);
        assert_eq!(listener.address().port(), 7);
        assert!(!stop.is_given());

        drop(listener);

        stop.given().await;
    }

    #[tokio::test]
    async fn stopping_waits_for_each_core_until_it_is_drained_and_ends_its_thread() {
        let stop = Arc::new(StopCommand::new());
        let mut listener = listener(&stop);
        let (ended, has_ended) = std::sync::mpsc::channel();
        for core in 0..2 {
            let (say_drained, drained) = oneshot::channel();
            let (end, told_to_end) = oneshot::channel::<()>();
            let ended = ended.clone();
            let thread = std::thread::spawn(move || {
                say_drained.send(()).unwrap();
                assert!(told_to_end.blocking_recv().is_err(), "the other side is dropped");
                ended.send(core).unwrap();
            });
            listener.add(CoreThread { drained, end, thread });
        }

        listener.drain().await;
        assert!(has_ended.try_recv().is_err(), "the cores run on after the connections ended");
        listener.drain().await;
        listener.stop().await;

        let mut cores: Vec<i32> = has_ended.try_iter().collect();
        cores.sort_unstable();
        assert_eq!(cores, [0, 1]);
    }

    #[tokio::test]
    async fn a_core_that_panicked_keeps_nobody_waiting() {
        let stop = Arc::new(StopCommand::new());
        let mut listener = listener(&stop);
        let (say_drained, drained) = oneshot::channel::<()>();
        let (end, _told_to_end) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _dropped_by_the_panic = say_drained;
            panic!("of this test");
        });
        listener.add(CoreThread { drained, end, thread });

        listener.stop().await;

        assert!(stop.is_given());
    }
}
