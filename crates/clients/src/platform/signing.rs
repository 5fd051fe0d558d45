//! Signatures of requests, behind the name of a scheme.
//!
//! `hmac-sha256-v1`: HMAC-SHA256 with the signing key over timestamp, nonce, method and request target,
//! one a line, in lower-case hexadecimal; five `X-Client-…` headers carry what the platform needs to
//! check it.

use domain::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;

use super::settings::{SettingsProblem, SigningSettings};

const CLIENT_ID: HeaderName = HeaderName::from_static("x-client-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-client-timestamp");
const NONCE: HeaderName = HeaderName::from_static("x-client-nonce");
const VERSION: HeaderName = HeaderName::from_static("x-client-version");
const SIGNATURE: HeaderName = HeaderName::from_static("x-client-signature");

/// The scheme's only name so far.
const HMAC_SHA256_V1: &str = "hmac-sha256-v1";

/// What makes one signature different from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigningInput {
    /// The time of the request.
    pub now: Timestamp,
    /// Random bytes that no other request has.
    pub nonce: [u8; 16],
}

/// A checked way to sign.
#[derive(Clone)]
pub(super) struct Signer {
    keyed: Hmac<Sha256>,
    client_id: HeaderValue,
    client_version: HeaderValue,
}

impl Signer {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(
        settings: &SigningSettings,
        problems: &mut Vec<SettingsProblem>,
    ) -> Option<Self> {
        if settings.scheme != HMAC_SHA256_V1 {
            let message = format!("unknown scheme; known: {HMAC_SHA256_V1}");
            problems.push(SettingsProblem::new("signing.scheme", message));
        }
        if settings.key.is_empty() {
            problems.push(SettingsProblem::new("signing.key", "is required to sign requests"));
        }
        let client_id = word(&settings.client_id, "signing.client_id", problems);
        let client_version = word(&settings.client_version, "signing.client_version", problems);
        // An HMAC takes keys of every length, so this is empty only in theory.
        let keyed = Hmac::new_from_slice(settings.key.as_bytes()).ok()?;
        Some(Self { keyed, client_id: client_id?, client_version: client_version? })
    }

    /// Signs a request and puts the five headers on it. `target` is the request target as it is sent.
    pub(super) fn sign(
        &self,
        method: &str,
        target: &str,
        input: SigningInput,
        headers: &mut HeaderMap,
    ) {
        let timestamp = input.now.unix_millis();
        let nonce = hex::encode(input.nonce);
        let mut mac = self.keyed.clone();
        for part in [&timestamp.to_string(), "\n", &nonce, "\n", method, "\n", target] {
            mac.update(part.as_bytes());
        }
        let signature = hex::encode(mac.finalize().into_bytes());
        headers.insert(CLIENT_ID, self.client_id.clone());
        headers.insert(TIMESTAMP, HeaderValue::from(timestamp));
        headers.insert(VERSION, self.client_version.clone());
        for (name, text) in [(NONCE, nonce), (SIGNATURE, signature)] {
            // Hexadecimal digits are always a header value.
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
    }
}

fn word(text: &str, key: &str, problems: &mut Vec<SettingsProblem>) -> Option<HeaderValue> {
    let value = HeaderValue::from_str(text).ok().filter(|_| !text.is_empty());
    if value.is_none() {
        problems.push(SettingsProblem::new(key, "is required, in visible ASCII"));
    }
    value
}
