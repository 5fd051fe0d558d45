//! Subscriptions: their price, the price of changes, and that an unpaid change has no effect.

use serde_json::{Value, json};

use crate::kit::{Shop, id};

const DAY_MS: i64 = 86_400_000;

/// Creates a monthly price; returns its id.
pub(super) async fn price(shop: &Shop, name: &str, cents: i64) -> String {
    let form = format!(
        "currency=usd&unit_amount={cents}&recurring[interval]=month&product_data[name]={name}"
    );
    id(&shop.done("prices", &form).await)
}

/// A paid subscription of the plan; returns (customer, subscription).
pub(super) async fn subscribed(shop: &Shop, plan: &str) -> (String, Value) {
    let (customer, _) = shop.customer("pm_card_visa").await;
    let form = format!(
        "customer={customer}&items[0][price]={plan}&metadata[customer_id]=c1&expand[]=latest_invoice"
    );
    (customer, shop.done("subscriptions", &form).await)
}

fn item<'a>(subscription: &'a Value, price: &str) -> &'a Value {
    let items = subscription["items"]["data"].as_array().unwrap();
    items.iter().find(|item| item["price"]["id"] == price).unwrap()
}

const PAY_NOW: &str = "&proration_behavior=always_invoice&payment_behavior=error_if_incomplete&off_session=true&expand[]=latest_invoice";

#[tokio::test]
async fn a_subscription_is_paid_at_its_start() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;

    let (_, subscription) = subscribed(&shop, &plan).await;

    let invoice = &subscription["latest_invoice"];
    assert_eq!(
        (&subscription["status"], &invoice["status"], &invoice["total"]),
        (&json!("active"), &json!("paid"), &json!(4900))
    );
    assert_eq!(invoice["billing_reason"], "subscription_create");
    assert_eq!(invoice["parent"]["subscription_details"]["subscription"], subscription["id"]);
    assert_eq!(invoice["parent"]["subscription_details"]["metadata"]["customer_id"], "c1");
    assert!(subscription.get("current_period_end").is_none(), "periods belong to the items");
    let first = item(&subscription, &plan);
    let days = (first["current_period_end"].as_i64().unwrap()
        - first["current_period_start"].as_i64().unwrap())
        / 86_400;
    assert!((28..=31).contains(&days), "{days}");
    let events = shop.events().await;
    let place = |kind: &str| {
        events
            .iter()
            .position(|event| event == kind)
            .unwrap_or_else(|| panic!("no {kind}: {events:?}"))
    };
    assert!(place("customer.subscription.created") < place("invoice.paid"));
    assert!(place("invoice.paid") < place("customer.subscription.updated"));
    shop.close().await;
}

#[tokio::test]
async fn more_slots_are_charged_immediately_for_the_rest_of_the_period() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (_, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    let (start, end) = (
        item(&subscription, &plan)["current_period_start"].as_i64().unwrap(),
        item(&subscription, &plan)["current_period_end"].as_i64().unwrap(),
    );
    shop.clock.advance_ms((end - start) / 2 * 1_000);

    let preview = shop.done("invoices/create_preview", &format!("subscription={}&subscription_details[items][0][price]={slot}&subscription_details[items][0][quantity]=2&subscription_details[proration_behavior]=always_invoice", id(&subscription))).await;
    let raised =
        shop.done(&path, &format!("items[0][price]={slot}&items[0][quantity]=2{PAY_NOW}")).await;

    let invoice = &raised["latest_invoice"];
    assert_eq!(
        (&invoice["total"], &invoice["status"], &invoice["billing_reason"]),
        (&json!(3000), &json!("paid"), &json!("subscription_update"))
    );
    assert_eq!(preview["total"], invoice["total"]);
    assert_eq!(raised["items"]["data"].as_array().unwrap().len(), 2);
    assert!(
        raised["items"]["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|item| item["current_period_end"] == end)
    );
    let slot_item = id(item(&raised, &slot));
    assert_eq!(item(&raised, &plan)["quantity"], 1, "unnamed items are unchanged");
    // Lowered: nothing is charged, and the credit is pending.
    let lowered = shop.done(&path, &format!("items[0][id]={slot_item}&items[0][quantity]=1&proration_behavior=create_prorations&expand[]=latest_invoice")).await;
    assert_eq!(lowered["latest_invoice"]["id"], invoice["id"]);
    let waiting = shop.read("invoiceitems?pending=true").await;
    let amounts: Vec<i64> = waiting["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["amount"].as_i64().unwrap())
        .collect();
    assert_eq!(amounts, [1500, -3000], "the rest of two is credited, the rest of one is charged");
    let upcoming =
        shop.done("invoices/create_preview", &format!("subscription={}", id(&subscription))).await;
    assert_eq!(upcoming["total"], 4900 + 3000 - 1500);
    // The same quantity again costs nothing and creates no invoice.
    let same =
        shop.done(&path, &format!("items[0][id]={slot_item}&items[0][quantity]=1{PAY_NOW}")).await;
    assert_eq!(same["latest_invoice"]["id"], invoice["id"]);
    assert_eq!(shop.read("invoices").await["data"].as_array().unwrap().len(), 2);
    shop.close().await;
}

#[tokio::test]
async fn a_switch_between_items_is_netted_on_the_next_invoice() {
    let shop = Shop::open();
    let (plan, alpha, beta) = (
        price(&shop, "Studio", 4900).await,
        price(&shop, "A", 1000).await,
        price(&shop, "B", 1600).await,
    );
    let (_, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    let with = shop.done(&path, &format!("items[0][price]={alpha}&items[0][quantity]=2&items[1][price]={beta}&items[1][quantity]=1{PAY_NOW}")).await;
    let (from, to) = (id(item(&with, &alpha)), id(item(&with, &beta)));
    let charges = shop.read("charges").await["data"].as_array().unwrap().len();

    let form = format!(
        "items[0][id]={from}&items[0][quantity]=1&items[1][id]={to}&items[1][quantity]=2&proration_behavior=create_prorations"
    );
    let switched = shop.done(&path, &form).await;

    assert_eq!(
        (&item(&switched, &alpha)["quantity"], &item(&switched, &beta)["quantity"]),
        (&json!(1), &json!(2))
    );
    let waiting = shop.read("invoiceitems?pending=true").await;
    let sum: i64 = waiting["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["amount"].as_i64().unwrap())
        .sum();
    assert_eq!(sum, 600);
    assert_eq!(
        shop.read("charges").await["data"].as_array().unwrap().len(),
        charges,
        "nothing is charged now"
    );
    shop.close().await;
}

/// A change whose payment fails has no effect.
#[tokio::test]
async fn an_unpaid_change_has_no_effect() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    for (card, code) in [
        ("pm_card_chargeCustomerFail", "card_declined"),
        ("pm_card_authenticationRequired", "subscription_payment_intent_requires_action"),
    ] {
        let method = id(&shop
            .done(&format!("payment_methods/{card}/attach"), &format!("customer={customer}"))
            .await);
        shop.done(&path, &format!("default_payment_method={method}")).await;
        let before =
            (shop.read(&path).await, shop.events().await, shop.read("payment_intents").await);
        let key = format!("Idempotency-Key: slot:{card}\r\n");
        let form = format!("items[0][price]={slot}&items[0][quantity]=1{PAY_NOW}");

        let refused = shop.post_with(&path, &form, &key).await;

        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (402, &json!(code)),
            "{}",
            refused.text
        );
        assert_eq!(
            (shop.read(&path).await, shop.events().await, shop.read("payment_intents").await),
            before
        );
        assert_eq!(shop.post_with(&path, &form, &key).await.text, refused.text);
    }
    // By default the change applies, and the subscription owes the amount.
    let owed = shop
        .done(
            &path,
            &format!("items[0][price]={slot}&proration_behavior=always_invoice&off_session=true"),
        )
        .await;
    assert_eq!(owed["status"], "past_due");
    shop.close().await;
}

#[tokio::test]
async fn refusals_of_the_real_processor_are_simulated() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let yearly = id(&shop
        .done(
            "prices",
            "currency=usd&unit_amount=100&recurring[interval]=year&product_data[name]=Y",
        )
        .await);
    let once =
        id(&shop.done("prices", "currency=usd&unit_amount=100&product_data[name]=Once").await);
    let (_, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    for form in [
        format!("items[0][price]={plan}"),
        format!("items[0][price]={yearly}"),
        format!("items[0][price]={once}"),
        format!("items[0][price]={slot}&items[0][quantity]=-1"),
        "items[0][quantity]=3".to_owned(),
        "proration_behavior=sometimes".to_owned(),
        "proration_date=1".to_owned(),
        "billing_cycle_anchor=now".to_owned(),
        "payment_behavior=pending_if_incomplete&metadata[a]=b".to_owned(),
        "default_payment_method=pm_none".to_owned(),
        format!(
            "items[0][price_data][currency]=usd&items[0][price_data][product_data][name]=x&items[0][price]={slot}"
        ),
    ] {
        shop.refused(&path, &form, 400).await;
    }
    shop.refused(&path, "items[0][id]=si_none&items[0][quantity]=1", 404).await;
    let after = shop.read(&path).await;
    assert_eq!(after["items"], subscription["items"]);
    assert_eq!(shop.delete(&path).await.json()["status"], "canceled");
    assert_eq!(shop.delete(&path).await.status, 404);
    shop.refused(&path, &format!("items[0][price]={slot}"), 400).await;
    assert_eq!(shop.events().await.last().unwrap(), "customer.subscription.deleted");
    assert_eq!(shop.read("subscriptions").await["data"], json!([]));
    assert_eq!(shop.read("subscriptions?status=all").await["data"].as_array().unwrap().len(), 1);
    shop.close().await;
}

/// An amount below the minimum charge is carried on the customer's balance, and the change counts
/// as paid.
#[tokio::test]
async fn an_amount_below_the_minimum_is_paid_without_a_charge() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 300).await);
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let end = item(&subscription, &plan)["current_period_end"].as_i64().unwrap();
    shop.clock.advance_ms((end - crate::kit::NOW_MS / 1_000) * 1_000 - DAY_MS);

    let form = format!("items[0][price]={slot}{PAY_NOW}");
    let raised = shop.done(&format!("subscriptions/{}", id(&subscription)), &form).await;

    let invoice = &raised["latest_invoice"];
    assert_eq!((&invoice["status"], &invoice["amount_paid"]), (&json!("paid"), &json!(0)));
    let total = invoice["total"].as_i64().unwrap();
    assert!((1..50).contains(&total), "{invoice}");
    assert_eq!(shop.read(&format!("customers/{customer}")).await["balance"], total);
    assert_eq!(shop.read("charges").await["data"].as_array().unwrap().len(), 1);
    // The next invoice includes it.
    shop.clock.advance_ms(2 * DAY_MS);
    let renewed =
        shop.read(&format!("subscriptions/{}?expand[]=latest_invoice", id(&subscription))).await;
    assert_eq!(renewed["latest_invoice"]["amount_paid"], 4900 + 300 + total);
    assert_eq!(shop.read(&format!("customers/{customer}")).await["balance"], 0);
    shop.close().await;
}

#[tokio::test]
async fn an_older_version_has_the_older_fields() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (_, subscription) = subscribed(&shop, &plan).await;
    let old = format!("{}Stripe-Version: 2025-02-24.acacia\r\n", shop.key());
    let path = format!("GET /v1/subscriptions/{}?expand[]=latest_invoice", id(&subscription));

    let shown = shop.raw(&path, &old, "").await;

    assert_eq!(shown.header("stripe-version"), Some("2025-02-24.acacia"));
    let shown = shown.json();
    assert_eq!(shown["current_period_end"], item(&subscription, &plan)["current_period_end"]);
    let invoice = &shown["latest_invoice"];
    assert_eq!((&invoice["subscription"], &invoice["paid"]), (&subscription["id"], &json!(true)));
    let intent = shop
        .raw(
            &format!("GET /v1/payment_intents/{}", invoice["payment_intent"].as_str().unwrap()),
            &old,
            "",
        )
        .await;
    assert_eq!(intent.json()["invoice"], invoice["id"]);
    shop.close().await;
}
