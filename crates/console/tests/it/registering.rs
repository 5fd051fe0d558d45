//! Registering: once for each address, with nothing lost when a field is wrong.

use test_service::{Browser, Page, TestApp, with_app};

const REGISTER: &str = "/console/register";
const ADA: &str = "ada@example.com";
const PASSWORD: &str = "a long enough password";

async fn sent(browser: &Browser, email: &str, password: &str, name: &str) -> Page {
    let page = browser.open(REGISTER).await;
    let fields = [("email", email), ("password", password), ("name", name)];
    browser.submit(&page, REGISTER, &fields).await
}

/// The customers of this service with the address.
async fn found(app: &TestApp, email: &str) -> usize {
    usize::from(app.try_log_in(email, PASSWORD).await.status == 200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_fields_are_marked_and_all_but_the_password_is_kept() {
    with_app(async |app| {
        let browser = app.browser();
        for (email, password, field) in [
            ("no address", PASSWORD, "email"),
            ("", PASSWORD, "email"),
            ("ada@", PASSWORD, "email"),
            (ADA, "short", "password"),
            (ADA, "", "password"),
            (ADA, &*"x".repeat(129), "password"),
        ] {
            let page = sent(&browser, email, password, "Nord").await;

            page.assert(422, "Check the fields marked below");
            assert_eq!(page.field(REGISTER, "email"), email, "{field}");
            assert_eq!(page.field(REGISTER, "password"), "", "a password is never shown");
            let marked = page.html().contains(&format!("id=\"e-{field}\""));
            assert!(marked, "{field} of {email:?}: {}", page.html());
        }
        assert_eq!(found(&app, ADA).await, 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_form_sent_twice_makes_one_customer_and_shows_one_key() {
    with_app(async |app| {
        let browser = app.browser();
        let page = browser.open(REGISTER).await;
        let fields = [("email", ADA), ("password", PASSWORD), ("name", "Nord")];

        let first = browser.submit(&page, REGISTER, &fields).await;
        let again = app.browser().submit(&page, REGISTER, &fields).await;

        first.assert(201, "cgw_live_");
        again.assert(409, "There is an account with this address").assert_not("cgw_live_");
        assert_eq!(found(&app, ADA).await, 1);
        let mails = app.mails_to(ADA).await;
        assert!(!mails.is_empty());
        assert!(!mails.iter().any(|mail| mail.to_string().contains("cgw_live_")), "{mails:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_other_letters_is_the_same_address() {
    with_app(async |app| {
        let first = sent(&app.browser(), ADA, PASSWORD, "").await;
        first.assert(201, "cgw_live_");

        let again = sent(&app.browser(), "ADA@Example.COM", "another long password", "").await;

        again.assert(409, "There is an account with this address").assert_not("cgw_live_");
        assert_eq!(app.try_log_in(ADA, "another long password").await.status, 401);
        assert_eq!(found(&app, ADA).await, 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_from_another_site_registers_nobody() {
    with_app(async |app| {
        let fields = [("email", ADA), ("password", PASSWORD), ("name", "")];

        let foreign = app.browser().post_from_elsewhere(REGISTER, &fields).await;

        assert_eq!(foreign.status(), 403, "{}", foreign.words());
        assert_eq!(found(&app, ADA).await, 0);
        assert!(app.mails_to(ADA).await.is_empty());
        let ours = app.browser().post(REGISTER, &fields).await;
        ours.assert(201, "cgw_live_");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_credits_of_the_trial_come_with_the_emailed_link_and_once() {
    with_app(async |app| {
        let browser = app.browser();
        sent(&browser, ADA, PASSWORD, "Nord").await.assert(201, "cgw_live_");
        let home = browser.open("/console").await;
        home.assert(200, "Confirm your email address to get 500 credits");
        let credits = async || {
            let billing = browser.client().get("/v1/billing").await.json();
            billing["balance"].as_i64()
        };
        assert_eq!(credits().await, Some(0));
        let token = app.mailed_token(ADA).await;
        let link = format!("/console/confirm?token={token}");

        // The link may be opened in another browser, which is not signed in, by a mail program or
        // by its virus scanner.
        let page = app.browser().open(&link).await;
        app.browser().open(&link).await;
        assert_eq!(credits().await, Some(0), "opening it changes nothing");
        let fields = [("current_password", PASSWORD)];
        let done = app.browser().submit(&page, "/console/confirm", &fields).await;
        let again = app.browser().submit(&page, "/console/confirm", &fields).await;

        done.assert(200, "500 credits");
        browser.open("/console").await.assert(303, "");
        browser.post("/console/login", &[("email", ADA), ("password", PASSWORD)]).await;
        assert_eq!(credits().await, Some(500));
        assert_ne!(again.words(), done.words(), "it is said that the link was used");
        browser.open("/console").await.assert(200, "500 credits").assert_not("Confirm your email");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_signed_in_already_may_register_another_customer_and_is_then_that_one() {
    with_app(async |app| {
        let browser = app.browser();
        sent(&browser, ADA, PASSWORD, "Nord").await.assert(201, ADA);

        sent(&browser, "eve@example.com", PASSWORD, "Ost").await.assert(201, "eve@example.com");

        browser.open("/console").await.assert(200, "eve@example.com").assert_not(ADA);
        assert_eq!(found(&app, ADA).await, 1);
        app
    })
    .await;
}
