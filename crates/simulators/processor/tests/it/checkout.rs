//! Checkout sessions and their page.

use serde_json::{Value, json};

use crate::kit::{Shop, id};

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

pub(super) fn pack(customer: &str) -> String {
    format!(
        "mode=payment&customer={customer}&client_reference_id=ord_1&success_url=http://shop.example/ok?session_id={{CHECKOUT_SESSION_ID}}\
         &cancel_url=http://shop.example/no&line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]=1000\
         &line_items[0][price_data][product_data][name]=Small pack&line_items[0][quantity]=1&metadata[order_id]=ord_1\
         &payment_intent_data[setup_future_usage]=off_session&payment_intent_data[metadata][order_id]=ord_1"
    )
}

fn path(session: &Value) -> String {
    let url = session["url"].as_str().unwrap();
    url.split_once("/processor/").map(|(_, rest)| format!("/processor/{rest}")).unwrap()
}

async fn pay(shop: &Shop, session: &Value, number: &str) -> crate::kit::Reply {
    let form = format!("number={number}&expires=12 / 34&cvc=123");
    shop.raw(&format!("POST {}", path(session)), FORM, &form).await
}

#[tokio::test]
async fn a_pack_is_paid_on_the_page_and_the_card_is_saved() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "email=ada@example.com").await);
    let session = shop.done("checkout/sessions", &pack(&customer)).await;
    assert_eq!(
        (&session["status"], &session["payment_status"], &session["amount_total"]),
        (&json!("open"), &json!("unpaid"), &json!(1000))
    );

    let shown = shop.raw(&format!("GET {}", path(&session)), "", "").await;
    assert!(
        shown.text.contains("Small pack") && shown.text.contains("Pay $10.00"),
        "{}",
        shown.text
    );
    let paid = pay(&shop, &session, "4242 4242 4242 4242").await;

    assert_eq!(paid.status, 303, "{paid:?}");
    assert_eq!(
        paid.header("location"),
        Some(format!("http://shop.example/ok?session_id={}", id(&session)).as_str())
    );
    let after = shop
        .read(&format!(
            "checkout/sessions/{}?expand[]=payment_intent.payment_method&expand[]=line_items",
            id(&session)
        ))
        .await;
    assert_eq!(
        (&after["status"], &after["payment_status"], &after["url"]),
        (&json!("complete"), &json!("paid"), &Value::Null)
    );
    let intent = &after["payment_intent"];
    assert_eq!(
        (&intent["metadata"]["order_id"], &intent["payment_method"]["card"]["last4"]),
        (&json!("ord_1"), &json!("4242"))
    );
    assert_eq!(after["line_items"]["data"][0]["description"], "Small pack");
    let cards =
        shop.read(&format!("customers/{customer}/payment_methods?type=card&limit=10")).await;
    assert_eq!(cards["data"][0]["id"], intent["payment_method"]["id"]);
    let events = shop.events().await;
    assert_eq!(events.last().unwrap(), "checkout.session.completed");
    assert!(
        events.contains(&"payment_method.attached".to_owned())
            && events.contains(&"payment_intent.succeeded".to_owned())
    );
    // A customer who returns to the page is redirected, and nothing is charged again.
    assert_eq!(shop.raw(&format!("GET {}", path(&session)), "", "").await.status, 303);
    pay(&shop, &session, "4242424242424242").await;
    assert_eq!(shop.read("charges").await["data"].as_array().unwrap().len(), 1);
    shop.close().await;
}

#[tokio::test]
async fn a_declined_card_leaves_the_page_open_for_another() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let session = shop.done("checkout/sessions", &pack(&customer)).await;

    let declined = pay(&shop, &session, "4000000000009995").await;
    let wrong = pay(&shop, &session, "4242424242424241").await;
    let real = pay(&shop, &session, "4111111111111111").await;
    assert_eq!((declined.status, wrong.status, real.status), (402, 402, 402));
    assert!(
        declined.text.contains("insufficient funds") && wrong.text.contains("number is incorrect"),
        "{}",
        wrong.text
    );
    assert!(real.text.contains("test mode"), "{}", real.text);
    assert_eq!(shop.read(&format!("checkout/sessions/{}", id(&session))).await["status"], "open");
    let paid = pay(&shop, &session, "5555555555554444").await;

    assert_eq!(paid.status, 303);
    let intents = shop.read("payment_intents").await;
    assert_eq!(intents["data"].as_array().unwrap().len(), 1, "a session has one intent: {intents}");
    shop.close().await;
}

#[tokio::test]
async fn a_card_is_authenticated_once_on_the_banks_page() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let session = shop.done("checkout/sessions", &pack(&customer)).await;

    let asked = pay(&shop, &session, "4000002500003155").await;
    let bank = asked.header("location").unwrap().to_owned();
    assert!(bank.starts_with("/processor/authenticate/pi_"), "{bank}");
    let intent = bank.rsplit('/').next().unwrap();
    shop.refused(&format!("payment_intents/{intent}/cancel"), "", 400).await;
    let done = shop.raw(&format!("POST {bank}"), FORM, "outcome=complete").await;
    assert_eq!(done.header("location"), Some(path(&session).as_str()));

    let after =
        shop.read(&format!("checkout/sessions/{}?expand[]=payment_intent", id(&session))).await;
    assert_eq!(after["payment_status"], "paid");
    let method = after["payment_intent"]["payment_method"].as_str().unwrap();
    let form = format!(
        "amount=500&currency=usd&confirm=true&off_session=true&customer={customer}&payment_method={method}&payment_method_types[]=card"
    );
    assert_eq!(shop.done("payment_intents", &form).await["status"], "succeeded", "it was set up");
    shop.close().await;
}

#[tokio::test]
async fn bank_payments_succeed_or_fail_later() {
    let shop = Shop::open();
    for (number, paid) in [("000123456789", true), ("000111111116", false)] {
        let customer = id(&shop.done("customers", "").await);
        let session = shop.done("checkout/sessions", &pack(&customer)).await;
        assert_eq!(pay(&shop, &session, number).await.status, 303);
        let waiting = shop.read(&format!("checkout/sessions/{}", id(&session))).await;
        assert_eq!(
            (&waiting["status"], &waiting["payment_status"]),
            (&json!("complete"), &json!("unpaid"))
        );

        shop.clock.advance_ms(61_000);

        let after = shop.read(&format!("checkout/sessions/{}", id(&session))).await;
        let kind = if paid {
            "checkout.session.async_payment_succeeded"
        } else {
            "checkout.session.async_payment_failed"
        };
        assert_eq!(after["payment_status"], if paid { "paid" } else { "unpaid" });
        assert_eq!(shop.events().await.last().unwrap(), kind);
    }
    shop.close().await;
}

#[tokio::test]
async fn an_expired_session_cannot_be_paid() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let first = shop.done("checkout/sessions", &pack(&customer)).await;
    let second = shop.done("checkout/sessions", &pack(&customer)).await;

    shop.done(&format!("checkout/sessions/{}/expire", id(&first)), "").await;
    shop.refused(&format!("checkout/sessions/{}/expire", id(&first)), "", 400).await;
    shop.clock.advance_ms(24 * 3_600_000 + 1_000);

    let events = shop.events().await;
    assert_eq!(events.iter().filter(|kind| *kind == "checkout.session.expired").count(), 2);
    assert_eq!(shop.raw(&format!("GET {}", path(&second)), "", "").await.status, 410);
    assert_eq!(pay(&shop, &second, "4242424242424242").await.status, 410);
    assert_eq!(shop.read("charges").await["data"], json!([]));
    shop.close().await;
}

#[tokio::test]
async fn an_invalid_session_is_refused() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let good = pack(&customer);
    for (form, param) in [
        (good.replace("mode=payment&", ""), json!("mode")),
        (good.replace("mode=payment", "mode=gift"), json!("mode")),
        (good.replace("mode=payment", "mode=subscription"), json!("payment_intent_data")),
        (good.replace("http://shop.example/ok", "javascript:alert(1)"), json!("success_url")),
        (
            good.replace("unit_amount]=1000", "unit_amount]=-5"),
            json!("line_items[0][price_data][unit_amount]"),
        ),
        (good.replace("quantity]=1", "quantity]=0"), json!("line_items[0][quantity]")),
        (good.replace("unit_amount]=1000", "unit_amount]=10"), Value::Null),
        (
            format!("{good}&line_items[1][price]=price_none&line_items[1][quantity]=1"),
            json!("line_items[1][price]"),
        ),
        (format!("{good}&expires_at=1"), json!("expires_at")),
        (format!("{good}&items[0][price]=x"), json!("items[0][price]")),
    ] {
        let error = shop.refused("checkout/sessions", &form, 400).await;
        assert_eq!(error.get("param").unwrap_or(&Value::Null), &param, "{form}: {error}");
    }
    assert_eq!(shop.read("checkout/sessions").await["data"], json!([]));
    shop.close().await;
}

#[tokio::test]
async fn a_card_is_saved_without_a_payment() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let form =
        format!("mode=setup&currency=usd&customer={customer}&success_url=http://shop.example/ok");
    let session = shop.done("checkout/sessions", &form).await;

    assert_eq!(pay(&shop, &session, "4242424242424242").await.status, 303);

    let after = shop
        .read(&format!("checkout/sessions/{}?expand[]=setup_intent.payment_method", id(&session)))
        .await;
    assert_eq!(after["setup_intent"]["payment_method"]["customer"], customer.as_str());
    assert_eq!(after["setup_intent"]["status"], "succeeded");
    shop.close().await;
}
