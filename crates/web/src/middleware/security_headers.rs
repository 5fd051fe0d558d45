//! Headers that every response carries, so that browsers and caches handle it safely.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, Entry, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The most headers that [`put`] adds.
const COUNT: usize = 6;

const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");
const NO_SNIFFING: HeaderValue = HeaderValue::from_static("nosniff");
/// `base-uri` and `frame-ancestors` do not follow `default-src`; `object-src` does, and is named
/// for those who look for it.
const NOTHING_RUNS: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox",
);
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const WHO_ASKS: HeaderValue = HeaderValue::from_static("Authorization, X-API-Key, Cookie");
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000; includeSubDomains");

/// Adds the headers. Where a handler has set `Cache-Control`, `Content-Security-Policy` or
/// `Referrer-Policy` (a page that may be cached or run scripts), its value stays. `https`: the
/// public address is https.
pub fn put(headers: &mut HeaderMap, https: bool) {
    headers.reserve(COUNT);
    put_missing(headers, CACHE_CONTROL, PRIVATE);
    put_missing(headers, CONTENT_SECURITY_POLICY, NOTHING_RUNS);
    put_missing(headers, REFERRER_POLICY, NO_REFERRER);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFFING);
    headers.append(VARY, WHO_ASKS);
    if https {
        headers.insert(STRICT_TRANSPORT_SECURITY, HTTPS_ONLY);
    }
}

fn put_missing(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    if let Entry::Vacant(vacant) = headers.entry(name) {
        vacant.insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_response_over_http_has_all_headers_but_hsts() {
        let mut headers = HeaderMap::new();

        put(&mut headers, false);

        assert_eq!(
            written(&headers),
            [
                "cache-control: private, no-store",
                "content-security-policy: default-src 'none'; object-src 'none'; base-uri 'none'; \
                 frame-ancestors 'none'; sandbox",
                "referrer-policy: no-referrer",
                "vary: Authorization, X-API-Key, Cookie",
                "x-content-type-options: nosniff",
            ]
        );
    }

    #[test]
    fn a_response_over_https_has_hsts() {
        let mut headers = HeaderMap::new();

        put(&mut headers, true);

        assert_eq!(
            headers.get(STRICT_TRANSPORT_SECURITY).unwrap(),
            "max-age=31536000; includeSubDomains"
        );
    }

    #[test]
    fn a_page_keeps_its_own_policies_and_vary() {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'self'"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));

        put(&mut headers, false);

        assert_eq!(
            written(&headers),
            [
                "cache-control: public, max-age=60",
                "content-security-policy: default-src 'self'",
                "referrer-policy: no-referrer",
                "vary: Accept-Encoding",
                "vary: Authorization, X-API-Key, Cookie",
                "x-content-type-options: nosniff",
            ]
        );
    }
}
