//! Streams: each part of a platform's response reaches the caller as it arrives, and the stream
//! ends when either side disconnects.

use std::sync::Arc;

use test_service::platform::{Script, answer, json_answer};
use test_service::raw::RawConnection;
use test_service::stage::{CREDITS, Stage, on_stage};
use tokio::sync::Semaphore;

/// The head of a response without a length.
fn head(content_type: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n")
        .into_bytes()
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:X}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Sends these parts, one for each permit.
fn gated(gate: &Arc<Semaphore>, parts: &[Vec<u8>]) -> Script {
    Script::Gated(Arc::clone(gate), parts.to_vec())
}

/// Sends a request for `users/me`; its response is left unread.
async fn open(stage: &Stage, lines: &str) -> RawConnection {
    let mut caller = stage.raw().await;
    let (path, key) = (stage.path("users/me"), stage.host_and_key());
    caller.send(format!("GET {path} HTTP/1.1\r\n{key}{lines}\r\n")).await;
    caller
}

/// Reads one chunk, framed as the platform sent it.
async fn reads(caller: &mut RawConnection, text: &str) {
    let framed = chunk(text);
    assert_eq!(caller.bytes(framed.len()).await, framed);
}

/// Waits until `count` calls are in the log; a stream is there when it has ended.
async fn until_logged(stage: &Stage, count: usize) {
    let logged = async || {
        let log = stage.client.get("/v1/billing/usage/recent").await.json();
        let calls = log["calls"].as_array().unwrap();
        calls.iter().filter(|call| call["outcome"].is_string()).count()
    };
    while logged().await < count {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_head_of_an_event_stream_is_passed_on_before_the_first_event() {
    for content_type in [
        "text/event-stream",
        "Text/Event-Stream; charset=utf-8",
        "application/x-ndjson",
        "application/jsonl",
        "application/stream+json;v=1",
    ] {
        let gate = Arc::new(Semaphore::new(0));
        let parts = [head(content_type), chunk("data: 1\n\n"), chunk("data: 2\n\n"), chunk("")];
        let script = gated(&gate, &parts);
        on_stage(
            "platform_alpha",
            "",
            move |_, _| script.clone(),
            async |stage| {
                let mut caller = open(&stage, "").await;
                gate.add_permits(1);
                let head = caller.head().await;
                assert!(head.contains("x-credits-cost: 1\r\n"), "{head}");
                assert!(head.contains(&content_type.to_ascii_lowercase()), "{head}");
                assert!(!head.contains("x-envelope"), "{head}");
                for event in ["data: 1\n\n", "data: 2\n\n"] {
                    gate.add_permits(1);
                    reads(&mut caller, event).await;
                }
                gate.add_permits(1);
                assert_eq!(caller.bytes(5).await, b"0\r\n\r\n");
                assert_eq!(stage.ending().await, ("answered".to_owned(), 1));
                assert_eq!(stage.balance().await, CREDITS - 1);
                stage
            },
        )
        .await;
    }
}

/// With any content type, the part that has arrived is passed on when nothing more comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_without_a_length_that_pauses_is_passed_on() {
    let overrides = "[http.timeouts]\nstream_after_ms = 20";
    for first in [None, Some("[1,")] {
        let gate = Arc::new(Semaphore::new(0));
        let begin = [head("application/json"), first.map(chunk).unwrap_or_default()].concat();
        let script = gated(&gate, &[begin, chunk("2]"), chunk("")]);
        on_stage(
            "platform_alpha",
            overrides,
            move |_, _| script.clone(),
            async |stage| {
                let mut caller = open(&stage, "").await;
                gate.add_permits(1);
                let head = caller.head().await;
                assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
                if let Some(first) = first {
                    reads(&mut caller, first).await;
                }
                gate.add_permits(2);
                reads(&mut caller, "2]").await;
                assert_eq!(stage.ending().await, ("answered".to_owned(), 1));
                stage
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_stream_of_beta_keeps_its_envelope_and_is_marked() {
    let gate = Arc::new(Semaphore::new(0));
    let line = "{\"success\":true,\"response\":{}}\n";
    let script = gated(&gate, &[head("application/jsonl"), chunk(line), chunk("")]);
    on_stage(
        "platform_beta",
        "",
        move |_, _| script.clone(),
        async |stage| {
            let mut caller = open(&stage, "").await;
            gate.add_permits(1);
            let head = caller.head().await;
            assert!(head.contains("x-envelope: kept\r\n"), "{head}");
            gate.add_permits(2);
            reads(&mut caller, line).await;
            assert_eq!(stage.ending().await, ("answered".to_owned(), 1));
            stage
        },
    )
    .await;
}

/// An envelope can be removed only once the whole response has arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_envelope_of_a_slow_response_of_beta_is_still_removed() {
    let overrides = "[http.timeouts]\nstream_after_ms = 1";
    let gate = Arc::new(Semaphore::new(0));
    let begin = [head("application/json"), chunk("{\"success\":true,")].concat();
    let script = gated(&gate, &[begin, [chunk("\"response\":[7]}"), chunk("")].concat()]);
    on_stage(
        "platform_beta",
        overrides,
        move |_, _| script.clone(),
        async |stage| {
            let mut caller = open(&stage, "").await;
            gate.add_permits(1);
            // This takes some milliseconds on any machine.
            for _ in 0..50 {
                stage.client.get("/v1/billing").await;
            }
            gate.add_permits(1);
            let answer = caller.answer().await.unwrap();
            assert_eq!((answer.status, &answer.body[..]), (200, &b"[7]"[..]));
            assert!(!answer.head.contains("x-envelope"), "{}", answer.head);
            stage
        },
    )
    .await;
}

/// The platform's connection is closed when the caller disconnects, even if the platform sends
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_an_idle_stream_ends_it_and_is_charged() {
    let bytes = [head("text/event-stream"), chunk("data: 1\n\n")].concat();
    let script = move |_: &_, _| Script::AnswerAndHang(bytes.clone());
    on_stage("platform_alpha", "", script, async |stage| {
        let mut caller = open(&stage, "").await;
        caller.head().await;
        reads(&mut caller, "data: 1\n\n").await;
        drop(caller);
        until_logged(&stage, 1).await;

        assert_eq!(stage.ending().await, ("answered".to_owned(), 1));
        assert_eq!(stage.balance().await, CREDITS - 1);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_idle_for_too_long_breaks_off_and_is_free() {
    let overrides = "[platforms.platform_alpha.timeouts]\nstream_idle_ms = 50";
    let bytes = [head("text/event-stream"), chunk("data: 1\n\n")].concat();
    let script = move |_: &_, _| Script::AnswerAndHang(bytes.clone());
    on_stage("platform_alpha", overrides, script, async |stage| {
        let answer = open(&stage, "").await.answer().await.unwrap();

        assert!(!answer.is_whole, "the stream must not end cleanly");
        assert_eq!(stage.ending().await, ("upstream_timeout".to_owned(), 0));
        assert_eq!(stage.balance().await, CREDITS);
        stage
    })
    .await;
}

/// The timeout of other responses does not apply to streams: while another call runs into it, the
/// stream continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_stream_outlives_the_timeout_of_other_responses() {
    let overrides = "[platforms.platform_alpha.timeouts]\nbetween_bytes_ms = 50";
    let gate = Arc::new(Semaphore::new(0));
    let stream = gated(&gate, &[head("text/event-stream"), chunk("data: 1\n\n"), chunk("")]);
    let mut half = answer(200, "", b"1234");
    half.truncate(half.len() - 2);
    let script = move |_: &_, number: usize| match number {
        0 => stream.clone(),
        _ => Script::AnswerAndHang(half.clone()),
    };
    on_stage("platform_alpha", overrides, script, async |stage| {
        let mut caller = open(&stage, "").await;
        gate.add_permits(1);
        caller.head().await;
        for _ in 0..2 {
            assert_eq!(stage.get("users/me").await.status, 504);
        }
        gate.add_permits(2);
        reads(&mut caller, "data: 1\n\n").await;
        until_logged(&stage, 3).await;
        assert_eq!(stage.balance().await, CREDITS - 1);
        stage
    })
    .await;
}

/// A stream that ended is replayed whole under its idempotency key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_stream_is_replayed_under_its_key() {
    let stream = [head("text/event-stream"), chunk("data: 1\n\n"), chunk("")].concat();
    let script = move |_: &_, number: usize| match number {
        0 => Script::Answer(stream.clone()),
        _ => Script::Answer(json_answer(500, "{}")),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let client = stage.client.with("idempotency-key", "one");
        let first = client.send("POST", &stage.path("lists"), Some(Vec::new())).await;
        stage.app.settled(&stage.client).await;
        let again = client.send("POST", &stage.path("lists"), Some(Vec::new())).await;

        assert_eq!((first.status, &first.body[..]), (200, &b"data: 1\n\n"[..]));
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(again.header("content-type"), "text/event-stream");
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!(stage.balance().await, CREDITS - 2);
        stage
    })
    .await;
}
