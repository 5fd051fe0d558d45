//! Platforms that refuse all credentials: detected across accounts and nodes, and no account stays
//! marked for them.

use domain::account::{AccountState, CreatorId};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use store::platform_health::{self, CredentialRefusal, RefusalCause, RefusalOutcome, RefusalRule};
use store::{Store, accounts, testing};

use crate::support::{NOON, TestCaller, new_account};

const RULE: RefusalRule = RefusalRule { accounts: 3, customers: 3, within_s: 60 };
const LONG_AGO: Timestamp = Timestamp::from_unix_micros(0);

/// A refusal of the account's current version, at `NOON`, with no success before.
async fn refusal_of(
    store: &Store,
    account: &TestAccount,
    cause: RefusalCause,
) -> CredentialRefusal {
    let (customer, creator) = (account.0, account.1.parse::<CreatorId>().unwrap());
    let version = accounts::find(store, customer, &creator).await.unwrap().unwrap().version;
    CredentialRefusal {
        platform: Platform::ALPHA,
        customer,
        creator,
        version,
        at: NOON,
        cause,
        last_success_at: LONG_AGO,
    }
}

/// Records a refusal with unknown cause.
async fn refused(store: &Store, account: &TestAccount, at: Timestamp) -> RefusalOutcome {
    refused_for(store, account, RefusalCause::Unknown, at).await
}

async fn refused_for(
    store: &Store,
    account: &TestAccount,
    cause: RefusalCause,
    at: Timestamp,
) -> RefusalOutcome {
    let refusal = CredentialRefusal { at, ..refusal_of(store, account, cause).await };
    platform_health::record_refusal(store, &refusal, RULE).await.unwrap()
}

/// The customer and the account's id.
type TestAccount = (CustomerId, &'static str);

async fn states(store: &Store, of: &[TestAccount]) -> Vec<AccountState> {
    let mut states = Vec::new();
    for (customer, creator) in of {
        let creator = creator.parse().unwrap();
        states.push(accounts::find(store, *customer, &creator).await.unwrap().unwrap().state);
    }
    states
}

/// One account each of three customers.
async fn three(store: &Store) -> [TestAccount; 3] {
    let mut three = Vec::new();
    for _ in 0..3 {
        three.push((TestCaller::with(store, 0).await.customer, "ada"));
    }
    three.try_into().unwrap()
}

/// Three accounts of one customer.
async fn of_one(store: &Store) -> [TestAccount; 3] {
    let customer = TestCaller::with(store, 0).await.customer;
    for name in ["bea", "cyd"] {
        accounts::connect(store, &new_account(customer, name)).await.unwrap();
    }
    ["ada", "bea", "cyd"].map(|name| (customer, name))
}

async fn is_refusing(store: &Store) -> bool {
    !platform_health::list_refusing(store).await.unwrap().is_empty()
}

#[tokio::test]
async fn three_refusals_within_a_minute_are_the_platforms_fault() {
    let store = testing::store().await;
    let [ada, bea, cyd] = three(&store).await;

    let first = refused(&store, &ada, NOON).await;
    let second = refused(&store, &bea, NOON.plus_seconds(30)).await;
    let marked = states(&store, &[ada, bea]).await;
    let third = refused(&store, &cyd, NOON.plus_seconds(60)).await;

    assert_eq!(first, RefusalOutcome::AccountMarked);
    assert_eq!(second, RefusalOutcome::AccountMarked);
    assert_eq!(marked, [AccountState::ReconnectNeeded; 2]);
    let mut unmarked = [ada, bea].map(|(customer, name)| (customer, name.parse().unwrap()));
    unmarked.sort_by_key(|(customer, _)| customer.to_string());
    let since = NOON.plus_seconds(60);
    assert_eq!(third, RefusalOutcome::PlatformRefusing { since, unmarked: unmarked.to_vec() });
    assert_eq!(states(&store, &[ada, bea, cyd]).await, [AccountState::Active; 3]);
    let refusing = platform_health::list_refusing(&store).await.unwrap();
    assert_eq!((refusing.len(), refusing[0].since), (1, since));

    // From now on no account is marked, until a success ends it.
    let fourth = refused(&store, &ada, NOON.plus_seconds(70)).await;
    assert_eq!(fourth, RefusalOutcome::PlatformRefusing { since, unmarked: Vec::new() });
    let end = NOON.plus_seconds(80);
    let recover =
        async || platform_health::record_recovery(&store, Platform::ALPHA, end).await.unwrap();
    assert_eq!((recover().await, recover().await), (true, false));
    assert!(!is_refusing(&store).await);
    let own = refused(&store, &ada, NOON.plus_seconds(81)).await;
    assert_eq!(own, RefusalOutcome::AccountMarked, "older refusals do not count");
}

#[tokio::test]
async fn refusals_apart_or_around_a_success_are_the_accounts_fault() {
    let store = testing::store().await;
    let [ada, bea, cyd] = three(&store).await;
    refused(&store, &ada, NOON).await;
    refused(&store, &bea, NOON.plus_seconds(30)).await;
    let apart = refused(&store, &cyd, NOON.plus_seconds(61)).await;
    assert_eq!(apart, RefusalOutcome::AccountMarked);

    let [dot, eve, fay] = three(&store).await;
    let start = NOON.plus_seconds(600);
    refused(&store, &dot, start).await;
    refused(&store, &eve, start.plus_seconds(1)).await;
    let around = CredentialRefusal {
        at: start.plus_seconds(3),
        last_success_at: start.plus_seconds(2),
        ..refusal_of(&store, &fay, RefusalCause::Unknown).await
    };
    let around = platform_health::record_refusal(&store, &around, RULE).await.unwrap();

    assert_eq!(around, RefusalOutcome::AccountMarked);
    let marked = states(&store, &[ada, bea, cyd, dot, eve, fay]).await;
    assert_eq!(marked, [AccountState::ReconnectNeeded; 6]);
}

#[tokio::test]
async fn accounts_of_one_customer_never_decide_for_the_platform() {
    let store = testing::store().await;
    let own = of_one(&store).await;
    for account in &own {
        assert_eq!(refused(&store, account, NOON).await, RefusalOutcome::AccountMarked);
    }
    assert!(!is_refusing(&store).await, "the only customer on the platform");

    let others = three(&store).await;
    let again = of_one(&store).await;
    for account in &again {
        let cause = RefusalCause::TokenEndpoint;
        let outcome = refused_for(&store, account, cause, NOON.plus_seconds(1)).await;
        assert_eq!(outcome, RefusalOutcome::Counted);
    }
    assert!(!is_refusing(&store).await, "one of several customers");
    assert_eq!(states(&store, &own).await, [AccountState::ReconnectNeeded; 3]);
    assert_eq!(states(&store, &again).await, [AccountState::Active; 3]);
    assert_eq!(states(&store, &others).await, [AccountState::Active; 3]);
}

#[tokio::test]
async fn with_two_customers_both_must_be_refused() {
    let store = testing::store().await;
    let [ada, bea, cyd] = of_one(&store).await;
    let dot = (TestCaller::with(&store, 0).await.customer, "ada");
    for account in [&ada, &bea] {
        assert_eq!(refused(&store, account, NOON).await, RefusalOutcome::AccountMarked);
    }

    let third = refused(&store, &dot, NOON).await;

    assert!(matches!(third, RefusalOutcome::PlatformRefusing { .. }), "{third:?}");
    assert_eq!(states(&store, &[ada, bea, cyd, dot]).await, [AccountState::Active; 4]);
}

#[tokio::test]
async fn token_endpoint_refusals_of_the_only_customer_are_the_platforms_fault() {
    let store = testing::store().await;
    let own = of_one(&store).await;
    let mut outcomes = Vec::new();
    for account in &own {
        let cause = RefusalCause::TokenEndpoint;
        outcomes.push(refused_for(&store, account, cause, NOON).await);
    }

    assert_eq!(outcomes[..2], [RefusalOutcome::Counted, RefusalOutcome::Counted]);
    let since = NOON;
    assert_eq!(outcomes[2], RefusalOutcome::PlatformRefusing { since, unmarked: Vec::new() });
    assert_eq!(states(&store, &own).await, [AccountState::Active; 3]);
}

#[tokio::test]
async fn dead_refresh_tokens_mark_their_account_and_not_the_platform() {
    let store = testing::store().await;
    let dead = three(&store).await;
    for account in &dead {
        let outcome = refused_for(&store, account, RefusalCause::RefreshToken, NOON).await;
        assert_eq!(outcome, RefusalOutcome::AccountMarked);
    }
    assert!(!is_refusing(&store).await);

    // The platform begins to refuse all credentials: accounts with dead tokens stay marked, and
    // further ones are marked.
    let [ada, bea, cyd] = three(&store).await;
    for account in [&ada, &bea, &cyd] {
        refused(&store, account, NOON.plus_seconds(1)).await;
    }
    assert!(is_refusing(&store).await);
    let late = refused_for(&store, &cyd, RefusalCause::RefreshToken, NOON.plus_seconds(2)).await;
    assert_eq!(late, RefusalOutcome::AccountMarked);
    assert_eq!(states(&store, &dead).await, [AccountState::ReconnectNeeded; 3]);
    let (active, marked) = (AccountState::Active, AccountState::ReconnectNeeded);
    assert_eq!(states(&store, &[ada, bea, cyd]).await, [active, active, marked]);
}

#[tokio::test]
async fn refusals_of_replaced_credentials_are_ignored() {
    let store = testing::store().await;
    let [ada, ..] = three(&store).await;
    for cause in [RefusalCause::Unknown, RefusalCause::TokenEndpoint, RefusalCause::RefreshToken] {
        let refusal = refusal_of(&store, &ada, cause).await;
        let old = CredentialRefusal { version: refusal.version + 1, ..refusal };

        let outcome = platform_health::record_refusal(&store, &old, RULE).await.unwrap();

        assert_eq!(outcome, RefusalOutcome::AccountChanged);
        assert_eq!(states(&store, &[ada]).await, [AccountState::Active]);
    }
}

#[tokio::test]
async fn concurrent_refusals_are_all_counted() {
    let store = testing::store().await;
    let [ada, bea, cyd] = three(&store).await;

    let outcomes = tokio::join!(
        refused(&store, &ada, NOON),
        refused(&store, &bea, NOON),
        refused(&store, &cyd, NOON),
    );

    let outcomes = [outcomes.0, outcomes.1, outcomes.2];
    let marked = outcomes.iter().filter(|outcome| **outcome == RefusalOutcome::AccountMarked);
    assert_eq!(marked.count(), 2, "{outcomes:?}");
    assert_eq!(states(&store, &[ada, bea, cyd]).await, [AccountState::Active; 3]);
    platform_health::delete_old_refusals(&store, NOON.plus_seconds(1)).await.unwrap();
}

/// Another account of the platform succeeds all the time, so it does not refuse everyone.
#[tokio::test]
async fn drift_marks_no_account_and_unmarks_those_of_the_last_minute() {
    let store = testing::store().await;
    let [ada, bea, cyd] = three(&store).await;
    refused(&store, &ada, NOON.plus_seconds(-61)).await;
    refused(&store, &bea, NOON).await;
    let during = CredentialRefusal {
        at: NOON.plus_seconds(2),
        last_success_at: NOON.plus_seconds(1),
        ..refusal_of(&store, &cyd, RefusalCause::PlatformDrift).await
    };
    let during = platform_health::record_refusal(&store, &during, RULE).await.unwrap();
    assert_eq!(during, RefusalOutcome::Counted);
    let unmark = async || {
        let since = NOON.plus_seconds(-58);
        platform_health::unmark_refused(&store, Platform::ALPHA, since).await.unwrap()
    };

    let (unmarked, again) = (unmark().await, unmark().await);

    assert_eq!(unmarked, [(bea.0, bea.1.parse().unwrap())]);
    assert_eq!(again, [], "the account has changed since it was marked");
    assert_eq!(
        states(&store, &[ada, bea, cyd]).await,
        [AccountState::ReconnectNeeded, AccountState::Active, AccountState::Active]
    );
}
