//! The responses of billing: names, amounts, actors, and everything that the next step needs.
#![expect(
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use serde_json::{Value, json};
use test_service::processor::{PACK, PACK_CREDITS};
use test_service::subscriber::{BIG_PLAN, GOOD_CARD, PLAN, selling, slots_on};
use test_service::{Client, TestApp, with_app};

const AUTOTOPUP: &str = "/v1/billing/autotopup";

fn top_up(switch: &Value) -> Value {
    let mut wish = json!({"threshold_credits": 1, "pack_id": PACK, "daily_cap_usd": 20});
    wish.as_object_mut().unwrap().extend(switch.as_object().unwrap().clone());
    wish
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automatic_top_up_is_turned_on_by_the_field_that_shows_it() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;

        for switch in ["enabled", "enable"] {
            let on = client.post(AUTOTOPUP, &top_up(&json!({switch: true}))).await;
            assert_eq!(on.json()["enabled"], true, "{switch}: {}", on.text());
            assert_eq!(on.json()["daily_cap_cents"], 2_000, "{}", on.text());
            let off = client.post(AUTOTOPUP, &json!({switch: false})).await;
            assert_eq!(off.json()["enabled"], false, "{switch}: {}", off.text());
        }
        let both = top_up(&json!({"enabled": true, "enable": true}));
        assert_eq!(client.post(AUTOTOPUP, &both).await.status, 200);
        let different = top_up(&json!({"enabled": false, "enable": true}));
        let refused = client.post(AUTOTOPUP, &different).await;
        let named = ("body.enable".to_owned(), "not_allowed".to_owned());
        assert_eq!(refused.wrong_fields(), [named]);
        let neither = client.post(AUTOTOPUP, &top_up(&json!({}))).await;
        assert_eq!(
            neither.wrong_fields(),
            [("body.enabled".to_owned(), "missing".to_owned())],
            "{}",
            neither.text()
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_names_its_order_and_all_that_the_next_step_needs() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let newest = async |client: &Client| {
            let orders = client.get("/v1/billing/orders?limit=1").await.json();
            orders["orders"][0]["order_id"].clone()
        };

        let paid = client.post("/v1/billing/charge", &json!({"pack_id": PACK})).await.json();

        assert_eq!(paid["credits"], PACK_CREDITS, "{paid}");
        assert_eq!(paid["order_id"], newest(&client).await);

        let (_, careful) = app.with_card("4000002760003184").await;
        let asked = careful.post("/v1/billing/charge", &json!({"pack_id": PACK})).await.json();
        assert_eq!(asked["requires_action"], true, "{asked}");
        assert_eq!(asked["order_id"], newest(&careful).await);
        assert_eq!(asked["publishable_key"], app.settings.processor.publishable_key);
        assert_eq!(asked["js_url"], app.world.processor_js_url());
        let intent = asked["pi_id"].as_str().unwrap();
        app.authenticate(intent, true).await;
        let confirmed =
            careful.post("/v1/billing/confirm-charge", &json!({"pi_id": intent})).await.json();
        assert_eq!((&confirmed["ok"], &confirmed["order_id"]), (&json!(true), &asked["order_id"]));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_credits_left_are_called_balance_everywhere() {
    selling(|app| async move {
        let (_, client) = app.subscriber(GOOD_CARD).await;

        let billing = client.get("/v1/billing").await.json();
        let subscription = client.get("/v1/billing/subscription").await.json();

        assert_eq!(billing["balance"], 1_000);
        assert_eq!(subscription["balance"], 1_000, "{subscription}");
        assert_eq!(subscription["credit_balance"], 1_000, "kept for one release");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recurring_amounts_have_a_price_a_currency_and_an_interval() {
    selling(|app| async move {
        let (_, client) = app.subscriber(GOOD_CARD).await;

        let plans = client.get("/v1/billing/subscriptions/plans").await.json();
        let slots = client.get("/v1/billing/slots").await.json();

        let money = |record: &Value| {
            (record["price_cents"].clone(), record["currency"].clone(), record["interval"].clone())
        };
        let monthly = |cents: i64| (json!(cents), json!("usd"), json!("month"));
        assert_eq!(money(&plans["bundles"][0]), monthly(2_900));
        assert_eq!(money(&plans["slot_addon"][0]), monthly(1_000));
        assert_eq!(money(&slots_on(&slots, "platform_beta")), monthly(1_600));
        let unsold = (Value::Null, Value::Null, Value::Null);
        assert_eq!(money(&slots_on(&slots, "platform_gamma")), unsold);
        app
    })
    .await;
}

/// A change of plan is not a change of slots, and the actor of an activation is the caller that
/// made room for the account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_list_names_a_change_of_plan_and_the_actor_of_activations() {
    selling(|app| async move {
        let (customer, client) = app.subscriber_of(json!({"plan_id": PLAN}), GOOD_CARD).await;
        for name in ["a", "b", "c", "d"] {
            app.import(&client, "platform_alpha", name).await;
        }
        let audit = async |action: &str| {
            let list = client.get(&format!("/v1/audit?action={action}")).await.json();
            list["entries"].as_array().unwrap().clone()
        };

        let upgraded =
            client.post("/v1/billing/subscription/plan", &json!({"plan_id": BIG_PLAN})).await;

        assert_eq!(upgraded.status, 200, "{}", upgraded.text());
        let actor = json!(customer.key_id);
        let changed = audit("plan.changed").await;
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert_eq!(changed[0]["actor"], actor);
        assert_eq!(changed[0]["details"]["plan_id"], BIG_PLAN, "{changed:?}");
        assert!(audit("slots.changed").await.is_empty());
        let activated = audit("accounts.activated").await;
        assert_eq!(activated[0]["actor"], actor, "{activated:?}");
        let account = json!({"creator_id": "d", "platform": "platform_alpha"});
        assert_eq!(activated[0]["details"], json!({"accounts": [account]}));

        let more = json!({"platform": "platform_alpha", "count": 1});
        assert_eq!(client.post("/v1/billing/slots", &more).await.status, 200);
        let slots = audit("slots.changed").await;
        assert_eq!((slots.len(), &slots[0]["actor"]), (1, &actor), "{slots:?}");
        let item = json!({"platform": "platform_alpha", "count_before": 0, "count_after": 1});
        assert_eq!(slots[0]["details"], json!({"kind": "raise", "items": [item]}));
        app
    })
    .await;
}

/// Whether a retry helps depends on the state of the export.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_will_never_be_ready_is_not_retryable() {
    let app = TestApp::on_sqlite("").await;
    let (_, client, account) = app.ready("platform_alpha", 20).await;
    let wish = json!({"dataset": "subscribers", "max_rows": 1});
    let export = client.post(&format!("/v1/{account}/exports"), &wish).await.json();
    let path = format!("/v1/exports/{}", export["job_id"].as_str().unwrap());
    let download = async || client.get(&format!("{path}/download")).await;

    let pending = download().await;
    client.post(&format!("{path}/cancel"), &json!({})).await;
    let cancelled = download().await;

    for (reply, retryable) in [(pending, true), (cancelled, false)] {
        assert_eq!(reply.failure(), (409, "export_not_ready".to_owned()));
        assert_eq!(reply.json()["retryable"], retryable, "{}", reply.text());
    }
    app.end().await;
}
