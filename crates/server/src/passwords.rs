//! Passwords: hashed with argon2id, two at a time, away from the threads that serve.

use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};
use store::customers::PasswordHash;

use crate::app::App;
use crate::error::ApiError;

/// Memory in KiB, passes and lanes: what OWASP recommends for argon2id.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Hashes a password into a PHC string with a random salt of 16 bytes.
pub(crate) async fn hash(app: &App, password: String) -> Result<PasswordHash, ApiError> {
    let _permit = app.password_permits.acquire().await.map_err(|_| ApiError::Overloaded)?;
    let salt: [u8; 16] = app.random.bytes();
    let task = tokio::task::spawn_blocking(move || hash_with(&password, salt));
    task.await.map_err(|error| ApiError::Internal(error.to_string()))?.map_err(ApiError::Internal)
}

fn hash_with(password: &str, salt: [u8; 16]) -> Result<PasswordHash, String> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| error.to_string())?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2
        .hash_password_with_salt(password.as_bytes(), &salt)
        .map_err(|error| error.to_string())?;
    Ok(PasswordHash(hash.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_says_how_it_was_made_and_depends_on_the_salt() {
        let hash = hash_with("correct horse", [1; 16]).unwrap().0;

        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash_with("correct horse", [2; 16]).unwrap().0, hash);
        assert_eq!(hash_with("correct horse", [1; 16]).unwrap().0, hash);
    }
}
