//! Shorthands: short GET paths that stand for a platform's longer ones, and query parameters put in
//! for the caller.
//!
//! What the caller wrote stays as it is, byte for byte and in its order; inserted parameters come
//! after it.

use domain::field_error::FieldErrorKind;

use crate::FieldProblem;

/// Where a shorthand leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shorthand {
    /// The path to call; `{id}` stands for the creator's own id on the platform.
    pub target: String,
    /// Query parameters that are filled in unless given: name, and value or `{id}`; not encoded.
    pub fills: Vec<(String, String)>,
}

/// The place of the creator's own id.
const ID: &str = "{id}";

/// The upstream path and query of a call to a shorthand. The query is empty when there is none.
///
/// The creator's id becomes one percent-encoded segment. An id that cannot be one is a problem, and
/// so is a parameter that the caller gives twice where we would fill in the creator's id: platforms
/// differ in which of the two they read, and so in whose things they show.
pub fn rewrite(
    shorthand: &Shorthand,
    creator_platform_id: &str,
    raw_query: Option<&str>,
) -> Result<(String, String), FieldProblem> {
    let path = if shorthand.target.contains(ID) {
        shorthand.target.replace(ID, &path_segment(creator_platform_id)?)
    } else {
        shorthand.target.clone()
    };
    let raw_query = raw_query.unwrap_or_default();
    let mut fills = Vec::with_capacity(shorthand.fills.len());
    for (name, value) in &shorthand.fills {
        let is_given = |pair: &&str| is_named(pair, name);
        if value.contains(ID) && raw_query.split('&').filter(is_given).count() > 1 {
            return Err(given_twice(name));
        }
        fills.push((name.clone(), value.replace(ID, creator_platform_id)));
    }
    Ok((path, with_defaults(raw_query, &fills)))
}

/// Adds the parameters that the raw query does not have. Explicit ones win, also when they are
/// empty, given several times, or their name is percent-encoded.
pub fn with_defaults(raw_query: &str, inserted: &[(String, String)]) -> String {
    let mut query = raw_query.to_owned();
    for (name, value) in inserted {
        if raw_query.split('&').any(|pair| is_named(pair, name)) {
            continue;
        }
        if !query.is_empty() && !query.ends_with('&') {
            query.push('&');
        }
        encode(name, &mut query);
        query.push('=');
        encode(value, &mut query);
    }
    query
}

fn given_twice(name: &str) -> FieldProblem {
    FieldProblem {
        location: vec!["query".to_owned(), name.to_owned()],
        message: format!("{name} is given more than once"),
        kind: FieldErrorKind::Duplicate,
    }
}

/// Dots alone would climb, and nothing would vanish: neither can be a segment, encoded or not.
fn path_segment(id: &str) -> Result<String, FieldProblem> {
    if matches!(id, "" | "." | "..") {
        return Err(FieldProblem {
            location: vec!["path".to_owned(), "account".to_owned()],
            message: "the account has no usable id on its platform: connect it again".to_owned(),
            kind: FieldErrorKind::NotAllowed,
        });
    }
    let mut segment = String::with_capacity(id.len());
    encode(id, &mut segment);
    Ok(segment)
}

/// Whether a `name=value` pair of a query has this name once decoded.
fn is_named(pair: &str, name: &str) -> bool {
    let written = pair.split_once('=').map_or(pair, |(written, _)| written);
    let mut bytes = written.bytes();
    let mut expected = name.bytes();
    while let Some(byte) = bytes.next() {
        let decoded = match byte {
            b'+' => b' ',
            b'%' => {
                let mut ahead = bytes.clone();
                match (ahead.next().and_then(hex), ahead.next().and_then(hex)) {
                    (Some(high), Some(low)) => {
                        bytes = ahead;
                        high * 16 + low
                    }
                    _ => b'%',
                }
            }
            other => other,
        };
        if expected.next() != Some(decoded) {
            return false;
        }
    }
    expected.next().is_none()
}

/// The bytes of percent-encoded text; what is no encoding stays as it is.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        match (byte, ahead.next().and_then(hex), ahead.next().and_then(hex)) {
            (b'%', Some(high), Some(low)) => {
                bytes = ahead;
                decoded.push(high * 16 + low);
            }
            (other, ..) => decoded.push(other),
        }
    }
    decoded
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub(crate) fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(hex_digit(byte >> 4));
            into.push(hex_digit(byte & 15));
        }
    }
}

fn hex_digit(value: u8) -> char {
    char::from(if value < 10 { b'0' + value } else { b'A' + value - 10 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit() -> Vec<(String, String)> {
        vec![("limit".to_owned(), "50".to_owned())]
    }

    fn shorthand(target: &str, fills: &[(&str, &str)]) -> Shorthand {
        let fills =
            fills.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Shorthand { target: target.to_owned(), fills }
    }

    #[test]
    fn the_creators_id_is_filled_in_as_one_segment() {
        let target = shorthand("user/{id}/subscription", &[]);

        let rewritten = |id| rewrite(&target, id, None).map(|(path, _)| path);

        assert_eq!(rewritten("66f0a1").unwrap(), "user/66f0a1/subscription");
        assert_eq!(rewritten("a/../b?c#%").unwrap(), "user/a%2F..%2Fb%3Fc%23%25/subscription");
        assert_eq!(rewritten("{id}").unwrap(), "user/%7Bid%7D/subscription");
        assert_eq!(rewritten("é").unwrap(), "user/%C3%A9/subscription");
        for unusable in ["", ".", ".."] {
            assert_eq!(
                rewritten(unusable).unwrap_err().kind,
                FieldErrorKind::NotAllowed,
                "{unusable:?}"
            );
        }
    }

    #[test]
    fn a_target_without_an_id_needs_none() {
        let feed = shorthand("base", &[]);

        assert_eq!(rewrite(&feed, "", Some("limit=5")).unwrap(), ("base".into(), "limit=5".into()));
    }

    #[test]
    fn a_filled_in_parameter_gives_way_to_an_explicit_one() {
        let reels = shorthand("reels", &[("user_id", "{id}")]);
        let query = |raw| rewrite(&reels, "a&b", raw).unwrap().1;

        assert_eq!(query(None), "user_id=a%26b");
        assert_eq!(query(Some("limit=5")), "limit=5&user_id=a%26b");
        assert_eq!(query(Some("user_id=7&limit=5")), "user_id=7&limit=5");
    }

    #[test]
    fn an_explicit_parameter_wins_however_it_is_written() {
        for raw in ["limit=10", "limit=", "limit", "%6cimit=10", "%6C%69mit=1", "a=1&limit=10&b=2"]
        {
            assert_eq!(with_defaults(raw, &limit()), raw);
        }
        for raw in ["Limit=1", "limits=1", "limi=1", "a=limit", "limit%00=1", "%6", "%zzlimit=1"] {
            assert_eq!(with_defaults(raw, &limit()), format!("{raw}&limit=50"));
        }
        assert_eq!(with_defaults("", &limit()), "limit=50");
        assert_eq!(with_defaults("a=1&", &limit()), "a=1&limit=50");
    }

    #[test]
    fn only_whose_things_are_shown_must_not_be_said_twice() {
        let reels = shorthand("reels", &[("user_id", "{id}")]);
        let moments = shorthand("user/{id}/file-stack", &[("categories", "moment")]);

        let problem = rewrite(&reels, "me", Some("user_id=1&user%5Fid=2")).unwrap_err();

        assert_eq!(problem.location, ["query", "user_id"]);
        let (_, query) = rewrite(&moments, "me", Some("categories=a&categories=b")).unwrap();
        assert_eq!(query, "categories=a&categories=b");
        assert_eq!(with_defaults("limit=1&%6cimit=2", &limit()), "limit=1&%6cimit=2");
    }

    proptest! {
        #[test]
        fn what_the_caller_sent_stays_in_front_unchanged(raw in "[a-z%&=+0-9]{0,40}") {
            let merged = with_defaults(&raw, &limit());

            let rest = merged.strip_prefix(raw.as_str());
            prop_assert!(matches!(rest, Some("" | "&limit=50" | "limit=50")), "{merged}");
        }

        #[test]
        fn merging_again_changes_nothing(raw in "[lit%m6c&=]{0,30}") {
            let merged = with_defaults(&raw, &limit());

            prop_assert_eq!(with_defaults(&merged, &limit()), merged);
        }

        #[test]
        fn an_inserted_name_and_value_are_recognised_afterwards(name in "\\PC{1,12}", value in "\\PC{0,12}") {
            let inserted = vec![(name.clone(), value)];

            let merged = with_defaults("", &inserted);

            prop_assert!(merged.is_ascii() && is_named(&merged, &name));
            prop_assert_eq!(with_defaults(&merged, &inserted), merged);
        }
    }
}
