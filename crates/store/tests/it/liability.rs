//! The report of outstanding credits: its sum is the sum of all balances.

use domain::charge::Outcome;
use domain::id::EntryId;
use domain::lots::LotSource;
use domain::time::Timestamp;
use store::erasure::{self, ErasureMode, ErasureOutcome};
use store::ledger::{self, CreditGrant, CreditGrantOutcome};
use store::{Store, liability, testing};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, credits, entry, is_held, unique,
};

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
    let store = testing::store().await;
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
    assert_eq!((read.outstanding, read.held, read.debt), (credits(138), credits(2), credits(0)));
    assert_eq!(read.customers, 2);
    let balances = [ada.balance(&store).await, bob.balance(&store).await];
    let sum: i64 = balances.iter().map(|balance| balance.available.whole()).sum();
    assert_eq!(sum, read.outstanding.whole());
}

#[tokio::test]
async fn an_erased_customer_gets_nothing_and_is_owed_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 40).await;
    let no_jobs = |_: &[String]| Vec::new();
    let erased =
        erasure::erase(&store, &entry(caller.customer), ErasureMode::Commit, &no_jobs).await;
    assert!(matches!(erased, Ok(ErasureOutcome::Erased(_))), "{erased:?}");
    let id = EntryId::new(NOON, unique());
    let grant = CreditGrant {
        entry: id,
        customer: caller.customer,
        amount: credits(5),
        kind: "adjustment",
        source: "adjustment",
        source_id: "late",
        reference: None,
        lot: LotSource::Gift,
        expires_at: None,
        at: NOON,
    };

    let granted = ledger::adjust(&store, &grant, false, &entry(caller.customer)).await.unwrap();
    let taken = ledger::adjust(&store, &grant, true, &entry(caller.customer)).await.unwrap();

    assert_eq!(granted, CreditGrantOutcome::Erased);
    assert_eq!(taken, CreditGrantOutcome::Granted { balance: credits(35) });
    let read = liability::read(&store, NOON).await.unwrap();
    assert_eq!((read.lines.len(), read.outstanding, read.customers), (0, credits(0), 0));
    assert_sound(&store).await;
}

#[tokio::test]
async fn without_customers_nothing_is_outstanding() {
    let store = testing::store().await;
    let read = liability::read(&store, NOON).await.unwrap();

    assert_eq!((read.lines.len(), read.outstanding, read.customers), (0, credits(0), 0));
}
