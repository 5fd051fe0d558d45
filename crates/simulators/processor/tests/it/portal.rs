//! The customer portal: cards and the end of a subscription, but no quantities.

use serde_json::{Value, json};

use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

async fn open(shop: &Shop, customer: &str) -> String {
    let form = format!("customer={customer}&return_url=http://shop.example/back");
    let session = shop.done("billing_portal/sessions", &form).await;
    let url = session["url"].as_str().unwrap();
    url.split_once("/processor/").map(|(_, rest)| format!("/processor/{rest}")).unwrap()
}

async fn press(shop: &Shop, page: &str, form: &str) -> u16 {
    shop.raw(&format!("POST {page}"), FORM, form).await.status
}

#[tokio::test]
async fn cards_can_be_changed_and_subscriptions_ended_or_kept() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let page = open(&shop, &customer).await;
    let path = format!("subscriptions/{}", id(&subscription));

    let shown = shop.raw(&format!("GET {page}"), "", "").await.text;
    assert!(
        shown.contains("Studio")
            && shown.contains("4242")
            && shown.contains("http://shop.example/back"),
        "{shown}"
    );
    assert_eq!(
        press(&shop, &page, "do=add&number=5555555555554444&expires=11/33&cvc=1").await,
        303
    );
    let after = shop
        .read(&format!("customers/{customer}?expand[]=invoice_settings.default_payment_method"))
        .await;
    assert_eq!(after["invoice_settings"]["default_payment_method"]["card"]["last4"], "4444");
    assert_eq!(
        press(&shop, &page, "do=add&number=4000000000000002&expires=11/33&cvc=1").await,
        422
    );
    assert_eq!(press(&shop, &page, &format!("do=cancel&id={}", id(&subscription))).await, 303);
    assert_eq!(shop.read(&path).await["cancel_at_period_end"], true);
    assert_eq!(press(&shop, &page, &format!("do=resume&id={}", id(&subscription))).await, 303);
    assert_eq!(
        (&shop.read(&path).await["cancel_at_period_end"], &shop.read(&path).await["cancel_at"]),
        (&json!(false), &Value::Null)
    );
    shop.close().await;
}

#[tokio::test]
async fn plans_can_be_changed_only_with_a_single_item() {
    let shop = Shop::open();
    let (plan, better) = (price(&shop, "Studio", 4900).await, price(&shop, "Agency", 19900).await);
    let (customer, subscription) = subscribed(&shop, &plan).await;
    let page = open(&shop, &customer).await;
    let change = |price: &str| format!("do=plan&id={}&price={price}", id(&subscription));

    assert!(
        shop.raw(&format!("GET {page}"), "", "")
            .await
            .text
            .contains("Change to Agency for $199.00")
    );
    assert_eq!(press(&shop, &page, &change(&better)).await, 303);
    let path = format!("subscriptions/{}", id(&subscription));
    assert_eq!(shop.read(&path).await["items"]["data"][0]["price"]["id"], better.as_str());
    let slot = price(&shop, "Slot", 1500).await;
    shop.done(&path, &format!("items[0][price]={slot}")).await;
    assert!(!shop.raw(&format!("GET {page}"), "", "").await.text.contains("Change to"));
    assert_eq!(press(&shop, &page, &change(&plan)).await, 422);
    shop.close().await;
}

#[tokio::test]
async fn a_link_expires_after_an_hour_and_shows_only_its_customer() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (_, other) = subscribed(&shop, &plan).await;
    let stranger = id(&shop.done("customers", "").await);
    let page = open(&shop, &stranger).await;

    assert_eq!(press(&shop, &page, &format!("do=cancel&id={}", id(&other))).await, 422);
    assert_eq!(
        shop.read(&format!("subscriptions/{}", id(&other))).await["cancel_at_period_end"],
        false
    );
    shop.clock.advance_ms(3_601_000);
    assert_eq!(shop.raw(&format!("GET {page}"), "", "").await.status, 410);
    assert_eq!(shop.raw("GET /processor/portal/none", "", "").await.status, 410);
    shop.refused(
        "billing_portal/sessions",
        &format!("customer={stranger}&return_url=javascript:1"),
        400,
    )
    .await;
    shop.close().await;
}
