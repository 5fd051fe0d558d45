//! Exports: reading a platform's lists, and that only complete lists are published.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test"
)]

mod columns;
mod datasets;
mod files;
mod jobs;
mod lists;
mod moving;
mod page_checks;
mod page_tries;
mod pages;
mod reading;
mod requests;

use serde_json::{Value, json};

use crate::support::{Client, TestApp};

/// Creates an export, which must succeed, and returns its id.
pub(crate) async fn created(client: &Client, account: &str, wish: &Value) -> String {
    let reply = client.post(&format!("/v1/{account}/exports"), wish).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["job_id"].as_str().unwrap().to_owned()
}

/// The export as its customer sees it.
async fn record(client: &Client, id: &str) -> Value {
    let reply = client.get(&format!("/v1/exports/{id}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// Creates an export, runs it to its end, and returns its record.
async fn made(app: &TestApp, client: &Client, account: &str, wish: &Value) -> Value {
    let id = created(client, account, wish).await;
    app.run_exports().await;
    record(client, &id).await
}

/// The id in a record.
fn id_of(export: &Value) -> &str {
    export["job_id"].as_str().unwrap()
}

/// An export of ten subscribers.
pub(crate) fn ten(fmt: &str) -> Value {
    json!({"dataset": "subscribers", "fmt": fmt, "max_rows": 10})
}

/// Balance, held and spent today.
async fn money(client: &Client) -> (i64, i64, i64) {
    let billing = client.get("/v1/billing").await.json();
    let number = |value: &Value| value.as_i64().unwrap();
    (number(&billing["balance"]), number(&billing["held"]), number(&billing["spend"]["today"]))
}
