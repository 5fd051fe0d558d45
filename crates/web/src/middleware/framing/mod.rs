//! Rules for a request's head that hyper leaves to us, checked in one pass before routing.
//!
//! Requests that hyper refuses itself (broken lines, two different lengths, codings it cannot
//! decode) never arrive here. What hyper resolves (a length beside `chunked`, bare line feeds) is
//! safe, because every request to a platform is framed anew. We refuse heads that two parties could
//! read differently, that no honest client sends, or that are too large.

mod headers;
mod host;
mod problem;
#[cfg(test)]
mod tests;

use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body::Body;

use self::headers::scan;
use self::host::check_host;
pub use self::problem::FrameProblem;

/// The limits of a head.
#[derive(Debug, Clone)]
pub struct FrameRules {
    /// Hosts that requests may name, in lower case, with a port if only that port is allowed;
    /// empty: any.
    allowed_hosts: Vec<String>,
    /// Bytes of the request line's target.
    uri_bytes_max: usize,
    /// Bytes of the whole head.
    head_bytes_max: usize,
    /// Header lines.
    headers_max: usize,
}

impl FrameRules {
    /// Rules with the usual limits: 8 KiB of target, 16 KiB of head, 64 headers.
    pub fn new(allowed_hosts: &[String]) -> Self {
        Self {
            allowed_hosts: allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            uri_bytes_max: 8 * 1024,
            head_bytes_max: 16 * 1024,
            headers_max: 64,
        }
    }

    /// The problem of a head that hyper refused with this status.
    pub const fn refused_unread(&self, status: StatusCode) -> Option<FrameProblem> {
        match status {
            StatusCode::BAD_REQUEST => Some(FrameProblem::Malformed),
            StatusCode::URI_TOO_LONG => Some(FrameProblem::UriTooLong(self.uri_bytes_max)),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                Some(FrameProblem::HeadNotRead(self.head_bytes_max, self.headers_max))
            }
            _ => None,
        }
    }

    /// The same rules with other limits for the head; the target may take half of it.
    #[must_use]
    pub fn with_head(mut self, head_bytes_max: usize, headers_max: usize) -> Self {
        self.head_bytes_max = head_bytes_max;
        self.uri_bytes_max = head_bytes_max / 2;
        self.headers_max = headers_max;
        self
    }
}

/// Accepts a request whose head follows all rules.
pub fn admit<B: Body>(request: &Request<B>, rules: &FrameRules) -> Result<(), FrameProblem> {
    check_method(request.method())?;
    let uri_bytes = check_target(request.uri(), rules)?;
    let seen = scan(request.headers(), request.version(), uri_bytes, rules)?;
    check_host(request, seen.host, rules)?;
    let has_body = !request.body().is_end_stream();
    if has_body && matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(FrameProblem::UnexpectedBody);
    }
    Ok(())
}

/// Checks the form of the target and returns its size.
fn check_target(uri: &Uri, rules: &FrameRules) -> Result<usize, FrameProblem> {
    let authority_bytes = uri.authority().map_or(0, |authority| authority.as_str().len());
    let path_bytes = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let bytes = authority_bytes + path_bytes;
    if bytes > rules.uri_bytes_max {
        return Err(FrameProblem::UriTooLong(rules.uri_bytes_max));
    }
    // `*`, `host:port` and words without a slash become a path that does not start with `/`.
    if uri.path().starts_with('/') { Ok(bytes) } else { Err(FrameProblem::Target) }
}

/// The methods that some route serves, as listed in `Allow`.
pub const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

fn check_method(method: &Method) -> Result<(), FrameProblem> {
    match *method {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::PATCH
        | Method::DELETE
        | Method::OPTIONS => Ok(()),
        _ => Err(FrameProblem::Method),
    }
}
