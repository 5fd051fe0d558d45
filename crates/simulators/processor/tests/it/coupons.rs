//! Coupons and promotion codes: their terms, limits, and what can be changed of them.

use serde_json::{Value, json};

use crate::checks::{
    NOW_S, assert_fields, assert_refused, count, ids, mark, missing, pass, post_in, since,
};
use crate::kit::{Shop, id};
use crate::subscriptions::price;

/// A promotion code for a new coupon of half the price.
async fn code(shop: &Shop, more: &str) -> Value {
    let coupon = id(&shop.done("coupons", "percent_off=50").await);
    let form = format!("promotion[type]=coupon&promotion[coupon]={coupon}&{more}");
    shop.done("promotion_codes", &form).await
}

/// Enters a promotion code on a new page for ten dollars; returns the status.
async fn enter(shop: &Shop, customer: &str, word: &str) -> u16 {
    let form = format!(
        "mode=payment&customer={customer}&success_url=https://a.example/&allow_promotion_codes=true\
         &line_items[0][quantity]=1&line_items[0][price_data][currency]=usd\
         &line_items[0][price_data][unit_amount]=1000\
         &line_items[0][price_data][product_data][name]=Pack"
    );
    let session = id(&shop.done("checkout/sessions", &form).await);
    let path = format!("checkout/{session}/pay");
    shop.controlled(&path, &json!({"promotion_code": word})).await.status
}

#[tokio::test]
async fn a_coupon_has_a_part_or_an_amount_and_a_duration() {
    let shop = Shop::open();

    let part = shop.done("coupons", "id=HALF&percent_off=12.5&name=Part&metadata[a]=b").await;
    let form = "amount_off=500&currency=usd&duration=repeating&duration_in_months=3";
    let amount = shop.done("coupons", form).await;

    assert_fields(
        &part,
        &json!({
            "id": "HALF", "object": "coupon", "percent_off": 12.5, "amount_off": null,
            "duration": "once", "duration_in_months": null, "name": "Part", "valid": true,
            "times_redeemed": 0, "currency": null, "metadata": {"a": "b"},
        }),
    );
    assert_fields(
        &amount,
        &json!({
            "amount_off": 500, "currency": "usd", "percent_off": null, "duration": "repeating",
            "duration_in_months": 3,
        }),
    );
    assert_eq!(shop.events().await, ["coupon.created"; 2]);
    assert_eq!(ids(&shop, "coupons").await, [id(&amount), id(&part)]);
    shop.close().await;
}

#[tokio::test]
async fn invalid_terms_of_a_coupon_are_refused() {
    let shop = Shop::open();
    shop.done("coupons", "id=TAKEN&percent_off=50").await;
    let months = "duration_in_months";
    assert_refused(
        &shop,
        "coupons",
        &[
            ("", "parameter_missing", "percent_off"),
            ("percent_off=50&amount_off=500&currency=usd", "", ""),
            ("percent_off=0", "", "percent_off"),
            ("percent_off=100.01", "", "percent_off"),
            ("percent_off=half", "", "percent_off"),
            ("amount_off=500", "parameter_missing", "currency"),
            ("amount_off=0&currency=usd", "parameter_invalid_integer", "amount_off"),
            ("percent_off=50&duration=always", "", "duration"),
            ("percent_off=50&duration=repeating", "", months),
            ("percent_off=50&duration=once&duration_in_months=2", "", months),
            (
                "percent_off=50&duration=repeating&duration_in_months=0",
                "parameter_invalid_integer",
                months,
            ),
            ("percent_off=50&max_redemptions=0", "parameter_invalid_integer", "max_redemptions"),
            (&format!("percent_off=50&redeem_by={NOW_S}"), "", "redeem_by"),
            ("percent_off=50&id=TAKEN", "resource_already_exists", "id"),
        ],
    )
    .await;
    for percent in ["100", "0.01"] {
        shop.done("coupons", &format!("percent_off={percent}")).await;
    }
    assert_eq!(count(&shop, "coupons").await, 3);
    shop.close().await;
}

#[tokio::test]
async fn only_the_name_and_the_metadata_of_a_coupon_change() {
    let shop = Shop::open();
    shop.done("coupons", "id=HALF&percent_off=50&name=Old").await;
    let before = mark(&shop).await;

    let renamed = shop.done("coupons/HALF", "name=New&metadata[a]=b").await;
    let unnamed = shop.done("coupons/HALF", "name=").await;
    let wrong = [("percent_off=60", "parameter_unknown", "percent_off")];
    assert_refused(&shop, "coupons/HALF", &wrong).await;
    let gone = shop.delete("coupons/HALF").await;

    assert_fields(&renamed, &json!({"name": "New", "metadata": {"a": "b"}, "percent_off": 50.0}));
    assert_eq!(unnamed["name"], Value::Null);
    assert_eq!(gone.json()["deleted"], true);
    assert_eq!(since(&shop, before).await, ["coupon.updated", "coupon.updated", "coupon.deleted"]);
    missing(&shop, "coupons/HALF", 404).await;
    assert_eq!(shop.delete("coupons/HALF").await.status, 404);
    assert_eq!(count(&shop, "coupons").await, 0);
    shop.close().await;
}

#[tokio::test]
async fn a_deleted_coupon_goes_on_for_those_who_have_it() {
    let shop = Shop::open();
    shop.done("coupons", "id=HALF&percent_off=50&duration=forever").await;
    let plan = price(&shop, "Studio", 4_900).await;
    let (customer, _) = shop.customer("pm_card_visa").await;
    let form = format!("customer={customer}&items[0][price]={plan}&discounts[0][coupon]=HALF");
    let path = format!("subscriptions/{}", id(&shop.done("subscriptions", &form).await));

    shop.delete("coupons/HALF").await;
    shop.control("clock", &json!({"advance_months": 1})).await;

    let renewed = shop.read(&format!("{path}?expand[]=latest_invoice")).await;
    assert_eq!(renewed["latest_invoice"]["total"], 2_450);
    assert_eq!(shop.refused("subscriptions", &form, 400).await["code"], "resource_missing");
    let without = shop.done(&path, "discounts=").await;
    assert_eq!(without["discounts"], json!([]));
    shop.close().await;
}

#[tokio::test]
async fn a_coupon_is_redeemed_until_its_last_second() {
    let shop = Shop::open();
    shop.done("coupons", &format!("id=SOON&percent_off=50&redeem_by={}", NOW_S + 100)).await;
    let plan = price(&shop, "Studio", 4_900).await;
    let (customer, _) = shop.customer("pm_card_visa").await;
    let form = format!("customer={customer}&items[0][price]={plan}&discounts[0][coupon]=SOON");

    pass(&shop, 99);
    shop.done("subscriptions", &form).await;
    pass(&shop, 1);
    let late = shop.refused("subscriptions", &form, 400).await;

    let wanted = json!({"code": "coupon_expired", "param": "discounts[0][coupon]"});
    assert_fields(&late, &wanted);
    assert_eq!(shop.read("coupons/SOON").await["times_redeemed"], 1);
    shop.close().await;
}

#[tokio::test]
async fn a_promotion_code_names_its_coupon_and_its_restrictions() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let before = mark(&shop).await;

    let form = format!(
        "code=Spring-24&customer={customer}&max_redemptions=5&expires_at={}\
         &restrictions[minimum_amount]=500&restrictions[minimum_amount_currency]=usd\
         &restrictions[first_time_transaction]=true&metadata[a]=b",
        NOW_S + 1_000
    );
    let made = code(&shop, &form).await;
    let unnamed = code(&shop, "active=false").await;

    assert_fields(
        &made,
        &json!({
            "object": "promotion_code", "code": "Spring-24", "active": true, "customer": customer,
            "max_redemptions": 5, "expires_at": NOW_S + 1_000, "times_redeemed": 0,
            "promotion.type": "coupon", "restrictions.minimum_amount": 500,
            "restrictions.minimum_amount_currency": "usd", "metadata": {"a": "b"},
            "restrictions.first_time_transaction": true,
        }),
    );
    assert_eq!(unnamed["active"], false);
    let word = unnamed["code"].as_str().unwrap();
    assert!(word.len() == 8 && word == word.to_uppercase(), "a word is made up: {word}");
    assert_eq!(
        since(&shop, before).await,
        ["coupon.created", "promotion_code.created", "coupon.created", "promotion_code.created"]
    );
    let coupon = made["promotion"]["coupon"].as_str().unwrap();
    for query in ["active=true", "code=SPRING-24", &format!("coupon={coupon}")] {
        let listed = ids(&shop, &format!("promotion_codes?{query}")).await;
        assert_eq!(listed, [id(&made)], "{query}");
    }
    missing(&shop, "promotion_codes/promo_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn invalid_promotion_codes_are_refused() {
    let shop = Shop::open();
    code(&shop, "code=TAKEN").await;
    shop.done("coupons", "id=HALF&percent_off=50").await;
    let good = "promotion[type]=coupon&promotion[coupon]=HALF";
    assert_refused(
        &shop,
        "promotion_codes",
        &[
            ("", "parameter_missing", "promotion[type]"),
            ("promotion[type]=coupon", "parameter_missing", "promotion[coupon]"),
            ("promotion[type]=gift&promotion[coupon]=HALF", "", "promotion[type]"),
            (
                "promotion[type]=coupon&promotion[coupon]=NONE",
                "resource_missing",
                "promotion[coupon]",
            ),
            (&format!("{good}&code=TEN %25"), "", "code"),
            (&format!("{good}&code=taken"), "resource_already_exists", "code"),
            (&format!("{good}&customer=cus_none"), "resource_missing", "customer"),
            (&format!("{good}&max_redemptions=0"), "parameter_invalid_integer", "max_redemptions"),
            ("coupon=HALF", "parameter_unknown", "coupon"),
        ],
    )
    .await;
    let old = post_in(&shop, "2025-06-30.basil", "promotion_codes", "coupon=HALF&code=OLD").await;
    assert_eq!(old["promotion"]["coupon"], "HALF", "older versions name the coupon directly");
    shop.close().await;
}

#[tokio::test]
async fn a_word_can_be_used_again_once_its_code_is_inactive() {
    let shop = Shop::open();
    let first = code(&shop, "code=WELCOME").await;
    let path = format!("promotion_codes/{}", id(&first));
    let before = mark(&shop).await;

    let off = shop.done(&path, "active=false&metadata[a]=b").await;
    let second = code(&shop, "code=WELCOME").await;

    assert_fields(&off, &json!({"active": false, "metadata": {"a": "b"}, "code": "WELCOME"}));
    assert_eq!(since(&shop, before).await[0], "promotion_code.updated");
    let active = "promotion_codes?code=WELCOME&active=true";
    assert_eq!(ids(&shop, active).await, [id(&second)]);
    assert_refused(&shop, &path, &[("code=OTHER", "parameter_unknown", "code")]).await;
    shop.close().await;
}

#[tokio::test]
async fn a_code_is_for_its_customer_its_amount_and_its_time() {
    let shop = Shop::open();
    let owner = id(&shop.done("customers", "").await);
    let other = id(&shop.done("customers", "").await);
    code(&shop, &format!("code=MINE&customer={owner}")).await;
    code(&shop, "code=MUCH&restrictions[minimum_amount]=1001").await;
    code(&shop, "code=JUST&restrictions[minimum_amount]=1000").await;
    code(&shop, &format!("code=BRIEF&expires_at={}", NOW_S + 10)).await;

    assert_eq!(enter(&shop, &other, "MINE").await, 400);
    assert_eq!(enter(&shop, &owner, " mine ").await, 200, "case and spaces do not matter");
    assert_eq!(enter(&shop, &other, "MUCH").await, 400);
    assert_eq!(enter(&shop, &other, "JUST").await, 200);
    pass(&shop, 9);
    assert_eq!(enter(&shop, &other, "BRIEF").await, 200);
    pass(&shop, 1);
    assert_eq!(enter(&shop, &other, "BRIEF").await, 400);
    shop.close().await;
}

#[tokio::test]
async fn a_session_has_discounts_or_takes_codes_but_not_both() {
    let shop = Shop::open();
    let promotion = code(&shop, "code=HALF").await;
    let coupon = promotion["promotion"]["coupon"].as_str().unwrap();
    let form = "mode=payment&success_url=https://a.example/&line_items[0][quantity]=1\
         &line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]=1000\
         &line_items[0][price_data][product_data][name]=Pack";
    let by_code = format!("{form}&discounts[0][promotion_code]={}", id(&promotion));

    let session = shop.done("checkout/sessions", &by_code).await;
    assert_refused(
        &shop,
        "checkout/sessions",
        &[
            (&format!("{by_code}&allow_promotion_codes=true"), "", ""),
            (
                &format!("{form}&discounts[0][promotion_code]=promo_none"),
                "resource_missing",
                "discounts[0][promotion_code]",
            ),
            (
                &format!("mode=setup&success_url=https://a.example/&discounts[0][coupon]={coupon}"),
                "",
                "discounts",
            ),
        ],
    )
    .await;
    shop.control(&format!("checkout/{}/pay", id(&session)), &json!({})).await;

    assert_fields(
        &session,
        &json!({
            "amount_subtotal": 1_000, "amount_total": 500, "total_details.amount_discount": 500,
            "discounts.0.promotion_code": promotion["id"], "discounts.0.coupon": coupon,
        }),
    );
    let used = shop.read(&format!("promotion_codes/{}", id(&promotion))).await;
    assert_eq!(used["times_redeemed"], 1);
    assert_eq!(shop.read(&format!("coupons/{coupon}")).await["times_redeemed"], 1);
    shop.close().await;
}
