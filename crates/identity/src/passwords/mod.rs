//! Passwords: which are accepted, and how they are hashed and checked.
//!
//! argon2id, a few at a time, on blocking threads. Waiting requests are counted and refused beyond
//! a limit (`queue.rs`). A check costs the same whether or not there is a hash to compare with.

mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use argon2::password_hash::phc;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use domain::customer::{Email, PASSWORD_CHARS};
use domain::field_error::FieldErrorKind;
use failures::Failure;
use store::customers::PasswordHash;
use web::fields::problem_of_new;

pub use queue::{HashRequester, HashTurn};

use crate::IdentityState;
use failures::FieldProblem;

/// Memory in KiB, passes and lanes, as recommended by OWASP for argon2id.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// The prefix of hashes made with these parameters.
const MADE_TODAY: &str = "$argon2id$v=19$m=19456,t=2,p=1$";
/// The hash to compare with if there is none: it costs the same work and never matches.
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes passwords.
#[derive(Debug, Clone)]
pub struct PasswordHashing {
    queue: queue::HashQueue,
    computed: Arc<AtomicU64>,
}

impl PasswordHashing {
    /// `at_once` concurrent hashes, and `waiting_max` waiting requests, separately for known
    /// customers and strangers.
    pub fn new(at_once: usize, waiting_max: usize) -> Self {
        Self { queue: queue::HashQueue::new(at_once, waiting_max), computed: Arc::default() }
    }

    /// Hashes computed since the start, including checks.
    pub fn computed(&self) -> u64 {
        self.computed.load(Ordering::SeqCst)
    }

    /// Takes every free turn until the result is dropped; for tests of a full queue.
    pub fn occupy(&self) -> Vec<HashTurn> {
        self.queue.occupy()
    }

    /// The number of waiting requests; for tests of a full queue.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Computes one hash in its turn, to the end even if its requester has left.
    async fn run<T: Send + 'static>(
        &self,
        requester: HashRequester,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = self.queue.turn(requester).await?;
        self.computed.fetch_add(1, Ordering::SeqCst);
        let task = tokio::task::spawn_blocking(move || {
            let _until_done: HashTurn = turn;
            work()
        });
        task.await.map_err(|error| Failure::Internal(error.to_string()))?.map_err(Failure::Internal)
    }
}

/// Hashes a password into a PHC string with a random salt of 16 bytes.
pub async fn hash(
    identity: &IdentityState,
    requester: HashRequester,
    password: String,
) -> Result<PasswordHash, Failure> {
    let salt: [u8; 16] = identity.random.bytes();
    identity.hashing.run(requester, move || hash_with(&password, salt)).await
}

/// Whether the password matches the hash. Without a hash it does the same work and returns false.
pub async fn is_right(
    identity: &IdentityState,
    requester: HashRequester,
    password: String,
    stored: &PasswordHash,
) -> Result<bool, Failure> {
    let stored = stored.0.clone();
    identity.hashing.run(requester, move || check_with(&password, &stored)).await
}

/// Whether a hash was made with other parameters than today's.
pub fn is_out_of_date(stored: &PasswordHash) -> bool {
    !stored.0.starts_with(MADE_TODAY)
}

/// Refuses a text that is longer than any password before it is hashed; `field` is its name in the
/// body.
pub fn check_length_of_given(field: &str, password: &str) -> Result<(), Failure> {
    if password.chars().count() <= *PASSWORD_CHARS.end() {
        return Ok(());
    }
    let message = "must have at most 128 characters";
    Err(FieldProblem::new("body", field, FieldErrorKind::TooLong, message).into())
}

/// Refuses a new password that attackers guess first, for the field `new_password` and a customer
/// with this address.
pub fn check_new(identity: &IdentityState, password: &str, email: &Email) -> Result<(), Failure> {
    let problem = problem_of_new(&identity.config, "new_password", password, Some(email));
    problem.map_or(Ok(()), |problem| Err(problem.into()))
}

fn argon2() -> Result<Argon2<'static>, String> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| error.to_string())?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash_with(password: &str, salt: [u8; 16]) -> Result<PasswordHash, String> {
    let hash: phc::PasswordHash = argon2()?
        .hash_password_with_salt(password.as_bytes(), &salt)
        .map_err(|error| error.to_string())?;
    Ok(PasswordHash(hash.to_string()))
}

fn check_with(password: &str, stored: &str) -> Result<bool, String> {
    let has_password = !stored.is_empty();
    let text = if has_password { stored } else { NOBODYS };
    let hash = phc::PasswordHash::new(text).map_err(|error| error.to_string())?;
    let verified = argon2()?.verify_password(password.as_bytes(), &hash);
    Ok(has_password && verified.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_contains_its_parameters_and_depends_on_the_salt() {
        let hash = hash_with("correct horse", [1; 16]).unwrap();

        assert!(hash.0.starts_with(MADE_TODAY), "{}", hash.0);
        assert!(!is_out_of_date(&hash));
        assert!(is_out_of_date(&PasswordHash("$argon2id$v=19$m=8,t=1,p=1$x$y".to_owned())));
        assert_ne!(hash_with("correct horse", [2; 16]).unwrap(), hash);
        assert_eq!(hash_with("correct horse", [1; 16]).unwrap(), hash);
    }

    #[test]
    fn password_is_not_normalised() {
        for password in ["correct horse", " trailing ", "nul\0inside", "📎📎📎📎📎📎📎📎"]
        {
            let hash = hash_with(password, [1; 16]).unwrap().0;

            assert_eq!(check_with(password, &hash), Ok(true), "{password:?}");
            for wrong in
                [password.trim().to_owned() + ".", password.replace('\0', ""), String::new()]
            {
                assert_eq!(check_with(&wrong, &hash), Ok(wrong == password), "{wrong:?}");
            }
        }
    }

    #[test]
    fn missing_hash_never_matches_and_costs_the_same_work() {
        assert_eq!(check_with("", ""), Ok(false));
        assert_eq!(check_with("correct horse", ""), Ok(false));
        assert!(NOBODYS.starts_with(MADE_TODAY), "it must cost as much as any other");
    }

    const STRANGER: HashRequester =
        HashRequester::Stranger(std::net::IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 7)));

    #[tokio::test]
    async fn hash_is_refused_immediately_when_the_queue_is_full() {
        let hashing = PasswordHashing::new(1, 1);
        let taken = hashing.occupy();
        let mut waiting = Box::pin(hashing.run(STRANGER, || Ok(())));
        assert!(now(&mut waiting).await.is_none(), "it did not wait for its turn");

        let refused = hashing.run(STRANGER, || Ok(())).await;
        drop(taken);

        assert!(matches!(refused, Err(Failure::Overloaded)), "{refused:?}");
        assert!(waiting.await.is_ok());
        assert_eq!(hashing.computed(), 1, "a refused request is not hashed");
        assert_eq!(hashing.occupy().len(), 1, "the turn must be free again");
    }

    #[tokio::test]
    async fn concurrent_hashes_are_limited() {
        let hashing = PasswordHashing::new(2, 32);
        let turns = hashing.occupy();
        assert_eq!(turns.len(), 2);
        let mut waiting = Box::pin(hashing.run(STRANGER, || Ok(())));

        let early = now(&mut waiting).await;
        drop(turns);
        let late = waiting.await;

        assert!(early.is_none(), "it did not wait for its turn");
        assert!(late.is_ok());
    }

    /// The value of a future, if it is ready now.
    async fn now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
