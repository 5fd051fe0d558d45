//! Notices to customers: each is sent once, by one node at a time, and found by what is stored.

use domain::charge::Outcome;
use domain::id::JobId;
use domain::job::JobKind;
use domain::notice::NoticeKind;
use store::audit::AuditEntry;
use store::jobs::NewJob;
use store::keys::NewKey;
use store::notice_choices::{self, NoticeChoice};
use store::sent_notices::{self, NoticeReason};
use store::{Store, notice_reasons, suspensions, testing};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, create_key, credits, entry, entry_at,
    fresh_secret, grant, is_held, new_key, unique,
};

const MINUTE_S: i64 = 60;

pub(crate) fn email() -> NewJob {
    NewJob {
        id: JobId::new(NOON, unique()),
        kind: JobKind::SendMail,
        payload: "{}".to_owned(),
        created_at: NOON,
    }
}

/// A caller that was granted these credits and has spent some.
pub(crate) async fn spender(store: &Store, granted: i64, spent: i64) -> TestCaller {
    let caller = TestCaller::with(store, granted).await;
    spend(store, &caller, spent).await;
    caller
}

pub(crate) async fn spend(store: &Store, caller: &TestCaller, amount: i64) {
    let metering = TestMetering::start(store).await;
    let hold = caller.hold(amount);
    let call = hold.call_id;
    assert!(is_held(&metering.hold(hold).await));
    assert!(metering.end(call, Outcome::Answered).await);
    metering.stop().await;
}

pub(crate) async fn choose(store: &Store, caller: &TestCaller, choice: NoticeChoice) {
    notice_choices::set(store, &[choice], &entry(caller.customer)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_nodes_send_a_notice_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (shared, customer) = ((*store).clone(), caller.customer);
        tasks.spawn(async move {
            let subjects = ["one".to_owned(), "two".to_owned()];
            let kind = NoticeKind::ExpiringCredits;
            let reason = NoticeReason { kind, customer, subjects: &subjects, at: NOON };
            sent_notices::send_once(&shared, &reason, &email()).await.unwrap()
        });
    }

    let sent = tasks.join_all().await;

    assert_eq!(sent.iter().filter(|sent| **sent).count(), 1);
    assert_eq!(store::jobs::count(&store).await.unwrap().waiting, 1);
    let news = NoticeReason {
        kind: NoticeKind::ExpiringCredits,
        customer: caller.customer,
        subjects: &["two".to_owned(), "three".to_owned()],
        at: NOON,
    };
    assert!(sent_notices::send_once(&store, &news, &email()).await.unwrap());
    assert!(!sent_notices::send_once(&store, &news, &email()).await.unwrap());
    suspensions::suspend(&store, "a test", &entry(caller.customer)).await.unwrap();
    let other = NoticeReason { subjects: &["four".to_owned()], ..news };
    assert!(!sent_notices::send_once(&store, &other, &email()).await.unwrap());
}

#[tokio::test]
async fn one_node_looks_at_a_time_and_a_look_that_is_cut_off_is_made_again() {
    let store = testing::store().await;
    let first = sent_notices::claim_look(&store, NOON, MINUTE_S).await.unwrap().unwrap();
    assert!(first.is_first && first.since == NOON);
    let at = |minutes: i64| NOON.plus_seconds(minutes * MINUTE_S);
    let soon = NOON.plus_seconds(MINUTE_S - 1);
    assert_eq!(sent_notices::claim_look(&store, soon, MINUTE_S).await.unwrap(), None);
    sent_notices::end_look(&store, NOON).await.unwrap();

    // This look is cut off: it does not end.
    let second = sent_notices::claim_look(&store, at(20), MINUTE_S).await.unwrap().unwrap();
    let third = sent_notices::claim_look(&store, at(21), MINUTE_S).await.unwrap().unwrap();
    sent_notices::end_look(&store, at(21)).await.unwrap();
    let fourth = sent_notices::claim_look(&store, at(40), MINUTE_S).await.unwrap().unwrap();

    assert!(!second.is_first && second.since == at(-10));
    assert_eq!(third.since, second.since);
    assert_eq!(fourth.since, at(11));
    let later = at(1_000_000);
    let late = sent_notices::claim_look(&store, later, MINUTE_S).await.unwrap().unwrap();
    assert_eq!(late.since, later.plus_seconds(-3 * 86_400), "old events are not told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fall_below_the_threshold_is_one_reason() {
    let store = testing::store().await;
    let low = async || -> Vec<(String, i64)> {
        let found = notice_reasons::low_balances(&store, credits(50), NOON).await.unwrap();
        found.iter().map(|low| (low.customer.to_string(), low.threshold.whole())).collect()
    };
    let old = spender(&store, 20, 1).await;
    assert_eq!(sent_notices::skip_low_balances(&store, credits(50), NOON).await.unwrap(), 1);
    let caller = spender(&store, 60, 10).await;
    let unused = TestCaller::with(&store, 40).await;
    assert_eq!(low().await, [], "50 is not below 50, and nothing was spent of the 40");
    spend(&store, &caller, 1).await;
    let name = caller.customer.to_string();
    assert_eq!(low().await, [(name.clone(), 50)]);

    let reason = NoticeReason {
        kind: NoticeKind::LowBalance,
        customer: caller.customer,
        subjects: &[String::new()],
        at: NOON,
    };
    assert!(sent_notices::send_once(&store, &reason, &email()).await.unwrap());
    assert_eq!(low().await, []);
    assert_eq!(sent_notices::forget_risen_balances(&store, credits(50)).await.unwrap(), 0);
    grant(&store, caller.customer, 25).await;
    assert_eq!(
        sent_notices::forget_risen_balances(&store, credits(50)).await.unwrap(),
        0,
        "74 is not half as high again as 50"
    );
    grant(&store, caller.customer, 1).await;
    assert_eq!(sent_notices::forget_risen_balances(&store, credits(50)).await.unwrap(), 1);
    assert_eq!(low().await, [], "75 is not below 50");
    let own = |is_on, threshold: Option<i64>| NoticeChoice {
        kind: NoticeKind::LowBalance,
        is_on,
        threshold: threshold.map(credits),
    };
    choose(&store, &caller, own(true, Some(100))).await;
    assert_eq!(low().await, [(name, 100)]);
    choose(&store, &caller, own(false, None)).await;
    assert_eq!(low().await, []);
    let known = notice_choices::list(&store, caller.customer).await.unwrap();
    assert_eq!(known, [own(false, Some(100))], "the threshold stays");
    assert!(low().await.is_empty() && old.customer != unused.customer);
    assert_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_a_reason_from_eighty_percent_on() {
    let store = testing::store().await;
    let owner = TestCaller::with(&store, 100).await;
    let key = NewKey {
        name: "nightly".to_owned(),
        monthly_budget: Some(credits(10)),
        ..new_key(fresh_secret())
    };
    create_key(&store, owner.customer, &key).await;
    let caller = TestCaller { key: key.id, key_hash: key.secret.hash, ..owner };
    let used = async |at| -> Vec<(String, i64, i64)> {
        let (found, last) = notice_reasons::used_budgets(&store, at, None).await.unwrap();
        assert_eq!(last, None);
        found.into_iter().map(|one| (one.name, one.used, one.budget)).collect()
    };

    spend(&store, &caller, 7).await;
    assert_eq!(used(NOON).await, []);
    spend(&store, &caller, 1).await;
    assert_eq!(used(NOON).await, [("nightly".to_owned(), 8, 10)]);
    assert_eq!(used(NOON.plus_seconds(40 * 86_400)).await, [], "another month");
    let off = NoticeChoice { kind: NoticeKind::KeyBudgets, is_on: false, threshold: None };
    choose(&store, &caller, off).await;
    assert_eq!(used(NOON).await, []);
}

#[tokio::test]
async fn entries_of_the_audit_list_are_found_from_their_time_on() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (before, after) = (NOON.plus_seconds(-600), NOON.plus_seconds(600));
    for (at, action) in [
        (before, "key.created"),
        (NOON, "key.rotated"),
        (NOON, "key.deleted"),
        (NOON, "subscription.changed"),
        (after, "password.changed"),
    ] {
        let entry = AuditEntry { action: action.to_owned(), ..entry_at(caller.customer, at) };
        store::audit::record(&store, &entry).await.unwrap();
    }
    let ended = r#"{"plan_id":null,"status":"canceled"}"#.to_owned();
    let end = AuditEntry {
        action: "subscription.changed".to_owned(),
        details: ended,
        ..entry_at(caller.customer, after)
    };
    store::audit::record(&store, &end).await.unwrap();
    let found = async |since| -> Vec<String> {
        let events = notice_reasons::audit_events(&store, since).await.unwrap();
        events.into_iter().map(|event| event.action).collect()
    };

    assert_eq!(found(NOON).await, ["key.rotated", "password.changed", "subscription.changed"]);
    assert_eq!(found(after).await.len(), 2);
    assert_eq!(found(before).await.len(), 4);
    let off = NoticeChoice { kind: NoticeKind::KeyChanges, is_on: false, threshold: None };
    choose(&store, &caller, off).await;
    assert_eq!(found(before).await, ["password.changed", "subscription.changed"]);
}

#[tokio::test]
async fn sent_notices_are_forgotten_except_of_low_balances() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let told = [
        (NoticeKind::LowBalance, ""),
        (NoticeKind::LowBalance, "top_up"),
        (NoticeKind::Payments, "x"),
    ];
    for (kind, subject) in told {
        let subjects = &[subject.to_owned()];
        let reason = NoticeReason { kind, customer: caller.customer, subjects, at: NOON };
        assert!(sent_notices::send_once(&store, &reason, &email()).await.unwrap());
    }

    assert_eq!(sent_notices::delete_old(&store, NOON).await.unwrap(), 0);
    assert_eq!(sent_notices::delete_old(&store, NOON.plus_seconds(1)).await.unwrap(), 2);
}
