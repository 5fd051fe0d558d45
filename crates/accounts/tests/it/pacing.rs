//! Paced accounts: calls wait for their turn or are refused, free of charge.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;

use super::refusals::{Play, others_on};
use test_service::platform::{Script, Seen};
use test_service::stage::{CREDITS, Stage, auth, on_stage};
use test_service::{TestApp, at_once, with_app};

const ALPHA: &str = "platform_alpha";
const DELTA: &str = "platform_delta";

fn pacing(platform: &str, pacing: &str) -> String {
    format!("[platforms.{platform}.pacing]\n{pacing}")
}

fn fine(request: &Seen, _: usize) -> Script {
    request.confirmation().unwrap_or_else(|| Script::json(200, "{}"))
}

/// Lets the burst that the import of the account used become available again.
fn rest(stage: &Stage) {
    stage.app.advance_seconds(60);
}

/// A counter of this platform. It is of the whole process, so only differences count.
async fn counter(app: &TestApp, name: &str, class: &str) -> u64 {
    let series = format!("paced_{name}_total{{platform=\"platform_alpha\",class=\"{class}\"}}");
    let metrics = app.admin().get("/metrics").await.text();
    let line = metrics.lines().find(|line| line.contains(&series)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn waits(app: &TestApp) -> u64 {
    counter(app, "waits", "reads").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_pace_are_refused_free_of_charge_and_keep_their_key() {
    let paced = pacing(ALPHA, "writes = { per_second = 0.1, burst = 2 }");
    on_stage(ALPHA, &paced, fine, async |stage| {
        rest(&stage);
        let before = counter(&stage.app, "refusals", "writes").await;
        for _ in 0..2 {
            assert_eq!(stage.post("posts", &json!({})).await.status, 200);
        }
        let keyed = stage.client.with("idempotency-key", "k-1");
        let refused = keyed.post(&stage.path("posts"), &json!({})).await;

        assert_eq!(refused.failure(), (429, "account_paced".to_owned()));
        assert_eq!(refused.receipt(), (0, CREDITS - 4));
        assert_eq!(refused.header("retry-after"), "10");
        assert_eq!(refused.header("x-should-retry"), "true");
        assert_eq!(stage.platform.calls().len(), 2);
        assert_eq!(stage.get("users/me").await.status, 200, "reads are not paced");

        // The key was not used, so the same request is carried out later, once.
        stage.app.advance_seconds(10);
        let sent = keyed.post(&stage.path("posts"), &json!({})).await;
        assert_eq!((sent.status, sent.receipt()), (200, (2, CREDITS - 7)));
        assert_eq!(sent.header("idempotent-replayed"), "");
        assert_eq!(stage.balance().await, CREDITS - 7);
        assert_eq!(counter(&stage.app, "refusals", "writes").await, before + 1);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_their_turn_without_holding_credits() {
    let paced = pacing(ALPHA, "reads = { per_second = 0.2, burst = 1 }\nmax_wait_ms = 10000");
    on_stage(ALPHA, &paced, fine, async |stage| {
        rest(&stage);
        assert_eq!(stage.get("users/me").await.status, 200);
        let before = waits(&stage.app).await;
        let mut waiting = JoinSet::new();
        for _ in 0..2 {
            let (client, path) = (stage.client.clone(), stage.path("users/me"));
            waiting.spawn(async move { client.get(&path).await.status });
        }
        while waits(&stage.app).await != before + 2 {}

        // A third would have to wait for 15 seconds.
        let refused = stage.get("users/me").await;
        assert_eq!(refused.failure(), (429, "account_paced".to_owned()));
        assert_eq!(refused.header("retry-after"), "15");
        assert_eq!(stage.balance().await, CREDITS - 1);
        assert_eq!(stage.platform.calls().len(), 1);

        let (_, others) = others_on(&stage, ALPHA, &auth(ALPHA), 1).await.remove(0);
        stage.app.advance_seconds(5);
        assert_eq!(others.get("/v1/ada/native/users/me").await.status, 200, "others do not wait");
        stage.app.advance_seconds(5);
        assert_eq!(waiting.join_all().await, [200, 200]);
        assert_eq!(stage.balance().await, CREDITS - 3);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_gives_its_turn_to_the_next() {
    let paced = pacing(ALPHA, "reads = { per_second = 0.1, burst = 1 }\nmax_wait_ms = 10000");
    on_stage(ALPHA, &paced, fine, async |stage| {
        rest(&stage);
        assert_eq!(stage.get("users/me").await.status, 200);
        let before = waits(&stage.app).await;
        let mut leaving = stage.raw().await;
        let head =
            format!("GET {} HTTP/1.1\r\n{}\r\n", stage.path("users/me"), stage.host_and_key());
        leaving.send(head.as_bytes()).await;
        while waits(&stage.app).await != before + 1 {}
        assert_eq!(stage.get("users/me").await.code(), "account_paced");

        drop(leaving);
        // As soon as the first has left, there is room for another.
        let (client, path) = (stage.client.clone(), stage.path("users/me"));
        let mut next = JoinSet::new();
        next.spawn(async move {
            loop {
                let reply = client.get(&path).await;
                if reply.status != 429 {
                    return reply.status;
                }
            }
        });
        while waits(&stage.app).await != before + 2 {}
        stage.app.advance_seconds(10);

        assert_eq!(next.join_all().await, [200]);
        assert_eq!(stage.platform.calls().len(), 2);
        assert_eq!((stage.balance().await, stage.log().await.len()), (CREDITS - 2, 2));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sensitive_routes_have_a_pace_of_their_own() {
    let paced = pacing(ALPHA, "sensitive = { per_second = 0.1, burst = 1 }");
    on_stage(ALPHA, &paced, fine, async |stage| {
        rest(&stage);
        assert_eq!(stage.get("payouts/bank").await.status, 200);

        let refused = stage.get("payouts/account").await;

        assert_eq!(refused.failure(), (429, "account_paced".to_owned()));
        assert_eq!(stage.get("users/me").await.status, 200);
        stage
    })
    .await;
}

/// A call that is refused for its balance leaves its turn to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_not_sent_does_not_use_the_pace() {
    let paced = pacing(ALPHA, "writes = { per_second = 0.1, burst = 1 }");
    on_stage(ALPHA, &paced, fine, async |stage| {
        rest(&stage);
        let limited = json!({"name": "small", "scope": "full", "monthly_budget_credits": 1});
        let made = stage.client.post("/v1/auth/keys", &limited).await;
        let poor = stage.app.with_key(made.json()["api_key"].as_str().unwrap());
        let refused = poor.post(&stage.path("posts"), &json!({})).await;
        assert_eq!(refused.failure(), (402, "key_budget_exhausted".to_owned()));

        assert_eq!(stage.post("posts", &json!({})).await.status, 200);
        assert_eq!(stage.post("posts", &json!({})).await.code(), "account_paced");
        stage
    })
    .await;
}

/// The identity check of an import is a read, and the refresh of a token a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_checks_and_token_refreshes_count() {
    let database = store::testing::store().await;
    let play = Play::default();
    let raw = play.platform().await;
    let overrides = format!(
        "[platforms.platform_delta.oauth]\ntoken_url = \"http://{}/oauth/token\"\nclient_id = \"id\"\nclient_secret = \"word\"\n{}",
        raw.address,
        pacing(
            DELTA,
            "reads = { per_second = 0.1, burst = 2 }\nwrites = { per_second = 0.01, burst = 1 }"
        )
    );
    let played = async {
        let stage = Stage::set(database, DELTA, raw, &overrides).await;
        stage.app.advance_seconds(100);
        let auth = json!({
            "access_token": "access-0", "refresh_token": "r-0", "expires_at": "2026-11-21T12:02:30Z",
        });
        assert_eq!(stage.import(DELTA, auth).await.status, 200);
        // The check used one of two reads, and the token is about to expire.
        assert_eq!(stage.get("chats").await.status, 200);
        assert_eq!(stage.get("chats").await.code(), "account_paced");
        assert_eq!(stage.post("chats", &json!({})).await.code(), "account_paced");
        stage.app.end().await;
    };
    Box::pin(played).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_waits_for_its_turn() {
    with_app(async |mut app| {
        app.stop_service().await;
        app.start_service(|config| {
            let alpha = config.platforms.get_mut(domain::platform::Platform::ALPHA).unwrap();
            alpha.pacing.reads = settings::pacing::PaceSection { per_second: 1.0, burst: 1 };
        })
        .await
        .unwrap();
        let (_, client, account) = app.ready(ALPHA, 100).await;
        let export = json!({"dataset": "subscribers", "max_rows": 10});
        let made = client.post(&format!("/v1/{account}/exports"), &export).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("/v1/exports/{}", made.json()["job_id"].as_str().unwrap());

        let before = waits(&app).await;
        let app = Arc::new(app);
        let mut working = JoinSet::new();
        working.spawn({
            let app = Arc::clone(&app);
            async move { app.run_exports().await }
        });
        // The identity check of the import used the burst, so each page has to wait.
        while waits(&app).await == before {}
        let ran = loop {
            if let Some(ran) = working.try_join_next() {
                break ran.unwrap();
            }
            app.advance_seconds(1);
            assert!(waits(&app).await > before);
        };
        assert_eq!(ran, 1);
        assert_eq!(client.get(&path).await.json()["status"], "completed");
        Arc::into_inner(app).unwrap()
    })
    .await;
}

/// Twenty calls at the same time never exceed the pace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_never_exceed_the_pace() {
    let paced = pacing(ALPHA, "reads = { per_second = 0.1, burst = 5 }");
    on_stage(ALPHA, &paced, fine, async |stage| {
        rest(&stage);
        let calls = (0..20).map(|_| {
            let (client, path) = (stage.client.clone(), stage.path("users/me"));
            async move { client.get(&path).await.status }
        });
        let statuses = at_once(calls).await;

        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5);
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 15);
        assert_eq!(stage.platform.calls().len(), 5);
        stage
    })
    .await;
}
