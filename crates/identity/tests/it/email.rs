//! Confirmation of email addresses: an emailed link works once, checking it does not consume it,
//! and responses do not reveal who is a customer.

use serde_json::{Value, json};
use test_service::member::Member;
use test_service::{Client, Reply, TestApp, at_once, with_app};

const BEHIND_A_PROXY: &str = "[http]\ntrusted_proxies = [\"127.0.0.1\"]";

async fn look(app: &TestApp, token: &str) -> Value {
    let reply = app.anonymous().get(&format!("/v1/auth/email/verify?token={token}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

async fn confirm(client: &Client, token: &str) -> Reply {
    client.post("/v1/auth/email/verify", &json!({"token": token})).await
}

async fn resend(client: &Client, email: &str) -> Reply {
    client.post("/v1/auth/email/resend", &json!({"email": email})).await
}

/// The member's balance, and whether its address is confirmed.
async fn standing(app: &TestApp, member: &Member) -> (i64, bool) {
    let client = app.with_key(&member.customer.key);
    let balance = client.get("/v1/billing").await.json()["balance"].as_i64().unwrap();
    let who = client.get("/v1/whoami").await.json();
    (balance, who["email_verified"].as_bool().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_sends_a_link_that_confirms_the_address_and_grants_the_trial() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let mails = app.mails_to("ada@example.com").await;
        let token = app.mailed_token("ada@example.com").await;

        assert_eq!(mails.len(), 1, "{mails:?}");
        let link = mails[0]["links"][0].as_str().unwrap();
        assert_eq!(link, format!("http://127.0.0.1:8080/console/confirm?token={token}"));
        let confirmed = confirm(&app.with_key(&member.customer.key), &token).await;

        assert_eq!(confirmed.status, 200, "{}", confirmed.text());
        let said = json!({
            "customer_id": member.customer.id, "email": "ada@example.com",
            "email_verified": true, "credits_granted": 500,
        });
        assert_eq!(confirmed.json(), said);
        assert_eq!(standing(&app, &member).await, (500, true));
        let again = confirm(&app.with_key(&member.customer.key), &token).await;
        assert_eq!(again.failure(), (409, "link_used".to_owned()));
        assert_eq!(standing(&app, &member).await, (500, true));
        app
    })
    .await;
}

/// The trial of the configuration is for customers who have none yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_granted_trial_is_shown_as_it_was_granted() {
    with_app(async |mut app| {
        let member = app.member("ada@example.com").await;
        let token = app.mailed_token("ada@example.com").await;
        assert_eq!(confirm(&app.with_key(&member.customer.key), &token).await.status, 200);

        app.stop_service().await;
        app.start_service(|config| config.credits.trial = 50).await.unwrap();

        let billing = app.with_key(&member.customer.key).get("/v1/billing").await.json();
        assert_eq!(billing["trial"], json!({"state": "granted", "credits": 500}));
        app
    })
    .await;
}

/// Email scanners follow links, some of them several times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checking_a_link_five_times_confirms_nothing() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let token = app.mailed_token("ada@example.com").await;

        for _ in 0..5 {
            let seen = look(&app, &token).await;
            let expected = json!({
                "state": "open", "purpose": "confirm_email", "email": "ada@example.com",
                "expires_at": "2026-11-22T12:00:00.000000Z",
            });
            assert_eq!(seen, expected);
            let page = format!("/console/confirm?token={token}");
            assert_eq!(app.anonymous().get(&page).await.status, 200);
            assert_eq!(app.anonymous().send("HEAD", &page, None).await.status, 200);
        }

        assert_eq!(standing(&app, &member).await, (0, false));
        assert_eq!(confirm(&app.with_key(&member.customer.key), &token).await.status, 200);
        let seen = look(&app, &token).await;
        assert_eq!((&seen["state"], &seen["email"]), (&json!("used"), &Value::Null));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_concurrent_confirmations_count_once() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let token = app.mailed_token("ada@example.com").await;
        let client = app.with_key(&member.customer.key);

        let replies = at_once((0..50).map(|_| {
            let (client, token) = (client.clone(), token.clone());
            async move { confirm(&client, &token).await }
        }))
        .await;

        let confirmed = replies.iter().filter(|reply| reply.status == 200).count();
        let used = replies.iter().filter(|reply| reply.code() == "link_used").count();
        assert_eq!((confirmed, used), (1, 49));
        assert_eq!(standing(&app, &member).await, (500, true));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_expires_after_24_hours_and_another_one_can_be_requested() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let late = app.mailed_token("ada@example.com").await;
        app.advance_seconds(86_400);

        let refused = confirm(&app.with_key(&member.customer.key), &late).await;
        assert_eq!(refused.failure(), (410, "link_expired".to_owned()));
        assert_eq!(look(&app, &late).await["state"], "expired");
        assert_eq!(resend(&app.anonymous(), "Ada@Example.com").await.status, 202);
        let fresh = app.mailed_token("ada@example.com").await;

        assert_ne!(fresh, late);
        assert_eq!(confirm(&app.with_key(&member.customer.key), &fresh).await.status, 200);
        assert_eq!(standing(&app, &member).await, (500, true));
        app
    })
    .await;
}

/// The first emailed link still works after a second one was sent; using one uses up the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_links_for_one_address_only_one_works() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let first = app.mailed_token("ada@example.com").await;
        resend(&app.anonymous(), "ada@example.com").await;
        let second = app.mailed_token("ada@example.com").await;

        assert_eq!(confirm(&app.with_key(&member.customer.key), &first).await.status, 200);

        let other = confirm(&app.with_key(&member.customer.key), &second).await;
        assert_eq!(other.failure(), (409, "link_used".to_owned()));
        assert_eq!(standing(&app, &member).await, (500, true));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_link_confirms_nothing() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let own = app.mailed_token("ada@example.com").await;
        app.anonymous()
            .post("/v1/auth/password/forgot", &json!({"email": "ada@example.com"}))
            .await;
        let reset = app.mailed_token("ada@example.com").await;
        let flipped = own.chars().rev().collect::<String>();

        for wrong in ["", "A", &"A".repeat(43), &flipped, &format!("{own}A"), &reset] {
            let reply = confirm(&app.anonymous(), wrong).await;
            assert_eq!(reply.failure(), (404, "unknown_link".to_owned()), "{wrong}");
            let unknown =
                json!({"state": "unknown", "purpose": null, "email": null, "expires_at": null});
            assert_eq!(look(&app, wrong).await, unknown, "{wrong}");
        }
        let nothing = app.anonymous().post("/v1/auth/email/verify", &json!({})).await;
        assert_eq!(nothing.wrong_fields(), [("body.token".to_owned(), "missing".to_owned())]);
        assert_eq!(standing(&app, &member).await, (0, false));
        app
    })
    .await;
}

/// A link belongs to its customer: the key of another one neither takes nor confirms it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_confirms_its_own_customer_only() {
    with_app(async |app| {
        let (ada, eve) = (app.member("ada@example.com").await, app.member("eve@example.com").await);
        let token = app.mailed_token("ada@example.com").await;

        let refused = confirm(&app.with_key(&eve.customer.key), &token).await;
        let reply = confirm(&app.with_key(&ada.customer.key), &token).await;

        let missing = [("body.new_password".to_owned(), "missing".to_owned())];
        assert_eq!(refused.wrong_fields(), missing);
        assert_eq!(reply.json()["customer_id"], ada.customer.id.as_str());
        assert_eq!(standing(&app, &ada).await, (500, true));
        assert_eq!(standing(&app, &eve).await, (0, false));
        app
    })
    .await;
}

/// For an unknown address, a pending one and a confirmed one the response is the same to the last
/// byte; only the pending one gets an email.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_for_an_email_reveals_nothing_about_an_address() {
    with_app(async |app| {
        app.member("waits@example.com").await;
        let done = app.member("done@example.com").await;
        let token = app.mailed_token("done@example.com").await;
        confirm(&app.with_key(&done.customer.key), &token).await;

        let mut answers = Vec::new();
        for email in ["waits@example.com", "done@example.com", "nobody@example.com"] {
            let client = app.anonymous().with("x-request-id", "same");
            let reply = resend(&client, email).await;
            let mut headers: Vec<String> = reply
                .headers
                .iter()
                .filter(|(name, _)| *name != "date")
                .map(|(name, value)| format!("{name}: {value:?}"))
                .collect();
            headers.sort();
            answers.push((reply.status, reply.body.clone(), headers));
        }

        assert_eq!(answers[0].0, 202);
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
        let count = async |email: &str| app.mails_to(email).await.len();
        assert_eq!(count("waits@example.com").await, 2);
        assert_eq!(count("done@example.com").await, 1);
        assert_eq!(count("nobody@example.com").await, 0);
        app
    })
    .await;
}

/// The number of emails to an address is limited silently: the response does not reveal whether the
/// address is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_gets_three_emails_an_hour_and_the_response_reveals_nothing() {
    let app = TestApp::on_sqlite("").await;
    app.member("ada@example.com").await;

    for email in ["ada@example.com", "nobody@example.com"] {
        for _ in 0..6 {
            assert_eq!(resend(&app.anonymous(), email).await.status, 202);
        }
    }

    // The first followed the registration, which only the customer can cause.
    assert_eq!(app.mails_to("ada@example.com").await.len(), 1 + 3);
    app.advance_seconds(1_200);
    assert_eq!(resend(&app.anonymous(), "ada@example.com").await.status, 202);
    assert_eq!(app.mails_to("ada@example.com").await.len(), 1 + 3 + 1);
    app.end().await;
}

/// An email that was requested but not sent does not count, and each purpose has its own limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_again_for_a_confirmed_address_does_not_block_its_password_reset_emails() {
    with_app(async |app| {
        let member = app.member("ada@example.com").await;
        let token = app.mailed_token("ada@example.com").await;
        assert_eq!(confirm(&app.with_key(&member.customer.key), &token).await.status, 200);

        for _ in 0..10 {
            assert_eq!(resend(&app.anonymous(), "ada@example.com").await.status, 202);
        }
        let ask = json!({"email": "ada@example.com"});
        let asked = app.anonymous().post("/v1/auth/password/forgot", &ask).await;

        assert_eq!(asked.status, 202, "{}", asked.text());
        let mails = app.mails_to("ada@example.com").await;
        assert_eq!(mails.len(), 2, "{mails:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_emails_that_a_network_requests_in_an_hour_are_limited() {
    let limit = "[rate_limits]\nmails_per_network_per_hour = 4";
    let app = TestApp::on_sqlite(&format!("{BEHIND_A_PROXY}\n{limit}")).await;
    let from = async |address: &str, number: usize| {
        let client = app.anonymous().with("x-forwarded-for", address);
        resend(&client, &format!("n{number}@example.com")).await
    };

    for number in 0..4 {
        assert_eq!(from("203.0.113.7", number).await.status, 202);
    }

    assert_eq!(from("203.0.113.7", 5).await.failure(), (429, "too_many_mails".to_owned()));
    assert_eq!(from("203.0.113.8", 6).await.status, 202);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trials_that_a_network_starts_in_a_day_are_limited() {
    with_configured_app(
        "[rate_limits]\nregistrations_per_hour = 100\ntrials_per_network_per_day = 2",
        async |app| {
            let from = async |address: &str, number: usize| {
                let client = app.anonymous().with("x-forwarded-for", address);
                let email = format!("n{number}@example.com");
                let form = json!({"email": email, "password": "correct horse battery"});
                let reply = client.post("/v1/auth/register", &form).await;
                assert_eq!(reply.status, 201, "{}", reply.text());
                let made = reply.json();
                let key = made["api_key"].as_str().unwrap().to_owned();
                (email, made["trial"].clone(), key)
            };
            let pending = json!({"state": "pending", "credits": 500});
            let none = json!({"state": "none", "credits": 0});

            assert_eq!(from("203.0.113.7", 1).await.1, pending);
            assert_eq!(from("203.0.113.7", 2).await.1, pending);
            let (email, third, key) = from("203.0.113.7", 3).await;
            assert_eq!(third, none);
            assert_eq!(from("203.0.113.8", 4).await.1, pending);
            // Its address can be confirmed like any other.
            let token = app.mailed_token(&email).await;
            let confirmed = confirm(&app.with_key(&key), &token).await.json();
            assert_eq!(confirmed["credits_granted"], 0);
            app.advance_seconds(86_400);
            assert_eq!(from("203.0.113.7", 5).await.1, pending);
            app
        },
    )
    .await;
}

async fn with_configured_app<F, T>(overrides: &str, test: F)
where
    F: Fn(TestApp) -> T,
    T: Future<Output = TestApp>,
{
    let database = store::testing::store().await;
    let app = TestApp::start(database, &format!("{BEHIND_A_PROXY}\n{overrides}")).await;
    test(app).await.end().await;
}

/// One mailbox under two addresses is two customers, but gets one trial.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tagged_address_gets_no_second_trial() {
    with_app(async |app| {
        let mut granted = Vec::new();
        for email in ["ada@example.com", "ada+2@example.com"] {
            let member = app.member(email).await;
            let token = app.mailed_token(email).await;
            let reply = confirm(&app.with_key(&member.customer.key), &token).await.json();
            granted.push(reply["credits_granted"].as_i64().unwrap());
        }

        assert_eq!(granted, [500, 0]);
        app
    })
    .await;
}

/// A registration determines the address of the email and nothing else in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_email_contains_no_text_chosen_at_registration() {
    let app = TestApp::on_sqlite("").await;
    let form = json!({
        "email": "ada@example.com", "password": "correct horse battery",
        "name": "Buy at https://evil.example <b>now</b>",
    });
    let client = app.anonymous().with("x-forwarded-host", "evil.example");
    assert_eq!(client.post("/v1/auth/register", &form).await.status, 201);

    let mails = app.mails_to("ada@example.com").await;

    let mail = &mails[0];
    assert!(!mail["raw"].as_str().unwrap().contains("evil"), "{mail}");
    assert_eq!(mail["to"], json!(["ada@example.com"]));
    let headers = mail["headers"].as_array().unwrap();
    let named = |name: &str| -> Vec<&str> {
        let of = headers.iter().filter(|header| header[0] == name);
        of.map(|header| header[1].as_str().unwrap()).collect()
    };
    assert_eq!(named("To"), ["ada@example.com"]);
    assert_eq!(named("Subject"), ["Confirm your email address"]);
    assert_eq!(named("From"), ["creator-gateway <no-reply@localhost>"]);
    assert_eq!(named("Auto-Submitted"), ["auto-generated"]);
    assert_eq!(named("Date"), ["Sat, 21 Nov 2026 12:00:00 +0000"]);
    assert!(named("Message-ID")[0].starts_with("<job_"), "{headers:?}");
    assert_eq!(named("Bcc").len() + named("Cc").len(), 0);
    let link = mail["links"][0].as_str().unwrap();
    assert!(mail["html"].as_str().unwrap().contains(&format!("href=\"{link}\"")), "{mail}");
    app.end().await;
}
