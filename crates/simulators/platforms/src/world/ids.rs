//! Reversible ids: the thing can be computed from its id, so nothing has to be stored to find it.
//! Each platform has its own format: digits, 24 hexadecimal digits, or a UUID; all of them contain
//! kind, creator and index.

/// The first number of things created while running; generated ones are below.
pub(crate) const CREATED: u64 = 9_000_000_000;

const CREATOR_SPAN: u64 = 10_000_000_000;
const KIND_SPAN: u64 = 100 * CREATOR_SPAN;

/// The kind of thing that an id names. The numbers are part of the ids and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Creator = 10,
    Fan = 11,
    Chat = 12,
    Message = 13,
    Post = 14,
    Comment = 15,
    Payment = 16,
    List = 17,
    Media = 18,
    Story = 19,
    Tier = 20,
    Campaign = 21,
    Payout = 22,
    MassMessage = 23,
    Bundle = 24,
    Template = 25,
    Folder = 26,
    Highlight = 27,
    Voucher = 28,
    Event = 29,
    Peer = 30,
    Other = 31,
    Subscription = 32,
    AccountMedia = 33,
    Plan = 34,
    Promotion = 35,
    Wall = 36,
    Goal = 37,
    Session = 38,
    Order = 39,
    Location = 40,
    Offer = 41,
    Upload = 42,
}

/// An id as digits, 14 of them, below 2^53 so that it survives JavaScript.
pub(crate) fn number(kind: Kind, creator: u64, index: u64) -> u64 {
    kind as u64 * KIND_SPAN + creator * CREATOR_SPAN + index
}

/// The index of a digit id of this kind and creator; `None` if it has another one.
pub(crate) fn index_of_number(kind: Kind, creator: u64, id: u64) -> Option<u64> {
    let index = id.checked_sub(number(kind, creator, 0))?;
    (index < CREATOR_SPAN).then_some(index)
}

/// The index of an id in digits.
pub(crate) fn index_of_digits(kind: Kind, creator: u64, id: &str) -> Option<u64> {
    index_of_number(kind, creator, id.parse().ok()?)
}

/// An id as 24 lower-case hexadecimal digits.
pub(crate) fn hex24(kind: Kind, creator: u64, index: u64) -> String {
    format!("66{:02x}{creator:04x}{:016x}", kind as u64, scramble(index))
}

/// The index of a 24-digit hexadecimal id of this kind and creator.
pub(crate) fn index_of_hex24(kind: Kind, creator: u64, id: &str) -> Option<u64> {
    let tail = id.strip_prefix(&format!("66{:02x}{creator:04x}", kind as u64))?;
    parse_lower_hex(tail, 16).map(unscramble)
}

/// An id as a UUID (version 4 by its form).
pub(crate) fn uuid(kind: Kind, creator: u64, index: u64) -> String {
    let scrambled = scramble(index);
    format!(
        "{:02x}{creator:06x}-{:04x}-4000-8000-{:012x}",
        kind as u64,
        scrambled >> 48,
        scrambled & 0xffff_ffff_ffff
    )
}

/// The index of a UUID of this kind and creator.
pub(crate) fn index_of_uuid(kind: Kind, creator: u64, id: &str) -> Option<u64> {
    let rest = id.strip_prefix(&format!("{:02x}{creator:06x}-", kind as u64))?;
    let (high, low) = rest.split_once("-4000-8000-")?;
    Some(unscramble(parse_lower_hex(high, 4)? << 48 | parse_lower_hex(low, 12)?))
}

/// Accepts only the spelling that we write, so that two texts never name the same thing.
fn parse_lower_hex(text: &str, digits: usize) -> Option<u64> {
    let plain = text.len() == digits
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    plain.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Makes adjacent indexes look different; a bijection, because the factor is odd.
fn scramble(index: u64) -> u64 {
    let spread = (index ^ MASK).wrapping_mul(FACTOR);
    spread ^ (spread >> 32)
}

fn unscramble(scrambled: u64) -> u64 {
    let spread = scrambled ^ (scrambled >> 32);
    spread.wrapping_mul(FACTOR_INVERSE) ^ MASK
}

/// Keeps the first id of each kind from being all zeros.
const MASK: u64 = 0x5bd1_e995_2545_f491;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR_INVERSE: u64 = 0xf1de_83e1_9937_733d;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_format_are_reversible_for_their_kind_only() {
        for index in [0, 1, 2, 999_999, 5_000_000_999, CREATED, CREATED + 12_345] {
            let digits = number(Kind::Fan, 3, index).to_string();
            assert_eq!(index_of_digits(Kind::Fan, 3, &digits), Some(index));
            assert_eq!(index_of_digits(Kind::Post, 3, &digits), None);
            assert_eq!(index_of_digits(Kind::Fan, 2, &digits), None);

            let hex = hex24(Kind::Fan, 3, index);
            assert_eq!(hex.len(), 24);
            assert_eq!(index_of_hex24(Kind::Fan, 3, &hex), Some(index));
            assert_eq!(index_of_hex24(Kind::Fan, 2, &hex), None);
            assert_eq!(index_of_hex24(Kind::Fan, 3, &hex.to_uppercase()), None);

            let id = uuid(Kind::Fan, 3, index);
            assert_eq!(id.len(), 36);
            assert_eq!(index_of_uuid(Kind::Fan, 3, &id), Some(index));
            assert_eq!(index_of_uuid(Kind::List, 3, &id), None);
        }
    }

    #[test]
    fn digit_ids_survive_a_double() {
        assert!(number(Kind::Other, 99, CREATOR_SPAN - 1) < 1 << 53);
    }
}
