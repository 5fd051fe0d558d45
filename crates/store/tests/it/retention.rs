//! Retention: what is summed up and deleted, what stays, and that the books stay exact.

use domain::breakdown::BreakdownBy;
use domain::charge::Outcome;
use domain::customer::TrialState;
use domain::id::{AuditId, CallId, JobId};
use domain::job::JobKind;
use domain::time::Timestamp;
use store::audit::{self, AuditEntry, AuditQuery};
use store::calls::{self, RecentCalls};
use store::customers::{self, NewCustomer};
use store::jobs::{self, JobClaimant, NewJob};
use store::metering::{Hold, IdempotencyClaim};
use store::registration::{self, NewRegistration};
use store::{Store, call_totals, testing, unconfirmed, verify};

use crate::breakdown::{end, hold_at, query, read};
use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, grant, is_held, new_customer, node, unique,
};

const DAY_S: i64 = 86_400;

/// The start of the day before `NOON`'s.
fn yesterday() -> Timestamp {
    NOON.day().plus_days(-1).start()
}

/// Sums up everything that began before `before`, in batches of this size; returns their sizes.
async fn roll_up_all(store: &Store, before: Timestamp, limit: i64) -> Vec<u64> {
    let (mut after, mut sizes) = (None, Vec::new());
    loop {
        let batch = call_totals::roll_up(store, after, before, limit).await.unwrap();
        if batch.calls == 0 {
            return sizes;
        }
        sizes.push(batch.calls);
        after = batch.last;
    }
}

async fn listed(store: &Store, caller: &TestCaller) -> Vec<CallId> {
    let wanted = RecentCalls::of(caller.customer, 1_000);
    let page = calls::recent(store, &wanted).await.unwrap();
    page.calls.iter().map(|call| call.id).collect()
}

/// Calls of some days, with several tags, routes and outcomes.
async fn many_calls(metering: &TestMetering, caller: &TestCaller) {
    const ENDS: [(Outcome, u16); 4] = [
        (Outcome::Answered, 200),
        (Outcome::Answered, 404),
        (Outcome::Upstream5xx, 503),
        (Outcome::Upstream429, 429),
    ];
    for number in 0..60_i64 {
        let at = NOON.plus_seconds(-(number % 5) * DAY_S - number);
        let tag = (number % 3 > 0).then(|| format!("tag-{}", number % 3).parse().unwrap());
        let route = if number % 2 == 0 { "users/me".into() } else { "GET chats/{}/notes".into() };
        let hold = Hold { tag, route, ..hold_at(caller, 1 + number % 2, at) };
        let (outcome, status) = ENDS[usize::try_from(number).unwrap() % ENDS.len()];
        end(metering, hold, outcome, status).await;
    }
}

#[tokio::test]
async fn the_books_and_every_breakdown_are_the_same_after_calls_are_summed_up() {
    const ALL: [BreakdownBy; 4] =
        [BreakdownBy::Account, BreakdownBy::Key, BreakdownBy::Route, BreakdownBy::Tag];
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1_000).await;
    let metering = TestMetering::start(&store).await;
    many_calls(&metering, &caller).await;
    let mut before = Vec::new();
    for by in ALL {
        before.push(read(&store, &query(&caller, by)).await);
    }
    let balance = caller.balance(&store).await;

    assert_eq!(roll_up_all(&store, yesterday(), 7).await, [7, 7, 7, 7, 7, 1]);
    // Again after further calls of the same days: the totals grow.
    many_calls(&metering, &caller).await;
    assert_eq!(roll_up_all(&store, yesterday(), 1_000).await, [36]);

    assert_eq!(listed(&store, &caller).await.len(), 48);
    for (by, earlier) in ALL.into_iter().zip(before) {
        let after = read(&store, &query(&caller, by)).await;
        assert_eq!(after.entries.len(), earlier.entries.len(), "{by}");
        for (one, both) in earlier.entries.iter().zip(&after.entries) {
            assert_eq!((&one.name, one.counts.calls * 2), (&both.name, both.counts.calls));
            assert_eq!(one.counts.credits.whole() * 2, both.counts.credits.whole());
            assert_eq!(one.counts.ok * 2, both.counts.ok);
        }
        assert_eq!(after.total.calls, 120);
        assert_eq!(after.total.credits, caller.balance(&store).await.spent);
    }
    assert_eq!(balance.spent.whole() * 2, caller.balance(&store).await.spent.whole());
    assert_sound(&store).await;
    metering.stop().await;
}

#[tokio::test]
async fn open_calls_and_those_that_a_repetition_needs_stay() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let old = NOON.plus_seconds(-9 * DAY_S);
    let claim = |key| IdempotencyClaim {
        key_hash: [key; 32],
        fingerprint: [2; 32],
        identity: None,
        expires_at: old.plus_seconds(DAY_S),
    };
    let open = Hold { expires_at: NOON.plus_seconds(170), ..hold_at(&caller, 1, old) };
    let open_id = open.call_id;
    assert!(is_held(&metering.hold(open).await));
    let kept = Hold { idempotency: Some(claim(1)), ..hold_at(&caller, 1, old) };
    let kept_id = kept.call_id;
    end(&metering, kept, Outcome::Answered, 200).await;
    end(&metering, hold_at(&caller, 1, old), Outcome::Answered, 200).await;

    assert_eq!(roll_up_all(&store, yesterday(), 10).await, [1]);

    let mut stayed = listed(&store, &caller).await;
    stayed.sort_unstable();
    let mut expected = [open_id, kept_id];
    expected.sort_unstable();
    assert_eq!(stayed, expected);
    assert_sound(&store).await;

    // The stored response is deleted when it has expired; then its call may go.
    store::idempotency::delete_expired(&store, NOON, 10).await.unwrap();
    assert_eq!(roll_up_all(&store, yesterday(), 10).await, [1]);
    assert_eq!(listed(&store, &caller).await, [open_id]);
    assert_sound(&store).await;
    metering.stop().await;
}

/// Nodes skip each other's rows, or wait for each other: no call is counted twice.
#[tokio::test]
async fn two_nodes_that_sum_up_concurrently_count_each_call_once() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1_000).await;
    let metering = TestMetering::start(&store).await;
    many_calls(&metering, &caller).await;

    let one = async { roll_up_all(&store, yesterday(), 3).await };
    let other = async { roll_up_all(&store, yesterday(), 4).await };
    let (one, other) = tokio::join!(one, other);

    assert_eq!(one.iter().chain(&other).sum::<u64>(), 36);
    assert_eq!(read(&store, &query(&caller, BreakdownBy::Tag)).await.total.calls, 60);
    assert_sound(&store).await;
    metering.stop().await;
}

#[tokio::test]
async fn totals_that_lost_a_call_are_detected() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1_000).await;
    let metering = TestMetering::start(&store).await;
    many_calls(&metering, &caller).await;
    metering.stop().await;
    roll_up_all(&store, yesterday(), 100).await;

    let sql = "delete from call_totals where outcome = 'answered'";
    assert_ne!(testing::run_raw(&store, sql).await.unwrap(), 0);

    let violations = verify::check(&store, NOON).await.unwrap();
    let mut rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
    rules.dedup();
    let expected = [
        "a customer's spent credits equal the charges of its settled calls and exports",
        "usage by day counts every settled call once",
        "usage by endpoint counts every settled call once",
    ];
    assert_eq!(rules, expected);
}

async fn register(store: &Store, customer: &NewCustomer) {
    let registration = NewRegistration { customer, trial_limits: &[], jobs: &[] };
    registration::register(store, &registration).await.unwrap();
}

#[tokio::test]
async fn only_customers_that_were_never_confirmed_nor_used_are_deleted() {
    let store = testing::store().await;
    let unused = new_customer("unused@example.com");
    let funded = new_customer("funded@example.com");
    let young =
        NewCustomer { created_at: NOON.plus_seconds(1), ..new_customer("young@example.com") };
    let confirmed = NewCustomer {
        email_verified_at: Some(NOON),
        trial: TrialState::None,
        ..new_customer("confirmed@example.com")
    };
    for customer in [&unused, &funded, &young, &confirmed] {
        register(&store, customer).await;
    }
    grant(&store, funded.id, 5).await;
    let before = NOON.plus_seconds(1);

    let deleted = async |until| {
        let (mut after, mut deleted) = (None, 0);
        loop {
            // One by one, so that those that stay are passed over.
            let step = unconfirmed::delete(&store, after, until, 1).await.unwrap();
            deleted += step.deleted;
            if step.last.is_none() {
                return deleted;
            }
            after = step.last;
        }
    };
    assert_eq!(deleted(NOON).await, 0);
    assert_eq!(deleted(before).await, 1);
    assert_eq!(deleted(before).await, 0);

    let found = async |customer: &NewCustomer| {
        customers::find_by_id(&store, customer.id).await.unwrap().is_some()
    };
    assert!(!found(&unused).await);
    assert!(found(&funded).await && found(&young).await && found(&confirmed).await);
    assert_sound(&store).await;
    // The address can be registered again.
    register(&store, &new_customer("unused@example.com")).await;
}

#[tokio::test]
async fn jobs_that_were_given_up_long_ago_are_deleted() {
    let store = testing::store().await;
    let job = |at| NewJob {
        id: JobId::new(at, unique()),
        kind: JobKind::ALL[0],
        payload: "{}".to_owned(),
        created_at: at,
    };
    jobs::enqueue(&store, &job(NOON)).await.unwrap();
    let claimant = JobClaimant { node: node(), now: NOON, leased_until: NOON.plus_seconds(60) };
    let claimed = jobs::claim(&store, &claimant).await.unwrap().unwrap();
    jobs::give_up(&store, claimed.id, claimed.attempt, NOON, "no").await.unwrap();
    jobs::enqueue(&store, &job(NOON)).await.unwrap();

    assert_eq!(jobs::delete_given_up(&store, NOON, 10).await.unwrap(), 0);
    let later = NOON.plus_seconds(1);
    assert_eq!(jobs::delete_given_up(&store, later, 10).await.unwrap(), 1);

    let counts = jobs::count(&store).await.unwrap();
    assert_eq!((counts.waiting, counts.given_up), (1, 0));
}

#[tokio::test]
async fn entries_of_the_audit_list_can_be_removed_only_after_their_time() {
    let store = testing::store().await;
    let customer = new_customer("ada@example.com");
    register(&store, &customer).await;
    let times = [-2, -1, 0].map(|days: i64| NOON.plus_seconds(days * DAY_S));
    for at in times {
        let entry = AuditEntry {
            id: AuditId::new(at, unique()),
            customer: customer.id,
            at,
            actor: "operator".to_owned(),
            action: "key.created".to_owned(),
            details: "{}".to_owned(),
        };
        audit::record(&store, &entry).await.unwrap();
    }
    let kept = async || {
        let query = AuditQuery { customer: customer.id, action: "key.", before: None, limit: 10 };
        let entries = audit::list(&store, &query).await.unwrap();
        entries.into_iter().map(|entry| entry.at).collect::<Vec<_>>()
    };
    let by_hand = "delete from audit";
    testing::run_raw(&store, by_hand).await.unwrap_err();

    // One by one: the oldest first.
    assert_eq!(audit::delete_old(&store, NOON, 1).await.unwrap(), 1);
    assert_eq!(kept().await, [times[2], times[1]]);
    assert_eq!(audit::delete_old(&store, NOON, 10).await.unwrap(), 1);
    assert_eq!(audit::delete_old(&store, NOON, 10).await.unwrap(), 0);
    assert_eq!(kept().await, [times[2]]);
    // A node with a longer time neither fails nor moves the boundary back.
    assert_eq!(audit::delete_old(&store, times[0], 10).await.unwrap(), 0);
    testing::run_raw(&store, by_hand).await.unwrap_err();
    assert_eq!(kept().await, [times[2]]);
}
