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
pub(super) struct RequestSigner {
    keyed: Hmac<Sha256>,
    client_id: HeaderValue,
    client_version: HeaderValue,
}

impl RequestSigner {
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

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn settings() -> SigningSettings {
        SigningSettings {
            scheme: HMAC_SHA256_V1.to_owned(),
            key: Zeroizing::new("sandbox-signing-key".to_owned()),
            client_id: "gateway".to_owned(),
            client_version: "7.1".to_owned(),
        }
    }

    fn signed(target: &str, nonce: u8) -> HeaderMap {
        let signer = RequestSigner::new(&settings(), &mut Vec::new()).unwrap();
        let mut headers = HeaderMap::new();
        let input = SigningInput {
            now: Timestamp::from_unix_micros(1_795_234_422_123_999),
            nonce: std::array::from_fn(|index| u8::try_from(index).unwrap() ^ nonce),
        };
        signer.sign("POST", target, input, &mut headers);
        headers
    }

    /// The signature was computed with Python: `hmac.new(key, text, hashlib.sha256).hexdigest()` over the
    /// four lines.
    #[test]
    fn a_signature_equals_one_made_by_another_implementation() {
        let headers = signed("/api/v1/message/send?a=1&b=%20x", 0);

        let expected = [
            ("x-client-id", "gateway"),
            ("x-client-timestamp", "1795234422123"),
            ("x-client-nonce", "000102030405060708090a0b0c0d0e0f"),
            ("x-client-version", "7.1"),
            (
                "x-client-signature",
                "e73b957e371019a0ee54369e849915bf8df4629175e978494fd3f348d5582dcd",
            ),
        ];
        assert_eq!(headers.len(), expected.len());
        for (name, value) in expected {
            assert_eq!(headers.get(name).unwrap(), value, "{name}");
        }
    }

    #[test]
    fn another_query_or_nonce_gives_another_signature() {
        let signature = |target, nonce| signed(target, nonce).remove(SIGNATURE).unwrap();

        assert_eq!(signature("/a?b", 0), signature("/a?b", 0));
        assert_ne!(signature("/a?b", 0), signature("/a?c", 0));
        assert_ne!(signature("/a?b", 0), signature("/a?b", 1));
    }

    #[test]
    fn all_problems_of_the_settings_are_named() {
        let unusable = SigningSettings {
            scheme: "md5".to_owned(),
            key: Zeroizing::default(),
            client_id: String::new(),
            client_version: "a\nb".to_owned(),
        };
        let mut problems = Vec::new();

        assert!(RequestSigner::new(&unusable, &mut problems).is_none());

        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(
            keys,
            ["signing.scheme", "signing.key", "signing.client_id", "signing.client_version"]
        );
    }

    #[test]
    fn the_key_does_not_show_in_debug_output() {
        assert!(!format!("{:?}", settings()).contains("sandbox-signing-key"));
    }
}
