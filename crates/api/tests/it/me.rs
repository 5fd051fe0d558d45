//! Changes that a customer may make to itself, and those it may not.

use serde_json::{Value, json};
use test_service::member::PASSWORD;
use test_service::{TestApp, with_app};

const ME: &str = "/v1/auth/me";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_changes_its_name() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;

        let changed = browser.json("PATCH", ME, &json!({"name": "Ada Lovelace"})).await;

        assert_eq!(changed.status, 200, "{}", changed.text());
        assert_eq!(changed.json()["name"], "Ada Lovelace");
        let shown = browser.get(ME).await.json();
        assert_eq!(shown, changed.json());
        assert_eq!(shown["customer_id"], member.customer.id.as_str());
        assert_eq!(shown["created_at"], "2026-11-21T12:00:00.000000Z");
        // Absent fields keep their values.
        assert_eq!(browser.json("PATCH", ME, &json!({})).await.json(), shown);
        app
    })
    .await;
}

/// The old address stays valid for logins until the link in the email to the new one is used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_address_is_valid_once_its_link_is_used() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;
        let change =
            json!({"email": "Ada@New.example", "current_password": PASSWORD, "name": "Ada"});

        let asked = browser.json("PATCH", ME, &change).await;

        assert_eq!(asked.status, 200, "{}", asked.text());
        let asked = asked.json();
        assert_eq!((&asked["email"], &asked["name"]), (&json!("ada@example.com"), &json!("Ada")));
        assert_eq!(asked["pending_email"], "ada@new.example");
        assert_eq!(app.try_log_in("ada@example.com", PASSWORD).await.status, 200);
        assert_eq!(app.try_log_in("ada@new.example", PASSWORD).await.status, 401);
        let token = app.mailed_token("ada@new.example").await;
        let confirmed = browser.post("/v1/auth/email/verify", &json!({"token": token})).await;
        assert_eq!(confirmed.status, 200, "{}", confirmed.text());
        let shown = browser.get(ME).await.json();
        assert_eq!(
            (&shown["email"], &shown["email_verified"]),
            (&json!("ada@new.example"), &json!(true))
        );
        assert_eq!(shown["pending_email"], Value::Null);
        assert_eq!(app.try_log_in("ada@example.com", PASSWORD).await.status, 401);
        assert_eq!(app.try_log_in("ada@new.example", PASSWORD).await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_address_needs_the_password_and_a_free_address() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        app.member("bob@example.com").await;
        let browser = app.signed_in(&member).await;
        let before = browser.get(ME).await.json();
        let change = |email: &str, password: &str| {
            json!({"email": email, "current_password": password, "name": "Mallory"})
        };

        let unconfirmed = json!({"email": "ada@new.example", "name": "Mallory"});
        let unconfirmed = browser.json("PATCH", ME, &unconfirmed).await;
        let wrong = browser.json("PATCH", ME, &change("ada@new.example", "wrong")).await;
        let taken = browser.json("PATCH", ME, &change("Bob@example.com", PASSWORD)).await;
        let malformed = browser.json("PATCH", ME, &change("a@b.cd\r\nBcc: x@y.zz", PASSWORD)).await;

        let missing = [("body.current_password".to_owned(), "missing".to_owned())];
        assert_eq!(unconfirmed.wrong_fields(), missing);
        assert_eq!(wrong.failure(), (403, "wrong_password".to_owned()));
        assert_eq!(taken.failure(), (409, "email_taken".to_owned()));
        assert_eq!(malformed.wrong_fields(), [("body.email".to_owned(), "bad_format".to_owned())]);
        assert_eq!(browser.get(ME).await.json(), before);
        assert!(app.mails_to("ada@new.example").await.is_empty());
        app
    })
    .await;
}

/// A customer cannot write any other column of its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_field_of_a_customer_can_be_written() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let browser = app.signed_in(&member).await;
        let before = browser.get(ME).await.json();
        let balance = browser.get("/v1/billing").await.json();

        for (field, value) in [
            ("balance", json!(1_000_000)),
            ("role", json!("admin")),
            ("email_verified", json!(true)),
            ("email_verified_at", json!("2026-01-01T00:00:00Z")),
            ("is_staff", json!(true)),
            ("permissions", json!(["data-export.manage"])),
            ("id", json!("cus_019ab3c4d5e67f8091a2b3c4d5e6f708")),
            ("customer_id", json!("cus_019ab3c4d5e67f8091a2b3c4d5e6f708")),
            ("plan", json!("big")),
            ("trial_state", json!("granted")),
            ("password", json!("another long password")),
            ("password_hash", json!("$argon2id$")),
            ("disabled_at", json!(null)),
        ] {
            let mut body = json!({"name": "Mallory"});
            body[field] = value;
            let reply = browser.json("PATCH", ME, &body).await;
            let expected = [(format!("body.{field}"), "unknown_field".to_owned())];
            assert_eq!(reply.wrong_fields(), expected);
        }

        assert_eq!(browser.get(ME).await.json(), before);
        assert_eq!(browser.get("/v1/billing").await.json(), balance);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_fields_are_reported_and_nothing_is_changed() {
    let app = TestApp::on_sqlite("").await;
    let browser = app.signed_in(&app.member("ada@example.com").await).await;
    let before = browser.get(ME).await.json();

    for (body, field, kind) in [
        (json!({"name": "x".repeat(201)}), "body.name", "too_long"),
        (json!({"name": "a\nb"}), "body.name", "bad_format"),
        (json!({"name": 7}), "body.name", "wrong_type"),
    ] {
        let fields = browser.json("PATCH", ME, &body).await.wrong_fields();
        assert_eq!(fields, [(field.to_owned(), kind.to_owned())], "{body}");
    }
    for (body, field, kind) in [
        (json!({"new_password": "long enough"}), "body.current_password", "missing"),
        (json!({"current_password": "x"}), "body.new_password", "missing"),
        (
            json!({"current_password": "x", "new_password": "short"}),
            "body.new_password",
            "too_short",
        ),
        (
            json!({"current_password": "x", "new_password": "long enough", "email": "a@b.cd"}),
            "body.email",
            "unknown_field",
        ),
    ] {
        let fields = browser.post("/v1/auth/password", &body).await.wrong_fields();
        assert_eq!(fields, [(field.to_owned(), kind.to_owned())], "{body}");
    }
    assert_eq!(browser.get(ME).await.json(), before);
    app.end().await;
}
