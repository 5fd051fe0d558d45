//! A time limit that costs nothing where nothing has to be waited for.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::{Sleep, sleep};

/// Waits for `work`, nothing if it is not done so long after it first had to wait. Most of what is
/// asked for with it is there already, and then no clock is read and no timer is set.
pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut timer = pin!(None::<Unconstrained<Sleep>>);
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        if timer.is_none() {
            // Work that uses up what a task may do at once must not keep its timer from being
            // looked at.
            timer.set(Some(unconstrained(sleep(limit))));
        }
        let started = timer.as_mut().as_pin_mut();
        started.map_or(Poll::Pending, |running| running.poll(context).map(|()| None))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_there_or_comes_in_time_is_given() {
        let later = async {
            sleep(Duration::from_secs(1)).await;
            2
        };

        assert_eq!(within(Duration::ZERO, async { 1 }).await, Some(1));
        assert_eq!(within(Duration::from_secs(2), later).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_is_always_busy_is_given_up_in_time_too() {
        let busy = poll_fn(|context| {
            while let Poll::Ready(step) = tokio::task::coop::poll_proceed(context) {
                step.made_progress();
            }
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let later = async {
            tokio::time::advance(Duration::from_secs(3)).await;
            std::future::pending::<()>().await;
        };

        let ended = tokio::select! {
            biased;
            ended = within(Duration::from_secs(2), busy) => ended,
            () = later => unreachable!("it never ends"),
        };

        assert_eq!(ended, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_given_up_in_time() {
        let begun = tokio::time::Instant::now();

        let never = within(Duration::from_secs(2), std::future::pending::<()>()).await;

        assert_eq!(never, None);
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }
}
