//! The pages that emails link to: opening one changes nothing, submitting our form does, and every
//! state of a link has its message.

use test_service::Page;
use test_service::member::PASSWORD;
use test_service::{Client, Reply, TestApp, with_app};

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

/// Asserts that a page of ours says this, and keeps the rules for pages.
#[track_caller]
fn assert_page(reply: Reply, status: u16, says: &str) -> Page {
    let page = Page::read("a page", reply);
    page.assert(status, says);
    page
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_emailed_page_confirms_the_address_when_its_button_is_pressed() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let token = app.mailed_token(ADA).await;
        let balance = async || {
            let billing = app.with_key(&member.customer.key).get("/v1/billing").await.json();
            billing["balance"].as_i64().unwrap()
        };

        for _ in 0..5 {
            assert_page(confirm_page(&app, &token).await, 200, ADA);
        }
        assert_eq!(balance().await, 0);
        let alone = submit(&app, "/console/confirm", &[("token", &token)]).await;
        assert_page(alone, 422, "Enter a new password.");
        let fields = [("token", token.as_str()), ("current_password", PASSWORD)];
        let done = submit(&app, "/console/confirm", &fields).await;

        assert_page(done, 200, "500 credits of your free trial");
        assert_eq!(balance().await, 500, "the key of the registration keeps working");
        let again = submit(&app, "/console/confirm", &[("token", &token)]).await;
        assert_page(again, 409, "has already been used");
        assert_page(confirm_page(&app, &token).await, 409, "has already been used");
        assert_eq!(balance().await, 500);
        app
    })
    .await;
}

/// The page that confirms says what confirming needs and ends, for whoever opens it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_first_confirmation_knows_the_customer_or_asks_for_a_password() {
    const CONFIRM: &str = "/console/confirm";
    with_app(async |app| {
        let member = app.member(ADA).await;
        let eve = app.browser_of(&app.member("eve@example.com").await).await;
        let signed_in = app.browser_of(&member).await;
        let token = app.mailed_token(ADA).await;
        let link = format!("{CONFIRM}?token={token}");
        let send = async |fields: &[(&str, &str)]| {
            let page = eve.open(&link).await;
            eve.submit(&page, CONFIRM, fields).await
        };

        let known = signed_in.open(&link).await;
        known.assert(200, "You stay signed in here").assert_not("New password");
        let unknown = eve.open(&link).await;
        unknown.assert(200, "Set a new password to take over the account");
        unknown.assert(200, "Enter the password that you chose").assert_not("You stay signed in");
        send(&[("current_password", NEW)]).await.assert(422, "isn’t the password of the account");
        send(&[("new_password", NEW), ("repeated", "other")]).await.assert(422, "not the same");
        let short = [("new_password", "short"), ("repeated", "short")];
        send(&short).await.assert(422, "The password must have 8 to 128");
        let done = send(&[("new_password", NEW), ("repeated", NEW)]).await;

        done.assert(200, "The old password, API keys and signed-in browsers no longer work");
        assert_eq!(done.link("Sign in"), "/console/login");
        assert_eq!(signed_in.open("/console").await.status(), 303);
        assert_eq!(app.with_key(&member.customer.key).get("/v1/whoami").await.status, 401);
        assert_eq!(app.try_log_in(ADA, NEW).await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_signed_in_customer_confirms_with_its_session() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        let link = format!("/console/confirm?token={}", app.mailed_token(ADA).await);

        let page = browser.open(&link).await;
        let done = browser.submit(&page, "/console/confirm", &[]).await;

        done.assert(200, "500 credits").assert_not("no longer work");
        browser.open("/console").await.assert(200, "");
        assert_eq!(app.with_key(&member.customer.key).get("/v1/whoami").await.status, 200);
        app
    })
    .await;
}

/// A change of a confirmed address asks a browser that is not signed in for the password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_change_of_address_asks_a_stranger_for_the_password() {
    with_app(async |app| {
        let member = app.confirmed(ADA).await;
        let browser = app.browser_of(&member).await;
        let change = serde_json::json!({"email": "ada@new.example", "current_password": PASSWORD});
        let asked = app.signed_in(&member).await.json("PATCH", "/v1/auth/me", &change).await;
        assert_eq!(asked.status, 200, "{}", asked.text());
        let link = format!("/console/confirm?token={}", app.mailed_token("ada@new.example").await);

        let known = browser.open(&link).await;
        known.assert(200, "instead of the previous one").assert_not("Password");
        let page = app.browser().open(&link).await;
        page.assert(200, "You aren’t signed in to this account here").assert_not("New password");
        let fields = [("current_password", PASSWORD)];
        let done = app.browser().submit(&page, "/console/confirm", &fields).await;

        done.assert(200, "ada@new.example");
        browser.open("/console").await.assert(200, "");
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
    with_app(async |app| {
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

        assert_page(confirm_page(&app, &token).await, 200, ADA);
        assert_eq!(post(&ours, "/console/confirm", &fields).await.status, 422);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unusable_link_says_why_and_offers_a_new_one() {
    with_app(async |app| {
        app.member(ADA).await;
        let late = app.mailed_token(ADA).await;
        let reset = reset_token(&app).await;

        assert_page(confirm_page(&app, "").await, 404, "This link isn’t known");
        assert_page(confirm_page(&app, &reset).await, 404, "This link isn’t known");
        assert_page(reset_page(&app, &late).await, 404, "This link isn’t known");
        app.advance_seconds(86_400);
        assert_page(confirm_page(&app, &late).await, 410, "Links work for 24 hours.");
        assert_page(reset_page(&app, &reset).await, 410, "Links work for one hour.");
        let wrong = submit(&app, "/console/confirm/again", &[("email", "ada")]).await;
        assert_page(wrong, 422, "must be an address such as");
        let asked = submit(&app, "/console/confirm/again", &[("email", ADA)]).await;
        let unknown = submit(&app, "/console/confirm/again", &[("email", "x@example.com")]).await;

        assert_eq!(asked.body, unknown.body, "the page must not reveal who is a customer");
        assert_page(asked, 202, "Check your email");
        let fresh = app.mailed_token(ADA).await;
        assert_page(confirm_page(&app, &fresh).await, 200, ADA);
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
        assert_page(page, 404, "This link isn’t known");
    }
    let fields = [("email", "\"><script>alert(1)</script>"), ("token", "<script>")];
    let asked = submit(&app, "/console/reset/ask", &fields).await;
    assert_page(asked, 422, "must be an address such as");
    let passwords = [("token", "\"><script>"), ("new_password", "a"), ("repeated", "b")];
    let set = submit(&app, "/console/reset", &passwords).await;
    assert_page(set, 404, "This link isn’t known");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_emailed_page_sets_a_password() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.signed_in(&member).await;
        assert_page(reset_page(&app, "").await, 200, "Forgot your password?");
        let token = reset_token(&app).await;
        let set = async |new: &str, repeated: &str| {
            let fields = [("token", token.as_str()), ("new_password", new), ("repeated", repeated)];
            submit(&app, "/console/reset", &fields).await
        };

        assert_page(reset_page(&app, &token).await, 200, "Set a new password");
        assert_page(set(NEW, "other").await, 422, "The two passwords are not the same");
        assert_page(set("short", "short").await, 422, "The password must have 8 to 128");
        assert_page(set(NEW, NEW).await, 200, "Your password is set");

        assert_eq!(browser.get("/v1/auth/me").await.status, 401);
        assert_eq!(app.try_log_in(ADA, NEW).await.status, 200);
        assert_page(set(NEW, NEW).await, 409, "has already been used");
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

        assert_page(fourth, 429, "Too many emails were requested");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_that_returns_from_the_processor_sees_what_happened() {
    let app = TestApp::on_sqlite("").await;
    let evil = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let page =
        async |rest: &str| app.anonymous().get(&format!("/console/billing/return{rest}")).await;

    assert_page(
        page("?session_id=cs_test_1").await,
        200,
        "As soon as the payment processor confirms your payment",
    );
    assert_page(page("?cancelled=true").await, 200, "Nothing was charged");
    assert_page(page("").await, 200, "takes effect in a moment");

    for field in ["session_id", "cancelled"] {
        let page = page(&format!("?{field}={evil}")).await;
        let page = assert_page(page, 200, "");
        assert!(!page.html().contains("alert"), "{}", page.html());
    }
    // Checkouts that are open, and emails, may have the address that the page had before.
    let before = async |rest: &str| {
        let reply = app.anonymous().get(&format!("/console/billing{rest}")).await;
        (reply.status, reply.header("location").to_owned())
    };
    for (rest, now) in [
        ("?session_id=cs_test_1", "/console/billing/return?session_id=1"),
        ("?cancelled=true", "/console/billing/return?cancelled=true"),
        ("", "/console/login?next=%2Fconsole%2Fbilling"),
    ] {
        assert_eq!(before(rest).await, (303, now.to_owned()), "{rest}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_with_a_repeated_parameter_is_refused_on_a_page_and_in_a_problem() {
    let app = TestApp::on_sqlite("").await;

    for path in [
        "/console/login?next=/console&next=/console",
        "/console/reset?token=a&token=b",
        "/console/confirm?token=a&token=b",
        "/console/pay?token=a&token=b",
        "/console/billing/return?session_id=a&session_id=b",
    ] {
        let person = app.anonymous().with("accept", "text/html");
        assert_page(person.get(path).await, 422, "");
        let program = app.anonymous().get(path).await;
        assert_eq!((program.status, program.code()), (422, "invalid_request".to_owned()), "{path}");
        assert_eq!(program.json()["detail"][0]["type"], "duplicate", "{}", program.text());
    }
    app.end().await;
}

/// Which of two values counts is nothing to guess.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_with_a_repeated_field_is_refused_on_a_page_and_in_a_problem() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        let rename = "/console/settings/name";
        let page = browser.open("/console/settings").await;

        let names = [("name", "Ada"), ("name", "Eve")];
        let person = browser.submit(&page, rename, &names).await;
        let logins = [("email", ADA), ("password", "x"), ("email", NEW)];
        let stranger = app.browser().post("/console/login", &logins).await;
        let problem = submit(&app, "/console/login", &logins).await;

        for (refused, name) in [(&person, "name"), (&stranger, "email")] {
            refused.assert(422, "is given more than once").assert(422, name);
        }
        assert_eq!((problem.status, problem.code()), (422, "invalid_request".to_owned()));
        let field = &problem.json()["detail"][0];
        let told = (field["loc"].to_string(), field["type"].to_string());
        assert_eq!(told, (r#"["body","email"]"#.to_owned(), r#""duplicate""#.to_owned()));
        assert!(!browser.open("/console/settings").await.says("Eve"));
        for path in ["/console/calls?tag=a&tag=b", "/console/audit?action=a&action=b"] {
            browser.open(path).await.assert(422, "more than once");
        }
        app
    })
    .await;
}

/// Pages and emails show the operator's name, logo, colors and support address, and not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_emails_carry_the_operators_brand() {
    let folder = tempfile::tempdir().unwrap();
    let logo = folder.path().join("logo.svg");
    std::fs::write(&logo, "<svg xmlns='http://www.w3.org/2000/svg'/>").unwrap();
    let app = TestApp::on_sqlite(&format!(
        "[brand]\nname = \"Acme & Co\"\nsupport_email = \"help@acme.example\"\naccent.light = \"#aa0011\"\noperator = \"Acme Ltd\"\nterms_url = \"https://acme.example/terms\"\nannouncement = \"Maintenance <on> Sunday\"\nlogo_file = {:?}",
        logo.display().to_string()
    ))
    .await;

    let page = app.anonymous().get("/console/reset").await;
    let image = app.anonymous().get("/console/logo").await;
    app.member(ADA).await;
    let mails = app.mails_to(ADA).await;

    let page = assert_page(page, 200, "Contact support");
    assert!(page.html().contains("href=\"mailto:help@acme.example\""), "{}", page.html());
    assert!(page.html().contains("<img src=\"/console/logo\""), "{}", page.html());
    for part in
        ["Operated by <span dir=\"auto\">Acme Ltd</span>", "href=\"https://acme.example/terms\""]
    {
        assert!(page.html().contains(part), "{part}: {}", page.html());
    }
    assert!(page.html().contains("Maintenance &#60;on&#62; Sunday"), "{}", page.html());
    let style =
        page.html().split("rel=\"stylesheet\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let style = app.anonymous().get(style).await.text();
    assert!(style.contains("--accent: light-dark(#aa0011, #5fc0d5);"));
    page.assert(200, "Acme & Co").assert_not("creator-gateway");
    assert_eq!((image.status, image.header("content-type")), (200, "image/svg+xml; charset=utf-8"));
    assert!(image.header("content-security-policy").contains("sandbox"));
    let text = mails[0]["text"].as_str().unwrap();
    assert!(text.contains("Acme & Co") && text.contains("help@acme.example"), "{text}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_brand_the_service_names_itself() {
    let app = TestApp::on_sqlite("").await;

    assert_page(app.anonymous().get("/console/reset").await, 200, "creator-gateway");
    assert_eq!(app.anonymous().get("/console/logo").await.status, 404);
    app.end().await;
}
