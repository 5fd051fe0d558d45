//! Tax, companies and promotion codes: what was bought is recognised by what the page sold, never
//! by the amount that arrived.

use serde_json::{Value, json};
use test_service::processor::{Begun, PACK_CENTS, PACK_CREDITS, balance, bookings};
use test_service::subscriber::{GOOD_CARD, OFFER, PLAN};
use test_service::{Client, TestApp};

const COMPANIES: &str = "[billing]\npromotion_codes = true\npack_invoices = true\n\
    [billing.tax]\nautomatic = true\nbilling_address = true\ntax_ids = true\n";

/// Runs a test with everything switched on, on both databases.
async fn to_companies(test: impl AsyncFn(TestApp) -> TestApp) {
    let database = store::testing::store().await;
    let app = TestApp::start(database, &format!("{OFFER}{COMPANIES}")).await;
    Box::pin(async { test(app).await.end().await }).await;
}

/// A customer with a checkout of the pack.
async fn buyer(app: &TestApp) -> (Client, Begun) {
    let client = app.with_key(&app.customer(0).await.key);
    let begun = app.begin_checkout(&client).await;
    (client, begun)
}

/// Pays on a page with these details, and delivers the events.
async fn pay(app: &TestApp, session: &str, details: Value) -> Value {
    let mut pay = json!({"card": GOOD_CARD, "country": "US"});
    for (name, value) in details.as_object().unwrap() {
        pay[name] = value.clone();
    }
    let paid = app.control(&format!("checkout/{session}/pay"), pay).await;
    app.deliver().await;
    paid
}

/// Makes a promotion code for a coupon with these terms.
async fn code(app: &TestApp, terms: &str, more: &str) -> String {
    let coupon = app.at_processor("POST", "coupons", terms).await;
    let coupon = coupon["id"].as_str().unwrap();
    let form = format!("promotion[type]=coupon&promotion[coupon]={coupon}{more}");
    let code = app.at_processor("POST", "promotion_codes", &form).await;
    code["code"].as_str().unwrap().to_owned()
}

/// A page for an order that the service did not open, with this many packs at this price.
async fn other_page(app: &TestApp, order: &str, (packs, cents): (i64, i64)) -> Value {
    let payer = app.at_processor("GET", "customers?limit=1", "").await["data"][0]["id"].clone();
    let form = format!(
        "mode=payment&customer={}&client_reference_id={order}&success_url=https://a.example/\
         &automatic_tax[enabled]=true&customer_update[address]=auto\
         &metadata[creator_gateway_order_id]={order}\
         &payment_intent_data[metadata][creator_gateway_order_id]={order}\
         &line_items[0][quantity]={packs}&line_items[0][price_data][currency]=usd\
         &line_items[0][price_data][unit_amount]={cents}\
         &line_items[0][price_data][product_data][name]=Pack",
        payer.as_str().unwrap(),
    );
    app.at_processor("POST", "checkout/sessions", &form).await
}

async fn order(client: &Client) -> Value {
    client.get("/v1/billing/orders").await.json()["orders"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_with_tax_on_top_brings_exactly_its_credits_and_an_invoice() {
    to_companies(async |app| {
        let (client, begun) = buyer(&app).await;

        pay(&app, &begun.session, json!({"country": "DE"})).await;

        assert_eq!(balance(&client).await, PACK_CREDITS);
        let order = order(&client).await;
        assert_eq!((&order["charged_cents"], &order["tax_cents"]), (&json!(1_190), &json!(190)));
        let invoices = client.get("/v1/billing/invoices").await.json()["invoices"].clone();
        let invoice = &invoices[0];
        assert_eq!(invoices.as_array().unwrap().len(), 1);
        assert_eq!(invoice["invoice_id"], order["invoice_id"]);
        assert_eq!(
            (&invoice["order_id"], &invoice["reason"]),
            (&json!(begun.order), &json!("manual"))
        );
        assert_eq!((&invoice["amount_cents"], &invoice["tax_cents"]), (&json!(1_190), &json!(190)));
        let line = &invoice["lines"][0];
        assert_eq!((&line["kind"], &line["reference"]), (&json!("pack"), &json!("pack_10")));
        assert_eq!((&line["amount_cents"], &line["tax_cents"]), (&json!(1_000), &json!(190)));
        assert_eq!(app.running().compare_day(app.clock.now().day()).await.unwrap(), 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_company_with_a_tax_id_accounts_for_the_tax_itself() {
    to_companies(async |app| {
        let (client, begun) = buyer(&app).await;

        let details = json!({"country": "DE", "name": "Ada GmbH", "tax_id": "DE123456789"});
        pay(&app, &begun.session, details).await;

        let paid = order(&client).await;
        assert_eq!((&paid["charged_cents"], &paid["tax_cents"]), (&json!(PACK_CENTS), &json!(0)));
        let payer = app.at_processor("GET", "customers?limit=1", "").await["data"][0].clone();
        assert_eq!(
            (&payer["name"], &payer["address"]["country"]),
            (&json!("Ada GmbH"), &json!("DE"))
        );
        let path = format!("customers/{}/tax_ids", payer["id"].as_str().unwrap());
        let ids = app.at_processor("GET", &path, "").await;
        assert_eq!(ids["data"][0]["value"], "DE123456789");
        let portal = client.post("/v1/billing/portal", &json!({})).await;
        assert_eq!(portal.status, 200, "{}", portal.text());
        let offers = app.asked("POST", "billing_portal/configurations").await;
        assert_eq!(offers[0]["params"]["features[customer_update][enabled]"], "true", "{offers:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_lowers_the_price_of_a_pack_and_not_its_credits() {
    to_companies(async |app| {
        let half = code(&app, "percent_off=50&duration=once", "").await;
        let four = code(&app, "amount_off=400&currency=usd&duration=once", "").await;
        for (word, charged) in [(&half, 595), (&four, 714)] {
            let (client, begun) = buyer(&app).await;

            pay(&app, &begun.session, json!({"country": "DE", "promotion_code": word})).await;

            assert_eq!(balance(&client).await, PACK_CREDITS);
            let order = order(&client).await;
            assert_eq!(
                (&order["charged_cents"], &order["amount_cents"]),
                (&json!(charged), &json!(1_000))
            );
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunding_a_discounted_pack_takes_credits_by_what_was_really_paid() {
    to_companies(async |app| {
        let half = code(&app, "percent_off=50&duration=once", "").await;
        let (client, begun) = buyer(&app).await;
        let paid =
            pay(&app, &begun.session, json!({"country": "DE", "promotion_code": half})).await;
        let intent = paid["payment_intent"].as_str().unwrap();

        // Half of 5.95 USD, of which 0.95 USD is tax, to the cent.
        app.refund(intent, 298).await;
        app.deliver().await;
        let after_half = balance(&client).await;
        app.refund(intent, 297).await;
        app.deliver().await;

        let middle = PACK_CREDITS / 2;
        assert!((middle - 10..=middle + 10).contains(&after_half), "{after_half}");
        assert_eq!(balance(&client).await, 0);
        assert_eq!(order(&client).await["status"], "refunded");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_of_100_percent_brings_the_pack_without_a_payment_once() {
    to_companies(async |app| {
        let free = code(&app, "percent_off=100&duration=once", "").await;
        let (client, begun) = buyer(&app).await;

        let paid = pay(&app, &begun.session, json!({"promotion_code": free})).await;
        app.deliver().await;
        app.running().reconcile(72).await.unwrap();

        assert_eq!(paid["payment_status"], "no_payment_required");
        assert_eq!(balance(&client).await, PACK_CREDITS);
        assert_eq!(bookings(&client).await, [("pack".to_owned(), PACK_CREDITS)]);
        let order = order(&client).await;
        assert_eq!((&order["status"], &order["charged_cents"]), (&json!("paid"), &json!(0)));
        assert_eq!(order["receipt_url"], Value::Null);
        assert_eq!(app.running().compare_day(app.clock.now().day()).await.unwrap(), 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discounted_month_brings_all_of_its_credits_and_shows_tax() {
    to_companies(async |app| {
        let half = code(&app, "percent_off=50&duration=repeating&duration_in_months=2", "").await;
        let client = app.with_key(&app.customer(0).await.key);
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        let session = page.json()["session_id"].as_str().unwrap().to_owned();

        pay(&app, &session, json!({"country": "DE", "promotion_code": half})).await;
        assert_eq!(balance(&client).await, 1_000);
        app.months_pass(1).await;
        app.months_pass(1).await;

        assert_eq!(balance(&client).await, 3_000);
        let invoices = client.get("/v1/billing/invoices").await.json();
        let sums: Vec<[i64; 3]> = invoices["invoices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                ["discount_cents", "tax_cents", "paid_cents"].map(|it| one[it].as_i64().unwrap())
            })
            .collect();
        // 29.00 USD: two months at half the price, then the whole price, each with 19 percent.
        assert_eq!(sums, [[0, 551, 3_451], [1_450, 276, 1_726], [1_450, 276, 1_726]]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_raise_is_previewed_and_charged_with_tax() {
    to_companies(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        let session = page.json()["session_id"].as_str().unwrap().to_owned();
        pay(&app, &session, json!({"country": "DE"})).await;

        let path = "/v1/billing/slots/preview?platform=platform_alpha&count=2";
        let preview = client.get(path).await.json();
        let wish = json!({"platform": "platform_alpha", "count": 2});
        let raised = client.post("/v1/billing/slots", &wish).await.json();

        assert_eq!(raised["charged_cents"], preview["charged_now_cents"], "{raised}");
        app.deliver().await;
        let id = raised["invoice_id"].as_str().unwrap();
        let invoice = client.get(&format!("/v1/billing/invoices/{id}")).await.json();
        let cents = |field: &str| invoice[field].as_i64().unwrap();
        assert_eq!(cents("paid_cents"), raised["charged_cents"].as_i64().unwrap());
        assert_eq!(cents("tax_cents"), (cents("subtotal_cents") * 19 + 50) / 100);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_sold_something_else_grants_nothing_and_is_reported() {
    to_companies(async |app| {
        let (client, begun) = buyer(&app).await;
        // It names the order and costs the same.
        let other = other_page(&app, &begun.order, (2, 500)).await;

        let paid = pay(&app, other["id"].as_str().unwrap(), json!({})).await;

        assert_eq!(paid["status"], "complete");
        assert_eq!(balance(&client).await, 0);
        let noted = store::unmatched::list(app.store(), 10).await.unwrap();
        assert_eq!(noted[0].reason.as_str(), "other_goods", "{noted:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_of_other_programs_are_neither_granted_nor_reported() {
    to_companies(async |app| {
        let (client, _) = buyer(&app).await;
        let payer = app.at_processor("GET", "customers?limit=1", "").await["data"][0]["id"].clone();
        let payer = payer.as_str().unwrap();
        let attach = format!("customer={payer}");
        let card = app.at_processor("POST", "payment_methods/pm_card_visa/attach", &attach).await;
        for name in ["17", "order-2026-1", "ord_0190a6c2f5e27b3c9d4e5f60718293a4"] {
            let form = format!(
                "amount=1000&currency=usd&customer={payer}&payment_method={}&confirm=true\
                 &payment_method_types[]=card&metadata[order_id]={name}",
                card["id"].as_str().unwrap()
            );
            app.at_processor("POST", "payment_intents", &form).await;
        }
        app.deliver().await;
        app.running().reconcile(72).await.unwrap();

        assert_eq!(balance(&client).await, 0);
        assert_eq!(store::unmatched::list(app.store(), 10).await.unwrap(), []);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_was_not_recorded_is_found_by_its_payment() {
    to_companies(async |app| {
        let (client, begun) = buyer(&app).await;
        // A page that is not the recorded one, as after a response that was lost.
        let page = other_page(&app, &begun.order, (1, 1_000)).await;
        let session = page["id"].as_str().unwrap();
        let pay = json!({"card": GOOD_CARD, "country": "DE"});
        app.control(&format!("checkout/{session}/pay"), pay).await;
        let paid = app.at_processor("GET", &format!("checkout/sessions/{session}"), "").await;
        let about = paid["payment_intent"].as_str().unwrap();
        for (event, kind) in app.events_about(&[about]).await {
            if kind == "payment_intent.succeeded" {
                app.send_event(&event, 1).await;
            }
        }

        assert_eq!(balance(&client).await, PACK_CREDITS);
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

/// These are the parameters that `scripts/processor-test` compares with the types of the
/// processor's own library.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_for_companies_asks_for_tax_ids_addresses_codes_and_an_invoice() {
    let app = TestApp::on_sqlite(COMPANIES).await;
    let _buyer = buyer(&app).await;

    let asked = app.asked("POST", "checkout/sessions").await;

    let params = asked[0]["params"].as_object().unwrap();
    for (name, value) in [
        ("automatic_tax[enabled]", "true"),
        ("billing_address_collection", "required"),
        ("tax_id_collection[enabled]", "true"),
        ("allow_promotion_codes", "true"),
        ("customer_update[address]", "auto"),
        ("customer_update[name]", "auto"),
        ("invoice_creation[enabled]", "true"),
        ("line_items[0][price_data][tax_behavior]", "exclusive"),
    ] {
        assert_eq!(params[name], value, "{name}");
    }
    let named = "invoice_creation[invoice_data][metadata][creator_gateway_order_id]";
    assert!(params.contains_key(named), "{params:?}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_pages_ask_for_nothing_but_a_card() {
    let app = TestApp::on_sqlite(OFFER).await;
    let (_, begun) = buyer(&app).await;

    let asked = app.asked("POST", "checkout/sessions").await;

    let params = asked[0]["params"].as_object().unwrap();
    for name in [
        "automatic_tax[enabled]",
        "billing_address_collection",
        "tax_id_collection[enabled]",
        "customer_update[address]",
        "customer_update[name]",
        "allow_promotion_codes",
        "invoice_creation[enabled]",
    ] {
        assert!(!params.contains_key(name), "{name}");
    }
    assert_eq!(params["metadata[creator_gateway_order_id]"], json!(begun.order));
    app.end().await;
}
