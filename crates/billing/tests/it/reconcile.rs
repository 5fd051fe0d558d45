//! The reconciler: payments without an event are granted as well, once, and the ledger is compared
//! with the processor.
#![expect(clippy::large_futures, reason = "each test has its own stack")]

use domain::credits::Credits;
use domain::id::{EntryId, OrderId};
use domain::payment::OrderChannel;
use serde_json::{Value, json};
use store::orders::NewOrder;
use store::payments::{NewPayment, PaidFor};
use test_service::app::{TestApp, with_app};
use test_service::client::Client;
use test_service::processor::{PACK, PACK_CREDITS, balance, bookings};
use test_service::start::{HOURS_MAX, ReconciliationRounds, RoundOutcome};
use test_service::subscriber::{GOOD_CARD, OFFER, PLAN, selling};

/// The subscription's status, and the number of accounts allowed on `platform_alpha`.
async fn state(client: &Client) -> (String, i64) {
    let shown = client.get("/v1/billing/subscription").await.json();
    let limit = shown["entitlements"]["platform_alpha"].as_i64().unwrap();
    (shown["status"].as_str().unwrap().to_owned(), limit)
}

#[tokio::test]
async fn a_payment_without_any_event_is_granted_once_and_matches_the_comparison() {
    with_app(|app| async move {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let page = client.post("/v1/billing/checkout", &json!({"pack_id": "pack_10"})).await;
        app.pay(&page, GOOD_CARD).await;
        assert_eq!(balance(&client).await, 0);

        let first = app.running().reconcile(72).await.unwrap();
        let second = app.running().reconcile(72).await.unwrap();

        assert_eq!((first.granted, first.unmatched, first.failed), (1, 0, 0), "{first:?}");
        assert_eq!((second.granted, second.unmatched, second.failed), (0, 0, 0), "{second:?}");
        assert_eq!(balance(&client).await, 5_000);
        app.deliver().await;
        assert_eq!(balance(&client).await, 5_000);
        let today = app.clock.now().day();
        assert_eq!(app.running().compare_day(today).await.unwrap(), 0);
        app
    })
    .await;
}

#[tokio::test]
async fn a_subscription_without_any_event_is_granted_its_credits() {
    let app = TestApp::on_sqlite(OFFER).await;
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
    app.pay(&page, GOOD_CARD).await;

    let report = app.running().reconcile(72).await.unwrap();

    assert_eq!((report.unmatched, report.failed), (0, 0), "{report:?}");
    assert_eq!(balance(&client).await, 1_000);
    let subscription = client.get("/v1/billing/subscription").await.json();
    assert_eq!(subscription["status"], "active", "{subscription}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_round_makes_up_for_all_lost_events() {
    selling(async |app| {
        // Given a processor that sends no events and lists none
        app.control("webhook", json!({"enabled_events": []})).await;
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.pay(&page, GOOD_CARD).await;
        let packs = client.post("/v1/billing/checkout", &json!({"pack_id": PACK})).await;
        app.pay(&packs, GOOD_CARD).await;
        assert_eq!((state(&client).await, balance(&client).await), (("none".to_owned(), 1), 0));

        // When the reconciler runs twice
        let first = app.running().reconcile(72).await.unwrap();
        let bought = (state(&client).await, bookings(&client).await);
        let second = app.running().reconcile(72).await.unwrap();

        // Then everything is granted once
        assert_eq!((first.granted, first.events), (2, 0), "{first:?}");
        assert_eq!((first.unmatched, first.failed), (0, 0), "{first:?}");
        assert_eq!((second.granted, second.failed), (0, 0), "{second:?}");
        let (subscription, mut booked) = bought;
        booked.sort();
        assert_eq!(subscription, ("active".to_owned(), 3));
        assert_eq!(booked, [("pack".to_owned(), PACK_CREDITS), ("plan".to_owned(), 1_000)]);
        assert_eq!(balance(&client).await, PACK_CREDITS + 1_000);

        // And when a month was paid and the subscription ended without an event
        app.months_pass(1).await;
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        app.at_processor("DELETE", &format!("subscriptions/{id}"), "").await;
        let third = app.running().reconcile(72).await.unwrap();

        // Then the month's credits are granted once, and the slots are gone
        assert_eq!((third.granted, third.unmatched, third.failed), (1, 0, 0), "{third:?}");
        assert_eq!(balance(&client).await, PACK_CREDITS + 2_000);
        assert_eq!(state(&client).await, ("canceled".to_owned(), 1));
        app
    })
    .await;
}

/// The ledger's purchases, oldest first: kind, credits, and invoice or order.
async fn bought(client: &Client) -> Vec<(String, i64, String)> {
    let ledger = client.get("/v1/billing/ledger?limit=500").await.json();
    let entries = ledger["entries"].as_array().unwrap().iter().rev();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entry = |entry: &Value| {
        (text(&entry["kind"]), entry["amount"].as_i64().unwrap(), text(&entry["reference"]))
    };
    entries.map(entry).collect()
}

/// Buys a pack on a checkout page, an hour later.
async fn buy(app: &TestApp, client: &Client, pack: &str) {
    app.advance_seconds(3_600);
    let page = client.post("/v1/billing/checkout", &json!({"pack_id": pack})).await;
    app.pay(&page, GOOD_CARD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_reconciled_together_are_recorded_in_the_order_in_which_they_were_made() {
    selling(async |app| {
        // Given months and packs without events, the first too old for the list of events
        app.control("webhook", json!({"enabled_events": []})).await;
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.pay(&page, GOOD_CARD).await;
        for pack in ["pack_10", "pack_25"] {
            buy(&app, &client, pack).await;
            app.advance_seconds(31 * 86_400);
        }
        assert_eq!(bought(&client).await, []);

        // When they are reconciled
        let report = app.running().reconcile(HOURS_MAX).await.unwrap();

        // Then each is recorded in its order
        assert_eq!((report.granted, report.unmatched, report.failed), (5, 0, 0), "{report:?}");
        let booked = bought(&client).await;
        let sums: Vec<_> = booked.iter().map(|(kind, sum, _)| (kind.as_str(), *sum)).collect();
        let month = ("plan", 1_000);
        assert_eq!(sums, [month, ("pack", 5_000), month, ("pack", 13_500), month]);
        let invoices = app.invoices().await;
        let invoices: Vec<_> =
            invoices.iter().rev().map(|one| one["id"].as_str().unwrap()).collect();
        let months = booked.iter().filter(|(kind, ..)| kind == "plan");
        assert_eq!(months.map(|(.., invoice)| invoice.as_str()).collect::<Vec<_>>(), invoices);
        app
    })
    .await;
}

/// Lets a renewal be declined and then paid three days later, between two packs, all without
/// events.
async fn renew_late(app: &TestApp, client: &Client) {
    app.decline(1).await;
    for _ in 0..31 {
        app.advance_seconds(86_400);
        if app.invoices().await[0]["status"] == "open" {
            break;
        }
    }
    assert_eq!(app.invoices().await[0]["status"], "open");
    app.advance_seconds(47 * 3_600);
    buy(app, client, "pack_10").await;
    assert_eq!(app.invoices().await[0]["status"], "open");
    app.advance_seconds(25 * 3_600);
    assert_eq!(app.invoices().await[0]["status"], "paid");
    buy(app, client, "pack_25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_month_that_was_paid_late_is_recorded_in_its_order() {
    // Both ranges cover all payments; the shorter one does not cover the creation of the invoice.
    for hours in [30, 120] {
        selling(async |app| {
            let (_, client) = app.subscriber(GOOD_CARD).await;
            renew_late(&app, &client).await;

            let report = app.running().reconcile(hours).await.unwrap();

            assert_eq!((report.granted, report.unmatched, report.failed), (3, 0, 0), "{report:?}");
            let booked = bought(&client).await;
            let sums: Vec<_> = booked.iter().map(|(kind, sum, _)| (kind.as_str(), *sum)).collect();
            let month = ("plan", 1_000);
            assert_eq!(sums, [month, ("pack", 5_000), month, ("pack", 13_500)], "{hours}");
            app
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_created_before_the_range_is_read_too() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        assert_eq!(state(&client).await, ("active".to_owned(), 3));
        app.control("webhook", json!({"enabled_events": []})).await;
        app.advance_seconds(10 * 86_400);
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        app.at_processor("DELETE", &format!("subscriptions/{id}"), "").await;

        // Nothing of it was created in the hours that are compared.
        let report = app.running().reconcile(1).await.unwrap();

        assert_eq!((report.granted, report.failed), (0, 0), "{report:?}");
        assert_eq!(state(&client).await, ("canceled".to_owned(), 1));
        app
    })
    .await;
}

#[tokio::test]
async fn recorded_money_that_the_processor_does_not_have_is_reported() {
    let app = TestApp::on_sqlite("").await;
    let customer = app.customer(0).await;
    let (now, store) = (app.clock.now(), app.store());
    let id = customer.id.parse().unwrap();
    store::processor_customers::link(store, id, "cus_1", now).await.unwrap();
    let order = NewOrder {
        id: OrderId::new(now, [7; 10]),
        customer: id,
        channel: OrderChannel::Checkout,
        pack_id: "pack_10",
        packs: 1,
        credits: Credits::from_whole(5_000),
        amount_cents: 1_000,
        currency: "usd",
        livemode: false,
        processor_customer: "cus_1",
        payment_method: None,
        idempotency_hash: None,
        at: now,
    };
    store::orders::open(store, &order).await.unwrap();
    let paid = NewPayment {
        entry: EntryId::new(now, [7; 10]),
        what: PaidFor::Order { id: order.id, subtotal_cents: 1_000, expires_at: None },
        payment: "pi_never",
        intent: Some("pi_never"),
        processor_customer: Some("cus_1"),
        amount_cents: 1_000,
        tax_cents: 0,
        currency: "usd",
        livemode: false,
        at: now,
    };
    store::payments::fulfil(store, &paid).await.unwrap();

    let differing = app.running().compare_day(now.day()).await.unwrap();

    assert_eq!(differing, 1);
    let noted = store::unmatched::list(store, 10).await.unwrap();
    assert_eq!(noted[0].reason.as_str(), "missing_payment", "{noted:?}");
    app.end().await;
}

#[tokio::test]
async fn staff_reconcile_through_the_admin_listener_only_with_the_token() {
    use secrecy::ExposeSecret as _;
    let app = TestApp::on_sqlite("").await;
    let token = app.running().admin_token().expose_secret().to_owned();

    let open = app.admin().post("/reconcile", &json!({"hours": 72})).await;
    let staff = app.admin().bearer(&token).post("/reconcile", &json!({"hours": 72})).await;

    assert_eq!(open.status, 401);
    assert_eq!((staff.status, &staff.json()["failed"]), (200, &json!(0)), "{}", staff.text());
    app.end().await;
}

/// The rounds of a node with this number.
fn rounds_of(number: u8) -> ReconciliationRounds {
    let at = domain::time::Timestamp::from_unix_micros(1);
    ReconciliationRounds::new(domain::id::NodeId::new(at, [number; 10]))
}

/// A round, and what it asked the processor.
async fn round(app: &TestApp, rounds: &mut ReconciliationRounds) -> (RoundOutcome, Vec<String>) {
    let count = async || app.shown("requests").await["requests"].as_array().unwrap().clone();
    let before = count().await.len();
    let outcome = app.running().reconciliation_round(rounds).await.unwrap();
    let asked = count().await.split_off(before);
    let path = |one: &Value| one["path"].as_str().unwrap().trim_start_matches("/v1/").to_owned();
    (outcome, asked.iter().map(path).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_are_compared_in_lists_and_later_rounds_read_only_changes() {
    selling(async |app| {
        for _ in 0..4 {
            app.subscriber(GOOD_CARD).await;
        }
        app.advance_seconds(3_600);
        let mut rounds = rounds_of(1);

        let (first, asked) = round(&app, &mut rounds).await;
        app.advance_seconds(300);
        let (second, asked_later) = round(&app, &mut rounds).await;
        app.advance_seconds(86_400);
        let (third, _) = round(&app, &mut rounds).await;

        assert!(
            matches!(&first, RoundOutcome::Everything(report) if report.failed == 0),
            "{first:?}"
        );
        // One page of each list, and nothing for each subscriber. The last three are of the day's
        // comparison.
        let lists = [
            "customers",
            "events",
            "invoices",
            "payment_intents",
            "checkout/sessions",
            "subscriptions",
            "refunds",
            "credit_notes",
            "disputes",
            "radar/early_fraud_warnings",
            "customers",
            "subscriptions",
            "events",
        ];
        assert_eq!(asked, lists);
        assert!(
            matches!(&second, RoundOutcome::Changes(report) if report.failed == 0),
            "{second:?}"
        );
        assert_eq!(asked_later, ["events"]);
        assert!(matches!(third, RoundOutcome::Everything(_)), "once a day: {third:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_whose_event_never_arrived_is_found_by_the_next_round() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let mut rounds = rounds_of(1);
        round(&app, &mut rounds).await;
        app.advance_seconds(600);
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, GOOD_CARD).await;
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        app.at_processor("DELETE", &format!("subscriptions/{id}"), "").await;
        app.advance_seconds(300);

        // A round that fails leaves its time to the next one.
        let broken = json!({"kind": "error_before", "method": "GET", "times": 1_000});
        app.processor_fault(&broken).await;
        let (failed, _) = round(&app, &mut rounds).await;
        app.mend_processor().await;
        app.advance_seconds(86_400 / 4);
        let (found, _) = round(&app, &mut rounds).await;

        assert!(
            matches!(&failed, RoundOutcome::Changes(report) if report.failed > 0),
            "{failed:?}"
        );
        assert!(matches!(&found, RoundOutcome::Changes(report) if report.events > 0), "{found:?}");
        assert_eq!(balance(&client).await, PACK_CREDITS + 1_000);
        assert_eq!(state(&client).await.0, "canceled");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_one_compares_and_a_dead_ones_claim_expires() {
    selling(async |app| {
        let (mut dead, mut other) = (rounds_of(1), rounds_of(2));
        let now = app.clock.now();
        let node = domain::id::NodeId::new(domain::time::Timestamp::from_unix_micros(1), [1; 10]);
        let until = now.plus_seconds(60);
        let claim = store::reconciliations::claim(app.store(), node, until).await;
        assert!(claim.unwrap().is_some());

        let (refused, asked) = round(&app, &mut other).await;
        store::testing::take_over(app.store(), until).await.unwrap();
        let (taken, _) = round(&app, &mut other).await;
        let (next, _) = round(&app, &mut dead).await;

        assert_eq!((refused, asked.len()), (RoundOutcome::OtherNode, 0));
        assert!(matches!(taken, RoundOutcome::Everything(_)), "{taken:?}");
        assert!(matches!(next, RoundOutcome::Everything(_)), "its first round: {next:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_processor_that_limits_requests_is_left_alone_for_longer_and_longer() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let mut rounds = rounds_of(1);
        let limit = json!({"kind": "rate_limit", "method": "GET", "times": 1_000, "retry_after_s": 7});
        app.processor_fault(&limit).await;

        let (first, asked) = round(&app, &mut rounds).await;
        let limited = |outcome: &RoundOutcome| {
            matches!(outcome, RoundOutcome::Everything(report) if report.limited_s == Some(7))
        };
        assert!(limited(&first), "{first:?}");
        assert!(asked.len() <= 8, "the rest is not asked: {asked:?}");
        // The tests' configuration makes no rounds of its own, so that only the seconds that the
        // processor named are waited.
        assert_eq!(round(&app, &mut rounds).await, (RoundOutcome::TooEarly, Vec::new()));
        app.advance_seconds(7);
        assert!(limited(&round(&app, &mut rounds).await.0));
        app.mend_processor().await;
        app.advance_seconds(7);
        let (last, _) = round(&app, &mut rounds).await;

        assert!(matches!(&last, RoundOutcome::Everything(report) if report.failed == 0), "{last:?}");
        assert_eq!(balance(&client).await, 1_000);
        app
    })
    .await;
}
