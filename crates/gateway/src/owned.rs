//! A call and the handler that runs it: together while both exist, apart when the call has to
//! continue alone.
//!
//! hyper drops a handler whose caller disconnects, and the handler of a long response ends at its
//! head. In both cases the call continues as a task. Nearly all calls need no task: their handler
//! runs them to their end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;
use runtime::tasks::CallPlace;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// A call, boxed, so that it can change owners without moving.
type BoxedCall = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a call and returns its response head, or `None` if it ends without one.
pub(super) struct OwnedCall {
    call: Option<(BoxedCall, CallPlace)>,
    answer: oneshot::Receiver<Response>,
}

impl OwnedCall {
    /// Graceful shutdown waits for the call while it has its `CallPlace`.
    pub(super) fn new(call: (BoxedCall, CallPlace), answer: oneshot::Receiver<Response>) -> Self {
        Self { call: Some(call), answer }
    }

    /// Lets the call continue as a task.
    fn let_go(&mut self) {
        if let Some((call, place)) = self.call.take() {
            place.spawn(call);
        }
    }
}

impl Future for OwnedCall {
    type Output = Option<Response>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let owned = &mut *self;
        if let Some((call, _)) = &mut owned.call {
            // A panic in a call ends only that call, not the connection and the other calls on it.
            let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
            if polled.is_err() || polled.is_ok_and(|polled| polled.is_ready()) {
                owned.call = None;
            }
        }
        // The call runs inside this future, so sending its response needs no wake-up of its own.
        let answer = match owned.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Closed) => None,
            Err(TryRecvError::Empty) => return Poll::Pending,
        };
        owned.let_go();
        Poll::Ready(answer)
    }
}

impl Drop for OwnedCall {
    fn drop(&mut self) {
        // Closed first, so that the call sees that its caller has left when it is polled again.
        self.answer.close();
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body;
    use tokio::sync::Notify;

    use super::*;
    use runtime::tasks::Tasks;

    /// A call that sends its head, continues when `go_on` is notified, and reports its end.
    fn call(
        head: oneshot::Sender<Response>,
        go_on: Arc<Notify>,
        ended: oneshot::Sender<bool>,
    ) -> BoxedCall {
        Box::pin(async move {
            let caller_was_there = head.send(Response::new(Body::empty())).is_ok();
            go_on.notified().await;
            ended.send(caller_was_there).unwrap();
        })
    }

    fn owned(tasks: &Tasks, call: BoxedCall, answer: oneshot::Receiver<Response>) -> OwnedCall {
        OwnedCall::new((call, tasks.calls_of_a_core().place()), answer)
    }

    #[tokio::test]
    async fn call_continues_to_its_end_after_its_head_is_sent() {
        let tasks = Tasks::on_this_runtime();
        let (head, answer) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let go_on = Arc::new(Notify::new());
        let call = call(head, Arc::clone(&go_on), ended);

        let answered = owned(&tasks, call, answer).await;
        go_on.notify_one();

        assert!(answered.is_some());
        assert_eq!(end.await, Ok(true));
        tasks.calls_ended().await;
    }

    #[tokio::test]
    async fn call_runs_to_its_end_and_sees_that_its_caller_left() {
        let tasks = Tasks::on_this_runtime();
        let (head, answer) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let go_on = Arc::new(Notify::new());
        go_on.notify_one();
        drop(owned(&tasks, call(head, go_on, ended), answer));

        assert_eq!(end.await, Ok(false));
        tasks.calls_ended().await;
    }

    #[tokio::test]
    async fn call_without_a_response_yields_none() {
        let tasks = Tasks::on_this_runtime();
        let (head, answer) = oneshot::channel();

        let answered = owned(&tasks, Box::pin(async move { drop(head) }), answer).await;

        assert!(answered.is_none());
        tasks.calls_ended().await;
    }

    #[tokio::test]
    async fn panic_in_a_call_is_contained() {
        let tasks = Tasks::on_this_runtime();
        let (head, answer) = oneshot::channel::<Response>();
        let call = Box::pin(async move {
            let _head = head;
            panic!("a bug in a call");
        });

        let answered = owned(&tasks, call, answer).await;

        assert!(answered.is_none());
        tasks.calls_ended().await;
    }
}
