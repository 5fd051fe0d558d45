//! Coupons and tax, on invoices of subscriptions and on one-time purchases.

use serde_json::{Value, json};

use crate::kit::{Shop, id};
use crate::subscriptions::price;

const NOW: &str =
    "&proration_behavior=always_invoice&payment_behavior=error_if_incomplete&off_session=true";
const ITEMIZED: &str =
    "&billing_mode[type]=flexible&billing_mode[flexible][proration_discounts]=itemized";

async fn coupon(shop: &Shop, percent: &str, duration: &str) -> String {
    id(&shop.done("coupons", &format!("percent_off={percent}&duration={duration}")).await)
}

/// A subscription with additional parameters, and the price of its plan.
async fn subscribed(shop: &Shop, more: &str) -> (Value, String) {
    let plan = price(shop, "Studio", 4900).await;
    let (customer, _) = shop.customer("pm_card_visa").await;
    let form = format!("customer={customer}&items[0][price]={plan}{more}&expand[]=latest_invoice");
    (shop.done("subscriptions", &form).await, plan)
}

async fn latest_invoice(shop: &Shop, subscription: &Value) -> Value {
    let path = format!("subscriptions/{}?expand[]=latest_invoice", id(subscription));
    shop.read(&path).await["latest_invoice"].clone()
}

fn sums(invoice: &Value) -> [i64; 4] {
    ["subtotal", "total_excluding_tax", "total", "amount_due"]
        .map(|field| invoice[field].as_i64().unwrap())
}

#[tokio::test]
async fn a_forever_coupon_applies_to_every_invoice_and_a_once_coupon_to_the_first() {
    let shop = Shop::open();
    for (duration, second) in [("forever", 3920), ("once", 4900)] {
        let coupon = coupon(&shop, "20", duration).await;
        let more = format!("&discounts[0][coupon]={coupon}");
        let (subscription, _) = subscribed(&shop, &more).await;

        let first = &subscription["latest_invoice"];
        assert_eq!(sums(first), [4900, 3920, 3920, 3920]);
        let line = &first["lines"]["data"][0];
        assert_eq!(
            (&line["amount"], &line["discount_amounts"][0]["amount"]),
            (&json!(4900), &json!(980))
        );
        let discount = &line["discount_amounts"][0]["discount"];
        assert_eq!(first["total_discount_amounts"], json!([{"amount": 980, "discount": discount}]));
        assert_eq!(first["discounts"], json!([discount]));
        shop.control("clock", &json!({"advance_months": 1})).await;

        assert_eq!(latest_invoice(&shop, &subscription).await["total"], second, "{duration}");
        let path = format!("subscriptions/{}?expand[]=discounts", id(&subscription));
        let left = shop.read(&path).await["discounts"].clone();
        if duration == "forever" {
            assert_eq!((&left[0]["id"], &left[0]["source"]["coupon"]), (discount, &json!(coupon)));
        } else {
            assert_eq!(left, json!([]));
        }
    }
    shop.close().await;
}

#[tokio::test]
async fn discounts_of_prorations_are_itemized_or_included() {
    let shop = Shop::open();
    for (mode, shown) in [(ITEMIZED, [(-4900, -980), (9900, 1980)]), ("", [(-3920, 0), (7920, 0)])]
    {
        let coupon = coupon(&shop, "20", "forever").await;
        let more = format!("&discounts[0][coupon]={coupon}{mode}");
        let (subscription, _) = subscribed(&shop, &more).await;
        let team = price(&shop, "Team", 9900).await;
        let item = id(&subscription["items"]["data"][0]);
        let items = format!("[0][id]={item}&items[0][price]={team}");
        let preview = format!(
            "subscription={}&subscription_details[items][0][id]={item}&subscription_details[items][0][price]={team}\
             &subscription_details[proration_behavior]=always_invoice",
            id(&subscription)
        );
        let previewed = shop.done("invoices/create_preview", &preview).await;

        shop.done(&format!("subscriptions/{}", id(&subscription)), &format!("items{items}{NOW}"))
            .await;

        let invoice = latest_invoice(&shop, &subscription).await;
        let lines = invoice["lines"]["data"].as_array().unwrap().iter();
        let amounts: Vec<(i64, i64)> = lines
            .map(|line| {
                let off = line["discount_amounts"][0]["amount"].as_i64().unwrap();
                (line["amount"].as_i64().unwrap(), off)
            })
            .collect();
        assert_eq!(amounts, shown, "{mode}");
        assert_eq!((&invoice["total"], &invoice["amount_paid"]), (&json!(4000), &json!(4000)));
        assert_eq!(sums(&previewed), sums(&invoice));
        assert_eq!(
            (&previewed["ending_balance"], &previewed["number"]),
            (&Value::Null, &Value::Null)
        );
    }
    shop.close().await;
}

/// A month that was paid with a once coupon is credited with the same discount.
#[tokio::test]
async fn a_credit_has_the_discount_of_its_charge() {
    let shop = Shop::open();
    let coupon = coupon(&shop, "50", "once").await;
    let more = format!("&discounts[0][coupon]={coupon}{ITEMIZED}");
    let (subscription, _) = subscribed(&shop, &more).await;
    let (path, item) =
        (format!("subscriptions/{}", id(&subscription)), id(&subscription["items"]["data"][0]));
    let team = price(&shop, "Team", 9900).await;

    shop.done(&path, &format!("items[0][id]={item}&items[0][price]={team}{NOW}")).await;
    let up = latest_invoice(&shop, &subscription).await;
    let agency = price(&shop, "Agency", 19_900).await;
    shop.done(&path, &format!("items[0][id]={item}&items[0][price]={agency}{NOW}")).await;

    assert_eq!(up["total"], 9900 - 2450, "half of the first plan is credited");
    assert_eq!(latest_invoice(&shop, &subscription).await["total"], 10_000);
    shop.close().await;
}

#[tokio::test]
async fn coupons_are_listed_changed_on_a_subscription_and_deleted() {
    let shop = Shop::open();
    let half = "id=HALF&name=Half&percent_off=12.5&duration=forever&metadata[a]=b";
    let made = shop.done("coupons", half).await;
    assert_eq!((&made["id"], &made["percent_off"]), (&json!("HALF"), &json!(12.5)));
    let (subscription, _) = subscribed(&shop, "").await;
    let path = format!("subscriptions/{}", id(&subscription));

    let with = shop.done(&path, "discounts[0][coupon]=HALF").await;
    assert_eq!(with["discounts"].as_array().unwrap().len(), 1);
    assert_eq!(shop.read("coupons/HALF").await["times_redeemed"], 1);
    assert_eq!(shop.read("coupons").await["data"].as_array().unwrap().len(), 1);
    assert_eq!(shop.done(&path, "discounts=").await["discounts"], json!([]));
    assert_eq!(shop.delete("coupons/HALF").await.json()["deleted"], true);

    assert_eq!(shop.get("coupons/HALF").await.status, 404);
    assert_eq!(shop.read("coupons").await["data"], json!([]));
    for (to, form, param) in [
        (path.as_str(), "discounts[0][coupon]=HALF", "discounts[0][coupon]"),
        ("coupons", "duration=once", "percent_off"),
        ("coupons", "percent_off=0", "percent_off"),
        ("coupons", "percent_off=101", "percent_off"),
        ("coupons", "percent_off=10&duration=repeating", "duration_in_months"),
        ("coupons", "percent_off=10&duration=once&duration_in_months=2", "duration_in_months"),
        ("coupons", "amount_off=100", "currency"),
        ("coupons", "amount_off=0&currency=usd", "amount_off"),
        ("coupons", "percent_off=10&max_redemptions=0", "max_redemptions"),
        ("coupons", "percent_off=10&redeem_by=1", "redeem_by"),
    ] {
        assert_eq!(shop.refused(to, form, 400).await["param"], param, "{form}");
    }
    shop.close().await;
}

#[tokio::test]
async fn tax_applies_after_discounts_and_never_to_a_credit() {
    let shop = Shop::open();
    shop.control("rules", &json!({"tax_bp": 1925})).await;
    let coupon = coupon(&shop, "20", "forever").await;
    let more = format!("&discounts[0][coupon]={coupon}{ITEMIZED}");
    let (subscription, plan) = subscribed(&shop, &more).await;

    let invoice = &subscription["latest_invoice"];
    assert_eq!(sums(invoice), [4900, 3920, 4675, 4675], "754.6 cents of tax");
    let tax = &invoice["total_taxes"][0];
    assert_eq!((&tax["amount"], &tax["taxable_amount"]), (&json!(755), &json!(3920)));
    assert_eq!(tax["tax_behavior"], "exclusive");
    // A change that credits more than it costs has no tax.
    let cheap = price(&shop, "Small", 1000).await;
    let item = id(&subscription["items"]["data"][0]);
    let path = format!("subscriptions/{}", id(&subscription));
    shop.done(&path, &format!("items[0][id]={item}&items[0][price]={cheap}{NOW}")).await;
    let lower = latest_invoice(&shop, &subscription).await;
    assert_eq!((sums(&lower), &lower["total_taxes"]), ([-3900, -3120, -3120, 0], &json!([])));
    assert_eq!(lower["ending_balance"], -3120);
    let old = format!("{}Stripe-Version: 2025-02-24.acacia\r\n", shop.key());
    let old = shop.raw(&format!("GET /v1/invoices/{}", id(invoice)), &old, "").await.json();
    assert_eq!(old["tax"], 755);
    shop.control("rules", &json!({"tax_bp": 0})).await;
    let customer = subscription["customer"].as_str().unwrap();
    let form = format!("customer={customer}&items[0][price]={plan}&expand[]=latest_invoice");
    assert_eq!(shop.done("subscriptions", &form).await["latest_invoice"]["total"], 4900);
    shop.close().await;
}

fn page(customer: &str, more: &str) -> String {
    format!(
        "mode=payment&customer={customer}&success_url=https://a.example/ok{more}\
         &line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]=1000\
         &line_items[0][price_data][product_data][name]=Pack&line_items[0][quantity]=1"
    )
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
async fn the_checkout_page_shows_and_charges_discount_and_tax() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_visa").await;
    shop.control("rules", &json!({"tax_bp": 1000})).await;
    let coupon = coupon(&shop, "20", "once").await;

    let form = page(&customer, &format!("&discounts[0][coupon]={coupon}"));
    let session = shop.done("checkout/sessions", &form).await;
    assert_eq!(amounts(&session), [1000, 200, 80, 880]);
    assert_eq!(session["discounts"], json!([{"coupon": coupon, "promotion_code": null}]));
    let html = shop.raw(&format!("GET /processor/checkout/{}", id(&session)), "", "").await.text;
    for shown in ["$10.00", "−$2.00", "$0.80", "Pay $8.80"] {
        assert!(html.contains(shown), "{shown} in {html}");
    }
    shop.control(&format!("checkout/{}/pay", id(&session)), &json!({})).await;

    let paid =
        shop.read(&format!("checkout/sessions/{}?expand[]=payment_intent", id(&session))).await;
    assert_eq!(paid["payment_intent"]["amount_received"], 880);
    let lines = shop.read(&format!("checkout/sessions/{}/line_items", id(&session))).await;
    let line = &lines["data"][0];
    assert_eq!((&line["amount_subtotal"], &line["amount_discount"]), (&json!(1000), &json!(200)));
    assert_eq!((&line["amount_tax"], &line["amount_total"]), (&json!(80), &json!(880)));
    // A charge of the saved card has neither an invoice nor a page, so it has no tax.
    let charge = format!(
        "amount=1000&currency=usd&confirm=true&customer={customer}&payment_method={method}&payment_method_types[]=card"
    );
    assert_eq!(shop.done("payment_intents", &charge).await["amount_received"], 1000);
    let few = page(&customer, &format!("&discounts[0][coupon]={coupon}")).replace("=1000", "=50");
    assert_eq!(shop.refused("checkout/sessions", &few, 400).await["code"], "amount_too_small");
    let both =
        page(&customer, &format!("&discounts[0][coupon]={coupon}&allow_promotion_codes=true"));
    shop.refused("checkout/sessions", &both, 400).await;
    shop.close().await;
}

#[tokio::test]
async fn a_customer_gets_a_coupon_on_the_page_or_with_the_next_session() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;

    let given =
        shop.control("next-coupon", &json!({"percent_off": 25, "duration": "forever"})).await;
    let plan = price(&shop, "Studio", 4900).await;
    let form = format!(
        "mode=subscription&customer={customer}&success_url=https://a.example/ok&line_items[0][price]={plan}&line_items[0][quantity]=1"
    );
    let first = shop.done("checkout/sessions", &form).await;
    let second = shop.done("checkout/sessions", &page(&customer, "")).await;

    assert_eq!(first["discounts"][0]["coupon"], given["coupon"]);
    assert_eq!((amounts(&first), amounts(&second)), ([4900, 1225, 0, 3675], [1000, 0, 0, 1000]));
    let paid = shop.control(&format!("checkout/{}/pay", id(&first)), &json!({})).await;
    let path =
        format!("subscriptions/{}?expand[]=latest_invoice", paid["subscription"].as_str().unwrap());
    let subscription = shop.read(&path).await;
    assert_eq!(subscription["latest_invoice"]["amount_paid"], 3675);
    assert_eq!(subscription["discounts"].as_array().unwrap().len(), 1);
    let pay = format!("checkout/{}/pay", id(&second));
    shop.control(&pay, &json!({"percent_off": 10})).await;
    let after = shop.read(&format!("checkout/sessions/{}", id(&second))).await;
    assert_eq!((&after["status"], amounts(&after)), (&json!("complete"), [1000, 100, 0, 900]));
    shop.close().await;
}

#[tokio::test]
async fn invalid_rules_are_refused_and_change_nothing() {
    let shop = Shop::open();
    let before = shop.raw("GET /control/processor/rules", "", "").await.json();

    for (body, field) in [
        (json!({"tax_bp": 10_001}), "tax_bp"),
        (json!({"tax_bp": "x"}), "tax_bp"),
        (json!({"retry_days": []}), "retry_days"),
        (json!({"retry_days": [8, 3]}), "retry_days"),
        (json!({"retry_days": [0, 3]}), "retry_days"),
        (json!({"refunds_pending": 1}), "refunds_pending"),
        (json!({"lines_shown": 0}), "lines_shown"),
        (json!({"tax": 7}), "tax"),
    ] {
        let refused = shop.controlled("rules", &body).await;
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
    }

    assert_eq!(shop.raw("GET /control/processor/rules", "", "").await.json(), before);
    let expected = json!({"tax_bp": 0, "retry_days": [3, 8, 15], "refunds_pending": false, "lines_shown": 10, "requests_per_s": 0});
    assert_eq!(before, expected);
    shop.close().await;
}
