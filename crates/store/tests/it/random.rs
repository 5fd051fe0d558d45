//! Random sequences of events, including crashes: the ledger adds up and no customer overdraws.

use std::collections::BTreeSet;

use domain::charge::Outcome;
use domain::id::{CallId, EntryId};
use domain::lots::LotSource;
use domain::payment::{ReversalKind, ReversalState};
use proptest::prelude::*;
use store::ledger::{self, CreditGrant};
use store::metering::{self, Hold, IdempotencyClaim};
use store::orders::Order;
use store::payments::PaymentOutcome;
use store::reversals;
use store::testing::{self, TestStore};
use tokio::runtime::Runtime;

use crate::payments;

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, cases, credits, grant, is_held, node, resolution,
    unique,
};

#[derive(Debug, Clone)]
enum RandomStep {
    Hold {
        who: usize,
        cost: i64,
        key: Option<u8>,
    },
    End {
        which: usize,
        outcome: Outcome,
    },
    /// Holds and settlements that are not awaited.
    Burst {
        who: usize,
        costs: Vec<i64>,
        outcome: Outcome,
    },
    Grant {
        who: usize,
        amount: i64,
    },
    Remove {
        who: usize,
        amount: i64,
    },
    /// An order, paid now or later.
    Order {
        who: usize,
    },
    /// A payment of an order is reported: perhaps again, perhaps another one, perhaps with a wrong
    /// amount.
    Pay {
        which: usize,
        payment: u8,
        cents: i64,
    },
    /// The state of a refund or dispute of a payment is reported.
    Reverse {
        which: usize,
        id: u8,
        cents: i64,
        state: ReversalState,
    },
    Sweep,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
    let who = 0_usize..3;
    let outcome = || prop::sample::select(Outcome::ALL);
    let step = prop_oneof![
        6 => (who.clone(), 0_i64..8, prop::option::of(0_u8..4))
            .prop_map(|(who, cost, key)| RandomStep::Hold { who, cost, key }),
        6 => (0_usize..64, outcome()).prop_map(|(which, outcome)| RandomStep::End { which, outcome }),
        3 => (who.clone(), prop::collection::vec(0_i64..4, 1..12), outcome())
            .prop_map(|(who, costs, outcome)| RandomStep::Burst { who, costs, outcome }),
        2 => (who.clone(), 1_i64..30).prop_map(|(who, amount)| RandomStep::Grant { who, amount }),
        1 => (who.clone(), 1_i64..30).prop_map(|(who, amount)| RandomStep::Remove { who, amount }),
        2 => who.prop_map(|who| RandomStep::Order { who }),
        4 => (0_usize..6, 0_u8..3, prop_oneof![8 => Just(999_i64), 1 => Just(998)])
            .prop_map(|(which, payment, cents)| RandomStep::Pay { which, payment, cents }),
        3 => (0_usize..6, 0_u8..4, 0_i64..1_200, prop::sample::select(ReversalState::ALL))
            .prop_map(|(which, id, cents, state)| RandomStep::Reverse { which, id, cents, state }),
        1 => Just(RandomStep::Sweep),
        1 => Just(RandomStep::Crash),
    ];
    prop::collection::vec(step, 1..60)
}

struct RandomWorld {
    store: TestStore,
    metering: Option<TestMetering>,
    callers: Vec<TestCaller>,
    open: Vec<CallId>,
    orders: Vec<Order>,
    /// The indexes of the paid orders.
    paid: BTreeSet<usize>,
}

impl RandomWorld {
    async fn new(store: TestStore) -> Self {
        let mut callers = Vec::new();
        for amount in [0, 10, 40] {
            let caller = TestCaller::with(&store, amount).await;
            payments::link(&store, &caller).await;
            callers.push(caller);
        }
        let metering = Some(TestMetering::start(&store).await);
        let (orders, paid) = (Vec::new(), BTreeSet::new());
        Self { store, metering, callers, open: Vec::new(), orders, paid }
    }

    fn metering(&self) -> &TestMetering {
        self.metering.as_ref().unwrap()
    }

    async fn step(&mut self, step: RandomStep) {
        match step {
            RandomStep::Hold { who, cost, key } => self.hold(who, cost, key).await,
            RandomStep::End { which, outcome } => {
                if !self.open.is_empty() {
                    let call_id = self.open.swap_remove(which % self.open.len());
                    assert!(self.metering().end(call_id, outcome).await);
                    assert!(!self.metering().end(call_id, Outcome::Answered).await);
                }
            }
            RandomStep::Burst { who, costs, outcome } => self.burst(who, costs, outcome).await,
            RandomStep::Grant { who, amount } => {
                grant(&self.store, self.callers[who].customer, amount).await;
            }
            RandomStep::Remove { who, amount } => self.remove(who, amount).await,
            RandomStep::Order { who } => {
                let caller = &self.callers[who];
                let payer = payments::processor_name(caller);
                self.orders.push(payments::ordered(&self.store, caller, &payer).await);
            }
            RandomStep::Pay { which, payment, cents } => self.pay(which, payment, cents).await,
            RandomStep::Reverse { which, id, cents, state } => {
                let (intent, id) = (format!("pi_{which}_0"), format!("{which}_{id}"));
                let is_even = cents % 2 == 0;
                let kind = if is_even { ReversalKind::Refund } else { ReversalKind::Dispute };
                let reversal = payments::reversal(kind, (&id, &intent), cents, state);
                reversals::apply(&self.store, &reversal, &|_| Vec::new()).await.unwrap();
            }
            RandomStep::Sweep => {
                let late = NOON.plus_seconds(100_000);
                while testing::take_over(&self.store, late).await.unwrap().holds > 0 {}
                self.open.clear();
            }
            RandomStep::Crash => self.crash().await,
        }
    }

    async fn hold(&mut self, who: usize, cost: i64, key: Option<u8>) {
        let caller = &self.callers[who];
        let idempotency = key.map(|key| IdempotencyClaim {
            key_hash: [key; 32],
            fingerprint: [0; 32],
            identity: None,
            expires_at: NOON.plus_seconds(60),
        });
        let hold = Hold { idempotency, ..caller.hold(cost) };
        let call_id = hold.call_id;
        // Requests that were not awaited are written before later ones.
        self.metering().end(CallId::new(NOON, unique()), Outcome::Answered).await;
        let before = caller.balance(&self.store).await;
        let is_granted = is_held(&self.metering().hold(hold).await);
        if is_granted {
            self.open.push(call_id);
            let after = self.callers[who].balance(&self.store).await;
            assert_eq!(after.available.whole(), before.available.whole() - cost);
        } else if key.is_none() {
            assert!(before.available.whole() < cost, "refused with {before:?}");
        }
    }

    /// Payment 0 of an order is its own; other payments of the same order are only recorded as
    /// unmatched.
    async fn pay(&mut self, which: usize, payment: u8, cents: i64) {
        let Some(order) = self.orders.get(which) else { return };
        let intent = format!("pi_{which}_{payment}");
        let paid = payments::paid_with(order, &intent, cents);
        let is_first = cents == order.amount_cents && payment == 0 && self.paid.insert(which);
        if payment != 0 && !self.paid.contains(&which) {
            return;
        }
        let fulfilled = store::payments::fulfil(&self.store, &paid).await.unwrap();
        assert_eq!(matches!(fulfilled, PaymentOutcome::Granted(_)), is_first, "{fulfilled:?}");
    }

    async fn burst(&mut self, who: usize, costs: Vec<i64>, outcome: Outcome) {
        for (number, cost) in costs.into_iter().enumerate() {
            let hold = self.callers[who].hold(cost);
            let (meter, call_id) = (&self.metering().meter, hold.call_id);
            let reserved = match number % 3 {
                0 => meter.reserve(hold).await,
                _ => meter.reserve_read(hold).await,
            };
            match reserved {
                Ok(reservation) if number % 2 == 0 => {
                    reservation.resolve(resolution(call_id, outcome));
                }
                // A hold that is waited for is not parked, so it is written before later requests.
                Ok(mut reservation) => drop(reservation.durable().await),
                Err(_) => {}
            }
        }
    }

    async fn remove(&self, who: usize, amount: i64) {
        let entry = EntryId::new(NOON, unique());
        let source_id = entry.to_string();
        let removal = CreditGrant {
            entry,
            customer: self.callers[who].customer,
            amount: credits(amount),
            kind: "adjustment",
            source: "adj",
            source_id: &source_id,
            reference: None,
            lot: LotSource::Gift,
            expires_at: None,
            at: NOON,
        };
        // No more can be taken than was ever granted.
        let removed = ledger::remove(&self.store, &removal).await.unwrap();
        assert!(!matches!(removed, ledger::CreditGrantOutcome::Repeated), "{removed:?}");
    }

    async fn crash(&mut self) {
        self.metering.take().unwrap().crash().await;
        self.store.reopen().await;
        self.metering = Some(TestMetering::recovered(&self.store, node()).await.0);
        for caller in &self.callers {
            assert_eq!(caller.balance(&self.store).await.held, credits(0));
        }
        self.open.clear();
    }

    async fn finish(mut self) {
        self.metering.take().unwrap().stop().await;
        assert_sound(&self.store).await;
        metering::recover(&self.store, node(), NOON).await.unwrap();
        assert_sound(&self.store).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_adds_up_after_any_sequence_of_events(steps in steps()) {
        runtime().block_on(async { play(testing::store().await, steps).await });
    }
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap()
}

async fn play(store: TestStore, steps: Vec<RandomStep>) {
    let mut world = RandomWorld::new(store).await;
    for step in steps {
        world.step(step).await;
    }
    world.finish().await;
}
