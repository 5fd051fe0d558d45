//! Logins: what a failed one reveals and costs, how often passwords may be tried, and the session
//! that a successful one starts.
#![expect(
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use store::customers::{self, PasswordHash};
use test_service::member::{Member, PASSWORD};
use test_service::{Client, Reply, TestApp, with_app};

const LOGIN: &str = "/v1/auth/login";
const BEHIND_A_PROXY: &str = "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n\
    public_base_url = \"https://api.example.com\"";

fn form(email: &str, password: &str) -> Value {
    json!({"email": email, "password": password})
}

/// The contents of a failure, without the request's id.
fn said(reply: &Reply) -> (u16, Value) {
    let mut body = reply.json();
    body.as_object_mut().unwrap().remove("request_id");
    (reply.status, body)
}

/// A client at this address that reaches the service over https through a proxy.
fn from(app: &TestApp, address: &str) -> Client {
    app.anonymous().with("x-forwarded-for", address).with("x-forwarded-proto", "https")
}

async fn close(app: &TestApp, member: &Member) {
    let id = member.customer.id.parse().unwrap();
    assert!(customers::disable(app.store(), id, app.clock.now()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_returns_a_session_and_its_customer() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;

        let reply = app.try_log_in("Ada@Example.com", PASSWORD).await;

        assert_eq!(reply.status, 200, "{}", reply.text());
        let body = reply.json();
        assert_eq!(body["customer"]["customer_id"], member.customer.id.as_str());
        assert_eq!(body["customer"]["email"], "ada@example.com");
        assert_eq!(body["expires_at"], "2026-11-28T12:00:00.000000Z");
        let (cookie, attributes) = reply.header("set-cookie").split_once("; ").unwrap();
        assert!(cookie.starts_with("session="), "{cookie}");
        assert_eq!(attributes, "Path=/; Max-Age=604800; HttpOnly; SameSite=Lax");
        let token = cookie.strip_prefix("session=").unwrap();
        assert!(!reply.text().contains(token), "the token must not be in the body");
        let browser = app.anonymous().with_session(cookie);
        let me = browser.get("/v1/auth/me").await.json();
        assert_eq!(me["customer_id"], body["customer"]["customer_id"]);
        app
    })
    .await;
}

/// An unknown address, a wrong password, a customer without a password and a closed customer get
/// the same response for the same work. Work is counted, not timed: one hash each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_login_reveals_nothing_and_always_costs_one_hash() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let closed = app.member("closed@example.com").await;
        close(&app, &closed).await;
        app.customer(0).await;
        let tries = [
            ("ada@example.com", "wrong password"),
            ("nobody@example.com", "wrong password"),
            ("nobody@example.com", ""),
            ("customer0@example.com", "wrong password"),
            ("customer0@example.com", ""),
            ("closed@example.com", PASSWORD),
        ];

        let mut answers = Vec::new();
        for (email, password) in tries {
            let before = app.running().password_hashes();
            let reply = app.try_log_in(email, password).await;
            assert_eq!(app.running().password_hashes() - before, 1, "{email}");
            assert!(reply.header("set-cookie").is_empty(), "{email}");
            answers.push(said(&reply));
        }

        assert_eq!(answers[0].0, 401);
        assert_eq!(answers[0].1["code"], "wrong_credentials");
        for answer in &answers {
            assert_eq!(answer, &answers[0]);
        }
        let before = app.running().password_hashes();
        assert_eq!(app.try_log_in(&member.email, PASSWORD).await.status, 200);
        assert_eq!(app.running().password_hashes() - before, 1);
        app
    })
    .await;
}

/// After ten wrong passwords one network must wait. Others need not, so one caller cannot lock out
/// another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_passwords_are_limited_by_customer_and_network_and_lock_no_one_else_out() {
    let app = TestApp::on_sqlite(BEHIND_A_PROXY).await;
    app.member("ada@example.com").await;
    app.member("bob@example.com").await;
    let wrong = form("ada@example.com", "wrong password");
    let right = form("ada@example.com", PASSWORD);

    for host in 0..10 {
        let reply = from(&app, &format!("203.0.113.{host}")).post(LOGIN, &wrong).await;
        assert_eq!(reply.code(), "wrong_credentials");
    }
    let before = app.running().password_hashes();
    let refused = from(&app, "203.0.113.99").post(LOGIN, &right).await;

    assert_eq!(refused.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(app.running().password_hashes(), before, "a refused login must not be hashed");
    let wait_s: i64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=360).contains(&wait_s), "{wait_s}");
    // From other networks, and for other customers, nothing has changed.
    assert_eq!(from(&app, "203.0.114.99").post(LOGIN, &right).await.status, 200);
    let other = form("bob@example.com", PASSWORD);
    assert_eq!(from(&app, "203.0.113.99").post(LOGIN, &other).await.status, 200);
    app.advance_seconds(wait_s);
    assert_eq!(from(&app, "203.0.113.99").post(LOGIN, &right).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_address_is_limited_like_any_other() {
    let app = TestApp::on_sqlite(BEHIND_A_PROXY).await;
    let form = form("nobody@example.com", "wrong password");

    let mut answers = Vec::new();
    for host in 0..11 {
        let network = format!("2001:db8:1:2:{host}::1");
        answers.push(from(&app, &network).post(LOGIN, &form).await.status);
    }

    assert_eq!(answers[..10], [401; 10]);
    assert_eq!(answers[10], 429);
    assert_eq!(from(&app, "2001:db8:1:3::1").post(LOGIN, &form).await.status, 401);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successful_logins_do_not_count_as_tries() {
    let app = TestApp::on_sqlite("").await;
    app.member("ada@example.com").await;

    for _ in 0..9 {
        assert_eq!(app.try_log_in("ada@example.com", "wrong password").await.status, 401);
    }
    for _ in 0..15 {
        assert_eq!(app.try_log_in("ada@example.com", PASSWORD).await.status, 200);
    }

    assert_eq!(app.try_log_in("ada@example.com", "wrong password").await.status, 401);
    assert_eq!(app.try_log_in("ada@example.com", PASSWORD).await.status, 429);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_too_long_is_refused_without_hashing() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member("ada@example.com").await;
    let browser = app.signed_in(&member).await;
    let (most, more) = ("é".repeat(128), "é".repeat(129));
    let before = app.running().password_hashes();
    let field = |name: &str| vec![(format!("body.{name}"), "too_long".to_owned())];

    let login = app.try_log_in(&member.email, &more).await;
    let change = json!({"current_password": more, "new_password": PASSWORD});
    let current = browser.post("/v1/auth/password", &change).await;
    let wanted = json!({"current_password": PASSWORD, "new_password": more});
    let new = browser.post("/v1/auth/password", &wanted).await;
    let rotation = json!({"key_id": member.customer.key_id, "current_password": more});
    let rotated = browser.post("/v1/auth/keys/rotate", &rotation).await;
    let huge = app.try_log_in(&member.email, &"x".repeat(1_000_000)).await;

    assert_eq!(login.wrong_fields(), field("password"));
    assert_eq!(current.wrong_fields(), field("current_password"));
    assert_eq!(new.wrong_fields(), field("new_password"));
    assert_eq!(rotated.wrong_fields(), field("current_password"));
    assert_eq!(huge.failure(), (413, "body_too_large".to_owned()));
    assert_eq!(app.running().password_hashes(), before);
    assert_eq!(app.try_log_in(&member.email, &most).await.status, 401);
    app.end().await;
}

/// NUL, emoji, spaces at the ends: a password is exactly the text that was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_compared_exactly() {
    let app = TestApp::on_sqlite("").await;
    let cases: [(&str, &[&str]); 4] = [
        (" spaces stay ", &["spaces stay", " spaces stay", "spaces stay "]),
        ("nul\u{0}and more", &["nul", "nuland more", "nul\u{0}"]),
        ("📎🐎📎🐑📦📎🐴🐎", &["📎🐎📎🐑📦📎🐴", "📎🐎📎🐑📦📎🐴🐎📎"]),
        ("Letter Case", &["letter case", "LETTER CASE"]),
    ];

    for (index, (password, wrong)) in cases.into_iter().enumerate() {
        let email = format!("p{index}@example.com");
        let made = app.anonymous().post("/v1/auth/register", &form(&email, password)).await;
        assert_eq!(made.status, 201, "{password:?}: {}", made.text());
        for other in wrong {
            assert_eq!(app.try_log_in(&email, other).await.status, 401, "{other:?}");
        }
        assert_eq!(app.try_log_in(&email, password).await.status, 200, "{password:?}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn common_passwords_are_refused_wherever_one_is_set() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member("ada@example.com").await;
    let browser = app.signed_in(&member).await;

    let register = form("bob@example.com", "Password1");
    let registered = app.anonymous().post("/v1/auth/register", &register).await;
    let change = json!({"current_password": PASSWORD, "new_password": "iloveyou"});
    let changed = browser.post("/v1/auth/password", &change).await;

    assert_eq!(registered.wrong_fields(), [("body.password".to_owned(), "too_common".to_owned())]);
    assert_eq!(changed.wrong_fields(), [("body.new_password".to_owned(), "too_common".to_owned())]);
    assert_eq!(app.try_log_in(&member.email, PASSWORD).await.status, 200);
    app.end().await;
}

/// An attacker who sets a cookie in a browser before its user logs in gains nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_never_keeps_the_token_that_the_browser_sent() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let mallory = app.member("mallory@example.com").await;
        let planted = app.session(&mallory).await;
        let own = app.session(&member).await;

        for held in [&planted, &own] {
            let login = form(&member.email, PASSWORD);
            let reply = app.anonymous().with_session(held).post(LOGIN, &login).await;

            assert_eq!(reply.status, 200, "{}", reply.text());
            assert_ne!(&reply.cookie(), held);
            let old = app.anonymous().with_session(held).get("/v1/auth/me").await;
            assert_eq!(old.failure(), (401, "invalid_session".to_owned()));
            let new = app.anonymous().with_session(&reply.cookie()).get("/v1/auth/me").await;
            assert_eq!(new.json()["email"], member.email.as_str());
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_from_a_page_of_another_site_is_refused() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member("ada@example.com").await;
    let form = form(&member.email, PASSWORD);

    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        let reply = app.anonymous().with(name, value).post(LOGIN, &form).await;
        assert_eq!(reply.failure(), (403, "cross_site_request".to_owned()), "{name}: {value}");
        assert!(reply.header("set-cookie").is_empty());
    }
    let text = app.anonymous().with("content-type", "text/plain");
    let text = text.send("POST", LOGIN, Some(form.to_string().into_bytes())).await;
    assert_eq!(text.failure(), (415, "unsupported_media_type".to_owned()));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outdated_hash_is_renewed_at_login() {
    /// `PASSWORD` hashed with one pass over 8 KiB by another implementation of argon2.
    const WEAK: &str = "$argon2id$v=19$m=8,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$gLHIkr1qgP4r3sH1P/NIg3+PMckaLQ3RkuIiytJhVlY";
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let id = member.customer.id.parse().unwrap();
        let stored =
            async || customers::find_by_id(app.store(), id).await.unwrap().unwrap().password_hash.0;
        let weak = PasswordHash(WEAK.to_owned());
        assert!(customers::set_password(app.store(), id, &weak).await.unwrap());

        assert_eq!(app.try_log_in(&member.email, "wrong password").await.status, 401);
        assert_eq!(stored().await, WEAK);
        assert_eq!(app.try_log_in(&member.email, PASSWORD).await.status, 200);

        let renewed = stored().await;
        assert!(renewed.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{renewed}");
        assert_eq!(app.try_log_in(&member.email, PASSWORD).await.status, 200);
        assert_eq!(stored().await, renewed, "it must be renewed only once");
        app
    })
    .await;
}

/// Many concurrent logins: those that do not fit into the queue are refused and cost nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_beyond_the_queue_are_refused_and_not_hashed() {
    let app = TestApp::on_sqlite("[passwords]\nat_once = 1\nwaiting_max = 1").await;
    app.member("ada@example.com").await;
    let before = app.running().password_hashes();

    let client = app.anonymous();
    let replies = test_service::at_once((0..40).map(|index| {
        let (client, form) = (client.clone(), form(&format!("n{index}@example.com"), "wrong one"));
        async move { client.post(LOGIN, &form).await }
    }))
    .await;

    let refused = replies.iter().filter(|reply| reply.code() == "overloaded").count();
    let checked = replies.iter().filter(|reply| reply.code() == "wrong_credentials").count();
    assert_eq!(refused + checked, 40);
    assert_eq!(app.running().password_hashes() - before, u64::try_from(checked).unwrap());
    assert!(replies.iter().all(|reply| [401, 503].contains(&reply.status)));
    assert_eq!(app.try_log_in("ada@example.com", PASSWORD).await.status, 200);
    app.end().await;
}

/// One network fills the queue of passwords with invented addresses while the only hashing permit
/// is taken, and honest callers elsewhere log in, register, reset and change their passwords.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_from_one_network_blocks_no_logins_or_new_passwords_elsewhere() {
    const FLOOD: usize = 40;
    const WAITING: usize = 4;
    let settings = format!("{BEHIND_A_PROXY}\n[passwords]\nat_once = 1\nwaiting_max = {WAITING}");
    let app = TestApp::on_sqlite(&settings).await;
    for email in ["ada@example.com", "bob@example.com", "cleo@example.com"] {
        app.member(email).await;
    }
    let ask = json!({"email": "bob@example.com"});
    assert_eq!(from(&app, "198.51.100.9").post("/v1/auth/password/forgot", &ask).await.status, 202);
    let token = app.mailed_token("bob@example.com").await;
    let cleo = from(&app, "198.51.100.3").post(LOGIN, &form("cleo@example.com", PASSWORD)).await;
    let cleo = from(&app, "198.51.100.3").with_session(&cleo.cookie());
    let turn = app.running().occupy_password_turns();
    let refused = Arc::new(AtomicUsize::new(0));

    let flood = test_service::at_once((0..FLOOD).map(|number| {
        let client = from(&app, "203.0.113.7");
        let form = form(&format!("n{number}@example.com"), "wrong password");
        let refused = Arc::clone(&refused);
        async move {
            let reply = client.post(LOGIN, &form).await;
            refused.fetch_add(usize::from(reply.code() == "overloaded"), Ordering::SeqCst);
            reply.status
        }
    }));
    let honest = async {
        until(&app, || refused.load(Ordering::SeqCst) == FLOOD - WAITING).await;
        let ada = from(&app, "198.51.100.1");
        let bob = from(&app, "198.51.100.2");
        let dora = from(&app, "198.51.100.4");
        let (login, new) = (form("ada@example.com", PASSWORD), form("dora@example.com", PASSWORD));
        let reset = json!({"token": token, "new_password": "another long password"});
        let change = json!({"current_password": PASSWORD, "new_password": "another long password"});
        tokio::join!(
            ada.post(LOGIN, &login),
            bob.post("/v1/auth/password/reset", &reset),
            cleo.post("/v1/auth/password", &change),
            dora.post("/v1/auth/register", &new),
        )
    };
    let release = async {
        // Two of the honest callers are strangers as well, and displace two of the flood's four
        // waiting logins.
        until(&app, || refused.load(Ordering::SeqCst) == FLOOD - WAITING + 2).await;
        drop(turn);
    };
    let (statuses, (ada, bob, cleo, dora), ()) = tokio::join!(flood, honest, release);

    assert_eq!((ada.status, ada.cookie().is_empty()), (200, false), "{}", ada.text());
    assert_eq!(bob.status, 204, "{}", bob.text());
    assert_eq!(cleo.status, 200, "{}", cleo.text());
    assert_eq!(dora.status, 201, "{}", dora.text());
    let checked = statuses.iter().filter(|status| **status == 401).count();
    assert_eq!(checked, WAITING - 2);
    app.end().await;
}

/// Sends requests until `met` is true.
async fn until(app: &TestApp, met: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if met() {
            return;
        }
        app.anonymous().get("/health").await;
    }
    panic!("the condition was never met");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_whose_password_was_not_checked_does_not_count_as_wrong() {
    let app = TestApp::on_sqlite("[passwords]\nat_once = 1\nwaiting_max = 0").await;
    app.member("ada@example.com").await;
    let turn = app.running().occupy_password_turns();

    for _ in 0..15 {
        let reply = app.try_log_in("ada@example.com", PASSWORD).await;
        assert_eq!(reply.failure(), (503, "overloaded".to_owned()));
    }
    drop(turn);

    assert_eq!(app.try_log_in("ada@example.com", PASSWORD).await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_logins_are_limited_for_each_network_whatever_the_address() {
    let settings =
        format!("{BEHIND_A_PROXY}\n[rate_limits]\nfailed_logins_per_network_per_hour = 5");
    let app = TestApp::on_sqlite(&settings).await;
    app.member("ada@example.com").await;
    app.member("bob@example.com").await;
    let right = form("ada@example.com", PASSWORD);
    let other = form("bob@example.com", PASSWORD);
    // A login from here gives no other browser of the network a privilege.
    assert_eq!(from(&app, "203.0.113.7").post(LOGIN, &right).await.status, 200);

    for number in 0..5 {
        let made_up = form(&format!("n{number}@example.com"), "wrong password");
        assert_eq!(from(&app, "203.0.113.7").post(LOGIN, &made_up).await.status, 401);
    }
    let before = app.running().password_hashes();
    let refused = from(&app, "203.0.113.7").post(LOGIN, &other).await;

    assert_eq!(refused.failure(), (429, "too_many_logins".to_owned()));
    assert_eq!(app.running().password_hashes(), before, "a refused login must not be hashed");
    assert_eq!(from(&app, "203.0.113.8").post(LOGIN, &other).await.status, 200);
    assert_eq!(from(&app, "203.0.113.7").post(LOGIN, &right).await.status, 429);
    // The site of an IPv6 network has a larger limit, but a limit.
    let mut answers = Vec::new();
    for number in 0..41 {
        let made_up = form(&format!("m{number}@example.com"), "wrong password");
        let network = format!("2001:db8:1:{number:x}::1");
        answers.push(from(&app, &network).post(LOGIN, &made_up).await.status);
    }
    assert_eq!((&answers[..40], answers[40]), (&[401; 40][..], 429));
    app.end().await;
}
