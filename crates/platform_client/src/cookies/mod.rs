//! The cookies that a platform sets: kept for each account, and sent with its further requests.
//!
//! A jar is shared by everything that is sent for an account. It knows nothing of storage: it says
//! when it has changed, and whoever keeps it asks for the changes.

mod cookie_record;
mod cookie_set;
mod stored_cookie;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::time::Timestamp;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Request, Uri};
use outbound::RequestBody;
use zeroize::Zeroizing;

pub use self::cookie_set::{CookieSet, MalformedCookies};
use self::stored_cookie::{RequestPlace, StoredCookie};

/// A cookie that lasts for long anyway, and that only expires a little later than before, is not
/// stored for that alone.
const EXPIRY_STEP_S: i64 = 60;
/// For this long, in seconds.
const LONG_S: i64 = 600;
/// The most values of `Set-Cookie` of one response that are read.
const READ_MAX: usize = 100;

/// The cookies of one account.
pub struct CookieJar {
    state: Mutex<JarState>,
    on_change: Option<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct JarState {
    all: CookieSet,
    /// What was not stored yet.
    changes: CookieSet,
    /// Whether it was said that there are changes.
    is_told: bool,
}

/// The jar of a request, kept with the request.
#[derive(Clone)]
pub(super) struct RequestCookies {
    jar: Arc<CookieJar>,
    at: Timestamp,
}

impl CookieJar {
    /// An empty jar that nobody keeps.
    pub fn detached() -> Self {
        Self { state: Mutex::default(), on_change: None }
    }

    /// An empty jar. `on_change` is called when it has changes for the first time after they were
    /// last asked for.
    pub fn telling(on_change: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), on_change: Some(Box::new(on_change)) }
    }

    /// Takes over what is stored. What was not stored yet is added to it.
    pub fn load(&self, stored: &CookieSet, now: Timestamp) {
        let mut state = self.lock();
        state.all = stored.merged(&state.changes, now);
    }

    /// All cookies.
    pub fn all(&self) -> CookieSet {
        self.lock().all.clone()
    }

    /// What was not stored yet. The next change is told again.
    pub fn changes(&self) -> CookieSet {
        let mut state = self.lock();
        state.is_told = false;
        state.changes.clone()
    }

    /// These changes are stored, and this is all that is stored now.
    pub fn stored(&self, changes: &CookieSet, all: &CookieSet, now: Timestamp) {
        let mut state = self.lock();
        state.changes = state.changes.beside(changes);
        state.all = all.merged(&state.changes, now);
    }

    /// Takes the cookies that a response sets.
    fn receive(&self, headers: &HeaderMap, from: &Uri, at: Timestamp) {
        let Some(place) = RequestPlace::of(from) else { return };
        let values = headers.get_all(SET_COOKIE).iter().take(READ_MAX);
        let read = values.filter_map(|value| StoredCookie::read(value.as_bytes(), place, at));
        let mut state = self.lock();
        let mut has_changes = false;
        for cookie in read {
            has_changes |= state.take(cookie, at);
        }
        state.all.trim(at);
        state.changes.trim(at);
        let is_news = has_changes && !state.is_told;
        state.is_told |= has_changes;
        drop(state);
        if let (true, Some(on_change)) = (is_news, &self.on_change) {
            on_change();
        }
    }

    /// The cookies for a request, beside those that the configuration sends. Of two with the same
    /// name the platform's own counts, which is newer.
    fn header(&self, to: &Uri, given: Option<&HeaderValue>, now: Timestamp) -> Option<HeaderValue> {
        let place = RequestPlace::of(to)?;
        let state = self.lock();
        let mut sent: Vec<&StoredCookie> =
            state.all.iter().filter(|cookie| cookie.is_live(now) && cookie.is_for(place)).collect();
        if sent.is_empty() {
            return None;
        }
        sent.sort_by(|one, other| one.order().cmp(&other.order()));
        let given = given.map(HeaderValue::as_bytes).unwrap_or_default();
        let given = given.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let is_kept = |pair: &&[u8]| {
            !pair.is_empty() && !sent.iter().any(|cookie| cookie.name == name_of(pair))
        };
        let kept: Vec<&[u8]> = given.filter(is_kept).collect();
        let separated = |bytes: usize| bytes + 3;
        let bytes = kept.iter().map(|pair| separated(pair.len())).sum::<usize>()
            + sent.iter().map(|cookie| separated(cookie.bytes())).sum::<usize>();
        // Sized in advance, because a text that grows leaves copies of the secrets behind it.
        let mut text = Zeroizing::new(Vec::with_capacity(bytes));
        for pair in kept {
            add_pair(&mut text, &[pair]);
        }
        for cookie in sent {
            add_pair(&mut text, &[&cookie.name, b"=", &cookie.value]);
        }
        drop(state);
        let mut value = HeaderValue::from_bytes(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    fn lock(&self) -> MutexGuard<'_, JarState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JarState {
    /// Takes a cookie, and says whether there is something to be stored.
    fn take(&mut self, cookie: StoredCookie, at: Timestamp) -> bool {
        let mut is_worth_storing = true;
        match self.all.known(&cookie) {
            Some(known) if known.says_the_same(&cookie) => {
                let later_s = cookie.expires_later_s(known);
                if later_s == Some(0) {
                    return false;
                }
                let is_little = later_s.is_some_and(|later| (1..EXPIRY_STEP_S).contains(&later));
                is_worth_storing = !is_little || !known.is_live(at.plus_seconds(LONG_S));
            }
            // There is nothing to be removed.
            None if cookie.is_removed => return false,
            Some(_) | None => {}
        }
        self.all.put(cookie.clone());
        self.changes.put(cookie);
        is_worth_storing
    }
}

/// Adds the account's cookies to a request, and leaves with it where those of its response go.
pub(super) fn attach(request: &mut Request<RequestBody>, jar: &Arc<CookieJar>, at: Timestamp) {
    let value = jar.header(request.uri(), request.headers().get(COOKIE), at);
    if let Some(value) = value {
        request.headers_mut().insert(COOKIE, value);
    }
    request.extensions_mut().insert(RequestCookies { jar: Arc::clone(jar), at });
}

impl RequestCookies {
    /// Takes the cookies that the response to a request to this address sets.
    pub(super) fn receive(&self, headers: &HeaderMap, from: &Uri) {
        if headers.contains_key(SET_COOKIE) {
            self.jar.receive(headers, from, self.at);
        }
    }
}

/// The names of the cookies in a `Cookie` header.
pub(super) fn names(header: Option<&HeaderValue>) -> Vec<Vec<u8>> {
    let pairs = header.map(HeaderValue::as_bytes).unwrap_or_default();
    let names = pairs.split(|byte| *byte == b';').map(name_of);
    names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

fn add_pair(text: &mut Vec<u8>, parts: &[&[u8]]) {
    if !text.is_empty() {
        text.extend_from_slice(b"; ");
    }
    for part in parts {
        text.extend_from_slice(part);
    }
}

impl std::fmt::Debug for CookieJar {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CookieJar").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_micros(1_700_000_000_000_000);
    const HOME: &str = "https://a.example/api/x";

    fn receive(jar: &CookieJar, texts: &[&str], at: Timestamp) {
        let mut headers = HeaderMap::new();
        for text in texts {
            headers.append(SET_COOKIE, HeaderValue::from_str(text).unwrap());
        }
        jar.receive(&headers, &Uri::from_static(HOME), at);
    }

    fn sent(jar: &CookieJar, given: Option<&'static str>) -> Option<String> {
        let given = given.map(HeaderValue::from_static);
        let value = jar.header(&Uri::from_static(HOME), given.as_ref(), NOW)?;
        assert!(value.is_sensitive());
        Some(value.to_str().unwrap().to_owned())
    }

    #[test]
    fn cookies_join_those_of_the_configuration_and_replace_those_of_the_same_name() {
        let jar = CookieJar::detached();
        assert_eq!(sent(&jar, Some("sess=old; lang=en")), None);
        receive(&jar, &["sess=new; Path=/", "deep=1; Path=/api/", "other=1; Path=/other"], NOW);

        let joined = sent(&jar, Some("sess=old; lang=en")).unwrap();

        assert_eq!(joined, "lang=en; deep=1; sess=new");
        assert_eq!(sent(&jar, None).unwrap(), "deep=1; sess=new");
        receive(&jar, &["sess=; Path=/; Max-Age=0"], NOW.plus_seconds(1));
        assert_eq!(sent(&jar, Some("sess=old")).unwrap(), "sess=old; deep=1");
    }

    #[test]
    fn cookies_beyond_ascii_are_sent_back_byte_for_byte_beside_others() {
        let jar = CookieJar::detached();
        let mut headers = HeaderMap::new();
        for value in [&b"a=x\xe9; Path=/"[..], b"b=\xe2\x82\xac; Path=/", b"c=x\ty; Path=/"] {
            headers.append(SET_COOKIE, HeaderValue::from_bytes(value).unwrap());
        }
        jar.receive(&headers, &Uri::from_static(HOME), NOW);
        let given = HeaderValue::from_bytes(b"a=old; lang=\xc3\xa9").unwrap();

        let stored = CookieJar::detached();
        stored.load(&CookieSet::from_json(&jar.all().to_json()).unwrap(), NOW);

        for kept in [jar, stored] {
            let sent = kept.header(&Uri::from_static(HOME), Some(&given), NOW).unwrap();
            assert_eq!(sent.as_bytes(), b"lang=\xc3\xa9; a=x\xe9; b=\xe2\x82\xac");
        }
        assert_eq!(names(Some(&given)), [b"a".to_vec(), b"lang".to_vec()]);
    }

    #[test]
    fn a_change_is_told_once_until_the_changes_are_asked_for() {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        let told = || TOLD.load(Ordering::Relaxed);
        let jar = CookieJar::telling(|| {
            TOLD.fetch_add(1, Ordering::Relaxed);
        });
        receive(&jar, &["a=1; Max-Age=1000"], NOW);
        receive(&jar, &["b=1"], NOW);
        assert_eq!(told(), 1);

        let changes = jar.changes();
        receive(&jar, &["b=2"], NOW.plus_seconds(1));
        assert_eq!(told(), 2);
        jar.stored(&changes, &changes, NOW);

        let left = jar.changes();
        assert_eq!(left.iter().map(|cookie| cookie.value.as_slice()).collect::<Vec<_>>(), [b"2"]);
        assert_eq!(sent(&jar, None).unwrap(), "a=1; b=2");
        // The same cookie again, for a little longer.
        jar.stored(&left, &changes.merged(&left, NOW), NOW);
        receive(&jar, &["b=2", "gone=; Max-Age=0"], NOW.plus_seconds(2));
        assert!(jar.changes().is_empty());
        receive(&jar, &["a=1; Max-Age=1000"], NOW.plus_seconds(30));
        assert_eq!(told(), 2);
        receive(&jar, &["a=1; Max-Age=1000"], NOW.plus_seconds(90));
        assert_eq!(told(), 3);
        // One that ends soon is stored each time.
        receive(&jar, &["c=1; Max-Age=9"], NOW.plus_seconds(90));
        drop(jar.changes());
        receive(&jar, &["c=1; Max-Age=9"], NOW.plus_seconds(91));
        assert_eq!(told(), 4);
    }

    #[test]
    fn what_another_node_stored_is_taken_over_beside_what_was_not_stored_yet() {
        let (one, other) = (CookieJar::detached(), CookieJar::detached());
        receive(&one, &["a=1", "b=1"], NOW);
        receive(&other, &["b=2"], NOW.plus_seconds(1));

        one.load(&other.all(), NOW);

        assert_eq!(sent(&one, None).unwrap(), "a=1; b=2");
    }
}
