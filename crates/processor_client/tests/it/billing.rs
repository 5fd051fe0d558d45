//! Requests about invoices and balances at the payment processor: what leaves, and how their
//! objects are read.

use processor_client::NewBalanceTransaction;
use processor_client::objects::{
    CheckoutSession, ExpandableObject, InvoiceItem, LineParentKind, ProcessorInvoice,
    ProcessorSubscription,
};
use serde_json::json;

use crate::support::{key, replying, sent};

#[tokio::test]
async fn a_balance_is_moved_by_the_amount_that_the_customer_owes() {
    let (wire, processor) = replying(&json!({
        "id": "cbtxn_1", "amount": 250, "ending_balance": -50, "type": "adjustment", "currency": "usd",
    }));
    let new = NewBalanceTransaction {
        customer: "cus_1",
        amount_cents: 250,
        currency: "usd",
        description: Some("money came back twice"),
        metadata: &[("sale", "sal_1")],
    };

    let made = processor.create_balance_transaction(&new, &key()).await.unwrap();

    assert_eq!((made.amount, made.ending_balance, made.kind.as_str()), (250, -50, "adjustment"));
    let (line, body) = sent(&wire);
    assert_eq!(line, "POST /v1/customers/cus_1/balance_transactions");
    assert_eq!(
        body,
        "amount=250&currency=usd&description=money+came+back+twice&metadata%5Bsale%5D=sal_1"
    );
}

#[tokio::test]
async fn an_invoice_is_paid_with_the_card_that_is_named_and_says_who_is_there() {
    for (card, off_session, expected) in [
        (Some("pm_1"), true, "payment_method=pm_1&off_session=true&expand%5B%5D=payments"),
        (None, false, "off_session=false&expand%5B%5D=payments"),
    ] {
        let (wire, processor) = replying(&json!({"id": "in_1", "status": "paid"}));

        let paid = processor.pay_invoice("in_1", card, off_session, &key()).await.unwrap();

        assert!(paid.is_paid());
        assert_eq!(sent(&wire), ("POST /v1/invoices/in_1/pay".to_owned(), expected.to_owned()));
    }
}

#[tokio::test]
async fn items_that_wait_are_listed_with_what_they_cost_after_discounts() {
    let (wire, processor) = replying(&json!({"data": [
        {"id": "ii_1", "amount": -750, "net_amount": -600, "proration": true, "quantity": 1,
         "period": {"start": 10, "end": 20}, "pricing": {"price_details": {"price": "price_1", "product": "prod_1"}},
         "parent": {"subscription_details": {"subscription": "sub_1", "subscription_item": "si_1"}}},
        {"id": "ii_2", "amount": 500, "net_amount": null,
         "proration_details": {"discount_amounts": [{"amount": 100, "discount": "di_1"}]}},
    ]}));

    let listed = processor.list_pending_items("cus_1", Some("ii_0")).await.unwrap().data;

    let net: Vec<i64> = listed.iter().map(InvoiceItem::net_amount).collect();
    assert_eq!(net, [-600, 400]);
    assert_eq!(
        (listed[0].price_id(), listed[0].subscription_id()),
        (Some("price_1"), Some("sub_1"))
    );
    let (line, _) = sent(&wire);
    let expected = "GET /v1/invoiceitems?limit=100&customer=cus_1&pending=true&starting_after=ii_0";
    assert_eq!(line, expected);
}

#[tokio::test]
async fn prices_are_searched_by_what_was_written_to_them() {
    let (wire, processor) = replying(&json!({"data": [{"id": "price_1"}]}));

    let found = processor.search_prices("plan_id", "it's").await.unwrap();

    assert_eq!(found.data[0].id, "price_1");
    let query =
        "query=active%3A%27true%27+AND+metadata%5B%27plan_id%27%5D%3A%27it%5C%27s%27&limit=100";
    assert_eq!(sent(&wire).0, format!("GET /v1/prices/search?{query}"));
}

#[test]
fn an_invoice_says_what_its_lines_cost_and_what_the_balance_paid() {
    let invoice: ProcessorInvoice = serde_json::from_value(json!({
        "id": "in_1", "number": "A-0001", "status": "paid", "currency": "usd", "subtotal": 19_900, "total": 17_910,
        "amount_due": 17_000, "amount_paid": 17_000, "starting_balance": -910, "ending_balance": 0,
        "period_start": 1, "period_end": 2, "total_taxes": [{"amount": 1_000}, {"amount": 990}],
        "lines": {"data": [
            {"id": "il_1", "amount": 19_900, "discount_amounts": [{"amount": 1_990, "discount": "di_1"}],
             "parent": {"type": "subscription_item_details",
                "subscription_item_details": {"proration": false, "subscription_item": "si_1"}}},
            {"id": "il_2", "amount": -750, "discount_amounts": [{"amount": -75, "discount": "di_1"}],
             "parent": {"type": "invoice_item_details", "invoice_item_details": {"proration": true,
                "invoice_item": "ii_1", "proration_details":
                {"credited_items": {"invoice": "in_0", "invoice_line_items": ["il_0"]}}}}},
        ]},
    }))
    .unwrap();

    assert_eq!((invoice.number.as_deref(), invoice.tax()), (Some("A-0001"), 1_990));
    assert_eq!((invoice.starting_balance, invoice.ending_balance), (-910, Some(0)));
    assert_eq!((invoice.period().start, invoice.period().end), (1, 2));
    let (full, credit) = (&invoice.lines.data[0], &invoice.lines.data[1]);
    assert_eq!((full.discount(), full.net_amount(), full.is_proration()), (1_990, 17_910, false));
    assert_eq!(full.parent_kind(), Some(LineParentKind::SubscriptionItem));
    assert_eq!(full.subscription_item_id(), Some("si_1"));
    assert_eq!((credit.net_amount(), credit.is_proration()), (-675, true));
    assert_eq!(credit.parent_kind(), Some(LineParentKind::InvoiceItem));
    assert_eq!(credit.invoice_item_id(), Some("ii_1"));
    let credited = credit.credited_items().unwrap();
    assert_eq!(
        (credited.invoice.as_str(), &*credited.invoice_line_items),
        ("in_0", &["il_0".to_owned()][..])
    );
}

#[test]
fn tax_is_found_wherever_a_version_says_it() {
    for (fields, tax) in [
        (json!({"total": 110, "total_taxes": [], "total_excluding_tax": 100}), 0),
        (json!({"total": 110, "total_taxes": null, "total_excluding_tax": 100}), 10),
        (json!({"total": 110, "tax": 7}), 7),
        (json!({"total": 110}), 0),
    ] {
        let invoice: ProcessorInvoice = serde_json::from_value(fields.clone()).unwrap();

        assert_eq!(invoice.tax(), tax, "{fields}");
    }
}

#[test]
fn sessions_and_subscriptions_say_what_was_discounted() {
    let session: CheckoutSession = serde_json::from_value(json!({
        "id": "cs_1", "amount_subtotal": 1_000, "amount_total": 960,
        "total_details": {"amount_discount": 200, "amount_tax": 160, "amount_shipping": 0},
    }))
    .unwrap();
    let subscription: ProcessorSubscription = serde_json::from_value(json!({
        "id": "sub_1", "billing_cycle_anchor": 5,
        "discounts": ["di_0", {"id": "di_1", "source": {"type": "coupon", "coupon": "half"}}],
    }))
    .unwrap();

    assert_eq!((session.amount_subtotal, session.amount_total), (Some(1_000), Some(960)));
    assert_eq!(
        (session.total_details.amount_discount, session.total_details.amount_tax),
        (200, 160)
    );
    let discounts: Vec<_> = subscription.discounts.iter().map(ExpandableObject::id).collect();
    assert_eq!((discounts, subscription.billing_cycle_anchor), (vec!["di_0", "di_1"], 5));
    assert_eq!(subscription.discounts[1].object().unwrap().coupon_id(), Some("half"));
}
