//! Which headers of a platform's response reach the caller, and under which names: a list for each
//! platform.

use http::header::{
    ACCEPT_RANGES, ALT_SVC, CACHE_CONTROL, CONNECTION, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_SECURITY_POLICY_REPORT_ONLY, CONTENT_TYPE, DATE, ETAG, EXPIRES, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, LINK, LOCATION, PRAGMA, PUBLIC_KEY_PINS,
    PUBLIC_KEY_PINS_REPORT_ONLY, REFERRER_POLICY, REFRESH, RETRY_AFTER, SERVER, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VARY, VIA,
    X_CONTENT_TYPE_OPTIONS, X_DNS_PREFETCH_CONTROL, X_FRAME_OPTIONS, X_XSS_PROTECTION,
};
use outbound::SettingsProblem;

use super::references::{CalledWith, NativeSpace, PlatformReference};

/// What passes from every platform: what the body is, and when to come again.
pub(super) const ALWAYS: [HeaderName; 9] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_DISPOSITION,
    CONTENT_LANGUAGE,
    ETAG,
    LAST_MODIFIED,
    RETRY_AFTER,
    CONTENT_RANGE,
    ACCEPT_RANGES,
];

/// Headers of one connection, of the framing, or of whoever speaks to the caller's browser or
/// proxy: never a platform.
const NEVER: [HeaderName; 45] = [
    ALT_SVC,
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_SECURITY_POLICY,
    CONTENT_SECURITY_POLICY_REPORT_ONLY,
    DATE,
    EXPIRES,
    PRAGMA,
    PUBLIC_KEY_PINS,
    PUBLIC_KEY_PINS_REPORT_ONLY,
    REFERRER_POLICY,
    REFRESH,
    SERVER,
    SET_COOKIE,
    STRICT_TRANSPORT_SECURITY,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    VARY,
    VIA,
    X_CONTENT_TYPE_OPTIONS,
    X_DNS_PREFETCH_CONTROL,
    X_FRAME_OPTIONS,
    X_XSS_PROTECTION,
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("idempotent-replayed"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("permissions-policy"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("server-timing"),
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("set-cookie2"),
    HeaderName::from_static("set-login"),
    HeaderName::from_static("sourcemap"),
    HeaderName::from_static("surrogate-control"),
    HeaderName::from_static("x-envelope"),
    HeaderName::from_static("x-native-routes"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-route"),
    HeaderName::from_static("x-should-retry"),
];

/// Families of such headers: receipts of this service, and orders to browsers and proxies.
const NEVER_BEGINNING: [&str; 12] = [
    "access-control-",
    "cross-origin-",
    "proxy-",
    "ratelimit",
    "sec-",
    "x-accel-",
    "x-credits-",
    "x-error-",
    "x-lighttpd-",
    "x-platform-",
    "x-reproxy-",
    "x-sendfile",
];

/// About how many headers a response has in the end.
const HEADERS: usize = 24;

const RATE_LIMIT_PREFIX: &str = "x-ratelimit-";
pub(super) const PLATFORM_LOCATION: HeaderName = HeaderName::from_static("x-platform-location");
const PLATFORM_CACHE_CONTROL: HeaderName = HeaderName::from_static("x-platform-cache-control");

/// The headers that pass from one platform.
#[derive(Debug, Clone)]
pub(super) struct ResponseHeaders {
    passing: HeaderMap<HeaderPassing>,
    /// Absent only where the platform's address is a problem of its own.
    space: Option<NativeSpace>,
}

/// How a header passes.
#[derive(Debug, Clone, Copy)]
enum HeaderPassing {
    AsItIs,
    /// Freshness is told, and changes nothing about where responses may be stored.
    CacheControl,
    Location,
    ContentLocation,
    Links,
}

impl HeaderPassing {
    fn of(name: &HeaderName) -> Self {
        let special = [
            (CACHE_CONTROL, Self::CacheControl),
            (LOCATION, Self::Location),
            (CONTENT_LOCATION, Self::ContentLocation),
            (LINK, Self::Links),
        ];
        let found = special.into_iter().find(|(other, _)| other == name);
        found.map_or(Self::AsItIs, |(_, passing)| passing)
    }
}

impl ResponseHeaders {
    /// Checks the configured names; problems are added with their keys.
    pub(super) fn new(
        names: &[String],
        space: Option<NativeSpace>,
        problems: &mut Vec<SettingsProblem>,
    ) -> Self {
        let mut passing = HeaderMap::with_capacity(ALWAYS.len() + names.len());
        for name in ALWAYS {
            passing.insert(name, HeaderPassing::AsItIs);
        }
        for (index, text) in names.iter().enumerate() {
            let mut refuse = |message: String| {
                problems.push(SettingsProblem::new(format!("response_headers[{index}]"), message));
            };
            match HeaderName::from_bytes(text.as_bytes()) {
                Err(_) => refuse(format!("{text:?} is not a header name")),
                Ok(name) => match refusal(&name) {
                    Some(reason) => refuse(format!("{name} {reason}")),
                    None => drop(passing.insert(name.clone(), HeaderPassing::of(&name))),
                },
            }
        }
        Self { passing, space }
    }

    /// Of the headers of a response what the caller gets, with room for what the caller is told
    /// besides.
    ///
    /// `x-ratelimit-…` becomes `x-platform-ratelimit-…`, so that it is not taken for a limit of
    /// this service.
    pub(super) fn for_caller(&self, response: &HeaderMap, called: CalledWith<'_>) -> HeaderMap {
        let mut kept = HeaderMap::with_capacity(HEADERS);
        for (name, value) in response {
            let (name, value) = match self.passing.get(name) {
                Some(HeaderPassing::AsItIs) => (name.clone(), value.clone()),
                Some(HeaderPassing::CacheControl) => (PLATFORM_CACHE_CONTROL, value.clone()),
                Some(HeaderPassing::Location) => self.location(value, called),
                Some(HeaderPassing::ContentLocation) => {
                    (CONTENT_LOCATION, self.reference(value, called))
                }
                Some(HeaderPassing::Links) => (LINK, self.links(value, called)),
                None => match rate_limit(name) {
                    Some(renamed) => (renamed, value.clone()),
                    None => continue,
                },
            };
            kept.append(name, value);
        }
        kept
    }

    /// Nothing is followed, neither here nor by clients that follow redirections with their key:
    /// what is not ours comes under another name.
    fn location(&self, value: &HeaderValue, called: CalledWith<'_>) -> (HeaderName, HeaderValue) {
        let (name, text) = match value.to_str().map(|text| self.read(text, called)) {
            Ok(PlatformReference::Native(text)) => (LOCATION, text),
            Ok(PlatformReference::Resolved(text)) => (PLATFORM_LOCATION, text),
            Ok(PlatformReference::Unchanged) | Err(_) => return (PLATFORM_LOCATION, value.clone()),
        };
        match HeaderValue::try_from(text) {
            Ok(written) => (name, written),
            Err(_) => (PLATFORM_LOCATION, value.clone()),
        }
    }

    fn reference(&self, value: &HeaderValue, called: CalledWith<'_>) -> HeaderValue {
        let written = value.to_str().ok().map(|text| self.rewritten(text, called));
        written.and_then(|text| text.try_into().ok()).unwrap_or_else(|| value.clone())
    }

    /// Rewrites the targets of links (RFC 8288): what stands between angle brackets, outside of
    /// quoted parameters.
    fn links(&self, value: &HeaderValue, called: CalledWith<'_>) -> HeaderValue {
        let Ok(mut rest) = value.to_str() else { return value.clone() };
        let mut written = String::with_capacity(rest.len());
        while let Some((before, opened)) = rest.find(['<', '"']).map(|at| rest.split_at(at)) {
            written.push_str(before);
            let is_target = opened.starts_with('<');
            let length = if is_target { opened.find('>') } else { end_of_quoted(opened) };
            let Some((inner, after)) = length.and_then(|length| opened.split_at_checked(length))
            else {
                rest = opened;
                break;
            };
            match inner.strip_prefix('<') {
                Some(target) => {
                    written.push('<');
                    written.push_str(&self.rewritten(target, called));
                }
                None => written.push_str(inner),
            }
            rest = after;
        }
        written.push_str(rest);
        HeaderValue::try_from(written).unwrap_or_else(|_| value.clone())
    }

    fn read(&self, reference: &str, called: CalledWith<'_>) -> PlatformReference {
        self.space
            .as_ref()
            .map_or(PlatformReference::Unchanged, |space| space.read(reference, called))
    }

    fn rewritten(&self, reference: &str, called: CalledWith<'_>) -> String {
        match self.read(reference, called) {
            PlatformReference::Native(text) | PlatformReference::Resolved(text) => text,
            PlatformReference::Unchanged => reference.to_owned(),
        }
    }
}

/// The bytes of a quoted text, its quotation marks included; nothing where it does not end.
fn end_of_quoted(opened: &str) -> Option<usize> {
    let mut is_escaped = false;
    let inner = opened.char_indices().skip(1);
    for (at, character) in inner {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Why a name cannot be configured, if it cannot.
fn refusal(name: &HeaderName) -> Option<&'static str> {
    if name.as_str().starts_with(RATE_LIMIT_PREFIX) {
        return Some("need not be listed: it always passes, as x-platform-ratelimit-…");
    }
    let is_family = NEVER_BEGINNING.iter().any(|begin| name.as_str().starts_with(begin));
    (is_family || NEVER.contains(name)).then_some(
        "never passes: it belongs to a connection, to browsers and proxies, or to this service",
    )
}

fn rate_limit(name: &HeaderName) -> Option<HeaderName> {
    let limit = name.as_str().strip_prefix(RATE_LIMIT_PREFIX)?;
    HeaderName::try_from(format!("x-platform-ratelimit-{limit}")).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CALLED: CalledWith<'_> = CalledWith { account: "ada", path: "lists", query: "" };

    fn list(names: &[&str]) -> Result<ResponseHeaders, Vec<String>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let parts = http::Uri::from_static("https://p.example").into_parts();
        let (scheme, authority) = (parts.scheme.unwrap(), parts.authority.unwrap());
        let space = NativeSpace::new(scheme, authority, "/api/".to_owned());
        let mut problems = Vec::new();
        let list = ResponseHeaders::new(&names, Some(space), &mut problems);
        if problems.is_empty() {
            return Ok(list);
        }
        Err(problems.into_iter().map(|problem| problem.key).collect())
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn only_listed_headers_and_those_that_always_pass_reach_a_caller() {
        let sent = headers(&[
            ("content-type", "application/json"),
            ("etag", "\"1\""),
            ("retry-after", "3"),
            ("x-ratelimit-remaining", "7"),
            ("x-platform-ratelimit-remaining", "forged"),
            ("x-platform-location", "forged"),
            ("x-ratelimit-", "odd"),
            ("x-total", "9"),
            ("x-total-count", "9"),
            ("set-cookie", "a=b"),
            ("location", "/api/lists/1"),
            ("refresh", "0"),
            ("server", "x"),
            ("content-length", "2"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
        ]);

        let kept = list(&["X-Total"]).unwrap().for_caller(&sent, CALLED);

        let expected = [
            ("content-type", "application/json"),
            ("etag", "\"1\""),
            ("retry-after", "3"),
            ("x-platform-ratelimit-remaining", "7"),
            ("x-platform-ratelimit-", "odd"),
            ("x-total", "9"),
        ];
        assert_eq!(kept, headers(&expected));
    }

    #[test]
    fn references_lead_to_this_service_or_are_named_as_the_platforms() {
        let list = list(&["Location", "Link", "Content-Location", "Cache-Control"]).unwrap();
        let of = |name: &str, value: &str| {
            let kept = list.for_caller(&headers(&[(name, value)]), CALLED);
            let mut pairs = kept.iter();
            let (kept_name, kept_value) = pairs.next().unwrap();
            assert!(pairs.next().is_none());
            format!("{kept_name}: {}", String::from_utf8_lossy(kept_value.as_bytes()))
        };

        for (name, value, expected) in [
            ("location", "/api/lists/1", "location: /v1/ada/native/lists/1"),
            ("location", "/login", "x-platform-location: https://p.example/login"),
            ("location", "http://169.254.169.254/", "x-platform-location: http://169.254.169.254/"),
            ("location", "\u{e9}", "x-platform-location: \u{e9}"),
            ("content-location", "lists/1", "content-location: /v1/ada/native/lists/1"),
            (
                "content-location",
                "https://cdn.example/1",
                "content-location: https://cdn.example/1",
            ),
            ("cache-control", "public, max-age=9", "x-platform-cache-control: public, max-age=9"),
            (
                "link",
                "<https://p.example/api/lists?page=2>; rel=\"next\", </x>; title=\"a<b\\\">c\", <https://cdn.example/y>;rel=z",
                "link: </v1/ada/native/lists?page=2>; rel=\"next\", <https://p.example/x>; title=\"a<b\\\">c\", <https://cdn.example/y>;rel=z",
            ),
            ("link", "</api/lists", "link: </api/lists"),
            ("link", "x; rel=\"</api/lists>", "link: x; rel=\"</api/lists>"),
        ] {
            assert_eq!(of(name, value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_list_with_a_name_that_never_passes_is_refused_by_its_place() {
        let refused = list(&[
            "Link",
            "Set-Cookie",
            "a b",
            "Transfer-Encoding",
            "X-Credits-Cost",
            "X-Platform-Location",
            "Access-Control-Allow-Origin",
            "X-RateLimit-Limit",
            "RateLimit",
            "X-Accel-Redirect",
            "X-Request-Id",
        ]);

        let expected: Vec<String> =
            (1..=10).map(|index| format!("response_headers[{index}]")).collect();
        assert_eq!(refused.unwrap_err(), expected);
    }

    proptest! {
        /// Whatever a platform sends, no name comes out that is not on the list, and no place but
        /// ours under `Location`.
        #[test]
        fn no_header_gets_past_the_list(
            pairs in proptest::collection::vec(
                ("(x-|x-ratelimit-|content-|set-|)[a-z_-]{1,8}|link|location|etag|set-cookie", "[a-z,/:.<>\"]{0,12}"),
                0..20,
            )
        ) {
            let list = list(&["Link", "Location", "X-Total"]).unwrap();
            let mut sent = HeaderMap::new();
            for (name, value) in &pairs {
                let value = HeaderValue::from_str(value).unwrap();
                if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                    sent.append(name, value);
                }
            }
            let kept = list.for_caller(&sent, CALLED);
            let own = ["link", "location", "x-total", "x-platform-location"];
            prop_assert!(kept.keys().all(|name| ALWAYS.contains(name)
                || own.contains(&name.as_str())
                || name.as_str().starts_with("x-platform-ratelimit-")));
            let is_ours = |place: &HeaderValue| place.as_bytes().starts_with(b"/v1/ada/native/");
            prop_assert!(kept.get_all("location").iter().all(is_ours));
        }
    }
}
