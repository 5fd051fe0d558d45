//! Rules for a request's head that hyper leaves to us, checked in one pass before routing.
//!
//! Requests that hyper refuses itself (broken lines, two different lengths, codings it cannot
//! decode) never arrive here. What hyper resolves (a length beside `chunked`, bare line feeds) is
//! safe, because every request to a platform is framed anew. We refuse heads that two parties could
//! read differently, that no honest client sends, or that are too large.

use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE,
    TRANSFER_ENCODING,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};
use http_body::Body;

/// Bytes of a host with its port; DNS allows 253 for the name.
const HOST_BYTES_MAX: usize = 260;

/// Bytes of a header line besides its name and value.
const LINE_EXTRA_BYTES: usize = 4;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

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

/// Why a head is refused. `Display` is the `detail` for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameProblem {
    /// `Transfer-Encoding` is not a single `chunked`, or the version is not HTTP/1.1.
    #[error("`Transfer-Encoding` must be given once, as `chunked`, on HTTP/1.1")]
    TransferEncoding,
    /// The length has a leading zero or is sent twice.
    #[error("`Content-Length` must be one number without leading zeros")]
    ContentLength,
    /// There is no host, more than one, or an invalid one.
    #[error("the request must name one valid host")]
    Host,
    /// The host does not belong to this service.
    #[error("this service does not serve the host that the request names")]
    MisdirectedHost,
    /// The target is not a path, or is an absolute address of another host.
    #[error("the request target must be a path that starts with `/`")]
    Target,
    /// A method that no route serves.
    #[error("the method must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method,
    /// An expectation that cannot be met.
    #[error("`Expect` may only be `100-continue`")]
    Expectation,
    /// A GET or HEAD request has a body.
    #[error("a GET or HEAD request must not have a body")]
    UnexpectedBody,
    /// A header name with `_`, which other software may read as another header.
    #[error("header names must not contain `_`")]
    HeaderName,
    /// A header whose value matters for security or framing is repeated.
    #[error("`{0}` must be given once")]
    RepeatedHeader(&'static str),
    /// The body is compressed.
    #[error("request bodies must not be compressed (`Content-Encoding`)")]
    ContentEncoding,
    /// The target is too long.
    #[error("the request target is longer than {0} bytes")]
    UriTooLong(usize),
    /// The head is too large.
    #[error("the request's headers are larger than {0} bytes")]
    HeadTooLarge(usize),
    /// There are too many headers.
    #[error("the request has more than {0} headers")]
    TooManyHeaders(usize),
    /// hyper refused the head as too large, or as having too many headers.
    #[error("the request's head is larger than {0} bytes or has more than {1} headers")]
    HeadNotRead(usize, usize),
    /// hyper could not read the request.
    #[error(
        "the request could not be read: in its path and query, spaces, quotes, `<`, `>` and bytes that are not UTF-8 must \
         be percent-encoded, and its header lines must be well formed"
    )]
    Malformed,
    /// `TE` asks for transfer codings, which HTTP/2 does not have.
    #[error("`TE` may only be `trailers` on HTTP/2")]
    Te,
}

impl FrameProblem {
    /// The status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TransferEncoding
            | Self::ContentLength
            | Self::Host
            | Self::Target
            | Self::UnexpectedBody
            | Self::HeaderName
            | Self::RepeatedHeader(_)
            | Self::Malformed
            | Self::Te => StatusCode::BAD_REQUEST,
            Self::MisdirectedHost => StatusCode::MISDIRECTED_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::UriTooLong(_) => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge(_) | Self::TooManyHeaders(_) | Self::HeadNotRead(..) => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
        }
    }

    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TransferEncoding => "invalid_transfer_encoding",
            Self::ContentLength => "invalid_content_length",
            Self::Host => "invalid_host",
            Self::MisdirectedHost => "misdirected_host",
            Self::Target => "invalid_request_target",
            Self::Method => "method_not_supported",
            Self::Expectation => "expectation_failed",
            Self::UnexpectedBody => "unexpected_body",
            Self::HeaderName => "invalid_header_name",
            Self::RepeatedHeader(_) => "repeated_header",
            Self::ContentEncoding => "content_encoding_not_supported",
            Self::UriTooLong(_) => "uri_too_long",
            Self::HeadTooLarge(_) | Self::HeadNotRead(..) => "head_too_large",
            Self::TooManyHeaders(_) => "too_many_headers",
            Self::Malformed => "malformed_request",
            Self::Te => "invalid_te",
        }
    }

    /// A short name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::TransferEncoding => "Invalid transfer encoding",
            Self::ContentLength => "Invalid content length",
            Self::Host => "Invalid host",
            Self::MisdirectedHost => "Misdirected request",
            Self::Target => "Invalid request target",
            Self::Method => "Method not supported",
            Self::Expectation => "Expectation failed",
            Self::UnexpectedBody => "Unexpected body",
            Self::HeaderName => "Invalid header name",
            Self::RepeatedHeader(_) => "Repeated header",
            Self::ContentEncoding => "Compressed body",
            Self::UriTooLong(_) => "Target too long",
            Self::HeadTooLarge(_) | Self::HeadNotRead(..) => "Head too large",
            Self::TooManyHeaders(_) => "Too many headers",
            Self::Malformed => "Malformed request",
            Self::Te => "Invalid TE",
        }
    }
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

/// What the pass over the headers returns.
struct SeenHeaders<'a> {
    host: Option<&'a HeaderValue>,
}

/// Checks each header line once.
fn scan<'a>(
    headers: &'a HeaderMap,
    version: Version,
    uri_bytes: usize,
    rules: &FrameRules,
) -> Result<SeenHeaders<'a>, FrameProblem> {
    if headers.len() > rules.headers_max {
        return Err(FrameProblem::TooManyHeaders(rules.headers_max));
    }
    let mut bytes = uri_bytes;
    let mut once = SeenOnce::default();
    let mut host = None;
    for (name, value) in headers {
        bytes += name.as_str().len() + value.len() + LINE_EXTRA_BYTES;
        if *name == HOST {
            host = once.claim(HOST_TWICE, value).map(Some)?;
        } else if *name == CONTENT_LENGTH {
            once.claim(CONTENT_LENGTH_TWICE, value)?;
            check_content_length(value)?;
        } else if *name == TRANSFER_ENCODING {
            once.claim(TRANSFER_ENCODING_TWICE, value)?;
            check_transfer_encoding(value, version)?;
        } else if *name == AUTHORIZATION {
            once.claim(AUTHORIZATION_TWICE, value)?;
        } else if *name == CONTENT_TYPE {
            once.claim(CONTENT_TYPE_TWICE, value)?;
        } else if *name == CONTENT_ENCODING {
            check_content_encoding(value)?;
        } else if *name == EXPECT {
            check_expect(value)?;
        } else if *name == TE {
            check_te(value, version)?;
        } else if *name == X_API_KEY {
            once.claim(X_API_KEY_TWICE, value)?;
        } else if *name == IDEMPOTENCY_KEY {
            once.claim(IDEMPOTENCY_KEY_TWICE, value)?;
        } else if name.as_str().contains('_') {
            return Err(FrameProblem::HeaderName);
        }
    }
    if bytes > rules.head_bytes_max {
        return Err(FrameProblem::HeadTooLarge(rules.head_bytes_max));
    }
    Ok(SeenHeaders { host })
}

/// Headers that must not repeat: each has a bit, and the problem reported for a second line.
type RepeatedHeaders = (u8, FrameProblem);
const HOST_TWICE: RepeatedHeaders = (1, FrameProblem::Host);
const CONTENT_LENGTH_TWICE: RepeatedHeaders = (1 << 1, FrameProblem::ContentLength);
const TRANSFER_ENCODING_TWICE: RepeatedHeaders = (1 << 2, FrameProblem::TransferEncoding);
const AUTHORIZATION_TWICE: RepeatedHeaders =
    (1 << 3, FrameProblem::RepeatedHeader("Authorization"));
const CONTENT_TYPE_TWICE: RepeatedHeaders = (1 << 4, FrameProblem::RepeatedHeader("Content-Type"));
const X_API_KEY_TWICE: RepeatedHeaders = (1 << 5, FrameProblem::RepeatedHeader("X-API-Key"));
const IDEMPOTENCY_KEY_TWICE: RepeatedHeaders =
    (1 << 6, FrameProblem::RepeatedHeader("Idempotency-Key"));

/// The headers seen so far.
#[derive(Default)]
struct SeenOnce(u8);

impl SeenOnce {
    fn claim<'a>(
        &mut self,
        (bit, problem): RepeatedHeaders,
        value: &'a HeaderValue,
    ) -> Result<&'a HeaderValue, FrameProblem> {
        if self.0 & bit != 0 {
            return Err(problem);
        }
        self.0 |= bit;
        Ok(value)
    }
}

/// hyper has checked that it is a number; some software reads a leading zero as octal.
fn check_content_length(value: &HeaderValue) -> Result<(), FrameProblem> {
    match value.as_bytes() {
        [b'0', _, ..] => Err(FrameProblem::ContentLength),
        _ => Ok(()),
    }
}

fn check_transfer_encoding(value: &HeaderValue, version: Version) -> Result<(), FrameProblem> {
    let chunked = value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if chunked && version == Version::HTTP_11 {
        Ok(())
    } else {
        Err(FrameProblem::TransferEncoding)
    }
}

fn check_content_encoding(value: &HeaderValue) -> Result<(), FrameProblem> {
    if value.as_bytes().eq_ignore_ascii_case(b"identity") {
        Ok(())
    } else {
        Err(FrameProblem::ContentEncoding)
    }
}

fn check_expect(value: &HeaderValue) -> Result<(), FrameProblem> {
    if value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
        Ok(())
    } else {
        Err(FrameProblem::Expectation)
    }
}

/// On HTTP/1 a client may ask for transfer codings (and gets none); HTTP/2 has none.
fn check_te(value: &HeaderValue, version: Version) -> Result<(), FrameProblem> {
    let is_refused = version == Version::HTTP_2 && value.as_bytes() != b"trailers";
    if is_refused { Err(FrameProblem::Te) } else { Ok(()) }
}

/// Checks that the request names exactly one host, in the header or the target, and that it is
/// ours.
fn check_host<B>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::{Empty, Full};

    /// The rules with one allowed host.
    fn rules() -> FrameRules {
        FrameRules::new(&["API.example.com".to_owned(), "other.example.com:8443".to_owned()])
    }

    fn request(target: &str, lines: &[(&str, &str)]) -> Request<Empty<Bytes>> {
        let mut request = Request::builder().uri(target);
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        request.body(Empty::new()).unwrap()
    }

    /// Checks a GET with a valid host and one more header.
    fn with(name: &str, value: &str) -> Result<(), FrameProblem> {
        admit(&request("/", &[("host", "api.example.com"), (name, value)]), &rules())
    }

    fn on_http2(mut request: Request<Empty<Bytes>>) -> Result<(), FrameProblem> {
        *request.version_mut() = Version::HTTP_2;
        admit(&request, &rules())
    }

    #[test]
    fn an_ordinary_request_is_admitted() {
        let lines = [
            ("host", "api.example.com"),
            ("x-api-key", "cgw_live_x"),
            ("content-type", "application/json"),
            ("content-length", "0"),
            ("content-encoding", "identity"),
            ("expect", "100-Continue"),
            ("te", "gzip"),
            ("cookie", "a=b"),
            ("cookie", "c=d"),
        ];

        assert_eq!(admit(&request("/v1/a/native/x?y=z", &lines), &rules()), Ok(()));
    }

    #[test]
    fn a_transfer_encoding_other_than_one_chunked_is_refused() {
        let twice = [("host", "api.example.com"), ("transfer-encoding", "chunked")];
        let twice = [twice[0], twice[1], twice[1]];
        let problem = Err(FrameProblem::TransferEncoding);

        assert_eq!(with("transfer-encoding", "Chunked"), Ok(()));
        for value in ["chunked, chunked", ",chunked", "gzip, chunked", "chunked ,", "xchunked", ""]
        {
            assert_eq!(with("transfer-encoding", value), problem, "{value}");
        }
        assert_eq!(admit(&request("/", &twice), &rules()), problem);
    }

    #[test]
    fn a_transfer_encoding_outside_http_1_1_is_refused() {
        let mut old =
            request("/", &[("host", "api.example.com"), ("transfer-encoding", "chunked")]);
        *old.version_mut() = Version::HTTP_10;

        assert_eq!(admit(&old, &rules()), Err(FrameProblem::TransferEncoding));
        assert_eq!(on_http2(old), Err(FrameProblem::TransferEncoding));
    }

    #[test]
    fn a_content_length_is_one_decimal_number() {
        assert_eq!(with("content-length", "0"), Ok(()));
        assert_eq!(with("content-length", "10"), Ok(()));
        assert_eq!(with("content-length", "010"), Err(FrameProblem::ContentLength));
        assert_eq!(with("content-length", "00"), Err(FrameProblem::ContentLength));
    }

    #[test]
    fn a_request_must_name_exactly_one_valid_host() {
        let any = FrameRules::new(&[]);
        let host = |value: &str| admit(&request("/", &[("host", value)]), &any);

        for good in ["a", "a.b-c_d:1", "[::1]", "[2001:db8::1]:8443", "192.0.2.1:65535", "A.B"] {
            assert_eq!(host(good), Ok(()), "{good}");
        }
        let long = "a".repeat(300);
        for bad in [
            "",
            "a b",
            "a/../b",
            "user@a",
            "a:b",
            "a:",
            "a:65536",
            "a:1:2",
            "[::1",
            "::1",
            "[a]",
            "a,b",
            "[::1]x",
            "a?b",
            "a#b",
            "a%2e",
            "é",
            ":80",
            long.as_str(),
        ] {
            assert_eq!(host(bad), Err(FrameProblem::Host), "{bad}");
        }
        assert_eq!(admit(&request("/", &[]), &any), Err(FrameProblem::Host));
        let twice = request("/", &[("host", "a"), ("host", "a")]);
        assert_eq!(admit(&twice, &any), Err(FrameProblem::Host));
    }

    #[test]
    fn a_host_of_another_service_is_misdirected() {
        let host = |value: &str| admit(&request("/", &[("host", value)]), &rules());

        for ours in ["api.example.com", "api.EXAMPLE.com:8080", "other.example.com:8443"] {
            assert_eq!(host(ours), Ok(()), "{ours}");
        }
        for other in ["evil.example", "api.example.com.evil.example", "other.example.com"] {
            assert_eq!(host(other), Err(FrameProblem::MisdirectedHost), "{other}");
        }
    }

    #[test]
    fn the_target_is_a_path_or_an_address_of_the_same_host() {
        let host = [("host", "api.example.com")];
        let target = |target: &str| admit(&request(target, &host), &rules());

        assert_eq!(target("http://API.example.com/v1"), Ok(()));
        assert_eq!(target("http://api.example.com"), Ok(()));
        for bad in ["*", "api.example.com:80", "v1", "http://evil.example/v1"] {
            assert_eq!(target(bad), Err(FrameProblem::Target), "{bad}");
        }
    }

    #[test]
    fn methods_outside_the_list_are_refused() {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let mut allowed = request("/", &[("host", "api.example.com")]);
            *allowed.method_mut() = method.parse().unwrap();
            assert_eq!(admit(&allowed, &rules()), Ok(()), "{method}");
        }
        for method in ["CONNECT", "TRACE", "get", "GET!", "PROPFIND"] {
            let mut refused = request("/", &[("host", "api.example.com")]);
            *refused.method_mut() = method.parse().unwrap();
            assert_eq!(admit(&refused, &rules()), Err(FrameProblem::Method), "{method}");
        }
        let mut tunnel = request("evil.example:443", &[("host", "evil.example:443")]);
        *tunnel.method_mut() = Method::CONNECT;
        assert_eq!(admit(&tunnel, &rules()), Err(FrameProblem::Method));
    }

    #[test]
    fn get_and_head_requests_have_no_body() {
        for (method, expected) in [
            (Method::GET, Err(FrameProblem::UnexpectedBody)),
            (Method::HEAD, Err(FrameProblem::UnexpectedBody)),
            (Method::DELETE, Ok(())),
            (Method::POST, Ok(())),
        ] {
            let body = Full::new(Bytes::from_static(b"x"));
            let request = Request::builder().method(&method).header("host", "api.example.com");

            assert_eq!(admit(&request.body(body).unwrap(), &rules()), expected, "{method}");
        }
    }

    #[test]
    fn one_header_that_breaks_a_rule_is_enough() {
        let cases = [
            ("expect", "200-ok", FrameProblem::Expectation),
            ("x_api_key", "a", FrameProblem::HeaderName),
            ("anything_else", "a", FrameProblem::HeaderName),
            ("content-encoding", "gzip", FrameProblem::ContentEncoding),
            ("content-encoding", "identity, gzip", FrameProblem::ContentEncoding),
        ];
        for (name, value, problem) in cases {
            assert_eq!(with(name, value), Err(problem), "{name}: {value}");
        }
    }

    #[test]
    fn security_relevant_headers_must_not_repeat() {
        for name in ["Authorization", "Content-Type", "X-API-Key", "Idempotency-Key"] {
            let lines = [("host", "api.example.com"), (name, "a"), (name, "a")];

            let verdict = admit(&request("/", &lines), &rules());

            assert_eq!(verdict, Err(FrameProblem::RepeatedHeader(name)));
        }
    }

    #[test]
    fn the_limits_of_the_head_are_exact_to_the_byte() {
        let host = ("host", "a");
        let any = FrameRules::new(&[]).with_head(1_000, 3);
        let line = |length: usize| "v".repeat(length);
        // `/` and two lines, one of them `host: a`, take 1 + 4 + 1 + 4 + 1 + 4 bytes without the
        // value.
        let fits = line(1_000 - 15);
        let exceeds = line(1_001 - 15);
        let long = format!("/{}", line(500));

        assert_eq!(admit(&request("/", &[host, ("x", &fits)]), &any), Ok(()));
        assert_eq!(
            admit(&request("/", &[host, ("x", &exceeds)]), &any),
            Err(FrameProblem::HeadTooLarge(1_000))
        );
        assert_eq!(admit(&request(&long, &[host]), &any), Err(FrameProblem::UriTooLong(500)));
        assert_eq!(admit(&request(&long[..500], &[host]), &any), Ok(()));
        let many = [host, ("x", "1"), ("x", "2"), ("x", "3")];
        assert_eq!(admit(&request("/", &many), &any), Err(FrameProblem::TooManyHeaders(3)));
        assert_eq!(admit(&request("/", &many[..3]), &any), Ok(()));
    }

    #[test]
    fn http2_names_its_host_in_the_authority_and_a_host_header_must_match() {
        let target = "https://api.example.com/v1";

        assert_eq!(on_http2(request(target, &[])), Ok(()));
        assert_eq!(on_http2(request(target, &[("host", "api.example.com")])), Ok(()));
        assert_eq!(on_http2(request("/v1", &[("host", "api.example.com")])), Ok(()));
        assert_eq!(on_http2(request(target, &[("host", "evil.example")])), Err(FrameProblem::Host));
        assert_eq!(on_http2(request("/v1", &[])), Err(FrameProblem::Host));
        assert_eq!(
            on_http2(request("https://evil.example/v1", &[])),
            Err(FrameProblem::MisdirectedHost)
        );
    }

    #[test]
    fn http2_allows_only_te_trailers() {
        let target = "https://api.example.com/v1";

        assert_eq!(on_http2(request(target, &[("te", "trailers")])), Ok(()));
        assert_eq!(on_http2(request(target, &[("te", "gzip")])), Err(FrameProblem::Te));
    }
}
