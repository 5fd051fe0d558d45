//! One customer, the service and the simulated processor, sharing one clock.

use std::collections::{BTreeMap, BTreeSet};

use domain::time::Timestamp;
use runtime::clock::Clock;
use serde_json::{Value, json};
use settings::Config;
use store::testing::TestStore;

use super::sales::Sale;
use super::scenario::{Catalogue, Scenario, Selling};
use test_service::app::{Customer, TestApp};
use test_service::client::Client;

/// The most rounds of deliveries and background work; one round may cause another.
const ROUNDS_MAX: usize = 20;
/// The customer's email address.
pub(super) const EMAIL: &str = "ada@example.com";

/// A customer whose sequence of events is run.
pub(super) struct World {
    pub(super) app: TestApp,
    pub(super) customer: Customer,
    pub(super) client: Client,
    /// The account that calls are made for.
    pub(super) account: String,
    /// The token of the email that confirms the address, once it was read.
    pub(super) confirmation: Option<String>,
    /// Whether charges succeed.
    pub(super) card_ok: bool,
    /// The rate of tax, in hundredths of a percent.
    pub(super) tax: i64,
    pub(super) selling: Selling,
    /// Whether events about payments are held back.
    pub(super) deaf: bool,
    /// Whether automatic top-up was ever turned on.
    pub(super) tops_up: bool,
    /// The customer's id at the processor, once there is one.
    pub(super) payer: Option<String>,
    /// The sales so far, in the model's order.
    pub(super) sales: Vec<Sale>,
    /// Refunds and disputes, by the model's name for each.
    pub(super) reversals: BTreeMap<String, Reversal>,
    /// The ids of refunds, also of undone ones, by the model's name for each.
    pub(super) refunds: BTreeMap<String, String>,
    /// The ids of credit notes, by the model's name for each.
    pub(super) notes: BTreeMap<String, String>,
    /// The processor's prices that were read so far.
    pub(super) prices: BTreeMap<String, Value>,
    /// The plans as currently configured.
    plans: Vec<settings::billing::Plan>,
    /// Events that were sent although others are held back.
    sent: BTreeSet<String>,
    /// Microseconds that keep events within one second in order.
    moments: i64,
}

/// Money that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reversal {
    /// By the operator.
    Refund(String),
    /// By the customer's bank.
    Dispute(String),
    /// It was returned.
    Undone,
}

impl World {
    /// Starts the service and creates its customer, an hour before the first event.
    pub(super) async fn begin(
        database: TestStore,
        catalogue: &Catalogue,
        scenario: &Scenario,
    ) -> Box<Self> {
        let first = scenario.steps.first().map_or(0, |step| step.at);
        let start = Timestamp::from_unix_micros((first - 3_600) * 1_000_000);
        let configuration =
            format!("{}{}", catalogue.configuration(), scenario.selling.configuration());
        let app = TestApp::start_at(start, database, &configuration).await;
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
            selling: scenario.selling,
            deaf: false,
            tops_up: false,
            payer: None,
            sales: Vec::new(),
            reversals: BTreeMap::new(),
            refunds: BTreeMap::new(),
            notes: BTreeMap::new(),
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

    /// Advances the time to this second. Anything due in between happens at its own time: first at
    /// the processor, then here.
    pub(super) async fn move_to(&mut self, until: i64) {
        while self.now() < until {
            let due = self.next_due().await.filter(|due| *due < until);
            self.set_clock(due.unwrap_or(until));
            self.settle().await;
        }
        // Advances the microseconds even within one second.
        self.set_clock(until);
    }

    /// Processes all consequences of what has happened: events, jobs, and background work.
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
        panic!("events and jobs never ended");
    }

    /// Sets both clocks; each call within one second sets a later time.
    fn set_clock(&mut self, second: i64) {
        use std::sync::atomic::Ordering;
        self.moments += 1;
        let Clock::Manual(micros) = &self.app.clock else {
            panic!("the test must control the clock")
        };
        micros.store(second * 1_000_000 + self.moments, Ordering::SeqCst);
        let behind = second * 1_000 - self.app.world_clock.now_ms();
        self.app.world_clock.advance_ms(behind);
    }

    /// The next time at which something is due: a renewal, a payment attempt, or the expiry of
    /// credits.
    async fn next_due(&self) -> Option<i64> {
        let now = self.now();
        let mut due = self.due_at_processor().await;
        let billing = self.client.get("/v1/billing").await.json();
        let lots = billing["lots"].as_array().cloned().unwrap_or_default();
        due.extend(lots.iter().filter_map(|lot| super::look::seconds(&lot["expires_at"])));
        due.into_iter().filter(|due| *due > now).min()
    }

    /// Delivers the processor's events and returns their number. While events are held back, those
    /// about payments wait.
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
        self.app.stop_service().await;
        self.start_again().await;
    }

    /// Starts the stopped service with the plans as they are now.
    pub(super) async fn start_again(&mut self) {
        let plans = self.plans.clone();
        let other = |config: &mut Config| config.plans = plans;
        self.app.start_service(other).await.unwrap();
        self.client = self.app.with_key(&self.customer.key);
    }

    /// Stops everything and checks the invariants of every sequence.
    pub(super) async fn end(mut self: Box<Self>) {
        self.deaf = false;
        self.settle().await;
        self.check_invoices().await;
        self.app.end().await;
    }
}

/// Whether an event reports a payment.
pub(super) fn says_paid(kind: &str) -> bool {
    matches!(
        kind,
        "invoice.paid"
            | "invoice.payment_succeeded"
            | "payment_intent.succeeded"
            | "checkout.session.completed"
    )
}
