//! Automatic top-up with the simulated processor: charged when the balance is low, within its
//! limits, and once.

use serde_json::{Value, json};
use test_service::app::{Customer, TestApp, with_app};
use test_service::client::Client;
use test_service::nodes::on_three_nodes;
use test_service::platform::{Script, Seen};
use test_service::subscriber::GOOD_CARD;

/// A card that always requires authentication.
const CAREFUL_CARD: &str = "4000002760003184";
/// It can be saved, but every charge is declined.
const DECLINING_CARD: &str = "pm_card_chargeCustomerFail";
/// The credits of the pack for ten dollars.
const PACK: i64 = 5_000;

fn ok(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

/// Buys a pack with this card, which saves the card.
async fn buys(app: &TestApp, client: &Client, card: &str) {
    let page = client.post("/v1/billing/checkout", &json!({"pack_id": "pack_10"})).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let session = page.json()["session_id"].as_str().unwrap().to_owned();
    let pay = json!({"card": card, "authenticate": true});
    let paid = app.control(&format!("checkout/{session}/pay"), pay).await;
    assert_eq!(paid["status"], "complete", "{paid}");
    let synced = client.post("/v1/billing/sync-card", &json!({"session_id": session})).await;
    assert_eq!(synced.status, 200, "{}", synced.text());
}

/// A customer that bought a pack with this card.
async fn buyer(app: &TestApp, card: &str) -> (Customer, Client) {
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    buys(app, &client, card).await;
    assert_eq!(balance(&client).await, PACK);
    (customer, client)
}

/// Replaces the saved card with one that declines.
async fn takes_declining_card(app: &TestApp, client: &Client) {
    let customers = app.at_processor("GET", "customers?limit=1", "").await;
    let payer = customers["data"][0]["id"].as_str().unwrap().to_owned();
    app.advance_seconds(1);
    let path = format!("payment_methods/{DECLINING_CARD}/attach");
    app.at_processor("POST", &path, &format!("customer={payer}")).await;
    let synced = client.post("/v1/billing/sync-card", &json!({})).await;
    assert_eq!(synced.json()["card"]["last4"], "0341", "{}", synced.text());
}

async fn turn_on(client: &Client, daily_cap_usd: i64) -> Value {
    let wish = json!({
        "enabled": true, "threshold_credits": 1_000_000, "pack_id": "pack_10", "daily_cap_usd": daily_cap_usd,
    });
    let reply = client.post("/v1/billing/autotopup", &wish).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

async fn view(client: &Client) -> Value {
    client.get("/v1/billing/autotopup").await.json()
}

async fn balance(client: &Client) -> i64 {
    client.get("/v1/billing").await.json()["balance"].as_i64().unwrap()
}

/// Runs top-ups until nothing is in progress, including charges begun by the change itself.
async fn settled(app: &TestApp, client: &Client) -> Value {
    for _ in 0..1_000 {
        let charged = app.running().look_after_top_ups().await;
        let now = view(client).await;
        if charged == 0 && now["pending"]["state"] != "claimed" {
            return now;
        }
    }
    panic!("the top-up never ended: {}", view(client).await);
}

/// The charges requested from the processor, by their idempotency keys.
async fn asked(app: &TestApp) -> Vec<String> {
    let shown = app.shown("requests").await;
    let all = shown["requests"].as_array().unwrap().iter();
    let charges = all.filter(|request| {
        request["method"] == "POST"
            && request["path"].as_str().unwrap().trim_start_matches("/v1/") == "payment_intents"
    });
    charges.map(|request| request["idempotency_key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_low_balance_is_topped_up_within_the_daily_cap_and_again_the_next_day() {
    with_app(|app| async move {
        let (_, client) = buyer(&app, GOOD_CARD).await;

        turn_on(&client, 20).await;
        let shown = settled(&app, &client).await;

        assert_eq!(balance(&client).await, 3 * PACK);
        assert_eq!((&shown["spent_today_cents"], &shown["enabled"]), (&json!(2_000), &json!(true)));
        assert_eq!(shown["spent_today_usd"], 20.0);
        assert_eq!(shown["pending"], Value::Null);
        app.advance_seconds(86_400);
        settled(&app, &client).await;
        assert_eq!(balance(&client).await, 5 * PACK);
        // The events of the same payments grant nothing more.
        app.deliver().await;
        assert_eq!(balance(&client).await, 5 * PACK);
        app
    })
    .await;
}

#[tokio::test]
async fn a_call_that_makes_the_balance_low_starts_a_top_up_immediately() {
    with_app(|app| async move {
        let (customer, client) = buyer(&app, GOOD_CARD).await;
        let account = app.connect(&customer, "platform_alpha").await;
        let wish = json!({
            "enable": true, "threshold_credits": PACK, "pack_id": "pack_10", "daily_cap_usd": 10,
        });
        let on = client.post("/v1/billing/autotopup", &wish).await;
        assert_eq!(on.status, 200, "{}", on.text());
        assert_eq!(settled(&app, &client).await["spent_today_usd"], 0.0);

        let read = client.get(&format!("/v1/{account}/native/users/me")).await;

        assert_eq!(read.status, 200, "{}", read.text());
        let mut now = balance(&client).await;
        for _ in 0..10_000 {
            if now > PACK {
                break;
            }
            tokio::task::yield_now().await;
            now = balance(&client).await;
        }
        assert_eq!(now, 2 * PACK - 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn three_nodes_with_twelve_concurrent_rounds_stay_within_the_cap() {
    on_three_nodes("", ok, async |nodes| {
        let app = &nodes.stage.app;
        let client = app.with_key(&nodes.stage.customer.key);
        buys(app, &client, GOOD_CARD).await;
        let before = balance(&client).await;
        turn_on(&client, 50).await;

        for _ in 0..4 {
            let every_node = nodes.running();
            let at_once =
                every_node.iter().flat_map(|node| (0..12).map(move |_| node.look_after_top_ups()));
            futures(at_once).await;
            let open = view(&client).await;
            assert!(open["spent_today_usd"].as_f64().unwrap() <= 50.0, "{open}");
        }
        settled(app, &client).await;

        let mut keys = asked(app).await;
        keys.sort_unstable();
        keys.dedup();
        // One charge for the number of packs that reaches the threshold within the cap.
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert_eq!(balance(&client).await, before + 5 * PACK);
        nodes
    })
    .await;
}

/// Waits for all of them; each is polled whenever the task wakes.
async fn futures<F: Future<Output = usize>>(all: impl Iterator<Item = F>) {
    let mut open: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        open.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if open.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_declining_card_is_tried_three_times_a_day_and_the_customer_is_told() {
    with_app(|app| async move {
        let (_, client) = buyer(&app, GOOD_CARD).await;
        takes_declining_card(&app, &client).await;
        turn_on(&client, 1_000).await;

        for _ in 0..24 {
            settled(&app, &client).await;
            app.advance_seconds(3_600);
        }

        assert_eq!(asked(&app).await.len(), 3);
        let shown = view(&client).await;
        assert_eq!(
            (&shown["enabled"], &shown["stopped_reason"]),
            (&json!(false), &json!("declined"))
        );
        assert_eq!(balance(&client).await, PACK);
        app.run_jobs().await;
        let mails = app.mails_to("customer0@example.com").await;
        assert_eq!(mails.len(), 1, "{mails:?}");
        assert!(mails[0].to_string().contains("turned off"), "{mails:?}");
        app
    })
    .await;
}

#[tokio::test]
async fn a_charge_that_requires_authentication_pauses_top_up_until_it_is_confirmed() {
    with_app(|app| async move {
        let (_, client) = buyer(&app, CAREFUL_CARD).await;
        turn_on(&client, 10).await;

        let shown = settled(&app, &client).await;

        let pending = shown["pending"].clone();
        assert_eq!(pending["state"], "requires_action", "{shown}");
        let intent = pending["pi_id"].as_str().unwrap();
        let secret = pending["client_secret"].as_str().unwrap();
        assert!(secret.starts_with(&format!("{intent}_secret_")), "{pending}");
        assert_eq!(
            client.get("/v1/billing/card").await.json()["autotopup"]["pending"]["client_secret"],
            Value::Null
        );
        settled(&app, &client).await;
        assert_eq!(asked(&app).await.len(), 1, "no further charge must be made");

        // The customer's browser confirms and authenticates.
        let path = format!("payment_intents/{intent}");
        let read = app.at_processor("GET", &path, "").await;
        let card = read["last_payment_error"]["payment_method"]["id"].as_str().unwrap();
        let form = format!("off_session=false&payment_method={card}");
        app.at_processor("POST", &format!("{path}/confirm"), &form).await;
        app.control(&format!("intents/{intent}/authenticate"), json!({"proven": true})).await;
        for _ in 0..2 {
            let confirmed =
                client.post("/v1/billing/confirm-charge", &json!({"pi_id": intent})).await;
            assert_eq!(confirmed.json()["balance"], 2 * PACK, "{}", confirmed.text());
        }
        assert_eq!(view(&client).await["pending"], Value::Null);
        app.deliver().await;
        assert_eq!(balance(&client).await, 2 * PACK);
        app
    })
    .await;
}

#[tokio::test]
async fn turning_top_up_off_cancels_a_pending_charge() {
    with_app(|app| async move {
        let (_, client) = buyer(&app, CAREFUL_CARD).await;
        turn_on(&client, 10).await;
        let pending = settled(&app, &client).await["pending"].clone();

        let off = client.post("/v1/billing/autotopup", &json!({"enable": false})).await.json();

        assert_eq!((&off["enabled"], &off["pending"]), (&json!(false), &Value::Null));
        let path = format!("payment_intents/{}", pending["pi_id"].as_str().unwrap());
        assert_eq!(app.at_processor("GET", &path, "").await["status"], "canceled");
        app.run_jobs().await;
        app
    })
    .await;
}

#[tokio::test]
async fn a_charge_without_a_response_is_resumed_after_a_restart_and_granted_once() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[processor]\nretries_max = 0").await;
    let (customer, client) = buyer(&app, GOOD_CARD).await;
    let lost =
        json!({"kind": "close_after", "method": "POST", "path": "payment_intents", "times": 1});
    app.control("switches", lost).await;
    turn_on(&client, 10).await;
    app.running().look_after_top_ups().await;
    assert_eq!(balance(&client).await, PACK, "the charge must not be granted yet");

    let app = app.restart().await;
    let again = app.with_key(&customer.key);
    assert_eq!(view(&again).await["pending"]["state"], "claimed");
    app.advance_seconds(61);
    let shown = settled(&app, &again).await;

    assert_eq!(balance(&again).await, 2 * PACK);
    assert_eq!(shown["spent_today_usd"], 10.0);
    let mut keys = asked(&app).await;
    keys.dedup();
    assert_eq!(keys.len(), 1, "there must be one charge with one key: {keys:?}");
    app.deliver().await;
    assert_eq!(balance(&again).await, 2 * PACK);
    app.end().await;
}

#[tokio::test]
async fn removing_the_card_turns_top_up_off() {
    with_app(|app| async move {
        let (_, client) = buyer(&app, GOOD_CARD).await;
        turn_on(&client, 10).await;
        settled(&app, &client).await;

        let removed = client.delete("/v1/billing/card").await;

        assert_eq!(removed.status, 200, "{}", removed.text());
        let shown = view(&client).await;
        assert_eq!(
            (&shown["enabled"], &shown["stopped_reason"]),
            (&json!(false), &json!("card_removed"))
        );
        let wish = json!({"enable": true});
        let again = client.post("/v1/billing/autotopup", &wish).await;
        assert_eq!(again.failure(), (409, "no_saved_card".to_owned()));
        app
    })
    .await;
}

#[tokio::test]
async fn an_invalid_setting_is_refused_with_the_name_of_the_field() {
    let app = TestApp::on_sqlite("").await;
    let (_, client) = buyer(&app, GOOD_CARD).await;
    let with = |field: &str, value: &str| {
        let fields =
            [("threshold_credits", "10"), ("pack_id", "\"pack_10\""), ("daily_cap_usd", "10")];
        let all = fields.map(|(name, usual)| {
            format!("\"{name}\": {}", if name == field { value } else { usual })
        });
        format!("{{\"enable\": true, {}}}", all.join(", ")).into_bytes()
    };
    let json = client.with("content-type", "application/json");
    for (field, value) in [
        ("threshold_credits", "-1"),
        ("threshold_credits", "0"),
        ("threshold_credits", "9223372036854775808"),
        ("threshold_credits", "1.5"),
        ("daily_cap_usd", "0.001"),
        ("daily_cap_usd", "10.005"),
        ("daily_cap_usd", "NaN"),
        ("daily_cap_usd", "1e308"),
        ("daily_cap_usd", "\"10\""),
        ("daily_cap_usd", "-10"),
        ("daily_cap_usd", "9.99"),
    ] {
        let sent = json.send("POST", "/v1/billing/autotopup", Some(with(field, value))).await;
        assert_eq!(sent.status, 422, "{field} {value}: {}", sent.text());
    }
    let unknown = json.send("POST", "/v1/billing/autotopup", Some(with("pack_id", "\"x\""))).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    assert_eq!(view(&client).await["enabled"], false);
    let whole =
        json.send("POST", "/v1/billing/autotopup", Some(with("daily_cap_usd", "10.10"))).await;
    assert_eq!(whole.json()["daily_cap_usd"], 10.1, "{}", whole.text());
    app.end().await;
}

/// Its cap is reached, or its pack is gone: the customer relies on it, and its calls will be
/// refused.
#[tokio::test]
async fn a_top_up_that_cannot_act_says_why_and_until_when() {
    with_app(|app| async move {
        let (_, client) = buyer(&app, GOOD_CARD).await;

        let set = turn_on(&client, 15).await;
        let now = &set["charge_now"];
        let one = json!({"packs": 1, "credits": PACK, "amount_cents": 1_000, "currency": "usd"});
        assert_eq!(*now, one, "{set}");
        assert_eq!(set["waiting_reason"], Value::Null);
        let shown = settled(&app, &client).await;

        assert_eq!(balance(&client).await, 2 * PACK, "no second pack fits under 15 dollars");
        assert_eq!(shown["waiting_reason"], "daily_cap", "{shown}");
        assert_eq!(shown["waiting_until"], "2026-11-22T00:00:00.000000Z");
        assert_eq!(shown["charge_now"], Value::Null);
        let waiting = async || {
            let mails = app.mails_to("customer0@example.com").await;
            mails.iter().filter(|mail| mail["subject"] == "Automatic top-up is waiting").count()
        };
        for told in [1, 1] {
            app.running().look_for_notices().await;
            assert_eq!(waiting().await, told, "one email a day");
        }
        app.advance_seconds(86_400);
        let next = settled(&app, &client).await;
        assert_eq!(balance(&client).await, 3 * PACK, "{next}");
        app.running().look_for_notices().await;
        assert_eq!(waiting().await, 2);
        // Enough by another way.
        let lower = json!({"enabled": true, "threshold_credits": 100});
        assert_eq!(client.post("/v1/billing/autotopup", &lower).await.status, 200);
        assert_eq!(view(&client).await["waiting_reason"], Value::Null);
        app
    })
    .await;
}
