//! Money that goes back: refunds by the merchant, disputes by a bank.

use serde_json::json;

use super::kit::{Shop, id};

async fn paid(shop: &Shop, card: &str) -> serde_json::Value {
    let (customer, method) = shop.customer(card).await;
    let form = format!(
        "amount=1000&currency=usd&confirm=true&customer={customer}&payment_method={method}&payment_method_types[]=card"
    );
    shop.done("payment_intents", &form).await
}

#[tokio::test]
async fn a_payment_is_refunded_in_parts_and_never_twice() {
    let shop = Shop::open().await;
    let intent = id(&paid(&shop, "pm_card_visa").await);

    let part = shop
        .done("refunds", &format!("payment_intent={intent}&amount=400&metadata[order_id]=o"))
        .await;
    let more = shop.refused("refunds", &format!("payment_intent={intent}&amount=700"), 400).await;
    let rest = shop
        .done("refunds", &format!("payment_intent={intent}&reason=requested_by_customer"))
        .await;
    let again = shop.refused("refunds", &format!("payment_intent={intent}"), 400).await;

    assert_eq!((&part["amount"], &rest["amount"]), (&json!(400), &json!(600)));
    assert_eq!(
        (&more["param"], &again["code"]),
        (&json!("amount"), &json!("charge_already_refunded"))
    );
    let charge =
        shop.read(&format!("charges/{}?expand[]=refunds", part["charge"].as_str().unwrap())).await;
    assert_eq!(
        (&charge["refunded"], &charge["amount_refunded"], &charge["refunds"]["total_count"]),
        (&json!(true), &json!(1000), &json!(2))
    );
    let events = shop.events().await;
    for kind in ["charge.refunded", "refund.created"] {
        assert_eq!(events.iter().filter(|event| *event == kind).count(), 2, "{kind}");
    }
    shop.close().await;
}

#[tokio::test]
async fn a_dispute_is_won_or_lost_and_stops_refunds() {
    let shop = Shop::open().await;
    for won in [true, false] {
        let intent = paid(&shop, "pm_card_visa").await;
        let dispute = shop.control("disputes", &json!({"payment_intent": id(&intent)})).await;
        let refused =
            shop.refused("refunds", &format!("payment_intent={}", id(&intent)), 400).await;
        assert_eq!(refused["code"], "charge_disputed");

        shop.control(&format!("disputes/{}/close", id(&dispute)), &json!({"won": won})).await;

        let after = shop.read(&format!("disputes/{}", id(&dispute))).await;
        assert_eq!(after["status"], if won { "won" } else { "lost" });
        assert_eq!(shop.events().await.last().unwrap(), "charge.dispute.closed");
        shop.refused(&format!("disputes/{}/close", id(&dispute)), "", 400).await;
    }
    let by_card = paid(&shop, "pm_card_createDispute").await;
    let listed = shop.read(&format!("disputes?payment_intent={}", id(&by_card))).await;
    assert_eq!(listed["data"][0]["reason"], "fraudulent");
    shop.close().await;
}
