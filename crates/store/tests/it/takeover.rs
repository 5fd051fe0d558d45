//! Who refunds holds that nobody settles.

use std::time::Duration;

use domain::charge::Outcome;
use domain::id::{CallId, NodeId};
use domain::time::Timestamp;
use store::takeover::{TakeoverObserver, TakeoverWatch};
use store::testing;

use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, is_held, node};

/// What a process that carries out the calls `live` sees.
struct Observer<'a> {
    node: NodeId,
    live: &'a [CallId],
    now: Timestamp,
    at: Duration,
}

impl TakeoverObserver for Observer<'_> {
    fn node(&self) -> NodeId {
        self.node
    }

    fn is_live(&self, call: CallId) -> bool {
        self.live.contains(&call)
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn running_for(&self) -> Duration {
        self.at
    }
}

/// Looks every ten seconds from second `from` to second `to`, and returns when holds were refunded.
async fn refunds(
    (store, watch): (&store::Store, &mut TakeoverWatch),
    (node, live): (NodeId, &[CallId]),
    (from, to): (u64, u64),
    mut between: impl AsyncFnMut(u64),
) -> Vec<(u64, usize)> {
    let mut refunds = Vec::new();
    for second in (from..=to).step_by(10) {
        let now = NOON.plus_seconds(100_000);
        let observer = Observer { node, live, now, at: Duration::from_secs(second) };
        let taken = watch.look(store, &observer).await.unwrap();
        if taken.holds > 0 {
            refunds.push((second, taken.holds));
        }
        between(second).await;
    }
    refunds
}

/// As after a clock has jumped: each hold looks expired from the first look on.
#[tokio::test]
async fn a_process_refunds_what_it_has_itself_seen_unrenewed_for_two_minutes_and_no_live_call() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let (live, lost) = (caller.hold(1), caller.hold(2));
    for hold in [&live, &lost] {
        assert!(is_held(&metering.hold(hold.clone()).await));
    }
    let own = (node(), [live.call_id]);

    let mut watch = TakeoverWatch::default();
    let seen = refunds((&store, &mut watch), (own.0, &own.1), (0, 600), async |_| ()).await;

    assert_eq!(seen, [(120, 1)]);
    assert_eq!(caller.balance(&store).await.available, credits(9));
    let ended = metering.end(live.call_id, Outcome::Answered).await;
    assert!(ended && !metering.end(lost.call_id, Outcome::Answered).await);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_hold_that_is_renewed_or_whose_node_lives_is_left_alone_by_other_nodes() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let renewed = caller.hold(1);
    for hold in [renewed.clone(), caller.hold(2)] {
        assert!(is_held(&metering.hold(hold).await));
    }
    let other = NodeId::new(NOON, [8; 10]);
    let (shared, meter) = (&store, &metering.meter);

    let mut watch = TakeoverWatch::default();
    // Its node reports every ten seconds, with a clock that stands still.
    let beats = async |_| assert!(store::nodes::heartbeat(shared, node(), NOON).await.unwrap());
    let beside = refunds((shared, &mut watch), (other, &[]), (0, 600), beats).await;
    // The node is gone, but a renewal that it had sent comes late.
    let comes_late = async |second| {
        if second == 700 {
            meter.renew(renewed.call_id, renewed.expires_at.plus_seconds(60));
            assert!(
                is_held(&metering.hold(caller.hold(0)).await),
                "later requests are written later"
            );
        }
    };
    let after = refunds((shared, &mut watch), (other, &[]), (610, 900), comes_late).await;

    assert_eq!(beside, []);
    // The last heartbeat was seen at 610; the hold that was made at 700 was seen at 710.
    assert_eq!(after, [(730, 1), (830, 2)]);
    assert_sound(shared).await;
}

#[tokio::test]
async fn the_two_minutes_begin_anew_when_the_database_was_away() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    assert!(is_held(&metering.hold(caller.hold(1)).await));
    let mut watch = TakeoverWatch::default();
    let (own, nothing) = ((node(), &[][..]), async |_| ());

    let before = refunds((&store, &mut watch), own, (0, 110), nothing).await;
    // No look for 40 seconds.
    let after = refunds((&store, &mut watch), own, (150, 400), nothing).await;

    assert_eq!((before, after), (vec![], vec![(270, 1)]));
    assert_sound(&store).await;
}
