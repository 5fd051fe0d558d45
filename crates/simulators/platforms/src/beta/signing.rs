//! The five headers that every request must have. The signature is the lower-case hexadecimal
//! HMAC-SHA256 of time, nonce, method, and path with query, one per line.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::NAME;
use crate::answer::Refusal;
use crate::platform::IncomingRequest;
use crate::settings::PlatformSettings;
use crate::world::MINUTE_MS;

/// The most by which a request's time may differ from the platform's clock.
const SKEW_MS_MAX: i64 = 5 * MINUTE_MS;

/// The longest nonce, in bytes.
const NONCE_BYTES_MAX: usize = 128;

/// Checks signatures and remembers used nonces.
pub(super) struct Signatures {
    key: String,
    client_id: String,
    client_version: String,
    nonces: Mutex<Nonces>,
}

impl Signatures {
    pub(super) fn new(settings: &PlatformSettings) -> Self {
        Self {
            key: settings.beta_signing_key.clone(),
            client_id: settings.beta_client_id.clone(),
            client_version: settings.beta_client_version.clone(),
            nonces: Mutex::default(),
        }
    }

    /// Refuses a request that is not signed with our key, is too old or too new, or is a replay.
    pub(super) fn check(&self, request: &IncomingRequest<'_>) -> Result<(), Refusal> {
        let header = |name: &str| {
            let value = request.header(name).filter(|value| !value.is_empty());
            value.ok_or_else(|| Refusal::unauthorized(format!("{name} is missing")))
        };
        let client_id = header("x-client-id")?;
        let timestamp = header("x-client-timestamp")?;
        let nonce = header("x-client-nonce")?;
        let client_version = header("x-client-version")?;
        let signature = header("x-client-signature")?;
        if client_id != self.client_id || client_version != self.client_version {
            return Err(Refusal::unauthorized("The client is not known"));
        }
        let in_time = timestamp
            .parse::<i64>()
            .is_ok_and(|sent_ms| (sent_ms.saturating_sub(request.now_ms)).abs() <= SKEW_MS_MAX);
        if !in_time {
            return Err(Refusal::unauthorized("The timestamp is not within five minutes"));
        }
        // The signature covers the platform's own path.
        let target = format!("/{NAME}{}", request.path_and_query);
        let signed = format!("{timestamp}\n{nonce}\n{}\n{target}", request.method);
        if nonce.len() > NONCE_BYTES_MAX || !self.is_signature_of(&signed, signature) {
            return Err(Refusal::unauthorized("The signature is wrong"));
        }
        let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        if nonces.use_up(nonce, request.now_ms) {
            Ok(())
        } else {
            Err(Refusal::unauthorized("The nonce was used before"))
        }
    }

    fn is_signature_of(&self, signed: &str, signature: &str) -> bool {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()) else {
            return false;
        };
        mac.update(signed.as_bytes());
        let lower_case = !signature.bytes().any(|byte| byte.is_ascii_uppercase());
        lower_case && hex::decode(signature).is_ok_and(|sent| mac.verify_slice(&sent).is_ok())
    }
}

/// The nonces of the last ten to twenty minutes: a request's time is accepted for at most ten
/// minutes.
#[derive(Default)]
struct Nonces {
    since_ms: i64,
    newer: HashSet<String>,
    older: HashSet<String>,
}

impl Nonces {
    /// Records a nonce; returns false if it was used before.
    fn use_up(&mut self, nonce: &str, now_ms: i64) -> bool {
        if now_ms.saturating_sub(self.since_ms) > 2 * SKEW_MS_MAX {
            self.older = std::mem::take(&mut self.newer);
            self.since_ms = now_ms;
        }
        !self.older.contains(nonce) && self.newer.insert(nonce.to_owned())
    }
}
