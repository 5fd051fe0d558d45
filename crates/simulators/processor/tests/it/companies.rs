//! Pages for companies: tax by country, tax ids, promotion codes, and invoices for payments.

use serde_json::{Value, json};

use crate::kit::{Shop, id};
use crate::subscriptions::price;

/// What asks for everything.
const ASKS: &str = "&automatic_tax[enabled]=true&billing_address_collection=required\
    &tax_id_collection[enabled]=true&customer_update[address]=auto&customer_update[name]=auto\
    &allow_promotion_codes=true";

fn pack(customer: &str, more: &str) -> String {
    format!(
        "mode=payment&customer={customer}&success_url=https://a.example/ok&line_items[0][quantity]=1\
         &line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]=1000\
         &line_items[0][price_data][tax_behavior]=exclusive\
         &line_items[0][price_data][product_data][name]=Pack{more}"
    )
}

async fn code(shop: &Shop, coupon: &str, more: &str) -> Value {
    let coupon = id(&shop.done("coupons", coupon).await);
    let form = format!("promotion[type]=coupon&promotion[coupon]={coupon}{more}");
    shop.done("promotion_codes", &form).await
}

/// Opens a page for the pack and pays on it: the status, and the session.
async fn paid(shop: &Shop, customer: &str, more: &str, details: Value) -> (u16, Value) {
    let session = shop.done("checkout/sessions", &pack(customer, more)).await;
    let path = format!("checkout/{}/pay", id(&session));
    let status = shop.controlled(&path, &details).await.status;
    (status, shop.read(&format!("checkout/sessions/{}", id(&session))).await)
}

fn amounts(session: &Value) -> [i64; 4] {
    let details = &session["total_details"];
    [
        &session["amount_subtotal"],
        &details["amount_discount"],
        &details["amount_tax"],
        &session["amount_total"],
    ]
    .map(|cents| cents.as_i64().unwrap())
}

#[tokio::test]
async fn tax_depends_on_the_country_that_is_entered_and_is_saved_with_it() {
    let shop = Shop::open();
    for (country, tax_id, tax) in
        [("DE", "", 190), ("CH", "", 81), ("US", "", 0), ("FR", "FR12345678901", 0)]
    {
        let (customer, _) = shop.customer("pm_card_visa").await;
        let details = json!({"country": country, "tax_id": tax_id, "name": "Ada & Co."});

        let (status, session) = paid(&shop, &customer, ASKS, details).await;

        assert_eq!((status, amounts(&session)), (200, [1_000, 0, tax, 1_000 + tax]), "{country}");
        assert_eq!(session["automatic_tax"]["status"], "complete");
        assert_eq!(session["customer_details"]["address"]["country"], country);
        let customer = shop.read(&format!("customers/{customer}")).await;
        assert_eq!(
            (&customer["address"]["country"], &customer["name"]),
            (&json!(country), &json!("Ada & Co."))
        );
    }
    let (customer, _) = shop.customer("pm_card_visa").await;
    let (status, session) = paid(&shop, &customer, ASKS, json!({})).await;
    assert_eq!((status, &session["status"]), (400, &json!("open")), "the country is missing");
    let wrong = json!({"country": "DE", "tax_id": "XX1"});
    assert_eq!(paid(&shop, &customer, ASKS, wrong).await.0, 400);
    shop.close().await;
}

#[tokio::test]
async fn what_could_not_be_saved_to_a_known_customer_is_not_collected() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;

    for (more, code) in [
        ("&automatic_tax[enabled]=true", json!("customer_tax_location_invalid")),
        ("&tax_id_collection[enabled]=true", Value::Null),
    ] {
        let refused = shop.refused("checkout/sessions", &pack(&customer, more), 400).await;
        assert_eq!(refused["code"], code, "{more}");
    }
    shop.done(&format!("customers/{customer}"), "address[country]=DE").await;
    let known = pack(&customer, "&automatic_tax[enabled]=true");
    assert_eq!(amounts(&shop.done("checkout/sessions", &known).await), [1_000, 0, 190, 1_190]);
    let plan = price(&shop, "Studio", 4_900).await;
    let form = format!(
        "mode=subscription&customer={customer}&success_url=https://a.example/&line_items[0][price]={plan}\
         &line_items[0][quantity]=1&invoice_creation[enabled]=true"
    );
    let refused = shop.refused("checkout/sessions", &form, 400).await;
    assert_eq!(refused["param"], "invoice_creation");
    shop.close().await;
}

#[tokio::test]
async fn a_subscription_from_a_taxed_page_stays_taxed() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_visa").await;
    let plan = price(&shop, "Studio", 4_900).await;
    let form = format!(
        "mode=subscription&customer={customer}&success_url=https://a.example/&line_items[0][price]={plan}\
         &line_items[0][quantity]=1{ASKS}"
    );
    let session = shop.done("checkout/sessions", &form).await;
    let pay = format!("checkout/{}/pay", id(&session));
    let subscription = shop.control(&pay, &json!({"country": "DE"})).await["subscription"].clone();
    shop.control("clock", &json!({"advance_months": 1})).await;

    let invoices = shop.read(&format!("invoices?customer={customer}")).await;

    let all = invoices["data"].as_array().unwrap();
    assert_eq!(all.len(), 2);
    for invoice in all {
        assert_eq!(
            (&invoice["total"], &invoice["total_excluding_tax"]),
            (&json!(5_831), &json!(4_900))
        );
        assert_eq!(invoice["lines"]["data"][0]["taxes"][0]["amount"], 931);
        assert_eq!(invoice["automatic_tax"]["enabled"], true);
    }
    let path = format!("subscriptions/{}", subscription.as_str().unwrap());
    assert_eq!(shop.read(&path).await["automatic_tax"]["enabled"], true);
    let nowhere = id(&shop.done("customers", "").await);
    shop.done(&format!("payment_methods/{method}/detach"), "").await;
    let untaxed = format!("customer={nowhere}&items[0][price]={plan}&automatic_tax[enabled]=true");
    let refused = shop.refused("subscriptions", &untaxed, 400).await;
    assert_eq!(refused["code"], "customer_tax_location_invalid");
    shop.close().await;
}

#[tokio::test]
async fn a_promotion_code_works_within_its_limits() {
    let shop = Shop::open();
    let half = "percent_off=50&duration=once";
    let (customer, _) = shop.customer("pm_card_visa").await;
    let takes = "&allow_promotion_codes=true";
    let enter = |word: &str| json!({"promotion_code": word});

    let once = code(&shop, half, "&code=ONCE&max_redemptions=1").await;
    let (status, session) = paid(&shop, &customer, takes, enter("once")).await;
    assert_eq!((status, amounts(&session)), (200, [1_000, 500, 0, 500]));
    assert_eq!(session["discounts"][0]["promotion_code"], once["id"]);
    let after = shop.read(&format!("promotion_codes/{}", id(&once))).await;
    assert_eq!((&after["times_redeemed"], &after["active"]), (&json!(1), &json!(false)));
    assert_eq!(paid(&shop, &customer, takes, enter("ONCE")).await.0, 400, "it is used up");

    code(&shop, half, "&code=MUCH&restrictions[minimum_amount]=5000").await;
    code(&shop, half, "&code=FIRST&restrictions[first_time_transaction]=true").await;
    code(&shop, half, &format!("&code=SOON&expires_at={}", 1_000)).await;
    let off = code(&shop, half, "&code=OFF").await;
    shop.done(&format!("promotion_codes/{}", id(&off)), "active=false").await;
    for word in ["MUCH", "FIRST", "SOON", "OFF", "NONE"] {
        assert_eq!(paid(&shop, &customer, takes, enter(word)).await.0, 400, "{word}");
    }
    code(&shop, half, "&code=ANY").await;
    assert_eq!(paid(&shop, &customer, "", enter("ANY")).await.0, 400, "the page takes no codes");
    let (newcomer, _) = shop.customer("pm_card_visa").await;
    assert_eq!(paid(&shop, &newcomer, takes, enter("FIRST")).await.0, 200);
    assert_eq!(shop.read("promotion_codes?code=any").await["data"].as_array().unwrap().len(), 1);
    shop.close().await;
}

#[tokio::test]
async fn a_coupon_ends_after_its_months_and_its_redemptions() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_visa").await;
    let plan = price(&shop, "Studio", 4_900).await;
    let two =
        "amount_off=1000&currency=usd&duration=repeating&duration_in_months=2&max_redemptions=1";
    let coupon = id(&shop.done("coupons", two).await);
    let form = format!(
        "customer={customer}&default_payment_method={method}&items[0][price]={plan}&discounts[0][coupon]={coupon}"
    );
    shop.done("subscriptions", &form).await;
    for _ in 0..2 {
        shop.control("clock", &json!({"advance_months": 1})).await;
    }

    let invoices = shop.read(&format!("invoices?customer={customer}")).await;

    let totals: Vec<_> =
        invoices["data"].as_array().unwrap().iter().map(|it| it["total"].clone()).collect();
    assert_eq!(totals, [json!(4_900), json!(3_900), json!(3_900)]);
    let used = shop.read(&format!("coupons/{coupon}")).await;
    assert_eq!((&used["valid"], &used["times_redeemed"]), (&json!(false), &json!(1)));
    let refused = shop.refused("subscriptions", &form, 400).await;
    assert_eq!(refused["code"], "coupon_expired");
    shop.close().await;
}

#[tokio::test]
async fn a_payment_with_an_invoice_has_documents_and_names_what_paid_it() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let more = format!(
        "{ASKS}&invoice_creation[enabled]=true&invoice_creation[invoice_data][metadata][order]=7"
    );
    code(&shop, "percent_off=20&duration=once", "&code=FIFTH").await;

    let details = json!({"country": "DE", "promotion_code": "FIFTH"});
    let (status, session) = paid(&shop, &customer, &more, details).await;

    assert_eq!(status, 200);
    let path = format!("invoices/{}?expand[]=payments", session["invoice"].as_str().unwrap());
    let invoice = shop.read(&path).await;
    assert_eq!(
        (&invoice["status"], &invoice["billing_reason"]),
        (&json!("paid"), &json!("manual"))
    );
    assert_eq!((&invoice["subtotal"], &invoice["total"]), (&json!(1_000), &json!(952)));
    assert_eq!(invoice["total_taxes"][0]["amount"], 152);
    assert_eq!(invoice["metadata"]["order"], "7");
    let line = &invoice["lines"]["data"][0];
    assert_eq!(
        (&line["amount"], &line["discount_amounts"][0]["amount"]),
        (&json!(1_000), &json!(200))
    );
    let payment = &invoice["payments"]["data"][0]["payment"]["payment_intent"];
    assert_eq!(payment, &session["payment_intent"]);
    let local = |url: &Value| url.as_str().unwrap().split_once("/processor/").unwrap().1.to_owned();
    let page = local(&invoice["hosted_invoice_url"]);
    let html = shop.raw(&format!("GET /processor/{page}"), "", "").await;
    assert!(html.status == 200 && html.text.contains("$9.52"), "{}", html.text);
    let pdf = shop.raw(&format!("GET /processor/{}", local(&invoice["invoice_pdf"])), "", "").await;
    assert!(pdf.text.starts_with("%PDF-1.4"), "{}", pdf.text);
    assert_eq!(pdf.header("content-type"), Some("application/pdf"));
    let intent = format!("payment_intents/{}?expand[]=latest_charge", payment.as_str().unwrap());
    let receipt = local(&shop.read(&intent).await["latest_charge"]["receipt_url"]);
    let receipt = shop.raw(&format!("GET /processor/{receipt}"), "", "").await;
    assert!(receipt.text.contains("$9.52"), "{}", receipt.text);
    shop.close().await;
}
