//! Exports, as a customer asks for them.

use serde_json::{Value, json};

use crate::Client;

/// Creates an export, which must succeed, and returns its id.
pub async fn created(client: &Client, account: &str, wish: &Value) -> String {
    let reply = client.post(&format!("/v1/{account}/exports"), wish).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["job_id"].as_str().unwrap().to_owned()
}

/// An export of ten subscribers.
pub fn ten(fmt: &str) -> Value {
    json!({"dataset": "subscribers", "fmt": fmt, "max_rows": 10})
}
