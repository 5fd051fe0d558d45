//! Signatures of events: proof that the processor sent a body, and when.
//!
//! `t=<seconds>,v1=<hex>[,v1=…]`: HMAC-SHA-256 with the whole secret as its key over the time as
//! written, a dot, and the body's bytes as they came. Other schemes count for nothing.

use domain::time::Timestamp;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Seconds that a signature may be old, or ahead of our clock.
pub const TOLERANCE_S: i64 = 300;
/// The shortest secret that events are believed with, in bytes.
pub const SECRET_BYTES_MIN: usize = 24;
/// Signatures of one event that are looked at: while a secret is replaced there are two.
const SIGNATURES_MAX: usize = 16;

/// Why a body is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureProblem {
    /// The header has no time or no signature of the known scheme.
    #[error("the signature header has no time or no v1 signature")]
    Malformed,
    /// It was signed too long ago.
    #[error("the signature is older than 300 seconds")]
    TooOld,
    /// It was signed in the future.
    #[error("the signature is dated more than 300 seconds ahead")]
    TooEarly,
    /// No signature fits.
    #[error("the signature does not fit the body")]
    Wrong,
}

/// Checks the header `Stripe-Signature` of a body, as it came, against each of the secrets.
pub fn verify<S: AsRef<[u8]>>(
    secrets: &[S],
    header: &str,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SignatureProblem> {
    let (time, signatures) = parse(header).ok_or(SignatureProblem::Malformed)?;
    let fits = |secret: &S, signature: &[u8]| {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_ref()) else { return false };
        mac.update(time.as_bytes());
        mac.update(b".");
        mac.update(body);
        // In constant time.
        mac.verify_slice(signature).is_ok()
    };
    let secrets = secrets.iter().filter(|secret| secret.as_ref().len() >= SECRET_BYTES_MIN);
    let mut is_signed = false;
    for secret in secrets {
        for signature in &signatures {
            is_signed |= fits(secret, signature);
        }
    }
    if !is_signed {
        return Err(SignatureProblem::Wrong);
    }
    let signed_at: i64 = time.parse().map_err(|_| SignatureProblem::Malformed)?;
    let age = now.unix_seconds().saturating_sub(signed_at);
    if age > TOLERANCE_S {
        return Err(SignatureProblem::TooOld);
    }
    if age < -TOLERANCE_S {
        return Err(SignatureProblem::TooEarly);
    }
    Ok(())
}

/// The time as written and the signatures of the known scheme.
fn parse(header: &str) -> Option<(&str, Vec<Vec<u8>>)> {
    let mut time = None;
    let mut signatures = Vec::new();
    for item in header.split(',') {
        match item.split_once('=') {
            Some(("t", _)) if time.is_some() => return None,
            Some(("t", text)) => time = Some(text),
            Some(("v1", text)) if signatures.len() < SIGNATURES_MAX => {
                signatures.extend(hex::decode(text).ok());
            }
            _ => {}
        }
    }
    let time = time.filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))?;
    (!signatures.is_empty()).then_some((time, signatures))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_0123456789abcdef0123456789";
    const OTHER: &str = "whsec_another-secret-of-good-length";
    const BODY: &[u8] = br#"{"id": "evt_1", "object": "event"}"#;
    const NOW: Timestamp = Timestamp::from_unix_micros(1_795_234_422_000_000);

    fn signature(secret: &str, at: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{at}.").as_bytes());
        mac.update(body);
        hex::encode(mac.finalize().into_bytes())
    }

    fn signed(secret: &str, at: i64, body: &[u8]) -> String {
        format!("t={at},v1={}", signature(secret, at, body))
    }

    fn check(header: &str) -> Result<(), SignatureProblem> {
        verify(&[SECRET], header, BODY, NOW)
    }

    #[test]
    fn a_signature_is_the_hmac_of_time_dot_body() {
        // Computed with the standard library of Python, for this secret, time and body.
        let header =
            "t=1700000000,v1=d54861ff0350574259884e7cbf359ed1b3227f9a19e6544a87169c9845fa59d4";
        let now = Timestamp::from_unix_micros(1_700_000_000_000_000);

        assert_eq!(verify(&[SECRET], header, BODY, now), Ok(()));
    }

    #[test]
    fn a_fitting_signature_is_believed_for_five_minutes_either_way() {
        let now = NOW.unix_seconds();

        for (age, expected) in [
            (0, Ok(())),
            (300, Ok(())),
            (-300, Ok(())),
            (301, Err(SignatureProblem::TooOld)),
            (-301, Err(SignatureProblem::TooEarly)),
        ] {
            assert_eq!(check(&signed(SECRET, now - age, BODY)), expected, "{age} s old");
        }
    }

    #[test]
    fn nothing_but_a_fitting_v1_signature_over_the_bytes_is_believed() {
        let now = NOW.unix_seconds();
        let good = signature(SECRET, now, BODY);

        for (header, expected) in [
            (String::new(), SignatureProblem::Malformed),
            (format!("v1={good}"), SignatureProblem::Malformed),
            (format!("t={now}"), SignatureProblem::Malformed),
            (format!("t={now},v0={good}"), SignatureProblem::Malformed),
            (format!("t=x,v1={good}"), SignatureProblem::Malformed),
            (format!("t={now},t={now},v1={good}"), SignatureProblem::Malformed),
            (format!("t=-1,v1={good}"), SignatureProblem::Malformed),
            (format!("t={now},v1=zz"), SignatureProblem::Malformed),
            (format!("t={now},v1={}", &good[..62]), SignatureProblem::Wrong),
            (format!("t={},v1={good}", now + 1), SignatureProblem::Wrong),
            (signed(OTHER, now, BODY), SignatureProblem::Wrong),
            (signed(SECRET, now, br#"{"id":"evt_1","object":"event"}"#), SignatureProblem::Wrong),
        ] {
            assert_eq!(check(&header), Err(expected), "{header}");
        }
    }

    #[test]
    fn while_a_secret_is_replaced_either_one_will_do() {
        let now = NOW.unix_seconds();
        let both = format!(
            "t={now},v1={},v1={},v0=00",
            signature(OTHER, now, BODY),
            signature(SECRET, now, BODY)
        );

        assert_eq!(check(&both), Ok(()));
        assert_eq!(verify(&[OTHER, SECRET], &signed(SECRET, now, BODY), BODY, NOW), Ok(()));
    }

    #[test]
    fn an_empty_or_short_secret_signs_nothing() {
        let now = NOW.unix_seconds();
        for secret in ["", "whsec_short-secret-0123"] {
            let header = signed(secret, now, BODY);
            let verified = verify(&[secret], &header, BODY, NOW);
            assert_eq!(verified, Err(SignatureProblem::Wrong), "{secret}");
        }
    }
}
