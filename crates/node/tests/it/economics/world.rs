//! One customer, the service and the simulated processor, with one clock for both.

use std::collections::{BTreeMap, BTreeSet};

use domain::time::Timestamp;
use runtime::clock::Clock;
use serde_json::{Value, json};
use settings::Config;
use store::testing::TestStore;

use super::sales::Sale;
use super::scenario::{Catalogue, Scenario};
use crate::support::app::{Customer, TestApp};
use crate::support::client::Client;

/// A round of deliveries and background work may bring about others.
const ROUNDS_MAX: usize = 20;
/// The address of the customer.
pub(super) const EMAIL: &str = "ada@example.com";

/// A customer whose sequence of events is played.
pub(super) struct World {
    pub(super) app: TestApp,
    pub(super) customer: Customer,
    pub(super) client: Client,
    /// The account that calls are made for.
    pub(super) account: String,
    /// The token of the mail that confirms the address, once it was asked for.
    pub(super) confirmation: Option<String>,
    /// Whether charges succeed.
    pub(super) card_ok: bool,
    /// The rate of tax, in hundredths of a percent.
    pub(super) tax: i64,
    /// Whether events about payments are kept back.
    pub(super) deaf: bool,
    /// Whether automatic top-up was ever turned on.
    pub(super) tops_up: bool,
    /// The customer's id at the processor, once there is one.
    pub(super) payer: Option<String>,
    /// What was sold so far, in the model's order.
    pub(super) sales: Vec<Sale>,
    /// Refunds and disputes, by the model's name for each.
    pub(super) reversals: BTreeMap<String, Reversal>,
    /// Prices of the processor's that were read.
    pub(super) prices: BTreeMap<String, Value>,
    /// Plans as they are configured now.
    plans: Vec<settings::billing::Plan>,
    /// Events that were sent although others are kept back.
    sent: BTreeSet<String>,
    /// Microseconds that tell what happens within one second apart.
    moments: i64,
}

/// Money that went back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reversal {
    /// By the operator.
    Refund(String),
    /// By the customer's bank.
    Dispute(String),
    /// It is here again.
    Undone,
}

impl World {
    /// The service and its customer, an hour before the first event.
    pub(super) async fn begin(
        database: TestStore,
        catalogue: &Catalogue,
        scenario: &Scenario,
    ) -> Box<Self> {
        let first = scenario.steps.first().map_or(0, |step| step.at);
        let start = Timestamp::from_unix_micros((first - 3_600) * 1_000_000);
        let app = TestApp::start_at(start, database, &catalogue.configuration()).await;
        let confirms = scenario.steps.iter().any(|step| step.what() == "confirm_email");
        let (customer, confirmation) = if confirms {
            let member = app.member(EMAIL).await;
            let token = app.mailed_token(EMAIL).await;
            (member.customer, Some(token))
        } else {
            (app.customer(0).await, None)
        };
        let account = app.connect(&customer, "platform_alpha").await;
        let client = app.with_key(&customer.key);
        let plans = app.config().plans.clone();
        let mut world = Box::new(Self {
            app,
            customer,
            client,
            account,
            confirmation,
            card_ok: true,
            tax: 0,
            deaf: false,
            tops_up: false,
            payer: None,
            sales: Vec::new(),
            reversals: BTreeMap::new(),
            prices: BTreeMap::new(),
            plans,
            sent: BTreeSet::new(),
            moments: 0,
        });
        world.set_retries(&scenario.retries).await;
        world.settle().await;
        world
    }

    /// Seconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.app.clock.now().unix_seconds()
    }

    /// Lets the time pass until this second. What falls due on the way happens at its own moment: first at the processor,
    /// then here.
    pub(super) async fn move_to(&mut self, until: i64) {
        while self.now() < until {
            let due = self.next_due().await.filter(|due| *due < until);
            self.set_clock(due.unwrap_or(until));
            self.settle().await;
        }
        // What happens within a second has its order.
        self.set_clock(until);
    }

    /// Lets everything that follows from what happened happen: events, jobs, and the work beside requests.
    pub(super) async fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.app.control("clock", json!({"advance_s": 0})).await;
            let told = self.tell().await;
            let worked = self.app.run_jobs().await;
            self.app.running().look_after_subscriptions().await;
            self.app.running().expire_credits().await;
            if told + worked == 0 {
                return;
            }
        }
        panic!("events and jobs never end");
    }

    /// Sets both clocks. Later moments of one second are later.
    fn set_clock(&mut self, second: i64) {
        use std::sync::atomic::Ordering;
        self.moments += 1;
        let Clock::Manual(micros) = &self.app.clock else { panic!("the clock is not ours") };
        micros.store(second * 1_000_000 + self.moments, Ordering::SeqCst);
        let behind = second * 1_000 - self.app.world_clock.now_ms();
        self.app.world_clock.advance_ms(behind);
    }

    /// When something falls due next: a renewal, a try of a payment, or the end of credits.
    async fn next_due(&self) -> Option<i64> {
        let now = self.now();
        let mut due = self.due_at_processor().await;
        let billing = self.client.get("/v1/billing").await.json();
        let lots = billing["lots"].as_array().cloned().unwrap_or_default();
        due.extend(lots.iter().filter_map(|lot| super::look::seconds(&lot["expires_at"])));
        due.into_iter().filter(|due| *due > now).min()
    }

    /// Lets the processor tell what it has to tell; gives how many events that were. While events are kept back, those
    /// that say that something was paid wait.
    async fn tell(&mut self) -> usize {
        if !self.deaf {
            let delivered = self.app.control("deliver", json!({})).await;
            let sent = delivered["sent"].as_array().unwrap();
            for one in sent {
                assert_eq!(one["status"], 200, "{one}");
            }
            return sent.len();
        }
        let events = self.app.shown("events").await;
        let mut told = 0;
        for event in events["events"].as_array().unwrap() {
            let (id, kind) = (event["id"].as_str().unwrap(), event["type"].as_str().unwrap());
            let is_due = event["waiting"] == true && !says_paid(kind);
            if is_due && self.sent.insert(id.to_owned()) {
                self.send_event(id).await;
                told += 1;
            }
        }
        told
    }

    pub(super) async fn send_event(&self, id: &str) {
        let sent = self.app.control(&format!("events/{id}/send"), json!({"copies": 1})).await;
        assert_eq!(sent["statuses"], json!([200]), "{id}");
    }

    /// Restarts the service with other plans.
    pub(super) async fn restart_with(
        &mut self,
        change: impl FnOnce(&mut Vec<settings::billing::Plan>),
    ) {
        change(&mut self.plans);
        let plans = self.plans.clone();
        self.app.stop_service().await;
        let other = |config: &mut Config| config.plans = plans;
        self.app.start_service(other).await.unwrap();
        self.client = self.app.with_key(&self.customer.key);
    }

    /// Stops everything and checks what must hold after every sequence.
    pub(super) async fn end(mut self: Box<Self>) {
        self.deaf = false;
        self.settle().await;
        self.app.end().await;
    }
}

/// Whether an event says that something was paid.
pub(super) fn says_paid(kind: &str) -> bool {
    matches!(
        kind,
        "invoice.paid"
            | "invoice.payment_succeeded"
            | "payment_intent.succeeded"
            | "checkout.session.completed"
    )
}
