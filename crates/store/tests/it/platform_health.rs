//! Platforms that refuse everybody: counted over accounts and nodes, and no account stays marked for them.

use domain::account::{AccountState, CreatorId};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use store::platform_health::{self, CredentialRefusal, RefusalOutcome, RefusalRule};
use store::{Store, accounts, testing};

use crate::support::{Caller, NOON, new_account};

const RULE: RefusalRule = RefusalRule { accounts: 3, within_s: 60 };
const LONG_AGO: Timestamp = Timestamp::from_unix_micros(0);

/// The platform refuses the account as it is now.
async fn refused(store: &Store, account: (CustomerId, &str), at: Timestamp) -> RefusalOutcome {
    refused_after(store, account, at, LONG_AGO).await
}

async fn refused_after(
    store: &Store,
    (customer, creator): (CustomerId, &str),
    at: Timestamp,
    last_success_at: Timestamp,
) -> RefusalOutcome {
    let creator: CreatorId = creator.parse().unwrap();
    let version = accounts::find(store, customer, &creator).await.unwrap().unwrap().version;
    let platform = Platform::Alpha;
    let refusal = CredentialRefusal { platform, customer, creator, version, at, last_success_at };
    platform_health::record_refusal(store, &refusal, RULE).await.unwrap()
}

async fn states(store: &Store, customer: CustomerId) -> Vec<(String, AccountState)> {
    let listed = accounts::list(store, customer).await.unwrap();
    listed.iter().map(|account| (account.creator_id.to_string(), account.state)).collect()
}

/// A customer with three accounts of one platform.
async fn three(store: &Store) -> CustomerId {
    let customer = Caller::with(store, 0).await.customer;
    for name in ["bea", "cyd"] {
        accounts::connect(store, &new_account(customer, name)).await.unwrap();
    }
    customer
}

#[tokio::test]
async fn the_third_refusal_within_a_minute_is_the_platforms_and_unmarks_the_others() {
    for store in testing::stores().await {
        let customer = three(&store).await;

        let first = refused(&store, (customer, "ada"), NOON).await;
        let second = refused(&store, (customer, "bea"), NOON.plus_seconds(30)).await;
        let marked = states(&store, customer).await;
        let third = refused(&store, (customer, "cyd"), NOON.plus_seconds(60)).await;

        assert_eq!(first, RefusalOutcome::AccountMarked);
        assert_eq!(second, RefusalOutcome::AccountMarked);
        assert_eq!(marked[0].1, AccountState::ReconnectNeeded);
        assert_eq!(marked[1].1, AccountState::ReconnectNeeded);
        let unmarked = ["ada", "bea"].map(|name| (customer, name.parse().unwrap())).to_vec();
        let since = NOON.plus_seconds(60);
        assert_eq!(third, RefusalOutcome::PlatformRefusing { since, unmarked });
        let after = states(&store, customer).await;
        assert!(after.iter().all(|(_, state)| *state == AccountState::Active), "{after:?}");
        let refusing = platform_health::list_refusing(&store).await.unwrap();
        assert_eq!((refusing.len(), refusing[0].since), (1, since));

        // From now on nobody is marked, until a success ends it.
        let fourth = refused(&store, (customer, "ada"), NOON.plus_seconds(70)).await;
        assert_eq!(fourth, RefusalOutcome::PlatformRefusing { since, unmarked: Vec::new() });
        let end = NOON.plus_seconds(80);
        let recover =
            async || platform_health::record_recovery(&store, Platform::Alpha, end).await.unwrap();
        assert_eq!((recover().await, recover().await), (true, false));
        assert!(platform_health::list_refusing(&store).await.unwrap().is_empty());
        let own = refused(&store, (customer, "ada"), NOON.plus_seconds(81)).await;
        assert_eq!(own, RefusalOutcome::AccountMarked, "older refusals no longer count");
    }
}

#[tokio::test]
async fn refusals_further_apart_or_around_a_success_are_the_accounts_own() {
    for store in testing::stores().await {
        let customer = three(&store).await;
        let (second, third) = (NOON.plus_seconds(30), NOON.plus_seconds(61));

        refused(&store, (customer, "ada"), NOON).await;
        refused(&store, (customer, "bea"), second).await;
        let apart = refused(&store, (customer, "cyd"), third).await;

        assert_eq!(apart, RefusalOutcome::AccountMarked);

        let other = three(&store).await;
        let start = NOON.plus_seconds(600);
        refused(&store, (other, "ada"), start).await;
        refused(&store, (other, "bea"), start.plus_seconds(1)).await;
        let success = start.plus_seconds(2);
        let account = (other, "cyd");
        let around = refused_after(&store, account, start.plus_seconds(3), success).await;

        assert_eq!(around, RefusalOutcome::AccountMarked);
        for owner in [customer, other] {
            let marked = states(&store, owner).await;
            assert!(marked.iter().all(|(_, state)| *state == AccountState::ReconnectNeeded));
        }
    }
}

#[tokio::test]
async fn a_refusal_of_credentials_that_were_replaced_says_nothing() {
    for store in testing::stores().await {
        let customer = three(&store).await;
        let creator: CreatorId = "ada".parse().unwrap();
        let refusal = CredentialRefusal {
            platform: Platform::Alpha,
            customer,
            creator,
            version: 1,
            at: NOON,
            last_success_at: LONG_AGO,
        };

        let outcome = platform_health::record_refusal(&store, &refusal, RULE).await.unwrap();

        assert_eq!(outcome, RefusalOutcome::AccountChanged);
        assert_eq!(states(&store, customer).await[0].1, AccountState::Active);
    }
}

#[tokio::test]
async fn concurrent_refusals_are_counted_one_after_the_other() {
    for store in testing::stores().await {
        let customer = three(&store).await;

        let outcomes = tokio::join!(
            refused(&store, (customer, "ada"), NOON),
            refused(&store, (customer, "bea"), NOON),
            refused(&store, (customer, "cyd"), NOON),
        );

        let outcomes = [outcomes.0, outcomes.1, outcomes.2];
        let marked = outcomes.iter().filter(|outcome| **outcome == RefusalOutcome::AccountMarked);
        assert_eq!(marked.count(), 2, "{outcomes:?}");
        let after = states(&store, customer).await;
        assert!(after.iter().all(|(_, state)| *state == AccountState::Active), "{after:?}");
        platform_health::delete_old_refusals(&store, NOON.plus_seconds(1)).await.unwrap();
    }
}
