//! The page of accounts: connecting with the fields of the catalogue, switching, disconnecting.

use serde_json::{Value, json};
use test_service::Browser;
use test_service::member::Member;
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";
const ACCOUNTS: &str = "/console/accounts";
const CONNECT: &str = "/console/accounts/connect";

async fn signed_in(app: &TestApp) -> (Member, Browser) {
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;
    (member, browser)
}

/// The credentials of a simulated account as a person types them.
fn typed(auth: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(words) => {
            words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, text)| format!("{name}: {}", text.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join("\n"),
        other => other.to_string(),
    };
    let members = auth.as_object().cloned().unwrap_or_default();
    members.iter().map(|(name, value)| (format!("auth.{name}"), text(value))).collect()
}

fn borrowed(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_of_each_platform_is_connected_with_its_own_fields() {
    with_app(async |app| {
        let (_, browser) = signed_in(&app).await;
        browser.open(ACCOUNTS).await.assert(200, "Connect your first account");

        for platform in ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"] {
            let page = browser.open(&format!("{ACCOUNTS}?platform={platform}")).await;
            let name = format!("{platform}.harbour");
            let auth = typed(&app.demo_auth(platform));
            let mut fields = borrowed(&auth);
            fields.push(("creator_id", &name));
            let done = browser.submit_and_follow(&page, CONNECT, &fields).await;
            done.assert(200, &format!("{name} is connected. {platform} confirmed"));
            for (_, value) in auth.iter().filter(|(field, _)| field.ends_with("token")) {
                assert!(!done.html().contains(value.as_str()), "{value} is shown");
            }
        }

        let page = browser.open(ACCOUNTS).await;
        page.assert(200, "platform_delta.harbour").assert(200, "Active");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_credentials_name_the_platforms_status_and_secrets_are_not_shown_again() {
    let app = TestApp::on_sqlite("").await;
    let (_, browser) = signed_in(&app).await;
    let page = browser.open(&format!("{ACCOUNTS}?platform=platform_gamma")).await;
    let mut auth = typed(&app.demo_auth("platform_gamma"));
    for (name, value) in &mut auth {
        if name == "auth.token" {
            "stolen-and-ended".clone_into(value);
        }
    }
    let mut fields = borrowed(&auth);
    fields.push(("creator_id", "harbour"));

    let refused = browser.submit(&page, CONNECT, &fields).await;
    fields.push(("creator_id", "harbour light"));
    fields.retain(|(name, value)| *name != "creator_id" || *value != "harbour");
    let misnamed = browser.submit(&page, CONNECT, &fields).await;
    let empty = browser.submit(&page, CONNECT, &[("creator_id", "harbour")]).await;

    refused.assert(400, "platform_gamma refused these credentials (401)");
    assert_eq!(refused.field(CONNECT, "creator_id"), "harbour");
    assert_ne!(refused.field(CONNECT, "auth.account_id"), "");
    assert_eq!(refused.field(CONNECT, "auth.token"), "");
    assert!(!refused.html().contains("stolen-and-ended"));
    misnamed.assert(422, "Check the fields marked below.");
    empty.assert(422, "Token is required");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_switched_off_and_on_and_disconnected() {
    with_app(async |app| {
        let (member, browser) = signed_in(&app).await;
        let account = app.connect(&member.customer, "platform_alpha").await;
        let client = app.with_key(&member.customer.key);
        let switch = format!("{ACCOUNTS}/{account}/switch");
        let route = format!("/v1/accounts/{account}");
        let page = browser.open(ACCOUNTS).await;

        let off = browser.submit_and_follow(&page, &switch, &[]).await;
        off.assert(200, "is switched off").assert(200, "Switch on");
        assert_eq!(client.get(&route).await.json()["inactive_reason"], "switched_off");
        browser.submit_and_follow(&off, &switch, &[]).await.assert(200, "is active again");
        assert_eq!(client.get(&route).await.json()["state"], "active");

        let disconnect = format!("{ACCOUNTS}/{account}/disconnect");
        let sure = browser.open(&disconnect).await;
        sure.assert(200, "We'll forget the credentials");
        let wrong = browser.submit(&sure, &disconnect, &[("confirm", "x")]).await;
        wrong.assert(422, "isn't the name");
        assert_eq!(client.get(&route).await.status, 200);
        let done = browser.submit_and_follow(&sure, &disconnect, &[("confirm", &account)]).await;
        done.assert(200, "is disconnected");
        assert_eq!(client.get(&route).await.status, 404);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_free_slot_an_account_stays_off_and_the_page_says_which_use_them() {
    let app = TestApp::on_sqlite("[slots.included]\nplatform_alpha = 1").await;
    let (member, browser) = signed_in(&app).await;
    let first = app.connect_nth(&member.customer, "platform_alpha", 0).await;
    let off = browser.open(ACCOUNTS).await;
    let switch = format!("{ACCOUNTS}/{first}/switch");
    let page = browser.submit_and_follow(&off, &switch, &[]).await;
    let auth = app.demo_auth("platform_alpha");
    let import = json!({"creator_id": "second", "platform": "platform_alpha", "auth": auth});
    let client = app.with_key(&member.customer.key);
    assert_eq!(client.post("/v1/connect/import", &import).await.status, 201);

    let refused = browser.submit_and_follow(&page, &switch, &[]).await;

    refused.assert(200, "All 1 platform_alpha slots are in use: second.");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_of_other_customers_are_not_there() {
    let app = TestApp::on_sqlite("").await;
    let (_, browser) = signed_in(&app).await;
    let (_, client, account) = app.ready("platform_alpha", 5).await;

    let page = browser.open(&format!("{ACCOUNTS}/{account}/disconnect")).await;
    page.assert(404, "There's nothing here, or it isn't yours.");
    let own = browser.open(&format!("{ACCOUNTS}?connect={account}")).await;
    own.assert(200, "Connect an account");
    assert_eq!(client.get(&format!("/v1/accounts/{account}")).await.status, 200);
    app.end().await;
}
