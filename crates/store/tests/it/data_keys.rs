//! Data keys: each customer has one current key, and rewrapping loses none.

use domain::id::DataKeyId;
use store::data_keys::{self, DataKey, MasterKeyUse};
use store::testing;

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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
async fn a_master_keys_canary_is_stored_once() {
    let store = testing::store().await;
    assert_eq!(data_keys::canary(&store, "first").await.unwrap(), None);

    assert!(data_keys::create_canary(&store, "first", &[1, 2], NOON).await.unwrap());
    assert!(!data_keys::create_canary(&store, "first", &[3], NOON).await.unwrap());

    assert_eq!(data_keys::canary(&store, "first").await.unwrap(), Some(vec![1, 2]));
}

#[tokio::test]
async fn a_database_is_sealed_from_its_first_key_or_canary_on() {
    let store = testing::store().await;
    assert!(!data_keys::are_sealed(&store).await.unwrap());
    let caller = TestCaller::with(&store, 0).await;
    assert!(!data_keys::are_sealed(&store).await.unwrap(), "an account alone names no master key");

    data_keys::create_canary(&store, "first", &[1], NOON).await.unwrap();
    assert!(data_keys::are_sealed(&store).await.unwrap());

    let other = testing::store().await;
    let owner = TestCaller::with(&other, 0).await;
    data_keys::create_first(&other, &data_key(&owner)).await.unwrap();
    assert!(data_keys::are_sealed(&other).await.unwrap());
    assert_eq!(data_keys::current(&store, caller.customer).await.unwrap(), None);
}

#[tokio::test]
async fn a_key_that_was_rewrapped_concurrently_keeps_the_first_wrapping() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let key = data_keys::create_first(&store, &data_key(&caller)).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12_u8 {
        let master_key = format!("next_{number}");
        let (shared, rewrapped) =
            ((*store).clone(), DataKey { wrapped: vec![number], master_key, ..key.clone() });
        tasks.spawn(async move {
            let done = data_keys::rewrap(&shared, "first", &rewrapped).await.unwrap();
            done.then_some(rewrapped)
        });
    }

    let done: Vec<DataKey> = tasks.join_all().await.into_iter().flatten().collect();

    assert_eq!(done.len(), 1);
    let stored = data_keys::find(&store, key.id).await.unwrap();
    assert_eq!(stored.as_ref(), Some(&done[0]));
    assert_eq!(data_keys::count_under(&store, "first").await.unwrap(), 0);
}
