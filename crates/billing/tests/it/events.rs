//! The webhook: which events are accepted, and that an event that does not fit changes nothing.

use serde_json::{Value, json};
use test_service::processor::{PACK_CREDITS, balance};
use test_service::{TestApp, with_app};

fn event(id: &str, kind: &str, object: &Value) -> Vec<u8> {
    let event = json!({
        "id": id, "object": "event", "type": kind, "created": 1, "livemode": false,
        "api_version": "2026-03-25.dahlia", "data": {"object": object},
    });
    serde_json::to_vec(&event).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_recent_events_signed_by_the_processor_are_accepted() {
    let app = TestApp::on_sqlite("").await;
    let body = event(
        "evt_1",
        "payment_intent.succeeded",
        &json!({"id": "pi_1", "object": "payment_intent"}),
    );
    let good = app.signature(&body, 0);
    let spaced = String::from_utf8(body.clone()).unwrap().replace(':', ": ").into_bytes();
    let wrong = [
        (String::new(), body.clone()),
        ("nothing".to_owned(), body.clone()),
        (good.replace("v1=", "v0="), body.clone()),
        (good[..good.len() - 2].to_owned(), body.clone()),
        (good.clone(), spaced),
        (good.clone(), b"{}".to_vec()),
        (app.signature(&body, -301), body.clone()),
        (app.signature(&body, 301), body.clone()),
    ];

    for (signature, sent) in wrong {
        let reply = app.post_event(&signature, &sent).await;
        assert_eq!(reply.failure(), (400, "unsigned_event".to_owned()), "{signature}");
    }
    let unsigned = app.anonymous().post("/v1/billing/webhook", &json!({})).await;
    let twice = app.anonymous().with("stripe-signature", &good).with("stripe-signature", &good);
    let twice = twice.send("POST", "/v1/billing/webhook", Some(body.clone())).await;
    assert_eq!(unsigned.failure(), (400, "unsigned_event".to_owned()));
    assert_eq!(twice.failure(), (400, "unsigned_event".to_owned()));
    for accepted in [app.signature(&body, -299), app.signature(&body, 299), good] {
        assert_eq!(app.post_event(&accepted, &body).await.status, 200);
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_body_that_is_no_event_is_refused_and_an_unknown_event_accepted() {
    let app = TestApp::on_sqlite("").await;
    let thin = br#"{"id":"evt_1","object":"v2.core.event","type":"v1.billing.meter.error"}"#;
    let long = event("evt_2", "x", &json!({"id": "x".repeat(256 * 1_024)}));

    let shape = "the body is not an event: it must be an object with `id`, `object`, `type` and `data.object`";
    let bodies = [
        (&b"[]"[..], shape),
        (b"null", shape),
        (b"\"evt_1\"", shape),
        (b"{}", shape),
        (br#"{"object": 7}"#, shape),
        (br#"{"object": "event"}"#, shape),
        (br#"{"object": "event", "id": [], "type": "x", "data": {"object": {}}}"#, shape),
        (br#"{"object": "list"}"#, "the body is an event of the kind `list`, not `event`"),
        (b"not json", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
    ];
    for (body, says) in bodies {
        let reply = app.post_event(&app.signature(body, 0), body).await;
        assert_eq!(reply.failure(), (400, "unsigned_event".to_owned()));
        let detail = format!("the event is not accepted: {says}");
        assert_eq!(reply.json()["detail"], detail, "{}", String::from_utf8_lossy(body));
    }
    let of_thin = app.post_event(&app.signature(thin, 0), thin).await;
    assert_eq!(of_thin.failure(), (400, "thin_event".to_owned()));
    assert!(of_thin.text().contains("snapshot"), "{}", of_thin.text());
    let unsigned = app.post_event(&app.signature(b"{}", 0), thin).await;
    assert_eq!(unsigned.failure(), (400, "unsigned_event".to_owned()));
    let too_long = app.post_event(&app.signature(&long, 0), &long).await;
    assert_eq!(too_long.failure(), (413, "body_too_large".to_owned()));
    let unknown = event("evt_3", "payout.paid", &json!({"id": "po_1"}));
    let taken = app.post_event(&app.signature(&unknown, 0), &unknown).await;
    assert_eq!(taken.status, 200, "{}", taken.text());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_with_ids_that_are_too_long_is_refused() {
    with_app(async |app| {
        let kind = "payout.paid";
        let (longest, longer) = ("e".repeat(255), "e".repeat(256));
        let object = |id: &str| json!({"id": id});
        let cases = [
            (event(&longest, kind, &object(&longest)), None),
            (event(&longer, kind, &object("x")), Some("`id`")),
            (event("", kind, &object("x")), Some("`id`")),
            (event("evt\u{0}", kind, &object("x")), Some("`id`")),
            (event("evt_1", &longer, &object("x")), Some("`type`")),
            (event("evt_1", kind, &object(&longer)), Some("`data.object.id`")),
            (
                event("evt_1", kind, &json!({"id": "x", "customer": longer})),
                Some("`data.object.customer`"),
            ),
        ];

        for (body, field) in cases {
            let reply = app.post_event(&app.signature(&body, 0), &body).await;
            let Some(field) = field else {
                assert_eq!(reply.status, 200, "{}", reply.text());
                continue;
            };
            assert_eq!(reply.failure(), (400, "unsigned_event".to_owned()));
            assert!(reply.text().contains(field), "{field}: {}", reply.text());
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_the_other_mode_and_a_made_up_payment_grant_nothing() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        let intent = json!({
            "id": "pi_made_up", "object": "payment_intent", "status": "succeeded", "amount_received": 1_000,
            "currency": "usd", "metadata": {"order_id": begun.order},
        });
        let made_up = event("evt_1", "payment_intent.succeeded", &intent);
        let live = String::from_utf8(made_up.clone()).unwrap();
        let live = live.replace("\"livemode\":false", "\"livemode\":true").into_bytes();

        for body in [made_up, live] {
            let reply = app.post_event(&app.signature(&body, 0), &body).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        }

        assert_eq!(balance(&client).await, 0);
        let unmatched = store::unmatched::list(app.store(), 10).await.unwrap();
        assert_eq!(unmatched.len(), 1, "{unmatched:?}");
        assert_eq!(unmatched[0].reason, domain::payment::Mismatch::OtherMode);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_of_another_customer_or_amount_is_recorded_and_grants_nothing() {
    with_app(async |app| {
        let (_, client) = app.with_card("4242424242424242").await;
        let (_, other) = app.with_card("4242424242424242").await;
        let begun = app.begin_checkout(&client).await;
        app.deliver().await;
        let orders = app.at_processor("GET", "customers?limit=10", "").await;
        let customers = orders["data"].as_array().unwrap();
        // Newest first: the second customer, then the first.
        let names = |index: usize| customers[index]["id"].as_str().unwrap().to_owned();
        let (stranger, owner) = (names(0), names(1));

        for (payer, cents, currency) in
            [(&stranger, 1_000, "usd"), (&owner, 999, "usd"), (&owner, 1_000, "eur")]
        {
            let form = format!(
                "amount={cents}&currency={currency}&customer={payer}&payment_method=pm_card_visa\
                 &payment_method_types[]=card&confirm=true&metadata[order_id]={}",
                begun.order
            );
            app.at_processor("POST", "payment_intents", &form).await;
        }
        app.deliver().await;

        assert_eq!(balance(&client).await, PACK_CREDITS);
        assert_eq!(balance(&other).await, PACK_CREDITS);
        let unmatched = store::unmatched::list(app.store(), 10).await.unwrap();
        let mut reasons: Vec<&str> = unmatched.iter().map(|one| one.reason.as_str()).collect();
        reasons.sort_unstable();
        assert_eq!(reasons, ["other_amount", "other_currency", "other_customer"]);
        // The page itself can still be paid.
        app.pay_page(&begun.session, "4242424242424242").await;
        app.deliver().await;
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_cannot_be_processed_is_accepted_and_processed_later() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        let intent = app.pay_page(&begun.session, "4242424242424242").await;
        let broken = json!({"kind": "error_before", "method": "GET", "times": 1_000});
        app.processor_fault(&broken).await;

        for (id, _) in app.events_about(&[&intent, &begun.session]).await {
            assert_eq!(app.send_event(&id, 2).await, [200, 200]);
        }
        assert_eq!(balance(&client).await, 0);
        app.mend_processor().await;
        app.clock.advance_seconds(30);
        app.run_jobs().await;

        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_an_older_version_are_understood() {
    with_app(async |app| {
        app.event_version("2025-02-24.acacia").await;
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        let intent = app.pay_page(&begun.session, "4242424242424242").await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);

        app.refund(&intent, 1_000).await;
        app.deliver().await;

        assert_eq!(balance(&client).await, 0);
        app
    })
    .await;
}
