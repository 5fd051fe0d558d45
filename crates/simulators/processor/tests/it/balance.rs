//! A customer's balance, items pending for the next invoice, and what happens to both if an invoice
//! is voided or a subscription ends.

use serde_json::{Value, json};

use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

const PAY_NOW: &str =
    "&proration_behavior=always_invoice&payment_behavior=error_if_incomplete&off_session=true";

async fn balance(shop: &Shop, customer: &str) -> i64 {
    shop.read(&format!("customers/{customer}")).await["balance"].as_i64().unwrap()
}

async fn movements(shop: &Shop, customer: &str) -> Vec<(String, i64, i64)> {
    let path = format!("customers/{customer}/balance_transactions");
    let listed = shop.read(&path).await;
    let all = listed["data"].as_array().unwrap().iter();
    let number = |movement: &Value, field: &str| movement[field].as_i64().unwrap();
    all.map(|one| {
        let kind = one["type"].as_str().unwrap().to_owned();
        (kind, number(one, "amount"), number(one, "ending_balance"))
    })
    .collect()
}

async fn latest_invoice(shop: &Shop, subscription: &Value) -> Value {
    let path = format!("subscriptions/{}?expand[]=latest_invoice", id(subscription));
    shop.read(&path).await["latest_invoice"].clone()
}

#[tokio::test]
async fn a_balance_movement_is_made_once_and_can_be_read() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let path = format!("customers/{customer}/balance_transactions");
    let form = "amount=250&currency=usd&description=Twice&metadata[sale]=s1";
    let key = "Idempotency-Key: credit:1\r\n";

    let made = shop.post_with(&path, form, key).await.json();
    let again = shop.post_with(&path, form, key).await.json();
    shop.done(&path, "amount=-1000&currency=usd").await;

    assert_eq!((&made["amount"], &made["ending_balance"]), (&json!(250), &json!(250)));
    assert_eq!((&made["type"], &made["metadata"]["sale"]), (&json!("adjustment"), &json!("s1")));
    assert_eq!(made["id"], again["id"]);
    assert_eq!(balance(&shop, &customer).await, -750);
    let adjustment = |amount, ending| ("adjustment".to_owned(), amount, ending);
    assert_eq!(movements(&shop, &customer).await, [adjustment(-1000, -750), adjustment(250, 250)]);
    assert_eq!(shop.read(&format!("{path}/{}", id(&made))).await, made);
    let events = shop.events().await;
    assert_eq!(events.iter().filter(|kind| *kind == "customer.updated").count(), 3);
    shop.close().await;
}

#[tokio::test]
async fn a_movement_requires_an_amount_a_currency_and_a_customer() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let path = format!("customers/{customer}/balance_transactions");

    for (form, param) in [
        ("currency=usd", "amount"),
        ("amount=0&currency=usd", "amount"),
        ("amount=x&currency=usd", "amount"),
        ("amount=5", "currency"),
        ("amount=5&currency=xyz", "currency"),
        ("amount=5&currency=usd&kind=gift", "kind"),
    ] {
        assert_eq!(shop.refused(&path, form, 400).await["param"], param, "{form}");
    }
    shop.refused("customers/cus_none/balance_transactions", "amount=5&currency=usd", 404).await;
    assert_eq!(balance(&shop, &customer).await, 0);
    shop.close().await;
}

/// Credit pays first. If the invoice is voided, its part is credited again.
#[tokio::test]
async fn credit_pays_for_an_invoice_and_comes_back_when_it_is_voided() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("customers/{customer}/balance_transactions");
    shop.done(&path, "amount=-1900&currency=usd").await;
    let cards = format!("customers/{customer}/cards");
    shop.control(&cards, &json!({"works": false, "code": "insufficient_funds"})).await;
    shop.control("clock", &json!({"advance_months": 1})).await;

    let open = latest_invoice(&shop, &subscription).await;
    assert_eq!((&open["status"], &open["amount_due"]), (&json!("open"), &json!(3000)));
    assert_eq!((&open["starting_balance"], &open["ending_balance"]), (&json!(-1900), &json!(0)));
    let intents = shop.read("payment_intents").await;
    assert_eq!(intents["data"][0]["last_payment_error"]["decline_code"], "insufficient_funds");
    assert_eq!(balance(&shop, &customer).await, 0);
    let voided = shop.done(&format!("invoices/{}/void", id(&open)), "").await;

    assert_eq!((&voided["status"], &voided["amount_remaining"]), (&json!("void"), &json!(0)));
    let moved = movements(&shop, &customer).await;
    assert_eq!(moved[0], ("unapplied_from_invoice".to_owned(), -1900, -1900));
    assert_eq!(moved[1], ("applied_to_invoice".to_owned(), 1900, 0));
    let events = shop.events().await;
    assert!(events.contains(&"invoice.voided".to_owned()), "{events:?}");
    let abandoned = shop.read("payment_intents").await;
    assert_eq!(abandoned["data"][0]["status"], "canceled", "it can no longer be paid");
    shop.refused(&format!("invoices/{}/pay", id(&open)), "", 400).await;
    shop.refused(&format!("invoices/{}/void", id(&open)), "", 400).await;
    assert_eq!(balance(&shop, &customer).await, -1900, "it comes back once");
    shop.close().await;
}

#[tokio::test]
async fn pending_items_are_settled_when_a_subscription_ends_with_its_period() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    let form = format!("items[0][price]={slot}&items[0][quantity]=2{PAY_NOW}");
    let slots = id(&shop.done(&path, &form).await["items"]["data"][1]);
    shop.done(&path, &format!("items[0][id]={slots}&items[0][quantity]=0")).await;
    shop.done(&path, "cancel_at_period_end=true").await;

    shop.control("clock", &json!({"advance_months": 1})).await;

    let last = latest_invoice(&shop, &subscription).await;
    assert_eq!((&last["total"], &last["status"]), (&json!(-6000), &json!("paid")));
    assert_eq!((&last["amount_due"], &last["ending_balance"]), (&json!(0), &json!(-6000)));
    assert_eq!(shop.read(&path).await["status"], "canceled");
    assert_eq!(balance(&shop, &customer).await, -6000, "the customer keeps the credit");
    assert_eq!(shop.read("invoiceitems?pending=true").await["data"], json!([]));
    // It pays for a later subscription.
    let again = format!("customer={customer}&items[0][price]={plan}&expand[]=latest_invoice");
    let later = shop.done("subscriptions", &again).await;
    assert_eq!(
        (&later["status"], &later["latest_invoice"]["amount_due"]),
        (&json!("active"), &json!(0))
    );
    assert_eq!(balance(&shop, &customer).await, -1100);
    shop.close().await;
}

#[tokio::test]
async fn amounts_owed_at_the_end_are_charged_and_retried() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    shop.done(&path, &format!("items[0][price]={slot}&proration_behavior=create_prorations")).await;
    shop.done(&path, "cancel_at_period_end=true").await;
    let cards = format!("customers/{customer}/cards");
    shop.control(&cards, &json!({"works": false})).await;
    shop.control("clock", &json!({"advance_months": 1})).await;

    let last = latest_invoice(&shop, &subscription).await;
    assert_eq!((&last["amount_due"], &last["status"]), (&json!(3000), &json!("open")));
    assert_eq!(shop.read(&path).await["status"], "canceled", "it has ended all the same");
    shop.control(&cards, &json!({"works": true})).await;
    shop.control("clock", &json!({"advance_days": 3})).await;

    assert_eq!(latest_invoice(&shop, &subscription).await["status"], "paid");
    let after = shop.read(&path).await;
    assert_eq!((&after["status"], &after["ended_at"]), (&json!("canceled"), &last["created"]));
    shop.close().await;
}

#[tokio::test]
async fn a_credit_names_the_line_that_it_refunds() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (_, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    let first = latest_invoice(&shop, &subscription).await;
    let form = format!("items[0][price]={slot}&items[0][quantity]=2{PAY_NOW}");
    let slots = id(&shop.done(&path, &form).await["items"]["data"][1]);
    let second = latest_invoice(&shop, &subscription).await;
    shop.done(&path, &format!("items[0][id]={slots}&items[0][quantity]=1")).await;

    shop.control("clock", &json!({"advance_months": 1})).await;

    let renewal = latest_invoice(&shop, &subscription).await;
    assert_eq!(
        (&renewal["period_start"], &renewal["period_end"]),
        (&first["created"], &renewal["created"])
    );
    let lines = renewal["lines"]["data"].as_array().unwrap();
    let credit = lines.iter().find(|line| line["amount"] == -6000).unwrap();
    let parent = &credit["parent"];
    assert_eq!(parent["type"], "invoice_item_details");
    let details = &parent["invoice_item_details"];
    assert_eq!(details["proration"], true);
    let credited = &details["proration_details"]["credited_items"];
    assert_eq!(credited["invoice"], second["id"]);
    assert_eq!(credited["invoice_line_items"], json!([second["lines"]["data"][0]["id"]]));
    let full = lines.iter().find(|line| line["amount"] == 4900).unwrap();
    let of_full = &full["parent"]["subscription_item_details"];
    assert_eq!(
        (&of_full["proration"], &of_full["proration_details"]["credited_items"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(full["pricing"]["price_details"]["price"], plan);
    shop.close().await;
}

#[tokio::test]
async fn an_invoice_contains_its_first_lines_and_the_others_are_paged() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (_, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    for cents in 1..=11 {
        let extra = price(&shop, "Extra", cents * 100).await;
        shop.done(&path, &format!("items[0][price]={extra}&proration_behavior=none")).await;
    }
    shop.control("clock", &json!({"advance_months": 1})).await;

    let invoice = latest_invoice(&shop, &subscription).await;
    let lines = format!("invoices/{}/lines", id(&invoice));
    let carried = invoice["lines"]["data"].as_array().unwrap();
    let last = id(carried.last().unwrap());
    let rest = shop.read(&format!("{lines}?limit=100&starting_after={last}")).await;

    assert_eq!((carried.len(), &invoice["lines"]["has_more"]), (10, &json!(true)));
    assert_eq!(invoice["lines"]["total_count"], 12);
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["has_more"]), (2, &json!(false)));
    let sum = |list: &Value| -> i64 {
        let all = list.as_array().unwrap().iter();
        all.map(|line| line["amount"].as_i64().unwrap()).sum()
    };
    assert_eq!(sum(&invoice["lines"]["data"]) + sum(&rest["data"]), invoice["total"]);
    // Tests with fewer lines can request shorter pages.
    shop.control("rules", &json!({"lines_shown": 2})).await;
    let again = latest_invoice(&shop, &subscription).await;
    assert_eq!(again["lines"]["data"].as_array().unwrap().len(), 2);
    shop.close().await;
}
