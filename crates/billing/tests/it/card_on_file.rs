//! The card on file: saving another card keeps the subscription, and open invoices are paid with
//! it.

use serde_json::{Value, json};
use test_service::processor::{PACK_CREDITS, balance};
use test_service::subscriber::{GOOD_CARD, OFFER, PLAN, active, selling, slots_on};
use test_service::{Client, TestApp};

const OTHER_CARD: &str = "pm_card_mastercard";
/// It can be saved, but every charge is declined.
const DECLINING_CARD: &str = "pm_card_chargeCustomerFail";
const MONTH: i64 = 1_000;

/// A customer with two accounts on `platform_alpha` whose bank declined the renewal.
async fn past_due(app: &TestApp, choice: Value) -> Client {
    let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
    for creator in ["zoe", "bob"] {
        assert_eq!(app.import(&client, "platform_alpha", creator).await, "active");
    }
    app.decline_next("expired_card").await;
    app.months_pass(1).await;
    assert_eq!(status(&client).await, "past_due");
    assert_eq!(balance(&client).await, MONTH);
    client
}

async fn status(client: &Client) -> String {
    let read = client.get("/v1/billing/subscription").await.json();
    read["status"].as_str().unwrap().to_owned()
}

async fn payer(app: &TestApp) -> String {
    let customers = app.at_processor("GET", "customers?limit=1", "").await;
    customers["data"][0]["id"].as_str().unwrap().to_owned()
}

/// Attaches a card at the processor and returns its id.
async fn attach(app: &TestApp, card: &str) -> String {
    app.advance_seconds(1);
    let form = format!("customer={}", payer(app).await);
    let attached = app.at_processor("POST", &format!("payment_methods/{card}/attach"), &form).await;
    attached["id"].as_str().unwrap().to_owned()
}

async fn sync(client: &Client) -> Value {
    let synced = client.send("POST", "/v1/billing/sync-card", None).await;
    assert_eq!(synced.status, 200, "{}", synced.text());
    synced.json()
}

/// The invoices of a customer, newest first: (status, amount due).
async fn invoices(app: &TestApp) -> Vec<(String, i64)> {
    let list = app.at_processor("GET", "invoices?limit=100", "").await;
    let all = list["data"].as_array().unwrap().iter();
    let shown = |invoice: &Value| {
        let status = invoice["status"].as_str().unwrap().to_owned();
        (status, invoice["amount_due"].as_i64().unwrap())
    };
    all.map(shown).collect()
}

/// The idempotency keys of all payments of invoices that were requested from the processor.
async fn payments_asked(app: &TestApp) -> Vec<String> {
    let shown = app.shown("requests").await;
    let all = shown["requests"].as_array().unwrap().iter();
    let is_payment = |request: &&Value| {
        request["method"] == "POST" && request["path"].as_str().unwrap().ends_with("/pay")
    };
    let key = |request: &Value| request["idempotency_key"].as_str().unwrap().to_owned();
    all.filter(is_payment).map(key).collect()
}

/// Asserts that no idempotency key was used for two different requests.
async fn assert_each_key_is_one_request(app: &TestApp) {
    let shown = app.shown("requests").await;
    let mut known = std::collections::BTreeMap::new();
    for request in shown["requests"].as_array().unwrap() {
        let Some(key) = request["idempotency_key"].as_str() else { continue };
        let what = format!("{} {}", request["path"], request["params"]);
        let before = known.insert(key.to_owned(), what.clone());
        assert!(before.is_none_or(|before| before == what), "{key}: {what}");
    }
}

/// Asserts that the subscription is active, is paid with this card, and has the credits of its
/// second month.
async fn assert_kept(app: &TestApp, client: &Client, card: &str) {
    assert_eq!(status(client).await, "active");
    assert_eq!(active(client).await, ["bob", "zoe"]);
    let subscription = app.subscription().await;
    assert_eq!(subscription["status"], "active", "{subscription}");
    assert_eq!(subscription["default_payment_method"], card, "{subscription}");
    assert_eq!(invoices(app).await, [("paid".to_owned(), 2_900), ("paid".to_owned(), 2_900)]);
    assert_each_key_is_one_request(app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_saved_with_a_pack_pays_the_open_renewal() {
    selling(async |app| {
        let client = past_due(&app, json!({"plan_id": PLAN})).await;

        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, "5555555555554444").await;
        app.deliver().await;

        let path = format!("customers/{}", payer(&app).await);
        let customer = app.at_processor("GET", &path, "").await;
        let card = customer["invoice_settings"]["default_payment_method"].clone();
        assert_kept(&app, &client, card.as_str().unwrap()).await;
        assert_eq!(balance(&client).await, 2 * MONTH + PACK_CREDITS);
        assert_eq!(client.get("/v1/billing/card").await.json()["card"]["last4"], "4444");
        let mails = app.mails_to("customer0@example.com").await;
        assert_eq!(mails.len(), 1, "the payment that failed: {mails:?}");
        // The next month is charged to the new card.
        app.months_pass(1).await;
        assert_eq!(balance(&client).await, 3 * MONTH + PACK_CREDITS);
        let charges = app.at_processor("GET", "charges?limit=1", "").await;
        assert_eq!(charges["data"][0]["payment_method"], card, "{charges}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synced_card_pays_immediately_and_the_response_lists_the_invoices() {
    selling(async |app| {
        let client = past_due(&app, json!({"plan_id": PLAN})).await;
        let card = attach(&app, OTHER_CARD).await;

        let synced = sync(&client).await;

        assert_eq!(synced["card"]["last4"], "4444", "{synced}");
        let paid = synced["invoices_paid"].as_array().unwrap();
        assert_eq!(paid.len(), 1, "{synced}");
        assert_eq!(
            (&paid[0]["amount_cents"], &paid[0]["currency"]),
            (&json!(2_900), &json!("usd"))
        );
        assert_eq!(synced["invoices_failed"], json!([]));
        assert_kept(&app, &client, &card).await;
        assert_eq!(balance(&client).await, 2 * MONTH);
        // Neither the events nor another sync pays or grants anything more.
        app.deliver().await;
        let again = sync(&client).await;
        assert_eq!((&again["invoices_paid"], &again["invoices_failed"]), (&json!([]), &json!([])));
        assert_eq!(balance(&client).await, 2 * MONTH);
        assert_eq!(payments_asked(&app).await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_chosen_in_the_portal_pays_when_its_event_arrives() {
    selling(async |app| {
        let client = past_due(&app, json!({"plan_id": PLAN})).await;
        let card = attach(&app, OTHER_CARD).await;
        let form = format!("invoice_settings[default_payment_method]={card}");
        app.at_processor("POST", &format!("customers/{}", payer(&app).await), &form).await;

        app.deliver().await;

        assert_kept(&app, &client, &card).await;
        assert_eq!(balance(&client).await, 2 * MONTH);
        assert_eq!(client.get("/v1/billing/card").await.json()["card"]["last4"], "4444");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_that_is_declined_too_is_saved_and_reported_and_the_next_one_pays() {
    selling(async |app| {
        let client = past_due(&app, json!({"plan_id": PLAN})).await;
        attach(&app, DECLINING_CARD).await;

        let synced = sync(&client).await;

        assert_eq!(synced["card"]["last4"], "0341", "{synced}");
        assert_eq!(synced["invoices_paid"], json!([]));
        let failed = &synced["invoices_failed"][0];
        assert_eq!(failed["amount_cents"], 2_900, "{synced}");
        assert_eq!(failed["decline_code"], "generic_decline", "{synced}");
        assert!(failed.get("url").is_some(), "{synced}");
        assert_eq!((status(&client).await.as_str(), balance(&client).await), ("past_due", MONTH));
        app.deliver().await;
        let mails = app.mails_to("customer0@example.com").await;
        assert_eq!(mails.len(), 2, "one for each attempt: {mails:?}");
        assert_eq!(active(&client).await.len(), 2);

        let card = attach(&app, OTHER_CARD).await;
        let paid = sync(&client).await;
        assert_eq!(paid["invoices_paid"].as_array().unwrap().len(), 1, "{paid}");
        assert_kept(&app, &client, &card).await;
        assert_eq!(balance(&client).await, 2 * MONTH);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_card_is_tried_again_only_on_request() {
    selling(async |app| {
        let client = past_due(&app, json!({"plan_id": PLAN})).await;
        let id = app.subscription().await["default_payment_method"].as_str().unwrap().to_owned();
        // The bank accepts charges again; the event about the customer changes no card.
        let path = format!("customers/{}", payer(&app).await);
        let form = format!("invoice_settings[default_payment_method]={id}");
        app.at_processor("POST", &path, &form).await;
        sync(&client).await;
        assert_kept(&app, &client, &id).await;

        app.decline_next("insufficient_funds").await;
        app.months_pass(1).await;
        let before = payments_asked(&app).await.len();
        app.at_processor("POST", &path, "name=Ada").await;
        app.deliver().await;
        assert_eq!(payments_asked(&app).await.len(), before);
        let synced = sync(&client).await;

        assert_eq!(synced["invoices_paid"].as_array().unwrap().len(), 1, "{synced}");
        assert_eq!((status(&client).await.as_str(), balance(&client).await), ("active", 3 * MONTH));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_card_can_be_removed_once_another_one_is_saved() {
    selling(async |app| {
        let client = past_due(&app, json!({"plan_id": PLAN})).await;
        let old = app.subscription().await["default_payment_method"].as_str().unwrap().to_owned();
        let refused = client.delete("/v1/billing/card").await;
        assert_eq!(refused.failure(), (409, "card_in_use".to_owned()));
        let card = attach(&app, OTHER_CARD).await;
        sync(&client).await;

        app.at_processor("POST", &format!("payment_methods/{old}/detach"), "").await;
        app.deliver().await;
        app.months_pass(1).await;

        assert_eq!(client.get("/v1/billing/card").await.json()["card"]["last4"], "4444");
        assert_eq!(app.subscription().await["default_payment_method"], card.as_str());
        assert_eq!((status(&client).await.as_str(), balance(&client).await), ("active", 3 * MONTH));
        let again = client.delete("/v1/billing/card").await;
        assert_eq!(again.failure(), (409, "card_in_use".to_owned()));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_card_pays_all_of_our_subscriptions_and_no_others() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let first = app.subscription().await;
        let (payer, old) = (payer(&app).await, first["default_payment_method"].as_str().unwrap());
        let price = first["items"]["data"][0]["price"]["id"].as_str().unwrap();
        let subscribe = async |sold: &str| {
            let form =
                format!("customer={payer}&items[0][price]={sold}&default_payment_method={old}");
            let made = app.at_processor("POST", "subscriptions", &form).await;
            made["id"].as_str().unwrap().to_owned()
        };
        let second = subscribe(price).await;
        let form = "unit_amount=700&currency=usd&recurring[interval]=month&product_data[name]=Else";
        let foreign = app.at_processor("POST", "prices", form).await;
        let foreign = subscribe(foreign["id"].as_str().unwrap()).await;
        let cards = async || {
            let mut all = Vec::new();
            for id in [first["id"].as_str().unwrap(), &second, &foreign] {
                let read = app.at_processor("GET", &format!("subscriptions/{id}"), "").await;
                all.push(read["default_payment_method"].as_str().unwrap().to_owned());
            }
            all
        };
        app.control("declines", json!({"codes": ["expired_card", "expired_card", "expired_card"]}))
            .await;
        app.months_pass(1).await;
        let card = attach(&app, OTHER_CARD).await;

        let synced = sync(&client).await;

        assert_eq!(cards().await, [card.as_str(), card.as_str(), old]);
        assert_eq!(synced["invoices_paid"].as_array().unwrap().len(), 2, "{synced}");
        let open: Vec<_> = invoices(&app).await;
        let open: Vec<_> = open.iter().filter(|(status, _)| status == "open").collect();
        assert_eq!(open, [&("open".to_owned(), 700)]);
        assert_each_key_is_one_request(&app).await;
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_paid_with_the_new_card_as_well() {
    selling(async |app| {
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 1}});
        let client = past_due(&app, choice).await;
        let more = json!({"platform": "platform_alpha", "count": 2});
        assert_eq!(client.post("/v1/billing/slots", &more).await.status, 409);
        let card = attach(&app, OTHER_CARD).await;
        let synced = sync(&client).await;
        assert_eq!(synced["invoices_paid"][0]["amount_cents"], 3_900, "{synced}");

        let raised = client.post("/v1/billing/slots", &more).await;

        assert_eq!(raised.status, 200, "{}", raised.text());
        let alpha = slots_on(&raised.json(), "platform_alpha");
        assert_eq!((&alpha["count"], &alpha["active"]), (&json!(2), &json!(2)));
        let charges = app.at_processor("GET", "charges?limit=2", "").await;
        for charge in charges["data"].as_array().unwrap() {
            assert_eq!(charge["payment_method"], card.as_str(), "{charge}");
        }
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_card_does_not_pay_open_invoices_of_an_ended_subscription() {
    selling(async |app| {
        let client = past_due(&app, json!({"plan_id": PLAN})).await;
        let dead = json!({"codes": ["expired_card", "expired_card", "expired_card"]});
        app.control("declines", dead).await;
        app.control("clock", json!({"advance_days": 16})).await;
        app.deliver().await;
        assert_eq!(status(&client).await, "canceled");
        attach(&app, OTHER_CARD).await;

        let synced = sync(&client).await;

        assert_eq!(synced["card"]["last4"], "4444", "{synced}");
        assert_eq!(
            (&synced["invoices_paid"], &synced["invoices_failed"]),
            (&json!([]), &json!([]))
        );
        assert_eq!(payments_asked(&app).await, Vec::<String>::new());
        assert_eq!(balance(&client).await, MONTH);
        app.deliver().await;
        app
    })
    .await;
}

/// Restarts the service while a card is being saved, at the request that has this fault, and
/// returns the restarted service.
async fn stopped_at(app: TestApp, fault: Value) -> TestApp {
    let client = past_due(&app, json!({"plan_id": PLAN})).await;
    let card = attach(&app, OTHER_CARD).await;
    app.processor_fault(&fault).await;
    let failed = client.send("POST", "/v1/billing/sync-card", None).await;
    assert!(failed.status >= 500, "{fault}: {}", failed.text());
    app.mend_processor().await;

    let app = app.restart().await;
    let client = client.at(app.running().address());
    app.advance_seconds(61);
    app.run_jobs().await;

    assert_kept(&app, &client, &card).await;
    assert_eq!(balance(&client).await, 2 * MONTH);
    assert_eq!(client.get("/v1/billing/card").await.json()["card"]["last4"], "4444");
    let mut keys = payments_asked(&app).await;
    keys.dedup();
    assert_eq!(keys.len(), 1, "{fault}: {keys:?}");
    app.deliver().await;
    assert_eq!(balance(&client).await, 2 * MONTH);
    app
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saving_a_card_resumes_after_a_crash_at_any_step_without_paying_twice() {
    let steps = [
        ("error_before", "customers/{id}"),
        ("close_after", "customers/{id}"),
        ("close_after", "subscriptions/{id}"),
        ("close_after", "invoices/{id}/pay"),
    ];
    for (kind, path) in steps {
        let database = store::testing::store().await;
        let overrides = format!("{OFFER}\n[processor]\nretries_max = 0");
        let app = TestApp::start(database, &overrides).await;
        let fault = json!({"kind": kind, "method": "POST", "path": path, "times": 1});
        stopped_at(app, fault).await.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_older_card_does_not_replace_a_newer_one() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, &format!("{OFFER}\n[processor]\nretries_max = 0")).await;
    let client = past_due(&app, json!({"plan_id": PLAN})).await;
    attach(&app, "pm_card_amex").await;
    let path = "subscriptions/{id}";
    let fault = json!({"kind": "error_before", "method": "POST", "path": path, "times": 1});
    app.processor_fault(&fault).await;
    let failed = client.send("POST", "/v1/billing/sync-card", None).await;
    assert!(failed.status >= 500, "{}", failed.text());
    app.mend_processor().await;
    let newer = attach(&app, OTHER_CARD).await;
    sync(&client).await;
    assert_kept(&app, &client, &newer).await;

    app.advance_seconds(61);
    app.run_jobs().await;

    assert_kept(&app, &client, &newer).await;
    assert_eq!(client.get("/v1/billing/card").await.json()["card"]["last4"], "4444");
    app.deliver().await;
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_outlives_its_keys_does_not_try_the_card_at_the_bank_again() {
    for (kind, later_s) in [("close_after", 61), ("close_after", 25 * 3_600)] {
        let database = store::testing::store().await;
        let app = TestApp::start(database, &format!("{OFFER}\n[processor]\nretries_max = 0")).await;
        let client = past_due(&app, json!({"plan_id": PLAN})).await;
        attach(&app, DECLINING_CARD).await;
        let path = "invoices/{id}/pay";
        app.processor_fault(&json!({"kind": kind, "method": "POST", "path": path})).await;
        let failed = client.send("POST", "/v1/billing/sync-card", None).await;
        assert!(failed.status >= 500, "{}", failed.text());
        let charges = async || {
            let list = app.at_processor("GET", "charges?limit=100", "").await;
            list["data"].as_array().unwrap().len()
        };
        let tried = charges().await;

        // The processor's own retries of the invoice are days later.
        app.advance_seconds(later_s);
        app.run_jobs().await;

        assert_eq!(charges().await, tried, "after {later_s} s");
        assert_eq!(status(&client).await, "past_due");
        app.deliver().await;
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_card_that_an_operator_retries_does_not_replace_a_newer_one() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, &format!("{OFFER}\n[processor]\nretries_max = 0")).await;
    let client = past_due(&app, json!({"plan_id": PLAN})).await;
    attach(&app, "pm_card_amex").await;
    let path = "subscriptions/{id}";
    let broken = json!({"kind": "unavailable", "method": "POST", "path": path, "times": 100_000});
    app.processor_fault(&broken).await;
    let failed = client.send("POST", "/v1/billing/sync-card", None).await;
    assert!(failed.status >= 500, "{}", failed.text());
    for _ in 0..40 {
        app.clock.advance_seconds(6 * 3_600);
        app.run_jobs().await;
    }
    assert_eq!(store::jobs::count(app.store()).await.unwrap().given_up, 1);
    app.mend_processor().await;
    let newer = attach(&app, OTHER_CARD).await;
    sync(&client).await;
    assert_kept(&app, &client, &newer).await;

    app.advance_seconds(1);
    app.staff(json!({"command": "retry_jobs"})).await;
    app.run_jobs().await;

    assert_kept(&app, &client, &newer).await;
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_without_a_body_equals_one_with_an_empty_body() {
    let app = TestApp::on_sqlite("").await;
    let (_, client) = app.with_card(GOOD_CARD).await;
    let json = client.with("content-type", "application/json");

    for reply in [
        client.send("POST", "/v1/billing/sync-card", None).await,
        json.send("POST", "/v1/billing/sync-card", None).await,
        json.send("POST", "/v1/billing/sync-card", Some(Vec::new())).await,
        client.post("/v1/billing/sync-card", &json!({})).await,
    ] {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.json()["card"]["last4"], "4242", "{}", reply.text());
    }
    app.end().await;
}

/// The event of a checkout may arrive long after the customer has saved another card.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_event_of_an_older_checkout_does_not_replace_a_newer_card() {
    selling(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, "378282246310005").await;
        app.control("clock", json!({"advance_s": 60})).await;
        let card = attach(&app, OTHER_CARD).await;
        assert_eq!(sync(&client).await["card"]["last4"], "4444");

        app.deliver().await;
        let told = client.get("/v1/billing/card").await.json();
        let old = json!({"session_id": begun.session});
        let synced = client.post("/v1/billing/sync-card", &old).await.json();

        assert_eq!(
            (&told["card"]["last4"], &synced["card"]["last4"]),
            (&json!("4444"), &json!("4444"))
        );
        let path = format!("customers/{}", payer(&app).await);
        let customer = app.at_processor("GET", &path, "").await;
        assert_eq!(customer["invoice_settings"]["default_payment_method"], json!(card));
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

/// An older card that was chosen again in the portal stays despite late events, until another card
/// is saved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_that_was_chosen_again_stays_until_another_one_is_saved() {
    selling(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let cards = format!("customers/{}/payment_methods?type=card", payer(&app).await);
        let first = app.at_processor("GET", &cards, "").await["data"][0]["id"].clone();
        let pay = async |card: &str| {
            app.control("clock", json!({"advance_s": 60})).await;
            let begun = app.begin_checkout(&client).await;
            app.pay_page(&begun.session, card).await;
            app.deliver().await;
            begun.session
        };
        let saved = async || {
            client.get("/v1/billing/card").await.json()["card"]["last4"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let session = pay("378282246310005").await;
        assert_eq!(saved().await, "0005");
        app.control("clock", json!({"advance_s": 60})).await;
        let form = format!("invoice_settings[default_payment_method]={}", first.as_str().unwrap());
        app.at_processor("POST", &format!("customers/{}", payer(&app).await), &form).await;
        app.deliver().await;
        assert_eq!(saved().await, "4242");

        for (event, _) in app.events_about(&[&session]).await {
            app.send_event(&event, 1).await;
        }
        let late = saved().await;
        let back = json!({"session_id": session});
        let synced = client.post("/v1/billing/sync-card", &back).await.json();
        assert_eq!((late.as_str(), &synced["card"]["last4"]), ("4242", &json!("4242")));

        pay("5555555555554444").await;
        assert_eq!(saved().await, "4444");
        app
    })
    .await;
}

/// The processor's times are in whole seconds. Of two checkouts that end within one second, the
/// card of the later one is saved, in whichever order they are reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_checkouts_within_one_second_the_later_card_stays() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let (first, second) =
            (app.begin_checkout(&client).await, app.begin_checkout(&client).await);
        for (begun, card) in [(&first, GOOD_CARD), (&second, "378282246310005")] {
            let path = format!("checkout/{}/pay", begun.session);
            app.control(&path, json!({"card": card, "authenticate": true})).await;
        }
        let cards = format!("customers/{}/payment_methods?type=card", payer(&app).await);
        let cards = app.at_processor("GET", &cards, "").await;
        let created = |place: usize| cards["data"][place]["created"].clone();
        assert_eq!(created(0), created(1), "{cards}");

        for begun in [&second, &first, &second, &first] {
            let back = json!({"session_id": begun.session});
            let synced = client.post("/v1/billing/sync-card", &back).await.json();
            assert_eq!(synced["card"]["last4"], "0005", "{synced}");
        }
        app.deliver().await;

        assert_eq!(client.get("/v1/billing/card").await.json()["card"]["last4"], "0005");
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn syncing_the_checkout_of_a_plan_grants_its_first_month() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.pay(&page, GOOD_CARD).await;

        let session = json!({"session_id": page.json()["session_id"]});
        let synced = client.post("/v1/billing/sync-card", &session).await;

        assert_eq!(synced.status, 200, "{}", synced.text());
        assert_eq!(balance(&client).await, MONTH);
        app.deliver().await;
        assert_eq!(balance(&client).await, MONTH);
        app
    })
    .await;
}
