//! Cookies of accounts: replaced only in the version that was read, and only in their own jar.

use domain::slot::AccountAllowances;
use store::account_cookies::{self, CookieUpdate, JarVersion, NewCookies};
use store::accounts::{self, ConnectionOutcome, NewAccount};
use store::testing;

use crate::support::{NOON, TestCaller, creator, entry, new_account, removal, unnoted};

#[tokio::test]
async fn cookies_are_replaced_only_in_the_jar_and_version_that_they_name() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let account = accounts::find(&store, customer, &creator("ada")).await.unwrap().unwrap();
    let update = |id: i64, version: i64, sealed: &[u8]| CookieUpdate {
        customer,
        creator: creator("ada"),
        jar: JarVersion { id, version },
        sealed: sealed.to_vec(),
        data_key: account.credentials.data_key,
        is_news: true,
    };
    let connected_at = account.connected_at.unix_micros();
    let first = [update(connected_at, 0, b"one"), update(connected_at, 0, b"lost")];
    assert_eq!(account_cookies::update_all(&store, &first, NOON).await.unwrap(), [true, false]);
    let next = [
        update(connected_at, 2, b"lost"),
        update(connected_at + 1, 1, b"lost"),
        update(connected_at, 1, b"two"),
    ];
    let stored = account_cookies::update_all(&store, &next, NOON).await.unwrap();
    assert_eq!(stored, [false, false, true]);

    let found = account_cookies::find(&store, customer, &creator("ada")).await.unwrap().unwrap();
    assert_eq!(found.sealed, b"two");
    assert_eq!(found.jar, JarVersion { id: connected_at, version: 2 });
}

#[tokio::test]
async fn connecting_continues_the_jar_that_was_read_or_begins_another() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let data_key = new_account(customer, "ada").credentials.data_key;
    let with = |continued: Option<i64>| NewAccount {
        cookies: Some(NewCookies {
            continued: continued.map(|version| JarVersion { id: 7, version }),
            id: 7,
            sealed: format!("{continued:?}").into_bytes(),
            data_key,
        }),
        ..new_account(customer, "ada")
    };
    let jar = async || {
        let found = account_cookies::find(&store, customer, &creator("ada")).await.unwrap();
        found.map(|found| (found.jar.id, found.jar.version))
    };
    let is_connected = |outcome| matches!(outcome, ConnectionOutcome::Connected { .. });

    assert!(is_connected(accounts::connect(&store, &with(None)).await.unwrap()));
    assert_eq!(jar().await, Some((7, 1)));
    assert!(is_connected(accounts::connect(&store, &with(Some(1))).await.unwrap()));
    assert_eq!(jar().await, Some((7, 2)));
    let before = accounts::find(&store, customer, &creator("ada")).await.unwrap().unwrap();
    let late = accounts::connect(&store, &with(Some(1))).await.unwrap();
    assert_eq!(late, ConnectionOutcome::CookiesChanged);
    let after = accounts::find(&store, customer, &creator("ada")).await.unwrap().unwrap();
    assert_eq!(before, after);

    // Without cookies, those of before are gone; so they are with the account.
    assert!(is_connected(accounts::connect(&store, &new_account(customer, "ada")).await.unwrap()));
    assert_eq!(jar().await, None);
    accounts::connect(&store, &with(None)).await.unwrap();
    let ada = creator("ada");
    let allowances = AccountAllowances::default();
    accounts::delete(&store, &removal(customer, &ada, &allowances), &entry(customer), &unnoted)
        .await
        .unwrap();
    assert_eq!(jar().await, None);
}
