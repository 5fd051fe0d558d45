//! Spending by what it was for: by account, key, route or tag.

use std::str::FromStr;

use crate::wire::text_enum;

text_enum! {
    /// What spending is grouped by.
    BreakdownBy, "one of account, key, route, tag" {
        /// The account that was called or exported.
        Account = "account",
        /// The key that was used.
        Key = "key",
        /// The route that was called, on its platform.
        Route = "route",
        /// The tag that the customer gave the request.
        Tag = "tag",
    }
}

/// The place of an entry in a breakdown, which begins with what cost the most: where a page
/// continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakdownCursor {
    /// What the entry cost.
    pub credits: i64,
    /// The stored name of its platform; empty unless it is a route.
    pub platform: String,
    /// Its method; empty unless it is a route.
    pub method: String,
    /// Its name; empty for what has no tag.
    pub name: String,
}

/// A text that is not the place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the `next_before` of a page of a breakdown")]
pub struct MalformedCursor;

/// Between the parts of a cursor. No name contains it.
const SEPARATOR: char = '\n';

impl std::fmt::Display for BreakdownCursor {
    /// In hexadecimal digits, so that it needs no escapes in a query.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { credits, platform, method, name } = self;
        let text = format!("{credits}{SEPARATOR}{platform}{SEPARATOR}{method}{SEPARATOR}{name}");
        text.bytes().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for BreakdownCursor {
    type Err = MalformedCursor;

    fn from_str(text: &str) -> Result<Self, MalformedCursor> {
        let bytes = bytes_of(text).ok_or(MalformedCursor)?;
        let written = String::from_utf8(bytes).map_err(|_| MalformedCursor)?;
        let mut parts = written.splitn(4, SEPARATOR);
        let mut next = || parts.next().ok_or(MalformedCursor);
        let credits = next()?.parse().map_err(|_| MalformedCursor)?;
        let (platform, method, name) = (next()?.to_owned(), next()?.to_owned(), next()?.to_owned());
        // PostgreSQL stores no such texts, so no entry has them.
        if [&platform, &method, &name].iter().any(|part| part.contains('\0')) {
            return Err(MalformedCursor);
        }
        Ok(Self { credits, platform, method, name })
    }
}

impl serde::Serialize for BreakdownCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for BreakdownCursor {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The bytes that lower-case hexadecimal digits stand for.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(byte.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_a_round_trip_as_text() {
        let cursor = BreakdownCursor {
            credits: 12,
            platform: "platform_alpha".to_owned(),
            method: "GET".to_owned(),
            name: "GET chats/{}/notes é".to_owned(),
        };

        let text = cursor.to_string();

        assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
        assert_eq!(text.parse(), Ok(cursor));
    }

    #[test]
    fn other_texts_are_refused() {
        let hex = |text: &str| {
            let digits: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            digits.concat()
        };
        for text in
            ["", "0", "zz", "é0", &hex("1\na\nb"), &hex("x\na\nb\nc"), &hex("1\na\nb\n\0"), "ff"]
        {
            assert_eq!(text.parse::<BreakdownCursor>(), Err(MalformedCursor), "{text}");
        }
    }
}
