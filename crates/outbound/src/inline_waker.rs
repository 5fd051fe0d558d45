//! The waker of a connection that is moved on by the task which uses it.
//!
//! hyper's connection and those who wait for its answers wake each other through channels, as if
//! they ran apart. Here they are one task, which such a wake would only run again from its
//! beginning. So while the task is at it, a wake is noted and followed at once, where it is; at
//! other times it wakes the task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

const RESTING: u8 = 0;
const AT_IT: u8 = 1;
/// Woken while at it.
const CALLED: u8 = 2;

/// So many times in a row is a wake followed at once. After that the task is run again, so that
/// others have their turn.
const ROUNDS_MAX: usize = 4;

/// Polls what wakes itself.
pub(super) struct InlineWaker {
    signal: Arc<WakeSignal>,
    /// What wakes the signal, made once.
    waker: Waker,
}

#[derive(Default)]
struct WakeSignal {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(AT_IT, CALLED, Ordering::SeqCst, Ordering::SeqCst);
        if noted == Err(RESTING) {
            self.task.wake();
        }
    }
}

impl InlineWaker {
    pub(super) fn new() -> Self {
        let signal = Arc::new(WakeSignal::default());
        Self { waker: Waker::from(Arc::clone(&signal)), signal }
    }

    /// Polls until there is a result or nothing woke it meanwhile.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let WakeSignal { state, task } = &*self.signal;
        task.register(context.waker());
        let mut own = Context::from_waker(&self.waker);
        for _ in 0..ROUNDS_MAX {
            state.store(AT_IT, Ordering::SeqCst);
            let polled = poll(&mut own);
            if polled.is_ready() {
                // Whoever polls next sees for itself what happened since.
                state.store(RESTING, Ordering::SeqCst);
                return polled;
            }
            let rested = state.compare_exchange(AT_IT, RESTING, Ordering::SeqCst, Ordering::SeqCst);
            if rested.is_ok() {
                return Poll::Pending;
            }
        }
        state.store(RESTING, Ordering::SeqCst);
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Wakes nobody until it is polled again.
    pub(super) fn rest(&self) {
        drop(self.signal.task.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn task() -> (Arc<WakeCounter>, Waker) {
        let woken = Arc::new(WakeCounter::default());
        (Arc::clone(&woken), Waker::from(woken))
    }

    fn count(woken: &WakeCounter) -> usize {
        woken.0.load(Ordering::SeqCst)
    }

    #[test]
    fn what_wakes_itself_is_polled_again_at_once_and_its_task_is_not_woken() {
        let (woken, waker) = task();
        let mut polls = 0;

        let polled = InlineWaker::new().poll(&mut Context::from_waker(&waker), |own| {
            polls += 1;
            if polls == 3 {
                return Poll::Ready(polls);
            }
            own.waker().wake_by_ref();
            Poll::Pending
        });

        assert_eq!((polled, count(&woken)), (Poll::Ready(3), 0));
    }

    #[test]
    fn what_wakes_itself_without_end_gives_others_their_turn() {
        let (woken, waker) = task();
        let mut polls = 0;

        let polled = InlineWaker::new().poll(&mut Context::from_waker(&waker), |own| {
            polls += 1;
            own.waker().wake_by_ref();
            Poll::<()>::Pending
        });

        assert_eq!((polled, polls, count(&woken)), (Poll::Pending, ROUNDS_MAX, 1));
    }

    #[test]
    fn a_wake_from_elsewhere_wakes_the_task_that_polled_last_until_it_rests() {
        let ((first, first_waker), (last, last_waker)) = (task(), task());
        let inline_waker = InlineWaker::new();
        let mut inner = None;
        for waker in [&first_waker, &last_waker] {
            let polled = inline_waker.poll(&mut Context::from_waker(waker), |own| {
                inner = Some(own.waker().clone());
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
        }
        let inner = inner.unwrap();

        inner.wake_by_ref();
        assert_eq!((count(&first), count(&last)), (0, 1));

        let _ = inline_waker.poll(&mut Context::from_waker(&last_waker), |_| Poll::<()>::Pending);
        inline_waker.rest();
        inner.wake_by_ref();
        assert_eq!((count(&first), count(&last)), (0, 1));
    }

    /// A wake that comes while the task is at it, from another thread, is never lost: the task is
    /// polled again or woken.
    #[test]
    fn no_wake_from_another_thread_is_lost() {
        let (woken, waker) = task();
        let inline_waker = InlineWaker::new();
        let (say, heard) = std::sync::mpsc::channel::<Waker>();
        let arrived = Arc::new(AtomicUsize::new(0));
        let other = Arc::clone(&arrived);
        let thread = std::thread::spawn(move || {
            for inner in heard {
                other.fetch_add(1, Ordering::SeqCst);
                inner.wake();
            }
        });

        for number in 1..=10_000 {
            let before = count(&woken);
            let mut is_said = false;
            let polled = inline_waker.poll(&mut Context::from_waker(&waker), |own| {
                if arrived.load(Ordering::SeqCst) == number {
                    return Poll::Ready(());
                }
                if !is_said {
                    is_said = true;
                    say.send(own.waker().clone()).unwrap();
                }
                Poll::Pending
            });
            while polled.is_pending() && count(&woken) == before {
                std::thread::yield_now();
            }
            // Woken or not, the other thread is done with this round before the next begins.
            while arrived.load(Ordering::SeqCst) < number {
                std::thread::yield_now();
            }
        }
        drop(say);
        thread.join().unwrap();
    }
}
