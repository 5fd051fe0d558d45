//! Rate limits of the control plane, for each kind of caller, and that others are not affected when
//! one exceeds its limit.
#![expect(
    clippy::too_many_lines,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use std::time::Duration;

use serde_json::{Value, json};
use test_service::member::PASSWORD;
use test_service::raw::RawConnection;
use test_service::{Client, Reply, TestApp, with_app};

const BEHIND_A_PROXY: &str = "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n";

const REFUSED: (u16, &str) = (429, "rate_limited");

fn failure(reply: &Reply) -> (u16, String) {
    assert!(reply.header("retry-after").parse::<i64>().is_ok_and(|seconds| seconds > 0));
    reply.failure()
}

fn refused() -> (u16, String) {
    (REFUSED.0, REFUSED.1.to_owned())
}

/// What the response says about the limit: its policy, and what is left.
fn limit(reply: &Reply) -> (&str, &str) {
    (reply.header("ratelimit-policy"), reply.header("ratelimit"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_or_session_over_its_limit_is_refused_and_others_are_not_affected() {
    let settings = "[rate_limits]\ncontrol_per_key_per_second = 1\ncontrol_per_key_burst = 5";
    let app = TestApp::on_sqlite(settings).await;
    let (one, other) = (app.customer(10).await, app.customer(10).await);
    let key = app.with_key(&one.key);
    let session = app.member("ada@example.com").await;
    let session = app.signed_in(&session).await;

    for client in [&key, &session] {
        for left in (0..5).rev() {
            let reply = client.get("/v1/whoami").await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let reset = 5 - left;
            let state = format!("\"default\";r={left};t={reset}");
            assert_eq!(limit(&reply), ("\"default\";q=5;w=5", state.as_str()));
        }
        let sixth = client.get("/v1/whoami").await;
        assert_eq!(failure(&sixth), refused());
        assert_eq!(limit(&sixth), ("\"default\";q=5;w=5", "\"default\";r=0;t=5"));
    }

    assert_eq!(app.with_key(&other.key).get("/v1/whoami").await.status, 200);
    // Native calls have their own limit: this call gets as far as the account, which does not
    // exist.
    let native = key.get("/v1/nobody/native/users/me").await;
    assert_eq!(native.failure(), (404, "account_not_found".to_owned()));
    app.advance_seconds(1);
    assert_eq!(key.get("/v1/whoami").await.status, 200);
    app.end().await;
}

/// An invalid credential is not looked up more often than a valid one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_key_is_limited_as_well() {
    let settings = "[rate_limits]\ncontrol_per_key_per_second = 1\ncontrol_per_key_burst = 5";
    let app = TestApp::on_sqlite(settings).await;
    let customer = app.customer(10).await;
    let key = app.with_key(&customer.key);
    assert_eq!(key.delete(&format!("/v1/auth/keys/{}", customer.key_id)).await.status, 204);

    for _ in 0..4 {
        assert_eq!(key.get("/v1/whoami").await.failure(), (401, "invalid_key".to_owned()));
    }

    assert_eq!(failure(&key.get("/v1/whoami").await), refused());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_over_its_limit_is_refused_and_others_are_not_affected() {
    let settings = format!(
        "{BEHIND_A_PROXY}[rate_limits]\ncontrol_per_network_per_second = 1\n\
         control_per_network_burst = 3"
    );
    let app = TestApp::on_sqlite(&settings).await;
    let from = |address: &str| app.anonymous().with("x-forwarded-for", address);

    for _ in 0..3 {
        assert_eq!(from("203.0.113.7").get("/v1/platforms").await.status, 200);
    }
    let asked = tokio::time::Instant::now();
    let fourth = from("203.0.113.7").get("/v1/platforms").await;

    assert_eq!(failure(&fourth), refused());
    // A loop that does not obey it is slowed down.
    assert!(asked.elapsed() >= Duration::from_millis(250));
    assert_eq!(limit(&fourth), ("\"network\";q=3;w=3", "\"network\";r=0;t=3"));
    assert_eq!(from("203.0.113.8").get("/v1/platforms").await.status, 200);
    // Load balancers call this, and a proxy that names no client stands for many.
    assert_eq!(from("203.0.113.7").get("/health").await.status, 200);
    for _ in 0..5 {
        assert_eq!(app.anonymous().get("/v1/platforms").await.status, 200);
    }
    app.end().await;
}

/// Guessed tokens become requests to the platform in our name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_are_limited_for_each_customer() {
    with_configured_app("[rate_limits]\nimports_per_minute = 3", async |app| {
        let (one, other) = (app.customer(10).await, app.customer(10).await);
        let guess = json!({
            "creator_id": "guess", "platform": "platform_delta", "auth": {"access_token": "guessed"},
        });
        let import = async |key: &str| {
            app.with_key(key).post("/v1/connect/import", &guess).await
        };
        for _ in 0..3 {
            assert_eq!(import(&one.key).await.code(), "verification_failed");
        }
        let asked = app.seen("platform_delta").await.len();

        let fourth = import(&one.key).await;

        assert_eq!(failure(&fourth), refused());
        assert_eq!(limit(&fourth).0, "\"imports\";q=3;w=60");
        assert_eq!(app.seen("platform_delta").await.len(), asked, "the platform must not be called");
        assert_eq!(import(&other.key).await.code(), "verification_failed");
        app.advance_seconds(20);
        assert_eq!(import(&one.key).await.code(), "verification_failed");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_keys_are_limited_for_each_customer_and_so_are_their_audit_entries() {
    with_configured_app("[rate_limits]\nkey_changes_per_minute = 4", async |app| {
        let (one, other) = (app.customer(10).await, app.customer(10).await);
        let change = async |customer: &test_service::app::Customer, name: &str| {
            let path = format!("/v1/auth/keys/{}", customer.key_id);
            app.with_key(&customer.key).json("PATCH", &path, &json!({"name": name})).await
        };
        for number in 0..4 {
            assert_eq!(change(&one, &format!("name {number}")).await.status, 200);
        }

        for number in 4..20 {
            assert_eq!(failure(&change(&one, &format!("name {number}")).await), refused());
        }

        let audit = app.with_key(&one.key).get("/v1/audit").await.json();
        let entries = audit["entries"].as_array().unwrap();
        let changes = entries.iter().filter(|entry| entry["action"] == "key.changed").count();
        assert_eq!(changes, 4, "{audit}");
        assert_eq!(change(&other, "another").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_the_payment_processor_are_limited_for_each_customer() {
    let app = TestApp::on_sqlite("[rate_limits]\npayment_requests_per_minute = 2").await;
    let (one, other) = (app.customer(10).await, app.customer(10).await);
    let buy = async |key: &str| {
        let pack = json!({"pack_id": "pack_10"});
        app.with_key(key).post("/v1/billing/checkout", &pack).await
    };

    for _ in 0..2 {
        let reply = buy(&one.key).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    assert_eq!(failure(&buy(&one.key).await), refused());
    assert_eq!(app.with_key(&one.key).get("/v1/billing").await.status, 200);
    assert_eq!(buy(&other.key).await.status, 200);
    app.end().await;
}

/// Requests that are refused to a key do not count against its owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_a_key_may_not_make_do_not_count_against_its_owner() {
    let limits = "[rate_limits]\npayment_requests_per_minute = 2\nidempotency_keys_per_minute = 2\n\
                  key_changes_per_minute = 4";
    let app = TestApp::on_sqlite(limits).await;
    let owner = app.customer(10).await;
    let account = app.connect(&owner, "platform_alpha").await;
    let owner = app.with_key(&owner.key);
    let made = async |wish: Value| {
        let made = owner.post("/v1/auth/keys", &wish).await.json();
        app.with_key(made["api_key"].as_str().unwrap())
    };
    let limited = made(json!({"name": "a", "scope": "full", "accounts": [account]})).await;
    let reading = made(json!({"name": "b", "scope": "read_only"})).await;
    let pack = json!({"pack_id": "pack_10"});

    for number in 0..3 {
        let charge = limited.post("/v1/billing/charge", &pack).await;
        assert_eq!(charge.failure(), (403, "limited_key".to_owned()));
        let preview = limited.get("/v1/billing/slots/preview?platform=platform_alpha&count=1");
        assert_eq!(preview.await.failure(), (403, "limited_key".to_owned()));
        let mine = json!({"name": "other"});
        let renamed = limited.json("PATCH", "/v1/auth/keys/key_1", &mine).await;
        assert_eq!(renamed.failure(), (403, "limited_key".to_owned()));
        let keyed = reading.with("idempotency-key", &number.to_string());
        let checkout = keyed.post("/v1/billing/checkout", &pack).await;
        assert_eq!(checkout.failure(), (403, "read_only_key".to_owned()));
    }
    for number in 0..2 {
        let keyed = limited.with("idempotency-key", &number.to_string());
        let charge = keyed.post("/v1/billing/charge", &pack).await;
        assert_eq!(charge.failure(), (403, "limited_key".to_owned()));
    }
    let preview = "/v1/billing/slots/preview?platform=platform_alpha&count=1";
    for _ in 0..2 {
        assert_eq!(reading.get(preview).await.failure(), (409, "no_subscription".to_owned()));
    }

    assert_eq!(failure(&reading.get(preview).await), refused());
    let bought = owner.with("idempotency-key", "a").post("/v1/billing/checkout", &pack).await;
    assert_eq!(bought.status, 200, "{}", bought.text());
    let third = owner.post("/v1/auth/keys", &json!({"name": "c", "scope": "full"})).await;
    assert_eq!(third.status, 201, "{}", third.text());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_responses_are_limited_for_each_customer() {
    let app = TestApp::on_sqlite("[rate_limits]\nidempotency_keys_per_minute = 2").await;
    let (one, other) = (app.customer(10).await, app.customer(10).await);
    let allow = async |key: &str, keyed: &str| {
        let client = app.with_key(key).with("idempotency-key", keyed);
        client.post("/v1/support-access", &json!({"enabled": false})).await
    };

    for keyed in ["a", "b"] {
        assert_eq!(allow(&one.key, keyed).await.status, 200);
    }

    let refusal = allow(&one.key, "c").await;
    assert_eq!(failure(&refusal), refused());
    assert!(refusal.header("ratelimit-policy").contains("idempotency-keys"), "{refusal:?}");
    let off = json!({"enabled": false});
    assert_eq!(app.with_key(&one.key).post("/v1/support-access", &off).await.status, 200);
    assert_eq!(allow(&other.key, "a").await.status, 200);
    app.end().await;
}

/// If a proxy does not report the client's protocol, the client may have connected without
/// encryption.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_an_https_address_a_key_from_a_proxy_needs_x_forwarded_proto() {
    let https = format!("{BEHIND_A_PROXY}public_base_url = 'https://api.example.com'");
    let app = TestApp::on_sqlite(&https).await;
    let customer = app.customer(10).await;
    let key = app.with_key(&customer.key);
    let bearer = app.anonymous().bearer(&customer.key);
    let expected = (403, "https_required".to_owned());

    for client in [&key, &bearer] {
        for path in ["/v1/whoami", "/v1/nobody/native/users/me", "/v1/nobody/media/upload"] {
            assert_eq!(client.get(path).await.failure(), expected, "{path}");
            let plain = client.with("x-forwarded-proto", "http");
            assert_eq!(plain.get(path).await.failure(), expected, "{path}");
        }
        let secured = client.with("x-forwarded-proto", "https");
        assert_eq!(secured.get("/v1/whoami").await.status, 200);
        let native = secured.get("/v1/nobody/native/users/me").await;
        assert_eq!(native.failure(), (404, "account_not_found".to_owned()));
    }
    // A password crosses the network as a key does.
    let register = json!({"email": "ada@example.com", "password": PASSWORD});
    let bare = app.anonymous().post("/v1/auth/register", &register).await;
    assert_eq!(bare.failure(), expected);
    let secured = app.anonymous().with("x-forwarded-proto", "https");
    assert_eq!(secured.post("/v1/auth/register", &register).await.status, 201);
    assert_eq!(app.anonymous().get("/v1/platforms").await.status, 200, "it needs no key");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ipv6_site_may_register_eight_times_as_often_as_one_of_its_networks() {
    let settings = format!("{BEHIND_A_PROXY}[rate_limits]\nregistrations_per_hour = 1");
    let app = TestApp::on_sqlite(&settings).await;
    let register = async |address: String, number: usize| {
        let form = json!({"email": format!("n{number}@example.com"), "password": PASSWORD});
        let client = app.anonymous().with("x-forwarded-for", &address);
        client.post("/v1/auth/register", &form).await
    };

    for number in 0..8 {
        let reply = register(format!("2001:db8:1:{number}::1"), number).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    let ninth = register("2001:db8:1:99::1".to_owned(), 9).await;
    assert_eq!(ninth.failure(), (429, "too_many_registrations".to_owned()));
    assert_eq!(register("2001:db8:2::1".to_owned(), 10).await.status, 201);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_is_not_sent_again_to_clients_that_have_it() {
    let app = TestApp::on_sqlite("").await;
    let client = app.anonymous();

    let first = client.get("/openapi.json").await;
    let tag = first.header("etag").to_owned();
    let again = client.with("if-none-match", &tag).get("/openapi.json").await;
    let other = client.with("if-none-match", "\"other\"").get("/openapi.json").await;

    assert_eq!((first.status, first.header("cache-control")), (200, "public, max-age=300"));
    assert_eq!(first.header("content-type"), "application/json");
    assert!(tag.starts_with('"') && tag.len() > 16, "{tag}");
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), tag);
    assert_eq!((other.status, &other.body), (200, &first.body));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsupported_method_gets_the_list_of_supported_ones() {
    let app = TestApp::on_sqlite("").await;
    let mut connection = RawConnection::open(app.running().address()).await;

    connection.send("TRACE /v1/whoami HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    let answer = connection.answer().await.unwrap();

    assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_supported"));
    let allow = "allow: get, head, post, put, patch, delete, options\r\n";
    assert!(answer.head.contains(allow), "{}", answer.head);
    app.end().await;
}

/// A refused value may be a secret in the wrong field, so the response does not repeat it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_422_never_repeats_the_refused_value() {
    const SECRET: &str = "sk-canary-5b1f0c";
    let app = TestApp::on_sqlite("").await;
    let member = app.member("ada@example.com").await;
    let key = app.with_key(&member.customer.key);
    let session = app.signed_in(&member).await;
    let anonymous = app.anonymous();
    let posts: Vec<(&Client, &str, &str, Value)> = vec![
        (&anonymous, "POST", "/v1/auth/login", json!({"email": SECRET, "password": "x"})),
        (&anonymous, "POST", "/v1/auth/login", json!({"email": "a@b.de", "password": [SECRET]})),
        (&anonymous, "POST", "/v1/auth/login", json!({"email": "a@b.de", "password": {SECRET: 1}})),
        (&anonymous, "POST", "/v1/auth/login", json!(SECRET)),
        (&anonymous, "POST", "/v1/auth/register", json!({"email": SECRET, "password": SECRET})),
        (
            &anonymous,
            "POST",
            "/v1/auth/register",
            json!({"email": "a@b.de", "password": SECRET, "name": 5}),
        ),
        (&key, "POST", "/v1/auth/keys", json!({"name": "n", "scope": SECRET})),
        (
            &key,
            "POST",
            "/v1/auth/keys",
            json!({"name": "n", "scope": "full", "expires_at": SECRET}),
        ),
        (
            &key,
            "POST",
            "/v1/auth/keys",
            json!({"name": "n", "scope": "full", "monthly_budget_credits": SECRET}),
        ),
        (&key, "POST", "/v1/auth/keys", json!({"name": "n", "scope": "full", "accounts": SECRET})),
        (&key, "POST", "/v1/auth/keys/rotate", json!({"key_id": SECRET})),
        (
            &key,
            "POST",
            "/v1/connect/import",
            json!({"creator_id": "a", "platform": SECRET, "auth": {}}),
        ),
        (
            &key,
            "POST",
            "/v1/connect/import",
            json!({"creator_id": "a/b", "platform": "platform_alpha", "auth": SECRET}),
        ),
        (
            &key,
            "POST",
            "/v1/connect/import",
            json!({"creator_id": "a", "platform": "platform_delta", "auth": {"access_token": [SECRET]}}),
        ),
        (
            &key,
            "POST",
            "/v1/connect/import",
            json!({"creator_id": "a", "platform": "platform_delta", "auth": {"refresh_token": 7, "access_token": {"a": SECRET}}}),
        ),
        (&session, "PATCH", "/v1/auth/me", json!({"email": SECRET, "current_password": PASSWORD})),
        (
            &session,
            "POST",
            "/v1/auth/password",
            json!({"current_password": {"a": SECRET}, "new_password": SECRET}),
        ),
        (&key, "POST", "/v1/billing/autotopup", json!({"enable": SECRET})),
    ];
    for (client, method, path, body) in posts {
        let reply = client.json(method, path, &body).await;
        assert_eq!(reply.status, 422, "{path} {body}: {}", reply.text());
        assert!(!reply.text().contains("canary"), "{path} {body}: {}", reply.text());
    }
    let query = key.get(&format!("/v1/billing/usage?days={SECRET}")).await;
    assert!(!query.text().contains("canary"), "{}", query.text());
    app.end().await;
}

async fn with_configured_app<F, T>(overrides: &str, test: F)
where
    F: Fn(TestApp) -> T,
    T: Future<Output = TestApp>,
{
    let database = store::testing::store().await;
    let app = TestApp::start(database, overrides).await;
    test(app).await.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_applies_to_the_next_native_call() {
    with_app(async |app| {
        let (one, client, account) = app.ready("platform_alpha", 10).await;
        let native = format!("/v1/{account}/native/users/me");
        assert_eq!(client.get(&native).await.status, 200);

        let rotated = client.post("/v1/auth/keys/rotate", &json!({})).await.json();

        assert_eq!(client.get(&native).await.failure(), (401, "invalid_key".to_owned()));
        let fresh = app.with_key(rotated["api_key"].as_str().unwrap());
        assert_eq!(fresh.get(&native).await.status, 200);
        assert_ne!(rotated["api_key"], one.key.as_str());
        app.settled(&fresh).await;
        app
    })
    .await;
}
