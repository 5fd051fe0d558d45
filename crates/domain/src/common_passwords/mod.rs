//! Passwords that attackers guess first: those that many people choose (`common.txt` has the list
//! and its source), sequences and repetitions, and words of the context (NIST SP 800-63B, 3.1.1.2).

use std::sync::LazyLock;

use crate::customer::Email;

/// The name of the product, which is a word of every context.
const PRODUCT: &str = "creator-gateway";
/// The shortest word of the context that counts as a part of a password, in characters.
const PART_MIN: usize = 4;
/// The letters that a password must have beside words of the context.
const OTHER_LETTERS_MIN: usize = 4;
/// The shortest sequence or repetition, in characters.
const RUN_MIN: usize = 3;
/// The longest text that counts as repeated, in characters.
const REPEATED_MAX: usize = 4;

/// Lower case and sorted, each at least as long as the shortest accepted password.
static COMMON: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let lines = include_str!("common.txt").lines();
    lines.filter(|line| !line.starts_with('#')).collect()
});

/// Why a password is guessed early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyGuess {
    /// Many people choose it.
    Common,
    /// It is a sequence or a repetition, such as `abcd1234` or `21212121`.
    Pattern,
    /// It is little more than the name of the service or the customer's address.
    OfContext,
}

/// What a password is used for: names that attackers try because of it.
#[derive(Debug, Clone, Copy)]
pub struct PasswordContext<'a> {
    /// The name that the operator gave the service.
    pub brand: &'a str,
    /// The customer's address, if it is known.
    pub email: Option<&'a Email>,
}

impl PasswordContext<'_> {
    /// Why attackers guess the password early; none if they do not. Letter case does not matter.
    pub fn early_guess(&self, password: &str) -> Option<EarlyGuess> {
        if contains(password) {
            Some(EarlyGuess::Common)
        } else if is_pattern(password) {
            Some(EarlyGuess::Pattern)
        } else {
            self.makes(password).then_some(EarlyGuess::OfContext)
        }
    }

    /// Whether the password has hardly anything but words of the context.
    fn makes(&self, password: &str) -> bool {
        let mut left = plain(password);
        let words = self.words();
        if words.contains(&left) {
            return true;
        }
        let length = left.len();
        for word in words.iter().filter(|word| word.chars().count() >= PART_MIN) {
            left = left.replace(word.as_str(), "");
        }
        let others = left.chars().filter(|char| char.is_alphabetic()).count();
        left.len() < length && others < OTHER_LETTERS_MIN
    }

    /// The words of the context as `plain` writes them, longest first.
    fn words(&self) -> Vec<String> {
        let mut texts = vec![PRODUCT, self.brand];
        if let Some(email) = self.email {
            let address = email.as_str();
            texts.push(address);
            texts.extend(address.split_once('@').map(|(local, _)| local));
            texts.push(email.domain());
        }
        let parts = texts.iter().flat_map(|text| text.split(|char: char| !char.is_alphanumeric()));
        let mut words: Vec<String> = texts.iter().copied().chain(parts).map(plain).collect();
        words.retain(|word| !word.is_empty());
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words
    }
}

/// Whether a password is on the list, ignoring letter case.
pub fn contains(password: &str) -> bool {
    COMMON.binary_search(&password.to_lowercase().as_str()).is_ok()
}

/// Whether the password is a short text again and again, or only sequences such as `4321` and
/// `aaaa`.
fn is_pattern(password: &str) -> bool {
    let chars: Vec<char> = password.to_lowercase().chars().collect();
    let repeats = |length: usize| chars.iter().zip(chars.iter().skip(length)).all(|(a, b)| a == b);
    if (1..=REPEATED_MAX).any(|length| chars.len() >= length.saturating_mul(2) && repeats(length)) {
        return true;
    }
    let mut rest = chars.as_slice();
    while !rest.is_empty() {
        let length = run_length(rest);
        if length < RUN_MIN {
            return false;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    true
}

/// How many characters from the first one on follow each other in the same way.
fn run_length(chars: &[char]) -> usize {
    let mut steps = chars.iter().zip(chars.iter().skip(1)).map(|(from, to)| step(*from, *to));
    let Some(Some(first)) = steps.next() else { return 1 };
    steps.take_while(|step| *step == Some(first)).count().saturating_add(2)
}

/// By how much a character follows another one in a sequence: -1, 0 or 1.
fn step(from: char, to: char) -> Option<i64> {
    let step = i64::from(u32::from(to)).saturating_sub(i64::from(u32::from(from)));
    (-1..=1).contains(&step).then_some(step)
}

/// Its letters and digits, in lower case.
fn plain(text: &str) -> String {
    text.to_lowercase().chars().filter(|char| char.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_has_only_passwords_of_an_accepted_length() {
        assert_eq!(COMMON.len(), 41_621);
        assert!(COMMON.is_sorted());
        for password in COMMON.iter() {
            assert!(crate::customer::password_length_fits(password), "{password}");
            assert_eq!(password.to_lowercase(), **password);
            assert_eq!(password.trim(), *password);
        }
    }

    #[test]
    fn common_passwords_sequences_and_repetitions_are_guessed_early() {
        let email: Email = "grace.hopper@navy.example".parse().unwrap();
        let context = PasswordContext { brand: "Acme & Co", email: Some(&email) };
        for (password, why) in [
            ("Michelle", Some(EarlyGuess::Common)),
            ("PASSWORD1", Some(EarlyGuess::Common)),
            ("00000000", Some(EarlyGuess::Pattern)),
            ("987654321", Some(EarlyGuess::Pattern)),
            ("abcd4321", Some(EarlyGuess::Pattern)),
            ("AAAAbbbbCCCC", Some(EarlyGuess::Pattern)),
            ("xyxyxyxyx", Some(EarlyGuess::Pattern)),
            ("x9y8x9y8x9", Some(EarlyGuess::Pattern)),
            ("creator-gateway", Some(EarlyGuess::OfContext)),
            ("CreatorGateway2026!", Some(EarlyGuess::OfContext)),
            ("gateway-gateway-1", Some(EarlyGuess::OfContext)),
            ("acme & co", Some(EarlyGuess::OfContext)),
            ("AcmeCo#2026", Some(EarlyGuess::OfContext)),
            ("Grace.Hopper@navy.example", Some(EarlyGuess::OfContext)),
            ("gracehopper", Some(EarlyGuess::OfContext)),
            ("hopper1906", Some(EarlyGuess::OfContext)),
            ("navy.example!", Some(EarlyGuess::OfContext)),
            ("correct horse battery", None),
            ("acme of all things", None),
            ("hopper likes moths", None),
            ("abcd12x9", None),
            ("12345 67x", None),
            ("Zq8#vT2m", None),
            ("abc1ab2c", None),
        ] {
            assert_eq!(context.early_guess(password), why, "{password}");
        }
    }

    #[test]
    fn a_short_word_of_an_address_does_not_count_as_a_part() {
        let email: Email = "al@ab.example".parse().unwrap();
        let context = PasswordContext { brand: "x", email: Some(&email) };

        assert_eq!(context.early_guess("alabama-83"), None);
        assert_eq!(context.early_guess("al@ab.example"), Some(EarlyGuess::OfContext));
    }
}
