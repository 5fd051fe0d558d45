//! Heads that are admitted, and heads that are refused: with the reason, to the byte.

use bytes::Bytes;
use http::Version;
use http_body_util::{Empty, Full};
use proptest::prelude::*;

use super::*;

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
    for value in ["chunked, chunked", ",chunked", "gzip, chunked", "chunked ,", "xchunked", ""] {
        assert_eq!(with("transfer-encoding", value), problem, "{value}");
    }
    assert_eq!(admit(&request("/", &twice), &rules()), problem);
}

#[test]
fn a_transfer_encoding_outside_http_1_1_is_refused() {
    let mut old = request("/", &[("host", "api.example.com"), ("transfer-encoding", "chunked")]);
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

/// Each problem with its status, its code and its text.
const READ: [(FrameProblem, u16, &str, &str); 16] = [
    (
        FrameProblem::TransferEncoding,
        400,
        "invalid_transfer_encoding",
        "`Transfer-Encoding` must be given once, as `chunked`, on HTTP/1.1",
    ),
    (
        FrameProblem::ContentLength,
        400,
        "invalid_content_length",
        "`Content-Length` must be one number without leading zeros",
    ),
    (FrameProblem::Host, 400, "invalid_host", "the request must name one valid host"),
    (
        FrameProblem::MisdirectedHost,
        421,
        "misdirected_host",
        "this service does not serve the host that the request names",
    ),
    (
        FrameProblem::Target,
        400,
        "invalid_request_target",
        "the request target must be a path that starts with `/`",
    ),
    (
        FrameProblem::Method,
        405,
        "method_not_supported",
        "the method must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
    ),
    (FrameProblem::Expectation, 417, "expectation_failed", "`Expect` may only be `100-continue`"),
    (
        FrameProblem::UnexpectedBody,
        400,
        "unexpected_body",
        "a GET or HEAD request must not have a body",
    ),
    (FrameProblem::HeaderName, 400, "invalid_header_name", "header names must not contain `_`"),
    (
        FrameProblem::RepeatedHeader("X-API-Key"),
        400,
        "repeated_header",
        "`X-API-Key` must be given once",
    ),
    (
        FrameProblem::ContentEncoding,
        415,
        "content_encoding_not_supported",
        "request bodies must not be compressed (`Content-Encoding`)",
    ),
    (
        FrameProblem::UriTooLong(8_192),
        414,
        "uri_too_long",
        "the request target is longer than 8192 bytes",
    ),
    (
        FrameProblem::HeadTooLarge(16_384),
        431,
        "head_too_large",
        "the request's headers are larger than 16384 bytes",
    ),
    (
        FrameProblem::TooManyHeaders(64),
        431,
        "too_many_headers",
        "the request has more than 64 headers",
    ),
    (
        FrameProblem::HeadNotRead(16_384, 64),
        431,
        "head_too_large",
        "the request's head is larger than 16384 bytes or has more than 64 headers",
    ),
    (FrameProblem::Te, 400, "invalid_te", "`TE` may only be `trailers` on HTTP/2"),
];

#[test]
fn what_a_caller_reads_of_a_refused_head_names_the_rule_and_its_limit() {
    for (problem, status, code, text) in READ {
        assert_eq!((problem.status().as_u16(), problem.code()), (status, code));
        assert_eq!(problem.to_string(), text);
        assert!(!problem.title().is_empty() && !problem.title().ends_with('.'), "{code}");
    }
}

#[test]
fn a_head_that_the_library_refused_is_explained_with_the_limits_in_force() {
    let rules = FrameRules::new(&[]).with_head(1_000, 3);
    let of = |status: u16| rules.refused_unread(StatusCode::from_u16(status).unwrap());

    assert_eq!(of(400), Some(FrameProblem::Malformed));
    assert_eq!(of(414), Some(FrameProblem::UriTooLong(500)));
    assert_eq!(of(431), Some(FrameProblem::HeadNotRead(1_000, 3)));
    for status in [200, 404, 408, 413, 500] {
        assert_eq!(of(status), None, "{status}");
    }
}

/// Two headers that other software could read as one, whatever their order and case.
#[test]
fn a_repeated_header_is_noticed_whatever_stands_between() {
    for name in ["host", "content-length", "transfer-encoding"] {
        let value = match name {
            "host" => "api.example.com",
            "content-length" => "0",
            _ => "chunked",
        };
        let mut lines = vec![("host", "api.example.com"), ("x", "1"), (name, value), ("y", "2")];
        if name != "host" {
            lines.push((name, value));
        }
        assert!(admit(&request("/", &lines), &rules()).is_err(), "{name}");
    }
}

proptest! {
    /// Whatever a head names, only our own hosts are served.
    #[test]
    fn no_host_but_ours_is_served(host in "[ -~]{0,30}", near in "(api|other)[.:@/a-z0-9-]{0,24}") {
        for named in [host.trim(), near.as_str()] {
            if admit(&request("/", &[("host", named)]), &rules()).is_ok() {
                let lower = named.to_lowercase();
                let name = lower.split(':').next().unwrap();
                let is_ours = name == "api.example.com" || lower == "other.example.com:8443";
                prop_assert!(is_ours, "{}", named);
            }
        }
    }

    #[test]
    fn no_value_of_a_header_makes_a_check_panic(
        name in "host|te|expect|content-length|content-encoding|transfer-encoding", value in "[ -~\u{e9}]{0,40}",
    ) {
        let alone = request("/", &[(&name, &value)]);
        let _verdicts = (with(&name, &value), admit(&alone, &rules()), on_http2(alone));
    }

    #[test]
    fn a_head_is_refused_from_the_first_byte_too_many_on(lines in prop::collection::vec(0_usize..200, 0..5)) {
        let values: Vec<String> = lines.iter().map(|length| "v".repeat(*length)).collect();
        let mut headers = vec![("host", "a")];
        headers.extend(values.iter().map(|value| ("x", value.as_str())));
        let bytes = "/".len() + headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
        let limited = |most: usize| admit(&request("/", &headers), &FrameRules::new(&[]).with_head(most, 64));

        prop_assert_eq!(limited(bytes), Ok(()));
        prop_assert_eq!(limited(bytes - 1), Err(FrameProblem::HeadTooLarge(bytes - 1)));
    }
}
