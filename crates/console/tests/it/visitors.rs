//! Who is not signed in, whose session ended, who is suspended, and who comes from another site.

use serde_json::json;
use test_service::browser::escaped;
use test_service::member::PASSWORD;
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";
const EVE: &str = "eve@example.com";
/// Every page that needs a session.
const PAGES: [&str; 16] = [
    "/console",
    "/console?days=7",
    "/console/calls",
    "/console/calls?status=5xx&account=a",
    "/console/calls/call_019ab3c4d5e67f8091a2b3c4d5e6f708",
    "/console/explorer",
    "/console/accounts",
    "/console/accounts/ada/disconnect",
    "/console/exports",
    "/console/exports/exp_019ab3c4d5e67f8091a2b3c4d5e6f708/delete",
    "/console/keys",
    "/console/keys/key_019ab3c4d5e67f8091a2b3c4d5e6f708/revoke",
    "/console/settings",
    "/console/settings/sessions/end-others",
    "/console/audit",
    "/console/support",
];
/// Forms that change something.
const FORMS: [&str; 16] = [
    "/console/logout",
    "/console/email/resend",
    "/console/keys",
    "/console/keys/key_019ab3c4d5e67f8091a2b3c4d5e6f708/rotate",
    "/console/keys/key_019ab3c4d5e67f8091a2b3c4d5e6f708/revoke",
    "/console/accounts/connect",
    "/console/accounts/ada/switch",
    "/console/accounts/ada/disconnect",
    "/console/exports",
    "/console/exports/exp_019ab3c4d5e67f8091a2b3c4d5e6f708/cancel",
    "/console/settings/name",
    "/console/settings/email",
    "/console/settings/password",
    "/console/settings/support",
    "/console/settings/notices",
    "/console/settings/sessions/end-others",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_asks_a_stranger_to_sign_in_and_leads_back() {
    with_app(async |app| {
        let stranger = app.browser();
        for path in PAGES {
            let page = stranger.open(path).await;

            assert_eq!(page.status(), 303, "{path}: {}", page.words());
            let (login, next) = page.location().split_once("?next=").unwrap();
            assert_eq!(login, "/console/login", "{path}");
            let plain = next.replace("%2F", "/").replace("%3F", "?").replace("%3D", "=");
            assert_eq!(plain.replace("%26", "&"), path);
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_form_does_anything_without_its_token_or_from_another_site() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        let client = app.with_key(&member.customer.key);
        let before = client.get("/v1/audit").await.json();
        let fields = [("csrf", "made-up"), ("name", "x"), ("email", EVE), ("enabled", "true")];
        for path in FORMS {
            let forged = browser.post(path, &fields).await;
            let elsewhere = browser.post_from_elsewhere(path, &fields).await;
            let stranger = app.browser().post(path, &fields).await;

            forged.assert(403, "This form can't be sent again");
            assert_eq!(elsewhere.status(), 403, "{path}: {}", elsewhere.words());
            assert_eq!(stranger.status(), 303, "{path}: {}", stranger.words());
        }
        assert_eq!(client.get("/v1/audit").await.json(), before);
        browser.open("/console").await.assert(200, "Available");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_another_customers_page_is_no_form() {
    with_app(async |app| {
        let (ada, eve) = (app.member(ADA).await, app.member(EVE).await);
        let (one, other) = (app.browser_of(&ada).await, app.browser_of(&eve).await);
        let page = one.open("/console/settings").await;
        let rename = "/console/settings/name";
        let token = page.field(rename, "csrf");

        let foreign = other.post(rename, &[("csrf", &token), ("name", "Mallory")]).await;
        let of_another_form =
            one.post("/console/settings/email", &[("csrf", &token), ("email", EVE)]).await;

        assert_eq!((foreign.status(), of_another_form.status()), (403, 403));
        for browser in [&one, &other] {
            browser.open("/console/settings").await.assert_not("Mallory");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_signing_out_no_page_and_no_form_of_the_session_works() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        let page = browser.open("/console/settings").await;
        let rename = "/console/settings/name";

        let out = browser.submit(&page, "/console/logout", &[]).await;
        let late = browser.submit(&page, rename, &[("name", "late")]).await;
        let again = browser.submit(&page, "/console/logout", &[]).await;

        assert_eq!(out.location(), "/console/login");
        for ended in [&late, &again] {
            assert_eq!(ended.status(), 303, "{}", ended.words());
            assert!(ended.location().starts_with("/console/login"), "{}", ended.location());
        }
        let client = app.with_key(&member.customer.key);
        assert_eq!(client.get("/v1/audit?action=key.").await.status, 200);
        let back = app.browser_of(&member).await;
        back.open("/console/settings").await.assert_not("late");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_midway_leads_to_the_login_and_back() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        browser.open("/console/keys").await.assert(200, "API keys");
        app.advance_seconds(13 * 3_600);

        let ended = browser.open("/console/keys?before=x").await;
        let login = browser.open(ended.location()).await;
        let fields = [("email", ADA), ("password", PASSWORD)];
        let done = browser.submit(&login, "/console/login", &fields).await;

        login.assert(200, "Sign in to continue");
        assert_eq!(done.location(), "/console/keys?before=x");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_in_never_leads_to_another_site() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        for next in [
            "https://evil.example/",
            "//evil.example",
            "/console//evil.example",
            "/\\evil.example",
            "/v1/auth/me",
            "javascript:alert(1)",
            "/console\r\nX: y",
        ] {
            let browser = app.browser();
            let encoded = escaped(next);
            let login = browser.open(&format!("/console/login?next={encoded}")).await;
            assert!(!login.html().contains("evil.example"), "{next}: {}", login.html());
            let fields = [("email", member.email.as_str()), ("password", PASSWORD), ("next", next)];

            let done = browser.submit(&login, "/console/login", &fields).await;

            assert_eq!((done.status(), done.location()), (303, "/console"), "{next}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_theme_is_chosen_by_anybody_and_leads_back_to_our_own_page() {
    with_app(async |app| {
        let browser = app.browser();
        let theme = "/console/theme";
        let chosen = [("theme", "dark"), ("back", "/console/login?next=%2Fconsole")];
        let done = browser.post(theme, &chosen).await;
        let page = browser.open("/console/login").await;
        let elsewhere =
            browser.post(theme, &[("theme", "light"), ("back", "//evil.example")]).await;
        let unknown = browser.post(theme, &[("theme", "<b>"), ("back", "/console/login")]).await;
        let foreign = browser.post_from_elsewhere(theme, &chosen).await;

        assert_eq!((done.status(), done.location()), (303, chosen[1].1));
        assert!(page.html().contains("data-theme=\"dark\""), "{}", page.html());
        assert_eq!(elsewhere.location(), "/console");
        assert_eq!((unknown.status(), unknown.location()), (303, "/console/login"));
        assert!(!browser.open("/console/login").await.html().contains("<b>"));
        assert_eq!(foreign.status(), 403);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_customer_reads_that_it_is_suspended_on_every_page() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        operator(
            &app,
            &json!({
                "command": "suspend_customer", "customer": member.customer.id, "reason": "a test",
            }),
        )
        .await;
        for path in ["/console", "/console/calls", "/console/keys", "/console/settings"] {
            let page = browser.open(path).await;

            assert_eq!(page.status(), 403, "{path}: {}", page.words());
            assert!(page.words().to_lowercase().contains("suspended"), "{}", page.words());
            page.assert_not("a test");
        }
        let resume = json!({"command": "resume_customer", "customer": member.customer.id});
        operator(&app, &resume).await;
        assert_eq!(browser.open("/console").await.status(), 303, "its session has ended");
        let again = app.browser_of(&member).await;
        again.open("/console/audit").await.assert(200, "Suspended").assert(200, "Suspension ended");
        app
    })
    .await;
}

/// Sends a command of the operator's.
async fn operator(app: &TestApp, command: &serde_json::Value) {
    use secrecy::ExposeSecret as _;
    let token = app.running().admin_token().expose_secret().to_owned();
    let done = app.admin().bearer(&token).post("/commands/operator", command).await;
    assert_eq!(done.status, 200, "{}", done.text());
}
