//! Payments: every test card, on and off session, and what the processor reports.

use serde_json::{Value, json};

use crate::kit::{Shop, id};

fn charge(customer: &str, method: &str, more: &str) -> String {
    format!(
        "amount=1000&currency=usd&confirm=true&customer={customer}&payment_method={method}&payment_method_types[]=card&metadata[order_id]=ord_1{more}"
    )
}

#[tokio::test]
async fn a_good_card_pays_on_and_off_session() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_visa").await;

    let there = shop.done("payment_intents", &charge(&customer, &method, "")).await;
    let away = shop
        .done(
            "payment_intents",
            &charge(&customer, &method, "&off_session=true&expand[]=latest_charge"),
        )
        .await;

    assert_eq!((&there["status"], &there["amount_received"]), (&json!("succeeded"), &json!(1000)));
    assert_eq!(away["latest_charge"]["status"], "succeeded");
    assert_eq!(there["metadata"]["order_id"], "ord_1");
    assert!(
        there["client_secret"].as_str().unwrap().starts_with(&format!("{}_secret_", id(&there)))
    );
    assert!(there.get("_").is_none(), "{there}");
    shop.close().await;
}

/// The same bank responds differently on and off session.
#[tokio::test]
async fn authentication_is_a_next_step_on_session_and_a_402_off_session() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_authenticationRequired").await;

    let there = shop.done("payment_intents", &charge(&customer, &method, "")).await;
    let away = shop
        .refused("payment_intents", &charge(&customer, &method, "&off_session=true"), 402)
        .await;
    let strict = shop
        .refused(
            "payment_intents",
            &charge(&customer, &method, "&error_on_requires_action=true"),
            402,
        )
        .await;

    assert_eq!(
        (&there["status"], &there["next_action"]["type"]),
        (&json!("requires_action"), &json!("use_stripe_sdk"))
    );
    assert_eq!(
        (&away["type"], &away["code"], &away["decline_code"]),
        (
            &json!("card_error"),
            &json!("authentication_required"),
            &json!("authentication_required")
        )
    );
    let intent = &away["payment_intent"];
    assert_eq!(intent["status"], "requires_payment_method");
    assert_eq!(intent["last_payment_error"]["payment_method"]["id"], method.as_str());
    assert_eq!(strict["code"], "authentication_required");

    // The customer returns: confirmed in the browser and authenticated on the bank's page, the
    // intent is paid.
    let secret = intent["client_secret"].as_str().unwrap();
    let key = &shop.settings.publishable_key;
    let form =
        format!("key={key}&client_secret={secret}&payment_method={method}&use_stripe_sdk=true");
    let headers = "Content-Type: application/x-www-form-urlencoded\r\n";
    let path = format!("POST /v1/payment_intents/{}/confirm", id(intent));
    let confirmed = shop.raw(&path, headers, &form).await.json();
    assert_eq!(confirmed["status"], "requires_action", "{confirmed}");
    assert!(confirmed.get("metadata").is_none(), "a browser sees no metadata: {confirmed}");
    let page = format!("/processor/authenticate/{}", id(intent));
    let shown = shop.raw(&format!("GET {page}"), "", "").await;
    assert!(shown.text.contains("$10.00") && shown.text.contains("id=\"complete\""), "{shown:?}");
    shop.raw(&format!("POST {page}"), headers, "outcome=complete").await;
    assert_eq!(shop.read(&format!("payment_intents/{}", id(intent))).await["status"], "succeeded");
    // The other intent is refused on the bank's page.
    shop.raw(&format!("POST /processor/authenticate/{}", id(&there)), headers, "outcome=fail")
        .await;
    let failed = shop.read(&format!("payment_intents/{}", id(&there))).await;
    assert_eq!(
        (&failed["status"], &failed["last_payment_error"]["code"]),
        (&json!("requires_payment_method"), &json!("payment_intent_authentication_failure"))
    );
    shop.close().await;
}

#[tokio::test]
async fn every_test_card_behaves_as_documented() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let attach = |card: &'static str| {
        let (shop, form) = (&shop, format!("customer={customer}"));
        async move { shop.post(&format!("payment_methods/{card}/attach"), &form).await }
    };
    for (card, code, decline) in [
        ("pm_card_chargeDeclined", "card_declined", json!("generic_decline")),
        ("pm_card_visa_chargeDeclined", "card_declined", json!("generic_decline")),
        ("pm_card_chargeDeclinedInsufficientFunds", "card_declined", json!("insufficient_funds")),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", Value::Null),
    ] {
        let refused = attach(card).await;
        assert_eq!(refused.status, 402, "{card}: {}", refused.text);
        let error = &refused.json()["error"];
        assert_eq!(
            (&error["code"], error.get("decline_code").unwrap_or(&Value::Null)),
            (&json!(code), &decline),
            "{card}"
        );
        let paid = shop
            .refused("payment_intents", &charge("", card, "").replace("customer=&", ""), 402)
            .await;
        assert_eq!(paid["code"], code, "{card}");
    }
    // (card, status on session, status off session)
    for (card, there, away) in [
        ("pm_card_chargeCustomerFail", "card_declined", "card_declined"),
        ("pm_card_authenticationRequiredOnSetup", "requires_action", "authentication_required"),
        ("pm_card_authenticationRequired", "requires_action", "authentication_required"),
        ("pm_card_threeDSecure2Required", "requires_action", "authentication_required"),
        ("pm_card_authenticationRequiredSetupForOffSession", "requires_action", "succeeded"),
        (
            "pm_card_authenticationRequiredChargeDeclinedInsufficientFunds",
            "requires_action",
            "card_declined",
        ),
        ("pm_card_mastercard", "succeeded", "succeeded"),
    ] {
        let attached = attach(card).await;
        assert_eq!(attached.status, 200, "{card}: {}", attached.text);
        let method = id(&attached.json());
        for (more, expected) in [("", there), ("&off_session=true", away)] {
            let reply =
                shop.post("payment_intents", &charge(&customer, &method, more)).await.json();
            let found = reply["status"].as_str().or(reply["error"]["code"].as_str()).unwrap();
            assert_eq!(found, expected, "{card} {more}: {reply}");
        }
    }
    shop.close().await;
}

#[tokio::test]
async fn a_payment_keeps_its_events_and_its_charges() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_chargeCustomerFail").await;
    shop.refused("payment_intents", &charge(&customer, &method, ""), 402).await;
    let (intent, charges) = (shop.read("payment_intents").await, shop.read("charges").await);
    assert_eq!(intent["data"][0]["status"], "requires_payment_method");
    assert_eq!(
        (&charges["data"][0]["status"], &charges["data"][0]["failure_code"]),
        (&json!("failed"), &json!("card_declined"))
    );
    let events = shop.events().await;
    assert_eq!(
        events[events.len() - 3..],
        ["payment_intent.created", "charge.failed", "payment_intent.payment_failed"]
    );
    shop.close().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_without_a_trace() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_visa").await;
    let other = id(&shop.done("customers", "").await);
    for (form, param) in [
        ("amount=49&currency=usd".to_owned(), "amount"),
        ("amount=100000000&currency=usd".to_owned(), "amount"),
        ("amount=ten&currency=usd".to_owned(), "amount"),
        ("amount=500&currency=xyz".to_owned(), "currency"),
        ("amount=500&currency=usd&off_session=true".to_owned(), "off_session"),
        (charge(&other, &method, ""), "payment_method"),
        (charge("", &method, "").replace("customer=&", ""), "payment_method"),
        (
            charge(&customer, &method, "&automatic_payment_methods[enabled]=true"),
            "payment_method_types",
        ),
        (
            charge(&customer, &method, "").replace(
                "payment_method_types[]=card&",
                "automatic_payment_methods[enabled]=true&",
            ),
            "return_url",
        ),
        (
            charge(&customer, &method, "&metadata[order_id]=").replace("amount=1000", "amount="),
            "amount",
        ),
    ] {
        let error = shop.refused("payment_intents", &form, 400).await;
        assert_eq!(error["param"], param, "{form}: {error}");
    }
    assert_eq!(shop.read("payment_intents").await["data"], json!([]));
    shop.done(&format!("payment_methods/{method}/detach"), "").await;
    shop.refused(&format!("payment_methods/{method}/detach"), "", 400).await;
    shop.refused(&format!("payment_methods/{method}/attach"), &format!("customer={customer}"), 400)
        .await;
    let customer = shop.read(&format!("customers/{customer}")).await;
    assert_eq!(customer["invoice_settings"]["default_payment_method"], Value::Null);
    shop.close().await;
}

#[tokio::test]
async fn intents_are_found_by_metadata_and_cancelled_only_while_open() {
    let shop = Shop::open();
    let (customer, method) = shop.customer("pm_card_visa").await;
    let paid = shop.done("payment_intents", &charge(&customer, &method, "")).await;
    let open = shop
        .done(
            "payment_intents",
            &format!("amount=700&currency=usd&customer={customer}&metadata[order_id]=ord_2"),
        )
        .await;

    let search = |query: &str| {
        format!("payment_intents/search?query={}", query.replace(' ', "%20").replace('"', "%22"))
    };
    let found = shop.read(&search("metadata['order_id']:'ord_1'")).await;
    let both =
        shop.read(&search(&format!("customer:\"{customer}\" AND -status:\"canceled\""))).await;
    let none = shop.read(&search("metadata['order_id']:'ord_1' AND status:'canceled'")).await;
    assert_eq!(
        (found["data"].as_array().unwrap().len(), &found["data"][0]["id"]),
        (1, &paid["id"])
    );
    assert_eq!(
        (both["data"].as_array().unwrap().len(), none["data"].as_array().unwrap().len()),
        (2, 0)
    );
    assert_eq!(shop.get(&search("colour:'red'")).await.status, 400);

    shop.refused(&format!("payment_intents/{}/cancel", id(&paid)), "", 400).await;
    let cancelled = shop
        .done(&format!("payment_intents/{}/cancel", id(&open)), "cancellation_reason=abandoned")
        .await;
    assert_eq!(cancelled["status"], "canceled");
    let again = shop
        .refused(
            &format!("payment_intents/{}/confirm", id(&open)),
            &format!("payment_method={method}"),
            400,
        )
        .await;
    assert_eq!(again["code"], "payment_intent_unexpected_state");
    shop.close().await;
}
