//! The pages of billing: credits, one-click charges, the card, top-up, plans, slots, lists.

use serde_json::{Value, json};
use store::testing::run_raw;
use test_service::member::{Member, PASSWORD};
use test_service::processor::{PACK, PACK_CREDITS, balance};
use test_service::subscriber::{BIG_PLAN, GOOD_CARD, PLAN, selling};
use test_service::{Browser, Page};
use test_service::{Client, TestApp, with_app};

pub(crate) const ADA: &str = "ada@example.com";
pub(crate) const EVE: &str = "eve@example.com";
/// A card for which the bank asks the customer.
pub(crate) const ASKING_CARD: &str = "4000002760003184";
pub(crate) const HOME: &str = "/console/billing";
pub(crate) const BUY: &str = "/console/billing/buy";
pub(crate) const PLANS: &str = "/console/billing/plans";

/// A member whose card was saved by buying a pack: its key's client and its browser.
pub(crate) async fn with_card(app: &TestApp, card: &str) -> (Client, Browser) {
    let member = app.member(ADA).await;
    let client = app.with_key(&member.customer.key);
    let begun = app.begin_checkout(&client).await;
    app.pay_page(&begun.session, card).await;
    app.deliver().await;
    (client, app.browser_of(&member).await)
}

/// A member with the small plan: its key's client and its browser.
pub(crate) async fn subscribed(app: &TestApp) -> (Client, Browser) {
    let member = app.member(ADA).await;
    let client = app.with_key(&member.customer.key);
    let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
    app.pay(&page, GOOD_CARD).await;
    app.deliver().await;
    (client, app.browser_of(&member).await)
}

/// Presses the button that charges the saved card.
async fn pay_now(browser: &Browser, page: &Page) -> Page {
    browser.submit(page, BUY, &[("pack_id", PACK), ("pay", "card")]).await
}

/// Follows a redirect within the console.
async fn followed(browser: &Browser, page: &Page) -> Page {
    assert_eq!(page.status(), 303, "{}", page.words());
    browser.open(page.location()).await
}

/// The session of the checkout that a redirect leads to.
pub(crate) fn checkout_session(page: &Page) -> String {
    assert_eq!(page.status(), 303, "{}", page.words());
    let place = page.location();
    let start = place.find("cs_test_").unwrap();
    let rest = place.get(start..).unwrap_or_default();
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_shown_to_a_customer_who_has_nothing() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;

        browser.open(HOME).await.assert(200, "Nothing bought yet").assert(200, "No card is saved");
        browser.open(PLANS).await.assert(200, "You have no plan");
        for (path, says) in [
            ("/console/billing/topup", "there is none"),
            ("/console/billing/orders", "Nothing bought yet"),
            ("/console/billing/invoices", "No invoices yet"),
            ("/console/billing/usage", "Nothing was spent in this period"),
            ("/console/billing/ledger", "Balance changes"),
            ("/console/billing/ledger?kind=pack", "No changes match"),
        ] {
            browser.open(path).await.assert(200, says);
        }
        let unknown = browser.open("/console/billing/ledger?kind=zz").await;
        unknown.assert(422, "There is no such kind of change").assert(422, "Changes");
        browser.open("/console/billing/invoices/in_unknown").await.assert(404, "Nothing here");
        browser.open("/console/billing/usage?from=yesterday").await.assert(422, "Check the fields");
        // Nobody is signed in: the page comes after the login.
        let stranger = app.browser().open("/console/billing/orders").await;
        assert_eq!(stranger.location(), "/console/login?next=%2Fconsole%2Fbilling%2Forders");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_processor_the_pages_say_so_and_sell_nothing() {
    let app = TestApp::on_sqlite("[processor]\nbase_url = \"\"").await;
    let member = app.member(ADA).await;
    let browser = app.browser_of(&member).await;

    for path in [HOME, PLANS, "/console/billing/topup"] {
        let page = browser.open(path).await;
        page.assert(200, "Payments aren’t set up here.");
        assert!(!page.has_form(BUY) && !page.has_form("/console/billing/portal"), "{path}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_click_charges_the_card_once_however_often_the_form_is_sent() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = browser.open(HOME).await;
        page.assert(200, "Pay now with Visa 4242");

        let first = pay_now(&browser, &page).await;
        let again = pay_now(&browser, &page).await;

        let shown = followed(&browser, &first).await;
        shown.assert(200, "Payment received").assert(200, "5,000 credits were added");
        shown.assert(200, "Your balance is 10,000.");
        assert_eq!((again.status(), again.location()), (303, HOME), "{}", again.words());
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        // The message is shown once.
        browser.open(HOME).await.assert_not("were added");
        let orders = browser.open("/console/billing/orders").await;
        orders.assert(200, "One click Paid").assert(200, "Payment page Paid");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_that_is_not_ours_charges_nothing() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let page = browser.open(HOME).await;
        let (token, key) = (page.field(BUY, "csrf"), page.field(BUY, "key"));
        let fields = [("pack_id", PACK), ("pay", "card"), ("key", key.as_str())];

        browser.post(BUY, &fields).await.assert(403, "This form can't be sent again");
        let whole = [&fields[..], &[("csrf", token.as_str())]].concat();
        let foreign = browser.post_from_elsewhere(BUY, &whole).await;
        assert_eq!(foreign.status(), 403);
        // The token of another form, and another session's.
        let other = page.field("/console/billing/portal", "csrf");
        let wrong = [&fields[..], &[("csrf", other.as_str())]].concat();
        assert_eq!(browser.post(BUY, &wrong).await.status(), 403);
        let eve = app.member(EVE).await;
        assert_eq!(app.browser_of(&eve).await.post(BUY, &whole).await.status(), 403);

        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declined_card_says_why_and_another_one_can_pay() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        app.decline_next("insufficient_funds").await;

        let declined = pay_now(&browser, &browser.open(HOME).await).await;

        declined.assert(402, "Your bank declined the card: insufficient funds.");
        declined.assert(402, "Nothing was charged. Try another card.");
        assert_eq!(declined.field(BUY, "pack_id"), PACK, "the choice is kept");
        assert_eq!(balance(&client).await, PACK_CREDITS);
        let fields = [("pack_id", PACK), ("pay", "page")];
        let session = checkout_session(&browser.submit(&declined, BUY, &fields).await);
        app.pay_page(&session, GOOD_CARD).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        // After a decline the form pays anew.
        let paid = pay_now(&browser, &declined).await;
        followed(&browser, &paid).await.assert(200, "Payment received");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_the_bank_asks_about_has_a_page_until_it_ends() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, ASKING_CARD).await;

        let asked = pay_now(&browser, &browser.open(HOME).await).await;
        let place = asked.location().to_owned();
        let page = followed(&browser, &asked).await;

        page.assert(200, "Your bank asks you to confirm this payment").assert(200, "$10.00");
        page.assert(200, "Nothing has been charged yet");
        let policy = page.reply().header("content-security-policy").to_owned();
        let origin = app.world.processor_url();
        assert!(policy.contains(&format!("script-src 'self' {origin};")), "{policy}");
        assert!(policy.ends_with(&format!("frame-src {origin}")), "{policy}");
        let usual = browser.open(HOME).await;
        let usual = usual.reply().header("content-security-policy");
        assert!(!usual.contains("frame-src") && usual.contains("script-src 'self';"), "{usual}");
        let early = browser.submit_and_follow(&page, &place, &[]).await;
        early.assert(200, "isn't confirmed yet");
        let key = page.field(&place, "pi_id");
        app.authenticate(&key, true).await;
        let done = browser.submit_and_follow(&page, &place, &[]).await;
        done.assert(200, "Your balance is 10,000.");
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        browser.open(&place).await.assert(200, "Payment received");
        let region = browser.open(&format!("{place}/status")).await;
        assert!(!region.html().contains("data-poll") && !region.html().contains("<html"));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_payment_is_followed_until_its_credits_arrive() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, ASKING_CARD).await;
        let asked = pay_now(&browser, &browser.open(HOME).await).await;
        let place = asked.location().to_owned();
        let page = followed(&browser, &asked).await;
        app.authenticate(&page.field(&place, "pi_id"), true).await;

        let waiting = browser.open(&place).await;

        waiting.assert(200, "Your bank is processing the payment");
        let asks_again = format!("data-poll=\"{place}/status\"");
        assert!(waiting.html().contains(&asks_again), "{}", waiting.html());
        assert!(waiting.html().contains("http-equiv=\"refresh\""), "without scripts too");
        let region = browser.open(&format!("{place}/status")).await;
        assert!(region.html().contains(&asks_again) && !region.html().contains("<html"));
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app.deliver().await;
        let ended = browser.open(&format!("{place}/status")).await;
        ended.assert(200, "Payment received").assert_not("Your bank is processing");
        assert!(ended.html().contains("data-done=\"Payment received.\""), "{}", ended.html());
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_fails_at_the_bank_offers_another_card() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, ASKING_CARD).await;
        let asked = pay_now(&browser, &browser.open(HOME).await).await;
        let place = asked.location().to_owned();
        let page = followed(&browser, &asked).await;
        app.authenticate(&page.field(&place, "pi_id"), false).await;

        let failed = browser.submit(&page, &place, &[]).await;

        failed.assert(402, "the payment was not confirmed with the bank");
        failed.assert(402, "Use another card");
        assert_eq!(balance(&client).await, PACK_CREDITS);
        let checkout = "/console/billing/checkout";
        let session = checkout_session(&browser.submit(&failed, checkout, &[]).await);
        assert!(session.starts_with("cs_test_"));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_belongs_to_its_customer_alone() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, ASKING_CARD).await;
        let asked = pay_now(&browser, &browser.open(HOME).await).await;
        let place = asked.location().to_owned();
        let order = place.rsplit('/').next().unwrap_or_default().to_owned();
        let eve = app.member(EVE).await;
        let other = app.browser_of(&eve).await;

        other.open(&place).await.assert(404, "Nothing here");
        let path = format!("/v1/billing/orders/{order}");
        assert_eq!(app.with_key(&eve.customer.key).get(&path).await.status, 404);
        let shown = client.get(&path).await.json();
        assert_eq!(
            (&shown["payment"], &shown["order_id"], &shown["status"]),
            (&json!("requires_action"), &json!(order), &json!("pending"))
        );
        assert!(shown["action"]["client_secret"].is_string(), "{shown}");
        // A key that may only read sees the state, and no secret.
        let made = json!({"name": "reader", "scope": "read_only"});
        let reader = client.post("/v1/auth/keys", &made).await.json();
        let reader = app.with_key(reader["api_key"].as_str().unwrap_or_default());
        let seen = reader.get(&path).await.json();
        assert_eq!((&seen["payment"], &seen["action"]), (&json!("requires_action"), &Value::Null));
        assert_eq!(client.get("/v1/billing/orders/ord_nonsense").await.status, 404);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_whose_outcome_is_unknown_is_asked_about_again_by_the_same_form() {
    let app = TestApp::on_sqlite("[processor]\ntimeout_ms = 500\nretries_max = 0").await;
    let (client, browser) = with_card(&app, GOOD_CARD).await;
    let page = browser.open(HOME).await;
    let hang =
        json!({"kind": "hang_after", "method": "POST", "path": "payment_intents", "times": 1});
    app.processor_fault(&hang).await;

    let unknown = pay_now(&browser, &page).await;

    unknown.assert(504, "We don't know yet whether your card was charged.");
    assert_eq!(unknown.field(BUY, "key"), page.field(BUY, "key"));
    app.mend_processor().await;
    let done = pay_now(&browser, &unknown).await;
    followed(&browser, &done).await.assert(200, "Payment received");
    assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_the_card_asks_for_the_password() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let path = "/console/billing/card/remove";
        let page = browser.open(path).await;
        page.assert(200, "Remove Visa 4242?");

        let wrong = browser.submit(&page, path, &[("current_password", "not this one")]).await;
        wrong.assert(403, "The password is wrong.");
        assert!(!wrong.html().contains("not this one"), "a password is never shown");
        assert_eq!(client.get("/v1/billing/card").await.json()["card"]["last4"], "4242");
        let done = browser.submit_and_follow(&page, path, &[("current_password", PASSWORD)]).await;

        done.assert(200, "The card was removed").assert(200, "No card is saved");
        assert_eq!(client.get("/v1/billing/card").await.json()["card"], Value::Null);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_up_is_set_changed_and_turned_off() {
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        let path = "/console/billing/topup";
        let set = [
            ("threshold_credits", "100"),
            ("pack_id", PACK),
            ("daily_cap_usd", "25.50"),
            ("enabled", "true"),
        ];
        let page = browser.open(path).await;

        let low = [("daily_cap_usd", "1"), ("threshold_credits", "0"), ("enabled", "true")];
        let wrong = browser.submit(&page, path, &low).await;
        wrong.assert(422, "Check the fields marked below.");
        assert_eq!(wrong.field(path, "daily_cap_usd"), "1", "what was typed is kept");
        let done = browser.submit_and_follow(&page, path, &set).await;
        done.assert(200, "Automatic top-up is on.").assert(200, "$0.00 of $25.50 spent today");
        let shown = client.get("/v1/billing/autotopup").await.json();
        assert_eq!(
            (&shown["threshold_credits"], &shown["daily_cap_cents"]),
            (&json!(100), &json!(2550))
        );
        assert_eq!(done.field(path, "daily_cap_usd"), "25.50");
        browser.open(HOME).await.assert(200, "Below 100 credits, buy 5,000 credits for $10.00.");
        let off = browser.submit_and_follow(&done, path, &[("enabled", "false")]).await;
        off.assert(200, "Automatic top-up is off.");
        assert_eq!(client.get("/v1/billing/autotopup").await.json()["enabled"], false);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_subscribed_to_raised_lowered_and_kept() {
    selling(async |app| {
        let member: Member = app.member(ADA).await;
        let client = app.with_key(&member.customer.key);
        let browser = app.browser_of(&member).await;
        let offer = browser.open(PLANS).await;
        let path = format!("{PLANS}/{PLAN}/subscribe");
        let session = checkout_session(&browser.submit(&offer, &path, &[]).await);
        let paid =
            app.control(&format!("checkout/{session}/pay"), json!({"card": GOOD_CARD})).await;
        assert_eq!(paid["status"], "complete", "{paid}");
        app.deliver().await;
        browser.open(HOME).await.assert(200, "Small plan Active");

        let big = format!("{PLANS}/{BIG_PLAN}");
        let raise = browser.open(&big).await;
        raise.assert(200, "Change to Big?").assert(200, "Change now for $70.00");
        let done = browser.submit(&raise, &big, &[]).await;
        let again = browser.submit(&raise, &big, &[]).await;
        app.deliver().await;
        followed(&browser, &done).await.assert(200, "Your plan is Big. $70.00 was charged.");
        assert_eq!(again.status(), 303, "{}", again.words());
        assert_eq!(app.invoices().await.len(), 2, "the change was made once");

        let small = format!("{PLANS}/{PLAN}");
        let lower = browser.open(&small).await;
        lower.assert(200, "Today: nothing.");
        let later = browser.submit_and_follow(&lower, &small, &[]).await;
        later.assert(200, "Your plan changes to Small on").assert(200, "Keep my plan");
        let kept = browser.submit_and_follow(&later, &big, &[]).await;
        kept.assert(200, "Your plan is Big.").assert_not("Your plan changes");
        let shown = client.get("/v1/billing/subscription").await.json();
        assert_eq!(
            (&shown["plan_id"], &shown["next_plan_id"]),
            (&json!(BIG_PLAN), &json!(BIG_PLAN))
        );
        browser.open(&format!("{PLANS}/plan_unknown")).await.assert(404, "There's nothing here");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_previewed_bought_moved_and_given_up() {
    selling(async |app| {
        let (client, browser) = subscribed(&app).await;
        let count = async |platform: &str| {
            let slots = client.get("/v1/billing/slots").await.json();
            let all = slots["slots"].as_array().cloned().unwrap_or_default();
            let one = all.into_iter().find(|slot| slot["platform"] == platform);
            one.unwrap_or_default()["count"].clone()
        };
        let change = "/console/billing/slots/change";
        let wanted = format!("{change}?platform=platform_alpha&count=2");
        let preview = browser.open(&wanted).await;
        preview
            .assert(200, "Change platform_alpha to 2 extra slots?")
            .assert(200, "Add for $20.00");
        assert_eq!(count("platform_alpha").await, 0, "a preview changes nothing");
        let done = browser.submit_and_follow(&preview, change, &[]).await;
        done.assert(200, "platform_alpha has 2 extra slots. $20.00 was charged.");
        assert_eq!(count("platform_alpha").await, 2);

        let switch = "/console/billing/slots/switch";
        let way = format!("{switch}?from=platform_alpha&to=platform_beta");
        let before = browser.open(&way).await;
        before.assert(200, "Move a slot from platform_alpha to platform_beta?");
        let moved = browser.submit_and_follow(&before, switch, &[]).await;
        moved.assert(200, "One slot was moved from platform_alpha to platform_beta.");
        assert_eq!(
            (count("platform_alpha").await, count("platform_beta").await),
            (json!(1), json!(1))
        );

        let fewer = browser.open(&format!("{change}?platform=platform_alpha&count=0")).await;
        fewer.assert(200, "Give up slots");
        app.decline(1).await;
        let more = browser.open(&format!("{change}?platform=platform_beta&count=3")).await;
        let declined = browser.submit(&more, change, &[]).await;
        declined.assert(402, "Your bank declined the card");
        assert_eq!(count("platform_beta").await, 1);
        browser.submit_and_follow(&fewer, change, &[]).await.assert(200, "has 0 extra slots");
        for wrong in ["platform=platform_alpha&count=many", "platform=platform_gamma&count=1", ""] {
            let page = browser.open(&format!("{change}?{wrong}")).await;
            page.assert(422, "Back to plan and slots");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_in_use_are_named_before_they_can_be_given_up() {
    selling(async |app| {
        let (client, browser) = subscribed(&app).await;
        let change = "/console/billing/slots/change";
        let more = browser.open(&format!("{change}?platform=platform_alpha&count=1")).await;
        browser.submit_and_follow(&more, change, &[]).await.assert(200, "has 1 extra slot");
        for creator in ["one", "two", "three", "four"] {
            assert_eq!(app.import(&client, "platform_alpha", creator).await, "active");
        }
        let fewer = browser.open(&format!("{change}?platform=platform_alpha&count=0")).await;

        let refused = browser.submit(&fewer, change, &[]).await;

        refused.assert(409, "Disconnect an account first:").assert(409, "four");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoices_and_changes_are_listed_with_their_documents() {
    selling(async |app| {
        let (_, browser) = subscribed(&app).await;

        let list = browser.open("/console/billing/invoices").await;

        list.assert(200, "$29.00").assert(200, "New plan").assert(200, "Paid");
        assert!(list.html().contains("rel=\"noreferrer\">PDF"), "{}", list.html());
        let start = "/console/billing/invoices/in_";
        let id = list.html().split(start).nth(1).and_then(|rest| rest.split('"').next());
        let one = browser.open(&format!("{start}{}", id.unwrap_or_default())).await;
        one.assert(200, "Amount $29.00").assert(200, "Download PDF");
        let ledger = browser.open("/console/billing/ledger").await;
        ledger.assert(200, "Monthly credits +1,000");
        let eve = app.member(EVE).await;
        let other = app.browser_of(&eve).await;
        let path = format!("{start}{}", id.unwrap_or_default());
        other.open(&path).await.assert(404, "Nothing here");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_whose_payment_failed_says_what_to_do() {
    selling(async |app| {
        let (_, browser) = subscribed(&app).await;
        app.decline(1).await;
        app.months_pass(1).await;

        let home = browser.open(HOME).await;
        home.assert(200, "The last payment for your plan failed.")
            .assert(200, "Try the card again");
        let refused =
            browser.open("/console/billing/slots/change?platform=platform_alpha&count=1").await;
        refused.assert(409, "The last payment for your plan failed.");
        let tried = browser.submit_and_follow(&home, "/console/billing/card/sync", &[]).await;
        tried.assert(200, "Visa 4242");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_portal_is_opened_by_a_form_alone() {
    with_app(async |app| {
        let (_, browser) = with_card(&app, GOOD_CARD).await;
        let path = "/console/billing/portal";
        let page = browser.open(HOME).await;

        let done = browser.submit(&page, path, &[]).await;

        assert_eq!(done.status(), 303);
        assert!(done.location().starts_with(&app.world.processor_url()), "{}", done.location());
        assert_eq!(browser.open(path).await.status(), 405);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_is_shown_by_what_it_was_for_and_as_a_file() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        app.grant(&member.customer, 100).await;
        let client = app.with_key(&member.customer.key);
        assert_eq!(app.import(&client, "platform_alpha", "ada").await, "active");
        for _ in 0..3 {
            assert_eq!(client.get("/v1/ada/native/users/me").await.status, 200);
        }
        app.settled(&client).await;
        let browser = app.browser_of(&member).await;

        let page = browser.open("/console/billing/usage?by=route").await;

        page.assert(200, "3 credits").assert(200, "platform_alpha");
        browser.open("/console/billing/usage?by=key").await.assert(200, "Share");
        browser.open("/console/billing/usage?by=account").await.assert(200, "ada 3");
        let file = browser.open("/console/billing/usage.csv?by=account").await;
        assert_eq!(file.reply().header("content-type"), "text/csv; charset=utf-8");
        assert!(file.reply().header("content-disposition").contains("usage-by-account.csv"));
        assert!(file.html().contains("\nada,,,3,0,3,3,0"), "{}", file.html());
        app
    })
    .await;
}

/// More entries than one response of the service has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_of_usage_has_every_entry_once() {
    const MANY: &str = "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
        insert into call_totals (customer_id, day, key_id, creator_id, platform, method, route, tag, outcome,
            calls, credits, ok)
        select k.customer_id, 20778, k.id, 'ada', 'platform_alpha', 'GET', 'lists/' || cast(i as text), '',
            'answered', 1, 1, 1
        from n cross join keys k";
    with_app(async |app| {
        let member = app.member(ADA).await;
        let browser = app.browser_of(&member).await;
        assert_eq!(run_raw(app.store(), MANY).await.unwrap(), 2500);

        let file = browser.open("/console/billing/usage.csv?by=route").await;

        let mut routes: Vec<&str> =
            file.html().lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(routes.len(), 2500, "{}", file.html().lines().next().unwrap());
        routes.sort_unstable();
        routes.dedup();
        assert_eq!(routes.len(), 2500);
        run_raw(app.store(), "delete from call_totals").await.unwrap();
        app
    })
    .await;
}
