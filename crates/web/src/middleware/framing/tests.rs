//! Heads that are admitted, and heads that are refused: with the reason, to the byte.

use bytes::Bytes;
use http::Version;
use http_body_util::{Empty, Full};

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
