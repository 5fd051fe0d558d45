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

use serde_json::Value;
use test_service::exports::{created, ten};
use test_service::{Client, TestApp};

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

/// Balance, held and spent today.
async fn money(client: &Client) -> (i64, i64, i64) {
    let billing = client.get("/v1/billing").await.json();
    let number = |value: &Value| value.as_i64().unwrap();
    (number(&billing["balance"]), number(&billing["held"]), number(&billing["spend"]["today"]))
}
