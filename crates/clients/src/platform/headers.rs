//! Which headers pass between a caller and a platform: two allow lists, everything else is dropped.

use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, ACCEPT_RANGES, CONNECTION, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LANGUAGE, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
    RANGE, RETRY_AFTER,
};

/// What a caller may say to a platform. Conditions are all among it: a range without its `If-Range` mixes two versions of
/// a file, and a write without its `If-Match` overwrites what somebody else changed.
pub const FROM_CALLER: [HeaderName; 9] = [
    ACCEPT,
    ACCEPT_LANGUAGE,
    CONTENT_TYPE,
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    IF_RANGE,
    RANGE,
];

/// What a platform may say to a caller, beside its rate limits.
pub const FROM_PLATFORM: [HeaderName; 9] = [
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

/// About how many headers an answer has in the end.
const HEADERS: usize = 20;

const RATE_LIMIT_PREFIX: &str = "x-ratelimit-";

/// Copies what a caller may say into the request for the platform, beside what is there: that stays as it is.
///
/// A header that the caller's own `Connection` names is left out: it was meant for this hop only. That
/// never reaches the headers that this service adds.
pub(super) fn copy_from_caller(caller: &HeaderMap, request: &mut HeaderMap) {
    let names_some = caller.contains_key(CONNECTION);
    for name in caller.keys().filter(|name| FROM_CALLER.contains(name)) {
        if request.contains_key(name) || names_some && is_named_by_connection(caller, name) {
            continue;
        }
        for value in caller.get_all(name) {
            request.append(name, value.clone());
        }
    }
}

fn is_named_by_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case(name.as_str()))
}

/// Of the headers of a platform's answer what the caller gets, with room for what the caller is told besides.
///
/// `x-ratelimit-…` becomes `x-platform-ratelimit-…`, so that it is not taken for a limit of this service.
pub fn for_caller(answer: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(HEADERS);
    for (name, value) in answer {
        if FROM_PLATFORM.contains(name) {
            kept.append(name, value.clone());
        } else if let Some(limit) = name.as_str().strip_prefix(RATE_LIMIT_PREFIX) {
            append_rate_limit(&mut kept, limit, value.clone());
        }
    }
    kept
}

fn append_rate_limit(answer: &mut HeaderMap, limit: &str, value: HeaderValue) {
    let renamed = format!("x-platform-ratelimit-{limit}");
    if let Ok(name) = HeaderName::from_bytes(renamed.as_bytes()) {
        answer.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        headers
    }

    #[test]
    fn of_a_caller_only_the_allowed_headers_reach_a_platform() {
        let caller = headers(&[
            ("accept", "application/json"),
            ("accept", "text/csv"),
            ("range", "bytes=0-1"),
            ("authorization", "Bearer k"),
            ("x-api-key", "k"),
            ("cookie", "a=b"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-http-method-override", "DELETE"),
            ("content-encoding", "gzip"),
            ("content-length", "5"),
            ("transfer-encoding", "chunked"),
            ("host", "evil.example"),
            ("user-agent", "curl"),
            ("accept-encoding", "gzip"),
        ]);

        let mut request = HeaderMap::new();
        copy_from_caller(&caller, &mut request);

        let expected =
            [("accept", "application/json"), ("accept", "text/csv"), ("range", "bytes=0-1")];
        assert_eq!(request, headers(&expected));
    }

    #[test]
    fn a_connection_header_takes_away_from_the_callers_own_headers_alone() {
        let caller = headers(&[
            ("connection", "close, Accept"),
            ("connection", "authorization"),
            ("accept", "a/b"),
            ("range", "bytes=0-1"),
        ]);

        let mut request = headers(&[("authorization", "ours")]);
        copy_from_caller(&caller, &mut request);

        assert_eq!(request, headers(&[("authorization", "ours"), ("range", "bytes=0-1")]));
    }

    #[test]
    fn of_a_platform_only_the_allowed_headers_reach_a_caller() {
        let answer = headers(&[
            ("content-type", "application/json"),
            ("etag", "\"1\""),
            ("retry-after", "3"),
            ("x-ratelimit-remaining", "7"),
            ("x-platform-ratelimit-remaining", "forged"),
            ("x-ratelimit-", "odd"),
            ("set-cookie", "a=b"),
            ("location", "http://169.254.169.254/"),
            ("refresh", "0"),
            ("access-control-allow-origin", "*"),
            ("strict-transport-security", "max-age=0"),
            ("alt-svc", "h3"),
            ("clear-site-data", "*"),
            ("server", "x"),
            ("content-length", "2"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
        ]);

        let expected = [
            ("content-type", "application/json"),
            ("etag", "\"1\""),
            ("retry-after", "3"),
            ("x-platform-ratelimit-remaining", "7"),
            ("x-platform-ratelimit-", "odd"),
        ];
        assert_eq!(for_caller(&answer), headers(&expected));
    }

    proptest! {
        /// Whatever is sent in either direction, no name comes out that is not on the list.
        #[test]
        fn no_header_gets_past_the_lists(
            pairs in proptest::collection::vec(
                ("(x-|x-ratelimit-|content-|accept-|)[a-z_-]{1,8}|accept|range|etag|cookie", "[a-z, ]{0,12}"),
                0..20,
            )
        ) {
            let mut sent = HeaderMap::new();
            for (name, value) in &pairs {
                if let (Ok(name), Ok(value)) = (
                    HeaderName::from_bytes(name.as_bytes()),
                    HeaderValue::from_str(value),
                ) {
                    sent.append(name, value);
                }
            }
            let mut request = HeaderMap::new();
            copy_from_caller(&sent, &mut request);
            prop_assert!(request.keys().all(|name| FROM_CALLER.contains(name)));
            prop_assert!(for_caller(&sent).keys().all(|name| FROM_PLATFORM.contains(name)
                || name.as_str().starts_with("x-platform-ratelimit-")));
        }
    }
}
