//! Tasks that shutdown waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use runtime::Tasks;
use runtime::tasks::spawn_for_good;
use tokio::sync::{Notify, oneshot};

/// Whether the work is still waiting after everything else that could run has run.
async fn is_waiting(work: &mut (impl Future + Unpin)) -> bool {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    std::future::poll_fn(|context| {
        Poll::Ready(std::pin::Pin::new(&mut *work).poll(context).is_pending())
    })
    .await
}

#[tokio::test]
async fn control_work_goes_on_although_its_caller_stopped_waiting() {
    let tasks = Tasks::on_this_runtime();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let (said, heard) = oneshot::channel();

    let work = tasks.on_control(async move {
        goes_on.await.unwrap();
        said.send("done").unwrap();
    });
    drop(work);
    go_on.send(()).unwrap();

    assert_eq!(heard.await, Ok("done"));
    tasks.control_ended().await;
}

#[tokio::test]
async fn the_result_of_control_work_is_returned_and_a_panic_is_an_error() {
    let tasks = Tasks::on_this_runtime();

    assert_eq!(tasks.on_control(async { 7 }).await.unwrap(), 7);
    let lost = tasks.on_control(async { panic!("of this test") }).await.unwrap_err();

    assert!(lost.to_string().starts_with("an internal task ended early: "), "{lost}");
    tasks.control_ended().await;
}

#[tokio::test]
async fn shutdown_waits_for_control_work_and_not_for_what_was_started_for_good() {
    let tasks = Tasks::on_this_runtime();
    let (end, ends) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waiting = Arc::clone(&end);
    tasks.spawn_control(async move { waiting.notified().await });
    spawn_for_good(async move { ends.notified().await });

    let mut ended = Box::pin(tasks.control_ended());
    assert!(is_waiting(&mut ended).await);
    end.notify_one();

    ended.await;
}

#[tokio::test]
async fn shutdown_waits_for_the_calls_of_every_core() {
    let tasks = Tasks::on_this_runtime();
    let cores = [tasks.calls_of_a_core(), tasks.calls_of_a_core()];
    let end = Arc::new(Notify::new());
    for core in &cores {
        let end = Arc::clone(&end);
        core.spawn(async move { end.notified().await });
    }

    let mut ended = Box::pin(tasks.calls_ended());
    assert!(is_waiting(&mut ended).await);
    end.notify_one();
    assert!(is_waiting(&mut ended).await, "one of two calls is still running");
    end.notify_one();

    ended.await;
    tasks.control_ended().await;
}

#[tokio::test]
async fn a_call_that_is_not_spawned_is_waited_for_until_its_place_is_dropped() {
    let tasks = Tasks::on_this_runtime();
    let core = tasks.calls_of_a_core();
    let place = core.place();

    let mut ended = Box::pin(tasks.calls_ended());
    assert!(is_waiting(&mut ended).await);
    drop(place);

    ended.await;
}

#[tokio::test]
async fn a_call_that_outlives_its_connection_is_waited_for() {
    let tasks = Tasks::on_this_runtime();
    let core = tasks.calls_of_a_core();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let settled = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&settled);
    core.place().spawn(Box::pin(async move {
        goes_on.await.unwrap();
        counting.fetch_add(1, Ordering::SeqCst);
    }));

    let mut ended = Box::pin(tasks.calls_ended());
    assert!(is_waiting(&mut ended).await);
    go_on.send(()).unwrap();
    ended.await;

    assert_eq!(settled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_panics_keeps_nobody_waiting() {
    let tasks = Tasks::on_this_runtime();
    let core = tasks.calls_of_a_core();
    core.place().spawn(Box::pin(async { panic!("of this test") }));
    core.spawn(async { panic!("of this test") });

    tasks.calls_ended().await;
}

/// Calls run on the core that accepted them, control work where the store is.
#[test]
fn control_work_runs_on_the_control_runtime_wherever_it_is_asked_for() {
    let control = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let core = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tasks = control.block_on(async { Tasks::on_this_runtime() });
    let of_control = control.handle().id();

    core.block_on(async {
        let id = async || tokio::runtime::Handle::current().id();
        assert_eq!(tasks.on_control(id()).await.unwrap(), of_control);
        let (said, heard) = oneshot::channel();
        tasks.calls_of_a_core().place().spawn(Box::pin(async move {
            said.send(tokio::runtime::Handle::current().id()).unwrap();
        }));
        assert_eq!(heard.await.unwrap(), tokio::runtime::Handle::current().id());
        tasks.calls_ended().await;
        tasks.control_ended().await;
    });
}

#[tokio::test]
async fn work_of_a_runtime_that_has_ended_is_lost_and_not_waited_for() {
    let (made, has_made) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let control = tokio::runtime::Builder::new_current_thread().build().unwrap();
        made.send(control.block_on(async { Tasks::on_this_runtime() })).unwrap();
        ends.recv().unwrap();
    });
    let tasks = has_made.recv().unwrap();
    let work = tasks.on_control(std::future::pending::<()>());

    end.send(()).unwrap();

    assert!(work.await.is_err());
    thread.join().unwrap();
}
