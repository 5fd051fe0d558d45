//! Lists of billing: paged to their end, filtered, and never with text that is taken for HTML.

use serde_json::json;
use store::testing::run_raw;
use test_service::subscriber::{GOOD_CARD, selling};
use test_service::{Browser, Page, with_app};

use super::pages::{ADA, EVE, subscribed, with_card};

const LEDGER: &str = "/console/billing/ledger";
const ORDERS: &str = "/console/billing/orders";
const INVOICES: &str = "/console/billing/invoices";

/// The rows of the table of a page, as a person reads them.
fn rows(page: &Page) -> usize {
    page.html().matches("<th role=\"rowheader\"").count()
}

/// Opens the page that the link with these words leads to.
async fn follow(browser: &Browser, page: &Page, words: &str) -> Page {
    let next = browser.open(&page.link(words)).await;
    assert_eq!(next.status(), 200, "{}", next.words());
    next
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_the_balance_are_paged_to_the_first_and_back() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        for number in 1..=52 {
            let grant = json!({
                "command": "grant_credits", "customer": member.customer.id, "credits": number,
                "reference": format!("gift {number}"),
            });
            app.staff(grant).await;
            app.advance_seconds(1);
        }
        let browser = app.browser_of(&member).await;

        let newest = browser.open(LEDGER).await;
        let older = follow(&browser, &newest, "Older").await;
        let again = follow(&browser, &older, "Newest").await;

        assert_eq!((rows(&newest), rows(&again)), (50, 50));
        newest.assert(200, "gift 52").assert_not("gift 2 ");
        older.assert(200, "gift 1 ").assert(200, "gift 2 ").assert_not("gift 52");
        assert!(!older.html().contains(">Older</a>"), "the first change is the last row");
        assert_eq!(again.words(), newest.words());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_stays_while_its_pages_are_turned() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        for number in 0..51 {
            app.grant_more(&member.customer, number + 1).await;
            app.advance_seconds(1);
        }
        let browser = app.browser_of(&member).await;
        let all = browser.open(LEDGER).await;
        let kind = all.html().split("<option value=\"adjustment\"").count();
        assert_eq!(kind, 2, "the kind can be chosen once");

        let filtered = browser.open(&format!("{LEDGER}?kind=adjustment&utm_source=mail")).await;
        let trial = browser.open(&format!("{LEDGER}?kind=trial")).await;

        assert_eq!(rows(&filtered), 50);
        let older = follow(&browser, &filtered, "Older").await;
        assert_eq!(older.field(LEDGER, "kind"), "adjustment");
        let newest = follow(&browser, &older, "Newest").await;
        assert_eq!(newest.words(), filtered.words());
        assert_eq!(trial.field(LEDGER, "kind"), "trial");
        trial.assert(200, "No changes match.");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_of_an_operator_is_shown_as_it_was_written() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        let written = "</td><script>alert(1)</script> & \"quoted\" \u{202e}rtl";
        let grant = json!({
            "command": "grant_credits", "customer": member.customer.id, "credits": 7,
            "reference": written,
        });
        app.staff(grant).await;
        let browser = app.browser_of(&member).await;

        for path in [LEDGER, super::pages::HOME] {
            let page = browser.open(path).await;
            assert!(!page.html().contains("<script>alert"), "{}", page.html());
        }
        let page = browser.open(LEDGER).await;
        page.assert(200, "</td><script>alert(1)</script> & \"quoted\"");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_paged_and_say_how_each_ended() {
    const MORE: &str = "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 51)
        insert into orders (id, customer_id, channel, pack_id, credits, amount_cents, currency, livemode,
            processor_customer_id, state, created_at, closed_at)
        select substr(o.id, 1, length(o.id) - 3) || cast(100 + n.i as text), o.customer_id, o.channel,
               o.pack_id, o.credits, o.amount_cents, o.currency, o.livemode, o.processor_customer_id, 'expired',
               o.created_at - n.i, o.created_at
        from n cross join orders o";
    with_app(async |app| {
        let (client, browser) = with_card(&app, GOOD_CARD).await;
        assert_eq!(run_raw(app.store(), MORE).await.unwrap(), 51);

        let newest = browser.open(ORDERS).await;
        let older = follow(&browser, &newest, "Older").await;

        newest.assert(200, "Payment page Paid").assert(200, "Not paid");
        older.assert_not("Payment page Paid").assert(200, "Not paid");
        let list = client.get("/v1/billing/orders?limit=500").await.json();
        let total = list["orders"].as_array().unwrap().len();
        assert_eq!(rows(&newest) + rows(&older), total);
        let beyond = browser.open(&format!("{ORDERS}?before=ord_nonsense")).await;
        assert_eq!(beyond.status(), 422, "{}", beyond.words());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invoice_of_another_customer_and_a_made_up_one_look_the_same() {
    selling(async |app| {
        let (client, browser) = subscribed(&app).await;
        let list = client.get("/v1/billing/invoices").await.json();
        let id = list["invoices"][0]["invoice_id"].as_str().unwrap().to_owned();
        let eve = app.member(EVE).await;
        let other = app.browser_of(&eve).await;
        let invoice = |of: &str| format!("{INVOICES}/{of}");

        browser.open(&invoice(&id)).await.assert(200, "$29.00");
        let foreign = other.open(&invoice(&id)).await;
        let unknown = other.open(&invoice("in_unknown")).await;
        let odd = other.open(&invoice("%2e%2e%2forders")).await;

        assert_eq!((foreign.status(), unknown.status(), odd.status()), (404, 404, 404));
        let without_id = |page: &Page| page.words().split("Request").next().unwrap().to_owned();
        assert_eq!(without_id(&foreign), without_id(&unknown));
        other.open(INVOICES).await.assert(200, "No invoices yet").assert_not("$29.00");
        app
    })
    .await;
}
