//! Accounts in calls: whose they are, whether they are active, and tokens that expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::id::{AuditId, KeyId};
use domain::key::{KeyScope, KeySecret};
use serde_json::{Value, json};
use store::keys::{NewKey, NewSecret};
use test_service::at_once;
use test_service::platform::{RawPlatform, Script, Seen, json_answer};
use test_service::stage::{CANARY, CREDITS, Stage, on_stage};
use tokio::sync::Semaphore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_beyond_the_plan_is_refused_without_cost() {
    let overrides = "[slots.included]\nplatform_alpha = 1";
    on_stage(
        "platform_alpha",
        overrides,
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let auth = test_service::stage::auth("platform_alpha");
            let import = json!({"creator_id": "eve", "platform": "platform_alpha", "auth": auth});
            let second = stage.client.post("/v1/connect/import", &import).await.json();

            let reply = stage.client.get("/v1/eve/native/users/me").await;

            assert_eq!(second["state"], "inactive");
            assert_eq!((reply.status, reply.code().as_str()), (403, "account_inactive"));
            assert!(stage.platform.calls().is_empty());
            assert_eq!((stage.balance().await, stage.log().await.len()), (CREDITS, 0));

            // The first account is not affected.
            assert_eq!(stage.get("users/me").await.status, 200);
            stage
        },
    )
    .await;
}

/// Another key of the customer, limited to one account.
async fn key_for(stage: &Stage, account: &str) -> String {
    let mut drawn = 0;
    let secret = KeySecret::generate(|bound| {
        drawn += 7;
        drawn % bound
    });
    let now = stage.app.clock.now();
    let key = NewKey {
        id: KeyId::new(now, [5; 10]),
        name: "limited".to_owned(),
        secret: NewSecret::of(&secret),
        scope: KeyScope::Full,
        accounts: vec![account.parse().unwrap()],
        monthly_budget: None,
        expires_at: None,
    };
    let customer = stage.customer.id.parse().unwrap();
    let entry = store::audit::AuditEntry {
        id: AuditId::new(now, [6; 10]),
        customer,
        at: now,
        actor: "operator".to_owned(),
        action: "key.created".to_owned(),
        details: String::new(),
    };
    let made = store::keys::create(stage.app.store(), customer, &key, 100, &entry).await.unwrap();
    assert_eq!(made, store::keys::KeyCreation::Created);
    secret.expose().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_does_not_find_other_accounts() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let auth = test_service::stage::auth("platform_alpha");
            let import = json!({"creator_id": "eve", "platform": "platform_alpha", "auth": auth});
            assert_eq!(stage.client.post("/v1/connect/import", &import).await.status, 201);
            let limited = stage.app.with_key(&key_for(&stage, "eve").await);

            let other = limited.get(&stage.path("users/me")).await;
            let own = limited.get("/v1/eve/native/users/me").await;

            assert_eq!((other.status, other.code().as_str()), (404, "account_not_found"));
            assert_eq!((own.status, stage.platform.calls().len()), (200, 1));
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_credentials_apply_to_the_next_call() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            stage.get("users/me").await;
            let changed = json!({"user_id": "31", "session_token": "second"});
            assert_eq!(stage.import("platform_alpha", changed).await.status, 200);

            let reply = stage.get("users/me").await;

            let seen = stage.platform.last_call();
            assert_eq!(reply.status, 200);
            assert_eq!(seen.header("authorization"), Some("Session second"));
            assert_eq!(
                seen.header("user-agent"),
                Some("creator-gateway"),
                "the account no longer has a user agent"
            );
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_account_is_gone_for_the_next_call() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            stage.get("users/me").await;
            assert_eq!(stage.client.delete("/v1/accounts/ada").await.status, 204);

            let reply = stage.get("users/me").await;

            assert_eq!((reply.status, reply.code().as_str()), (404, "account_not_found"));
            assert_eq!(stage.platform.calls().len(), 1);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_or_disabled_key_is_refused_for_the_next_call() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            assert_eq!(stage.get("users/me").await.status, 200);
            let rotated = stage.client.post("/v1/auth/keys/rotate", &json!({})).await.json();
            let fresh = stage.app.with_key(rotated["api_key"].as_str().unwrap());

            let old = stage.get("users/me").await;
            let new = fresh.get(&stage.path("users/me")).await;
            stage.app.staff(json!({"command": "disable_key", "key": stage.customer.key_id})).await;
            let disabled = fresh.get(&stage.path("users/me")).await;

            assert_eq!((old.status, old.code().as_str()), (401, "invalid_key"));
            assert_eq!(new.status, 200);
            assert_eq!((disabled.status, disabled.code().as_str()), (401, "invalid_key"));
            assert_eq!(stage.platform.calls().len(), 2);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_oauth_scope_is_named_and_costs_nothing() {
    on_stage(
        "platform_delta",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let auth = json!({"access_token": CANARY, "scopes": ["read:chat", "read:self"]});
            assert_eq!(stage.import("platform_delta", auth).await.status, 200);

            let lacking = stage.post("chats/mass-messages", &json!({})).await;
            let having = stage.get("chats").await;

            assert_eq!((lacking.status, lacking.code().as_str()), (403, "missing_scope"));
            assert_eq!(lacking.json()["missing_scopes"], json!(["read:fan", "write:chat"]));
            assert_eq!((having.status, stage.platform.calls().len()), (200, 1));
            assert_eq!(stage.balance().await, CREDITS - 1);
            stage
        },
    )
    .await;
}

/// Runs the test with a platform whose token endpoint responds with `token` and whose calls
/// succeed. The account's first token expires an hour after the start.
async fn on_tokens<S, F>(token: S, test: F)
where
    S: Fn(&Seen, usize) -> Script + Clone + Send + Sync + 'static,
    F: AsyncFn(Stage) -> Stage,
{
    let database = store::testing::store().await;
    let (token, exchanges) = (token.clone(), AtomicUsize::new(0));
    let raw = RawPlatform::playing(move |request, _| {
        if request.target() == "/oauth/token" {
            token(request, exchanges.fetch_add(1, Ordering::Relaxed))
        } else {
            Script::json(200, "{}")
        }
    })
    .await;
    let overrides = format!(
        "[platforms.platform_delta.oauth]\ntoken_url = \"http://{}/oauth/token\"\nclient_id = \"id\"\nclient_secret = \"word\"",
        raw.address
    );
    let stage = Stage::set(database, "platform_delta", raw, &overrides).await;
    let auth = json!({
        "access_token": "access-0", "refresh_token": "refresh-0",
        "expires_at": "2026-11-21T13:00:00Z",
    });
    assert_eq!(stage.import("platform_delta", auth).await.status, 200);
    test(stage).await.app.end().await;
}

/// The next pair of tokens, valid for an hour.
fn pair(number: usize) -> Value {
    let next = number + 1;
    json!({
        "access_token": format!("access-{next}"), "refresh_token": format!("refresh-{next}"),
        "token_type": "Bearer", "expires_in": 3600,
    })
}

fn fresh(_: &Seen, number: usize) -> Script {
    Script::json(200, pair(number).to_string())
}

fn exchanges(stage: &Stage) -> Vec<Seen> {
    let calls = stage.platform.calls();
    calls.into_iter().filter(|call| call.target() == "/oauth/token").collect()
}

/// The access tokens of the calls so far, in order.
fn used(stage: &Stage) -> Vec<String> {
    let calls = stage.platform.calls();
    let calls = calls.iter().filter(|call| call.target() != "/oauth/token");
    calls.map(|call| call.header("authorization").unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_refreshed_a_minute_before_it_expires_and_the_pair_is_stored() {
    on_tokens(fresh, async |mut stage| {
        stage.app.advance_seconds(3_539);
        assert_eq!(stage.get("chats").await.status, 200);
        assert!(exchanges(&stage).is_empty(), "refreshed too early");
        stage.app.advance_seconds(1);
        assert_eq!(stage.get("chats").await.receipt(), (1, CREDITS - 2));
        assert_eq!(stage.get("chats").await.status, 200);
        stage.app = stage.app.restart().await;
        stage.client = stage.app.with_key(&stage.customer.key);
        stage.app.advance_seconds(3_540);
        assert_eq!(stage.get("chats").await.status, 200);

        assert_eq!(
            used(&stage),
            ["Bearer access-0", "Bearer access-1", "Bearer access-1", "Bearer access-2"]
        );
        let bodies: Vec<_> = exchanges(&stage)
            .iter()
            .map(|exchange| String::from_utf8_lossy(&exchange.body).into_owned())
            .collect();
        assert_eq!(bodies.len(), 2);
        assert!(bodies[0].contains("grant_type=refresh_token"), "{}", bodies[0]);
        assert!(bodies[0].contains("refresh_token=refresh-0"), "{}", bodies[0]);
        assert!(bodies[1].contains("refresh_token=refresh-1"), "{}", bodies[1]);
        assert!(bodies[0].contains("client_id=id&client_secret=word"), "{}", bodies[0]);
        assert_eq!(stage.balance().await, CREDITS - 4);
        stage
    })
    .await;
}

/// A second use of a refresh token may be taken for theft, so all calls wait for one exchange.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_concurrent_calls_refresh_a_token_once() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let token = move |_: &Seen, number: usize| {
        Script::Gated(Arc::clone(&held), vec![json_answer(200, pair(number).to_string())])
    };
    on_tokens(token, async |stage| {
        stage.app.advance_seconds(3_590);
        let calls = (0..20).map(|_| {
            let (client, path) = (stage.client.clone(), stage.path("chats"));
            async move { client.get(&path).await }
        });
        let (replies, ()) = tokio::join!(at_once(calls), async {
            while exchanges(&stage).is_empty() {
                tokio::task::yield_now().await;
            }
            gate.add_permits(20);
        });

        assert!(replies.iter().all(|reply| reply.status == 200));
        assert_eq!(exchanges(&stage).len(), 1);
        assert_eq!(used(&stage), vec!["Bearer access-1"; 20]);
        assert_eq!(stage.balance().await, CREDITS - 20);
        gate.forget_permits(19);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_refresh_does_not_mark_the_account_and_is_retried_after_a_pause() {
    let refused = |_: &Seen, _| Script::json(400, r#"{"error":"invalid_grant"}"#);
    on_tokens(refused, async |stage| {
        stage.app.advance_seconds(3_590);

        let reply = stage.get("chats").await;

        assert_eq!((reply.status, reply.receipt().0), (200, 1));
        assert_eq!(used(&stage), ["Bearer access-0"]);
        // Even after the token has expired the platform decides, and the endpoint is not called for
        // a minute.
        stage.app.advance_seconds(59);
        assert_eq!(stage.get("chats").await.status, 200);
        assert_eq!((used(&stage).len(), exchanges(&stage).len()), (2, 1));
        stage.app.advance_seconds(1);
        assert_eq!(stage.get("chats").await.status, 200);
        assert_eq!((used(&stage).len(), exchanges(&stage).len()), (3, 2));
        assert_eq!(stage.account_state().await, "active");
        stage
    })
    .await;
}

/// A failing token endpoint says nothing about the token, which is used until it expires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_refresh_matters_only_after_the_token_has_expired() {
    on_tokens(
        |_, _| Script::json(503, "{}"),
        async |stage| {
            stage.app.advance_seconds(3_590);
            let lasting = stage.get("chats").await;
            stage.app.advance_seconds(60);
            let ended = stage.get("chats").await;

            assert_eq!((lasting.status, ended.status), (200, 502), "{}", ended.text());
            assert_eq!(ended.code(), "platform_unreachable");
            assert_eq!(used(&stage), ["Bearer access-0"]);
            assert_eq!(stage.account_state().await, "active");
            assert_eq!(stage.balance().await, CREDITS - 1);
            stage
        },
    )
    .await;
}

/// The pause after a failure belongs to the refresh token that it happened with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_connected_anew_are_tried_although_the_endpoint_failed_before() {
    let token = |request: &Seen, number: usize| match number {
        0 | 1 => Script::json(503, "{}"),
        _ => fresh(request, number),
    };
    on_tokens(token, async |stage| {
        stage.app.advance_seconds(3_600);
        // The second failure pauses for two seconds.
        assert_eq!(stage.get("chats").await.code(), "platform_unreachable");
        stage.app.advance_seconds(1);
        assert_eq!(stage.get("chats").await.code(), "platform_unreachable");
        assert_eq!(stage.get("chats").await.code(), "platform_unreachable");
        assert_eq!(exchanges(&stage).len(), 2);

        let anew = json!({
            "access_token": "access-new", "refresh_token": "refresh-new",
            "expires_at": "2026-11-21T13:00:30Z",
        });
        assert_eq!(stage.import("platform_delta", anew).await.status, 200);
        let reply = stage.get("chats").await;

        assert_eq!((reply.status, reply.receipt().0), (200, 1), "{}", reply.text());
        let last = exchanges(&stage).pop().unwrap().body;
        let last = String::from_utf8(last).unwrap();
        assert!(last.contains("refresh_token=refresh-new"), "{last}");
        assert_eq!(used(&stage), ["Bearer access-3"]);
        stage
    })
    .await;
}
