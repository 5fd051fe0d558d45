//! A day of an operator, on both databases: every step leaves the ledger without a fault.

use serde_json::json;

use super::{asked, assert_clean, audited, done, grace, shown};
use test_service::processor::{PACK_CENTS, PACK_CREDITS, balance};
use test_service::{Client, TestApp, with_app};

/// Zip archives begin so, and end with a record that begins so.
const ZIP: (&[u8], &[u8]) = (b"PK\x03\x04", b"PK\x05\x06");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_an_operator_leaves_the_ledger_clean() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 0).await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, "4242424242424242").await;
        app.deliver().await;
        let call = client.get(&format!("/v1/{account}/native/users/me")).await;
        assert_eq!(call.status, 200, "{}", call.text());
        app.settled(&client).await;

        find_and_show(&app, &customer.id, &customer.key).await;
        explain(&app, &customer.id, call.header("x-request-id")).await;
        refund(&app, &client, &begun.order).await;
        grant(&app, &customer.id, &client).await;
        suspend_and_resume(&app, &customer.id, &client, &account).await;
        export(&app, &customer.id).await;
        erase(&app, &customer.id, &client).await;
        app
    })
    .await;
}

async fn find_and_show(app: &TestApp, id: &str, key: &str) {
    let found = done(app, json!({"command": "find_customers", "text": "customer0@exam"})).await;
    let matched = &found["matches"][0];
    assert_eq!((&matched["customer_id"], &matched["matched"]), (&json!(id), &json!("email")));

    let profile = shown(app, matched["email"].as_str().unwrap()).await;
    assert_eq!(profile["customer_id"], id);
    assert_eq!(profile["balance"], PACK_CREDITS - 1);
    assert_eq!(profile["keys"].as_array().unwrap().len(), 1, "{profile}");
    assert_eq!(profile["accounts"][0]["platform"], "platform_alpha");
    assert_eq!(profile["orders"][0]["state"], "paid");
    assert_eq!(profile["calls"][0]["outcome"], "answered");
    assert!(!profile.to_string().contains(key), "a key is never shown: {profile}");
    assert_clean(app, "looking").await;
}

async fn explain(app: &TestApp, id: &str, request: &str) {
    let found = done(app, json!({"command": "show_call", "request": request})).await;
    let call = &found["calls"][0];
    assert_eq!(found["calls"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&call["customer_id"], &call["request_id"]), (&json!(id), &json!(request)));
    assert_eq!((&call["outcome"], &call["credits"]), (&json!("answered"), &json!(1)));
    assert_eq!(call["ledger"][0]["amount"], -1, "{call}");
    assert_clean(app, "explaining").await;
}

async fn refund(app: &TestApp, client: &Client, order: &str) {
    let command =
        |dry_run: bool| json!({"command": "refund_order", "order": order, "dry_run": dry_run});
    let before = balance(client).await;
    let preview = done(app, command(true)).await;
    assert_eq!(balance(client).await, before, "a dry run changes nothing");
    assert!(app.asked("POST", "refunds").await.is_empty());

    let refunded = done(app, command(false)).await;
    for field in ["amount_cents", "credits_taken", "balance", "debt"] {
        assert_eq!(refunded[field], preview[field], "{field}: {refunded}");
    }
    assert_eq!(refunded["amount_cents"], PACK_CENTS);
    // One of the credits was spent, so it is owed now.
    assert_eq!((&refunded["balance"], &refunded["debt"]), (&json!(0), &json!(1)));
    // The processor's events about it change nothing more.
    app.deliver().await;
    let again = done(app, command(false)).await;
    assert_eq!(again["applied"], false, "{again}");
    assert_eq!(app.asked("POST", "refunds").await.len(), 1);
    assert_clean(app, "refunding").await;
}

async fn grant(app: &TestApp, id: &str, client: &Client) {
    let grant = json!({
        "command": "grant_credits", "customer": id, "credits": 101, "reference": "for the trouble",
    });
    let reply = grace(app).post("/commands", &grant).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(balance(client).await, 100);
    assert_clean(app, "granting").await;
}

async fn suspend_and_resume(app: &TestApp, id: &str, client: &Client, account: &str) {
    let path = format!("/v1/{account}/native/users/me");
    let suspended =
        done(app, json!({"command": "suspend_customer", "customer": id, "reason": "a chargeback"}))
            .await;
    assert_eq!((&suspended["state"], &suspended["applied"]), (&json!("suspended"), &json!(true)));
    for reply in [client.get(&path).await, client.get("/v1/billing").await] {
        assert_eq!(reply.failure(), (403, "customer_suspended".to_owned()), "{}", reply.text());
    }
    assert_eq!(shown(app, id).await["suspended_reason"], "a chargeback");
    assert_clean(app, "suspending").await;

    let resumed = done(app, json!({"command": "resume_customer", "customer": id})).await;
    assert_eq!(resumed["state"], "active", "{resumed}");
    assert_eq!(client.get(&path).await.status, 200);
    app.settled(client).await;
    assert_eq!(balance(client).await, 99);
    assert_clean(app, "resuming").await;
}

async fn export(app: &TestApp, id: &str) {
    let reply = grace(app).post("/commands/operator/export", &json!({"customer": id})).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/zip"));
    let (begin, end) = ZIP;
    assert!(reply.body.starts_with(begin));
    assert!(reply.body[reply.body.len() - 22..].starts_with(end));
    for name in ["customer.json", "keys.json", "audit.json", "calls.csv", "ledger.csv"] {
        let mut windows = reply.body.windows(name.len());
        assert!(windows.any(|window| window == name.as_bytes()), "{name}");
    }
    assert_clean(app, "exporting").await;
}

async fn erase(app: &TestApp, id: &str, client: &Client) {
    let payer = shown(app, id).await["processor_customer"].as_str().unwrap().to_owned();
    let command = |dry_run: bool| json!({"command": "erase_customer", "customer": id, "forfeit": true, "dry_run": dry_run});
    let preview = done(app, command(true)).await;
    assert_eq!(client.get("/v1/billing").await.status, 200, "a dry run changes nothing");

    let erased = done(app, command(false)).await;
    // The audit list has grown by the entry of the dry run.
    let rows = |report: &serde_json::Value| {
        let tables = report["tables"].as_array().unwrap().clone();
        tables.into_iter().filter(|table| table["table"] != "audit").collect::<Vec<_>>()
    };
    assert_eq!(rows(&erased), rows(&preview));
    assert_eq!(erased["processor_customers"], json!([payer]));
    assert_eq!(client.get("/v1/billing").await.failure(), (401, "invalid_key".to_owned()));
    let again = done(app, command(false)).await;
    assert_eq!(again["applied"], false);
    app.run_jobs().await;
    let there = app.at_processor("GET", &format!("customers/{payer}"), "").await;
    assert_eq!(there["deleted"], true, "{there}");
    app.deliver().await;

    let profile = shown(app, id).await;
    assert_eq!((&profile["state"], &profile["name"]), (&json!("erased"), &json!("")));
    assert_eq!((&profile["balance"], &profile["keys"][0]["name"]), (&json!(99), &json!("")));
    assert_eq!(profile["accounts"], json!([]));
    let gone = json!({"command": "show_customer", "customer": "customer0@example.com"});
    assert_eq!(asked(app, &gone).await.failure(), (404, "not_found".to_owned()));
    let actors = audited(app, id).await;
    let by_grace = actors.iter().filter(|(_, actor)| actor == "operator:grace");
    assert!(by_grace.count() >= 10, "{actors:?}");
    assert_clean(app, "erasing").await;
}
