//! The vault on both databases: customers' data keys, and the master keys that wrap them.

use domain::customer::TrialState;
use domain::id::{CustomerId, DataKeyId, KeyId};
use domain::key::{KeyScope, KeySecret};
use domain::time::Timestamp;
use runtime::sealing::{Keyring, MasterKey};
use runtime::{Clock, CurrentDataKey, Random, SealedValue, Vault, VaultError};
use store::customers::{self, NewCustomer, PasswordHash};
use store::data_keys;
use store::keys::{NewKey, NewSecret};
use store::testing::TestStore;

const NOW: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

fn master(id: &str) -> MasterKey {
    // Each id has a key of its own, the same in every test.
    let seed = id.bytes().fold(0, |sum, byte| sum * 256 + u64::from(byte));
    MasterKey::generate(id, &Random::seeded(seed))
}

fn keyring(ids: &[&str]) -> Keyring {
    Keyring::new(ids.iter().map(|id| master(id)).collect()).unwrap()
}

async fn open(store: &TestStore, keyring: Keyring) -> Result<Vault, VaultError> {
    let clock = Clock::manual(NOW);
    Vault::open((**store).clone(), keyring, Random::System, clock).await
}

/// A customer, who must exist before data is sealed for it.
async fn customer(store: &TestStore, number: u8) -> CustomerId {
    let id = CustomerId::new(NOW, [number; 10]);
    let secret = KeySecret::generate(|bound| number % bound);
    let new = NewCustomer {
        id,
        email: format!("c{number}@example.com").parse().unwrap(),
        name: String::new(),
        password_hash: PasswordHash::none(),
        email_verified_at: None,
        trial: TrialState::None,
        created_at: NOW,
        first_key: NewKey {
            id: KeyId::new(NOW, [number; 10]),
            name: "first".to_owned(),
            secret: NewSecret::of(&secret),
            scope: KeyScope::Full,
            accounts: Vec::new(),
            monthly_budget: None,
            expires_at: None,
        },
    };
    customers::create(store, &new).await.unwrap();
    id
}

#[tokio::test]
async fn what_is_sealed_for_a_customer_opens_after_a_restart() {
    let store = store::testing::store().await;
    let ada = customer(&store, 1).await;
    let vault = open(&store, keyring(&["1"])).await.unwrap();

    let SealedValue { data_key, sealed } = vault.seal(ada, "place", b"secret").await.unwrap();

    let again = open(&store, keyring(&["1"])).await.unwrap();
    for one in [vault, again] {
        let key = one.find(data_key).await.unwrap();
        assert_eq!(key.open(&sealed, "place").unwrap().as_slice(), b"secret");
        assert!(key.open(&sealed, "another place").is_err());
    }
}

#[tokio::test]
async fn a_customer_has_one_data_key_and_no_other_customers() {
    let store = store::testing::store().await;
    let (ada, bob) = (customer(&store, 1).await, customer(&store, 2).await);
    let one = open(&store, keyring(&["1"])).await.unwrap();
    let other = open(&store, keyring(&["1"])).await.unwrap();

    let (first, second) = tokio::join!(one.current(ada), other.current(ada));
    let (first, second) = (first.unwrap(), second.unwrap());
    let CurrentDataKey { id: of_bob, .. } = one.current(bob).await.unwrap();

    assert_eq!(first.id, second.id, "whoever came second takes the key of the first");
    let sealed = first.key.seal(b"x", "place", &Random::System).unwrap();
    assert!(second.key.open(&sealed, "place").is_ok());
    assert_ne!(first.id, of_bob);
    assert!(one.find(of_bob).await.unwrap().open(&sealed, "place").is_err());
}

#[tokio::test]
async fn another_key_under_a_known_id_is_refused_before_anything_is_sealed() {
    let store = store::testing::store().await;
    drop(open(&store, keyring(&["1"])).await.unwrap());
    let wrong = Keyring::new(vec![MasterKey::generate("1", &Random::seeded(99))]).unwrap();

    let refused = open(&store, wrong).await.map(|_| ()).unwrap_err();

    assert_eq!(
        refused.to_string(),
        "the master key `1` is not the one that this database was sealed with"
    );
}

#[tokio::test]
async fn a_key_that_data_needs_must_be_configured() {
    let store = store::testing::store().await;
    let vault = open(&store, keyring(&["1"])).await.unwrap();
    for number in 1..=3 {
        let customer = customer(&store, number).await;
        drop(vault.current(customer).await.unwrap());
    }

    let refused = open(&store, keyring(&["2"])).await.map(|_| ()).unwrap_err();

    assert_eq!(
        refused.to_string(),
        "3 data keys are wrapped by the master key `1`, which is not configured"
    );
    assert!(open(&store, keyring(&["2", "1"])).await.is_ok());
}

#[tokio::test]
async fn after_a_rotation_new_keys_are_wrapped_by_the_new_key_and_old_data_still_opens() {
    let store = store::testing::store().await;
    let (ada, bob) = (customer(&store, 1).await, customer(&store, 2).await);
    let vault = open(&store, keyring(&["1"])).await.unwrap();
    let before = vault.seal(ada, "place", b"before").await.unwrap();

    vault.prefer(keyring(&["2", "1"]));
    let of_bob = vault.seal(bob, "place", b"after").await.unwrap();

    let wrapped_by = async |id| data_keys::find(&store, id).await.unwrap().unwrap().master_key;
    assert_eq!(wrapped_by(before.data_key).await, "1");
    assert_eq!(wrapped_by(of_bob.data_key).await, "2");
    assert_eq!(vault.keyring().current().unwrap().id(), "2");
    assert_eq!(vault.rewrap_all().await.unwrap(), 1);
    assert_eq!(vault.rewrap_all().await.unwrap(), 0, "everything is wrapped by the new key");
    assert_eq!(wrapped_by(before.data_key).await, "2");
    // The old key is not needed any more, not even by what it had wrapped.
    let after = open(&store, keyring(&["2"])).await.unwrap();
    let key = after.find(before.data_key).await.unwrap();
    assert_eq!(key.open(&before.sealed, "place").unwrap().as_slice(), b"before");
}

#[tokio::test]
async fn all_data_keys_are_wrapped_anew_however_many_there_are_and_whoever_helps() {
    let store = store::testing::store().await;
    let vault = open(&store, keyring(&["1"])).await.unwrap();
    let mut sealed = Vec::new();
    for number in 0..12 {
        let customer = customer(&store, number).await;
        sealed.push(vault.seal(customer, "place", &[number]).await.unwrap());
    }
    let other = open(&store, keyring(&["2", "1"])).await.unwrap();
    vault.prefer(keyring(&["2", "1"]));

    let (one, two) = tokio::join!(vault.rewrap_all(), other.rewrap_all());

    assert_eq!(one.unwrap() + two.unwrap(), 12, "each is wrapped once");
    assert_eq!(data_keys::count_under(&store, "1").await.unwrap(), 0);
    let after = open(&store, keyring(&["2"])).await.unwrap();
    for (number, value) in (0_u8..).zip(sealed) {
        let key = after.find(value.data_key).await.unwrap();
        assert_eq!(key.open(&value.sealed, "place").unwrap().as_slice(), [number]);
    }
}

#[tokio::test]
async fn nothing_is_wrapped_anew_while_a_key_that_data_needs_is_missing() {
    let store = store::testing::store().await;
    let ada = customer(&store, 1).await;
    let vault = open(&store, keyring(&["1"])).await.unwrap();
    let id = vault.current(ada).await.unwrap().id;
    vault.prefer(keyring(&["2"]));

    let refused = vault.rewrap_all().await.unwrap_err();

    assert!(matches!(refused, VaultError::MissingKey { count: 1, .. }), "{refused}");
    let record = data_keys::find(&store, id).await.unwrap().unwrap();
    assert_eq!(record.master_key, "1");
}

#[tokio::test]
async fn an_unknown_data_key_opens_nothing() {
    let store = store::testing::store().await;
    let vault = open(&store, keyring(&["1"])).await.unwrap();

    let refused = vault.find(DataKeyId::new(NOW, [9; 10])).await.map(|_| ()).unwrap_err();

    assert_eq!(refused.to_string(), "the data key of sealed data cannot be used");
}

/// A row copied to another customer, as by somebody who can write to the database.
#[tokio::test]
async fn a_wrapped_key_of_another_customer_does_not_open() {
    let store = store::testing::store().await;
    let (ada, bob) = (customer(&store, 1).await, customer(&store, 2).await);
    let vault = open(&store, keyring(&["1"])).await.unwrap();
    let id = vault.current(ada).await.unwrap().id;
    let record = data_keys::find(&store, id).await.unwrap().unwrap();
    let stolen = data_keys::DataKey { id: DataKeyId::new(NOW, [7; 10]), customer: bob, ..record };
    data_keys::create_first(&store, &stolen).await.unwrap();

    assert!(matches!(vault.find(stolen.id).await, Err(VaultError::NoDataKey)));
    assert!(matches!(vault.seal(bob, "place", b"x").await, Err(VaultError::Sealing)));
}
