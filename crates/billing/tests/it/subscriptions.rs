//! Subscriptions: bought on the processor's page, kept in step with the processor, with credits
//! once a month.

use serde_json::{Value, json};
use test_service::subscriber::{
    BIG_PLAN, GOOD_CARD, PLAN, active, selling, slots_on, subscription_of as state,
};
use test_service::{Client, Reply, TestApp, at_once};

async fn balance(client: &Client) -> i64 {
    client.get("/v1/billing").await.json()["balance"].as_i64().unwrap()
}

/// The ids of the events of these kinds, oldest first.
async fn events(app: &TestApp, kind: &str) -> Vec<String> {
    let shown = app.shown("events").await;
    let all = shown["events"].as_array().unwrap().iter().filter(|event| event["type"] == kind);
    all.map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

async fn send(app: &TestApp, event: &str, copies: u32) {
    let sent = app.control(&format!("events/{event}/send"), json!({"copies": copies})).await;
    let taken = |status: &Value| status == 200;
    assert!(sent["statuses"].as_array().unwrap().iter().all(taken), "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plans_for_sale_are_listed_with_their_prices() {
    selling(async |app| {
        let customer = app.customer(0).await;

        let offer = app.with_key(&customer.key).get("/v1/billing/subscriptions/plans").await.json();

        assert_eq!(offer["processor_configured"], true);
        assert_eq!(offer["bundles"][0]["plan_id"], PLAN);
        assert_eq!(offer["bundles"][1]["platforms"]["platform_alpha"], 4);
        let price = |platform: &str, cents| {
            json!({
                "platform": platform, "price_cents": cents, "currency": "usd", "interval": "month",
                "available": true,
            })
        };
        let prices = json!([price("platform_alpha", 1_000), price("platform_beta", 1_600)]);
        assert_eq!(offer["slot_addon"], prices);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_page_grants_the_plan_its_accounts_and_the_first_credits() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let before = state(&client).await;
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 1}});
        let page = client.post("/v1/billing/subscribe", &choice).await;
        assert_eq!(page.status, 200, "{}", page.text());
        assert_eq!(state(&client).await, before);

        app.pay(&page, GOOD_CARD).await;
        app.deliver().await;

        assert_eq!((&before["status"], &before["plan"]), (&json!("none"), &Value::Null));
        let after = state(&client).await;
        assert_eq!((&after["status"], &after["plan_id"]), (&json!("active"), &json!(PLAN)));
        assert_eq!(after["entitlements"]["platform_alpha"], 4);
        assert_eq!(after["entitlements"]["platform_beta"], 3);
        assert_eq!(after["entitlements"]["platform_delta"], 3);
        assert_eq!(
            (&after["balance"], &after["cancel_at_period_end"]),
            (&json!(1_000), &json!(false))
        );
        let overview = client.get("/v1/billing").await.json();
        assert_eq!(overview["ledger"][0]["kind"], "plan");
        assert_eq!(overview["subscription"], json!({"plan_id": PLAN, "status": "active"}));
        let alpha = slots_on(&client.get("/v1/billing/slots").await.json(), "platform_alpha");
        assert_eq!(
            (&alpha["count"], &alpha["included"], &alpha["limit"]),
            (&json!(1), &json!(2), &json!(4))
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_that_returns_from_the_page_needs_no_event() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.pay(&page, GOOD_CARD).await;

        let back = json!({"session_id": page.json()["session_id"]});
        let reply = client.post("/v1/billing/sync-card", &back).await;

        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(state(&client).await["status"], "active");
        app.deliver().await;
        assert_eq!(balance(&client).await, 1_000);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_has_one_open_page_and_one_subscription() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let subscribe = async |plan: &str| {
            client.post("/v1/billing/subscribe", &json!({"plan_id": plan})).await
        };

        let first = subscribe(PLAN).await.json();
        let again = subscribe(PLAN).await.json();
        let other = subscribe(BIG_PLAN).await;
        let session = first["session_id"].as_str().unwrap();
        let closed = app.at_processor("GET", &format!("checkout/sessions/{session}"), "").await;
        app.pay(&other, GOOD_CARD).await;
        let second = subscribe(PLAN).await;

        assert_eq!(first, again);
        assert_eq!(closed["status"], "expired");
        assert_eq!(second.failure(), (409, "already_subscribed".to_owned()));
        assert_eq!(state(&client).await["plan_id"], BIG_PLAN);
        app.deliver().await;
        app
    })
    .await;
}

/// A page that was returned stays open: choices made concurrently do not close it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_six_concurrent_choices_one_gets_a_page_and_the_others_are_refused() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let earlier = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        assert_eq!(earlier.status, 200, "{}", earlier.text());
        // All six arrive before the first one is decided.
        let slow = json!({
            "kind": "delay", "ms": 2_000, "method": "GET", "path": "subscriptions", "times": 6,
        });
        app.control("switches", slow).await;

        let replies = at_once((1..=6).map(|slots| {
            let client = client.clone();
            let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": slots}});
            async move { client.post("/v1/billing/subscribe", &choice).await }
        }))
        .await;

        let (given, refused): (Vec<_>, Vec<_>) =
            replies.iter().partition(|reply| reply.status == 200);
        assert_eq!(given.len(), 1, "{:?}", replies.iter().map(Reply::text).collect::<Vec<_>>());
        for reply in refused {
            assert_eq!(reply.failure(), (409, "change_in_progress".to_owned()));
            // A retry loop would close the page that was returned.
            assert_eq!(
                (&reply.json()["retryable"], reply.header("retry-after")),
                (&json!(false), "")
            );
        }
        let status = async |reply: &Reply| {
            let session = reply.json()["session_id"].as_str().unwrap().to_owned();
            let page = app.at_processor("GET", &format!("checkout/sessions/{session}"), "").await;
            page["status"].clone()
        };
        assert_eq!(
            (status(given[0]).await, status(&earlier).await),
            (json!("open"), json!("expired"))
        );
        app.mend_processor().await;
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_paid_period_is_granted_once_in_any_order_and_number_of_events() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let first = events(&app, "invoice.paid").await;
        send(&app, &first[0], 10).await;
        assert_eq!(balance(&client).await, 1_000);
        let before = state(&client).await;

        // A change within the period is paid by an invoice that grants no credits.
        let more = json!({"platform": "platform_alpha", "count": 1});
        assert_eq!(client.post("/v1/billing/slots", &more).await.status, 200);
        app.deliver().await;
        assert_eq!(balance(&client).await, 1_000);
        app.control("webhook", json!({"reversed": true, "copies": 3})).await;
        app.months_pass(1).await;

        assert_eq!(balance(&client).await, 2_000);
        let all = events(&app, "invoice.paid").await;
        assert_eq!(all.len(), 3);
        for event in all.iter().rev() {
            send(&app, event, 5).await;
        }
        assert_eq!(balance(&client).await, 2_000);
        let after = state(&client).await;
        assert_eq!(after["status"], "active");
        assert!(after["current_period_end"].as_str() > before["current_period_end"].as_str());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_an_older_version_of_the_interface_are_understood() {
    selling(async |app| {
        app.control("webhook", json!({"api_version": "2025-02-24.acacia"})).await;
        let (_, client) = app.subscriber(GOOD_CARD).await;

        assert_eq!(state(&client).await["status"], "active");
        assert_eq!(balance(&client).await, 1_000);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_that_arrives_after_the_end_restores_nothing() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let more = json!({"platform": "platform_alpha", "count": 2});
        assert_eq!(client.post("/v1/billing/slots", &more).await.status, 200);
        app.deliver().await;
        let updated = events(&app, "customer.subscription.updated").await;
        let created = events(&app, "customer.subscription.created").await;
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        app.at_processor("DELETE", &format!("subscriptions/{id}"), "").await;
        app.deliver().await;

        for event in updated.iter().chain(&created) {
            send(&app, event, 2).await;
        }

        let after = state(&client).await;
        assert_eq!(
            (&after["status"], &after["entitlements"]["platform_alpha"]),
            (&json!("canceled"), &json!(1))
        );
        let more = client.post("/v1/billing/slots", &more).await;
        assert_eq!(more.failure(), (409, "no_subscription".to_owned()));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_it_ends_the_newest_accounts_become_inactive_and_the_customer_is_told() {
    selling(async |app| {
        let (customer, client) = app.subscriber(GOOD_CARD).await;
        for creator in ["zoe", "bob", "cyd"] {
            assert_eq!(app.import(&client, "platform_alpha", creator).await, "active");
        }
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        let form = "cancel_at_period_end=true";
        app.at_processor("POST", &format!("subscriptions/{id}"), form).await;
        app.deliver().await;
        let ending = state(&client).await;
        assert_eq!(
            (&ending["status"], &ending["cancel_at_period_end"]),
            (&json!("active"), &json!(true))
        );
        assert_eq!(active(&client).await.len(), 3);

        app.months_pass(1).await;

        assert_eq!(state(&client).await["status"], "canceled");
        assert_eq!(active(&client).await, ["zoe"]);
        let mails = app.mails_to("customer0@example.com").await;
        assert_eq!(mails.len(), 1, "{mails:?}");
        let text = mails[0]["text"].as_str().unwrap();
        assert!(text.contains("cyd on platform_alpha, bob on platform_alpha"), "{text}");
        let audit = client.get("/v1/audit").await.text();
        assert!(audit.contains("accounts.deactivated"), "{audit}");
        assert_eq!(balance(&client).await, 1_000, "{}", customer.id);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpaid_renewal_is_reported_once_and_stops_further_sales() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        app.import(&client, "platform_alpha", "zoe").await;
        app.import(&client, "platform_alpha", "bob").await;
        app.control("declines", json!({"codes": ["insufficient_funds"]})).await;

        app.months_pass(1).await;
        let failed = events(&app, "invoice.payment_failed").await;
        send(&app, &failed[0], 5).await;

        let after = state(&client).await;
        assert_eq!(
            (&after["status"], &after["entitlements"]["platform_alpha"]),
            (&json!("past_due"), &json!(3))
        );
        assert_eq!((balance(&client).await, active(&client).await.len()), (1_000, 2));
        let more = client
            .post("/v1/billing/slots", &json!({"platform": "platform_alpha", "count": 1}))
            .await;
        assert_eq!(more.failure(), (409, "subscription_past_due".to_owned()));
        let mails = app.mails_to("customer0@example.com").await;
        assert_eq!(mails.len(), 1, "{mails:?}");
        let text = mails[0]["text"].as_str().unwrap();
        assert!(text.contains("29.00 USD"), "{mails:?}");
        let (_, next) = text.split_once("We'll try again on ").unwrap();
        let (time, _) = next.split_once(" UTC.").unwrap();
        assert_eq!(time.len(), "2026-11-29 12:00".len(), "{text}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_portal_changes_neither_plans_nor_quantities() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;

        let first = client.post("/v1/billing/portal", &json!({})).await;
        let second = client.post("/v1/billing/portal", &json!({})).await;

        assert_eq!((first.status, second.status), (200, 200), "{}", first.text());
        assert_ne!(first.json()["url"], second.json()["url"]);
        let path = "billing_portal/configurations?limit=100";
        let made = app.at_processor("GET", path, "").await;
        let own = made["data"].as_array().unwrap().iter();
        let own: Vec<_> =
            own.filter(|found| found["metadata"]["made_by"] == "creator-gateway 1").collect();
        assert_eq!(own.len(), 1, "{made}");
        assert_eq!(own[0]["features"]["subscription_update"]["enabled"], false);
        assert_eq!(own[0]["features"]["subscription_cancel"]["mode"], "at_period_end");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_plan_or_slot_cannot_be_subscribed_to() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let subscribe = async |body: Value| client.post("/v1/billing/subscribe", &body).await;

        let unknown = subscribe(json!({"plan_id": "plan_gold"})).await;
        assert_eq!(unknown.failure(), (404, "not_found".to_owned()));
        for (slots, field) in [
            (json!({"platform_gamma": 1}), "body.slots.platform_gamma"),
            (json!({"platform_alpha": -1}), "body.slots.platform_alpha"),
            (json!({"platform_alpha": 1_000_000_000}), "body.slots.platform_alpha"),
        ] {
            let reply = subscribe(json!({"plan_id": PLAN, "slots": slots})).await;
            assert_eq!(reply.wrong_fields()[0].0, field, "{}", reply.text());
        }
        let priced = subscribe(json!({"plan_id": PLAN, "price_cents": 1})).await;
        assert_eq!(priced.wrong_fields()[0].0, "body.price_cents");
        let plan = client.post("/v1/billing/subscription/plan", &json!({"plan_id": PLAN})).await;
        assert_eq!(plan.failure(), (409, "no_subscription".to_owned()));
        app
    })
    .await;
}
