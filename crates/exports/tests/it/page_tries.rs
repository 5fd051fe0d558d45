//! Platforms that fail temporarily: what is retried, and that pauses are respected.

use std::sync::atomic::{AtomicBool, Ordering};

use exports::pages::PageRemedy;
use serde_json::json;

use super::reading::{ALL, Reading, Subscribers, texts, while_time_passes, written};
use test_service::TestApp;

#[tokio::test]
async fn a_page_that_fails_temporarily_is_requested_again() {
    let app = TestApp::on_sqlite("").await;
    for (platform, _) in ALL {
        let reading = Reading::of(&app, platform).await;
        let expected = written(&reading.list(Subscribers, "").await);
        for fault in [
            json!({"kind": "status", "status": 500, "times": 5, "after": 1}),
            json!({"kind": "status", "status": 503, "times": 2}),
            json!({"kind": "closed", "times": 2, "after": 1}),
            json!({"kind": "reset", "times": 1}),
            json!({"kind": "cut_length", "times": 3}),
            json!({"kind": "two_lengths", "times": 1}),
            json!({"kind": "status", "status": 429, "times": 3, "after": 1}),
        ] {
            let mut fault = fault;
            fault["platform"] = json!(platform);
            app.fault(&fault).await;

            let read = reading.read(&app, reading.wanted(Subscribers));
            let pages = while_time_passes(&app, read).await.unwrap();

            assert_eq!(texts(&pages), expected, "{platform} {fault}");
            app.no_faults().await;
        }
    }
    app.end().await;
}

#[tokio::test]
async fn a_page_that_keeps_failing_is_left_to_a_later_attempt() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_alpha").await;
    for (fault, code) in [
        (json!({"kind": "status", "status": 500}), "platform_unavailable"),
        (json!({"kind": "closed"}), "platform_unavailable"),
        (json!({"kind": "gzip_cut"}), "platform_unavailable"),
        (json!({"kind": "status", "status": 429}), "platform_busy"),
    ] {
        app.fault(&fault).await;

        let met = reading.fault_of(&app, reading.wanted(Subscribers)).await;

        assert_eq!((met.code, met.remedy), (code, PageRemedy::Attempt), "{fault}: {met}");
        app.no_faults().await;
        app.advance_seconds(120);
    }
    let pages = reading.read(&app, reading.wanted(Subscribers)).await.unwrap();
    assert_eq!(texts(&pages).len(), 240);
    app.end().await;
}

#[tokio::test]
async fn a_pause_requested_by_the_platform_also_holds_native_calls_back() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_gamma").await;
    let wanted = reading.wanted(Subscribers);
    let pause =
        json!({"kind": "status", "status": 429, "headers": {"Retry-After": "30"}, "times": 1});
    app.fault(&pause).await;
    let before = app.seen("platform_gamma").await.len();
    let asked_at = app.clock.now();
    let is_over = AtomicBool::new(false);

    let read = async {
        let pages = reading.read(&app, wanted).await;
        is_over.store(true, Ordering::SeqCst);
        pages
    };
    let meanwhile = async {
        while app.seen("platform_gamma").await.len() == before {}
        // The pause begins when its response has been processed; until then calls pass.
        let paused = loop {
            let reply = reading.client.get(&format!("/v1/{}/native/me", reading.account)).await;
            if reply.status != 200 {
                break reply;
            }
        };
        assert_eq!((paused.status, paused.code().as_str()), (429, "account_paused"));
        let asked = reading.asked(&app, "subscription").await.len();
        app.advance_seconds(29);
        assert!(!is_over.load(Ordering::SeqCst));
        assert_eq!(
            reading.asked(&app, "subscription").await.len(),
            asked,
            "nothing must be sent during a pause"
        );
        app.advance_seconds(1);
    };
    let (pages, ()) = tokio::join!(read, meanwhile);

    assert_eq!(texts(&pages.unwrap()).len(), 240);
    assert!(app.clock.now() >= asked_at.plus_seconds(30));
    app.end().await;
}

#[tokio::test]
async fn a_dropped_read_loses_no_page() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_delta").await;
    let expected = written(&reading.list(Subscribers, "").await);
    let mut reader = reading.reader(&app, reading.wanted(Subscribers)).await;
    let mut pages = vec![reader.next().await.unwrap().unwrap()];
    app.fault(&json!({"kind": "silence", "times": 1, "path": "insights/fans"})).await;
    let asked = reading.asked(&app, "insights/fans").await.len();

    let left = async { while reading.asked(&app, "insights/fans").await.len() == asked {} };
    tokio::select! {
        page = reader.next() => panic!("{page:?}"),
        () = left => {}
    }
    while let Some(page) = reader.next().await.unwrap() {
        pages.push(page);
    }

    assert_eq!(texts(&pages), expected);
    drop(reader);
    app.end().await;
}

#[tokio::test]
async fn a_token_that_expires_is_refreshed_between_pages() {
    let app = TestApp::on_sqlite("").await;
    let accounts = simulators::demo_accounts(&app.settings);
    let demo = accounts.iter().find(|account| account.platform == "platform_delta").unwrap();
    let reading = Reading::of(&app, "platform_delta").await;
    let ends_at = app.clock.now().plus_seconds(600).to_rfc3339();
    let mut auth = demo.auth.clone();
    auth["expires_at"] = json!(ends_at);
    let import = json!({"creator_id": reading.account, "platform": "platform_delta", "auth": auth});
    assert_eq!(reading.client.post("/v1/connect/import", &import).await.status, 200);
    let mut reader = reading.reader(&app, reading.wanted(Subscribers)).await;
    let mut pages = vec![reader.next().await.unwrap().unwrap()];

    app.advance_seconds(590);
    while let Some(page) = reader.next().await.unwrap() {
        pages.push(page);
    }

    assert_eq!(texts(&pages).len(), 240);
    let refreshed = reading.asked(&app, "oauth/token").await;
    assert_eq!(refreshed.len(), 1, "the token must be refreshed once");
    drop(reader);
    app.end().await;
}

#[tokio::test]
async fn a_deleted_or_refused_account_ends_the_read() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_alpha").await;
    let mut reader = reading.reader(&app, reading.wanted(Subscribers)).await;
    reader.next().await.unwrap().unwrap();
    let removed = reading.client.delete(&format!("/v1/accounts/{}", reading.account)).await;
    assert_eq!(removed.status, 204, "{}", removed.text());

    let met = reader.next().await.unwrap_err();

    assert_eq!((met.code, met.remedy), ("account_unavailable", PageRemedy::None), "{met}");
    let again = app.running().read_pages(reading.wanted(Subscribers)).await;
    assert_eq!(again.err().map(|fault| fault.code), Some("account_unavailable"));
    drop(reader);
    app.end().await;
}

#[tokio::test]
async fn a_token_refused_midway_is_refreshed_and_the_read_continues() {
    let app = TestApp::on_sqlite("").await;
    let reading = Reading::of(&app, "platform_delta").await;
    let expected = written(&reading.list(Subscribers, "").await);
    let refused = json!({
        "kind": "status", "status": 401, "platform": "platform_delta", "path": "insights/fans", "after": 1, "times": 1,
    });
    app.fault(&refused).await;

    let pages = reading.read(&app, reading.wanted(Subscribers)).await.unwrap();

    assert_eq!(texts(&pages), expected);
    app.no_faults().await;
    app.end().await;
}
