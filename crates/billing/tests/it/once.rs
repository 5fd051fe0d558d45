//! A payment is granted once, through whichever channels and in whatever order it is reported.

use serde_json::json;
use test_service::processor::{PACK_CREDITS, balance, bookings};
use test_service::{Client, TestApp, at_once, with_app};

/// A channel through which a payment is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its events, each sent ten times concurrently.
    Events,
    /// The customer confirms it.
    Confirm,
    /// The customer returns from the checkout page.
    Sync,
    /// The reconciler compares the processor's last hour with the ledger.
    Reconciler,
}

const WAYS: [Way; 4] = [Way::Events, Way::Confirm, Way::Sync, Way::Reconciler];

/// A payment that has not been reported yet.
#[derive(Clone)]
struct Payment {
    client: Client,
    session: String,
    intent: String,
}

async fn paid(app: &TestApp) -> Payment {
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    let begun = app.begin_checkout(&client).await;
    let intent = app.pay_page(&begun.session, "4242424242424242").await;
    assert_eq!(balance(&client).await, 0);
    Payment { client, session: begun.session, intent }
}

async fn tell(app: &TestApp, payment: &Payment, way: Way) {
    match way {
        Way::Events => {
            let events = app.events_about(&[&payment.intent, &payment.session]).await;
            assert!(events.len() >= 2, "{events:?}");
            for (id, _) in events {
                assert_eq!(app.send_event(&id, 10).await, [200; 10]);
            }
        }
        Way::Confirm => {
            let body = json!({"pi_id": payment.intent});
            let reply = payment.client.post("/v1/billing/confirm-charge", &body).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        Way::Sync => {
            let body = json!({"session_id": payment.session});
            let reply = payment.client.post("/v1/billing/sync-card", &body).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        Way::Reconciler => {
            let report = app.running().reconcile(1).await.unwrap();
            assert_eq!((report.unmatched, report.failed), (0, 0), "{report:?}");
        }
    }
}

/// All permutations of the channels.
fn orders() -> Vec<Vec<Way>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..WAYS.len() {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<Way>| {
                let rest = WAYS.into_iter().filter(|way| !order.contains(way)).collect::<Vec<_>>();
                rest.into_iter().map(move |way| [order.as_slice(), &[way]].concat())
            })
            .collect();
    }
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_reported_in_any_order_is_granted_once() {
    with_app(async |app| {
        let orders = orders();
        assert_eq!(orders.len(), 24);
        // In a short run each way is the first one once.
        for order in orders.into_iter().step_by(store::testing::samples(6, 1)) {
            let payment = paid(&app).await;
            for way in &order {
                tell(&app, &payment, *way).await;
                assert_eq!(balance(&payment.client).await, PACK_CREDITS, "{order:?} at {way:?}");
            }
            let granted = bookings(&payment.client).await;
            assert_eq!(granted, [("pack".to_owned(), PACK_CREDITS)], "{order:?}");
            // The next reconciliation must cover only the next payment.
            app.advance_seconds(2 * 3_600);
        }
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_reported_concurrently_is_granted_once() {
    with_app(async |app| {
        let app = std::sync::Arc::new(app);
        for _ in 0..store::testing::samples(2, 5) {
            let payment = paid(&app).await;
            let told = WAYS.into_iter().chain(WAYS).map(|way| {
                let (app, payment) = (std::sync::Arc::clone(&app), payment.clone());
                async move { tell(&app, &payment, way).await }
            });

            at_once(told).await;

            assert_eq!(balance(&payment.client).await, PACK_CREDITS);
        }
        std::sync::Arc::into_inner(app).unwrap()
    })
    .await;
}
