//! Passing time: renewals, unpaid invoices, trials, and the end.

use serde_json::{Value, json};
use simulator_kit::SimulatorClock;
use simulator_processor::ProcessorSettings;

use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

async fn invoices(shop: &Shop) -> Vec<Value> {
    shop.read("invoices?limit=100").await["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_month_has_an_invoice_on_the_same_day() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (_, subscription) = subscribed(&shop, &plan).await;

    let moved = shop.control("clock", &json!({"advance_months": 3, "advance_s": 1})).await;

    let all = invoices(&shop).await;
    let reasons: Vec<&Value> = all.iter().map(|invoice| &invoice["billing_reason"]).collect();
    assert_eq!(
        reasons,
        ["subscription_cycle", "subscription_cycle", "subscription_cycle", "subscription_create"]
    );
    assert!(all.iter().all(|invoice| invoice["status"] == "paid"));
    let after = shop.read(&format!("subscriptions/{}", id(&subscription))).await;
    let end = after["items"]["data"][0]["current_period_end"].as_i64().unwrap();
    assert!(end > moved["now"].as_i64().unwrap(), "{after}");
    assert_eq!(after["billing_cycle_anchor"], subscription["billing_cycle_anchor"]);
    let days: Vec<i64> =
        all.iter().map(|invoice| invoice["created"].as_i64().unwrap() % 86_400).collect();
    assert!(days.windows(2).all(|pair| pair[0] == pair[1]), "not all on the same day: {days:?}");
    shop.close().await;
}

#[tokio::test]
async fn unpaid_invoices_are_retried_until_the_subscription_ends() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    let poor = id(&shop
        .done("payment_methods/pm_card_chargeCustomerFail/attach", &format!("customer={customer}"))
        .await);
    shop.done(
        &format!("customers/{customer}"),
        &format!("invoice_settings[default_payment_method]={poor}"),
    )
    .await;

    shop.control("clock", &json!({"advance_months": 1, "advance_s": 1})).await;
    let owed = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
    assert_eq!(
        (
            &owed["status"],
            &owed["latest_invoice"]["status"],
            &owed["latest_invoice"]["attempt_count"]
        ),
        (&json!("past_due"), &json!("open"), &json!(1))
    );
    shop.control("clock", &json!({"advance_days": 4})).await;
    assert_eq!(
        shop.read(&format!("{path}?expand[]=latest_invoice")).await["latest_invoice"]["attempt_count"],
        2
    );
    let events = shop.events().await;
    assert_eq!(events.iter().filter(|kind| *kind == "invoice.payment_failed").count(), 2);

    // With a working card, the next attempt succeeds.
    let good = id(&shop
        .done("payment_methods/pm_card_visa/attach", &format!("customer={customer}"))
        .await);
    shop.done(
        &format!("customers/{customer}"),
        &format!("invoice_settings[default_payment_method]={good}"),
    )
    .await;
    shop.control("clock", &json!({"advance_days": 5})).await;
    assert_eq!(shop.read(&path).await["status"], "active");

    // Without one, the subscription ends.
    shop.done(
        &format!("customers/{customer}"),
        &format!("invoice_settings[default_payment_method]={poor}"),
    )
    .await;
    shop.control("clock", &json!({"advance_months": 1, "advance_days": 17})).await;
    assert_eq!(shop.read(&path).await["status"], "canceled");
    shop.close().await;
}

#[tokio::test]
async fn a_renewal_that_requires_authentication_says_so() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, _) = subscribed(&shop, &plan).await;
    let method = id(&shop
        .done(
            "payment_methods/pm_card_authenticationRequired/attach",
            &format!("customer={customer}"),
        )
        .await);
    shop.done(
        &format!("customers/{customer}"),
        &format!("invoice_settings[default_payment_method]={method}"),
    )
    .await;

    shop.control("clock", &json!({"advance_months": 1, "advance_s": 1})).await;

    assert!(shop.events().await.contains(&"invoice.payment_action_required".to_owned()));
    let open =
        invoices(&shop).await.into_iter().find(|invoice| invoice["status"] == "open").unwrap();
    shop.done(&format!("invoices/{}/void", id(&open)), "").await;
    shop.refused(&format!("invoices/{}/pay", id(&open)), "", 400).await;
    shop.close().await;
}

#[tokio::test]
async fn trials_end_with_the_first_payment_and_cancelled_ones_with_their_period() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, _) = shop.customer("pm_card_visa").await;
    let trial = shop
        .done(
            "subscriptions",
            &format!("customer={customer}&items[0][price]={plan}&trial_period_days=7"),
        )
        .await;
    let path = format!("subscriptions/{}", id(&trial));
    assert_eq!(
        (&trial["status"], invoices(&shop).await[0]["total"].as_i64()),
        (&json!("trialing"), Some(0))
    );

    shop.control("clock", &json!({"advance_days": 7, "advance_s": 1})).await;
    let paid = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
    assert_eq!(
        (&paid["status"], &paid["latest_invoice"]["amount_paid"]),
        (&json!("active"), &json!(4900))
    );

    let ends = shop.done(&path, "cancel_at_period_end=true").await;
    assert_eq!(ends["cancel_at"], ends["items"]["data"][0]["current_period_end"]);
    shop.control("clock", &json!({"advance_months": 1, "advance_s": 1})).await;
    assert_eq!(shop.read(&path).await["status"], "canceled");
    assert_eq!(invoices(&shop).await.len(), 2, "an ended subscription costs nothing");
    shop.close().await;
}

#[tokio::test]
async fn a_missing_first_payment_ends_the_subscription() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, _) = shop.customer("pm_card_chargeCustomerFail").await;
    let form = format!("customer={customer}&items[0][price]={plan}");
    let strict = shop
        .refused("subscriptions", &format!("{form}&payment_behavior=error_if_incomplete"), 402)
        .await;
    assert_eq!(strict["code"], "card_declined");
    assert_eq!(shop.read("subscriptions?status=all").await["data"], json!([]));
    let waiting = shop.done("subscriptions", &format!("{form}&payment_behavior=default_incomplete&expand[]=latest_invoice.confirmation_secret")).await;
    assert_eq!(waiting["status"], "incomplete");
    assert!(
        waiting["latest_invoice"]["confirmation_secret"]["client_secret"].is_string(),
        "{waiting}"
    );

    shop.control("clock", &json!({"advance_days": 1})).await;

    assert_eq!(
        shop.read(&format!("subscriptions/{}", id(&waiting))).await["status"],
        "incomplete_expired"
    );
    shop.close().await;
}

/// With a clock that runs ahead, events are signed with the real time, so that receivers do not
/// take them for old or early ones.
#[tokio::test]
async fn a_clock_that_runs_ahead_does_not_change_the_time_of_signatures() {
    let endpoint = crate::kit::Endpoint::open().await;
    let shop = Shop::with(ProcessorSettings { events_held: true, ..ProcessorSettings::default() });
    shop.processor.set_webhook(&endpoint.url);
    shop.control("clock", &json!({"advance_days": 40})).await;
    let customer = shop.done("customers", "").await;

    shop.control("deliver", &json!({})).await;

    let now_s = crate::kit::NOW_MS / 1_000;
    assert_eq!(customer["created"], now_s + 40 * 86_400);
    assert!(
        endpoint.taken.lock().unwrap()[0].0.contains(&format!("Stripe-Signature: t={now_s},v1="))
    );
    shop.close().await;
}

/// The clock of all simulators also moves the processor and its signatures, because the service's
/// clock is moved along.
#[tokio::test]
async fn one_clock_moves_everything_and_due_work_happens_at_its_second() {
    let endpoint = crate::kit::Endpoint::open().await;
    let settings = ProcessorSettings { events_held: true, ..ProcessorSettings::default() };
    let shop = Shop::with(settings);
    let plan = price(&shop, "Studio", 4900).await;
    let (_, subscription) = subscribed(&shop, &plan).await;
    let end = subscription["items"]["data"][0]["current_period_end"].as_i64().unwrap();
    shop.processor.set_webhook(&endpoint.url);
    let world = |body: Value| {
        let shop = &shop;
        async move { shop.raw("POST /control/clock", "", &body.to_string()).await }
    };

    let before = world(json!({"to": end - 1})).await.json();
    assert_eq!(before, json!({"now": end - 1, "processor_now": end - 1}));
    assert_eq!(invoices(&shop).await.len(), 1);
    shop.clock.move_to_ms((end + 100) * 1_000);
    let renewed = invoices(&shop).await;
    shop.control("deliver", &json!({})).await;

    assert_eq!((renewed.len(), &renewed[0]["created"]), (2, &json!(end)));
    let signed = format!("Stripe-Signature: t={},v1=", end + 100);
    assert!(endpoint.taken.lock().unwrap().iter().all(|(head, _)| head.contains(&signed)));
    for (body, field) in [
        (json!({"to": end}), "to"),
        (json!({"to": "tomorrow"}), "to"),
        (json!({"to": end + 500, "advance_s": 1}), "to"),
        (json!({"advance_s": -1}), "advance_s"),
        (json!({"advance_days": 0.5}), "advance_days"),
    ] {
        let refused = world(body.clone()).await;
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
        let alone = shop.controlled("clock", &body).await;
        assert_eq!((alone.status, &alone.json()["field"]), (400, &json!(field)), "{body}");
    }
    assert_eq!(shop.control("clock", &json!({"to": end + 500})).await["now"], end + 500);
    shop.close().await;
}

#[tokio::test]
async fn moved_clocks_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let started = || Shop::on_folder(folder.path(), SimulatorClock::system());
    let year_s = 365 * 86_400;
    let shop = started();
    let body = json!({"advance_s": year_s}).to_string();
    let moved = shop.raw("POST /control/clock", "", &body).await.json();
    let moved = moved["now"].as_i64().unwrap();
    shop.control("clock", &json!({"advance_s": year_s})).await;
    shop.close().await;

    let again = started();
    let now = again.raw("POST /control/clock", "", "{}").await.json();

    assert!(now["now"].as_i64().unwrap() >= moved, "{now}");
    assert!(now["processor_now"].as_i64().unwrap() >= moved + year_s, "{now}");
    again.raw("POST /control/reset", "", "").await;
    let reset = again.raw("POST /control/clock", "", "{}").await.json();
    assert!(reset["now"].as_i64().unwrap() < moved, "a reset resets the clock: {reset}");
    again.close().await;
}
