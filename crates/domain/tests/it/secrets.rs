//! Keys, tokens and idempotency keys: what is parsed is what was made, and only hashes are kept.

use domain::key::{KeyHash, KeySecret, PATTERN, PREFIX};
use domain::request_key::RequestKey;
use domain::token::SecretToken;
use proptest::prelude::*;

/// A key from these draws, which begin again at their end.
fn key(draws: &[u8]) -> KeySecret {
    let mut next = draws.iter().copied().cycle();
    KeySecret::generate(|bound| next.next().unwrap() % bound)
}

proptest! {
    #[test]
    fn every_generated_key_parses_and_fits_the_published_pattern(draws in prop::collection::vec(any::<u8>(), 1..30)) {
        let secret = key(&draws);
        let text = secret.expose();

        prop_assert_eq!(KeySecret::parse(text).unwrap().hash(), secret.hash());
        let digits = text.strip_prefix(PREFIX).unwrap();
        prop_assert_eq!(digits.len(), 36);
        prop_assert!(digits.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        prop_assert_eq!(PATTERN, format!("^{PREFIX}[0-9A-Za-z]{{{}}}$", digits.len()));
    }

    #[test]
    fn two_keys_that_differ_have_different_hashes(one: [u8; 30], other: [u8; 30]) {
        let (one, other) = (key(&one), key(&other));

        prop_assert_eq!(one.expose() == other.expose(), one.hash() == other.hash());
    }

    /// What is shown of a key names it for people, and leaves nearly all of it to be guessed.
    #[test]
    fn eight_digits_of_a_key_are_shown(draws: [u8; 30]) {
        let secret = key(&draws);

        let shown = format!("{}{}", secret.shown_prefix(), secret.shown_suffix());

        prop_assert_eq!(shown.len() - PREFIX.len(), 8);
        prop_assert!(secret.expose().starts_with(secret.shown_prefix()));
        prop_assert!(secret.expose().ends_with(secret.shown_suffix()));
    }

    #[test]
    fn two_neighbours_exchanged_in_a_key_are_noticed(draws: [u8; 30], place in 9_usize..44) {
        let text = key(&draws).expose().to_owned();
        let mut bytes = text.clone().into_bytes();
        bytes.swap(place, place + 1);
        let exchanged = String::from_utf8(bytes).unwrap();
        prop_assume!(exchanged != text);

        prop_assert!(KeySecret::parse(&exchanged).is_err());
    }

    #[test]
    fn no_text_makes_a_parser_of_secrets_panic(text in any::<String>()) {
        let with_prefix = format!("{PREFIX}{text}");

        prop_assert!(KeySecret::parse(&with_prefix).is_err());
        let is_token = SecretToken::parse(&text).is_ok();
        prop_assert!(!is_token || text.len() == 43);
    }

    #[test]
    fn a_token_is_read_back_and_differs_for_other_bytes(one: [u8; 32], other: [u8; 32]) {
        let (first, second) = (SecretToken::new(one), SecretToken::new(other));

        prop_assert_eq!(SecretToken::parse(first.expose()).unwrap().hash(), first.hash());
        prop_assert_eq!(one == other, first.expose() == second.expose());
        prop_assert_eq!(one == other, first.hash() == second.hash());
    }

    #[test]
    fn idempotency_keys_are_told_apart_byte_by_byte(one: Vec<u8>, other: Vec<u8>) {
        prop_assert_eq!(one == other, RequestKey::new(&one) == RequestKey::new(&other));
    }
}

#[test]
fn a_draw_beyond_the_alphabet_still_makes_a_digit() {
    let secret = KeySecret::generate(|_| u8::MAX);

    assert!(KeySecret::parse(secret.expose()).is_ok());
    assert!(secret.expose().is_ascii());
}

#[test]
fn a_stored_hash_has_32_bytes_and_no_other_number() {
    let hash = key(&[7]).hash();

    assert_eq!(KeyHash::from_bytes(hash.as_bytes()), Some(hash));
    for length in [0, 31, 33, 64] {
        assert_eq!(KeyHash::from_bytes(&vec![0; length]), None, "{length}");
    }
}

/// Stored hashes outlive every version, so they must stay those of the published algorithm.
#[test]
fn hashes_are_sha_256_of_the_whole_text() {
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let hex = |bytes: [u8; 32]| bytes.map(|byte| format!("{byte:02x}")).concat();

    assert_eq!(hex(RequestKey::new(b"abc").hash()), abc);
    let token = SecretToken::new([0; 32]);
    assert_eq!(token.expose(), "A".repeat(43));
    assert_eq!(*token.hash().as_bytes(), RequestKey::new(token.expose().as_bytes()).hash());
    let secret = key(&[1, 2, 3]);
    assert_eq!(*secret.hash().as_bytes(), RequestKey::new(secret.expose().as_bytes()).hash());
}

#[test]
fn what_is_said_of_a_malformed_secret_repeats_nothing_of_it() {
    let key = KeySecret::parse("cgw_live_hush").err().unwrap();
    let token = SecretToken::parse("hush").err().unwrap();

    assert_eq!(key.to_string(), "not a key of this service");
    assert_eq!(token.to_string(), "not a token of this service");
}
