//! Simulates the payment processor: its API below `/v1/`, its pages below `/processor/`, and the
//! events that it sends.
//!
//! The state is in [`object_store`]; every request is carried out as a whole under its lock, then
//! journaled, and can be undone until then. The wire format is in [`wire`], the list of requests in
//! [`routes`].

#![recursion_limit = "256"]
#![expect(
    clippy::shadow_unrelated,
    reason = "a closure that changes an object calls it what it is, as the function around it does"
)]

mod api_call;
mod balance;
mod bank_transfers;
mod cards;
mod cash_balance;
mod charges;
mod checkout;
mod control;
mod coupons;
mod credit_notes;
mod customers;
mod declared;
mod delivery;
mod disputes;
mod events;
mod fields;
mod form;
mod intents;
mod invoices;
mod lists;
mod object_store;
mod pages;
mod passing;
mod payment_methods;
mod plans;
mod portal;
mod prices;
mod problem;
mod promotion_codes;
mod quotes;
mod refunds;
mod render;
mod rounding;
mod routes;
mod rules;
mod schedules;
mod settings;
mod setup_intents;
mod simulator;
mod sources;
mod subscriptions;
mod switches;
mod taxes;
mod test_clocks;
mod versions;
mod webhook_endpoints;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};
use simulator_kit::json_lines::JsonLines;
use simulator_kit::seeded_random::mix;
use simulator_kit::{SimulatorClock, SimulatorEnvironment};

use self::delivery::EventOutbox;
use self::fields::{flag, set, text};
use self::form::FormParams;
use self::object_store::{ObjectStore, StoreChange};
pub use self::settings::ProcessorSettings;
use self::switches::FaultSwitches;

/// The number of requests that are remembered.
const REQUESTS_MAX: usize = 10_000;
/// The id of the object that records how far the clock was moved.
const MOVED: &str = "clock_moved";

/// The processor and its state.
pub struct ProcessorSimulator {
    pub(crate) secret_key: String,
    pub(crate) publishable_key: String,
    store: Mutex<ObjectStore>,
    journal: Mutex<JsonLines>,
    busy: wire::KeysInUse,
    pub(crate) switches: FaultSwitches,
    pub(crate) outbox: EventOutbox,
    clock: SimulatorClock,
    /// Seconds by which its time is ahead of that of the other simulators.
    ahead_s: AtomicI64,
    requests: Mutex<VecDeque<Value>>,
    /// The requests in a second: which one, and how many.
    counted: Mutex<(i64, u64)>,
    /// The address of its own port.
    pub(crate) address: OnceLock<std::net::SocketAddr>,
}

impl ProcessorSimulator {
    /// Opens the journal and restores the state.
    pub fn open(
        environment: &SimulatorEnvironment,
        settings: &ProcessorSettings,
    ) -> io::Result<Self> {
        let file = environment.data.as_ref().map(|folder| folder.join("journal-processor.jsonl"));
        let mut journal = JsonLines::open(file.as_deref())?;
        let (mut changes, mut count) = (Vec::new(), 0_u64);
        journal.scan(0, |_, change: StoreChange| {
            changes.push(change);
            count += 1;
            ControlFlow::Continue(())
        })?;
        // Makes ids differ between starts and between tests.
        let now_ms = u64::try_from(environment.clock.now_ms()).unwrap_or_default();
        let mut store = ObjectStore::new(mix(environment.seed) ^ mix(now_ms) ^ mix(count));
        for change in changes {
            store.restore(change);
        }
        let moved = |name: &str| store.get(MOVED).map_or(0, |moved| fields::whole(moved, name));
        let ahead = moved("ahead_s");
        // A system clock does not know how far it was ahead before the restart.
        environment
            .clock
            .advance_ms((moved("world_ahead_ms") - environment.clock.ahead_ms()).max(0));
        let outbox = EventOutbox::new(settings);
        for event in store.all("event").filter(|event| flag(event, "_.waiting")) {
            outbox.add(text(event, "id"));
        }
        Ok(Self {
            secret_key: settings.secret_key.clone(),
            publishable_key: settings.publishable_key.clone(),
            store: Mutex::new(store),
            journal: Mutex::new(journal),
            busy: wire::KeysInUse::default(),
            switches: FaultSwitches::default(),
            outbox,
            clock: environment.clock.clone(),
            ahead_s: AtomicI64::new(ahead),
            requests: Mutex::default(),
            counted: Mutex::default(),
            address: OnceLock::new(),
        })
    }

    fn locked(&self) -> MutexGuard<'_, ObjectStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds since 1970, in the processor's time.
    fn now_s(&self) -> i64 {
        self.world_s() + self.ahead_s.load(Ordering::SeqCst)
    }

    /// The base URL of its pages and its API.
    pub(crate) fn base(&self) -> String {
        self.address.get().map_or_else(String::new, |address| format!("http://{address}"))
    }

    /// Processes everything that is due.
    fn catch_up(&self, store: &mut ObjectStore) {
        let (now, request) = (self.now_s(), std::mem::take(&mut store.request));
        passing::pass(store, now);
        store.now = now;
        store.request = request;
    }

    /// Journals the changes, and queues new events.
    fn settle(&self, store: &mut ObjectStore) {
        let mut fresh = Vec::new();
        for event in store.all("event").rev().take_while(|event| flag(event, "_.new")) {
            fresh.push((text(event, "id").to_owned(), text(event, "type").to_owned()));
        }
        for (id, kind) in fresh.iter().rev() {
            let wanted = self.outbox.wants(kind);
            store.change(id, |event| {
                set(event, "_", json!({"waiting": wanted}));
                set(event, "pending_webhooks", i64::from(wanted));
            });
            if wanted {
                self.outbox.add(id);
            }
        }
        let change = store.settle();
        if change.objects.is_empty() && change.removed.is_empty() {
            return;
        }
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = journal.append(&change) {
            tracing::error!(%error, "the processor's journal cannot be written");
        }
    }

    /// Changes the store outside an API request; returns the result.
    pub(crate) fn with_store<T>(&self, work: impl FnOnce(&mut ObjectStore) -> T) -> T {
        let mut store = self.locked();
        if store.base.is_empty() {
            store.base = self.base();
        }
        store.request = (None, None);
        self.catch_up(&mut store);
        let done = work(&mut store);
        self.settle(&mut store);
        done
    }

    /// Moves its time ahead of that of the other simulators; everything that becomes due happens.
    pub(crate) fn advance(&self, by_s: i64) -> i64 {
        self.ahead_s.fetch_add(by_s, Ordering::SeqCst);
        self.note_time();
        self.now_s()
    }

    /// Seconds since 1970, in the time of all simulators.
    fn world_s(&self) -> i64 {
        self.clock.now_ms().div_euclid(1_000)
    }

    /// Processes everything that is due, and records how far clocks were moved.
    fn note_time(&self) {
        let (ahead_s, world_ahead_ms) =
            (self.ahead_s.load(Ordering::SeqCst), self.clock.ahead_ms());
        self.with_store(|store| {
            store.put(json!({
                "id": MOVED, "object": "clock", "ahead_s": ahead_s, "world_ahead_ms": world_ahead_ms,
            }));
        });
    }

    /// Counts a request, and returns whether there are more in this second than are carried out.
    fn is_busy(&self) -> bool {
        let most = rules::requests_per_s(&self.locked());
        let now = self.now_s();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.0 != now {
            *counted = (now, 0);
        }
        counted.1 += 1;
        most > 0 && counted.1 > most
    }

    /// Forgets everything except its address and settings.
    fn forget(&self) -> io::Result<()> {
        let mut store = self.locked();
        let now_ms = u64::try_from(self.clock.now_ms()).unwrap_or_default();
        *store = ObjectStore::new(
            mix(now_ms) ^ mix(store.mark() as u64) ^ mix(u64::from_le_bytes(*b"reset!!!")),
        );
        self.ahead_s.store(0, Ordering::SeqCst);
        self.clock.advance_ms(-self.clock.ahead_ms());
        self.switches.clear();
        self.outbox.clear();
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clear()
    }

    /// Adds a request to the log.
    fn noted(&self, request: &wire::ApiRequest<'_>, params: Option<&FormParams>, status: u16) {
        let key = request.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let line = json!({
            "method": request.method.as_str(), "path": format!("/v1/{}", request.path), "idempotency_key": key,
            "params": params.map(FormParams::shown), "status": (status > 0).then_some(status), "at": self.now_s(),
        });
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() == REQUESTS_MAX {
            requests.pop_front();
        }
        requests.push_back(line);
    }

    /// The logged requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
