//! Claims that one of several nodes gets for a time: the comparison with the processor, and the
//! refresh of an account's token.

use domain::account::AccountState;
use domain::id::NodeId;
use domain::time::Timestamp;
use store::reconciliations::{self, ReconciliationProgress};
use store::{Store, accounts, refresh_claims, testing};

use crate::support::{NOON, TestCaller, creator, new_account, node};

const NOTHING: ReconciliationProgress =
    ReconciliationProgress { read_until: None, compared_on: None };

fn other_node() -> NodeId {
    NodeId::new(NOON, [8; 10])
}

async fn claim(
    store: &Store,
    node: NodeId,
    now: Timestamp,
    until: Timestamp,
) -> Option<ReconciliationProgress> {
    reconciliations::claim(store, node, now, until).await.unwrap()
}

#[tokio::test]
async fn one_node_compares_at_a_time_and_the_next_one_continues() {
    let store = testing::store().await;
    let until = NOON.plus_seconds(60);
    assert_eq!(claim(&store, node(), NOON, until).await, Some(NOTHING));
    assert_eq!(claim(&store, other_node(), NOON.plus_seconds(59), until).await, None);

    let progress = ReconciliationProgress { read_until: Some(NOON), compared_on: Some(NOON.day()) };
    reconciliations::release(&store, node(), &progress).await.unwrap();

    let next = claim(&store, other_node(), NOON.plus_seconds(1), until).await;
    assert_eq!(next, Some(progress));
    assert_eq!(claim(&store, node(), NOON.plus_seconds(2), until).await, None);
}

#[tokio::test]
async fn a_node_may_claim_its_own_comparison_again() {
    let store = testing::store().await;
    let until = NOON.plus_seconds(60);
    claim(&store, node(), NOON, until).await.unwrap();

    // It restarted, and knows nothing of its claim.
    let later = until.plus_seconds(30);
    assert_eq!(claim(&store, node(), NOON.plus_seconds(1), later).await, Some(NOTHING));

    assert_eq!(claim(&store, other_node(), until, later).await, None, "the claim was extended");
    assert_eq!(claim(&store, other_node(), later, later).await, Some(NOTHING));
}

#[tokio::test]
async fn a_node_that_lost_its_comparison_neither_renews_nor_ends_it() {
    let store = testing::store().await;
    let (end, later) = (NOON.plus_seconds(60), NOON.plus_seconds(120));
    claim(&store, node(), NOON, end).await.unwrap();
    assert!(reconciliations::renew(&store, node(), end.plus_seconds(5)).await.unwrap());
    assert_eq!(claim(&store, other_node(), end, later).await, None, "it was renewed");
    let taken = claim(&store, other_node(), end.plus_seconds(5), later).await;
    assert_eq!(taken, Some(NOTHING));

    let late = ReconciliationProgress { read_until: Some(later), compared_on: Some(later.day()) };
    assert!(!reconciliations::renew(&store, node(), later).await.unwrap());
    reconciliations::release(&store, node(), &late).await.unwrap();

    assert_eq!(claim(&store, node(), end.plus_seconds(6), later).await, None);
    let done = ReconciliationProgress { read_until: Some(end), compared_on: None };
    reconciliations::release(&store, other_node(), &done).await.unwrap();
    assert!(!reconciliations::renew(&store, other_node(), later).await.unwrap());
    assert_eq!(claim(&store, node(), end, later).await, Some(done));
}

#[tokio::test]
async fn of_nodes_that_claim_a_comparison_concurrently_one_gets_it() {
    let store = testing::store().await;
    for round in 0..3 {
        let (now, until) = (NOON.plus_seconds(round * 60), NOON.plus_seconds(round * 60 + 60));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..12 {
            let shared = (*store).clone();
            let node = NodeId::new(NOON, [number; 10]);
            tasks.spawn(async move { claim(&shared, node, now, until).await.is_some() });
        }

        let claimed = tasks.join_all().await;

        // The holder of the previous round may be first again.
        assert_eq!(claimed.iter().filter(|claimed| **claimed).count(), 1, "round {round}");
    }
}

#[tokio::test]
async fn a_released_refresh_is_free_immediately() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let account = (caller.customer, &caller.account, caller.account_version);
    let until = NOON.plus_seconds(30);
    assert!(refresh_claims::claim(&store, account, NOON, until).await.unwrap());

    // A release of another version is not one of this claim.
    let older = (caller.customer, &caller.account, caller.account_version - 1);
    refresh_claims::release(&store, older).await.unwrap();
    assert!(!refresh_claims::claim(&store, account, NOON, until).await.unwrap());
    refresh_claims::release(&store, account).await.unwrap();

    assert!(refresh_claims::claim(&store, account, NOON, until).await.unwrap());
    assert!(!refresh_claims::claim(&store, account, until.plus_micros(-1), until).await.unwrap());
    assert!(refresh_claims::claim(&store, account, until, until).await.unwrap());
}

#[tokio::test]
async fn a_refresh_is_claimed_for_one_account_of_one_customer() {
    let store = testing::store().await;
    let (one, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    let second = new_account(one.customer, "bob");
    accounts::connect(&store, &second).await.unwrap();
    let until = NOON.plus_seconds(30);
    let claim = async |caller: &TestCaller, name: &str| {
        let name = creator(name);
        let found = accounts::find(&store, caller.customer, &name).await.unwrap();
        let version = found.map_or(0, |account| account.version);
        let account = (caller.customer, &name, version);
        refresh_claims::claim(&store, account, NOON, until).await.unwrap()
    };

    assert!(claim(&one, "ada").await);
    assert!(claim(&one, "bob").await);
    assert!(claim(&other, "ada").await);
    assert!(!claim(&other, "bob").await, "it has no such account");
    assert!(!claim(&one, "ada").await && !claim(&one, "bob").await);
}

#[tokio::test]
async fn changed_accounts_forget_claims_of_their_earlier_version() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, name, version) = (caller.customer, &caller.account, caller.account_version);
    let until = NOON.plus_seconds(30);
    assert!(refresh_claims::claim(&store, (customer, name, version), NOON, until).await.unwrap());

    // The claim was for the old credentials: the new ones are nobody's yet.
    accounts::connect(&store, &new_account(customer, "ada")).await.unwrap();
    let now = accounts::find(&store, customer, name).await.unwrap().unwrap().version;
    assert!(!refresh_claims::claim(&store, (customer, name, version), NOON, until).await.unwrap());
    assert!(refresh_claims::claim(&store, (customer, name, now), NOON, until).await.unwrap());

    // A change of the state keeps the credentials, and with them the claim.
    let state = AccountState::ReconnectNeeded;
    let next = accounts::set_state(&store, customer, name, now, state).await.unwrap().unwrap();
    assert!(!refresh_claims::claim(&store, (customer, name, next), NOON, until).await.unwrap());
}

#[tokio::test]
async fn of_concurrent_refreshes_of_a_token_one_is_claimed() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (shared, caller) = ((*store).clone(), caller.clone());
        tasks.spawn(async move {
            let account = (caller.customer, &caller.account, caller.account_version);
            refresh_claims::claim(&shared, account, NOON, NOON.plus_seconds(30)).await.unwrap()
        });
    }

    let claimed = tasks.join_all().await;

    assert_eq!(claimed.iter().filter(|claimed| **claimed).count(), 1);
}
