//! Credentials refused by a platform: for one account, or for all. How refusing all is detected is
//! in `platform_refusals`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use test_service::app::Customer;
use test_service::at_once;
use test_service::client::Client;
use test_service::platform::{RawPlatform, Script, Seen};
use test_service::stage::{CREDITS, Stage, auth, on_stage_of};

/// What the platform and its token endpoint do; tests can change it while they run.
#[derive(Clone, Default)]
pub(super) struct Play {
    /// 401 for every call and identity check, whatever the token.
    pub(super) refuses_everybody: Arc<AtomicBool>,
    /// 401 for tokens `access-N` with a number below this.
    pub(super) good_from: Arc<AtomicUsize>,
    /// The token endpoint refuses every refresh token.
    pub(super) refuses_refresh: Arc<AtomicBool>,
    /// The token endpoint refuses all requests, without an error code.
    pub(super) refuses_at_endpoint: Arc<AtomicBool>,
    /// The token endpoint refuses this service as its client.
    pub(super) refuses_client: Arc<AtomicBool>,
    /// 401 for access tokens and `invalid_grant` for refresh tokens that begin with `dead`.
    pub(super) buries_dead: Arc<AtomicBool>,
    /// The token endpoint fails.
    fails_refresh: Arc<AtomicBool>,
    refreshes: Arc<AtomicUsize>,
}

impl Play {
    pub(super) async fn platform(&self) -> RawPlatform {
        let play = self.clone();
        RawPlatform::deciding(move |request, _| play.respond(request)).await
    }

    fn respond(&self, request: &Seen) -> Script {
        if request.target() == "/oauth/token" {
            return self.token(request);
        }
        let token = request.header("authorization").unwrap_or_default();
        let number = token.strip_prefix("Bearer access-").and_then(|number| number.parse().ok());
        let is_old =
            number.is_some_and(|number: usize| number < self.good_from.load(Ordering::SeqCst));
        let is_dead = self.buries_dead.load(Ordering::SeqCst) && token.contains("dead");
        if is_old || is_dead || self.refuses_everybody.load(Ordering::SeqCst) {
            return Script::json(401, r#"{"error":"unauthorized"}"#);
        }
        request.confirmation().unwrap_or_else(|| Script::json(200, "{}"))
    }

    fn token(&self, request: &Seen) -> Script {
        let is_set = |what: &AtomicBool| what.load(Ordering::SeqCst);
        if is_set(&self.refuses_at_endpoint) {
            return Script::json(401, "{}");
        }
        if is_set(&self.refuses_client) {
            return Script::json(401, r#"{"error":"invalid_client"}"#);
        }
        let body = String::from_utf8_lossy(&request.body);
        if is_set(&self.buries_dead) && body.contains("refresh_token=dead") {
            return Script::json(400, r#"{"error":"invalid_grant"}"#);
        }
        if self.fails_refresh.load(Ordering::SeqCst) {
            return Script::json(503, "{}");
        }
        if self.refuses_refresh.load(Ordering::SeqCst) {
            return Script::json(400, r#"{"error":"invalid_grant"}"#);
        }
        let number = self.refreshes.fetch_add(1, Ordering::SeqCst) + 1;
        let pair = json!({
            "access_token": format!("access-{number}"), "refresh_token": format!("r-{number}"),
            "token_type": "Bearer", "expires_in": 86_400,
        });
        Script::json(200, pair.to_string())
    }

    pub(super) fn set(what: &AtomicBool, to: bool) {
        what.store(to, Ordering::SeqCst);
    }
}

/// An account of `platform_delta` whose first token, `access-0`, is valid for a day and can be
/// refreshed.
pub(super) async fn on_delta(test: impl AsyncFn(Stage, Play) -> Stage) {
    let database = store::testing::store().await;
    let play = Play::default();
    let raw = play.platform().await;
    let overrides = format!(
        "[platforms.platform_delta.oauth]\ntoken_url = \"http://{}/oauth/token\"\nclient_id = \"id\"\nclient_secret = \"word\"",
        raw.address
    );
    let stage = Stage::set(database, "platform_delta", raw, &overrides).await;
    let auth = json!({
        "access_token": "access-0", "refresh_token": "r-0", "expires_at": "2026-11-22T12:00:00Z",
    });
    assert_eq!(stage.import("platform_delta", auth).await.status, 200);
    let played = async { test(stage, play).await.app.end().await };
    Box::pin(played).await;
}

/// An account of `platform_alpha`, whose credentials cannot be refreshed.
async fn on_alpha(test: impl AsyncFn(Stage, Play) -> Stage) {
    let play = Play::default();
    let make = async || {
        Play::set(&play.refuses_everybody, false);
        play.platform().await
    };
    on_stage_of("platform_alpha", "", make, async |stage| test(stage, play.clone()).await).await;
}

pub(super) fn calls(stage: &Stage) -> Vec<Seen> {
    let calls = stage.platform.calls();
    calls.into_iter().filter(|call| call.target() != "/oauth/token").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_token_is_refreshed_and_the_call_is_sent_once_more() {
    on_delta(async |stage, play| {
        play.good_from.store(1, Ordering::SeqCst);

        let read = stage.get("chats").await;
        play.good_from.store(2, Ordering::SeqCst);
        stage.app.advance_seconds(60);
        let keyed = stage.client.with("idempotency-key", "write-1");
        let write = keyed.post(&stage.path("chats"), &json!({"a": 1})).await;
        let again = keyed.post(&stage.path("chats"), &json!({"a": 1})).await;

        assert_eq!((read.status, read.receipt()), (200, (1, CREDITS - 1)));
        assert_eq!((write.status, write.receipt()), (200, (2, CREDITS - 3)));
        assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
        let seen = calls(&stage);
        let sent: Vec<_> = seen
            .iter()
            .map(|call| (call.method(), call.header("authorization").unwrap()))
            .collect();
        assert_eq!(
            sent,
            [
                ("GET", "Bearer access-0"),
                ("GET", "Bearer access-1"),
                ("POST", "Bearer access-1"),
                ("POST", "Bearer access-2"),
            ]
        );
        assert_eq!(seen[2].body, seen[3].body);
        assert_eq!(stage.account_state().await, "active");
        assert_eq!((stage.log().await.len(), stage.balance().await), (2, CREDITS - 3));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_refused_calls_refresh_the_token_once() {
    on_delta(async |stage, play| {
        play.good_from.store(1, Ordering::SeqCst);

        let calls = (0..20).map(|_| {
            let (client, path) = (stage.client.clone(), stage.path("chats"));
            async move { client.get(&path).await }
        });
        let replies = at_once(calls).await;

        assert!(replies.iter().all(|reply| reply.status == 200));
        assert_eq!(play.refreshes.load(Ordering::SeqCst), 1);
        assert_eq!(stage.balance().await, CREDITS - 20);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_with_a_refused_refresh_is_marked_and_recovers_automatically() {
    on_delta(async |stage, play| {
        play.good_from.store(1, Ordering::SeqCst);
        Play::set(&play.refuses_refresh, true);

        let refused = stage.get("chats").await;
        stage.becomes("reconnect_needed").await;
        let soon = stage.get("chats").await;

        assert_eq!((refused.status, refused.receipt()), (401, (0, CREDITS)));
        assert_eq!((soon.status, soon.receipt()), (401, (0, CREDITS)));
        assert_eq!(stage.ending_of_last().await, ("upstream_401".to_owned(), 0));

        // Refreshes continue while the account is marked, and the first success clears the mark.
        Play::set(&play.refuses_refresh, false);
        stage.app.advance_seconds(60);
        let mended = stage.get("chats").await;
        assert_eq!((mended.status, mended.receipt()), (200, (1, CREDITS - 1)));
        stage.becomes("active").await;
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_token_endpoint_marks_no_account() {
    on_delta(async |mut stage, play| {
        play.good_from.store(1, Ordering::SeqCst);
        Play::set(&play.fails_refresh, true);

        let refused = stage.get("chats").await;
        // The stop waits for the work that the refusal started.
        stage.app = stage.app.restart().await;
        stage.client = stage.app.with_key(&stage.customer.key);

        assert_eq!((refused.status, refused.receipt()), (401, (0, CREDITS)));
        assert_eq!(stage.account_state().await, "active");
        let seen = stage.platform.seen();
        let checks = seen.iter().filter(|request| request.contains("x-call-id: verify")).count();
        assert_eq!(checks, 2, "only the two imports may check the identity: {seen:?}");
        stage
    })
    .await;
}

/// Additional customers, each with an account on the platform.
async fn others(stage: &Stage, count: usize) -> Vec<(Customer, Client)> {
    others_on(stage, "platform_alpha", &auth("platform_alpha"), count).await
}

pub(super) async fn others_on(
    stage: &Stage,
    platform: &str,
    auth: &serde_json::Value,
    count: usize,
) -> Vec<(Customer, Client)> {
    let mut others = Vec::new();
    for _ in 0..count {
        let customer = stage.app.customer(CREDITS).await;
        let client = stage.app.with_key(&customer.key);
        let import = json!({"creator_id": "ada", "platform": platform, "auth": auth});
        assert_eq!(client.post("/v1/connect/import", &import).await.status, 201);
        others.push((customer, client));
    }
    others
}

pub(super) async fn state_of(client: &Client) -> String {
    let account = client.get("/v1/accounts/ada").await.json();
    account["state"].as_str().unwrap().to_owned()
}

/// The state of `platform_alpha` as shown to customers.
async fn platform_state(client: &Client) -> (String, String) {
    state_of_platform(client, "platform_alpha").await
}

/// The state of a platform, and since when.
pub(super) async fn state_of_platform(client: &Client, platform: &str) -> (String, String) {
    let shown = client.get("/v1/platforms").await.json();
    let all = shown["platforms"].as_array().unwrap();
    let one = all.iter().find(|one| one["platform"] == platform).unwrap();
    let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    (text("state"), text("since"))
}

async fn platform_becomes(client: &Client, state: &str) {
    becomes_of(client, "platform_alpha", state).await;
}

/// Waits until the platform has this state.
pub(super) async fn becomes_of(client: &Client, platform: &str, state: &str) {
    for _ in 0..10_000 {
        if state_of_platform(client, platform).await.0 == state {
            return;
        }
    }
    panic!("the platform did not become {state}");
}

async fn gauge(stage: &Stage) -> String {
    let metrics = stage.app.admin().get("/metrics").await.text();
    let line = metrics
        .lines()
        .find(|line| line.contains("platform_refusing_credentials{platform=\"platform_alpha\"}"));
    line.unwrap_or_default().rsplit(' ').next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platform_that_refuses_everyone_for_a_minute_marks_no_account_and_costs_nothing() {
    on_alpha(async |stage, play| {
        let others = others(&stage, 5).await;
        let clients: Vec<&Client> =
            std::iter::once(&stage.client).chain(others.iter().map(|(_, client)| client)).collect();
        assert_eq!(platform_state(&stage.client).await, ("ok".to_owned(), String::new()));
        assert_eq!(gauge(&stage).await, "0");
        stage.app.advance_seconds(1);
        Play::set(&play.refuses_everybody, true);

        for _ in 0..7 {
            for client in &clients {
                let reply = client.get(&stage.path("users/me/settings")).await;
                assert_eq!((reply.status, reply.receipt()), (401, (0, CREDITS)));
            }
            platform_becomes(&stage.client, "refusing_credentials").await;
            stage.app.advance_seconds(10);
        }

        let since = platform_state(&stage.client).await.1;
        assert!(since.starts_with("2026-11-21T12:00:01"), "{since}");
        assert_eq!(gauge(&stage).await, "1");
        Play::set(&play.refuses_everybody, false);
        for client in &clients {
            assert_eq!(state_of(client).await, "active");
            assert_eq!(client.get("/v1/billing").await.json()["balance"], CREDITS);
        }
        assert_eq!(stage.get("users/me/settings").await.receipt(), (1, CREDITS - 1));
        platform_becomes(&stage.client, "ok").await;
        assert_eq!(gauge(&stage).await, "0");
        stage
    })
    .await;
}

/// Two accounts are too few to blame the platform: they are marked, and the first success of each
/// clears its mark.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_refused_accounts_recover_without_an_import_once_the_platform_accepts_them() {
    on_alpha(async |stage, play| {
        let others = others(&stage, 1).await;
        let clients = [&stage.client, &others[0].1];
        Play::set(&play.refuses_everybody, true);
        for _ in 0..7 {
            for client in clients {
                let reply = client.get(&stage.path("users/me/settings")).await;
                assert_eq!((reply.status, reply.receipt()), (401, (0, CREDITS)));
                while state_of(client).await != "reconnect_needed" {}
            }
            stage.app.advance_seconds(10);
        }
        assert_eq!(platform_state(&stage.client).await.0, "ok");

        Play::set(&play.refuses_everybody, false);
        for client in clients {
            let reply = client.get(&stage.path("users/me/settings")).await;
            assert_eq!((reply.status, reply.receipt()), (200, (1, CREDITS - 1)));
            while state_of(client).await != "active" {}
        }
        stage
    })
    .await;
}

/// Accounts that are refused together are marked as long as other accounts' calls succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_refused_while_others_succeed_are_marked() {
    let is_dead = Arc::new(AtomicBool::new(false));
    let make = async || {
        is_dead.store(false, Ordering::SeqCst);
        let is_dead = Arc::clone(&is_dead);
        RawPlatform::deciding(move |request, _| {
            let is_mortal = request.header("authorization") == Some("Session mortal");
            if is_mortal && is_dead.load(Ordering::SeqCst) {
                return Script::json(401, "{}");
            }
            request.confirmation().unwrap_or_else(|| Script::json(200, "{}"))
        })
        .await
    };
    on_stage_of("platform_alpha", "", make, async |stage| {
        let mortal = json!({"user_id": "31", "session_token": "mortal"});
        let names = ["bea", "cyd", "dot"];
        for name in names {
            let import = json!({"creator_id": name, "platform": "platform_alpha", "auth": mortal});
            assert_eq!(stage.client.post("/v1/connect/import", &import).await.status, 201);
        }
        is_dead.store(true, Ordering::SeqCst);

        for name in names {
            stage.app.advance_seconds(1);
            assert_eq!(stage.get("users/me").await.status, 200);
            let path = format!("/v1/{name}/native/users/me");
            assert_eq!(stage.client.get(&path).await.status, 401);
            let shown = format!("/v1/accounts/{name}");
            while stage.client.get(&shown).await.json()["state"] != "reconnect_needed" {}
        }

        assert_eq!(platform_state(&stage.client).await.0, "ok");
        stage
    })
    .await;
}
