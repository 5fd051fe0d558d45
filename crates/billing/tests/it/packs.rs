//! Packs: bought on the checkout page or with one click.

use serde_json::{Value, json};
use test_service::processor::{PACK, PACK_CENTS, PACK_CREDITS, balance, bookings};
use test_service::{Reply, TestApp, at_once, with_app};

const NO_CHARGE: &str = "payment_intents";

fn pack() -> Value {
    json!({"pack_id": PACK})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_paid_on_the_page_is_granted_when_its_event_arrives() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, 0);

        app.pay_page(&begun.session, "4242424242424242").await;
        assert_eq!(balance(&client).await, 0);
        app.deliver().await;

        assert_eq!(balance(&client).await, PACK_CREDITS);
        assert_eq!(bookings(&client).await, [("pack".to_owned(), PACK_CREDITS)]);
        let orders = client.get("/v1/billing/orders").await.json();
        assert_eq!(orders["next_before"], Value::Null);
        let order = &orders["orders"][0];
        assert_eq!(
            (&order["order_id"], &order["pack_id"], &order["credits"], &order["amount_cents"]),
            (&json!(begun.order), &json!(PACK), &json!(PACK_CREDITS), &json!(PACK_CENTS))
        );
        assert_eq!((&order["status"], &order["currency"]), (&json!("paid"), &json!("usd")));
        // The card that paid is saved.
        let card = client.get("/v1/billing/card").await.json();
        assert_eq!(
            (&card["card"]["brand"], &card["card"]["last4"]),
            (&json!("visa"), &json!("4242"))
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_processor_nothing_is_sold_but_everything_can_be_read() {
    let app = TestApp::on_sqlite("[processor]\nbase_url = \"\"").await;
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);

    let plans = client.get("/v1/billing/plans").await.json();
    let orders = client.get("/v1/billing/orders").await;
    let card = client.get("/v1/billing/card").await.json();

    assert_eq!(plans["processor_configured"], false);
    assert_eq!(
        plans["packs"][0],
        json!({
            "pack_id": PACK, "name": "5,000 credits", "price_cents": PACK_CENTS, "price_usd": 10.0,
            "currency": "usd", "credits": PACK_CREDITS, "available": true,
        })
    );
    assert_eq!(orders.json(), json!({"orders": [], "next_before": null}));
    assert_eq!((&card["card"], &card["processor_configured"]), (&Value::Null, &json!(false)));
    for (path, body) in [
        ("/v1/billing/checkout", pack()),
        ("/v1/billing/charge", pack()),
        ("/v1/billing/confirm-charge", json!({"pi_id": "pi_1"})),
        ("/v1/billing/sync-card", json!({})),
        ("/v1/billing/webhook", json!({})),
    ] {
        let reply = client.post(path, &body).await;
        assert_eq!(reply.failure(), (503, "payments_not_configured".to_owned()), "{path}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_configured_packs_are_sold_at_their_price_with_the_operators_pages() {
    let app = TestApp::on_sqlite("").await;
    let (_, client) = app.with_card("4242424242424242").await;

    for path in ["/v1/billing/checkout", "/v1/billing/charge"] {
        let unknown = client.post(path, &json!({"pack_id": "pack_1"})).await;
        assert_eq!(unknown.failure(), (404, "not_found".to_owned()));
        for (field, value) in [
            ("price_cents", json!(1)),
            ("amount", json!(-1)),
            ("quantity", json!(1_000_000_000)),
            ("success_url", json!("//evil.example")),
            ("cancel_url", json!("https:evil.example")),
            ("return_url", json!("javascript:alert(1)")),
        ] {
            let mut body = pack();
            body[field] = value;
            let reply = client.post(path, &body).await;
            let named = (format!("body.{field}"), "unknown_field".to_owned());
            assert_eq!(reply.wrong_fields(), [named], "{path} {field}");
        }
    }

    let pages = app.asked("POST", "checkout/sessions").await;
    assert_eq!(pages.len(), 1);
    let success = pages[0]["params"]["success_url"].as_str().unwrap();
    let own = &app.config().http.public_base_url;
    assert_eq!(success, format!("{own}/console/billing/return?session_id={{CHECKOUT_SESSION_ID}}"));
    let cancel = pages[0]["params"]["cancel_url"].as_str().unwrap();
    assert_eq!(cancel, format!("{own}/console/billing/return?cancelled=true"));
    assert_eq!(app.asked("POST", NO_CHARGE).await.len(), 0);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_one_click_charge_grants_immediately() {
    with_app(async |app| {
        let (_, client) = app.with_card("4242424242424242").await;
        assert_eq!(balance(&client).await, PACK_CREDITS);

        let reply = client.post("/v1/billing/charge", &pack()).await;

        let twice = 2 * PACK_CREDITS;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let paid = reply.json();
        let order = client.get("/v1/billing/orders?limit=1").await.json()["orders"][0].clone();
        let expected = json!({
            "status": "paid", "ok": true, "credits": PACK_CREDITS, "balance": twice, "order_id": order["order_id"],
        });
        assert_eq!(paid, expected);
        app.deliver().await;
        assert_eq!(balance(&client).await, twice);
        let orders = client.get("/v1/billing/orders?limit=1").await.json();
        assert_eq!(orders["orders"][0]["channel"], "charge");
        let next = orders["next_before"].as_str().unwrap();
        let rest = client.get(&format!("/v1/billing/orders?before={next}")).await.json();
        assert_eq!(rest["orders"][0]["channel"], "checkout");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_that_requires_authentication_is_granted_only_after_it() {
    with_app(async |app| {
        let (_, client) = app.with_card("4000002760003184").await;

        let asked = client.post("/v1/billing/charge", &pack()).await.json();
        assert_eq!(asked["requires_action"], true, "{asked}");
        let intent = asked["pi_id"].as_str().unwrap();
        assert!(asked["client_secret"].as_str().unwrap().starts_with(&format!("{intent}_secret_")));
        let confirm = json!({"pi_id": intent});
        let early = client.post("/v1/billing/confirm-charge", &confirm).await.json();
        assert_eq!(early["requires_action"], true, "{early}");
        // A repeated request continues the same payment.
        let again = client.post("/v1/billing/charge", &pack()).await.json();
        assert_eq!(again["pi_id"], intent);
        assert_eq!(balance(&client).await, PACK_CREDITS);

        app.authenticate(intent, true).await;
        let confirmed = client.post("/v1/billing/confirm-charge", &confirm).await;
        app.deliver().await;

        let paid = json!({
            "status": "paid", "ok": true, "credits": PACK_CREDITS, "balance": 2 * PACK_CREDITS,
            "order_id": asked["order_id"],
        });
        assert_eq!(confirmed.json(), paid);
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        assert_eq!(app.asked("POST", NO_CHARGE).await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_authentication_and_a_declined_card_cost_nothing() {
    with_app(async |app| {
        let (_, client) = app.with_card("4000002760003184").await;
        let asked = client.post("/v1/billing/charge", &pack()).await.json();
        let intent = asked["pi_id"].as_str().unwrap();
        app.authenticate(intent, false).await;

        let failed = client.post("/v1/billing/confirm-charge", &json!({"pi_id": intent})).await;
        assert_eq!(failed.failure(), (402, "payment_failed".to_owned()), "{}", failed.text());

        let (_, other) = app.with_card("4242424242424242").await;
        app.decline_next("insufficient_funds").await;
        let declined = other.post("/v1/billing/charge", &pack()).await;
        assert_eq!(declined.failure(), (402, "payment_failed".to_owned()));
        assert_eq!(declined.json()["decline_code"], "insufficient_funds", "{}", declined.text());
        app.deliver().await;
        for buyer in [&client, &other] {
            assert_eq!(balance(buyer).await, PACK_CREDITS);
            let orders = buyer.get("/v1/billing/orders").await.json();
            assert_eq!(orders["orders"][0]["status"], "failed", "{orders}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_with_an_unknown_outcome_is_never_made_twice() {
    let database = store::testing::store().await;
    let overrides = "[processor]\ntimeout_ms = 500\nretries_max = 0";
    let app = TestApp::start(database, overrides).await;
    let (_, client) = app.with_card("4242424242424242").await;
    let hang =
        json!({"kind": "hang_after", "method": "POST", "path": "payment_intents", "times": 1});
    app.processor_fault(&hang).await;

    let first = client.post("/v1/billing/charge", &pack()).await;
    assert_eq!(first.failure(), (504, "payment_outcome_unknown".to_owned()));
    let orders = client.get("/v1/billing/orders").await.json();
    assert_eq!(orders["orders"][0]["status"], "pending");
    assert_eq!(balance(&client).await, PACK_CREDITS);
    let second = client.post("/v1/billing/charge", &pack()).await;

    assert_eq!(second.json()["balance"], 2 * PACK_CREDITS, "{}", second.text());
    let asked = app.asked("POST", NO_CHARGE).await;
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["idempotency_key"], asked[1]["idempotency_key"]);
    let intents = app.at_processor("GET", "payment_intents?limit=100", "").await;
    assert_eq!(
        intents["data"].as_array().unwrap().len(),
        2,
        "there must be two payments: the first pack and this one"
    );
    app.deliver().await;
    assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_that_hung_long_ago_is_looked_up_before_a_new_one() {
    for is_made in [true, false] {
        let app = TestApp::on_sqlite("[processor]\ntimeout_ms = 500\nretries_max = 0").await;
        let (_, client) = app.with_card("4242424242424242").await;
        let kind = if is_made { "hang_after" } else { "hang_before" };
        let hang = json!({"kind": kind, "method": "POST", "path": "payment_intents", "times": 1});
        app.processor_fault(&hang).await;
        let first = client.post("/v1/billing/charge", &pack()).await;
        assert_eq!(first.failure(), (504, "payment_outcome_unknown".to_owned()));

        app.clock.advance_seconds(23 * 3_600);
        let later = client.post("/v1/billing/charge", &pack()).await;

        assert_eq!(later.json()["balance"], 2 * PACK_CREDITS, "{}", later.text());
        let asked = app.asked("POST", NO_CHARGE).await.len();
        assert_eq!(asked, if is_made { 1 } else { 2 });
        let orders = client.get("/v1/billing/orders").await.json();
        let states: Vec<&str> = orders["orders"]
            .as_array()
            .unwrap()
            .iter()
            .map(|order| order["status"].as_str().unwrap())
            .collect();
        let expected: &[&str] =
            if is_made { &["paid", "paid"] } else { &["paid", "failed", "paid"] };
        assert_eq!(states, expected);
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_clicks_are_one_charge() {
    with_app(async |app| {
        let (_, client) = app.with_card("4242424242424242").await;
        let clicks = (0..20).map(|_| {
            let client = client.clone();
            async move { client.post("/v1/billing/charge", &pack()).await }
        });

        let replies = at_once(clicks).await;

        let paid = replies.iter().filter(|reply| reply.status == 200).count();
        assert!(paid >= 1, "{:?}", replies.iter().map(Reply::text).collect::<Vec<_>>());
        // Clicks that began after another one was paid are charges of their own; each is granted
        // once.
        let orders = client.get("/v1/billing/orders").await.json();
        let orders = orders["orders"].as_array().unwrap().len();
        let intents = app.at_processor("GET", "payment_intents?limit=100", "").await;
        let intents = intents["data"].as_array().unwrap().len();
        assert_eq!(orders, intents);
        let expected = PACK_CREDITS * i64::try_from(intents).unwrap();
        assert_eq!(balance(&client).await, expected);
        app.deliver().await;
        assert_eq!(balance(&client).await, expected);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_idempotency_key_is_the_same_purchase() {
    with_app(async |app| {
        let (_, client) = app.with_card("4242424242424242").await;
        let keyed = client.with("idempotency-key", "click-1");

        let first = keyed.post("/v1/billing/charge", &pack()).await.json();
        let again = keyed.post("/v1/billing/charge", &pack()).await.json();
        let other = keyed.post("/v1/billing/charge", &json!({"pack_id": "pack_25"})).await;
        let page = client.with("idempotency-key", "page-1");
        let opened = page.post("/v1/billing/checkout", &pack()).await.json();
        let reopened = page.post("/v1/billing/checkout", &pack()).await.json();
        app.pay_page(opened["session_id"].as_str().unwrap(), "4242424242424242").await;
        app.deliver().await;
        let ended = page.post("/v1/billing/checkout", &pack()).await;
        let malformed = client.with("idempotency-key", "a b");

        assert_eq!(first, again);
        assert_eq!(other.failure(), (422, "idempotency_mismatch".to_owned()));
        assert_eq!(opened, reopened);
        assert_eq!(ended.failure(), (410, "gone".to_owned()));
        assert_eq!(
            malformed.post("/v1/billing/charge", &pack()).await.failure(),
            (400, "invalid_idempotency_key".to_owned())
        );
        assert_eq!(app.asked("POST", NO_CHARGE).await.len(), 1);
        assert_eq!(balance(&client).await, 3 * PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_and_checkouts_of_another_customer_are_not_found() {
    with_app(async |app| {
        let (_, owner) = app.with_card("4000002760003184").await;
        let (_, stranger) = app.with_card("4242424242424242").await;
        let asked = owner.post("/v1/billing/charge", &pack()).await.json();
        let begun = app.begin_checkout(&owner).await;
        app.pay_page(&begun.session, "4242424242424242").await;

        for pi in [asked["pi_id"].as_str().unwrap(), "pi_unknown", "../customers", ""] {
            let reply = stranger.post("/v1/billing/confirm-charge", &json!({"pi_id": pi})).await;
            assert_eq!(reply.failure(), (404, "not_found".to_owned()), "{pi}");
        }
        for session in [begun.session.as_str(), "cs_unknown"] {
            let sync = json!({"session_id": session});
            let reply = stranger.post("/v1/billing/sync-card", &sync).await;
            assert_eq!(reply.failure(), (404, "not_found".to_owned()), "{session}");
        }

        assert_eq!(balance(&stranger).await, PACK_CREDITS);
        app.deliver().await;
        assert_eq!(balance(&owner).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpaid_page_expires_with_its_order() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;

        app.at_processor("POST", &format!("checkout/sessions/{}/expire", begun.session), "").await;
        app.deliver().await;

        let orders = client.get("/v1/billing/orders").await.json();
        assert_eq!(orders["orders"][0]["status"], "expired", "{orders}");
        assert_eq!(balance(&client).await, 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_key_cannot_buy() {
    let app = TestApp::on_sqlite("").await;
    let (_, client) = app.with_card("4242424242424242").await;
    let new = json!({"name": "limited", "scope": "full", "monthly_budget_credits": 5});
    let made = client.post("/v1/auth/keys", &new).await.json();
    let limited = app.with_key(made["api_key"].as_str().unwrap());

    let refused = (403, "limited_key".to_owned());
    for path in ["checkout", "charge", "confirm-charge", "sync-card"] {
        let reply = limited.post(&format!("/v1/billing/{path}"), &pack()).await;
        assert_eq!(reply.failure(), refused, "{path}");
    }
    assert_eq!(limited.delete("/v1/billing/card").await.failure(), refused);
    for path in ["/v1/billing/card", "/v1/billing/orders"] {
        assert_eq!(limited.get(path).await.failure(), refused, "{path}");
    }
    assert_eq!(limited.get("/v1/billing/plans").await.status, 200);
    app.end().await;
}
