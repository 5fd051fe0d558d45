//! Networks of successful logins: stored with the login, for a limited time and in a limited
//! number.

use domain::id::{CustomerId, SessionId};
use domain::time::Timestamp;
use domain::token::SecretToken;
use store::customers::{self, NewCustomer, PasswordHash};
use store::login_networks::{self, LoginCandidate};
use store::sessions::{self, NewSession, VerifiedLogin};
use store::{Store, testing};

use crate::support::{NOON, new_customer, unique};

const EMAIL: &str = "ada@example.com";
const DAY_S: i64 = 86_400;

async fn customer(store: &Store) -> CustomerId {
    let password_hash = PasswordHash("first".to_owned());
    let new = NewCustomer { password_hash, ..new_customer(EMAIL) };
    customers::create(store, &new).await.unwrap();
    new.id
}

/// Logs in from this network, with the password that hashes to `checked`. False if no session
/// began.
async fn log_in(
    store: &Store,
    customer: CustomerId,
    (network, at): (&str, Timestamp),
    checked: &str,
) -> bool {
    let mut bytes = [0; 32];
    bytes[..10].copy_from_slice(&unique());
    let session = NewSession {
        id: SessionId::new(at, unique()),
        customer,
        token_hash: SecretToken::new(bytes).hash(),
        user_agent: String::new(),
        network: network.to_owned(),
        created_at: at,
    };
    let checked = PasswordHash(checked.to_owned());
    let login = VerifiedLogin {
        session: &session,
        checked: &checked,
        rehashed: None,
        replaced: None,
        sessions_max: 50,
    };
    sessions::log_in(store, &login).await.unwrap()
}

async fn is_known(store: &Store, network: &str, now: Timestamp) -> bool {
    let email = EMAIL.parse().unwrap();
    let found = login_networks::find_candidate(store, &email, network, now).await.unwrap();
    matches!(found, Some(LoginCandidate { is_known_network: true, .. }))
}

#[tokio::test]
async fn a_network_is_known_for_90_days_after_a_successful_login() {
    let store = testing::store().await;
    let ada = customer(&store).await;
    assert!(!log_in(&store, ada, ("198.51.100.0/24", NOON), "another").await);
    assert!(log_in(&store, ada, ("192.0.2.0/24", NOON), "first").await);

    assert!(is_known(&store, "192.0.2.0/24", NOON).await);
    assert!(!is_known(&store, "198.51.100.0/24", NOON).await, "the login failed");
    assert!(is_known(&store, "192.0.2.0/24", NOON.plus_seconds(90 * DAY_S - 1)).await);
    let late = NOON.plus_seconds(90 * DAY_S);
    assert!(!is_known(&store, "192.0.2.0/24", late).await);
    assert_eq!(login_networks::delete_old(&store, late.plus_seconds(-1)).await.unwrap(), 0);
    assert_eq!(login_networks::delete_old(&store, late).await.unwrap(), 1);
}

#[tokio::test]
async fn a_customers_20_most_recent_networks_are_kept() {
    let store = testing::store().await;
    let ada = customer(&store).await;
    for number in 0..25 {
        let at = NOON.plus_seconds(number);
        assert!(log_in(&store, ada, (&format!("192.0.{number}.0/24"), at), "first").await);
        // The first network is used again and again.
        assert!(log_in(&store, ada, ("192.0.0.0/24", at), "first").await);
    }

    let now = NOON.plus_seconds(60);
    assert!(is_known(&store, "192.0.0.0/24", now).await);
    for number in 1..25 {
        let network = format!("192.0.{number}.0/24");
        assert_eq!(is_known(&store, &network, now).await, number >= 6, "{network}");
    }
}
