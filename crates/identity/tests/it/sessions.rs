//! Sessions: what they allow, how they end, and which connections may carry them.

use serde_json::{Value, json};
use test_service::member::{Member, PASSWORD};
use test_service::{Client, TestApp, with_app};

const ME: &str = "/v1/auth/me";

async fn is_open(app: &TestApp, cookie: &str) -> bool {
    let reply = app.anonymous().with_session(cookie).get(ME).await;
    match reply.status {
        200 => true,
        _ => {
            assert_eq!(reply.failure(), (401, "invalid_session".to_owned()));
            false
        }
    }
}

/// A member with credits and an account, with a key and with a browser.
async fn everything(app: &TestApp) -> (Member, Client, Client, String) {
    let member = app.member("ada@example.com").await;
    app.grant(&member.customer, 100).await;
    let account = app.connect(&member.customer, "platform_alpha").await;
    let (program, browser) = (app.with_key(&member.customer.key), app.signed_in(&member).await);
    (member, program, browser, account)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_does_what_a_full_key_does_except_metered_calls() {
    with_app(async |app| {
        let (member, program, browser, account) = everything(&app).await;

        let usage = "/v1/billing/usage/daily?scope=customer";
        for path in ["/v1/accounts", "/v1/billing", "/v1/auth/keys", usage] {
            let (by_key, by_session) = (program.get(path).await, browser.get(path).await);
            assert_eq!(by_session.status, 200, "{path}");
            assert_eq!(by_session.json(), by_key.json(), "{path}");
        }
        let who = browser.get("/v1/whoami").await.json();
        assert_eq!(who["customer_id"], member.customer.id.as_str());
        assert_eq!((&who["key_id"], &who["prefix"]), (&Value::Null, &Value::Null));
        assert_eq!((&who["scope"], &who["accounts"]), (&json!("full"), &Value::Null));
        assert_eq!(who["connected_accounts"], json!([account]));
        let new = json!({"name": "new", "scope": "full", "current_password": PASSWORD});
        let made = browser.post("/v1/auth/keys", &new).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        let key = app.with_key(made["api_key"].as_str().unwrap());
        assert_eq!(key.get("/v1/whoami").await.json()["key_id"], made["key_id"]);
        let closed = format!("/v1/auth/keys/{}", made["key_id"].as_str().unwrap());
        assert_eq!(browser.delete(&closed).await.status, 204);
        assert_eq!(browser.delete(&format!("/v1/accounts/{account}")).await.status, 204);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_sees_its_own_usage_and_a_session_that_of_all_keys() {
    with_app(async |app| {
        let (member, first, browser, account) = everything(&app).await;
        let made = first.post("/v1/auth/keys", &json!({"name": "2", "scope": "full"})).await.json();
        let second = app.with_key(made["api_key"].as_str().unwrap());
        let native = format!("/v1/{account}/native/users/me");
        for caller in [&first, &second, &second] {
            assert_eq!(caller.get(&native).await.status, 200);
            app.settled(&first).await;
        }
        let (first_id, second_id) =
            (member.customer.key_id.as_str(), made["key_id"].as_str().unwrap());
        let calls = async |client: &Client, query: &str| {
            let daily = client.get(&format!("/v1/billing/usage/daily?days=1{query}")).await.json();
            let recent =
                client.get(&format!("/v1/billing/usage/recent?limit=9{query}")).await.json();
            (daily["days"][0]["calls"].as_i64().unwrap(), recent["calls"].as_array().unwrap().len())
        };
        let only = |key: &str| format!("&key_id={key}");

        assert_eq!(calls(&first, "").await, (1, 1));
        assert_eq!(calls(&second, "").await, (2, 2));
        assert_eq!(calls(&second, &only(second_id)).await, (2, 2));
        assert_eq!(calls(&browser, "").await, (3, 3));
        assert_eq!(calls(&browser, &only(first_id)).await, (1, 1));
        assert_eq!(calls(&browser, &only(second_id)).await, (2, 2));
        // A key without limits may see another key's usage.
        assert_eq!(calls(&first, &only(second_id)).await, (2, 2));
        for path in ["/v1/billing/usage/daily", "/v1/billing/usage/recent"] {
            let malformed = browser.get(&format!("{path}?key_id=x")).await;
            assert_eq!(malformed.status, 422);
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_after_12_hours_without_use_or_7_days() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let (idle, used) = (app.session(&member).await, app.session(&member).await);

        for _ in 0..2 {
            app.advance_seconds(6 * 3_600 - 1);
            assert!(is_open(&app, &used).await);
        }
        app.advance_seconds(2);
        assert!(!is_open(&app, &idle).await);
        assert!(is_open(&app, &used).await);
        // Used every eleven hours, until one second before the seven days end.
        let mut left = 7 * 86_400 - 12 * 3_600 - 1;
        while left > 0 {
            let step = left.min(11 * 3_600);
            app.advance_seconds(step);
            left -= step;
            assert!(is_open(&app, &used).await, "{left} s before its end");
        }
        app.advance_seconds(1);
        assert!(!is_open(&app, &used).await);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_use_is_stored_once_a_minute() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;
        let last_used = async || {
            let listed = browser.get("/v1/auth/sessions").await.json();
            listed["sessions"][0]["last_used_at"].as_str().unwrap().to_owned()
        };

        app.advance_seconds(59);
        assert_eq!(last_used().await, "2026-11-21T12:00:00.000000Z");
        app.advance_seconds(1);
        assert_eq!(last_used().await, "2026-11-21T12:01:00.000000Z");
        app.advance_seconds(59);
        assert_eq!(last_used().await, "2026-11-21T12:01:00.000000Z");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_sees_its_devices_and_can_end_each_session() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        app.session(&app.member("bob@example.com").await).await;
        let login = json!({"email": member.email, "password": PASSWORD});
        let laptop = app.anonymous().with("user-agent", "Laptop/1.0");
        let laptop = laptop.post("/v1/auth/login", &login).await;
        let phone = app.anonymous().with("user-agent", &"p".repeat(500));
        let phone = phone.post("/v1/auth/login", &login).await;
        app.advance_seconds(60);
        let browser = app.anonymous().with_session(&laptop.cookie());

        let listed = browser.get("/v1/auth/sessions").await;

        let sessions = listed.json()["sessions"].as_array().unwrap().clone();
        assert_eq!(sessions.len(), 2, "{listed:?}");
        assert_eq!(sessions[0]["session_id"], laptop.json()["session_id"]);
        assert_eq!(
            (&sessions[0]["current"], &sessions[1]["current"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(sessions[0]["user_agent"], "Laptop/1.0");
        assert_eq!(sessions[1]["user_agent"], "p".repeat(200));
        assert_eq!(sessions[0]["network"], "127.0.0.0/24");
        assert_eq!(sessions[1]["idle_expires_at"], "2026-11-22T00:00:00.000000Z");
        for token in [laptop.cookie(), phone.cookie()] {
            let token = token.strip_prefix("session=").unwrap().to_owned();
            assert!(!listed.text().contains(&token), "a token must not be shown");
        }
        let phone_id = phone.json()["session_id"].as_str().unwrap().to_owned();
        let path = format!("/v1/auth/sessions/{phone_id}");
        assert_eq!(browser.delete(&path).await.status, 204);
        assert_eq!(browser.delete(&path).await.failure(), (404, "not_found".to_owned()));
        assert!(!is_open(&app, &phone.cookie()).await);
        assert!(is_open(&app, &laptop.cookie()).await);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_ends_the_session_and_removes_the_cookie() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let (cookie, other) = (app.session(&member).await, app.session(&member).await);

        let reply = app.anonymous().with_session(&cookie).post("/v1/auth/logout", &json!({})).await;

        assert_eq!((reply.status, reply.body.len()), (204, 0));
        assert_eq!(
            reply.header("set-cookie"),
            "session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
        );
        assert!(!is_open(&app, &cookie).await);
        assert!(is_open(&app, &other).await);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_password_ends_all_sessions_and_starts_one_for_the_calling_device() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let bob = app.session(&app.member("bob@example.com").await).await;
        let (calling, other) = (app.session(&member).await, app.session(&member).await);
        let change = json!({"current_password": PASSWORD, "new_password": "another long password"});

        let browser = app.anonymous().with_session(&calling);
        let reply = browser.post("/v1/auth/password", &change).await;

        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(!is_open(&app, &calling).await);
        assert!(!is_open(&app, &other).await);
        assert!(is_open(&app, &reply.cookie()).await);
        assert!(is_open(&app, &bob).await);
        assert_eq!(app.try_log_in(&member.email, PASSWORD).await.status, 401);
        assert_eq!(app.try_log_in(&member.email, "another long password").await.status, 200);
        // Keys are not sessions, so programs continue to work.
        assert_eq!(app.with_key(&member.customer.key).get("/v1/whoami").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_current_password_changes_nothing_and_counts_as_a_guess() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;
        let id = &member.customer.key_id;
        let wrong = [
            ("/v1/auth/password", json!({"current_password": "no", "new_password": "long enough"})),
            ("/v1/auth/keys/rotate", json!({"key_id": id, "current_password": "wrong"})),
        ];

        for guess in 0..10 {
            let (path, body) = &wrong[guess % 2];
            let reply = browser.post(path, body).await;
            assert_eq!(reply.failure(), (403, "wrong_password".to_owned()), "{path}");
        }
        for (path, body) in &wrong {
            let reply = browser.post(path, body).await;
            assert_eq!(reply.failure(), (429, "too_many_logins".to_owned()), "{path}");
        }

        assert_eq!(app.with_key(&member.customer.key).get("/v1/whoami").await.status, 200);
        app.advance_seconds(3_600);
        assert_eq!(app.try_log_in(&member.email, PASSWORD).await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_by_session_needs_the_key_id_and_the_password() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;
        let rotate = async |body: Value| browser.post("/v1/auth/keys/rotate", &body).await;
        let missing = |field: &str| [(format!("body.{field}"), "missing".to_owned())];
        let id = &member.customer.key_id;

        let unnamed = rotate(json!({"current_password": PASSWORD})).await;
        let unconfirmed = rotate(json!({"key_id": id})).await;
        assert_eq!(unnamed.wrong_fields(), missing("key_id"));
        assert_eq!(unconfirmed.wrong_fields(), missing("current_password"));
        assert_eq!(app.with_key(&member.customer.key).get("/v1/whoami").await.status, 200);

        let rotated = rotate(json!({"key_id": id, "current_password": PASSWORD})).await;

        assert_eq!(rotated.status, 200, "{}", rotated.text());
        let fresh = rotated.json()["api_key"].as_str().unwrap().to_owned();
        assert_eq!(app.with_key(&fresh).get("/v1/whoami").await.json()["key_id"], id.as_str());
        let old = app.with_key(&member.customer.key).get("/v1/whoami").await;
        assert_eq!(old.failure(), (401, "invalid_key".to_owned()));
        app
    })
    .await;
}

/// If a key is sent, it decides with its limits; the cookie that a browser adds permits nothing
/// more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_sent_with_a_session_of_the_same_customer_decides() {
    with_app(async |app| {
        let (_member, program, browser, account) = everything(&app).await;
        let made = program.post("/v1/auth/keys", &json!({"name": "r", "scope": "read_only"})).await;
        let read_only = made.json()["api_key"].as_str().unwrap().to_owned();
        let both = browser.with_key(&read_only);
        let new = json!({"name": "more", "scope": "full"});

        assert_eq!(both.get("/v1/whoami").await.json()["scope"], "read_only");
        assert_eq!(both.post("/v1/auth/keys", &new).await.code(), "read_only_key");
        assert_eq!(both.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        // Routes for sessions only use the session; an invalid key is refused even beside a
        // session.
        assert_eq!(both.get(ME).await.status, 200);
        let wrong = browser.with_key("cgw_live_wrong");
        assert_eq!(wrong.get("/v1/whoami").await.failure(), (401, "invalid_key".to_owned()));
        assert_eq!(wrong.get(ME).await.failure(), (401, "invalid_key".to_owned()));
        // An expired cookie does not affect a key.
        let over = program.with_session("session=over");
        assert_eq!(over.get("/v1/whoami").await.status, 200);
        assert_eq!(over.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        app.settled(&program).await;
        app
    })
    .await;
}

/// Requests that a form of any page can send change nothing, even if they claim to come from one of
/// our pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_by_a_session_need_json() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member("ada@example.com").await;
    let browser = app.signed_in(&member).await;
    let body = json!({"name": "x", "scope": "full"}).to_string().into_bytes();

    for media_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let form = browser.with("content-type", media_type);
        for path in ["/v1/auth/keys", "/v1/auth/logout", "/v1/auth/password"] {
            let reply = form.send("POST", path, Some(body.clone())).await;
            assert_eq!(reply.failure(), (415, "unsupported_media_type".to_owned()), "{path}");
        }
    }
    let undescribed = browser.send("POST", "/v1/auth/keys", Some(body)).await;
    assert_eq!(undescribed.failure(), (415, "unsupported_media_type".to_owned()));
    assert_eq!(browser.get(ME).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_sec_fetch_site_the_origin_identifies_our_pages() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member("ada@example.com").await;
    let cookie = app.session(&member).await;
    let browser = app.anonymous().with("cookie", &cookie);
    let own = format!("http://{}", app.running().address());
    let name = json!({"name": "Ada"});

    for (header, value, expected) in [
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        ("origin", own.as_str(), 200),
        ("referer", &format!("{own}/console/me"), 200),
        ("origin", "http://127.0.0.1:8080", 200),
        ("origin", "http://127.0.0.1:1", 403),
    ] {
        let reply = browser.with(header, value).json("PATCH", ME, &name).await;
        assert_eq!(reply.status, expected, "{header}: {value}: {}", reply.text());
    }
    app.end().await;
}

/// Behind an https proxy the cookie is marked for https only; over plain HTTP there are no
/// sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cookie_is_secure_over_https_and_absent_over_plain_http() {
    let app = TestApp::on_sqlite(
        "[http]\ntrusted_proxies = [\"127.0.0.1\"]\npublic_base_url = \"https://api.example.com\"",
    )
    .await;
    let member = app.member("ada@example.com").await;
    let form = json!({"email": member.email, "password": PASSWORD});
    let https = app.anonymous().with("x-forwarded-proto", "https");

    let reply = https.with("x-forwarded-for", "203.0.113.7").post("/v1/auth/login", &form).await;

    let cookie = reply.cookie();
    assert!(cookie.starts_with("__Host-session="), "{}", reply.text());
    assert!(reply.header("set-cookie").ends_with("; HttpOnly; SameSite=Lax; Secure"));
    let name = json!({"name": "Ada"});
    let page = https.with("cookie", &cookie).with("origin", "https://api.example.com");
    assert_eq!(page.json("PATCH", ME, &name).await.status, 200);
    let listed = page.get("/v1/auth/sessions").await.json();
    assert_eq!(listed["sessions"][0]["network"], "203.0.113.0/24");
    let plain = app.anonymous();
    for refused in [
        plain.post("/v1/auth/login", &form).await,
        plain.with("x-forwarded-proto", "http").post("/v1/auth/login", &form).await,
        plain.with("cookie", &cookie).get(ME).await,
        plain.with("cookie", &cookie).get("/v1/billing").await,
    ] {
        assert_eq!(refused.failure(), (403, "https_required".to_owned()));
        assert!(refused.header("set-cookie").is_empty());
    }
    assert_eq!(https.with_key(&member.customer.key).get("/v1/billing").await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_carries_sessions_of_this_machine_only() {
    let login = async |overrides: &str, address: &str| {
        let app = TestApp::on_sqlite(overrides).await;
        let member = app.member("ada@example.com").await;
        let form = json!({"email": member.email, "password": PASSWORD});
        let client = app.anonymous().with("x-forwarded-for", address);
        let reply = client.post("/v1/auth/login", &form).await;
        app.end().await;
        (reply.status, reply.code())
    };
    let proxy = "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let refused = (403, "https_required".to_owned());

    assert_eq!(
        login("", "203.0.113.7").await.0,
        200,
        "without a trusted proxy the client is this machine"
    );
    assert_eq!(login(proxy, "203.0.113.7").await, refused);
    let elsewhere = "[http]\npublic_base_url = \"http://api.example.com\"";
    assert_eq!(login(elsewhere, "127.0.0.1").await, refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_sessions_of_a_customer_is_limited() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[sessions]\nper_customer_max = 2").await;
    let member = app.member("ada@example.com").await;
    let first = app.session(&member).await;
    app.advance_seconds(60);
    let second = app.session(&member).await;
    app.advance_seconds(60);
    assert!(is_open(&app, &first).await, "this also makes it the one used last");

    let third = app.session(&member).await;

    assert!(is_open(&app, &first).await);
    assert!(!is_open(&app, &second).await);
    assert!(is_open(&app, &third).await);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_a_closed_customer_are_refused_immediately() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let cookie = app.session(&member).await;

        let id = member.customer.id.parse().unwrap();
        let closed = store::customers::disable(app.store(), id, app.clock.now()).await.unwrap();

        assert!(closed);
        assert!(!is_open(&app, &cookie).await);
        let browser = app.anonymous().with_session(&cookie);
        assert_eq!(browser.get("/v1/billing").await.code(), "invalid_session");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_survives_a_restart_of_the_service() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "").await;
    let member = app.member("ada@example.com").await;
    let cookie = app.session(&member).await;

    let again = app.restart().await;

    assert!(is_open(&again, &cookie).await);
    again.end().await;
}
