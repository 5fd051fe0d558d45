//! The identity checks of the four platforms, as the sandbox configures them.

use std::io::Write;

use domain::platform::Platform;
use flate2::Compression;
use flate2::write::GzEncoder;
use platform_client::verify::{ANSWER_BYTES_MAX, CredentialVerdict, verify};
use platform_client::{
    AccountCredentials, CallErrorKind, ClientError, PlatformTarget, PresentedAccount,
    SigningSettings, TargetSettings, VerifySettings,
};

use crate::support::{
    PlatformStep, SIGNING, ScriptedPlatform, always, answer, assert_bad_response, ok, settings,
    upstream,
};

fn check(path: &str, id_pointer: Option<&str>, equals_field: Option<&str>) -> VerifySettings {
    VerifySettings {
        path: path.to_owned(),
        id_pointer: id_pointer.map(str::to_owned),
        equals_field: equals_field.map(str::to_owned),
        accepted_statuses: Vec::new(),
        ..VerifySettings::default()
    }
}

fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn alpha(base_url: &str) -> (TargetSettings, &'static str) {
    let settings = TargetSettings {
        path_prefix: "/".to_owned(),
        headers: pairs(&[
            ("authorization", "Session {session_token}"),
            ("x-user-id", "{user_id}"),
            ("user-agent", "{user_agent}"),
        ]),
        verify: check("users/me", Some("/id"), Some("user_id")),
        ..settings(base_url)
    };
    (settings, r#"{"session_token":"s0","user_id":"17"}"#)
}

fn beta(base_url: &str) -> (TargetSettings, &'static str) {
    let settings = TargetSettings {
        platform: Platform::BETA,
        path_prefix: "/api/v1/".to_owned(),
        headers: pairs(&[("authorization", "{token}")]),
        envelope: true,
        signing: Some(SigningSettings {
            scheme: "hmac-sha256-v1".to_owned(),
            key: "sandbox-key".to_owned().into(),
            client_id: "client-1".to_owned(),
            client_version: "1.2".to_owned(),
            ..SigningSettings::default()
        }),
        verify: check("account/me", Some("/account/id"), None),
        ..settings(base_url)
    };
    (settings, r#"{"token":"t0"}"#)
}

fn gamma(base_url: &str) -> (TargetSettings, &'static str) {
    let settings = TargetSettings {
        platform: Platform::GAMMA,
        path_prefix: String::new(),
        headers: pairs(&[("authorization", "Bearer {token}"), ("x-resource", "{resource}")]),
        verify: check("user/{account_id}", Some("/_id"), Some("account_id")),
        ..settings(base_url)
    };
    (settings, r#"{"token":"t0","resource":"r0","account_id":"ab c"}"#)
}

fn delta(base_url: &str) -> (TargetSettings, &'static str) {
    let mut check = check("notifications", None, None);
    check.accepted_statuses = vec![403];
    let settings = TargetSettings {
        platform: Platform::DELTA,
        path_prefix: "/".to_owned(),
        headers: pairs(&[("authorization", "Bearer {access_token}")]),
        version_header: Some(("X-Api-Version".to_owned(), "2025-06-26".to_owned())),
        verify: check,
        ..settings(base_url)
    };
    (settings, r#"{"access_token":"t0"}"#)
}

type ConfiguredTarget = fn(&str) -> (TargetSettings, &'static str);

/// What the platform's answer means, and the request that it answers.
async fn verified(
    configured: ConfiguredTarget,
    bytes: Vec<u8>,
) -> (Result<CredentialVerdict, ClientError>, String) {
    let wire = ScriptedPlatform::start(always(bytes));
    let (settings, credentials) = configured(&wire.url());
    let credentials = AccountCredentials::from_json(credentials.as_bytes()).unwrap();
    let target = PlatformTarget::new(&settings).unwrap();
    let verification =
        verify(&upstream(), &target, PresentedAccount::of(&credentials), SIGNING).await;
    (verification, wire.only())
}

async fn answered(configured: ConfiguredTarget, bytes: Vec<u8>) -> CredentialVerdict {
    verified(configured, bytes).await.0.unwrap()
}

fn confirmed(id: &str) -> CredentialVerdict {
    CredentialVerdict::Confirmed { platform_account_id: Some(id.to_owned()) }
}

const NAMELESS: CredentialVerdict = CredentialVerdict::Confirmed { platform_account_id: None };

#[tokio::test]
async fn alpha_confirms_the_user_of_the_session() {
    for id in ["17", "\"17\""] {
        let body = ok(&format!(r#"{{"id":{id},"name":"x"}}"#));

        let (verification, request) = verified(alpha, body).await;

        assert_eq!(verification.unwrap(), confirmed("17"));
        assert!(request.starts_with("GET /users/me HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: Session s0\r\nx-user-id: 17\r\n"), "{request}");
        assert!(request.contains("user-agent: creator-gateway\r\n"), "{request}");
    }
}

#[tokio::test]
async fn credentials_of_somebody_else_are_a_mismatch() {
    for body in
        [r#"{"id":18}"#, r#"{"id":"017"}"#, r#"{"id":null}"#, r#"{"id":{"a":17}}"#, "{}", "[17]"]
    {
        assert_eq!(answered(alpha, ok(body)).await, CredentialVerdict::Mismatch, "{body}");
    }
    assert_eq!(answered(gamma, ok(r#"{"_id":"ab"}"#)).await, CredentialVerdict::Mismatch);
}

#[tokio::test]
async fn beta_is_signed_and_told_from_inside_its_envelope() {
    let body = ok(r#"{"success":true,"response":{"account":{"id":"9007199254740993"}}}"#);

    let (verification, request) = verified(beta, body).await;

    assert_eq!(verification.unwrap(), confirmed("9007199254740993"));
    assert!(request.starts_with("GET /api/v1/account/me HTTP/1.1\r\n"), "{request}");
    // HMAC-SHA256 with `sandbox-key` over the four lines, worked out by another implementation.
    for header in [
        "x-client-id: client-1",
        "x-client-timestamp: 1769904000123",
        "x-client-nonce: abababababababababababababababab",
        "x-client-version: 1.2",
        "x-client-signature: ff84cb43d9a09934e24969dac5db526de832dadf5fa64349742db2ecfef0a64d",
    ] {
        assert!(request.contains(&format!("{header}\r\n")), "{header} in {request}");
    }
}

#[tokio::test]
async fn an_envelope_without_success_is_a_refusal() {
    for body in [
        r#"{"success":false,"response":{"account":{"id":"1"}}}"#,
        r#"{"account":{"id":"1"}}"#,
        "nothing",
    ] {
        let refused = CredentialVerdict::Refused { status: 200 };
        assert_eq!(answered(beta, ok(body)).await, refused, "{body}");
    }
}

#[tokio::test]
async fn gamma_asks_for_its_own_user_with_the_id_encoded() {
    let (verification, request) = verified(gamma, ok(r#"{"_id":"ab c"}"#)).await;

    assert_eq!(verification.unwrap(), confirmed("ab c"));
    assert!(request.starts_with("GET /user/ab%20c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("x-resource: r0\r\n"), "{request}");
}

#[tokio::test]
async fn delta_is_proven_by_any_success_and_by_a_403() {
    let (verification, request) = verified(delta, answer("403 Forbidden", "no scope")).await;
    assert_eq!(verification.unwrap(), NAMELESS);
    assert!(request.contains("x-api-version: 2025-06-26\r\n"), "{request}");

    assert_eq!(answered(delta, ok("not even JSON")).await, NAMELESS);
    let refused = CredentialVerdict::Refused { status: 401 };
    assert_eq!(answered(delta, answer("401 Unauthorized", "")).await, refused);
}

#[tokio::test]
async fn whatever_is_no_success_is_a_refusal_with_its_status() {
    for (status, code) in [
        ("301 Moved", 301),
        ("401 Unauthorized", 401),
        ("403 Forbidden", 403),
        ("429 Too Many Requests", 429),
        ("500 Internal Server Error", 500),
    ] {
        let refused = CredentialVerdict::Refused { status: code };
        assert_eq!(answered(alpha, answer(status, r#"{"id":17}"#)).await, refused);
    }
}

#[tokio::test]
async fn an_identity_may_come_compressed() {
    for coding in ["gzip", "GZIP"] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(br#"{"id":17}"#).unwrap();
        let body = encoder.finish().unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );

        assert_eq!(answered(alpha, [head.into_bytes(), body].concat()).await, confirmed("17"));
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_proves_nothing() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&vec![b' '; 50_000_000]).unwrap();
    let bomb = encoder.finish().unwrap();
    let gzip = |body: &[u8]| {
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ";
        [format!("{head}{}\r\n\r\n", body.len()).as_bytes(), body].concat()
    };
    for bytes in [
        ok("<html>"),
        ok(""),
        ok(&format!("{}{{\"id\":17}}", " ".repeat(ANSWER_BYTES_MAX))),
        gzip(&bomb),
        gzip(b"not gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_vec(),
    ] {
        assert_bad_response(&verified(alpha, bytes).await.0.unwrap_err());
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_sent_are_not_sent() {
    let wire = ScriptedPlatform::start([PlatformStep::Read]);
    let cases: [(ConfiguredTarget, &str); 4] = [
        (gamma, r#"{"token":"t0","resource":"r0"}"#),
        (gamma, r#"{"token":"t0","resource":"r0","account_id":".."}"#),
        (gamma, r#"{"token":"t0","resource":"r0","account_id":"a/../b"}"#),
        (alpha, r#"{"session_token":"two\r\nlines","user_id":"17"}"#),
    ];
    for (configured, credentials) in cases {
        let target = PlatformTarget::new(&configured(&wire.url()).0).unwrap();
        let credentials = AccountCredentials::from_json(credentials.as_bytes()).unwrap();

        let error = verify(&upstream(), &target, PresentedAccount::of(&credentials), SIGNING)
            .await
            .unwrap_err();

        assert_eq!((error.kind, error.sent), (CallErrorKind::Build, false), "{credentials:?}");
    }
    assert!(wire.seen().is_empty());
}
