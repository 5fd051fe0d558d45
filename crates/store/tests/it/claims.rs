//! Claims that one of several nodes gets: the comparison with the processor, and the
//! refresh of an account's token.

use domain::account::{AccountState, CreatorId};
use domain::id::{CustomerId, NodeId};
use domain::time::Timestamp;
use store::accounts::NewAccount;
use store::platform_health::{CredentialRefusal, RefusalCause, RefusalOutcome, RefusalRule};
use store::reconciliations::{self, ReconciliationProgress};
use store::refresh_claims::{ClaimOutcome, RefreshClaim, RefreshSubject};
use store::{Store, accounts, platform_health, refresh_claims, testing};

use crate::support::{NOON, TestCaller, creator, new_account, node};

const NOTHING: ReconciliationProgress =
    ReconciliationProgress { read_until: None, compared_on: None };

/// Until when refreshes are claimed.
const UNTIL: Timestamp = NOON.plus_seconds(40);

fn other_node() -> NodeId {
    NodeId::new(NOON, [8; 10])
}

async fn claim(store: &Store, node: NodeId, until: Timestamp) -> Option<ReconciliationProgress> {
    reconciliations::claim(store, node, until).await.unwrap()
}

#[tokio::test]
async fn one_node_compares_at_a_time_and_the_next_one_continues() {
    let store = testing::store().await;
    let until = NOON.plus_seconds(60);
    assert_eq!(claim(&store, node(), until).await, Some(NOTHING));
    assert_eq!(claim(&store, other_node(), until).await, None);

    let progress = ReconciliationProgress { read_until: Some(NOON), compared_on: Some(NOON.day()) };
    reconciliations::release(&store, node(), &progress).await.unwrap();

    let next = claim(&store, other_node(), until).await;
    assert_eq!(next, Some(progress));
    assert_eq!(claim(&store, node(), until).await, None);
}

#[tokio::test]
async fn a_node_may_claim_its_own_comparison_again() {
    let store = testing::store().await;
    let until = NOON.plus_seconds(60);
    claim(&store, node(), until).await.unwrap();

    // It restarted, and knows nothing of its claim.
    let later = until.plus_seconds(30);
    assert_eq!(claim(&store, node(), later).await, Some(NOTHING));

    testing::take_over(&store, until).await.unwrap();
    assert_eq!(claim(&store, other_node(), later).await, None, "the claim was extended");
    testing::take_over(&store, later).await.unwrap();
    assert_eq!(claim(&store, other_node(), later).await, Some(NOTHING));
}

#[tokio::test]
async fn a_node_that_lost_its_comparison_neither_renews_nor_ends_it() {
    let store = testing::store().await;
    let (end, later) = (NOON.plus_seconds(60), NOON.plus_seconds(120));
    claim(&store, node(), end).await.unwrap();
    assert!(reconciliations::renew(&store, node(), end.plus_seconds(5)).await.unwrap());
    testing::take_over(&store, end).await.unwrap();
    assert_eq!(claim(&store, other_node(), later).await, None, "it was renewed");
    testing::take_over(&store, end.plus_seconds(5)).await.unwrap();
    assert_eq!(claim(&store, other_node(), later).await, Some(NOTHING));

    let late = ReconciliationProgress { read_until: Some(later), compared_on: Some(later.day()) };
    assert!(!reconciliations::renew(&store, node(), later).await.unwrap());
    reconciliations::release(&store, node(), &late).await.unwrap();

    assert_eq!(claim(&store, node(), later).await, None);
    let done = ReconciliationProgress { read_until: Some(end), compared_on: None };
    reconciliations::release(&store, other_node(), &done).await.unwrap();
    assert!(!reconciliations::renew(&store, other_node(), later).await.unwrap());
    assert_eq!(claim(&store, node(), later).await, Some(done));
}

#[tokio::test]
async fn of_nodes_that_claim_a_comparison_concurrently_one_gets_it() {
    let store = testing::store().await;
    for round in 0..3 {
        let (now, until) = (NOON.plus_seconds(round * 60), NOON.plus_seconds(round * 60 + 60));
        testing::take_over(&store, now).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..12 {
            let shared = (*store).clone();
            let node = NodeId::new(NOON, [number; 10]);
            tasks.spawn(async move { claim(&shared, node, until).await.is_some() });
        }

        let claimed = tasks.join_all().await;

        // The holder of the previous round may be first again.
        assert_eq!(claimed.iter().filter(|claimed| **claimed).count(), 1, "round {round}");
    }
}

/// The account `name` of a customer, as it is now.
async fn account(store: &Store, customer: CustomerId, name: &CreatorId) -> accounts::Account {
    accounts::find(store, customer, name).await.unwrap().unwrap()
}

/// Claims the refresh of an account.
async fn claim_refresh(store: &Store, customer: CustomerId, name: &CreatorId) -> ClaimOutcome {
    let version = account(store, customer, name).await.version;
    let subject = RefreshSubject { customer, creator: name, version };
    refresh_claims::claim(store, subject, NOON, UNTIL).await.unwrap()
}

fn claimed(outcome: ClaimOutcome) -> RefreshClaim {
    match outcome {
        ClaimOutcome::Claimed(claim) => claim,
        other => panic!("not claimed: {other:?}"),
    }
}

#[tokio::test]
async fn a_released_refresh_is_free_immediately() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, name) = (caller.customer, &caller.account);
    let first = claimed(claim_refresh(&store, customer, name).await);
    let taken = claim_refresh(&store, customer, name).await;

    refresh_claims::release(&store, &first).await.unwrap();

    assert_eq!(taken, ClaimOutcome::Taken);
    claimed(claim_refresh(&store, customer, name).await);
}

/// A clock that jumps must not let two nodes use one refresh token.
#[tokio::test]
async fn the_claim_of_a_refresh_is_taken_over_only_unrenewed_and_never_because_of_the_time() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, name) = (caller.customer, &caller.account);
    let mut first = claimed(claim_refresh(&store, customer, name).await);
    assert!(refresh_claims::renew(&store, &mut first, NOON.plus_seconds(-3_600)).await.unwrap());

    let subject = RefreshSubject { customer, creator: name, version: caller.account_version };
    let much_later = UNTIL.plus_seconds(3_600);
    let by_time = refresh_claims::claim(&store, subject, much_later, UNTIL).await.unwrap();
    testing::take_over(&store, UNTIL).await.unwrap();
    assert_eq!(claim_refresh(&store, customer, name).await, ClaimOutcome::Taken, "renewed");
    testing::take_over(&store, UNTIL.plus_micros(1)).await.unwrap();
    let second = refresh_claims::claim(&store, subject, much_later, much_later.plus_seconds(40));
    let second = claimed(second.await.unwrap());

    assert_eq!(by_time, ClaimOutcome::Taken);
    assert!(!refresh_claims::renew(&store, &mut first, NOON).await.unwrap(), "it was taken over");
    refresh_claims::release(&store, &first).await.unwrap();
    assert_eq!(claim_refresh(&store, customer, name).await, ClaimOutcome::Taken);
    refresh_claims::release(&store, &second).await.unwrap();
    claimed(claim_refresh(&store, customer, name).await);
}

/// A node of an earlier version beside this one ends a claim, and knows nothing of its name.
#[tokio::test]
async fn a_claim_that_an_earlier_version_ended_is_free() {
    const ENDED: &str = "update accounts set refresh_claimed_until = null";
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, name) = (caller.customer, &caller.account);
    claimed(claim_refresh(&store, customer, name).await);
    testing::run_raw(&store, ENDED).await.unwrap();

    assert_eq!(testing::take_over(&store, UNTIL).await.unwrap().leases, 0);
    claimed(claim_refresh(&store, customer, name).await);
}

#[tokio::test]
async fn a_refresh_is_claimed_for_all_ids_of_one_platform_account_of_one_customer() {
    let store = testing::store().await;
    let (one, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    for name in ["bob", "cyd", "dan"] {
        let id = if name == "dan" { "" } else { "4712" };
        let new =
            NewAccount { platform_account_id: id.to_owned(), ..new_account(one.customer, name) };
        accounts::connect(&store, &new).await.unwrap();
    }
    let names = ["ada", "bob", "cyd", "dan"].map(creator);
    let claim = async |name: usize| claim_refresh(&store, one.customer, &names[name]).await;

    let copy = claimed(claim(1).await);
    assert_eq!(claim(2).await, ClaimOutcome::Taken, "it may hold the same token");
    for alone in [0, 3] {
        claimed(claim(alone).await);
    }
    claimed(claim_refresh(&store, other.customer, &names[0]).await);
    refresh_claims::release(&store, &copy).await.unwrap();
    claimed(claim(2).await);

    let covered = refresh_claims::covered(&store, one.customer, &names[2]).await.unwrap();
    let covered: Vec<_> = covered.iter().map(|account| account.creator_id.as_str()).collect();
    assert_eq!(covered, ["bob", "cyd"]);
    assert!(refresh_claims::covered(&store, other.customer, &names[2]).await.unwrap().is_empty());
}

#[tokio::test]
async fn changed_accounts_forget_claims_of_their_earlier_credentials() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, name, version) = (caller.customer, &caller.account, caller.account_version);
    claimed(claim_refresh(&store, customer, name).await);

    // The claim was for the old credentials: the new ones are nobody's yet.
    accounts::connect(&store, &new_account(customer, "ada")).await.unwrap();
    let subject = RefreshSubject { customer, creator: name, version };
    let old = refresh_claims::claim(&store, subject, NOON, UNTIL).await.unwrap();
    assert_eq!(old, ClaimOutcome::Changed);
    claimed(claim_refresh(&store, customer, name).await);

    // A change of the state keeps the credentials, and with them the claim.
    let now = account(&store, customer, name).await.version;
    let state = AccountState::ReconnectNeeded;
    accounts::set_state(&store, customer, name, now, state).await.unwrap().unwrap();
    let kept = claim_refresh(&store, customer, name).await;
    assert_eq!(kept, ClaimOutcome::Taken);
}

#[tokio::test]
async fn of_concurrent_refreshes_of_a_token_one_is_claimed() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (shared, caller) = ((*store).clone(), caller.clone());
        tasks.spawn(async move { claim_refresh(&shared, caller.customer, &caller.account).await });
    }

    let outcomes = tasks.join_all().await;

    let won = outcomes.iter().filter(|outcome| matches!(outcome, ClaimOutcome::Claimed(_)));
    assert_eq!(won.count(), 1);
}

/// Of one whose token is being refreshed, nothing is known from a refusal.
#[tokio::test]
async fn an_account_is_not_marked_while_its_token_is_being_refreshed() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, name) = (caller.customer, &caller.account);
    let rule = RefusalRule { accounts: 3, customers: 3, within_s: 60 };
    let platform = account(&store, customer, name).await.platform;
    let refuse = async |at| {
        let refusal = CredentialRefusal {
            platform,
            customer,
            creator: name.clone(),
            version: caller.account_version,
            at,
            cause: RefusalCause::RefreshToken,
            last_success_at: NOON,
        };
        platform_health::record_refusal(&store, &refusal, rule).await.unwrap()
    };
    claimed(claim_refresh(&store, customer, name).await);

    assert_eq!(refuse(NOON).await, RefusalOutcome::AccountChanged);
    assert_eq!(account(&store, customer, name).await.state, AccountState::Active);
    assert_eq!(refuse(UNTIL).await, RefusalOutcome::AccountChanged);
    // The claim of a node that died forbids no mark for ever.
    testing::take_over(&store, UNTIL).await.unwrap();
    assert_eq!(refuse(UNTIL).await, RefusalOutcome::AccountMarked);
}
