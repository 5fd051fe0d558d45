//! A bank's notice leads to its customer, and to what to do.

use serde_json::{Value, json};

use super::{done, shown};
use test_service::TestApp;
use test_service::subscriber::{GOOD_CARD, OFFER, selling};

/// The customers that a text names, and what it names, each once.
async fn found(app: &TestApp, text: &str) -> Vec<(String, String)> {
    let found = done(app, json!({"command": "find_customers", "text": text})).await;
    let word = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let matches = found["matches"].as_array().unwrap().iter();
    matches.map(|one| (word(one, "customer_id"), word(one, "matched"))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The charge of a payment intent at the processor.
async fn charge_of(app: &TestApp, intent: &str) -> String {
    let read = app.at_processor("GET", &format!("payment_intents/{intent}"), "").await;
    text(&read["latest_charge"])
}

/// The payment intent of an invoice at the processor.
async fn intent_of(app: &TestApp, invoice: &str) -> String {
    let path = format!("invoices/{invoice}?expand[]=payments");
    let read = app.at_processor("GET", &path, "").await;
    text(&read["payments"]["data"][0]["payment"]["payment_intent"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_id_and_number_of_a_payment_leads_to_its_customer() {
    selling(async |app| {
        let (customer, _) = app.subscriber(GOOD_CARD).await;
        app.customer(0).await;
        let invoice = app.invoices().await[0].clone();
        let id = text(&invoice["id"]);
        let intent = intent_of(&app, &id).await;
        let charge = charge_of(&app, &intent).await;
        let refund = app.control("refunds", json!({"invoice": id, "amount": 100})).await;
        let warning = app.control("warnings", json!({"invoice": id})).await;
        let dispute = app.control("disputes", json!({"invoice": id})).await;
        let sessions = app.at_processor("GET", "checkout/sessions?limit=1", "").await;
        app.deliver().await;

        for (given, matched) in [
            (charge.clone(), "charge"),
            (intent, "payment"),
            (text(&refund["id"]), "refund"),
            (text(&dispute["id"]), "dispute"),
            (text(&warning["id"]), "warning"),
            (id, "invoice"),
            (text(&invoice["number"]), "invoice_number"),
            (text(&sessions["data"][0]["id"]), "checkout"),
        ] {
            let expected = vec![(customer.id.clone(), matched.to_owned())];
            assert_eq!(found(&app, &given).await, expected, "{given}");
        }
        assert_eq!(found(&app, "ch_unknown").await, []);
        app
    })
    .await;
}

/// What this database never heard of is looked up at the processor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_are_not_stored_are_found_through_the_processor() {
    selling(async |app| {
        let (customer, client) = app.with_card(GOOD_CARD).await;
        app.deliver().await;
        let profile = shown(&app, &customer.id).await;
        let payer = text(&profile["processor_customer"]);
        let cards = format!("customers/{payer}/payment_methods?type=card");
        let card = text(&app.at_processor("GET", &cards, "").await["data"][0]["id"]);
        // A payment that the operator made by hand: no event of it is delivered.
        let form = format!(
            "amount=700&currency=usd&customer={payer}&payment_method={card}&confirm=true\
             &payment_method_types[]=card"
        );
        let intent = app.at_processor("POST", "payment_intents", &form).await;
        let intent = text(&intent["id"]);
        let charge = charge_of(&app, &intent).await;
        let refund = app.refund(&intent, 100).await;
        let warning = app.control("warnings", json!({"payment_intent": intent})).await;
        let dispute = app.dispute(&intent).await;
        drop(client);

        for (given, matched) in [
            (intent, "payment"),
            (charge, "charge"),
            (refund, "refund"),
            (text(&warning["id"]), "warning"),
            (dispute, "dispute"),
        ] {
            let expected = vec![(customer.id.clone(), matched.to_owned())];
            assert_eq!(found(&app, &given).await, expected, "{given}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_id_that_a_caller_chose_leads_to_its_customer() {
    selling(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 5).await;
        let client = client.with("x-request-id", "suPPort-4711");
        let call = client.get(&format!("/v1/{account}/native/users/me")).await;
        assert_eq!(call.status, 200);
        app.settled(&client).await;

        let expected = vec![(customer.id.clone(), "request".to_owned())];
        assert_eq!(found(&app, "suPPort-4711").await, expected);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_lists_invoices_refunds_and_disputes_with_the_money_that_went_back() {
    let app = TestApp::start(store::testing::store().await, OFFER).await;
    let (customer, _) = app.subscriber(GOOD_CARD).await;
    let id = text(&app.invoices().await[0]["id"]);
    let refund = app.control("refunds", json!({"invoice": id, "amount": 900})).await;
    app.deliver().await;
    let dispute = app.control("disputes", json!({"invoice": id})).await;
    app.deliver().await;

    let profile = shown(&app, &customer.id).await;
    let open = done(&app, json!({"command": "list_disputes"})).await;

    let invoice = &profile["invoices"][0];
    assert_eq!((&invoice["invoice_id"], &invoice["state"]), (&json!(id), &json!("paid")));
    assert!(invoice["returned_cents"].as_i64().unwrap() >= 2_900, "{invoice}");
    let reversals = profile["reversals"].as_array().unwrap().iter();
    let mut kinds: Vec<_> =
        reversals.map(|one| (text(&one["kind"]), one["reversal_id"].clone())).collect();
    kinds.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("dispute".to_owned(), dispute["id"].clone()),
        ("refund".to_owned(), refund["id"].clone()),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(profile["disputes"], open["disputes"]);
    let line = &open["disputes"][0];
    assert_eq!((&line["stage"], &line["customer_id"]), (&json!("open"), &json!(customer.id)));
    assert_eq!(line["invoice_id"], json!(id));
    assert!(text(&line["next"]).contains("send evidence"), "{line}");
    assert!(line["due_by"].is_string(), "{line}");
    app.end().await;
}
