//! Payment methods: created from test cards and bank accounts, attached once, and never attached
//! again once detached.

use serde_json::{Value, json};

use crate::checks::{
    assert_fields, assert_refused, count, ids, latest_event, mark, missing, or_null, since,
};
use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

#[tokio::test]
async fn a_card_is_created_from_its_number_or_its_token() {
    let shop = Shop::open();
    let form = "type=card&card[number]=4242 4242 4242 4242&card[exp_month]=1&card[exp_year]=30\
                &card[cvc]=123&billing_details[name]=Ada&billing_details[address][country]=DE\
                &metadata[a]=b";

    let by_number = shop.done("payment_methods", form).await;
    let by_token = shop.done("payment_methods", "type=card&card[token]=tok_mastercard").await;

    assert_fields(
        &by_number,
        &json!({
            "object": "payment_method", "type": "card", "customer": null, "card.brand": "visa",
            "card.last4": "4242", "card.exp_month": 1, "card.exp_year": 2030, "livemode": false,
            "billing_details.name": "Ada", "billing_details.address.country": "DE",
            "billing_details.email": null, "metadata": {"a": "b"},
        }),
    );
    assert!(by_number["card"].get("number").is_none(), "the number is never shown");
    assert_fields(&by_token, &json!({"card.brand": "mastercard", "card.last4": "4444"}));
    assert_eq!(shop.read(&format!("payment_methods/{}", id(&by_number))).await, by_number);
    missing(&shop, "payment_methods/pm_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn a_card_that_cannot_exist_is_a_card_error_with_its_field() {
    let shop = Shop::open();
    let good = "card[number]=4242424242424242";
    // (parameters, code, decline code, field); a shop opens in November 2026.
    for (more, code, decline, param) in [
        ("card[number]=4242424242424241", "incorrect_number", "", "number"),
        ("card[number]=42", "incorrect_number", "", "number"),
        ("card[number]=4111111111111111", "card_declined", "test_mode_live_card", "number"),
        (&format!("{good}&card[exp_month]=0"), "invalid_expiry_month", "", "exp_month"),
        (&format!("{good}&card[exp_month]=13"), "invalid_expiry_month", "", "exp_month"),
        (&format!("{good}&card[exp_year]=2025"), "invalid_expiry_year", "", "exp_year"),
        (
            &format!("{good}&card[exp_month]=10&card[exp_year]=26"),
            "invalid_expiry_year",
            "",
            "exp_year",
        ),
        (&format!("{good}&card[exp_year]=2077"), "invalid_expiry_year", "", "exp_year"),
    ] {
        let error = shop.refused("payment_methods", &format!("type=card&{more}"), 402).await;
        assert_fields(
            &error,
            &json!({
                "type": "card_error", "code": code, "decline_code": or_null(decline), "param": param,
            }),
        );
    }
    for (month, year) in [(11, 26), (12, 2076)] {
        let form = format!("type=card&{good}&card[exp_month]={month}&card[exp_year]={year}");
        shop.done("payment_methods", &form).await;
    }
    shop.close().await;
}

#[tokio::test]
async fn a_bank_account_needs_its_iban_and_its_owner() {
    let shop = Shop::open();
    let owner = "billing_details[name]=Ada&billing_details[email]=ada@example.com";
    let iban = "sepa_debit[iban]=AT61 1904 3002 3457 3201";

    let made = shop.done("payment_methods", &format!("type=sepa_debit&{iban}&{owner}")).await;

    assert_fields(
        &made,
        &json!({"type": "sepa_debit", "sepa_debit.country": "AT", "sepa_debit.last4": "3201"}),
    );
    assert_refused(
        &shop,
        "payment_methods",
        &[
            ("", "parameter_missing", "type"),
            ("type=card", "parameter_missing", "card[number]"),
            ("type=paypal", "", "type"),
            (&format!("type=sepa_debit&{owner}"), "parameter_missing", "sepa_debit[iban]"),
            (&format!("type=sepa_debit&{iban}"), "parameter_missing", "billing_details[name]"),
            (
                &format!("type=sepa_debit&{iban}&billing_details[name]=Ada"),
                "parameter_missing",
                "billing_details[email]",
            ),
            (
                &format!("type=sepa_debit&sepa_debit[iban]=AT00&{owner}"),
                "invalid_bank_account_iban",
                "sepa_debit[iban]",
            ),
            ("type=card&card[pin]=1", "parameter_unknown", "card[pin]"),
        ],
    )
    .await;
    shop.close().await;
}

#[tokio::test]
async fn a_test_card_is_a_new_payment_method_each_time_it_is_attached() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form = format!("customer={customer}");
    let before = mark(&shop).await;

    let first = shop.done("payment_methods/pm_card_visa/attach", &form).await;
    let second = shop.done("payment_methods/pm_card_visa/attach", &form).await;
    let again = shop.done(&format!("payment_methods/{}/attach", id(&first)), &form).await;

    assert_ne!(first["id"], second["id"]);
    assert_eq!(first["card"]["fingerprint"], second["card"]["fingerprint"]);
    assert_eq!(again, first);
    assert_eq!(
        since(&shop, before).await,
        ["payment_method.attached"; 2],
        "attaching a card again to its customer changes nothing"
    );
    let listed = ids(&shop, &format!("customers/{customer}/payment_methods?type=card")).await;
    assert_eq!(listed, [id(&second), id(&first)], "newest first");
    shop.close().await;
}

#[tokio::test]
async fn a_card_belongs_to_one_customer() {
    let shop = Shop::open();
    let (_, method) = shop.customer("pm_card_visa").await;
    let other = id(&shop.done("customers", "").await);
    let path = format!("payment_methods/{method}/attach");

    let taken = shop.refused(&path, &format!("customer={other}"), 400).await;

    assert!(taken["message"].as_str().unwrap().contains("already been attached"), "{taken}");
    assert_refused(
        &shop,
        &path,
        &[
            ("", "parameter_missing", "customer"),
            ("customer=cus_none", "resource_missing", "customer"),
        ],
    )
    .await;
    for unknown in ["pm_none", "pm_card_unheardOf"] {
        let attach = format!("payment_methods/{unknown}/attach");
        shop.refused(&attach, &format!("customer={other}"), 404).await;
    }
    shop.close().await;
}

#[tokio::test]
async fn a_declined_card_is_refused_when_it_is_attached_with_the_banks_reason() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    for (card, code, decline, words) in [
        ("chargeDeclined", "card_declined", "generic_decline", "was declined"),
        ("visa_chargeDeclined", "card_declined", "generic_decline", "was declined"),
        (
            "visa_chargeDeclinedInsufficientFunds",
            "card_declined",
            "insufficient_funds",
            "insufficient funds",
        ),
        ("chargeDeclinedLostCard", "card_declined", "lost_card", "was declined"),
        ("visa_chargeDeclinedStolenCard", "card_declined", "stolen_card", "was declined"),
        ("chargeDeclinedExpiredCard", "expired_card", "", "has expired"),
        ("chargeDeclinedIncorrectCvc", "incorrect_cvc", "", "security code"),
        ("chargeDeclinedProcessingError", "processing_error", "", "processing your card"),
    ] {
        let path = format!("payment_methods/pm_card_{card}/attach");
        let error = shop.refused(&path, &format!("customer={customer}"), 402).await;

        let wanted = json!({"type": "card_error", "code": code, "decline_code": or_null(decline)});
        assert_fields(&error, &wanted);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{card}: {message}");
        let reference = error["doc_url"].as_str().unwrap();
        assert!(reference.ends_with(&code.replace('_', "-")), "{card}: {reference}");
    }
    assert_eq!(count(&shop, &format!("customers/{customer}/payment_methods")).await, 0);
    assert_eq!(shop.events().await, ["customer.created"]);
    shop.close().await;
}

#[tokio::test]
async fn an_attached_card_can_be_changed_and_the_event_shows_its_old_values() {
    let shop = Shop::open();
    let (_, method) = shop.customer("pm_card_visa").await;
    let path = format!("payment_methods/{method}");
    let before = mark(&shop).await;

    let form = "card[exp_month]=5&card[exp_year]=2032&billing_details[name]=Ada&metadata[a]=b";
    let changed = shop.done(&path, form).await;
    let emptied = shop.done(&path, "billing_details[name]=&metadata[a]=").await;

    assert_fields(
        &changed,
        &json!({
            "card.exp_month": 5, "card.exp_year": 2032, "card.last4": "4242",
            "billing_details.name": "Ada", "metadata.a": "b",
        }),
    );
    assert_fields(
        &emptied,
        &json!({"card.exp_month": 5, "billing_details.name": null, "metadata": {}}),
    );
    assert_eq!(since(&shop, before).await, ["payment_method.updated"; 2]);
    let event = latest_event(&shop, "payment_method.updated").await;
    assert_eq!(event["data"]["previous_attributes"]["metadata"], json!({"a": "b"}));
    let loose = id(&shop.done("payment_methods", "type=card&card[token]=tok_visa").await);
    shop.refused(&format!("payment_methods/{loose}"), "metadata[a]=b", 400).await;
    assert_refused(&shop, &path, &[("card[number]=1", "parameter_unknown", "card[number]")]).await;
    shop.close().await;
}

#[tokio::test]
async fn a_detached_card_is_gone_from_everything_that_used_it() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let method = ids(&shop, &format!("customers/{customer}/payment_methods")).await[0].clone();
    let of_subscription = format!("subscriptions/{}", id(&subscription));
    shop.done(&of_subscription, &format!("default_payment_method={method}")).await;
    let before = mark(&shop).await;

    let detached = shop.done(&format!("payment_methods/{method}/detach"), "").await;

    assert_eq!(detached["customer"], Value::Null);
    assert_eq!(since(&shop, before).await, ["payment_method.detached"]);
    let event = latest_event(&shop, "payment_method.detached").await;
    assert_eq!(event["data"]["previous_attributes"], json!({"customer": customer}));
    assert_eq!(shop.read(&of_subscription).await["default_payment_method"], Value::Null);
    let owner = shop.read(&format!("customers/{customer}")).await;
    assert_eq!(owner["invoice_settings"]["default_payment_method"], Value::Null);
    let uses = [
        ("payment_intents", "amount=500&currency=usd&confirm=true&return_url=http://a.example&"),
        ("setup_intents", ""),
    ];
    for (path, form) in uses {
        let form = format!("{form}customer={customer}&payment_method={method}");
        let error = shop.refused(path, &form, 400).await;
        assert!(error["message"].as_str().unwrap().contains("may not be used again"), "{error}");
    }
    shop.refused(&of_subscription, &format!("default_payment_method={method}"), 400).await;
    shop.refused(&format!("payment_methods/{method}"), "metadata[a]=b", 400).await;
    assert_eq!(count(&shop, "charges").await, 1);
    shop.close().await;
}

#[tokio::test]
async fn lists_show_the_cards_of_customers_by_type_and_owner() {
    let shop = Shop::open();
    let (ada, card) = shop.customer("pm_card_visa").await;
    let (bob, other) = shop.customer("pm_card_amex").await;
    let attach = "payment_methods/pm_usBankAccount_success/attach";
    let account = id(&shop.done(attach, &format!("customer={ada}")).await);
    shop.done("payment_methods", "type=card&card[token]=tok_visa").await;

    assert_eq!(ids(&shop, "payment_methods").await, [account.clone(), other, card.clone()]);
    let of_ada = format!("payment_methods?customer={ada}");
    assert_eq!(ids(&shop, &of_ada).await, [account.clone(), card.clone()]);
    assert_eq!(ids(&shop, &format!("{of_ada}&type=card")).await, [card]);
    let accounts = format!("customers/{ada}/payment_methods?type=us_bank_account");
    assert_eq!(ids(&shop, &accounts).await, [account]);
    let none = format!("customers/{bob}/payment_methods?type=us_bank_account");
    assert_eq!(count(&shop, &none).await, 0);
    assert_eq!(missing(&shop, "payment_methods?customer=cus_none", 400).await["param"], "customer");
    missing(&shop, "customers/cus_none/payment_methods", 404).await;
    shop.close().await;
}
