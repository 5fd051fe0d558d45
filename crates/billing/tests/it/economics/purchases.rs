//! Purchases of a customer: checkout pages, one click, and open invoices.

use serde_json::{Value, json};

use super::acts::answer_of;
use super::at_processor::{BAD_CARD, GOOD_CARD};
use super::scenario::Selling;
use super::world::World;
use test_service::client::Reply;

const DECLINED: &str = "402 payment_failed";
const DONE: &str = "200";

impl World {
    pub(super) async fn subscribe(&mut self, event: &Value) -> String {
        let slots = event["slots"].as_object().cloned().unwrap_or_default();
        let slots: serde_json::Map<_, _> =
            slots.into_iter().map(|(on, count)| (format!("platform_{on}"), count)).collect();
        let choice = json!({"plan_id": event["plan"], "slots": slots});
        let page = self.client.post("/v1/billing/subscribe", &choice).await;
        match page.status {
            200 => self.pay_page(&page, &event["off"]).await,
            _ => answer_of(&page),
        }
    }

    /// Buys with one click if a card is saved. With a discount or tax it buys on the processor's
    /// page.
    pub(super) async fn buy_pack(&mut self, event: &Value) -> String {
        let pack = json!({"pack_id": event["pack"]});
        let off = event["off"].as_i64().unwrap_or(0);
        let card = self.client.get("/v1/billing/card").await.json();
        if off == 0 && self.tax == 0 && card["card"].is_object() {
            return answer_of(&self.client.post("/v1/billing/charge", &pack).await);
        }
        let page = self.client.post("/v1/billing/checkout", &pack).await;
        match page.status {
            200 => self.pay_page(&page, &event["off"]).await,
            _ => answer_of(&page),
        }
    }

    /// Pays on the processor's page, with a coupon of `off` percent if there is one.
    async fn pay_page(&mut self, page: &Reply, off: &Value) -> String {
        let session = page.json()["session_id"].as_str().unwrap().to_owned();
        let card = if self.card_ok { GOOD_CARD } else { BAD_CARD };
        let mut pay = json!({"card": card, "authenticate": true});
        let percent = off.as_i64().filter(|percent| *percent > 0);
        match (self.selling, percent) {
            (Selling::Plain | Selling::WithInvoices, Some(percent)) => {
                pay["percent_off"] = json!(percent);
                pay["duration"] = json!("forever");
            }
            (Selling::Plain | Selling::WithInvoices, None) => {}
            (Selling::ToCompanies, percent) => self.enter_details(&mut pay, percent).await,
        }
        let paid = self.try_control(&format!("checkout/{session}/pay"), &pay).await;
        match paid.status {
            200 => DONE.to_owned(),
            402 => DECLINED.to_owned(),
            _ => paid.text(),
        }
    }

    /// The customer saves a new card, which pays the open invoices.
    pub(super) async fn pay_open(&mut self, sale: &str) -> String {
        let invoice = self.invoice_of(sale);
        let open = self.all_at_processor("invoices", "&status=open").await;
        if !open.iter().any(|found| found["id"] == json!(invoice)) {
            return DECLINED.to_owned();
        }
        let payer = self.payer().await.unwrap();
        let form = format!("customer={payer}");
        let card =
            self.app.at_processor("POST", "payment_methods/pm_card_visa/attach", &form).await;
        assert!(card["id"].is_string(), "{card}");
        let reply = self.client.post("/v1/billing/sync-card", &json!({})).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        self.settle().await;
        let now = self.app.at_processor("GET", &format!("invoices/{invoice}"), "").await;
        if now["status"] == "paid" { DONE.to_owned() } else { DECLINED.to_owned() }
    }

    pub(super) async fn auto_topup(&mut self, event: &Value) -> String {
        let cap_cents = event["cap"].as_i64().unwrap();
        assert_eq!(cap_cents % 100, 0, "the cap must be in whole dollars");
        let wish = json!({
            "enabled": true, "threshold_credits": event["threshold"], "pack_id": event["pack"],
            "daily_cap_usd": cap_cents / 100,
        });
        let reply = self.client.post("/v1/billing/autotopup", &wish).await;
        self.tops_up = true;
        self.top_up().await;
        answer_of(&reply)
    }

    /// Runs automatic top-up until there is nothing to do.
    pub(super) async fn top_up(&self) {
        if !self.tops_up {
            return;
        }
        for _ in 0..1_000 {
            let charged = self.app.running().look_after_top_ups().await;
            let view = self.client.get("/v1/billing/autotopup").await.json();
            if charged == 0 && view["pending"]["state"] != "claimed" {
                return;
            }
        }
        panic!("automatic top-up never ended");
    }
}
