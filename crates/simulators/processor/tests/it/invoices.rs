//! Invoices that the merchant writes: items, drafts, what becomes of them, and credit notes.

use serde_json::{Value, json};

use crate::checks::{
    DAY_S, NOW_S, assert_fields, assert_refused, count, ids, latest_event, mark, missing, since,
};
use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

/// A draft of nine dollars for a customer; returns its path.
async fn draft(shop: &Shop, customer: &str, more: &str) -> String {
    shop.done("invoiceitems", &format!("customer={customer}&amount=900&currency=usd")).await;
    let form = format!("customer={customer}&pending_invoice_items_behavior=include{more}");
    format!("invoices/{}", id(&shop.done("invoices", &form).await))
}

/// A finalized invoice of nine dollars; returns its path.
async fn open(shop: &Shop, customer: &str) -> String {
    let path = draft(shop, customer, "").await;
    shop.done(&format!("{path}/finalize"), "").await;
    path
}

#[tokio::test]
async fn an_item_waits_until_an_invoice_includes_it() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form = format!("customer={customer}&amount=900&currency=usd&description=Hours");
    let item = shop.done("invoiceitems", &format!("{form}&metadata[a]=b")).await;
    let other = shop.done("invoiceitems", &form).await;
    let gone = shop.delete(&format!("invoiceitems/{}", id(&other))).await;

    let without = shop.done("invoices", &format!("customer={customer}")).await;
    let with = format!("customer={customer}&pending_invoice_items_behavior=include");
    let with = shop.done("invoices", &with).await;

    assert_fields(
        &item,
        &json!({
            "object": "invoiceitem", "amount": 900, "description": "Hours", "invoice": null,
            "proration": false, "metadata": {"a": "b"}, "date": NOW_S,
        }),
    );
    assert_eq!(gone.json()["deleted"], true);
    assert_fields(&without, &json!({"total": 0, "lines.data": []}));
    assert_fields(
        &with,
        &json!({
            "total": 900, "lines.data.0.description": "Hours", "lines.total_count": 1,
            "lines.data.0.parent.invoice_item_details.invoice_item": item["id"],
        }),
    );
    let billed = shop.read(&format!("invoiceitems/{}", id(&item))).await;
    assert_eq!(billed["invoice"], with["id"]);
    assert_eq!(count(&shop, &format!("invoiceitems?customer={customer}&pending=true")).await, 0);
    let of_invoice = format!("invoiceitems?invoice={}", id(&with));
    assert_eq!(ids(&shop, &of_invoice).await, [id(&item)]);
    assert_eq!(
        shop.events().await,
        [
            "customer.created",
            "invoiceitem.created",
            "invoiceitem.created",
            "invoiceitem.deleted",
            "invoice.created",
            "invoice.created"
        ]
    );
    shop.close().await;
}

#[tokio::test]
async fn invalid_items_and_drafts_are_refused() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let of = format!("customer={customer}");
    assert_refused(
        &shop,
        "invoiceitems",
        &[
            ("amount=900", "parameter_missing", "customer"),
            (&of, "parameter_missing", "amount"),
            (&format!("{of}&amount=many"), "parameter_invalid_integer", "amount"),
            (&format!("{of}&amount=900&currency=xyz"), "", "currency"),
            ("customer=cus_none&amount=900", "resource_missing", "customer"),
        ],
    )
    .await;
    assert_refused(
        &shop,
        "invoices",
        &[
            ("", "parameter_missing", "customer"),
            ("customer=cus_none", "resource_missing", "customer"),
            (&format!("{of}&collection_method=barter"), "", "collection_method"),
            (&format!("{of}&collection_method=send_invoice"), "", "days_until_due"),
            (&format!("{of}&days_until_due=3"), "", "days_until_due"),
            (
                &format!("{of}&pending_invoice_items_behavior=some"),
                "",
                "pending_invoice_items_behavior",
            ),
        ],
    )
    .await;
    assert_eq!(count(&shop, "invoices").await, 0);
    missing(&shop, "invoiceitems/ii_none", 404).await;
    missing(&shop, "invoices/in_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn a_draft_has_no_number_until_it_is_finalized() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let path = draft(&shop, &customer, "&description=For you&metadata[a]=b").await;
    let written = shop.read(&path).await;
    let before = mark(&shop).await;

    let finalized = shop.done(&format!("{path}/finalize"), "").await;

    assert_fields(
        &written,
        &json!({
            "status": "draft", "number": null, "billing_reason": "manual", "description": "For you",
            "status_transitions.finalized_at": null, "hosted_invoice_url": null,
            "auto_advance": false, "metadata": {"a": "b"},
        }),
    );
    assert_fields(
        &finalized,
        &json!({
            "status": "open", "amount_due": 900, "amount_remaining": 900, "amount_paid": 0,
            "status_transitions.finalized_at": NOW_S, "status_transitions.paid_at": null,
        }),
    );
    assert!(finalized["number"].is_string(), "{finalized}");
    let page = finalized["hosted_invoice_url"].as_str().unwrap();
    assert_eq!(finalized["invoice_pdf"], format!("{page}/pdf"));
    assert_eq!(since(&shop, before).await, ["invoice.finalized"]);
    let error = shop.refused(&format!("{path}/finalize"), "", 400).await;
    assert_eq!(error["code"], "invoice_not_editable");
    assert_eq!(shop.delete(&path).await.status, 400, "it can no longer be deleted");
    assert_eq!(count(&shop, "charges").await, 0, "nobody has paid");
    shop.close().await;
}

#[tokio::test]
async fn a_draft_can_be_deleted_and_its_texts_changed() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let path = draft(&shop, &customer, "").await;
    let before = mark(&shop).await;

    let form = "description=D&footer=F&auto_advance=true&metadata[a]=b";
    let changed = shop.done(&path, form).await;
    let emptied = shop.done(&path, "description=&metadata=").await;
    let gone = shop.delete(&path).await;

    let wanted = json!({"description": "D", "footer": "F", "auto_advance": true});
    assert_fields(&changed, &wanted);
    assert_fields(&emptied, &json!({"description": null, "footer": "F", "metadata": {}}));
    assert_eq!((gone.status, &gone.json()["deleted"]), (200, &json!(true)));
    assert_eq!(
        since(&shop, before).await,
        ["invoice.updated", "invoice.updated", "invoice.deleted"]
    );
    missing(&shop, &path, 404).await;
    shop.close().await;
}

#[tokio::test]
async fn paying_charges_the_default_card_once() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let path = draft(&shop, &customer, "").await;
    let before = mark(&shop).await;

    let paid = shop.done(&format!("{path}/pay"), "expand[]=payments").await;

    assert_fields(
        &paid,
        &json!({
            "status": "paid", "amount_paid": 900, "amount_remaining": 0, "attempt_count": 1,
            "attempted": true, "status_transitions.paid_at": NOW_S,
            "payments.data.0.status": "paid", "payments.data.0.amount_paid": 900,
            "payments.data.0.payment.type": "payment_intent",
        }),
    );
    assert_eq!(
        since(&shop, before).await,
        [
            "invoice.finalized",
            "payment_intent.created",
            "charge.succeeded",
            "payment_intent.succeeded",
            "invoice_payment.paid",
            "invoice.paid",
            "invoice.payment_succeeded"
        ]
    );
    let again = shop.refused(&format!("{path}/pay"), "", 400).await;
    assert_eq!(again["code"], "invoice_already_paid");
    let intent = paid["payments"]["data"][0]["payment"]["payment_intent"].as_str().unwrap();
    let by_intent = format!("invoice_payments?payment[payment_intent]={intent}");
    let by_invoice = format!("invoice_payments?invoice={}", id(&paid));
    assert_eq!(ids(&shop, &by_intent).await, ids(&shop, &by_invoice).await);
    assert_eq!(count(&shop, "invoice_payments?status=open").await, 0);
    shop.close().await;
}

#[tokio::test]
async fn a_failed_payment_leaves_the_invoice_open_for_another_card() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_chargeCustomerFail").await;
    let path = open(&shop, &customer).await;
    let before = mark(&shop).await;

    let declined = shop.refused(&format!("{path}/pay"), "", 402).await;
    let followed = since(&shop, before).await;
    let form = "payment_method=pm_card_authenticationRequired";
    let away = shop.refused(&format!("{path}/pay"), form, 402).await;
    let present = format!("{form}&off_session=false");
    let there = shop.refused(&format!("{path}/pay"), &present, 402).await;
    let failed = shop.read(&path).await;
    let paid = shop.done(&format!("{path}/pay"), "payment_method=pm_card_visa").await;

    assert_eq!(declined["code"], "card_declined");
    assert_eq!(
        followed,
        [
            "payment_intent.created",
            "charge.failed",
            "payment_intent.payment_failed",
            "invoice.payment_failed"
        ]
    );
    assert_eq!(away["code"], "authentication_required");
    assert_eq!(there["code"], "invoice_payment_intent_requires_action");
    assert_fields(&failed, &json!({"status": "open", "attempt_count": 3, "amount_paid": 0}));
    assert_fields(&paid, &json!({"status": "paid", "attempt_count": 4}));
    assert_eq!(count(&shop, "payment_intents").await, 1, "all attempts share one intent");
    latest_event(&shop, "invoice.payment_action_required").await;
    shop.close().await;
}

#[tokio::test]
async fn an_uncollectible_invoice_can_only_be_voided() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_chargeCustomerFail").await;
    let path = open(&shop, &customer).await;
    shop.refused(&format!("{path}/pay"), "", 402).await;
    let before = mark(&shop).await;

    let lost = shop.done(&format!("{path}/mark_uncollectible"), "").await;
    let again = shop.refused(&format!("{path}/mark_uncollectible"), "", 400).await;
    let pay = shop.refused(&format!("{path}/pay"), "", 400).await;
    let voided = shop.done(&format!("{path}/void"), "").await;

    assert_fields(
        &lost,
        &json!({
            "status": "uncollectible", "status_transitions.marked_uncollectible_at": NOW_S,
        }),
    );
    assert_eq!(again["code"], "invoice_not_editable");
    assert_eq!(pay["code"], "invoice_not_editable");
    let wanted =
        json!({"status": "void", "amount_remaining": 0, "status_transitions.voided_at": NOW_S});
    assert_fields(&voided, &wanted);
    assert_eq!(
        since(&shop, before).await,
        ["invoice.marked_uncollectible", "payment_intent.canceled", "invoice.voided"]
    );
    let unwritten = draft(&shop, &customer, "").await;
    for step in ["void", "mark_uncollectible"] {
        let error = shop.refused(&format!("{unwritten}/{step}"), "", 400).await;
        assert_eq!(error["code"], "invoice_not_editable", "{step}");
    }
    shop.close().await;
}

#[tokio::test]
async fn only_an_invoice_to_be_sent_is_sent() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let charged = draft(&shop, &customer, "").await;
    let sent = draft(&shop, &customer, "&collection_method=send_invoice&days_until_due=14").await;
    let before = mark(&shop).await;

    let open = shop.done(&format!("{sent}/send"), "").await;
    shop.done(&format!("{sent}/send"), "").await;
    shop.refused(&format!("{charged}/send"), "", 400).await;

    assert_fields(
        &open,
        &json!({
            "status": "open", "collection_method": "send_invoice", "due_date": NOW_S + 14 * DAY_S,
        }),
    );
    assert_eq!(since(&shop, before).await, ["invoice.finalized", "invoice.sent", "invoice.sent"]);
    shop.done(&format!("{sent}/pay"), "").await;
    shop.refused(&format!("{sent}/send"), "", 400).await;
    let listed = "invoices?collection_method=send_invoice";
    assert_eq!(ids(&shop, listed).await, [id(&open)]);
    shop.close().await;
}

#[tokio::test]
async fn invoices_are_listed_by_owner_status_and_subscription() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let (other, _) = shop.customer("pm_card_visa").await;
    let manual = open(&shop, &other).await;
    let manual = manual.strip_prefix("invoices/").unwrap();
    let first = id(&subscription["latest_invoice"]);

    for (query, wanted) in [
        (format!("customer={customer}"), first.as_str()),
        (format!("customer={other}"), manual),
        ("status=open".to_owned(), manual),
        ("status=paid".to_owned(), first.as_str()),
        (format!("subscription={}", id(&subscription)), first.as_str()),
    ] {
        assert_eq!(ids(&shop, &format!("invoices?{query}")).await, [wanted], "{query}");
    }
    assert_eq!(ids(&shop, "invoices").await, [manual, first.as_str()]);
    assert_eq!(count(&shop, &format!("invoices/{first}/lines")).await, 1);
    missing(&shop, "invoices/in_none/lines", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn a_balance_changes_what_is_due_but_not_the_total() {
    let shop = Shop::open();
    // (balance before, due, balance after, status, kind of the movement)
    for (balance, due, after, status, kind) in [
        (-400, 500, 0, "open", "applied_to_invoice"),
        (-900, 0, 0, "paid", "applied_to_invoice"),
        (-2_000, 0, -1_100, "paid", "applied_to_invoice"),
        (-851, 0, 49, "paid", "invoice_too_small"),
        (-850, 50, 0, "open", "applied_to_invoice"),
        (100, 1_000, 0, "open", "applied_to_invoice"),
    ] {
        let customer = id(&shop.done("customers", &format!("balance={balance}")).await);
        let path = open(&shop, &customer).await;

        assert_fields(
            &shop.read(&path).await,
            &json!({
                "total": 900, "amount_due": due, "amount_remaining": due, "status": status,
                "starting_balance": balance, "ending_balance": after,
            }),
        );
        assert_eq!(shop.read(&format!("customers/{customer}")).await["balance"], after);
        let moved = shop.read(&format!("customers/{customer}/balance_transactions")).await;
        assert_fields(
            &moved["data"][0],
            &json!({"type": kind, "amount": after - balance, "ending_balance": after}),
        );
    }
    assert_eq!(count(&shop, "payment_intents").await, 0);
    shop.close().await;
}

#[tokio::test]
async fn a_credit_note_lowers_what_is_due_until_it_is_voided() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let path = open(&shop, &customer).await;
    let invoice = path.strip_prefix("invoices/").unwrap();
    let of = format!("invoice={invoice}");
    let before = mark(&shop).await;

    let note = shop.done("credit_notes", &format!("{of}&amount=300&reason=duplicate")).await;
    let less = shop.read(&path).await;
    let lines = "&lines[0][type]=custom_line_item&lines[0][unit_amount]=50&lines[0][quantity]=2";
    let by_lines = shop.done("credit_notes", &format!("{of}{lines}&memo=Sorry")).await;
    let changed = format!("credit_notes/{}", id(&by_lines));
    let changed = shop.done(&changed, "memo=&metadata[a]=b").await;
    let voided = shop.done(&format!("credit_notes/{}/void", id(&note)), "").await;

    assert_fields(&note, &json!({"status": "issued", "amount": 300, "type": "pre_payment"}));
    assert_fields(&less, &json!({"amount_due": 600, "amount_remaining": 600, "total": 900}));
    assert_fields(&changed, &json!({"amount": 100, "memo": null, "metadata": {"a": "b"}}));
    assert_fields(&voided, &json!({"status": "void", "voided_at": NOW_S}));
    assert_eq!(
        since(&shop, before).await,
        ["credit_note.created", "credit_note.created", "credit_note.updated", "credit_note.voided"]
    );
    shop.refused(&format!("credit_notes/{}/void", id(&note)), "", 400).await;
    let paid = shop.done(&format!("{path}/pay"), "").await;
    assert_eq!(paid["amount_paid"], 800, "without the note that is left");
    assert_refused(
        &shop,
        "credit_notes",
        &[
            ("amount=100", "parameter_missing", "invoice"),
            (&format!("{of}&amount=100"), "", "refund_amount"),
        ],
    )
    .await;
    shop.close().await;
}

#[tokio::test]
async fn a_credit_note_is_for_a_part_of_what_is_due() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let path = open(&shop, &customer).await;
    let of = format!("invoice={}", path.strip_prefix("invoices/").unwrap());

    assert_refused(
        &shop,
        "credit_notes",
        &[
            (&of, "parameter_missing", "amount"),
            (&format!("{of}&amount=0"), "", "amount"),
            (&format!("{of}&amount=901"), "", "amount"),
            (&format!("{of}&amount=900&reason=mood"), "", "reason"),
            ("invoice=in_none&amount=1", "resource_missing", "invoice"),
        ],
    )
    .await;
    shop.done("credit_notes", &format!("{of}&amount=900")).await;
    assert_eq!(shop.read(&path).await["amount_due"], 0);
    let unknown: Value = missing(&shop, "credit_notes/cn_none", 404).await;
    assert_eq!(unknown["code"], "resource_missing");
    shop.close().await;
}
