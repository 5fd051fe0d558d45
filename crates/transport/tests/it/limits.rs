//! Who may connect, and how long a connection may do nothing.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use transport::{
    ArrivedRequest, BoundListener, ConnectionCounts, ListenerSettings, RunningListener,
};

use crate::support::{Client, SentBody, echo, run, settings};

/// Lets the listener's threads run until it has counted what the test waits for.
async fn counted(
    listener: &RunningListener,
    is_so: impl Fn(ConnectionCounts) -> bool,
) -> ConnectionCounts {
    while !is_so(listener.limits().counts()) {
        tokio::task::yield_now().await;
    }
    listener.limits().counts()
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_an_ended_one_makes_room() {
    let listener = run(&ListenerSettings { connections_max: 2, ..settings() }, echo());
    let (mut first, mut second) =
        (Client::connect(listener.address()).await, Client::connect(listener.address()).await);
    assert!(first.get("/first").await.ends_with("/first"));
    assert!(second.get("/second").await.ends_with("/second"));

    let third = Client::connect(listener.address()).await;

    assert!(third.rest().await.is_empty());
    assert!(first.get("/still").await.ends_with("/still"), "the others are served on");
    drop(second);
    let counts = counted(&listener, |counts| counts.open == 1).await;
    assert_eq!((counts.accepted, counts.refused, counts.refused_by_ip), (2, 1, 0));
    let mut fourth = Client::connect(listener.address()).await;
    assert!(fourth.get("/fourth").await.ends_with("/fourth"));
    listener.stop().await;
}

#[tokio::test]
async fn clients_on_this_machine_are_no_single_client() {
    let listener = run(&ListenerSettings { connections_per_ip_max: 1, ..settings() }, echo());
    let mut clients = Vec::new();

    for _ in 0..5 {
        let mut client = Client::connect(listener.address()).await;
        assert!(client.get("/").await.ends_with('/'));
        clients.push(client);
    }

    assert_eq!(listener.limits().counts().open, 5);
    listener.stop().await;
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_and_counted() {
    let settings = ListenerSettings { head_timeout: Duration::from_millis(20), ..settings() };
    let listener = run(&settings, echo());
    let silent = Client::connect(listener.address()).await;
    let mut half = Client::connect(listener.address()).await;
    half.send("GET / HTTP/1.1\r\nhost: x\r\n").await;
    let mut done = Client::connect(listener.address()).await;
    done.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;

    assert!(silent.rest().await.is_empty());
    drop(half.rest().await);
    assert!(done.response().await.ends_with('/'));
    assert!(done.rest().await.is_empty(), "nothing follows the response");

    let counts = counted(&listener, |counts| counts.open == 0).await;
    assert_eq!((counts.closed_idle, counts.closed_stalled), (3, 0));
    listener.stop().await;
}

#[tokio::test]
async fn a_slow_handler_is_waited_for_however_short_the_time_for_heads() {
    let (asked, mut was_asked) = tokio::sync::mpsc::unbounded_channel();
    let settings = ListenerSettings {
        head_timeout: Duration::from_millis(5),
        write_stall_timeout: Duration::from_millis(5),
        ..settings()
    };
    let listener = run(&settings, move |_: ArrivedRequest| {
        let (respond, response) = tokio::sync::oneshot::channel::<()>();
        asked.send(respond).unwrap();
        async move {
            response.await.unwrap();
            Response::new("done".to_owned())
        }
    });
    let mut client = Client::connect(listener.address()).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let respond = was_asked.recv().await.unwrap();

    // Others are closed for doing nothing, one after another, while it runs.
    for _ in 0..4 {
        assert!(Client::connect(listener.address()).await.rest().await.is_empty());
    }
    respond.send(()).unwrap();

    assert!(client.response().await.ends_with("done"));
    listener.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_its_response_is_given_up_and_counted() {
    let settings =
        ListenerSettings { write_stall_timeout: Duration::from_millis(50), ..settings() };
    let listener = run(&settings, |_: ArrivedRequest| async {
        let (sender, body) = SentBody::new();
        // More than every buffer between the two.
        for _ in 0..640 {
            sender.send(Ok(Bytes::from(vec![b'a'; 65_536]))).unwrap();
        }
        Response::new(body)
    });
    let mut client = Client::connect(listener.address()).await;

    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;

    let counts = counted(&listener, |counts| counts.accepted == 1 && counts.open == 0).await;
    assert_eq!((counts.closed_idle, counts.closed_stalled), (0, 1));
    let read = client.rest().await;
    assert!(read.len() < 640 * 65_536 && !read.ends_with(b"0\r\n\r\n"), "{} bytes", read.len());
    listener.stop().await;
}

#[tokio::test]
async fn more_headers_than_may_be_are_refused() {
    let listener = run(&ListenerSettings { headers_max: 120, ..settings() }, echo());
    let request = |headers: usize| {
        let lines: Vec<String> = (0..headers).map(|number| format!("x{number}: 1\r\n")).collect();
        let lines = lines.concat();
        format!("GET /it HTTP/1.1\r\n{lines}\r\n")
    };

    let mut client = Client::connect(listener.address()).await;
    client.send(&request(120)).await;
    assert!(client.response().await.ends_with("/it"));
    client.send(&request(121)).await;
    let refusal = client.response().await;

    assert!(refusal.starts_with("HTTP/1.1 431 "), "{refusal}");
    listener.stop().await;
}

#[test]
fn an_address_in_use_is_refused_and_a_free_port_is_taken_by_all_cores() {
    let first = BoundListener::bind(&ListenerSettings { cores: 2, ..settings() }).unwrap();
    let taken = ListenerSettings { listen: first.address(), ..settings() };

    let refused = BoundListener::bind(&taken).unwrap_err();

    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
    assert!(first.certificates().is_none(), "it speaks plain HTTP");
    drop(first);
    assert!(BoundListener::bind(&taken).is_ok());
}
