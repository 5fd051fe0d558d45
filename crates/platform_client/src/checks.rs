//! Checks of single settings: addresses, paths, names of headers.

use http::Uri;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, Scheme};
use outbound::SettingsProblem;

use super::path;

/// Headers that belong to the connection or to the framing, which no configuration may set.
const NOT_CONFIGURABLE: [HeaderName; 10] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Scheme, authority and the path that stands before every native path.
pub(super) fn place(
    base_key: &str,
    base_url: &str,
    prefix_key: &str,
    path_prefix: &str,
    problems: &mut Vec<SettingsProblem>,
) -> Option<(Scheme, Authority, String)> {
    let uri = outbound::absolute_uri(base_key, base_url, problems);
    if uri.as_ref().is_some_and(|uri| uri.query().is_some()) {
        problems.push(SettingsProblem::new(base_key, "must not have a query"));
    }
    let base_path = uri.as_ref().map_or("", Uri::path);
    let mut prefix = String::from("/");
    for (key, text) in [(base_key, base_path), (prefix_key, path_prefix)] {
        let path = text.trim_matches('/');
        if path.is_empty() {
            continue;
        }
        if let Err(problem) = path::check_path(path) {
            problems.push(SettingsProblem::new(key, format!("has an unusable path: {problem}")));
        }
        prefix.push_str(path);
        prefix.push('/');
    }
    let parts = uri?.into_parts();
    Some((parts.scheme?, parts.authority?, prefix))
}

/// A header that a configuration may set; its problem is added.
pub(super) fn header_name(
    key: &str,
    text: &str,
    problems: &mut Vec<SettingsProblem>,
) -> Option<HeaderName> {
    let name = configurable_header(text);
    name.map_err(|message| problems.push(SettingsProblem::new(key, message))).ok()
}

/// A header that may be put on requests.
pub(super) fn configurable_header(text: &str) -> Result<HeaderName, String> {
    let name =
        HeaderName::from_bytes(text.as_bytes()).map_err(|_| "is not a header name".to_owned())?;
    if NOT_CONFIGURABLE.contains(&name) {
        return Err(format!("{name} belongs to the connection and cannot be set"));
    }
    Ok(name)
}

/// The place of a name in a list, which it joins.
pub(super) fn place_of(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
