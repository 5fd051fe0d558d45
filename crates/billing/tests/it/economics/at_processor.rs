//! Actions at the processor that do not involve this service: cards, taxes, coupons, refunds,
//! disputes, the portal.

use serde_json::{Value, json};

use super::world::{Reversal, World};
use test_service::client::{Client, Reply};

/// The default seconds after which the processor retries a failed payment.
const USUAL_RETRIES: [i64; 3] = [3 * 86_400, 8 * 86_400, 15 * 86_400];
/// A card that pays, and one that can be saved but is then declined.
pub(super) const GOOD_CARD: &str = "4242424242424242";
pub(super) const BAD_CARD: &str = "4000000000000002";

impl World {
    /// The processor's response to a `/control` request.
    pub(super) async fn try_control(&self, path: &str, body: &Value) -> Reply {
        let path = format!("/control/processor/{path}");
        Client::new(self.app.world.address()).post(&path, body).await
    }

    /// The processor's response to a request of its operator, which it may refuse.
    pub(super) async fn try_at_processor(&self, method: &str, path: &str, form: &str) -> Reply {
        let address = self.app.world.processor_url().trim_start_matches("http://").parse().unwrap();
        let client = Client::new(address)
            .bearer(&self.app.settings.processor.secret_key)
            .with("content-type", "application/x-www-form-urlencoded");
        let body = (method != "GET").then(|| form.as_bytes().to_vec());
        client.send(method, &format!("/v1/{path}"), body).await
    }

    /// All items of a list, oldest first.
    pub(super) async fn all_at_processor(&self, path: &str, query: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let after = all.last().map_or_else(String::new, |last| {
                format!("&starting_after={}", last["id"].as_str().unwrap())
            });
            let path = format!("{path}?limit=100{query}{after}");
            let page = self.app.at_processor("GET", &path, "").await;
            all.extend(page["data"].as_array().unwrap().iter().cloned());
            if page["has_more"] != true {
                all.reverse();
                return all;
            }
        }
    }

    /// The customer's id at the processor, if it exists there.
    pub(super) async fn payer(&mut self) -> Option<String> {
        if self.payer.is_none() {
            let list = self.app.at_processor("GET", "customers?limit=1", "").await;
            self.payer = list["data"][0]["id"].as_str().map(str::to_owned);
            if self.payer.is_some() && !self.card_ok {
                self.switch_card().await;
            }
        }
        self.payer.clone()
    }

    /// The newest subscription.
    pub(super) async fn subscription(&self) -> Option<Value> {
        let list = self.app.at_processor("GET", "subscriptions?status=all&limit=1", "").await;
        list["data"][0].as_object().map(|found| Value::Object(found.clone()))
    }

    /// The times at which the processor will do something on its own.
    pub(super) async fn due_at_processor(&self) -> Vec<i64> {
        let mut due = Vec::new();
        let live = self.subscription().await.filter(|found| found["status"] != "canceled");
        if let Some(live) = live {
            due.extend(live["items"]["data"][0]["current_period_end"].as_i64());
        }
        let open = self.all_at_processor("invoices", "&status=open").await;
        due.extend(open.iter().filter_map(|invoice| invoice["next_payment_attempt"].as_i64()));
        due
    }

    /// Whether charges succeed from now on, with any card.
    pub(super) async fn set_card(&mut self, ok: bool) {
        self.card_ok = ok;
        if self.payer().await.is_some() {
            self.switch_card().await;
        }
    }

    async fn switch_card(&self) {
        let payer = self.payer.as_deref().unwrap();
        let works = json!({"works": self.card_ok});
        self.app.control(&format!("customers/{payer}/cards"), works).await;
    }

    pub(super) async fn set_retries(&self, retries: &[i64]) {
        if retries != USUAL_RETRIES {
            let days: Vec<i64> = retries.iter().map(|after_s| after_s / 86_400).collect();
            self.app.control("rules", json!({"retry_days": days})).await;
        }
    }

    pub(super) async fn set_tax(&mut self, hundredths: i64) {
        self.tax = hundredths;
        self.app.control("rules", json!({"tax_bp": hundredths})).await;
    }

    /// Sets whether the subscription ends with its period.
    pub(super) async fn cancel(&self, ends: bool) -> String {
        let live = self.subscription().await.filter(|found| found["status"] != "canceled");
        let Some(live) = live else { return "409 no_subscription".to_owned() };
        let path = format!("subscriptions/{}", live["id"].as_str().unwrap());
        self.app.at_processor("POST", &path, &format!("cancel_at_period_end={ends}")).await;
        "200".to_owned()
    }

    pub(super) async fn refund(&mut self, event: &Value) -> String {
        let intent = self.intent_of(event["id"].as_str().unwrap()).await;
        let mut form = format!("payment_intent={intent}&amount={}", event["cents"]);
        if event["keep"] == true {
            form.push_str("&metadata[creator_gateway_credits]=keep");
        }
        let reply = self.try_at_processor("POST", "refunds", &form).await;
        if reply.status != 200 {
            return "422 more_than_paid".to_owned();
        }
        let name = event["ref"].as_str().unwrap();
        self.refunded(name, reply.json()["id"].as_str().unwrap());
        "200".to_owned()
    }

    /// Remembers a refund that was made.
    pub(super) fn refunded(&mut self, name: &str, id: &str) {
        self.refunds.insert(name.to_owned(), id.to_owned());
        self.reversals.insert(name.to_owned(), Reversal::Refund(id.to_owned()));
    }

    /// Marks a refund as one whose credits are kept, or removes the mark.
    pub(super) async fn keep(&self, name: &str, kept: bool) {
        let mark = if kept { "keep" } else { "" };
        let form = format!("metadata[creator_gateway_credits]={mark}");
        self.app.at_processor("POST", &format!("refunds/{}", self.refunds[name]), &form).await;
    }

    pub(super) async fn dispute(&mut self, sale: &str, name: &str) -> String {
        let intent = self.intent_of(sale).await;
        let reply = self.try_control("disputes", &json!({"payment_intent": intent})).await;
        if reply.status != 200 {
            return "422 nothing_charged".to_owned();
        }
        let id = reply.json()["id"].as_str().unwrap().to_owned();
        self.reversals.insert(name.to_owned(), Reversal::Dispute(id));
        "200".to_owned()
    }

    /// Lets the refund fail or the dispute be won.
    pub(super) async fn undo(&mut self, name: &str) {
        let done = self.reversals.insert(name.to_owned(), Reversal::Undone);
        match done.unwrap() {
            Reversal::Refund(id) => {
                self.app
                    .control(&format!("refunds/{id}/settle"), json!({"succeeded": false}))
                    .await;
            }
            Reversal::Dispute(id) => {
                self.app.control(&format!("disputes/{id}/close"), json!({"won": true})).await;
            }
            Reversal::Undone => {}
        }
    }
}
