//! The page of usage: its days, its groups, its pages and its file.

use serde_json::json;
use store::testing::run_raw;
use test_service::{Browser, Client, TestApp, with_app};

use super::pages::ADA;

const USAGE: &str = "/console/billing/usage";
const CSV: &str = "/console/billing/usage.csv";

/// A member who has made `calls` reads with a tag each.
async fn busy(app: &TestApp, tags: &[&str]) -> (Client, Browser) {
    let member = app.member(ADA).await;
    app.grant(&member.customer, 1_000).await;
    let client = app.with_key(&member.customer.key);
    assert_eq!(app.import(&client, "platform_alpha", "ada").await, "active");
    for tag in tags {
        let tagged = client.with("x-tag", tag);
        assert_eq!(tagged.get("/v1/ada/native/users/me").await.status, 200);
    }
    app.settled(&client).await;
    (client, app.browser_of(&member).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_group_keeps_the_days_and_marks_itself() {
    with_app(async |app| {
        let (_, browser) = busy(&app, &["a", "b", "b"]).await;
        let days = "from=2026-11-20&to=2026-11-22";
        for (by, word, says) in [
            ("account", "Account", "ada 3"),
            ("route", "Route", "GET users/me"),
            ("tag", "Tag", "b 2"),
            ("key", "Key", "3"),
        ] {
            let page = browser.open(&format!("{USAGE}?by={by}&{days}")).await;

            page.assert(200, "3 credits, 20 Nov to 22 Nov").assert(200, says);
            assert!(page.html().contains("aria-current=\"true\""), "{by}");
            assert_eq!(page.field(USAGE, "from"), "2026-11-20");
            assert_eq!(page.field(USAGE, "to"), "2026-11-22");
            assert_eq!(page.field(USAGE, "by"), by, "{word}");
            assert!(page.link("Tag").contains(days), "{}", page.link("Tag"));
        }
        let unknown = browser.open(&format!("{USAGE}?by=color&{days}")).await;
        unknown.assert(200, "ada 3");
        assert_eq!(unknown.field(USAGE, "by"), "account");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_days_are_marked_and_the_usual_ones_are_shown() {
    with_app(async |app| {
        let (_, browser) = busy(&app, &["a"]).await;
        for (query, kept) in [
            ("from=2026-11-22&to=2026-11-21", ("2026-11-22", "2026-11-21")),
            ("from=yesterday", ("yesterday", "")),
            ("to=2026-02-30", ("", "2026-02-30")),
            ("from=2025-01-01&to=2026-11-21", ("2025-01-01", "2026-11-21")),
            ("from=%3Cb%3E", ("<b>", "")),
        ] {
            let page = browser.open(&format!("{USAGE}?{query}")).await;

            page.assert(422, "Check the fields marked below.").assert(422, "1 credit");
            assert_eq!(page.field(USAGE, "from"), kept.0, "{query}");
            assert_eq!(page.field(USAGE, "to"), kept.1, "{query}");
            assert!(!page.html().contains("value=\"<b>\""), "{}", page.html());
        }
        let spaced = browser.open(&format!("{USAGE}?from=+2026-11-21+&to=")).await;
        spaced.assert(200, "ada 1");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_entries_than_a_page_has_are_turned_to_and_back() {
    const MANY: &str = "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 51)
        insert into call_totals (customer_id, day, key_id, creator_id, platform, method, route, tag, outcome,
            calls, credits, ok)
        select k.customer_id, 20778, k.id, 'ada', 'platform_alpha', 'GET', 'lists', 'team-' || cast(i as text),
            'answered', i, i, i
        from n cross join keys k";
    with_app(async |app| {
        let (_, browser) = busy(&app, &[]).await;
        assert_eq!(run_raw(app.store(), MANY).await.unwrap(), 51);
        let first = browser.open(&format!("{USAGE}?by=tag&from=2026-11-01&to=2026-11-30")).await;

        let rest = browser.open(&first.link("More")).await;
        let back = browser.open(&rest.link("First page")).await;

        first.assert(200, "team-51 51").assert(200, "team-2 2").assert_not("team-1 1 ");
        rest.assert(200, "team-1 1").assert_not("team-51");
        first.assert(200, "All 1,326");
        rest.assert(200, "All 1,326");
        assert_eq!(back.words(), first.words());
        assert_eq!(rest.field(USAGE, "from"), "2026-11-01", "the days stay");
        let file = browser.open(&format!("{CSV}?by=tag&from=2026-11-01&to=2026-11-30")).await;
        assert_eq!(file.html().lines().count(), 52, "all entries and the names");
        run_raw(app.store(), "delete from call_totals").await.unwrap();
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_shown_by_their_names_and_names_are_text() {
    with_app(async |app| {
        let (client, browser) = busy(&app, &[]).await;
        let name = "<i>night</i> & \"day\"";
        let made = client.post("/v1/auth/keys", &json!({"name": name, "scope": "full"})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        let named = app.with_key(made["api_key"].as_str().unwrap());
        assert_eq!(named.get("/v1/ada/native/users/me").await.status, 200);
        app.settled(&named).await;

        let page = browser.open(&format!("{USAGE}?by=key")).await;
        page.assert(200, "<i>night</i> & \"day\"");
        assert!(!page.html().contains("<i>night"), "{}", page.html());
        let id = made["key_id"].as_str().unwrap();
        assert!(!page.says(id), "the name stands for it");

        // A key that is gone keeps what it spent.
        assert_eq!(client.delete(&format!("/v1/auth/keys/{id}")).await.status, 204);
        let after = browser.open(&format!("{USAGE}?by=key")).await;
        after.assert(200, "1 credit");
        after.assert(200, "night");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_is_for_who_is_signed_in_and_of_the_days_asked_for() {
    with_app(async |app| {
        let (_, browser) = busy(&app, &["a", "b"]).await;

        let today = browser.open(&format!("{CSV}?by=tag&from=2026-11-21&to=2026-11-21")).await;
        let empty = browser.open(&format!("{CSV}?by=tag&from=2026-11-01&to=2026-11-02")).await;
        let wrong = browser.open(&format!("{CSV}?by=tag&from=2026-11-02&to=2026-11-01")).await;
        let stranger = app.browser().open(&format!("{CSV}?by=tag")).await;

        let names = "name,platform,method,calls,exports,credits,ok,errors\r\n";
        assert_eq!(today.html(), format!("{names}a,,,1,0,1,1,0\r\nb,,,1,0,1,1,0\r\n"));
        assert_eq!(empty.html(), names);
        assert_eq!(wrong.status(), 422, "{}", wrong.words());
        assert_eq!(stranger.status(), 303);
        assert!(stranger.location().starts_with("/console/login?next="), "{}", stranger.location());
        app
    })
    .await;
}
