//! Anybody can register with the address of somebody else. When its owner confirms the address,
//! nothing that the stranger set up gives access any more; a customer who confirms its own address
//! keeps the key and the session that it holds.

use serde_json::{Value, json};
use test_service::member::{Member, PASSWORD};
use test_service::{Client, Reply, TestApp, with_app};

const ADA: &str = "ada@example.com";
const EVE: &str = "eve@example.net";
const NEW: &str = "another long password";

async fn verify(client: &Client, body: Value) -> Reply {
    client.post("/v1/auth/email/verify", &body).await
}

/// What a stranger has after registering with the address of somebody else.
struct Stranger {
    member: Member,
    /// Two keys and two sessions, each as a client.
    clients: Vec<(&'static str, Client)>,
    /// The token of the link that confirms the address, which its owner gets.
    confirmation: String,
    /// The token of a link that changes the address to one of the stranger.
    change: String,
}

impl Stranger {
    async fn registers(app: &TestApp) -> Self {
        let member = app.member(ADA).await;
        let confirmation = app.mailed_token(ADA).await;
        let browser = app.signed_in(&member).await;
        let wish = json!({"name": "second", "scope": "full", "current_password": PASSWORD});
        app.advance_seconds(1);
        let second = browser.post("/v1/auth/keys", &wish).await;
        assert_eq!(second.status, 201, "{}", second.text());
        let second = second.json()["api_key"].as_str().unwrap().to_owned();
        let address = json!({"email": EVE, "current_password": PASSWORD});
        assert_eq!(browser.json("PATCH", "/v1/auth/me", &address).await.status, 200);
        let change = app.mailed_token(EVE).await;
        let support = browser
            .post("/v1/support-access", &json!({"enabled": true, "expires_in_hours": 24}))
            .await;
        assert_eq!(support.status, 200, "{}", support.text());
        let clients = vec![
            ("first key", app.with_key(&member.customer.key)),
            ("second key", app.with_key(&second)),
            ("first session", browser),
            ("second session", app.signed_in(&member).await),
        ];
        Self { member, clients, confirmation, change }
    }

    /// The names of the credentials that still work.
    async fn has(&self, app: &TestApp) -> Vec<&'static str> {
        let mut working = Vec::new();
        for (name, client) in &self.clients {
            match client.get("/v1/whoami").await.status {
                200 => working.push(*name),
                status => assert_eq!(status, 401, "{name}"),
            }
        }
        if app.try_log_in(ADA, PASSWORD).await.status == 200 {
            working.push("password");
        }
        working
    }

    /// Asserts that nothing but `works` gives access or still can.
    async fn keeps_only(&self, app: &TestApp, works: &[&str]) {
        assert_eq!(self.has(app).await, works);
        let taken = json!({"token": self.change, "new_password": NEW});
        for body in [taken, json!({"token": self.change, "current_password": PASSWORD})] {
            let changed = verify(&app.anonymous(), body).await;
            assert_eq!(changed.failure(), (409, "link_used".to_owned()));
        }
        let id = self.member.customer.id.parse().unwrap();
        let support = store::support_access::find(app.store(), id).await.unwrap().unwrap();
        assert!(support.ended_at.is_some(), "staff may still look");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_by_link_alone_needs_a_new_password_and_ends_all_that_was_set_up() {
    with_app(async |app| {
        let eve = Stranger::registers(&app).await;
        let token = eve.confirmation.clone();
        let other = app.member(EVE).await;
        let missing = [("body.new_password".to_owned(), "missing".to_owned())];

        for client in [app.anonymous(), app.with_key(&other.customer.key), app.with_key("none")] {
            let refused = verify(&client, json!({"token": token})).await;
            assert_eq!(refused.wrong_fields(), missing, "{}", refused.text());
        }
        let wrong = json!({"token": token, "current_password": NEW});
        let wrong = verify(&app.anonymous(), wrong).await;
        assert_eq!(wrong.failure(), (403, "wrong_password".to_owned()));
        assert_eq!(eve.has(&app).await.len(), 5, "a refusal must change nothing");
        let done = verify(&app.anonymous(), json!({"token": token, "new_password": NEW})).await;

        assert_eq!(done.status, 200, "{}", done.text());
        assert_eq!(done.json()["credits_granted"], 500);
        eve.keeps_only(&app, &[]).await;
        assert_eq!(app.try_log_in(ADA, NEW).await.status, 200);
        let letter = app.mails_to(ADA).await.pop().unwrap();
        let text = letter["text"].as_str().unwrap();
        assert!(text.contains("no longer gives access: the old password, API keys"), "{text}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_of_an_unconfirmed_customer_confirms_the_address_and_ends_all_that_was_set_up() {
    with_app(async |app| {
        let eve = Stranger::registers(&app).await;
        let ask = json!({"email": ADA});
        assert_eq!(app.anonymous().post("/v1/auth/password/forgot", &ask).await.status, 202);
        let token = app.mailed_token(ADA).await;
        let body = json!({"token": token, "new_password": NEW});

        let reset = app.anonymous().post("/v1/auth/password/reset", &body).await;

        assert_eq!(reset.status, 204, "{}", reset.text());
        eve.keeps_only(&app, &[]).await;
        let late = verify(&app.anonymous(), json!({"token": eve.confirmation})).await;
        assert_eq!(late.failure(), (409, "link_used".to_owned()));
        let ada = app.try_log_in(ADA, NEW).await;
        assert_eq!(ada.json()["customer"]["email_verified"], true);
        let ada = app.anonymous().with_session(&ada.cookie());
        assert_eq!(ada.get("/v1/billing").await.json()["balance"], 500, "the trial is granted");
        app
    })
    .await;
}

/// Each proof keeps what it is, and the key that the registration handed over unless another key
/// came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_by_the_customer_keeps_what_it_holds_and_ends_the_rest() {
    for (proof, kept) in [
        ("first key", &["first key", "password"][..]),
        ("second key", &["second key", "password"]),
        ("second session", &["first key", "second session", "password"]),
        ("password", &["first key", "password"]),
    ] {
        with_app(async |app| {
            let customer = Stranger::registers(&app).await;
            let token = customer.confirmation.clone();
            let held = customer.clients.iter().find(|(name, _)| *name == proof);
            let (client, body) = match held {
                Some((_, client)) => (client.clone(), json!({"token": token})),
                None => (app.anonymous(), json!({"token": token, "current_password": PASSWORD})),
            };

            let done = verify(&client, body).await;

            assert_eq!(done.status, 200, "{proof}: {}", done.text());
            customer.keeps_only(&app, kept).await;
            app
        })
        .await;
    }
}

/// A page of another site can send a form or a request with the cookie, but must not confirm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_site_cannot_confirm_with_the_session_of_a_visitor() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let token = app.mailed_token(ADA).await;
        let browser = app.anonymous().with("cookie", &app.session(&member).await);
        let elsewhere = browser.with("sec-fetch-site", "cross-site");

        let refused = verify(&elsewhere, json!({"token": token})).await;

        assert_eq!(refused.failure(), (403, "cross_site_request".to_owned()));
        app
    })
    .await;
}

/// A customer changes its address to somebody else's: the owner of that address alone cannot make
/// the change real, and so does not get an account that somebody else holds keys of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_confirmed_address_needs_the_customer() {
    with_app(async |app| {
        let member = app.member(EVE).await;
        let key = app.with_key(&member.customer.key);
        let confirmation = app.mailed_token(EVE).await;
        assert_eq!(verify(&key, json!({"token": confirmation})).await.status, 200);
        let browser = app.signed_in(&member).await;
        let change = json!({"email": ADA, "current_password": PASSWORD});
        assert_eq!(browser.json("PATCH", "/v1/auth/me", &change).await.status, 200);
        let token = app.mailed_token(ADA).await;

        let alone = verify(&app.anonymous(), json!({"token": token})).await;
        let with_new = json!({"token": token, "new_password": NEW});
        let refused = verify(&app.anonymous(), with_new).await;
        let with_password = json!({"token": token, "current_password": PASSWORD});
        let done = verify(&app.anonymous(), with_password).await;

        let wrong = |field: &str, kind: &str| [(format!("body.{field}"), kind.to_owned())];
        assert_eq!(alone.wrong_fields(), wrong("current_password", "missing"));
        assert_eq!(refused.wrong_fields(), wrong("new_password", "not_allowed"));
        assert_eq!(done.status, 200, "{}", done.text());
        assert_eq!(key.get("/v1/whoami").await.status, 200, "a change ends nothing");
        assert_eq!(browser.get("/v1/auth/me").await.json()["email"], ADA);
        app
    })
    .await;
}
