//! `Idempotency-Key` on the service's own routes: a request is carried out once, repetitions get
//! its response, and other callers do not.

use serde_json::{Value, json};
use store::testing::run_raw;
use test_service::app::Customer;
use test_service::member::PASSWORD;
use test_service::{Client, Reply, TestApp, at_once, with_app};

const KEYS: &str = "/v1/auth/keys";
/// The state left by a node that stops before it has recorded how a request ended.
const DIED: &str = "
    update own_requests set state = 'running', leased_until = 0, permissions = null, status = null, answer = null";

fn new_key(name: &str) -> Value {
    json!({"name": name, "scope": "full"})
}

/// Whether it is a replay of the first response.
fn is_replay(reply: &Reply) -> bool {
    reply.header("idempotent-replayed") == "true"
}

/// The names of a customer's keys, except the first.
async fn names(client: &Client) -> Vec<String> {
    let listed = client.get(KEYS).await.json();
    let keys = listed["keys"].as_array().unwrap().iter();
    let names = keys.map(|key| key["name"].as_str().unwrap().to_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("made")).collect();
    names.sort_unstable();
    names
}

/// A customer, and a client with its key of full scope and without limits.
async fn caller(app: &TestApp) -> (Customer, Client) {
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    (customer, client)
}

fn keyed(client: &Client) -> Client {
    client.with("idempotency-key", "once")
}

/// Creates a key with these limits, and returns a client that uses it.
async fn with_new_key(app: &TestApp, client: &Client, wanted: &Value) -> (String, Client) {
    let made = client.post(KEYS, wanted).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("key_id"), app.with_key(&text("api_key")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_creation_makes_one_key_and_both_responses_have_its_secret() {
    with_app(async |app| {
        let (customer, client) = caller(&app).await;

        let first = keyed(&client).post(KEYS, &new_key("made")).await;
        let app = app.restart().await;
        let restarted = app.with_key(&customer.key);
        let again = keyed(&restarted).post(KEYS, &new_key("made")).await;

        assert_eq!((first.status, is_replay(&first)), (201, false), "{}", first.text());
        assert_eq!((again.status, is_replay(&again)), (201, true), "{}", again.text());
        assert_eq!(again.body, first.body);
        for header in ["location", "content-type", "cache-control"] {
            assert_eq!(again.header(header), first.header(header), "{header}");
        }
        assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
        assert_eq!(names(&restarted).await, ["made"]);
        let secret = first.json()["api_key"].as_str().unwrap().to_owned();
        assert_eq!(app.with_key(&secret).get("/v1/whoami").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stored_response_is_sealed() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let made = keyed(&client).post(KEYS, &new_key("made")).await.json();
        let secret = made["api_key"].as_str().unwrap();
        let place = if app.database_url().starts_with("sqlite:") {
            format!("instr(answer, cast('{secret}' as blob))")
        } else {
            format!("position(convert_to('{secret}', 'UTF8') in answer)")
        };
        let count = async |condition: String| {
            let sql = format!("update own_requests set status = status where {condition}");
            run_raw(app.store(), Box::leak(sql.into_boxed_str())).await.unwrap()
        };

        assert_eq!(count(format!("{place} > 0")).await, 0);
        assert_eq!(
            count(format!("{place} = 0")).await,
            1,
            "there must be a stored response to search"
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_concurrent_requests_one_is_carried_out() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let all = (0..20).map(|_| {
            let client = keyed(&client);
            async move { client.post(KEYS, &new_key("made")).await }
        });

        let replies = at_once(all).await;

        let (made, others): (Vec<&Reply>, Vec<&Reply>) =
            replies.iter().partition(|reply| reply.status == 201);
        assert_eq!(made.iter().filter(|reply| !is_replay(reply)).count(), 1);
        assert!(made.iter().all(|reply| reply.body == made[0].body));
        for other in others {
            assert_eq!(other.failure(), (409, "idempotency_in_progress".to_owned()));
            assert_eq!(
                (other.header("retry-after"), other.header("x-should-retry")),
                ("1", "true")
            );
        }
        assert_eq!(names(&client).await, ["made"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_request_under_the_same_key_is_refused() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let client = keyed(&client);
        assert_eq!(client.post(KEYS, &new_key("made")).await.status, 201);
        let bytes = b"{\"name\": \"made\",  \"scope\": \"full\"}".to_vec();
        let in_json = client.with("content-type", "application/json");

        for other in [
            client.post(KEYS, &new_key("made too")).await,
            in_json.send("POST", KEYS, Some(bytes)).await,
            client.post(&format!("{KEYS}?a=b"), &new_key("made")).await,
            client.json("POST", "/v1/support-access", &json!({"enabled": false})).await,
            client.delete("/v1/accounts/nobody").await,
        ] {
            let mismatch = ("header.Idempotency-Key".to_owned(), "already_used".to_owned());
            assert_eq!(other.wrong_fields(), [mismatch]);
            assert_eq!(other.code(), "idempotency_mismatch");
        }
        assert_eq!(names(&client).await, ["made"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotency_keys_are_separate_for_each_key_and_customer() {
    with_app(async |app| {
        let (_, owner) = caller(&app).await;
        let (_, stranger) = caller(&app).await;
        let (_, second) = with_new_key(&app, &owner, &new_key("second")).await;
        let first = keyed(&owner).post(KEYS, &new_key("made")).await;

        for other in [&second, &stranger] {
            let reply = keyed(other).post(KEYS, &new_key("made too")).await;
            assert_eq!((reply.status, is_replay(&reply)), (201, false), "{}", reply.text());
            assert_ne!(reply.json()["key_id"], first.json()["key_id"]);
        }

        let limited = json!({"name": "small", "scope": "full", "monthly_budget_credits": 5});
        let (_, limited) = with_new_key(&app, &owner, &limited).await;
        let reply = keyed(&limited).post(KEYS, &new_key("made")).await;
        assert_eq!(reply.failure(), (403, "limited_key".to_owned()));
        assert_eq!(names(&owner).await, ["made", "made too"]);
        assert_eq!(names(&stranger).await, ["made too"]);
        app
    })
    .await;
}

/// The permissions of a key when its request ended decide who gets the response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_limited_since_then_does_not_get_the_secret_again() {
    with_app(async |app| {
        let (_, owner) = caller(&app).await;
        let (id, second) = with_new_key(&app, &owner, &new_key("second")).await;
        let first = keyed(&second).post(KEYS, &new_key("made")).await;
        assert_eq!(first.status, 201);
        let path = format!("{KEYS}/{id}");
        let limit = async |budget: Value| {
            let change = json!({"monthly_budget_credits": budget});
            assert_eq!(owner.json("PATCH", &path, &change).await.status, 200);
        };

        limit(json!(5)).await;
        let refused = keyed(&second).post(KEYS, &new_key("made")).await;
        limit(Value::Null).await;
        let again = keyed(&second).post(KEYS, &new_key("made")).await;

        assert_eq!(refused.failure(), (422, "idempotency_mismatch".to_owned()));
        assert_eq!((is_replay(&again), again.body), (true, first.body));
        // A change that a request makes to its own key does not withhold its response.
        let own = second.with("idempotency-key", "own");
        let change = json!({"monthly_budget_credits": 7});
        let changed = own.json("PATCH", &path, &change).await;
        let repeated = own.json("PATCH", &path, &change).await;
        assert_eq!((changed.status, is_replay(&repeated)), (200, true), "{}", repeated.text());
        assert_eq!(repeated.body, changed.body);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_frees_the_key() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let keyed = keyed(&client);
        let limited = json!({"name": "small", "scope": "full", "monthly_budget_credits": 5});
        let (id, limited) = with_new_key(&app, &client, &limited).await;
        let limited = limited.with("idempotency-key", "once");

        for (method, path, body, expected) in [
            ("POST", KEYS, json!({"name": 1}), (422, "invalid_request")),
            ("DELETE", "/v1/accounts/nobody", json!({}), (404, "account_not_found")),
            ("POST", "/v1/billing/charge", json!({"pack_id": "pack_1"}), (404, "not_found")),
            (
                "POST",
                "/v1/billing/slots",
                json!({"platform": "platform_gamma", "count": 1}),
                (422, "invalid_request"),
            ),
        ] {
            let reply = keyed.json(method, path, &body).await;
            assert_eq!(reply.failure(), (expected.0, expected.1.to_owned()), "{path}");
        }
        let text = keyed.with("content-type", "text/plain");
        let reply = text.send("POST", KEYS, Some(b"{}".to_vec())).await;
        assert_eq!(reply.failure(), (415, "unsupported_media_type".to_owned()));
        let done = keyed.post(KEYS, &new_key("made")).await;
        assert_eq!((done.status, is_replay(&done)), (201, false), "{}", done.text());

        let refused = limited.post(KEYS, &new_key("made too")).await;
        assert_eq!(refused.failure(), (403, "limited_key".to_owned()));
        let change = json!({"monthly_budget_credits": null});
        assert_eq!(client.json("PATCH", &format!("{KEYS}/{id}"), &change).await.status, 200);
        let late = limited.post(KEYS, &new_key("made too")).await;
        assert_eq!((late.status, is_replay(&late)), (201, false), "{}", late.text());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_and_malformed_requests_are_refused_and_store_nothing() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let reader = json!({"name": "reader", "scope": "read_only"});
        let (_, reader) = with_new_key(&app, &client, &reader).await;
        let ask = async |who: Client| keyed(&who).post(KEYS, &new_key("made")).await.failure();

        assert_eq!(ask(app.anonymous()).await, (401, "missing_key".to_owned()));
        let wrong = app.with_key("cgw_live_wrong");
        assert_eq!(ask(wrong).await, (401, "invalid_key".to_owned()));
        assert_eq!(ask(reader).await, (403, "read_only_key".to_owned()));
        let session_only = keyed(&client).json("PATCH", "/v1/auth/me", &json!({"name": "a"})).await;
        assert_eq!(session_only.failure(), (401, "missing_session".to_owned()));
        for bad in ["", "a b", &"a".repeat(256)] {
            let reply = client.with("idempotency-key", bad).post(KEYS, &new_key("made")).await;
            assert_eq!(reply.failure(), (400, "invalid_idempotency_key".to_owned()), "{bad}");
        }
        assert_eq!(run_raw(app.store(), "delete from own_requests").await.unwrap(), 0);
        app
    })
    .await;
}

/// The response to a rotation has the new secret, while a repetition still uses the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_rotates_itself_gets_its_secret_again_while_the_old_one_works() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let path = "/v1/auth/keys/rotate";
        let slow = keyed(&client);
        let rotation = json!({"expires_old_in_s": 60});

        let first = slow.post(path, &rotation).await;
        let again = slow.post(path, &rotation).await;
        let secret = first.json()["api_key"].as_str().unwrap().to_owned();
        let by_new = keyed(&app.with_key(&secret)).post(path, &rotation).await;
        app.advance_seconds(60);
        let late = slow.post(path, &rotation).await;

        assert_eq!((first.status, is_replay(&first)), (200, false), "{}", first.text());
        for repeated in [&again, &by_new] {
            assert_eq!((is_replay(repeated), &repeated.body), (true, &first.body));
        }
        assert_eq!(late.failure(), (401, "invalid_key".to_owned()));
        assert_eq!(app.with_key(&secret).get("/v1/whoami").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_is_kept_for_a_day() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let client = keyed(&client);
        let first = client.post(KEYS, &new_key("made")).await;
        assert_eq!(first.status, 201);

        app.advance_seconds(86_399);
        assert!(is_replay(&client.post(KEYS, &new_key("made")).await));
        app.advance_seconds(1);
        let next = client.post(KEYS, &new_key("made")).await;

        assert_eq!((next.status, is_replay(&next)), (201, false));
        assert_eq!(names(&client).await, ["made", "made"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_a_customer_share_their_idempotency_keys() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let (one, other) = (app.signed_in(&member).await, app.signed_in(&member).await);

        let mut new = new_key("made");
        new["current_password"] = json!(PASSWORD);
        let first = keyed(&one).post(KEYS, &new).await;
        let again = keyed(&other).post(KEYS, &new).await;
        let by_key = keyed(&app.with_key(&member.customer.key)).post(KEYS, &new).await;
        let cross_site = other.with("idempotency-key", "two").with("sec-fetch-site", "cross-site");
        let cross_site = cross_site.post(KEYS, &new_key("made")).await;

        assert_eq!((first.status, is_replay(&first)), (201, false), "{}", first.text());
        assert_eq!((is_replay(&again), again.body), (true, first.body));
        assert_eq!((by_key.status, is_replay(&by_key)), (201, false));
        assert_eq!(cross_site.failure(), (403, "cross_site_request".to_owned()));
        let me = one.with("idempotency-key", "me");
        let renamed = me.json("PATCH", "/v1/auth/me", &json!({"name": "Ada"})).await;
        let repeated = me.json("PATCH", "/v1/auth/me", &json!({"name": "Ada"})).await;
        assert_eq!((renamed.status, is_replay(&repeated)), (200, true), "{}", repeated.text());
        assert_eq!(run_raw(app.store(), "delete from own_requests").await.unwrap(), 3);
        app
    })
    .await;
}

/// The cookie of a new session is never stored: these routes accept the header and ignore it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_of_logins_and_password_changes_are_not_stored() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let login = json!({"email": member.email, "password": PASSWORD});
        let anonymous = keyed(&app.anonymous());
        let (one, other) = (
            anonymous.post("/v1/auth/login", &login).await,
            anonymous.post("/v1/auth/login", &login).await,
        );
        assert_eq!((one.status, other.status), (200, 200));
        assert_ne!(one.cookie(), other.cookie());

        let browser = keyed(&app.anonymous().with_session(&one.cookie()));
        let change = json!({
            "current_password": PASSWORD, "new_password": "another long password",
        });
        let changed = browser.post("/v1/auth/password", &change).await;
        let repeated = browser.post("/v1/auth/password", &change).await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        assert_eq!(repeated.failure(), (401, "invalid_session".to_owned()));
        let again = keyed(&app.anonymous().with_session(&changed.cookie()));
        assert_eq!(again.send("POST", "/v1/auth/logout", None).await.status, 204);
        assert_eq!(run_raw(app.store(), "delete from own_requests").await.unwrap(), 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_a_creation_is_not_repeated_but_a_change_is() {
    with_app(async |app| {
        let (customer, client) = caller(&app).await;
        let made = keyed(&client).post(KEYS, &new_key("made")).await;
        assert_eq!(made.status, 201);
        let path = format!("{KEYS}/{}", customer.key_id);
        let rename = client.with("idempotency-key", "rename");
        let renamed = rename.json("PATCH", &path, &json!({"name": "made first"})).await;
        assert_eq!(run_raw(app.store(), DIED).await.unwrap(), 2);

        let unknown = keyed(&client).post(KEYS, &new_key("made")).await;
        let other = keyed(&client).post(KEYS, &new_key("made too")).await;
        let again = rename.json("PATCH", &path, &json!({"name": "made first"})).await;
        let repeated = rename.json("PATCH", &path, &json!({"name": "made first"})).await;

        assert_eq!(unknown.failure(), (409, "outcome_unknown".to_owned()), "{}", unknown.text());
        assert_eq!(
            (unknown.header("x-should-retry"), &unknown.json()["call_id"]),
            ("false", &Value::Null)
        );
        assert_eq!(other.failure(), (422, "idempotency_mismatch".to_owned()));
        assert_eq!((again.status, is_replay(&again)), (200, false), "{}", again.text());
        assert!(is_replay(&repeated));
        assert_eq!((&again.body, &repeated.body), (&renamed.body, &renamed.body));
        assert_eq!(names(&client).await, ["made", "made first"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_runs_on_another_node_is_not_started_again() {
    with_app(async |app| {
        let (customer, client) = caller(&app).await;
        let client = keyed(&client);
        let consent = json!({"enabled": true});
        assert_eq!(client.post("/v1/support-access", &consent).await.status, 200);
        assert_eq!(run_raw(app.store(), DIED).await.unwrap(), 1);
        let far = "update own_requests set leased_until = 9000000000000000, leased_by = 'node_1'";
        assert_eq!(run_raw(app.store(), far).await.unwrap(), 1);

        let running = client.post("/v1/support-access", &consent).await;

        assert_eq!(running.failure(), (409, "idempotency_in_progress".to_owned()));
        assert_eq!(running.header("retry-after"), "1");
        // On SQLite there is no other node, so a starting node knows that no node is running the
        // request.
        let app = app.restart().await;
        let later = keyed(&app.with_key(&customer.key)).post("/v1/support-access", &consent).await;
        let is_alone = app.database_url().starts_with("sqlite:");
        assert_eq!(later.status, if is_alone { 200 } else { 409 }, "{}", later.text());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_too_large_to_store_is_not_replayed_and_nothing_runs_twice() {
    let app = TestApp::on_sqlite("[http.limits]\nstored_answer_bytes_max = 64").await;
    let (_, client) = caller(&app).await;

    let first = keyed(&client).post(KEYS, &new_key("made")).await;
    let again = keyed(&client).post(KEYS, &new_key("made")).await;

    assert_eq!(first.status, 201);
    assert_eq!(again.failure(), (409, "answer_not_stored".to_owned()), "{}", again.text());
    assert_eq!(names(&client).await, ["made"]);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_and_deletions_are_carried_out_once() {
    with_app(async |app| {
        let (_, client) = caller(&app).await;
        let accounts = simulators::demo_accounts(&app.settings);
        let alpha = accounts.iter().find(|account| account.platform == "platform_alpha").unwrap();
        let import = json!({
            "creator_id": "ada", "platform": "platform_alpha", "auth": alpha.auth,
        });
        let limits =
            json!({"name": "limited", "scope": "full", "expires_at": "2027-01-01T00:00:00Z"});
        let (_, limited) = with_new_key(&app, &client, &limits).await;
        let limited = keyed(&limited);

        let first = limited.post("/v1/connect/import", &import).await;
        let again = limited.post("/v1/connect/import", &import).await;

        assert_eq!((first.status, is_replay(&first)), (201, false), "{}", first.text());
        assert_eq!((again.status, is_replay(&again)), (201, true), "{}", again.text());
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("location"), "/v1/accounts/ada");
        // The repetition of a deletion is not a 404, even without a body.
        let deleting = client.with("idempotency-key", "delete");
        assert_eq!(deleting.delete("/v1/accounts/ada").await.status, 204);
        let deleted = deleting.delete("/v1/accounts/ada").await;
        assert_eq!((deleted.status, is_replay(&deleted)), (204, true), "{}", deleted.text());
        app
    })
    .await;
}
