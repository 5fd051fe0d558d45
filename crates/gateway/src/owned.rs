//! A call and the handler that runs it: together as long as both are there, apart when one has to go on alone.
//!
//! hyper drops a handler whose caller hangs up, and the handler of a long answer ends at its head. In both cases
//! the call goes on as a task. The others, nearly all, need no task: their handler runs them to their end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;
use runtime::tasks::CallPlace;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// A call, boxed: it changes hands without moving.
type BoxedCall = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a call and gives the head of its answer, or nothing if it ends without one.
pub(super) struct OwnedCall {
    call: Option<(BoxedCall, CallPlace)>,
    answer: oneshot::Receiver<Response>,
}

impl OwnedCall {
    /// The call counts among those that stopping waits for as long as it has its place.
    pub(super) fn new(call: (BoxedCall, CallPlace), answer: oneshot::Receiver<Response>) -> Self {
        Self { call: Some(call), answer }
    }

    /// Lets the call go on by itself.
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
            // A call that panics takes nothing with it but itself: not the connection and those who share it.
            let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
            if polled.is_err() || polled.is_ok_and(|polled| polled.is_ready()) {
                owned.call = None;
            }
        }
        // A call that goes on is woken by what it waits for, so nobody need be woken when it sends its answer.
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
        // The call is to see that its caller has left before it is run again.
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

    /// A call that sends its head, goes on when it is told to, and says when it has ended.
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
    async fn a_call_that_goes_on_behind_its_head_is_run_to_its_end() {
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
    async fn a_call_whose_caller_hangs_up_is_run_to_its_end_and_knows_it() {
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
    async fn a_call_that_ends_without_an_answer_gives_none() {
        let tasks = Tasks::on_this_runtime();
        let (head, answer) = oneshot::channel();

        let answered = owned(&tasks, Box::pin(async move { drop(head) }), answer).await;

        assert!(answered.is_none());
        tasks.calls_ended().await;
    }

    #[tokio::test]
    async fn a_call_that_panics_ends_alone_and_gives_no_answer() {
        let tasks = Tasks::on_this_runtime();
        let (head, answer) = oneshot::channel::<Response>();
        let call = Box::pin(async move {
            let _head = head;
            panic!("a fault of ours");
        });

        let answered = owned(&tasks, call, answer).await;

        assert!(answered.is_none());
        tasks.calls_ended().await;
    }
}
