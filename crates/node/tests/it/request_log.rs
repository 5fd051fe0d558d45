//! Every request has one log line, which has its id and never a secret.
#![expect(
    clippy::unwrap_used,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use serde_json::{Map, Value, json};
use test_service::log::{catch, everything, lines_of};
use test_service::platform::{Script, Seen, answer};
use test_service::raw::RawConnection;
use test_service::stage::{CANARY, on_stage};
use test_service::{Client, Reply, TestApp, with_app};

/// The line of a request, which must be the only one.
fn line_of(id: &str) -> Map<String, Value> {
    let lines = lines_of(id);
    assert_eq!(lines.len(), 1, "{id}: {lines:?}");
    lines.into_iter().next().unwrap()
}

/// Fields of a line as JSON; missing ones are null.
fn fields(line: &Map<String, Value>, names: &[&str]) -> Value {
    names.iter().map(|name| line.get(*name).cloned().unwrap_or_default()).collect()
}

const ENDED: &str = "request ended";

/// Request ids have a prefix for each database, so that the tests' lines cannot be confused.
fn prefix(app: &TestApp) -> &'static str {
    if app.database_url().starts_with("sqlite") { "lite" } else { "post" }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_to_the_control_plane_has_one_line() {
    catch();
    with_app(async |app| {
        let customer = app.customer(10).await;
        let (nobody, known) = (app.anonymous(), app.with_key(&customer.key));
        let wrong = app.with_key(&format!("{}x", &customer.key[..customer.key.len() - 1]));
        let login = json!({"email": "customer0@example.com", "password": "not the right one"});
        let cases: [(&Client, &str, &str, Option<&Value>, Value); 9] = [
            (&known, "GET", "/v1/whoami", None, json!(["GET", "/v1/whoami", 200, null])),
            (
                &known,
                "GET",
                "/v1/accounts/ada",
                None,
                json!(["GET", "/v1/accounts/{account}", 404, "account_not_found"]),
            ),
            (&wrong, "GET", "/v1/billing", None, json!(["GET", "/v1/billing", 401, "invalid_key"])),
            (
                &nobody,
                "GET",
                "/v1/billing",
                None,
                json!(["GET", "/v1/billing", 401, "missing_key"]),
            ),
            (
                &nobody,
                "POST",
                "/v1/auth/login",
                Some(&login),
                json!(["POST", "/v1/auth/login", 401, "wrong_credentials"]),
            ),
            (&nobody, "GET", "/no/such/place", None, json!(["GET", null, 404, "not_found"])),
            (
                &nobody,
                "DELETE",
                "/v1/whoami",
                None,
                json!(["DELETE", "/v1/whoami", 405, "method_not_allowed"]),
            ),
            (&nobody, "GET", "/openapi.json", None, json!(["GET", "/openapi.json", 200, null])),
            (
                &nobody,
                "POST",
                "/v1/ada/media/upload",
                None,
                json!(["POST", "/v1/{account}/media/upload", 401, "missing_key"]),
            ),
        ];
        for (index, (client, method, path, body, expected)) in cases.into_iter().enumerate() {
            let id = format!("{}-control-{index}", prefix(&app));
            let client = client.with("x-request-id", &id);
            let reply: Reply = match body {
                Some(body) => client.json(method, path, body).await,
                None => client.send(method, path, None).await,
            };
            assert_eq!(reply.header("x-request-id"), id);

            let line = line_of(&id);

            let about = fields(&line, &["method", "route", "status", "code"]);
            assert_eq!(about, expected, "{path}: {line:?}");
            let origin = fields(&line, &["message", "level", "client.ip"]);
            assert_eq!(origin, json!([ENDED, "INFO", "127.0.0.1"]));
            assert!(line["duration_ms"].as_f64().unwrap() >= 0.0);
        }
        let who = line_of(&format!("{}-control-0", prefix(&app)));
        assert_eq!(fields(&who, &["customer.id", "key.id"]), json!([customer.id, customer.key_id]));
        app
    })
    .await;
}

/// A page shows the failure of the route that it used, and is itself a good page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_of_a_page_that_shows_a_failure_has_its_code() {
    catch();
    let app = TestApp::on_sqlite("").await;
    let id = format!("{}-login-page", prefix(&app));
    let client = app.anonymous().with("x-request-id", &id).with("sec-fetch-site", "same-origin");
    let client = client.with("content-type", "application/x-www-form-urlencoded");

    let form = b"email=ada%40example.com&password=wrong+one&next=".to_vec();
    let refused = client.send("POST", "/console/login", Some(form)).await;

    assert_eq!(refused.status, 401, "{}", refused.text());
    let line = line_of(&id);
    let about = fields(&line, &["route", "status", "code"]);
    assert_eq!(about, json!(["/console/login", 401, "wrong_credentials"]), "{line:?}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_logins_and_registrations_have_the_customer_and_no_secret() {
    catch();
    let app = TestApp::on_sqlite("").await;
    let form = json!({"email": "ada@example.com", "password": "correct horse battery"});

    let registered =
        app.anonymous().with("x-request-id", "registered").post("/v1/auth/register", &form).await;
    let browser = app.anonymous().with("x-request-id", "logged-in");
    let login = browser.post("/v1/auth/login", &form).await;
    assert_eq!((registered.status, login.status), (201, 200), "{}", login.text());
    let session = app.anonymous().with_session(&login.cookie());
    assert_eq!(session.with("x-request-id", "by-session").get("/v1/auth/me").await.status, 200);
    let token = app.mailed_token("ada@example.com").await;
    let link = format!("/v1/auth/email/verify?token={token}");
    assert_eq!(app.anonymous().with("x-request-id", "link").get(&link).await.status, 200);

    let registered = registered.json();
    let customer = &registered["customer"]["customer_id"];
    let proof = json!({"token": token, "current_password": "correct horse battery"});
    let confirming = app.anonymous().with("x-request-id", "confirmed");
    assert_eq!(confirming.post("/v1/auth/email/verify", &proof).await.status, 200);
    let forgot = json!({"email": "ada@example.com"});
    app.anonymous().post("/v1/auth/password/forgot", &forgot).await;
    let reset = app.mailed_token("ada@example.com").await;
    let reset = json!({"token": reset, "new_password": "another long password"});
    let resetting = app.anonymous().with("x-request-id", "was-reset");
    assert_eq!(resetting.post("/v1/auth/password/reset", &reset).await.status, 204);
    for (id, key) in [
        ("registered", &registered["key_id"]),
        ("logged-in", &Value::Null),
        ("by-session", &Value::Null),
        ("confirmed", &Value::Null),
        ("was-reset", &Value::Null),
    ] {
        assert_eq!(
            fields(&line_of(id), &["customer.id", "key.id"]),
            json!([customer, key]),
            "{id}"
        );
    }
    assert_eq!(line_of("link")["route"], "/v1/auth/email/verify");
    let log = everything();
    let cookie = login.cookie();
    let secrets = [
        registered["api_key"].as_str().unwrap(),
        cookie.split_once('=').unwrap().1,
        &token,
        "correct horse",
        "ada@example.com",
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "{secret}");
    }
    app.end().await;
}

/// The line of the request cannot say whose password was guessed: the caller is not the customer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_logged_with_the_customer_and_the_address_that_sent_it() {
    catch();
    let app = TestApp::on_sqlite("[http]\ntrusted_proxies = [\"127.0.0.1\"]").await;
    let customer = app.member("guessed@example.com").await.customer;
    let stranger = app.anonymous().with("x-forwarded-for", "203.0.113.77");
    let stranger = stranger.with("x-forwarded-proto", "https");

    for email in ["guessed@example.com", "unknown@example.com"] {
        let form = json!({"email": email, "password": "wrong password"});
        assert_eq!(stranger.post("/v1/auth/login", &form).await.status, 401);
    }

    let log = everything();
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("203.0.113.77") && line.contains("a password was wrong"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let known: Vec<_> = lines.iter().map(|line| line["customer.id"].clone()).collect();
    assert_eq!(known, [json!(customer.id), Value::Null], "{lines:?}");
    assert!(!log.contains("unknown@example.com"), "it may be a password in the wrong field");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_platform_that_cannot_prove_who_it_is_is_logged_as_a_warning() {
    catch();
    let script = |_: &Seen, _: usize| Script::Answer(answer(200, "", "{}"));
    on_stage("platform_alpha", "", script, async |mut stage| {
        stage
            .restart_with(|config| {
                let alpha = config.platforms.get_mut(domain::platform::Platform::ALPHA).unwrap();
                alpha.base_url = alpha.base_url.replace("http://", "https://");
            })
            .await;

        let refused = stage.get("users/me").await;

        assert_eq!(refused.header("x-error-source"), "gateway", "{}", refused.text());
        let lines = everything();
        let said = |line: &&str| line.contains("a call was not sent") && line.contains("\"WARN\"");
        let line = lines.lines().rfind(said).unwrap();
        assert!(line.contains("the TLS handshake failed"), "{line}");
        stage
    })
    .await;
}

/// Probes arrive every few seconds, and their lines would fill the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_logged_at_debug_level_and_staff_commands_at_info() {
    catch();
    let app = TestApp::on_sqlite("").await;
    let staff = app.admin().bearer("wrong");

    app.anonymous().with("x-request-id", "health").get("/health").await;
    app.admin().with("x-request-id", "ready").get("/ready").await;
    let refused = staff.with("x-request-id", "staff").post("/commands", &json!({})).await;

    assert_eq!(refused.header("x-request-id"), "staff");
    for (id, expected) in [
        ("health", json!(["DEBUG", "GET", "/health", 200])),
        ("ready", json!(["DEBUG", "GET", "/ready", 200])),
        ("staff", json!(["INFO", "POST", "/commands", 401])),
    ] {
        assert_eq!(fields(&line_of(id), &["level", "method", "route", "status"]), expected, "{id}");
    }
    app.end().await;
}

async fn call(id: &str, client: &Client, method: &str, path: &str) -> Reply {
    let client = client.with("x-request-id", id);
    let reply = match method {
        "GET" => client.get(path).await,
        _ => client.json(method, path, &json!({"name": "a"})).await,
    };
    assert_eq!(reply.header("x-request-id"), id);
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_native_call_has_one_line_whether_held_refused_or_replayed() {
    catch();
    let script = |_: &Seen, _: usize| Script::Answer(answer(200, "", "{}"));
    on_stage("platform_alpha", "[http]\nunlisted_routes = \"refuse\"", script, async |stage| {
        let id = |name: &str| format!("{}-{name}", prefix(&stage.app));
        let (read, write) = (stage.path("users/me"), stage.path("lists"));
        let secret_query = format!("{read}?secret=hunter2");
        let nobody = stage.app.anonymous();
        let once = stage.client.with("idempotency-key", &id("once"));
        for (name, client, method, path, status) in [
            ("read", &stage.client, "GET", &secret_query, 200),
            ("written", &once, "POST", &write, 200),
            ("replayed", &once, "POST", &write, 200),
            ("keyless", &nobody, "GET", &secret_query, 401),
            ("unlisted", &stage.client, "GET", &stage.path("hunter2"), 404),
            ("elsewhere", &stage.client, "GET", &"/v1/eve/native/users/me".to_owned(), 404),
        ] {
            let reply = call(&id(name), client, method, path).await;
            assert_eq!(reply.status, status, "{name}: {}", reply.text());
        }

        let (customer, key) = (&stage.customer.id, &stage.customer.key_id);
        let native = "/v1/{account}/native/{native_path}";
        for (name, message, expected) in [
            ("read", "call ended", json!(["GET", "GET users/me", 200, null, customer, key])),
            ("written", "call ended", json!(["POST", "POST lists", 200, null, customer, key])),
            ("replayed", ENDED, json!(["POST", native, 200, null, customer, key])),
            ("keyless", ENDED, json!(["GET", native, 401, "missing_key", null, null])),
            ("elsewhere", ENDED, json!(["GET", native, 404, "account_not_found", customer, key])),
        ] {
            let line = line_of(&id(name));
            let told = ["method", "route", "status", "code", "customer.id", "key.id"];
            assert_eq!(fields(&line, &told), expected, "{name}: {line:?}");
            assert_eq!(fields(&line, &["message", "client.ip"]), json!([message, "127.0.0.1"]));
        }
        assert_eq!(fields(&line_of(&id("unlisted")), &["message", "status"]), json!([ENDED, 404]));
        assert_eq!(line_of(&id("replayed"))["replayed"], true);
        for secret in ["hunter2", CANARY, stage.customer.key.as_str()] {
            assert!(!everything().contains(secret), "{secret}");
        }
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_of_a_call_that_fails_at_the_platform_has_our_code() {
    catch();
    let script = |_: &Seen, _: usize| Script::Answer(b"nonsense".to_vec());
    on_stage("platform_alpha", "", script, async |stage| {
        let id = format!("{}-failed", prefix(&stage.app));
        let path = stage.path("users/me");

        let reply = call(&id, &stage.client, "GET", &path).await;

        let line = line_of(&id);
        assert_eq!(line["message"], "call ended");
        assert_eq!(fields(&line, &["status", "code"]), json!([reply.status, reply.code()]));
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_head_has_a_line() {
    catch();
    let app = TestApp::on_sqlite("").await;
    let mut raw = RawConnection::open(app.running().address()).await;

    raw.send("GET /v1/ada/native/users/me?secret=hunter2 HTTP/1.1\r\nHost: a\r\nHost: b\r\nX-Request-Id: two-hosts\r\n\r\n")
        .await;
    assert_eq!(raw.answer().await.unwrap().status, 400);

    let line = line_of("two-hosts");
    let told = fields(&line, &["message", "method", "route", "status", "client.ip"]);
    assert_eq!(told, json!([ENDED, "GET", null, 400, "127.0.0.1"]));
    assert!(line["code"].is_string() && !everything().contains("hunter2"), "{line:?}");
    app.end().await;
}

/// The client behind a trusted proxy, not the proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_in_a_line_is_that_of_the_client_behind_the_proxy() {
    catch();
    let app = TestApp::on_sqlite("[http]\ntrusted_proxies = [\"127.0.0.1\"]").await;
    let caller = app.anonymous().with("x-forwarded-for", "203.0.113.7");

    caller.with("x-request-id", "control").get("/v1/whoami").await;
    caller.with("x-request-id", "native").get("/v1/ada/native/users/me").await;

    for id in ["control", "native"] {
        assert_eq!(line_of(id)["client.ip"], "203.0.113.7", "{id}");
    }
    app.end().await;
}
