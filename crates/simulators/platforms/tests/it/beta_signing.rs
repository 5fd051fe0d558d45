//! The signed requests that `platform_beta` accepts.

use http::Method;
use simulator_platforms::PlatformSettings;

use crate::beta::DEMO;
use crate::kit::{Kit, none};
use crate::refusals::{is_refusal, of_beta};

const TARGET: &str = "/platform_beta/api/v1/account/me?x=1&y=%20a";
const MINUTE_MS: i64 = 60_000;

type Headers = Vec<(&'static str, String)>;

fn headers(kit: &Kit) -> Headers {
    let token = kit.auth(DEMO)["token"].as_str().unwrap().to_owned();
    kit.signed(&token, &Method::GET, TARGET)
}

/// The status of a request with these headers; a refusal must have the platform's format.
async fn status(kit: &Kit, headers: &Headers) -> u16 {
    let reply = kit.raw(Method::GET, TARGET, headers, none()).await;
    if reply.status != 200 {
        is_refusal(&reply, 401, "unauthorized", of_beta, "a request without a valid signature");
    }
    reply.status.as_u16()
}

fn with(headers: &Headers, name: &str, change: impl Fn(&str) -> String) -> Headers {
    let changed = headers
        .iter()
        .map(|(key, value)| (*key, if *key == name { change(value) } else { value.clone() }));
    changed.collect()
}

#[tokio::test]
async fn a_request_with_any_header_missing_or_wrong_is_refused() {
    let kit = Kit::new();
    assert_eq!(status(&kit, &headers(&kit)).await, 200);
    for name in [
        "authorization",
        "x-client-id",
        "x-client-timestamp",
        "x-client-nonce",
        "x-client-version",
        "x-client-signature",
    ] {
        let right = headers(&kit);
        let missing: Headers = right.iter().filter(|(key, _)| *key != name).cloned().collect();
        assert_eq!(status(&kit, &missing).await, 401, "without {name}");
        let wrong = with(&right, name, |value| format!("{value}0"));
        assert_eq!(status(&kit, &wrong).await, 401, "with a wrong {name}");
        let twice: Headers = right.iter().cloned().chain([(name, right[0].1.clone())]).collect();
        assert_eq!(status(&kit, &twice).await, 401, "with {name} twice");
        assert_eq!(status(&kit, &right).await, 200, "refused requests do not use up their nonce");
    }
    let upper = with(&headers(&kit), "x-client-signature", str::to_uppercase);
    assert_eq!(status(&kit, &upper).await, 401);
}

#[tokio::test]
async fn the_signature_covers_method_and_target_byte_by_byte() {
    let kit = Kit::new();
    let signed = headers(&kit);

    let other_method = kit.raw(Method::POST, TARGET, &signed, none()).await;
    assert_eq!(other_method.status, 401);
    for other in ["?x=1", "?y=%20a&x=1", "?x=1&y=+a"] {
        let target = format!("/platform_beta/api/v1/account/me{other}");
        assert_eq!(kit.raw(Method::GET, &target, &signed, none()).await.status, 401, "{other}");
    }

    let token = kit.auth(DEMO)["token"].as_str().unwrap();
    let without_prefix = kit.signed(token, &Method::GET, "/api/v1/account/me?x=1&y=%20a");
    assert_eq!(status(&kit, &without_prefix).await, 401);
}

#[tokio::test]
async fn a_nonce_works_once() {
    let kit = Kit::new();
    let signed = headers(&kit);

    assert_eq!(status(&kit, &signed).await, 200);
    assert_eq!(status(&kit, &signed).await, 401);
    for _ in 0..4 {
        kit.clock.advance_ms(MINUTE_MS);
        assert_eq!(status(&kit, &headers(&kit)).await, 200);
        assert_eq!(status(&kit, &signed).await, 401);
    }
}

#[tokio::test]
async fn a_timestamp_is_valid_for_five_minutes_in_both_directions() {
    let kit = Kit::new();
    let (old, older) = (headers(&kit), headers(&kit));
    kit.clock.advance_ms(5 * MINUTE_MS);
    assert_eq!(status(&kit, &old).await, 200);
    kit.clock.advance_ms(1);
    assert_eq!(status(&kit, &older).await, 401);

    let (early, too_early) = (headers(&kit), headers(&kit));
    kit.clock.advance_ms(-5 * MINUTE_MS);
    assert_eq!(status(&kit, &early).await, 200);
    kit.clock.advance_ms(-1);
    assert_eq!(status(&kit, &too_early).await, 401);
}

#[tokio::test]
async fn another_key_client_or_version_is_refused() {
    for settings in [
        PlatformSettings { beta_signing_key: "other".to_owned(), ..PlatformSettings::default() },
        PlatformSettings { beta_client_id: "other".to_owned(), ..PlatformSettings::default() },
        PlatformSettings { beta_client_version: "2.0.0".to_owned(), ..PlatformSettings::default() },
    ] {
        let kit = Kit::with(&settings);
        assert_eq!(status(&kit, &headers(&kit)).await, 401);
    }
}
