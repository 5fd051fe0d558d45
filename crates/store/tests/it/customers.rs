//! Customers: registration in one transaction, and changes of their data.

use domain::customer::TrialState;
use store::customers::{self, CustomerCreation, PasswordHash};
use store::{keys, testing};

use crate::support::{
    NOON, assert_sound, create_key, credits, fresh_secret, new_customer, new_key,
};

#[tokio::test]
async fn a_registration_stores_customer_balance_and_key() {
    let store = testing::store().await;
    let new = new_customer("ada@example.com");

    assert_eq!(customers::create(&store, &new).await.unwrap(), CustomerCreation::Created);

    let by_id = customers::find_by_id(&store, new.id).await.unwrap().unwrap();
    let by_email = customers::find_by_email(&store, &new.email).await.unwrap().unwrap();
    assert_eq!(by_id, by_email);
    assert_eq!(
        (by_id.name.as_str(), by_id.trial, by_id.email_verified_at),
        ("Ada", TrialState::Pending, None)
    );
    assert_eq!(by_id.password_hash, new.password_hash);
    let presented = keys::find_by_hash(&store, &new.first_key.secret.hash).await.unwrap().unwrap();
    assert_eq!((presented.key.customer, presented.key.id), (new.id, new.first_key.id));
    let balance = store::usage::balance(&store, new.id).await.unwrap().unwrap();
    assert_eq!(balance.available, credits(0));
}

#[tokio::test]
async fn concurrent_registrations_of_an_address_create_one_customer_and_key() {
    let store = testing::store().await;
    let mut tasks = tokio::task::JoinSet::new();
    let mut hashes = Vec::new();
    for _ in 0..50 {
        let new = new_customer("ada@example.com");
        hashes.push(new.first_key.secret.hash);
        let shared = (*store).clone();
        tasks.spawn(async move { customers::create(&shared, &new).await.unwrap() });
    }

    let outcomes = tasks.join_all().await;

    assert_eq!(outcomes.iter().filter(|outcome| **outcome == CustomerCreation::Created).count(), 1);
    let mut keys_found = 0;
    for hash in hashes {
        keys_found += usize::from(keys::find_by_hash(&store, &hash).await.unwrap().is_some());
    }
    assert_eq!(keys_found, 1);
    assert_sound(&store).await;
}

#[tokio::test]
async fn unknown_ids_and_addresses_are_not_found() {
    let store = testing::store().await;
    let stranger = new_customer("nobody@example.com");

    assert_eq!(customers::find_by_id(&store, stranger.id).await.unwrap(), None);
    assert_eq!(customers::find_by_email(&store, &stranger.email).await.unwrap(), None);
    assert!(!customers::rename(&store, stranger.id, "x").await.unwrap());
    assert!(!customers::set_password(&store, stranger.id, &PasswordHash::none()).await.unwrap());
    assert!(!customers::disable(&store, stranger.id, NOON).await.unwrap());
}

#[tokio::test]
async fn a_name_and_a_password_can_be_replaced() {
    let store = testing::store().await;
    let new = new_customer("ada@example.com");
    customers::create(&store, &new).await.unwrap();
    let password = PasswordHash("$argon2id$other".to_owned());

    assert!(customers::rename(&store, new.id, "Countess").await.unwrap());
    assert!(customers::set_password(&store, new.id, &password).await.unwrap());

    let customer = customers::find_by_id(&store, new.id).await.unwrap().unwrap();
    assert_eq!((customer.name.as_str(), customer.password_hash), ("Countess", password));
}

#[tokio::test]
async fn a_closed_customer_has_no_usable_key() {
    let store = testing::store().await;
    let new = new_customer("ada@example.com");
    customers::create(&store, &new).await.unwrap();
    let second = new_key(fresh_secret());
    create_key(&store, new.id, &second).await;

    assert!(customers::disable(&store, new.id, NOON).await.unwrap());
    assert!(!customers::disable(&store, new.id, NOON).await.unwrap());

    for hash in [new.first_key.secret.hash, second.secret.hash] {
        let presented = keys::find_by_hash(&store, &hash).await.unwrap().unwrap();
        assert!(!presented.is_usable(NOON));
    }
}
