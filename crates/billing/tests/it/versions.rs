//! Events in every version of the processor's API, repeated, shuffled, and on several nodes: what
//! they report is granted once.

use serde_json::json;
use test_service::nodes::Nodes;
use test_service::platform::{RawPlatform, Script};
use test_service::processor::{PACK_CENTS, PACK_CREDITS, balance, bookings};
use test_service::subscriber::{GOOD_CARD, OFFER, PLAN};
use test_service::{Client, TestApp, at_once};

/// A version from before fields moved, the ones in which they did, and the newest.
const VERSIONS: [&str; 5] = [
    "2024-06-20",
    "2025-02-24.acacia",
    "2025-03-31.basil",
    "2025-09-30.clover",
    "2026-03-25.dahlia",
];
/// How often each event is sent in each version.
const COPIES: usize = 10;
/// How many are on their way at the same time.
const CONCURRENT: usize = 24;
const SEED: u64 = 20_261_125;

/// What was bought at the processor before any event of it arrived.
struct Purchases {
    packs: Client,
    refunded: Client,
    subscriber: Client,
}

/// Two packs, one of which is refunded, and a subscription that renews once and whose first payment
/// is refunded. No event is delivered.
async fn buy(app: &TestApp) -> Purchases {
    let mut buyers = Vec::new();
    for _ in 0..2 {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        buyers.push((client, app.pay_page(&begun.session, GOOD_CARD).await));
    }
    let (refunded, intent) = buyers.pop().unwrap();
    let (packs, _) = buyers.pop().unwrap();
    app.refund(&intent, PACK_CENTS).await;
    let customer = app.customer(0).await;
    let subscriber = app.with_key(&customer.key);
    let page = subscriber.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
    app.pay(&page, GOOD_CARD).await;
    let first = app.invoices().await[0]["id"].as_str().unwrap().to_owned();
    app.control("clock", json!({"advance_months": 1})).await;
    app.control("refunds", json!({"invoice": first})).await;
    Purchases { packs, refunded, subscriber }
}

/// Every event in every version.
async fn events(app: &TestApp) -> Vec<Vec<u8>> {
    let address = app.world.processor_url().trim_start_matches("http://").parse().unwrap();
    let known = app.shown("events").await["events"].as_array().unwrap().clone();
    let mut bodies = Vec::new();
    for version in VERSIONS {
        let client = Client::new(address)
            .bearer(&app.settings.processor.secret_key)
            .with("stripe-version", version);
        for event in &known {
            let path = format!("/v1/events/{}", event["id"].as_str().unwrap());
            let mut body = client.get(&path).await.json();
            body["api_version"] = json!(version);
            bodies.push(serde_json::to_vec(&body).unwrap());
        }
    }
    bodies
}

/// The same in an order that depends on the seed alone.
fn shuffled<T>(mut all: Vec<T>) -> Vec<T> {
    let mut state = SEED;
    for place in (1..all.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap() % (place + 1);
        all.swap(place, other);
    }
    all
}

/// Sends every event to the nodes in turn. Each must be accepted.
async fn send(app: &TestApp, nodes: &[Client]) -> usize {
    let bodies = events(app).await;
    let copies = bodies.iter().flat_map(|body| std::iter::repeat_n(body.clone(), COPIES));
    let all = shuffled(copies.collect());
    for (round, some) in all.chunks(CONCURRENT).enumerate() {
        let sent = some.iter().enumerate().map(|(place, body)| {
            let client = nodes[(round + place) % nodes.len()]
                .with("content-type", "application/json")
                .with("stripe-signature", &app.signature(body, 0));
            let body = body.clone();
            async move { client.send("POST", "/v1/billing/webhook", Some(body)).await }
        });
        for reply in at_once(sent).await {
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
    }
    all.len()
}

fn named(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    let mut all: Vec<_> = expected.iter().map(|(kind, sum)| ((*kind).to_owned(), *sum)).collect();
    all.sort();
    all
}

async fn sorted(client: &Client) -> Vec<(String, i64)> {
    let mut all = bookings(client).await;
    all.sort();
    all
}

async fn granted_once(app: &TestApp, nodes: &[Client]) {
    let bought = buy(app).await;

    let sent = send(app, nodes).await;
    app.run_jobs().await;

    assert!(sent >= VERSIONS.len() * COPIES * 20, "only {sent} events were sent");
    assert_eq!(sorted(&bought.packs).await, named(&[("pack", PACK_CREDITS)]));
    let back = [("pack", PACK_CREDITS), ("refund", -PACK_CREDITS)];
    assert_eq!(sorted(&bought.refunded).await, named(&back));
    let months = [("plan", 1_000), ("plan", 1_000), ("refund", -1_000)];
    assert_eq!(sorted(&bought.subscriber).await, named(&months));
    assert_eq!(balance(&bought.subscriber).await, 1_000);
    let unmatched = store::unmatched::list(app.store(), 10).await.unwrap();
    assert!(unmatched.is_empty(), "{unmatched:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_all_versions_repeated_and_shuffled_are_granted_once() {
    let app = TestApp::on_sqlite(OFFER).await;
    let node = [app.anonymous()];
    granted_once(&app, &node).await;
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn events_of_all_versions_repeated_and_shuffled_on_three_nodes_are_granted_once() {
    let database = store::testing::postgres().await;
    let platform = RawPlatform::playing(|_: &_, _| Script::json(200, "{}")).await;
    Nodes::on(database, OFFER, platform, async |nodes| {
        let clients: Vec<Client> =
            nodes.running().iter().map(|node| Client::new(node.address())).collect();
        granted_once(&nodes.stage.app, &clients).await;
        nodes
    })
    .await;
}
