//! How serving ends, and how a connection ends while its client still sends.

use std::sync::Arc;

use axum::Router;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use transport::{BoundListener, ListenerSettings};

use super::support::{
    Endless, GET_HELD, GET_OK, SHORT, answers, closed, read_to, sending, settings, start,
};

#[tokio::test]
async fn a_stopping_listener_finishes_running_requests_and_accepts_no_new_ones() {
    let (mut running, words) = start(&settings());
    let address = running.address();
    let mut idle = sending(address, GET_OK).await;
    read_to(&mut idle, "ok").await;
    let mut busy = sending(address, GET_HELD).await;
    words.held.notified().await;

    let meanwhile = async {
        closed(&mut idle).await;
        // A connection that still gets into the kernel's queue is closed.
        let refused = loop {
            match TcpStream::connect(address).await {
                Ok(mut late) => closed(&mut late).await,
                Err(refused) => break refused,
            }
        };
        words.release.notify_one();
        let answer = read_to(&mut busy, "released").await;
        closed(&mut busy).await;
        (refused.kind(), answer)
    };
    let ((), (refused, answer)) = tokio::join!(running.drain(), meanwhile);

    assert_eq!(refused, std::io::ErrorKind::ConnectionRefused);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_stopping_listener_does_not_wait_longer_than_its_drain_time() {
    let (mut running, words) = start(&ListenerSettings { drain_timeout: SHORT, ..settings() });
    let mut stuck = sending(running.address(), GET_HELD).await;
    words.held.notified().await;

    running.drain().await;

    closed(&mut stuck).await;
    assert_eq!(running.limits().counts().open, 0);
    running.stop().await;
}

#[tokio::test]
async fn tasks_of_a_core_outlive_the_drain_and_end_with_the_stop() {
    let (word, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (for_core, of_core) = (Arc::clone(&word), Endless(Arc::clone(&dropped)));
    let of_core = Arc::new(parking_lot::Mutex::new(Some(of_core)));
    let listener = BoundListener::bind(&settings()).unwrap();
    let mut running = listener
        .run(move |_core| {
            let (asked, kept) = (Arc::clone(&for_core), of_core.lock().take());
            let outliving = tokio_util::task::TaskTracker::new().spawn(async move {
                loop {
                    asked.notified().await;
                    kept.as_ref().unwrap().0.notify_one();
                }
            });
            drop(outliving);
            answers(Router::new())
        })
        .unwrap();

    running.drain().await;
    word.notify_one();
    dropped.notified().await;
    running.stop().await;

    dropped.notified().await;
}

#[tokio::test]
async fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    const BODY_BYTES: usize = 8 * 1024 * 1024;
    let (running, _) = start(&settings());
    let head = format!("POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let stream = sending(running.address(), head).await;
    let (mut reader, mut writer) = stream.into_split();

    let body = vec![b'x'; BODY_BYTES];
    let mut answer = String::new();
    let (read, written) =
        tokio::join!(reader.read_to_string(&mut answer), writer.write_all(&body),);

    assert!(read.is_ok(), "{read:?}");
    assert!(written.is_ok(), "{written:?}");
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    running.stop().await;
}
