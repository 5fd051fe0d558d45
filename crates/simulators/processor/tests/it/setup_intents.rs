//! Setup intents: a card saved without a payment, by the merchant's server or in a browser.

use serde_json::{Value, json};

use crate::checks::{
    NOW_S, assert_fields, assert_refused, count, ids, mark, missing, or_null, since,
};
use crate::kit::{Shop, id};

const RETURN: &str = "return_url=https://shop.example/back";

#[tokio::test]
async fn an_intent_waits_for_a_method_and_then_for_its_confirmation() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);

    let bare = shop.done("setup_intents", &format!("customer={customer}&metadata[a]=b")).await;
    let with = shop
        .done("setup_intents", "payment_method=pm_card_visa&usage=on_session&description=Later")
        .await;

    assert_fields(
        &bare,
        &json!({
            "object": "setup_intent", "status": "requires_payment_method", "usage": "off_session",
            "customer": customer, "payment_method": null, "metadata": {"a": "b"}, "created": NOW_S,
            "automatic_payment_methods": {"allow_redirects": "always", "enabled": true},
        }),
    );
    assert!(bare["client_secret"].as_str().unwrap().starts_with(&format!("{}_secret_", id(&bare))));
    assert_fields(
        &with,
        &json!({
            "status": "requires_confirmation", "usage": "on_session", "description": "Later",
            "customer": null,
        }),
    );
    let form = "payment_method_types[]=card";
    let cards_only = shop.done("setup_intents", form).await;
    assert_eq!(cards_only["automatic_payment_methods"], Value::Null);
    assert_eq!(shop.events().await[1..], ["setup_intent.created"; 3]);
    shop.close().await;
}

#[tokio::test]
async fn a_confirmed_intent_saves_the_card_for_its_customer() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let intent = shop.done("setup_intents", &format!("customer={customer}")).await;
    let before = mark(&shop).await;

    let path = format!("setup_intents/{}/confirm", id(&intent));
    let confirmed = shop.done(&path, &format!("payment_method=pm_card_visa&{RETURN}")).await;

    assert_eq!(confirmed["status"], "succeeded");
    assert_eq!(since(&shop, before).await, ["payment_method.attached", "setup_intent.succeeded"]);
    let saved = ids(&shop, &format!("customers/{customer}/payment_methods")).await;
    assert_eq!(json!(saved), json!([confirmed["payment_method"]]));
    let again = shop.refused(&path, RETURN, 400).await;
    assert_fields(
        &again,
        &json!({
            "code": "setup_intent_unexpected_state", "setup_intent.id": intent["id"],
            "setup_intent.status": "succeeded",
        }),
    );
    assert_eq!(count(&shop, "charges").await, 0, "nothing is charged");
    shop.close().await;
}

#[tokio::test]
async fn a_card_that_was_set_up_pays_without_its_owner() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form = format!(
        "customer={customer}&payment_method=pm_card_chargeCustomerFail&confirm=true&{RETURN}"
    );
    let saved = shop.done("setup_intents", &form).await;
    assert_eq!(saved["status"], "succeeded", "this card fails only when it is charged");

    let visa = format!("customer={customer}&payment_method=pm_card_visa&confirm=true&{RETURN}");
    let good = shop.done("setup_intents", &visa).await;
    for (intent, status) in [(saved, 402), (good, 200)] {
        let method = intent["payment_method"].as_str().unwrap();
        let charge = format!(
            "amount=900&currency=usd&customer={customer}&payment_method={method}&confirm=true\
             &off_session=true"
        );
        assert_eq!(shop.post("payment_intents", &charge).await.status, status);
    }
    shop.close().await;
}

#[tokio::test]
async fn a_server_side_confirmation_needs_a_return_url_unless_nothing_redirects() {
    let shop = Shop::open();
    let card = "payment_method=pm_card_visa&confirm=true";

    let refused = shop.refused("setup_intents", card, 400).await;

    assert_eq!(refused["param"], "return_url");
    assert_eq!(count(&shop, "setup_intents").await, 0, "a refused intent does not exist");
    for more in [
        RETURN,
        "automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never",
        "automatic_payment_methods[enabled]=false",
        "payment_method_types[]=card",
    ] {
        let made = shop.done("setup_intents", &format!("{card}&{more}")).await;
        assert_eq!(made["status"], "succeeded", "{more}");
    }
    shop.close().await;
}

#[tokio::test]
async fn a_declined_card_leaves_the_intent_open_with_the_reason() {
    let shop = Shop::open();
    for (card, code, decline) in [
        ("pm_card_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_visa_chargeDeclinedLostCard", "card_declined", "lost_card"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", ""),
    ] {
        let intent = id(&shop.done("setup_intents", "").await);
        let before = mark(&shop).await;
        let path = format!("setup_intents/{intent}");
        let confirm = format!("{path}/confirm");

        let error = shop.refused(&confirm, &format!("payment_method={card}&{RETURN}"), 402).await;

        assert_fields(
            &error,
            &json!({
                "type": "card_error", "code": code, "decline_code": or_null(decline),
                "setup_intent.id": intent, "setup_intent.status": "requires_payment_method",
            }),
        );
        assert_eq!(since(&shop, before).await, ["setup_intent.setup_failed"]);
        let kept = shop.read(&path).await;
        assert_fields(&kept, &json!({"last_setup_error.code": code, "payment_method": null}));
        let form = format!("payment_method=pm_card_visa&{RETURN}");
        assert_eq!(shop.done(&confirm, &form).await["status"], "succeeded", "another card works");
    }
    shop.close().await;
}

#[tokio::test]
async fn a_bank_that_asks_sends_the_customer_to_its_page() {
    let shop = Shop::open();
    for card in [
        "pm_card_authenticationRequired",
        "pm_card_authenticationRequiredOnSetup",
        "pm_card_threeDSecure2Required",
        "pm_card_authenticationRequiredChargeDeclinedInsufficientFunds",
    ] {
        let before = mark(&shop).await;

        let form = format!("payment_method={card}&confirm=true&{RETURN}");
        let intent = shop.done("setup_intents", &form).await;

        assert_fields(
            &intent,
            &json!({
                "status": "requires_action", "next_action.type": "redirect_to_url",
                "next_action.redirect_to_url.return_url": "https://shop.example/back",
            }),
        );
        assert_eq!(
            since(&shop, before).await,
            ["setup_intent.created", "setup_intent.requires_action"],
            "{card}"
        );
    }
    let known = format!(
        "payment_method=pm_card_authenticationRequiredSetupForOffSession&confirm=true&{RETURN}"
    );
    assert_eq!(shop.done("setup_intents", &known).await["status"], "succeeded");
    shop.close().await;
}

#[tokio::test]
async fn an_open_intent_can_be_canceled_once() {
    let shop = Shop::open();
    let path = format!("setup_intents/{}", id(&shop.done("setup_intents", "").await));
    let before = mark(&shop).await;

    let refused = shop.refused(&format!("{path}/cancel"), "cancellation_reason=boredom", 400).await;
    let canceled = shop.done(&format!("{path}/cancel"), "cancellation_reason=abandoned").await;

    assert_eq!(refused["param"], "cancellation_reason");
    assert_fields(&canceled, &json!({"status": "canceled", "cancellation_reason": "abandoned"}));
    assert_eq!(since(&shop, before).await, ["setup_intent.canceled"]);
    for step in ["cancel", "confirm"] {
        let error = shop.refused(&format!("{path}/{step}"), "", 400).await;
        assert_eq!(error["code"], "setup_intent_unexpected_state", "{step}");
    }
    shop.refused("setup_intents/seti_none/cancel", "", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn an_invalid_intent_is_refused_with_its_parameter() {
    let shop = Shop::open();
    let bare = id(&shop.done("setup_intents", "").await);
    assert_refused(
        &shop,
        "setup_intents",
        &[
            ("customer=cus_none", "resource_missing", "customer"),
            ("payment_method=pm_none", "resource_missing", "payment_method"),
            ("payment_method_types[]=cash", "", "payment_method_types[0]"),
            ("usage=sometimes", "", "usage"),
            ("confirm=perhaps", "", "confirm"),
            ("amount=500", "parameter_unknown", "amount"),
            ("confirm=true", "setup_intent_unexpected_state", ""),
        ],
    )
    .await;
    assert_refused(
        &shop,
        &format!("setup_intents/{bare}/confirm"),
        &[
            (RETURN, "setup_intent_unexpected_state", ""),
            ("payment_method=pm_none", "resource_missing", "payment_method"),
        ],
    )
    .await;
    assert_eq!(ids(&shop, "setup_intents").await, [bare]);
    shop.close().await;
}

#[tokio::test]
async fn a_browser_reads_an_intent_only_with_its_secret() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form = format!("customer={customer}&metadata[secret]=plan");
    let intent = shop.done("setup_intents", &form).await;
    let path = format!("setup_intents/{}", id(&intent));
    let key = &shop.settings.publishable_key;
    let secret = intent["client_secret"].as_str().unwrap();
    let ask = |query: String| {
        let request = format!("GET /v1/{path}?key={key}{query}");
        let shop = &shop;
        async move { shop.raw(&request, "", "").await }
    };

    let (without, wrong) = (ask(String::new()).await, ask("&client_secret=x".to_owned()).await);
    let shown = ask(format!("&client_secret={secret}")).await;

    assert_eq!((without.status, wrong.status, shown.status), (400, 400, 200));
    assert_eq!(without.json()["error"]["param"], "client_secret");
    let shown = shown.json();
    assert_eq!(shown["status"], "requires_payment_method");
    assert!(shown.get("customer").is_none() && shown.get("metadata").is_none(), "{shown}");
    assert_eq!(count(&shop, &format!("setup_intents?customer={customer}")).await, 1);
    assert_eq!(count(&shop, "setup_intents?customer=cus_other").await, 0);
    missing(&shop, "setup_intents/seti_none", 404).await;
    shop.close().await;
}
