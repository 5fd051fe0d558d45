//! Data keys: each customer has one current key, and rewrapping loses none.

use domain::id::DataKeyId;
use store::data_keys::{self, DataKey, MasterKeyUse};
use store::testing;
use test_databases::both_databases;

use crate::support::{NOON, TestCaller, unique};

fn data_key(caller: &TestCaller) -> DataKey {
    DataKey {
        id: DataKeyId::new(NOON, unique()),
        customer: caller.customer,
        wrapped: vec![1, 2, 3],
        master_key: "first".to_owned(),
        created_at: NOON,
    }
}

#[both_databases]
async fn concurrent_creations_of_the_first_key_return_the_same_key() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    assert_eq!(data_keys::current(&store, caller.customer).await.unwrap(), None);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (shared, new) = ((*store).clone(), data_key(&caller));
        tasks.spawn(async move { data_keys::create_first(&shared, &new).await.unwrap() });
    }

    let made = tasks.join_all().await;

    let current = data_keys::current(&store, caller.customer).await.unwrap().unwrap();
    assert!(made.iter().all(|key| *key == current));
    assert_eq!(data_keys::find(&store, current.id).await.unwrap(), Some(current));
    assert_eq!(data_keys::find(&store, data_key(&caller).id).await.unwrap(), None);
}

#[both_databases]
async fn keys_are_rewrapped_once_and_counted() {
    let store = testing::store().await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        let caller = TestCaller::with(&store, 0).await;
        keys.push(data_keys::create_first(&store, &data_key(&caller)).await.unwrap());
    }
    let rewrapped =
        DataKey { wrapped: vec![9], master_key: "second".to_owned(), ..keys[0].clone() };

    assert!(data_keys::rewrap(&store, "first", &rewrapped).await.unwrap());
    assert!(!data_keys::rewrap(&store, "first", &rewrapped).await.unwrap());

    assert_eq!(data_keys::find(&store, keys[0].id).await.unwrap(), Some(rewrapped));
    assert_eq!(data_keys::count_under(&store, "first").await.unwrap(), 2);
    let counts = data_keys::count_by_master_key(&store).await.unwrap();
    let used = |name: &str, data_keys| MasterKeyUse { master_key: name.to_owned(), data_keys };
    assert_eq!(counts, [used("first", 2), used("second", 1)]);
    let left = data_keys::list_under_others(&store, "second", 10).await.unwrap();
    assert_eq!(left, keys[1..]);
    assert_eq!(data_keys::list_under_others(&store, "second", 1).await.unwrap(), keys[1..2]);
}

#[both_databases]
async fn a_master_keys_canary_is_stored_once() {
    let store = testing::store().await;
    assert_eq!(data_keys::canary(&store, "first").await.unwrap(), None);

    assert!(data_keys::create_canary(&store, "first", &[1, 2], NOON).await.unwrap());
    assert!(!data_keys::create_canary(&store, "first", &[3], NOON).await.unwrap());

    assert_eq!(data_keys::canary(&store, "first").await.unwrap(), Some(vec![1, 2]));
}
