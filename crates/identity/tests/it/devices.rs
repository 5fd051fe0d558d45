//! Device cookies: a browser in which a customer logged in is not locked out by wrong passwords of
//! others, and has a limit of its own.
#![expect(
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use serde_json::{Value, json};
use test_service::member::PASSWORD;
use test_service::{Client, Reply, TestApp};

const ADA: &str = "ada@example.com";
const BOB: &str = "bob@example.com";
const NEW_PASSWORD: &str = "another long password";
const LOGIN: &str = "/v1/auth/login";
const HERE: &str = "203.0.113.5";
const DAY_S: i64 = 86_400;
const BEHIND_A_PROXY: &str = "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n\
    public_base_url = \"https://api.example.com\"";

fn form(email: &str, password: &str) -> Value {
    json!({"email": email, "password": password})
}

/// A client at this address that reaches the service over https through a proxy.
fn from(app: &TestApp, address: &str) -> Client {
    app.anonymous().with("x-forwarded-for", address).with("x-forwarded-proto", "https")
}

/// The device cookie that a response sets, with its attributes.
fn device_cookie(reply: &Reply) -> (String, String) {
    let mut set = reply.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    let own = set.find(|text| text.starts_with("__Host-device=")).unwrap();
    let (cookie, attributes) = own.split_once("; ").unwrap();
    (cookie.to_owned(), attributes.to_owned())
}

/// Logs in with this `Cookie` header, and returns the new device cookie.
async fn logged_in(app: &TestApp, email: &str, cookie: &str) -> String {
    let reply = from(app, HERE).with("cookie", cookie).post(LOGIN, &form(email, PASSWORD)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    device_cookie(&reply).0
}

/// A service whose customers Ada and Bob have registered, and Ada's device cookie.
async fn with_ada() -> (TestApp, String) {
    let app = TestApp::on_sqlite(BEHIND_A_PROXY).await;
    app.member(ADA).await;
    app.member(BOB).await;
    let cookie = logged_in(&app, ADA, "").await;
    (app, cookie)
}

/// A neighbour in the same /24 guesses until the network is refused.
async fn neighbour_guesses(app: &TestApp, email: &str) {
    for _ in 0..10 {
        from(app, "203.0.113.99").post(LOGIN, &form(email, "wrong password")).await;
    }
    let refused = try_with(app, email, "").await;
    assert_eq!(refused.failure(), (429, "too_many_logins".to_owned()));
}

/// The response to the right password from the network of the neighbour.
async fn try_with(app: &TestApp, email: &str, cookie: &str) -> Reply {
    from(app, HERE).with("cookie", cookie).post(LOGIN, &form(email, PASSWORD)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_sets_a_device_cookie_that_names_nobody_and_lets_nobody_in() {
    let (app, _) = with_ada().await;

    let reply = try_with(&app, ADA, "").await;

    let (cookie, attributes) = device_cookie(&reply);
    assert_eq!(attributes, "Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax; Secure");
    let body = reply.json();
    let customer = body["customer"]["customer_id"].as_str().unwrap();
    assert!(!cookie.contains(customer) && !cookie.contains(ADA), "{cookie}");
    let me = from(&app, HERE).with_session(&cookie).get("/v1/auth/me").await;
    assert_eq!(me.failure(), (401, "missing_session".to_owned()));
    let wrong = from(&app, HERE).with("cookie", &cookie);
    let wrong = wrong.post(LOGIN, &form(ADA, "wrong password")).await;
    assert_eq!(wrong.failure(), (401, "wrong_credentials".to_owned()));
    assert!(!wrong.headers.contains_key("set-cookie"));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_of_a_neighbour_do_not_lock_a_recognized_browser_out() {
    let (app, cookie) = with_ada().await;
    let session = try_with(&app, ADA, "").await.cookie();

    neighbour_guesses(&app, ADA).await;

    assert_eq!(try_with(&app, ADA, &cookie).await.status, 200);
    // The same holds where the password is asked for again.
    let change = json!({"current_password": PASSWORD, "new_password": NEW_PASSWORD});
    let changed = from(&app, HERE).with_session(&session).post("/v1/auth/password", &change).await;
    assert_eq!(changed.failure(), (429, "too_many_logins".to_owned()));
    let browser = from(&app, HERE).with_session(&format!("{session}; {cookie}"));
    let changed = browser.post("/v1/auth/password", &change).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    // The change renews the cookie, and the earlier one has ended.
    let renewed = device_cookie(&changed).0;
    let login = form(ADA, NEW_PASSWORD);
    let earlier = from(&app, HERE).with("cookie", &cookie).post(LOGIN, &login).await;
    assert_eq!(earlier.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(from(&app, HERE).with("cookie", &renewed).post(LOGIN, &login).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_from_many_networks_do_not_lock_a_recognized_browser_out() {
    let (app, cookie) = with_ada().await;
    let wrong = form(ADA, "wrong password");

    for host in 0..100 {
        let guess = from(&app, &format!("198.51.{host}.7")).post(LOGIN, &wrong).await;
        assert_eq!(guess.code(), "wrong_credentials");
    }

    // Not even from the network of the latest login.
    let refused = try_with(&app, ADA, "").await;
    assert_eq!(refused.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(try_with(&app, ADA, &cookie).await.status, 200);
    let elsewhere = from(&app, "192.0.2.1").with("cookie", &cookie);
    assert_eq!(elsewhere.post(LOGIN, &form(ADA, PASSWORD)).await.status, 200);
    assert_eq!(try_with(&app, BOB, "").await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_cookie_outlives_a_restart_and_ends_after_90_days() {
    let (app, cookie) = with_ada().await;
    let app = app.restart().await;
    neighbour_guesses(&app, ADA).await;
    assert_eq!(try_with(&app, ADA, &cookie).await.status, 200);

    app.advance_seconds(89 * DAY_S);
    neighbour_guesses(&app, ADA).await;
    let renewed = logged_in(&app, ADA, &cookie).await;
    app.advance_seconds(2 * DAY_S);
    neighbour_guesses(&app, ADA).await;

    assert_eq!(try_with(&app, ADA, &cookie).await.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(try_with(&app, ADA, &renewed).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_genuine_cookie_of_the_customer_counts() {
    let (app, cookie) = with_ada().await;
    let bobs = logged_in(&app, BOB, "").await;
    neighbour_guesses(&app, ADA).await;
    let value = cookie.strip_prefix("__Host-device=").unwrap();
    let parts: Vec<&str> = value.split('.').collect();
    let bobs_parts: Vec<&str> = bobs.strip_prefix("__Host-device=").unwrap().split('.').collect();
    let issued_at: i64 = parts[1].parse().unwrap();
    let forged = |id: &str, issued_at: i64, signature: &str| {
        format!("__Host-device={id}.{issued_at}.{signature}")
    };

    for (what, wrong) in [
        ("of another customer", bobs.clone()),
        ("with another id", forged(bobs_parts[0], issued_at, parts[2])),
        ("with another time", forged(parts[0], issued_at + 1, parts[2])),
        ("with another signature", forged(parts[0], issued_at, &"0".repeat(64))),
        ("without a signature", forged(parts[0], issued_at, "")),
        ("of another name", format!("device={value}")),
        ("sent twice", format!("{cookie}; {cookie}")),
    ] {
        let refused = try_with(&app, ADA, &wrong).await;
        assert_eq!(refused.failure(), (429, "too_many_logins".to_owned()), "{what}");
    }
    assert_eq!(try_with(&app, ADA, &cookie).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_wrong_passwords_limit_a_recognized_browser_alone() {
    let (app, cookie) = with_ada().await;
    let other = logged_in(&app, ADA, "").await;
    let browser = from(&app, HERE).with("cookie", &cookie);

    for _ in 0..10 {
        let guess = browser.post(LOGIN, &form(ADA, "wrong password")).await;
        assert_eq!(guess.code(), "wrong_credentials");
    }
    let before = app.running().password_hashes();
    let refused = try_with(&app, ADA, &cookie).await;

    assert_eq!(refused.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(app.running().password_hashes(), before, "a refused login must not be hashed");
    let wait_s: i64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=360).contains(&wait_s), "{wait_s}");
    // Nobody else is affected: another browser of the customer, or one that is not recognized.
    assert_eq!(try_with(&app, ADA, &other).await.status, 200);
    assert_eq!(try_with(&app, ADA, "").await.status, 200);
    app.advance_seconds(wait_s);
    assert_eq!(try_with(&app, ADA, &cookie).await.status, 200);
    assert_eq!(browser.post(LOGIN, &form(ADA, "wrong password")).await.status, 401);
    assert_eq!(try_with(&app, ADA, &cookie).await.status, 429);
    // A new cookie of the same browser does not start at zero.
    app.advance_seconds(3_600);
    let renewed = logged_in(&app, ADA, &cookie).await;
    for cookie in [&cookie, &renewed].repeat(5) {
        let browser = from(&app, HERE).with("cookie", cookie);
        assert_eq!(browser.post(LOGIN, &form(ADA, "wrong password")).await.status, 401);
    }
    assert_eq!(try_with(&app, ADA, &renewed).await.status, 429);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recognized_browser_can_confirm_an_address_whatever_others_guess() {
    let (app, cookie) = with_ada().await;
    let token = app.mailed_token(ADA).await;
    let confirm = |cookie: &str, password: &str| {
        let browser = from(&app, HERE).with("cookie", cookie);
        let body = json!({"token": token, "current_password": password});
        async move { browser.post("/v1/auth/email/verify", &body).await }
    };
    neighbour_guesses(&app, ADA).await;

    let stranger = confirm("", PASSWORD).await;
    let mut guesses = Vec::new();
    for _ in 0..10 {
        guesses.push(confirm(&cookie, "wrong password").await.code());
    }
    let refused = confirm(&cookie, PASSWORD).await;
    let login = try_with(&app, ADA, &cookie).await;
    app.advance_seconds(360);
    // The page of the link does the same.
    let page = from(&app, HERE).with("cookie", &cookie).with("sec-fetch-site", "same-origin");
    let page = page.with("content-type", "application/x-www-form-urlencoded");
    let fields = format!("token={token}&current_password={}", PASSWORD.replace(' ', "+"));
    let page = page.send("POST", "/console/confirm", Some(fields.into_bytes())).await;

    assert_eq!(stranger.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(guesses, ["wrong_password"; 10]);
    assert_eq!(refused.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(login.code(), "too_many_logins", "the browser has one counter for all of it");
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(confirm(&cookie, PASSWORD).await.code(), "link_used");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_reset_ends_device_cookies_and_sets_one() {
    let (app, cookie) = with_ada().await;
    neighbour_guesses(&app, ADA).await;
    // The email of the registration is sent first.
    app.run_jobs().await;
    let ask = json!({"email": ADA});
    from(&app, HERE).post("/v1/auth/password/forgot", &ask).await;
    let reset = json!({"token": app.mailed_token(ADA).await, "new_password": NEW_PASSWORD});

    let done = from(&app, HERE).post("/v1/auth/password/reset", &reset).await;

    assert_eq!(done.status, 204, "{}", done.text());
    let login = form(ADA, NEW_PASSWORD);
    let earlier = from(&app, HERE).with("cookie", &cookie).post(LOGIN, &login).await;
    assert_eq!(earlier.failure(), (429, "too_many_logins".to_owned()));
    let new = device_cookie(&done).0;
    assert_eq!(from(&app, HERE).with("cookie", &new).post(LOGIN, &login).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_four_customers_of_a_browser_are_recognized() {
    let (app, cookie) = with_ada().await;
    let mut cookie = logged_in(&app, BOB, &cookie).await;
    for email in ["cleo@example.com", "dora@example.com"] {
        app.member(email).await;
        cookie = logged_in(&app, email, &cookie).await;
    }
    neighbour_guesses(&app, ADA).await;
    neighbour_guesses(&app, BOB).await;

    assert_eq!(try_with(&app, BOB, &cookie).await.status, 200);
    assert_eq!(try_with(&app, ADA, &cookie).await.status, 200);
    app.member("eve@example.com").await;
    let fifth = logged_in(&app, "eve@example.com", &cookie).await;

    assert_eq!(try_with(&app, BOB, &fifth).await.status, 200);
    assert_eq!(try_with(&app, ADA, &fifth).await.status, 429, "it came first");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_keeps_the_device_cookie_beyond_the_logout() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;
    let page = browser.open("/console/settings").await;
    browser.submit(&page, "/console/logout", &[]).await;
    for _ in 0..10 {
        assert_eq!(app.try_log_in(ADA, "wrong password").await.status, 401);
    }
    let fields = [("email", ADA), ("password", PASSWORD)];

    for (browser, status) in [(app.browser(), 429), (browser, 303)] {
        let page = browser.open("/console/login").await;
        let done = browser.submit(&page, "/console/login", &fields).await;
        assert_eq!(done.status(), status, "{}", done.html());
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_password_in_the_console_sets_a_device_cookie() {
    let app = TestApp::on_sqlite("").await;
    app.member(ADA).await;
    for _ in 0..10 {
        assert_eq!(app.try_log_in(ADA, "wrong password").await.status, 401);
    }
    app.run_jobs().await;
    app.anonymous().post("/v1/auth/password/forgot", &json!({"email": ADA})).await;
    let token = app.mailed_token(ADA).await;
    let browser = app.browser();
    let page = browser.open(&format!("/console/reset?token={token}")).await;
    let fields = [("new_password", NEW_PASSWORD), ("repeated", NEW_PASSWORD)];

    let done = browser.submit(&page, "/console/reset", &fields).await;

    assert_eq!(done.status(), 200, "{}", done.html());
    let fields = [("email", ADA), ("password", NEW_PASSWORD)];
    let page = browser.open("/console/login").await;
    assert_eq!(browser.submit(&page, "/console/login", &fields).await.status(), 303);
    app.end().await;
}

/// One network sends logins without end, with a single place to hash. Neither a customer elsewhere
/// nor a recognized browser in the same network is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steady_flood_from_one_network_refuses_no_login_of_others() {
    let settings = format!(
        "{BEHIND_A_PROXY}\n[passwords]\nat_once = 1\nwaiting_max = 8\n\
         [rate_limits]\nfailed_logins_per_network_per_hour = 100000"
    );
    let app = TestApp::on_sqlite(&settings).await;
    app.member(ADA).await;
    app.member(BOB).await;
    let cookie = logged_in(&app, ADA, "").await;

    let flood = test_service::at_once((0..14).map(|sender| {
        let client = from(&app, HERE);
        async move {
            let mut refused = 0;
            for number in 0..12 {
                let form = form(&format!("n{sender}-{number}@example.com"), "wrong password");
                refused += usize::from(client.post(LOGIN, &form).await.code() == "overloaded");
            }
            refused
        }
    }));
    let others = async {
        let mut statuses = Vec::new();
        for _ in 0..8 {
            let bob = from(&app, "192.0.2.1");
            statuses.push(bob.post(LOGIN, &form(BOB, PASSWORD)).await.status);
            statuses.push(try_with(&app, ADA, &cookie).await.status);
        }
        statuses
    };
    let (refused, statuses) = tokio::join!(flood, others);

    assert!(refused.iter().sum::<usize>() > 0, "the flood must fill the queue");
    assert_eq!(statuses, [200; 16]);
    app.end().await;
}
