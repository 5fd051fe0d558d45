//! Keys: created, listed, rotated and revoked. A secret is shown once and stops working when it
//! should.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use test_service::member::PASSWORD;
use test_service::platform::{Script, Seen, json_answer};
use test_service::stage::{CREDITS, on_stage};
use test_service::{Client, TestApp, at_once, with_app};

const WHOAMI: &str = "/v1/whoami";

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}

async fn make_key(client: &Client, scope: &str) -> Value {
    let reply = client.post("/v1/auth/keys", &json!({"name": "made", "scope": scope})).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

async fn rotate(client: &Client, body: Value) -> Value {
    let reply = client.post("/v1/auth/keys/rotate", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

async fn status(app: &TestApp, key: &str) -> u16 {
    app.with_key(key).get(WHOAMI).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoami_describes_the_key_and_its_limits() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 5).await;

        let who = client.get(WHOAMI).await.json();

        assert_eq!(who["key_id"], customer.key_id.as_str());
        assert_eq!(who["customer_id"], customer.id.as_str());
        assert_eq!(who["scope"], "full");
        assert_eq!(
            (&who["accounts"], &who["connected_accounts"]),
            (&Value::Null, &json!([account]))
        );
        assert!(customer.key.starts_with(who["prefix"].as_str().unwrap()));
        assert_eq!(who["limits"]["requests_per_second"], 200);
        assert_eq!(who["limits"]["accounts"]["platform_alpha"], 4);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_shown_once() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);

        let full = make_key(&client, "full").await;
        let read_only = make_key(&client, "read_only").await;
        let listed = client.get("/v1/auth/keys").await;

        for made in [&full, &read_only] {
            let secret = text(&made["api_key"]);
            assert_eq!(status(&app, &secret).await, 200);
            assert!(!listed.text().contains(&secret), "{}", listed.text());
            assert!(secret.ends_with(made["last_four"].as_str().unwrap()));
        }
        assert!(!listed.text().contains(&customer.key));
        let listed = listed.json();
        let scopes: Vec<&str> = listed["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key["scope"].as_str().unwrap())
            .collect();
        assert_eq!(scopes.len(), 3);
        assert_eq!(scopes.iter().filter(|scope| **scope == "read_only").count(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_fields_of_a_key_are_reported() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);
    let cases = [
        (json!({"scope": "full"}), "body.name", "missing"),
        (json!({"name": "", "scope": "full"}), "body.name", "too_short"),
        (json!({"name": "x".repeat(101), "scope": "full"}), "body.name", "too_long"),
        (json!({"name": "a", "scope": "all"}), "body.scope", "not_allowed"),
        (json!({"name": "a", "scope": "full", "customer": "x"}), "body.customer", "unknown_field"),
    ];

    for (body, field, kind) in cases {
        let fields = client.post("/v1/auth/keys", &body).await.wrong_fields();
        assert_eq!(fields, [(field.to_owned(), kind.to_owned())], "{body}");
    }
    for seconds in [-1, 604_801] {
        let body = json!({"expires_old_in_s": seconds});
        let fields = client.post("/v1/auth/keys/rotate", &body).await.wrong_fields();
        assert_eq!(fields, [("body.expires_old_in_s".to_owned(), "out_of_range".to_owned())]);
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_invalidates_the_old_secret_and_keeps_the_key() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);

        let fresh = rotate(&client, json!({})).await;

        assert_eq!(fresh["key_id"], customer.key_id.as_str());
        assert_eq!(status(&app, &customer.key).await, 401);
        assert_eq!(status(&app, &text(&fresh["api_key"])).await, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_with_grace_accepts_both_secrets_until_it_ends() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);

        let fresh = text(&rotate(&client, json!({"expires_old_in_s": 60})).await["api_key"]);

        assert_eq!((status(&app, &customer.key).await, status(&app, &fresh).await), (200, 200));
        app.advance_seconds(59);
        assert_eq!((status(&app, &customer.key).await, status(&app, &fresh).await), (200, 200));
        app.advance_seconds(1);
        assert_eq!((status(&app, &customer.key).await, status(&app, &fresh).await), (401, 200));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_may_change_the_scope_or_another_key() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let other = make_key(&client, "full").await;

        let body = json!({"key_id": other["key_id"], "scope": "read_only"});
        let fresh = rotate(&client, body).await;

        assert_eq!((&fresh["key_id"], &fresh["scope"]), (&other["key_id"], &json!("read_only")));
        let fresh = app.with_key(&text(&fresh["api_key"]));
        assert_eq!(fresh.get(WHOAMI).await.status, 200);
        assert_eq!(fresh.post("/v1/auth/keys/rotate", &json!({})).await.code(), "read_only_key");
        app
    })
    .await;
}

/// Calls that begin after the response to the rotation are refused, however busy the old secret is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_secret_is_refused_after_the_response_to_the_rotation() {
    with_app(async |app| {
        let (customer, old, account) = app.ready("platform_alpha", 10_000).await;
        let path = format!("/v1/{account}/native/users/me");
        let rotated = Arc::new(AtomicBool::new(false));

        let callers = (0..50).map(|_| call_until(Arc::clone(&rotated), old.clone(), path.clone()));
        let rotation = async {
            let fresh = rotate(&old, json!({})).await;
            rotated.store(true, Ordering::SeqCst);
            fresh
        };
        let (taken_late, fresh) = tokio::join!(at_once(callers), rotation);

        assert_eq!(taken_late.into_iter().sum::<usize>(), 0);
        assert_eq!(status(&app, &customer.key).await, 401);
        let client = app.with_key(&text(&fresh["api_key"]));
        assert_eq!(client.get(&path).await.status, 200);
        app.settled(&client).await;
        app
    })
    .await;
}

/// The same for a deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_refused_after_the_response_to_its_deletion() {
    with_app(async |app| {
        let (_, owner, account) = app.ready("platform_alpha", 10_000).await;
        let made = make_key(&owner, "full").await;
        let client = app.with_key(&text(&made["api_key"]));
        let path = format!("/v1/{account}/native/users/me");
        let deleted = Arc::new(AtomicBool::new(false));

        let callers =
            (0..50).map(|_| call_until(Arc::clone(&deleted), client.clone(), path.clone()));
        let deletion = async {
            let key = format!("/v1/auth/keys/{}", text(&made["key_id"]));
            assert_eq!(owner.delete(&key).await.status, 204);
            deleted.store(true, Ordering::SeqCst);
        };
        let (taken_late, ()) = tokio::join!(at_once(callers), deletion);

        assert_eq!(taken_late.into_iter().sum::<usize>(), 0);
        assert_eq!(client.get(&path).await.code(), "invalid_key");
        app.settled(&owner).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_call_of_a_deleted_key_completes_and_is_charged() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let script =
        move |_: &Seen, _: usize| Script::Gated(Arc::clone(&waiting), vec![json_answer(200, "{}")]);
    on_stage("platform_alpha", "", script, async |stage| {
        let made = make_key(&stage.client, "full").await;
        let client = stage.app.with_key(&text(&made["api_key"]));
        let path = stage.path("lists");
        let (writer, target) = (client.clone(), path.clone());
        let sent = at_once([async move { writer.post(&target, &json!({})).await }]);
        let deletion = async {
            while stage.platform.calls().is_empty() {
                tokio::task::yield_now().await;
            }
            let key = format!("/v1/auth/keys/{}", text(&made["key_id"]));
            assert_eq!(stage.client.delete(&key).await.status, 204);
            assert_eq!(client.post(&path, &json!({})).await.code(), "invalid_key");
            gate.add_permits(1);
        };

        let (replies, ()) = tokio::join!(sent, deletion);

        assert_eq!((replies[0].status, replies[0].receipt()), (200, (2, CREDITS - 2)));
        assert_eq!(stage.balance().await, CREDITS - 2);
        assert_eq!(stage.platform.calls().len(), 1);
        stage
    })
    .await;
}

/// Calls until a call has begun after the response to the rotation; returns the number of such
/// calls that succeeded.
async fn call_until(rotated: Arc<AtomicBool>, client: Client, path: String) -> usize {
    loop {
        let is_late = rotated.load(Ordering::SeqCst);
        let reply = client.get(&path).await;
        assert!([200, 401].contains(&reply.status), "{}", reply.text());
        if is_late {
            return usize::from(reply.status == 200);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_is_refused_permanently() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 10).await;
        let made = make_key(&client, "full").await;
        let (id, secret) = (text(&made["key_id"]), text(&made["api_key"]));
        let native = format!("/v1/{account}/native/users/me");
        assert_eq!(app.with_key(&secret).get(&native).await.status, 200);

        let closed = client.delete(&format!("/v1/auth/keys/{id}")).await;
        let again = client.delete(&format!("/v1/auth/keys/{id}")).await;

        assert_eq!((closed.status, closed.body.len()), (204, 0));
        assert_eq!(again.failure(), (404, "not_found".to_owned()));
        assert_eq!(app.with_key(&secret).get(&native).await.code(), "invalid_key");
        assert_eq!(status(&app, &secret).await, 401);
        let listed = client.get("/v1/auth/keys").await.json();
        let shown =
            listed["keys"].as_array().unwrap().iter().find(|key| key["key_id"] == id.as_str());
        assert!(shown.unwrap()["revoked_at"].is_string(), "{listed}");
        let rotated = client.post("/v1/auth/keys/rotate", &json!({"key_id": id})).await;
        assert_eq!(rotated.failure(), (404, "not_found".to_owned()));
        app.settled(&client).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_id_is_not_found() {
    let app = TestApp::on_sqlite("").await;
    let client = app.with_key(&app.customer(0).await.key);

    for id in ["x", "key_", "cus_019ab3c4d5e67f8091a2b3c4d5e6f708", "%00"] {
        let reply = client.delete(&format!("/v1/auth/keys/{id}")).await;
        assert_eq!(reply.failure(), (404, "not_found".to_owned()), "{id}");
    }
    app.end().await;
}

/// A key outlives the session that made it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_needs_the_password_to_create_a_key() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;
        let new = |password: Value| {
            json!({"name": "made", "scope": "full", "current_password": password})
        };

        let without = browser.post("/v1/auth/keys", &new(Value::Null)).await;
        let wrong = browser.post("/v1/auth/keys", &new(json!("wrong password"))).await;
        let right = browser.post("/v1/auth/keys", &new(json!(PASSWORD))).await;
        let program = app.with_key(&member.customer.key);
        let by_key = program.post("/v1/auth/keys", &json!({"name": "n", "scope": "full"})).await;

        let missing = ("body.current_password".to_owned(), "missing".to_owned());
        assert_eq!(without.wrong_fields(), [missing]);
        assert_eq!(wrong.failure(), (403, "wrong_password".to_owned()));
        assert_eq!((right.status, by_key.status), (201, 201), "{}", right.text());
        assert_eq!(program.get("/v1/auth/keys").await.json()["keys"].as_array().unwrap().len(), 3);
        app
    })
    .await;
}
