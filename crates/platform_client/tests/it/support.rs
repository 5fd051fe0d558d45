//! The settings of a scripted platform, and calls to it.

use std::time::Duration;

use bytes::Bytes;
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;
use http::HeaderMap;
use platform_client::{
    AccountCredentials, CallErrorKind, CallFault, CallTimeouts, ClientError, NativeCall,
    PlatformClient, PlatformResponse, PlatformTarget, ReadLimits, ReadUpTo, SigningInput,
    TargetSettings, UpstreamSettings, VerifySettings,
};
pub(crate) use scripted_peer::{PlatformStep, ScriptedPlatform, always, answer, ok};
use zeroize::Zeroizing;

/// The secret that must reach its platform and nobody else.
pub(crate) const TOKEN: &str = "canary-7f3a";

/// The longest that anything here waits for what should come at once.
const GENEROUS: Duration = Duration::from_secs(20);

/// A platform at this address that wants a bearer token and waits long for everything.
pub(crate) fn settings(base_url: &str) -> TargetSettings {
    TargetSettings {
        platform: Platform::ALPHA,
        credential_fields: None,
        base_url: base_url.to_owned(),
        path_prefix: "/api/".to_owned(),
        headers: vec![("authorization".to_owned(), "Bearer {token}".to_owned())],
        version_header: None,
        signing: None,
        envelope: false,
        envelope_pointers: None,
        cookies: false,
        query: Vec::new(),
        response_headers: Vec::new(),
        user_agent: "creator-gateway".to_owned(),
        verify: VerifySettings {
            path: "users/me".to_owned(),
            id_pointer: Some("/id".to_owned()),
            equals_field: Some("user_id".to_owned()),
            accepted_statuses: Vec::new(),
            ..VerifySettings::default()
        },
        oauth: None,
        timeouts: CallTimeouts {
            connect: GENEROUS,
            tls: GENEROUS,
            first_byte: GENEROUS,
            upload: 10 * GENEROUS,
            between_bytes: GENEROUS,
            stream_idle: GENEROUS,
        },
        ca_file: None,
        client_certificate_file: None,
        client_key_file: None,
        proxy: Zeroizing::default(),
        private_proxies: false,
        hosts: Vec::new(),
    }
}

pub(crate) fn target(base_url: &str) -> PlatformTarget {
    PlatformTarget::new(&settings(base_url)).unwrap()
}

pub(crate) fn upstream() -> PlatformClient {
    PlatformClient::new(&UpstreamSettings::default())
}

pub(crate) fn credentials() -> AccountCredentials {
    let json = format!(r#"{{"token":"{TOKEN}","user_id":"17"}}"#);
    AccountCredentials::from_json(json.as_bytes()).unwrap()
}

pub(crate) const SIGNING: SigningInput =
    SigningInput { now: Timestamp::from_unix_micros(1_769_904_000_123_456), nonce: [0xab; 16] };

/// Calls with the credentials above.
pub(crate) async fn call(
    upstream: &PlatformClient,
    target: &PlatformTarget,
    method: Method,
    path: &str,
    body: &str,
) -> Result<PlatformResponse, ClientError> {
    let account = target.headers_of(&credentials())?;
    let request = target.request(&NativeCall {
        call_id: &"call_1",
        method,
        path,
        query: "",
        caller_headers: &HeaderMap::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        account: &account,
        signing: SIGNING,
    })?;
    upstream.send(target, request).await
}

pub(crate) async fn get(
    upstream: &PlatformClient,
    target: &PlatformTarget,
) -> Result<PlatformResponse, ClientError> {
    call(upstream, target, Method::Get, "users/me", "").await
}

/// Calls and reads the whole answer.
pub(crate) async fn get_text(upstream: &PlatformClient, target: &PlatformTarget) -> String {
    let mut answer = get(upstream, target).await.unwrap();
    let ReadUpTo::Whole(body) = answer.body.read_up_to(ReadLimits::bytes(1_000_000)).await.unwrap()
    else {
        panic!("the answer is larger than a test's")
    };
    // The task of the connection runs before the next call looks for an idle one.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    String::from_utf8(body.to_vec()).unwrap()
}

/// What an error says for those who decide by it.
pub(crate) fn facts(error: &ClientError) -> (CallFault, CallErrorKind, bool, bool) {
    (error.fault, error.kind, error.sent, error.retryable)
}

/// Asserts an answer that must not be passed on: the platform's fault, sent, and not to be
/// repeated.
#[track_caller]
pub(crate) fn assert_bad_response(error: &ClientError) {
    assert!(matches!(error.kind, CallErrorKind::BadResponse(_)), "{error:?}");
    assert_eq!(
        (error.fault, error.sent, error.retryable),
        (CallFault::Theirs, true, false),
        "{error:?}"
    );
}
