//! Subscriptions: how they start and end, what a change does to items and periods, and previews.

use serde_json::{Value, json};

use crate::checks::{
    DAY_S, NOW_S, assert_fields, assert_refused, count, ids, latest_event, mark, missing, pass,
    since,
};
use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

fn items(subscription: &Value) -> &Vec<Value> {
    subscription["items"]["data"].as_array().unwrap()
}

/// A paid subscription; returns its path and its only item.
async fn path_and_item(shop: &Shop, plan: &str) -> (String, Value) {
    let (_, subscription) = subscribed(shop, plan).await;
    (format!("subscriptions/{}", id(&subscription)), items(&subscription)[0].clone())
}

async fn pending(shop: &Shop) -> Vec<i64> {
    let listed = shop.read("invoiceitems?pending=true").await;
    let all = listed["data"].as_array().unwrap().iter().rev();
    all.map(|item| item["amount"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn an_invalid_subscription_is_refused_with_its_parameter() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let (_, foreign) = shop.customer("pm_card_visa").await;
    let plan = price(&shop, "Studio", 4900).await;
    let retired = price(&shop, "Old", 4900).await;
    shop.done(&format!("prices/{retired}"), "active=false").await;
    let good = format!("customer={customer}&items[0][price]={plan}");
    let of = format!("customer={customer}");
    let field = "items[0][quantity]";
    assert_refused(
        &shop,
        "subscriptions",
        &[
            (&format!("items[0][price]={plan}"), "parameter_missing", "customer"),
            (&of, "parameter_missing", "items"),
            (&format!("{of}&items[0][quantity]=1"), "parameter_missing", "items[0][price]"),
            (&format!("{of}&items[0][price]=price_none"), "resource_missing", "items[0][price]"),
            (&format!("{of}&items[0][price]={retired}"), "", "items[0][price]"),
            (&format!("{good}&{field}=-1"), "parameter_invalid_integer", field),
            (&format!("{good}&{field}=1000000"), "parameter_invalid_integer", field),
            (&format!("{good}&items[1][price]={plan}"), "", "items"),
            (&format!("{good}&payment_behavior=hope"), "", "payment_behavior"),
            (
                &format!("{good}&default_payment_method={foreign}"),
                "resource_missing",
                "default_payment_method",
            ),
            (
                &format!("{good}&trial_period_days=x"),
                "parameter_invalid_integer",
                "trial_period_days",
            ),
            (&format!("{good}&coupon=FREE"), "parameter_unknown", "coupon"),
            (
                &format!("{good}&discounts[0][coupon]=NONE"),
                "resource_missing",
                "discounts[0][coupon]",
            ),
            (
                &format!("{good}&trial_settings[end_behavior][missing_payment_method]=wait"),
                "",
                "trial_settings[end_behavior][missing_payment_method]",
            ),
        ],
    )
    .await;
    assert_eq!(count(&shop, "subscriptions?status=all").await, 0);
    missing(&shop, "subscriptions/sub_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn the_first_payment_decides_how_a_subscription_starts() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let fails = "pm_card_chargeCustomerFail";
    let asks = "pm_card_authenticationRequired";
    for (card, behavior, status, started, invoice) in [
        ("pm_card_visa", "error_if_incomplete", 200, "active", "paid"),
        ("pm_card_visa", "default_incomplete", 200, "incomplete", "open"),
        (fails, "allow_incomplete", 200, "incomplete", "open"),
        (asks, "allow_incomplete", 200, "incomplete", "open"),
        (fails, "error_if_incomplete", 402, "", ""),
        (asks, "error_if_incomplete", 402, "", ""),
    ] {
        let (customer, _) = shop.customer(card).await;
        let before = mark(&shop).await;
        let form = format!(
            "customer={customer}&items[0][price]={plan}&payment_behavior={behavior}\
             &expand[]=latest_invoice"
        );
        let reply = shop.post("subscriptions", &form).await;
        assert_eq!(reply.status, status, "{card} {behavior}: {}", reply.text);
        if status == 200 {
            let wanted = json!({"status": started, "latest_invoice.status": invoice});
            assert_fields(&reply.json(), &wanted);
            continue;
        }
        assert_eq!(since(&shop, before).await, [""; 0], "{card}: a refusal leaves no trace");
        let of_customer = format!("subscriptions?status=all&customer={customer}");
        assert_eq!(count(&shop, &of_customer).await, 0, "{card}");
    }
    let nobody = id(&shop.done("customers", "").await);
    let form = format!("customer={nobody}&items[0][price]={plan}");
    assert_eq!(shop.refused("subscriptions", &form, 400).await["code"], "resource_missing");
    shop.close().await;
}

#[tokio::test]
async fn an_incomplete_subscription_is_paid_in_the_browser_or_expires_after_23_hours() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, _) = shop.customer("pm_card_visa").await;
    let form = format!(
        "customer={customer}&items[0][price]={plan}&payment_behavior=default_incomplete\
         &expand[]=latest_invoice.confirmation_secret&expand[]=latest_invoice.payments"
    );
    let paid = shop.done("subscriptions", &form).await;
    let left = shop.done("subscriptions", &form).await;
    let refused = format!("subscriptions/{}", id(&left));
    let refused = shop.refused(&refused, &format!("items[0][price]={plan}"), 400).await;
    assert!(refused["message"].as_str().unwrap().contains("`incomplete`"), "{refused}");

    let invoice = &paid["latest_invoice"];
    let intent = invoice["payments"]["data"][0]["payment"]["payment_intent"].as_str().unwrap();
    let secret = invoice["confirmation_secret"]["client_secret"].as_str().unwrap();
    assert!(secret.starts_with(&format!("{intent}_secret_")), "{secret}");
    let before = mark(&shop).await;
    let confirm = format!("payment_intents/{intent}/confirm");
    shop.done(&confirm, "payment_method=pm_card_visa&return_url=https://a.example/").await;
    let followed = since(&shop, before).await;
    pass(&shop, 23 * 3_600 - 1);
    let early = shop.read(&format!("subscriptions/{}", id(&left))).await;
    pass(&shop, 1);
    let late = shop.read(&format!("subscriptions/{}", id(&left))).await;

    assert_eq!(followed.last().unwrap(), "customer.subscription.updated");
    assert_eq!(shop.read(&format!("subscriptions/{}", id(&paid))).await["status"], "active");
    assert_eq!(
        (&early["status"], &late["status"]),
        (&json!("incomplete"), &json!("incomplete_expired"))
    );
    assert_eq!(ids(&shop, "subscriptions").await, [id(&paid)]);
    assert_eq!(ids(&shop, "subscriptions?status=incomplete_expired").await, [id(&left)]);
    assert_eq!(ids(&shop, "subscriptions?status=ended").await, [id(&left)]);
    shop.close().await;
}

#[tokio::test]
async fn entries_with_an_id_change_an_item_and_others_add_one() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (path, first) = path_and_item(&shop, &plan).await;
    let change = |form: String| {
        let (shop, path) = (&shop, &path);
        async move { shop.done(path, &format!("{form}&proration_behavior=none")).await }
    };

    let added = change(format!("items[0][price]={slot}&items[0][quantity]=3")).await;
    let second = id(&items(&added)[1]);
    let free = change(format!("items[0][id]={second}&items[0][quantity]=0")).await;
    let larger = price(&shop, "Larger", 5000).await;
    let same = change(format!("items[0][id]={second}&items[0][quantity]=4")).await;
    let swapped = change(format!("items[0][id]={second}&items[0][price]={larger}")).await;
    let removed = change(format!("items[0][id]={second}&items[0][deleted]=true")).await;

    let shown = |subscription: &Value| -> Vec<(Value, Value)> {
        let all = items(subscription).iter();
        all.map(|item| (item["price"]["id"].clone(), item["quantity"].clone())).collect()
    };
    let base = (json!(plan), json!(1));
    assert_eq!(shown(&added), [base.clone(), (json!(slot), json!(3))]);
    assert_eq!(shown(&free), [base.clone(), (json!(slot), json!(0))], "zero keeps the item");
    assert_eq!(shown(&same), [base.clone(), (json!(slot), json!(4))]);
    assert_eq!(
        shown(&swapped),
        [base.clone(), (json!(larger), json!(1))],
        "another price resets the quantity"
    );
    assert_eq!(shown(&removed), [base]);
    let last = format!("items[0][id]={}&items[0][deleted]=true", id(&first));
    assert_refused(&shop, &path, &[(&last, "", "items")]).await;
    assert_eq!(pending(&shop).await, [0_i64; 0], "nothing was prorated");
    shop.close().await;
}

#[tokio::test]
async fn a_subscription_has_at_most_twenty_items() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (path, first) = path_and_item(&shop, &plan).await;
    let mut entries = vec!["proration_behavior=none".to_owned()];
    for place in 0..19 {
        let slot = price(&shop, "Slot", 100).await;
        entries.push(format!("items[{place}][price]={slot}"));
    }
    let full = shop.done(&path, &entries.join("&")).await;
    let another = price(&shop, "Slot", 100).await;

    assert_eq!(items(&full).len(), 20);
    assert_refused(&shop, &path, &[(&format!("items[0][price]={another}"), "", "items")]).await;
    let listed = path.replace("subscriptions/", "subscription_items?limit=100&subscription=");
    assert_eq!(count(&shop, &listed).await, 20);
    let read = shop.read(&format!("subscription_items/{}", id(&first))).await;
    assert_fields(&read, &json!({"object": "subscription_item", "price.id": plan}));
    missing(&shop, "subscription_items/si_none", 404).await;
    assert_eq!(missing(&shop, "subscription_items", 400).await["param"], "subscription");
    shop.close().await;
}

#[tokio::test]
async fn a_proration_is_the_part_of_the_period_that_is_left() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (path, item) = path_and_item(&shop, &plan).await;
    let start = item["current_period_start"].as_i64().unwrap();
    let end = item["current_period_end"].as_i64().unwrap();
    assert_eq!(end - start, 30 * DAY_S, "November has thirty days");
    for (days, amount) in [(0, 3000), (10, 2000), (15, 1500), (29, 100), (30, 0)] {
        let form = format!(
            "subscription={}&subscription_details[items][0][price]={slot}\
             &subscription_details[proration_behavior]=always_invoice\
             &subscription_details[proration_date]={}",
            path.strip_prefix("subscriptions/").unwrap(),
            start + days * DAY_S
        );
        let preview = shop.done("invoices/create_preview", &form).await;
        assert_fields(
            &preview,
            &json!({
                "total": amount, "status": "draft", "number": null,
                "subscription_proration_date": start + days * DAY_S,
                "lines.data.0.period.end": end,
            }),
        );
    }
    for date in [start - 1, end + 1] {
        let form = format!("items[0][price]={slot}&proration_date={date}");
        assert_refused(&shop, &path, &[(&form, "", "proration_date")]).await;
    }
    assert_eq!(count(&shop, "invoices").await, 1, "a preview leaves no invoice");
    assert_eq!(items(&shop.read(&path).await).len(), 1, "and no item");
    shop.close().await;
}

#[tokio::test]
async fn a_preview_shows_the_next_renewal_with_what_waits_for_it() {
    let shop = Shop::open();
    let (plan, slot) = (price(&shop, "Studio", 4900).await, price(&shop, "Slot", 3000).await);
    let (path, _) = path_and_item(&shop, &plan).await;
    let of = format!("subscription={}", path.strip_prefix("subscriptions/").unwrap());
    pass(&shop, 15 * DAY_S);
    shop.done(&path, &format!("items[0][price]={slot}")).await;
    let before = mark(&shop).await;

    let next = shop.done("invoices/create_preview", &of).await;
    let again = shop.done("invoices/create_preview", &of).await;
    shop.done(&path, "cancel_at_period_end=true").await;
    let last = shop.done("invoices/create_preview", &of).await;

    assert_fields(
        &next,
        &json!({"total": 1500 + 4900 + 3000, "billing_reason": "upcoming", "status": "draft"}),
    );
    assert!(id(&next).starts_with("upcoming_in_"), "{next}");
    assert_eq!(again["total"], next["total"]);
    assert_eq!(last["total"], 1500, "without a renewal, only what waits");
    assert_eq!(since(&shop, before).await, ["customer.subscription.updated"]);
    assert_eq!(pending(&shop).await, [1500]);
    shop.done(&path, "cancel_at_period_end=false").await;
    pass(&shop, 15 * DAY_S);
    let renewed = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
    assert_eq!(renewed["latest_invoice"]["total"], next["total"]);
    shop.close().await;
}

#[tokio::test]
async fn what_cannot_be_previewed_is_refused() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (path, _) = path_and_item(&shop, &plan).await;
    let of = format!("subscription={}", path.strip_prefix("subscriptions/").unwrap());
    let other = id(&shop.done("customers", "").await);
    let detail = |form: &str| format!("{of}&subscription_details{form}");
    assert_refused(
        &shop,
        "invoices/create_preview",
        &[
            ("", "parameter_missing", "subscription"),
            ("subscription=sub_none", "resource_missing", "subscription"),
            (&format!("{of}&customer={other}"), "", "customer"),
            (&detail("[proration_behavior]=maybe"), "", "subscription_details[proration_behavior]"),
            (&detail("[proration_date]=1"), "", "subscription_details[proration_date]"),
            (
                &detail("[items][0][price]=price_none"),
                "resource_missing",
                "subscription_details[items][0][price]",
            ),
        ],
    )
    .await;
    shop.done(&path, "cancel_at_period_end=true").await;
    let nothing = shop.refused("invoices/create_preview", &of, 404).await;
    shop.delete(&path).await;
    let ended = shop.refused("invoices/create_preview", &of, 400).await;
    assert_eq!(nothing["code"], "invoice_upcoming_none");
    assert_eq!(ended["code"], "invoice_upcoming_none");
    shop.close().await;
}

#[tokio::test]
async fn another_interval_restarts_the_period_and_charges_immediately() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 3000).await;
    let terms = "currency=usd&unit_amount=30000&recurring[interval]=year&product_data[name]=Year";
    let yearly = id(&shop.done("prices", terms).await);
    let (path, item) = path_and_item(&shop, &plan).await;
    pass(&shop, 15 * DAY_S);

    let form =
        format!("items[0][id]={}&items[0][price]={yearly}&expand[]=latest_invoice", id(&item));
    let changed = shop.done(&path, &form).await;

    let now = NOW_S + 15 * DAY_S;
    assert_fields(
        &changed,
        &json!({
            "billing_cycle_anchor": now, "items.data.0.current_period_start": now,
            "items.data.0.current_period_end": now + 365 * DAY_S,
            "latest_invoice.total": 30_000 - 1_500, "latest_invoice.status": "paid",
            "latest_invoice.billing_reason": "subscription_update",
        }),
    );
    shop.close().await;
}

#[tokio::test]
async fn a_free_subscription_that_becomes_paid_starts_anew() {
    let shop = Shop::open();
    let free = price(&shop, "Free", 0).await;
    let paid = price(&shop, "Paid", 2000).await;
    let customer = id(&shop.done("customers", "").await);
    let start = format!("customer={customer}&items[0][price]={free}");
    let started = shop.done("subscriptions", &start).await;
    assert_eq!(started["status"], "active", "nothing is due, so no card is needed");
    let card = "payment_methods/pm_card_visa/attach";
    let card = id(&shop.done(card, &format!("customer={customer}")).await);
    pass(&shop, 10 * DAY_S);

    let form = format!(
        "items[0][id]={}&items[0][price]={paid}&default_payment_method={card}\
         &expand[]=latest_invoice",
        id(&items(&started)[0])
    );
    let changed = shop.done(&format!("subscriptions/{}", id(&started)), &form).await;

    assert_fields(
        &changed,
        &json!({
            "items.data.0.current_period_start": NOW_S + 10 * DAY_S,
            "latest_invoice.total": 2000, "latest_invoice.status": "paid",
        }),
    );
    shop.close().await;
}

#[tokio::test]
async fn a_subscription_ends_with_its_period_or_immediately() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (path, item) = path_and_item(&shop, &plan).await;
    let end = item["current_period_end"].as_i64().unwrap();

    let leaving = shop.done(&path, "cancel_at_period_end=true&cancellation_details[comment]=Bye");
    let leaving = leaving.await;
    let staying = shop.done(&path, "cancel_at_period_end=false").await;
    pass(&shop, 100);
    let before = mark(&shop).await;
    let ended = shop.delete(&path).await.json();

    assert_fields(
        &leaving,
        &json!({
            "status": "active", "cancel_at_period_end": true, "cancel_at": end,
            "canceled_at": NOW_S, "cancellation_details.comment": "Bye",
            "cancellation_details.reason": "cancellation_requested",
        }),
    );
    assert_fields(
        &staying,
        &json!({
            "cancel_at_period_end": false, "cancel_at": null, "canceled_at": null,
            "cancellation_details.reason": null,
        }),
    );
    let wanted = json!({"status": "canceled", "ended_at": NOW_S + 100, "canceled_at": NOW_S + 100});
    assert_fields(&ended, &wanted);
    assert_eq!(since(&shop, before).await, ["customer.subscription.deleted"]);
    assert_eq!(pending(&shop).await, [0_i64; 0], "without prorate, nothing is credited");
    let error = shop.refused(&path, "metadata[a]=b", 400).await;
    assert!(error["message"].as_str().unwrap().contains("canceled"), "{error}");
    assert_eq!(
        ids(&shop, &format!("subscriptions?status=canceled&price={plan}")).await,
        [id(&ended)]
    );
    shop.close().await;
}

#[tokio::test]
async fn ending_with_prorate_and_an_invoice_settles_the_rest_of_the_period() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 3000).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    pass(&shop, 10 * DAY_S);

    let path = format!("subscriptions/{}?prorate=true&invoice_now=true", id(&subscription));
    let ended = shop.delete(&path).await;

    assert_eq!((ended.status, &ended.json()["status"]), (200, &json!("canceled")));
    let last = ended.json()["latest_invoice"].as_str().unwrap().to_owned();
    let last = shop.read(&format!("invoices/{last}")).await;
    assert_fields(&last, &json!({"total": -2000, "status": "paid", "billing_reason": "manual"}));
    assert_eq!(shop.read(&format!("customers/{customer}")).await["balance"], -2000);
    shop.close().await;
}

#[tokio::test]
async fn a_trial_is_announced_three_days_before_its_end_and_can_end_early() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, _) = shop.customer("pm_card_visa").await;
    let form = format!("customer={customer}&items[0][price]={plan}&trial_period_days=");
    let notice = "customer.subscription.trial_will_end";
    let long = shop.done("subscriptions", &format!("{form}7")).await;
    assert!(!shop.events().await.contains(&notice.to_owned()));
    let before = mark(&shop).await;
    let short = shop.done("subscriptions", &format!("{form}3")).await;
    assert!(since(&shop, before).await.contains(&notice.to_owned()), "it is near already");

    pass(&shop, 4 * DAY_S);
    shop.read("customers").await;
    let event = latest_event(&shop, notice).await;
    let now = format!("subscriptions/{}", id(&long));
    let ended = shop.done(&now, "trial_end=now&expand[]=latest_invoice").await;

    assert_fields(&event, &json!({"data.object.id": long["id"], "created": NOW_S + 4 * DAY_S}));
    assert_fields(
        &ended,
        &json!({
            "status": "active", "trial_end": NOW_S + 4 * DAY_S, "latest_invoice.total": 4900,
            "latest_invoice.billing_reason": "subscription_cycle",
        }),
    );
    let other = shop.read(&format!("subscriptions/{}", id(&short))).await;
    assert_eq!(other["status"], "active", "its trial ended by itself");
    shop.close().await;
}

#[tokio::test]
async fn a_trial_without_a_card_ends_as_it_was_agreed() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    for (behavior, status, last) in [
        ("cancel", "canceled", "customer.subscription.deleted"),
        ("pause", "paused", "customer.subscription.paused"),
        ("create_invoice", "past_due", "customer.subscription.updated"),
    ] {
        let customer = id(&shop.done("customers", "").await);
        let form = format!(
            "customer={customer}&items[0][price]={plan}&trial_period_days=1\
             &trial_settings[end_behavior][missing_payment_method]={behavior}"
        );
        let path = format!("subscriptions/{}", id(&shop.done("subscriptions", &form).await));

        pass(&shop, DAY_S);

        assert_eq!(shop.read(&path).await["status"], status, "{behavior}");
        assert_eq!(shop.events().await.last().unwrap(), last, "{behavior}");
    }
    assert_eq!(count(&shop, "charges").await, 0);
    shop.close().await;
}
