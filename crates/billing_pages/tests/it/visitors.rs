//! Who is not signed in, whose session ended, and who is suspended.

use serde_json::json;
use test_service::member::PASSWORD;
use test_service::processor::{PACK, PACK_CREDITS, balance};
use test_service::subscriber::GOOD_CARD;
use test_service::with_app;

use super::pages::{ADA, BUY, HOME, with_card};

const PAGES: [&str; 12] = [
    HOME,
    "/console/billing/plans",
    "/console/billing/plans/plan_small",
    "/console/billing/topup",
    "/console/billing/orders",
    "/console/billing/invoices",
    "/console/billing/usage",
    "/console/billing/usage.csv",
    "/console/billing/ledger?kind=pack",
    "/console/billing/card/remove",
    "/console/billing/slots/change?platform=platform_alpha&count=1",
    "/console/billing/slots/switch?from=platform_alpha&to=platform_beta",
];
const FORMS: [&str; 9] = [
    BUY,
    "/console/billing/checkout",
    "/console/billing/portal",
    "/console/billing/card/sync",
    "/console/billing/card/remove",
    "/console/billing/topup",
    "/console/billing/plans/plan_small",
    "/console/billing/slots/change",
    "/console/billing/slots/switch",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_asks_a_stranger_to_sign_in_and_leads_back() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let stranger = app.browser();
        for path in PAGES {
            let page = stranger.open(path).await;

            assert_eq!(page.status(), 303, "{path}: {}", page.words());
            let (login, next) = page.location().split_once("?next=").unwrap();
            assert_eq!(login, "/console/login", "{path}");
            let plain = next.replace("%2F", "/").replace("%3F", "?").replace("%3D", "=");
            assert_eq!(plain.replace("%26", "&"), path, "it leads back");
        }
        // Who signs in there comes to the page that was asked for.
        let asked = stranger.open("/console/billing/orders").await;
        let login = stranger.open(asked.location()).await;
        let fields = [("email", member.email.as_str()), ("password", PASSWORD)];
        let done = stranger.submit(&login, "/console/login", &fields).await;
        assert_eq!(done.location(), "/console/billing/orders", "{}", done.words());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_form_does_anything_without_a_session_or_without_its_token() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let asked = async || app.shown("requests").await["requests"].as_array().unwrap().len();
        let before = asked().await;
        let fields = [("pack_id", PACK), ("pay", "card"), ("key", "made-up"), ("csrf", "made-up")];
        for path in FORMS {
            let stranger = app.browser().post(path, &fields).await;
            let forged = browser.post(path, &fields).await;
            let elsewhere = browser.post_from_elsewhere(path, &fields).await;

            assert_eq!(stranger.status(), 303, "{path}: {}", stranger.words());
            assert!(stranger.location().starts_with("/console/login"), "{path}");
            assert_eq!(forged.status(), 403, "{path}: {}", forged.words());
            assert_eq!(elsewhere.status(), 403, "{path}: {}", elsewhere.words());
        }
        assert_eq!(asked().await, before, "the processor was not asked");
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_whose_session_has_ended_charges_nothing() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = browser.open(HOME).await;
        let sessions = browser.client().get("/v1/auth/sessions").await.json();
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
        // Twelve hours without use end it.
        app.advance_seconds(13 * 3_600);

        let late = browser.submit(&page, BUY, &[("pack_id", PACK), ("pay", "card")]).await;

        assert_eq!(late.status(), 303, "{}", late.words());
        assert!(late.location().starts_with("/console/login"), "{}", late.location());
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_customer_reads_why_and_can_buy_nothing() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = browser.open(HOME).await;
        let who = client.get("/v1/whoami").await.json();
        let suspend = json!({
            "command": "suspend_customer", "customer": who["customer_id"], "reason": "unpaid work",
        });
        let token = secrecy_token(&app);
        let admin = app.admin().bearer(&token).with("x-operator", "grace");
        let done = admin.post("/commands/operator", &suspend).await;
        assert_eq!(done.status, 200, "{}", done.text());

        let shown = browser.open(HOME).await;
        let bought = browser.submit(&page, BUY, &[("pack_id", PACK), ("pay", "card")]).await;

        assert_eq!((shown.status(), bought.status()), (403, 403), "{}", shown.words());
        assert!(shown.words().to_lowercase().contains("suspended"), "{}", shown.words());
        let resume = json!({"command": "resume_customer", "customer": who["customer_id"]});
        assert_eq!(admin.post("/commands/operator", &resume).await.status, 200);
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

fn secrecy_token(app: &test_service::TestApp) -> String {
    use secrecy::ExposeSecret as _;
    app.running().admin_token().expose_secret().to_owned()
}
