//! A database restored from an older copy: what was paid since then is recorded again, once, and
//! requests repeated under their old keys take nothing.
#![expect(
    clippy::large_futures,
    clippy::shadow_unrelated,
    clippy::too_many_lines,
    reason = "each test has its own stack, and a service started again keeps the names of its clients"
)]

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use test_service::processor::{PACK, PACK_CENTS, PACK_CREDITS, balance};
use test_service::subscriber::{BIG_PLAN, GOOD_CARD, PLAN, choose, selling};
use test_service::{Client, TestApp};

const HOUR_S: i64 = 3_600;
/// A card whose bank requires authentication for every charge.
const ASKING_CARD: &str = "4000002760003184";

/// What a customer sees of its money: balance, orders, ledger, subscription.
#[derive(Debug, PartialEq)]
struct Books {
    balance: Value,
    orders: Vec<Value>,
    ledger: Vec<String>,
    subscription: Value,
}

impl Books {
    async fn of(client: &Client) -> Self {
        let billing = client.get("/v1/billing").await.json();
        let orders = client.get("/v1/billing/orders").await.json();
        let mut orders = orders["orders"].as_array().unwrap().clone();
        for order in &mut orders {
            let order = order.as_object_mut().unwrap();
            // When this service heard of the payment, and the parts of a second, differ.
            order.remove("closed_at");
            let created = order["created_at"].as_str().unwrap()[..19].to_owned();
            order.insert("created_at".to_owned(), json!(created));
        }
        let ledger = client.get("/v1/billing/ledger?limit=500").await.json();
        let entries = ledger["entries"].as_array().unwrap().iter();
        let line =
            |entry: &Value| format!("{} {} {}", entry["kind"], entry["amount"], entry["reference"]);
        let mut ledger: Vec<String> = entries.map(line).collect();
        ledger.sort();
        Self {
            balance: json!([billing["balance"], billing["debt"]]),
            orders,
            ledger,
            subscription: client.get("/v1/billing/subscription").await.json(),
        }
    }

    async fn of_all(clients: &[Client]) -> Vec<Self> {
        let mut all = Vec::new();
        for client in clients {
            all.push(Self::of(client).await);
        }
        all
    }
}

/// The same clients, for the service that was started last.
fn again(app: &TestApp, clients: &[Client]) -> Vec<Client> {
    clients.iter().map(|client| client.at(app.running().address())).collect()
}

/// The payment intents at the processor, newest first.
async fn intents(app: &TestApp) -> Vec<String> {
    let list = app.at_processor("GET", "payment_intents?limit=100", "").await;
    let all = list["data"].as_array().unwrap().iter();
    all.map(|intent| intent["id"].as_str().unwrap().to_owned()).collect()
}

async fn customers_there(app: &TestApp) -> usize {
    let list = app.at_processor("GET", "customers?limit=100", "").await;
    list["data"].as_array().unwrap().len()
}

/// Buys a pack on the processor's page; returns the payment intent.
async fn buy(app: &TestApp, client: &Client) -> String {
    let begun = app.begin_checkout(client).await;
    let intent = app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    intent
}

async fn subscribe(app: &TestApp, client: &Client) {
    app.subscribe(client, GOOD_CARD).await;
}

/// Charges the saved card under a key.
async fn charge(client: &Client, key: &str, pack: &str) -> test_service::Reply {
    let client = client.with("idempotency-key", key);
    client.post("/v1/billing/charge", &json!({"pack_id": pack})).await
}

/// Sets automatic top-up, and lets it charge what it wants to.
async fn top_up_below(app: &TestApp, client: &Client, threshold: i64) {
    let wish = json!({
        "enable": true, "threshold_credits": threshold, "pack_id": PACK, "daily_cap_usd": 20,
    });
    let on = client.post("/v1/billing/autotopup", &wish).await;
    assert_eq!(on.status, 200, "{}", on.text());
    for _ in 0..1_000 {
        let charged = app.running().look_after_top_ups().await;
        let view = client.get("/v1/billing/autotopup").await.json();
        if charged == 0 && view["pending"]["state"] != "claimed" {
            return;
        }
    }
    panic!("the top-up never ended");
}

/// The rows of payments that wait for an operator.
async fn waiting_for_operator(app: &TestApp) -> Vec<String> {
    let open = store::unmatched_settlements::list(app.store(), false, 100).await.unwrap();
    open.iter().map(|row| format!("{} {} {}", row.object, row.reason, row.details)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_loses_no_payment_and_no_repeated_charge_pays_again() {
    selling(async |mut app| {
        // Given customers with a card, with a plan, with a pack, and with nothing
        let (_, charging) = app.with_card(GOOD_CARD).await;
        let (_, upgrading) = app.subscriber(GOOD_CARD).await;
        let (_, topping) = app.with_card(GOOD_CARD).await;
        top_up_below(&app, &topping, 1).await;
        let (owner, fresh) = (app.customer(0).await, app.customer(0).await);
        let (owner, fresh) = (app.with_key(&owner.key), app.with_key(&fresh.key));
        let before = buy(&app, &owner).await;
        app.deliver().await;
        app.run_jobs().await;

        // When all of them pay and are paid back after a copy of the database was made
        let copy = app.back_up().await;
        let clients = again(&app, &[charging, upgrading, topping, owner, fresh]);
        let [charging, upgrading, topping, owner, fresh] = clients.as_slice() else {
            panic!("five customers")
        };
        app.advance_seconds(HOUR_S);
        let paid = charge(charging, "key-1", PACK).await;
        assert_eq!(paid.json()["status"], "paid", "{}", paid.text());
        app.advance_seconds(1);
        assert_eq!(charge(charging, "key-2", "pack_25").await.status, 200);
        let upgraded = choose(upgrading, BIG_PLAN).await;
        assert_eq!(upgraded.status, 200, "{}", upgraded.text());
        app.deliver().await;
        top_up_below(&app, topping, PACK_CREDITS + 1).await;
        let second = buy(&app, owner).await;
        subscribe(&app, owner).await;
        let free = json!({"percent_off": 100, "duration": "once"});
        app.control("next-coupon", free).await;
        let page = owner.post("/v1/billing/checkout", &json!({"pack_id": "pack_25"})).await;
        app.pay(&page, GOOD_CARD).await;
        app.deliver().await;
        buy(&app, fresh).await;
        subscribe(&app, fresh).await;
        app.advance_seconds(HOUR_S);
        app.refund(&before, PACK_CENTS).await;
        app.refund(&second, 300).await;
        app.deliver().await;
        app.run_jobs().await;
        let (books, payments) = (Books::of_all(&clients).await, intents(&app).await);
        let payers = customers_there(&app).await;
        app.advance_seconds(HOUR_S);
        app.restore(&copy).await;
        let clients = again(&app, &clients);
        assert_ne!(Books::of_all(&clients).await, books, "the copy must be older");

        // Then the reconciler records everything again, and a second time nothing
        let first = app.running().reconcile(24).await.unwrap();
        assert_eq!((first.unmatched, first.failed), (0, 0), "{first:?}");
        for (client, before) in clients.iter().zip(&books) {
            assert_eq!(Books::of(client).await, *before);
        }
        let next = app.running().reconcile(24).await.unwrap();
        assert_eq!((next.granted, next.unmatched, next.failed), (0, 0, 0), "{next:?}");
        assert_eq!(waiting_for_operator(&app).await, [""; 0]);

        // And charges under their old keys return what they paid, and take nothing
        for _ in 0..2 {
            let repeated = charge(&clients[0], "key-1", PACK).await;
            assert_eq!(repeated.status, 200, "{}", repeated.text());
            assert_eq!(repeated.json()["order_id"], paid.json()["order_id"]);
        }
        assert_eq!(charge(&clients[0], "key-2", "pack_25").await.status, 200);
        assert_eq!(Books::of_all(&clients).await, books);
        app.run_jobs().await;
        assert_eq!(intents(&app).await, payments);
        let checkout = json!({"pack_id": PACK});
        assert_eq!(clients[4].post("/v1/billing/checkout", &checkout).await.status, 200);
        assert_eq!(customers_there(&app).await, payers, "no second customer is made");
        let today = app.clock.now().day();
        assert_eq!(app.running().compare_day(today).await.unwrap(), 0);
        let spent = clients[2].get("/v1/billing/autotopup").await.json();
        assert_eq!(spent["spent_today_cents"], PACK_CENTS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_repeated_before_the_comparison_looks_for_its_payment_first() {
    selling(async |mut app| {
        // Given charges after the copy: paid, waiting for the customer, declined
        let (_, paying) = app.with_card(GOOD_CARD).await;
        let (_, asked) = app.with_card(ASKING_CARD).await;
        let (_, poor) = app.with_card(GOOD_CARD).await;
        app.deliver().await;
        let copy = app.back_up().await;
        let clients = again(&app, &[paying, asked, poor]);
        let paid = charge(&clients[0], "key-1", PACK).await.json();
        let waiting = charge(&clients[1], "key-1", PACK).await.json();
        assert_eq!(
            (&paid["status"], &waiting["status"]),
            (&json!("paid"), &json!("requires_action"))
        );
        app.decline_next("insufficient_funds").await;
        let declined = charge(&clients[2], "key-1", PACK).await;
        assert_eq!(declined.failure(), (402, "payment_failed".to_owned()));
        let payments = intents(&app).await;
        app.advance_seconds(3 * HOUR_S);
        app.restore(&copy).await;
        let clients = again(&app, &clients);

        // When they are repeated
        let again_paid = charge(&clients[0], "key-1", PACK).await.json();
        let again_waiting = charge(&clients[1], "key-1", PACK).await.json();
        let again_declined = charge(&clients[2], "key-1", PACK).await;
        let other_pack = charge(&clients[0], "key-1", "pack_25").await;

        // Then each has the answer that it had, and nothing was taken
        assert_eq!(again_paid["order_id"], paid["order_id"]);
        assert_eq!(
            (&again_paid["status"], &again_paid["balance"]),
            (&json!("paid"), &json!(10_000))
        );
        for field in ["status", "order_id", "pi_id"] {
            assert_eq!(again_waiting[field], waiting[field], "{field}");
        }
        assert_eq!(again_declined.failure(), (402, "payment_failed".to_owned()));
        assert_eq!(other_pack.failure(), (422, "idempotency_mismatch".to_owned()));
        assert_eq!(intents(&app).await, payments);

        // And the one that waited can be paid, a new key pays again
        app.authenticate(waiting["pi_id"].as_str().unwrap(), true).await;
        let confirm = json!({"pi_id": waiting["pi_id"]});
        let confirmed = clients[1].post("/v1/billing/confirm-charge", &confirm).await;
        assert_eq!(confirmed.json()["status"], "paid", "{}", confirmed.text());
        assert_eq!(charge(&clients[2], "key-2", PACK).await.json()["status"], "paid");
        assert_eq!(intents(&app).await.len(), payments.len() + 1);
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkout_repeated_under_its_key_has_the_same_page_or_says_that_it_was_paid() {
    selling(async |mut app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        buy(&app, &client).await;
        let copy = app.back_up().await;
        let client = client.at(app.running().address());
        let begin = async |client: &Client, key: &str| {
            let body = json!({"pack_id": PACK});
            client.with("idempotency-key", key).post("/v1/billing/checkout", &body).await
        };
        let (open, paid) = (begin(&client, "key-1").await, begin(&client, "key-2").await);
        app.pay(&paid, GOOD_CARD).await;
        app.advance_seconds(3 * HOUR_S);
        app.restore(&copy).await;
        let client = client.at(app.running().address());

        let again = begin(&client, "key-1").await;
        let ended = begin(&client, "key-2").await;

        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.json()["session_id"], open.json()["session_id"]);
        assert_eq!(again.json()["order_id"], open.json()["order_id"]);
        assert_eq!(ended.status, 410, "{}", ended.text());
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app.deliver().await;
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        app
    })
    .await;
}

/// A payment intent as an earlier version made it: it names the order and the pack, not the
/// credits.
async fn earlier_payment(app: &TestApp, cents: i64, marks: &str) -> String {
    let customers = app.at_processor("GET", "customers?limit=1", "").await;
    let payer = customers["data"][0]["id"].as_str().unwrap().to_owned();
    let cards = app.at_processor("GET", &format!("customers/{payer}/payment_methods"), "").await;
    let card = cards["data"][0]["id"].as_str().unwrap();
    let form = format!(
        "amount={cents}&currency=usd&customer={payer}&payment_method={card}&confirm=true\
         &payment_method_types[]=card&{marks}"
    );
    let made = app.at_processor("POST", "payment_intents", &form).await;
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_without_credits_is_recorded_only_at_the_price_of_its_pack() {
    selling(async |app| {
        let (customer, client) = app.with_card(GOOD_CARD).await;
        let before = balance(&client).await;
        let named = |number: u8, pack: &str, of: &str| {
            let order = domain::id::OrderId::new(app.clock.now(), [number; 10]);
            let names = "metadata[creator_gateway_order_id]";
            let pack = if pack.is_empty() {
                String::new()
            } else {
                format!("&metadata[creator_gateway_pack_id]={pack}")
            };
            format!("{names}={order}&metadata[customer_id]={of}{pack}")
        };
        let stranger = domain::id::CustomerId::new(app.clock.now(), [9; 10]).to_string();
        let right = earlier_payment(&app, PACK_CENTS, &named(1, PACK, &customer.id)).await;
        let wrong = [
            earlier_payment(&app, PACK_CENTS - 1, &named(2, PACK, &customer.id)).await,
            earlier_payment(&app, PACK_CENTS, &named(3, "", &customer.id)).await,
            earlier_payment(&app, PACK_CENTS, &named(4, PACK, &stranger)).await,
        ];

        let report = app.running().reconcile(24).await.unwrap();

        assert_eq!((report.granted, report.unmatched, report.failed), (1, 3, 0), "{report:?}");
        assert_eq!(balance(&client).await, before + PACK_CREDITS);
        let open = store::unmatched_settlements::list(app.store(), false, 100).await.unwrap();
        for id in &wrong {
            let row = open.iter().find(|row| row.object == *id).unwrap();
            assert_eq!(row.reason.as_str(), "unknown_order");
            for known in ["ord_", "cus_", "usd", "2026-11-21", "customer_id="] {
                assert!(row.details.contains(known), "{known}: {}", row.details);
            }
        }
        assert_eq!(open.len(), wrong.len());
        let orders = client.get("/v1/billing/orders").await.json();
        assert_eq!(orders["orders"].as_array().unwrap().len(), 2, "{orders}");
        assert!(!right.is_empty());
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_payment_that_an_operator_settled_is_not_granted_again() {
    selling(async |mut app| {
        let (customer, client) = app.with_card(GOOD_CARD).await;
        app.deliver().await;
        let copy = app.back_up().await;
        let client = client.at(app.running().address());
        let paid = charge(&client, "key-1", PACK).await.json();
        app.advance_seconds(3 * HOUR_S);
        app.restore(&copy).await;
        let client = client.at(app.running().address());
        let intent = intents(&app).await[0].clone();
        let unmatched = store::unmatched::UnmatchedMoney {
            object: &intent,
            reason: domain::payment::Mismatch::UnknownOrder,
            details: "found by hand",
            at: app.clock.now(),
        };
        store::payments::note_unmatched(app.store(), &unmatched).await.unwrap();
        let settle = json!({
            "command": "settle_unmatched", "object": intent, "note": "restored by hand",
            "customer": customer.id, "credits": PACK_CREDITS,
        });
        let token = app.running().admin_token().expose_secret().to_owned();
        let operator = app.admin().bearer(&token).with("x-operator", "grace");
        let settled = operator.post("/commands/operator", &settle).await;
        assert_eq!(settled.status, 200, "{}", settled.text());

        let report = app.running().reconcile(24).await.unwrap();

        assert_eq!((report.granted, report.failed), (0, 0), "{report:?}");
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        assert_eq!(waiting_for_operator(&app).await, [""; 0]);
        let order = format!("/v1/billing/orders/{}", paid["order_id"].as_str().unwrap());
        assert_eq!(client.get(&order).await.status, 404);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_top_up_is_not_repeated_before_the_comparison() {
    selling(async |mut app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        app.deliver().await;
        // The copy was made when the balance had become low, before the charge.
        let copy = app.back_up().await;
        let client = client.at(app.running().address());
        top_up_below(&app, &client, PACK_CREDITS + 1).await;
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        let payments = intents(&app).await;
        app.advance_seconds(HOUR_S);
        app.restore(&copy).await;
        let client = client.at(app.running().address());

        top_up_below(&app, &client, PACK_CREDITS + 1).await;

        assert_eq!(intents(&app).await, payments);
        assert_eq!(balance(&client).await, 2 * PACK_CREDITS);
        assert_eq!(
            client.get("/v1/billing/autotopup").await.json()["spent_today_cents"],
            PACK_CENTS
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_begun_after_the_copy_is_restored_with_its_customer_at_the_processor() {
    selling(async |mut app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let copy = app.back_up().await;
        let client = client.at(app.running().address());
        subscribe(&app, &client).await;
        let books = Books::of(&client).await;
        assert_eq!(books.subscription["status"], "active");
        app.advance_seconds(3 * HOUR_S);
        app.restore(&copy).await;
        let client = client.at(app.running().address());

        let report = app.running().reconcile(24).await.unwrap();

        assert_eq!((report.granted, report.unmatched, report.failed), (1, 0, 0), "{report:?}");
        assert_eq!(Books::of(&client).await, books);
        let second = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        assert_eq!(second.status, 409, "{}", second.text());
        assert_eq!(customers_there(&app).await, 1);
        app
    })
    .await;
}
