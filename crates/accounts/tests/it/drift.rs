//! Platforms that change: calls of several customers fail far more often than usual, and the
//! platform is degraded until they no longer do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::refusals::{others_on, state_of, state_of_platform};
use test_service::client::Client;
use test_service::platform::{RawPlatform, Script, Seen};
use test_service::stage::{Stage, auth, on_stage_of};

const ALPHA: &str = "platform_alpha";
const BETA: &str = "platform_beta";
const RULE: &str = "[platform_drift]\nwindow_s = 60\ncalls_min = 10";

/// The route that changes.
const SOCIAL: &str = "users/social/buttons";

/// The status of calls to [`SOCIAL`] and, if it is 401, of identity checks; other routes work.
#[derive(Clone)]
struct Changes {
    status: Arc<AtomicU16>,
    checks: Arc<AtomicUsize>,
}

impl Changes {
    fn new() -> Self {
        Self { status: Arc::new(AtomicU16::new(200)), checks: Arc::default() }
    }

    fn to(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// The number of identity checks.
    fn checks(&self) -> usize {
        self.checks.load(Ordering::SeqCst)
    }

    fn respond(&self, request: &Seen) -> Script {
        let status = self.status.load(Ordering::SeqCst);
        if request.is_verification() {
            self.checks.fetch_add(1, Ordering::SeqCst);
        }
        let is_refused = status == 401 && request.is_verification();
        if is_refused || (request.target().contains("social") && status != 200) {
            return Script::json(status, "{}");
        }
        request.confirmation().unwrap_or_else(|| Script::json(200, "{}"))
    }
}

/// Three customers on a platform whose routes worked for longer than the window.
async fn on_changing(test: impl AsyncFn(Stage, Vec<Client>, Changes) -> Stage) {
    let changes = Changes::new();
    let make = async || {
        changes.to(200);
        let changes = changes.clone();
        RawPlatform::deciding(move |request, _| changes.respond(request)).await
    };
    on_stage_of(ALPHA, RULE, make, async |stage| {
        let others = others_on(&stage, ALPHA, &auth(ALPHA), 2).await;
        let others = others.into_iter().map(|(_, client)| client);
        let clients: Vec<Client> = std::iter::once(stage.client.clone()).chain(others).collect();
        each_calls(&clients, SOCIAL, 4, 200).await;
        stage.app.advance_seconds(70);
        test(stage, clients, changes.clone()).await
    })
    .await;
}

async fn each_calls(clients: &[Client], path: &str, times: usize, status: u16) {
    for client in clients {
        for _ in 0..times {
            let reply = client.get(&format!("/v1/ada/native/{path}")).await;
            assert_eq!(reply.status, status, "{}", reply.text());
        }
    }
}

async fn degradations(client: &Client, platform: &str) -> Vec<Value> {
    let shown = client.get("/v1/platforms").await.json();
    let all = shown["platforms"].as_array().unwrap();
    let one = all.iter().find(|one| one["platform"] == platform).unwrap();
    one["degradations"].as_array().unwrap().clone()
}

async fn gauge(stage: &Stage, platform: &str, kind: &str) -> String {
    let name = format!("platform_degraded{{platform=\"{platform}\",kind=\"{kind}\"}}");
    let metrics = stage.app.admin().get("/metrics").await.text();
    let line = metrics.lines().find(|line| line.contains(&name)).unwrap_or_default();
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_disappears_for_several_customers_degrades_its_platform() {
    on_changing(async |stage, clients, changes| {
        changes.to(404);
        each_calls(&clients, SOCIAL, 4, 404).await;

        let state = state_of_platform(&stage.client, ALPHA).await;
        let found = degradations(&stage.client, ALPHA).await;
        assert_eq!(state, ("degraded".to_owned(), "2026-11-21T12:01:10.000000Z".to_owned()));
        let [one] = &found[..] else { panic!("one route is degraded: {found:?}") };
        assert_eq!((&one["kind"], &one["since"]), (&json!("not_found"), &json!(state.1)));
        assert_eq!(one["route"], "GET users/social/buttons");
        assert!(one["share_percent"].as_u64().unwrap() >= 60, "{one}");
        assert_eq!(gauge(&stage, ALPHA, "not_found").await, "1");
        assert_eq!(gauge(&stage, ALPHA, "forbidden").await, "0");

        changes.to(200);
        stage.app.advance_seconds(70);
        each_calls(&clients, SOCIAL, 1, 200).await;
        assert_eq!(state_of_platform(&stage.client, ALPHA).await.0, "ok");
        assert_eq!(degradations(&stage.client, ALPHA).await, Vec::<Value>::new());
        assert_eq!(gauge(&stage, ALPHA, "not_found").await, "0");
        stage
    })
    .await;
}

/// Another customer's calls succeed all the time, so it does not refuse everyone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_account_is_marked_for_a_platform_that_refuses_unusually_many() {
    on_changing(async |stage, clients, changes| {
        let healthy = others_on(&stage, ALPHA, &auth(ALPHA), 1).await.remove(0).1;
        changes.to(401);
        for (number, client) in clients.iter().enumerate() {
            each_calls(std::slice::from_ref(client), SOCIAL, 4, 401).await;
            // The first two are marked before it is known that others are refused as well.
            while number < 2 && state_of(client).await != "reconnect_needed" {}
            stage.app.advance_seconds(1);
            each_calls(std::slice::from_ref(&healthy), "users/me", 1, 200).await;
            stage.app.advance_seconds(1);
        }

        assert_eq!(state_of_platform(&stage.client, ALPHA).await.0, "degraded");
        for client in &clients {
            while state_of(client).await != "active" {}
        }
        // Credentials are checked again after ten seconds. In between somebody's call succeeds, so
        // the platform does not refuse everyone.
        for client in clients.iter().cycle().take(9) {
            stage.app.advance_seconds(9);
            each_calls(std::slice::from_ref(&healthy), "users/me", 1, 200).await;
            stage.app.advance_seconds(1);
            let before = changes.checks();
            each_calls(std::slice::from_ref(client), SOCIAL, 4, 401).await;
            while changes.checks() == before {
                tokio::task::yield_now().await;
            }
        }
        for client in &clients {
            assert_eq!(state_of(client).await, "active");
        }
        assert_eq!(state_of_platform(&stage.client, ALPHA).await.0, "degraded");
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrong_ids_of_one_customer_do_not_degrade_a_platform() {
    on_changing(async |stage, clients, changes| {
        each_calls(&clients[1..], SOCIAL, 2, 200).await;
        changes.to(404);
        for account in ["bea", "cyd", "dot"] {
            changes.to(200);
            let import = json!({"creator_id": account, "platform": ALPHA, "auth": auth(ALPHA)});
            assert_eq!(stage.client.post("/v1/connect/import", &import).await.status, 201);
            changes.to(404);
            let path = format!("/v1/{account}/native/{SOCIAL}");
            for _ in 0..10 {
                assert_eq!(stage.client.get(&path).await.status, 404);
            }
        }

        assert_eq!(state_of_platform(&stage.client, ALPHA).await.0, "ok");
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_lose_their_envelope_degrade_their_platform() {
    let is_lost = Arc::new(AtomicU16::new(0));
    let make = async || {
        is_lost.store(0, Ordering::SeqCst);
        let is_lost = Arc::clone(&is_lost);
        RawPlatform::deciding(move |request, _| {
            let bare = is_lost.load(Ordering::SeqCst) == 1;
            let body = if bare { r#"{"a":1}"# } else { r#"{"success":true,"response":{}}"# };
            request.confirmation().unwrap_or_else(|| Script::json(200, body))
        })
        .await
    };
    on_stage_of(BETA, RULE, make, async |stage| {
        let others = others_on(&stage, BETA, &auth(BETA), 2).await;
        let others = others.into_iter().map(|(_, client)| client);
        let clients: Vec<Client> = std::iter::once(stage.client.clone()).chain(others).collect();
        each_calls(&clients, "anything", 4, 200).await;
        stage.app.advance_seconds(70);

        is_lost.store(1, Ordering::SeqCst);
        each_calls(&clients, "anything", 4, 200).await;

        let found = degradations(&stage.client, BETA).await;
        let named: Vec<_> = found.iter().map(|one| (&one["kind"], &one["route"])).collect();
        let kind = &json!("envelope");
        assert_eq!(named, [(kind, &json!(null)), (kind, &json!("other"))]);
        stage
    })
    .await;
}
