//! One cookie as JSON, as it is sealed and stored.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::stored_cookie::StoredCookie;

/// JSON holds text, so a name or value beyond ASCII is written with one character, U+0000 to
/// U+00FF, for each octet.
#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the members of stored JSON")]
pub(super) struct CookieRecord {
    name: String,
    #[serde(serialize_with = "write_secret", deserialize_with = "read_secret")]
    value: Zeroizing<String>,
    domain: String,
    host_only: bool,
    path: String,
    is_secure: bool,
    expires_at_micros: Option<i64>,
    set_at_micros: i64,
    created_at_micros: i64,
    /// Also for a cookie with octets: versions that know none take it for removed, as they would
    /// not have kept it either.
    is_removed: bool,
    /// Whether it is there, with a name or value beyond ASCII.
    #[serde(default, skip_serializing_if = "is_false")]
    has_octets: bool,
}

fn write_secret<S: Serializer>(value: &Zeroizing<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value)
}

fn read_secret<'de, D: Deserializer<'de>>(from: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl From<StoredCookie> for CookieRecord {
    fn from(cookie: StoredCookie) -> Self {
        let is_text = cookie.name.is_ascii() && cookie.value.is_ascii();
        let has_octets = !cookie.is_removed && !is_text;
        Self {
            name: text_of(&cookie.name),
            value: Zeroizing::new(text_of(&cookie.value)),
            domain: cookie.domain,
            host_only: cookie.host_only,
            path: cookie.path,
            is_secure: cookie.is_secure,
            expires_at_micros: cookie.expires_at_micros,
            set_at_micros: cookie.set_at_micros,
            created_at_micros: cookie.created_at_micros,
            is_removed: cookie.is_removed || has_octets,
            has_octets,
        }
    }
}

impl From<CookieRecord> for StoredCookie {
    fn from(record: CookieRecord) -> Self {
        Self {
            name: octets_of(&record.name),
            value: Zeroizing::new(octets_of(&record.value)),
            domain: record.domain,
            host_only: record.host_only,
            path: record.path,
            is_secure: record.is_secure,
            expires_at_micros: record.expires_at_micros,
            set_at_micros: record.set_at_micros,
            created_at_micros: record.created_at_micros,
            is_removed: record.is_removed && !record.has_octets,
        }
    }
}

/// Sized in advance, because a text that grows leaves copies of the secret behind it.
fn text_of(octets: &[u8]) -> String {
    let mut text = String::with_capacity(2 * octets.len());
    text.extend(octets.iter().copied().map(char::from));
    text
}

/// Nothing writes other characters than those of [`text_of`].
fn octets_of(text: &str) -> Vec<u8> {
    let mut octets = Vec::with_capacity(text.len());
    octets.extend(text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')));
    octets
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;
    use http::Uri;

    use super::super::cookie_set::CookieSet;
    use super::super::stored_cookie::RequestPlace;
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_micros(1_700_000_000_000_000);

    fn set(header: &[u8]) -> CookieSet {
        let uri = Uri::from_static("https://a.example/");
        let mut set = CookieSet::default();
        set.put(StoredCookie::read(header, RequestPlace::of(&uri).unwrap(), NOW).unwrap());
        set
    }

    fn json(set: &CookieSet) -> serde_json::Value {
        serde_json::from_slice::<Vec<serde_json::Value>>(&set.to_json()).unwrap().remove(0)
    }

    #[test]
    fn every_octet_is_stored_and_read_back() {
        let octets: Vec<u8> = (0x20..=0xff).filter(|byte| !b";\x7f".contains(byte)).collect();
        let header = [b"a=\"", octets.as_slice(), b"\"; Path=/"].concat();
        let stored = set(&header);

        let read = CookieSet::from_json(&stored.to_json()).unwrap();

        assert_eq!(read, stored);
        let value = [b"\"", octets.as_slice(), b"\""].concat();
        assert_eq!(read.iter().next().unwrap().value.as_slice(), value);
    }

    /// A version that reads only text and `is_removed` may run beside this one.
    #[test]
    fn an_earlier_version_takes_a_cookie_beyond_ascii_for_removed_and_any_other_as_it_is() {
        let beyond = json(&set(b"a=x\xe9"));
        assert_eq!((&beyond["value"], &beyond["is_removed"]), (&"x\u{e9}".into(), &true.into()));

        let plain = json(&set(b"a=1"));
        assert_eq!((&plain["value"], &plain["is_removed"]), (&"1".into(), &false.into()));
        assert_eq!(plain.get("has_octets"), None);
        let written_before = serde_json::to_vec(&[plain]).unwrap();
        assert_eq!(CookieSet::from_json(&written_before).unwrap(), set(b"a=1"));

        let removed = json(&set(b"a=x\xe9; Max-Age=0"));
        assert_eq!(removed["is_removed"], true);
        let again = CookieSet::from_json(&serde_json::to_vec(&[removed]).unwrap()).unwrap();
        assert!(again.iter().next().unwrap().is_removed);
    }

    #[test]
    fn stored_cookies_never_outgrow_the_room_that_is_made_for_them() {
        let value = "\u{7fff}\\\"".repeat(100);
        let largest =
            set([b"a=".as_slice(), value.as_bytes(), b"; Max-Age=9; Path=/x"].concat().as_slice());

        let json = largest.to_json();

        let cookie_bytes = largest.iter().next().unwrap().bytes();
        assert!(json.len() <= CookieSet::json_bytes_max(cookie_bytes), "{}", json.len());
    }
}
