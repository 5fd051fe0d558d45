//! The format of an API key, and what a key may do.
//!
//! `cgw_live_` + 30 random base62 digits + 6 base62 digits of the CRC-32 (IEEE 802.3) of everything
//! before them: 178 random bits, and a checksum that rejects guesses before any lookup. Only the
//! SHA-256 of the whole text is ever stored.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::wire::text_enum;

text_enum! {
    /// What a key may do (specification 5.2).
    KeyScope, "one of read_only, full" {
        /// GET only.
        ReadOnly = "read_only",
        /// Every method.
        Full = "full",
    }
}

/// The prefix of every key. It never changes, because secret scanners match it.
pub const PREFIX: &str = "cgw_live_";
/// The pattern of a key, for scanners and validation at the edge.
pub const PATTERN: &str = "^cgw_live_[0-9A-Za-z]{36}$";

const RANDOM_DIGITS: usize = 30;
const CHECK_DIGITS: usize = 6;
const KEY_BYTES: usize = 45;
const CHECK_STARTS_AT: usize = 39;
const SHOWN_PREFIX_ENDS_AT: usize = 13;
const SHOWN_SUFFIX_STARTS_AT: usize = 41;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The secret text of a key. It has no `Debug` and no `Display`, and is wiped when dropped.
pub struct KeySecret(Zeroizing<String>);

/// The stored form of a secret: SHA-256 of the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

/// A text that cannot be a key: wrong prefix, length, alphabet or checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a key of this service")]
pub struct MalformedKey;

impl KeySecret {
    /// Creates a secret. `draw` returns a random number below the bound that it is passed.
    pub fn generate(mut draw: impl FnMut(u8) -> u8) -> Self {
        let mut text = Zeroizing::new(String::with_capacity(KEY_BYTES));
        text.push_str(PREFIX);
        for _ in 0..RANDOM_DIGITS {
            text.push(digit(u32::from(draw(62))));
        }
        let check = checksum(&text);
        text.push_str(&check);
        Self(text)
    }

    /// Parses a secret that a caller sent. Only the format and the checksum are checked.
    pub fn parse(text: &str) -> Result<Self, MalformedKey> {
        let body = text.strip_prefix(PREFIX).ok_or(MalformedKey)?;
        let formed =
            text.len() == KEY_BYTES && body.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !formed {
            return Err(MalformedKey);
        }
        let (head, check) = text.split_at(CHECK_STARTS_AT);
        if checksum(head) == check {
            Ok(Self(Zeroizing::new(text.to_owned())))
        } else {
            Err(MalformedKey)
        }
    }

    /// The whole text, to be shown once.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The hash that is stored and looked up.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.0.as_bytes()).into())
    }

    /// The beginning that may be shown later: the prefix and four digits.
    pub fn shown_prefix(&self) -> &str {
        self.0.get(..SHOWN_PREFIX_ENDS_AT).unwrap_or_default()
    }

    /// The end that may be shown later: the last four digits.
    pub fn shown_suffix(&self) -> &str {
        self.0.get(SHOWN_SUFFIX_STARTS_AT..).unwrap_or_default()
    }
}

impl KeyHash {
    /// Reads a stored hash.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn digit(value: u32) -> char {
    let index = usize::try_from(value % 62).unwrap_or(0);
    ALPHABET.get(index).copied().map_or('0', char::from)
}

fn checksum(text: &str) -> String {
    let mut rest = crc32(text.as_bytes());
    let mut digits = ['0'; CHECK_DIGITS];
    for place in digits.iter_mut().rev() {
        *place = digit(rest % 62);
        rest /= 62;
    }
    digits.iter().collect()
}

/// The remainders of CRC-32 for half a byte. Every call checks a key, and computing them bit by bit
/// costs as much as the key's hash.
#[expect(clippy::indexing_slicing, reason = "the loop ends at the length of the table")]
const REMAINDERS: [u32; 16] = {
    let mut table = [0; 16];
    let mut half = 0;
    while half < 16 {
        let mut remainder = half;
        let mut bit = 0;
        while bit < 4 {
            let carry = if remainder & 1 == 1 { 0xEDB8_8320 } else { 0 };
            remainder = (remainder >> 1) ^ carry;
            bit += 1;
        }
        table[half as usize] = remainder;
        half += 1;
    }
    table
};

/// CRC-32 as in IEEE 802.3 and zip, half a byte at a time.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |remainder: u32| {
        let half = usize::try_from(remainder & 15).unwrap_or(0);
        (remainder >> 4) ^ REMAINDERS.get(half).copied().unwrap_or(0)
    };
    !bytes.iter().fold(u32::MAX, |remainder, byte| step(step(remainder ^ u32::from(*byte))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fixed(seed: u8) -> KeySecret {
        let mut next = seed;
        KeySecret::generate(|bound| {
            next = next.wrapping_mul(29).wrapping_add(17);
            next % bound
        })
    }

    #[test]
    fn the_checksum_is_the_published_crc32() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_generated_key_parses_and_shows_only_its_ends() {
        let secret = fixed(1);

        let read = KeySecret::parse(secret.expose()).unwrap();

        assert_eq!(read.hash(), secret.hash());
        assert_eq!(secret.expose().len(), 45);
        assert_eq!(secret.shown_prefix(), &secret.expose()[..13]);
        assert_eq!(secret.shown_suffix(), &secret.expose()[41..]);
    }

    #[test]
    fn malformed_texts_are_refused() {
        let key = fixed(2).expose().to_owned();
        for text in [
            "",
            "cgw_live_",
            &key[..44],
            &format!("{key}0"),
            &key.replace("live", "test"),
            &format!(" {key}"),
        ] {
            assert!(KeySecret::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_key_with_one_wrong_digit_is_refused(seed: u8, place in 9_usize..45, shift in 1_u32..62) {
            let key = fixed(seed).expose().to_owned();
            let old = ALPHABET.iter().position(|letter| *letter == key.as_bytes()[place]).unwrap();
            let new = digit(u32::try_from(old).unwrap() + shift);
            let mut wrong = key.clone();
            wrong.replace_range(place..=place, &new.to_string());

            prop_assert!(wrong != key && KeySecret::parse(&wrong).is_err());
        }
    }
}
