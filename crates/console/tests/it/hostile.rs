//! Names that look like HTML, run right to left, or are very long: every page shows them as they
//! are.

use serde_json::json;
use test_service::{Browser, Client, TestApp, with_app};

const ADA: &str = "ada@example.com";
/// A name of HTML, with the letters that end attributes and texts.
const HOSTILE: &str = "</b><script>alert(1)</script>\"'`&amp; \u{5d0}\u{5d1}.exe 🦀";

async fn signed_in(app: &TestApp) -> (Client, Browser) {
    let member = app.member(ADA).await;
    app.grant(&member.customer, 100).await;
    (app.with_key(&member.customer.key), app.browser_of(&member).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customers_name_is_text_on_every_page() {
    with_app(async |app| {
        let (_, browser) = signed_in(&app).await;
        let settings = browser.open("/console/settings").await;
        let rename = "/console/settings/name";
        browser.submit_and_follow(&settings, rename, &[("name", HOSTILE)]).await;

        for path in [
            "/console",
            "/console/calls",
            "/console/explorer",
            "/console/accounts",
            "/console/exports",
            "/console/keys",
            "/console/settings",
            "/console/audit",
        ] {
            let page = browser.open(path).await;
            assert_eq!(page.status(), 200, "{path}");
            assert!(!page.html().contains("<script>alert"), "{path}: {}", page.html());
        }
        let again = browser.open("/console/settings").await;
        assert_eq!(again.field(rename, "name"), HOSTILE, "it can be edited as it is");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_keys_are_text_where_they_are_listed_asked_about_and_recorded() {
    with_app(async |app| {
        let (client, browser) = signed_in(&app).await;
        let made = client.post("/v1/auth/keys", &json!({"name": HOSTILE, "scope": "full"})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let id = made.json()["key_id"].as_str().unwrap().to_owned();

        for path in [
            "/console/keys".to_owned(),
            format!("/console/keys/{id}/edit"),
            format!("/console/keys/{id}/rotate"),
            format!("/console/keys/{id}/revoke"),
            "/console/audit?action=key.".to_owned(),
        ] {
            let page = browser.open(&path).await;
            assert_eq!(page.status(), 200, "{path}: {}", page.words());
            assert!(!page.html().contains("<script>alert"), "{path}: {}", page.html());
            page.assert(200, "</b><script>alert(1)</script>");
        }
        // Its name has to be typed exactly, and can be.
        let revoke = format!("/console/keys/{id}/revoke");
        let page = browser.open(&revoke).await;
        let other = browser.submit(&page, &revoke, &[("confirm", "something else")]).await;
        other.assert(422, "That isn't the name. Type it exactly as shown.");
        let done = browser.submit_and_follow(&page, &revoke, &[("confirm", HOSTILE)]).await;
        assert_eq!(done.status(), 200, "{}", done.words());
        let keys = client.get("/v1/auth/keys").await.json();
        let key = keys["keys"].as_array().unwrap().iter().find(|key| key["key_id"] == id).unwrap();
        assert!(key["revoked_at"].is_string(), "{key}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_and_filters_of_a_page_are_text() {
    with_app(async |app| {
        let (_, browser) = signed_in(&app).await;
        let hostile = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
        for path in [
            format!("/console/calls?account={hostile}"),
            format!("/console/calls?route={hostile}&tag={hostile}&status={hostile}"),
            format!("/console/calls/{hostile}"),
            format!("/console/audit?action={hostile}"),
            format!("/console/audit?before={hostile}"),
            format!("/console/keys?before={hostile}"),
            format!("/console/exports?before={hostile}"),
            format!("/console/explorer?platform={hostile}&search={hostile}"),
            format!("/console/accounts/{hostile}"),
            format!("/console?days={hostile}"),
            format!("/console/{hostile}"),
        ] {
            let page = browser.open(&path).await;
            assert!(page.status() < 500, "{path}: {}", page.words());
            assert!(!page.html().contains("<script>alert"), "{path}: {}", page.html());
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_names_fit_and_longer_ones_are_refused_where_they_are_typed() {
    with_app(async |app| {
        let (client, browser) = signed_in(&app).await;
        let settings = browser.open("/console/settings").await;
        let rename = "/console/settings/name";
        let (longest, longer) = ("ü".repeat(200), "ü".repeat(201));

        let kept = browser.submit_and_follow(&settings, rename, &[("name", &longest)]).await;
        let refused = browser.submit(&settings, rename, &[("name", &longer)]).await;
        let lines = browser.submit(&settings, rename, &[("name", "two\nlines")]).await;

        kept.assert(200, "Your name is saved.");
        refused.assert(422, "Check the fields marked below");
        assert_eq!(refused.field(rename, "name"), longer, "what was typed is kept");
        assert_eq!(lines.status(), 422, "{}", lines.words());
        browser.open("/console").await.assert(200, &longest);
        let empty = browser.submit_and_follow(&settings, rename, &[("name", "")]).await;
        empty.assert(200, ADA);
        assert_eq!(client.get("/v1/whoami").await.status, 200);
        app
    })
    .await;
}
