//! Actions of customers, banks and the processor, for tests to trigger.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::app::{Customer, TestApp};
use super::client::{Client, Reply};

/// The pack that these tests buy, its credits and its price.
pub const PACK: &str = "pack_10";
/// The credits of the pack.
pub const PACK_CREDITS: i64 = 5_000;
/// The price of the pack, in cents.
pub const PACK_CENTS: i64 = 1_000;

/// A checkout in progress.
pub struct Begun {
    /// The id of the checkout session at the processor.
    pub session: String,
    /// The id of the order.
    pub order: String,
}

impl TestApp {
    /// Makes what follows newer. The processor's clock, which signs events, does not move.
    fn pass_a_second(&self) {
        self.clock.advance_seconds(1);
    }

    /// The events about these objects, oldest first: (id, type).
    pub async fn events_about(&self, objects: &[&str]) -> Vec<(String, String)> {
        let events = self.shown("events").await;
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        let all = events["events"].as_array().unwrap().iter();
        let about = all
            .filter(|event| objects.iter().any(|object| event["object"].as_str() == Some(object)));
        about.map(|event| (text(event, "id"), text(event, "type"))).collect()
    }

    /// Sends an event `copies` times concurrently, and returns the statuses of the responses.
    pub async fn send_event(&self, id: &str, copies: u32) -> Vec<Value> {
        let sent = self.control(&format!("events/{id}/send"), json!({"copies": copies})).await;
        self.pass_a_second();
        sent["statuses"].as_array().unwrap().clone()
    }

    /// Begins a checkout of the pack.
    pub async fn begin_checkout(&self, client: &Client) -> Begun {
        let reply = client.post("/v1/billing/checkout", &json!({"pack_id": PACK})).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let begun = reply.json();
        let text = |field: &str| begun[field].as_str().unwrap().to_owned();
        self.pass_a_second();
        Begun { session: text("session_id"), order: text("order_id") }
    }

    /// Pays on a page with a card, as a customer does, and returns the payment intent.
    pub async fn pay_page(&self, session: &str, card: &str) -> String {
        self.pass_a_second();
        let path = format!("checkout/{session}/pay");
        let paid = self.control(&path, json!({"card": card, "authenticate": true})).await;
        paid["payment_intent"].as_str().unwrap().to_owned()
    }

    /// Passes or fails the bank's authentication, as the customer would.
    pub async fn authenticate(&self, intent: &str, proven: bool) {
        let path = format!("/control/processor/intents/{intent}/authenticate");
        let world = Client::new(self.world.address());
        let reply = world.post(&path, &json!({"proven": proven})).await;
        assert_eq!(reply.status, if proven { 200 } else { 400 }, "{}", reply.text());
    }

    /// Makes the processor's next matching request fail.
    pub async fn processor_fault(&self, fault: &Value) {
        self.control("switches", fault.clone()).await;
    }

    /// Removes the processor's faults.
    pub async fn mend_processor(&self) {
        let world = Client::new(self.world.address());
        let reply = world.delete("/control/processor/switches").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    /// Makes the processor write its events in this version.
    pub async fn event_version(&self, version: &str) {
        self.control("webhook", json!({"api_version": version})).await;
    }

    /// Makes the bank decline the next charge.
    pub async fn decline_next(&self, code: &str) {
        self.control("declines", json!({"codes": [code]})).await;
    }

    /// Makes the bank dispute a payment, and returns the dispute.
    pub async fn dispute(&self, intent: &str) -> String {
        self.pass_a_second();
        let dispute = self.control("disputes", json!({"payment_intent": intent})).await;
        dispute["id"].as_str().unwrap().to_owned()
    }

    /// Closes a dispute.
    pub async fn close_dispute(&self, dispute: &str, won: bool) {
        self.pass_a_second();
        self.control(&format!("disputes/{dispute}/close"), json!({"won": won})).await;
    }

    /// Refunds a payment, as the operator does at the processor, and returns the refund.
    pub async fn refund(&self, intent: &str, cents: i64) -> String {
        self.pass_a_second();
        let refund = self
            .at_processor("POST", "refunds", &format!("payment_intent={intent}&amount={cents}"))
            .await;
        refund["id"].as_str().unwrap().to_owned()
    }

    /// The requests to the processor with this method and path: each one's key and parameters.
    pub async fn asked(&self, method: &str, path: &str) -> Vec<Value> {
        let requests = self.shown("requests").await;
        let all = requests["requests"].as_array().unwrap().iter();
        let of = |request: &&Value| {
            request["method"] == method
                && request["path"].as_str().unwrap().trim_start_matches("/v1/") == path
        };
        all.filter(of).cloned().collect()
    }

    /// A customer whose card was saved when it bought a pack, which is unspent: (customer, client).
    pub async fn with_card(&self, card: &str) -> (Customer, Client) {
        let customer = self.customer(0).await;
        let client = self.with_key(&customer.key);
        let begun = self.begin_checkout(&client).await;
        self.pay_page(&begun.session, card).await;
        let sync = json!({"session_id": begun.session});
        let reply = client.post("/v1/billing/sync-card", &sync).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        self.pass_a_second();
        (customer, client)
    }

    /// Sends a body to the webhook with this signature header.
    pub async fn post_event(&self, signature: &str, body: &[u8]) -> Reply {
        let client = self.anonymous().with("content-type", "application/json");
        let client = client.with("stripe-signature", signature);
        client.send("POST", "/v1/billing/webhook", Some(body.to_vec())).await
    }

    /// The signature of a body at a time relative to now, in seconds.
    pub fn signature(&self, body: &[u8], seconds: i64) -> String {
        let at = self.clock.now().unix_seconds() + seconds;
        let secret = self.settings.processor.webhook_secret.as_bytes();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(format!("{at}.").as_bytes());
        mac.update(body);
        format!("t={at},v1={}", hex::encode(mac.finalize().into_bytes()))
    }
}

/// The customer's available credits.
pub async fn balance(client: &Client) -> i64 {
    client.get("/v1/billing").await.json()["balance"].as_i64().unwrap()
}

/// The entries of the ledger, newest first: (kind, amount).
pub async fn bookings(client: &Client) -> Vec<(String, i64)> {
    let billing = client.get("/v1/billing").await.json();
    let entries = billing["ledger"].as_array().unwrap().iter();
    entries
        .map(|entry| {
            (entry["kind"].as_str().unwrap().to_owned(), entry["amount"].as_i64().unwrap())
        })
        .collect()
}
