//! Requests that are answered before their body has arrived: the connection is closed after the
//! answer, and the answer says so, because clients keep connections for their next request.

use test_service::platform::Script;
use test_service::raw::RawConnection;
use test_service::stage::{Stage, on_stage};

const CLOSE: &str = "connection: close\r\n";

/// The head of a request with a body of 2,000 bytes, whose key is wrong.
fn head(path: &str, lines: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: gateway\r\nX-API-Key: wrong\r\n\
         Content-Type: application/json\r\nContent-Length: 2000\r\n{lines}\r\n"
    )
}

/// A native call, and requests to routes of the service.
fn paths(stage: &Stage) -> [String; 3] {
    [stage.path("lists"), "/v1/auth/keys".to_owned(), "/v1/nothing".to_owned()]
}

async fn on_wrong_keys(test: impl AsyncFn(&Stage, &str, RawConnection)) {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for path in paths(&stage) {
                test(&stage, &path, stage.raw().await).await;
            }
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_the_body_says_that_the_connection_is_closed() {
    on_wrong_keys(async |_, path, mut connection| {
        connection.send(head(path, "")).await;
        let answer = connection.answer().await.unwrap();

        assert!([401, 404].contains(&answer.status), "{path}: {}", answer.head);
        assert!(answer.is_whole && answer.head.contains(CLOSE), "{path}: {}", answer.head);
        assert!(connection.is_closed().await, "{path}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_came_with_its_request_keeps_the_connection() {
    on_wrong_keys(async |_, path, mut connection| {
        for _ in 0..2 {
            connection.send(head(path, "") + &"a".repeat(2_000)).await;
            let answer = connection.answer().await.unwrap();

            assert!([401, 404].contains(&answer.status), "{path}: {}", answer.head);
            assert!(!answer.head.contains(CLOSE), "{path}: {}", answer.head);
        }
    })
    .await;
}

/// A client that waits for `100 Continue` is not asked for a body that nobody reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_waits_to_be_asked_for_is_not_asked_for() {
    on_wrong_keys(async |_, path, mut connection| {
        connection.send(head(path, "Expect: 100-continue\r\n")).await;
        let head = connection.head().await;

        assert!(head.starts_with("http/1.1 4") && head.contains(CLOSE), "{path}: {head}");
    })
    .await;
}

/// One that is asked for is read, and the connection stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_was_read_keeps_the_connection() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let mut connection = stage.raw().await;
            for _ in 0..2 {
                let (path, key) = (stage.path("lists"), stage.host_and_key());
                let head = format!(
                    "POST {path} HTTP/1.1\r\n{key}Content-Type: application/json\r\n\
                 Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
                );
                connection.send(head).await;
                assert_eq!(connection.head().await, "http/1.1 100 continue\r\n\r\n");
                connection.send("{}").await;
                let answer = connection.answer().await.unwrap();

                assert_eq!(answer.status, 200, "{}", answer.head);
                assert!(!answer.head.contains(CLOSE), "{}", answer.head);
            }
            stage
        },
    )
    .await;
}
