//! What the operator grants and takes: once for each reference, together with its audit entry, and
//! never for a customer that was erased.

use domain::charge::Outcome;
use domain::lots::LotSource;
use store::audit::{self, AuditEntry, AuditQuery};
use store::erasure::{self, ErasureMode};
use store::ledger::{self, CreditGrant, CreditGrantOutcome, OperatorAdjustment};
use store::{Store, testing};

use crate::ledger::purchase;
use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, credits, entry, is_held, new_customer,
};

/// A number of credits under a reference, as operators adjust balances.
fn adjustment<'a>(
    caller: &TestCaller,
    amount: i64,
    reference: &'a str,
    source_id: &'a str,
) -> CreditGrant<'a> {
    CreditGrant {
        source: "adjustment",
        reference: Some(reference),
        ..purchase(caller, amount, source_id)
    }
}

/// Adds credits under a reference, or takes them if there are fewer than zero.
pub(crate) async fn adjust(
    store: &Store,
    caller: &TestCaller,
    amount: i64,
    reference: &str,
) -> CreditGrantOutcome {
    let source_id = format!("{}:{reference}", caller.customer);
    let adjusted = adjustment(caller, amount.abs(), reference, &source_id);
    let by = entry(caller.customer);
    ledger::adjust(store, &adjusted, amount < 0, &by).await.unwrap()
}

async fn found(store: &Store, caller: &TestCaller, reference: &str) -> Option<i64> {
    let found = ledger::find_adjustment(store, caller.customer, reference).await.unwrap();
    found.map(|found| found.amount)
}

async fn entries(store: &Store, caller: &TestCaller) -> usize {
    let query = AuditQuery { customer: caller.customer, action: "key.", before: None, limit: 99 };
    audit::list(store, &query).await.unwrap().len()
}

const fn granted(balance: i64) -> CreditGrantOutcome {
    CreditGrantOutcome::Granted { balance: domain::credits::Credits::from_whole(balance) }
}

#[tokio::test]
async fn an_adjustment_is_recorded_once_for_its_reference_with_one_audit_entry() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);

    assert_eq!(adjust(&store, &caller, 10, "ticket 7").await, granted(10));
    assert_eq!(adjust(&store, &caller, 10, "ticket 7").await, CreditGrantOutcome::Repeated);
    assert_eq!(adjust(&store, &caller, -4, "ticket 7").await, CreditGrantOutcome::Repeated);
    assert_eq!(adjust(&store, &caller, -4, "ticket 8").await, granted(6));
    assert_eq!(adjust(&store, &other, 1, "ticket 7").await, granted(1));
    let too_many = adjust(&store, &caller, -7, "ticket 9").await;
    assert_eq!(too_many, CreditGrantOutcome::TooMany { at_most: credits(6) });

    assert_eq!((entries(&store, &caller).await, entries(&store, &other).await), (2, 1));
    assert_eq!(found(&store, &caller, "ticket 7").await, Some(10));
    assert_eq!(found(&store, &caller, "ticket 8").await, Some(-4));
    assert_eq!(found(&store, &caller, "ticket 9").await, None);
    assert_eq!(found(&store, &other, "ticket 7").await, Some(1));
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_adjustment_without_its_audit_entry_is_not_recorded() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let known = entry(caller.customer);
    audit::record(&store, &known).await.unwrap();
    let wanted = adjustment(&caller, 10, "ticket 7", "ticket 7");

    let failed = ledger::adjust(&store, &wanted, false, &known).await;

    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(caller.balance(&store).await.available, credits(0));
    assert_eq!(found(&store, &caller, "ticket 7").await, None);
    let next = AuditEntry { actor: "operator".to_owned(), ..entry(caller.customer) };
    let done = ledger::adjust(&store, &wanted, false, &next).await.unwrap();
    assert_eq!(done, granted(10));
    assert_sound(&store).await;
}

/// Credits taken from several lots are several entries with sources of their own.
#[tokio::test]
async fn a_reference_is_never_taken_for_an_entry_of_another_one() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    for reference in ["one", "two", "three"] {
        adjust(&store, &caller, 10, reference).await;
    }

    assert_eq!(adjust(&store, &caller, -25, "ticket").await, granted(5));
    for (number, reference) in (1_i64..).zip(["ticket:1", "ticket:2", "ticket:3"]) {
        assert_eq!(adjust(&store, &caller, 10, reference).await, granted(5 + 10 * number));
    }
    assert_eq!(adjust(&store, &caller, 1, "later:1").await, granted(36));
    assert_eq!(adjust(&store, &caller, -36, "later").await, granted(0));

    assert_eq!(found(&store, &caller, "ticket").await, Some(-25));
    assert_eq!(found(&store, &caller, "ticket:1").await, Some(10));
    assert_eq!(found(&store, &caller, "later").await, Some(-36));
    assert_eq!(adjust(&store, &caller, -1, "ticket").await, CreditGrantOutcome::Repeated);
    assert_eq!(adjust(&store, &caller, -1, "later").await, CreditGrantOutcome::Repeated);
    assert_sound(&store).await;
}

#[tokio::test]
async fn what_a_reference_adjusted_is_found_with_its_expiry() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let end = NOON.plus_seconds(86_400);
    let expiring = CreditGrant { expires_at: Some(end), ..adjustment(&caller, 10, "a", "a") };
    ledger::grant(&store, &expiring).await.unwrap();
    let foreign = CreditGrant { source: "pi", ..adjustment(&caller, 5, "b", "b") };
    ledger::grant(&store, &foreign).await.unwrap();

    let adjusted = async |reference: &str| {
        ledger::find_adjustment(&store, caller.customer, reference).await.unwrap()
    };

    let expected = OperatorAdjustment { amount: 10, expires_at: Some(end) };
    assert_eq!(adjusted("a").await, Some(expected));
    for none in ["b", "", "A", "a ", "%", "_"] {
        assert_eq!(adjusted(none).await, None, "{none}");
    }
}

#[tokio::test]
async fn references_are_stored_as_they_are_written() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let references = ["it's 100 % \"safe\"", "a_b\\c", "été ✓ 日本", "$1; drop table ledger", "x"];

    for reference in references {
        adjust(&store, &caller, 1, reference).await;
    }

    for reference in references {
        assert_eq!(found(&store, &caller, reference).await, Some(1), "{reference}");
    }
    let stored = testing::lines(&store, "select reference as line from ledger order by place");
    assert_eq!(stored.await.unwrap(), references);
    assert_eq!(caller.balance(&store).await.available, credits(5));
}

#[tokio::test]
async fn an_erased_customer_is_given_nothing_and_may_lose_what_it_had() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let by = entry(caller.customer);
    erasure::erase(&store, &by, ErasureMode::Commit, &|_| Vec::new()).await.unwrap();

    assert_eq!(adjust(&store, &caller, 5, "gift").await, CreditGrantOutcome::Erased);
    assert_eq!(found(&store, &caller, "gift").await, None);
    assert_eq!(adjust(&store, &caller, -10, "unused").await, granted(0));

    assert_eq!(caller.balance(&store).await.available, credits(0));
    assert_sound(&store).await;
}

#[tokio::test]
async fn unknown_customers_have_no_adjustments() {
    let store = testing::store().await;
    let known = TestCaller::with(&store, 10).await;
    let nobody = TestCaller { customer: new_customer("nobody@example.com").id, ..known.clone() };

    for amount in [5, -5] {
        let by = entry(known.customer);
        let adjusted = adjustment(&nobody, 5, "x", "x");
        let outcome = ledger::adjust(&store, &adjusted, amount < 0, &by).await.unwrap();
        assert_eq!(outcome, CreditGrantOutcome::NoCustomer);
    }

    assert_eq!(found(&store, &nobody, "x").await, None);
    assert_eq!(entries(&store, &known).await, 0);
    assert_eq!(ledger::trial(&store, nobody.customer).await.unwrap(), credits(0));
}

#[tokio::test]
async fn a_trial_is_what_the_trial_granted_and_stays_when_it_is_spent() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 7).await, TestCaller::with(&store, 0).await);
    let id = caller.customer.to_string();
    let trial = CreditGrant {
        kind: "trial",
        source: "trial",
        source_id: &id,
        lot: LotSource::Trial,
        expires_at: Some(NOON.plus_seconds(60)),
        ..adjustment(&caller, 25, "trial", &id)
    };
    assert_eq!(ledger::trial(&store, caller.customer).await.unwrap(), credits(0));

    ledger::grant(&store, &trial).await.unwrap();
    let again = CreditGrant { amount: credits(50), ..trial };
    assert_eq!(ledger::grant(&store, &again).await.unwrap(), CreditGrantOutcome::Repeated);
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(30);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);
    metering.stop().await;

    assert_eq!(ledger::trial(&store, caller.customer).await.unwrap(), credits(25));
    assert_eq!(ledger::trial(&store, other.customer).await.unwrap(), credits(0));
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_erasure_and_a_gift_that_race_leave_no_gift_after_the_erasure() {
    let store = testing::store().await;
    for _ in 0..6 {
        let caller = TestCaller::with(&store, 0).await;
        let by = entry(caller.customer);

        let (erased, given) = tokio::join!(
            erasure::erase(&store, &by, ErasureMode::Commit, &|_| Vec::new()),
            adjust(&store, &caller, 5, "gift")
        );

        erased.unwrap();
        let expected = match given {
            CreditGrantOutcome::Granted { .. } => 5,
            other => {
                assert_eq!(other, CreditGrantOutcome::Erased);
                0
            }
        };
        assert_eq!(caller.balance(&store).await.available, credits(expected));
    }
    assert_sound(&store).await;
}
