//! The ledger: each source is recorded once, debts are paid first, and charges are listed by day.

use domain::charge::Outcome;
use domain::id::EntryId;
use domain::lots::LotSource;
use store::ledger::{self, CreditGrant, CreditGrantOutcome};
use store::ledger_pages::{self, LedgerQuery};
use store::metering::Hold;
use store::testing;
use store::usage::UsageOf;

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, credits, grant, is_held, new_customer, unique,
};

pub(crate) fn purchase<'a>(
    caller: &TestCaller,
    amount: i64,
    source_id: &'a str,
) -> CreditGrant<'a> {
    CreditGrant {
        entry: EntryId::new(NOON, unique()),
        customer: caller.customer,
        amount: credits(amount),
        kind: "adjustment",
        source: "adj",
        source_id,
        reference: Some("order 7"),
        lot: LotSource::Gift,
        expires_at: None,
        at: NOON,
    }
}

#[tokio::test]
async fn concurrent_grants_of_one_source_count_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (shared, caller) = ((*store).clone(), caller.clone());
        tasks.spawn(async move {
            ledger::grant(&shared, &purchase(&caller, 100, "pi_1")).await.unwrap()
        });
    }

    let outcomes = tasks.join_all().await;

    let granted = CreditGrantOutcome::Granted { balance: credits(100) };
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == granted).count(), 1);
    assert_eq!(
        outcomes.iter().filter(|outcome| **outcome == CreditGrantOutcome::Repeated).count(),
        19
    );
    assert_eq!(caller.balance(&store).await.available, credits(100));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_source_counts_once_across_customers() {
    let store = testing::store().await;
    let (one, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);

    ledger::grant(&store, &purchase(&one, 100, "pi_1")).await.unwrap();
    let again = ledger::grant(&store, &purchase(&other, 100, "pi_1")).await.unwrap();

    assert_eq!(again, CreditGrantOutcome::Repeated);
    assert_eq!(other.balance(&store).await.available, credits(0));
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_unknown_customer_is_granted_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let stranger = TestCaller { customer: new_customer("nobody@example.com").id, ..caller };

    let granting = ledger::grant(&store, &purchase(&stranger, 1, "pi_1")).await.unwrap();

    assert_eq!(granting, CreditGrantOutcome::NoCustomer);
}

#[tokio::test]
async fn taking_spent_credits_makes_a_debt_that_is_paid_first() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(8);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);

    let removed = ledger::remove(&store, &purchase(&caller, 10, "re_1")).await.unwrap();

    assert_eq!(removed, CreditGrantOutcome::Granted { balance: credits(0) });
    assert_eq!(caller.balance(&store).await.debt, credits(8));
    assert!(!is_held(&metering.hold(caller.hold(1)).await));
    grant(&store, caller.customer, 20).await;
    let balance = caller.balance(&store).await;
    assert_eq!((balance.available, balance.debt), (credits(12), credits(0)));
    let again = ledger::remove(&store, &purchase(&caller, 10, "re_1")).await.unwrap();
    assert_eq!(again, CreditGrantOutcome::Repeated);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_refund_of_a_call_pays_the_debt_first() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(8);
    assert!(is_held(&metering.hold(hold.clone()).await));
    ledger::remove(&store, &purchase(&caller, 5, "re_1")).await.unwrap();
    assert_eq!(caller.balance(&store).await.debt, credits(3));

    assert!(metering.end(hold.call_id, Outcome::ConnectFailed).await);

    let balance = caller.balance(&store).await;
    assert_eq!((balance.available, balance.debt), (credits(5), credits(0)));
    assert!(is_held(&metering.hold(caller.hold(5)).await));
    assert_sound(&store).await;
}

#[tokio::test]
async fn pages_list_entries_and_daily_charges() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    ledger::grant(&store, &purchase(&caller, 100, "pi_1")).await.unwrap();
    let metering = TestMetering::start(&store).await;
    let day = 86_400;
    for (cost, at) in [(1, NOON), (2, NOON), (5, NOON.plus_seconds(day))] {
        let hold = Hold { held_at: at, ..caller.hold(cost) };
        assert!(is_held(&metering.hold(hold.clone()).await));
        assert!(metering.end(hold.call_id, Outcome::Answered).await);
    }
    let refused = caller.hold(9);
    assert!(is_held(&metering.hold(refused.clone()).await));
    assert!(metering.end(refused.call_id, Outcome::Upstream5xx).await);

    let of = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    let now = NOON.plus_seconds(day + 60);
    let query = LedgerQuery { of, kind: None, before: None, limit: 50, now };
    let entries = ledger_pages::page(&store, &query).await.unwrap().unwrap();

    let shown: Vec<_> = entries
        .iter()
        .map(|entry| {
            (entry.kind.as_str(), entry.amount.whole(), entry.reference.as_deref().unwrap())
        })
        .collect();
    assert_eq!(
        shown,
        [("usage", -5, "2026-11-22"), ("usage", -3, "2026-11-21"), ("adjustment", 100, "order 7"),]
    );
    assert_eq!(entries[2].balance_after, Some(credits(100)));
    assert_eq!(entries[1].at, NOON.day().last_instant());
    assert_eq!(entries[1].balance_after, Some(credits(97)));
    assert_eq!((entries[0].at, entries[0].balance_after), (now, Some(credits(92))));
    let newest = LedgerQuery { limit: 1, ..query };
    assert_eq!(ledger_pages::page(&store, &newest).await.unwrap().unwrap(), entries[..1]);
    for (index, entry) in entries.iter().enumerate() {
        let rest = LedgerQuery { before: Some(entry.line), ..query };
        let rest = ledger_pages::page(&store, &rest).await.unwrap().unwrap();
        assert_eq!(rest, entries[index + 1..], "after {}", entry.line);
    }
    let own = LedgerQuery { of: UsageOf { key: Some(caller.key), ..of }, ..query };
    let own = ledger_pages::page(&store, &own).await.unwrap().unwrap();
    let amounts: Vec<i64> = own.iter().map(|entry| entry.amount.whole()).collect();
    assert_eq!(amounts, [-5, -3]);
    assert!(own.iter().all(|entry| entry.balance_after.is_none()));
    let stranger = TestCaller::with(&store, 1).await;
    let strangers = UsageOf { customer: stranger.customer, key: None, only_allowed: false };
    let foreign = LedgerQuery { of: strangers, before: Some(entries[2].line), ..query };
    assert_eq!(ledger_pages::page(&store, &foreign).await.unwrap(), None);
}

#[tokio::test]
async fn the_ledger_is_append_only() {
    let store = testing::store().await;
    TestCaller::with(&store, 10).await;

    for sql in ["update ledger set amount = 11", "delete from ledger"] {
        assert!(testing::run_raw(&store, sql).await.is_err(), "{sql}");
    }
    assert_sound(&store).await;
}
