//! The events of a sequence, and the responses of the service or the processor.

use serde_json::{Value, json};

use super::scenario::Step;
use super::world::World;
use test_service::client::Reply;

const DONE: &str = "200";

/// A response as the model writes it: the status, and the code of a failure.
pub(super) fn answer_of(reply: &Reply) -> String {
    match reply.status {
        200..300 => DONE.to_owned(),
        404 if reply.code() == "not_found" => "404 no_such_plan".to_owned(),
        status => format!("{status} {}", reply.code()),
    }
}

impl World {
    /// Lets the event of a step happen at its time, with all its consequences, and returns the
    /// response.
    pub(super) async fn play(&mut self, step: &Step) -> String {
        if let Some(since) = step.event["since"].as_i64() {
            self.move_to(since).await;
            let path = plan_path(&step.event);
            let preview =
                self.client.get(&format!("/v1/billing/subscription/plan/preview?{path}")).await;
            assert_eq!(preview.status, 200, "{}", preview.text());
        }
        self.move_to(step.at).await;
        self.payer().await;
        // Sales that fell due in the meantime must be known, too.
        self.discover().await;
        let answer = self.act(step.what(), &step.event).await;
        self.settle().await;
        answer
    }

    async fn act(&mut self, what: &str, event: &Value) -> String {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let number = |field: &str| event[field].as_i64().unwrap_or_default();
        match what {
            "wait" => {}
            "confirm_email" => self.confirm_email().await,
            "card" => self.set_card(event["ok"] == true).await,
            "hold_events" => self.deaf = true,
            "deliver" => self.deliver(event["ids"].as_array()).await,
            "set_tax" => self.set_tax(number("bp")).await,
            "edit_plan" => self.edit_plan(event).await,
            "retire_plan" => {
                self.restart_with(|plans| plans.retain(|plan| plan.id != text("plan"))).await;
            }
            "undo" => self.undo(text("ref")).await,
            "cancel" => return self.cancel(true).await,
            "uncancel" => return self.cancel(false).await,
            "refund" => return self.refund(event).await,
            "keep" => self.keep(text("ref"), event["kept"] == true).await,
            "note" => return self.note(event).await,
            "void_note" => return self.void_note(text("ref")).await,
            "dispute" => return self.dispute(text("id"), text("ref")).await,
            "pay_open" => return self.pay_open(text("id")).await,
            "subscribe" => return self.subscribe(event).await,
            "buy_pack" => return self.buy_pack(event).await,
            "auto_topup" => return self.auto_topup(event).await,
            "topup_off" => {
                let off = json!({"enabled": false});
                return answer_of(&self.client.post("/v1/billing/autotopup", &off).await);
            }
            "spend" => {
                let answer = self.spend(number("n")).await;
                self.top_up().await;
                return answer;
            }
            "change_plan" | "set_slots" | "switch_slot" => return self.change(what, event).await,
            unknown => panic!("there is no event `{unknown}`"),
        }
        DONE.to_owned()
    }

    /// A change of the subscription.
    async fn change(&self, what: &str, event: &Value) -> String {
        let on = |field: &str| format!("platform_{}", event[field].as_str().unwrap_or_default());
        let (path, body) = match what {
            "change_plan" => ("subscription/plan", json!({"plan_id": event["plan"]})),
            "set_slots" => ("slots", json!({"platform": on("platform"), "count": event["count"]})),
            _ => ("slots/switch", json!({"from": on("source"), "to": on("target")})),
        };
        answer_of(&self.client.post(&format!("/v1/billing/{path}"), &body).await)
    }

    /// Uses the emailed link, perhaps for a second time.
    async fn confirm_email(&self) {
        let link = json!({"token": self.confirmation});
        let reply = self.client.post("/v1/auth/email/verify", &link).await;
        assert!(reply.status < 500, "{}", reply.text());
    }

    async fn edit_plan(&mut self, event: &Value) {
        self.restart_with(|plans| {
            let plan = plans.iter_mut().find(|plan| event["plan"] == plan.id.as_str()).unwrap();
            plan.price_cents = event["cents"].as_i64().unwrap();
            plan.monthly_credits = event["credits"].as_i64().unwrap();
        })
        .await;
    }

    /// Delivers events about these sales in this order; without sales, runs the reconciler instead.
    async fn deliver(&mut self, sales: Option<&Vec<Value>>) {
        let Some(sales) = sales else {
            let hours = test_service::start::HOURS_MAX;
            let report = self.app.running().reconcile(hours).await.unwrap();
            assert_eq!(report.failed, 0, "{report:?}");
            self.deaf = false;
            return;
        };
        // Sales that fell due since the last step must be known, too.
        self.discover().await;
        for sale in sales {
            self.send_payment(sale.as_str().unwrap()).await;
        }
    }
}

fn plan_path(event: &Value) -> String {
    format!("plan_id={}", event["plan"].as_str().unwrap_or_default())
}
