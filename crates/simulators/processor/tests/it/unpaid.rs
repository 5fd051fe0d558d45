//! Unpaid invoices: how often they are retried, what happens to the subscription, and how they are
//! paid in the end.

use serde_json::{Value, json};

use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

const DAY: i64 = 86_400;

async fn cards(shop: &Shop, customer: &str, works: bool) {
    shop.control(&format!("customers/{customer}/cards"), &json!({"works": works})).await;
}

async fn invoices(shop: &Shop, status: &str) -> Vec<Value> {
    let listed = shop.read(&format!("invoices?status={status}&limit=100")).await;
    listed["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn retries_follow_the_rules_and_the_invoice_stays_open_afterwards() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    for (set, days) in [(None, [3, 8, 15]), (Some([1, 2, 5]), [1, 2, 5])] {
        if let Some(set) = set {
            shop.control("rules", &json!({"retry_days": set})).await;
        }
        let (customer, subscription) = subscribed(&shop, &plan).await;
        let path = format!("subscriptions/{}", id(&subscription));
        cards(&shop, &customer, false).await;
        let renews = subscription["items"]["data"][0]["current_period_end"].as_i64().unwrap();
        for (made, day) in days.into_iter().enumerate() {
            shop.control("clock", &json!({"to": renews + day * DAY - 1})).await;

            let open = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
            let invoice = &open["latest_invoice"];
            assert_eq!((&open["status"], &invoice["status"]), (&json!("past_due"), &json!("open")));
            assert_eq!(invoice["attempt_count"], made + 1);
            assert_eq!(invoice["next_payment_attempt"], renews + day * DAY);
        }
        shop.control("clock", &json!({"advance_s": 1})).await;

        let ended = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
        let invoice = &ended["latest_invoice"];
        assert_eq!((&ended["status"], &invoice["status"]), (&json!("canceled"), &json!("open")));
        assert_eq!(ended["ended_at"], renews + days[2] * DAY);
        assert_eq!(
            (&invoice["next_payment_attempt"], &invoice["attempt_count"]),
            (&Value::Null, &json!(4))
        );
        shop.control("clock", &json!({"advance_months": 3})).await;
        let later = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
        assert_eq!(later, ended, "nothing else happens");
        // It can still be paid with a working card; the subscription stays ended.
        cards(&shop, &customer, true).await;
        let paid = shop.done(&format!("invoices/{}/pay", id(invoice)), "off_session=true").await;
        assert_eq!((&paid["status"], &paid["amount_paid"]), (&json!("paid"), &json!(4900)));
        assert_eq!(shop.read(&path).await["status"], "canceled");
    }
    shop.close().await;
}

#[tokio::test]
async fn an_open_invoice_is_paid_with_a_new_card_while_the_old_one_fails() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    let old = shop.read(&format!("customers/{customer}")).await;
    let old = old["invoice_settings"]["default_payment_method"].as_str().unwrap().to_owned();
    let body = json!({"works": false, "payment_method": old, "code": "expired_card"});
    shop.control(&format!("customers/{customer}/cards"), &body).await;
    shop.control("clock", &json!({"advance_months": 1})).await;
    let open = invoices(&shop, "open").await.remove(0);
    let pay = format!("invoices/{}/pay", id(&open));

    let declined = shop.refused(&pay, "", 402).await;
    assert_eq!(declined["code"], "expired_card");
    let new = id(&shop
        .done("payment_methods/pm_card_mastercard/attach", &format!("customer={customer}"))
        .await);
    let paid = shop.done(&pay, &format!("payment_method={new}&off_session=true")).await;

    assert_eq!(paid["status"], "paid");
    assert_eq!(shop.read(&path).await["status"], "active");
    assert_eq!(shop.read("charges").await["data"][0]["payment_method"], new);
    let again = shop.refused(&pay, "", 400).await;
    assert_eq!(again["code"], "invoice_already_paid");
    shop.close().await;
}

/// A subscription's status depends on its latest invoice, even while an older one is unpaid.
#[tokio::test]
async fn an_older_open_invoice_leaves_a_paid_subscription_active() {
    let shop = Shop::open();
    shop.control("rules", &json!({"retry_days": [3, 20, 45]})).await;
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    cards(&shop, &customer, false).await;
    shop.control("clock", &json!({"advance_months": 1, "advance_days": 21})).await;
    assert_eq!(shop.read(&path).await["status"], "past_due");
    cards(&shop, &customer, true).await;
    shop.control("clock", &json!({"advance_days": 10})).await;

    let open = invoices(&shop, "open").await;
    assert_eq!((shop.read(&path).await["status"].clone(), open.len()), (json!("active"), 1));
    cards(&shop, &customer, false).await;
    shop.control("clock", &json!({"advance_days": 15})).await;

    // Its last retry has failed, and it does not end the subscription, because it is not the latest
    // invoice.
    let left = invoices(&shop, "open").await;
    assert_eq!(left[0]["next_payment_attempt"], Value::Null);
    assert_eq!(shop.read(&path).await["status"], "active");
    shop.close().await;
}

#[tokio::test]
async fn a_renewal_paid_by_credit_reactivates_a_subscription() {
    let shop = Shop::open();
    shop.control("rules", &json!({"retry_days": [40]})).await;
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    cards(&shop, &customer, false).await;
    shop.control("clock", &json!({"advance_months": 1})).await;
    let path = format!("customers/{customer}/balance_transactions");
    shop.done(&path, "amount=-4900&currency=usd").await;

    shop.control("clock", &json!({"advance_months": 1})).await;

    let after = shop.read(&format!("subscriptions/{}", id(&subscription))).await;
    assert_eq!(after["status"], "active");
    assert_eq!(invoices(&shop, "open").await.len(), 1);
    shop.close().await;
}

#[tokio::test]
async fn a_customer_replaces_the_card_and_ends_the_subscription_in_the_portal() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let portal = format!("customers/{customer}/portal");
    let path = format!("subscriptions/{}", id(&subscription));

    let saved = shop.control(&portal, &json!({"card": "5555 5555 5555 4444"})).await;
    let ends = shop.control(&portal, &json!({"cancel": id(&subscription)})).await;
    assert_eq!(shop.read(&path).await["cancel_at_period_end"], true);
    shop.control(&portal, &json!({"resume": id(&subscription)})).await;

    assert_eq!(saved, ends);
    let method = saved["default_payment_method"].as_str().unwrap();
    let method = shop.read(&format!("payment_methods/{method}")).await;
    assert_eq!(
        (&method["card"]["brand"], &method["customer"]),
        (&json!("mastercard"), &json!(customer))
    );
    assert_eq!(shop.read(&path).await["cancel_at_period_end"], false);
    for body in [json!({}), json!({"cancel": "sub_none"}), json!({"card": "4000 0000 0000 0002"})] {
        let status = shop.controlled(&portal, &body).await.status;
        assert!((400..=404).contains(&status), "{body}: {status}");
    }
    shop.close().await;
}

/// With `none`, the new price applies from the next period, and no money moves before.
#[tokio::test]
async fn a_price_without_prorations_starts_with_the_next_period() {
    let shop = Shop::open();
    let (studio, agency) =
        (price(&shop, "Studio", 4900).await, price(&shop, "Agency", 19_900).await);
    let (_, subscription) = subscribed(&shop, &agency).await;
    let (path, item) =
        (format!("subscriptions/{}", id(&subscription)), id(&subscription["items"]["data"][0]));
    let down = format!(
        "items[0][id]={item}&items[0][price]={studio}&items[0][quantity]=1&proration_behavior=none"
    );
    let preview = format!(
        "subscription={}&subscription_details[items][0][id]={item}&subscription_details[items][0][price]={studio}\
         &subscription_details[proration_behavior]=none",
        id(&subscription)
    );
    let previewed = shop.done("invoices/create_preview", &preview).await;

    let changed = shop.done(&path, &down).await;

    assert_eq!(
        (&previewed["total"], &previewed["billing_reason"]),
        (&json!(4900), &json!("upcoming"))
    );
    assert_eq!(changed["items"]["data"][0]["price"]["id"], studio);
    assert_eq!(changed["latest_invoice"], subscription["latest_invoice"]["id"]);
    assert_eq!(shop.read("invoiceitems").await["data"], json!([]));
    shop.control("clock", &json!({"advance_months": 1})).await;
    let renewed = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
    assert_eq!(renewed["latest_invoice"]["total"], 4900);
    shop.close().await;
}
