//! Webhook endpoints and events: what is sent where, in which version, and how events are found.

use serde_json::{Value, json};
use simulator_processor::ProcessorSettings;

use crate::checks::{NOW_S, assert_fields, assert_refused, count, ids, missing};
use crate::kit::{Endpoint, Shop, id, nothing};

/// A shop whose events wait until a test sends them to the endpoint.
fn held(endpoint: &Endpoint) -> Shop {
    let settings = ProcessorSettings { events_held: true, ..ProcessorSettings::default() };
    let shop = Shop::with(settings);
    shop.processor.set_webhook(&endpoint.url);
    shop
}

fn types(endpoint: &Endpoint) -> Vec<Value> {
    endpoint.bodies().iter().map(|event| event["type"].clone()).collect()
}

#[tokio::test]
async fn an_endpoint_shows_its_secret_only_when_it_is_created() {
    let shop = Shop::open();
    let form = "url=https://a.example/hook&enabled_events[]=refund.failed&enabled_events[]=invoice.paid\
                &api_version=2025-03-31.basil&description=Mine&metadata[a]=b";

    let made = shop.done("webhook_endpoints", form).await;
    let path = format!("webhook_endpoints/{}", id(&made));
    let read = shop.read(&path).await;

    assert_fields(
        &made,
        &json!({
            "object": "webhook_endpoint", "url": "https://a.example/hook", "status": "enabled",
            "enabled_events": ["refund.failed", "invoice.paid"], "api_version": "2025-03-31.basil",
            "description": "Mine", "metadata": {"a": "b"}, "livemode": false, "created": NOW_S,
        }),
    );
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    assert!(read.get("secret").is_none(), "{read}");
    assert!(shop.read("webhook_endpoints").await["data"][0].get("secret").is_none());
    shop.close().await;
}

#[tokio::test]
async fn a_deleted_endpoint_is_gone_and_gets_no_events() {
    let endpoint = Endpoint::open().await;
    let shop = held(&endpoint);
    let form = "url=https://a.example/hook&enabled_events[]=*";
    let path = format!("webhook_endpoints/{}", id(&shop.done("webhook_endpoints", form).await));

    let deleted = shop.delete(&path).await;
    assert_eq!((deleted.status, &deleted.json()["deleted"]), (200, &json!(true)));
    assert_eq!(shop.get(&path).await.status, 404);
    assert_eq!(shop.delete(&path).await.status, 404);

    // The one to which events are really sent
    let list = shop.read("webhook_endpoints").await;
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
    shop.delete(&format!("webhook_endpoints/{}", id(&list["data"][0]))).await;
    shop.done("customers", "email=a@example.com").await;
    shop.control("deliver", &json!({})).await;
    assert_eq!(types(&endpoint), [""; 0]);
    shop.close().await;
}

#[tokio::test]
async fn an_endpoint_is_changed_and_switched_off() {
    let shop = Shop::open();
    let form = "url=https://a.example/hook&enabled_events[]=*";
    let path = format!("webhook_endpoints/{}", id(&shop.done("webhook_endpoints", form).await));

    let change =
        "url=https://b.example/&enabled_events[]=invoice.paid&disabled=true&description=New";
    let changed = shop.done(&path, change).await;
    let back = shop.done(&path, "disabled=false&metadata[a]=b").await;

    assert_fields(
        &changed,
        &json!({
            "url": "https://b.example/", "enabled_events": ["invoice.paid"], "status": "disabled",
            "description": "New",
        }),
    );
    assert_fields(&back, &json!({"status": "enabled", "metadata": {"a": "b"}}));
    assert_refused(
        &shop,
        &path,
        &[
            ("url=b.example", "url_invalid", "url"),
            ("enabled_events[]=nonsense", "", "enabled_events"),
            ("disabled=maybe", "", "disabled"),
            ("api_version=2025-03-31.basil", "parameter_unknown", "api_version"),
        ],
    )
    .await;
    missing(&shop, "webhook_endpoints/we_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn invalid_endpoints_are_refused_and_there_are_sixteen_at_most() {
    let shop = Shop::open();
    let url = "url=https://a.example/hook";
    assert_refused(
        &shop,
        "webhook_endpoints",
        &[
            ("enabled_events[]=*", "parameter_missing", "url"),
            ("url=ftp://a.example&enabled_events[]=*", "url_invalid", "url"),
            (url, "", "enabled_events"),
            (&format!("{url}&enabled_events[]=charge"), "", "enabled_events"),
            (&format!("{url}&enabled_events[]=unicorn.born"), "", "enabled_events"),
            (&format!("{url}&enabled_events[]=charge.PAID"), "", "enabled_events"),
            (&format!("{url}&enabled_events[]=*&api_version=1999"), "", "api_version"),
        ],
    )
    .await;
    for _ in 0..16 {
        shop.done("webhook_endpoints", &format!("{url}&enabled_events[]=*")).await;
    }
    let form = format!("{url}&enabled_events[]=*");
    let error = shop.refused("webhook_endpoints", &form, 400).await;
    assert!(error["message"].as_str().unwrap().contains("maximum of 16"), "{error}");
    assert_eq!(count(&shop, "webhook_endpoints?limit=100").await, 16);
    shop.close().await;
}

#[tokio::test]
async fn the_own_endpoint_decides_which_events_are_sent() {
    let endpoint = Endpoint::open().await;
    let shop = held(&endpoint);
    let own = "webhook_endpoints/we_simulated";
    assert_eq!(shop.read(own).await["url"], endpoint.url.as_str());

    shop.done(own, "enabled_events[]=customer.created").await;
    let customer = id(&shop.done("customers", "").await);
    shop.done(&format!("customers/{customer}"), "name=Ada").await;
    shop.control("deliver", &nothing()).await;
    let some = types(&endpoint);
    shop.done(own, "disabled=true").await;
    shop.done("customers", "").await;
    shop.control("deliver", &nothing()).await;
    let none = types(&endpoint).len();
    shop.done(own, "disabled=false").await;
    shop.done("customers", "").await;
    shop.control("deliver", &nothing()).await;

    assert_eq!(some, ["customer.created"]);
    assert_eq!((none, types(&endpoint).len()), (1, 2));
    assert_eq!(shop.events().await.len(), 4, "all events are recorded all the same");
    shop.close().await;
}

#[tokio::test]
async fn an_event_is_sent_in_the_version_of_its_endpoint() {
    let endpoint = Endpoint::open().await;
    let shop = held(&endpoint);
    let plan = crate::subscriptions::price(&shop, "Studio", 4900).await;
    crate::subscriptions::subscribed(&shop, &plan).await;
    let listed = shop.read("events?type=customer.subscription.created").await;
    let event = id(&listed["data"][0]);

    for version in ["2026-03-25.dahlia", "2025-02-24.acacia"] {
        shop.control("webhook", &json!({"api_version": version})).await;
        shop.control("deliver", &json!({"events": [event]})).await;
        let sent = endpoint.bodies().pop().unwrap();
        let object = &sent["data"]["object"];
        let is_old = version.contains("acacia");
        assert_eq!(sent["api_version"], version);
        assert_eq!(object.get("current_period_end").is_some(), is_old, "{object}");
        let item = &object["items"]["data"][0];
        assert_eq!(item.get("current_period_end").is_some(), !is_old, "{item}");
    }
    let unknown = shop.controlled("webhook", &json!({"api_version": "1999"})).await;
    assert_eq!((unknown.status, &unknown.json()["field"]), (400, &json!("api_version")));
    let url = shop.controlled("webhook", &json!({"url": "https://a.example"})).await;
    assert_eq!((url.status, &url.json()["field"]), (400, &json!("url")));
    shop.close().await;
}

#[tokio::test]
async fn an_event_names_the_request_that_caused_it() {
    let shop = Shop::open();

    let reply = shop.post_with("customers", "", "Idempotency-Key: cus:1\r\n").await;
    let by_request = shop.read("events").await["data"][0].clone();
    let session = "mode=payment&success_url=https://a.example/&line_items[0][quantity]=1\
         &line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]=1000\
         &line_items[0][price_data][product_data][name]=Pack";
    shop.done("checkout/sessions", session).await;
    shop.control("clock", &json!({"advance_days": 1})).await;
    let by_time = shop.read("events").await["data"][0].clone();

    assert_fields(
        &by_request,
        &json!({
            "object": "event", "type": "customer.created", "created": NOW_S, "livemode": false,
            "request.id": reply.header("request-id"), "request.idempotency_key": "cus:1",
            "pending_webhooks": 0,
        }),
    );
    assert!(id(&by_request).starts_with("evt_"), "{by_request}");
    assert_fields(
        &by_time,
        &json!({
            "type": "checkout.session.expired", "request.id": null,
            "request.idempotency_key": null, "created": NOW_S + 86_400,
        }),
    );
    missing(&shop, "events/evt_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn events_are_found_by_their_types() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    shop.done("products", "name=Pack").await;
    let all = shop.events().await;
    assert_eq!(
        all,
        ["customer.created", "payment_method.attached", "customer.updated", "product.created"]
    );
    for (query, wanted) in [
        ("type=customer.created", 1),
        ("type=customer.*", 2),
        ("type=*", 4),
        ("type=invoice.paid", 0),
        ("types[]=product.created&types[]=payment_method.attached", 2),
        ("type=customer.*&types[]=customer.updated", 1),
        ("delivery_success=false", 0),
        ("created[gt]=1795262400", 0),
        ("created=1795262400", 4),
    ] {
        assert_eq!(count(&shop, &format!("events?{query}")).await, wanted, "{query}");
    }
    let updated = shop.read("events?type=customer.updated").await;
    assert_eq!(updated["data"][0]["data"]["object"]["id"], customer.as_str());
    let listed = ids(&shop, "events").await;
    let first = shop.read(&format!("events/{}", listed[3])).await;
    assert_eq!(first["type"], "customer.created", "newest first");
    shop.close().await;
}

#[tokio::test]
async fn an_event_that_was_not_accepted_waits_and_one_that_was_does_not() {
    let endpoint = Endpoint::open().await;
    let shop = held(&endpoint);
    shop.done("customers", "name=first").await;
    shop.done("customers", "name=second").await;
    endpoint.answers.lock().unwrap().extend([200, 503]);

    let sent = shop.control("deliver", &nothing()).await;
    let waiting = shop.read("events?delivery_success=false").await;
    let later = shop.control("deliver", &nothing()).await;

    let statuses = |round: &Value| -> Vec<Value> {
        round["sent"].as_array().unwrap().iter().map(|one| one["status"].clone()).collect()
    };
    assert_eq!((statuses(&sent), &sent["waiting"]), (vec![json!(503), json!(200)], &json!(1)));
    assert_eq!(waiting["data"].as_array().unwrap().len(), 1);
    assert_eq!(waiting["data"][0]["data"]["object"]["name"], "first");
    assert_eq!((statuses(&later), &later["waiting"]), (vec![json!(200)], &json!(0)));
    assert_eq!(count(&shop, "events?delivery_success=false").await, 0);
    shop.close().await;
}

#[tokio::test]
async fn nothing_is_sent_without_a_destination() {
    let shop = Shop::open();
    shop.done("customers", "").await;
    let event = ids(&shop, "events").await[0].clone();

    let all = shop.control("deliver", &nothing()).await;
    let one = shop.controlled(&format!("events/{event}/send"), &nothing()).await;
    let named = shop.controlled("deliver", &json!({"events": [event]})).await;
    let unknown = shop.controlled("events/evt_none/send", &nothing()).await;

    assert_eq!(all, json!({"sent": [], "waiting": 0}));
    assert_eq!((one.status, &one.json()["field"]), (400, &json!("url")));
    assert_eq!((named.status, &named.json()["field"]), (400, &json!("url")));
    assert_eq!(unknown.status, 404);
    shop.close().await;
}
