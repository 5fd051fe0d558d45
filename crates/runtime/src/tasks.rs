//! Every task of the service, tracked so that shutdown waits for it.
//!
//! *Control* tasks run on the runtime that owns the store; *calls* run on the core that accepted
//! them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The two kinds of tasks, and where control tasks run.
#[derive(Debug, Clone)]
pub struct Tasks {
    control: Handle,
    work: TaskTracker,
    /// One for each core.
    calls: Arc<Mutex<Vec<TaskTracker>>>,
    /// Cancelled to cut calls off.
    cut: CancellationToken,
}

/// The calls of one core. Each core has its own counter, so that cores do not contend for one.
#[derive(Debug)]
pub struct CallTracker {
    calls: TaskTracker,
    cut: Arc<CancellationToken>,
}

/// A task that ended without a result: it panicked, or its runtime ended.
#[derive(Debug, thiserror::Error)]
#[error("an internal task ended early: {0}")]
pub struct LostTask(tokio::task::JoinError);

/// Work that runs on the control runtime. Dropping it does not stop the work.
pub struct OnControl<T>(JoinHandle<T>);

impl<T> Future for OnControl<T> {
    type Output = Result<T, LostTask>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(LostTask)
    }
}

/// Starts a task that ends with the current runtime and that shutdown does not wait for.
#[expect(clippy::disallowed_methods, reason = "shutdown does not need to wait for it")]
pub fn spawn_for_good(work: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(work));
}

/// Makes shutdown wait for a call.
pub struct CallPlace {
    runtime: Handle,
    token: TaskTrackerToken,
    cut: Arc<CancellationToken>,
}

impl CallPlace {
    /// Continues the call as a task of the runtime on which this was created, until it ends or is
    /// cut off.
    pub fn spawn(self, call: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let Self { runtime, token, cut } = self;
        runtime.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = call => {}
            }
            drop(token);
        });
    }
}

impl Tasks {
    /// Tasks whose control runtime is the current one.
    pub fn on_this_runtime() -> Self {
        Self {
            control: Handle::current(),
            work: TaskTracker::new(),
            calls: Arc::default(),
            cut: CancellationToken::new(),
        }
    }

    /// Runs work of the control plane to its end, even if the caller stops waiting. The returned
    /// future holds only the task's handle: queries are large, and a call that rarely makes one
    /// should not carry their size.
    pub fn on_control<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> OnControl<T> {
        OnControl(self.work.spawn_on(work, &self.control))
    }

    /// Starts background work on the control runtime.
    pub fn spawn_control(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.spawn_on(work, &self.control);
    }

    /// Creates the counter for the calls of one more core.
    pub fn calls_of_a_core(&self) -> CallTracker {
        let calls = TaskTracker::new();
        self.calls.lock().push(calls.clone());
        CallTracker { calls, cut: Arc::new(self.cut.clone()) }
    }

    /// Waits until no call is running.
    pub async fn calls_ended(&self) {
        let calls = self.calls.lock().clone();
        for of_core in calls {
            of_core.close();
            of_core.wait().await;
        }
    }

    /// Cuts off the calls that have outlived their connection or their response's head, now and
    /// from now on.
    pub fn cut_calls(&self) {
        self.cut.cancel();
    }

    /// Waits until no control task is running.
    pub async fn control_ended(&self) {
        self.work.close();
        self.work.wait().await;
    }
}

impl CallTracker {
    /// Tracks a call that runs inline or on the current runtime.
    #[inline]
    pub fn place(&self) -> CallPlace {
        CallPlace {
            runtime: Handle::current(),
            token: self.calls.token(),
            cut: Arc::clone(&self.cut),
        }
    }

    /// Starts a call on the current runtime.
    pub fn spawn(&self, call: impl Future<Output = ()> + Send + 'static) {
        self.calls.spawn(call);
    }
}
