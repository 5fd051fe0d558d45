//! Credit notes and kept refunds, as operators make them in the processor's dashboard.
#![expect(clippy::shadow_unrelated, reason = "the latest form keeps the plain name")]

use serde_json::{Value, json};
use test_service::processor::{PACK_CENTS, PACK_CREDITS, balance, bookings};
use test_service::subscriber::{GOOD_CARD, OFFER, selling};
use test_service::{Client, TestApp, with_app};

/// The form of a note for a part of the invoice's line at this place.
fn of_line(invoice: &Value, place: usize, more: &str) -> String {
    format!(
        "invoice={}&lines[0][type]=invoice_line_item&lines[0][invoice_line_item]={}{more}",
        invoice["id"].as_str().unwrap(),
        invoice["lines"]["data"][place]["id"].as_str().unwrap()
    )
}

/// Runs a test in which packs have invoices and a tax of 19 %.
async fn with_invoices(test: impl AsyncFn(TestApp) -> TestApp) {
    let database = store::testing::store().await;
    let settings = format!("{OFFER}[billing]\npack_invoices = true\n");
    let app = TestApp::start(database, &settings).await;
    app.control("rules", json!({"tax_bp": 1900})).await;
    Box::pin(async { test(app).await.end().await }).await;
}

/// A customer that paid for a pack: (client, the invoice at the processor).
async fn invoiced(app: &TestApp) -> (Client, Value) {
    let client = app.with_key(&app.customer(0).await.key);
    let begun = app.begin_checkout(&client).await;
    app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    let invoice = app.at_processor("GET", "invoices?limit=1", "").await["data"][0].clone();
    assert_eq!((&invoice["total"], &invoice["status"]), (&json!(1_190), &json!("paid")));
    (client, invoice)
}

const TAX_ALONE: &str = "&lines[0][amount]=0&lines[0][tax_amounts][0][amount]=190\
    &lines[0][tax_amounts][0][tax_rate]=txr_sandbox&lines[0][tax_amounts][0][taxable_amount]=1000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credit_note_for_the_tax_of_a_pack_takes_no_credits_also_after_its_refund() {
    with_invoices(async |app| {
        let (client, invoice) = invoiced(&app).await;
        let payments = format!("invoice_payments?invoice={}", invoice["id"].as_str().unwrap());
        let payments = app.at_processor("GET", &payments, "").await;
        let intent = payments["data"][0]["payment"]["payment_intent"].as_str().unwrap().to_owned();

        let refund = app.refund(&intent, 190).await;
        app.deliver().await;
        // Nothing says yet what it is for.
        assert_eq!(balance(&client).await, PACK_CREDITS - 800);
        let form = of_line(&invoice, 0, &format!("{TAX_ALONE}&refunds[0][refund]={refund}"));
        app.at_processor("POST", "credit_notes", &form).await;
        app.deliver().await;

        assert_eq!(balance(&client).await, PACK_CREDITS);
        let expected = [("refund", 800), ("refund", -800), ("pack", PACK_CREDITS)];
        assert_eq!(bookings(&client).await, expected.map(|(kind, sum)| (kind.to_owned(), sum)));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credit_note_is_found_by_the_reconciler_when_no_event_told_of_it() {
    with_invoices(async |app| {
        let (client, invoice) = invoiced(&app).await;
        let form = of_line(
            &invoice,
            0,
            "&lines[0][amount]=500&lines[0][tax_amounts]=&out_of_band_amount=500",
        );
        let note = app.at_processor("POST", "credit_notes", &form).await;
        assert_eq!(balance(&client).await, PACK_CREDITS);

        let report = app.running().reconcile(24).await.unwrap();

        assert_eq!(report.failed, 0, "{report:?}");
        assert_eq!(balance(&client).await, PACK_CREDITS / 2);
        // The events change nothing, however often they come.
        for (id, _) in app.events_about(&[note["id"].as_str().unwrap()]).await {
            app.send_event(&id, 3).await;
        }
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS / 2);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credit_note_of_an_invoice_that_is_not_ours_is_ignored() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let before = balance(&client).await;
        let payer = app.at_processor("GET", "customers?limit=1", "").await["data"][0]["id"].clone();
        let of = format!("customer={}", payer.as_str().unwrap());
        app.at_processor("POST", "invoiceitems", &format!("{of}&amount=900&currency=usd")).await;
        let form = format!("{of}&pending_invoice_items_behavior=include");
        let invoice = app.at_processor("POST", "invoices", &form).await;
        let path = format!("invoices/{}/pay", invoice["id"].as_str().unwrap());
        let invoice = app.at_processor("POST", &path, "").await;
        let form = of_line(&invoice, 0, "&lines[0][amount]=900&refund_amount=900");

        app.at_processor("POST", "credit_notes", &form).await;
        app.deliver().await;

        assert_eq!(balance(&client).await, before);
        let open = store::unmatched_settlements::list(app.store(), true, 50).await.unwrap();
        assert!(open.is_empty(), "{open:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_that_is_marked_in_the_dashboard_takes_nothing_and_one_email_tells_of_it() {
    with_app(async |app| {
        let client = app.with_key(&app.customer(0).await.key);
        let begun = app.begin_checkout(&client).await;
        let intent = app.pay_page(&begun.session, GOOD_CARD).await;
        app.deliver().await;

        let form =
            format!("payment_intent={intent}&amount=300&metadata[creator_gateway_credits]=keep");
        let refund = app.at_processor("POST", "refunds", &form).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);
        let path = format!("refunds/{}", refund["id"].as_str().unwrap());
        app.at_processor("POST", &path, "metadata[creator_gateway_credits]=").await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS - 1_500);
        app.at_processor("POST", &path, "metadata[creator_gateway_credits]=keep").await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);
        // Another value of the same name is no mark.
        let form = format!(
            "payment_intent={intent}&amount={}&metadata[creator_gateway_credits]=Keep",
            PACK_CENTS - 300
        );
        app.at_processor("POST", "refunds", &form).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, 1_500);

        app.run_jobs().await;
        let mails = app.mails_to("customer0@example.com").await;
        let refunds =
            mails.iter().filter(|mail| mail["subject"].as_str().unwrap().contains("refund"));
        assert_eq!(refunds.count(), 2, "one for each refund: {mails:?}");
        app
    })
    .await;
}
