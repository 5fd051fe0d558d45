//! The call log and one call.

use test_service::Browser;
use test_service::member::Member;
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";

/// A member with an account, credits and calls: two that succeed, one that fails, one unlisted.
async fn caller(app: &TestApp) -> (Member, Browser) {
    let member = app.member(ADA).await;
    app.grant(&member.customer, 100).await;
    let account = app.connect(&member.customer, "platform_alpha").await;
    let client = app.with_key(&member.customer.key);
    for path in ["users/me", "chats?limit=2", "users/nobody-here"] {
        client.with("x-tag", "nightly").get(&format!("/v1/{account}/native/{path}")).await;
    }
    client.get(&format!("/v1/{account}/native/%3Cb%3E/x")).await;
    app.settled(&client).await;
    let browser = app.browser_of(&member).await;
    (member, browser)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_shows_calls_and_its_filters_are_in_the_address() {
    with_app(async |app| {
        let (member, browser) = caller(&app).await;

        let all = browser.open("/console/calls").await;
        all.assert(200, "Every metered call of your keys").assert(200, "users/me");
        let by_route = browser.open("/console/calls?route=GET+users%2Fme").await;
        by_route.assert(200, "1 call,").assert_not("chats");
        browser.open("/console/calls?tag=nightly").await.assert(200, "3 calls,");
        browser.open("/console/calls?tag=other").await.assert(200, "No calls match these filters");
        let key = format!("/console/calls?key={}", member.customer.key_id);
        browser.open(&key).await.assert(200, "4 calls,");
        browser.open("/console/calls?status=5xx").await.assert(200, "No calls match");
        let before = browser.open("/console/calls?before=2026-11-21T11%3A59").await;
        before.assert(200, "No calls match");
        app
    })
    .await;
}

/// Copies one of the stored calls, as often as a page looks at calls, each a second older.
const MANY_CALLS: &str = "
    with recursive copies (number) as
        (select 1 union all select number + 1 from copies where number < 50000)
    insert into ended_calls (id, customer, key, account, platform, method, route, outcome, node, path, cost, charged,
        status, request, request_text, epoch, held_at, lasted)
    select randomblob(16), customer, key, account, platform, method, route, outcome, node, path, cost, 0,
        status, request, request_text, epoch, held_at - number * 1000000, lasted
    from copies, (select * from ended_calls union all select * from new_calls limit 1) as one";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_has_not_reached_the_oldest_call_offers_to_go_on() {
    let app = TestApp::on_sqlite("").await;
    let (_, browser) = caller(&app).await;
    store::testing::run_raw(app.store(), MANY_CALLS).await.unwrap();

    let page = browser.open("/console/calls?tag=other").await;
    page.assert(200, "No matches so far").assert(200, "None of the calls back to 20 Nov 2026");
    let older = browser.open(&page.link("Search older calls")).await;
    older.assert(200, "No calls match these filters");
    let copies = "delete from ended_calls where charged = 0";
    assert_eq!(store::testing::run_raw(app.store(), copies).await.unwrap(), 50_000);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_filter_is_marked_and_the_log_is_shown_without_filters() {
    let app = TestApp::on_sqlite("").await;
    let (_, browser) = caller(&app).await;
    let other = app.customer(0).await;

    for query in ["before=yesterday", "status=teapot", "account=a%20b", "key=1"] {
        let page = browser.open(&format!("/console/calls?{query}")).await;
        page.assert(422, "Check the fields marked below").assert(422, "4 calls,");
    }
    let foreign = browser.open(&format!("/console/calls?key={}", other.key_id)).await;
    foreign.assert(422, "You have no such key.").assert(422, "4 calls,");
    let unknown = browser.open("/console/calls?id=call_x").await;
    unknown.assert(422, "no such call").assert(422, "4 calls,");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_leads_to_its_call_which_shows_its_receipt() {
    with_app(async |app| {
        let (member, browser) = caller(&app).await;
        let client = app.with_key(&member.customer.key);
        let log = client.get("/v1/billing/usage/recent").await.json();
        let calls = log["calls"].as_array().unwrap().clone();
        let call = calls.iter().find(|call| call["path"] == "users/me").unwrap();
        let id = call["call_id"].as_str().unwrap();
        let request = call["request_id"].as_str().unwrap();

        let by_request = browser.open(&format!("/console/calls?id={request}")).await;
        assert_eq!(by_request.location(), format!("/console/calls/{id}"));
        let page = browser.open(by_request.location()).await;
        page.assert(200, "Charged 1 credit").assert(200, "Held 1 Returned 0").assert(200, request);
        page.assert(200, "The platform answered.").assert(200, "$CGW_KEY").assert(200, "nightly");
        page.assert_not(&member.customer.key);
        let stranger = app.member("eve@example.com").await;
        let foreign = app.browser_of(&stranger).await;
        let foreign = foreign.open(&format!("/console/calls/{id}")).await;
        foreign.assert(404, "No such call, or it isn’t yours.").assert_not("users/me");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_summed_up_says_so() {
    let app = TestApp::on_sqlite("").await;
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;

    // Made on 1 August 2026.
    let old = browser.open("/console/calls/call_019fbd32060070008000000000000000").await;

    old.assert(404, "This ID is from 1 Aug 2026. Calls are kept for 90 days");
    browser.open("/console/calls").await.assert(200, "No calls yet").assert(200, "for 90 days");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_page_stays_within_its_budget_and_leads_to_older_calls() {
    let app = TestApp::on_sqlite("").await;
    let (member, browser) = caller(&app).await;
    let client = app.with_key(&member.customer.key);
    let log = client.get("/v1/billing/usage/recent").await.json();
    let account = log["calls"][0]["account"].as_str().unwrap().to_owned();
    for _ in 0..50 {
        app.advance_seconds(1);
        client.get(&format!("/v1/{account}/native/users/me")).await;
    }
    app.settled(&client).await;

    let page = browser.open("/console/calls").await;

    page.assert(200, "50 calls,").assert(200, "Older").assert_not("Newest");
    let older = browser.open(&page.link("Older")).await;
    older.assert(200, "4 calls,").assert(200, "Newest").assert_not("Older");
    app.end().await;
}
