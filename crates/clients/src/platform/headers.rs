//! Which headers pass between a caller and a platform: two allow lists, everything else is dropped.

use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, ACCEPT_RANGES, CONNECTION, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LANGUAGE, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, RANGE, RETRY_AFTER,
};

/// What a caller may say to a platform.
pub const FROM_CALLER: [HeaderName; 6] =
    [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, IF_NONE_MATCH, IF_MODIFIED_SINCE, RANGE];

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

const RATE_LIMIT_PREFIX: &str = "x-ratelimit-";

/// Copies what a caller may say into the request for the platform.
///
/// A header that the caller's own `Connection` names is left out: it was meant for this hop only. That
/// never reaches the headers that this service adds.
pub(super) fn copy_from_caller(caller: &HeaderMap, request: &mut HeaderMap) {
    let names_some = caller.contains_key(CONNECTION);
    for name in &FROM_CALLER {
        if names_some && is_named_by_connection(caller, name) {
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

/// The headers of a platform's answer that the caller gets.
///
/// `x-ratelimit-…` becomes `x-platform-ratelimit-…`, so that it is not taken for a limit of this service.
pub fn for_caller(answer: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(answer.len());
    for (name, value) in answer {
        if FROM_PLATFORM.contains(name) {
            kept.append(name, value.clone());
        } else if let Some(limit) = name.as_str().strip_prefix(RATE_LIMIT_PREFIX) {
            append_rate_limit(&mut kept, limit, value);
        }
    }
    kept
}

fn append_rate_limit(kept: &mut HeaderMap, limit: &str, value: &HeaderValue) {
    let renamed = format!("x-platform-ratelimit-{limit}");
    if let Ok(name) = HeaderName::from_bytes(renamed.as_bytes()) {
        kept.append(name, value.clone());
    }
}
