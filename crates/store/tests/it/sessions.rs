//! Sessions: which tokens are accepted, when they expire, and how password changes affect them.

use domain::id::{CustomerId, SessionId};
use domain::time::Timestamp;
use domain::token::{SecretToken, TokenHash};
use store::customers::{self, NewCustomer, PasswordHash};
use store::sessions::{self, NewSession, PasswordChange, Session, SessionLifetime, VerifiedLogin};
use store::testing;
use store::{Store, StoreError};

use crate::support::{NOON, entry, new_customer, unique};

const LIFETIME: SessionLifetime = SessionLifetime { idle_s: 43_200, age_s: 604_800 };

fn hash(text: &str) -> PasswordHash {
    PasswordHash(text.to_owned())
}

/// A customer whose password hashes to `first`.
async fn customer(store: &Store, email: &str) -> CustomerId {
    let new = NewCustomer { password_hash: hash("first"), ..new_customer(email) };
    customers::create(store, &new).await.unwrap();
    new.id
}

fn new_session(customer: CustomerId, at: Timestamp) -> NewSession {
    let mut bytes = [0; 32];
    bytes[..10].copy_from_slice(&unique());
    NewSession {
        id: SessionId::new(at, unique()),
        customer,
        token_hash: SecretToken::new(bytes).hash(),
        user_agent: "Browser/1.0".to_owned(),
        network: "192.0.2.0/24".to_owned(),
        created_at: at,
    }
}

fn login<'a>(session: &'a NewSession, checked: &'a PasswordHash) -> VerifiedLogin<'a> {
    VerifiedLogin { session, checked, rehashed: None, replaced: None, sessions_max: 50 }
}

/// Begins a session of a customer whose password hashes to `first`.
async fn log_in(store: &Store, customer: CustomerId, at: Timestamp) -> NewSession {
    let session = new_session(customer, at);
    assert!(sessions::log_in(store, &login(&session, &hash("first"))).await.unwrap());
    session
}

async fn is_open(store: &Store, token: &TokenHash, now: Timestamp) -> bool {
    let found = sessions::find_by_hash(store, token).await.unwrap();
    found.is_some_and(|presented| presented.is_usable(now, LIFETIME))
}

async fn ids(store: &Store, customer: CustomerId) -> Vec<SessionId> {
    let listed: Result<Vec<Session>, StoreError> = sessions::list(store, customer).await;
    listed.unwrap().iter().map(|session| session.id).collect()
}

#[tokio::test]
async fn sessions_are_found_by_token_and_listed_by_customer() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let bob = customer(&store, "bob@example.com").await;

    let first = log_in(&store, ada, NOON).await;
    let second = log_in(&store, ada, NOON.plus_seconds(1)).await;
    log_in(&store, bob, NOON).await;

    let presented = sessions::find_by_hash(&store, &first.token_hash).await.unwrap().unwrap();
    assert_eq!((presented.session.id, presented.session.customer), (first.id, ada));
    assert_eq!(presented.session.user_agent, "Browser/1.0");
    assert_eq!(presented.session.network, "192.0.2.0/24");
    assert_eq!(presented.email_verified_at, None);
    assert_eq!(ids(&store, ada).await, [second.id, first.id]);
    let unknown = SecretToken::new([99; 32]).hash();
    assert_eq!(sessions::find_by_hash(&store, &unknown).await.unwrap(), None);
}

#[tokio::test]
async fn sessions_expire_12_hours_after_their_last_use_and_7_days_after_login() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let session = log_in(&store, ada, NOON).await;
    let at = |seconds: i64| NOON.plus_seconds(seconds);

    assert!(is_open(&store, &session.token_hash, at(43_199)).await);
    assert!(!is_open(&store, &session.token_hash, at(43_200)).await);

    sessions::touch(&store, session.id, at(43_199)).await.unwrap();
    assert!(is_open(&store, &session.token_hash, at(43_199 + 43_199)).await);
    // A late report of an earlier use changes nothing.
    sessions::touch(&store, session.id, at(5)).await.unwrap();
    assert!(is_open(&store, &session.token_hash, at(43_199 + 43_199)).await);

    sessions::touch(&store, session.id, at(604_799)).await.unwrap();
    assert!(is_open(&store, &session.token_hash, at(604_799)).await);
    assert!(!is_open(&store, &session.token_hash, at(604_800)).await);
}

#[tokio::test]
async fn only_expired_sessions_are_deleted() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let idle = log_in(&store, ada, NOON).await;
    let used = log_in(&store, ada, NOON).await;
    sessions::touch(&store, used.id, NOON.plus_seconds(60)).await.unwrap();
    let delete = async |at: i64, limit: i64| {
        let now = NOON.plus_seconds(at);
        sessions::delete_expired(&store, now, LIFETIME, limit).await.unwrap()
    };

    assert_eq!(delete(43_199, 100).await, 0);
    assert_eq!(delete(43_200, 100).await, 1);
    assert_eq!(ids(&store, ada).await, [used.id]);
    assert_eq!(sessions::find_by_hash(&store, &idle.token_hash).await.unwrap(), None);

    for _ in 0..3 {
        log_in(&store, ada, NOON).await;
    }
    assert_eq!((delete(604_800, 3).await, delete(604_800, 3).await), (3, 1));
    assert_eq!(ids(&store, ada).await, []);
}

#[tokio::test]
async fn only_its_customer_can_end_a_session() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let bob = customer(&store, "bob@example.com").await;
    let session = log_in(&store, ada, NOON).await;

    assert!(!sessions::end(&store, bob, session.id).await.unwrap());
    assert!(is_open(&store, &session.token_hash, NOON).await);
    assert!(sessions::end(&store, ada, session.id).await.unwrap());
    assert!(!sessions::end(&store, ada, session.id).await.unwrap());
    assert!(!is_open(&store, &session.token_hash, NOON).await);
}

#[tokio::test]
async fn a_login_replaces_the_session_of_the_same_device() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let bob = customer(&store, "bob@example.com").await;
    let (held, other) = (log_in(&store, bob, NOON).await, log_in(&store, bob, NOON).await);

    let session = new_session(ada, NOON);
    let first = hash("first");
    let login = VerifiedLogin { replaced: Some(held.token_hash), ..login(&session, &first) };
    assert!(sessions::log_in(&store, &login).await.unwrap());

    assert!(!is_open(&store, &held.token_hash, NOON).await);
    assert!(is_open(&store, &other.token_hash, NOON).await);
    assert!(is_open(&store, &session.token_hash, NOON).await);
}

#[tokio::test]
async fn the_least_recently_used_sessions_end_beyond_the_limit() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let bob = customer(&store, "bob@example.com").await;
    let foreign = log_in(&store, bob, NOON).await;
    let first = hash("first");
    let mut begun = Vec::new();
    for second in 0..3 {
        begun.push(log_in(&store, ada, NOON.plus_seconds(second)).await);
    }
    sessions::touch(&store, begun[0].id, NOON.plus_seconds(10)).await.unwrap();

    let session = new_session(ada, NOON.plus_seconds(11));
    let login = VerifiedLogin { sessions_max: 2, ..login(&session, &first) };
    assert!(sessions::log_in(&store, &login).await.unwrap());

    assert_eq!(ids(&store, ada).await, [session.id, begun[0].id]);
    assert_eq!(ids(&store, bob).await, [foreign.id]);
}

#[tokio::test]
async fn a_changed_password_starts_no_session() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let (old, new) = (log_in(&store, ada, NOON).await, new_session(ada, NOON));
    let told = entry(ada);
    let change = PasswordChange {
        session: &new,
        checked: &hash("first"),
        new: &hash("second"),
        entry: &told,
    };
    assert!(sessions::change_password(&store, &change).await.unwrap());

    let late = new_session(ada, NOON);
    assert!(!sessions::log_in(&store, &login(&late, &hash("first"))).await.unwrap());
    let again = PasswordChange { session: &late, ..change };
    assert!(!sessions::change_password(&store, &again).await.unwrap());

    assert!(!is_open(&store, &old.token_hash, NOON).await, "every other session ended");
    assert_eq!(ids(&store, ada).await, [new.id]);
    let stored = customers::find_by_id(&store, ada).await.unwrap().unwrap();
    assert_eq!(stored.password_hash, hash("second"));
}

#[tokio::test]
async fn a_login_updates_an_outdated_password_hash() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let session = new_session(ada, NOON);
    let (first, better) = (hash("first"), hash("better"));
    let login = VerifiedLogin { rehashed: Some(&better), ..login(&session, &first) };

    assert!(sessions::log_in(&store, &login).await.unwrap());

    let stored = customers::find_by_id(&store, ada).await.unwrap().unwrap();
    assert_eq!(stored.password_hash, better);
    assert!(is_open(&store, &session.token_hash, NOON).await);
}

#[tokio::test]
async fn a_closed_customer_has_no_sessions() {
    let store = testing::store().await;
    let ada = customer(&store, "ada@example.com").await;
    let session = log_in(&store, ada, NOON).await;

    assert!(customers::disable(&store, ada, NOON).await.unwrap());

    assert!(!is_open(&store, &session.token_hash, NOON).await);
    let late = new_session(ada, NOON);
    assert!(!sessions::log_in(&store, &login(&late, &hash("first"))).await.unwrap());
}

/// Whichever comes first, no login with the old password outlives the password change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_racing_with_a_password_change_leave_no_session_of_the_old_password() {
    let store = testing::store().await;
    let store = std::sync::Arc::new(store);
    let ada = customer(&store, "ada@example.com").await;
    let kept = new_session(ada, NOON);
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..20 {
        let (shared, session) = (std::sync::Arc::clone(&store), new_session(ada, NOON));
        let kept = kept.clone();
        tasks.spawn(async move {
            let (first, second) = (hash("first"), hash("second"));
            if index == 10 {
                let told = entry(ada);
                let change =
                    PasswordChange { session: &kept, checked: &first, new: &second, entry: &told };
                assert!(sessions::change_password(&shared, &change).await.unwrap());
            } else {
                sessions::log_in(&shared, &login(&session, &first)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;

    assert_eq!(ids(&store, ada).await, [kept.id]);
}
