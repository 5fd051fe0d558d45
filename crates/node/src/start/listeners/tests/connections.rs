//! Who is served, by which core, and how long a connection may do nothing.

use std::collections::{HashMap, HashSet};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use transport::ListenerSettings;

use super::support::{
    GET_ENDLESS, GET_HELD, GET_OK, HTTP2_GET_ENDLESS, HTTP2_PING, HTTP2_START,
    HTTP2_START_WITHOUT_ROOM, SHORT, closed, closed_while_dripping, connect, final_counts, read_to,
    sending, settings, start,
};

#[tokio::test]
async fn every_core_serves_the_shared_port() {
    let (running, _) = start(&ListenerSettings { cores: 3, ..settings() });
    let request = "GET /core HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    let mut cores = HashSet::new();
    while cores.len() < 3 {
        let mut answer = String::new();
        let mut stream = sending(running.address(), request).await;
        stream.read_to_string(&mut answer).await.unwrap();
        cores.insert(answer.rsplit("\r\n").next().unwrap().to_owned());
    }

    assert_eq!(cores, ["core-0", "core-1", "core-2"].map(str::to_owned).into());
    running.stop().await;
}

/// The core that serves a connection.
async fn core_of(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /core HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let before = read_to(stream, "core-").await;
    assert!(before.starts_with("HTTP/1.1 200"), "{before}");
    char::from(stream.read_u8().await.unwrap()).into()
}

/// With the kernel's hash alone, each of four cores would have 32 of 128 connections, plus or minus
/// ten.
#[tokio::test]
async fn lasting_connections_are_spread_evenly_over_the_cores() {
    let (running, _) = start(&ListenerSettings { cores: 4, ..settings() });

    let mut streams = Vec::new();
    let mut counts = HashMap::<String, usize>::new();
    for _ in 0..128 {
        let mut stream = connect(running.address()).await;
        *counts.entry(core_of(&mut stream).await).or_default() += 1;
        streams.push(stream);
    }

    assert_eq!(counts.values().sum::<usize>(), 128);
    assert!(
        counts.len() == 4 && counts.values().all(|count| (31..=33).contains(count)),
        "{counts:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (running, _) = start(&settings());
    let requests: Vec<String> =
        (0..500).map(|n| format!("GET /count/{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();

    let mut stream = sending(running.address(), requests.concat()).await;
    let answers = read_to(&mut stream, "<499>").await;

    let numbers: Vec<u32> = answers
        .split('<')
        .skip(1)
        .map(|rest| rest.split_once('>').unwrap().0.parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..500).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn a_request_knows_the_peers_address() {
    let (running, _) = start(&settings());

    let mut stream = sending(running.address(), GET_OK.replace("/ok", "/peer")).await;
    let answer = read_to(&mut stream, "}").await;

    assert!(answer.ends_with("HTTP/1.1 ConnectionPeer { ip: 127.0.0.1, tls: false }"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_connection_that_sends_nothing_is_closed() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    closed(&mut connect(running.address()).await).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[tokio::test]
async fn a_dripping_head_is_closed_although_bytes_keep_coming() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    let in_first_line = sending(running.address(), "G").await;
    closed_while_dripping(in_first_line, b"E").await;
    let in_headers = sending(running.address(), "GET /ok HTTP/1.1\r\n").await;
    closed_while_dripping(in_headers, b"a: b\r\n").await;

    assert_eq!(final_counts(running).await.closed_idle, 2);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_response() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    let mut stream = sending(running.address(), GET_OK).await;
    read_to(&mut stream, "ok").await;
    closed(&mut stream).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[tokio::test]
async fn a_running_request_is_not_idle_however_long_it_takes() {
    let (running, words) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });
    let mut stream = sending(running.address(), GET_HELD).await;
    words.held.notified().await;

    // A later connection that is closed as idle shows that the timeout has passed for both.
    closed(&mut connect(running.address()).await).await;
    words.release.notify_one();

    assert!(read_to(&mut stream, "released").await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed_even_if_it_sends_pings() {
    let (running, _) = start(&ListenerSettings { head_timeout: SHORT, ..settings() });

    closed_while_dripping(sending(running.address(), HTTP2_START).await, HTTP2_PING).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_response_is_closed_and_the_response_dropped() {
    let (running, words) = start(&ListenerSettings { write_stall_timeout: SHORT, ..settings() });

    let stream = sending(running.address(), GET_ENDLESS).await;
    words.dropped.notified().await;

    drop(stream);
    assert_eq!(final_counts(running).await.closed_stalled, 1);
}

#[tokio::test]
async fn an_http2_peer_without_window_for_its_response_is_closed() {
    let (running, words) = start(&ListenerSettings { write_stall_timeout: SHORT, ..settings() });

    let request = [HTTP2_START_WITHOUT_ROOM, HTTP2_GET_ENDLESS].concat();
    let mut stream = sending(running.address(), request).await;
    words.dropped.notified().await;

    closed(&mut stream).await;
    assert_eq!(final_counts(running).await.closed_stalled, 1);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_closed_immediately_and_the_others_continue() {
    let (running, _) = start(&ListenerSettings { connections_max: 1, ..settings() });
    let mut first = sending(running.address(), GET_OK).await;
    read_to(&mut first, "ok").await;

    closed(&mut connect(running.address()).await).await;

    first.write_all(GET_OK.as_bytes()).await.unwrap();
    read_to(&mut first, "ok").await;
    let counts = final_counts(running).await;
    assert_eq!((counts.accepted, counts.refused, counts.open), (1, 1, 0));
}
