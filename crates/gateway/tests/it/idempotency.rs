//! `Idempotency-Key` on native calls: one write, one charge, and repetitions get the first
//! response.

use std::sync::Arc;

use serde_json::json;
use test_service::client::Client;
use test_service::platform::{Script, answer, json_answer};
use test_service::stage::{CREDITS, Stage, auth, on_stage};
use tokio::sync::Semaphore;

fn keyed(stage: &Stage) -> Client {
    stage.client.with("idempotency-key", "order-17")
}

/// Each call gets a different response.
fn counting(_: &test_service::platform::Seen, number: usize) -> Script {
    Script::json(201, format!(r#"{{"number":{number}}}"#))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_gets_the_first_response_and_costs_nothing() {
    let script = |_: &_, number| {
        let headers = "content-type: application/json\r\netag: \"1\"\r\nset-cookie: a=b\r\n";
        Script::Answer(answer(201, headers, format!(r#"{{"number":{number}}}"#)))
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let client = keyed(&stage);
        let first = client.post(&stage.path("lists"), &json!({"name": "x"})).await;
        let again = client.post(&stage.path("lists"), &json!({"name": "x"})).await;

        assert_eq!((first.status, first.receipt()), (201, (2, CREDITS - 2)));
        assert_eq!(first.header("idempotent-replayed"), "");
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!(again.header("x-credits-cost"), "0");
        assert_eq!((again.header("etag"), again.header("set-cookie")), ("\"1\"", ""));
        assert_eq!(again.header("content-type"), "application/json");
        assert_eq!(stage.platform.calls().len(), 1);
        assert_eq!((stage.balance().await, stage.log().await.len()), (CREDITS - 2, 1));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_request_under_the_same_key_is_refused_and_free() {
    on_stage("platform_alpha", "", counting, async |stage| {
        let client = keyed(&stage).with("content-type", "application/json");
        let path = stage.path("lists");
        let body = Some(b"{\"a\":1}".to_vec());
        assert_eq!(client.send("POST", &path, body.clone()).await.status, 201);

        let text = keyed(&stage).with("content-type", "text/plain");
        let others = [
            client.send("POST", &path, Some(b"{\"a\":2}".to_vec())).await,
            client.send("POST", &path, None).await,
            client.send("PUT", &path, body.clone()).await,
            client.send("POST", &stage.path("lists/"), body.clone()).await,
            client.send("POST", &stage.path("lists?x=1"), body.clone()).await,
            text.send("POST", &path, body).await,
        ];

        for other in &others {
            assert_eq!((other.status, other.code().as_str()), (422, "idempotency_mismatch"));
        }
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - 2));
        stage
    })
    .await;
}

/// The platform's errors are stored responses too: charged or free once, and replayed for free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_platform_is_replayed() {
    for (status, cost) in [(400, 2), (404, 2), (422, 2), (500, 0), (502, 0), (503, 0), (504, 0)] {
        let script = move |_: &_, number| Script::json(status, format!("{{\"n\":{number}}}"));
        on_stage("platform_alpha", "", script, async |stage| {
            let client = keyed(&stage);
            let first = client.post(&stage.path("lists"), &json!({})).await;
            let again = client.post(&stage.path("lists"), &json!({})).await;

            assert_eq!((first.status, first.receipt()), (status, (cost, CREDITS - cost)));
            assert_eq!((again.status, &again.body), (status, &first.body));
            assert_eq!(again.header("idempotent-replayed"), "true", "{}", again.text());
            for reply in [&first, &again] {
                assert_eq!(reply.header("x-should-retry"), "false", "{status}");
            }
            assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - cost));
            assert_eq!(again.receipt(), (0, CREDITS - cost), "{status}");
            stage
        })
        .await;
    }
}

/// If the platform says that it did not carry out the request, the same key may be used again, and
/// the repetition is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_that_allows_a_retry_frees_its_key() {
    let wait = "retry-after: 7\r\n";
    for (status, headers, cost, should_retry) in [
        (401, "", 0, "false"),
        (408, "", 0, "true"),
        (421, "", 0, "true"),
        (425, "", 0, "true"),
        (429, wait, 0, "true"),
        (503, wait, 0, "true"),
    ] {
        let script = move |_: &_, number| match number {
            0 => Script::Answer(answer(status, headers, "later")),
            _ => Script::json(201, "{}"),
        };
        on_stage("platform_alpha", "", script, async |stage| {
            let client = keyed(&stage);
            let first = client.post(&stage.path("lists"), &json!({})).await;
            stage.app.advance_seconds(7);
            let again = client.post(&stage.path("lists"), &json!({})).await;
            let replayed = client.post(&stage.path("lists"), &json!({})).await;

            assert_eq!((first.status, first.receipt()), (status, (cost, CREDITS - cost)));
            assert_eq!(first.header("x-should-retry"), should_retry, "{status}");
            assert_eq!((again.status, again.header("idempotent-replayed")), (201, ""), "{status}");
            assert_eq!(replayed.header("idempotent-replayed"), "true");
            assert_eq!(stage.platform.calls().len(), 2, "{status}");
            assert_eq!(stage.balance().await, CREDITS - cost - 2);
            stage
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_is_stored_up_to_256_kib_and_its_call_named_beyond() {
    for (length, is_kept) in [(200_000, true), (262_144, true), (262_145, false)] {
        let script = move |_: &_, _| Script::Answer(answer(200, "", vec![b'x'; length]));
        on_stage("platform_alpha", "", script, async |stage| {
            let client = keyed(&stage);
            let first = client.post(&stage.path("lists"), &json!({})).await;
            let call = stage.log().await[0]["call_id"].clone();
            let again = client.post(&stage.path("lists"), &json!({})).await;

            assert_eq!((first.status, first.body.len()), (200, length));
            if is_kept {
                assert_eq!(again.header("idempotent-replayed"), "true", "{}", again.status);
                assert_eq!(again.body, first.body);
            } else {
                assert_eq!((again.status, again.code().as_str()), (409, "answer_not_stored"));
                assert_eq!(again.json()["call_id"], call);
            }
            assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - 2));
            stage
        })
        .await;
    }
}

/// It is not known whether a call without a response took effect, so its key is never sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_of_a_call_without_a_response_is_outcome_unknown() {
    let impatient =
        "[platforms.platform_alpha.timeouts]\nfirst_byte_ms = 50\nbetween_bytes_ms = 50";
    let mut cut = answer(200, "", vec![b'x'; 200_000]);
    cut.truncate(100_000);
    for script in [Script::silence(), Script::close(), Script::AnswerAndClose(cut)] {
        on_stage(
            "platform_alpha",
            impatient,
            move |_, _| script.clone(),
            async |stage| {
                let client = keyed(&stage);
                let body = b"{}".to_vec();
                let first = client.try_send("POST", &stage.path("lists"), Some(body.clone())).await;
                let call = stage.log().await[0]["call_id"].clone();
                let again = client.send("POST", &stage.path("lists"), Some(body)).await;

                assert!(first.is_err() || first.is_ok_and(|reply| reply.status >= 500));
                assert_eq!((again.status, again.code().as_str()), (409, "outcome_unknown"));
                assert_eq!(again.json()["call_id"], call);
                assert_eq!(again.json()["retryable"], false);
                assert_eq!(again.header("x-should-retry"), "false");
                // The balance may be from before the credits were returned.
                assert_eq!(again.receipt().0, 0);
                assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS));
                stage
            },
        )
        .await;
    }
}

/// Running reads keep the writer gathering, so the end of the failed call is committed late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_call_may_be_repeated_immediately() {
    const READS: usize = 6;
    let gate = Arc::new(Semaphore::new(0));
    let gated = Script::Gated(Arc::clone(&gate), vec![json_answer(200, "{}")]);
    let gathering = "[metering]\nread_patience_ms = 1000\ngather_ms = 100";
    on_stage(
        "platform_alpha",
        gathering,
        move |seen, _| if seen.method() == "GET" { gated.clone() } else { Script::close() },
        async |stage| {
            let client = keyed(&stage);
            let (reading, writing) = (stage.path("users/me"), stage.path("lists"));
            let reads = (0..READS).map(|_| stage.client.get(&reading));
            let writes = async {
                while stage.platform.calls().len() < READS {
                    tokio::task::yield_now().await;
                }
                let failed = client.post(&writing, &json!({})).await;
                let again = client.post(&writing, &json!({})).await;
                gate.add_permits(READS);
                (failed, again)
            };
            let (_, (failed, again)) = tokio::join!(futures_util::future::join_all(reads), writes);

            assert!(failed.status >= 500, "{}", failed.text());
            assert_eq!((again.status, again.code().as_str()), (409, "outcome_unknown"));
            assert_eq!(stage.platform.calls().len(), READS + 1);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_never_sent_may_be_repeated() {
    on_stage("platform_alpha", "", counting, async |stage| {
        let client = keyed(&stage);
        stage.platform.shut();
        let unreached = client.post(&stage.path("lists"), &json!({})).await;
        let again = client.post(&stage.path("lists"), &json!({})).await;
        let refused = client.post(&stage.path("a/../b"), &json!({})).await;

        for reply in [&unreached, &again] {
            assert_eq!((reply.status, reply.code().as_str()), (502, "platform_unreachable"));
        }
        assert_eq!(refused.code(), "invalid_path");
        assert_eq!((stage.log().await.len(), stage.balance().await), (2, CREDITS));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_while_the_first_request_runs_is_refused() {
    let gate = Arc::new(Semaphore::new(0));
    let script = Script::Gated(Arc::clone(&gate), vec![json_answer(200, "{}")]);
    on_stage(
        "platform_alpha",
        "",
        move |_, _| script.clone(),
        async |stage| {
            let client = keyed(&stage);
            let path = stage.path("lists");
            let body = json!({});
            let (first, meanwhile) = tokio::join!(client.post(&path, &body), async {
                while stage.platform.calls().is_empty() {
                    tokio::task::yield_now().await;
                }
                let meanwhile = client.post(&path, &body).await;
                gate.add_permits(1);
                meanwhile
            });

            assert_eq!(
                (meanwhile.status, meanwhile.code().as_str()),
                (409, "idempotency_in_progress")
            );
            assert_eq!((first.status, stage.platform.calls().len()), (200, 1));
            assert_eq!(stage.balance().await, CREDITS - 2);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_is_stored_for_a_day() {
    on_stage("platform_alpha", "", counting, async |stage| {
        let client = keyed(&stage);
        let first = client.post(&stage.path("lists"), &json!({})).await;
        stage.app.advance_seconds(24 * 3_600 - 1);
        let just_before = client.post(&stage.path("lists"), &json!({})).await;
        stage.app.advance_seconds(1);
        let after = client.post(&stage.path("lists"), &json!({})).await;

        assert_eq!(just_before.body, first.body);
        assert_eq!(just_before.header("idempotent-replayed"), "true");
        assert_eq!(after.header("idempotent-replayed"), "");
        assert_ne!(after.body, first.body);
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (2, CREDITS - 4));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_of_another_customer_is_a_different_key() {
    on_stage("platform_alpha", "", counting, async |stage| {
        let neighbour = stage.app.customer(10).await;
        let theirs = stage.app.with_key(&neighbour.key);
        let auth = auth("platform_alpha");
        let import = json!({"creator_id": "ada", "platform": "platform_alpha", "auth": auth});
        assert_eq!(theirs.post("/v1/connect/import", &import).await.status, 201);

        let own = keyed(&stage).post(&stage.path("lists"), &json!({})).await;
        let theirs = theirs.with("idempotency-key", "order-17");
        let other = theirs.post(&stage.path("lists"), &json!({})).await;

        assert_eq!((own.status, other.status), (201, 201));
        assert_eq!(other.header("idempotent-replayed"), "");
        assert_ne!(own.body, other.body);
        assert_eq!(stage.platform.calls().len(), 2);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_a_single_header_of_visible_characters() {
    on_stage("platform_alpha", "", counting, async |stage| {
        let longest = "k".repeat(255);
        let too_long = "k".repeat(256);
        let request = |lines: &str| {
            let path = stage.path("lists");
            format!(
                "POST {path} HTTP/1.1\r\n{}{lines}Content-Length: 0\r\n\r\n",
                stage.host_and_key()
            )
        };
        for (lines, status, code) in [
            (format!("Idempotency-Key: {too_long}\r\n"), 400, "invalid_idempotency_key"),
            ("Idempotency-Key:\r\n".to_owned(), 400, "invalid_idempotency_key"),
            ("Idempotency-Key: a b\r\n".to_owned(), 400, "invalid_idempotency_key"),
            ("Idempotency-Key: \u{e9}\r\n".to_owned(), 400, "invalid_idempotency_key"),
            ("Idempotency-Key: a\r\nIdempotency-Key: a\r\n".to_owned(), 400, "repeated_header"),
            (format!("Idempotency-Key: {longest}\r\n"), 201, ""),
            ("Idempotency-Key: \"quoted\"\r\n".to_owned(), 201, ""),
        ] {
            let mut caller = stage.raw().await;
            caller.send(request(&lines)).await;
            let answer = caller.answer().await.unwrap();
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{lines}");
        }
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (2, CREDITS - 4));
        stage
    })
    .await;
}

/// Reads have no effect to repeat: the header is ignored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_never_a_repetition() {
    on_stage("platform_alpha", "", counting, async |stage| {
        let client = keyed(&stage);
        let first = client.get(&stage.path("users/me")).await;
        let second = client.get(&stage.path("users/me")).await;

        assert_eq!(second.header("idempotent-replayed"), "");
        assert_ne!(first.body, second.body);
        assert_eq!(stage.balance().await, CREDITS - 2);
        stage
    })
    .await;
}

/// Sends the keyed write; whether its first response was repeated, or the refusal.
async fn repeats(stage: &Stage) -> Result<bool, (u16, String)> {
    let reply = keyed(stage).post(&stage.path("lists"), &json!({})).await;
    match reply.status {
        201 => Ok(reply.header("idempotent-replayed") == "true"),
        _ => Err(reply.failure()),
    }
}

async fn delete_account(stage: &Stage) {
    let path = format!("/v1/accounts/{}", stage.account);
    assert_eq!(stage.client.delete(&path).await.status, 204);
    stage.app.advance_seconds(1);
}

/// Another creator under the same name must not get the response of the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_ends_with_the_identity_of_its_account_and_not_with_its_credentials() {
    on_stage("platform_alpha", "", counting, async |stage| {
        let import = async |user: &str, token: &str| {
            let auth =
                json!({"user_id": user, "session_token": token, "user_agent": "Connected/1.0"});
            assert!(stage.import("platform_alpha", auth).await.status < 300);
        };
        assert_eq!(repeats(&stage).await, Ok(false));
        import("31", "replaced").await;
        assert_eq!(repeats(&stage).await, Ok(true), "its credentials were replaced");
        delete_account(&stage).await;
        import("31", "again").await;
        assert_eq!(repeats(&stage).await, Ok(true), "the same creator was connected again");
        delete_account(&stage).await;
        import("32", "another").await;

        assert_eq!(repeats(&stage).await, Err((422, "idempotency_mismatch".to_owned())));
        assert_eq!(stage.platform.calls().len(), 1);
        assert_eq!(stage.balance().await, CREDITS - 2);
        stage
    })
    .await;
}

/// Where the platform does not say who it is, nobody knows that it is the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_an_account_without_a_known_identity_ends_when_it_is_deleted() {
    on_stage("platform_delta", "", counting, async |stage| {
        let import = async || stage.import("platform_delta", auth("platform_delta")).await.status;
        assert_eq!(repeats(&stage).await, Ok(false));
        assert_eq!(import().await, 200);
        assert_eq!(repeats(&stage).await, Ok(true), "its credentials were replaced");
        delete_account(&stage).await;
        assert_eq!(import().await, 201);

        assert_eq!(repeats(&stage).await, Err((422, "idempotency_mismatch".to_owned())));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_response_survives_a_restart_and_an_empty_balance() {
    on_stage("platform_alpha", "", counting, async |mut stage| {
        let first = keyed(&stage).post(&stage.path("lists"), &json!({})).await;
        while stage.balance().await > 0 {
            let left = stage.post("lists", &json!({})).await;
            assert_eq!(left.status, 201);
        }
        stage.app = stage.app.restart().await;
        stage.client = stage.app.with_key(&stage.customer.key);

        let again = keyed(&stage).post(&stage.path("lists"), &json!({})).await;
        let poor = stage.post("lists", &json!({})).await;

        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!((poor.status, poor.code().as_str()), (402, "insufficient_credits"));
        assert_eq!((&poor.json()["balance"], &poor.json()["cost"]), (&0.into(), &2.into()));
        stage
    })
    .await;
}
