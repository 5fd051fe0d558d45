//! What all pages of a running service have in common: forms are read with care, a message is shown
//! once, and the shell tells who is signed in.

use serde_json::json;
use test_service::browser::escaped;
use test_service::{Browser, TestApp, with_app};

const ADA: &str = "ada@example.com";
const EVE: &str = "eve@example.com";
const SETTINGS: &str = "/console/settings";
const RENAME: &str = "/console/settings/name";

async fn signed_in(app: &TestApp, email: &str) -> Browser {
    let member = app.member(email).await;
    app.browser_of(&member).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_another_type_or_size_is_refused_before_it_is_read() {
    with_app(async |app| {
        let browser = signed_in(&app, ADA).await;
        let page = browser.open(SETTINGS).await;
        let token = page.field(RENAME, "csrf");
        let ours = browser.client().with("sec-fetch-site", "same-origin");
        let send = async |media_type: &str, body: String| {
            let client = ours.with("content-type", media_type);
            client.send("POST", RENAME, Some(body.into_bytes())).await
        };
        let form = format!("csrf={token}&name=Ada");

        let as_json = send("application/json", json!({"name": "Ada"}).to_string()).await;
        let as_text = send("text/plain", form.clone()).await;
        let huge = format!("{form}&more={}", "x".repeat(2 * 1024 * 1024));
        let huge = send("application/x-www-form-urlencoded", huge).await;
        let good = send("Application/X-WWW-Form-URLEncoded; charset=utf-8", form).await;

        assert_eq!((as_json.status, as_text.status, huge.status), (415, 415, 413));
        assert_eq!(good.status, 303, "{}", good.text());
        assert_eq!(browser.open(SETTINGS).await.field(RENAME, "name"), "Ada");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_is_given_twice_changes_nothing() {
    with_app(async |app| {
        let browser = signed_in(&app, ADA).await;
        let token = browser.open(SETTINGS).await.field(RENAME, "csrf");

        let twice =
            browser.post(RENAME, &[("csrf", &token), ("name", "one"), ("name", "two")]).await;
        let two_tokens =
            browser.post(RENAME, &[("csrf", "x"), ("csrf", &token), ("name", "one")]).await;

        assert_eq!((twice.status(), two_tokens.status()), (422, 422));
        assert!(twice.words().contains("name"), "{}", twice.words());
        let page = browser.open(SETTINGS).await;
        assert_eq!(page.field(RENAME, "name"), "");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_shown_once_and_to_its_own_session_alone() {
    with_app(async |app| {
        let (one, other) = (signed_in(&app, ADA).await, signed_in(&app, EVE).await);
        let page = one.open(SETTINGS).await;
        let without = one.client();
        let done = one.submit(&page, RENAME, &[("name", "Ada")]).await;
        let cookie = done.reply().header("set-cookie").to_owned();
        let sealed = cookie.split(';').next().unwrap();
        assert!(sealed.starts_with("flash="), "{sealed}");

        // Somebody else's message, and one that was changed on the way, are not shown.
        let foreign = other.client().with("cookie", sealed).get(SETTINGS).await;
        assert!(!foreign.text().contains("Your name is saved."), "{}", foreign.text());
        let (text, seal) = sealed.split_once('.').unwrap();
        for changed in [format!("{text}A.{seal}"), format!("{text}.{}", "0".repeat(seal.len()))] {
            let shown = without.with("cookie", &changed).get("/console/keys").await;
            assert_eq!(shown.status, 200, "{}", shown.text());
            assert!(!shown.text().contains("Your name is saved."), "{changed}");
        }
        one.open(SETTINGS).await.assert(200, "Your name is saved.");
        one.open(SETTINGS).await.assert_not("Your name is saved.");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shell_tells_who_is_signed_in_what_is_left_and_where_one_is() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        app.grant(&member.customer, 12_345).await;
        let browser = app.browser_of(&member).await;

        for (path, word) in [
            ("/console", "Overview"),
            ("/console/calls", "Calls"),
            ("/console/keys", "API keys"),
            ("/console/billing/orders", "Billing"),
            (SETTINGS, "Settings"),
            ("/console/audit", "Audit log"),
        ] {
            let page = browser.open(path).await;

            page.assert(200, "12,345").assert(200, ADA).assert(200, "Sign out");
            let here = page.html().split("aria-current=\"page\"").nth(1).unwrap_or_default();
            let named = here.split("</a>").next().unwrap_or_default();
            assert!(named.contains(word), "{path}: {named}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_have_one_link_more_and_only_while_they_are_staff() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        let permission = |command: &str| {
            json!({
                "command": command, "customer": member.customer.id, "permission": "support.read",
            })
        };
        let has_link = async || browser.open("/console").await.html().contains("/console/support");

        assert!(!has_link().await);
        app.staff(permission("grant_permission")).await;
        assert!(has_link().await);
        app.staff(permission("revoke_permission")).await;
        assert!(!has_link().await);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_form_has_a_token_of_its_own_that_lasts_as_long_as_the_session() {
    with_app(async |app| {
        let browser = signed_in(&app, ADA).await;
        let page = browser.open(SETTINGS).await;
        let forms = [RENAME, "/console/settings/email", "/console/settings/password"];
        let tokens = forms.map(|form| page.field(form, "csrf"));
        assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2] && tokens[0] != tokens[2]);

        app.advance_seconds(6 * 3_600);
        let later = browser.open(SETTINGS).await;
        assert_eq!(later.field(RENAME, "csrf"), tokens[0], "a page that stayed open still works");
        let app = app.restart().await;

        let client = browser.client().at(app.running().address());
        let client = client
            .with("sec-fetch-site", "same-origin")
            .with("content-type", "application/x-www-form-urlencoded");
        let body = format!("csrf={}&name={}", tokens[0], escaped("after the restart"));
        let sent = client.send("POST", RENAME, Some(body.into_bytes())).await;
        assert_eq!(sent.status, 303, "{}", sent.text());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_not_kept_by_anybody_and_a_head_is_that_of_its_page() {
    with_app(async |app| {
        let browser = signed_in(&app, ADA).await;
        for path in ["/console", SETTINGS, "/console/login"] {
            let page = browser.client().get(path).await;
            let head = browser.client().send("HEAD", path, None).await;

            assert_eq!(head.status, page.status, "{path}");
            assert!(head.body.is_empty(), "{path}");
            assert_eq!(head.header("cache-control"), "private, no-store", "{path}");
            assert_eq!(
                head.header("content-security-policy"),
                page.header("content-security-policy"),
                "{path}"
            );
        }
        let put = browser.client().send("PUT", SETTINGS, None).await;
        assert_eq!(put.status, 405, "{}", put.text());
        app
    })
    .await;
}
