//! Callers that disconnect or do not read, and responses too long to buffer: charges stay correct.

use std::sync::Arc;

use test_service::platform::{Script, answer, json_answer};
use test_service::stage::{CREDITS, Stage, on_stage};
use tokio::sync::Semaphore;

/// A long response in which no two neighboring blocks are equal.
fn long(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 251 + index % 251).to_le_bytes()[0]).collect()
}

/// The bytes in chunks of different sizes, with chunked framing.
fn chunked(bytes: &[u8]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut framed = head.as_bytes().to_vec();
    let mut rest = bytes;
    for size in (1..).map(|step| 1 + step * 977 % 40_000) {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        framed.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        framed.extend_from_slice(chunk);
        framed.extend_from_slice(b"\r\n");
        if chunk.is_empty() {
            return framed;
        }
        rest = after;
    }
    unreachable!("the sizes never end")
}

async fn until_seen(stage: &Stage, calls: usize) {
    while stage.platform.calls().len() < calls {
        tokio::task::yield_now().await;
    }
}

/// Waits until `count` calls are in the log: a read may be sent before its hold is committed.
async fn until_logged(stage: &Stage, count: usize) {
    let logged = async || {
        let log = stage.client.get("/v1/billing/usage/recent").await.json();
        log["calls"].as_array().unwrap().len()
    };
    while logged().await < count {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_response_streams_through_unchanged() {
    let lengths = [65_535, 65_536, 65_537, 1_000_000, 5_000_000];
    let script = move |_: &_, number: usize| {
        let body = long(lengths[number / 2]);
        if number.is_multiple_of(2) {
            Script::Answer(answer(200, "content-type: text/plain\r\n", body))
        } else {
            Script::Answer(chunked(&body))
        }
    };
    on_stage("platform_alpha", "", script, async |stage| {
        for length in lengths {
            for has_length in [true, false] {
                let reply = stage.get("users/me").await;

                assert_eq!(reply.status, 200);
                assert!(reply.body == long(length), "{length} bytes must arrive unchanged");
                let announced = reply.header("content-length") == length.to_string();
                // A short response is read whole, so its length is always known.
                assert_eq!(announced, has_length || length <= 65_536, "{:?}", reply.headers);
                assert_eq!(reply.receipt().0, 1);
            }
        }
        assert_eq!(stage.balance().await, CREDITS - 10);
        stage
    })
    .await;
}

/// Bytes reach the caller as they arrive, not after the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_of_a_long_response_arrives_before_its_end() {
    let gate = Arc::new(Semaphore::new(0));
    let body = long(300_000);
    let bytes = answer(200, "", &body);
    let (begin, end) = bytes.split_at(200_000);
    let script = Script::Gated(Arc::clone(&gate), vec![begin.to_vec(), end.to_vec()]);
    on_stage(
        "platform_alpha",
        "",
        move |_, _| script.clone(),
        async |stage| {
            let mut caller = stage.raw().await;
            let path = stage.path("users/me");
            caller.send(format!("GET {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
            gate.add_permits(1);
            let head = caller.head().await;
            let first = caller.bytes(150_000).await;
            gate.add_permits(1);
            let rest = caller.bytes(150_000).await;

            assert!(head.contains("content-length: 300000\r\n"), "{head}");
            assert!([first, rest].concat() == body);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_above_the_configured_maximum_breaks_off_and_is_free() {
    let overrides = "[http.limits]\nanswer_bytes_max = 100000";
    let script = |_: &_, number| match number {
        0 => Script::Answer(answer(200, "", long(100_000))),
        _ => Script::Answer(answer(200, "", long(100_001))),
    };
    on_stage("platform_alpha", overrides, script, async |stage| {
        let most = stage.get("users/me").await;
        assert_eq!((most.status, most.body.len()), (200, 100_000));
        assert_eq!(stage.balance().await, CREDITS - 1);

        let more = stage.client.try_send("GET", &stage.path("users/me"), None).await;

        assert!(!more.is_ok_and(|reply| reply.status == 200), "it ended cleanly");
        assert_eq!(stage.balance().await, CREDITS - 1);
        let log = stage.log().await;
        assert!(log.iter().any(|call| call["outcome"] == "bad_response"), "{log:?}");
        stage
    })
    .await;
}

/// If a caller disconnects after its call was sent, the call continues to its end and is charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_after_its_call_was_sent_is_charged() {
    let gate = Arc::new(Semaphore::new(0));
    let script = Script::Gated(Arc::clone(&gate), vec![json_answer(200, "{}")]);
    on_stage(
        "platform_alpha",
        "",
        move |_, _| script.clone(),
        async |stage| {
            for (number, method) in ["GET", "POST"].into_iter().enumerate() {
                let mut caller = stage.raw().await;
                let path = stage.path("lists");
                let head = format!("{method} {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key());
                caller.send(head).await;
                until_seen(&stage, number + 1).await;
                drop(caller);
                // Another request, so that the service has time to notice.
                stage.client.get("/health").await;
                gate.add_permits(1);
                until_logged(&stage, number + 1).await;

                let log = stage.log().await;
                assert_eq!(log.len(), number + 1);
                assert!(log.iter().all(|call| call["outcome"] == "answered"), "{log:?}");
            }
            assert_eq!(stage.balance().await, CREDITS - 3);
            stage
        },
    )
    .await;
}

/// The same caller is not charged if the platform fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_is_not_charged_for_a_fault_of_the_platform() {
    let gate = Arc::new(Semaphore::new(0));
    let script = Script::Gated(Arc::clone(&gate), vec![json_answer(503, "{}")]);
    on_stage(
        "platform_alpha",
        "",
        move |_, _| script.clone(),
        async |stage| {
            let mut caller = stage.raw().await;
            let path = stage.path("lists");
            caller.send(format!("POST {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
            until_seen(&stage, 1).await;
            drop(caller);
            stage.client.get("/health").await;
            gate.add_permits(1);

            assert_eq!(stage.ending().await, ("upstream_5xx".to_owned(), 0));
            stage
        },
    )
    .await;
}

/// If a caller disconnects within the request's body, there is no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_within_the_body_is_not_charged() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for lines in
                ["Content-Length: 100\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n5\r\nha"]
            {
                let mut caller = stage.raw().await;
                let path = stage.path("lists");
                caller
                    .send(format!("POST {path} HTTP/1.1\r\n{}{lines}", stage.host_and_key()))
                    .await;
                drop(caller);
            }
            let after = stage.get("users/me").await;

            assert_eq!(after.receipt(), (1, CREDITS - 1));
            assert_eq!((stage.platform.calls().len(), stage.log().await.len()), (1, 1));
            stage
        },
    )
    .await;
}

/// Whether a call is sent before its caller disconnects is a race; in either case the ledger agrees
/// with what the platform saw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_disconnect_immediately_are_charged_exactly_for_what_was_sent() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for _ in 0..40 {
                let mut caller = stage.raw().await;
                let path = stage.path("lists");
                caller.send(format!("POST {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
            }
            // The stop waits for every call that was begun.
            let mut stage = stage;
            stage.app = stage.app.restart().await;
            stage.client = stage.app.with_key(&stage.customer.key);

            let log = stage.log().await;
            let answered = log.iter().filter(|call| call["outcome"] == "answered").count();
            let gone = log.iter().filter(|call| call["outcome"] == "client_gone_before_dispatch");
            assert_eq!(answered, stage.platform.calls().len());
            assert_eq!(answered + gone.count(), log.len());
            assert_eq!(stage.balance().await, CREDITS - 2 * i64::try_from(answered).unwrap());
            stage
        },
    )
    .await;
}

/// A caller that reads the head of a long response and disconnects is charged; the rest is not
/// fetched without limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_a_long_response_is_charged() {
    for length in [500_000, 20_000_000] {
        let bytes = answer(200, "", vec![b'x'; length]);
        on_stage(
            "platform_alpha",
            "",
            move |_, _| Script::Answer(bytes.clone()),
            async |stage| {
                let mut caller = stage.raw().await;
                let path = stage.path("users/me");
                caller.send(format!("GET {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
                let head = caller.head().await;
                drop(caller);

                assert!(head.contains("x-credits-cost: 1\r\n"), "{head}");
                assert_eq!(stage.ending().await, ("answered".to_owned(), 1));
                assert_eq!(stage.balance().await, CREDITS - 1);
                stage
            },
        )
        .await;
    }
}

/// A caller that does not read is disconnected after a timeout and charged, because the platform
/// did its part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_does_not_read_is_disconnected_and_charged() {
    let overrides = "[http.timeouts]\nwrite_stall_ms = 100";
    let bytes = answer(200, "", vec![b'x'; 50_000_000]);
    let script = move |_: &_, _| Script::Answer(bytes.clone());
    on_stage("platform_alpha", overrides, script, async |stage| {
        let mut caller = stage.raw().await;
        let path = stage.path("users/me");
        caller.send(format!("GET {path} HTTP/1.1\r\n{}\r\n", stage.host_and_key())).await;
        until_logged(&stage, 1).await;

        assert_eq!(stage.ending().await, ("answered".to_owned(), 1));
        let answer = caller.answer().await.unwrap();
        assert!(!answer.is_whole, "the response must not arrive whole");
        stage
    })
    .await;
}
