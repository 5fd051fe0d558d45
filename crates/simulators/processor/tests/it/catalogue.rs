//! Products, prices and plans: their terms, what of them changes, and how they are found.

use serde_json::{Value, json};

use crate::checks::{
    assert_fields, assert_refused, count, ids, latest_event, mark, missing, since,
};
use crate::kit::{Shop, id};

#[tokio::test]
async fn a_product_is_created_changed_and_deleted_while_it_has_no_price() {
    let shop = Shop::open();
    let made = shop.done("products", "id=pack&name=Pack&metadata[a]=b").await;
    let changed = shop.done("products/pack", "name=Box&description=Large&active=false").await;
    let cleared = shop.done("products/pack", "description=&metadata=").await;
    let gone = shop.delete("products/pack").await;

    assert_fields(
        &made,
        &json!({
            "id": "pack", "object": "product", "name": "Pack", "active": true,
            "default_price": null, "metadata": {"a": "b"},
        }),
    );
    assert_fields(&changed, &json!({"name": "Box", "description": "Large", "active": false}));
    assert_fields(&cleared, &json!({"description": null, "metadata": {}, "name": "Box"}));
    assert_eq!(gone.json(), json!({"id": "pack", "object": "product", "deleted": true}));
    assert_eq!(
        shop.events().await,
        ["product.created", "product.updated", "product.updated", "product.deleted"]
    );
    missing(&shop, "products/pack", 404).await;
    let sold = shop.done("products", "name=Sold").await;
    let form = format!("product={}&currency=usd&unit_amount=100", id(&sold));
    shop.done("prices", &form).await;
    assert_eq!(shop.delete(&format!("products/{}", id(&sold))).await.status, 400);
    shop.close().await;
}

#[tokio::test]
async fn invalid_products_and_prices_are_refused() {
    let shop = Shop::open();
    shop.done("products", "id=pack&name=Pack").await;
    shop.done("prices", "product=pack&currency=usd&unit_amount=100&lookup_key=small").await;
    assert_refused(
        &shop,
        "products",
        &[
            ("", "parameter_missing", "name"),
            ("name=", "parameter_invalid_empty", "name"),
            ("name=Pack&id=pack", "resource_already_exists", "id"),
            ("name=Pack&active=maybe", "", "active"),
        ],
    )
    .await;
    let good = "product=pack&currency=usd&unit_amount=100";
    assert_refused(
        &shop,
        "prices",
        &[
            ("currency=usd&unit_amount=100", "parameter_missing", "product_data[name]"),
            ("product=none&currency=usd&unit_amount=100", "resource_missing", "product"),
            ("product=pack&unit_amount=100", "parameter_missing", "currency"),
            ("product=pack&currency=xyz&unit_amount=100", "", "currency"),
            ("product=pack&currency=usd", "parameter_missing", "unit_amount"),
            (
                "product=pack&currency=usd&unit_amount=-1",
                "parameter_invalid_integer",
                "unit_amount",
            ),
            (
                "product=pack&currency=usd&unit_amount=1.5",
                "parameter_invalid_integer",
                "unit_amount",
            ),
            (&format!("{good}&recurring[interval]=hour"), "", "recurring[interval]"),
            (
                &format!("{good}&recurring[interval_count]=2"),
                "parameter_missing",
                "recurring[interval]",
            ),
            (&format!("{good}&lookup_key=small"), "resource_already_exists", "lookup_key"),
        ],
    )
    .await;
    assert_eq!((count(&shop, "products").await, count(&shop, "prices").await), (1, 1));
    missing(&shop, "prices/price_none", 404).await;
    shop.close().await;
}

#[tokio::test]
async fn a_price_keeps_its_amount_and_only_its_notes_change() {
    let shop = Shop::open();
    let form = "product_data[name]=Studio&currency=USD&unit_amount=4900&recurring[interval]=week\
                &recurring[interval_count]=2&nickname=Fortnight&metadata[a]=b";
    let made = shop.done("prices", form).await;
    let path = format!("prices/{}", id(&made));

    let changed = shop.done(&path, "nickname=&active=false&metadata[a]=").await;
    let wrong = [
        ("unit_amount=5000", "parameter_unknown", "unit_amount"),
        ("currency=eur", "parameter_unknown", "currency"),
    ];
    assert_refused(&shop, &path, &wrong).await;

    assert_fields(
        &made,
        &json!({
            "object": "price", "type": "recurring", "currency": "usd", "unit_amount": 4900,
            "unit_amount_decimal": "4900", "recurring.interval": "week",
            "recurring.interval_count": 2, "nickname": "Fortnight", "active": true,
        }),
    );
    assert_fields(
        &changed,
        &json!({"nickname": null, "active": false, "metadata": {}, "unit_amount": 4900}),
    );
    let event = latest_event(&shop, "price.updated").await;
    assert_eq!(event["data"]["previous_attributes"]["nickname"], "Fortnight");
    let product = made["product"].as_str().unwrap();
    assert_eq!(shop.read(&format!("products/{product}")).await["name"], "Studio");
    let once = shop.done("prices", "product_data[name]=Once&currency=usd&unit_amount=1").await;
    assert_fields(&once, &json!({"type": "one_time", "recurring": null}));
    shop.close().await;
}

#[tokio::test]
async fn an_inactive_price_is_not_sold() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let form = "product_data[name]=Studio&currency=usd&unit_amount=4900&recurring[interval]=month\
                &active=false";
    let price = id(&shop.done("prices", form).await);
    let line = format!("line_items[0][quantity]=1&line_items[0][price]={price}");
    let session = format!("mode=subscription&success_url=https://a.example/&{line}");

    let field = "line_items[0][price]";
    assert_refused(&shop, "checkout/sessions", &[(&session, "", field)]).await;
    assert_refused(&shop, "quotes", &[(&format!("customer={customer}&{line}"), "", field)]).await;
    shop.done(&format!("prices/{price}"), "active=true").await;
    shop.done("checkout/sessions", &session).await;
    shop.close().await;
}

#[tokio::test]
async fn prices_and_products_are_listed_by_their_fields() {
    let shop = Shop::open();
    shop.done("products", "id=pack&name=Pack").await;
    shop.done("products", "id=plan&name=Plan&active=false").await;
    let euro = "product=pack&currency=eur&unit_amount=100&lookup_key=euro";
    let euro = id(&shop.done("prices", euro).await);
    let month = "product=plan&currency=usd&unit_amount=100&recurring[interval]=month&active=false";
    let month = id(&shop.done("prices", month).await);

    for (query, wanted) in [
        ("product=pack", &euro),
        ("product=plan", &month),
        ("active=true", &euro),
        ("active=false", &month),
        ("type=one_time", &euro),
        ("type=recurring", &month),
        ("currency=eur", &euro),
        ("lookup_keys[]=euro", &euro),
    ] {
        assert_eq!(ids(&shop, &format!("prices?{query}")).await, [wanted.as_str()], "{query}");
    }
    assert_eq!(ids(&shop, "prices").await, [month, euro]);
    assert_eq!(ids(&shop, "products?active=true").await, ["pack"]);
    assert_eq!(ids(&shop, "products?ids[]=plan").await, ["plan"]);
    assert_eq!(ids(&shop, "products?ids[]=plan&ids[]=pack").await, ["plan", "pack"]);
    assert_eq!(missing(&shop, "prices?active=perhaps", 400).await["param"], "active");
    shop.close().await;
}

#[tokio::test]
async fn a_lookup_key_moves_only_on_request() {
    let shop = Shop::open();
    let form = "product_data[name]=P&currency=usd&unit_amount=100&lookup_key=current";
    shop.done("prices", form).await;

    let refused = shop.refused("prices", form, 400).await;
    let moved = shop.done("prices", &format!("{form}&transfer_lookup_key=true")).await;

    assert_fields(&refused, &json!({"code": "resource_already_exists", "param": "lookup_key"}));
    assert_eq!(ids(&shop, "prices?lookup_keys[]=current").await, [id(&moved)]);
    shop.close().await;
}

#[tokio::test]
async fn a_product_can_be_created_with_its_default_price() {
    let shop = Shop::open();
    let form = "name=Pack&default_price_data[currency]=usd&default_price_data[unit_amount]=900";

    let made = shop.done("products", &format!("{form}&expand[]=default_price")).await;

    assert_fields(
        &made,
        &json!({"default_price.unit_amount": 900, "default_price.product": made["id"]}),
    );
    shop.close().await;
}

#[tokio::test]
async fn a_plan_is_created_with_its_product_changed_and_deleted() {
    let shop = Shop::open();
    let form = "id=gold&currency=usd&interval=month&amount=900&product[name]=Gold&nickname=G";
    let before = mark(&shop).await;

    let made = shop.done("plans", form).await;
    let changed = shop.done("plans/gold", "nickname=&active=false&metadata[a]=b").await;
    assert_refused(
        &shop,
        "plans",
        &[
            (form, "resource_already_exists", "id"),
            ("interval=month&amount=1&product[name]=P", "parameter_missing", "currency"),
            ("currency=usd&amount=1&product[name]=P", "parameter_missing", "interval"),
            ("currency=usd&interval=hour&amount=1&product[name]=P", "", "interval"),
            ("currency=usd&interval=day&product[name]=P", "parameter_missing", "amount"),
            ("currency=usd&interval=day&amount=1", "parameter_missing", "product[name]"),
        ],
    )
    .await;
    let gone = shop.delete("plans/gold").await;

    assert_fields(
        &made,
        &json!({"object": "plan", "amount": 900, "interval": "month", "interval_count": 1}),
    );
    let wanted: Value = json!({"nickname": null, "active": false, "metadata": {"a": "b"}});
    assert_fields(&changed, &wanted);
    assert_eq!(gone.status, 200);
    assert_eq!(
        since(&shop, before).await,
        ["product.created", "plan.created", "plan.updated", "plan.deleted"]
    );
    missing(&shop, "plans/gold", 404).await;
    shop.close().await;
}
