//! Sealing: customers' secrets at rest (envelope encryption).
//!
//! A master key, from the operator, wraps one data key for each customer; the data key seals fields
//! with XChaCha20-Poly1305 under a random 192-bit nonce. The associated data names customer, row
//! and field, so a blob copied to another row does not open. Opened secrets live only as long as
//! the task that needs them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::clock::Random;

const NONCE_BYTES: usize = 24;
const VERSION: u8 = 1;

/// A 32-byte key that wraps data keys; it has no `Debug`.
#[derive(Clone)]
pub struct MasterKey {
    id: String,
    key: Zeroizing<[u8; 32]>,
}

/// The master keys in force: the first one wraps, all of them unwrap.
#[derive(Clone)]
pub struct Keyring(Vec<MasterKey>);

/// A customer's data key, unwrapped.
#[derive(Clone)]
pub struct DataKey(Zeroizing<[u8; 32]>);

/// Why sealed bytes cannot be opened: another key, another row, or changed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealProblem {
    /// The blob is shorter than any seal, or of an unknown version.
    #[error("the sealed bytes have no known format")]
    Malformed,
    /// The key, the place or the bytes are not those that were sealed.
    #[error("the sealed bytes do not belong to this key and place")]
    Refused,
    /// No master key with that id is configured.
    #[error("the master key that wrapped this data key is not configured")]
    UnknownMasterKey,
}

impl MasterKey {
    /// Reads `ID:BASE64-OF-32-BYTES`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = "must be ID:BASE64-OF-32-BYTES, such as the output of `openssl rand -base64 32` after `1:`";
        let (id, encoded) = text.trim().split_once(':').ok_or(form)?;
        let named =
            !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_graphic());
        let decoded = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| form)?);
        let key: [u8; 32] = decoded.as_slice().try_into().map_err(|_| form)?;
        if named {
            Ok(Self { id: id.to_owned(), key: Zeroizing::new(key) })
        } else {
            Err(form.to_owned())
        }
    }

    /// Generates a key with that id.
    pub fn generate(id: &str, random: &Random) -> Self {
        Self { id: id.to_owned(), key: Zeroizing::new(random.bytes()) }
    }

    /// The text form, to be stored in a file of mode 0600.
    pub fn expose(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}:{}", self.id, STANDARD.encode(self.key.as_slice())))
    }

    /// The id by which data keys refer to it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Seals a text for one place directly with the master key.
    pub fn seal(&self, plain: &[u8], place: &str, random: &Random) -> Option<Vec<u8>> {
        seal_with(&self.key, plain, place.as_bytes(), random)
    }

    /// Opens what [`Self::seal`] sealed for that place.
    pub fn open(&self, sealed: &[u8], place: &str) -> Option<Zeroizing<Vec<u8>>> {
        open_with(&self.key, sealed, place.as_bytes()).ok()
    }

    /// HMAC-SHA-256 with a key that is derived for this purpose alone.
    fn keyed(&self, purpose: &str) -> Option<Hmac<Sha256>> {
        keyed(&self.key, purpose)
    }
}

/// A data key, wrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// The wrapped key.
    pub bytes: Vec<u8>,
    /// The id of the master key that wraps it.
    pub master_key: String,
}

/// A generated data key.
pub struct NewDataKey {
    /// The key.
    pub key: DataKey,
    /// The key as it is stored.
    pub wrapped: WrappedKey,
}

impl Keyring {
    /// A keyring of these keys, the current one first; `None` without keys.
    pub fn new(keys: Vec<MasterKey>) -> Option<Self> {
        if keys.is_empty() { None } else { Some(Self(keys)) }
    }

    /// All keys, the current one first.
    pub fn keys(&self) -> impl Iterator<Item = &MasterKey> {
        self.0.iter()
    }

    /// The signature of a text with the current key, in hexadecimal digits.
    pub fn sign(&self, purpose: &str, text: &str) -> Option<String> {
        let keyed = self.current()?.keyed(purpose)?;
        Some(hex::encode(keyed.chain_update(text.as_bytes()).finalize().into_bytes()))
    }

    /// Whether any of the keys made the signature. Compares in constant time.
    pub fn is_signed(&self, purpose: &str, text: &str, signature: &str) -> bool {
        let mut bytes = [0; 32];
        if hex::decode_to_slice(signature, &mut bytes).is_err() {
            return false;
        }
        let by = |key: &MasterKey| {
            let keyed = key.keyed(purpose).map(|keyed| keyed.chain_update(text.as_bytes()));
            keyed.is_some_and(|keyed| keyed.verify_slice(&bytes).is_ok())
        };
        self.0.iter().any(by)
    }

    /// The key that wraps new data keys.
    pub fn current(&self) -> Option<&MasterKey> {
        self.0.first()
    }

    /// Generates a data key and wraps it for `customer`.
    pub fn new_data_key(&self, customer: &str, random: &Random) -> Option<NewDataKey> {
        let key = DataKey(Zeroizing::new(random.bytes()));
        let wrapped = self.wrap(&key, customer, random)?;
        Some(NewDataKey { key, wrapped })
    }

    /// Wraps a data key under the current master key.
    pub fn wrap(&self, key: &DataKey, customer: &str, random: &Random) -> Option<WrappedKey> {
        let master = self.current()?;
        let place = format!("v1|data_key|{customer}");
        let bytes = seal_with(&master.key, key.0.as_slice(), place.as_bytes(), random)?;
        Some(WrappedKey { bytes, master_key: master.id.clone() })
    }

    /// Unwraps the data key of `customer`.
    pub fn unwrap(
        &self,
        wrapped: &[u8],
        master: &str,
        customer: &str,
    ) -> Result<DataKey, SealProblem> {
        let key =
            self.0.iter().find(|key| key.id == master).ok_or(SealProblem::UnknownMasterKey)?;
        let place = format!("v1|data_key|{customer}");
        let opened = open_with(&key.key, wrapped, place.as_bytes())?;
        let bytes: [u8; 32] = opened.as_slice().try_into().map_err(|_| SealProblem::Malformed)?;
        Ok(DataKey(Zeroizing::new(bytes)))
    }
}

impl DataKey {
    /// Seals `plain` for one place; it opens only for the same place.
    pub fn seal(&self, plain: &[u8], place: &str, random: &Random) -> Option<Vec<u8>> {
        seal_with(&self.0, plain, place.as_bytes(), random)
    }

    /// Opens what was sealed for that place.
    pub fn open(&self, sealed: &[u8], place: &str) -> Result<Zeroizing<Vec<u8>>, SealProblem> {
        open_with(&self.0, sealed, place.as_bytes())
    }

    /// A hash of these parts that cannot be computed without the key, so that a short secret among
    /// them cannot be guessed from it.
    pub fn digest(&self, purpose: &str, parts: &[&[u8]]) -> Option<[u8; 32]> {
        let mut keyed = keyed(&self.0, purpose)?;
        for part in parts {
            keyed.update(&part.len().to_be_bytes());
            keyed.update(part);
        }
        Some(keyed.finalize().into_bytes().into())
    }
}

/// HMAC-SHA-256 with a key that is derived from this one for one purpose alone.
fn keyed(key: &[u8; 32], purpose: &str) -> Option<Hmac<Sha256>> {
    let derive = <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_slice()).ok()?;
    let own = Zeroizing::new(<[u8; 32]>::from(
        derive.chain_update(purpose.as_bytes()).finalize().into_bytes(),
    ));
    <Hmac<Sha256> as KeyInit>::new_from_slice(own.as_slice()).ok()
}

fn seal_with(key: &[u8; 32], plain: &[u8], place: &[u8], random: &Random) -> Option<Vec<u8>> {
    let cipher = XChaCha20Poly1305::new(key.into());
    let nonce: [u8; NONCE_BYTES] = random.bytes();
    let sealed = cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: place }).ok()?;
    let mut blob = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
    blob.push(VERSION);
    blob.extend_from_slice(&nonce);
    blob.extend_from_slice(&sealed);
    Some(blob)
}

fn open_with(key: &[u8; 32], blob: &[u8], place: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealProblem> {
    let (version, rest) = blob.split_first().ok_or(SealProblem::Malformed)?;
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(SealProblem::Malformed)?;
    if *version != VERSION {
        return Err(SealProblem::Malformed);
    }
    XChaCha20Poly1305::new(key.into())
        .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: place })
        .map(Zeroizing::new)
        .map_err(|_| SealProblem::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(ids: &[&str]) -> Keyring {
        let random = Random::seeded(9);
        Keyring::new(ids.iter().map(|id| MasterKey::generate(id, &random)).collect()).unwrap()
    }

    #[test]
    fn a_seal_opens_only_for_its_own_place() {
        let random = Random::seeded(1);
        let key = keyring(&["1"]).new_data_key("cus_a", &random).unwrap().key;
        let sealed = key.seal(b"secret", "v1|cus_a|ada", &random).unwrap();

        assert_eq!(key.open(&sealed, "v1|cus_a|ada").unwrap().as_slice(), b"secret");
        assert_eq!(key.open(&sealed, "v1|cus_a|bob"), Err(SealProblem::Refused));
    }

    #[test]
    fn a_changed_or_truncated_seal_does_not_open() {
        let random = Random::seeded(2);
        let key = keyring(&["1"]).new_data_key("cus_a", &random).unwrap().key;
        let sealed = key.seal(b"secret", "place", &random).unwrap();

        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert!(key.open(&changed, "place").is_err(), "byte {index}");
            assert!(key.open(&sealed[..index], "place").is_err(), "cut at {index}");
        }
    }

    #[test]
    fn a_digest_depends_on_its_parts_purpose_and_key() {
        let random = Random::seeded(6);
        let ring = keyring(&["1"]);
        let key = ring.new_data_key("cus_a", &random).unwrap().key;
        let other = ring.new_data_key("cus_a", &random).unwrap().key;
        let digest = key.digest("requests", &[b"ab", b"c"]);

        assert!(digest.is_some());
        assert_eq!(key.digest("requests", &[b"ab", b"c"]), digest);
        for different in [
            key.digest("requests", &[b"a", b"bc"]),
            key.digest("requests", &[b"ab", b"c", b""]),
            key.digest("others", &[b"ab", b"c"]),
            other.digest("requests", &[b"ab", b"c"]),
        ] {
            assert_ne!(different, digest);
        }
    }

    #[test]
    fn an_older_master_key_still_unwraps_after_a_rotation() {
        let random = Random::seeded(3);
        let old = MasterKey::generate("1", &random);
        let new = MasterKey::generate("2", &random);
        let before = Keyring::new(vec![old.clone()]).unwrap();
        let after = Keyring::new(vec![new, old]).unwrap();
        let NewDataKey { key, wrapped } = before.new_data_key("cus_a", &random).unwrap();
        let sealed = key.seal(b"secret", "place", &random).unwrap();

        let unwrapped = after.unwrap(&wrapped.bytes, &wrapped.master_key, "cus_a").unwrap();
        let rewrapped = after.wrap(&unwrapped, "cus_a", &random).unwrap();

        assert_eq!(unwrapped.open(&sealed, "place").unwrap().as_slice(), b"secret");
        assert_eq!(rewrapped.master_key, "2");
        assert!(matches!(
            before.unwrap(&rewrapped.bytes, &rewrapped.master_key, "cus_a"),
            Err(SealProblem::UnknownMasterKey)
        ));
        let of_other = after.unwrap(&rewrapped.bytes, &rewrapped.master_key, "cus_b");
        assert!(matches!(of_other, Err(SealProblem::Refused)));
    }

    #[test]
    fn a_signature_is_bound_to_its_text_and_purpose_and_survives_a_rotation() {
        let random = Random::seeded(5);
        let (old, new) = (MasterKey::generate("1", &random), MasterKey::generate("2", &random));
        let before = Keyring::new(vec![old.clone()]).unwrap();
        let after = Keyring::new(vec![new.clone(), old]).unwrap();
        let signature = before.sign("links", "text").unwrap();

        assert!(before.is_signed("links", "text", &signature));
        assert!(after.is_signed("links", "text", &signature));
        assert!(!Keyring::new(vec![new]).unwrap().is_signed("links", "text", &signature));
        assert!(!before.is_signed("links", "texts", &signature));
        assert!(!before.is_signed("others", "text", &signature));
        for wrong in ["", "00", &signature[1..], &format!("{signature}00")] {
            assert!(!before.is_signed("links", "text", wrong), "{wrong}");
        }
    }

    #[test]
    fn a_master_key_survives_a_round_trip_as_text() {
        let key = MasterKey::generate("2026-11", &Random::seeded(4));

        let read = MasterKey::parse(&key.expose()).map(|read| (read.id.clone(), read.key.to_vec()));

        assert_eq!(read, Ok(("2026-11".to_owned(), key.key.to_vec())));
        for text in ["", "1", "1:", ":AAAA", "1:AAAA", "1:not base64"] {
            assert!(MasterKey::parse(text).is_err(), "{text:?}");
        }
    }
}
