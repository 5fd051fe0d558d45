//! Sales: the processor's invoices and the payments of packs, numbered as in the model.

use serde_json::{Value, json};

use super::look::seconds;
use super::world::{World, says_paid};

/// A sale, in the model's order.
#[derive(Debug, Clone)]
pub(super) struct Sale {
    /// The invoice; `None` for a pack.
    pub(super) invoice: Option<String>,
    /// The payment; for an invoice it is looked up when needed.
    pub(super) intent: Option<String>,
    /// The order, for a pack.
    pub(super) order: Option<String>,
}

impl Sale {
    /// Whether the processor or the service uses this id for it.
    pub(super) fn is_called(&self, id: &str) -> bool {
        [&self.invoice, &self.intent, &self.order].iter().any(|own| own.as_deref() == Some(id))
    }
}

impl World {
    /// Records the sales since the last time.
    pub(super) async fn discover(&mut self) {
        let mut found = Vec::new();
        for invoice in self.all_at_processor("invoices", "").await {
            if invoice["billing_reason"] == "manual" && invoice["parent"].is_null() {
                // The model knows the pack by its payment.
                continue;
            }
            let id = invoice["id"].as_str().unwrap().to_owned();
            let sale = Sale { invoice: Some(id), intent: None, order: None };
            found.push((invoice["created"].as_i64(), false, sale));
        }
        for intent in self.all_at_processor("payment_intents", "").await {
            let order = intent["metadata"]["order_id"].as_str().map(str::to_owned);
            if intent["status"] == "succeeded" && order.is_some() {
                let id = intent["id"].as_str().unwrap().to_owned();
                let sale = Sale { invoice: None, intent: Some(id), order };
                found.push((intent["created"].as_i64(), true, sale));
            }
        }
        // The sales of one step are ordered by time; within a second, due invoices come before
        // packs.
        found.sort_by_key(|(created, is_pack, _)| (*created, *is_pack));
        for (_, _, sale) in found {
            let id = sale.invoice.as_deref().or(sale.intent.as_deref()).unwrap();
            if !self.sales.iter().any(|known| known.is_called(id)) {
                self.sales.push(sale);
            }
        }
    }

    /// The model's name for a sale, found by its invoice, payment or order.
    pub(super) fn name_of(&self, reference: &str) -> String {
        let found = self.sales.iter().position(|sale| sale.is_called(reference));
        found.map_or_else(|| reference.to_owned(), |index| format!("in_{}", index + 1))
    }

    fn sale(&self, name: &str) -> &Sale {
        let number: usize = name.trim_start_matches("in_").parse().unwrap();
        self.sales.get(number - 1).unwrap_or_else(|| panic!("there is no sale {name}"))
    }

    /// The invoice of a sale.
    pub(super) fn invoice_of(&self, name: &str) -> String {
        self.sale(name).invoice.clone().unwrap_or_default()
    }

    /// The payment of a sale.
    pub(super) async fn intent_of(&mut self, name: &str) -> String {
        let sale = self.sale(name);
        if let Some(intent) = &sale.intent {
            return intent.clone();
        }
        let path = format!("&invoice={}", sale.invoice.as_deref().unwrap());
        let payments = self.all_at_processor("invoice_payments", &path).await;
        let paid = payments.iter().rfind(|payment| payment["status"] == "paid");
        let intent = paid.map_or(&Value::Null, |paid| &paid["payment"]["payment_intent"]);
        intent.as_str().unwrap_or_default().to_owned()
    }

    /// Sends the events about the payment of a sale.
    pub(super) async fn send_payment(&self, name: &str) {
        let sale = self.sale(name).clone();
        let session = match &sale.intent {
            Some(intent) if sale.invoice.is_none() => self.session_of(intent).await,
            _ => None,
        };
        let events = self.app.shown("events").await;
        for event in events["events"].as_array().unwrap() {
            let (id, kind) = (event["id"].as_str().unwrap(), event["type"].as_str().unwrap());
            let object = event["object"].as_str().unwrap_or_default();
            let is_of_session =
                session.as_ref().is_some_and(|session| session["id"] == json!(object));
            if says_paid(kind) && (sale.is_called(object) || is_of_session) {
                self.send_event(id).await;
            }
        }
    }

    /// The checkout page on which a pack was paid, if there was one.
    async fn session_of(&self, intent: &str) -> Option<Value> {
        let query = format!("checkout/sessions?limit=1&payment_intent={intent}");
        let found = self.app.at_processor("GET", &query, "").await;
        found["data"].as_array()?.first().cloned()
    }

    /// All sales in their current state, in the format of the model's invoices.
    pub(super) async fn shown_sales(&mut self) -> Vec<Value> {
        let orders = self.client.get("/v1/billing/orders?limit=500").await.json();
        let mut shown = Vec::new();
        for (index, sale) in self.sales.clone().into_iter().enumerate() {
            let mut one = match &sale.invoice {
                Some(invoice) => self.shown_invoice(invoice).await,
                None => self.shown_pack(&sale, &orders).await,
            };
            one["id"] = json!(format!("in_{}", index + 1));
            one["reversed"] = json!(self.reversed(&sale).await);
            shown.push(one);
        }
        shown
    }

    async fn shown_pack(&self, sale: &Sale, orders: &Value) -> Value {
        let intent = sale.intent.as_deref().unwrap();
        let payment = self.app.at_processor("GET", &format!("payment_intents/{intent}"), "").await;
        let session = self.session_of(intent).await.unwrap_or_default();
        let orders = orders["orders"].as_array().unwrap().iter();
        let mut orders = orders.filter(|order| order["order_id"] == json!(sale.order));
        let order = orders.next().cloned().unwrap_or_default();
        let before = session["amount_subtotal"].as_i64().or(payment["amount"].as_i64()).unwrap();
        let of_session = |what: &str| session["total_details"][what].as_i64().unwrap_or(0);
        let (off, tax) = (of_session("amount_discount"), of_session("amount_tax"));
        let packs = order["packs"].as_i64().unwrap_or(1);
        let mut line = vec![json!("pack"), order["pack_id"].clone(), json!(packs), json!(before)];
        line.extend((off != 0).then(|| json!(-off)));
        json!({
            "reason": "pack", "lines": [line], "tax": tax, "total": payment["amount"], "charged": payment["amount_received"],
            "status": "paid",
        })
    }

    async fn shown_invoice(&mut self, id: &str) -> Value {
        let invoice = self.app.at_processor("GET", &format!("invoices/{id}"), "").await;
        let mut written = self.all_at_processor(&format!("invoices/{id}/lines"), "").await;
        written.reverse();
        let mut lines = Vec::new();
        for line in written {
            let price = line["pricing"]["price_details"]["price"].as_str().unwrap_or_default();
            if line["quantity"] == 0 && line["amount"] == 0 {
                // An item with zero slots remains on the subscription, and costs nothing.
                continue;
            }
            let (kind, what) = self.sold_at(price).await;
            let off: i64 = discounts(&line);
            let mut one =
                vec![json!(kind), json!(what), line["quantity"].clone(), line["amount"].clone()];
            one.extend((off != 0).then(|| json!(-off)));
            lines.push(Value::Array(one));
        }
        let taxes = invoice["total_taxes"].as_array().cloned().unwrap_or_default();
        let tax: i64 = taxes.iter().filter_map(|tax| tax["amount"].as_i64()).sum();
        json!({
            "reason": invoice["billing_reason"], "lines": lines, "tax": tax, "total": invoice["total"],
            "charged": invoice["amount_due"], "status": invoice["status"],
        })
    }

    /// What a price is for: its kind, and the version of the plan or the platform.
    pub(super) async fn sold_at(&mut self, price: &str) -> (&'static str, String) {
        if !self.prices.contains_key(price) {
            let read = self.app.at_processor("GET", &format!("prices/{price}"), "").await;
            self.prices.insert(price.to_owned(), read);
        }
        let read = &self.prices[price];
        let said = |key: &str| read["metadata"][key].as_str().unwrap_or_default();
        match said("slot_platform") {
            "" => {
                let (plan, credits) = (said("plan_id"), said("monthly_credits"));
                ("plan", format!("{plan}@{}/{credits}", read["unit_amount"]))
            }
            platform => ("slot", platform.trim_start_matches("platform_").to_owned()),
        }
    }

    /// How much of the charge was taken back, in cents.
    async fn reversed(&mut self, sale: &Sale) -> i64 {
        let intent = match (&sale.intent, &sale.invoice) {
            (Some(intent), _) => intent.clone(),
            (None, _) => {
                let id = sale.invoice.clone().unwrap_or_default();
                let name = self.name_of(&id);
                self.intent_of(&name).await
            }
        };
        if intent.is_empty() {
            return 0;
        }
        let query = format!("&payment_intent={intent}");
        let refunds = self.all_at_processor("refunds", &query).await;
        let disputes = self.all_at_processor("disputes", &query).await;
        let payment = self.app.at_processor("GET", &format!("payment_intents/{intent}"), "").await;
        let of = |all: &[Value], stands: &dyn Fn(&Value) -> bool| -> i64 {
            let standing = all.iter().filter(|one| stands(one));
            standing.filter_map(|one| one["amount"].as_i64()).sum()
        };
        let refunded =
            of(&refunds, &|one| one["status"] == "succeeded" || one["status"] == "pending");
        let in_dispute = of(&disputes, &|one| one["status"] != "won");
        (refunded + in_dispute).min(payment["amount_received"].as_i64().unwrap())
    }
}

/// The discounts of a line, in cents.
fn discounts(line: &Value) -> i64 {
    let all = line["discount_amounts"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|one| one["amount"].as_i64()).sum()
}

/// The rest of a lot, in the model's format. The lot's first ledger entry names its purchase.
pub(super) fn lot(world: &World, lot: &Value, ledger: &[Value]) -> Value {
    let source = match lot["source"].as_str().unwrap_or_default() {
        "top_up" => "pack",
        source => source,
    };
    let granted = ledger.iter().rfind(|line| line["lot_id"] == lot["lot_id"]);
    let reference = granted.and_then(|line| line["reference"].as_str()).unwrap_or_default();
    let reference = if source == "trial" { "trial".to_owned() } else { world.name_of(reference) };
    json!([source, reference, lot["left"], seconds(&lot["expires_at"])])
}
