//! Prices at the processor that do not match what is configured: not for sale until they do, and
//! paid invoices that are not what we sell.
#![expect(
    clippy::shadow_unrelated,
    reason = "a service started again keeps the names of its clients"
)]

use serde_json::{Value, json};
use test_service::processor::{PACK, PACK_CENTS, PACK_CREDITS, balance};
use test_service::subscriber::{
    BIG_PLAN, GOOD_CARD, OFFER, PLAN, choose, selling, slots_on, subscription_of,
};
use test_service::{Client, TestApp};

const OPERATOR: &str = "operator@example.com";
const MONTHLY: &str = "recurring[interval]=month";

/// A service that sells plans, and writes to its operator.
async fn shop() -> TestApp {
    let overrides = format!("{OFFER}\n[mail]\noperator_email = \"{OPERATOR}\"\n");
    TestApp::start(store::testing::store().await, &overrides).await
}

/// A price at the processor with these terms.
async fn price(app: &TestApp, terms: &str) -> String {
    let form = format!("product_data[name]=Something&{terms}");
    let made = app.at_processor("POST", "prices", &form).await;
    made["id"].as_str().unwrap().to_owned()
}

/// Starts the service again with this price for the pack.
async fn name_for_pack(app: &mut TestApp, price_id: &str) {
    app.stop_service().await;
    app.advance_seconds(1);
    app.start_service(|config| {
        let pack = config.packs.iter_mut().find(|pack| pack.id == PACK).unwrap();
        price_id.clone_into(&mut pack.price_id);
    })
    .await
    .unwrap();
}

async fn buying(client: &Client) -> (u16, String) {
    let reply = client.post("/v1/billing/checkout", &json!({"pack_id": PACK})).await;
    if reply.status == 200 { (200, String::new()) } else { reply.failure() }
}

fn not_for_sale() -> (u16, String) {
    (503, "not_for_sale".to_owned())
}

/// Whether an offer in a list is available.
async fn is_available(client: &Client, path: &str, list: &str, (key, id): (&str, &str)) -> bool {
    let shown = client.get(path).await.json();
    let all = shown[list].as_array().unwrap().iter();
    let one = all.clone().find(|offer| offer[key] == id).unwrap();
    one["available"].as_bool().unwrap()
}

async fn pack_is_available(client: &Client) -> bool {
    is_available(client, "/v1/billing/plans", "packs", ("pack_id", PACK)).await
}

async fn plan_is_available(client: &Client, plan: &str) -> bool {
    let path = "/v1/billing/subscriptions/plans";
    is_available(client, path, "bundles", ("plan_id", plan)).await
}

async fn told(app: &TestApp) -> Vec<String> {
    let mails = app.mails_to(OPERATOR).await;
    mails.iter().map(|mail| mail["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_with_any_other_price_is_not_for_sale_and_no_order_is_opened() {
    let mut app = shop().await;
    let customer = app.customer(0).await;
    let wrong = [
        format!("unit_amount={}&currency=usd", PACK_CENTS - 1),
        format!("unit_amount={PACK_CENTS}&currency=eur"),
        format!("unit_amount={PACK_CENTS}&currency=usd&{MONTHLY}"),
        format!("unit_amount={PACK_CENTS}&currency=usd&active=false"),
    ];
    let mut ids = vec!["price_nowhere".to_owned()];
    for terms in &wrong {
        ids.push(price(&app, terms).await);
    }
    for id in ids {
        name_for_pack(&mut app, &id).await;
        let client = app.with_key(&customer.key);

        assert_eq!(buying(&client).await, not_for_sale(), "{id}");
        assert!(!pack_is_available(&client).await, "{id}");
        let orders = client.get("/v1/billing/orders").await.json();
        assert_eq!(orders["orders"], json!([]), "{id}");
        let others = client.get("/v1/billing/plans").await.json();
        assert_eq!(others["packs"][1]["available"], true, "{id}: {others}");
    }
    name_for_pack(&mut app, "").await;
    let client = app.with_key(&customer.key);
    app.running().compare_prices().await;
    assert!(pack_is_available(&client).await);
    assert_eq!(buying(&client).await.0, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_is_told_once_and_what_matches_again_is_for_sale_by_itself() {
    let mut app = shop().await;
    let customer = app.customer(0).await;
    let id = price(&app, &format!("unit_amount={PACK_CENTS}&currency=usd&active=false")).await;
    name_for_pack(&mut app, &id).await;
    let client = app.with_key(&customer.key);
    assert!(pack_is_available(&client).await, "nothing is known yet");

    app.running().compare_prices().await;
    app.running().compare_prices().await;
    assert_eq!(buying(&client).await, not_for_sale());

    assert!(!pack_is_available(&client).await);
    let told = told(&app).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("pack:pack_10") && told[0].contains("is archived"), "{}", told[0]);
    app.at_processor("POST", &format!("prices/{id}"), "active=true").await;
    app.running().compare_prices().await;
    assert!(pack_is_available(&client).await);
    assert_eq!(buying(&client).await.0, 200);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_finds_that_a_price_matches_again_before_the_next_comparison() {
    let mut app = shop().await;
    let customer = app.customer(0).await;
    let id = price(&app, &format!("unit_amount={PACK_CENTS}&currency=usd&active=false")).await;
    name_for_pack(&mut app, &id).await;
    let client = app.with_key(&customer.key);
    assert_eq!(buying(&client).await, not_for_sale());

    app.at_processor("POST", &format!("prices/{id}"), "active=true").await;

    assert_eq!(buying(&client).await.0, 200);
    assert!(pack_is_available(&client).await);
    app.end().await;
}

/// No answer, too many requests and faults of the processor say nothing about a price.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_price_that_cannot_be_read_stays_as_it_was() {
    let mut app = shop().await;
    let customer = app.customer(0).await;
    let good = price(&app, &format!("unit_amount={PACK_CENTS}&currency=usd")).await;
    let archived =
        price(&app, &format!("unit_amount={PACK_CENTS}&currency=usd&active=false")).await;
    for (id, is_for_sale) in [(&good, true), (&archived, false)] {
        name_for_pack(&mut app, id).await;
        let client = app.with_key(&customer.key);
        app.running().compare_prices().await;
        for kind in ["rate_limit", "unavailable", "error_before"] {
            let path = format!("prices/{id}");
            app.processor_fault(&json!({"kind": kind, "path": path, "times": 50})).await;

            app.running().compare_prices().await;
            assert_eq!(pack_is_available(&client).await, is_for_sale, "{kind}");
            let bought = buying(&client).await;

            assert_eq!(bought.0 == 200, is_for_sale, "{kind}: {bought:?}");
            app.mend_processor().await;
        }
    }
    app.end().await;
}

/// The processor refuses what could not be compared: then nothing is for sale either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archived_price_that_cannot_be_read_is_refused_when_its_page_opens() {
    let mut app = shop().await;
    let customer = app.customer(0).await;
    let id = price(&app, &format!("unit_amount={PACK_CENTS}&currency=usd&active=false")).await;
    name_for_pack(&mut app, &id).await;
    let client = app.with_key(&customer.key);
    let path = format!("prices/{id}");
    app.processor_fault(&json!({"kind": "unavailable", "path": path, "times": 50})).await;

    assert_eq!(buying(&client).await, not_for_sale());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_of_the_saved_card_goes_on_at_the_configured_amount() {
    let mut app = shop().await;
    let (customer, client) = app.with_card(GOOD_CARD).await;
    app.deliver().await;
    assert_eq!(balance(&client).await, PACK_CREDITS);
    let id = price(&app, "unit_amount=1&currency=usd").await;
    name_for_pack(&mut app, &id).await;
    let client = app.with_key(&customer.key);
    assert_eq!(buying(&client).await, not_for_sale());

    let charged = client.post("/v1/billing/charge", &json!({"pack_id": PACK})).await;

    assert_eq!(charged.status, 200, "{}", charged.text());
    assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
    let orders = client.get("/v1/billing/orders").await.json();
    assert_eq!(orders["orders"][0]["charged_cents"], PACK_CENTS);
    app.end().await;
}

/// The price that the service made of a plan, by the plan's id.
async fn own_price(app: &TestApp, plan: &str) -> Value {
    let list = app.at_processor("GET", "prices?limit=100", "").await;
    let all = list["data"].as_array().unwrap().iter();
    all.clone().find(|price| price["metadata"]["plan_id"] == plan).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_whose_own_price_was_changed_is_neither_sold_nor_changed_to() {
    selling(async |app| {
        let (_, small) = app.subscriber(GOOD_CARD).await;
        let (_, big) = app.subscriber_of(json!({"plan_id": BIG_PLAN}), GOOD_CARD).await;
        let newcomer = app.with_key(&app.customer(0).await.key);
        let own = own_price(&app, BIG_PLAN).await;
        let word = own["lookup_key"].as_str().unwrap();
        let terms = format!("unit_amount=1&currency=usd&{MONTHLY}&lookup_key={word}");
        price(&app, &format!("{terms}&transfer_lookup_key=true")).await;

        let bought = newcomer.post("/v1/billing/subscribe", &json!({"plan_id": BIG_PLAN})).await;
        let changed = choose(&small, BIG_PLAN).await;

        assert_eq!((bought.failure(), changed.failure()), (not_for_sale(), not_for_sale()));
        assert!(!plan_is_available(&newcomer, BIG_PLAN).await);
        assert!(plan_is_available(&newcomer, PLAN).await);
        let asked = app.changes_asked().await;
        assert!(asked.is_empty(), "{asked:?}");
        // Who has it keeps it.
        let before = balance(&big).await;
        app.months_pass(1).await;
        assert_eq!(balance(&big).await, before + 5_000);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_price_that_was_archived_is_not_made_a_second_time() {
    selling(async |app| {
        app.subscriber(GOOD_CARD).await;
        let newcomer = app.with_key(&app.customer(0).await.key);
        let own = own_price(&app, PLAN).await["id"].as_str().unwrap().to_owned();
        app.at_processor("POST", &format!("prices/{own}"), "active=false").await;

        let refused = newcomer.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.at_processor("POST", &format!("prices/{own}"), "active=true").await;
        let sold = newcomer.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;

        assert_eq!((refused.failure(), sold.status), (not_for_sale(), 200));
        app
    })
    .await;
}

/// The price has the right amount, but was sold with other credits before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_price_that_was_sold_on_other_terms_is_not_sold_at_again() {
    selling(async |app| {
        app.subscriber(GOOD_CARD).await;
        let newcomer = app.with_key(&app.customer(0).await.key);
        let own = own_price(&app, PLAN).await;
        let word = own["lookup_key"].as_str().unwrap();
        let terms = format!("unit_amount=2900&currency=usd&{MONTHLY}&lookup_key={word}");
        let id = price(&app, &format!("{terms}&transfer_lookup_key=true")).await;
        let sold = store::plan_versions::find(app.store(), own["id"].as_str().unwrap());
        let sold = sold.await.unwrap().unwrap();
        let other = domain::plan::PlanVersion { price_id: id, monthly_credits: 7, ..sold };
        let now = app.clock.now();
        store::plan_versions::write_down(app.store(), &other, now).await.unwrap();

        let refused = newcomer.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;

        assert_eq!(refused.failure(), not_for_sale());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_at_a_price_that_does_not_match_are_not_raised_but_can_be_given_up() {
    let mut app = shop().await;
    let (customer, client) = app.subscriber(GOOD_CARD).await;
    let slots = |count: i64| json!({"platform": "platform_alpha", "count": count});
    let set = async |client: &Client, count| client.post("/v1/billing/slots", &slots(count)).await;
    // Two slots at a price that is then given other terms in the configuration.
    let id = price(&app, &format!("unit_amount=1000&currency=usd&{MONTHLY}")).await;
    let named = |cents: i64, id: String| {
        move |config: &mut settings::Config| {
            let prices = format!(
                "[slots.prices]\nplatform_alpha = {{ price_cents = {cents}, price_id = \"{id}\" }}"
            );
            config.slots.prices = settings::Config::from_toml(&prices).unwrap().slots.prices;
        }
    };
    app.stop_service().await;
    app.start_service(named(1_000, id.clone())).await.unwrap();
    let client_of = |app: &TestApp| app.with_key(&customer.key);
    drop(client);
    let client = client_of(&app);
    let bought = set(&client, 2).await;
    assert_eq!(bought.status, 200, "{}", bought.text());
    app.stop_service().await;
    app.start_service(named(1_500, id)).await.unwrap();
    let client = client_of(&app);

    let raised = set(&client, 3).await;
    let preview = client.get("/v1/billing/slots/preview?platform=platform_alpha&count=3").await;
    let lowered = set(&client, 1).await;

    assert_eq!((raised.failure(), preview.failure()), (not_for_sale(), not_for_sale()));
    assert_eq!(lowered.status, 200, "{}", lowered.text());
    let shown = slots_on(&lowered.json(), "platform_alpha");
    assert_eq!((&shown["count"], &shown["available"]), (&json!(1), &json!(false)));
    app.end().await;
}

/// A customer who subscribed at a price of the operator's own, through the processor's dashboard.
async fn subscribed_by_hand(app: &TestApp, client: &Client, price_id: &str) {
    let customers = app.at_processor("GET", "customers?limit=1", "").await;
    let payer = customers["data"][0]["id"].as_str().unwrap().to_owned();
    let cards =
        app.at_processor("GET", &format!("customers/{payer}/payment_methods?type=card"), "").await;
    let card = cards["data"][0]["id"].as_str().unwrap().to_owned();
    let form = format!("customer={payer}&items[0][price]={price_id}&default_payment_method={card}");
    app.at_processor("POST", "subscriptions", &form).await;
    app.deliver().await;
    assert_eq!(subscription_of(client).await["status"], "active");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invoice_at_another_amount_or_in_another_currency_waits_for_the_operator() {
    for (terms, reason) in [
        ("unit_amount=2900&currency=usd", ""),
        ("unit_amount=100&currency=usd", "other_amount"),
        ("unit_amount=2900&currency=eur", "other_currency"),
    ] {
        let mut app = shop().await;
        let (customer, client) = app.with_card(GOOD_CARD).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);
        let id = price(&app, &format!("{terms}&{MONTHLY}")).await;
        app.stop_service().await;
        let named = id.clone();
        app.start_service(move |config| config.plans[0].price_id = named).await.unwrap();
        let client = app.with_key(&customer.key);

        subscribed_by_hand(&app, &client, &id).await;
        app.deliver().await;
        let report = app.running().reconcile(72).await.unwrap();

        let granted = if reason.is_empty() { 1_000 } else { 0 };
        assert_eq!(balance(&client).await, PACK_CREDITS + granted, "{terms}");
        assert_eq!((report.granted, report.failed), (0, 0), "{terms}: {report:?}");
        let unmatched = store::unmatched::list(app.store(), 10).await.unwrap();
        let reasons: Vec<_> = unmatched.iter().map(|one| one.reason.as_str()).collect();
        let expected: Vec<&str> = Some(reason).filter(|it| !it.is_empty()).into_iter().collect();
        assert_eq!(reasons, expected, "{terms}: {unmatched:?}");
        for one in &unmatched {
            assert!(one.object.starts_with("in_"), "{one:?}");
            assert!(one.details.contains(&customer.id), "{one:?}");
        }
        app.end().await;
    }
}
