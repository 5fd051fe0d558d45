//! The hash functions of recipes, plain and keyed.

use hmac::{Hmac, KeyInit};
use sha1::Sha1;
use sha2::digest::{FixedOutput, Update};
use sha2::{Sha256, Sha512};

/// The longest digest, in bytes.
const DIGEST_BYTES_MAX: usize = 64;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestAlgorithm {
    Sha1,
    Sha256,
    Sha512,
}

/// A keyed hash function that has taken its key in.
#[derive(Clone)]
pub(super) enum KeyedDigest {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

/// A finished digest.
pub(super) struct FinishedDigest {
    bytes: [u8; DIGEST_BYTES_MAX],
    length: usize,
}

impl DigestAlgorithm {
    /// All names, for messages.
    pub(super) const NAMES: &'static str = "sha1, sha256, sha512";

    /// By its name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// How many bytes its digests have.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// The digest of the pieces, one after the other.
    pub(super) fn of<'a>(self, pieces: impl Iterator<Item = &'a [u8]>) -> FinishedDigest {
        match self {
            Self::Sha1 => finished(Sha1::default(), pieces),
            Self::Sha256 => finished(Sha256::default(), pieces),
            Self::Sha512 => finished(Sha512::default(), pieces),
        }
    }

    /// HMAC (RFC 2104) with this key, which may have any length.
    pub(super) fn keyed(self, key: &[u8]) -> Option<KeyedDigest> {
        match self {
            Self::Sha1 => Hmac::new_from_slice(key).ok().map(KeyedDigest::Sha1),
            Self::Sha256 => Hmac::new_from_slice(key).ok().map(KeyedDigest::Sha256),
            Self::Sha512 => Hmac::new_from_slice(key).ok().map(KeyedDigest::Sha512),
        }
    }
}

impl KeyedDigest {
    /// How many bytes its digests have.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Sha1(_) => DigestAlgorithm::Sha1.bytes(),
            Self::Sha256(_) => DigestAlgorithm::Sha256.bytes(),
            Self::Sha512(_) => DigestAlgorithm::Sha512.bytes(),
        }
    }

    /// The digest of the pieces, one after the other.
    pub(super) fn of<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> FinishedDigest {
        match self {
            Self::Sha1(keyed) => finished(keyed.clone(), pieces),
            Self::Sha256(keyed) => finished(keyed.clone(), pieces),
            Self::Sha512(keyed) => finished(keyed.clone(), pieces),
        }
    }
}

impl FinishedDigest {
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

fn finished<'a, D: Update + FixedOutput>(
    mut digest: D,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> FinishedDigest {
    for piece in pieces {
        digest.update(piece);
    }
    let output = digest.finalize_fixed();
    let mut bytes = [0; DIGEST_BYTES_MAX];
    for (place, byte) in bytes.iter_mut().zip(output.iter()) {
        *place = *byte;
    }
    FinishedDigest { bytes, length: output.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests of RFC 3174 and FIPS 180-2 for `abc`, and of RFC 2202 and RFC 4231 for a keyed
    /// text.
    #[test]
    fn digests_are_those_of_their_standards() {
        let plain = |name: &str| {
            let algorithm = DigestAlgorithm::named(name).unwrap();
            let digest = algorithm.of([&b"a"[..], b"", b"bc"].into_iter());
            assert_eq!(digest.as_bytes().len(), algorithm.bytes());
            hex::encode(digest.as_bytes())
        };
        let keyed = |name: &str| {
            let keyed = DigestAlgorithm::named(name).unwrap().keyed(b"Jefe").unwrap();
            let text = &b"what do ya want for nothing?"[..];
            hex::encode(keyed.of([text].into_iter()).as_bytes())
        };

        assert_eq!(plain("sha1"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            plain("sha256"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(plain("sha512").starts_with("ddaf35a193617abacc417349ae204131"));
        assert_eq!(keyed("sha1"), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        assert!(keyed("sha256").starts_with("5bdcc146bf60754e6a042426089575c7"));
        assert!(keyed("sha512").starts_with("164b7a7bfcf819e2e395fbe73b56e0a3"));
        assert!(DigestAlgorithm::named("md5").is_none());
    }
}
