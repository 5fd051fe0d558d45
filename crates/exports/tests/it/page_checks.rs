//! Inconsistent lists (H8, E24): each kind ends the read with its own code, without a retry.

use domain::window::DateWindow;
use exports::pages::PageRemedy;
use serde_json::{Value, json};

use super::reading::{
    ALL, ChatMessages, Chats, Reading, Subscribers, Transactions, texts, while_time_passes, written,
};
use test_service::TestApp;

/// Reads the list while its platform has this fault, and returns the code with which the read
/// failed.
async fn met(
    app: &TestApp,
    reading: &Reading,
    dataset: domain::dataset::DatasetName,
    mut fault: Value,
) -> &'static str {
    let wanted = reading.wanted_whole(dataset, 3).await;
    fault["platform"] = json!(reading.platform);
    app.fault(&fault).await;
    let met = reading.fault_of(app, wanted).await;
    app.no_faults().await;
    // Refused credentials are final only after another attempt was refused too.
    let is_asked_again = met.code == "credentials_refused";
    let remedy = if is_asked_again { PageRemedy::Attempt } else { PageRemedy::None };
    assert_eq!(met.remedy, remedy, "{fault}: {met}");
    met.code
}

#[tokio::test]
async fn repeated_pages_end_the_read() {
    let app = TestApp::on_sqlite("").await;
    for (platform, dataset, path) in [
        ("platform_alpha", Subscribers, "subscriptions/subscribers"),
        ("platform_alpha", Transactions, "payments/all/transactions"),
        ("platform_alpha", Chats, "chats"),
        ("platform_beta", Subscribers, "subscribers"),
        ("platform_beta", Chats, "messaging/groups"),
        ("platform_gamma", Subscribers, "user/{id}/subscription"),
        ("platform_gamma", Transactions, "user/{id}/process/stats"),
        ("platform_delta", Subscribers, "insights/fans"),
        ("platform_delta", Transactions, "insights/earnings"),
        ("platform_delta", Chats, "chats"),
    ] {
        let reading = Reading::of(&app, platform).await;
        // A list of two pages cannot repeat in a circle: its second page is short and therefore the
        // last.
        let has_circle = dataset != Chats || platform == "platform_delta";
        for pages in 1..=1 + u64::from(has_circle) {
            let fault = json!({"kind": "repeat_pages", "pages": pages, "path": path});
            let code = met(&app, &reading, dataset, fault).await;
            let is_cursor = platform == "platform_delta" && dataset == Transactions;
            // The second page of a circle returns the cursor that leads into the circle again.
            let expected = ["repeated_page", "repeated_cursor"];
            assert!(expected[..=usize::from(is_cursor)].contains(&code), "{path}: {code}");
        }
    }
    app.end().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of faults")]
async fn a_list_without_required_fields_is_refused() {
    let app = TestApp::on_sqlite("").await;
    let missing = |field: &str| json!({"kind": "missing_field", "field": field});
    let wrong = |field: &str| json!({"kind": "wrong_type", "field": field});
    for (platform, dataset, path, fault, code) in [
        (
            "platform_alpha",
            Subscribers,
            "subscriptions/subscribers",
            missing("hasMore"),
            "missing_has_more",
        ),
        (
            "platform_alpha",
            Subscribers,
            "subscriptions/subscribers",
            missing("list"),
            "missing_rows",
        ),
        ("platform_alpha", Subscribers, "subscriptions/subscribers", missing("id"), "missing_id"),
        (
            "platform_alpha",
            Subscribers,
            "subscriptions/subscribers",
            wrong("hasMore"),
            "malformed_page",
        ),
        (
            "platform_alpha",
            Subscribers,
            "subscriptions/subscribers",
            wrong("list"),
            "malformed_page",
        ),
        ("platform_beta", Subscribers, "subscribers", missing("hasMore"), "missing_has_more"),
        ("platform_beta", Subscribers, "subscribers", missing("total"), "missing_total"),
        ("platform_beta", Subscribers, "subscribers", missing("subscribers"), "missing_rows"),
        ("platform_beta", Subscribers, "subscribers", missing("success"), "malformed_page"),
        ("platform_beta", Subscribers, "subscribers", wrong("total"), "malformed_page"),
        (
            "platform_beta",
            Subscribers,
            "subscribers",
            json!({"kind": "no_envelope"}),
            "malformed_page",
        ),
        (
            "platform_gamma",
            Transactions,
            "user/{id}/process/stats",
            missing("processes"),
            "missing_rows",
        ),
        (
            "platform_gamma",
            Transactions,
            "user/{id}/process/stats",
            missing("count"),
            "missing_total",
        ),
        ("platform_gamma", Subscribers, "user/{id}/subscription", missing("_id"), "missing_id"),
        ("platform_delta", Subscribers, "insights/fans", missing("hasMore"), "missing_has_more"),
        ("platform_delta", Subscribers, "insights/fans", missing("pagination"), "missing_has_more"),
        (
            "platform_delta",
            Transactions,
            "insights/earnings",
            missing("nextCursor"),
            "missing_cursor",
        ),
        ("platform_delta", Transactions, "insights/earnings", missing("data"), "missing_rows"),
        (
            "platform_delta",
            Transactions,
            "insights/earnings",
            json!({"kind": "repeat_cursor"}),
            "repeated_cursor",
        ),
        (
            "platform_delta",
            ChatMessages,
            "chats/{userUuid}/messages",
            missing("nextCursor"),
            "missing_cursor",
        ),
        (
            "platform_alpha",
            ChatMessages,
            "chats/{chat_id}/messages",
            missing("hasMore"),
            "missing_has_more",
        ),
        ("platform_beta", ChatMessages, "message", missing("total"), "missing_total"),
    ] {
        let reading = Reading::of(&app, platform).await;
        let mut fault = fault;
        fault["path"] = json!(path);
        for after in [0, 1] {
            // A conversation has only one page.
            if after == 1 && dataset == ChatMessages {
                continue;
            }
            fault["after"] = json!(after);
            // A cursor may also equal an earlier one that was altered.
            if after == 0 || code != "repeated_cursor" {
                let told = met(&app, &reading, dataset, fault.clone()).await;
                assert_eq!(told, code, "{platform} {path} {fault}");
            }
        }
    }
    app.end().await;
}

#[tokio::test]
async fn broken_and_incomplete_pages_are_refused_at_any_position() {
    let app = TestApp::on_sqlite("").await;
    for (platform, path) in [
        ("platform_alpha", "subscriptions/subscribers"),
        ("platform_beta", "subscribers"),
        ("platform_gamma", "user/{id}/subscription"),
        ("platform_delta", "insights/fans"),
    ] {
        let reading = Reading::of(&app, platform).await;
        for (fault, code) in [
            (json!({"kind": "invalid_json"}), "malformed_page"),
            (json!({"kind": "deep_json"}), "any"),
            (json!({"kind": "short_page", "rows": 3}), "short_page"),
            (json!({"kind": "empty_page"}), "empty_page"),
            (json!({"kind": "long_body", "mebibytes": 9}), "page_too_large"),
            (json!({"kind": "gzip_bomb", "mebibytes": 64}), "page_too_large"),
            (json!({"kind": "status", "status": 401}), "credentials_refused"),
            (json!({"kind": "status", "status": 403}), "platform_refused"),
            (json!({"kind": "status", "status": 404}), "platform_refused"),
            (json!({"kind": "redirect"}), "platform_refused"),
        ] {
            for after in [0, 1] {
                let mut fault = fault.clone();
                (fault["path"], fault["after"]) = (json!(path), json!(after));
                // If the platform does not say whether more follows, a short or empty page ends a
                // list.
                if ["empty_page", "short_page"].contains(&code) && platform == "platform_gamma" {
                    continue;
                }
                let told = met(&app, &reading, Subscribers, fault.clone()).await;
                let expected = match code {
                    "any" => ["malformed_page", "missing_rows"],
                    code => [code, code],
                };
                assert!(expected.contains(&told), "{platform} {fault}: {told}");
            }
        }
    }
    app.end().await;
}

#[tokio::test]
async fn a_list_that_ends_before_its_total_is_incomplete() {
    let app = TestApp::on_sqlite("").await;
    for (platform, dataset, path, field) in [
        ("platform_gamma", Transactions, "user/{id}/process/stats", "count"),
        ("platform_beta", Subscribers, "subscribers", "total"),
    ] {
        let reading = Reading::of(&app, platform).await;
        let fault = json!({"kind": "long_total", "field": field, "path": path});
        assert_eq!(met(&app, &reading, dataset, fault).await, "incomplete_pages", "{path}");
    }
    app.end().await;
}

#[tokio::test]
async fn a_page_that_is_wrong_once_or_twice_is_requested_again() {
    let app = TestApp::on_sqlite("").await;
    for (platform, path) in [
        ("platform_alpha", "subscriptions/subscribers"),
        ("platform_beta", "subscribers"),
        ("platform_gamma", "user/{id}/subscription"),
        ("platform_delta", "insights/fans"),
    ] {
        let reading = Reading::of(&app, platform).await;
        let expected = written(&reading.list(Subscribers, "").await);
        for fault in [
            json!({"kind": "invalid_json", "times": 1}),
            json!({"kind": "invalid_json", "times": 2}),
            json!({"kind": "short_page", "rows": 3, "times": 1}),
            json!({"kind": "empty_page", "times": 1}),
        ] {
            for after in [0, 1] {
                let is_end = fault["kind"] == "empty_page" && platform == "platform_gamma";
                if is_end && after == 0 {
                    // Indistinguishable from a list without rows.
                    continue;
                }
                let mut fault = fault.clone();
                (fault["path"], fault["after"]) = (json!(path), json!(after));
                fault["platform"] = json!(platform);
                app.fault(&fault).await;

                let read = reading.read(&app, reading.wanted(Subscribers));
                let pages = while_time_passes(&app, read).await.unwrap();

                assert_eq!(sorted(texts(&pages)), sorted(expected.clone()), "{platform} {fault}");
                app.no_faults().await;
            }
        }
    }
    app.end().await;
}

#[tokio::test]
async fn repeated_rows_are_refused_and_totals_may_shrink() {
    let app = TestApp::on_sqlite("").await;
    for (platform, path) in [
        ("platform_alpha", "subscriptions/subscribers"),
        ("platform_beta", "subscribers"),
        ("platform_gamma", "user/{id}/subscription"),
        ("platform_delta", "insights/fans"),
    ] {
        let reading = Reading::of(&app, platform).await;
        // The row is on its page twice, because pages overlap.
        let fault = json!({"kind": "duplicate_rows", "path": path});
        assert_eq!(met(&app, &reading, Subscribers, fault).await, "repeated_row", "{path}");
    }
    let reading = Reading::of(&app, "platform_beta").await;
    let expected = written(&reading.list(Subscribers, "").await);
    app.fault(&json!({"kind": "shrinking_total", "path": "subscribers"})).await;
    let pages = reading.read(&app, reading.wanted(Subscribers)).await.unwrap();
    assert_eq!(texts(&pages), expected);
    app.no_faults().await;
    // After a cursor nothing overlaps: a repeated row takes the position of another one.
    let delta = Reading::of(&app, "platform_delta").await;
    let fault = json!({"kind": "duplicate_rows", "path": "insights/earnings"});
    assert_eq!(met(&app, &delta, Transactions, fault).await, "list_changed");
    app.end().await;
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

#[tokio::test]
async fn a_compressed_page_is_read_like_any_other() {
    let app = TestApp::on_sqlite("").await;
    for (platform, _) in ALL {
        let reading = Reading::of(&app, platform).await;
        let expected = written(&reading.list(Subscribers, "").await);
        app.fault(&json!({"kind": "gzip", "platform": platform})).await;

        let pages = reading.read(&app, reading.wanted(Subscribers)).await.unwrap();

        assert_eq!(texts(&pages), expected, "{platform}");
        app.no_faults().await;
    }
    app.end().await;
}

#[tokio::test]
async fn the_limits_of_rows_pages_and_time_are_enforced() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_alpha").await;
    let rows = |rows_max: u64| {
        let mut wanted = reading.wanted(Subscribers);
        wanted.limits.rows_max = rows_max;
        wanted
    };

    assert_eq!(reading.fault_of(&app, rows(239)).await.code, "too_many_rows");
    assert_eq!(texts(&reading.read(&app, rows(240)).await.unwrap()).len(), 240);

    // No row is in the window, so only pages are counted. A list may have six times the pages that
    // its allowed rows fill.
    let pages = |rows_max: u64, pages_max: u64| {
        let mut wanted = rows(rows_max);
        wanted.limits.pages_max = pages_max;
        wanted.window = DateWindow::parse(None, Some("2001-01-01")).unwrap();
        wanted
    };
    assert_eq!(reading.fault_of(&app, pages(0, 1)).await.code, "too_many_pages");
    assert_eq!(reading.read(&app, pages(100, 1)).await.unwrap().len(), 4);
    assert_eq!(reading.read(&app, pages(0, 4)).await.unwrap().len(), 4);
    let mut wanted = reading.wanted_whole(ChatMessages, 0).await;
    wanted.limits.pages_max = 0;
    assert_eq!(reading.fault_of(&app, wanted).await.code, "too_many_pages");

    let mut in_time = reading.wanted_whole(ChatMessages, 0).await;
    in_time.limits.ends_at = Some(app.clock.now().plus_seconds(1_800));
    let mut reader = reading.reader(&app, in_time).await;
    let before = app.seen("platform_alpha").await.len();
    app.advance_seconds(1_800);
    let late = reader.next().await.unwrap_err();
    assert_eq!((late.code, late.remedy), ("took_too_long", PageRemedy::None));
    assert_eq!(app.seen("platform_alpha").await.len(), before, "nothing more must be requested");
    drop(reader);
    app.end().await;
}

#[tokio::test]
async fn an_unknown_conversation_is_not_found() {
    let app = TestApp::on_sqlite("").await;
    for (platform, datasets) in ALL {
        assert!(datasets.contains(&ChatMessages));
        let reading = Reading::of(&app, platform).await;
        for chat_id in [Some("1234567"), Some("0"), Some("../x"), None] {
            let mut wanted = reading.wanted(ChatMessages);
            wanted.chat_id = chat_id.map(str::to_owned);

            let fault = reading.fault_of(&app, wanted).await;

            assert_eq!(fault.code, "chat_not_found", "{platform} {chat_id:?}: {fault}");
        }
    }
    app.end().await;
}

#[tokio::test]
async fn a_conversation_is_searched_for_on_twenty_pages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("beta.toml");
    let catalog = r#"
        [[datasets]]
        name = "chats"
        route = "messaging/groups"
        rows = "/groups"
        id = "/id"
        time = { field = "/lastMessageAt", unit = "unix_millis" }
        paging = { style = "before_id", parameter = "before", size_parameter = "limit", size = 5, more = "/hasMore", total = "/total" }
    "#;
    std::fs::write(&file, catalog).unwrap();
    let own = format!("[platforms.platform_beta]\ncatalog = {:?}", file.display().to_string());
    let app = TestApp::on_sqlite(&own).await;
    let reading = Reading::of(&app, "platform_beta").await;
    for (nth, is_found) in [(0, true), (99, true), (100, false)] {
        let wanted = reading.wanted_whole(ChatMessages, nth).await;
        let before = reading.asked(&app, "messaging/groups").await.len();

        let read = reading.read(&app, wanted).await;

        let fault = read.err();
        assert_eq!(fault.is_none(), is_found, "{nth}: {fault:?}");
        let asked = reading.asked(&app, "messaging/groups").await.len() - before;
        assert_eq!(asked, (nth / 5 + 1).min(20), "{nth}");
    }
    app.end().await;
}
