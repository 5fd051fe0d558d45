//! The scenarios of the reference model, played against the processor alone: what is charged,
//! discounted, taxed and credited, and the state of invoices and subscriptions. The service's part
//! is played here: it chooses requests, gives up unpaid invoices, and moves credit that came back
//! twice.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::kit::{Shop, id};

/// Unless `SIMULATOR_SCENARIOS` names another file of this format, for instance with random
/// sequences of the model.
const SCENARIOS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../billing/tests/reference/vectors.json");

/// A customer, the model's view of it, and the processor's ids for it.
struct Player {
    shop: Shop,
    customer: String,
    /// Prices by version of a plan, such as `plan_studio@4900/30000`.
    versions: BTreeMap<String, String>,
    /// The version on sale, by plan.
    sold: BTreeMap<String, String>,
    slots: BTreeMap<String, String>,
    packs: BTreeMap<String, i64>,
    subscription: Option<String>,
    /// The invoices, in the order of creation.
    sales: Vec<Sale>,
    /// Refunds and disputes by their names in the scenario.
    reversals: BTreeMap<String, Reversal>,
    /// Credit notes by their names in the scenario: the sale and the note.
    notes: BTreeMap<String, (String, String)>,
    /// The state after the previous step.
    before: Value,
}

/// A sale of the model: an invoice, or the purchase of a pack.
struct Sale {
    /// The id of an invoice or an intent.
    id: String,
    /// The line of a pack: name, quantity, cents before the discount, discount.
    pack: Option<(String, i64, i64, i64)>,
    /// Cents that went back, according to the model.
    reversed: i64,
    /// Cents that credit notes took off other than by refunds.
    credited: i64,
}

enum Reversal {
    Refund(String),
    Dispute(String),
}

/// Checks that a response has the status expected by the model.
fn judged(reply_status: u16, answer: &str, what: &str) {
    let expected = match answer {
        "200" => 200,
        "402 payment_failed" => 402,
        _ => 400,
    };
    assert_eq!(reply_status, expected, "{what}: {answer}");
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn all(list: &Value) -> &[Value] {
    list["data"].as_array().map_or(&[], Vec::as_slice)
}

/// The price of a line or a pending item after discounts.
fn net(line: &Value) -> i64 {
    let off = line["discount_amounts"].as_array().into_iter().flatten();
    line["amount"].as_i64().unwrap() - off.map(|one| one["amount"].as_i64().unwrap()).sum::<i64>()
}

impl Player {
    async fn open(catalogue: &Value, starts_at: i64) -> Self {
        let shop = Shop::open();
        shop.control("clock", &json!({"to": starts_at})).await;
        let (customer, _) = shop.customer("pm_card_visa").await;
        let mut player = Self {
            shop,
            customer,
            versions: BTreeMap::new(),
            sold: BTreeMap::new(),
            slots: BTreeMap::new(),
            packs: BTreeMap::new(),
            subscription: None,
            sales: Vec::new(),
            reversals: BTreeMap::new(),
            notes: BTreeMap::new(),
            before: json!({"status": "none"}),
        };
        for (plan, terms) in catalogue["plans"].as_object().unwrap() {
            player.sell(plan, terms[0].as_i64().unwrap(), terms[1].as_i64().unwrap()).await;
        }
        for (platform, cents) in catalogue["slots"].as_object().unwrap() {
            let price =
                crate::subscriptions::price(&player.shop, platform, cents.as_i64().unwrap());
            let price = price.await;
            player.slots.insert(platform.clone(), price);
        }
        for (pack, terms) in catalogue["packs"].as_object().unwrap() {
            player.packs.insert(pack.clone(), terms[0].as_i64().unwrap());
        }
        player
    }

    /// Each version of a plan is a separate price.
    async fn sell(&mut self, plan: &str, cents: i64, credits: i64) {
        let version = format!("{plan}@{cents}/{credits}");
        let price = crate::subscriptions::price(&self.shop, plan, cents).await;
        self.versions.insert(version.clone(), price);
        self.sold.insert(plan.to_owned(), version);
    }

    /// The thing that a price sells: (kind, name).
    fn sold_as(&self, price: &str) -> (&'static str, String) {
        let named = |all: &BTreeMap<String, String>| {
            all.iter().find(|(_, id)| *id == price).map(|(name, _)| name.clone())
        };
        let plan = named(&self.versions).map(|version| ("plan", version));
        plan.unwrap_or_else(|| ("slot", named(&self.slots).unwrap()))
    }

    async fn subscription(&self) -> Value {
        match &self.subscription {
            None => Value::Null,
            Some(id) => self.shop.read(&format!("subscriptions/{id}")).await,
        }
    }

    async fn invoices(&self) -> Vec<Value> {
        let path = format!("invoices?customer={}&limit=100", self.customer);
        let mut read = all(&self.shop.read(&path).await).to_vec();
        // The model knows packs by their payments.
        read.retain(|invoice| invoice["billing_reason"] != "manual");
        read.reverse();
        read
    }

    /// Lets time pass, second by second if the service has something to do.
    async fn go_on(&mut self, until: i64) {
        loop {
            let open = self.invoices().await;
            let tries = open.iter().filter_map(|invoice| invoice["next_payment_attempt"].as_i64());
            let ends = self.subscription().await;
            let ends = if ends["status"] == "canceled" {
                None
            } else {
                ends["items"]["data"][0]["current_period_end"].as_i64()
            };
            let next = tries.chain(ends).min().filter(|at| *at <= until);
            self.shop.control("clock", &json!({"to": next.unwrap_or(until)})).await;
            self.give_up().await;
            self.note_invoices().await;
            if next.is_none() {
                return;
            }
        }
    }

    /// Gives up invoices that are no longer retried; credit among their lines is restored.
    async fn give_up(&self) {
        for invoice in self.invoices().await {
            if invoice["status"] != "open" || !invoice["next_payment_attempt"].is_null() {
                continue;
            }
            self.shop.done(&format!("invoices/{}/void", id(&invoice)), "").await;
            let waiting = all(&invoice["lines"])
                .iter()
                .filter(|line| line["parent"]["type"] == "invoice_item_details");
            let credit: i64 = waiting.map(net).sum();
            if credit < 0 {
                self.move_balance(credit).await;
            }
        }
    }

    async fn move_balance(&self, cents: i64) {
        let path = format!("customers/{}/balance_transactions", self.customer);
        self.shop.done(&path, &format!("amount={cents}&currency=usd")).await;
    }

    async fn note_invoices(&mut self) {
        for invoice in self.invoices().await {
            if !self.sales.iter().any(|sale| sale.id == id(&invoice)) {
                self.sales.push(Sale { id: id(&invoice), pack: None, reversed: 0, credited: 0 });
            }
        }
    }

    fn sale(&self, name: &str) -> &Sale {
        let place: usize = name.trim_start_matches("in_").parse().unwrap();
        &self.sales[place - 1]
    }

    // -- the actions of the customer, the bank and the operator --

    async fn play(&mut self, step: &Value) {
        let (what, answer) = (text(step, "do"), text(step, "answer"));
        // A request that the service refuses never reaches the processor.
        if ["404", "409"].iter().any(|refused| answer.starts_with(refused)) {
            return;
        }
        match what {
            "subscribe" => self.subscribe(step).await,
            "buy_pack" => self.buy_pack(step).await,
            "change_plan" => self.change_plan(step).await,
            "set_slots" => self.set_slots(step).await,
            "switch_slot" => self.switch_slot(step).await,
            "cancel" | "uncancel" => {
                self.change(&format!("cancel_at_period_end={}", what == "cancel"), answer).await;
            }
            "card" => {
                let path = format!("customers/{}/cards", self.customer);
                self.shop.control(&path, &json!({"works": step["ok"]})).await;
            }
            "set_tax" => drop(self.shop.control("rules", &json!({"tax_bp": step["bp"]})).await),
            "edit_plan" => {
                let number = |field: &str| step[field].as_i64().unwrap();
                self.sell(text(step, "plan"), number("cents"), number("credits")).await;
            }
            "retire_plan" => drop(self.sold.remove(text(step, "plan"))),
            "pay_open" => {
                let path = format!("invoices/{}/pay", self.sale(text(step, "id")).id);
                let status = self.shop.post(&path, "").await.status;
                // For the model, an amount that cannot be paid is a payment that fails.
                assert_eq!(status == 200, answer == "200", "{what}: {status}");
            }
            "refund" | "dispute" => self.reverse(step).await,
            "keep" => self.keep(text(step, "ref"), step["kept"] == true).await,
            "note" => self.note(step).await,
            "void_note" => self.void_note(step).await,
            "undo" => {
                self.undo(text(step, "ref")).await;
                self.withdraw(step).await;
            }
            "spend" | "auto_topup" => self.top_up(step).await,
            "wait" | "confirm_email" | "hold_events" | "deliver" => {}
            other => panic!("no such step: {other}"),
        }
    }

    async fn coupon(&self, step: &Value) -> String {
        match step["off"].as_i64().filter(|percent| *percent > 0) {
            None => String::new(),
            Some(percent) => {
                let form = format!("percent_off={percent}&duration=forever");
                format!("&discounts[0][coupon]={}", id(&self.shop.done("coupons", &form).await))
            }
        }
    }

    async fn pay_page(&self, form: &str, answer: &str) -> Value {
        let form = format!("customer={}&success_url=https://a.example/&{form}", self.customer);
        let session = self.shop.done("checkout/sessions", &form).await;
        let path = format!("checkout/{}/pay", id(&session));
        let reply = self.shop.controlled(&path, &json!({"card": "pm_card_visa"})).await;
        judged(reply.status, answer, "a page is paid");
        self.shop.read(&format!("checkout/sessions/{}?expand[]=line_items", id(&session))).await
    }

    async fn subscribe(&mut self, step: &Value) {
        let plan = self.versions[&self.sold[text(step, "plan")]].clone();
        let mut form = format!(
            "mode=subscription&subscription_data[billing_mode][type]=flexible\
             &subscription_data[billing_mode][flexible][proration_discounts]=itemized\
             &line_items[0][price]={plan}&line_items[0][quantity]=1{}",
            self.coupon(step).await
        );
        let slots = step["slots"].as_object().into_iter().flatten();
        for (place, (platform, count)) in slots.filter(|(_, count)| **count != 0).enumerate() {
            let (price, place) = (&self.slots[platform], place + 1);
            let line = format!("line_items[{place}]");
            form.extend(["&", &line, "[price]=", price, "&", &line, "[quantity]="]);
            form.push_str(&count.to_string());
        }
        let session = self.pay_page(&form, text(step, "answer")).await;
        if session["status"] == "complete" {
            self.subscription = Some(text(&session, "subscription").to_owned());
        }
    }

    async fn buy_pack(&mut self, step: &Value) {
        let (pack, count) = (text(step, "pack"), step["count"].as_i64().unwrap_or(1));
        let form = format!(
            "mode=payment&invoice_creation[enabled]=true&line_items[0][price_data][currency]=usd&line_items[0][price_data][unit_amount]={}\
             &line_items[0][price_data][product_data][name]={pack}&line_items[0][quantity]={count}{}",
            self.packs[pack],
            self.coupon(step).await
        );
        let session = self.pay_page(&form, text(step, "answer")).await;
        if session["status"] == "complete" {
            let line = &session["line_items"]["data"][0];
            let cents = |field: &str| line[field].as_i64().unwrap();
            let bought =
                (pack.to_owned(), count, cents("amount_subtotal"), cents("amount_discount"));
            let intent = text(&session, "payment_intent").to_owned();
            self.sales.push(Sale { id: intent, pack: Some(bought), reversed: 0, credited: 0 });
        }
    }

    /// An automatic top-up, if the model has one.
    async fn top_up(&mut self, step: &Value) {
        let invoices = step["expect"]["invoices"].as_array().into_iter().flatten();
        for bought in invoices.filter(|invoice| invoice["reason"] == "pack") {
            let shown = &bought["lines"][0];
            let (pack, count) = (shown[1].as_str().unwrap(), shown[2].as_i64().unwrap());
            let cents = self.packs[pack] * count;
            let form = format!(
                "amount={cents}&currency=usd&confirm=true&off_session=true&customer={}&payment_method={}&payment_method_types[]=card",
                self.customer,
                self.card().await
            );
            let intent = id(&self.shop.done("payment_intents", &form).await);
            let line = (pack.to_owned(), count, cents, 0);
            self.sales.push(Sale { id: intent, pack: Some(line), reversed: 0, credited: 0 });
        }
    }

    async fn card(&self) -> String {
        let customer = self.shop.read(&format!("customers/{}", self.customer)).await;
        text(&customer["invoice_settings"], "default_payment_method").to_owned()
    }

    async fn change(&self, form: &str, answer: &str) {
        let path = format!("subscriptions/{}", self.subscription.as_ref().unwrap());
        judged(self.shop.post(&path, form).await.status, answer, form);
    }

    async fn change_plan(&mut self, step: &Value) {
        let (plan, answer) = (text(step, "plan"), text(step, "answer"));
        let subscription = self.subscription().await;
        let items = all(&subscription["items"]);
        let is_plan = |item: &&Value| self.sold_as(text(&item["price"], "id")).0 == "plan";
        let item = id(items.iter().find(is_plan).unwrap());
        let next = text(&self.before, "next_plan");
        let is_new_period = items[0]["current_period_end"] != self.before["period_end"];
        let paid = if is_new_period { next } else { text(&self.before, "plan") };
        let to = |version: &str| {
            format!(
                "items[0][id]={item}&items[0][price]={}&items[0][quantity]=1",
                self.versions[version]
            )
        };
        let later = |version: &str| format!("{}&proration_behavior=none", to(version));
        let sold = self.sold.get(plan).map(String::as_str);
        let is_own = paid.split_once('@').unwrap().0 == plan;
        if is_own && (next != paid || sold.is_none_or(|sold| sold == paid)) {
            return self.change(&later(paid), answer).await;
        }
        let (have, want) = (terms(paid), terms(sold.unwrap()));
        if want.0 < have.0 || want.1 < have.1 {
            return self.change(&later(sold.unwrap()), answer).await;
        }
        let is_pending = next != paid;
        if is_pending {
            self.change(&later(paid), "200").await;
        }
        let now = step["t"].as_i64().unwrap();
        let start = items[0]["current_period_start"].as_i64().unwrap();
        let since = step["since"].as_i64().unwrap_or(now).max(now - 600).min(now).max(start);
        let form = format!(
            "{}&proration_behavior=always_invoice&payment_behavior=error_if_incomplete&off_session=true&proration_date={since}",
            to(sold.unwrap())
        );
        let previewed = self.preview(&to(sold.unwrap()), since).await;
        self.change(&form, answer).await;
        if answer != "200" && is_pending {
            self.change(&later(next), "200").await;
        }
        if answer == "200" {
            let made = self.invoices().await.pop().unwrap();
            for field in
                ["total", "subtotal", "amount_due", "total_excluding_tax", "starting_balance"]
            {
                assert_eq!(previewed[field], made[field], "{field} of the preview");
            }
        }
    }

    async fn preview(&self, items: &str, since: i64) -> Value {
        let items = items.replace("items[0]", "subscription_details[items][0]");
        let form = format!(
            "subscription={}&{items}&subscription_details[proration_behavior]=always_invoice\
             &subscription_details[proration_date]={since}",
            self.subscription.as_ref().unwrap()
        );
        self.shop.done("invoices/create_preview", &form).await
    }

    /// The entry for a slot item in a request, and its quantity.
    fn slot_item(&self, subscription: &Value, platform: &str, place: usize) -> (String, i64) {
        let price = &self.slots[platform];
        let items = all(&subscription["items"]);
        match items.iter().find(|item| text(&item["price"], "id") == price) {
            Some(item) => {
                (format!("items[{place}][id]={}", id(item)), item["quantity"].as_i64().unwrap())
            }
            None => (format!("items[{place}][price]={price}"), 0),
        }
    }

    async fn set_slots(&mut self, step: &Value) {
        let (subscription, count) = (self.subscription().await, step["count"].as_i64().unwrap());
        let (item, have) = self.slot_item(&subscription, text(step, "platform"), 0);
        let how = if count > have {
            "always_invoice&payment_behavior=error_if_incomplete&off_session=true"
        } else if self.time_is_paid(&subscription).await {
            "create_prorations"
        } else {
            "none"
        };
        let form = format!("{item}&items[0][quantity]={count}&proration_behavior={how}");
        self.change(&form, text(step, "answer")).await;
    }

    async fn switch_slot(&mut self, step: &Value) {
        let subscription = self.subscription().await;
        let (source, have) = self.slot_item(&subscription, text(step, "source"), 0);
        let (target, there) = self.slot_item(&subscription, text(step, "target"), 1);
        let form = format!(
            "{source}&items[0][quantity]={}&{target}&items[1][quantity]={}&proration_behavior=create_prorations",
            have - 1,
            there + 1
        );
        self.change(&form, text(step, "answer")).await;
    }

    /// Whether the slots of this period are paid for.
    async fn time_is_paid(&self, subscription: &Value) -> bool {
        let end = &subscription["items"]["data"][0]["current_period_end"];
        let is_slot = |line: &&Value| {
            let price = text(&line["pricing"]["price_details"], "price");
            line["period"]["end"] == *end && self.sold_as(price).0 == "slot"
        };
        let invoices = self.invoices().await;
        let mut mine = invoices
            .iter()
            .filter(|invoice| all(&invoice["lines"]).iter().any(|one| is_slot(&one)));
        mine.all(|invoice| {
            let sale = self.sales.iter().find(|sale| sale.id == id(invoice)).unwrap();
            invoice["status"] == "paid" && sale.reversed == 0 && sale.credited == 0
        })
    }

    async fn reverse(&mut self, step: &Value) {
        let (what, answer) = (text(step, "do"), text(step, "answer"));
        let sale = self.sale(text(step, "id"));
        let name = if sale.pack.is_some() { "payment_intent" } else { "invoice" };
        let body = json!({name: sale.id, "amount": step["cents"]});
        let reply = self.shop.controlled(&format!("{what}s"), &body).await;
        judged(reply.status, answer, what);
        if reply.status == 200 {
            let (made, refund) = (id(&reply.json()), what == "refund");
            let made = if refund { Reversal::Refund(made) } else { Reversal::Dispute(made) };
            self.reversals.insert(text(step, "ref").to_owned(), made);
        }
        if step["keep"] == true {
            self.keep(text(step, "ref"), true).await;
        }
        self.withdraw(step).await;
    }

    /// Marks a refund as one whose credits are kept, or removes the mark.
    async fn keep(&self, name: &str, kept: bool) {
        let Some(Reversal::Refund(id)) = self.reversals.get(name) else { return };
        let mark = if kept { "keep" } else { "" };
        let form = format!("metadata[creator_gateway_credits]={mark}");
        self.shop.done(&format!("refunds/{id}"), &form).await;
    }

    /// The invoice of a sale, also that of a pack.
    async fn invoice_of(&self, name: &str) -> Value {
        let sale = self.sale(name);
        let id = if sale.pack.is_some() {
            let path = format!("invoice_payments?payment[payment_intent]={}", sale.id);
            let payments = self.shop.read(&path).await;
            text(&payments["data"][0], "invoice").to_owned()
        } else {
            sale.id.clone()
        };
        self.shop.read(&format!("invoices/{id}")).await
    }

    /// The line of an invoice that the model describes as kind, what, quantity and cents.
    fn line_of<'a>(&self, invoice: &'a Value, named: &Value) -> &'a Value {
        let is_named = |line: &&Value| {
            let price = text(&line["pricing"]["price_details"], "price");
            let sold = || self.sold_as(price);
            line["quantity"] == named[2]
                && line["amount"] == named[3]
                && (named[0] == "pack" || (named[0] == sold().0 && named[1] == sold().1.as_str()))
        };
        all(&invoice["lines"]).iter().find(is_named).unwrap()
    }

    #[expect(clippy::too_many_lines, reason = "one form, part by part")]
    async fn note(&mut self, step: &Value) {
        let number = |field: &str| step[field].as_i64().unwrap_or_default();
        let invoice = self.invoice_of(text(step, "id")).await;
        let mut form = format!("invoice={}", id(&invoice));
        let mut lines: Vec<(String, i64)> = step["lines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|named| (id(self.line_of(&invoice, named)), named[4].as_i64().unwrap()))
            .collect();
        if lines.is_empty() && number("tax") > 0 {
            lines.push((id(&invoice["lines"]["data"][0]), 0));
        }
        let has_tax = invoice["total_taxes"] != json!([]);
        for (place, (line, amount)) in lines.iter().enumerate() {
            let below = format!("lines[{place}]");
            form.extend(["&", &below, "[type]=invoice_line_item&", &below, "[invoice_line_item]="]);
            form.push_str(line);
            write!(form, "&{below}[amount]={amount}").unwrap();
            let tax = if place == 0 { number("tax") } else { 0 };
            if has_tax && tax == 0 {
                write!(form, "&{below}[tax_amounts]=").unwrap();
            } else if has_tax {
                let taxes = format!("{below}[tax_amounts][0]");
                write!(form, "&{taxes}[amount]={tax}&{taxes}[tax_rate]=txr_sandbox&{taxes}[taxable_amount]={amount}").unwrap();
            }
        }
        if number("other") > 0 {
            let below = format!("lines[{}]", lines.len());
            write!(
                form,
                "&{below}[type]=custom_line_item&{below}[quantity]=1&{below}[unit_amount]={}",
                number("other")
            )
            .unwrap();
        }
        for (place, link) in step["links"].as_array().into_iter().flatten().enumerate() {
            let Some(Reversal::Refund(refund)) = self.reversals.get(link[0].as_str().unwrap())
            else {
                panic!("there is no refund {link}");
            };
            write!(
                form,
                "&refunds[{place}][refund]={refund}&refunds[{place}][amount_refunded]={}",
                link[1]
            )
            .unwrap();
        }
        for (field, name) in [
            ("refund", "refund_amount"),
            ("credit", "credit_amount"),
            ("outside", "out_of_band_amount"),
        ] {
            if number(field) > 0 {
                write!(form, "&{name}={}", number(field)).unwrap();
            }
        }
        let reply = self.shop.post("credit_notes", &form).await;
        judged(reply.status, text(step, "answer"), &form);
        if reply.status != 200 {
            return;
        }
        let (note, name) = (reply.json(), text(step, "ref").to_owned());
        if number("refund") > 0 {
            let made = note["refunds"].as_array().unwrap().last().unwrap();
            let made = Reversal::Refund(text(made, "refund").to_owned());
            self.reversals.insert(name.clone(), made);
        }
        let before = note["pre_payment_amount"].as_i64().unwrap();
        let credited = before + number("credit") + number("outside");
        self.credit(text(step, "id"), credited);
        self.notes.insert(name, (text(step, "id").to_owned(), id(&note)));
        self.withdraw(step).await;
    }

    fn credit(&mut self, sale: &str, cents: i64) {
        let place: usize = sale.trim_start_matches("in_").parse().unwrap();
        self.sales[place - 1].credited += cents;
    }

    async fn void_note(&mut self, step: &Value) {
        let Some((sale, note)) = self.notes.get(text(step, "ref")).cloned() else { return };
        let reply = self.shop.post(&format!("credit_notes/{note}/void"), "").await;
        judged(reply.status, text(step, "answer"), "a note is voided");
        if reply.status == 200 {
            let amount = reply.json()["pre_payment_amount"].as_i64().unwrap();
            self.credit(&sale, -amount);
        }
    }

    async fn undo(&mut self, name: &str) {
        // A reversal that is already undone cannot be undone again.
        match self.reversals.remove(name) {
            None => {}
            Some(Reversal::Refund(id)) => {
                let path = format!("refunds/{id}/settle");
                self.shop.control(&path, &json!({"succeeded": false})).await;
            }
            Some(Reversal::Dispute(id)) => {
                self.shop.control(&format!("disputes/{id}/close"), &json!({"won": true})).await;
            }
        }
    }

    /// The service withdraws money that went back twice from the credit, as far as the model says,
    /// and restores it when the money comes in again.
    async fn withdraw(&self, step: &Value) {
        let customer = self.shop.read(&format!("customers/{}", self.customer)).await;
        let (is, wanted) = (customer["balance"].as_i64(), step["expect"]["credit_cents"].as_i64());
        let missing = -wanted.unwrap() - is.unwrap();
        if missing != 0 {
            self.move_balance(missing).await;
        }
    }

    // -- the results --

    /// The model's invoice at the processor.
    async fn shown(&self, name: &str) -> Value {
        let sale = self.sale(name);
        if let Some((pack, count, cents, off)) = &sale.pack {
            return self.shown_pack(name, sale, (pack, *count, *cents, *off)).await;
        }
        let path = format!("invoices/{}?expand[]=payments", sale.id);
        let invoice = self.shop.read(&path).await;
        let mut lines = Vec::new();
        for line in all(&invoice["lines"]).iter().filter(|line| line["quantity"] != 0) {
            let (kind, what) = self.sold_as(text(&line["pricing"]["price_details"], "price"));
            let cents = line["amount"].as_i64().unwrap();
            lines.push(shown_line((kind, &what, &line["quantity"]), (cents, cents - net(line))));
        }
        let tax = invoice["total_taxes"].as_array().unwrap().iter();
        let tax: i64 = tax.map(|tax| tax["amount"].as_i64().unwrap()).sum();
        let payment = text(&invoice["payments"]["data"][0]["payment"], "payment_intent");
        json!({
            "id": name, "reason": invoice["billing_reason"], "lines": sorted(lines), "tax": tax,
            "total": invoice["total"], "charged": invoice["amount_due"], "status": invoice["status"],
            "reversed": self.reversed(payment).await,
        })
    }

    async fn shown_pack(
        &self,
        name: &str,
        sale: &Sale,
        (pack, count, cents, off): (&str, i64, i64, i64),
    ) -> Value {
        let intent = self.shop.read(&format!("payment_intents/{}", sale.id)).await;
        let total = intent["amount"].as_i64().unwrap();
        json!({
            "id": name, "reason": "pack", "lines": [shown_line(("pack", pack, &json!(count)), (cents, off))],
            "tax": total - (cents - off), "total": total, "charged": intent["amount_received"],
            "status": if intent["status"] == "succeeded" { "paid" } else { "open" },
            "reversed": self.reversed(&sale.id).await,
        })
    }

    /// The cents of a payment that went back.
    async fn reversed(&self, intent: &str) -> i64 {
        if intent.is_empty() {
            return 0;
        }
        let intent =
            self.shop.read(&format!("payment_intents/{intent}?expand[]=latest_charge")).await;
        let charge = &intent["latest_charge"];
        let amount = charge["amount"].as_i64().unwrap_or_default();
        if charge["disputed"] == true {
            return amount;
        }
        charge["amount_refunded"].as_i64().unwrap_or_default()
    }

    async fn compare(&mut self, step: &Value) {
        let expect = &step["expect"];
        for sale in expect["invoices"].as_array().into_iter().flatten() {
            let mut expected = sale.clone();
            expected["lines"] = sorted(sale["lines"].as_array().unwrap().clone());
            assert_eq!(self.shown(text(sale, "id")).await, expected);
        }
        let customer = self.shop.read(&format!("customers/{}", self.customer)).await;
        assert_eq!(-customer["balance"].as_i64().unwrap(), expect["credit_cents"], "credit");
        let path = format!("invoiceitems?customer={}&pending=true&limit=100", self.customer);
        let waiting = self.shop.read(&path).await;
        let waiting: i64 =
            all(&waiting).iter().map(|item| item["net_amount"].as_i64().unwrap()).sum();
        assert_eq!(waiting, expect["next_invoice_cents"], "what waits");
        let subscription = self.subscription().await;
        let status = if subscription.is_null() { &json!("none") } else { &subscription["status"] };
        assert_eq!(*status, expect["status"], "status");
        if let Some(next) = expect["next_plan"].as_str() {
            let items = all(&subscription["items"]).iter();
            let sold = items.map(|item| self.sold_as(text(&item["price"], "id")));
            let plan: Vec<String> =
                sold.filter(|(kind, _)| *kind == "plan").map(|(_, version)| version).collect();
            assert_eq!(plan, [next], "what renews");
            let first = &subscription["items"]["data"][0];
            assert_eq!(first["current_period_end"], expect["period_end"], "the period's end");
            let ends = &subscription["cancel_at_period_end"];
            assert_eq!(*ends, expect["cancel_at_period_end"], "whether it ends");
        }
        for sale in expect["invoices"].as_array().into_iter().flatten() {
            let place: usize = text(sale, "id").trim_start_matches("in_").parse().unwrap();
            self.sales[place - 1].reversed = sale["reversed"].as_i64().unwrap();
        }
        self.before = expect.clone();
    }
}

/// The cents and credits of a version.
fn terms(version: &str) -> (i64, i64) {
    let (cents, credits) = version.split_once('@').unwrap().1.split_once('/').unwrap();
    (cents.parse().unwrap(), credits.parse().unwrap())
}

fn shown_line((kind, what, quantity): (&str, &str, &Value), (cents, off): (i64, i64)) -> Value {
    let mut line = vec![json!(kind), json!(what), quantity.clone(), json!(cents)];
    if off != 0 {
        line.push(json!(-off));
    }
    Value::Array(line)
}

/// Lines in a fixed order, since their order does not matter.
fn sorted(mut lines: Vec<Value>) -> Value {
    lines.sort_by_key(Value::to_string);
    Value::Array(lines)
}

/// Plays a scenario; `at` is the current step.
async fn play(catalogue: Value, scenario: Value, at: Arc<Mutex<String>>) {
    let steps = scenario["steps"].as_array().unwrap();
    let mut player = Player::open(&catalogue, steps[0]["t"].as_i64().unwrap()).await;
    let tries = scenario.get("retries").unwrap_or(&catalogue["retries"]);
    let days = tries.as_array().unwrap().iter();
    let days: Vec<i64> = days.map(|after_s| after_s.as_i64().unwrap() / 86_400).collect();
    player.shop.control("rules", &json!({"retry_days": days})).await;
    for step in steps {
        *at.lock().unwrap() = without_outcome(step).to_string();
        player.go_on(step["t"].as_i64().unwrap()).await;
        player.play(step).await;
        player.note_invoices().await;
        player.compare(step).await;
    }
    player.shop.close().await;
}

fn without_outcome(step: &Value) -> Value {
    let mut shown = step.clone();
    shown.as_object_mut().unwrap().remove("expect");
    shown
}

#[tokio::test]
async fn every_scenario_of_the_reference_model_has_its_outcome() {
    let path = std::env::var("SIMULATOR_SCENARIOS").unwrap_or_else(|_| SCENARIOS.to_owned());
    let read: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let scenarios = read["scenarios"].as_array().unwrap();

    let mut failed = Vec::new();
    for scenario in scenarios {
        let at = Arc::new(Mutex::new(String::new()));
        // In a separate task, so that a failure does not hide other failures.
        let playing = play(read["catalogue"].clone(), scenario.clone(), Arc::clone(&at));
        let mut task = tokio::task::JoinSet::new();
        task.spawn(playing);
        if task.join_next().await.unwrap().is_err() {
            failed.push(format!("{} at {}", scenario["name"], at.lock().unwrap()));
        }
    }

    assert!(scenarios.len() >= 80, "{} scenarios were played", scenarios.len());
    assert!(failed.is_empty(), "these have another outcome:\n{}", failed.join("\n"));
}
