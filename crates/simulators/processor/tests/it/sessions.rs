//! Checkout sessions in each mode: what they take, their limits, and what follows a payment.

use serde_json::{Value, json};

use crate::checks::{
    DAY_S, NOW_S, assert_fields, assert_refused, count, ids, mark, missing, pass, since,
};
use crate::kit::{Shop, id};
use crate::subscriptions::price;

const URL: &str = "success_url=https://shop.example/ok?s={CHECKOUT_SESSION_ID}";

/// A line with a one-time price of a thousand cents.
fn line(place: usize, cents: i64) -> String {
    let below = format!("&line_items[{place}]");
    format!(
        "{below}[quantity]=1{below}[price_data][currency]=usd{below}[price_data][unit_amount]={cents}\
         {below}[price_data][product_data][name]=Pack"
    )
}

fn payment(more: &str) -> String {
    format!("mode=payment&{URL}{}{more}", line(0, 1_000))
}

async fn pay(shop: &Shop, session: &Value, body: Value) -> crate::kit::Reply {
    shop.controlled(&format!("checkout/{}/pay", id(session)), &body).await
}

async fn paid(shop: &Shop, session: &Value) -> Value {
    let reply = pay(shop, session, json!({})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    shop.read(&format!("checkout/sessions/{}", id(session))).await
}

#[tokio::test]
async fn what_a_mode_does_not_take_is_refused_with_its_parameter() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4_900).await;
    let recurring = format!("&line_items[0][quantity]=1&line_items[0][price]={plan}");
    let setup = format!("mode=setup&{URL}");
    let euro = line(1, 500).replace("=usd", "=eur");
    assert_refused(
        &shop,
        "checkout/sessions",
        &[
            (URL, "parameter_missing", "mode"),
            ("mode=payment", "parameter_missing", "success_url"),
            (&format!("mode=gift&{URL}"), "", "mode"),
            ("mode=setup&success_url=shop.example", "url_invalid", "success_url"),
            ("mode=setup&success_url=https:///x", "url_invalid", "success_url"),
            (&format!("{setup}&cancel_url=no"), "url_invalid", "cancel_url"),
            (&format!("mode=payment&{URL}"), "parameter_missing", "line_items"),
            (&format!("mode=subscription&{URL}"), "parameter_missing", "line_items"),
            (&format!("{setup}{}", line(0, 500)), "", "line_items"),
            (&format!("mode=payment&{URL}{recurring}"), "", "line_items"),
            (&format!("mode=subscription&{URL}{}", line(0, 500)), "", "line_items"),
            (&payment(&euro), "", "line_items"),
            (&payment("&subscription_data[metadata][a]=b"), "", "subscription_data"),
            (&payment("&setup_intent_data[metadata][a]=b"), "", "setup_intent_data"),
            (&format!("{setup}&payment_intent_data[metadata][a]=b"), "", "payment_intent_data"),
            (&format!("{setup}&invoice_creation[enabled]=true"), "", "invoice_creation"),
            (
                &format!("{setup}&discounts[0][coupon]=NONE"),
                "resource_missing",
                "discounts[0][coupon]",
            ),
            (&payment("&customer=cus_none"), "resource_missing", "customer"),
            (&payment("&customer_update[name]=auto"), "", "customer_update"),
            (&payment("&payment_method_types[]=cash"), "", "payment_method_types[0]"),
            (&payment("&line_items[0][weight]=1"), "parameter_unknown", "line_items[0][weight]"),
        ],
    )
    .await;
    assert_eq!(count(&shop, "checkout/sessions").await, 0);
    shop.close().await;
}

#[tokio::test]
async fn a_quantity_is_a_whole_number_above_zero() {
    let shop = Shop::open();
    let (quantity, field) = ("line_items[0][quantity]=1", "line_items[0][quantity]");
    let with = |count: &str| payment("").replace(quantity, &format!("{field}={count}"));
    let without = payment("").replace(&format!("{quantity}&"), "");

    assert_refused(
        &shop,
        "checkout/sessions",
        &[
            (&with("0"), "parameter_invalid_integer", field),
            (&with("-1"), "parameter_invalid_integer", field),
            (&with("1000000"), "parameter_invalid_integer", field),
            (&with("some"), "parameter_invalid_integer", field),
            (&without, "parameter_missing", field),
        ],
    )
    .await;
    let three = shop.done("checkout/sessions", &with("3")).await;
    assert_fields(&three, &json!({"amount_subtotal": 3_000, "amount_total": 3_000}));
    shop.close().await;
}

#[tokio::test]
async fn a_session_lives_from_half_an_hour_to_a_day() {
    let shop = Shop::open();
    // The processor allows a minute for the way of the request.
    for (seconds, accepted) in
        [(1_739, false), (1_740, true), (DAY_S + 60, true), (DAY_S + 61, false)]
    {
        let form = payment(&format!("&expires_at={}", NOW_S + seconds));
        let reply = shop.post("checkout/sessions", &form).await;
        assert_eq!(reply.status, if accepted { 200 } else { 400 }, "{seconds}: {}", reply.text);
        if !accepted {
            assert_eq!(reply.json()["error"]["param"], "expires_at", "{seconds}");
        }
    }
    let session = shop.done("checkout/sessions", &payment("")).await;
    assert_eq!(session["expires_at"], NOW_S + DAY_S);
    shop.close().await;
}

#[tokio::test]
async fn a_session_expires_at_its_second_and_takes_its_intent_along() {
    let shop = Shop::open();
    let session = shop.done("checkout/sessions", &payment("")).await;
    let path = format!("checkout/sessions/{}", id(&session));
    let declined = pay(&shop, &session, json!({"card": "pm_card_chargeDeclined"})).await;
    assert_eq!(declined.status, 402);
    let intent = shop.read(&path).await["payment_intent"].as_str().unwrap().to_owned();
    let before = mark(&shop).await;

    pass(&shop, DAY_S - 1);
    assert_eq!(shop.read(&path).await["status"], "open");
    pass(&shop, 1);
    let expired = shop.read(&path).await;

    assert_fields(&expired, &json!({"status": "expired", "payment_status": "unpaid", "url": null}));
    assert_eq!(since(&shop, before).await, ["payment_intent.canceled", "checkout.session.expired"]);
    let canceled = shop.read(&format!("payment_intents/{intent}")).await;
    assert_fields(&canceled, &json!({"status": "canceled", "cancellation_reason": "automatic"}));
    assert_eq!(pay(&shop, &session, json!({})).await.status, 400);
    shop.refused(&format!("{path}/expire"), "", 400).await;
    shop.close().await;
}

#[tokio::test]
async fn the_number_of_lines_is_limited() {
    let shop = Shop::open();
    let lines = |count: usize| -> String { (0..count).map(|place| line(place, 100)).collect() };
    let monthly = |count: usize| -> String {
        let recurring = |place| {
            let price = format!("&line_items[{place}][price_data][recurring][interval]=month");
            line(place, 100) + &price
        };
        (0..count).map(recurring).collect()
    };
    for (mode, form, accepted) in [
        ("payment", lines(100), true),
        ("payment", lines(101), false),
        ("subscription", monthly(20), true),
        ("subscription", monthly(21), false),
    ] {
        let reply = shop.post("checkout/sessions", &format!("mode={mode}&{URL}{form}")).await;
        assert_eq!(reply.status, if accepted { 200 } else { 400 }, "{mode}: {}", reply.text);
        if !accepted {
            assert_eq!(reply.json()["error"]["param"], "line_items", "{mode}");
        }
    }
    let session = ids(&shop, "checkout/sessions?limit=1").await[0].clone();
    let items = format!("checkout/sessions/{session}/line_items");
    let first = shop.read(&items).await;
    assert_eq!((first["data"].as_array().unwrap().len(), &first["has_more"]), (10, &json!(true)));
    let last = id(&first["data"][9]);
    assert_eq!(count(&shop, &format!("{items}?limit=100&starting_after={last}")).await, 10);
    shop.close().await;
}

#[tokio::test]
async fn a_total_below_the_minimum_is_refused_but_nothing_to_pay_is_free() {
    let shop = Shop::open();
    let cents = |cents: i64| format!("mode=payment&{URL}{}", line(0, cents));

    let error = shop.refused("checkout/sessions", &cents(49), 400).await;
    shop.done("checkout/sessions", &cents(50)).await;
    let free = shop.done("checkout/sessions", &cents(0)).await;
    let free = paid(&shop, &free).await;

    assert_eq!(error["code"], "amount_too_small");
    assert_fields(
        &free,
        &json!({
            "status": "complete", "payment_status": "no_payment_required", "payment_intent": null,
        }),
    );
    assert_eq!(shop.events().await, ["checkout.session.completed"]);
    shop.close().await;
}

#[tokio::test]
async fn a_payments_events_come_in_order_and_metadata_is_not_shared() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form = payment(&format!(
        "&customer={customer}&metadata[of]=session&payment_intent_data[metadata][of]=intent\
         &payment_intent_data[setup_future_usage]=off_session&client_reference_id=o1\
         &payment_intent_data[description]=Credits"
    ));
    let session = shop.done("checkout/sessions", &form).await;
    let before = mark(&shop).await;

    let done = paid(&shop, &session).await;

    assert_eq!(
        since(&shop, before).await,
        [
            "payment_intent.created",
            "payment_method.attached",
            "charge.succeeded",
            "payment_intent.succeeded",
            "checkout.session.completed"
        ]
    );
    let intent = done["payment_intent"].as_str().unwrap();
    let intent = shop.read(&format!("payment_intents/{intent}")).await;
    assert_fields(
        &intent,
        &json!({
            "metadata": {"of": "intent"}, "description": "Credits", "customer": customer,
            "amount_received": 1_000,
        }),
    );
    assert_fields(
        &done,
        &json!({"metadata": {"of": "session"}, "client_reference_id": "o1", "url": null}),
    );
    shop.close().await;
}

#[tokio::test]
async fn a_guest_becomes_a_customer_only_if_something_is_kept() {
    let shop = Shop::open();
    let plain = shop.done("checkout/sessions", &payment("&customer_email=g@example.com")).await;
    let keeps = "&customer_email=g@example.com&payment_intent_data[setup_future_usage]=off_session";
    let keeping = shop.done("checkout/sessions", &payment(keeps)).await;

    let plain = paid(&shop, &plain).await;
    let before = mark(&shop).await;
    let keeping = paid(&shop, &keeping).await;

    assert_fields(&plain, &json!({"customer": null, "customer_details.email": "g@example.com"}));
    let customer = keeping["customer"].as_str().unwrap();
    assert_eq!(shop.read(&format!("customers/{customer}")).await["email"], "g@example.com");
    assert_eq!(since(&shop, before).await[0], "customer.created");
    assert_eq!(ids(&shop, "customers").await, [customer]);
    let both = payment(&format!("&customer={customer}&customer_email=g@example.com"));
    shop.refused("checkout/sessions", &both, 400).await;
    shop.close().await;
}

#[tokio::test]
async fn a_setup_session_saves_a_card_that_pays_later() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form = format!("mode=setup&{URL}&customer={customer}&setup_intent_data[metadata][a]=b");
    let before = mark(&shop).await;
    let session = shop.done("checkout/sessions", &form).await;
    let card = json!({"card": "pm_card_authenticationRequiredOnSetup", "authenticate": true});

    let done = pay(&shop, &session, card).await.json();

    assert_fields(&done, &json!({"status": "complete", "payment_status": "no_payment_required"}));
    assert_eq!(
        since(&shop, before).await,
        [
            "setup_intent.created",
            "payment_method.attached",
            "setup_intent.succeeded",
            "checkout.session.completed"
        ]
    );
    let intent = session["setup_intent"].as_str().unwrap();
    let intent = shop.read(&format!("setup_intents/{intent}")).await;
    assert_fields(
        &intent,
        &json!({"status": "succeeded", "customer": customer, "metadata": {"a": "b"}}),
    );
    // The card was authenticated for payments without its owner.
    let method = intent["payment_method"].as_str().unwrap();
    let charge = format!(
        "amount=900&currency=usd&customer={customer}&payment_method={method}&confirm=true\
         &off_session=true"
    );
    assert_eq!(shop.done("payment_intents", &charge).await["status"], "succeeded");
    shop.close().await;
}

#[tokio::test]
async fn a_subscription_session_bills_one_time_lines_once() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4_900).await;
    let form = format!(
        "mode=subscription&{URL}&line_items[0][price]={plan}&line_items[0][quantity]=2{}\
         &subscription_data[metadata][customer_id]=c1&subscription_data[description]=Seats",
        line(1, 700)
    );
    let session = shop.done("checkout/sessions", &form).await;

    let done = paid(&shop, &session).await;
    shop.control("clock", &json!({"advance_months": 1})).await;

    assert_fields(&done, &json!({"payment_status": "paid", "amount_total": 10_500}));
    let path = format!("subscriptions/{}", done["subscription"].as_str().unwrap());
    let subscription = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
    assert_fields(
        &subscription,
        &json!({
            "status": "active", "metadata": {"customer_id": "c1"}, "description": "Seats",
            "items.data.0.quantity": 2, "items.total_count": 1, "latest_invoice.total": 9_800,
        }),
    );
    let first = shop.read(&format!("invoices/{}", done["invoice"].as_str().unwrap())).await;
    assert_fields(&first, &json!({"total": 10_500, "billing_reason": "subscription_create"}));
    let listed = format!("checkout/sessions?subscription={}", id(&subscription));
    assert_eq!(ids(&shop, &listed).await, [id(&session)]);
    shop.close().await;
}

#[tokio::test]
async fn a_trial_is_free_at_first_and_paid_at_its_end() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4_900).await;
    let form =
        format!("mode=subscription&{URL}&line_items[0][price]={plan}&line_items[0][quantity]=1");
    let trial = |days: &str| format!("{form}&subscription_data[trial_period_days]={days}");
    let field = "subscription_data[trial_period_days]";
    assert_refused(
        &shop,
        "checkout/sessions",
        &[(&trial("0"), "", field), (&trial("long"), "parameter_invalid_integer", field)],
    )
    .await;
    let session = shop.done("checkout/sessions", &trial("7")).await;

    let done = paid(&shop, &session).await;
    let path = format!("subscriptions/{}", done["subscription"].as_str().unwrap());
    let during = shop.read(&path).await;
    let charges = count(&shop, "charges").await;
    pass(&shop, 7 * DAY_S);
    let after = shop.read(&path).await;

    assert_fields(&done, &json!({"payment_status": "no_payment_required", "amount_total": 0}));
    assert_fields(
        &during,
        &json!({"status": "trialing", "trial_start": NOW_S, "trial_end": NOW_S + 7 * DAY_S}),
    );
    assert_eq!((charges, &after["status"]), (0, &json!("active")));
    assert_eq!(shop.read("charges").await["data"][0]["amount"], 4_900);
    shop.close().await;
}

#[tokio::test]
async fn a_declined_subscription_leaves_no_trace_and_the_page_open() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4_900).await;
    let customer = id(&shop.done("customers", "").await);
    let form = format!(
        "mode=subscription&{URL}&customer={customer}&line_items[0][price]={plan}\
         &line_items[0][quantity]=1"
    );
    let session = shop.done("checkout/sessions", &form).await;
    let before = mark(&shop).await;

    for card in ["pm_card_chargeDeclined", "pm_card_chargeCustomerFail"] {
        let refused = pay(&shop, &session, json!({"card": card})).await;
        assert_eq!((refused.status, &refused.json()["code"]), (402, &json!("generic_decline")));
    }

    assert_eq!(since(&shop, before).await, [""; 0]);
    assert_eq!(count(&shop, "subscriptions?status=all").await, 0);
    assert_eq!(count(&shop, "invoices").await, 0);
    assert_eq!(count(&shop, &format!("customers/{customer}/payment_methods")).await, 0);
    assert_eq!(paid(&shop, &session).await["status"], "complete");
    shop.close().await;
}

#[tokio::test]
async fn sessions_are_listed_by_what_they_belong_to_and_lead_back_with_their_id() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let open = shop.done("checkout/sessions", &payment("")).await;
    let form = payment(&format!("&customer={customer}")).replace('{', "%7B").replace('}', "%7D");
    let mine = shop.done("checkout/sessions", &form).await;

    let reply = pay(&shop, &mine, json!({})).await.json();

    assert_eq!(reply["redirect"], format!("https://shop.example/ok?s={}", id(&mine)));
    let intent = reply["payment_intent"].as_str().unwrap();
    for (query, wanted) in [
        (format!("customer={customer}"), &mine),
        (format!("payment_intent={intent}"), &mine),
        ("status=complete".to_owned(), &mine),
        ("status=open".to_owned(), &open),
    ] {
        assert_eq!(ids(&shop, &format!("checkout/sessions?{query}")).await, [id(wanted)]);
    }
    let path = format!("checkout/sessions/{}", id(&open));
    let before = mark(&shop).await;
    assert_eq!(shop.done(&format!("{path}/expire"), "").await["status"], "expired");
    assert_eq!(since(&shop, before).await, ["checkout.session.expired"]);
    let complete = format!("checkout/sessions/{}/expire", id(&mine));
    let error = shop.refused(&complete, "", 400).await;
    assert!(error["message"].as_str().unwrap().contains("`complete`"), "{error}");
    missing(&shop, "checkout/sessions/cs_none", 404).await;
    missing(&shop, "checkout/sessions/cs_none/line_items", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn a_page_is_confirmed_only_with_its_amount_and_its_kinds_of_payment() {
    let shop = Shop::open();
    let form = payment("&payment_method_types[]=card");
    let session = shop.done("checkout/sessions", &form).await;
    let path = format!("payment_pages/{}/confirm", id(&session));

    assert_refused(
        &shop,
        &path,
        &[
            ("", "parameter_missing", "payment_method"),
            ("payment_method=pm_usBankAccount_success", "", "payment_method"),
            (
                "payment_method=pm_card_visa&expected_amount=999",
                "checkout_amount_mismatch",
                "expected_amount",
            ),
        ],
    )
    .await;
    let done = shop.done(&path, "payment_method=pm_card_visa&expected_amount=1000").await;
    assert_fields(&done, &json!({"status": "complete", "payment_status": "paid"}));
    shop.refused(&path, "payment_method=pm_card_visa", 400).await;
    assert_eq!(shop.read(&format!("payment_pages/{}", id(&session))).await, done);
    assert_eq!(count(&shop, "charges").await, 1);
    shop.close().await;
}
