//! Refreshing access tokens at a token endpoint.

use std::time::Duration;

use platform_client::oauth::{self, RefreshFailure, TokenRequest};
use platform_client::{
    CallErrorKind, CallFault, CallPhase, ClientAuthentication, ClientError, OauthSettings,
    OauthTokens, PlatformTarget,
};

use crate::support::{
    PlatformStep, ScriptedPlatform, always, answer, facts, ok, settings, upstream,
};

const SECRET: &str = "s3cret/+";

fn endpoint(wire: &ScriptedPlatform, authentication: ClientAuthentication) -> PlatformTarget {
    // Calls go elsewhere, so only the token endpoint can be reached.
    let mut settings = settings("http://127.0.0.1:1");
    settings.oauth = Some(OauthSettings {
        token_url: format!("{}/oauth/token?v=1", wire.url()),
        client_id: "client one".to_owned(),
        client_secret: SECRET.to_owned().into(),
        authentication,
    });
    PlatformTarget::new(&settings).unwrap()
}

/// A refresh token without an account, and an endpoint that is waited for in this test.
const fn token(refresh_token: &str) -> TokenRequest<'_> {
    TokenRequest { refresh_token, account: None, patience: Duration::from_secs(20) }
}

async fn refreshed(bytes: Vec<u8>) -> Result<OauthTokens, RefreshFailure> {
    let wire = ScriptedPlatform::start(always(bytes));
    let target = endpoint(&wire, ClientAuthentication::Basic);
    let tokens = oauth::refresh(&upstream(), &target, &token("r0")).await;
    assert_eq!(wire.seen().len(), 1, "a refresh token is never sent twice");
    tokens
}

async fn failed(bytes: Vec<u8>) -> ClientError {
    match refreshed(bytes).await.unwrap_err() {
        RefreshFailure::Client(error) => error,
        refusal => panic!("taken for a refusal: {refusal}"),
    }
}

#[tokio::test]
async fn a_refresh_proves_the_client_in_a_header() {
    let wire = ScriptedPlatform::start(always(ok(r#"{"access_token":"a1"}"#)));

    let target = endpoint(&wire, ClientAuthentication::Basic);
    oauth::refresh(&upstream(), &target, &token("r&0=é")).await.unwrap();

    let host = wire.url().replace("http://", "");
    // base64 of `client+one:s3cret%2F%2B`
    assert_eq!(
        wire.only(),
        format!(
            "POST /oauth/token?v=1 HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             accept: application/json\r\naccept-encoding: identity\r\nuser-agent: creator-gateway\r\n\
             authorization: Basic Y2xpZW50K29uZTpzM2NyZXQlMkYlMkI=\r\nhost: {host}\r\n\
             content-length: 53\r\n\r\ngrant_type=refresh_token&refresh_token=r%260%3D%C3%A9"
        )
    );
}

#[tokio::test]
async fn a_refresh_proves_the_client_in_the_form() {
    let wire = ScriptedPlatform::start(always(ok(r#"{"access_token":"a1"}"#)));

    let target = endpoint(&wire, ClientAuthentication::Post);
    oauth::refresh(&upstream(), &target, &token("r0")).await.unwrap();

    let request = wire.only();
    let form =
        "grant_type=refresh_token&refresh_token=r0&client_id=client+one&client_secret=s3cret%2F%2B";
    assert!(request.ends_with(&format!("\r\n\r\n{form}")), "{request}");
    assert!(!request.contains("authorization"), "{request}");
}

#[tokio::test]
async fn a_rotated_refresh_token_comes_with_the_access_token() {
    let body = r#"{"access_token":"a1","refresh_token":"r1","expires_in":3600,"scope":"read  write","token_type":"bearer"}"#;

    let tokens = refreshed(ok(body)).await.unwrap();

    assert_eq!(*tokens.access_token, "a1");
    assert_eq!(tokens.refresh_token.as_ref().map(|token| token.as_str()), Some("r1"));
    assert_eq!(tokens.expires_in_s, Some(3_600));
    assert_eq!(tokens.scopes, Some(vec!["read".to_owned(), "write".to_owned()]));
    assert!(!format!("{tokens:?}").contains("a1") && !format!("{tokens:?}").contains("r1"));
}

#[tokio::test]
async fn what_an_endpoint_does_not_tell_stays_as_it_was() {
    for body in [
        r#"{"access_token":"a1"}"#,
        r#"{"access_token":"a1","refresh_token":"","scope":null,"expires_in":null}"#,
        r#"{"access_token":"a1","refresh_token":7,"expires_in":-1}"#,
    ] {
        let tokens = refreshed(ok(body)).await.unwrap();

        assert_eq!((tokens.refresh_token, tokens.expires_in_s, tokens.scopes), (None, None, None));
    }
}

#[tokio::test]
async fn lifetimes_are_read_in_the_forms_that_endpoints_write() {
    for (written, seconds) in [
        ("3600", Some(3_600)),
        ("\"3600\"", Some(3_600)),
        ("3600.9", Some(3_600)),
        ("0", Some(0)),
        ("99999999999999", Some(315_360_000)),
        ("\"soon\"", None),
        ("[1]", None),
    ] {
        let body = format!(r#"{{"access_token":"a1","expires_in":{written}}}"#);

        assert_eq!(refreshed(ok(&body)).await.unwrap().expires_in_s, seconds, "{written}");
    }
}

#[tokio::test]
async fn a_dead_refresh_token_is_a_refusal_with_its_code() {
    for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden"] {
        let refusal = refreshed(answer(status, r#"{"error":"invalid_grant"}"#)).await.unwrap_err();

        assert!(
            matches!(&refusal, RefreshFailure::Refused { code } if code == "invalid_grant"),
            "{refusal:?}"
        );
        assert!(refusal.is_final());
    }
    let other = refreshed(answer("400 Bad Request", r#"{"error":"consent_required"}"#)).await;
    assert!(!other.unwrap_err().is_final());
}

#[tokio::test]
async fn a_mistake_in_our_registration_is_not_the_accounts() {
    for known in ["invalid_client", "unauthorized_client", "unsupported_grant_type"] {
        let body = format!(r#"{{"error":"{known}"}}"#);

        let refusal = refreshed(answer("401 Unauthorized", &body)).await.unwrap_err();

        assert!(
            matches!(refusal, RefreshFailure::Service { code: Some(code) } if code == known),
            "{refusal:?}"
        );
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_without_a_code_refuses_this_service() {
    for bytes in [
        answer("400 Bad Request", ""),
        answer("401 Unauthorized", "<html>"),
        answer("403 Forbidden", "{}"),
        answer("400 Bad Request", r#"{"error":{"code":"invalid_grant"}}"#),
        answer("400 Bad Request", r#"{"error":"with spaces\n"}"#),
    ] {
        let text = String::from_utf8_lossy(&bytes).into_owned();

        let refusal = refreshed(bytes).await.unwrap_err();

        assert!(matches!(refusal, RefreshFailure::Service { code: None }), "{text}: {refusal:?}");
        assert!(!refusal.is_final());
    }
}

/// RFC 6749, section 5.2, asks for 400, which some endpoints do not know.
#[tokio::test]
async fn an_endpoint_that_refuses_with_200_refuses() {
    let dead = refreshed(ok(r#"{"error":"invalid_grant"}"#)).await.unwrap_err();
    assert!(dead.is_final(), "{dead:?}");
    let ours = refreshed(ok(r#"{"error":"invalid_client"}"#)).await.unwrap_err();
    assert!(matches!(ours, RefreshFailure::Service { code: Some("invalid_client") }), "{ours:?}");
    let other = refreshed(ok(r#"{"error":{"code":7},"access_token":""}"#)).await.unwrap_err();
    assert!(matches!(other, RefreshFailure::Service { code: None }), "{other:?}");
    let busy = failed(ok(r#"{"error":"temporarily_unavailable"}"#)).await;
    assert!(matches!(busy.kind, CallErrorKind::BadResponse(_)), "{busy:?}");

    for body in [r#"{"error":null,"access_token":"a1"}"#, r#"{"error":"","access_token":"a1"}"#] {
        assert_eq!(*refreshed(ok(body)).await.unwrap().access_token, "a1", "{body}");
    }
}

#[tokio::test]
async fn an_endpoint_in_trouble_does_not_kill_the_refresh_token() {
    for bytes in [
        answer("400 Bad Request", r#"{"error":"temporarily_unavailable"}"#),
        answer("403 Forbidden", r#"{"error":"slow_down"}"#),
        answer("429 Too Many Requests", r#"{"error":"invalid_grant"}"#),
        answer("500 Internal Server Error", r#"{"error":"invalid_grant"}"#),
        answer("302 Found", ""),
        answer("204 No Content", ""),
        ok(""),
        ok("{"),
        ok("[]"),
        ok("{}"),
        ok(r#"{"access_token":""}"#),
        ok(r#"{"access_token":7}"#),
        ok(r#"{"access_token":"two\r\nlines"}"#),
        ok(r#"{"access_token":"é"}"#),
        ok(&format!(r#"{{"access_token":"{}"}}"#, "k".repeat(70_000))),
    ] {
        let text = String::from_utf8_lossy(&bytes).into_owned();

        let error = failed(bytes).await;

        assert_eq!(error.fault, CallFault::Theirs, "{text:.200}");
        assert!(matches!(error.kind, CallErrorKind::BadResponse(_)), "{text:.200}");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_late_or_gone_says_so() {
    let wire = ScriptedPlatform::start([PlatformStep::Read, PlatformStep::Hang]);
    let mut late = settings("http://127.0.0.1:1");
    late.timeouts.first_byte = Duration::from_secs(20);
    late.oauth = Some(OauthSettings {
        token_url: wire.url(),
        client_id: "c".to_owned(),
        client_secret: SECRET.to_owned().into(),
        authentication: ClientAuthentication::Basic,
    });
    let late = PlatformTarget::new(&late).unwrap();

    let wanted = TokenRequest { patience: Duration::from_millis(50), ..token("r0") };
    let RefreshFailure::Client(error) =
        oauth::refresh(&upstream(), &late, &wanted).await.unwrap_err()
    else {
        panic!("nobody refused anything")
    };

    assert_eq!(
        facts(&error),
        (CallFault::Theirs, CallErrorKind::Timeout(CallPhase::FirstByte), true, false)
    );
    assert!(wire.seen().len() <= 1, "a refresh token is never sent twice");
}

#[tokio::test]
async fn a_platform_without_a_token_endpoint_sends_nothing() {
    let target = PlatformTarget::new(&settings("http://127.0.0.1:1")).unwrap();
    assert!(!target.has_oauth());

    let RefreshFailure::Client(error) =
        oauth::refresh(&upstream(), &target, &token("r0")).await.unwrap_err()
    else {
        panic!("nobody refused anything")
    };

    assert_eq!((error.kind, error.sent), (CallErrorKind::Build, false));
}
