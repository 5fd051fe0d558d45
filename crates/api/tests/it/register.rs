//! Registration: a customer, its first key and a pending trial, created together or not at all.

use serde_json::{Value, json};
use test_service::{Reply, TestApp, at_once, with_app};

const BEHIND_A_PROXY: &str = "[http]\ntrusted_proxies = [\"127.0.0.1\"]";

fn form(email: &str) -> Value {
    json!({"email": email, "password": "correct horse"})
}

async fn register(app: &TestApp, form: &Value) -> Reply {
    app.anonymous().post("/v1/auth/register", form).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_returns_a_working_key_and_a_pending_trial() {
    with_app(async |app| {
        let form = json!({"email": "Ada@Example.com", "password": "correct horse", "name": "Ada"});

        let reply = register(&app, &form).await;

        assert_eq!(reply.status, 201, "{}", reply.text());
        let made = reply.json();
        assert_eq!(made["customer"]["email"], "ada@example.com");
        assert_eq!(made["customer"]["name"], "Ada");
        assert_eq!(made["customer"]["email_verified"], false);
        assert_eq!(made["trial"], json!({"state": "pending", "credits": 500}));
        let client = app.with_key(made["api_key"].as_str().unwrap());
        let who = client.get("/v1/whoami").await.json();
        assert_eq!(who["customer_id"], made["customer"]["customer_id"]);
        assert_eq!((&who["key_id"], &who["scope"]), (&made["key_id"], &json!("full")));
        let billing = client.get("/v1/billing").await.json();
        assert_eq!(
            (&billing["balance"], &billing["trial"]["state"]),
            (&json!(0), &json!("pending"))
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letter_case_makes_no_second_customer() {
    with_app(async |app| {
        assert_eq!(register(&app, &form("ada@example.com")).await.status, 201);

        for again in ["ada@example.com", "ADA@example.com", "ada@EXAMPLE.COM"] {
            let reply = register(&app, &form(again)).await;
            assert_eq!(reply.failure(), (409, "email_taken".to_owned()), "{again}");
        }
        app
    })
    .await;
}

/// Fifty concurrent registrations of one address: one customer, one key, one email, and no orphaned
/// key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_registrations_of_one_address_create_one_customer_and_no_orphans() {
    with_app(async |app| {
        let client = app.anonymous();
        let replies = at_once((0..50).map(|_| {
            let client = client.clone();
            async move { client.post("/v1/auth/register", &form("ada@example.com")).await }
        }))
        .await;

        let won: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 201).collect();
        let lost = replies.iter().filter(|reply| reply.code() == "email_taken").count();
        assert_eq!((won.len(), lost), (1, 49));
        let key = won[0].json()["api_key"].as_str().unwrap().to_owned();
        let keys = app.with_key(&key).get("/v1/auth/keys").await.json();
        assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys}");
        // Each statement must change exactly one row: there is one customer, one key and one
        // secret.
        let store = app.store();
        for sql in [
            "update customers set name = name",
            "update customer_credits set held = held",
            "update keys set name = name",
            "update key_secrets set key_id = key_id",
        ] {
            assert_eq!(store::testing::run_raw(store, sql).await.unwrap(), 1, "{sql}");
        }
        assert_eq!(app.mails_to("ada@example.com").await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_field_is_reported() {
    let app = TestApp::on_sqlite("").await;
    let wrong = |field: &str, kind: &str| vec![(format!("body.{field}"), kind.to_owned())];
    let cases = [
        (json!({"password": "correct horse"}), wrong("email", "missing")),
        (json!({"email": "a@b.cd"}), wrong("password", "missing")),
        (form("nobody"), wrong("email", "bad_format")),
        (form("a@b"), wrong("email", "bad_format")),
        (form("a@b.cd\r\nBcc: x@y.zz"), wrong("email", "bad_format")),
        (form("а@example.com"), wrong("email", "bad_format")),
        (json!({"email": 7, "password": "correct horse"}), wrong("email", "wrong_type")),
        (json!({"email": "a@b.cd", "password": "short"}), wrong("password", "too_short")),
        (
            json!({"email": "a@b.cd", "password": "correct horse", "role": "staff"}),
            wrong("role", "unknown_field"),
        ),
        (
            json!({"email": "a@b.cd", "password": "correct horse", "name": "a\nb"}),
            wrong("name", "bad_format"),
        ),
    ];

    for (form, expected) in cases {
        let reply = register(&app, &form).await;
        assert_eq!(reply.wrong_fields(), expected, "{form}");
    }
    let both = json!({"email": "a@b.cd", "password": "short", "name": "x".repeat(201)});
    let fields = register(&app, &both).await.wrong_fields();
    assert_eq!(fields, [wrong("name", "too_long"), wrong("password", "too_short")].concat());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ambiguous_body_is_refused() {
    let app = TestApp::on_sqlite("").await;
    let send = async |kind: &str, body: &str| {
        let client = app.anonymous().with("content-type", kind);
        client.send("POST", "/v1/auth/register", Some(body.as_bytes().to_vec())).await
    };
    let twice = r#"{"email":"a@b.cd","email":"x@y.zz","password":"correct horse"}"#;
    let good = form("a@b.cd").to_string();

    let duplicate = send("application/json", twice).await;
    let text = send("text/plain", &good).await;
    let cut = send("application/json", &good[..good.len() - 1]).await;
    let more = send("application/json", &format!("{good}{good}")).await;

    assert_eq!(duplicate.wrong_fields(), [("body.email".to_owned(), "duplicate".to_owned())]);
    assert_eq!(text.failure(), (415, "unsupported_media_type".to_owned()));
    assert_eq!(cut.wrong_fields(), [("body".to_owned(), "malformed".to_owned())]);
    assert_eq!(more.wrong_fields(), [("body".to_owned(), "malformed".to_owned())]);
    let large = json!({"email": "a@b.cd", "password": "x".repeat(70_000)});
    assert_eq!(register(&app, &large).await.failure(), (413, "body_too_large".to_owned()));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_has_8_to_128_characters_of_any_kind() {
    let app = TestApp::on_sqlite("").await;
    let words = |length| "correct horse battery ".chars().cycle().take(length).collect::<String>();
    let cases = [
        (words(7), 422),
        (words(8), 201),
        (words(128), 201),
        (words(129), 422),
        // Characters are counted, not bytes.
        ("🐎📎🐑📦🐎🐴📎🐑".to_owned(), 201),
        ("🐎📎🐑📦🐎🐴📎".to_owned(), 422),
        (" spaces stay ".to_owned(), 201),
        ("a\u{0}bcdefgh".to_owned(), 201),
    ];

    for (index, (password, expected)) in cases.into_iter().enumerate() {
        let form = json!({"email": format!("p{index}@example.com"), "password": password});
        let reply = register(&app, &form).await;
        assert_eq!(reply.status, expected, "case {index}: {}", reply.text());
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_may_register_five_times_an_hour() {
    let app = TestApp::on_sqlite(BEHIND_A_PROXY).await;
    let from = async |address: &str, number: usize| {
        let client = app.anonymous().with("x-forwarded-for", address);
        client.post("/v1/auth/register", &form(&format!("n{number}@example.com"))).await
    };

    for number in 0..5 {
        // Addresses to the left of the last one came from the caller and are ignored.
        let address = format!("198.51.100.{number}, 203.0.113.7");
        assert_eq!(from(&address, number).await.status, 201);
    }
    let sixth = from("203.0.113.7", 6).await;
    let neighbour = from("203.0.113.8", 7).await;

    assert_eq!(sixth.failure(), (429, "too_many_registrations".to_owned()));
    assert!(sixth.header("retry-after").parse::<u32>().unwrap() > 0);
    assert_eq!(neighbour.status, 201);
    app.advance_seconds(3_600);
    assert_eq!(from("203.0.113.7", 8).await.status, 201);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ipv6_network_of_64_bits_counts_as_one() {
    let app = TestApp::on_sqlite(BEHIND_A_PROXY).await;
    let from = async |address: &str, number: usize| {
        let client = app.anonymous().with("x-forwarded-for", address);
        client.post("/v1/auth/register", &form(&format!("n{number}@example.com"))).await.status
    };

    for number in 0..5 {
        assert_eq!(from(&format!("2001:db8:1:2::{number}"), number).await, 201);
    }

    assert_eq!(from("2001:db8:1:2:ffff::1", 6).await, 429);
    assert_eq!(from("2001:db8:1:3::1", 7).await, 201);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_trusted_proxy_callers_cannot_choose_their_address() {
    let app = TestApp::on_sqlite("").await;
    let client = app.anonymous().with("x-forwarded-for", "203.0.113.7");

    // All requests come from loopback, which has no limit.
    for number in 0..6 {
        let form = form(&format!("n{number}@example.com"));
        assert_eq!(client.post("/v1/auth/register", &form).await.status, 201);
    }
    app.end().await;
}
