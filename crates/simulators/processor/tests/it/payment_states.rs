//! Payment intents from state to state: what each step allows, and the events in their order.

use serde_json::{Value, json};

use crate::checks::{
    NOW_S, assert_fields, assert_refused, count, ids, mark, missing, or_null, pass, since,
};
use crate::kit::{Shop, id};

const CARD: &str = "amount=1000&currency=usd&payment_method_types[]=card";

/// Creates and confirms a payment with a test card.
async fn pay(shop: &Shop, card: &str, more: &str) -> crate::kit::Reply {
    let form = format!("{CARD}&confirm=true&payment_method={card}{more}");
    shop.post("payment_intents", &form).await
}

#[tokio::test]
async fn a_new_intent_has_the_defaults_of_the_processor() {
    let shop = Shop::open();

    let made = shop.done("payment_intents", "amount=700&currency=USD&description=Pack").await;
    let form = format!("{CARD}&payment_method=pm_card_visa");
    let with_card = shop.done("payment_intents", &form).await;

    assert_fields(
        &made,
        &json!({
            "object": "payment_intent", "amount": 700, "currency": "usd", "description": "Pack",
            "status": "requires_payment_method", "amount_received": 0, "amount_capturable": 0,
            "capture_method": "automatic_async", "confirmation_method": "automatic",
            "automatic_payment_methods": {"allow_redirects": "always", "enabled": true},
            "payment_method_types": ["card", "us_bank_account"], "latest_charge": null,
            "next_action": null, "created": NOW_S, "livemode": false,
        }),
    );
    assert_fields(
        &with_card,
        &json!({
            "status": "requires_confirmation", "automatic_payment_methods": null,
            "payment_method_types": ["card"],
        }),
    );
    assert_eq!(shop.events().await, ["payment_intent.created"; 2]);
    assert_eq!(count(&shop, "charges").await, 0);
    shop.close().await;
}

#[tokio::test]
async fn amounts_at_the_limits_are_accepted_and_beyond_them_refused() {
    let shop = Shop::open();
    for amount in [50, 99_999_999] {
        shop.done("payment_intents", &format!("amount={amount}&currency=usd")).await;
    }
    assert_refused(
        &shop,
        "payment_intents",
        &[
            ("amount=49&currency=usd", "amount_too_small", "amount"),
            ("amount=100000000&currency=usd", "amount_too_large", "amount"),
            ("amount=0&currency=usd", "parameter_invalid_integer", "amount"),
            ("amount=-500&currency=usd", "parameter_invalid_integer", "amount"),
            ("amount=5.00&currency=usd", "parameter_invalid_integer", "amount"),
            ("amount=&currency=usd", "parameter_invalid_empty", "amount"),
            ("currency=usd", "parameter_missing", "amount"),
            ("amount=500", "parameter_missing", "currency"),
            ("amount=500&currency=xyz", "", "currency"),
            ("amount=500&currency=usd&capture_method=later", "", "capture_method"),
            ("amount=500&currency=usd&setup_future_usage=never", "", "setup_future_usage"),
            ("amount=500&currency=usd&payment_method_types[]=cash", "", "payment_method_types"),
            ("amount=500&currency=usd&off_session=true", "", "off_session"),
            (
                "amount=500&currency=usd&error_on_requires_action=true",
                "",
                "error_on_requires_action",
            ),
            ("amount=500&currency=usd&customer=cus_none", "resource_missing", "customer"),
            (
                "amount=500&currency=usd&payment_method=pm_none",
                "resource_missing",
                "payment_method",
            ),
        ],
    )
    .await;
    assert_eq!(count(&shop, "payment_intents").await, 2);
    shop.close().await;
}

#[tokio::test]
async fn events_follow_a_payment_in_order() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let kept = format!("&customer={customer}&setup_future_usage=off_session");
    for (card, more, status, kinds) in [
        ("pm_card_visa", "", 200, vec!["charge.succeeded", "payment_intent.succeeded"]),
        (
            "pm_card_visa",
            kept.as_str(),
            200,
            vec!["payment_method.attached", "charge.succeeded", "payment_intent.succeeded"],
        ),
        ("pm_card_chargeDeclined", "", 402, vec!["charge.failed", "payment_intent.payment_failed"]),
        ("pm_card_authenticationRequired", "", 200, vec!["payment_intent.requires_action"]),
        (
            "pm_card_authenticationRequired",
            "&off_session=true",
            402,
            vec!["charge.failed", "payment_intent.payment_failed"],
        ),
        (
            "pm_card_visa",
            "&capture_method=manual",
            200,
            vec!["charge.succeeded", "payment_intent.amount_capturable_updated"],
        ),
        ("pm_usBankAccount_success", "", 200, vec!["charge.pending", "payment_intent.processing"]),
        (
            "pm_card_createDispute",
            "",
            200,
            vec![
                "charge.succeeded",
                "payment_intent.succeeded",
                "charge.dispute.created",
                "charge.dispute.funds_withdrawn",
            ],
        ),
    ] {
        let before = mark(&shop).await;
        let reply = pay(&shop, card, more).await;
        assert_eq!(reply.status, status, "{card} {more}: {}", reply.text);
        let followed = since(&shop, before).await;
        assert_eq!(followed[0], "payment_intent.created", "{card} {more}");
        assert_eq!(followed[1..], kinds, "{card} {more}");
    }
    shop.close().await;
}

#[tokio::test]
async fn a_decline_has_its_code_its_charge_and_the_open_intent() {
    let shop = Shop::open();
    for (card, code, decline) in [
        ("pm_card_visa_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
        ("pm_card_visa_chargeDeclinedLostCard", "card_declined", "lost_card"),
        ("pm_card_visa_chargeDeclinedStolenCard", "card_declined", "stolen_card"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", ""),
        ("pm_card_chargeDeclinedIncorrectCvc", "incorrect_cvc", ""),
        ("pm_card_chargeDeclinedProcessingError", "processing_error", ""),
        ("pm_card_chargeCustomerFail", "card_declined", "generic_decline"),
    ] {
        let reply = pay(&shop, card, "").await;

        assert_eq!(reply.status, 402, "{card}: {}", reply.text);
        let error = &reply.json()["error"];
        let intent = &error["payment_intent"];
        assert_fields(
            error,
            &json!({
                "type": "card_error", "code": code, "decline_code": or_null(decline),
                "payment_intent.status": "requires_payment_method",
                "payment_intent.payment_method": null,
                "payment_intent.last_payment_error.code": code,
                "payment_intent.last_payment_error.type": "card_error",
                "payment_intent.last_payment_error.charge": error["charge"],
                "payment_method.type": "card",
            }),
        );
        assert_eq!(intent["last_payment_error"]["message"], error["message"]);
        let request = reply.header("request-id").unwrap();
        assert!(error["request_log_url"].as_str().unwrap().ends_with(request), "{error}");
        let charge = error["charge"].as_str().unwrap();
        let charge = shop.read(&format!("charges/{charge}")).await;
        let reason = if decline.is_empty() { code } else { decline };
        assert_fields(
            &charge,
            &json!({
                "status": "failed", "paid": false, "captured": false, "failure_code": code,
                "outcome.reason": reason, "outcome.type": "issuer_declined",
                "payment_intent": intent["id"], "receipt_url": null,
            }),
        );
    }
    shop.close().await;
}

#[tokio::test]
async fn a_declined_intent_is_paid_with_another_card() {
    let shop = Shop::open();
    let declined = pay(&shop, "pm_card_chargeDeclined", "").await.json();
    let intent = id(&declined["error"]["payment_intent"]);
    let confirm = format!("payment_intents/{intent}/confirm");

    let missing_card = shop.refused(&confirm, "", 400).await;
    let paid = shop.done(&confirm, "payment_method=pm_card_visa&expand[]=latest_charge").await;
    let again = shop.refused(&confirm, "payment_method=pm_card_visa", 400).await;

    assert_eq!(missing_card["code"], "payment_intent_unexpected_state");
    assert_fields(
        &paid,
        &json!({
            "id": intent, "status": "succeeded", "amount_received": 1000,
            "last_payment_error": null, "latest_charge.outcome.type": "authorized",
            "latest_charge.amount_captured": 1000,
        }),
    );
    assert_fields(
        &again,
        &json!({
            "code": "payment_intent_unexpected_state", "payment_intent.id": intent,
            "payment_intent.status": "succeeded",
        }),
    );
    let charges = shop.read(&format!("charges?payment_intent={intent}")).await;
    let statuses: Vec<&Value> =
        charges["data"].as_array().unwrap().iter().map(|charge| &charge["status"]).collect();
    assert_eq!(statuses, ["succeeded", "failed"]);
    shop.close().await;
}

#[tokio::test]
async fn held_money_is_captured_once_at_most_in_full() {
    let shop = Shop::open();
    let held = pay(&shop, "pm_card_visa", "&capture_method=manual").await.json();
    let path = format!("payment_intents/{}", id(&held));
    assert_fields(
        &held,
        &json!({"status": "requires_capture", "amount_capturable": 1000, "amount_received": 0}),
    );
    assert_refused(
        &shop,
        &format!("{path}/capture"),
        &[
            ("amount_to_capture=0", "amount_too_large", "amount_to_capture"),
            ("amount_to_capture=1001", "amount_too_large", "amount_to_capture"),
            ("amount_to_capture=all", "parameter_invalid_integer", "amount_to_capture"),
        ],
    )
    .await;
    let before = mark(&shop).await;

    let captured = shop.done(&format!("{path}/capture"), "amount_to_capture=1000").await;

    assert_fields(
        &captured,
        &json!({"status": "succeeded", "amount_capturable": 0, "amount_received": 1000}),
    );
    assert_eq!(since(&shop, before).await, ["charge.captured", "payment_intent.succeeded"]);
    let other = pay(&shop, "pm_card_visa", "&capture_method=manual").await.json();
    let other = format!("payment_intents/{}", id(&other));
    assert_eq!(shop.done(&format!("{other}/cancel"), "").await["status"], "canceled");
    for open in [&path, &other] {
        let error = shop.refused(&format!("{open}/capture"), "", 400).await;
        assert_eq!(error["code"], "payment_intent_unexpected_state");
    }
    shop.close().await;
}

#[tokio::test]
async fn a_bank_payment_is_decided_after_a_minute_and_untouchable_until_then() {
    let shop = Shop::open();
    for (account, status, charged, last) in [
        ("success", "succeeded", "succeeded", "payment_intent.succeeded"),
        ("accountClosed", "requires_payment_method", "failed", "payment_intent.payment_failed"),
    ] {
        let card = format!("pm_usBankAccount_{account}");
        let intent = pay(&shop, &card, "").await.json();
        let path = format!("payment_intents/{}", id(&intent));
        assert_eq!(intent["status"], "processing");
        for step in ["cancel", "confirm", "capture"] {
            let error = shop.refused(&format!("{path}/{step}"), "", 400).await;
            assert_eq!(error["code"], "payment_intent_unexpected_state", "{step}");
        }

        pass(&shop, 59);
        let early = shop.read(&path).await;
        pass(&shop, 1);
        let decided = shop.read(&format!("{path}?expand[]=latest_charge")).await;

        assert_eq!(early["status"], "processing", "not a second too early");
        assert_fields(&decided, &json!({"status": status, "latest_charge.status": charged}));
        assert_eq!(shop.events().await.last().unwrap(), last);
    }
    shop.close().await;
}

#[tokio::test]
async fn a_bank_account_pays_an_invoice_when_its_payment_succeeds() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    shop.done("invoiceitems", &format!("customer={customer}&amount=900&currency=usd")).await;
    let draft = format!("customer={customer}&pending_invoice_items_behavior=include");
    let path = format!("invoices/{}", id(&shop.done("invoices", &draft).await));

    let pay = shop.done(&format!("{path}/pay"), "payment_method=pm_usBankAccount_success").await;
    let before = mark(&shop).await;
    pass(&shop, 60);
    let settled = shop.read(&path).await;

    assert_eq!(pay["status"], "open", "the money is still on its way");
    assert_fields(&settled, &json!({"status": "paid", "amount_paid": 900}));
    assert_eq!(
        since(&shop, before).await,
        [
            "charge.succeeded",
            "payment_intent.succeeded",
            "invoice_payment.paid",
            "invoice.paid",
            "invoice.payment_succeeded"
        ]
    );
    shop.close().await;
}

#[tokio::test]
async fn an_open_intent_can_be_changed_and_a_paid_one_only_in_its_notes() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let path = format!("payment_intents/{}", id(&shop.done("payment_intents", CARD).await));

    let form = format!(
        "amount=1200&customer={customer}&payment_method=pm_card_visa&description=More\
         &setup_future_usage=off_session&metadata[a]=b&receipt_email=ada@example.com"
    );
    let changed = shop.done(&path, &form).await;
    assert_fields(
        &changed,
        &json!({
            "amount": 1200, "customer": customer, "description": "More", "metadata.a": "b",
            "status": "requires_confirmation", "setup_future_usage": "off_session",
            "receipt_email": "ada@example.com",
        }),
    );
    assert_refused(
        &shop,
        &path,
        &[
            ("amount=49", "amount_too_small", "amount"),
            ("customer=cus_none", "resource_missing", "customer"),
            ("setup_future_usage=never", "", "setup_future_usage"),
            ("currency=eur", "parameter_unknown", "currency"),
        ],
    )
    .await;
    let paid = shop.done(&format!("{path}/confirm"), "").await;
    assert_eq!(paid["amount_received"], 1200);
    assert_eq!(count(&shop, &format!("customers/{customer}/payment_methods")).await, 1);
    for late in ["amount=1300", "payment_method=pm_card_visa", "setup_future_usage=on_session"] {
        let error = shop.refused(&path, late, 400).await;
        assert_eq!(error["code"], "payment_intent_unexpected_state", "{late}");
    }
    let noted = shop.done(&path, "metadata[a]=&description=").await;
    assert_fields(&noted, &json!({"metadata": {}, "description": null, "amount": 1200}));
    shop.close().await;
}

#[tokio::test]
async fn authentication_ends_in_a_payment_a_decline_or_another_try() {
    let shop = Shop::open();
    let always = "pm_card_authenticationRequired";
    let broke = "pm_card_authenticationRequiredChargeDeclinedInsufficientFunds";
    for (card, proven, status, answer, last) in [
        (always, true, "succeeded", 200, "payment_intent.succeeded"),
        (always, false, "requires_payment_method", 400, "payment_intent.payment_failed"),
        (broke, true, "requires_payment_method", 402, "payment_intent.payment_failed"),
    ] {
        let asked = pay(&shop, card, "&return_url=https://shop.example/").await.json();
        assert_fields(
            &asked,
            &json!({
                "status": "requires_action", "next_action.type": "redirect_to_url",
                "next_action.redirect_to_url.return_url": "https://shop.example/",
            }),
        );
        let page = asked["next_action"]["redirect_to_url"]["url"].as_str().unwrap();
        assert!(page.ends_with(&format!("/processor/authenticate/{}", id(&asked))), "{page}");

        let control = format!("intents/{}/authenticate", id(&asked));
        let reply = shop.controlled(&control, &json!({"proven": proven})).await;

        assert_eq!(reply.status, answer, "{card} {proven}: {}", reply.text);
        let after = shop.read(&format!("payment_intents/{}", id(&asked))).await;
        assert_fields(&after, &json!({"status": status, "next_action": null}));
        assert_eq!(shop.events().await.last().unwrap(), last);
        assert_eq!(shop.controlled(&control, &json!({})).await.status, 400, "only once");
    }
    shop.close().await;
}

#[tokio::test]
async fn a_canceled_intent_says_why_and_takes_no_payment() {
    let shop = Shop::open();
    for reason in ["duplicate", "fraudulent", "requested_by_customer", "abandoned"] {
        let path = format!("payment_intents/{}", id(&shop.done("payment_intents", CARD).await));
        let before = mark(&shop).await;
        let form = format!("cancellation_reason={reason}");
        let canceled = shop.done(&format!("{path}/cancel"), &form).await;
        assert_fields(
            &canceled,
            &json!({
                "status": "canceled", "cancellation_reason": reason, "canceled_at": NOW_S,
            }),
        );
        assert_eq!(since(&shop, before).await, ["payment_intent.canceled"]);
        for (step, more) in [("/cancel", ""), ("/confirm", "payment_method=pm_card_visa")] {
            let error = shop.refused(&format!("{path}{step}"), more, 400).await;
            assert_eq!(error["code"], "payment_intent_unexpected_state", "{step}");
        }
        shop.refused(&path, "amount=2000", 400).await;
    }
    let open = format!("payment_intents/{}", id(&shop.done("payment_intents", CARD).await));
    let wrong = [("cancellation_reason=boredom", "", "cancellation_reason")];
    assert_refused(&shop, &format!("{open}/cancel"), &wrong).await;
    assert_eq!(count(&shop, "charges").await, 0);
    shop.close().await;
}

#[tokio::test]
async fn a_browser_may_only_read_and_confirm_what_it_has_the_secret_of() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form = format!("{CARD}&customer={customer}&metadata[order_id]=o");
    let intent = shop.done("payment_intents", &form).await;
    let secret = intent["client_secret"].as_str().unwrap();
    let key = format!("Authorization: Bearer {}\r\n", shop.settings.publishable_key);
    let path = format!("payment_intents/{}", id(&intent));
    for (request, query, status, field) in [
        ("GET", String::new(), 400, "client_secret"),
        ("GET", "?client_secret=pi_secret_wrong".to_owned(), 400, "client_secret"),
        ("GET", format!("?client_secret={secret}"), 200, ""),
        ("POST", String::new(), 403, ""),
    ] {
        let content = "Content-Type: application/x-www-form-urlencoded\r\n";
        let request = format!("{request} /v1/{path}{query}");
        let reply = shop.raw(&request, &format!("{key}{content}"), "").await;
        assert_eq!(reply.status, status, "{request}: {}", reply.text);
        assert_eq!(reply.json()["error"]["param"], or_null(field), "{request}");
    }
    let shown = shop.raw(&format!("GET /v1/{path}?client_secret={secret}"), &key, "").await.json();
    for hidden in ["customer", "metadata", "latest_charge"] {
        assert!(shown.get(hidden).is_none(), "{hidden}: {shown}");
    }
    assert_eq!(missing(&shop, "payment_intents/pi_none", 404).await["param"], "intent");
    let of_customer = format!("payment_intents?customer={customer}");
    assert_eq!(ids(&shop, &of_customer).await, [id(&intent)]);
    shop.close().await;
}
