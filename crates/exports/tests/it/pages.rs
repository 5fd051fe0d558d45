//! Pages of every dataset of every platform: each row once and as the platform wrote it, even
//! across interruptions.

use domain::time::Timestamp;
use domain::window::DateWindow;
use exports::pages::{CheckedPage, PageFault, PageReader, PageRemedy};
use serde_json::{Value, json};

use super::reading::{
    ALL, ChatMessages, Chats, Following, Reading, Subscribers, Subscriptions, Transactions, texts,
    written,
};
use test_service::{TestApp, with_app};

/// The time of a row of this dataset.
pub(super) fn time_of(
    platform: &str,
    dataset: domain::dataset::DatasetName,
    row: &Value,
) -> Timestamp {
    let pointer = match (platform, dataset) {
        ("platform_alpha", Subscribers) => "/subscribedOnData/subscribeAt",
        ("platform_alpha", Chats) => "/lastMessage/createdAt",
        ("platform_beta", Chats) => "/lastMessageAt",
        ("platform_alpha" | "platform_beta", _) => "/createdAt",
        ("platform_gamma", Chats) => "/updated_at",
        ("platform_gamma", Following) => "/followed_at",
        ("platform_gamma", _) => "/created_at",
        (_, Subscribers) => "/subscribedAt",
        (_, Transactions) => "/date",
        (_, Chats) => "/lastMessageAt",
        (_, _) => "/sentAt",
    };
    match row.pointer(pointer).unwrap() {
        Value::String(text) => Timestamp::from_rfc3339(text).unwrap(),
        millis => Timestamp::from_unix_micros(millis.as_i64().unwrap() * 1_000),
    }
}

#[tokio::test]
async fn every_row_of_every_dataset_is_read_once_and_unchanged() {
    with_app(async |app| {
        for (platform, datasets) in ALL {
            let reading = Reading::of(&app, platform).await;
            for dataset in datasets {
                let chat =
                    if *dataset == ChatMessages { reading.fan(3).await.1 } else { String::new() };
                let expected = written(&reading.list(*dataset, &chat).await);
                let wanted = reading.wanted_whole(*dataset, 3).await;

                let pages = reading.read(&app, wanted).await.unwrap();

                assert_eq!(texts(&pages), expected, "{platform} {dataset}");
                assert!(!expected.is_empty(), "{platform} {dataset}");
                let numbers: Vec<u64> = pages.iter().map(|page| page.number).collect();
                assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
                assert!(pages.last().unwrap().is_last());
            }
        }
        app
    })
    .await;
}

#[tokio::test]
async fn a_new_account_has_lists_without_rows() {
    let app = TestApp::on_sqlite("").await;
    for (platform, datasets) in ALL {
        let reading = Reading::of(&app, platform).await;
        let customer = app.customer(10).await;
        let fresh = app.connect_nth(&customer, platform, 3).await;
        for dataset in datasets.iter().filter(|dataset| **dataset != ChatMessages) {
            let mut wanted = reading.wanted(*dataset);
            wanted.customer = customer.id.parse().unwrap();
            wanted.account = fresh.parse().unwrap();

            let pages = reading.read(&app, wanted).await.unwrap();

            assert!(texts(&pages).is_empty(), "{platform} {dataset}");
            assert!(pages.last().unwrap().is_last());
        }
    }
    app.end().await;
}

#[tokio::test]
async fn reading_marks_nothing_as_read_and_writes_nothing() {
    let app = TestApp::on_sqlite("").await;
    for (platform, datasets) in ALL {
        let reading = Reading::of(&app, platform).await;
        let before = written(&reading.list(Chats, "").await);
        assert!(before.iter().any(|chat| !chat.contains("nread\":0") || chat.contains("\"unread")));
        let asked_before = app.seen(platform).await.len();

        for dataset in datasets {
            let wanted = reading.wanted_whole(*dataset, 0).await;
            reading.read(&app, wanted).await.unwrap();
        }

        let seen = app.seen(platform).await;
        for request in &seen[asked_before..] {
            assert_eq!(request["method"], "GET", "{request}");
            let path = request["path"].as_str().unwrap();
            assert!(!path.contains("mark-as") && !path.contains("statuses"), "{path}");
        }
        assert_eq!(written(&reading.list(Chats, "").await), before, "{platform}");
    }
    app.end().await;
}

#[tokio::test]
async fn a_window_selects_exactly_the_rows_in_it() {
    let app = TestApp::on_sqlite("").await;
    for (platform, datasets) in ALL {
        let reading = Reading::of(&app, platform).await;
        for dataset in datasets {
            let chat =
                if *dataset == ChatMessages { reading.fan(1).await.1 } else { String::new() };
            let rows = reading.list(*dataset, &chat).await;
            let time = |row: &Value| time_of(platform, *dataset, row);
            let mut times: Vec<Timestamp> = rows.iter().map(time).collect();
            times.sort_unstable();
            // The start of a window is inclusive and its end exclusive; both are times of rows
            // here.
            let (start, end) = (times[times.len() / 4], times[times.len() * 3 / 4]);
            let days = (start.day().to_string(), end.day().to_string());
            let instants = (start.to_rfc3339(), end.to_rfc3339());
            for (from, to) in [instants, days] {
                let window = DateWindow::parse(Some(&from), Some(&to)).unwrap();
                let expected: Vec<Value> =
                    rows.iter().filter(|row| window.contains(time(row))).cloned().collect();
                let mut wanted = reading.wanted_whole(*dataset, 1).await;
                wanted.window = window;

                let pages = reading.read(&app, wanted).await.unwrap();

                assert_eq!(texts(&pages), written(&expected), "{platform} {dataset} {from} {to}");
                let is_end = expected.iter().any(|row| time(row) == end);
                assert_eq!(is_end, to.len() == 10, "{platform} {dataset} {to}");
                assert!(expected.iter().any(|row| time(row) == start), "{platform} {dataset}");
            }
        }
    }
    app.end().await;
}

#[tokio::test]
async fn a_platform_that_can_filter_by_day_is_asked_to() {
    let app = TestApp::on_sqlite("").await;
    let window = DateWindow::parse(Some("2026-11-01T22:00:00Z"), Some("2026-11-03")).unwrap();
    for (platform, dataset, path, days) in [
        ("platform_alpha", Transactions, "transactions", "startDate=2026-11-01&endDate=2026-11-03"),
        (
            "platform_gamma",
            Transactions,
            "process/stats",
            "init_from=2026-11-01&init_to=2026-11-03",
        ),
        ("platform_delta", Transactions, "earnings", "startDate=2026-11-01&endDate=2026-11-03"),
        ("platform_alpha", Subscribers, "subscribers", ""),
    ] {
        let reading = Reading::of(&app, platform).await;
        let mut wanted = reading.wanted(dataset);
        wanted.window = window;

        reading.read(&app, wanted).await.unwrap();

        let asked = reading.asked(&app, path).await;
        assert!(!asked.is_empty() && asked.iter().all(|query| query.contains(days)), "{asked:?}");
    }
    app.end().await;
}

#[tokio::test]
async fn a_window_in_the_future_has_no_rows() {
    let app = TestApp::on_sqlite("").await;
    for (platform, datasets) in ALL {
        let reading = Reading::of(&app, platform).await;
        for dataset in datasets {
            let mut wanted = reading.wanted_whole(*dataset, 0).await;
            wanted.window = DateWindow::parse(Some("2027-03-01"), None).unwrap();

            let pages = reading.read(&app, wanted).await.unwrap();

            assert!(texts(&pages).is_empty(), "{platform} {dataset}");
        }
    }
    app.end().await;
}

#[tokio::test]
async fn max_rows_limits_a_read_to_the_first_rows() {
    let app = TestApp::on_sqlite("").await;
    for (platform, dataset, all) in [
        ("platform_alpha", Subscribers, 240),
        ("platform_beta", Subscriptions, 20),
        ("platform_gamma", Subscribers, 240),
        ("platform_delta", Transactions, 720),
    ] {
        let reading = Reading::of(&app, platform).await;
        let rows = written(&reading.list(dataset, "").await);
        assert_eq!(rows.len(), all);
        for most in [1, 19, 50, 51, 100, 101, all, all + 1] {
            let mut wanted = reading.wanted(dataset);
            wanted.max_rows = Some(most as u64);

            let pages = reading.read(&app, wanted).await.unwrap();

            assert_eq!(texts(&pages), rows[..most.min(all)], "{platform} {most}");
        }
    }
    app.end().await;
}

/// Each page as another process would find it: its resume point and the texts of its rows.
fn kept(pages: &[CheckedPage]) -> Vec<(Vec<u8>, Vec<String>)> {
    let texts = |page: &CheckedPage| page.rows.iter().map(str::to_owned).collect();
    pages.iter().map(|page| (page.point.clone(), texts(page))).collect()
}

/// The pages that a reader returns after it has restored the stored ones.
async fn rest(mut reader: PageReader, done: &[(Vec<u8>, Vec<String>)]) -> Vec<CheckedPage> {
    for (point, rows) in done {
        reader.restore(point, rows.iter().map(String::as_str)).unwrap();
    }
    let mut pages = Vec::new();
    while let Some(page) = reader.next().await.unwrap() {
        pages.push(page);
    }
    pages
}

#[tokio::test]
async fn another_process_resumes_after_any_page_and_requests_none_again() {
    with_app(async |app| {
        for (platform, datasets) in ALL {
            let reading = Reading::of(&app, platform).await;
            for dataset in datasets {
                let wanted = reading.wanted_whole(*dataset, 3).await;
                let whole = reading.read(&app, wanted.clone()).await.unwrap();
                let kept = kept(&whole);
                for done in 0..whole.len() {
                    let before = app.seen(platform).await.len();
                    let reader = reading.reader(&app, wanted.clone()).await;
                    let rest = rest(reader, &kept[..done]).await;

                    assert_eq!(self::kept(&rest), kept[done..], "{platform} {dataset} {done}");
                    let looked_up = usize::from(*dataset == ChatMessages && done == 0);
                    let asked = app.seen(platform).await.len() - before;
                    assert!(asked <= rest.len() + looked_up, "{platform} {dataset}: {asked}");
                }
            }
        }
        app
    })
    .await;
}

#[tokio::test]
async fn what_was_read_before_an_interruption_is_known_after_it() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_alpha").await;
    // No row of the first pages is in the window, so only the resume points record them.
    let mut wanted = reading.wanted(Subscribers);
    wanted.window = DateWindow::parse(None, Some("2026-06-01")).unwrap();
    let fault = json!({"kind": "repeat_pages", "pages": 2, "path": "subscriptions/subscribers"});
    app.fault(&fault).await;
    let mut first = reading.reader(&app, wanted.clone()).await;
    let pages = [first.next().await.unwrap().unwrap(), first.next().await.unwrap().unwrap()];
    assert!(texts(&pages[..1]).is_empty());

    let mut second = reading.reader(&app, wanted).await;
    for (point, rows) in kept(&pages) {
        second.restore(&point, rows.iter().map(String::as_str)).unwrap();
    }
    let met = loop {
        match second.next().await {
            Ok(page) => assert!(page.unwrap().rows.is_empty(), "no row may be returned twice"),
            Err(refused) => break refused,
        }
    };

    assert_eq!((met.code, met.remedy), ("repeated_page", PageRemedy::None), "{met}");
    drop((first, second));
    app.no_faults().await;
    app.end().await;
}

#[tokio::test]
async fn resume_points_out_of_order_are_refused() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_alpha").await;
    let wanted = reading.wanted(Subscribers);
    let pages = reading.read(&app, wanted.clone()).await.unwrap();
    let kept = kept(&pages);
    let rows = |page: usize| kept[page].1.iter().map(String::as_str);

    let code = |result: Result<(), PageFault>| result.unwrap_err().code;
    let mut reader = reading.reader(&app, wanted).await;

    assert_eq!(code(reader.restore(&kept[1].0, rows(1))), "broken_resume_point");
    assert_eq!(code(reader.restore(b"no point", rows(0))), "broken_resume_point");
    reader.restore(&kept[0].0, rows(0)).unwrap();
    assert_eq!(code(reader.restore(&kept[0].0, rows(0))), "broken_resume_point");
    assert_eq!(code(reader.restore(&kept[1].0, rows(0))), "broken_resume_point");
    drop(reader);
    app.end().await;
}
