//! One cookie of a platform: how it is read from `Set-Cookie`, and which requests it is sent with
//! (RFC 6265).

use std::net::IpAddr;

use cookie::{Cookie, Expiration};
use domain::time::{MICROS_PER_SECOND, Timestamp};
use http::Uri;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::cookie_record::CookieRecord;

/// The longest name and value together that are kept, in bytes.
const PAIR_BYTES_MAX: usize = 4_096;
/// The longest path or domain that is kept, in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 1_024;

/// A cookie, or the record that one was removed. Names and values are octets (RFC 6265, section 5):
/// what the platform set is sent back byte for byte.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CookieRecord", into = "CookieRecord")]
pub(super) struct StoredCookie {
    pub(super) name: Vec<u8>,
    /// Empty where the cookie was removed.
    pub(super) value: Zeroizing<Vec<u8>>,
    pub(super) domain: String,
    /// Whether it is for exactly this host, and not for those below its domain.
    pub(super) host_only: bool,
    pub(super) path: String,
    pub(super) is_secure: bool,
    pub(super) expires_at_micros: Option<i64>,
    /// When the platform set it last.
    pub(super) set_at_micros: i64,
    /// When the platform first set it; older ones are sent first.
    pub(super) created_at_micros: i64,
    /// Whether the platform removed it. Kept for a while, so that no other node brings it back.
    pub(super) is_removed: bool,
}

/// Where a request goes, as far as cookies are concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestPlace<'u> {
    is_secure: bool,
    host: &'u str,
    path: &'u str,
}

impl<'u> RequestPlace<'u> {
    /// The place of an absolute address.
    pub(super) fn of(uri: &'u Uri) -> Option<Self> {
        let is_secure = uri.scheme_str() == Some("https");
        Some(Self { is_secure, host: uri.host()?, path: uri.path() })
    }
}

impl StoredCookie {
    /// Reads a value of `Set-Cookie` in the response to a request to this place. Nothing where it
    /// cannot be kept: it is malformed, too long, holds control characters, or is meant for another
    /// host.
    pub(super) fn read(header: &[u8], from: RequestPlace<'_>, at: Timestamp) -> Option<Self> {
        let (name, value, attributes) = parts(header)?;
        let is_sendable = |part: &[u8]| !part.iter().any(u8::is_ascii_control);
        if name.is_empty()
            || name.len() + value.len() > PAIR_BYTES_MAX
            || !is_sendable(name)
            || !is_sendable(value)
        {
            return None;
        }
        // Attributes are text. The parser needs a pair before them, and this one holds no secret.
        let parsed = Cookie::parse(format!("a=b{}", String::from_utf8_lossy(attributes))).ok()?;
        let is_secure = parsed.secure().unwrap_or(false);
        if is_secure && !from.is_secure {
            return None;
        }
        let (domain, host_only) = domain(parsed.domain(), from.host)?;
        let path = path(parsed.path(), from.path);
        if domain.len().max(path.len()) > ATTRIBUTE_BYTES_MAX
            || is_forged(name, is_secure, host_only, parsed.path())
        {
            return None;
        }
        let now = at.unix_micros();
        let expires_at_micros = expiry(&parsed, now);
        let is_removed = expires_at_micros.is_some_and(|end| end <= now);
        let value = if is_removed { &[] } else { value };
        Some(Self {
            name: name.to_vec(),
            value: Zeroizing::new(value.to_vec()),
            domain,
            host_only,
            path,
            is_secure,
            expires_at_micros,
            set_at_micros: now,
            created_at_micros: now,
            is_removed,
        })
    }

    /// The record that this cookie was removed.
    pub(super) fn removed(&self, at: Timestamp) -> Self {
        Self {
            value: Zeroizing::default(),
            set_at_micros: at.unix_micros(),
            is_removed: true,
            ..self.clone()
        }
    }

    /// Whether the other one takes its place: it has the same name, domain and path.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        (&self.name, &self.domain, &self.path) == (&other.name, &other.domain, &other.path)
    }

    /// Whether the other one says the same, apart from when it expires.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        self.is_same_as(other)
            && self.value == other.value
            && (self.host_only, self.is_secure, self.is_removed)
                == (other.host_only, other.is_secure, other.is_removed)
    }

    /// How many seconds later than the other one it expires; nothing where one of them never does.
    pub(super) fn expires_later_s(&self, other: &Self) -> Option<i64> {
        match (self.expires_at_micros, other.expires_at_micros) {
            (None, None) => Some(0),
            (Some(own), Some(others)) => Some(own.saturating_sub(others) / MICROS_PER_SECOND),
            (Some(_), None) | (None, Some(_)) => None,
        }
    }

    /// Whether it is there at this time.
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        !self.is_removed && self.expires_at_micros.is_none_or(|end| now.unix_micros() < end)
    }

    /// Whether it is sent with a request to this place.
    pub(super) fn is_for(&self, place: RequestPlace<'_>) -> bool {
        let host = place.host.to_ascii_lowercase();
        let is_of_host =
            if self.host_only { host == self.domain } else { is_within(&host, &self.domain) };
        is_of_host && (place.is_secure || !self.is_secure) && has_path(place.path, &self.path)
    }

    /// How many bytes of the limit for all cookies of an account it takes.
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }

    /// Longer paths are sent first, and then older cookies (RFC 6265, section 5.4).
    pub(super) fn order(&self) -> (std::cmp::Reverse<usize>, i64, &[u8]) {
        (std::cmp::Reverse(self.path.len()), self.created_at_micros, &self.name)
    }
}

/// The name, the value, and the attributes with the semicolon before them (RFC 6265, section 5.2).
fn parts(header: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let end = header.iter().position(|byte| *byte == b';').unwrap_or(header.len());
    let (pair, attributes) = header.split_at_checked(end)?;
    let (name, value) = pair.split_at_checked(pair.iter().position(|byte| *byte == b'=')?)?;
    Some((name.trim_ascii(), value.strip_prefix(b"=")?.trim_ascii(), attributes))
}

/// The domain of a cookie, and whether it is for this host alone. Nothing where the platform may
/// not set it.
fn domain(given: Option<&str>, host: &str) -> Option<(String, bool)> {
    let host = host.to_ascii_lowercase();
    let given = given.map(|text| text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase());
    match given.filter(|domain| !domain.is_empty()) {
        None => Some((host, true)),
        Some(domain) if domain == host => {
            let is_address = is_address(&host);
            Some((domain, is_address))
        }
        Some(domain) if domain.contains('.') && is_within(&host, &domain) => Some((domain, false)),
        Some(_) => None,
    }
}

fn is_within(host: &str, domain: &str) -> bool {
    host == domain
        || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')) && !is_address(host)
}

fn is_address(host: &str) -> bool {
    host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// The path of a cookie: the given one, or the folder of the request's (RFC 6265, section 5.1.4).
fn path(given: Option<&str>, requested: &str) -> String {
    if let Some(given) = given.filter(|path| path.starts_with('/')) {
        return given.to_owned();
    }
    match requested.rsplit_once('/') {
        None | Some(("", _)) => "/".to_owned(),
        Some((folder, _)) => folder.to_owned(),
    }
}

fn has_path(requested: &str, path: &str) -> bool {
    requested == path
        || requested
            .strip_prefix(path)
            .is_some_and(|rest| path.ends_with('/') || rest.starts_with('/'))
}

/// Names with these prefixes promise what the attributes must say.
fn is_forged(name: &[u8], is_secure: bool, host_only: bool, path: Option<&str>) -> bool {
    let begins = |prefix: &str| {
        let start = name.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    begins("__Secure-") && !is_secure
        || begins("__Host-") && !(is_secure && host_only && path == Some("/"))
}

/// `Max-Age` counts before `Expires`.
fn expiry(parsed: &Cookie<'_>, now_micros: i64) -> Option<i64> {
    if let Some(age) = parsed.max_age() {
        let age_micros = age.whole_seconds().saturating_mul(MICROS_PER_SECOND);
        return Some(now_micros.saturating_add(age_micros));
    }
    match parsed.expires() {
        Some(Expiration::DateTime(end)) => {
            Some(end.unix_timestamp().saturating_mul(MICROS_PER_SECOND))
        }
        Some(Expiration::Session) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_micros(1_700_000_000_000_000);

    fn read(text: impl AsRef<[u8]>, from: &'static str) -> Option<StoredCookie> {
        let uri = Uri::from_static(from);
        StoredCookie::read(text.as_ref(), RequestPlace::of(&uri).unwrap(), NOW)
    }

    fn is_sent(cookie: &StoredCookie, to: &str) -> bool {
        cookie.is_for(RequestPlace::of(&to.parse().unwrap()).unwrap())
    }

    #[test]
    fn a_cookie_goes_to_its_host_and_path_and_with_a_domain_to_the_hosts_below() {
        let own = read("a=1", "https://api.example.com/v2/users/me").unwrap();
        let wide = read("a=1; Domain=.Example.com; Path=/", "https://api.example.com/v2").unwrap();
        for (cookie, to, expected) in [
            (&own, "https://api.example.com/v2/users", true),
            (&own, "https://API.example.com/v2/users/me?x", true),
            (&own, "https://api.example.com/v2/usersx", false),
            (&own, "https://api.example.com/v2", false),
            (&own, "https://up.api.example.com/v2/users", false),
            (&own, "https://example.com/v2/users", false),
            (&wide, "https://up.example.com/", true),
            (&wide, "https://example.com/x", true),
            (&wide, "https://badexample.com/", false),
        ] {
            assert_eq!(is_sent(cookie, to), expected, "{to}");
        }
    }

    #[test]
    fn a_cookie_for_another_host_or_for_a_whole_top_level_domain_is_dropped() {
        for text in
            ["a=1; Domain=other.com", "a=1; Domain=com", "a=1; Domain=up.api.example.com", "=1"]
        {
            assert!(read(text, "https://api.example.com/").is_none(), "{text}");
        }
        assert!(read("a=1; Domain=0.0.1", "http://127.0.0.1/").is_none());
        let own = read("a=1; Domain=127.0.0.1", "http://127.0.0.1/").unwrap();
        assert!(is_sent(&own, "http://127.0.0.1:81/") && own.host_only);
    }

    #[test]
    fn a_secure_cookie_is_neither_taken_nor_sent_without_tls() {
        assert!(read("a=1; Secure", "http://api.example.com/").is_none());
        let secure = read("a=1; Secure", "https://api.example.com/").unwrap();
        assert!(is_sent(&secure, "https://api.example.com/"));
        assert!(!is_sent(&secure, "http://api.example.com/"));
        assert!(read("__Host-a=1; Secure", "https://api.example.com/").is_none());
        assert!(read("__Host-a=1; Secure; Path=/", "https://api.example.com/").is_some());
        assert!(read("__Secure-a=1", "https://api.example.com/").is_none());
    }

    #[test]
    fn max_age_counts_before_expires_and_either_can_remove_a_cookie() {
        let from = "https://a.example/";
        let after = |text: &str| {
            let cookie = read(text, from).unwrap();
            (
                cookie.is_removed,
                cookie.expires_at_micros.map(|end| (end - NOW.unix_micros()) / 1_000_000),
            )
        };
        assert_eq!(after("a=1"), (false, None));
        assert_eq!(
            after("a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
            (false, Some(60))
        );
        assert_eq!(after("a=1; Max-Age=0"), (true, Some(0)));
        assert!(after("a=1; max-age=-5").0);
        assert_eq!(after("a=1; Expires=Wed, 15 Nov 2023 00:00:00 GMT"), (false, Some(6_400)));
        assert_eq!(after("a=1; expires=Wed, 15-Nov-2023 00:00:00 GMT"), (false, Some(6_400)));
        assert!(after("a=1; Expires=Thu, 01-Jan-1970 00:00:00 GMT").0);
        assert_eq!(after("a=1; Expires=never"), (false, None));
    }

    #[test]
    fn a_cookie_that_no_header_can_carry_is_dropped() {
        for text in ["a=\u{1}", "a=b\tc", "a=\u{7f}", "\u{1}a=1", "a", ""] {
            assert!(read(text, "https://a.example/").is_none(), "{text}");
        }
        assert!(read(format!("a={}", "x".repeat(4_096)), "https://a.example/").is_none());
        assert!(read(format!("a={}", "x".repeat(4_095)), "https://a.example/").is_some());
        assert!(read(format!("a={}", "\u{e9}".repeat(2_048)), "https://a.example/").is_none());
        let quoted = read("a=\"b c\"; Path=/", "https://a.example/").unwrap();
        assert_eq!(quoted.value.as_slice(), b"\"b c\"");
    }

    #[test]
    fn names_and_values_are_octets_that_stay_as_they_came() {
        let from = "https://a.example/x/y";
        // The second one ends with a byte that Unicode takes for a space.
        for value in [&b"x\xe9"[..], "voil\u{e0}".as_bytes(), b"\x80\xff\xa0", b"\xe2\x82"] {
            let header = [b" n\xc3\xa9 = ", value, b" ; Path=/; Max-Age=60; X=\xff"].concat();
            let cookie = read(&header, from).unwrap();
            assert_eq!(cookie.name, b"n\xc3\xa9");
            assert_eq!(cookie.value.as_slice(), value);
            assert_eq!(cookie.path, "/");
            assert_eq!(cookie.expires_at_micros, Some(NOW.unix_micros() + 60_000_000));
        }
        let elsewhere = read(b"a=1; Domain=\xff.example", from);
        assert!(elsewhere.is_none());
    }
}
