//! Sealed values: they open with their key at their place, and nowhere else.

use proptest::prelude::*;
use runtime::Random;
use runtime::sealing::{Keyring, MasterKey, SealProblem};

fn keyring(seed: u64, ids: &[&str]) -> Keyring {
    let random = Random::seeded(seed);
    Keyring::new(ids.iter().map(|id| MasterKey::generate(id, &random)).collect()).unwrap()
}

proptest! {
    #[test]
    fn any_bytes_come_back_at_their_place_and_only_there(plain: Vec<u8>, place in any::<String>(), other in any::<String>(), seed: u64) {
        let random = Random::seeded(seed);
        let key = keyring(seed, &["1"]).new_data_key("cus_a", &random).unwrap().key;

        let sealed = key.seal(&plain, &place, &random).unwrap();

        let opened = key.open(&sealed, &place).unwrap();
        prop_assert_eq!(opened.as_slice(), &plain[..]);
        if other != place {
            prop_assert_eq!(key.open(&sealed, &other), Err(SealProblem::Refused));
        }
        prop_assert_eq!(sealed.len(), plain.len() + 1 + 24 + 16);
    }

    /// Equal values must not be seen to be equal.
    #[test]
    fn the_same_value_is_sealed_differently_each_time(plain: Vec<u8>, seed: u64) {
        let random = Random::seeded(seed);
        let master = MasterKey::generate("1", &random);

        let (one, other) = (master.seal(&plain, "p", &random), master.seal(&plain, "p", &random));

        prop_assert_ne!(one, other);
    }

    #[test]
    fn no_bytes_make_opening_panic(bytes: Vec<u8>, seed: u64) {
        let random = Random::seeded(seed);
        let ring = keyring(seed, &["1"]);
        let key = ring.new_data_key("cus_a", &random).unwrap().key;

        prop_assert!(key.open(&bytes, "place").is_err());
        prop_assert!(ring.current().unwrap().open(&bytes, "place").is_none());
        prop_assert!(ring.unwrap(&bytes, "1", "cus_a").is_err());
    }

    #[test]
    fn a_bit_changed_anywhere_in_a_wrapped_key_is_noticed(seed: u64, place in 0_usize..73, bit in 0_u32..8) {
        let random = Random::seeded(seed);
        let ring = keyring(seed, &["1"]);
        let mut wrapped = ring.new_data_key("cus_a", &random).unwrap().wrapped.bytes;
        prop_assert_eq!(wrapped.len(), 73);

        wrapped[place] ^= 1 << bit;

        prop_assert!(ring.unwrap(&wrapped, "1", "cus_a").is_err());
    }

    #[test]
    fn a_master_key_is_read_as_it_is_written(id in "[!-9;-~]{1,64}", seed: u64) {
        let key = MasterKey::generate(&id, &Random::seeded(seed));

        let read = MasterKey::parse(&format!(" {}\r\n", *key.expose())).unwrap();

        prop_assert_eq!((read.id(), read.expose()), (id.as_str(), key.expose()));
        let sealed = key.seal(b"x", "place", &Random::seeded(seed)).unwrap();
        prop_assert!(read.open(&sealed, "place").is_some());
    }

    #[test]
    fn no_text_makes_the_parser_of_master_keys_panic_or_repeat_it(text in "[^:]{4,40}") {
        for written in [format!("1:{text}"), format!("{text}:AAAA"), text.clone()] {
            if let Err(problem) = MasterKey::parse(&written) {
                prop_assert!(!problem.contains(text.as_str()));
            }
        }
    }

    #[test]
    fn a_signature_with_one_other_digit_is_none(text in any::<String>(), seed: u64, place in 0_usize..64) {
        let ring = keyring(seed, &["1", "2"]);
        let signature = ring.sign("links", &text).unwrap();
        let digit = signature.as_bytes()[place];
        let mut other = signature.clone();
        other.replace_range(place..=place, if digit == b'0' { "1" } else { "0" });

        prop_assert!(ring.is_signed("links", &text, &signature));
        prop_assert!(!ring.is_signed("links", &text, &other));
        let moved = format!("s{text}");
        prop_assert!(!ring.is_signed("link", &moved, &signature));
    }
}

#[test]
fn a_master_key_with_an_id_or_a_length_that_cannot_be_is_refused_with_the_form() {
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let said =
        "must be ID:BASE64-OF-32-BYTES, such as the output of `openssl rand -base64 32` after `1:`";

    for text in [
        format!(":{key}"),
        format!("{}:{key}", "i".repeat(65)),
        format!("my key:{key}"),
        format!("clé:{key}"),
        format!("1:{}", key.trim_end_matches('=')),
        format!("1:A{key}"),
        format!("1: {key}"),
        "1:AAAA".to_owned(),
        String::new(),
    ] {
        assert_eq!(MasterKey::parse(&text).err().as_deref(), Some(said), "{text}");
    }
    assert!(MasterKey::parse(&format!("{}:{key}", "i".repeat(64))).is_ok());
}

#[test]
fn a_blob_of_another_version_is_malformed_and_not_refused() {
    let random = Random::seeded(1);
    let key = keyring(1, &["1"]).new_data_key("cus_a", &random).unwrap().key;
    let mut sealed = key.seal(b"secret", "place", &random).unwrap();

    sealed[0] = 2;

    assert_eq!(key.open(&sealed, "place"), Err(SealProblem::Malformed));
    assert_eq!(key.open(&sealed[..24], "place"), Err(SealProblem::Malformed));
    assert_eq!(key.open(&[], "place"), Err(SealProblem::Malformed));
}

/// A key that is sealed with another length, as by a mistake, is none.
#[test]
fn a_wrapped_value_that_is_no_key_is_malformed() {
    let random = Random::seeded(1);
    let ring = keyring(1, &["1"]);
    let short = ring.current().unwrap().seal(b"short", "v1|data_key|cus_a", &random).unwrap();

    assert_eq!(ring.unwrap(&short, "1", "cus_a").err(), Some(SealProblem::Malformed));
}

#[test]
fn without_keys_there_is_no_keyring_and_the_first_key_is_the_current_one() {
    assert!(Keyring::new(Vec::new()).is_none());
    let ring = keyring(1, &["new", "old"]);
    assert_eq!(ring.current().map(MasterKey::id), Some("new"));
    assert_eq!(ring.keys().map(MasterKey::id).collect::<Vec<_>>(), ["new", "old"]);
    let wrapped = ring.new_data_key("cus_a", &Random::seeded(2)).unwrap().wrapped;
    assert_eq!(wrapped.master_key, "new");
}

#[test]
fn what_is_said_of_a_seal_names_neither_key_nor_value() {
    for (problem, said) in [
        (SealProblem::Malformed, "the sealed bytes have no known format"),
        (SealProblem::Refused, "the sealed bytes do not belong to this key and place"),
        (
            SealProblem::UnknownMasterKey,
            "the master key that wrapped this data key is not configured",
        ),
    ] {
        assert_eq!(problem.to_string(), said);
    }
}
