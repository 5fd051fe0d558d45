//! The `Idempotency-Key` of a request, chosen by its caller so that a repeated write takes effect
//! once.

use sha2::{Digest, Sha256};

/// The hash of a key that a caller chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey([u8; 32]);

impl RequestKey {
    /// Hashes the bytes that the caller sent.
    pub fn new(sent: &[u8]) -> Self {
        Self(Sha256::digest(sent).into())
    }

    /// SHA-256 of the key, which is stored.
    pub const fn hash(self) -> [u8; 32] {
        self.0
    }
}
