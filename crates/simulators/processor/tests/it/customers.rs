//! Customers: their fields, the limits of metadata, tax ids, and what ends with a customer.

use serde_json::{Value, json};

use crate::checks::{
    NOW_S, assert_fields, assert_refused, count, ids, latest_event, mark, missing, post_in, since,
};
use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

#[tokio::test]
async fn a_new_customer_has_what_was_sent_and_nulls_elsewhere() {
    let shop = Shop::open();
    let form = "email=ada@example.com&name=Ada&description=First&phone=5550100&balance=-500\
                &address[country]=DE&address[city]=Berlin&metadata[customer_id]=c1";

    let made = shop.done("customers", form).await;
    let bare = shop.done("customers", "").await;

    assert!(id(&made).starts_with("cus_"), "{made}");
    assert_fields(
        &made,
        &json!({
            "object": "customer", "email": "ada@example.com", "name": "Ada", "description": "First",
            "phone": "5550100", "balance": -500, "address.country": "DE", "address.city": "Berlin",
            "address.line1": null, "metadata": {"customer_id": "c1"}, "livemode": false,
            "created": NOW_S, "invoice_settings.default_payment_method": null, "delinquent": false,
        }),
    );
    assert_eq!(shop.read(&format!("customers/{}", id(&made))).await, made);
    for field in ["email", "name", "description", "phone", "address", "default_source", "shipping"]
    {
        assert_eq!(bare[field], Value::Null, "{field}");
        assert!(bare.get(field).is_some(), "{field} is present without a value");
    }
    assert_eq!((&bare["balance"], &bare["metadata"]), (&json!(0), &json!({})));
    shop.close().await;
}

#[tokio::test]
async fn an_empty_value_unsets_a_field_and_an_unnamed_field_stays() {
    let shop = Shop::open();
    let form = "email=ada@example.com&name=Ada&description=D&phone=1&metadata[a]=1&metadata[b]=2";
    let path = format!("customers/{}", id(&shop.done("customers", form).await));

    let renamed = shop.done(&path, "name=Bob").await;
    let emptied = shop.done(&path, "email=&description=&phone=&metadata[a]=").await;
    let cleared = shop.done(&path, "metadata=").await;

    assert_fields(&renamed, &json!({"name": "Bob", "email": "ada@example.com", "phone": "1"}));
    assert_fields(
        &emptied,
        &json!({"email": null, "description": null, "phone": null, "metadata": {"b": "2"}}),
    );
    assert_eq!((&cleared["metadata"], &cleared["name"]), (&json!({}), &json!("Bob")));
    shop.close().await;
}

#[tokio::test]
async fn an_update_event_has_the_previous_values_of_what_changed() {
    let shop = Shop::open();
    let path = format!("customers/{}", id(&shop.done("customers", "name=Ada&phone=1").await));
    let before = mark(&shop).await;

    shop.done(&path, "name=Bob&phone=1").await;

    assert_eq!(since(&shop, before).await, ["customer.updated"]);
    let event = latest_event(&shop, "customer.updated").await;
    assert_eq!(event["data"]["previous_attributes"], json!({"name": "Ada"}));
    assert_eq!(event["data"]["object"]["name"], "Bob");
    let created = latest_event(&shop, "customer.created").await;
    assert!(created["data"].get("previous_attributes").is_none(), "{created}");
    assert_eq!(created["data"]["object"]["name"], "Ada", "an event keeps the object as it was");
    shop.close().await;
}

#[tokio::test]
async fn metadata_has_limits_on_keys_values_and_number() {
    let shop = Shop::open();
    let (key, long_key) = ("k".repeat(40), "k".repeat(41));
    let (value, long_value) = ("v".repeat(500), "v".repeat(501));
    let many = |count: usize| {
        let all = (0..count).map(|number| format!("metadata[k{number}]=v"));
        all.collect::<Vec<_>>().join("&")
    };

    let kept = shop.done("customers", &format!("metadata[{key}]={value}")).await;
    let fifty = shop.done("customers", &many(50)).await;
    let by_key = shop.refused("customers", &format!("metadata[{long_key}]=v"), 400).await;
    let by_value = shop.refused("customers", &format!("metadata[k]={long_value}"), 400).await;
    let by_number = shop.refused("customers", &many(51), 400).await;
    let more = shop.refused(&format!("customers/{}", id(&fifty)), "metadata[new]=v", 400).await;

    assert_eq!(kept["metadata"][&key], json!(value));
    assert_eq!(fifty["metadata"].as_object().unwrap().len(), 50);
    assert_eq!(by_key["param"], format!("metadata[{long_key}]"));
    assert_eq!(by_value["param"], "metadata[k]");
    assert_eq!((&by_number["param"], &more["param"]), (&json!("metadata"), &json!("metadata")));
    // A full customer can exchange a key.
    let exchanged = format!("customers/{}", id(&fifty));
    let exchanged = shop.done(&exchanged, "metadata[k0]=&metadata[new]=v").await;
    assert_eq!(exchanged["metadata"]["new"], "v");
    assert_eq!(count(&shop, "customers").await, 2, "a refused customer does not exist");
    shop.close().await;
}

#[tokio::test]
async fn a_refused_change_names_its_parameter() {
    let shop = Shop::open();
    let (_, method) = shop.customer("pm_card_visa").await;
    let path = format!("customers/{}", id(&shop.done("customers", "name=Ada").await));
    let foreign = format!("invoice_settings[default_payment_method]={method}");

    assert_refused(
        &shop,
        &path,
        &[
            ("email=nobody", "email_invalid", "email"),
            ("balance=much", "parameter_invalid_integer", "balance"),
            ("currency=usd", "parameter_unknown", "currency"),
            ("address[planet]=Mars", "parameter_unknown", "address[planet]"),
            ("test_clock=clock_1", "parameter_unknown", "test_clock"),
            ("coupon=FREE", "parameter_unknown", "coupon"),
            ("balance=", "parameter_invalid_empty", "balance"),
            (&foreign, "resource_missing", "invoice_settings[default_payment_method]"),
            (
                "invoice_settings[default_payment_method]=pm_none",
                "resource_missing",
                "invoice_settings[default_payment_method]",
            ),
        ],
    )
    .await;
    assert_eq!(shop.read(&path).await["name"], "Ada");
    shop.refused("customers/cus_none", "name=Eve", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn a_customer_is_created_with_a_card_or_not_at_all() {
    let shop = Shop::open();
    let before = mark(&shop).await;
    let form = "payment_method=pm_card_visa&invoice_settings[default_payment_method]=pm_card_visa";

    let made = shop.done("customers", form).await;
    let followed = since(&shop, before).await;
    let declined = shop.refused("customers", "payment_method=pm_card_chargeDeclined", 402).await;

    let methods = ids(&shop, &format!("customers/{}/payment_methods", id(&made))).await;
    assert_eq!(json!(methods), json!([made["invoice_settings"]["default_payment_method"]]));
    assert_eq!(followed, ["payment_method.attached", "customer.created"]);
    assert_fields(&declined, &json!({"code": "card_declined", "decline_code": "generic_decline"}));
    assert_eq!(ids(&shop, "customers").await, [id(&made)]);
    shop.close().await;
}

#[tokio::test]
async fn deleting_a_customer_ends_subscriptions_and_detaches_cards() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let path = format!("customers/{customer}");
    let method = ids(&shop, &format!("{path}/payment_methods")).await[0].clone();
    let before = mark(&shop).await;

    let gone = shop.delete(&path).await;

    assert_eq!(gone.json(), json!({"id": customer, "object": "customer", "deleted": true}));
    assert_eq!(
        since(&shop, before).await,
        ["customer.subscription.deleted", "payment_method.detached", "customer.deleted"]
    );
    let ended = shop.read(&format!("subscriptions/{}", id(&subscription))).await;
    assert_eq!(ended["status"], "canceled");
    assert_eq!(shop.read(&format!("payment_methods/{method}")).await["customer"], Value::Null);
    assert_eq!(shop.read(&path).await["deleted"], true, "its id stays known");
    assert_eq!(count(&shop, "customers").await, 0);
    assert_eq!(shop.delete(&path).await.status, 404);
    shop.refused(&path, "name=Eve", 404).await;
    for (route, form) in [
        ("payment_intents", "amount=500&currency=usd&"),
        ("setup_intents", ""),
        ("billing_portal/sessions", ""),
        ("invoices", ""),
    ] {
        let error = shop.refused(route, &format!("{form}customer={customer}"), 400).await;
        let wanted = json!({"code": "resource_missing", "param": "customer"});
        assert_fields(&error, &wanted);
    }
    shop.close().await;
}

#[tokio::test]
async fn customers_are_found_by_email_and_show_live_subscriptions_on_request() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    shop.done("customers", "email=bob@example.com").await;
    let path = format!("customers/{customer}");
    let expanded = format!("{path}?expand[]=subscriptions");

    let live = shop.read(&expanded).await;
    shop.delete(&format!("subscriptions/{}", id(&subscription))).await;
    let ended = shop.read(&expanded).await;

    assert_eq!(ids(&shop, "customers?email=ada@example.com").await, [customer]);
    assert_eq!(count(&shop, "customers?email=ada").await, 0, "not by a part of it");
    assert!(shop.read(&path).await.get("subscriptions").is_none());
    assert_eq!(live["subscriptions"]["data"][0]["id"], subscription["id"]);
    assert_eq!(ended["subscriptions"]["data"], json!([]));
    shop.close().await;
}

#[tokio::test]
async fn the_first_source_is_the_default_and_pays_invoices() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let path = format!("customers/{customer}");
    let before = mark(&shop).await;

    let first = shop.done(&format!("{path}/sources"), "source=tok_visa&metadata[a]=b").await;
    let second = shop.done(&format!("{path}/sources"), "source=tok_mastercard").await;

    assert_fields(
        &first,
        &json!({
            "object": "card", "brand": "visa", "last4": "4242", "customer": customer, "metadata.a": "b",
        }),
    );
    assert_eq!(since(&shop, before).await, ["customer.source.created"; 2]);
    assert_eq!(shop.read(&path).await["default_source"], first["id"]);
    let plan = price(&shop, "Studio", 4900).await;
    let form = format!("customer={customer}&items[0][price]={plan}");
    assert_eq!(shop.done("subscriptions", &form).await["status"], "active");
    let changed = format!("{path}/sources/{}", id(&second));
    let changed = shop.done(&changed, "name=Ada&exp_month=3&exp_year=2031").await;
    assert_fields(&changed, &json!({"name": "Ada", "exp_month": 3, "exp_year": 2031}));
    let stranger = id(&shop.done("customers", "").await);
    shop.refused(&format!("customers/{stranger}/sources/{}", id(&second)), "name=Eve", 404).await;
    shop.refused(&format!("{path}/sources"), "source=tok_chargeDeclined", 402).await;
    assert_refused(
        &shop,
        &format!("{path}/sources"),
        &[
            ("", "parameter_missing", "source"),
            ("source=tok_none", "resource_missing", "source"),
            ("source=pm_card_visa", "resource_missing", "source"),
        ],
    )
    .await;
    shop.close().await;
}

#[tokio::test]
async fn a_tax_id_is_checked_kept_once_and_listed() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let path = format!("customers/{customer}/tax_ids");

    let made = shop.done(&path, "type=eu_vat&value=DE123456789").await;
    let again = shop.done(&path, "type=eu_vat&value=DE123456789").await;
    let other = shop.done(&path, "type=ch_vat&value=CHE123456789").await;

    assert_fields(
        &made,
        &json!({
            "object": "tax_id", "type": "eu_vat", "value": "DE123456789", "country": "DE",
            "customer": customer, "verification.status": "verified",
        }),
    );
    assert_eq!(again["id"], made["id"]);
    assert_eq!(ids(&shop, &path).await, [id(&made), id(&other)]);
    assert_refused(
        &shop,
        &path,
        &[
            ("value=DE123456789", "parameter_missing", "type"),
            ("type=eu_vat", "parameter_missing", "value"),
            ("type=mars_vat&value=M1", "", "type"),
            ("type=eu_vat&value=CHE123456789", "tax_id_invalid", "value"),
            ("type=eu_vat&value=DE1234567", "tax_id_invalid", "value"),
            ("type=eu_vat&value=DE1234567890123", "tax_id_invalid", "value"),
            ("type=eu_vat&value=DE12345-789", "tax_id_invalid", "value"),
        ],
    )
    .await;
    missing(&shop, "customers/cus_none/tax_ids", 404).await;
    shop.close().await;
}

/// Until the end of September 2025, a customer could have a coupon.
#[tokio::test]
async fn an_older_version_gives_a_customer_a_discount() {
    let shop = Shop::open();
    for name in ["HALF", "THIRD"] {
        shop.done("coupons", &format!("id={name}&percent_off=50&duration=forever")).await;
    }
    let old = "2025-06-30.basil";
    let path = format!("customers/{}", id(&shop.done("customers", "").await));
    let before = mark(&shop).await;

    post_in(&shop, old, &path, "coupon=HALF").await;
    post_in(&shop, old, &path, "coupon=THIRD").await;
    post_in(&shop, old, &path, "coupon=").await;
    post_in(&shop, old, &path, "coupon=").await;

    let all = since(&shop, before).await;
    let discounts: Vec<&String> = all.iter().filter(|kind| kind.contains("discount")).collect();
    assert_eq!(
        discounts,
        ["customer.discount.created", "customer.discount.updated", "customer.discount.deleted"]
    );
    assert_eq!(shop.read("coupons/HALF").await["times_redeemed"], 1);
    shop.close().await;
}

#[tokio::test]
async fn customers_are_found_by_metadata_until_they_are_deleted() {
    let shop = Shop::open();
    let made = shop.done("customers", "email=a@example.com&metadata[customer_id]=cus_1").await;
    shop.done("customers", "email=b@example.com&metadata[customer_id]=cus_2").await;
    let search = |query: &str| format!("customers/search?query={query}");

    let found = shop.read(&search("metadata['customer_id']:'cus_1'")).await;
    let by_email = shop.read(&search("email:'b@example.com'")).await;
    shop.delete(&format!("customers/{}", id(&made))).await;
    let gone = shop.read(&search("metadata['customer_id']:'cus_1'")).await;

    let ids = |page: &Value| page["data"].as_array().unwrap().len();
    assert_eq!((ids(&found), ids(&by_email), ids(&gone)), (1, 1, 0));
    assert_eq!(found["data"][0]["id"], made["id"]);
    assert_eq!(shop.get(&search("status:'active'")).await.status, 400);
    shop.close().await;
}
