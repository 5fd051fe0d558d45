//! Native paths whose slashes a generated client encoded: read as they were meant where only one
//! reading is possible, and refused everywhere else.

use serde_json::json;
use test_service::platform::Script;
use test_service::stage::{CREDITS, on_stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_encoded_as_a_whole_reaches_the_listed_route() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for (encoded, native, route) in [
                ("users%2Fme", "users/me", "GET users/me"),
                ("users%2fme?limit=2&q=a%2Fb", "users/me?limit=2&q=a%2Fb", "GET users/me"),
                (
                    "chats%2F50%25%20off%2Fmessages",
                    "chats/50%25%20off/messages",
                    "GET chats/{chat_id}/messages",
                ),
                (
                    "giphy/proxy/gifs%2Ftrending",
                    "giphy/proxy/gifs/trending",
                    "GET giphy/proxy/{proxy_id}",
                ),
            ] {
                let reply = stage.get(encoded).await;

                assert_eq!(reply.status, 200, "{encoded}: {}", reply.text());
                assert_eq!(reply.header("x-route"), route, "{encoded}");
                let target = stage.platform.last_call().target().to_owned();
                assert!(target.ends_with(&format!("/{native}")), "{encoded}: {target}");
            }
            let written = stage.post("lists%2Fusers", &json!({"id": 1})).await;
            assert_eq!((written.status, written.header("x-route")), (200, "POST lists/users"));
            assert_eq!(stage.balance().await, CREDITS - 4 - 2);
            stage
        },
    )
    .await;
}

/// A path and its encoded form are the same request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_may_encode_the_path_in_the_other_way() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let client = stage.client.with("idempotency-key", "one");
            let body = json!({"id": 1});
            let first = client.post(&stage.path("lists%2Fusers"), &body).await;
            let again = client.post(&stage.path("lists/users"), &body).await;

            assert_eq!((first.status, again.status), (200, 200), "{}", again.text());
            assert_eq!(again.header("idempotent-replayed"), "true");
            assert_eq!(stage.platform.calls().len(), 1);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_smuggled_in_an_encoded_path() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            for native in [
                "..%2Fusers%2Fme",
                "users%2F..%2Fme",
                "users%2F.%2Fme",
                "users%2F%2E%2E%2Fme",
                "%2Fusers%2Fme",
                "%2F%2Fevil.example%2Fusers%2Fme",
                "https%3A%2F%2Fevil.example%2Fusers%2Fme",
                "users%2F%2Fme",
                "users%2Fme%2F",
                "users%252Fme",
                "users%25%32%46me",
                "users%2Fme%5C..",
                "users%2Fme%00",
                "users%EF%BC%8Fme%2Fx",
                "chats%2F..%3Bx%2Fmessages",
                "chats%2F7/messages",
                "unheard%2Fof",
                "giphy/proxy/..%2F..%2Fusers%2Fme",
                "giphy/proxy/a%2F%2Fb",
                "giphy/proxy/a%252Fb",
            ] {
                let reply = stage.get(native).await;

                assert_eq!(reply.failure(), (400, "invalid_path".to_owned()), "{native}");
            }
            assert_eq!(stage.platform.calls().len(), 0);
            assert_eq!(stage.balance().await, CREDITS);
            stage
        },
    )
    .await;
}

/// A generator encodes the slash of such a name twice; what that means is not certain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_a_slash_cannot_stand_in_a_path_encoded_as_a_whole() {
    on_stage(
        "platform_delta",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let plain = stage.get("creators%2F7%2Fvault%2Ffolders%2FA").await;
            let slash = stage.get("creators%2F7%2Fvault%2Ffolders%2FA%252FB").await;
            let parts = stage.get("creators%2F7%2Fvault%2Ffolders%2FA%2FB").await;
            let kept = stage.get("creators/7/vault/folders/A%2FB").await;

            assert_eq!((plain.status, kept.status), (200, 200));
            assert_eq!(stage.platform.last_call().target(), "/creators/7/vault/folders/A%2FB");
            for refused in [slash, parts] {
                assert_eq!(refused.failure(), (400, "invalid_path".to_owned()));
            }
            stage
        },
    )
    .await;
}
