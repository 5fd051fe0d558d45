//! The log of calls: its filters, together and one by one, and who may open a call.

use serde_json::json;
use test_service::{Browser, Client, Page, TestApp, with_app};

const CALLS: &str = "/console/calls";

/// A member who has made calls of several kinds: reads with two tags, a write, and a failed read.
async fn busy(app: &TestApp, email: &str) -> (Client, Browser) {
    let member = app.member(email).await;
    app.grant(&member.customer, 1_000).await;
    let client = app.with_key(&member.customer.key);
    for account in ["amber", "birch"] {
        assert_eq!(app.import(&client, "platform_alpha", account).await, "active");
    }
    for (account, tag) in [("amber", "night"), ("amber", "day"), ("birch", "night")] {
        let path = format!("/v1/{account}/native/users/me");
        assert_eq!(client.with("x-tag", tag).get(&path).await.status, 200);
        app.advance_seconds(1);
    }
    client.post("/v1/amber/native/chats/mark-as-read", &json!({})).await;
    app.advance_seconds(1);
    app.fault(&json!({"kind": "status", "status": 503, "platform": "platform_alpha"})).await;
    client.get("/v1/birch/native/users/me").await;
    app.no_faults().await;
    app.settled(&client).await;
    (client, app.browser_of(&member).await)
}

/// The calls of a page.
fn rows(page: &Page) -> usize {
    page.html().matches("/console/calls/call_").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_narrow_the_log_together_and_stay_in_its_form() {
    with_app(async |app| {
        let (_, browser) = busy(&app, "ada@example.com").await;
        let all = rows(&browser.open(CALLS).await);
        let per_call = all / 5;
        assert!(per_call >= 1 && all.is_multiple_of(5), "{all} links for five calls");
        for (filter, calls) in [
            ("account=amber", 3),
            ("account=birch", 2),
            ("tag=night", 2),
            ("tag=night&account=amber", 1),
            ("status=error", 1),
            ("status=5xx&account=birch", 1),
            ("status=ok", 4),
            ("route=GET+users%2Fme", 4),
            ("route=GET+users%2Fme&status=ok&tag=day", 1),
            ("account=nobody", 0),
            ("tag=day&account=birch", 0),
        ] {
            let page = browser.open(&format!("{CALLS}?{filter}")).await;

            assert_eq!(page.status(), 200, "{filter}: {}", page.words());
            assert_eq!(rows(&page), calls * per_call, "{filter}: {}", page.words());
            for pair in filter.split('&') {
                let (name, value) = pair.split_once('=').unwrap();
                let value = value.replace('+', " ").replace("%2F", "/");
                assert_eq!(page.field(CALLS, name), value, "{filter}");
            }
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_another_customer_is_not_there_by_any_of_its_ids() {
    with_app(async |app| {
        let (client, browser) = busy(&app, "ada@example.com").await;
        let eve = app.member("eve@example.com").await;
        let other = app.browser_of(&eve).await;
        let log = client.get("/v1/billing/usage/recent?limit=1").await.json();
        let call = &log["calls"][0];
        for id in [&call["call_id"], &call["request_id"]] {
            let path = format!("{CALLS}/{}", id.as_str().unwrap());

            browser.open(&path).await.assert(200, "birch");
            other.open(&path).await.assert(404, "There’s no call here").assert_not("birch");
        }
        let list = other.open(CALLS).await;
        assert_eq!((list.status(), rows(&list)), (200, 0));
        let stranger = app.browser().open(&format!("{CALLS}/call_1")).await;
        assert_eq!(stranger.status(), 303);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_shows_its_receipt_and_what_its_ending_means() {
    with_app(async |app| {
        let (client, browser) = busy(&app, "ada@example.com").await;
        let log = client.get("/v1/billing/usage/recent").await.json();
        let calls = log["calls"].as_array().unwrap();
        let page = async |place: usize| {
            let id = calls[place]["call_id"].as_str().unwrap();
            browser.open(&format!("{CALLS}/{id}")).await
        };

        let failed = page(0).await;
        let written = page(1).await;
        let read = page(4).await;

        failed.assert(200, "Platform failed").assert(200, "You weren’t charged.");
        written.assert(200, "POST").assert(200, "2 credits");
        read.assert(200, "night").assert(200, "1 credit").assert(200, "Answered");
        for shown in [&failed, &written, &read] {
            shown.assert_not("cgw_live_");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_counts_what_happened_and_nothing_of_others() {
    with_app(async |app| {
        let (_, browser) = busy(&app, "ada@example.com").await;
        let (_, other) = idle(&app).await;

        let page = browser.open("/console?days=7").await;
        let foreign = other.open("/console?days=7").await;

        // Three reads and a write were charged: five credits of 1,000.
        page.assert(200, "995").assert(200, "20.0 %").assert(200, "1 of 5 calls");
        foreign.assert(200, "No calls yet").assert_not("1 of 5 calls").assert_not("995");
        app
    })
    .await;
}

/// A member who has done nothing.
async fn idle(app: &TestApp) -> (Client, Browser) {
    let member = app.member("eve@example.com").await;
    (app.with_key(&member.customer.key), app.browser_of(&member).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_as_code_has_the_path_as_it_was_sent() {
    with_app(async |app| {
        let (client, browser) = busy(&app, "ada@example.com").await;
        app.advance_seconds(1);
        client.get("/v1/amber/native/users/50%25%20off").await;
        app.settled(&client).await;
        let log = client.get("/v1/billing/usage/recent?limit=1").await.json();
        let id = log["calls"][0]["call_id"].as_str().unwrap();

        let page = browser.open(&format!("{CALLS}/{id}")).await;

        page.assert(200, "/v1/amber/native/users/50%25%20off").assert_not("%2525");
        app
    })
    .await;
}
