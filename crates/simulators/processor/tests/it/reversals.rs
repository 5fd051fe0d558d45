//! Refunds and disputes from state to state, with their events in order, and warnings of fraud.

use serde_json::{Value, json};

use crate::checks::{
    DAY_S, NOW_S, assert_fields, assert_refused, count, ids, latest_event, mark, missing, pass,
    since,
};
use crate::kit::{Shop, id};

/// A payment of ten dollars; returns the intent, whose charge is `latest_charge`.
async fn paid(shop: &Shop, card: &str) -> Value {
    let form = format!(
        "amount=1000&currency=usd&confirm=true&payment_method={card}&payment_method_types[]=card"
    );
    shop.done("payment_intents", &form).await
}

fn charge(intent: &Value) -> &str {
    intent["latest_charge"].as_str().unwrap()
}

#[tokio::test]
async fn a_refund_is_refused_with_its_parameter_and_code() {
    let shop = Shop::open();
    let intent = paid(&shop, "pm_card_visa").await;
    let of = format!("payment_intent={}", id(&intent));
    let both = format!("{of}&charge={}", charge(&intent));
    let unpaid = id(&shop.done("payment_intents", "amount=500&currency=usd").await);
    assert_refused(
        &shop,
        "refunds",
        &[
            ("", "", ""),
            (&both, "", ""),
            ("charge=ch_none", "resource_missing", "charge"),
            ("payment_intent=pi_none", "resource_missing", "payment_intent"),
            (&format!("payment_intent={unpaid}"), "", ""),
            (&format!("{of}&amount=0"), "parameter_invalid_integer", "amount"),
            (&format!("{of}&amount=-1"), "parameter_invalid_integer", "amount"),
            (&format!("{of}&amount=1001"), "", "amount"),
            (&format!("{of}&amount=half"), "parameter_invalid_integer", "amount"),
            (&format!("{of}&reason=regret"), "", "reason"),
            (&format!("{of}&currency=usd"), "parameter_unknown", "currency"),
        ],
    )
    .await;
    assert_eq!(count(&shop, "refunds").await, 0);
    let declined = shop.post(
        "payment_intents",
        "amount=500&currency=usd&confirm=true&payment_method=pm_card_chargeDeclined\
         &payment_method_types[]=card",
    );
    let failed = declined.await.json()["error"]["charge"].as_str().unwrap().to_owned();
    shop.refused("refunds", &format!("charge={failed}"), 400).await;
    missing(&shop, "refunds/re_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn a_refund_has_its_events_in_order_and_can_be_annotated() {
    let shop = Shop::open();
    let intent = paid(&shop, "pm_card_visa").await;
    let before = mark(&shop).await;

    let form = format!("charge={}&amount=400&reason=duplicate&metadata[a]=b", charge(&intent));
    let refund = shop.done("refunds", &form).await;
    let followed = since(&shop, before).await;
    let path = format!("refunds/{}", id(&refund));
    let noted = shop.done(&path, "metadata[c]=d").await;

    assert_fields(
        &refund,
        &json!({
            "object": "refund", "amount": 400, "currency": "usd", "status": "succeeded",
            "reason": "duplicate", "charge": intent["latest_charge"], "metadata": {"a": "b"},
            "payment_intent": intent["id"], "created": NOW_S,
        }),
    );
    assert_eq!(followed, ["charge.refunded", "refund.created", "charge.refund.updated"]);
    assert_eq!(noted["metadata"], json!({"a": "b", "c": "d"}));
    assert_eq!(
        since(&shop, before).await.split_off(3),
        ["refund.updated", "charge.refund.updated"]
    );
    let refunded = latest_event(&shop, "charge.refunded").await;
    assert_fields(
        &refunded,
        &json!({"data.object.amount_refunded": 400, "data.object.refunded": false}),
    );
    let other = paid(&shop, "pm_card_visa").await;
    shop.done("refunds", &format!("charge={}", charge(&other))).await;
    for query in [format!("charge={}", charge(&intent)), format!("payment_intent={}", id(&intent))]
    {
        assert_eq!(ids(&shop, &format!("refunds?{query}")).await, [id(&refund)]);
    }
    shop.close().await;
}

#[tokio::test]
async fn a_slow_refund_is_decided_after_a_minute() {
    let shop = Shop::open();
    for (card, first, last, left, kinds) in [
        (
            "pm_card_pendingRefund",
            "pending",
            "succeeded",
            1000,
            vec!["refund.updated", "charge.refund.updated"],
        ),
        (
            "pm_card_refundFail",
            "succeeded",
            "failed",
            0,
            vec!["refund.failed", "refund.updated", "charge.refund.updated"],
        ),
    ] {
        let intent = paid(&shop, card).await;
        let refund = shop.done("refunds", &format!("payment_intent={}", id(&intent))).await;
        let path = format!("refunds/{}", id(&refund));
        let before = mark(&shop).await;
        pass(&shop, 59);
        let early = shop.read(&path).await;
        pass(&shop, 1);
        let late = shop.read(&path).await;

        assert_eq!((&early["status"], &late["status"]), (&json!(first), &json!(last)), "{card}");
        assert_eq!(since(&shop, before).await, kinds, "{card}");
        let event = latest_event(&shop, "refund.updated").await;
        assert_eq!(event["data"]["previous_attributes"]["status"], first, "{card}");
        let of = shop.read(&format!("charges/{}", charge(&intent))).await;
        assert_fields(&of, &json!({"amount_refunded": left, "refunded": left == 1000}));
        pass(&shop, DAY_S);
        assert_eq!(shop.read(&path).await["status"], last, "it is decided once");
    }
    shop.close().await;
}

#[tokio::test]
async fn money_of_a_failed_refund_can_be_refunded_again() {
    let shop = Shop::open();
    let intent = paid(&shop, "pm_card_visa").await;
    let of = format!("payment_intent={}", id(&intent));
    let first = shop.done("refunds", &of).await;
    assert_eq!(shop.refused("refunds", &of, 400).await["code"], "charge_already_refunded");

    let settle = format!("refunds/{}/settle", id(&first));
    let failed = shop.control(&settle, &json!({"succeeded": false})).await;
    let second = shop.done("refunds", &of).await;

    assert_fields(&failed, &json!({"status": "failed", "failure_reason": "declined"}));
    assert_fields(&second, &json!({"status": "succeeded", "amount": 1000}));
    for body in [json!({"succeeded": true}), json!({"succeeded": false})] {
        assert_eq!(shop.controlled(&settle, &body).await.status, 400, "{body}");
    }
    let unsaid = shop.controlled(&settle, &json!({})).await;
    assert_eq!(unsaid.json()["field"], "succeeded");
    shop.close().await;
}

#[tokio::test]
async fn a_dispute_takes_the_money_and_evidence_puts_it_under_review() {
    let shop = Shop::open();
    let intent = paid(&shop, "pm_card_visa").await;
    let before = mark(&shop).await;
    let body = json!({"charge": charge(&intent), "reason": "product_not_received"});

    let dispute = shop.control("disputes", &body).await;
    let opened = since(&shop, before).await;
    let path = format!("disputes/{}", id(&dispute));
    let saved = shop.done(&path, "evidence[customer_name]=Ada&submit=false&metadata[a]=b").await;
    let sent = shop.done(&path, "evidence[uncategorized_text]=Was used").await;

    assert_fields(
        &dispute,
        &json!({
            "object": "dispute", "amount": 1000, "reason": "product_not_received",
            "status": "needs_response", "is_charge_refundable": false, "charge": charge(&intent),
            "payment_intent": intent["id"], "evidence_details.due_by": NOW_S + 9 * DAY_S,
            "payment_method_details.card.case_type": "chargeback",
        }),
    );
    assert_eq!(opened, ["charge.dispute.created", "charge.dispute.funds_withdrawn"]);
    assert_eq!(shop.read(&format!("charges/{}", charge(&intent))).await["disputed"], true);
    assert_fields(
        &saved,
        &json!({
            "status": "needs_response", "evidence.customer_name": "Ada", "metadata": {"a": "b"},
            "evidence_details.has_evidence": true, "evidence_details.submission_count": 0,
        }),
    );
    let wanted = json!({"status": "under_review", "evidence_details.submission_count": 1});
    assert_fields(&sent, &wanted);
    assert_eq!(
        since(&shop, before).await.split_off(2),
        ["charge.dispute.updated", "charge.dispute.updated"]
    );
    let late = shop.refused(&path, "evidence[customer_name]=Bob", 400).await;
    assert!(late["message"].as_str().unwrap().contains("no longer takes evidence"), "{late}");
    assert_eq!(shop.done(&path, "metadata[c]=d").await["metadata"]["c"], "d");
    shop.close().await;
}

#[tokio::test]
async fn the_end_of_a_dispute_decides_about_money_and_later_refunds() {
    let shop = Shop::open();
    for (by_merchant, won, status, kinds) in [
        (false, true, "won", vec!["charge.dispute.funds_reinstated", "charge.dispute.closed"]),
        (false, false, "lost", vec!["charge.dispute.closed"]),
        (true, false, "lost", vec!["charge.dispute.closed"]),
    ] {
        let intent = paid(&shop, "pm_card_createDispute").await;
        let listed = format!("disputes?charge={}", charge(&intent));
        let dispute = ids(&shop, &listed).await[0].clone();
        let before = mark(&shop).await;

        let path = format!("disputes/{dispute}/close");
        let closed = if by_merchant {
            shop.done(&path, "").await
        } else {
            shop.control(&path, &json!({"won": won})).await
        };

        assert_eq!((&closed["id"], &closed["status"]), (&json!(dispute), &json!(status)));
        assert_eq!(since(&shop, before).await, kinds);
        let of = shop.read(&format!("charges/{}", charge(&intent))).await;
        assert_eq!(of["disputed"], !won);
        let refund = shop.post("refunds", &format!("charge={}", charge(&intent))).await;
        assert_eq!(refund.status, if won { 200 } else { 400 }, "{}", refund.text);
        shop.refused(&path, "", 400).await;
        assert_eq!(shop.controlled(&path, &json!({"won": true})).await.status, 400);
    }
    missing(&shop, "disputes/dp_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn an_inquiry_can_be_answered_refunded_or_ended_without_a_loss() {
    let shop = Shop::open();
    let intent = paid(&shop, "pm_card_createDisputeInquiry").await;
    let inquiry = ids(&shop, &format!("disputes?charge={}", charge(&intent))).await[0].clone();
    let path = format!("disputes/{inquiry}");

    let opened = shop.read(&path).await;
    let answered = shop.done(&path, "evidence[customer_name]=Ada").await;
    let before = mark(&shop).await;
    let closed = shop.done(&format!("{path}/close"), "").await;

    assert_fields(
        &opened,
        &json!({
            "status": "warning_needs_response", "is_charge_refundable": true,
            "payment_method_details.card.case_type": "inquiry",
        }),
    );
    assert_eq!(answered["status"], "warning_under_review");
    assert_eq!(closed["status"], "warning_closed");
    assert_eq!(since(&shop, before).await, ["charge.dispute.closed"]);
    assert_eq!(shop.read(&format!("charges/{}", charge(&intent))).await["disputed"], false);
    shop.done("refunds", &format!("charge={}", charge(&intent))).await;
    shop.close().await;
}

#[tokio::test]
async fn a_dispute_needs_a_successful_charge() {
    let shop = Shop::open();
    for body in [
        json!({}),
        json!({"charge": "ch_none"}),
        json!({"payment_intent": "pi_none"}),
        json!({"invoice": "in_none"}),
    ] {
        for path in ["disputes", "refunds"] {
            let reply = shop.controlled(path, &body).await;
            assert_eq!((reply.status, &reply.json()["field"]), (400, &json!("charge")), "{body}");
        }
    }
    assert_eq!(shop.events().await, [""; 0]);
    shop.close().await;
}

#[tokio::test]
async fn warnings_are_listed_by_payment() {
    let shop = Shop::open();
    let warned = paid(&shop, "pm_card_createIssuerFraudRecord").await;
    let good = paid(&shop, "pm_card_visa").await;
    let list = "radar/early_fraud_warnings";

    let all = ids(&shop, list).await;

    assert_eq!(all.len(), 1);
    assert_eq!(ids(&shop, &format!("{list}?charge={}", charge(&warned))).await, all);
    assert_eq!(count(&shop, &format!("{list}?charge={}", charge(&good))).await, 0);
    missing(&shop, &format!("{list}/issfr_none"), 404).await;
    let warning = latest_event(&shop, "radar.early_fraud_warning.created").await;
    assert_fields(
        &warning,
        &json!({
            "data.object.id": all[0], "data.object.charge": charge(&warned),
            "data.object.fraud_type": "unauthorized_use_of_card",
        }),
    );
    shop.close().await;
}
