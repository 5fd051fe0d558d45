//! Objects but invoices: new words, missing fields, and objects in place of ids.

use processor_client::objects::{
    AppliedDiscount, BalanceTransaction, CardCharge, CheckoutSession, DisputeStatus,
    EarlyFraudWarning, ExpandableObject, HasId, IntentStatus, InvoiceStatus, ListPage,
    PaymentDispute, PaymentIntent, PaymentMethod, PaymentRefund, PaymentStatus,
    PortalConfiguration, ProcessorCustomer, ProcessorPrice, ProcessorProduct,
    ProcessorSubscription, SearchPage, SessionStatus, SubscriptionStatus, WebhookEndpoint,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"))
}

/// Reads an object that is only an id, with every field of `fields` null, and with fields that are
/// new.
fn reads_tolerantly<T: DeserializeOwned + HasId>(fields: &[&str]) {
    let mut nulls = json!({"id": "x_1", "a_new_field": {"deep": [1]}});
    for field in fields {
        nulls[*field] = Value::Null;
    }
    for object in [json!({"id": "x_1"}), nulls] {
        assert_eq!(read::<T>(&object).id(), "x_1", "{object}");
    }
    assert!(serde_json::from_value::<T>(json!({})).is_err(), "an object has an id");
}

#[test]
fn an_object_needs_nothing_but_its_id() {
    reads_tolerantly::<ProcessorCustomer>(&[
        "email",
        "deleted",
        "invoice_settings",
        "metadata",
        "balance",
        "created",
        "livemode",
    ]);
    reads_tolerantly::<PaymentMethod>(&["type", "card", "customer", "created"]);
    reads_tolerantly::<PaymentIntent>(&[
        "amount",
        "status",
        "customer",
        "payment_method",
        "client_secret",
        "next_action",
        "last_payment_error",
        "latest_charge",
        "invoice",
    ]);
    reads_tolerantly::<CheckoutSession>(&[
        "mode",
        "status",
        "payment_status",
        "url",
        "line_items",
        "total_details",
        "expires_at",
    ]);
    reads_tolerantly::<CardCharge>(&[
        "amount",
        "amount_refunded",
        "paid",
        "disputed",
        "receipt_url",
    ]);
    reads_tolerantly::<PaymentRefund>(&["amount", "status", "failure_reason", "charge"]);
    reads_tolerantly::<PaymentDispute>(&[
        "amount",
        "status",
        "reason",
        "payment_intent",
        "evidence_details",
    ]);
    reads_tolerantly::<EarlyFraudWarning>(&["actionable", "fraud_type", "charge"]);
    reads_tolerantly::<ProcessorSubscription>(&[
        "status",
        "items",
        "discounts",
        "cancel_at",
        "billing_cycle_anchor",
        "current_period_end",
    ]);
    reads_tolerantly::<ProcessorPrice>(&["active", "unit_amount", "product", "recurring"]);
    reads_tolerantly::<ProcessorProduct>(&["name", "metadata"]);
    reads_tolerantly::<BalanceTransaction>(&["amount", "ending_balance", "type", "invoice"]);
    reads_tolerantly::<AppliedDiscount>(&["source", "coupon"]);
}

#[test]
fn a_word_that_is_new_is_no_error_and_no_other_word() {
    for (word, intent, subscription, dispute) in [
        ("succeeded", IntentStatus::Succeeded, SubscriptionStatus::Other, DisputeStatus::Other),
        ("canceled", IntentStatus::Canceled, SubscriptionStatus::Canceled, DisputeStatus::Other),
        ("won", IntentStatus::Other, SubscriptionStatus::Other, DisputeStatus::Won),
        ("past_due", IntentStatus::Other, SubscriptionStatus::PastDue, DisputeStatus::Other),
        ("Succeeded", IntentStatus::Other, SubscriptionStatus::Other, DisputeStatus::Other),
        ("", IntentStatus::Other, SubscriptionStatus::Other, DisputeStatus::Other),
    ] {
        let object = json!({"id": "x_1", "status": word});

        assert_eq!(read::<PaymentIntent>(&object).status, intent, "{word}");
        assert_eq!(read::<ProcessorSubscription>(&object).status, subscription, "{word}");
        assert_eq!(read::<PaymentDispute>(&object).status, dispute, "{word}");
    }
}

#[test]
fn every_word_is_written_as_it_is_read() {
    macro_rules! words_of {
        ($kind:ty: $($word:literal)+) => {$(
            let read: $kind = serde_json::from_value(json!($word)).unwrap();
            assert_eq!(read.as_str(), $word);
        )+
            assert_eq!(<$kind>::default().as_str(), "unknown");
        };
    }
    words_of!(IntentStatus: "requires_payment_method" "requires_confirmation" "requires_action"
        "processing" "requires_capture" "canceled" "succeeded");
    words_of!(SubscriptionStatus: "incomplete" "incomplete_expired" "trialing" "active" "past_due"
        "canceled" "unpaid" "paused");
    words_of!(DisputeStatus: "warning_needs_response" "warning_under_review" "warning_closed"
        "needs_response" "under_review" "won" "lost" "prevented");
    words_of!(SessionStatus: "open" "complete" "expired");
    words_of!(PaymentStatus: "paid" "unpaid" "no_payment_required");
    words_of!(InvoiceStatus: "draft" "open" "paid" "uncollectible" "void");
}

#[test]
fn an_object_may_stand_where_an_id_does() {
    let by_id: CardCharge = read(&json!({"id": "ch_1", "customer": "cus_1"}));
    let whole: CardCharge =
        read(&json!({"id": "ch_1", "customer": {"id": "cus_1", "deleted": true}}));

    let (by_id, whole) = (by_id.customer.unwrap(), whole.customer.unwrap());
    assert_eq!((by_id.id(), whole.id()), ("cus_1", "cus_1"));
    assert!(by_id.object().is_none());
    assert!(whole.object().unwrap().deleted);
    for neither in [json!(5), json!([]), json!({"name": "x"}), json!(true)] {
        let read = serde_json::from_value::<ExpandableObject<ProcessorCustomer>>(neither.clone());
        assert!(read.is_err(), "{neither}");
    }
}

#[test]
fn a_page_that_has_more_continues_after_its_last_object() {
    let page = |value| read::<ListPage<ProcessorProduct>>(&value);
    let two = json!([{"id": "prod_1"}, {"id": "prod_2"}]);
    for (value, next) in [
        (json!({"data": two, "has_more": true}), Some("prod_2")),
        (json!({"data": two, "has_more": false}), None),
        (json!({"data": two}), None),
        // There is nothing to continue after: asking for the same page again would never end.
        (json!({"data": [], "has_more": true}), None),
        (json!({"data": null, "has_more": null}), None),
        (json!({}), None),
    ] {
        assert_eq!(page(value.clone()).next(), next, "{value}");
    }
    assert!(serde_json::from_value::<ListPage<ProcessorProduct>>(json!({"data": [null]})).is_err());
    assert_eq!(ListPage::<ProcessorProduct>::default().next(), None);
}

#[test]
fn a_search_says_what_its_next_page_is_asked_for_with() {
    let found: SearchPage<ProcessorPrice> =
        read(&json!({"data": [{"id": "price_1"}], "has_more": true, "next_page": "p2"}));
    let none: SearchPage<ProcessorPrice> = read(&json!({"next_page": null}));

    assert_eq!((found.has_more, found.next_page.as_deref()), (true, Some("p2")));
    assert_eq!((none.has_more, none.next_page, none.data.len()), (false, None, 0));
}

#[test]
fn the_card_of_a_session_is_the_one_that_paid_or_else_the_one_that_was_saved() {
    let with = |id: &str| json!({"id": "x_1", "payment_method": {"id": id}});
    for (session, card) in [
        (json!({"payment_intent": with("pm_1"), "setup_intent": with("pm_2")}), Some("pm_1")),
        (json!({"payment_intent": "pi_1", "setup_intent": with("pm_2")}), Some("pm_2")),
        (json!({"payment_intent": {"id": "pi_1"}, "setup_intent": with("pm_2")}), Some("pm_2")),
        (json!({"payment_intent": "pi_1", "setup_intent": "seti_1"}), None),
        (json!({}), None),
    ] {
        let mut session = session;
        session["id"] = json!("cs_1");

        let found: CheckoutSession = read(&session);

        assert_eq!(found.payment_method().map(ExpandableObject::id), card, "{session}");
    }
}

#[test]
fn what_was_bought_is_given_only_when_it_is_paid_or_free() {
    for (word, is_paid) in
        [("paid", true), ("no_payment_required", true), ("unpaid", false), ("new word", false)]
    {
        let session: CheckoutSession = read(&json!({"id": "cs_1", "payment_status": word}));

        assert_eq!(session.is_paid(), is_paid, "{word}");
    }
    let silent: CheckoutSession = read(&json!({"id": "cs_1", "status": "complete"}));
    assert!(!silent.is_paid());
}

#[test]
fn a_payment_names_its_card_or_the_one_that_was_declined_last() {
    let declined = json!({"code": "card_declined", "payment_method": {"id": "pm_2"}});
    for (intent, card) in [
        (json!({"payment_method": "pm_1", "last_payment_error": declined}), Some("pm_1")),
        (json!({"payment_method": null, "last_payment_error": declined}), Some("pm_2")),
        (json!({"last_payment_error": {"code": "x"}}), None),
        (json!({}), None),
    ] {
        let mut intent = intent;
        intent["id"] = json!("pi_1");

        assert_eq!(read::<PaymentIntent>(&intent).payment_method_id(), card, "{intent}");
    }
}

#[test]
fn a_charge_is_refunded_when_nothing_of_it_is_left() {
    for (amount, refunded, is_refunded) in
        [(100, 0, false), (100, 99, false), (100, 100, true), (100, 101, true)]
    {
        let charge: CardCharge =
            read(&json!({"id": "ch_1", "amount": amount, "amount_refunded": refunded}));

        assert_eq!(charge.is_refunded(), is_refunded, "{refunded} of {amount}");
    }
}

#[test]
fn the_period_of_a_subscription_is_that_of_all_its_items_or_its_own() {
    let item = |start: Option<i64>, end: Option<i64>| {
        json!({"id": "si_1", "price": {"id": "price_1"},
            "current_period_start": start, "current_period_end": end})
    };
    for (items, start, end) in [
        (json!([item(Some(10), Some(40)), item(Some(20), Some(30))]), Some(10), Some(40)),
        (json!([item(None, None), item(Some(20), None)]), Some(20), Some(2)),
        (json!([item(None, None)]), Some(1), Some(2)),
        (json!([]), Some(1), Some(2)),
    ] {
        let subscription: ProcessorSubscription = read(&json!({
            "id": "sub_1", "items": {"data": items},
            "current_period_start": 1, "current_period_end": 2,
        }));

        assert_eq!(
            (subscription.period_start(), subscription.period_end()),
            (start, end),
            "{items}"
        );
    }
    let bare: ProcessorSubscription = read(&json!({"id": "sub_1"}));
    assert_eq!((bare.period_start(), bare.period_end(), bare.customer_id()), (None, None, None));
}

#[test]
fn an_item_of_a_subscription_names_its_product_in_either_form() {
    for (product, id) in [
        (json!("prod_1"), Some("prod_1")),
        (json!({"id": "prod_1", "name": "Pro"}), Some("prod_1")),
        (json!(null), None),
    ] {
        let subscription: ProcessorSubscription = read(&json!({"id": "sub_1", "items": {"data": [
            {"id": "si_1", "price": {"id": "price_1", "product": product}}
        ]}}));

        assert_eq!(subscription.items.data[0].product_id(), id, "{product}");
    }
}

#[test]
fn the_coupon_of_a_discount_is_found_in_old_and_new_versions() {
    for (discount, coupon) in [
        (json!({"source": {"type": "coupon", "coupon": "half"}}), Some("half")),
        (
            json!({"coupon": {"id": "half", "percent_off": 50.0, "duration": "forever"}}),
            Some("half"),
        ),
        (json!({"source": {"coupon": {"id": "new"}}, "coupon": "old"}), Some("new")),
        (json!({"source": {"coupon": null}, "coupon": "old"}), Some("old")),
        (json!({}), None),
    ] {
        let mut discount = discount;
        discount["id"] = json!("di_1");

        assert_eq!(read::<AppliedDiscount>(&discount).coupon_id(), coupon, "{discount}");
    }
}

#[test]
fn a_feature_of_the_portal_that_is_not_named_is_off() {
    let bare: PortalConfiguration = read(&json!({"id": "bpc_1", "features": null}));
    let full: PortalConfiguration = read(&json!({"id": "bpc_1", "active": true, "features": {
        "subscription_cancel": {"enabled": true, "mode": "at_period_end"},
        "subscription_update": {"enabled": null},
    }}));

    assert!(!bare.active && !bare.features.subscription_cancel.enabled);
    assert!(full.active && full.features.subscription_cancel.enabled);
    assert_eq!(full.features.subscription_cancel.mode, "at_period_end");
    assert!(!full.features.subscription_update.enabled);
}

#[test]
fn an_endpoint_shows_its_secret_only_where_the_processor_does() {
    let made: WebhookEndpoint =
        read(&json!({"id": "we_1", "secret": "whsec_1", "status": "enabled",
        "enabled_events": ["*"], "api_version": null}));
    let listed: WebhookEndpoint = read(&json!({"id": "we_1", "enabled_events": null}));

    assert_eq!((made.secret.as_deref(), made.api_version), (Some("whsec_1"), None));
    assert_eq!(made.enabled_events, ["*"]);
    assert_eq!((listed.secret, listed.enabled_events.len()), (None, 0));
}
