//! Forgotten passwords: an emailed link sets one, once, and ends every session; responses do not
//! reveal who is a customer.

use serde_json::json;
use test_service::member::PASSWORD;
use test_service::{Client, Reply, TestApp, at_once, with_app};

const NEW: &str = "another long password";

async fn forgot(client: &Client, email: &str) -> Reply {
    client.post("/v1/auth/password/forgot", &json!({"email": email})).await
}

async fn reset(client: &Client, token: &str, password: &str) -> Reply {
    let body = json!({"token": token, "new_password": password});
    client.post("/v1/auth/password/reset", &body).await
}

async fn mailed(app: &TestApp, email: &str) -> String {
    // The email of the registration is sent first.
    app.run_jobs().await;
    assert_eq!(forgot(&app.anonymous(), email).await.status, 202);
    app.mailed_token(email).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emailed_link_sets_a_password_once_and_ends_every_session() {
    with_app(async |app| {
        let member = app.confirmed("ada@example.com").await;
        let sessions = [app.session(&member).await, app.session(&member).await];
        let token = mailed(&app, "ada@example.com").await;
        let mail = app.mails_to("ada@example.com").await.pop().unwrap();
        assert_eq!(mail["links"][0], format!("http://127.0.0.1:8080/console/reset?token={token}"));

        let done = reset(&app.anonymous(), &token, NEW).await;

        assert_eq!((done.status, done.body.len()), (204, 0), "{}", done.text());
        for cookie in &sessions {
            let old = app.anonymous().with_session(cookie).get("/v1/auth/me").await;
            assert_eq!(old.failure(), (401, "invalid_session".to_owned()));
        }
        assert_eq!(app.try_log_in("ada@example.com", PASSWORD).await.status, 401);
        assert_eq!(app.try_log_in("ada@example.com", NEW).await.status, 200);
        let key = app.with_key(&member.customer.key);
        assert_eq!(key.get("/v1/whoami").await.status, 200, "keys must keep working");
        let again = reset(&app.anonymous(), &token, PASSWORD).await;
        assert_eq!(again.failure(), (409, "link_used".to_owned()));
        assert_eq!(app.try_log_in("ada@example.com", NEW).await.status, 200);
        let notice = app.mails_to("ada@example.com").await.pop().unwrap();
        assert_eq!(notice["subject"], "Your password was changed");
        let audit = key.get("/v1/audit").await.json();
        let entry = &audit["entries"][0];
        assert_eq!(
            (&entry["action"], &entry["actor"]),
            (&json!("password.reset"), &json!("mailed link"))
        );
        assert_eq!(
            notice["links"],
            json!(["http://127.0.0.1:8080"]),
            "the notice must contain no action link"
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_sent_before_a_change_of_password_is_invalid() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let token = mailed(&app, "ada@example.com").await;
        let cookie = app.session(&member).await;

        let change = json!({"current_password": PASSWORD, "new_password": NEW});
        let browser = app.anonymous().with_session(&cookie);
        let changed = browser.post("/v1/auth/password", &change).await;

        assert_eq!(changed.status, 200, "{}", changed.text());
        let late = reset(&app.anonymous(), &token, "another password of hers").await;
        assert_eq!(late.failure(), (409, "link_used".to_owned()));
        assert_eq!(app.try_log_in("ada@example.com", NEW).await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_concurrent_uses_of_a_link_one_sets_the_password() {
    with_app(async |app| {
        app.member("ada@example.com").await;
        let token = mailed(&app, "ada@example.com").await;
        let client = app.anonymous();

        let replies = at_once((0..8).map(|number| {
            let (client, token) = (client.clone(), token.clone());
            async move {
                let password = format!("password number {number}");
                (reset(&client, &token, &password).await, password)
            }
        }))
        .await;

        let won: Vec<_> = replies.iter().filter(|(reply, _)| reply.status == 204).collect();
        let lost = replies.iter().filter(|(reply, _)| reply.code() == "link_used").count();
        assert_eq!((won.len(), lost), (1, 7));
        assert_eq!(app.try_log_in("ada@example.com", &won[0].1).await.status, 200);
        app
    })
    .await;
}

/// A refused password does not consume the link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_password_does_not_consume_the_link() {
    with_app(async |app| {
        app.member("ada@example.com").await;
        let token = mailed(&app, "ada@example.com").await;
        let field = "body.new_password".to_owned();

        let short = reset(&app.anonymous(), &token, "short").await;
        let common = reset(&app.anonymous(), &token, "password123").await;
        let long = reset(&app.anonymous(), &token, &"x".repeat(129)).await;

        assert_eq!(short.wrong_fields(), [(field.clone(), "too_short".to_owned())]);
        assert_eq!(common.wrong_fields(), [(field.clone(), "too_common".to_owned())]);
        assert_eq!(long.wrong_fields(), [(field, "too_long".to_owned())]);
        assert_eq!(reset(&app.anonymous(), &token, NEW).await.status, 204);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_link_expires_after_an_hour_and_does_nothing_else() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let confirmation = app.mailed_token("ada@example.com").await;
        let token = mailed(&app, "ada@example.com").await;

        let other = reset(&app.anonymous(), &confirmation, NEW).await;
        assert_eq!(other.failure(), (404, "unknown_link".to_owned()));
        app.advance_seconds(3_600);
        let late = reset(&app.anonymous(), &token, NEW).await;

        assert_eq!(late.failure(), (410, "link_expired".to_owned()));
        for wrong in ["", "A", &"A".repeat(43)] {
            let reply = reset(&app.anonymous(), wrong, NEW).await;
            assert_eq!(reply.failure(), (404, "unknown_link".to_owned()), "{wrong}");
        }
        assert_eq!(app.try_log_in(&member.email, PASSWORD).await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_for_a_password_link_reveals_nothing_about_an_address() {
    with_app(async |app| {
        app.member("ada@example.com").await;
        app.run_jobs().await;

        let known = forgot(&app.anonymous(), "ada@example.com").await;
        let unknown = forgot(&app.anonymous(), "nobody@example.com").await;

        assert_eq!((known.status, &known.body), (unknown.status, &unknown.body));
        assert_eq!(app.mails_to("nobody@example.com").await.len(), 0);
        let subjects: Vec<_> =
            app.mails_to("ada@example.com").await.iter().map(|it| it["subject"].clone()).collect();
        assert_eq!(subjects, ["Confirm your email address", "Set a new password"]);
        let malformed = forgot(&app.anonymous(), "a@b.cd\r\nBcc: x@y.zz").await;
        let wrong = [("body.email".to_owned(), "bad_format".to_owned())];
        assert_eq!(malformed.wrong_fields(), wrong);
        app
    })
    .await;
}

/// Staff create customers without a password; the customer sets one this way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_created_by_staff_gets_a_first_password() {
    let app = TestApp::on_sqlite("").await;
    let command = json!({
        "command": "create_customer", "email": "staff@example.com", "name": "", "credits": 0,
    });
    app.staff(command).await;

    let token = mailed(&app, "staff@example.com").await;

    assert_eq!(reset(&app.anonymous(), &token, NEW).await.status, 204);
    assert_eq!(app.try_log_in("staff@example.com", NEW).await.status, 200);
    app.end().await;
}

/// A stranger repeatedly requests resets for a customer's address. The customer can still get one,
/// and every link that was sent before works until one is used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_requested_by_a_stranger_do_not_block_the_customers_own() {
    let proxy = "[http]\ntrusted_proxies = [\"127.0.0.1\"]";
    for own_link in [true, false] {
        let app = TestApp::on_sqlite(proxy).await;
        app.member("ada@example.com").await;
        app.run_jobs().await;
        let ask = async |from: &str| {
            let client = app.anonymous().with("x-forwarded-for", from);
            let form = json!({"email": "ada@example.com"});
            let reply = client.post("/v1/auth/password/forgot", &form).await;
            assert_eq!(reply.status, 202, "{}", reply.text());
            app.run_jobs().await;
        };
        for _ in 0..10 {
            ask("203.0.113.7").await;
        }
        let of_stranger = app.mails_to("ada@example.com").await.len() - 1;
        assert_eq!(of_stranger, 3, "the address must not be flooded");
        let earlier = app.mailed_token("ada@example.com").await;

        ask("198.51.100.1").await;

        assert_eq!(app.mails_to("ada@example.com").await.len(), 1 + 3 + 1);
        let token = if own_link { app.mailed_token("ada@example.com").await } else { earlier };
        let form = json!({"token": token, "new_password": NEW});
        let set = app.anonymous().post("/v1/auth/password/reset", &form).await;
        assert_eq!(set.status, 204, "{}", set.text());
        app.end().await;
    }
}
