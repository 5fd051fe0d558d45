//! Plans and slots: what a page promises is what happens, and refusals say what to do.

use serde_json::json;
use test_service::Page;
use test_service::subscriber::{BIG_PLAN, GOOD_CARD, PLAN, plans_of, selling};

use super::pages::{ADA, EVE, PLANS, checkout_session, subscribed};

const CHANGE: &str = "/console/billing/slots/change";
const SWITCH: &str = "/console/billing/slots/switch";

/// An amount that stands behind these words, in cents.
fn cents_after(page: &Page, words: &str) -> i64 {
    let text = page.words();
    let rest = text.split(words).nth(1).unwrap_or_else(|| panic!("{words} is not in {text}"));
    let amount = rest.trim_start_matches([' ', '$']).split(' ').next().unwrap();
    let digits: String = amount.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_preview_names_is_what_is_charged() {
    selling(async |app| {
        let (client, browser) = subscribed(&app).await;
        let invoices = app.invoices().await.len();
        let wanted = format!("{CHANGE}?platform=platform_alpha&count=3");
        let preview = browser.open(&wanted).await;
        let named = cents_after(&preview, "Add for");

        let done = browser.submit_and_follow(&preview, CHANGE, &[]).await;

        done.assert(200, "platform_alpha has 3 extra slots.");
        assert_eq!(cents_after(&done, "3 extra slots."), named);
        let made = app.invoices().await;
        assert_eq!(made.len(), invoices + 1);
        assert_eq!(made.first().unwrap()["amount_paid"], json!(named));
        let slots = client.get("/v1/billing/slots").await.json();
        assert!(slots.to_string().contains("\"count\":3"), "{slots}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_sent_twice_is_made_once() {
    selling(async |app| {
        let (client, browser) = subscribed(&app).await;
        let preview = browser.open(&format!("{CHANGE}?platform=platform_beta&count=1")).await;
        let invoices = app.invoices().await.len();

        let first = browser.submit(&preview, CHANGE, &[]).await;
        let again = browser.submit(&preview, CHANGE, &[]).await;
        let other = browser.submit(&preview, CHANGE, &[("count", "2")]).await;

        assert_eq!((first.status(), again.status()), (303, 303), "{}", again.words());
        assert_eq!(other.status(), 422, "one key is for one change: {}", other.words());
        assert_eq!(app.invoices().await.len(), invoices + 1);
        let slots = client.get("/v1/billing/slots").await.json();
        assert!(!slots.to_string().contains("\"count\":2"), "{slots}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_changed_is_refused_with_the_way_back() {
    selling(async |app| {
        let (_, browser) = subscribed(&app).await;
        for (path, status) in [
            (format!("{CHANGE}?platform=platform_alpha&count=-1"), 422),
            (format!("{CHANGE}?platform=platform_alpha&count=1001"), 422),
            (format!("{CHANGE}?platform=platform_alpha&count=1.5"), 422),
            (format!("{CHANGE}?platform=platform_omega&count=1"), 422),
            (format!("{CHANGE}?count=1"), 422),
            (format!("{SWITCH}?from=platform_alpha&to=platform_alpha"), 422),
            (format!("{SWITCH}?from=platform_alpha"), 422),
            (format!("{SWITCH}?from=platform_alpha&to=platform_beta"), 409),
            (format!("{SWITCH}?from=%3Cscript%3E&to=platform_beta"), 422),
        ] {
            let page = browser.open(&path).await;

            page.assert(status, "Back to plan and slots");
            assert!(!page.html().contains("<script>\""), "{path}");
            assert!(!page.has_form(CHANGE) && !page.has_form(SWITCH), "{path}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_plan_nothing_can_be_changed_and_a_plan_can_be_bought() {
    selling(async |app| {
        let member = app.member(EVE).await;
        let browser = app.browser_of(&member).await;

        let page = browser.open(PLANS).await;
        page.assert(200, "You have no plan").assert(200, "$29.00").assert(200, "$99.00");
        let change = browser.open(&format!("{CHANGE}?platform=platform_alpha&count=1")).await;
        change.assert(409, "You have no plan. Subscribe to one first.");
        let other = browser.open(&format!("{PLANS}/{BIG_PLAN}")).await;
        other.assert(409, "You have no plan. Subscribe to one first.");
        // The same button twice: one page each, and what is paid is had once.
        let path = format!("{PLANS}/{PLAN}/subscribe");
        let first = checkout_session(&browser.submit(&page, &path, &[]).await);
        let paid = app.control(&format!("checkout/{first}/pay"), json!({"card": GOOD_CARD})).await;
        assert_eq!(paid["status"], "complete", "{paid}");
        app.deliver().await;
        let late = browser.submit(&page, &path, &[]).await;
        late.assert(409, "You already have a plan. Change it instead.");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_customers_form_changes_no_plan() {
    selling(async |app| {
        let (client, browser) = subscribed(&app).await;
        let big = format!("{PLANS}/{BIG_PLAN}");
        let preview = browser.open(&big).await;
        let fields = preview.fields(&big);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let eve = app.member(EVE).await;
        let other = app.browser_of(&eve).await;

        let foreign = other.post(&big, &fields).await;
        let elsewhere = browser.post_from_elsewhere(&big, &fields).await;
        let stranger = app.browser().post(&big, &fields).await;

        assert_eq!((foreign.status(), elsewhere.status()), (403, 403));
        assert_eq!(stranger.status(), 303, "{}", stranger.words());
        assert!(stranger.location().starts_with("/console/login"), "{}", stranger.location());
        assert_eq!(plans_of(&client).await.0, json!(PLAN));
        assert_eq!(app.invoices().await.len(), 1, "{ADA} paid for one month");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_move_that_is_chosen_at_first_can_be_made() {
    selling(async |app| {
        let (_, browser) = subscribed(&app).await;
        for platform in ["platform_alpha", "platform_beta"] {
            let page = browser.open(&format!("{CHANGE}?platform={platform}&count=1")).await;
            browser.submit_and_follow(&page, CHANGE, &[]).await;
        }
        let page = browser.open(PLANS).await;
        let (from, to) = (page.field(SWITCH, "from"), page.field(SWITCH, "to"));

        let preview = browser.open(&format!("{SWITCH}?from={from}&to={to}")).await;

        preview.assert(200, "Move a slot from platform_alpha to platform_beta?");
        app
    })
    .await;
}
