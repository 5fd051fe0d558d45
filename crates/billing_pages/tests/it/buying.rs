//! Buying on the processor's page, coming back from it, and the saved card.

use serde_json::json;
use test_service::processor::{PACK, PACK_CREDITS, balance};
use test_service::subscriber::GOOD_CARD;
use test_service::{TestApp, with_app};

use super::pages::{ADA, BUY, EVE, HOME, checkout_session, with_card};

const RETURN: &str = "/console/billing/return";
const SYNC: &str = "/console/billing/card/sync";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_form_sent_twice_opens_one_payment_page() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let client = app.with_key(&member.customer.key);
        let browser = app.browser_of(&member).await;
        let page = browser.open(HOME).await;
        page.assert(200, "Pay on the payment page").assert_not("Pay now with");
        let fields = [("pack_id", PACK), ("pay", "page")];

        let first = checkout_session(&browser.submit(&page, BUY, &fields).await);
        let again = checkout_session(&browser.submit(&page, BUY, &fields).await);
        let other = browser.submit(&browser.open(HOME).await, BUY, &fields).await;

        assert_eq!(first, again);
        assert_ne!(checkout_session(&other), first, "a form opened anew pays anew");
        app.pay_page(&first, GOOD_CARD).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);
        browser.open(HOME).await.assert(200, "Pay now with Visa 4242");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_is_not_sold_is_marked_and_nothing_is_opened() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = browser.open(HOME).await;
        let asked = async || app.shown("requests").await["requests"].as_array().unwrap().len();
        let before = asked().await;
        for pack in ["", "pack_unknown", "<script>alert(1)</script>"] {
            for way in ["card", "page"] {
                let refused = browser.submit(&page, BUY, &[("pack_id", pack), ("pay", way)]).await;

                refused.assert(404, "This pack isn't sold any more. Choose another one.");
                assert!(!refused.html().contains("<script>alert"), "{}", refused.html());
            }
        }
        assert_eq!(asked().await, before, "the processor was not asked");
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_back_reads_what_happened_and_nothing_about_anybody() {
    with_app(async |app| {
        let stranger = app.browser();
        for (query, says) in [
            ("session_id=cs_test_unknown", "As soon as the payment processor confirms"),
            ("cancelled=true", "Nothing was charged."),
            ("cancelled", "Nothing was charged."),
            ("", "Welcome back"),
            ("session_id=", "Welcome back"),
            ("session_id=%3Cscript%3E&utm_source=x", "Thank you"),
        ] {
            let page = stranger.open(&format!("{RETURN}?{query}")).await;

            page.assert(200, says).assert(200, "If someone else uses the service");
            assert!(!page.html().contains("cs_test_unknown"), "{}", page.html());
            assert!(!page.html().contains("<script>alert"), "{}", page.html());
        }
        // A paid session that is opened again and again grants once, by its event.
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        for _ in 0..3 {
            browser.open(&format!("{RETURN}?session_id=cs_test_any")).await.assert(200, "Thank");
        }
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_that_was_never_saved_is_said_and_one_that_was_is_named() {
    with_app(async |app| {
        let eve = app.member(EVE).await;
        let without = app.browser_of(&eve).await;
        let (_, with) = with_card(&app, GOOD_CARD).await;
        // The button is on the page of a plan in trouble; its token is that of the path alone.
        let token = |page: &test_service::Page| page.field("/console/billing/portal", "csrf");
        let wrong = token(&with.open(HOME).await);

        let foreign = with.post(SYNC, &[("csrf", wrong.as_str())]).await;

        assert_eq!(foreign.status(), 403, "a token is of one form");
        assert_eq!(without.open(SYNC).await.status(), 405);
        assert_eq!(without.post(SYNC, &[]).await.status(), 403);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_processor_that_is_away_is_said_and_charges_nothing() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[processor]\nretries_max = 0").await;
    let (client, browser) = with_card(&app, GOOD_CARD).await;
    let page = browser.open(HOME).await;
    let away = json!({"kind": "error_before", "method": "POST", "times": 9});
    app.processor_fault(&away).await;

    let by_card = browser.submit(&page, BUY, &[("pack_id", PACK), ("pay", "card")]).await;
    let by_page = browser.submit(&page, BUY, &[("pack_id", PACK), ("pay", "page")]).await;
    let portal = browser.submit(&page, "/console/billing/portal", &[]).await;

    by_card.assert(504, "We don't know yet whether your card was charged.");
    by_page.assert(504, "The payment page couldn't be opened. Nothing was charged.");
    assert_eq!(portal.location(), HOME);
    app.mend_processor().await;
    app.run_jobs().await;
    assert_eq!(balance(&client).await, PACK_CREDITS);
    app.end().await;
}
