//! Which accounts may be connected, and by whom: decided in the transaction that stores the
//! account.

use domain::export::ExportRemoval;
use domain::id::KeyId;
use domain::key::KeyScope;
use domain::platform::Platform;
use store::accounts::{self, AccountRemoval, ConnectionOutcome, NewAccount};
use store::authority::ChangeAuthority;
use store::connections::{self, ConnectionRefusal, ConnectionRequest};
use store::exports::NewExport;
use store::keys::{self, KeyRotation, NewKey};
use store::{Store, exports, testing};

use crate::exports::new_export;
use crate::support::{
    NOON, TestCaller, create_key, creator, entry, fresh_secret, new_account, new_key, removal,
    unnoted,
};

/// A key limited to the account `ada`.
async fn limited(store: &Store, caller: &TestCaller) -> KeyId {
    let new = NewKey { accounts: vec![creator("ada")], ..new_key(fresh_secret()) };
    create_key(store, caller.customer, &new).await;
    new.id
}

/// An account to be connected by a key.
fn by_key(caller: &TestCaller, key: KeyId, name: &str) -> NewAccount {
    NewAccount { authority: ChangeAuthority::Key(key), ..new_account(caller.customer, name) }
}

async fn list_of(store: &Store, caller: &TestCaller, key: KeyId) -> Vec<String> {
    let key = keys::find(store, caller.customer, key).await.unwrap().unwrap();
    key.accounts.iter().map(|account| account.as_str().to_owned()).collect()
}

fn not_allowed() -> ConnectionOutcome {
    ConnectionOutcome::Refused(ConnectionRefusal::NotAllowed)
}

fn created(connection: &ConnectionOutcome) -> Option<(bool, bool)> {
    match connection {
        ConnectionOutcome::Connected { created, joined_list, .. } => Some((*created, *joined_list)),
        ConnectionOutcome::Refused(_) | ConnectionOutcome::CookiesChanged => None,
    }
}

#[tokio::test]
async fn a_limited_key_connects_new_ids_and_those_on_its_list() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let key = limited(&store, &caller).await;
    accounts::connect(&store, &new_account(caller.customer, "eve")).await.unwrap();

    let own = accounts::connect(&store, &by_key(&caller, key, "ada")).await.unwrap();
    let foreign = accounts::connect(&store, &by_key(&caller, key, "eve")).await.unwrap();
    let elsewhere = NewAccount { platform: Platform::BETA, ..by_key(&caller, key, "eve") };
    let elsewhere = accounts::connect(&store, &elsewhere).await.unwrap();
    let new = accounts::connect(&store, &by_key(&caller, key, "bob")).await.unwrap();
    let by_all = accounts::connect(&store, &by_key(&caller, caller.key, "eve")).await.unwrap();

    assert_eq!(created(&own), Some((false, false)));
    assert_eq!((foreign, elsewhere), (not_allowed(), not_allowed()));
    assert_eq!(created(&new), Some((true, true)));
    assert_eq!(created(&by_all), Some((false, false)));
    assert_eq!(list_of(&store, &caller, key).await, ["ada", "bob"]);
    assert!(list_of(&store, &caller, caller.key).await.is_empty());
}

/// Two callers connect the same id concurrently: the key's list grows only if the key created the
/// account.
#[tokio::test]
async fn a_limited_key_gains_only_accounts_that_it_created() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let key = limited(&store, &caller).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let name = format!("creator-{number}");
        for new in [by_key(&caller, key, &name), new_account(caller.customer, &name)] {
            let shared = (*store).clone();
            tasks.spawn(async move {
                let connection = accounts::connect(&shared, &new).await.unwrap();
                (new.authority, new.creator_id, connection)
            });
        }
    }

    let mut expected = vec!["ada".to_owned()];
    for (authority, name, connection) in tasks.join_all().await {
        let is_created = created(&connection).is_some_and(|(created, _)| created);
        if authority == ChangeAuthority::Key(key) && is_created {
            expected.push(name.as_str().to_owned());
        } else if authority == ChangeAuthority::Key(key) {
            assert_eq!(connection, not_allowed());
        }
    }

    expected.sort();
    assert_eq!(list_of(&store, &caller, key).await, expected);
}

/// A deleted account's id is not new while its exports can be downloaded.
#[tokio::test]
async fn a_limited_key_does_not_inherit_the_exports_of_a_deleted_account() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 20).await;
    let key = limited(&store, &caller).await;
    accounts::connect(&store, &new_account(caller.customer, "eve")).await.unwrap();
    let export = NewExport { account: creator("eve"), ..new_export(&caller) };
    exports::create(&store, &export).await.unwrap();
    let (eve, limits) = (creator("eve"), domain::slot::AccountAllowances::of_each(1));
    let removal = removal(caller.customer, &eve, &limits);
    accounts::delete(&store, &removal, &entry(caller.customer), &unnoted).await.unwrap().unwrap();

    let request = ConnectionRequest {
        customer: caller.customer,
        authority: ChangeAuthority::Key(key),
        creator_id: &eve,
        platform: Platform::ALPHA,
        at: NOON,
    };
    let early = connections::refusal(&store, &request).await.unwrap();
    let late = accounts::connect(&store, &by_key(&caller, key, "eve")).await.unwrap();
    exports::cancel(&store, caller.customer, export.id, NOON).await.unwrap();
    exports::delete(&store, caller.customer, export.id, ExportRemoval::ByCustomer, NOON)
        .await
        .unwrap();
    let without = accounts::connect(&store, &by_key(&caller, key, "eve")).await.unwrap();

    assert_eq!(early, Some(ConnectionRefusal::NotAllowed));
    assert_eq!(late, not_allowed());
    assert_eq!(created(&without), Some((true, true)));
}

/// Whatever its state was when the platform was called.
#[tokio::test]
async fn ended_and_read_only_authorities_cannot_connect_or_delete() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, told) = (caller.customer, entry(caller.customer));
    let revoked = new_key(fresh_secret());
    let over = NewKey { expires_at: Some(NOON), ..new_key(fresh_secret()) };
    let reads = new_key(fresh_secret());
    for new in [&revoked, &over, &reads] {
        create_key(&store, customer, new).await;
    }
    assert!(keys::revoke(&store, customer, revoked.id, &entry(customer)).await.unwrap());
    let read_only = KeyRotation {
        key: reads.id,
        customer,
        secret: fresh_secret(),
        scope: Some(KeyScope::ReadOnly),
        at: NOON,
        old_valid_until: None,
    };
    keys::rotate(&store, &read_only, &entry(customer)).await.unwrap().unwrap();
    let session = domain::id::SessionId::new(NOON, [7; 10]);
    let (ada, limits) = (creator("ada"), domain::slot::AccountAllowances::of_each(1));

    for authority in [
        ChangeAuthority::Key(revoked.id),
        ChangeAuthority::Key(over.id),
        ChangeAuthority::Key(reads.id),
        ChangeAuthority::Session(session),
    ] {
        let new = NewAccount { authority, ..new_account(customer, "bob") };
        let connection = accounts::connect(&store, &new).await.unwrap();
        let removal = AccountRemoval { customer, authority, creator_id: &ada, allowances: &limits };
        let deleted = accounts::delete(&store, &removal, &told, &unnoted).await.unwrap();

        assert_eq!(connection, ConnectionOutcome::Refused(ConnectionRefusal::NoAuthority));
        assert_eq!(deleted, None, "{authority:?}");
    }
    let left = accounts::list(&store, customer).await.unwrap();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn an_account_is_replaced_by_another_only_on_request() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let ada = creator("ada");
    let before = accounts::find(&store, caller.customer, &ada).await.unwrap().unwrap();
    let other = |name: &str| NewAccount {
        platform_account_id: name.to_owned(),
        ..new_account(caller.customer, "ada")
    };

    let refused = accounts::connect(&store, &other("4712")).await.unwrap();
    let unchanged = accounts::find(&store, caller.customer, &ada).await.unwrap().unwrap();
    let untold = accounts::connect(&store, &other("")).await.unwrap();
    let kept = accounts::find(&store, caller.customer, &ada).await.unwrap().unwrap();
    let explicit = NewAccount { replaces_identity: true, ..other("4712") };
    let replaced = accounts::connect(&store, &explicit).await.unwrap();
    let after = accounts::find(&store, caller.customer, &ada).await.unwrap().unwrap();

    let connected = "4711".to_owned();
    let refusal = ConnectionRefusal::OtherIdentity { connected };
    assert_eq!(refused, ConnectionOutcome::Refused(refusal));
    assert_eq!(unchanged, before);
    assert_eq!(created(&untold), Some((false, false)));
    assert_eq!(kept.platform_account_id, "4711");
    assert_eq!(created(&replaced), Some((false, false)));
    assert_eq!(after.platform_account_id, "4712");
    let query = store::audit::AuditQuery {
        customer: caller.customer,
        action: "account.connected",
        before: None,
        limit: 10,
    };
    let audited = store::audit::list(&store, &query).await.unwrap();
    let told = audited.iter().filter(|entry| entry.details.contains("now 4712 in place of 4711"));
    assert_eq!(told.count(), 1, "{audited:?}");
}
