//! Invoices, their lines and what waits for them, in every version that writes them.

use processor_client::objects::{
    InvoiceItem, InvoiceLine, InvoicePayment, InvoiceStatus, LineParentKind, ObjectMetadata,
    ProcessorInvoice,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"))
}

#[test]
fn an_invoice_of_nothing_costs_nothing() {
    for object in [
        json!({}),
        json!({"id": null, "lines": null, "payments": null, "status": null, "total": null,
            "total_taxes": null, "total_discount_amounts": null, "status_transitions": null,
            "metadata": null, "period_start": null, "created": null, "parent": null}),
        json!({"lines": {"data": null, "has_more": null}, "payments": {}, "status_transitions": {},
            "parent": {}, "subscription_details": null}),
    ] {
        let invoice: ProcessorInvoice = read(&object);

        assert_eq!((invoice.id.as_str(), invoice.total, invoice.tax()), ("", 0, 0), "{object}");
        assert_eq!((invoice.discount(), invoice.paid_at()), (0, 0), "{object}");
        assert_eq!((invoice.status, invoice.is_paid()), (InvoiceStatus::Other, false), "{object}");
        assert_eq!((invoice.subscription_id(), invoice.payment_intent_id()), (None, None));
        assert_eq!((invoice.customer_id(), invoice.lines.data.len()), (None, 0));
        assert!(invoice.subscription_metadata().is_none_or(ObjectMetadata::is_empty));
    }
}

#[test]
fn an_invoice_is_paid_by_its_status_or_in_old_versions_by_a_field() {
    for (object, is_paid) in [
        (json!({"status": "paid"}), true),
        (json!({"status": "open", "paid": true}), true),
        (json!({"status": "paid", "paid": false}), true),
        (json!({"status": "open", "paid": null}), false),
        (json!({"status": "open"}), false),
        (json!({"status": "draft"}), false),
        (json!({"status": "void"}), false),
        (json!({"status": "uncollectible"}), false),
        (json!({"status": "a new word"}), false),
    ] {
        assert_eq!(read::<ProcessorInvoice>(&object).is_paid(), is_paid, "{object}");
    }
}

#[test]
fn the_subscription_of_an_invoice_is_found_in_every_version() {
    for (object, id) in [
        (json!({"parent": {"subscription_details": {"subscription": "sub_1"}}}), Some("sub_1")),
        (json!({"subscription_details": {"subscription": "sub_1"}}), Some("sub_1")),
        (json!({"subscription": "sub_1"}), Some("sub_1")),
        (json!({"subscription": {"id": "sub_1", "items": {"data": []}}}), Some("sub_1")),
        (json!({"subscription": "sub_1", "subscription_details": {"metadata": {}}}), Some("sub_1")),
        (
            json!({"subscription": "sub_2",
                "parent": {"subscription_details": {"subscription": {"id": "sub_1"}}}}),
            Some("sub_1"),
        ),
        (json!({"parent": {"type": "quote_details"}, "subscription": null}), None),
    ] {
        assert_eq!(read::<ProcessorInvoice>(&object).subscription_id(), id, "{object}");
    }
}

#[test]
fn what_a_subscription_was_known_by_comes_with_its_invoice() {
    let new = json!({"parent": {"subscription_details": {"metadata": {"plan_id": "pro"}}},
        "subscription_details": {"metadata": {"plan_id": "old"}}});
    let old = json!({"subscription_details": {"metadata": {"plan_id": "old"}}});

    let plan = |object| {
        let invoice: ProcessorInvoice = read(object);
        invoice.subscription_metadata().unwrap()["plan_id"].clone()
    };

    assert_eq!((plan(&new), plan(&old)), ("pro".to_owned(), "old".to_owned()));
}

#[test]
fn the_payment_that_paid_counts_before_those_that_did_not() {
    let payment =
        |status: &str, id: Value| json!({"status": status, "payment": {"payment_intent": id}});
    for (object, id) in [
        (json!([payment("open", json!("pi_1")), payment("paid", json!("pi_2"))]), Some("pi_2")),
        (json!([payment("canceled", json!("pi_1")), payment("open", json!("pi_2"))]), Some("pi_1")),
        (json!([payment("paid", json!(null)), payment("open", json!("pi_2"))]), Some("pi_2")),
        (json!([payment("paid", json!({"id": "pi_3", "amount": 5}))]), Some("pi_3")),
        (json!([{"status": "paid"}, {"status": "paid", "payment": null}]), Some("pi_0")),
        (json!([]), Some("pi_0")),
    ] {
        let invoice = json!({"payments": {"data": object}, "payment_intent": "pi_0"});

        assert_eq!(read::<ProcessorInvoice>(&invoice).payment_intent_id(), id, "{invoice}");
    }
    let of_other_kind: InvoicePayment = read(&json!({"invoice": "in_1", "status": "paid",
        "payment": {"type": "charge", "charge": "ch_1"}}));
    assert_eq!(of_other_kind.payment_intent_id(), None);
    assert_eq!(of_other_kind.invoice.unwrap().id(), "in_1");
}

#[test]
fn an_invoice_says_when_it_was_paid_or_else_when_it_was_made() {
    for (object, at) in [
        (json!({"created": 5, "status_transitions": {"paid_at": 9}}), 9),
        (json!({"created": 5, "status_transitions": {"paid_at": null, "voided_at": 9}}), 5),
        (json!({"created": 5}), 5),
    ] {
        assert_eq!(read::<ProcessorInvoice>(&object).paid_at(), at, "{object}");
    }
}

#[test]
fn sums_of_amounts_that_nobody_can_pay_stay_sums() {
    let huge = json!([{"amount": i64::MAX}, {"amount": i64::MAX}, {"amount": null}, {}]);
    let invoice: ProcessorInvoice = read(&json!({
        "total_taxes": huge, "total_discount_amounts": huge,
        "lines": {"data": [{"amount": i64::MIN, "discount_amounts": huge, "taxes": huge}]},
    }));
    let computed: ProcessorInvoice =
        read(&json!({"total": i64::MIN, "total_excluding_tax": i64::MAX}));
    let item: InvoiceItem = read(&json!({"id": "ii_1", "amount": i64::MIN,
        "proration_details": {"discount_amounts": huge}}));

    assert_eq!((invoice.tax(), invoice.discount()), (i64::MAX, i64::MAX));
    let line = &invoice.lines.data[0];
    assert_eq!((line.tax(), line.discount(), line.net_amount()), (i64::MAX, i64::MAX, i64::MIN));
    assert_eq!(computed.tax(), i64::MIN);
    assert_eq!(item.net_amount(), i64::MIN);
}

#[test]
fn the_tax_of_a_line_is_found_in_old_and_new_versions() {
    for (line, tax) in [
        (json!({"taxes": [{"amount": 3}, {"amount": 4}]}), 7),
        (json!({"tax_amounts": [{"amount": 3, "inclusive": false}]}), 3),
        (json!({"taxes": [], "tax_amounts": [{"amount": 3}]}), 3),
        (json!({"taxes": [{"amount": 5}], "tax_amounts": [{"amount": 3}]}), 5),
        (json!({"taxes": null, "tax_amounts": null}), 0),
        (json!({}), 0),
    ] {
        assert_eq!(read::<InvoiceLine>(&line).tax(), tax, "{line}");
    }
}

#[test]
fn a_line_is_a_proration_wherever_its_version_says_so() {
    let of = |kind: &str, proration: bool| json!({"parent": {kind: {"proration": proration}}});
    for (line, is_proration) in [
        (of("subscription_item_details", true), true),
        (of("invoice_item_details", true), true),
        (of("invoice_item_details", false), false),
        (json!({"proration": true}), true),
        (json!({"proration": null}), false),
        (json!({"proration": false, "parent": null}), false),
        (json!({"parent": {"subscription_item_details": {"proration": null}}}), false),
    ] {
        assert_eq!(read::<InvoiceLine>(&line).is_proration(), is_proration, "{line}");
    }
}

#[test]
fn a_line_of_an_old_version_has_no_parent() {
    let old: InvoiceLine = read(&json!({"id": "il_1", "type": "subscription"}));
    let new: InvoiceLine = read(&json!({"parent": {"type": "schedule_details"}}));

    assert_eq!((old.parent_kind(), old.subscription_item_id()), (None, None));
    assert_eq!((old.invoice_item_id(), old.credited_items()), (None, None));
    assert_eq!(new.parent_kind(), Some(LineParentKind::Other));
    assert_eq!(LineParentKind::Other.as_str(), "unknown");
    assert_eq!(LineParentKind::InvoiceItem.as_str(), "invoice_item_details");
}

#[test]
fn price_and_product_are_found_in_old_and_new_versions() {
    let new = json!({"price_details": {"price": "price_1", "product": "prod_1"}});
    let expanded =
        json!({"price_details": {"price": {"id": "price_1"}, "product": {"id": "prod_1"}}});
    let old = json!({"id": "price_0", "product": "prod_0"});
    for (object, price, product) in [
        (json!({"pricing": new, "price": old}), Some("price_1"), Some("prod_1")),
        (json!({"pricing": expanded}), Some("price_1"), Some("prod_1")),
        (json!({"price": old}), Some("price_0"), Some("prod_0")),
        (
            json!({"price": old, "pricing": {"price_details": null}}),
            Some("price_0"),
            Some("prod_0"),
        ),
        (json!({"price": {"id": "price_0"}}), Some("price_0"), None),
        (json!({"price": null, "pricing": null}), None, None),
    ] {
        let line: InvoiceLine = read(&object);
        let mut object = object.clone();
        object["id"] = json!("ii_1");
        let item: InvoiceItem = read(&object);

        assert_eq!((line.price_id(), line.product_id()), (price, product), "{object}");
        assert_eq!((item.price_id(), item.product_id()), (price, product), "{object}");
    }
}

#[test]
fn an_item_that_waits_names_its_subscription_in_old_and_new_versions() {
    for (object, id) in [
        (json!({"parent": {"subscription_details": {"subscription": "sub_1"}}}), Some("sub_1")),
        (json!({"subscription": "sub_0"}), Some("sub_0")),
        (json!({"subscription": {"id": "sub_0"}, "parent": {"type": "x"}}), Some("sub_0")),
        (json!({"subscription": null, "parent": null}), None),
    ] {
        let mut object = object;
        object["id"] = json!("ii_1");

        assert_eq!(read::<InvoiceItem>(&object).subscription_id(), id, "{object}");
    }
}

#[test]
fn what_an_item_costs_after_discounts_is_what_the_processor_says_or_else_the_difference() {
    let off = json!({"discount_amounts": [{"amount": -25}]});
    for (fields, net) in [
        (json!({"amount": -100, "net_amount": -70, "proration_details": off}), -70),
        (json!({"amount": -100, "net_amount": 0, "proration_details": off}), 0),
        (json!({"amount": -100, "proration_details": off}), -75),
        (json!({"amount": -100, "proration_details": {"discount_amounts": null}}), -100),
        (json!({"amount": null}), 0),
    ] {
        let mut fields = fields;
        fields["id"] = json!("ii_1");

        assert_eq!(read::<InvoiceItem>(&fields).net_amount(), net, "{fields}");
    }
}
