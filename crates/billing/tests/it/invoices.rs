//! Invoices and receipts: what was charged, mirrored from the processor.

use serde_json::{Value, json};
use test_service::Client;
use test_service::processor::PACK;
use test_service::subscriber::{BIG_PLAN, GOOD_CARD, PLAN, selling};
use test_service::{TestApp, with_app};

async fn invoices(client: &Client) -> Vec<Value> {
    let reply = client.get("/v1/billing/invoices").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["invoices"].as_array().unwrap().clone()
}

/// The requests that list invoices at the processor for one customer.
async fn listings(app: &TestApp) -> usize {
    let asked = app.asked("GET", "invoices").await;
    let is_listing = |request: &&Value| {
        request["params"]["customer"].is_string() && request["params"]["status"].is_null()
    };
    asked.iter().filter(is_listing).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoices_show_what_was_charged_for_a_plan_slots_and_an_upgrade() {
    selling(async |app| {
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 2}});
        let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
        let upgrade = json!({"plan_id": BIG_PLAN});
        let up = client.post("/v1/billing/subscription/plan", &upgrade).await.json();
        app.deliver().await;

        let shown = invoices(&client).await;

        assert_eq!(shown.len(), 2, "{shown:?}");
        let (raised, first) = (&shown[0], &shown[1]);
        assert_eq!(raised["invoice_id"], up["invoice_id"]);
        assert_eq!(raised["paid_cents"], up["charged_cents"]);
        assert_eq!(raised["reason"], "subscription_update");
        assert_eq!((&first["status"], &first["amount_cents"]), (&json!("paid"), &json!(4_900)));
        assert_eq!((&first["tax_cents"], &first["discount_cents"]), (&json!(0), &json!(0)));
        assert_eq!((&first["currency"], &first["order_id"]), (&json!("usd"), &Value::Null));
        let lines = first["lines"].as_array().unwrap();
        let of = |kind: &str| lines.iter().find(|line| line["kind"] == kind).unwrap();
        let (plan, slots) = (of("plan"), of("slot"));
        assert_eq!((&plan["reference"], &plan["amount_cents"]), (&json!(PLAN), &json!(2_900)));
        assert_eq!(slots["reference"], "platform_alpha");
        assert_eq!((&slots["quantity"], &slots["amount_cents"]), (&json!(2), &json!(2_000)));
        let period = client.get("/v1/billing/subscription").await.json();
        assert_eq!(plan["period_end"], period["current_period_end"]);
        assert!(raised["lines"].as_array().unwrap().iter().all(|line| line["proration"] == true));
        for url in ["hosted_url", "pdf_url"] {
            let path = first[url].as_str().unwrap();
            let path = path.strip_prefix(&app.world.processor_url()).unwrap().to_owned();
            assert_eq!(Client::new(app.world.address()).get(&path).await.status, 200, "{path}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listing_invoices_asks_the_processor_once_an_hour_at_most() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;

        for _ in 0..3 {
            assert_eq!(invoices(&client).await.len(), 1);
        }
        assert_eq!(listings(&app).await, 1);
        app.advance_seconds(3_601);
        for _ in 0..3 {
            invoices(&client).await;
        }

        assert_eq!(listings(&app).await, 2);
        let id = invoices(&client).await[0]["invoice_id"].as_str().unwrap().to_owned();
        let path = format!("invoices/{id}");
        let before = app.asked("GET", &path).await.len();
        app.advance_seconds(3_601);
        for _ in 0..3 {
            let one = client.get(&format!("/v1/billing/invoices/{id}")).await;
            assert_eq!((one.status, &one.json()["invoice_id"]), (200, &json!(id)));
        }
        assert_eq!(app.asked("GET", &path).await.len(), before + 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoices_whose_events_never_arrived_are_listed() {
    selling(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.pay(&page, GOOD_CARD).await;

        app.processor_fault(&json!({"kind": "error_before", "path": "invoices", "times": 9})).await;
        assert_eq!(invoices(&client).await.len(), 0, "a list that cannot be read is not an error");
        app.mend_processor().await;
        assert_eq!(invoices(&client).await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpaid_invoice_is_open_until_it_is_paid_or_void() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        app.decline(4).await;
        app.months_pass(1).await;
        let open = invoices(&client).await;
        assert_eq!((&open[0]["status"], &open[0]["paid_cents"]), (&json!("open"), &json!(0)));
        assert_eq!(open[0]["paid_at"], Value::Null);

        let id = open[0]["invoice_id"].as_str().unwrap();
        app.at_processor("POST", &format!("invoices/{id}/void"), "").await;
        app.deliver().await;

        assert_eq!(invoices(&client).await[0]["status"], "void");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoices_come_in_pages_and_belong_to_their_customer() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        app.months_pass(1).await;
        app.months_pass(1).await;
        let all = invoices(&client).await;
        assert_eq!(all.len(), 3);

        let page = client.get("/v1/billing/invoices?limit=2").await.json();
        let next = page["next_before"].as_str().unwrap();
        let rest = client.get(&format!("/v1/billing/invoices?limit=2&before={next}")).await.json();

        let mut paged = page["invoices"].as_array().unwrap().clone();
        paged.extend(rest["invoices"].as_array().unwrap().iter().cloned());
        assert_eq!((paged, &rest["next_before"]), (all, &Value::Null));
        let stranger = app.with_key(&app.customer(0).await.key);
        assert_eq!(invoices(&stranger).await, [] as [Value; 0]);
        let path = format!("/v1/billing/invoices/{next}");
        assert_eq!(stranger.get(&path).await.failure(), (404, "not_found".to_owned()));
        let unknown = client.get("/v1/billing/invoices/in_unknown").await;
        assert_eq!(unknown.failure(), (404, "not_found".to_owned()));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoices_of_other_programs_are_not_shown() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let payer = app.subscription().await["customer"].as_str().unwrap().to_owned();
        let product = app.at_processor("POST", "products", "name=Newsletter").await;
        let price = format!(
            "product={}&unit_amount=700&currency=usd&recurring[interval]=month",
            product["id"].as_str().unwrap()
        );
        let price = app.at_processor("POST", "prices", &price).await;
        let form = format!("customer={payer}&items[0][price]={}", price["id"].as_str().unwrap());
        let method = app.at_processor("GET", &format!("customers/{payer}"), "").await;
        let method = &method["invoice_settings"]["default_payment_method"];
        let form = format!("{form}&default_payment_method={}", method.as_str().unwrap());
        app.at_processor("POST", "subscriptions", &form).await;
        app.deliver().await;

        let shown = invoices(&client).await;

        assert_eq!(app.invoices().await.len(), 2);
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert_eq!(shown[0]["lines"][0]["kind"], "plan");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_order_has_a_receipt_however_it_was_paid() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        app.deliver().await;
        let charged = client.post("/v1/billing/charge", &json!({"pack_id": PACK})).await;
        assert_eq!(charged.status, 200, "{}", charged.text());
        let open = app.begin_checkout(&client).await;

        let orders = client.get("/v1/billing/orders").await.json();

        let orders = orders["orders"].as_array().unwrap();
        assert_eq!(orders.len(), 3);
        for order in orders {
            if order["order_id"] == json!(open.order) {
                assert_eq!(order["receipt_url"], Value::Null);
                assert_eq!(order["charged_cents"], Value::Null);
                continue;
            }
            assert_eq!((&order["charged_cents"], &order["tax_cents"]), (&json!(1_000), &json!(0)));
            let url = order["receipt_url"].as_str().unwrap();
            let path = url.strip_prefix(&app.world.processor_url()).unwrap();
            let receipt = Client::new(app.world.address()).get(path).await;
            assert!(receipt.text().contains("$10.00"), "{}", receipt.text());
        }
        app
    })
    .await;
}
