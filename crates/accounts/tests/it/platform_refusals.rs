//! A platform that refuses all credentials: how that is detected, what does not count as it, and
//! what still works meanwhile.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::refusals::{Play, becomes_of, on_delta, others_on, state_of, state_of_platform};
use test_service::client::Client;
use test_service::stage::{CREDITS, Stage};
use test_service::{TestApp, with_app};

const DELTA: &str = "platform_delta";

/// The credentials of an account whose token is valid for a day.
fn living() -> serde_json::Value {
    json!({
        "access_token": "access-0", "refresh_token": "r-0", "expires_at": "2026-11-22T12:00:00Z",
    })
}

/// Clients of three customers, each with an account on the platform; the first is the stage's.
async fn three(stage: &Stage) -> Vec<Client> {
    let others = others_on(stage, DELTA, &living(), 2).await;
    let others = others.into_iter().map(|(_, client)| client);
    std::iter::once(stage.client.clone()).chain(others).collect()
}

async fn get(stage: &Stage, client: &Client) -> (u16, String) {
    let reply = client.get(&stage.path("chats")).await;
    let is_ours = reply.header("x-error-source") == "gateway";
    (reply.status, if is_ours { reply.code() } else { String::new() })
}

async fn metric(stage: &Stage, name: &str) -> String {
    let metrics = stage.app.admin().get("/metrics").await.text();
    let line = metrics.lines().find(|line| line.contains(name)).unwrap_or_default();
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

async fn becomes(stage: &Stage, expected: &str) {
    becomes_of(&stage.client, DELTA, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_customers_invalid_accounts_do_not_stop_other_refreshes() {
    on_delta(async |stage, play| {
        let owner = stage.app.customer(CREDITS).await;
        let owner = stage.app.with_key(&owner.key);
        for name in ["bea", "cyd", "dot"] {
            let auth = json!({"access_token": format!("dead-{name}"), "refresh_token": format!("dead-{name}")});
            let import = json!({"creator_id": name, "platform": DELTA, "auth": auth});
            assert_eq!(owner.post("/v1/connect/import", &import).await.status, 201);
        }
        stage.app.advance_seconds(1);
        Play::set(&play.buries_dead, true);
        play.good_from.store(1, Ordering::SeqCst);

        for name in ["bea", "cyd", "dot"] {
            assert_eq!(owner.get(&format!("/v1/{name}/native/chats")).await.status, 401);
            let shown = format!("/v1/accounts/{name}");
            while owner.get(&shown).await.json()["state"] != "reconnect_needed" {}
        }

        assert_eq!(state_of_platform(&stage.client, DELTA).await.0, "ok");
        let mended = stage.get("chats").await;
        assert_eq!((mended.status, mended.receipt()), (200, (1, CREDITS - 1)));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platform_that_refuses_everyone_even_at_its_token_endpoint_is_marked_instead_of_accounts()
{
    on_delta(async |stage, play| {
        let clients = three(&stage).await;
        stage.app.advance_seconds(1);
        Play::set(&play.refuses_everybody, true);
        Play::set(&play.refuses_at_endpoint, true);

        for client in &clients {
            let reply = client.get(&stage.path("chats")).await;
            assert_eq!((reply.status, reply.receipt()), (401, (0, CREDITS)));
        }
        becomes(&stage, "refusing_credentials").await;

        for client in &clients {
            assert_eq!(state_of(client).await, "active");
        }
        let gauge = "platform_refusing_credentials{platform=\"platform_delta\"}";
        assert_eq!(metric(&stage, gauge).await, "1");
        let refused = r#"platform="platform_delta",reason="service_refused""#;
        assert_ne!(metric(&stage, refused).await, "0");

        Play::set(&play.refuses_everybody, false);
        assert_eq!(get(&stage, &clients[2]).await.0, 200);
        becomes(&stage, "ok").await;
        assert_eq!(metric(&stage, gauge).await, "0");
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_refreshed_while_a_platform_refuses_everyone_and_a_success_ends_it() {
    on_delta(async |stage, play| {
        let clients = three(&stage).await;
        stage.app.advance_seconds(1);
        // All access tokens are invalid, and the token endpoint refuses this service as well.
        play.good_from.store(1, Ordering::SeqCst);
        Play::set(&play.refuses_client, true);
        for client in &clients {
            assert_eq!(get(&stage, client).await.0, 401);
        }
        becomes(&stage, "refusing_credentials").await;

        Play::set(&play.refuses_client, false);
        stage.app.advance_seconds(60);
        let mended = stage.get("chats").await;

        assert_eq!((mended.status, mended.receipt()), (200, (1, CREDITS - 1)));
        becomes(&stage, "ok").await;
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_with_an_invalid_refresh_token_is_marked_while_its_platform_refuses_everyone() {
    on_delta(async |stage, play| {
        let clients = three(&stage).await;
        stage.app.advance_seconds(1);
        Play::set(&play.refuses_everybody, true);
        Play::set(&play.refuses_at_endpoint, true);
        for client in &clients {
            assert_eq!(get(&stage, client).await.0, 401);
        }
        becomes(&stage, "refusing_credentials").await;

        Play::set(&play.refuses_at_endpoint, false);
        Play::set(&play.refuses_refresh, true);
        stage.app.advance_seconds(60);
        assert_eq!(get(&stage, &stage.client).await.0, 401);
        stage.becomes("reconnect_needed").await;

        assert_eq!(state_of_platform(&stage.client, DELTA).await.0, "refusing_credentials");
        assert_eq!(state_of(&clients[1]).await, "active");
        stage
    })
    .await;
}

/// Nothing is sent with an expired token that cannot be refreshed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_endpoint_that_refuses_this_service_marks_its_platform_once_tokens_have_expired() {
    on_delta(async |stage, play| {
        let clients = three(&stage).await;
        stage.app.advance_seconds(90_000);
        Play::set(&play.refuses_client, true);
        let calls = super::refusals::calls(&stage).len();

        for client in &clients {
            assert_eq!(get(&stage, client).await, (502, "platform_unreachable".to_owned()));
        }
        becomes(&stage, "refusing_credentials").await;
        let reply = stage.get("chats").await;

        let told = (503, "platform_refusing_credentials".to_owned());
        assert_eq!((reply.failure(), reply.receipt()), (told, (0, CREDITS)));
        assert_eq!(reply.header("x-should-retry"), "true");
        assert_eq!(reply.header("retry-after"), "60");
        assert_eq!(super::refusals::calls(&stage).len(), calls);
        for client in &clients {
            assert_eq!(state_of(client).await, "active");
        }
        Play::set(&play.refuses_client, false);
        stage.app.advance_seconds(60);
        assert_eq!(get(&stage, &clients[1]).await.0, 200);
        becomes(&stage, "ok").await;
        stage
    })
    .await;
}

/// Lets calls of three customers be refused until the platform counts as refusing everyone.
async fn refuse_everybody(app: &TestApp) -> Vec<(Client, String)> {
    let mut callers = Vec::new();
    for _ in 0..3 {
        let (_, client, account) = app.ready("platform_alpha", 100).await;
        callers.push((client, account));
    }
    app.advance_seconds(1);
    app.fault(&json!({"kind": "status", "status": 401, "platform": "platform_alpha"})).await;
    for (client, account) in &callers {
        assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 401);
    }
    becomes_of(&callers[0].0, "platform_alpha", "refusing_credentials").await;
    callers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_from_a_platform_that_refuses_everyone_is_retryable() {
    with_app(async |app| {
        let callers = refuse_everybody(&app).await;
        let client = &callers[0].0;
        let accounts = simulators::demo_accounts(&app.settings);
        let account = accounts.iter().find(|account| account.platform == "platform_alpha").unwrap();
        let import = json!({
            "creator_id": "another", "platform": "platform_alpha", "auth": account.auth,
        });

        let refused = client.post("/v1/connect/import", &import).await;

        assert_eq!(refused.failure(), (503, "platform_refusing_credentials".to_owned()));
        assert_eq!(refused.json()["retryable"], true);
        assert_eq!(client.get("/v1/accounts/another").await.status, 404);
        app.no_faults().await;
        assert_eq!(client.post("/v1/connect/import", &import).await.status, 201);
        becomes_of(client, "platform_alpha", "ok").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_waits_for_a_platform_that_refuses_everyone_and_then_continues() {
    with_app(async |app| {
        let callers = refuse_everybody(&app).await;
        let (client, account) = &callers[0];
        let export = json!({"dataset": "subscribers", "max_rows": 10});
        let made = client.post(&format!("/v1/{account}/exports"), &export).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("/v1/exports/{}", made.json()["job_id"].as_str().unwrap());

        // More often than an export may fail.
        for _ in 0..5 {
            assert_eq!(app.run_exports().await, 1);
            let waiting = client.get(&path).await.json();
            assert_eq!(waiting["status"], "running", "{waiting}");
            assert_eq!(waiting["error"]["code"], "platform_refusing_credentials", "{waiting}");
            app.advance_seconds(60);
        }
        app.no_faults().await;
        assert_eq!(app.run_exports().await, 1);

        let done = client.get(&path).await.json();
        assert_eq!((&done["status"], &done["error"]), (&json!("completed"), &json!(null)));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_waits_at_most_a_day_and_is_then_free() {
    with_app(async |app| {
        let callers = refuse_everybody(&app).await;
        let (client, account) = &callers[0];
        let export = json!({"dataset": "subscribers", "max_rows": 10});
        let made = client.post(&format!("/v1/{account}/exports"), &export).await;
        let path = format!("/v1/exports/{}", made.json()["job_id"].as_str().unwrap());
        assert_eq!(app.run_exports().await, 1);

        app.advance_seconds(86_400);
        assert_eq!(app.run_exports().await, 1);

        let failed = client.get(&path).await.json();
        assert_eq!(failed["status"], "failed", "{failed}");
        assert_eq!(failed["error"]["code"], "platform_refusing_credentials", "{failed}");
        assert_eq!(client.get("/v1/billing").await.json()["balance"], 100);
        app
    })
    .await;
}

/// A refused account may be the start of an outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_a_refused_account_is_retried_before_it_fails() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 100).await;
        let page = json!({
            "kind": "status", "status": 401, "platform": "platform_alpha", "times": 1,
            "path": "subscriptions/subscribers",
        });
        app.fault(&page).await;
        let export = json!({"dataset": "subscribers", "max_rows": 10});
        let made = client.post(&format!("/v1/{account}/exports"), &export).await;
        let path = format!("/v1/exports/{}", made.json()["job_id"].as_str().unwrap());
        assert_eq!(app.run_exports().await, 1);
        assert_eq!(client.get(&path).await.json()["status"], "running");

        app.advance_seconds(60);
        assert_eq!(app.run_exports().await, 1);
        assert_eq!(client.get(&path).await.json()["status"], "completed");
        app
    })
    .await;
}
