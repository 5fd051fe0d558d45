//! The host that a request names: exactly one, in a valid form, and one of ours.

use http::uri::Authority;
use http::{HeaderValue, Request, Version};

use super::{FrameProblem, FrameRules};

/// Bytes of a host with its port; DNS allows 253 for the name.
const HOST_BYTES_MAX: usize = 260;

/// Checks that the request names exactly one host, in the header or the target, and that it is
/// ours.
pub(super) fn check_host<B>(
    request: &Request<B>,
    header: Option<&HeaderValue>,
    rules: &FrameRules,
) -> Result<(), FrameProblem> {
    let authority = request.uri().authority().map(Authority::as_str);
    let header = header.map(|value| value.to_str().map_err(|_| FrameProblem::Host)).transpose()?;
    let is_http2 = request.version() == Version::HTTP_2;
    let host = match (header, authority) {
        (Some(header), None) => header,
        (Some(header), Some(authority)) if header.eq_ignore_ascii_case(authority) => header,
        (None, Some(authority)) if is_http2 => authority,
        (Some(_), Some(_)) if !is_http2 => return Err(FrameProblem::Target),
        (Some(_) | None, Some(_)) | (None, None) => return Err(FrameProblem::Host),
    };
    let name = host_name(host).ok_or(FrameProblem::Host)?;
    let is_allowed = rules.allowed_hosts.is_empty()
        || rules.allowed_hosts.iter().any(|allowed| {
            allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(name)
        });
    if is_allowed { Ok(()) } else { Err(FrameProblem::MisdirectedHost) }
}

/// The name of `name`, `name:port`, `[v6]` or `[v6]:port`; `None` for any other form.
fn host_name(host: &str) -> Option<&str> {
    if host.len() > HOST_BYTES_MAX {
        return None;
    }
    let (name, rest) = if host.starts_with('[') {
        host.split_at_checked(host.find(']')? + 1)?
    } else {
        host.split_at_checked(host.find(':').unwrap_or(host.len()))?
    };
    let name_is_valid = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(is_name_byte),
    };
    let port_is_valid = match rest.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => rest.is_empty(),
    };
    (name_is_valid && port_is_valid).then_some(name)
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}
