//! Erasing: what identifies a person is gone, and nothing that is still going on is cut off.

#![expect(clippy::large_futures, reason = "each test has its own stack")]

use domain::invoice::InvoiceState;
use serde_json::{Value, json};
use store::invoices::InvoiceChange;
use store::order_payments::OrderReceipt;

use super::{asked, assert_clean, done, grace, shown};
use test_service::exports::{created, ten};
use test_service::subscriber::{GOOD_CARD, selling};
use test_service::{TestApp, with_app};

fn erase(customer: &str) -> Value {
    json!({"command": "erase_customer", "customer": customer, "forfeit": true})
}

/// Why a customer cannot be erased.
async fn refused(app: &TestApp, customer: &str) -> String {
    let reply = asked(app, &erase(customer)).await;
    assert_eq!(reply.failure(), (409, "operator_refused".to_owned()), "{}", reply.text());
    reply.json()["error"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_with_a_live_subscription_is_erased_only_after_it_has_ended() {
    selling(async |app| {
        let (customer, _) = app.subscriber(GOOD_CARD).await;
        assert!(refused(&app, &customer.id).await.contains("--cancel-subscription"));

        let suspend = json!({
            "command": "suspend_customer", "customer": customer.id, "reason": "asked for it",
            "cancel_subscription": true,
        });
        done(&app, suspend).await;
        app.deliver().await;
        app.running().look_after_subscriptions().await;
        let erased = done(&app, erase(&customer.id)).await;

        assert_eq!(erased["applied"], true, "{erased}");
        assert_eq!(shown(&app, &customer.id).await["state"], "erased");
        app.run_jobs().await;
        app.deliver().await;
        assert_clean(&app, "erasing").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_go_on_while_the_customer_cannot_be_erased() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 50).await;
        let begun = app.begin_checkout(&client).await;
        let export = created(&client, &account, &ten("csv")).await;
        let state = async || {
            let path = format!("/v1/exports/{export}");
            client.get(&path).await.json()["status"].as_str().unwrap().to_owned()
        };

        let reason = refused(&app, &customer.id).await;
        assert!(reason.contains("an order is still open"), "{reason}");
        assert_eq!(state().await, "pending");
        app.pay_page(&begun.session, GOOD_CARD).await;
        app.deliver().await;
        let dry = json!({"command": "erase_customer", "customer": customer.id, "dry_run": true});
        assert!(asked(&app, &dry).await.text().contains("exports are running"));
        assert_eq!(state().await, "pending");

        done(&app, erase(&customer.id)).await;

        assert_eq!(shown(&app, &customer.id).await["state"], "erased");
        app.run_jobs().await;
        app.deliver().await;
        assert_clean(&app, "erasing").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_whose_order_may_still_be_paid_is_not_erased() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;

        assert!(refused(&app, &customer.id).await.contains("an order is still open"));

        app.pay_page(&begun.session, GOOD_CARD).await;
        app.deliver().await;
        done(&app, erase(&customer.id)).await;
        app.run_jobs().await;
        app.deliver().await;
        app
    })
    .await;
}

/// The address, the name, the networks and the details of the audit list are gone from every table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_identifies_the_customer_is_left() {
    with_app(async |app| {
        let member = app.member("ada.lovelace@example.com").await;
        let browser = app.signed_in(&member).await;
        let me = browser.json("PATCH", "/v1/auth/me", &json!({"name": "Ada Lovelace"})).await;
        assert_eq!(me.status, 200, "{}", me.text());
        app.run_jobs().await;
        let id =
            browser.get("/v1/auth/me").await.json()["customer_id"].as_str().unwrap().to_owned();
        let before = exported(&app, &id).await;
        assert!(before.contains("ada.lovelace@example.com") && before.contains("Ada Lovelace"));

        done(&app, erase(&id)).await;

        let after = exported(&app, &id).await;
        for gone in ["lovelace", "Lovelace", "127.0.0"] {
            assert!(!after.contains(gone), "{gone} is left: {after}");
        }
        assert!(after.contains(&id) && after.contains("customer.erased"), "{after}");
        // The address is free again.
        app.member("ada.lovelace@example.com").await;
        app.run_jobs().await;
        app
    })
    .await;
}

/// The pages of invoices and receipts show who paid. Nothing that arrives later brings them back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_invoices_and_receipts_are_removed_for_good() {
    selling(async |app| {
        let (customer, client) = app.subscriber(GOOD_CARD).await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, GOOD_CARD).await;
        app.deliver().await;
        app.run_jobs().await;
        let listed = client.get("/v1/billing/invoices").await.json();
        let invoice = listed["invoices"][0]["invoice_id"].as_str().unwrap().to_owned();
        let before = exported(&app, &customer.id).await;
        for kept in ["/invoices/", "/receipts/"] {
            assert!(before.contains(kept), "{kept}: {before}");
        }
        let suspend = json!({
            "command": "suspend_customer", "customer": customer.id, "reason": "asked for it",
            "cancel_subscription": true,
        });
        done(&app, suspend).await;
        app.deliver().await;
        app.running().look_after_subscriptions().await;

        done(&app, erase(&customer.id)).await;

        Box::pin(arrive_late(&app, &invoice, &begun.order)).await;
        let after = exported(&app, &customer.id).await;
        for gone in ["/invoices/", "/receipts/"] {
            assert!(!after.contains(gone), "{gone} is left: {after}");
        }
        assert_clean(&app, "erasing").await;
        app
    })
    .await;
}

/// What may arrive about an invoice and an order after their customer was erased.
async fn arrive_late(app: &TestApp, invoice: &str, order: &str) {
    app.run_jobs().await;
    app.running().reconcile(48).await.unwrap();
    let url = Some("http://127.0.0.1/processor/invoices/in_late");
    let invoice = InvoiceChange {
        id: invoice,
        state: InvoiceState::Paid,
        due_cents: 2_900,
        paid_cents: 2_900,
        hosted_url: url,
        pdf_url: url,
        paid_at: Some(app.clock.now()),
        read_at: app.clock.now(),
    };
    store::invoices::update(app.store(), &invoice).await.unwrap();
    let receipt = OrderReceipt {
        order: order.parse().unwrap(),
        charge_id: "ch_late",
        url: "http://127.0.0.1/processor/receipts/ch_late",
    };
    store::order_payments::note_receipt(app.store(), &receipt).await.unwrap();
}

/// All tables that an operator's export contains, as text.
async fn exported(app: &TestApp, customer: &str) -> String {
    let customer = customer.parse().unwrap();
    let mut text = String::new();
    for table in store::customer_dump::TABLES {
        let page = store::customer_dump::page(app.store(), table, customer, None, 100).await;
        for row in page.unwrap().rows {
            text.push_str(&Value::Object(row).to_string());
        }
    }
    let archive = json!({"customer": customer.to_string()});
    assert_eq!(grace(app).post("/commands/operator/export", &archive).await.status, 200);
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_paid_for_is_lost_only_if_the_operator_says_so() {
    with_app(async |app| {
        let customer = app.customer(30).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, GOOD_CARD).await;
        app.deliver().await;
        let payer = app.at_processor("GET", "customers?limit=1", "").await["data"][0]["id"].clone();
        let credit = format!("customers/{}/balance_transactions", payer.as_str().unwrap());
        app.at_processor("POST", &credit, "amount=-2000&currency=usd").await;
        let command = |more: Value| {
            let mut all = json!({"command": "erase_customer", "customer": customer.id});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };

        let refused = asked(&app, &command(json!({}))).await;
        assert_eq!(refused.failure(), (409, "operator_refused".to_owned()), "{}", refused.text());
        assert!(refused.text().contains("lose 5000 credits"), "{}", refused.text());
        assert!(refused.text().contains("2000 cents"), "{}", refused.text());
        let would = done(&app, command(json!({"dry_run": true}))).await;
        assert_eq!(
            (&would["forfeited_credits"], &would["forfeited_cents"]),
            (&json!(5_000), &json!(2_000))
        );
        assert_eq!(shown(&app, &customer.id).await["state"], "active");

        let erased = done(&app, command(json!({"forfeit": true}))).await;
        assert_eq!(
            (&erased["applied"], &erased["forfeited_credits"]),
            (&json!(true), &json!(5_000))
        );
        let again = done(&app, command(json!({}))).await;
        assert_eq!((&again["applied"], &again["forfeited_credits"]), (&json!(false), &json!(0)));
        app
    })
    .await;
}
