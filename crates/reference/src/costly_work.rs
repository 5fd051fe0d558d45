//! Work whose cost grows with what a visitor asks for, such as a search.
//!
//! It is done beside all runtimes, one after the other, so that visitors take no more than one core
//! together and never hold up a call.

use std::sync::Arc;

use failures::Failure;
use tokio::sync::Semaphore;
use web::error::ApiError;

use crate::state::not_made;

/// How many requests may wait.
const WAITING_MAX: usize = 16;

/// Does such work in turn.
pub(crate) struct CostlyWork {
    /// Those who wait, and the one whose turn it is.
    places: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

impl Default for CostlyWork {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(WAITING_MAX + 1)),
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

impl CostlyWork {
    /// Waits for its turn and does the work; refused if sixteen wait already.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| ApiError::Failure(Failure::Overloaded))?;
        // The semaphore is never closed.
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        // The work goes on when its visitor leaves, and so keeps its place.
        let whole = move || {
            let (_place, _turn) = (place, turn);
            work()
        };
        tokio::task::spawn_blocking(whole).await.map_err(not_made)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn one_is_done_at_a_time_sixteen_wait_and_more_are_refused() {
        let work = CostlyWork::default();
        let (go_on, told) = mpsc::channel::<()>();
        let told = Arc::new(Mutex::new(told));
        let running = Arc::new(AtomicUsize::new(0));
        let all = (0..20).map(|_| {
            let (told, running) = (Arc::clone(&told), Arc::clone(&running));
            work.run(move || {
                let others = running.fetch_add(1, Ordering::SeqCst);
                told.lock().unwrap().recv().unwrap();
                running.fetch_sub(1, Ordering::SeqCst);
                others
            })
        });
        let lets_go = async { (0..17).for_each(|_| go_on.send(()).unwrap()) };

        let (outcomes, ()) = tokio::join!(join_all(all), lets_go);

        let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert!(done.iter().all(|others| matches!(others, Ok(0))), "only one at a time");
        assert_eq!((done.len(), refused.len()), (WAITING_MAX + 1, 3));
        assert!(
            refused.iter().all(|one| matches!(one, Err(ApiError::Failure(Failure::Overloaded))))
        );
        assert!(work.run(|| 7).await.is_ok_and(|result| result == 7), "places come back");
    }
}
