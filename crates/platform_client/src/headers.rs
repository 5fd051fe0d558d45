//! Which headers of a caller reach a platform: an allow list, everything else is dropped.

use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};

/// What a caller may say to a platform. Conditions are all among it: a range without its `If-Range`
/// mixes two versions of a file, and a write without its `If-Match` overwrites what somebody else
/// changed.
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

/// Copies what a caller may say into the request for the platform, beside what is there: that stays
/// as it is.
///
/// A header that the caller's own `Connection` names is left out: it was meant for this hop only.
/// That never reaches the headers that this service adds.
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;
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

    proptest! {
        /// Whatever is sent, no name comes out that is not on the list.
        #[test]
        fn no_header_gets_past_the_list(
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
        }
    }
}
