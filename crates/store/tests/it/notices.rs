//! Notices: a node is notified of another node's changes.

use domain::account::AccountState;
use store::notices::{self, ChangeNotice};
use store::{DatabaseKind, Store, accounts, keys, testing};

use crate::support::{TestCaller, entry};

#[tokio::test]
async fn nodes_are_notified_of_changed_accounts_and_revoked_keys() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let other_node = Store::open(store.options()).await;
    // SQLite refuses a second node, so there is none to notify.
    let Ok(other_node) = other_node else {
        assert_eq!(store.database(), DatabaseKind::Sqlite);
        assert!(notices::listen(&store).await.unwrap().is_none());
        return;
    };
    let mut listener = notices::listen(&other_node).await.unwrap().unwrap();

    let (customer, creator) = (caller.customer, caller.account.clone());
    let version = caller.account_version;
    let state = AccountState::ReconnectNeeded;
    accounts::set_state(&store, customer, &creator, version, state).await.unwrap();
    keys::revoke(&store, customer, caller.key, &entry(customer)).await.unwrap();

    assert_eq!(listener.next().await.unwrap(), ChangeNotice::Account { customer, creator });
    assert_eq!(listener.next().await.unwrap(), ChangeNotice::Keys { customer: Some(customer) });
    drop(listener);
    other_node.close().await;
}
