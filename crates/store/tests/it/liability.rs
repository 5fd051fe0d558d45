//! The report of outstanding credits: its sum is the sum of all balances.

use domain::charge::Outcome;
use domain::id::EntryId;
use domain::lots::LotSource;
use domain::time::Timestamp;
use store::ledger::{self, CreditGrant};
use store::{Store, liability, testing};

use crate::support::{NOON, TestCaller, TestMetering, credits, is_held, unique};

const DAY_S: i64 = 86_400;

async fn give(store: &Store, caller: &TestCaller, source: LotSource, amount: i64, days_ago: i64) {
    let entry = EntryId::new(NOON, unique());
    let at = NOON.plus_seconds(-days_ago * DAY_S);
    let grant = CreditGrant {
        entry,
        customer: caller.customer,
        amount: credits(amount),
        kind: "gift",
        source: "adj",
        source_id: &entry.to_string(),
        reference: None,
        lot: source,
        expires_at: (source == LotSource::Plan).then(|| NOON.plus_seconds(DAY_S)),
        at,
    };
    ledger::grant(store, &grant).await.unwrap();
}

async fn lines(store: &Store, at: Timestamp) -> Vec<(LotSource, i64, Option<i64>, i64, i64)> {
    let read = liability::read(store, at).await.unwrap();
    let line = |line: &liability::LiabilityLine| {
        let (credits, endless) = (line.credits.whole(), line.without_expiry.whole());
        (line.source, line.days_from, line.days_until, credits, endless)
    };
    read.lines.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outstanding_credits_are_summed_by_source_and_age_after_what_was_spent() {
    for store in testing::stores().await {
        let (ada, bob) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
        give(&store, &ada, LotSource::Pack, 100, 400).await;
        give(&store, &ada, LotSource::Plan, 30, 1).await;
        give(&store, &bob, LotSource::Pack, 50, 90).await;
        let metering = TestMetering::start(&store).await;
        // The plan's credits expire first, so they are spent first.
        for cost in [40, 2] {
            let hold = ada.hold(cost);
            let call = hold.call_id;
            assert!(is_held(&metering.hold(hold).await));
            if cost == 40 {
                assert!(metering.end(call, Outcome::Answered).await);
            }
        }
        metering.stop().await;

        let read = liability::read(&store, NOON).await.unwrap();

        assert_eq!(
            lines(&store, NOON).await,
            [(LotSource::Pack, 90, Some(180), 50, 50), (LotSource::Pack, 365, None, 88, 88),]
        );
        assert_eq!(
            (read.outstanding, read.held, read.debt),
            (credits(138), credits(2), credits(0))
        );
        assert_eq!(read.customers, 2);
        let balances = [ada.balance(&store).await, bob.balance(&store).await];
        let sum: i64 = balances.iter().map(|balance| balance.available.whole()).sum();
        assert_eq!(sum, read.outstanding.whole());
    }
}

#[tokio::test]
async fn without_customers_nothing_is_outstanding() {
    for store in testing::stores().await {
        let read = liability::read(&store, NOON).await.unwrap();

        assert_eq!((read.lines.len(), read.outstanding, read.customers), (0, credits(0), 0));
    }
}
