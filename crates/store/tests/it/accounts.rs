//! Accounts: connecting, slot limits, and changes based on a version.

use std::sync::Arc;

use domain::account::AccountState;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use store::accounts::{self, AccountCount, ConnectionOutcome, NewAccount, SealedCredentials};
use store::connections::ConnectionRefusal;
use store::refresh_claims::{self, RenewedCredentials};
use store::{Store, testing};

use crate::support::{
    NOON, TestCaller, creator, entry, new_account, new_customer, removal, unnoted,
};

fn allowing(accounts: i64) -> Arc<AccountAllowances> {
    Arc::new(AccountAllowances::of_each(accounts))
}

#[tokio::test]
async fn an_account_is_stored_with_its_sealed_credentials() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut new = new_account(caller.customer, "delta-1");
    new.platform = Platform::DELTA;
    new.credentials.scopes = Some(vec!["read:chat".to_owned(), "write:chat".to_owned()]);
    new.credentials.token_expires_at = Some(NOON.plus_seconds(3600));

    let connected = accounts::connect(&store, &new).await.unwrap();

    let ConnectionOutcome::Connected {
        created: true, state: AccountState::Active, version, ..
    } = connected
    else {
        panic!("{connected:?}");
    };
    let account = accounts::find(&store, caller.customer, &new.creator_id).await.unwrap().unwrap();
    assert_eq!((account.platform, account.version), (Platform::DELTA, version));
    assert_eq!(account.credentials, new.credentials);
    assert_eq!((account.connected_at, account.verified_at), (NOON, Some(NOON)));
    let listed = accounts::list(&store, caller.customer).await.unwrap();
    assert_eq!(
        listed.iter().map(|listed| listed.creator_id.as_str()).collect::<Vec<_>>(),
        ["ada", "delta-1"]
    );
    assert_eq!(listed[1], account);
}

#[tokio::test]
async fn accounts_are_listed_in_byte_order() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    for name in ["b_1", "B_2", "a-3", "a1", "Z"] {
        let connected = accounts::connect(&store, &new_account(caller.customer, name)).await;
        connected.unwrap();
    }

    let listed = accounts::list(&store, caller.customer).await.unwrap();

    let names: Vec<&str> = listed.iter().map(|listed| listed.creator_id.as_str()).collect();
    assert_eq!(names, ["B_2", "Z", "a-3", "a1", "ada", "b_1"]);
}

#[tokio::test]
async fn reconnecting_replaces_credentials_and_version() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut again = new_account(caller.customer, "ada");
    again.credentials.sealed = vec![9; 300];

    let connected = accounts::connect(&store, &again).await.unwrap();

    let ConnectionOutcome::Connected {
        created: false, state: AccountState::Active, version, ..
    } = connected
    else {
        panic!("{connected:?}");
    };
    assert!(version > caller.account_version);
    let account = accounts::find(&store, caller.customer, &caller.account).await.unwrap().unwrap();
    assert_eq!(account.credentials.sealed, vec![9; 300]);
}

#[tokio::test]
async fn an_id_belongs_to_one_platform() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let new = NewAccount { platform: Platform::BETA, ..new_account(caller.customer, "ada") };

    let connected = accounts::connect(&store, &new).await.unwrap();

    let refusal = ConnectionRefusal::OtherPlatform(Platform::ALPHA);
    assert_eq!(connected, ConnectionOutcome::Refused(refusal));
    let account = accounts::find(&store, caller.customer, &caller.account).await.unwrap().unwrap();
    assert_eq!(account.platform, Platform::ALPHA);
}

#[tokio::test]
async fn two_customers_may_choose_the_same_id() {
    let store = testing::store().await;
    let (one, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);

    let (ada, entry, limits) = (creator("ada"), entry(one.customer), allowing(1));
    let removal = removal(one.customer, &ada, &limits);
    let delete = || accounts::delete(&store, &removal, &entry, &unnoted);

    assert!(delete().await.unwrap().is_some());
    assert!(delete().await.unwrap().is_none());

    assert_eq!(accounts::find(&store, one.customer, &creator("ada")).await.unwrap(), None);
    assert!(accounts::find(&store, other.customer, &creator("ada")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_reconnected_account_gets_a_new_version() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (limits, entry) = (allowing(1), entry(caller.customer));
    let removal = removal(caller.customer, &caller.account, &limits);
    accounts::delete(&store, &removal, &entry, &unnoted).await.unwrap();
    let later = NewAccount { at: NOON.plus_micros(1), ..new_account(caller.customer, "ada") };

    let connected = accounts::connect(&store, &later).await.unwrap();

    let ConnectionOutcome::Connected { version, .. } = connected else { panic!("{connected:?}") };
    assert!(version > caller.account_version);
}

#[tokio::test]
async fn concurrent_connects_never_exceed_the_limit() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let shared = (*store).clone();
        let name = format!("creator-{number}");
        let new = NewAccount { allowances: allowing(5), ..new_account(caller.customer, &name) };
        tasks.spawn(async move { accounts::connect(&shared, &new).await.unwrap() });
    }

    let connected = tasks.join_all().await;

    let active = |connection: &&ConnectionOutcome| {
        matches!(connection, ConnectionOutcome::Connected { state: AccountState::Active, .. })
    };
    // One was connected earlier, without a limit.
    assert_eq!(connected.iter().filter(active).count(), 4);
    let count = accounts::count(&store, caller.customer, Platform::ALPHA).await.unwrap();
    assert_eq!(count, AccountCount { in_use: 5, inactive: 16 });
    let none = accounts::count(&store, caller.customer, Platform::BETA).await.unwrap();
    assert_eq!(none, AccountCount { in_use: 0, inactive: 0 });
}

#[tokio::test]
async fn an_inactive_account_waits_for_a_free_slot() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let over = NewAccount { allowances: allowing(1), ..new_account(caller.customer, "bob") };
    let full = accounts::connect(&store, &over).await.unwrap();
    let kept = NewAccount { allowances: allowing(1), ..new_account(caller.customer, "ada") };

    let again = accounts::connect(&store, &kept).await.unwrap();
    let (ada, entry) = (creator("ada"), entry(caller.customer));
    let limits = allowing(1);
    let removal = removal(caller.customer, &ada, &limits);
    let freed = accounts::delete(&store, &removal, &entry, &unnoted).await;

    let state = |connection| match connection {
        ConnectionOutcome::Connected { state, .. } => state,
        other @ (ConnectionOutcome::Refused(_) | ConnectionOutcome::CookiesChanged) => {
            panic!("{other:?}")
        }
    };
    assert_eq!(state(full), AccountState::Inactive);
    assert_eq!(state(again), AccountState::Active);
    let freed = freed.unwrap().unwrap();
    assert_eq!((freed[0].creator_id.as_str(), freed[0].state), ("bob", AccountState::Active));
}

#[tokio::test]
async fn unknown_customers_cannot_connect_accounts() {
    let store = testing::store().await;
    let stranger = new_customer("nobody@example.com");

    let connected = accounts::connect(&store, &new_account(stranger.id, "ada")).await.unwrap();

    assert_eq!(connected, ConnectionOutcome::Refused(ConnectionRefusal::NoAuthority));
}

/// Stores what a refresh brought for the caller's account, and returns the new version.
async fn renew(
    store: &Store,
    caller: &TestCaller,
    version: i64,
    credentials: &SealedCredentials,
    clears_mark: bool,
) -> Option<i64> {
    let credentials = credentials.clone();
    let one =
        RenewedCredentials { creator: caller.account.clone(), version, credentials, clears_mark };
    refresh_claims::store_renewed(store, caller.customer, &[one]).await.unwrap()[0]
}

#[tokio::test]
async fn changes_based_on_an_older_version_are_refused() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, account, old) = (caller.customer, &caller.account, caller.account_version);
    let state = AccountState::ReconnectNeeded;
    let credentials =
        SealedCredentials { sealed: vec![7], ..new_account(customer, "ada").credentials };

    let version = accounts::set_state(&store, customer, account, old, state).await.unwrap();
    let late = renew(&store, &caller, old, &credentials, false).await;

    assert_eq!(late, None);
    let version = version.unwrap();
    let next = renew(&store, &caller, version, &credentials, false).await;
    assert_eq!(next, Some(version + 1));
    assert_eq!(accounts::set_state(&store, customer, account, version, state).await.unwrap(), None);
    let stored = accounts::find(&store, customer, account).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.credentials.sealed), (state, vec![7]));
}

#[tokio::test]
async fn twins_are_other_ids_of_the_same_platform_account_of_the_same_customer() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    let beta = Platform::BETA;
    for (customer, name, platform, id, seconds) in [
        (caller.customer, "zoe", Platform::ALPHA, "4711", 1),
        (caller.customer, "bob", Platform::ALPHA, "4711", 2),
        (caller.customer, "cyd", Platform::ALPHA, "47110", 3),
        (caller.customer, "dan", beta, "4711", 4),
        (caller.customer, "eve", beta, "", 5),
        (caller.customer, "fay", beta, "", 6),
        (other.customer, "gil", Platform::ALPHA, "4711", 7),
    ] {
        let new = NewAccount {
            platform,
            platform_account_id: id.to_owned(),
            at: NOON.plus_seconds(seconds),
            ..new_account(customer, name)
        };
        accounts::connect(&store, &new).await.unwrap();
    }
    let twins = async |name: &str| -> Vec<String> {
        let account = accounts::find(&store, caller.customer, &creator(name)).await.unwrap();
        let found = accounts::twins(&store, caller.customer, &account.unwrap()).await.unwrap();
        found.iter().map(|twin| twin.as_str().to_owned()).collect()
    };

    // The one that was connected first comes first.
    assert_eq!(twins("ada").await, ["zoe", "bob"]);
    assert_eq!(twins("bob").await, ["ada", "zoe"]);
    for alone in ["cyd", "dan", "eve", "fay"] {
        assert_eq!(twins(alone).await, [""; 0], "{alone}");
    }
}

#[tokio::test]
async fn a_refreshed_token_is_stored_only_for_the_version_it_was_read_with() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    let refreshed = SealedCredentials {
        sealed: vec![9; 3],
        scopes: Some(Vec::new()),
        token_expires_at: Some(NOON.plus_seconds(3_600)),
        ..new_account(caller.customer, "ada").credentials
    };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let (shared, caller, refreshed) = ((*store).clone(), caller.clone(), refreshed.clone());
        tasks.spawn(async move {
            renew(&shared, &caller, caller.account_version, &refreshed, false).await
        });
    }

    let versions: Vec<i64> = tasks.join_all().await.into_iter().flatten().collect();

    assert_eq!(versions, [caller.account_version + 1]);
    let find = async |customer| accounts::find(&store, customer, &caller.account).await.unwrap();
    let stored = find(caller.customer).await.unwrap();
    assert_eq!((stored.version, &stored.credentials), (versions[0], &refreshed));
    let untouched = find(other.customer).await.unwrap();
    assert_eq!(untouched.credentials, new_account(other.customer, "ada").credentials);
}

/// Inactive accounts stay so: only the mark is about the credentials.
#[tokio::test]
async fn fresh_tokens_clear_the_mark_where_they_should_and_no_other_state() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, account) = (caller.customer, &caller.account);
    let credentials = new_account(customer, "ada").credentials;
    let mark = async |version| {
        let state = AccountState::ReconnectNeeded;
        accounts::set_state(&store, customer, account, version, state).await.unwrap().unwrap()
    };
    let state = async || accounts::find(&store, customer, account).await.unwrap().unwrap().state;

    let marked = mark(caller.account_version).await;
    let kept = renew(&store, &caller, marked, &credentials, false).await.unwrap();
    assert_eq!(state().await, AccountState::ReconnectNeeded);
    let cleared = renew(&store, &caller, kept, &credentials, true).await.unwrap();
    assert_eq!(state().await, AccountState::Active);
    testing::run_raw(&store, "update accounts set state = 'inactive'").await.unwrap();
    renew(&store, &caller, cleared, &credentials, true).await.unwrap();

    assert_eq!(state().await, AccountState::Inactive);
}
