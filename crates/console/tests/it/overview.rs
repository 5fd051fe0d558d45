//! The overview.

use serde_json::json;
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";
const DAY_S: i64 = 86_400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_customer_sees_three_steps_and_can_have_the_email_sent_again() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;

        let page = browser.open("/console").await;
        page.assert(200, "1 of 3 done")
            .assert(200, "Confirm your email address to get 500 credits");
        page.assert(200, "No calls yet").assert_not("out of credits");
        let sent = browser.submit_and_follow(&page, "/console/email/resend", &[]).await;
        sent.assert(200, "We’ve sent a new link to ada@example.com.");
        assert!(app.mails_to(ADA).await.len() >= 2);
        app.connect(&member.customer, "platform_alpha").await;
        browser.open("/console").await.assert(200, "2 of 3 done");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_shows_what_is_left_what_fails_and_what_it_cost() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        app.grant(&member.customer, 1_000).await;
        let account = app.connect(&member.customer, "platform_alpha").await;
        let client = app.with_key(&member.customer.key);
        for _ in 0..3 {
            client.get(&format!("/v1/{account}/native/users/me")).await;
            app.advance_seconds(DAY_S);
        }
        let fault = json!({"kind": "status", "status": 500, "platform": "platform_alpha"});
        app.fault(&fault).await;
        for _ in 0..6 {
            client.get(&format!("/v1/{account}/native/chats?limit=1")).await;
        }
        app.settled(&client).await;
        app.no_faults().await;
        let browser = app.browser_of(&member).await;

        let page = browser.open("/console?days=90").await;

        page.assert(200, "Available credits 997").assert(200, "3 in the last 7 days");
        page.assert(200, "66.7 % 6 of 9 calls").assert(200, "keeps failing on");
        page.assert(200, "6 of 6 calls failed").assert(200, "Calls per day");
        page.assert_not("at this pace").assert_not("Get started");
        let log = page.html().split("/console/calls?status=error").nth(1).unwrap();
        let log = log.split('"').next().unwrap().replace("&#38;", "&");
        let log = browser.open(&format!("/console/calls?status=error{log}")).await;
        log.assert(200, "6 calls,");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_periods_show_the_usual_one() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;

    for query in ["?days=abc", "?days=0", "?days=100000", "?other=1"] {
        browser.open(&format!("/console{query}")).await.assert(200, "Welcome");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_call_that_is_suggested_succeeds_on_every_platform() {
    with_app(async |app| {
        for (platform, number) in [
            ("platform_alpha", 1),
            ("platform_beta", 2),
            ("platform_gamma", 3),
            ("platform_delta", 4),
        ] {
            let member = app.member(&format!("new{number}@example.com")).await;
            app.grant(&member.customer, 10).await;
            let account = app.connect(&member.customer, platform).await;
            let browser = app.browser_of(&member).await;

            let page = browser.open("/console").await;

            let start = format!("/v1/{account}/native/");
            let words = page.words();
            let path = words.split(&start).nth(1).unwrap_or_default();
            let path = path.split(['\'', '"', ' ', '\\']).next().unwrap_or_default();
            let client = app.with_key(&member.customer.key);
            let called = client.get(&format!("{start}{path}")).await;
            assert_eq!(called.status, 200, "{platform} {path}: {}", called.text());
            app.settled(&client).await;
        }
        app
    })
    .await;
}
