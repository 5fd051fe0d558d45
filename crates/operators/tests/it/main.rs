//! The operator's work on customers, calls and payments, through the admin listener.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod archive;
mod commands;
mod day;
mod disputes;
mod erasing;
mod liability;
mod looking;
mod money;
mod staff;
mod suspending;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use test_service::start::RunningService;
use test_service::{Client, Reply, TestApp};

/// Grace, with the admin token, at the admin listener of a service.
fn grace_at(running: &RunningService) -> Client {
    let token = running.admin_token().expose_secret().to_owned();
    Client::new(running.admin_address()).bearer(&token).with("x-operator", "grace")
}

/// The same at the service of a test.
fn grace(app: &TestApp) -> Client {
    grace_at(app.running())
}

/// Sends a command of Grace's.
async fn asked(app: &TestApp, command: &Value) -> Reply {
    grace(app).post("/commands/operator", command).await
}

/// The result of a command of Grace's, which must succeed.
async fn done(app: &TestApp, command: Value) -> Value {
    let reply = asked(app, &command).await;
    assert_eq!(reply.status, 200, "{command}: {}", reply.text());
    reply.json()
}

/// What a command shows of a customer.
async fn shown(app: &TestApp, customer: &str) -> Value {
    done(app, json!({"command": "show_customer", "customer": customer})).await
}

/// Checks every rule of the ledger while the service runs.
async fn assert_clean(app: &TestApp, after: &str) {
    let violations = store::verify::check(app.store(), app.clock.now()).await.unwrap();
    assert!(violations.is_empty(), "after {after}: {violations:?}");
}

/// The actions in a customer's audit list, the oldest first, with who did them as stored.
async fn audited(app: &TestApp, customer: &str) -> Vec<(String, String)> {
    let query = store::audit::AuditQuery {
        customer: customer.parse().unwrap(),
        action: "",
        before: None,
        limit: 100,
    };
    let mut entries = store::audit::list(app.store(), &query).await.unwrap();
    entries.reverse();
    entries.into_iter().map(|entry| (entry.action, entry.actor)).collect()
}
