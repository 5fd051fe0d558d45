//! Money that goes back: refunds by the merchant, disputes by a bank.

use serde_json::json;

use crate::kit::{Shop, id};

async fn paid(shop: &Shop, card: &str) -> serde_json::Value {
    let (customer, method) = shop.customer(card).await;
    let form = format!(
        "amount=1000&currency=usd&confirm=true&customer={customer}&payment_method={method}&payment_method_types[]=card"
    );
    shop.done("payment_intents", &form).await
}

#[tokio::test]
async fn a_payment_can_be_refunded_in_parts_but_not_twice() {
    let shop = Shop::open();
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
    let shop = Shop::open();
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

/// A paid month of a plan; returns (subscription's invoice, its intent).
async fn month(shop: &Shop) -> (String, String) {
    let plan = crate::subscriptions::price(shop, "Studio", 4900).await;
    let (_, subscription) = crate::subscriptions::subscribed(shop, &plan).await;
    let invoice = id(&subscription["latest_invoice"]);
    let paid = shop.read(&format!("invoices/{invoice}?expand[]=payments")).await;
    let intent = &paid["payments"]["data"][0]["payment"]["payment_intent"];
    (invoice, intent.as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_invoice_can_be_refunded_by_its_id() {
    let shop = Shop::open();
    let (invoice, intent) = month(&shop).await;

    let part = shop.control("refunds", &json!({"invoice": invoice, "amount": 900})).await;
    let more = json!({"payment_intent": intent, "amount": 4001});
    let more = shop.controlled("refunds", &more).await;
    let rest = shop.control("refunds", &json!({"payment_intent": intent})).await;

    assert_eq!((&part["amount"], &part["payment_intent"]), (&json!(900), &json!(intent)));
    assert_eq!((more.status, &more.json()["field"]), (400, &json!("amount")));
    assert_eq!(rest["amount"], 4000);
    let nothing = json!({"invoice": "in_none"});
    assert_eq!(shop.controlled("refunds", &nothing).await.status, 400);
    let (second, payment) = month(&shop).await;
    let dispute = shop.control("disputes", &json!({"invoice": second})).await;
    assert_eq!((&dispute["amount"], &dispute["payment_intent"]), (&json!(4900), &json!(payment)));
    // The invoice also identifies its dispute.
    let won = shop.control(&format!("disputes/{second}/close"), &json!({"won": true})).await;
    assert_eq!((&won["id"], &won["status"]), (&dispute["id"], &json!("won")));
    shop.done("refunds", &format!("payment_intent={payment}&amount=100")).await;
    shop.close().await;
}

#[tokio::test]
async fn a_refund_that_fails_later_returns_the_money_to_the_merchant() {
    let shop = Shop::open();
    let intent = id(&paid(&shop, "pm_card_visa").await);
    let refund = shop.done("refunds", &format!("payment_intent={intent}&amount=400")).await;

    let path = format!("refunds/{}/settle", id(&refund));
    let failed =
        shop.control(&path, &json!({"succeeded": false, "reason": "lost_or_stolen_card"})).await;

    assert_eq!(
        (&failed["status"], &failed["failure_reason"]),
        (&json!("failed"), &json!("lost_or_stolen_card"))
    );
    let charge = shop.read(&format!("charges/{}", refund["charge"].as_str().unwrap())).await;
    assert_eq!((&charge["amount_refunded"], &charge["refunded"]), (&json!(0), &json!(false)));
    let events = shop.events().await;
    for kind in ["refund.failed", "refund.updated"] {
        assert_eq!(events.iter().filter(|event| *event == kind).count(), 1, "{kind}");
    }
    let again = shop.controlled(&path, &json!({"succeeded": false})).await;
    assert_eq!(again.status, 400, "it has already failed");
    shop.done("refunds", &format!("payment_intent={intent}")).await;
    shop.close().await;
}

#[tokio::test]
async fn refunds_can_be_pending_at_first() {
    let shop = Shop::open();
    shop.control("rules", &json!({"refunds_pending": true})).await;
    for (succeeded, status, refunded) in [(true, "succeeded", 1000), (false, "failed", 0)] {
        let intent = id(&paid(&shop, "pm_card_visa").await);
        let refund = shop.done("refunds", &format!("payment_intent={intent}")).await;
        assert_eq!(
            (&refund["status"], &refund["pending_reason"]),
            (&json!("pending"), &json!("processing"))
        );

        // The payment identifies its refund.
        let settled = shop
            .control(&format!("refunds/{intent}/settle"), &json!({"succeeded": succeeded}))
            .await;

        assert_eq!((&settled["id"], &settled["status"]), (&refund["id"], &json!(status)));
        let charge = shop.read(&format!("charges/{}", refund["charge"].as_str().unwrap())).await;
        assert_eq!(charge["amount_refunded"], refunded);
        assert!(shop.events().await.contains(&"refund.updated".to_owned()));
    }
    shop.close().await;
}

#[tokio::test]
async fn an_inquiry_moves_no_money_until_the_bank_takes_it() {
    let shop = Shop::open();
    let intent = id(&paid(&shop, "pm_card_createDisputeInquiry").await);
    let path = format!("disputes?payment_intent={intent}");
    let inquiry = shop.read(&path).await["data"][0].clone();
    assert_eq!(inquiry["status"], "warning_needs_response");
    assert!(!shop.events().await.contains(&"charge.dispute.funds_withdrawn".to_owned()));

    let taken =
        shop.control(&format!("disputes/{}/close", id(&inquiry)), &json!({"won": false})).await;

    assert_eq!((&taken["id"], &taken["status"]), (&inquiry["id"], &json!("needs_response")));
    let events = shop.events().await;
    for kind in ["charge.dispute.updated", "charge.dispute.funds_withdrawn"] {
        assert!(events.contains(&kind.to_owned()), "{kind}");
    }
    let other = id(&paid(&shop, "pm_card_visa").await);
    let asked = shop.control("disputes", &json!({"payment_intent": other, "inquiry": true})).await;
    let closed =
        shop.control(&format!("disputes/{}/close", id(&asked)), &json!({"won": true})).await;
    assert_eq!(closed["status"], "warning_closed");
    shop.done("refunds", &format!("payment_intent={other}")).await;
    shop.close().await;
}

#[tokio::test]
async fn a_warning_of_fraud_moves_no_money() {
    let shop = Shop::open();
    let intent = id(&paid(&shop, "pm_card_createIssuerFraudRecord").await);

    let path = format!("radar/early_fraud_warnings?payment_intent={intent}");
    let warning = shop.read(&path).await["data"][0].clone();

    assert_eq!(
        (&warning["payment_intent"], &warning["actionable"]),
        (&json!(intent), &json!(true))
    );
    let same = shop.read(&format!("radar/early_fraud_warnings/{}", id(&warning))).await;
    assert_eq!(same, warning);
    assert!(shop.events().await.contains(&"radar.early_fraud_warning.created".to_owned()));
    shop.done("refunds", &format!("payment_intent={intent}")).await;

    assert_eq!(shop.read(&path).await["data"][0]["actionable"], false);
    assert!(shop.events().await.contains(&"radar.early_fraud_warning.updated".to_owned()));
    shop.close().await;
}

#[tokio::test]
async fn a_warning_can_be_asked_for_and_a_dispute_ends_it() {
    let shop = Shop::open();
    let intent = id(&paid(&shop, "pm_card_visa").await);

    let warning = shop.control("warnings", &json!({"payment_intent": intent})).await;
    shop.control("disputes", &json!({"payment_intent": intent})).await;

    assert_eq!(warning["actionable"], true);
    let now = shop.read(&format!("radar/early_fraud_warnings/{}", id(&warning))).await;
    assert_eq!(now["actionable"], false);
    shop.close().await;
}

#[tokio::test]
async fn refunds_of_some_cards_are_pending_first_or_fail_later() {
    let shop = Shop::open();
    for (card, first, later) in [
        ("pm_card_pendingRefund", "pending", "succeeded"),
        ("pm_card_refundFail", "succeeded", "failed"),
    ] {
        let intent = id(&paid(&shop, card).await);
        let refund = shop.done("refunds", &format!("payment_intent={intent}")).await;
        assert_eq!(refund["status"], first, "{card}");

        shop.control("clock", &json!({"advance_s": 60})).await;

        let settled = shop.read(&format!("refunds/{}", id(&refund))).await;
        assert_eq!(settled["status"], later, "{card}");
    }
    shop.close().await;
}
