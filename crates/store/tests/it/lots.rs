//! Lots: which credits are spent, taken and expired first, when they expire, and the limits of all
//! that.

use domain::charge::Outcome;
use domain::id::EntryId;
use domain::lots::LATE_LIFE_S;
use domain::time::Timestamp;
use store::ledger::{self, CreditGrant, CreditGrantOutcome};
use store::{Store, StoreError, customers, lots, testing};

use crate::ledger::purchase;
use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, credits, is_held, new_customer, spend, unique,
};

const DAY_S: i64 = 86_400;
/// What the stored lots have left, and what of them was spent.
const LOTS: &str =
    "select cast(credits_left as text) || ' ' || cast(spent as text) as line from lots";

fn days(count: i64) -> Timestamp {
    NOON.plus_seconds(count * DAY_S)
}

/// Grants credits that expire after some days; none if they do not.
async fn granted(store: &Store, caller: &TestCaller, amount: i64, expires: Option<i64>) {
    let entry = EntryId::new(NOON, unique());
    let source = entry.to_string();
    let grant =
        CreditGrant { entry, expires_at: expires.map(days), ..purchase(caller, amount, &source) };
    let granting = ledger::grant(store, &grant).await.unwrap();
    assert!(matches!(granting, CreditGrantOutcome::Granted { .. }), "{granting:?}");
}

/// Takes credits away under this source.
async fn take(store: &Store, caller: &TestCaller, amount: i64, source: &str) -> CreditGrantOutcome {
    ledger::remove(store, &purchase(caller, amount, source)).await.unwrap()
}

async fn settle(store: &Store, caller: &TestCaller, at: Timestamp) {
    let entry = EntryId::new(at, unique());
    lots::settle(store, caller.customer, entry, at).await.unwrap();
}

/// What each lot has left, and the days after which it expires.
async fn left(store: &Store, caller: &TestCaller, at: Timestamp) -> Vec<(i64, Option<i64>)> {
    let listed = lots::list(store, caller.customer, at).await.unwrap();
    let days_of = |end: Timestamp| end.micros_since(NOON) / 1_000_000 / DAY_S;
    listed.iter().map(|lot| (lot.left, lot.expires_at.map(days_of))).collect()
}

#[tokio::test]
async fn credits_that_expire_soonest_are_spent_and_taken_first() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    granted(&store, &caller, 10, None).await;
    granted(&store, &caller, 10, Some(9)).await;
    granted(&store, &caller, 10, Some(3)).await;

    assert_eq!(left(&store, &caller, NOON).await, [(10, Some(3)), (10, Some(9)), (10, None)]);
    spend(&store, &caller, 4).await;
    assert_eq!(left(&store, &caller, NOON).await, [(6, Some(3)), (10, Some(9)), (10, None)]);
    let taken = take(&store, &caller, 8, "re_1").await;

    assert_eq!(taken, CreditGrantOutcome::Granted { balance: credits(18) });
    assert_eq!(left(&store, &caller, NOON).await, [(8, Some(9)), (10, None)]);
    spend(&store, &caller, 17).await;
    assert_eq!(left(&store, &caller, NOON).await, [(1, None)]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn looking_at_lots_changes_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    granted(&store, &caller, 10, Some(3)).await;
    spend(&store, &caller, 4).await;
    let seen = left(&store, &caller, days(100)).await;

    assert_eq!(seen, [(6, Some(3))], "it expires when it is settled");
    assert_eq!(testing::lines(&store, LOTS).await.unwrap(), ["10 0"]);
    settle(&store, &caller, NOON).await;
    assert_eq!(testing::lines(&store, LOTS).await.unwrap(), ["6 4"]);
    let nobody = TestCaller { customer: new_customer("nobody@example.com").id, ..caller };
    assert_eq!(left(&store, &nobody, NOON).await, []);
    settle(&store, &nobody, NOON).await;
}

#[tokio::test]
async fn taking_more_than_was_ever_granted_changes_nothing_and_says_the_maximum() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 50).await);
    assert_eq!(
        take(&store, &caller, 1, "re_0").await,
        CreditGrantOutcome::TooMany { at_most: credits(0) }
    );
    granted(&store, &caller, 10, None).await;
    granted(&store, &caller, 5, Some(1)).await;
    spend(&store, &caller, 7).await;

    let refused = take(&store, &caller, 16, "re_1").await;
    assert_eq!(refused, CreditGrantOutcome::TooMany { at_most: credits(15) });
    assert_eq!(left(&store, &caller, NOON).await, [(8, None)]);
    // The refused attempt did not use the source up.
    let taken = take(&store, &caller, 15, "re_1").await;

    assert_eq!(taken, CreditGrantOutcome::Granted { balance: credits(0) });
    assert_eq!(caller.balance(&store).await.debt, credits(7));
    assert_eq!(
        take(&store, &caller, 1, "re_2").await,
        CreditGrantOutcome::TooMany { at_most: credits(0) }
    );
    assert_eq!(other.balance(&store).await.available, credits(50));
    assert_sound(&store).await;
}

#[tokio::test]
async fn expired_credits_cannot_be_taken() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    granted(&store, &caller, 10, Some(1)).await;
    granted(&store, &caller, 5, None).await;

    let late = CreditGrant { at: days(1), ..purchase(&caller, 6, "re_1") };
    let refused = ledger::remove(&store, &late).await.unwrap();

    assert_eq!(refused, CreditGrantOutcome::TooMany { at_most: credits(5) });
    let early = CreditGrant { at: days(1).plus_micros(-1), ..late };
    let taken = ledger::remove(&store, &early).await.unwrap();
    assert_eq!(taken, CreditGrantOutcome::Granted { balance: credits(9) });
    assert_sound(&store).await;
}

#[tokio::test]
async fn credits_expire_at_their_instant_and_once() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    granted(&store, &caller, 10, Some(1)).await;
    granted(&store, &caller, 3, None).await;
    granted(&store, &other, 10, Some(2)).await;
    let is_due = async |owner: &TestCaller, at| lots::is_due(&store, owner.customer, at).await;
    let early = days(1).plus_micros(-1);

    assert!(!is_due(&caller, early).await.unwrap());
    settle(&store, &caller, early).await;
    assert_eq!(caller.balance(&store).await.available, credits(13));
    assert!(is_due(&caller, days(1)).await.unwrap());
    assert!(!is_due(&other, days(1)).await.unwrap());
    for _ in 0..2 {
        settle(&store, &caller, days(1)).await;
        assert_eq!(caller.balance(&store).await.available, credits(3));
        assert!(!is_due(&caller, days(1)).await.unwrap());
    }

    let entries = testing::lines(
        &store,
        "select cast(amount as text) as line from ledger where kind = 'expiry'",
    );
    assert_eq!(entries.await.unwrap(), ["-10"]);
    assert_eq!(other.balance(&store).await.available, credits(10));
    assert_sound(&store).await;
}

#[tokio::test]
async fn fully_spent_credits_do_not_expire() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    granted(&store, &caller, 10, Some(1)).await;
    spend(&store, &caller, 10).await;

    assert!(lots::is_due(&store, caller.customer, days(1)).await.unwrap(), "not attributed yet");
    settle(&store, &caller, days(1)).await;

    assert!(!lots::is_due(&store, caller.customer, days(1)).await.unwrap());
    let entries = testing::lines(&store, "select kind as line from ledger order by place");
    assert_eq!(entries.await.unwrap(), ["adjustment"]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn credits_held_while_their_lot_expired_can_be_spent_for_30_days_when_they_return() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    granted(&store, &caller, 10, Some(1)).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(8);
    assert!(is_held(&metering.hold(hold.clone()).await));

    settle(&store, &caller, days(1)).await;
    assert_eq!(caller.balance(&store).await.available, credits(0), "two expired");
    assert!(metering.end(hold.call_id, Outcome::ConnectFailed).await);
    settle(&store, &caller, days(2)).await;

    assert_eq!(caller.balance(&store).await.available, credits(8));
    let expected = 2 + LATE_LIFE_S / DAY_S;
    assert_eq!(left(&store, &caller, days(2)).await, [(8, Some(expected))]);
    assert!(is_held(&metering.hold(caller.hold(8)).await));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_round_of_expiry_covers_a_hundred_customers_and_the_next_one_the_rest() {
    let store = testing::store().await;
    for number in 0..101 {
        let new = new_customer(&format!("c{number}@example.com"));
        customers::create(&store, &new).await.unwrap();
        let source = format!("adj_{number}");
        let caller = TestCaller {
            customer: new.id,
            key: new.first_key.id,
            key_hash: new.first_key.secret.hash,
            key_version: 0,
            account: crate::support::creator("ada"),
            account_version: 0,
        };
        let expiring = CreditGrant { expires_at: Some(days(1)), ..purchase(&caller, 1, &source) };
        ledger::grant(&store, &expiring).await.unwrap();
    }
    let round = async |at: Timestamp| {
        lots::expire_due(&store, at, || EntryId::new(at, unique())).await.unwrap()
    };

    assert_eq!(round(days(1).plus_micros(-1)).await, 0);
    assert_eq!((round(days(1)).await, round(days(1)).await, round(days(1)).await), (100, 1, 0));

    let left = testing::lines(
        &store,
        "select cast(cast(sum(available) as bigint) as text) as line from customer_credits",
    );
    assert_eq!(left.await.unwrap(), ["0"]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_debt_is_paid_by_the_next_credits_even_if_they_expire() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    spend(&store, &caller, 10).await;
    take(&store, &caller, 10, "re_1").await;
    let figures = async || {
        let balance = caller.balance(&store).await;
        (balance.available.whole(), balance.debt.whole())
    };
    assert_eq!(figures().await, (0, 10));

    granted(&store, &caller, 4, Some(1)).await;
    assert_eq!(figures().await, (0, 6));
    granted(&store, &caller, 9, Some(1)).await;
    assert_eq!(figures().await, (3, 0));
    settle(&store, &caller, days(1)).await;

    assert_eq!(figures().await, (0, 0), "only what was left has expired");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_sum_beyond_the_largest_number_is_refused_and_changes_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    granted(&store, &caller, i64::MAX, None).await;
    assert_eq!(caller.balance(&store).await.available, credits(i64::MAX));
    let taken = take(&store, &caller, i64::MAX, "re_1").await;
    assert_eq!(taken, CreditGrantOutcome::Granted { balance: credits(0) });

    let refused = ledger::grant(&store, &purchase(&caller, 1, "adj_1")).await;

    assert!(matches!(refused, Err(StoreError::TooLarge)), "{refused:?}");
    let balance = caller.balance(&store).await;
    assert_eq!((balance.available, balance.debt), (credits(0), credits(0)));
    assert_eq!(left(&store, &caller, NOON).await, []);
}

#[tokio::test]
async fn concurrent_grants_removals_calls_and_expiry_keep_the_ledger_sound() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    granted(&store, &caller, 50, Some(1)).await;
    let metering = TestMetering::start(&store).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12_i64 {
        let (shared, caller) = ((*store).clone(), caller.clone());
        tasks.spawn(async move {
            let source = format!("adj_{number}");
            match number % 3 {
                0 => granted(&shared, &caller, 10, Some(number % 2)).await,
                1 => {
                    take(&shared, &caller, 5, &source).await;
                }
                _ => settle(&shared, &caller, days(number % 2)).await,
            }
        });
    }
    let calls: Vec<_> = (0..12).map(|_| caller.hold(3)).collect();
    for hold in &calls {
        assert!(is_held(&metering.hold(hold.clone()).await));
        assert!(metering.end(hold.call_id, Outcome::Answered).await);
    }

    tasks.join_all().await;
    metering.stop().await;
    settle(&store, &caller, days(1)).await;

    let balance = caller.balance(&store).await;
    assert_eq!(balance.spent, credits(36));
    assert_sound(&store).await;
    let listed = left(&store, &caller, days(1)).await;
    let sum: i64 = listed.iter().map(|(amount, _)| *amount).sum();
    assert_eq!(sum, balance.available.whole());
}
