//! Signatures as they leave: recipes of the configuration, values that change, and processes that
//! sign.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use domain::method::Method;
use domain::time::Timestamp;
use http::{HeaderMap, Request};
use platform_client::{
    AccountCredentials, CallErrorKind, ExternalSettings, NativeCall, PartSettings, PlatformTarget,
    RequestBody, SigningInput, SigningSettings, TargetSettings, ValuesSettings, ValuesSource,
};
use zeroize::Zeroizing;

use crate::support::{
    PlatformStep, SIGNING, ScriptedPlatform, TOKEN, always, answer, call, facts, ok, settings,
    upstream,
};

/// Never to be seen by anybody but the platform, and by that in a digest alone.
const SECRET: &str = "hush-5b1e";

fn part(name: &str, from: &str) -> PartSettings {
    PartSettings { name: name.to_owned(), from: from.to_owned(), ..PartSettings::default() }
}

fn joined(name: &str, from: &str, of: &[&str], separator: &str, algorithm: &str) -> PartSettings {
    PartSettings {
        of: of.iter().map(|part| (*part).to_owned()).collect(),
        separator: separator.to_owned(),
        algorithm: algorithm.to_owned(),
        ..part(name, from)
    }
}

fn recipe(parts: Vec<PartSettings>, headers: &[(&str, &str)]) -> SigningSettings {
    let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    SigningSettings {
        scheme: "recipe".to_owned(),
        parts,
        headers: headers.iter().map(header).collect(),
        ..SigningSettings::default()
    }
}

fn signed_by(base_url: &str, signing: SigningSettings) -> TargetSettings {
    TargetSettings { signing: Some(signing), ..settings(base_url) }
}

fn account(label: &str, json: &str) -> AccountCredentials {
    AccountCredentials::from_json(json.as_bytes()).unwrap().of_account(label)
}

/// A POST with a query and a body, built but not sent.
fn built(target: &PlatformTarget, credentials: &AccountCredentials) -> Request<RequestBody> {
    built_with(target, credentials, (Method::Post, r#"{"a":1}"#))
}

fn built_with(
    target: &PlatformTarget,
    credentials: &AccountCredentials,
    (method, body): (Method, &'static str),
) -> Request<RequestBody> {
    let account = target.headers_of(credentials).unwrap();
    let native = NativeCall {
        call_id: &"call_1",
        method,
        path: "v1/message/send",
        query: "a=1&b=%20x",
        caller_headers: &HeaderMap::new(),
        body: Bytes::from_static(body.as_bytes()),
        account: &account,
        signing: SigningInput {
            now: Timestamp::from_unix_micros(1_795_234_422_123_999),
            nonce: [0xab; 16],
        },
    };
    target.request(&native).unwrap()
}

fn header<'a>(request: &'a Request<RequestBody>, name: &str) -> &'a str {
    request.headers().get(name).unwrap().to_str().unwrap()
}

/// The digests were computed with Python's hashlib and hmac.
#[test]
fn a_recipe_makes_what_another_implementation_makes() {
    let parts = vec![
        part("time", "time_ms"),
        part("second", "time_s"),
        part("path", "path"),
        part("target", "target"),
        part("method", "method"),
        part("user_id", "field"),
        PartSettings { text: "start-1".to_owned(), ..part("start", "text") },
        PartSettings {
            secret: Zeroizing::new("AWS4secret".to_owned()),
            ..part("secret", "secret")
        },
        joined("sum", "hash", &["start", "time", "path", "user_id"], "\n", "sha1"),
        PartSettings {
            algorithm: "sha256".to_owned(),
            encoding: "base64".to_owned(),
            ..part("body", "body")
        },
        PartSettings {
            key: "secret".to_owned(),
            encoding: "raw".to_owned(),
            ..joined("day_key", "hmac", &["second"], "", "sha256")
        },
        PartSettings {
            key: "day_key".to_owned(),
            encoding: "base64url_unpadded".to_owned(),
            ..joined("signature", "hmac", &["method", "target", "body"], "|", "sha512")
        },
    ];
    let headers = [
        ("Sign", "start-1:{sum}:1"),
        ("X-Time", "{time}"),
        ("X-Body", "{body}"),
        ("X-Signature", "{signature}"),
        ("X-Fixed", "app {start}"),
    ];
    let settings = TargetSettings {
        base_url: "http://127.0.0.1:1/base".to_owned(),
        ..signed_by("", recipe(parts, &headers))
    };
    let target = PlatformTarget::new(&settings).unwrap();

    let request = built(&target, &account("c|ada", r#"{"user_id":"17"}"#));

    assert_eq!(request.uri().path(), "/base/api/v1/message/send");
    assert_eq!(header(&request, "sign"), "start-1:943cd51f313406952a3db72b995399b005087f36:1");
    assert_eq!(header(&request, "x-time"), "1795234422123");
    assert_eq!(header(&request, "x-body"), "AVq9f1zFei3ZS3WQ8ErYCEJzkF7jPsXOvq5iJ2qX+GI=");
    assert_eq!(
        header(&request, "x-signature"),
        "EVB6N5dMATQEwuIhTQXoSqhblBJaXD5YcbCClQDlbZ1u9162ZpcbPfFaPLGnX7xk7mJn3x33tdLaRLnhi62JsQ"
    );
    assert_eq!(header(&request, "x-fixed"), "app start-1");
}

#[test]
fn a_body_without_bytes_is_hashed_or_an_empty_text() {
    let body = |empty: &str| PartSettings {
        algorithm: "sha1".to_owned(),
        empty: empty.to_owned(),
        ..part("body", "body")
    };
    for (empty, expected) in [
        ("", ">da39a3ee5e6b4b0d3255bfef95601890afd80709<"),
        ("hash", ">da39a3ee5e6b4b0d3255bfef95601890afd80709<"),
        ("text", "><"),
    ] {
        let signing = recipe(vec![body(empty)], &[("X-Body", ">{body}<")]);
        let target = PlatformTarget::new(&signed_by("http://127.0.0.1:1", signing)).unwrap();
        for call in [(Method::Get, "dropped"), (Method::Post, "")] {
            let request = built_with(&target, &account("a", "{}"), call);
            assert_eq!(header(&request, "x-body"), expected);
        }
    }
}

#[test]
fn a_body_on_disk_is_what_the_recipe_says_or_is_not_sent() {
    let target = |spooled: &str| {
        let body = PartSettings {
            algorithm: "sha256".to_owned(),
            spooled: spooled.to_owned(),
            ..part("body", "body")
        };
        let signing = recipe(vec![body], &[("X-Body", "{body}")]);
        PlatformTarget::new(&signed_by("http://127.0.0.1:1", signing)).unwrap()
    };
    let upload = |platform: &PlatformTarget| {
        let account = platform.headers_of(&account("a", "{}")).unwrap();
        let native = NativeCall {
            call_id: &"call_1",
            method: Method::Post,
            path: "x",
            query: "",
            caller_headers: &HeaderMap::new(),
            body: Bytes::new(),
            account: &account,
            signing: SIGNING,
        };
        let body = http_body_util::Full::new(Bytes::from_static(b"x"));
        platform.request_with(&native, RequestBody::spooled(body))
    };

    assert!(target("").signs_whole_bodies() && !target("UNSIGNED").signs_whole_bodies());
    assert_eq!(header(&upload(&target("UNSIGNED")).unwrap(), "x-body"), "UNSIGNED");
    let refused = upload(&target("")).unwrap_err();
    assert!(matches!(refused.kind, CallErrorKind::Signing(_)) && !refused.sent, "{refused:?}");
}

#[test]
fn random_parts_differ_from_each_other_and_have_their_length() {
    let random = |name: &str, bytes, encoding: &str| PartSettings {
        bytes,
        encoding: encoding.to_owned(),
        ..part(name, "random")
    };
    let parts = vec![random("a", 16, ""), random("b", 16, ""), random("c", 0, "uuid")];
    let signing = recipe(parts, &[("X-A", "{a}"), ("X-B", "{b}"), ("X-C", "{c}")]);
    let target = PlatformTarget::new(&signed_by("http://127.0.0.1:1", signing)).unwrap();

    let request = built(&target, &account("a", "{}"));

    let [a, b, c] = ["x-a", "x-b", "x-c"].map(|name| header(&request, name));
    assert_eq!((a.len(), b.len(), c.len()), (32, 32, 36));
    assert!(a != b && a != "ab".repeat(16), "{a} {b}");
    assert_eq!(c.as_bytes()[14], b'4');
}

#[test]
fn each_account_has_its_own_device_and_no_account_signs_with_what_another_has() {
    let device =
        PartSettings { secret: Zeroizing::new(SECRET.to_owned()), ..part("device", "device_id") };
    let signing = recipe(
        vec![device, part("user_id", "field"), joined("sum", "hash", &["user_id"], "", "sha256")],
        &[("X-Device", "{device}"), ("X-User", "{user_id}"), ("X-Sum", "{sum}")],
    );
    let target = PlatformTarget::new(&signed_by("http://127.0.0.1:1", signing)).unwrap();
    let of = |label: &str, json: &str| {
        let request = built(&target, &account(label, json));
        assert!(!format!("{request:?}").contains(SECRET));
        assert!(request.headers().get("x-user").unwrap().is_sensitive());
        ["x-device", "x-user", "x-sum"].map(|name| header(&request, name).to_owned())
    };

    let [ada, bob] = [of("c|ada", r#"{"user_id":"1"}"#), of("c|bob", r#"{"user_id":"2"}"#)];

    assert!(ada.iter().zip(&bob).all(|(one, other)| one != other), "{ada:?} {bob:?}");
    assert_eq!(of("c|ada", r#"{"user_id":"1"}"#), ada);
    let lacking = target.headers_of(&account("c|eve", "{}")).unwrap_err();
    assert_eq!((lacking.kind, lacking.sent), (CallErrorKind::Build, false));
}

#[test]
fn credentials_of_a_recipe_are_checked_against_the_declared_ones() {
    let signing = recipe(vec![part("user_idd", "field")], &[("X-User", "{user_idd}")]);
    let mut settings = signed_by("http://127.0.0.1:1", signing);
    let token = platform_client::CredentialField { name: "token".to_owned(), has_members: false };
    let user = platform_client::CredentialField { name: "user_id".to_owned(), has_members: false };
    settings.credential_fields = Some(vec![token, user]);

    let problems = PlatformTarget::new(&settings).unwrap_err();

    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(problem.key, "signing.parts[0].field");
    assert!(problem.message.contains("{user_idd}") && problem.message.contains("user_id"));
}

#[test]
fn a_header_of_a_recipe_is_not_given_elsewhere_too() {
    let signing = recipe(vec![part("method", "method")], &[("Authorization", "{method}")]);

    let problems = PlatformTarget::new(&signed_by("http://127.0.0.1:1", signing)).unwrap_err();

    assert_eq!(problems[0].key, "signing.headers[0].name");
}

fn values(source: ValuesSource) -> SigningSettings {
    let parts = vec![part("start", "value"), joined("sum", "hash", &["start"], "", "sha1")];
    SigningSettings {
        values: Some(ValuesSettings { source, refresh: Duration::from_mins(1) }),
        ..recipe(parts, &[("X-Start", "{start}"), ("X-Sum", "{sum}")])
    }
}

fn start_of(target: &PlatformTarget) -> String {
    let request = built(target, &account("a", "{}"));
    assert!(request.headers().get("x-start").unwrap().is_sensitive());
    header(&request, "x-start").to_owned()
}

fn write(path: &Path, text: &str) {
    std::fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn values_of_a_file_are_swapped_whole_and_the_last_good_ones_stay() {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), r#"{"start":"one"}"#);
    let source = ValuesSource::File(file.path().to_owned());
    let target = PlatformTarget::new(&signed_by("http://127.0.0.1:1", values(source))).unwrap();
    assert_eq!(start_of(&target), "one");

    write(file.path(), r#"{"start":"two","more":2}"#);
    target.read_values().await.unwrap();
    assert_eq!(start_of(&target), "two");

    for bad in ["", r#"{"start":["hush-5b1e"]}"#, r#"{"other":"hush-5b1e"}"#, &"a".repeat(70_000)] {
        write(file.path(), bad);
        let failure = target.read_values().await.unwrap_err();
        assert!(!format!("{failure} {failure:?}").contains(SECRET), "{failure:?}");
        assert_eq!(start_of(&target), "two");
    }
    assert!(target.values_age().unwrap() < Duration::from_mins(1));
}

#[test]
fn a_file_of_values_must_be_readable_at_the_start() {
    let source = ValuesSource::File("/nowhere/values.json".into());

    let problems =
        PlatformTarget::new(&signed_by("http://127.0.0.1:1", values(source))).unwrap_err();

    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(problem.key, "signing.values.file");
    assert!(problem.message.contains("cannot be read"), "{problem}");
}

#[tokio::test]
async fn values_of_an_address_are_fetched_and_the_last_good_ones_stay() {
    let wire = ScriptedPlatform::start_each(|number| match number {
        0 => always(ok(r#"{"start":"one"}"#)),
        1 => always(answer("500 Broken", r#"{"start":"bad"}"#)),
        2 => always(ok(&format!(r#"{{"start":"{}"}}"#, "a".repeat(70_000)))),
        3 => vec![PlatformStep::Read],
        _ => always(ok(r#"{"start":"two"}"#)),
    });
    let source = ValuesSource::Url(Zeroizing::new(format!("{}/v?key={SECRET}", wire.url())));
    let signing = values(source);
    assert!(!format!("{signing:?}").contains(SECRET));
    let target = PlatformTarget::new(&signed_by("http://127.0.0.1:1", signing)).unwrap();
    assert_eq!(target.values_age(), None);

    target.read_values().await.unwrap();
    assert_eq!(start_of(&target), "one");
    for _ in 1..4 {
        let failure = target.read_values().await.unwrap_err();
        assert!(!format!("{failure}").contains(SECRET), "{failure}");
        assert_eq!(start_of(&target), "one");
    }
    target.read_values().await.unwrap();
    assert_eq!(start_of(&target), "two");
    assert!(wire.seen()[0].text.starts_with("GET /v?key="));
    assert!(!wire.seen()[0].text.contains(TOKEN));
}

fn external(url: &str, timeout: Duration) -> SigningSettings {
    SigningSettings {
        scheme: "external".to_owned(),
        external: Some(ExternalSettings {
            url: url.to_owned(),
            timeout,
            fields: vec!["user_id".to_owned(), "absent".to_owned()],
        }),
        ..SigningSettings::default()
    }
}

const GENEROUS: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_process_signs_what_it_is_told_and_learns_no_other_credential() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let signer = ScriptedPlatform::start(always(ok(r#"{"headers":{"X-Sign":"s-1"}}"#)));
    let url = format!("{}/sign", signer.url());
    let target = PlatformTarget::new(&signed_by(&wire.url(), external(&url, GENEROUS))).unwrap();
    let upstream = upstream();

    for _ in 0..2 {
        call(&upstream, &target, Method::Post, "x", "abc").await.unwrap();
    }

    let asked = signer.seen();
    assert_eq!(signer.connections(), [0, 0], "its connection is kept");
    let (head, body) = asked[0].text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /sign HTTP/1.1\r\n"), "{head}");
    let told: serde_json::Value = serde_json::from_str(body).unwrap();
    let opaque = told["account"].as_str().unwrap();
    assert_eq!(opaque.len(), 32);
    assert_eq!(
        told,
        serde_json::json!({
            "platform": "platform_alpha",
            "account": opaque,
            "method": "POST",
            "target": "/api/x",
            "body_sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "time_ms": 1_769_904_000_123_i64,
            "fields": {"user_id": "17"},
        })
    );
    assert!(!asked[0].text.contains(TOKEN));
    assert!(wire.seen().iter().all(|seen| seen.text.contains("x-sign: s-1\r\n")));
}

#[tokio::test]
async fn a_process_behind_a_socket_of_the_file_system_signs_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("signer.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        use std::io::{BufRead as _, BufReader};
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        let mut stream = stream;
        stream.write_all(&ok(r#"{"headers":{"X-Sign":"s-2"}}"#)).unwrap();
        while lines.next().is_some() {}
    });
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let url = format!("unix:{}", path.display());
    let target = PlatformTarget::new(&signed_by(&wire.url(), external(&url, GENEROUS))).unwrap();

    call(&upstream(), &target, Method::Get, "x", "").await.unwrap();

    assert!(wire.only().contains("x-sign: s-2\r\n"));
}

#[tokio::test]
async fn a_request_that_is_not_signed_is_not_sent() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let long = format!(r#"{{"headers":{{"X-Sign":"{}"}}}}"#, "a".repeat(70_000));
    let evil = r#"{"headers":{"Host":"evil.example"}}"#;
    let scripts = [
        vec![PlatformStep::Read],
        vec![PlatformStep::Read, PlatformStep::Hang],
        always(answer("500 Broken", r#"{"headers":{"X-Sign":"s"}}"#)),
        always(ok("no json")),
        always(ok(&long)),
        always(ok(evil)),
    ];
    for script in scripts {
        let is_silent = matches!(script.last(), Some(PlatformStep::Hang));
        let signer = ScriptedPlatform::start(script);
        let timeout = if is_silent { Duration::from_millis(50) } else { GENEROUS };
        let signing = external(&format!("{}/", signer.url()), timeout);
        let target = PlatformTarget::new(&signed_by(&wire.url(), signing)).unwrap();

        let error = call(&upstream(), &target, Method::Post, "x", "").await.unwrap_err();

        let (_, kind, sent, retryable) = facts(&error);
        assert!(matches!(kind, CallErrorKind::Signing(_)), "{error:?}");
        assert!(!sent && !retryable && !format!("{error:?}").contains(TOKEN), "{error:?}");
    }
    let nobody = external("http://127.0.0.1:1/", GENEROUS);
    let target = PlatformTarget::new(&signed_by(&wire.url(), nobody)).unwrap();
    let error = call(&upstream(), &target, Method::Post, "x", "").await.unwrap_err();
    assert_eq!(error.to_string(), "the request could not be signed: the signer cannot be reached");
    assert_eq!(wire.seen().len(), 0);
}

#[tokio::test]
async fn a_process_that_closed_its_connection_is_asked_on_another_one() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let once = [PlatformStep::Read, PlatformStep::Write(ok(r#"{"headers":{"X-Sign":"s"}}"#))];
    let signer = ScriptedPlatform::start(once);
    let url = format!("{}/", signer.url());
    let target = PlatformTarget::new(&signed_by(&wire.url(), external(&url, GENEROUS))).unwrap();
    let upstream = upstream();

    for _ in 0..3 {
        call(&upstream, &target, Method::Get, "x", "").await.unwrap();
    }

    assert_eq!(signer.connections(), [0, 1, 2]);
}
