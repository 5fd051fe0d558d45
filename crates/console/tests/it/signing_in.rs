//! Signing in and out through the forms.

use test_service::member::PASSWORD;
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_signs_in_comes_to_the_page_that_was_asked_for_and_signs_out() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser();
        let asked = browser.open("/console/keys?x=1").await;
        assert_eq!(asked.location(), "/console/login?next=%2Fconsole%2Fkeys%3Fx%3D1");
        let login = browser.open(asked.location()).await;
        login.assert(200, "Sign in to continue");

        let fields = [("email", ADA), ("password", PASSWORD)];
        let done = browser.submit(&login, "/console/login", &fields).await;
        assert_eq!((done.status(), done.location()), (303, "/console/keys?x=1"));
        let home = browser.open("/console").await;
        home.assert(200, "Overview").assert(200, ADA);
        let out = browser.submit_and_follow(&home, "/console/logout", &[]).await;

        out.assert(200, "Sign in");
        assert_eq!(browser.open("/console").await.status(), 303);
        let again = app.browser_of(&member).await;
        assert_eq!(again.client().get("/v1/auth/me").await.status, 200);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_refused_and_the_address_is_kept() {
    let app = TestApp::on_sqlite("").await;
    app.member(ADA).await;
    let browser = app.browser();
    let login = browser.open("/console/login").await;

    let fields = [("email", ADA), ("password", "not the password")];
    let refused = browser.submit(&login, "/console/login", &fields).await;

    refused.assert(401, "Email or password is wrong").assert(401, "After 10 attempts");
    assert_eq!(refused.field("/console/login", "email"), ADA);
    assert_eq!(refused.field("/console/login", "password"), "");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_without_its_token_or_from_elsewhere_changes_nothing() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;
    let home = browser.open("/console").await;

    let without = browser.post("/console/logout", &[("csrf", "")]).await;
    let token = home.field("/console/logout", "csrf");
    let fields = [("csrf", token.as_str())];
    let elsewhere = browser.post_from_elsewhere("/console/logout", &fields).await;

    without.assert(403, "This form can't be sent again");
    assert_eq!(elsewhere.reply().status, 403);
    browser.open("/console").await.assert(200, "Overview");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registering_shows_the_first_key_once_and_signs_in() {
    with_app(async |app| {
        let browser = app.browser();
        let form = browser.open("/console/register").await;
        form.assert(200, "You get 500 credits once you confirm");

        let fields = [("name", "Studio <b>"), ("email", ADA), ("password", PASSWORD)];
        let made = browser.submit(&form, "/console/register", &fields).await;

        made.assert(201, "so it can’t be shown again").assert(201, ADA);
        let words = made.words();
        let key = words.split("export CGW_KEY=").nth(1).unwrap().split(' ').next().unwrap();
        assert_eq!(app.with_key(key).get("/v1/whoami").await.status, 200);
        let home = browser.open("/console").await;
        home.assert(200, "Studio <b>").assert_not(key);
        let again = browser.submit(&form, "/console/register", &fields).await;
        again.assert(409, "There is an account with this address").assert_not(PASSWORD);
        assert_eq!(again.field("/console/register", "name"), "Studio <b>");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_is_refused_says_what_is_wrong_at_its_field() {
    let app = TestApp::on_sqlite("").await;
    let browser = app.browser();
    let form = browser.open("/console/register").await;

    let fields = [("email", "ada"), ("password", "short")];
    let refused = browser.submit(&form, "/console/register", &fields).await;

    refused.assert(422, "Check the fields marked below").assert(422, "8 to 128");
    assert_eq!(refused.html().matches("aria-invalid=\"true\"").count(), 2);
    assert_eq!(refused.field("/console/register", "email"), "ada");
    let elsewhere = browser.post_from_elsewhere("/console/register", &fields).await;
    assert_eq!(elsewhere.status(), 403);
    app.end().await;
}
