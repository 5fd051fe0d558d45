//! Checks of single settings: addresses, paths, names of headers.

use http::Uri;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, Scheme};

use super::path;
use super::settings::SettingsProblem;

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
    (base_key, base_url): (&str, &str),
    (prefix_key, path_prefix): (&str, &str),
    problems: &mut Vec<SettingsProblem>,
) -> Option<(Scheme, Authority, String)> {
    let uri = absolute_uri(base_key, base_url, problems);
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

/// An address with scheme `http` or `https` and a host, without user information.
pub(crate) fn absolute_uri(
    key: &str,
    text: &str,
    problems: &mut Vec<SettingsProblem>,
) -> Option<Uri> {
    let usable = text.parse().ok().filter(|uri| is_usable(uri) && !text.contains('#'));
    if usable.is_none() {
        let message = "must be http:// or https:// with a host, and without a user or a fragment";
        problems.push(SettingsProblem::new(key, message));
    }
    usable
}

fn is_usable(uri: &Uri) -> bool {
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().map_or("", Authority::as_str);
    let is_host_alone = uri.host() == Some(authority);
    // What is no number up to 65,535 is no port, and the usual one would silently take its place.
    let has_port = uri.port_u16().is_some();
    is_http && !authority.is_empty() && !authority.contains('@') && (is_host_alone || has_port)
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
