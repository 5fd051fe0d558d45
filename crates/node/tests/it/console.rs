//! The pages that emails link to: opening one changes nothing, submitting our form does, and every
//! state of a link has its message.

use crate::support::{Client, Reply, TestApp, on_both};

const ADA: &str = "ada@example.com";
const NEW: &str = "another long password";

/// Submits a form as a browser does from one of our pages.
async fn submit(app: &TestApp, path: &str, fields: &[(&str, &str)]) -> Reply {
    post(&app.anonymous().with("sec-fetch-site", "same-origin"), path, fields).await
}

async fn post(client: &Client, path: &str, fields: &[(&str, &str)]) -> Reply {
    let escaped = |text: &str| text.replace('%', "%25").replace('&', "%26").replace('+', "%2B");
    let form: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    let client = client.with("content-type", "application/x-www-form-urlencoded");
    client.send("POST", path, Some(form.join("&").into_bytes())).await
}

async fn confirm_page(app: &TestApp, token: &str) -> Reply {
    app.anonymous().get(&format!("/console/confirm?token={token}")).await
}

async fn reset_page(app: &TestApp, token: &str) -> Reply {
    app.anonymous().get(&format!("/console/reset?token={token}")).await
}

/// The token of an emailed link for a new password.
async fn reset_token(app: &TestApp) -> String {
    // The email of the registration is sent first.
    app.run_jobs().await;
    let asked = submit(app, "/console/reset/ask", &[("email", ADA)]).await;
    assert_eq!(asked.status, 202, "{}", asked.text());
    app.mailed_token(ADA).await
}

/// Asserts that a page of ours contains this text, runs no scripts and loads nothing from
/// elsewhere.
#[track_caller]
fn assert_page(reply: &Reply, status: u16, says: &str) {
    let text = reply.text();
    assert_eq!(reply.status, status, "{text}");
    assert!(text.contains(says), "{says:?} is not in {text}");
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(
        reply.header("content-security-policy"),
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    assert_eq!(reply.header("cache-control"), "private, no-store");
    assert_eq!(reply.header("referrer-policy"), "same-origin");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    for forbidden in ["<script", "style=\"", "onclick", "http://", "https://"] {
        assert!(!text.contains(forbidden), "{forbidden} is in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_emailed_page_confirms_the_address_when_its_button_is_pressed() {
    on_both(async |app| {
        let member = app.member(ADA).await;
        let token = app.mailed_token(ADA).await;
        let balance = async || {
            let billing = app.with_key(&member.customer.key).get("/v1/billing").await.json();
            billing["balance"].as_i64().unwrap()
        };

        for _ in 0..5 {
            assert_page(&confirm_page(&app, &token).await, 200, ADA);
        }
        assert_eq!(balance().await, 0);
        let done = submit(&app, "/console/confirm", &[("token", &token)]).await;

        assert_page(&done, 200, "500 credits of your free trial");
        assert_eq!(balance().await, 500);
        let again = submit(&app, "/console/confirm", &[("token", &token)]).await;
        assert_page(&again, 409, "has already been used");
        assert_page(&confirm_page(&app, &token).await, 409, "has already been used");
        assert_eq!(balance().await, 500);
        app
    })
    .await;
}

/// Browsers on pages of other sites, and one that sends no origin.
fn foreign(nobody: &Client) -> Vec<Client> {
    vec![
        nobody.clone(),
        nobody.with("sec-fetch-site", "cross-site"),
        nobody.with("sec-fetch-site", "same-site"),
        nobody.with("origin", "null"),
        nobody.with("origin", "https://evil.example"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_is_accepted_only_from_one_of_our_pages() {
    on_both(async |app| {
        app.member(ADA).await;
        let token = app.mailed_token(ADA).await;
        let fields = [("token", token.as_str())];
        let nobody = app.anonymous();

        for client in foreign(&nobody) {
            for path in ["/console/confirm", "/console/reset", "/console/reset/ask"] {
                let reply = post(&client, path, &fields).await;
                assert_eq!(reply.failure(), (403, "cross_site_request".to_owned()), "{path}");
            }
        }
        let ours = nobody.with("sec-fetch-site", "same-origin");
        let json = ours.with("content-type", "application/json");
        let body = format!("{{\"token\":\"{token}\"}}").into_bytes();
        assert_eq!(json.send("POST", "/console/confirm", Some(body)).await.status, 415);

        assert_page(&confirm_page(&app, &token).await, 200, ADA);
        assert_eq!(post(&ours, "/console/confirm", &fields).await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unusable_link_says_why_and_offers_a_new_one() {
    on_both(async |app| {
        app.member(ADA).await;
        let late = app.mailed_token(ADA).await;
        let reset = reset_token(&app).await;

        assert_page(&confirm_page(&app, "").await, 404, "This link is not known");
        assert_page(&confirm_page(&app, &reset).await, 404, "This link is not known");
        assert_page(&reset_page(&app, &late).await, 404, "This link is not known");
        app.advance_seconds(86_400);
        assert_page(&confirm_page(&app, &late).await, 410, "Links work for 24 hours.");
        assert_page(&reset_page(&app, &reset).await, 410, "Links work for one hour.");
        let wrong = submit(&app, "/console/confirm/again", &[("email", "ada")]).await;
        assert_page(&wrong, 422, "must be an address such as");
        let asked = submit(&app, "/console/confirm/again", &[("email", ADA)]).await;
        assert_page(&asked, 202, "Check your email");
        let unknown = submit(&app, "/console/confirm/again", &[("email", "x@example.com")]).await;

        assert_eq!(asked.body, unknown.body, "the page must not reveal who is a customer");
        let fresh = app.mailed_token(ADA).await;
        assert_page(&confirm_page(&app, &fresh).await, 200, ADA);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_from_an_address_is_never_part_of_a_page() {
    let app = TestApp::on_sqlite("").await;
    let evil = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E";

    for path in ["confirm", "reset"] {
        let page = app.anonymous().get(&format!("/console/{path}?token={evil}")).await;
        assert_page(&page, 404, "This link is not known");
    }
    let fields = [("email", "\"><script>alert(1)</script>"), ("token", "<script>")];
    let asked = submit(&app, "/console/reset/ask", &fields).await;
    assert_page(&asked, 422, "must be an address such as");
    let passwords = [("token", "\"><script>"), ("new_password", "a"), ("repeated", "b")];
    let set = submit(&app, "/console/reset", &passwords).await;
    assert_page(&set, 422, "The two passwords are not the same");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_emailed_page_sets_a_password() {
    on_both(async |app| {
        let member = app.member(ADA).await;
        let browser = app.signed_in(&member).await;
        assert_page(&reset_page(&app, "").await, 200, "Forgotten password");
        let token = reset_token(&app).await;
        let set = async |new: &str, repeated: &str| {
            let fields = [("token", token.as_str()), ("new_password", new), ("repeated", repeated)];
            submit(&app, "/console/reset", &fields).await
        };

        assert_page(&reset_page(&app, &token).await, 200, "name=\"new_password\"");
        assert_page(&set(NEW, "other").await, 422, "The two passwords are not the same");
        assert_page(&set("short", "short").await, 422, "The password must have 8 to 128");
        assert_page(&set(NEW, NEW).await, 200, "Your password is set");

        assert_eq!(browser.get("/v1/auth/me").await.status, 401);
        assert_eq!(app.try_log_in(ADA, NEW).await.status, 200);
        assert_page(&set(NEW, NEW).await, 409, "has already been used");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_requests_for_emails_are_told_to_wait() {
    let settings =
        "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[rate_limits]\nmails_per_network_per_hour = 3";
    let app = TestApp::on_sqlite(settings).await;
    let browser = app.anonymous().with("sec-fetch-site", "same-origin");
    let browser = browser.with("x-forwarded-for", "203.0.113.7");
    let asked = [("email", ADA)];
    for path in ["/console/reset/ask", "/console/confirm/again"] {
        for _ in 0..3 {
            assert_eq!(post(&browser, path, &asked).await.status, 202);
        }

        let fourth = post(&browser, path, &asked).await;

        assert_page(&fourth, 429, "Too many emails were requested");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_that_returns_from_the_processor_sees_what_happened() {
    let app = TestApp::on_sqlite("").await;
    let evil = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let page = async |rest: &str| app.anonymous().get(&format!("/console/billing{rest}")).await;

    assert_page(&page("?session_id=cs_test_1").await, 200, "Your payment was received");
    assert_page(&page("?cancelled=true").await, 200, "<h1>Nothing was charged</h1>");
    assert_page(&page("").await, 200, "take effect shortly");

    for field in ["session_id", "cancelled"] {
        let page = page(&format!("?{field}={evil}")).await;
        assert_page(&page, 200, "</html>");
        assert!(!page.text().contains("alert"), "{}", page.text());
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stylesheet_of_the_pages_is_served() {
    let app = TestApp::on_sqlite("").await;

    let style = app.anonymous().get("/console/style.css").await;

    assert_eq!((style.status, style.header("content-type")), (200, "text/css; charset=utf-8"));
    assert_eq!(style.header("cache-control"), "public, max-age=300");
    app.end().await;
}

/// Pages and emails show the operator's name, logo, colors and support address, and not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_emails_carry_the_operators_brand() {
    let folder = tempfile::tempdir().unwrap();
    let logo = folder.path().join("logo.svg");
    std::fs::write(&logo, "<svg xmlns='http://www.w3.org/2000/svg'/>").unwrap();
    let app = TestApp::on_sqlite(&format!(
        "[brand]\nname = \"Acme & Co\"\nsupport_email = \"help@acme.example\"\ncolor = \"#aa0011\"\nlogo_file = {:?}",
        logo.display().to_string()
    ))
    .await;

    let page = app.anonymous().get("/console/billing").await;
    let style = app.anonymous().get("/console/style.css").await.text();
    let image = app.anonymous().get("/console/logo").await;
    app.member(ADA).await;
    let mails = app.mails_to(ADA).await;

    assert_page(&page, 200, "help@acme.example");
    assert!(page.text().contains("<img src=\"/console/logo\" alt=\"Acme &#38; Co\">"));
    assert!(!page.text().contains("creator-gateway"), "{}", page.text());
    assert!(style.contains("--accent: #aa0011;"), "{style}");
    assert_eq!((image.status, image.header("content-type")), (200, "image/svg+xml"));
    assert!(image.header("content-security-policy").contains("sandbox"));
    let text = mails[0]["text"].as_str().unwrap();
    assert!(text.contains("Acme & Co") && text.contains("help@acme.example"), "{text}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_brand_the_service_names_itself() {
    let app = TestApp::on_sqlite("").await;

    assert_page(&app.anonymous().get("/console/billing").await, 200, "creator-gateway</p>");
    assert_eq!(app.anonymous().get("/console/logo").await.status, 404);
    app.end().await;
}
