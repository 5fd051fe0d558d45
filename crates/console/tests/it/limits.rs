//! Forms with limits and amounts: what is typed is what is set, and what is repeated happens once.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "an unexpected value must fail the test"
)]

use serde_json::{Value, json};
use test_service::member::PASSWORD;
use test_service::{Browser, Client, TestApp, with_app};

const KEYS: &str = "/console/keys";
const ADA: &str = "ada@example.com";

async fn signed_in(app: &TestApp) -> (Client, Browser) {
    let member = app.member(ADA).await;
    app.grant(&member.customer, 100).await;
    (app.with_key(&member.customer.key), app.browser_of(&member).await)
}

/// The keys of the customer that were not made at the registration.
async fn made(client: &Client) -> Vec<Value> {
    let list = client.get("/v1/auth/keys").await.json();
    let keys = list["keys"].as_array().unwrap().iter();
    keys.filter(|key| key["name"].as_str().unwrap().starts_with("made")).cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_read_as_it_was_typed_or_refused() {
    with_app(async |app| {
        let (client, browser) = signed_in(&app).await;
        let page = browser.open(KEYS).await;
        let with = |name: &'static str, budget: &'static str| {
            [
                ("name", name),
                ("scope", "full"),
                ("reach", "all"),
                ("monthly_budget_credits", budget),
                ("current_password", PASSWORD),
            ]
        };
        for wrong in ["1,5", "10,50", "1.000,00", "-1", "lots", "1e3", "12345678901234567890"] {
            let refused = browser.submit(&page, KEYS, &with("made wrong", wrong)).await;

            assert_eq!(refused.status(), 422, "{wrong}: {}", refused.words());
            assert_eq!(refused.field(KEYS, "monthly_budget_credits"), wrong);
            assert_eq!(refused.field(KEYS, "name"), "made wrong");
        }
        assert_eq!(made(&client).await, Vec::<Value>::new());
        let done = browser.submit(&page, KEYS, &with("made right", " 12,500 ")).await;

        assert!(done.status() < 400, "{}", done.words());
        let keys = made(&client).await;
        assert_eq!(keys.len(), 1);
        assert_eq!(keys[0]["monthly_budget_credits"], json!(12_500));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_is_utc_and_lies_ahead() {
    with_app(async |app| {
        let (client, browser) = signed_in(&app).await;
        let page = browser.open(KEYS).await;
        let with = |at: &'static str| {
            [
                ("name", "made to end"),
                ("scope", "full"),
                ("reach", "all"),
                ("expires_at", at),
                ("current_password", PASSWORD),
            ]
        };
        for wrong in ["2026-11-21T11:59", "2026-11-21T12:00", "2026-02-30T10:00", "tomorrow"] {
            let refused = browser.submit(&page, KEYS, &with(wrong)).await;
            assert_eq!(refused.status(), 422, "{wrong}: {}", refused.words());
            assert_eq!(refused.field(KEYS, "expires_at"), wrong);
        }

        browser.submit(&page, KEYS, &with("2026-11-21T12:01")).await;

        let keys = made(&client).await;
        assert_eq!(keys.len(), 1);
        assert!(keys[0]["expires_at"].as_str().unwrap().starts_with("2026-11-21T12:01:00"));
        app.advance_seconds(60);
        browser.open(KEYS).await.assert(200, "Expired 21 Nov 2026");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_sent_twice_makes_one_new_secret_and_needs_the_password() {
    with_app(async |app| {
        let (client, browser) = signed_in(&app).await;
        let name = json!({"name": "made here", "scope": "full"});
        let first = client.post("/v1/auth/keys", &name).await.json();
        let old = app.with_key(first["api_key"].as_str().unwrap());
        let path = format!("{KEYS}/{}/rotate", first["key_id"].as_str().unwrap());
        let page = browser.open(&path).await;
        let fields = [("current_password", PASSWORD), ("expires_old_in_s", "0")];

        let wrong = browser.submit(&page, &path, &[("current_password", "not it")]).await;
        assert_eq!(wrong.status(), 403, "{}", wrong.words());
        assert_eq!(old.get("/v1/whoami").await.status, 200, "nothing was changed");
        let done = browser.submit(&page, &path, &fields).await;
        let again = browser.submit(&page, &path, &fields).await;

        done.assert(200, "cgw_live_");
        assert_eq!(old.get("/v1/whoami").await.status, 401);
        assert_eq!(again.status(), 409, "its secret is shown once: {}", again.words());
        again.assert_not("cgw_live_0");
        let audit = client.get("/v1/audit?action=key.rotated").await.json();
        assert_eq!(audit["entries"].as_array().unwrap().len(), 1, "{audit}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_of_a_person_is_changed_only_by_who_knows_it() {
    with_app(async |app| {
        let (_, browser) = signed_in(&app).await;
        let settings = "/console/settings";
        let form = "/console/settings/password";
        let page = browser.open(settings).await;
        for (old, new, status) in [
            ("not it", "another long password", 403),
            (PASSWORD, "short", 422),
            (PASSWORD, "", 422),
            ("", "another long password", 403),
        ] {
            let fields = [("old_password", old), ("new_password", new)];
            let refused = browser.submit(&page, form, &fields).await;

            assert_eq!(refused.status(), status, "{old:?} {new:?}: {}", refused.words());
            assert!(!refused.html().contains("another long password"), "{}", refused.html());
            assert_eq!(refused.field(form, "new_password"), "", "a password is never shown");
        }
        assert_eq!(app.try_log_in(ADA, PASSWORD).await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_are_switched_from_their_page_and_a_repeated_form_does_no_harm() {
    with_app(async |app| {
        let (client, browser) = signed_in(&app).await;
        assert_eq!(app.import(&client, "platform_alpha", "amber").await, "active");
        let accounts = "/console/accounts";
        let switch = "/console/accounts/amber/switch";
        let page = browser.open(accounts).await;

        let off = browser.submit(&page, switch, &[]).await;
        let again = browser.submit(&page, switch, &[]).await;

        assert_eq!((off.status(), again.status()), (303, 303), "{}", again.words());
        let state = client.get("/v1/accounts/amber").await.json()["state"].clone();
        assert_eq!(state, "inactive", "the form says off, however often it is sent");
        let refused = client.get("/v1/amber/native/users/me").await;
        assert_eq!(refused.receipt().0, 0);
        assert!(refused.status >= 400, "{}", refused.text());
        let disconnect = "/console/accounts/amber/disconnect";
        let asked = browser.open(disconnect).await;
        asked.assert(200, "amber");
        let fields = [("confirm", "amber")];
        browser.submit(&asked, disconnect, &fields).await;
        let gone = browser.submit(&asked, disconnect, &fields).await;
        assert_eq!((gone.status(), gone.location()), (303, accounts), "{}", gone.words());
        assert_eq!(client.get("/v1/accounts/amber").await.status, 404);
        browser.open(accounts).await.assert(200, "amber isn't connected.").assert_not("Switch off");
        app
    })
    .await;
}
