//! The cookies of one account: bounded, and merged with those that other nodes received.

use domain::time::{MICROS_PER_SECOND, Timestamp};
use zeroize::Zeroizing;

use super::stored_cookie::StoredCookie;

/// The most cookies of an account.
const COOKIES_MAX: usize = 50;
/// The most bytes of their names, values, domains and paths.
const BYTES_MAX: usize = 16_384;
/// How long it is remembered that a cookie was removed.
const REMOVAL_KEPT_MICROS: i64 = 60 * MICROS_PER_SECOND;

/// Cookies of one account, as they are sealed and stored.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CookieSet {
    cookies: Vec<StoredCookie>,
}

/// Bytes that are not a set of cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a JSON list of cookies")]
pub struct MalformedCookies;

impl CookieSet {
    /// Reads what [`to_json`](Self::to_json) wrote.
    pub fn from_json(json: &[u8]) -> Result<Self, MalformedCookies> {
        let cookies = serde_json::from_slice(json).map_err(|_| MalformedCookies)?;
        Ok(Self { cookies })
    }

    /// Writes all cookies, to be sealed. The bytes are wiped when dropped.
    pub fn to_json(&self) -> Zeroizing<Vec<u8>> {
        // Sized in advance, because a buffer that grows leaves copies of the secrets behind it.
        let each = |cookie: &StoredCookie| Self::json_bytes_max(cookie.bytes());
        let mut json = Vec::with_capacity(self.cookies.iter().map(each).sum::<usize>() + 2);
        match serde_json::to_writer(&mut json, &self.cookies) {
            Ok(()) => Zeroizing::new(json),
            // Texts and numbers always have a JSON form, and a vector takes all bytes.
            Err(_) => Zeroizing::new(b"[]".to_vec()),
        }
    }

    /// The most bytes that a cookie of this size takes as JSON, with a comma.
    pub(super) const fn json_bytes_max(cookie_bytes: usize) -> usize {
        6 * cookie_bytes + 320
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// These cookies and the others; of two with the same name, domain and path the one that was
    /// set last.
    #[must_use]
    pub fn merged(&self, others: &Self, now: Timestamp) -> Self {
        let mut merged = self.clone();
        for cookie in &others.cookies {
            merged.put(cookie.clone());
        }
        merged.trim(now);
        merged
    }

    /// Whether a caller of the platform can tell it from the other set: a cookie has another value,
    /// or is new or gone.
    pub fn differs_from(&self, other: &Self) -> bool {
        self.cookies.len() != other.cookies.len()
            || !self.cookies.iter().all(|own| other.cookies.iter().any(|it| it.says_the_same(own)))
    }

    /// The same without the cookies of these names.
    #[must_use]
    pub fn without(&self, names: &[Vec<u8>], now: Timestamp) -> Self {
        let remaining = |cookie: &StoredCookie| {
            if names.contains(&cookie.name) { cookie.removed(now) } else { cookie.clone() }
        };
        Self { cookies: self.cookies.iter().map(remaining).collect() }
    }

    /// Adds a cookie, unless the same one was set later.
    pub(super) fn put(&mut self, mut cookie: StoredCookie) {
        let known = self.cookies.iter_mut().find(|known| known.is_same_as(&cookie));
        match known {
            Some(known) if known.set_at_micros > cookie.set_at_micros => {}
            Some(known) => {
                if !known.is_removed {
                    cookie.created_at_micros = known.created_at_micros;
                }
                *known = cookie;
            }
            None => self.cookies.push(cookie),
        }
    }

    /// The cookie in whose place this one comes.
    pub(super) fn known(&self, cookie: &StoredCookie) -> Option<&StoredCookie> {
        self.cookies.iter().find(|known| known.is_same_as(cookie))
    }

    /// Without the cookies that the other set has in exactly this form.
    pub(super) fn beside(&self, stored: &Self) -> Self {
        let is_new = |cookie: &&StoredCookie| !stored.cookies.contains(cookie);
        Self { cookies: self.cookies.iter().filter(is_new).cloned().collect() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StoredCookie> {
        self.cookies.iter()
    }

    /// Drops what has expired, and of too many cookies those that were set longest ago.
    pub(super) fn trim(&mut self, now: Timestamp) {
        let oldest = now.unix_micros().saturating_sub(REMOVAL_KEPT_MICROS);
        self.cookies.retain(|cookie| {
            cookie.is_live(now) || cookie.is_removed && cookie.set_at_micros > oldest
        });
        self.cookies.sort_by_key(|cookie| (cookie.is_removed, -cookie.set_at_micros));
        let (mut live, mut removed, mut bytes) = (0_usize, 0_usize, 0_usize);
        self.cookies.retain(|cookie| {
            let count = if cookie.is_removed { &mut removed } else { &mut live };
            *count += 1;
            bytes += cookie.bytes();
            *count <= COOKIES_MAX && bytes <= BYTES_MAX
        });
    }
}

impl std::fmt::Debug for CookieSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CookieSet({} cookies)", self.cookies.len())
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::super::stored_cookie::RequestPlace;
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_micros(1_700_000_000_000_000);

    fn cookie(text: &str, after_s: i64) -> StoredCookie {
        let uri = Uri::from_static("https://a.example/");
        StoredCookie::read(
            text.as_bytes(),
            RequestPlace::of(&uri).unwrap(),
            NOW.plus_seconds(after_s),
        )
        .unwrap()
    }

    fn set(cookies: &[(&str, i64)]) -> CookieSet {
        let mut set = CookieSet::default();
        for (text, after_s) in cookies {
            set.put(cookie(text, *after_s));
        }
        set
    }

    fn pairs(set: &CookieSet) -> Vec<String> {
        let live = set.iter().filter(|cookie| !cookie.is_removed);
        let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
        let mut pairs: Vec<_> =
            live.map(|cookie| format!("{}={}", text(&cookie.name), text(&cookie.value))).collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn of_two_nodes_each_keeps_its_cookies_and_the_later_value_wins() {
        let stored = set(&[("a=1", 0), ("b=1", 5), ("c=1", 0), ("d=1", 9)]);
        let changes = set(&[("a=2", 1), ("b=2", 1), ("c=; Max-Age=0", 2), ("e=1", 3)]);

        let merged = stored.merged(&changes, NOW.plus_seconds(10));

        assert_eq!(pairs(&merged), ["a=2", "b=1", "d=1", "e=1"]);
        // What another node still has of a removed cookie does not bring it back.
        let again = merged.merged(&set(&[("c=1", 1)]), NOW.plus_seconds(10));
        assert_eq!(pairs(&again), ["a=2", "b=1", "d=1", "e=1"]);
        assert_eq!(CookieSet::from_json(&merged.to_json()).unwrap(), merged);
    }

    #[test]
    fn fifty_cookies_and_16_kib_are_kept_of_which_the_newest() {
        let many: Vec<String> = (0..60).map(|number| format!("c{number:02}=x")).collect();
        let mut set_of_many = CookieSet::default();
        for (age, text) in many.iter().enumerate() {
            set_of_many.put(cookie(text, i64::try_from(age).unwrap()));
        }
        set_of_many.trim(NOW);
        assert_eq!(pairs(&set_of_many), many[10..].to_vec());

        let mut large = CookieSet::default();
        for age in 0..10 {
            large.put(cookie(&format!("l{age}={}", "x".repeat(4_000)), age));
        }
        large.trim(NOW);
        assert_eq!(large.iter().count(), 4);
        assert!(large.iter().all(|cookie| *cookie.name >= *b"l6".as_slice()));
    }

    #[test]
    fn expired_cookies_and_old_removals_are_dropped() {
        let mut of_all = set(&[("a=1; Max-Age=5", 0), ("b=1", 0), ("c=1; Max-Age=0", 0)]);
        of_all.trim(NOW.plus_seconds(4));
        assert_eq!(of_all.iter().count(), 3);
        of_all.trim(NOW.plus_seconds(5));
        assert_eq!(of_all.iter().count(), 2);
        of_all.trim(NOW.plus_seconds(60));
        assert_eq!(pairs(&of_all), ["b=1"]);
        assert_eq!(of_all.iter().count(), 1);
    }

    #[test]
    fn debug_output_shows_no_cookie() {
        assert_eq!(format!("{:?}", set(&[("hush=hush", 0)])), "CookieSet(1 cookies)");
    }
}
