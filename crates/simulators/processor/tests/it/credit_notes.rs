//! Credit notes of paid invoices: which lines and which tax they credit, and how the money
//! goes back.

use serde_json::{Value, json};

use crate::checks::{assert_fields, assert_refused, ids, mark, since};
use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

/// A paid invoice for a plan at 4,900 cents with 10 % tax; returns (customer, invoice).
async fn taxed(shop: &Shop) -> (String, Value) {
    shop.control("rules", &json!({"tax_bp": 1000})).await;
    let plan = price(shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(shop, &plan).await;
    (customer, subscription["latest_invoice"].clone())
}

/// The parameters of a note for a part of the invoice's first line.
fn of_line(invoice: &Value, more: &str) -> String {
    format!(
        "invoice={}&lines[0][type]=invoice_line_item&lines[0][invoice_line_item]={}{more}",
        id(invoice),
        id(&invoice["lines"]["data"][0])
    )
}

#[tokio::test]
async fn a_note_for_a_line_credits_its_tax_too_and_refunds_the_payment() {
    let shop = Shop::open();
    let (customer, invoice) = taxed(&shop).await;
    let before = mark(&shop).await;

    let form = of_line(&invoice, "&lines[0][amount]=1000&refund_amount=1100");
    let note = shop.done("credit_notes", &form).await;

    assert_fields(
        &note,
        &json!({
            "object": "credit_note", "amount": 1100, "subtotal": 1000, "total": 1100, "total_excluding_tax": 1000,
            "total_taxes.0.amount": 100, "type": "post_payment", "pre_payment_amount": 0, "post_payment_amount": 1100,
            "lines.data.0.amount": 1000, "lines.data.0.type": "invoice_line_item",
            "lines.data.0.invoice_line_item": invoice["lines"]["data"][0]["id"],
            "refunds.0.amount_refunded": 1100, "out_of_band_amount": null, "customer_balance_transaction": null,
        }),
    );
    let refund = note["refunds"][0]["refund"].as_str().unwrap();
    let refund = shop.read(&format!("refunds/{refund}")).await;
    assert_fields(&refund, &json!({"amount": 1100, "status": "succeeded"}));
    let noted = shop.read(&format!("invoices/{}", id(&invoice))).await;
    assert_fields(
        &noted,
        &json!({"status": "paid", "post_payment_credit_notes_amount": 1100, "amount_due": 5390}),
    );
    assert_eq!(
        since(&shop, before).await,
        ["charge.refunded", "refund.created", "charge.refund.updated", "credit_note.created"]
    );
    // It is listed by its invoice and its customer, with its lines.
    for of in [format!("invoice={}", id(&invoice)), format!("customer={customer}")] {
        assert_eq!(ids(&shop, &format!("credit_notes?{of}")).await, [id(&note)]);
    }
    assert_eq!(ids(&shop, "credit_notes?invoice=in_none").await, [] as [String; 0]);
    let lines = shop.read(&format!("credit_notes/{}/lines", id(&note))).await;
    assert_eq!(lines["data"], note["lines"]["data"]);
    // Money went back, so that it stays.
    shop.refused(&format!("credit_notes/{}/void", id(&note)), "", 400).await;
    shop.close().await;
}

#[tokio::test]
async fn a_note_can_credit_the_tax_alone_or_a_line_without_its_tax() {
    let shop = Shop::open();
    let (_, invoice) = taxed(&shop).await;
    let tax = "&lines[0][tax_amounts][0][amount]=490&lines[0][tax_amounts][0][taxable_amount]=4900\
               &lines[0][tax_amounts][0][tax_rate]=txr_sandbox";

    let form = of_line(&invoice, &format!("&lines[0][amount]=0{tax}&refund_amount=490"));
    let of_tax = shop.done("credit_notes", &form).await;
    let form_of_line =
        of_line(&invoice, "&lines[0][amount]=4900&lines[0][tax_amounts]=&refund_amount=4900");
    let of_line = shop.done("credit_notes", &form_of_line).await;

    assert_fields(&of_tax, &json!({"amount": 490, "subtotal": 0, "total_excluding_tax": 0}));
    assert_fields(
        &of_line,
        &json!({"amount": 4900, "total_taxes": [], "total_excluding_tax": 4900}),
    );
    shop.close().await;
}

#[tokio::test]
async fn the_money_of_a_note_goes_back_by_a_refund_of_before_as_credit_or_elsewhere() {
    let shop = Shop::open();
    let (customer, invoice) = taxed(&shop).await;
    let payment = shop.read(&format!("invoice_payments?invoice={}", id(&invoice))).await;
    let intent = payment["data"][0]["payment"]["payment_intent"].as_str().unwrap().to_owned();
    let refund = shop.done("refunds", &format!("payment_intent={intent}&amount=500")).await;
    let refund = id(&refund);

    let linked = "&lines[0][amount]=1000&lines[0][tax_amounts]=";
    let form = of_line(
        &invoice,
        &format!(
            "{linked}&refunds[0][refund]={refund}&refunds[0][amount_refunded]=400&credit_amount=350&out_of_band_amount=250"
        ),
    );
    let preview = shop.read(&format!("credit_notes/preview?{form}")).await;
    let note = shop.done("credit_notes", &form).await;

    assert_fields(
        &note,
        &json!({
            "amount": 1000, "post_payment_amount": 1000, "out_of_band_amount": 250,
            "refunds": [{"amount_refunded": 400, "payment_record_refund": null, "refund": refund, "type": "refund"}],
        }),
    );
    assert_fields(
        &preview,
        &json!({"amount": 1000, "refunds": note["refunds"], "status": "issued"}),
    );
    let owner = shop.read(&format!("customers/{customer}")).await;
    assert_eq!(owner["balance"], -350);
    let moved = shop.read(&format!("customers/{customer}/balance_transactions")).await;
    assert_fields(
        &moved["data"][0],
        &json!({"id": note["customer_balance_transaction"], "type": "credit_note", "amount": -350, "credit_note": note["id"]}),
    );
    // Of the refund 100 cents are left for another note.
    let more = of_line(
        &invoice,
        &format!(
            "&lines[0][amount]=101&lines[0][tax_amounts]=&refunds[0][refund]={refund}&refunds[0][amount_refunded]=101"
        ),
    );
    shop.refused("credit_notes", &more, 400).await;
    let rest = of_line(
        &invoice,
        &format!("&lines[0][amount]=100&lines[0][tax_amounts]=&refunds[0][refund]={refund}"),
    );
    assert_eq!(shop.done("credit_notes", &rest).await["refunds"][0]["amount_refunded"], 100);
    shop.close().await;
}

#[tokio::test]
async fn notes_that_do_not_add_up_are_refused() {
    let shop = Shop::open();
    let (_, invoice) = taxed(&shop).await;
    let line = |more: &str| of_line(&invoice, more);
    shop.done("credit_notes", &line("&lines[0][amount]=4000&refund_amount=4400")).await;

    assert_refused(
        &shop,
        "credit_notes",
        &[
            (&line("&lines[0][amount]=100&refund_amount=100"), "", "refund_amount"),
            (&line("&lines[0][amount]=100"), "", "refund_amount"),
            (&line("&lines[0][amount]=901&refund_amount=901"), "", "lines[0][amount]"),
            (&line("&lines[0][amount]=9&lines[0][quantity]=1"), "", "lines[0][amount]"),
            (&line(""), "", "lines[0][amount]"),
            (&line("&lines[0][amount]=800&amount=1&refund_amount=880"), "", "amount"),
            (&format!("invoice={}&lines[0][amount]=1", id(&invoice)), "parameter_missing", "lines[0][type]"),
            (&format!("invoice={}&amount=991&refund_amount=991", id(&invoice)), "", "amount"),
            (
                &format!("invoice={}&lines[0][type]=invoice_line_item&lines[0][invoice_line_item]=il_none&lines[0][amount]=1&refund_amount=1", id(&invoice)),
                "resource_missing",
                "lines[0][invoice_line_item]",
            ),
        ],
    )
    .await;
    shop.close().await;
}

#[tokio::test]
async fn an_open_invoice_of_which_everything_is_credited_is_paid() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    shop.control(&format!("customers/{customer}/cards"), &json!({"works": false})).await;
    let ends = subscription["items"]["data"][0]["current_period_end"].as_i64().unwrap();
    shop.control("clock", &json!({"to": ends})).await;
    let due = shop.read(&format!("invoices?customer={customer}&status=open")).await;
    let invoice = due["data"][0].clone();
    let before = mark(&shop).await;

    let part = of_line(&invoice, "&lines[0][amount]=900");
    let note = shop.done("credit_notes", &part).await;
    let less = shop.read(&format!("invoices/{}?expand[]=payments", id(&invoice))).await;
    shop.done("credit_notes", &of_line(&invoice, "&lines[0][amount]=4000")).await;
    let paid = shop.read(&format!("invoices/{}", id(&invoice))).await;

    assert_fields(&note, &json!({"type": "pre_payment", "pre_payment_amount": 900, "refunds": []}));
    assert_fields(
        &less,
        &json!({"amount_remaining": 4000, "payments.data.0.amount_requested": 4000}),
    );
    assert_fields(
        &paid,
        &json!({"status": "paid", "amount_paid": 0, "next_payment_attempt": null}),
    );
    let events = since(&shop, before).await;
    let told = |kind: &str| events.iter().any(|event| event == kind);
    assert!(told("invoice.paid") && told("customer.subscription.updated"), "{events:?}");
    let renewed = shop.read(&format!("subscriptions/{}", id(&subscription))).await;
    assert_eq!(renewed["status"], "active");
    shop.close().await;
}
