//! The tokens of `platform_delta`.

use http::Method;
use serde_json::json;
use simulator_platforms::PlatformSettings;

use crate::delta::{DEMO, TOKEN, bearer, refresh};
use crate::kit::{Kit, id_of, none};

fn first_token(kit: &Kit) -> String {
    kit.auth(DEMO)["refresh_token"].as_str().unwrap().to_owned()
}

async fn status(kit: &Kit, access_token: &str) -> u16 {
    let target = "/platform_delta/notifications";
    kit.raw(Method::GET, target, &bearer(access_token), none()).await.status.as_u16()
}

#[tokio::test]
async fn a_refresh_token_returns_a_new_pair_once() {
    let kit = Kit::new();
    let mut token = first_token(&kit);
    for _ in 0..3 {
        let reply = refresh(&kit, &token, "").await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.body["token_type"], "Bearer");
        assert_eq!(reply.body["expires_in"], 3600);
        assert_eq!(status(&kit, reply.body["access_token"].as_str().unwrap()).await, 200);

        let again = refresh(&kit, &token, "").await;
        assert_eq!(again.status, 400);
        assert_eq!(again.body["error"], "invalid_grant");
        assert!(again.body["error_description"].is_string());
        assert_ne!(reply.body["refresh_token"], json!(token));
        token = id_of(&reply.body["refresh_token"]);
    }
}

#[tokio::test]
async fn an_access_token_expires_and_the_refresh_token_does_not() {
    let kit =
        Kit::with(&PlatformSettings { delta_access_token_s: 60, ..PlatformSettings::default() });
    let reply = refresh(&kit, &first_token(&kit), "").await;
    assert_eq!(reply.body["expires_in"], 60);
    let access = id_of(&reply.body["access_token"]);

    kit.clock.advance_ms(59_999);
    assert_eq!(status(&kit, &access).await, 200);
    kit.clock.advance_ms(1);
    assert_eq!(status(&kit, &access).await, 401);

    let next = refresh(&kit, &id_of(&reply.body["refresh_token"]), "").await;
    assert_eq!(status(&kit, next.body["access_token"].as_str().unwrap()).await, 200);
    assert_eq!(status(&kit, &access).await, 401);
}

#[tokio::test]
async fn scopes_of_an_access_token_can_be_reduced_but_not_extended() {
    let kit = Kit::new();
    let granted = kit.auth(DEMO)["scopes"].clone();
    let narrow = refresh(&kit, &first_token(&kit), "read:chat read:self").await;
    assert_eq!(narrow.body["scope"], "read:chat read:self");

    let token = id_of(&narrow.body["refresh_token"]);
    let more = refresh(&kit, &token, "read:chat read:everything").await;
    assert_eq!((more.status.as_u16(), &more.body["error"]), (400, &json!("invalid_scope")));

    let full = refresh(&kit, &token, "").await;
    let kept: Vec<&str> = full.body["scope"].as_str().unwrap().split(' ').collect();
    assert_eq!(json!(kept), granted);
}

#[tokio::test]
async fn requests_of_other_clients_are_refused() {
    let kit = Kit::new();
    let token = first_token(&kit);
    let right = [
        ("grant_type", "refresh_token"),
        ("refresh_token", token.as_str()),
        ("client_id", "creator-gateway"),
        ("client_secret", "sandbox-secret"),
    ];
    let with = |name: &str, value: &'static str| {
        right.map(|(key, old)| (key, if key == name { value } else { old }))
    };
    let mut twice = right.to_vec();
    twice.push(right[1]);
    let without =
        |name: &str| -> Vec<_> { right.iter().filter(|(key, _)| *key != name).copied().collect() };

    for (pairs, expected, error) in [
        (with("grant_type", "password").to_vec(), 400, "unsupported_grant_type"),
        (with("client_secret", "guess").to_vec(), 401, "invalid_client"),
        (with("client_id", "guess").to_vec(), 401, "invalid_client"),
        (with("refresh_token", "guess").to_vec(), 400, "invalid_grant"),
        (without("refresh_token"), 400, "invalid_request"),
        (without("grant_type"), 400, "invalid_request"),
        (twice, 400, "invalid_request"),
        (Vec::new(), 400, "invalid_request"),
    ] {
        let reply = kit.form(TOKEN, &pairs).await;
        assert_eq!((reply.status.as_u16(), &reply.body["error"]), (expected, &json!(error)));
    }
    let as_json = kit.raw(Method::POST, TOKEN, &[], json!({"grant_type": "refresh_token"})).await;
    assert_eq!(as_json.body["error"], "invalid_request");
    assert_eq!(kit.form(TOKEN, &right).await.status, 200);
}

#[tokio::test]
async fn issued_tokens_survive_a_restart_and_cannot_be_forged() {
    let folder = tempfile::tempdir().unwrap();
    let (used, reply) = {
        let kit = Kit::on(folder.path());
        let used = first_token(&kit);
        let reply = refresh(&kit, &used, "").await;
        (used, reply.body)
    };

    let kit = Kit::on(folder.path());
    let access = id_of(&reply["access_token"]);
    assert_eq!(status(&kit, &access).await, 200);
    assert_eq!(refresh(&kit, &used, "").await.status, 400);
    let next = refresh(&kit, &id_of(&reply["refresh_token"]), "").await;
    assert_eq!(next.status, 200);
    assert_ne!(next.body["access_token"], reply["access_token"]);

    let made_up = access.replacen("-1-", "-3-", 1);
    assert_ne!(made_up, access);
    assert_eq!(status(&kit, &made_up).await, 401);
    let as_access = id_of(&next.body["refresh_token"]);
    assert_eq!(status(&kit, &as_access).await, 401);
}
