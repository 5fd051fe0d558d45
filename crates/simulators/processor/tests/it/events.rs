//! Events: signed, retried until they are accepted, repeated or reordered on demand.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use simulator_processor::ProcessorSettings;

use crate::kit::{Endpoint, Shop, id, nothing};

fn open(endpoint: &Endpoint) -> Shop {
    let settings = ProcessorSettings { events_held: true, ..ProcessorSettings::default() };
    let shop = Shop::with(settings);
    shop.processor.set_webhook(&endpoint.url);
    shop
}

#[tokio::test]
async fn an_event_is_signed_over_its_bytes_and_sent_once() {
    let endpoint = Endpoint::open().await;
    let shop = open(&endpoint);
    let customer = shop.done("customers", "email=ada@example.com").await;

    let sent = shop.control("deliver", &nothing()).await;

    assert_eq!(sent["sent"][0]["status"], 200, "{sent}");
    let (head, body) = endpoint.taken.lock().unwrap()[0].clone();
    let signature = head.lines().find_map(|line| line.strip_prefix("Stripe-Signature: ")).unwrap();
    let (t, v1) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    assert_eq!(t, (crate::kit::NOW_MS / 1000).to_string());
    let mut mac = Hmac::<Sha256>::new_from_slice(shop.settings.webhook_secret.as_bytes()).unwrap();
    mac.update(format!("{t}.{body}").as_bytes());
    assert_eq!(v1, hex::encode(mac.finalize().into_bytes()));
    let event = &endpoint.bodies()[0];
    assert_eq!(
        (&event["type"], &event["object"], &event["livemode"]),
        (&json!("customer.created"), &json!("event"), &json!(false))
    );
    assert_eq!(
        (&event["data"]["object"]["id"], &event["api_version"]),
        (&customer["id"], &json!("2026-03-25.dahlia"))
    );
    assert_eq!(shop.control("deliver", &nothing()).await["sent"], json!([]));
    let listed = shop.read(&format!("events/{}", id(event))).await;
    assert_eq!(listed["pending_webhooks"], 0);
    shop.close().await;
}

#[tokio::test]
async fn a_failed_event_is_retried_with_a_new_time() {
    let endpoint = Endpoint::open().await;
    let shop = open(&endpoint);
    endpoint.answers.lock().unwrap().push(500);
    shop.done("customers", "").await;

    let failed = shop.control("deliver", &nothing()).await;
    shop.clock.advance_ms(10_000);
    let pending = shop.read("events?delivery_success=false").await;
    shop.control("deliver", &nothing()).await;

    assert_eq!((&failed["sent"][0]["status"], &failed["waiting"]), (&json!(500), &json!(1)));
    assert_eq!(pending["data"][0]["pending_webhooks"], 1);
    let taken = endpoint.taken.lock().unwrap().clone();
    assert_eq!(taken.len(), 2);
    assert_ne!(taken[0].0, taken[1].0, "another time and another signature");
    assert_eq!(endpoint.bodies()[0]["id"], endpoint.bodies()[1]["id"]);
    shop.close().await;
}

#[tokio::test]
async fn events_can_be_repeated_reordered_and_in_an_older_version() {
    let endpoint = Endpoint::open().await;
    let shop = open(&endpoint);
    shop.control(
        "webhook",
        &json!({"copies": 2, "reversed": true, "enabled_events": ["customer.*"]}),
    )
    .await;
    shop.done("customers", "name=first").await;
    shop.done("customers", "name=second").await;

    shop.control("deliver", &nothing()).await;

    let names: Vec<_> =
        endpoint.bodies().iter().map(|event| event["data"]["object"]["name"].clone()).collect();
    assert_eq!(names, ["second", "second", "first", "first"]);
    let event = id(&endpoint.bodies()[0]);
    let sent = shop
        .control(&format!("events/{event}/send"), &json!({"copies": 10, "signature": "t=1,v1=00"}))
        .await;
    assert_eq!(sent["statuses"].as_array().unwrap().len(), 10);
    assert!(
        endpoint.taken.lock().unwrap().last().unwrap().0.contains("Stripe-Signature: t=1,v1=00")
    );
    shop.close().await;
}

/// Events need no request; they are sent by themselves.
#[tokio::test]
async fn events_are_sent_without_a_request() {
    let endpoint = Endpoint::open().await;
    let shop = Shop::with(ProcessorSettings {
        webhook_url: Some(endpoint.url.clone()),
        ..ProcessorSettings::default()
    });

    shop.done("customers", "").await;
    while endpoint.taken.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }

    assert_eq!(endpoint.bodies()[0]["type"], "customer.created");
    shop.close().await;
}

#[tokio::test]
async fn the_events_of_one_invoice_can_be_sent_in_any_order() {
    let endpoint = Endpoint::open().await;
    let shop = open(&endpoint);
    let plan = crate::subscriptions::price(&shop, "Studio", 4900).await;
    let (_, subscription) = crate::subscriptions::subscribed(&shop, &plan).await;
    crate::subscriptions::subscribed(&shop, &plan).await;
    let invoice = id(&subscription["latest_invoice"]);
    let waiting = shop.control("webhook", &json!({})).await;
    assert_eq!(waiting["held"], true);

    let wanted = json!({"about": [invoice], "reversed": true, "copies": 2});
    let sent = shop.control("deliver", &wanted).await;

    let kinds: Vec<&str> =
        sent["sent"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds.iter().step_by(2).collect::<Vec<_>>(),
        [
            &"invoice.payment_succeeded",
            &"invoice.paid",
            &"invoice_payment.paid",
            &"payment_intent.succeeded",
            &"charge.succeeded",
            &"payment_intent.created",
            &"invoice.finalized",
            &"invoice.created"
        ]
    );
    assert_eq!(kinds.len(), 16, "each twice");
    let about_it = |body: &serde_json::Value| {
        let object = &body["data"]["object"];
        object["id"] == json!(invoice)
            || object["invoice"] == json!(invoice)
            || object["object"] == "charge"
            || object["object"] == "payment_intent"
    };
    assert!(endpoint.bodies().iter().all(about_it));
    assert_eq!(
        shop.control("deliver", &wanted).await["sent"],
        json!([]),
        "they have already been sent"
    );
    // Single events, in this order, also a second time.
    let events = shop.read("events?limit=100").await;
    let named: Vec<String> = events["data"].as_array().unwrap().iter().take(2).map(id).collect();
    for _ in 0..2 {
        let again = shop.control("deliver", &json!({"events": named})).await;
        let ids: Vec<String> = again["sent"].as_array().unwrap().iter().map(id).collect();
        assert_eq!(ids, named);
    }
    for (body, field) in [
        (json!({"events": []}), "events"),
        (json!({"about": [7]}), "about"),
        (json!({"events": ["evt_none"]}), "events"),
    ] {
        let refused = shop.controlled("deliver", &body).await;
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
    }
    shop.close().await;
}

#[tokio::test]
async fn events_are_sent_in_parallel_and_out_of_order_on_demand() {
    let endpoint = Endpoint::open().await;
    let shop = open(&endpoint);
    for _ in 0..12 {
        shop.done("customers", "").await;
    }
    let made = shop.raw("GET /control/processor/events", "", "").await.json();
    let made: Vec<_> =
        made["events"].as_array().unwrap().iter().map(|event| event["id"].clone()).collect();

    let shown = shop.control("webhook", &json!({"parallel": 4})).await;
    let sent = shop.control("deliver", &nothing()).await;

    assert_eq!(shown["parallel"], 4);
    let told: Vec<_> =
        sent["sent"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!((told.len(), endpoint.bodies().len()), (12, 12));
    assert_ne!(told, made);
    assert!(made.iter().all(|event| told.contains(event)));
    assert_eq!(sent["waiting"], 0);
    shop.close().await;
}
