//! Notices: what customers are told without asking, each thing once, and what they switch off.

use serde_json::{Value, json};
use store::cards::SavedCard;
use test_service::TestApp;
use test_service::app::{Customer, with_app};
use test_service::client::Client;
use test_service::subscriber::{GOOD_CARD, selling};

const DAY_S: i64 = 86_400;

/// The subjects of the emails that the first customer has got so far, after a look for reasons.
async fn told(app: &TestApp) -> Vec<String> {
    told_at(app, "customer0@example.com").await
}

async fn told_at(app: &TestApp, address: &str) -> Vec<String> {
    app.running().look_for_notices().await;
    let mails = app.mails_to(address).await;
    mails.iter().map(|mail| mail["subject"].as_str().unwrap().to_owned()).collect()
}

/// The text of the newest email of the first customer.
async fn newest(app: &TestApp) -> String {
    let mails = app.mails_to("customer0@example.com").await;
    mails.last().unwrap()["text"].as_str().unwrap().to_owned()
}

async fn calls(app: &TestApp, client: &Client, account: &str, times: usize) {
    for _ in 0..times {
        let reply = client.get(&format!("/v1/{account}/native/users/me")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    app.settled(client).await;
}

async fn choose(client: &Client, choices: Value) -> Value {
    let reply = client.json("PATCH", "/v1/notices", &choices).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// Grants credits that expire in some days.
async fn gift(app: &TestApp, customer: &Customer, credits: i64, days: i64) {
    let end = app.clock.now().plus_seconds(days * DAY_S);
    let grant = json!({
        "command": "grant_credits", "customer": customer.id, "credits": credits,
        "reference": format!("{credits} for {days} days"), "expires_at": end,
    });
    app.staff(grant).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fall_of_the_balance_is_told_once() {
    with_app(|app| async move {
        let (customer, client, account) = app.ready("platform_alpha", 52).await;
        assert_eq!(told(&app).await, [""; 0]);
        calls(&app, &client, &account, 2).await;
        assert_eq!(told(&app).await, [""; 0], "50 is not below 50");

        calls(&app, &client, &account, 1).await;
        assert_eq!(told(&app).await, ["Your balance is low"]);
        assert!(
            newest(&app).await.contains("Your balance is 49 credits"),
            "{}",
            newest(&app).await
        );
        calls(&app, &client, &account, 1).await;
        assert_eq!(told(&app).await.len(), 1, "it is still low");

        app.grant_more(&customer, 3).await;
        assert_eq!(told(&app).await.len(), 1, "51 is not low");
        calls(&app, &client, &account, 2).await;
        assert_eq!(told(&app).await.len(), 1, "49 is about where it was");
        app.grant_more(&customer, 30).await;
        assert_eq!(told(&app).await.len(), 1, "79 is high again");
        choose(&client, json!({"low_balance_credits": 79})).await;
        calls(&app, &client, &account, 1).await;
        assert_eq!(told(&app).await.len(), 2, "78 is below the customer's own threshold");
        app.grant_more(&customer, 1).await;
        assert_eq!(told(&app).await.len(), 2);
        choose(&client, json!({"low_balance": false})).await;
        calls(&app, &client, &account, 1).await;
        assert_eq!(told(&app).await.len(), 2, "it is switched off");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balances_that_were_low_before_the_first_look_are_not_told() {
    with_app(|app| async move {
        let (_, client, account) = app.ready("platform_alpha", 5).await;
        calls(&app, &client, &account, 1).await;

        assert_eq!(told(&app).await, [""; 0]);
        calls(&app, &client, &account, 1).await;
        assert_eq!(told(&app).await, [""; 0]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_told_at_eighty_and_at_hundred_percent() {
    with_app(|app| async move {
        let (_, client, account) = app.ready("platform_alpha", 1_000).await;
        told(&app).await;
        let new = json!({"name": "nightly", "scope": "full", "monthly_budget_credits": 5});
        let made = client.post("/v1/auth/keys", &new).await.json();
        let limited = app.with_key(made["api_key"].as_str().unwrap());

        calls(&app, &limited, &account, 3).await;
        assert_eq!(told(&app).await, ["An API key was created"]);
        calls(&app, &limited, &account, 1).await;
        assert_eq!(told(&app).await[1..], ["A key has used most of its monthly budget"]);
        assert!(newest(&app).await.contains("4 of its 5 credits"), "{}", newest(&app).await);
        calls(&app, &limited, &account, 1).await;
        assert_eq!(told(&app).await[2..], ["The monthly budget of a key is used up"]);
        assert_eq!(told(&app).await.len(), 3);

        let path = format!("/v1/auth/keys/{}", made["key_id"].as_str().unwrap());
        let more = client.json("PATCH", &path, &json!({"monthly_budget_credits": 6})).await;
        assert_eq!(more.status, 200, "{}", more.text());
        assert_eq!(told(&app).await[3..], ["A key has used most of its monthly budget"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_are_told_a_week_before_they_expire() {
    with_app(|app| async move {
        let (customer, client, account) = app.ready("platform_alpha", 1_000).await;
        told(&app).await;
        gift(&app, &customer, 5, 8).await;
        gift(&app, &customer, 20, 9).await;
        let shown = client.get("/v1/billing").await.json();
        let end = app.clock.now().plus_seconds(8 * DAY_S).to_rfc3339();
        assert_eq!(shown["next_expiring"], json!({"credits": 5, "expires_at": end}), "{shown}");

        assert_eq!(told(&app).await, [""; 0]);
        calls(&app, &client, &account, 5).await;
        app.advance_seconds(DAY_S);
        assert_eq!(told(&app).await, [""; 0], "what expires is spent already");
        app.advance_seconds(DAY_S);
        assert_eq!(told(&app).await, ["Some of your credits expire soon"]);
        let text = newest(&app).await;
        assert!(text.contains("20 of your credits") && text.contains("2026-11-30"), "{text}");
        assert_eq!(told(&app).await.len(), 1);
        let later = client.get("/v1/billing").await.json();
        assert_eq!(later["next_expiring"]["credits"], 20);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_is_told_in_the_month_before_it_expires() {
    with_app(|app| async move {
        let customer = app.customer(0).await;
        let save = async |saved: SavedCard| {
            let (id, now) = (customer.id.parse().unwrap(), app.clock.now());
            store::cards::save(app.store(), id, &saved, now).await.unwrap();
        };

        save(card(1, 2027)).await;
        assert_eq!(told(&app).await, [""; 0]);
        save(card(10, 2026)).await;
        assert_eq!(told(&app).await, [""; 0], "it has expired");
        save(card(12, 2026)).await;
        assert_eq!(told(&app).await, ["Your card expires soon"]);
        assert!(newest(&app).await.contains("visa 4242"), "{}", newest(&app).await);
        assert_eq!(told(&app).await.len(), 1);
        save(card(11, 2026)).await;
        assert_eq!(told(&app).await.len(), 2, "another expiry is another card");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_of_a_subscription_and_its_end_are_told() {
    selling(|app| async move {
        app.running().look_for_notices().await;
        let (_, client) = app.subscriber(GOOD_CARD).await;

        assert_eq!(told(&app).await, ["A payment for your subscription"]);
        let text = newest(&app).await;
        assert!(text.contains("29.00 USD") && text.contains("1000 credits"), "{text}");
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        app.at_processor("DELETE", &format!("subscriptions/{id}"), "").await;
        app.deliver().await;
        assert_eq!(told(&app).await[1..], ["Your subscription has ended"]);
        assert_eq!(told(&app).await.len(), 2);
        assert_eq!(client.get("/v1/billing/subscription").await.json()["status"], "canceled");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automatic_charges_are_told_and_those_at_a_page_are_not() {
    with_app(|app| async move {
        app.running().look_for_notices().await;
        let client = app.with_key(&app.customer(0).await.key);
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, GOOD_CARD).await;
        app.deliver().await;
        let synced =
            client.post("/v1/billing/sync-card", &json!({"session_id": begun.session})).await;
        assert_eq!(synced.status, 200, "{}", synced.text());
        assert_eq!(told(&app).await, [""; 0], "the customer was at the page");
        let wish = json!({
            "enabled": true, "threshold_credits": 6_000, "pack_id": "pack_10", "daily_cap_usd": 10,
        });
        assert_eq!(client.post("/v1/billing/autotopup", &wish).await.status, 200);

        for _ in 0..1_000 {
            let charged = app.running().look_after_top_ups().await;
            let pending = client.get("/v1/billing/autotopup").await.json()["pending"].clone();
            if charged == 0 && pending.is_null() {
                break;
            }
        }

        assert_eq!(told(&app).await, ["Automatic top-up bought credits"]);
        let text = newest(&app).await;
        assert!(text.contains("10.00 USD") && text.contains("5000 credits"), "{text}");
        assert_eq!(told(&app).await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_keys_and_exports_are_told() {
    with_app(|app| async move {
        app.running().look_for_notices().await;
        let member = app.member("ada@example.com").await;
        app.grant(&member.customer, 100).await;
        let account = app.connect(&member.customer, "platform_alpha").await;
        let client = app.with_key(&member.customer.key);
        let before = told_at(&app, &member.email).await;
        assert_eq!(before, ["Confirm your email address"], "the first key is no news");
        let browser = app.signed_in(&member).await;
        let change = json!({
            "current_password": test_service::member::PASSWORD,
            "new_password": "another long password",
        });

        let changed = browser.post("/v1/auth/password", &change).await;
        assert!(changed.status < 300, "{}", changed.text());
        assert_eq!(told_at(&app, &member.email).await[1..], ["Your password was changed"]);
        let rotate = json!({"key_id": member.customer.key_id, "expires_old_in_s": 3600});
        let rotated = client.post("/v1/auth/keys/rotate", &rotate).await;
        assert_eq!(rotated.status, 200, "{}", rotated.text());
        assert_eq!(told_at(&app, &member.email).await[2..], ["An API key got a new secret"]);
        let export = async |by: &Client| {
            let path = format!("/v1/{account}/exports");
            let made = by.post(&path, &json!({"dataset": "subscribers"})).await;
            assert!(made.status < 300, "{}", made.text());
            app.run_exports().await;
        };
        export(&client).await;
        assert_eq!(told_at(&app, &member.email).await.len(), 3, "exports are off by default");
        app.advance_seconds(DAY_S);
        let renewed = app.with_key(rotated.json()["api_key"].as_str().unwrap());
        assert_eq!(choose(&renewed, json!({"exports": true})).await["exports"], true);
        told_at(&app, &member.email).await;
        export(&renewed).await;
        assert_eq!(told_at(&app, &member.email).await.last().unwrap(), "Your export is ready");
        app
    })
    .await;
}

/// Every reason to tell a customer something, one after the other. Returns the subjects of the
/// emails, sorted.
async fn everything_happens(app: &TestApp, choices: Value) -> Vec<String> {
    app.running().look_for_notices().await;
    let (customer, client, account) = app.ready("platform_alpha", 52).await;
    choose(&client, choices).await;
    app.subscribe(&client, GOOD_CARD).await;
    gift(app, &customer, 20, 3).await;
    // 52 of its own, 20 given, 1,000 of the plan.
    choose(&client, json!({"low_balance_credits": 1_070})).await;
    let (id, now) = (customer.id.parse().unwrap(), app.clock.now());
    store::cards::save(app.store(), id, &card(12, 2026), now).await.unwrap();
    let new = json!({"name": "nightly", "scope": "full", "monthly_budget_credits": 5});
    let made = client.post("/v1/auth/keys", &new).await.json();
    let limited = app.with_key(made["api_key"].as_str().unwrap());
    calls(app, &limited, &account, 4).await;
    told(app).await;
    calls(app, &limited, &account, 1).await;
    told(app).await;
    let export = json!({"dataset": "subscribers"});
    let begun = client.post(&format!("/v1/{account}/exports"), &export).await;
    assert!(begun.status < 300, "{}", begun.text());
    app.run_exports().await;
    let subscription = app.subscription().await["id"].as_str().unwrap().to_owned();
    app.at_processor("DELETE", &format!("subscriptions/{subscription}"), "").await;
    app.deliver().await;
    let mut told = told(app).await;
    told.sort();
    told
}

fn card(exp_month: i64, exp_year: i64) -> SavedCard {
    SavedCard {
        payment_method: "pm_1".to_owned(),
        brand: "visa".to_owned(),
        last4: "4242".to_owned(),
        exp_month,
        exp_year,
        fingerprint: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_switched_on_is_told() {
    selling(|app| async move {
        let told = everything_happens(&app, json!({"exports": true})).await;

        let all = [
            "A key has used most of its monthly budget",
            "A payment for your subscription",
            "An API key was created",
            "Some of your credits expire soon",
            "The monthly budget of a key is used up",
            "Your balance is low",
            "Your card expires soon",
            "Your export is ready",
            "Your subscription has ended",
        ];
        assert_eq!(told, all);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_switched_off_is_told() {
    selling(|app| async move {
        let kinds = [
            "low_balance",
            "key_budgets",
            "expiring_credits",
            "expiring_card",
            "payments",
            "subscription_end",
            "key_changes",
            "exports",
        ];
        let off: serde_json::Map<String, Value> =
            kinds.into_iter().map(|kind| (kind.to_owned(), json!(false))).collect();

        let told = everything_happens(&app, Value::Object(off)).await;

        assert_eq!(told, [""; 0]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_customers_are_told_nothing() {
    with_app(|app| async move {
        let (customer, _, _) = app.ready("platform_alpha", 100).await;
        told(&app).await;
        gift(&app, &customer, 5, 3).await;
        let by = store::audit::AuditEntry {
            id: domain::id::AuditId::new(app.clock.now(), [1; 10]),
            customer: customer.id.parse().unwrap(),
            at: app.clock.now(),
            actor: "operator".to_owned(),
            action: "customer.suspended".to_owned(),
            details: "{}".to_owned(),
        };
        store::suspensions::suspend(app.store(), "a test", &by).await.unwrap();

        assert_eq!(told(&app).await, [""; 0]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn choices_are_shown_changed_and_recorded() {
    with_app(|app| async move {
        let client = app.with_key(&app.customer(0).await.key);
        let first = client.get("/v1/notices").await.json();
        assert_eq!(
            first,
            json!({
                "low_balance": true, "low_balance_credits": 50, "key_budgets": true,
                "expiring_credits": true, "expiring_card": true, "payments": true,
                "subscription_end": true, "key_changes": true, "exports": false,
            })
        );

        let changed = choose(&client, json!({"payments": false, "low_balance_credits": 7})).await;
        let unchanged = choose(&client, json!({})).await;

        let mut expected = first.clone();
        expected["payments"] = json!(false);
        expected["low_balance_credits"] = json!(7);
        assert_eq!((&changed, &unchanged), (&expected, &expected));
        let audit = client.get("/v1/audit?action=notices.").await.json();
        let entries = audit["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 1, "{audit}");
        let details = json!({"low_balance": true, "low_balance_credits": 7, "payments": false});
        assert_eq!(entries[0]["details"], details);
        for wrong in [
            json!({"low_balance_credits": 0}),
            json!({"low_balance_credits": 1_000_000_001}),
            json!({"password": false}),
            json!({"payments": "no"}),
        ] {
            let refused = client.json("PATCH", "/v1/notices", &wrong).await;
            assert_eq!(refused.status, 422, "{wrong}: {}", refused.text());
        }
        app
    })
    .await;
}
