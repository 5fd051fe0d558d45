//! A failing platform: the caller's response, and that nothing is charged.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use test_service::platform::{RawPlatform, Script, answer, json_answer};
use test_service::stage::{CREDITS, Stage, on_stage, on_stage_of};
use tokio::sync::Semaphore;

/// Short timeouts, so that silence is noticed quickly.
const IMPATIENT: &str =
    "[platforms.platform_alpha.timeouts]\nfirst_byte_ms = 50\nbetween_bytes_ms = 50\n";

/// Longer than what is read before the head of a response is passed on.
const LONG: usize = 200_000;

/// A write with the response `script` gets this status and code, is free, and is logged with this
/// outcome.
async fn a_write_ends(script: Script, status: u16, code: &str, outcome: &str) {
    on_stage(
        "platform_alpha",
        IMPATIENT,
        move |_, _| script.clone(),
        async |stage| {
            let reply = stage.post("lists", &json!({"name": "x"})).await;

            assert_eq!((reply.status, reply.code().as_str()), (status, code), "{}", reply.text());
            assert_eq!(reply.receipt(), (0, CREDITS), "{:?}", reply.headers);
            assert_eq!(stage.ending().await, (outcome.to_owned(), 0));
            assert_eq!(stage.balance().await, CREDITS);
            assert_eq!(stage.platform.calls().len(), 1, "a write must be sent once");
            stage
        },
    )
    .await;
}

/// A write with the response `bytes` fails with a 502, and is free.
async fn is_a_bad_answer(bytes: impl Into<Vec<u8>>) {
    let script = Script::AnswerAndClose(bytes.into());
    a_write_ends(script, 502, "outcome_unknown", "bad_response").await;
}

/// A read whose long response breaks off never ends cleanly, and is free.
async fn a_long_answer_breaks_off(script: Script, outcome: &str) {
    on_stage(
        "platform_alpha",
        IMPATIENT,
        move |_, _| script.clone(),
        async |stage| {
            let read = stage.client.try_send("GET", &stage.path("users/me"), None).await;

            assert!(read.is_err(), "{:?}", read.map(|reply| reply.status));
            assert_eq!(stage.ending().await, (outcome.to_owned(), 0));
            assert_eq!(stage.balance().await, CREDITS);
            stage
        },
    )
    .await;
}

/// Only a response with a status of 200 to 499, except 408, 421, 425 and 429, is charged.
async fn an_answer_is(status: u16, charged: i64, outcome: &str) {
    let script = move |_: &_, _| Script::json(status, r#"{"said":"so"}"#);
    on_stage("platform_alpha", "", script, async |stage| {
        let reply = stage.get("users/me").await;

        assert_eq!((reply.status, &reply.body[..]), (status, &br#"{"said":"so"}"#[..]));
        assert_eq!(reply.receipt(), (charged, CREDITS - charged));
        let source = if status < 400 { "" } else { "platform" };
        assert_eq!(reply.header("x-error-source"), source);
        assert_eq!(stage.ending().await, (outcome.to_owned(), charged));
        assert_eq!(stage.balance().await, CREDITS - charged);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_closed_before_a_response_is_502_and_free() {
    a_write_ends(Script::close(), 502, "outcome_unknown", "bad_response").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_connection_is_502_and_free() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            stage.platform.shut();

            let reply = stage.post("lists", &json!({"name": "x"})).await;

            assert_eq!((reply.status, reply.code().as_str()), (502, "platform_unreachable"));
            assert_eq!(reply.receipt(), (0, CREDITS));
            assert_eq!(stage.ending().await, ("connect_failed".to_owned(), 0));
            assert!(stage.platform.calls().is_empty());
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_before_the_response_is_504_and_free() {
    a_write_ends(Script::silence(), 504, "outcome_unknown", "upstream_timeout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_within_a_short_response_is_504_and_free() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345".to_vec();
    a_write_ends(Script::AnswerAndHang(half), 504, "outcome_unknown", "upstream_timeout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_within_a_long_response_breaks_it_off_and_is_free() {
    let mut bytes = answer(200, "", vec![b'x'; LONG]);
    bytes.truncate(LONG / 2);
    a_long_answer_breaks_off(Script::AnswerAndHang(bytes), "upstream_timeout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_short_response_is_502_and_free() {
    is_a_bad_answer("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345").await;
    is_a_bad_answer("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\n12345").await;
    is_a_bad_answer("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_long_response_never_ends_cleanly_and_is_free() {
    let mut with_length = answer(200, "", vec![b'x'; LONG]);
    with_length.truncate(LONG / 2);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{LONG:x}\r\n{}\r\n",
        "x".repeat(LONG)
    );

    a_long_answer_breaks_off(Script::AnswerAndClose(with_length), "bad_response").await;
    a_long_answer_breaks_off(Script::AnswerAndClose(chunked.into_bytes()), "bad_response").await;
}

/// Bytes after a response are never taken for the next one, because the connection is not used
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_after_a_response_affect_no_other_call() {
    let script = |_: &_, number| match number {
        0 => {
            let mut bytes = answer(200, "", "ok");
            bytes.extend(json_answer(200, r#"{"of":"somebody else"}"#));
            Script::Answer(bytes)
        }
        _ => Script::json(200, r#"{"of":"this call"}"#),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let first = stage.get("users/me").await;
        let second = stage.get("users/me").await;

        assert_eq!((first.status, &first.body[..]), (200, &b"ok"[..]));
        assert_eq!(second.text(), r#"200 {"of":"this call"}"#);
        let calls = stage.platform.calls();
        assert_ne!(
            calls[0].connection, calls[1].connection,
            "the connection must not be used again"
        );
        assert_eq!(stage.balance().await, CREDITS - 2);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_with_two_framings_is_502_and_free() {
    is_a_bad_answer(
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    )
    .await;
    is_a_bad_answer("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_response_is_502_and_free() {
    is_a_bad_answer("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab").await;
    is_a_bad_answer("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n").await;
    is_a_bad_answer("HTTP/1.1 200 OK\r\nx: a\x01b\r\ncontent-length: 0\r\n\r\n").await;
    is_a_bad_answer("<html>hello</html>\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_with_too_large_a_head_is_502_and_free() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(600_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(150));

    is_a_bad_answer(long).await;
    is_a_bad_answer(many).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_with_an_invalid_status_is_502_and_free() {
    is_a_bad_answer(answer(999, "", "")).await;
    is_a_bad_answer(answer(600, "", "")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_informational_responses_are_502_and_free() {
    let mut endless = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2_000);
    endless.extend(answer(200, "", "late"));

    is_a_bad_answer(endless).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_informational_responses_are_skipped() {
    let script = |_: &_, _| {
        let mut bytes = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(8);
        bytes.extend(answer(200, "", "ok"));
        Script::Answer(bytes)
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let reply = stage.get("users/me").await;

        assert_eq!((reply.status, &reply.body[..]), (200, &b"ok"[..]));
        assert_eq!((reply.header("link"), reply.receipt()), ("", (1, CREDITS - 1)));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platform_that_switches_protocols_is_502_and_free() {
    is_a_bad_answer(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: foo\r\nconnection: upgrade\r\n\r\n",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_204_is_charged_and_its_stray_body_dropped() {
    let script = |_: &_, number| match number {
        0 => Script::Answer(b"HTTP/1.1 204 No Content\r\n\r\nstray".to_vec()),
        _ => Script::json(200, r#"{"of":"this call"}"#),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let first = stage.post("lists", &json!({"name": "x"})).await;
        let second = stage.get("users/me").await;

        assert_eq!((first.status, first.body.len(), first.receipt()), (204, 0, (2, CREDITS - 2)));
        assert_eq!(second.text(), r#"200 {"of":"this call"}"#);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_4xx_of_the_platform_is_passed_on_and_charged() {
    for status in [400, 403, 404, 409, 422, 451] {
        an_answer_is(status, 1, "answered").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_5xx_of_the_platform_is_passed_on_and_free() {
    for status in [500, 501, 502, 503, 504, 599] {
        an_answer_is(status, 0, "upstream_5xx").await;
    }
    an_answer_is(429, 0, "upstream_429").await;
    an_answer_is(401, 0, "upstream_401").await;
    for status in [408, 421, 425] {
        an_answer_is(status, 0, "upstream_not_carried_out").await;
    }
}

/// A redirection to another host is passed on with its target in another header, is charged, and is
/// never followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirection_to_another_host_is_passed_on_and_never_followed() {
    let sink = RawPlatform::answering(&answer(200, "", "secret")).await;
    let location = format!("location: http://{}/latest/meta-data\r\n", sink.address);
    let script = move |_: &_, _| Script::Answer(answer(302, &location, ""));
    on_stage("platform_alpha", "", script, async |stage| {
        let reply = stage.get("users/me").await;

        assert_eq!((reply.status, reply.header("location")), (302, ""));
        assert_eq!(reply.receipt(), (1, CREDITS - 1));
        assert_eq!(stage.ending().await, ("answered".to_owned(), 1));
        stage
    })
    .await;
    assert!(sink.seen().is_empty(), "the redirection must not be followed");
}

/// A platform that answers the first call on a connection and closes the connection at the second.
async fn giving_up_old_connections() -> RawPlatform {
    let answered = Mutex::new(HashSet::new());
    RawPlatform::playing(move |request, _| {
        let is_first = answered.lock().unwrap().insert(request.connection);
        if is_first { Script::json(200, "{}") } else { Script::close() }
    })
    .await
}

/// The number of calls on a connection that had already served one.
fn on_old_connections(stage: &Stage) -> usize {
    let calls = stage.platform.calls();
    let connections: HashSet<_> = calls.iter().map(|call| call.connection).collect();
    calls.len() - connections.len()
}

/// The only retry: a read on a kept connection that the platform had closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_retried_once_if_its_kept_connection_was_closed() {
    on_stage_of("platform_alpha", "", giving_up_old_connections, async |stage| {
        let mut reads = 0;
        // The pool decides whether a connection is used again, so read until one is.
        while on_old_connections(&stage) == 0 {
            let reply = stage.get("users/me").await;
            reads += 1;
            assert_eq!((reply.status, reply.receipt()), (200, (1, CREDITS - reads)));
        }

        let calls = stage.platform.calls();
        let [.., dead, again] = &calls[..] else { panic!("{calls:?}") };
        assert_eq!(
            dead.header("x-call-id"),
            again.header("x-call-id"),
            "both requests must have the same call id"
        );
        assert_eq!(i64::try_from(calls.len()).unwrap(), reads + 1);
        assert_eq!(i64::try_from(stage.log().await.len()).unwrap(), reads);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_never_retried() {
    on_stage_of("platform_alpha", "", giving_up_old_connections, async |stage| {
        let (mut writes, mut status) = (0, 200);
        while status == 200 {
            status = stage.post("lists", &json!({"name": "x"})).await.status;
            writes += 1;
        }

        assert_eq!((status, on_old_connections(&stage)), (502, 1));
        assert_eq!(stage.platform.calls().len(), writes, "each write must be sent once");
        let log = stage.log().await;
        let failed: Vec<_> = log.iter().filter(|call| call["outcome"] == "bad_response").collect();
        assert_eq!((failed.len(), &failed[0]["credits"]), (1, &0.into()));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_on_a_new_connection_is_not_retried() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::close(),
        async |stage| {
            let reply = stage.get("users/me").await;

            assert_eq!((reply.status, stage.platform.calls().len()), (502, 1));
            assert_eq!(stage.balance().await, CREDITS);
            stage
        },
    )
    .await;
}

/// After seven failures in a row nothing is sent for a second; then one call at a time is a probe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_repeated_failures_calls_stop_until_a_probe_succeeds() {
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Script::Gated(Arc::clone(&gate), vec![json_answer(200, "{}")]);
    let script = move |_: &_, number| match number {
        0..7 => Script::close(),
        7 => waiting.clone(),
        _ => Script::json(200, "{}"),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        for _ in 0..7 {
            assert_eq!(stage.get("users/me").await.status, 502);
        }
        let refused = stage.get("users/me").await;
        stage.app.advance_seconds(1);
        let (probe, other) = tokio::join!(stage.get("users/me"), async {
            while stage.platform.calls().len() < 8 {
                tokio::task::yield_now().await;
            }
            let other = stage.get("users/me").await;
            gate.add_permits(1);
            other
        });
        let after = stage.get("users/me").await;

        assert_eq!((refused.status, refused.code().as_str()), (503, "platform_unavailable"));
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!((probe.status, other.status, after.status), (200, 503, 200));
        assert_eq!(stage.platform.calls().len(), 9);
        assert_eq!(stage.balance().await, CREDITS - 2);
        stage
    })
    .await;
}

/// The platform's own responses never open the breaker, whatever their status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_of_the_platform_do_not_count_as_failures() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(503, "{}"),
        async |stage| {
            for _ in 0..20 {
                assert_eq!(stage.get("users/me").await.status, 503);
            }

            assert_eq!(stage.platform.calls().len(), 20);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_after_with_a_date_pauses_like_one_with_seconds() {
    let script = |_: &_, number| match number {
        0 => Script::Answer(answer(429, "Retry-After: Sat, 21 Nov 2026 12:00:30 GMT\r\n", "slow")),
        _ => Script::json(200, "{}"),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let limited = stage.get("users/me").await;
        let paused = stage.get("users/me").await;
        stage.app.advance_seconds(30);
        let after = stage.get("users/me").await;

        assert_eq!((limited.status, limited.receipt()), (429, (0, CREDITS)));
        assert_eq!(
            (paused.code().as_str(), paused.header("retry-after")),
            ("account_paused", "30")
        );
        assert_eq!((after.status, stage.platform.calls().len()), (200, 2));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_429_with_retry_after_pauses_the_account_and_costs_nothing() {
    let script = |_: &_, number| match number {
        0 => {
            Script::Answer(answer(429, "retry-after: 30\r\nx-ratelimit-reset: 9\r\n", "slow down"))
        }
        _ => Script::json(200, "{}"),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let limited = stage.get("users/me").await;
        let paused = stage.get("users/me").await;
        stage.app.advance_seconds(29);
        let still = stage.get("users/me").await;
        stage.app.advance_seconds(1);
        let after = stage.get("users/me").await;

        assert_eq!((limited.status, limited.header("retry-after")), (429, "30"));
        assert_eq!((limited.receipt(), &limited.body[..]), ((0, CREDITS), &b"slow down"[..]));
        assert_eq!(
            (paused.code().as_str(), paused.header("retry-after")),
            ("account_paused", "30")
        );
        assert_eq!((still.code().as_str(), still.header("retry-after")), ("account_paused", "1"));
        assert_eq!((after.status, after.receipt()), (200, (1, CREDITS - 1)));
        assert_eq!(stage.platform.calls().len(), 2);
        stage
    })
    .await;
}

/// A platform whose calls always fail with `status`, and whose identity check does once `broken` is
/// set.
async fn refusing(status: u16, broken: Arc<AtomicBool>) -> RawPlatform {
    RawPlatform::deciding(move |request, _| {
        let confirmation = request.confirmation().filter(|_| !broken.load(Ordering::Relaxed));
        confirmation.unwrap_or_else(|| Script::json(status, "{}"))
    })
    .await
}

fn verifications(stage: &Stage) -> usize {
    stage.platform.seen().iter().filter(|request| request.contains("verify")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_401_confirmed_by_the_identity_check_marks_the_account() {
    let broken = Arc::new(AtomicBool::new(false));
    let make = async || {
        broken.store(false, Ordering::Relaxed);
        refusing(401, Arc::clone(&broken)).await
    };
    on_stage_of("platform_alpha", "", make, async |stage| {
        broken.store(true, Ordering::Relaxed);

        let reply = stage.get("users/me/settings").await;
        stage.becomes("reconnect_needed").await;
        let next = stage.get("users/me/settings").await;

        assert_eq!((reply.status, reply.receipt()), (401, (0, CREDITS)));
        assert_eq!(next.status, 401, "calls must still be sent");
        broken.store(false, Ordering::Relaxed);
        let mended = stage.import("platform_alpha", test_service::stage::auth("platform_alpha"));
        assert_eq!(mended.await.status, 200);
        assert_eq!(stage.account_state().await, "active");
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_401_contradicted_by_the_identity_check_does_not_mark_the_account() {
    let make = async || refusing(401, Arc::new(AtomicBool::new(false))).await;
    on_stage_of("platform_alpha", "", make, async |mut stage| {
        let reply = stage.get("users/me/settings").await;
        while verifications(&stage) < 2 {
            tokio::task::yield_now().await;
        }
        // The stop waits for the identity check and its result.
        stage.app = stage.app.restart().await;
        stage.client = stage.app.with_key(&stage.customer.key);

        assert_eq!(reply.status, 401);
        assert_eq!(stage.account_state().await, "active");
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_403_never_marks_the_account() {
    let broken = Arc::new(AtomicBool::new(false));
    let make = async || {
        broken.store(false, Ordering::Relaxed);
        refusing(403, Arc::clone(&broken)).await
    };
    on_stage_of("platform_alpha", "", make, async |mut stage| {
        broken.store(true, Ordering::Relaxed);

        let reply = stage.get("users/me/settings").await;
        stage.app = stage.app.restart().await;
        stage.client = stage.app.with_key(&stage.customer.key);

        assert_eq!(reply.status, 403);
        assert_eq!(verifications(&stage), 1, "only the import may check the identity");
        assert_eq!(stage.account_state().await, "active");
        stage
    })
    .await;
}

/// An unreadable value is not passed on and has no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_retry_after_is_ignored() {
    for unusable in ["abc", "1.5", "-1", "Wed, 21 Oct 2015 07:28:00 GMT"] {
        let script = move |_: &_, number| {
            let status = if number == 0 { 429 } else { 503 };
            Script::Answer(answer(status, &format!("retry-after: {unusable}\r\n"), ""))
        };
        on_stage("platform_alpha", "", script, async |stage| {
            let limited = stage.get("users/me").await;
            let write = stage.client.with("idempotency-key", "once");
            let write = write.post(&stage.path("lists"), &json!({})).await;

            assert_eq!((limited.status, limited.header("retry-after")), (429, ""), "{unusable}");
            assert_eq!(limited.header("x-should-retry"), "true", "{unusable}");
            assert_eq!((write.status, write.header("retry-after")), (503, ""), "{unusable}");
            assert_eq!(write.header("x-should-retry"), "false", "{unusable}");
            stage
        })
        .await;
    }
}
