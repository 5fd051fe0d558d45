//! Reads that leave before their hold is committed, on nodes that share a PostgreSQL: the commit
//! decides, and a read that it refuses is not recorded, not charged and not answered.

use std::time::Duration;

use domain::charge::Outcome;
use domain::id::NodeId;
use proptest::prelude::*;
use store::calls::{self, RecentCalls};
use store::metering::{self, Hold, HoldOutcome, MeterOptions, PendingHold};
use store::testing::{self, TestStore};
use store::{Store, keys};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, cases, credits, entry, grant, is_held, resolution,
};

/// The `number`-th node.
pub(crate) fn node(number: usize) -> NodeId {
    NodeId::new(NOON, [u8::try_from(number).unwrap() + 1; 10])
}

/// Starts a node that writes the hold of a read when the read ends or is waited for.
async fn start(store: &Store, number: usize) -> TestMetering {
    let recovery = metering::recover(store, node(number), NOON).await.unwrap();
    let options = MeterOptions {
        patience: Duration::from_hours(1),
        queue_age_max: Duration::from_mins(1),
        read_wait_max: Duration::from_mins(1),
        ..MeterOptions::new(node(number), recovery.epoch)
    };
    TestMetering::with(store, options)
}

/// Makes a node see the caller's balance, by a call that costs nothing.
pub(crate) async fn look(metering: &TestMetering, caller: &TestCaller) {
    let hold = caller.hold(0);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);
}

/// A read that leaves before its hold is committed.
pub(crate) async fn leave(metering: &TestMetering, hold: Hold) -> PendingHold {
    let read = metering.meter.reserve_read(hold).await.unwrap();
    assert!(read.may_leave());
    read
}

/// The outcome of a read that the platform has answered.
pub(crate) async fn answered(mut read: PendingHold) -> HoldOutcome {
    let apart = read.resolve_together(resolution(read.call_id(), Outcome::Answered));
    let outcome = read.durable().await;
    if let (Some(apart), true) = (apart, is_held(&outcome)) {
        read.resolve_apart(apart);
    }
    outcome
}

/// The available and the spent credits, and the number of recorded calls that cost something, once
/// no call is open.
pub(crate) async fn books(store: &Store, caller: &TestCaller) -> (i64, i64, usize) {
    let balance = caller.balance(store).await;
    assert_eq!(balance.held, credits(0));
    let all = RecentCalls::of(caller.customer, 1_000);
    let recorded = calls::recent(store, &all).await.unwrap().calls;
    let costly = recorded.iter().filter(|call| call.cost > credits(0)).count();
    (balance.available.whole(), balance.spent.whole(), costly)
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_leaves_only_if_the_seen_balance_covers_it_and_all_that_is_in_flight() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = start(&store, 0).await;

    let unknown = metering.meter.reserve_read(caller.hold(1)).await.unwrap();
    assert!(!unknown.may_leave());
    assert!(is_held(&answered(unknown).await));
    let first = leave(&metering, caller.hold(5)).await;
    let second = metering.meter.reserve_read(caller.hold(5)).await.unwrap();
    assert!(!second.may_leave());

    let outcomes = [answered(second).await, answered(first).await];

    assert_eq!(outcomes.iter().filter(|outcome| is_held(outcome)).count(), 1, "{outcomes:?}");
    metering.stop().await;
    assert_eq!(books(&store, &caller).await, (4, 6, 2));
    assert_sound(&store).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_that_left_is_refused_and_free_when_another_node_took_the_credits() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let nodes = [start(&store, 0).await, start(&store, 1).await];
    look(&nodes[0], &caller).await;
    let read = leave(&nodes[0], caller.hold(1)).await;

    let other = caller.hold(10);
    assert!(is_held(&nodes[1].hold(other.clone()).await));
    assert!(nodes[1].end(other.call_id, Outcome::Answered).await);
    let refused = answered(read).await;

    assert!(
        matches!(refused, HoldOutcome::Insufficient { balance } if balance == credits(0)),
        "{refused:?}"
    );
    // What was seen with the refusal keeps the next one from leaving.
    let next = nodes[0].meter.reserve_read(caller.hold(1)).await.unwrap();
    assert!(!next.may_leave());
    assert!(!is_held(&answered(next).await));
    assert_eq!(books(&store, &caller).await, (0, 10, 1));
    assert_sound(&store).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_that_left_is_refused_and_free_when_its_key_was_revoked() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = start(&store, 0).await;
    look(&metering, &caller).await;
    let read = leave(&metering, caller.hold(1)).await;

    let noted = entry(caller.customer);
    assert!(keys::revoke(&store, caller.customer, caller.key, &noted).await.unwrap());

    let refused = answered(read).await;
    assert!(matches!(refused, HoldOutcome::KeyRefused), "{refused:?}");
    assert_eq!(books(&store, &caller).await, (10, 0, 0));
    assert_sound(&store).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_that_left_is_refused_and_free_when_its_account_was_changed() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = start(&store, 0).await;
    look(&metering, &caller).await;
    let read = leave(&metering, caller.hold(1)).await;

    let state = domain::account::AccountState::ReconnectNeeded;
    let (account, version) = (&caller.account, caller.account_version);
    let changed =
        store::accounts::set_state(&store, caller.customer, account, version, state).await;
    assert!(changed.unwrap().is_some());

    let refused = answered(read).await;
    assert!(matches!(refused, HoldOutcome::AccountChanged), "{refused:?}");
    assert_eq!(books(&store, &caller).await, (10, 0, 0));
    assert_sound(&store).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn nothing_leaves_after_a_commit_failed_until_the_balance_was_seen_again() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = start(&store, 0).await;
    look(&metering, &caller).await;
    let read = leave(&metering, caller.hold(1)).await;
    for refuse in [
        "create trigger refuse_calls before insert on open_calls
         for each row execute function refuse_change('refused for the test')",
        "create trigger refuse_calls before insert on ended_calls
         for each row execute function refuse_change('refused for the test')",
    ] {
        testing::run_raw(&store, refuse).await.unwrap();
    }

    let failed = answered(read).await;
    let mut next = metering.meter.reserve_read(caller.hold(1)).await.unwrap();

    assert!(matches!(failed, HoldOutcome::Failed(_)), "{failed:?}");
    assert!(!next.may_leave());
    assert!(!is_held(&next.durable().await));
    for allow in
        ["drop trigger refuse_calls on open_calls", "drop trigger refuse_calls on ended_calls"]
    {
        testing::run_raw(&store, allow).await.unwrap();
    }
    assert_eq!(books(&store, &caller).await, (10, 0, 0));
    look(&metering, &caller).await;
    assert!(is_held(&answered(leave(&metering, caller.hold(1)).await).await));
    assert_sound(&store).await;
}

/// A crash loses the trace of reads whose answers nobody got, and no credits.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_that_left_a_node_that_crashed_is_neither_recorded_nor_charged() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let nodes = [start(&store, 0).await, start(&store, 1).await];
    for metering in &nodes {
        look(metering, &caller).await;
    }
    let [crashing, other] = nodes;
    let mut read = leave(&crashing, caller.hold(3)).await;

    crashing.crash().await;

    let lost = read.durable().await;
    assert!(matches!(lost, HoldOutcome::Failed(_)), "{lost:?}");
    assert_eq!(books(&store, &caller).await, (10, 0, 0));
    assert!(is_held(&answered(leave(&other, caller.hold(10)).await).await));
    other.stop().await;
    assert_sound(&store).await;
}

/// A read whose hold was written and refused while the platform was still answering.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_that_was_refused_before_it_ended_has_nothing_to_settle() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 10).await;
    let recovery = metering::recover(&store, node(0), NOON).await.unwrap();
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let options = MeterOptions {
        patience: Duration::from_millis(1),
        queue_age_max: Duration::from_mins(1),
        on_batch: std::sync::Arc::new(move |report| drop(sender.send(report.clone()))),
        ..MeterOptions::new(node(0), recovery.epoch)
    };
    let metering = TestMetering::with(&store, options);
    look(&metering, &caller).await;

    let mut read = leave(&metering, Hold { key_version: 7, ..caller.hold(1) }).await;
    loop {
        let report = reports.recv().await.unwrap();
        if (report.holds, report.held) == (1, 0) {
            break;
        }
    }

    let end = read.resolve_together(resolution(read.call_id(), Outcome::Answered));
    assert!(end.is_some());
    assert!(matches!(read.durable().await, HoldOutcome::KeyChanged));
    assert_eq!(books(&store, &caller).await, (10, 0, 0));
}

/// Every node sees enough for all of its reads, and together they ask for twice what there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn credits_that_run_out_on_three_nodes_at_once_pay_for_exactly_as_many_reads() {
    const CREDITS: i64 = 90;
    const READS_OF_A_NODE: usize = 60;
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, CREDITS).await;
    let nodes = [start(&store, 0).await, start(&store, 1).await, start(&store, 2).await];
    for metering in &nodes {
        look(metering, &caller).await;
    }
    let mut reads = Vec::new();
    for metering in &nodes {
        for _ in 0..READS_OF_A_NODE {
            reads.push(leave(metering, caller.hold(1)).await);
        }
    }

    let mut answers = tokio::task::JoinSet::new();
    for read in reads {
        answers.spawn(answered(read));
    }
    let outcomes = answers.join_all().await;

    let charged = outcomes.iter().filter(|outcome| is_held(outcome)).count();
    let refused =
        outcomes.iter().filter(|outcome| matches!(outcome, HoldOutcome::Insufficient { .. }));
    assert_eq!((charged, refused.count()), (90, 90));
    for metering in nodes {
        metering.stop().await;
    }
    assert_eq!(books(&store, &caller).await, (0, CREDITS, 90));
    assert_sound(&store).await;
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Read,
    /// A read whose hold is written before it ends.
    SlowRead,
    Write,
}

#[derive(Debug, Clone)]
enum NodeStep {
    /// A call begins at a node.
    Begin {
        node: usize,
        cost: i64,
        kind: Kind,
    },
    /// A call ends.
    End {
        which: usize,
        outcome: Outcome,
    },
    /// A node is killed and starts again.
    Crash {
        node: usize,
    },
    Grant {
        amount: i64,
    },
    /// The account is changed, so that calls without a hold are refused when it is written.
    ChangeAccount,
}

const KINDS: &[Kind] = &[Kind::Read, Kind::Read, Kind::SlowRead, Kind::Write];

fn steps() -> impl Strategy<Value = Vec<NodeStep>> {
    let outcome = prop::sample::select(Outcome::ALL);
    let step = prop_oneof![
        10 => (0_usize..3, 0_i64..8, prop::sample::select(KINDS))
            .prop_map(|(node, cost, kind)| NodeStep::Begin { node, cost, kind }),
        8 => (0_usize..64, outcome).prop_map(|(which, outcome)| NodeStep::End { which, outcome }),
        1 => (0_usize..3).prop_map(|node| NodeStep::Crash { node }),
        1 => (1_i64..20).prop_map(|amount| NodeStep::Grant { amount }),
        1 => Just(NodeStep::ChangeAccount),
    ];
    prop::collection::vec(step, 1..60)
}

/// A call that has begun and whose end is not known.
struct OpenCall {
    node: usize,
    cost: i64,
    pending: PendingHold,
}

/// Three nodes, and what their customer was told.
struct Cluster {
    store: TestStore,
    caller: TestCaller,
    nodes: Vec<Option<TestMetering>>,
    open: Vec<OpenCall>,
    granted: i64,
    /// The sum of the calls that were answered with a charge.
    charged: i64,
}

impl Cluster {
    async fn new(store: TestStore) -> Self {
        let caller = TestCaller::with(&store, 30).await;
        let mut nodes = Vec::new();
        for number in 0..3 {
            nodes.push(Some(start(&store, number).await));
        }
        Self { store, caller, nodes, open: Vec::new(), granted: 30, charged: 0 }
    }

    fn node(&self, number: usize) -> &TestMetering {
        self.nodes[number].as_ref().unwrap()
    }

    async fn step(&mut self, step: NodeStep) {
        match step {
            NodeStep::Begin { node, cost, kind } => self.begin(node, cost, kind).await,
            NodeStep::End { which, outcome } => {
                if !self.open.is_empty() {
                    let call = self.open.swap_remove(which % self.open.len());
                    self.end(call, outcome).await;
                }
            }
            NodeStep::Crash { node } => self.crash(node).await,
            NodeStep::Grant { amount } => {
                grant(&self.store, self.caller.customer, amount).await;
                self.granted += amount;
            }
            NodeStep::ChangeAccount => {
                let state = domain::account::AccountState::Active;
                let (account, version) = (&self.caller.account, self.caller.account_version);
                let customer = self.caller.customer;
                let changed =
                    store::accounts::set_state(&self.store, customer, account, version, state);
                if let Some(newer) = changed.await.unwrap() {
                    self.caller.account_version = newer;
                }
            }
        }
    }

    async fn begin(&mut self, node: usize, cost: i64, kind: Kind) {
        let hold = self.caller.hold(cost);
        let meter = &self.node(node).meter;
        let reserved = match kind {
            Kind::Read | Kind::SlowRead => meter.reserve_read(hold).await,
            Kind::Write => meter.reserve(hold).await,
        };
        let mut pending = reserved.unwrap();
        let is_sent = pending.may_leave() || is_held(&pending.durable().await);
        if is_sent {
            if matches!(kind, Kind::SlowRead) {
                pending.durable().await;
            }
            self.open.push(OpenCall { node, cost, pending });
        }
    }

    /// Ends a call, and charges it to the model if its answer would be returned.
    async fn end(&mut self, mut call: OpenCall, outcome: Outcome) {
        let told = call.pending.resolve_and_tell(resolution(call.pending.call_id(), outcome));
        let held = is_held(&call.pending.durable().await);
        assert_eq!(told.await, held);
        if held && outcome.is_charged() {
            self.charged += call.cost;
        }
    }

    /// What was in memory is gone; what was held is refunded.
    async fn crash(&mut self, number: usize) {
        self.nodes[number].take().unwrap().crash().await;
        self.open.retain(|call| call.node != number);
        self.nodes[number] = Some(start(&self.store, number).await);
    }

    async fn finish(mut self) {
        for call in std::mem::take(&mut self.open) {
            self.end(call, Outcome::Answered).await;
        }
        for node in self.nodes.drain(..).flatten() {
            node.stop().await;
        }
        let balance = self.caller.balance(&self.store).await;
        assert_eq!((balance.held, balance.spent), (credits(0), credits(self.charged)));
        assert_eq!(balance.available, credits(self.granted - self.charged));
        assert_sound(&self.store).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    #[ignore = "needs PostgreSQL"]
    fn what_three_nodes_answer_is_what_is_charged(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = testing::postgres().await;
            let mut cluster = Cluster::new(store).await;
            for step in steps {
                cluster.step(step).await;
            }
            cluster.finish().await;
        });
    }
}
