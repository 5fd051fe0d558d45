//! The observed state after a step, in the model's format.

use domain::time::Timestamp;
use serde_json::{Value, json};

use super::sales::lot;
use super::world::World;

/// A response's time as seconds since 1970; `None` if there is none.
pub(super) fn seconds(time: &Value) -> Option<i64> {
    Some(Timestamp::from_rfc3339(time.as_str()?)?.unix_seconds())
}

impl World {
    /// The state that the service and the processor show now. `invoices` has all of them.
    pub(super) async fn look(&mut self) -> Value {
        self.discover().await;
        let billing = self.client.get("/v1/billing").await.json();
        let lots = billing["lots"].as_array().cloned().unwrap_or_default();
        let ledger = self.client.get("/v1/billing/ledger?limit=500").await.json();
        let ledger = ledger["entries"].as_array().cloned().unwrap_or_default();
        let lots: Vec<Value> = lots.iter().map(|one| lot(self, one, &ledger)).collect();
        let mut shown = json!({
            "balance": billing["balance"], "debt": billing["debt"], "lots": lots,
            "credit_cents": self.credit_cents().await, "next_invoice_cents": self.pending_cents().await,
            "invoices": self.shown_sales().await,
        });
        self.show_subscription(&mut shown).await;
        shown
    }

    /// What the processor holds for the customer, in cents; negative if the customer owes money.
    pub(super) async fn credit_cents(&mut self) -> i64 {
        let Some(payer) = self.payer().await else { return 0 };
        let customer = self.app.at_processor("GET", &format!("customers/{payer}"), "").await;
        -customer["balance"].as_i64().unwrap()
    }

    /// The sum of the items for the next invoice, in cents, minus discounts.
    pub(super) async fn pending_cents(&mut self) -> i64 {
        let Some(payer) = self.payer().await else { return 0 };
        let query = format!("&pending=true&customer={payer}");
        let items = self.all_at_processor("invoiceitems", &query).await;
        items.iter().map(|item| item["net_amount"].as_i64().unwrap()).sum()
    }

    async fn show_subscription(&mut self, shown: &mut Value) {
        let state = self.client.get("/v1/billing/subscription").await.json();
        shown["status"] = state["status"].clone();
        let limits = state["entitlements"].as_object().unwrap().iter();
        let limits: serde_json::Map<_, _> = limits
            .map(|(on, limit)| (on.trim_start_matches("platform_").to_owned(), limit.clone()))
            .collect();
        shown["limits"] = Value::Object(limits);
        if state["status"] == "none" || state["status"] == "canceled" {
            return;
        }
        shown["plan"] = version(&state["plan"]);
        shown["next_plan"] = version(&state["next_plan"]);
        shown["period_end"] = json!(seconds(&state["current_period_end"]));
        shown["cancel_at_period_end"] = state["cancel_at_period_end"].clone();
        if state["next_plan"].is_null() && state["cancel_at_period_end"] == true {
            // Nothing renews; the processor still has the plan that would.
            shown["next_plan"] = self.item_plan().await;
        }
    }

    /// The plan of the subscription's item at the processor.
    async fn item_plan(&mut self) -> Value {
        let Some(found) = self.subscription().await else { return Value::Null };
        for item in found["items"]["data"].as_array().unwrap() {
            let (kind, what) = self.sold_at(item["price"]["id"].as_str().unwrap()).await;
            if kind == "plan" {
                return json!(what);
            }
        }
        Value::Null
    }
}

/// A version of a plan, in the model's notation.
fn version(plan: &Value) -> Value {
    let Some(id) = plan["plan_id"].as_str() else { return Value::Null };
    json!(format!("{id}@{}/{}", plan["price_cents"], plan["monthly_credits"]))
}
