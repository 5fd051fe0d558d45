//! The page of automatic top-up: what is typed is what is set, and what turned it off is said.

use serde_json::{Value, json};
use test_service::processor::PACK;
use test_service::subscriber::GOOD_CARD;
use test_service::{Browser, Client, Page, TestApp, with_app};

use super::pages::{ADA, HOME, with_card};

const PATH: &str = "/console/billing/topup";

/// Turns it on through the form.
async fn turned_on(browser: &Browser) -> Page {
    let page = browser.open(PATH).await;
    let fields = [
        ("threshold_credits", "100"),
        ("pack_id", PACK),
        ("daily_cap_usd", "25"),
        ("enabled", "true"),
    ];
    let done = browser.submit_and_follow(&page, PATH, &fields).await;
    done.assert(200, "Automatic top-up is on.");
    done
}

async fn set(client: &Client) -> Value {
    client.get("/v1/billing/autotopup").await.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decimal_comma_is_refused_and_never_read_as_thousands() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = browser.open(PATH).await;
        let with = |threshold: &'static str, cap: &'static str| {
            [
                ("threshold_credits", threshold),
                ("pack_id", PACK),
                ("daily_cap_usd", cap),
                ("enabled", "true"),
            ]
        };

        // Ten dollars and fifty cents in many countries; 1,050 would be a hundred times as much.
        let refused = browser.submit(&page, PATH, &with("100", "10,50")).await;
        refused.assert(422, "Check the fields marked below.");
        assert_eq!(refused.field(PATH, "daily_cap_usd"), "10,50", "what was typed is kept");
        let odd = browser.submit(&page, PATH, &with("1,5", "25")).await;
        odd.assert(422, "Check the fields marked below.");
        assert_eq!(set(&client).await["enabled"], false);
        let done = browser.submit_and_follow(&page, PATH, &with("1,500", "1,000.50")).await;

        done.assert(200, "Automatic top-up is on.");
        let now = set(&client).await;
        assert_eq!(
            (&now["threshold_credits"], &now["daily_cap_cents"]),
            (&json!(1_500), &json!(100_050))
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_values_are_marked_and_the_rule_in_force_stays() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = turned_on(&browser).await;
        let before = set(&client).await;
        for (field, value) in [
            ("threshold_credits", "0"),
            ("threshold_credits", "-5"),
            ("threshold_credits", "many"),
            ("threshold_credits", ""),
            ("daily_cap_usd", "0"),
            ("daily_cap_usd", "1e9"),
            ("daily_cap_usd", "10.005"),
            ("pack_id", "pack_unknown"),
            ("pack_id", "<b>pack</b>"),
        ] {
            let refused = browser.submit(&page, PATH, &[(field, value), ("enabled", "true")]).await;

            assert!(refused.status() >= 400 && refused.status() < 500, "{field}={value}");
            assert!(!refused.html().contains("<b>pack</b>"), "{}", refused.html());
            assert_eq!(set(&client).await, before, "{field}={value}");
        }
        // Turning it off needs none of the values.
        let off = [("threshold_credits", ""), ("daily_cap_usd", "x"), ("enabled", "false")];
        browser.submit_and_follow(&page, PATH, &off).await.assert(200, "Automatic top-up is off.");
        assert_eq!(set(&client).await["enabled"], false);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_card_it_cannot_be_turned_on_and_the_page_says_how_to_save_one() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let client = app.with_key(&member.customer.key);
        let browser = app.browser_of(&member).await;
        let page = browser.open(PATH).await;
        page.assert(200, "Paying for a pack saves one.");
        assert!(!page.has_form(PATH), "there is nothing to fill in");
        let (_, other) = with_card_of_another(&app).await;
        let token = other.open(PATH).await.field(PATH, "csrf");

        // A form of another session is no form of this one.
        let fields = [("csrf", token.as_str()), ("pack_id", PACK), ("enabled", "true")];
        assert_eq!(browser.post(PATH, &fields).await.status(), 403);

        assert_eq!(set(&client).await["enabled"], false);
        app
    })
    .await;
}

/// Another member with a saved card.
async fn with_card_of_another(app: &TestApp) -> (Client, Browser) {
    let member = app.member("carol@example.com").await;
    let client = app.with_key(&member.customer.key);
    let begun = app.begin_checkout(&client).await;
    app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    (client, app.browser_of(&member).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_the_card_turns_it_off_and_both_pages_say_so() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        turned_on(&browser).await;
        let remove = "/console/billing/card/remove";
        let page = browser.open(remove).await;
        page.assert(200, "On, will be turned off");

        let fields = [("current_password", test_service::member::PASSWORD)];
        browser.submit_and_follow(&page, remove, &fields).await.assert(200, "No card is saved");

        assert_eq!(set(&client).await["enabled"], false);
        let says = "Automatic top-up is off because the saved card was removed.";
        browser.open(HOME).await.assert(200, says);
        browser.open(PATH).await.assert(200, says);
        // The form that removed it is sent again: there is nothing left to remove.
        let again = browser.submit(&page, remove, &fields).await;
        assert_eq!((again.status(), again.location()), (303, HOME), "{}", again.words());
        let asked = browser.open(remove).await;
        assert_eq!((asked.status(), asked.location()), (303, HOME));
        browser.open(HOME).await.assert(200, "There's no saved card to remove.");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declined_card_shows_when_it_is_tried_again_and_then_that_it_is_off() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = browser.open(PATH).await;
        // The balance is below the threshold from the start.
        let fields = [
            ("threshold_credits", "1000000"),
            ("pack_id", PACK),
            ("daily_cap_usd", "25"),
            ("enabled", "true"),
        ];
        app.decline(9).await;
        browser.submit_and_follow(&page, PATH, &fields).await;

        app.run_jobs().await;

        let after = browser.open(PATH).await;
        assert_eq!(set(&client).await["enabled"], true);
        after.assert(200, "the last charge was declined. It goes on after");
        after.assert(200, "$0.00 of $25.00 spent today");
        assert_eq!(client.get("/v1/billing").await.json()["balance"], json!(5_000));
        app
    })
    .await;
}
