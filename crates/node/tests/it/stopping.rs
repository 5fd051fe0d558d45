//! The orderly stop, whatever is running: it ends, and nothing that it cuts off is charged.
#![expect(clippy::indexing_slicing, reason = "an unexpected value must fail the test")]

use serde_json::{Value, json};
use test_service::form::Form;
use test_service::platform::{Script, Seen};
use test_service::stage::{CREDITS, Stage, auth, on_stage};

const GAMMA: &str = "platform_gamma";
const EXPLORER: &str = "/console/explorer";
/// Its id is kept, so that it gives back at its next start what it held.
const SETTINGS: &str = "
    [metering]
    node = \"node_00000000000000000000000000000009\"
    [exports]
    workers = 1
    [http.timeouts]
    drain_ms = 300";

/// Answers every call with the beginning of a body that never ends.
fn endless(request: &Seen, _: usize) -> Script {
    const BEGUN: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                         transfer-encoding: chunked\r\n\r\n1\r\na\r\n";
    request.confirmation().unwrap_or_else(|| Script::AnswerAndHang(BEGUN.into()))
}

/// Waits until the platform has seen a call whose target contains `part`.
async fn seen(stage: &Stage, part: &str) {
    while !stage.platform.calls().iter().any(|call| call.target().contains(part)) {
        tokio::task::yield_now().await;
    }
}

/// An upload whose second half never comes, one that is answered without end, and a stream.
async fn begin_calls(stage: &Stage) -> Vec<test_service::raw::RawConnection> {
    let form = Form::new().with_picture();
    let (body, key) = (form.body(), stage.host_and_key());
    let upload = format!(
        "POST {} HTTP/1.1\r\n{key}Content-Type: {}\r\nContent-Length: {}\r\n\r\n",
        format_args!("/v1/{}/media/upload", stage.account),
        form.content_type(),
        body.len()
    );
    let mut callers = Vec::new();
    for sent in [body.len() / 2, body.len()] {
        let mut caller = stage.raw().await;
        caller.send(&upload).await;
        caller.send(&body[..sent]).await;
        callers.push(caller);
    }
    let mut stream = stage.raw().await;
    stream.send(format!("GET {} HTTP/1.1\r\n{key}\r\n", stage.path("stream"))).await;
    assert!(stream.head().await.starts_with("http/1.1 200"));
    seen(stage, "media").await;
    callers.push(stream);
    callers
}

fn money(billing: &Value) -> (Option<i64>, Option<i64>) {
    (billing["balance"].as_i64(), billing["held"].as_i64())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_uploads_streams_exports_and_calls_of_pages_and_charges_none() {
    on_stage(GAMMA, SETTINGS, endless, async |mut stage| {
        let member = stage.app.member("ada@example.com").await;
        stage.app.grant(&member.customer, CREDITS).await;
        let before = stage.app.with_key(&member.customer.key);
        let import = json!({"creator_id": "bea", "platform": GAMMA, "auth": auth(GAMMA)});
        assert_eq!(before.post("/v1/connect/import", &import).await.status, 201);
        let browser = stage.app.browser_of(&member).await;
        let page = browser.open(&format!("{EXPLORER}?account=bea&route=GET+chats")).await;
        let export = json!({"dataset": "subscribers", "fmt": "csv", "max_rows": 10});
        let begun = stage.client.post(&format!("/v1/{}/exports", stage.account), &export).await;
        assert_eq!(begun.status, 201, "{}", begun.text());
        let callers = begin_calls(&stage).await;
        let mut shown = tokio::task::JoinSet::new();
        shown.spawn(async move { browser.submit(&page, EXPLORER, &[]).await.status() });
        seen(&stage, "chats").await;
        seen(&stage, "subscri").await;

        stage.app = stage.app.restart().await;
        drop(callers);

        // The page says what happened, or its connection was closed: both are an end.
        drop(shown.join_next().await);
        stage.client = stage.app.with_key(&stage.customer.key);
        let own = stage.app.with_key(&member.customer.key);
        stage.app.settled(&own).await;
        assert_eq!(money(&own.get("/v1/billing").await.json()), (Some(CREDITS), Some(0)));
        // The export goes on, and holds what its rows will cost.
        let billing = stage.client.get("/v1/billing").await.json();
        assert_eq!(money(&billing), (Some(CREDITS - 10), Some(10)), "{billing}");
        stage
    })
    .await;
}
