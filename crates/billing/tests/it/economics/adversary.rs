//! An attacker that wants credits below the list price: a year of events that would pay off if a
//! rule were missing.
//!
//! The result is measured at the service and the processor, not in the model.

use serde_json::{Value, json};

use super::play::steps;
use super::scenario::{Scenario, vectors};
use super::side::{is_long, made, seed};
use super::world::World;

/// Attacks tried on a database in a short and in a full run; `scripts/economics-test` tries more.
const ATTACKS: (usize, usize) = (2, 5);
const ATTACKS_LONG: usize = 20;
/// Credits and price in cents of the cheapest offer: the agency plan.
const BEST: (i64, i64) = (150_000, 19_900);

/// What the attacker got for its money.
#[derive(Debug, Clone, Copy)]
struct Bargain {
    /// Credits that were spent or are available.
    credits: i64,
    /// Cents that were paid, minus refunds and what the processor still holds for the customer.
    cents: i64,
    /// Lines of invoices, each of which may be rounded in the customer's favor.
    lines: i64,
}

impl Bargain {
    /// Credits beyond what the money buys at the best list price, allowing for rounding.
    fn gain(self) -> i64 {
        let (credits, cents) = BEST;
        let bought = (self.cents + self.lines) * credits / cents;
        self.credits - bought - 2 * self.lines
    }
}

impl World {
    async fn bargain(&mut self) -> Bargain {
        let store = self.app.store();
        let customer = self.customer.id.parse().unwrap();
        let balance = store::usage::balance(store, customer).await.unwrap().unwrap();
        let credits = balance.available.whole() + balance.spent.whole() - balance.debt.whole();
        let mut cents = self.pending_cents().await - self.credit_cents().await;
        let mut lines = 0;
        self.discover().await;
        for sale in self.shown_sales().await {
            lines += i64::try_from(sale["lines"].as_array().unwrap().len()).unwrap() + 2;
            if sale["status"] == "paid" {
                cents += sale["charged"].as_i64().unwrap() - sale["reversed"].as_i64().unwrap();
            }
        }
        for invoice in self.all_at_processor("invoices", "&status=open").await {
            cents += riding_on(&invoice);
        }
        Bargain { credits, cents, lines }
    }
}

/// What an unpaid invoice contains of the customer's money: the balance applied to it, and credit
/// lines.
fn riding_on(invoice: &Value) -> i64 {
    let number = |field: &str| invoice[field].as_i64().unwrap_or(0);
    let lines = invoice["lines"]["data"].as_array().unwrap().iter();
    let waited = lines.filter(|line| line["parent"]["invoice_item_details"].is_object());
    let waited: i64 = waited.filter_map(|line| line["amount"].as_i64()).sum();
    number("starting_balance") - number("ending_balance") + waited.min(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attack_gets_credits_below_the_list_price() {
    let (catalogue, _) = vectors();
    let ordinary = store::testing::samples(ATTACKS.0, ATTACKS.1);
    let count = if is_long() { ATTACKS_LONG } else { ordinary };
    let scenarios = made("attacks", seed(), count, &catalogue);
    assert_eq!(scenarios.len(), count);
    let mut best: Option<(i64, Bargain, &Scenario)> = None;
    for scenario in &scenarios {
        let mut world =
            Box::pin(World::begin(store::testing::store().await, &catalogue, scenario)).await;
        let told = steps(&mut world, scenario).await;
        assert!(told.is_empty(), "differs from the model:\n{told}");
        let bargain = world.bargain().await;
        Box::pin(world.end()).await;
        if best.is_none_or(|(gain, ..)| bargain.gain() > gain) {
            best = Some((bargain.gain(), bargain, scenario));
        }
    }
    let (gain, bargain, scenario) = best.unwrap();
    let events = json!(scenario.events());
    assert!(gain <= 0, "{}: {bargain:?} has {gain} credits too many: {events}", scenario.name);
}
