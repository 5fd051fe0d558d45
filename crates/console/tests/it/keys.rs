//! The page of keys: a secret is shown once, limits are edited, keys are rotated and revoked.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test"
)]

use serde_json::{Value, json};
use test_service::member::{Member, PASSWORD};
use test_service::{Browser, Page};
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";
const KEYS: &str = "/console/keys";

/// The secret on a page.
fn secret(page: &Page) -> String {
    let shown = page.html().split_once("<code id=\"secret\">").map(|(_, rest)| rest);
    let shown = shown.unwrap_or_else(|| panic!("no secret in {}", page.words()));
    shown.split('<').next().unwrap_or_default().to_owned()
}

/// The customer's keys with this name.
async fn named(app: &TestApp, member: &Member, name: &str) -> Vec<Value> {
    let keys = app.with_key(&member.customer.key).get("/v1/auth/keys").await.json();
    let keys = keys["keys"].as_array().cloned().unwrap_or_default();
    keys.into_iter().filter(|key| key["name"] == name).collect()
}

async fn signed_in(app: &TestApp) -> (Member, Browser) {
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;
    (member, browser)
}

/// The path of a deed with the only key of this name.
async fn path(app: &TestApp, member: &Member, name: &str, deed: &str) -> String {
    let keys = named(app, member, name).await;
    format!("{KEYS}/{}/{deed}", keys[0]["key_id"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_of_a_new_key_is_shown_once_and_a_repeated_form_makes_no_second_key() {
    with_app(async |app| {
        let (member, browser) = signed_in(&app).await;
        let page = browser.open(KEYS).await;
        page.assert(200, "New key").assert(200, "All accounts");
        let fields = [
            ("name", "exporter"),
            ("scope", "full"),
            ("reach", "all"),
            ("monthly_budget_credits", "2000"),
            ("expires_at", "2026-12-24T18:00"),
            ("current_password", PASSWORD),
        ];

        let made = browser.submit(&page, KEYS, &fields).await;

        made.assert(200, "Your new key “exporter”").assert(200, "Copy it now");
        let api_key = secret(&made);
        assert_eq!(app.with_key(&api_key).get("/v1/whoami").await.status, 200);
        assert!(made.location().is_empty() && !made.reply().headers.contains_key("set-cookie"));
        let again = browser.submit(&page, KEYS, &fields).await;
        again.assert(409, "This secret was shown before");
        for later in [again, browser.open(KEYS).await] {
            assert!(!later.html().contains(&api_key), "{}", later.words());
        }
        let keys = named(&app, &member, "exporter").await;
        assert_eq!(keys.len(), 1);
        assert_eq!(keys[0]["monthly_budget_credits"], 2_000);
        assert_eq!(keys[0]["expires_at"], "2026-12-24T18:00:00.000000Z");
        browser.open(KEYS).await.assert(200, "of 2,000").assert(200, "Expires 24 Dec 2026, 18:00");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_fields_of_a_key_are_named_and_the_rest_is_kept() {
    let app = TestApp::on_sqlite("").await;
    let (member, browser) = signed_in(&app).await;
    let page = browser.open(KEYS).await;
    let send = async |fields: &[(&str, &str)]| browser.submit(&page, KEYS, fields).await;

    let nothing = send(&[("name", "exporter")]).await;
    let late = [("name", "exporter"), ("reach", "all"), ("expires_at", "2020-01-01T00:00")];
    let late = send(&late).await;
    let budget = [("name", "<i>x</i>"), ("reach", "all"), ("monthly_budget_credits", "many")];
    let budget = send(&budget).await;
    // Boxes of one name are a list, unlike other fields.
    let some = [("name", "exporter"), ("reach", "some")];
    let boxes = [("accounts", "nobody"), ("accounts", "somebody")];
    let password = [("current_password", PASSWORD)];
    let unknown = send(&[&some[..], &boxes[..], &password[..]].concat()).await;
    let all = [("name", "exporter"), ("reach", "all")];
    let unconfirmed = send(&all).await;
    let wrong = send(&[&all[..], &[("current_password", "wrong password")]].concat()).await;
    let without = browser.post(KEYS, &[("name", "exporter"), ("reach", "all")]).await;

    nothing.assert(422, "Choose which accounts the key may use.");
    assert_eq!(nothing.field(KEYS, "name"), "exporter");
    late.assert(422, "in the future");
    budget.assert(422, "Check the fields marked below.");
    assert!(!budget.html().contains("<i>x</i>"), "{}", budget.html());
    unknown.assert(422, "There is no account `nobody`").assert_not("more than once");
    unconfirmed.assert(422, "Is required with a session");
    wrong.assert(403, "That isn't your password.").assert_not("wrong password");
    without.assert(403, "This form can't be sent again");
    assert!(named(&app, &member, "exporter").await.is_empty());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_edited_and_only_what_differs_is_sent() {
    with_app(async |app| {
        let (member, browser) = signed_in(&app).await;
        let account = app.connect(&member.customer, "platform_alpha").await;
        let client = app.with_key(&member.customer.key);
        let new = json!({"name": "reporting", "scope": "read_only", "accounts": [account]});
        assert_eq!(client.post("/v1/auth/keys", &new).await.status, 201);
        let edit = path(&app, &member, "reporting", "edit").await;
        // The account goes, and the key stays limited to it.
        assert_eq!(client.delete(&format!("/v1/accounts/{account}")).await.status, 204);
        let page = browser.open(&edit).await;
        page.assert(200, "Limits of “reporting”");

        let fields = [("name", "reports"), ("monthly_budget_credits", "10")];
        let done = browser.submit_and_follow(&page, &edit, &fields).await;

        done.assert(200, "The limits of “reports” are saved");
        let key = &named(&app, &member, "reports").await[0];
        assert_eq!(
            (&key["monthly_budget_credits"], &key["accounts"]),
            (&json!(10), &json!([account]))
        );
        let later = browser.open(&edit).await;
        let unchanged = browser.submit_and_follow(&later, &edit, &[]).await;
        unchanged.assert(200, "Nothing was changed");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_rotated_with_the_password_and_a_grace_period() {
    with_app(async |app| {
        let (member, browser) = signed_in(&app).await;
        let key = &member.customer;
        let rotate = format!("{KEYS}/{}/rotate", key.key_id);
        let page = browser.open(&rotate).await;

        let wrong = [("current_password", "not it"), ("expires_old_in_s", "3600")];
        let wrong = browser.submit(&page, &rotate, &wrong).await;
        let right = [("current_password", PASSWORD), ("expires_old_in_s", "3600")];
        let done = browser.submit(&page, &rotate, &right).await;

        assert!(matches!(wrong.status(), 403 | 422), "{}", wrong.words());
        assert_eq!(wrong.field(&rotate, "current_password"), "");
        assert_eq!(wrong.field(&rotate, "expires_old_in_s"), "3600");
        done.assert(200, "Both secrets work until 21 Nov 2026, 13:00 UTC");
        let fresh = secret(&done);
        for secret in [&fresh, &key.key] {
            assert_eq!(app.with_key(secret).get("/v1/whoami").await.status, 200);
        }
        browser.submit(&page, &rotate, &right).await.assert(409, "This secret was shown before");
        app.advance_seconds(3_601);
        assert_eq!(app.with_key(&key.key).get("/v1/whoami").await.status, 401);
        assert_eq!(app.with_key(&fresh).get("/v1/whoami").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_revoked_once_its_name_is_typed() {
    with_app(async |app| {
        let (member, browser) = signed_in(&app).await;
        let client = app.with_key(&member.customer.key);
        let new = json!({"name": "old script", "scope": "full"});
        let made = client.post("/v1/auth/keys", &new).await.json();
        let api_key = made["api_key"].as_str().unwrap_or_default().to_owned();
        let revoke = path(&app, &member, "old script", "revoke").await;
        let page = browser.open(&revoke).await;
        page.assert(200, "Revoke the key “old script”?").assert(200, "This can't be undone.");

        browser.submit(&page, &revoke, &[("confirm", "other")]).await.assert(422, "isn't the name");
        assert_eq!(app.with_key(&api_key).get("/v1/whoami").await.status, 200);
        let done = browser.submit_and_follow(&page, &revoke, &[("confirm", "old script")]).await;

        done.assert(200, "The key “old script” is revoked").assert(200, "Revoked 21 Nov 2026");
        assert_eq!(app.with_key(&api_key).get("/v1/whoami").await.status, 401);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_other_customers_are_not_there() {
    let app = TestApp::on_sqlite("").await;
    let (_, browser) = signed_in(&app).await;
    let other = app.customer(0).await;

    for key in [other.key_id.as_str(), "key_0", "..", "%2E%2E%2Fusers"] {
        for deed in ["edit", "rotate", "revoke"] {
            let page = browser.open(&format!("{KEYS}/{key}/{deed}")).await;
            assert!(matches!(page.status(), 404 | 422), "{key}: {}", page.words());
        }
    }
    assert_eq!(app.with_key(&other.key).get("/v1/whoami").await.status, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_are_shown_in_pages() {
    let app = TestApp::on_sqlite("").await;
    let (member, browser) = signed_in(&app).await;
    let client = app.with_key(&member.customer.key);
    for number in 0..45 {
        let new =
            json!({"name": format!("tool {number}"), "scope": "full", "monthly_budget_credits": 9});
        assert_eq!(client.post("/v1/auth/keys", &new).await.status, 201);
    }

    let first = browser.open(KEYS).await;
    let next = first.html().split_once("/console/keys?after=").map(|(_, rest)| rest);
    let next = next.and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let second = browser.open(&format!("{KEYS}?after={next}")).await;

    let shown = |page: &Page| page.html().matches("/rotate\"").count();
    assert_eq!((shown(&first), shown(&second)), (40, 6));
    second.assert(200, "First");
    app.end().await;
}
