//! Secrets made for one purpose and one holder: the value of a session's cookie or of an emailed
//! link.
//!
//! 256 random bits in base64url without padding. Only the SHA-256 of the whole text is ever stored,
//! so a lookup compares only hashes and a stolen database opens nothing.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Characters of a token: six bits each.
const TOKEN_CHARS: usize = 43;

/// The secret text. It has no `Debug` and no `Display`, and is wiped when dropped.
pub struct SecretToken(Zeroizing<String>);

/// The stored form of a token: SHA-256 of the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

/// A text that cannot be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token of this service")]
pub struct MalformedToken;

impl SecretToken {
    /// Encodes random bytes as a token.
    pub fn new(random: [u8; 32]) -> Self {
        let mut text = Zeroizing::new(String::with_capacity(TOKEN_CHARS));
        for triple in random.chunks(3) {
            let byte = |place: usize| u32::from(triple.get(place).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for shift in [18, 12, 6, 0].into_iter().take(triple.len().saturating_add(1)) {
                text.push(letter(bits >> shift & 63));
            }
        }
        Self(text)
    }

    /// Parses a token that a caller sent. Only its format is checked.
    pub fn parse(text: &str) -> Result<Self, MalformedToken> {
        let written = text.bytes().all(|byte| ALPHABET.contains(&byte));
        if text.len() == TOKEN_CHARS && written {
            Ok(Self(Zeroizing::new(text.to_owned())))
        } else {
            Err(MalformedToken)
        }
    }

    /// The whole text, for its holder.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The hash that is stored and looked up.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl TokenHash {
    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn letter(bits: u32) -> char {
    let index = usize::try_from(bits).unwrap_or(0);
    ALPHABET.get(index).copied().map_or('A', char::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_base64url_of_its_bytes_and_parses() {
        let mut bytes = [0; 32];
        bytes[..6].copy_from_slice(&[0xFB, 0xEF, 0xFF, 0x00, 0x10, 0x83]);

        let token = SecretToken::new(bytes);

        assert_eq!(&token.expose()[..8], "--__ABCD");
        assert_eq!(token.expose().len(), TOKEN_CHARS);
        assert_eq!(SecretToken::parse(token.expose()).unwrap().hash(), token.hash());
    }

    #[test]
    fn every_bit_changes_the_hash() {
        let zero = SecretToken::new([0; 32]);
        for bit in 0..256 {
            let mut bytes = [0; 32];
            bytes[bit / 8] = 1 << (bit % 8);
            let other = SecretToken::new(bytes);
            assert_ne!(other.expose(), zero.expose(), "bit {bit}");
            assert_ne!(other.hash(), zero.hash(), "bit {bit}");
        }
    }

    /// One wrong character anywhere makes an unrelated hash, so tokens cannot be guessed step by
    /// step.
    #[test]
    fn one_wrong_character_makes_another_hash() {
        let token = SecretToken::new([7; 32]);
        let right = token.hash();
        for place in 0..TOKEN_CHARS {
            let mut wrong = token.expose().to_owned();
            let other = if wrong.as_bytes()[place] == b'A' { "B" } else { "A" };
            wrong.replace_range(place..=place, other);

            let hash = SecretToken::parse(&wrong).unwrap().hash();

            let same = hash.as_bytes().iter().zip(right.as_bytes()).filter(|(a, b)| a == b);
            assert!(same.count() < 16, "place {place}");
        }
    }

    #[test]
    fn malformed_texts_are_refused() {
        let token = SecretToken::new([1; 32]).expose().to_owned();
        for text in ["", &token[1..], &format!("{token}A"), &token.replace('A', "+"), "é"] {
            assert!(SecretToken::parse(text).is_err(), "{text:?}");
        }
    }
}
