//! The refusals of `platform_delta`, in its own error format. Tests of scopes and the version
//! header are with the table of operations.

use http::Method;
use serde_json::{Value, json};

use crate::delta::{DEMO, all_pages};
use crate::kit::{Kit, id_of, none};
use crate::refusals::{Refused, are_refused, get, of_delta, post, refused};

/// Sends all requests; what can be read must not change.
async fn all_refused(kit: &Kit, rows: &[Refused]) {
    let reads = [
        "agencies/team-members",
        "chats?size=50",
        "chats/unread",
        "chats/lists/custom",
        "chats/mass-messages",
        "media?size=50",
        "notifications",
        "posts?size=50",
    ];
    let mut reads: Vec<String> = reads.map(str::to_owned).into();
    reads.push(format!("creators/{}/vault/folders", creator(kit).await));
    are_refused(kit, DEMO, rows, of_delta, &reads).await;
}

async fn creator(kit: &Kit) -> String {
    id_of(&kit.get(DEMO, "posts").await["data"][0]["creatorUuid"])
}

async fn first(kit: &Kit, path: &str, pointer: &str) -> String {
    id_of(kit.get(DEMO, path).await.pointer(pointer).unwrap())
}

fn patch(path: impl Into<String>, body: Value, status: u16) -> Refused {
    refused(Method::PATCH, path, body, status)
}

fn delete(path: impl Into<String>, status: u16) -> Refused {
    refused(Method::DELETE, path, none(), status)
}

#[tokio::test]
async fn invalid_pages_and_cursors_are_refused() {
    let kit = Kit::new();
    let (creator, chat) = (creator(&kit).await, first(&kit, "chats", "/data/0/user/uuid").await);
    let numbered = [
        "agencies/chats".to_owned(),
        "agencies/subscribers".to_owned(),
        "agencies/team-members".to_owned(),
        "chats".to_owned(),
        "chats/unread".to_owned(),
        "chats/mass-messages".to_owned(),
        "chats/lists/custom".to_owned(),
        "chats/lists/smart".to_owned(),
        "followers".to_owned(),
        "insights/fans".to_owned(),
        "insights/top-spenders".to_owned(),
        "media".to_owned(),
        "posts".to_owned(),
        format!("creators/{creator}/subscribers"),
        format!("creators/{creator}/vault/folders"),
    ];
    let by_cursor = [format!("chats/{chat}/messages"), "notifications".to_owned()];
    let sizes = ["size=51", "size=0", "size=-1", "size=x", "size=99999999999999999999"];
    let pages = ["page=0", "page=-1", "page=x"];
    let mut rows = Vec::new();
    for path in &numbered {
        rows.extend(sizes.iter().chain(&pages).map(|query| get(format!("{path}?{query}"), 400)));
    }
    for path in &by_cursor {
        rows.extend(sizes.iter().map(|query| get(format!("{path}?{query}"), 400)));
        rows.push(get(format!("{path}?cursor=nothing"), 400));
        rows.push(get(format!("{path}?cursor={creator}"), 400));
    }
    for path in numbered {
        kit.get(DEMO, &format!("{path}?size=50")).await;
    }
    all_refused(&kit, &rows).await;
}

#[tokio::test]
async fn missing_things_are_refused() {
    let kit = Kit::new();
    let own = creator(&kit).await;
    let foreign = id_of(&kit.get("nova_delta", "chats").await["data"][0]["user"]["uuid"]);
    let list = first(&kit, "chats/lists/custom", "/data/0/uuid").await;
    let mut rows = vec![
        get(format!("creators/{own}/vault/folders/Nothing"), 404),
        get(format!("creators/{own}/vault/folders/Nothing/media"), 404),
        patch(format!("creators/{own}/vault/folders/Nothing"), json!({"name": "x"}), 404),
        delete(format!("creators/{own}/vault/folders/Nothing"), 404),
        delete(format!("creators/{own}/vault/folders/Videos/media/{own}"), 404),
        get("apps/5c0f7a3e-0000-4000-8000-0000000000aa/payments/INV-99999999", 404),
        get("apps/5c0f7a3e-0000-4000-8000-0000000000aa/payments/me/OWN-00000000", 404),
        get("no/such/operation", 404),
        refused(Method::PUT, "chats", none(), 405),
    ];
    for id in ["nothing", &foreign, "5c0f7a3e-0000-4000-8000-0000000000aa"] {
        let folder = json!({"name": "x"});
        rows.extend([
            get(format!("chats/{id}"), 404),
            get(format!("chats/{id}/messages"), 404),
            get(format!("chats/{id}/media"), 404),
            get(format!("chats/templates/{id}"), 404),
            get(format!("chats/lists/custom/{id}"), 404),
            get(format!("chats/lists/smart/{id}"), 404),
            get(format!("creators/{own}/posts/{id}/tips"), 404),
            get(format!("creators/{id}/subscribers"), 404),
            get(format!("creators/{id}/vault/folders"), 404),
            get(format!("insights/fans/{id}"), 404),
            get(format!("media/{id}"), 404),
            get(format!("media/{id}/entitled"), 404),
            get(format!("media/uploads/{id}/parts/1/url"), 404),
            post(format!("chats/{id}/message"), json!({"text": "x"}), 404),
            post("chats", json!({"userUuid": id}), 404),
            post("chats/messages/batch", json!({"userUuids": [id]}), 404),
            post("chats/statuses", json!({"userUuids": [id]}), 404),
            post("insights/fans/batch", json!({"userUuids": [id]}), 404),
            post("insights/fans/profiles", json!({"userUuids": [id]}), 404),
            post("agencies/posts", json!({"creatorUuid": id, "text": "x"}), 404),
            post("posts", json!({"text": "x", "mediaUuids": [id]}), 404),
            post("chats/mass-messages", json!({"text": "x", "includedLists": [id]}), 404),
            post(format!("chats/lists/custom/{list}/members"), json!({"userUuids": [id]}), 404),
            post(format!("creators/{id}/vault/folders"), folder.clone(), 404),
            post(format!("creators/{own}/posts/{id}/repost"), none(), 404),
            post(format!("media/{id}/grant"), json!({"userUuid": own}), 404),
            post("experiences/token/exchange", json!({"token": format!("exp_{id}")}), 404),
            patch(format!("chats/{id}"), json!({"isRead": true}), 404),
            patch(format!("chats/lists/custom/{id}"), folder, 404),
            patch(format!("chats/mass-messages/{id}"), json!({"text": "x"}), 404),
            patch(format!("media/{id}"), json!({"name": "x"}), 404),
            patch(format!("media/uploads/{id}"), json!({"parts": []}), 404),
            refused(Method::PUT, format!("agencies/team-members/{id}"), json!({}), 404),
            delete(format!("chats/lists/custom/{id}"), 404),
            delete(format!("chats/lists/custom/{list}/members/{id}"), 404),
            delete(format!("chats/mass-messages/{id}"), 404),
            delete(format!("creators/{own}/posts/{id}/pin"), 404),
            delete(format!("media/{id}"), 404),
        ]);
    }
    all_refused(&kit, &rows).await;
}

#[tokio::test]
async fn invalid_bodies_and_queries_are_refused() {
    let kit = Kit::new();
    let own = creator(&kit).await;
    let fan = first(&kit, "chats", "/data/0/user/uuid").await;
    let medium = first(&kit, "media", "/data/0/uuid").await;
    let list = first(&kit, "chats/lists/custom", "/data/0/uuid").await;
    let member = first(&kit, "agencies/team-members", "/data/0/userId").await;
    let mass = first(&kit, "chats/mass-messages", "/data/0/uuid").await;
    let many = vec![&fan; 51];
    let past = "2026-01-31T00:00:00Z";
    let rows = [
        post("agencies/invites", json!({"email": "nobody"}), 400),
        post("agencies/invites", json!({"email": "a@b.test", "role": "king"}), 400),
        post("agencies/creator-invites", json!({}), 400),
        post("agencies/posts", json!({"text": "x"}), 400),
        refused(Method::PUT, format!("agencies/team-members/{member}"), json!({}), 400),
        refused(
            Method::PUT,
            format!("agencies/team-members/{member}"),
            json!({"role": "king"}),
            400,
        ),
        post("chats", json!({}), 400),
        post("chats/messages/batch", json!({"userUuids": []}), 400),
        post("chats/statuses", json!({"userUuids": many}), 400),
        post("insights/fans/batch", json!({"userUuids": "x"}), 400),
        post("insights/fans/profiles", json!({"userUuids": [1]}), 400),
        post(format!("chats/{fan}/message"), json!({"text": " "}), 400),
        post(format!("chats/{fan}/message"), json!({"text": "x", "price": 5}), 400),
        post(format!("chats/{fan}/message"), json!({"mediaUuids": [medium], "price": -5}), 400),
        patch(format!("chats/{fan}"), json!({}), 400),
        patch(format!("chats/{fan}"), json!({"isMuted": "yes"}), 400),
        patch(format!("chats/{fan}"), json!({"nickname": 7}), 400),
        post("chats/lists/custom", json!({"name": ""}), 400),
        post(format!("chats/lists/custom/{list}/members"), json!({}), 400),
        patch(format!("chats/lists/custom/{list}"), json!({"name": 7}), 400),
        post("chats/mass-messages", json!({"text": ""}), 400),
        post("chats/mass-messages", json!({"text": "x", "price": 5}), 400),
        post("chats/mass-messages", json!({"text": "x", "scheduledAt": past}), 400),
        patch(format!("chats/mass-messages/{mass}"), json!({}), 400),
        patch(format!("chats/mass-messages/{mass}"), json!({"text": 7}), 400),
        post(format!("creators/{own}/vault/folders"), json!({"name": ""}), 400),
        post(format!("creators/{own}/vault/folders"), json!({"name": "x".repeat(101)}), 400),
        post(format!("creators/{own}/vault/folders/Videos/media"), json!({}), 400),
        post("experiences/request-token", json!({}), 400),
        post("experiences/token/exchange", json!({}), 400),
        get("media/bulk", 400),
        get("media/bulk?uuids=,", 400),
        patch(format!("media/{medium}"), json!({"price": -1}), 400),
        patch(format!("media/{medium}"), json!({"status": "x"}), 400),
        post(format!("media/{medium}/grant"), json!({}), 400),
        post("media/uploads", json!({"filename": "x", "mediaType": "hologram"}), 400),
        post("media/uploads", json!({"mediaType": "image"}), 400),
        post("posts", json!({}), 400),
        post("posts", json!({"text": "x", "audience": "nobody"}), 400),
        post("posts", json!({"text": "x", "publishAt": past}), 400),
        post("posts", json!({"text": "x", "price": 1.5}), 400),
        get("insights/earnings?startDate=x", 400),
        get("insights/earnings?startDate=2026-02-02&endDate=2026-01-01", 400),
        get("agencies/earnings?startDate=2020-01-01&endDate=2026-01-01", 400),
    ];
    all_refused(&kit, &rows).await;
}

#[tokio::test]
async fn things_in_the_wrong_state_are_refused() {
    let kit = Kit::new();
    let own = creator(&kit).await;
    let chat = first(&kit, "chats", "/data/0/user/uuid").await;
    let posts = all_pages(&kit, "posts", 50).await;
    let unpinned = posts.iter().find(|post| post["isPinned"] == false).unwrap();
    let upload = json!({"filename": "a", "mediaType": "image"});
    let upload = id_of(&kit.post(DEMO, "media/uploads", upload).await["uploadId"]);
    let session = format!("media/uploads/{upload}");
    let parts = json!({"parts": [{"partNumber": 1, "etag": "e"}]});
    kit.send(DEMO, Method::PATCH, &session, parts.clone()).await;
    let token = kit.post(DEMO, "experiences/request-token", json!({"experience": "x"})).await;
    let token = json!({"token": token["token"]});
    kit.post(DEMO, "experiences/token/exchange", token.clone()).await;

    let rows = [
        post("chats", json!({"userUuid": chat}), 409),
        post(format!("creators/{own}/vault/folders"), json!({"name": "Videos"}), 409),
        delete(format!("creators/{own}/posts/{}/pin", id_of(&unpinned["uuid"])), 409),
        patch(&session, parts, 409),
        get(format!("{session}/parts/1/url"), 409),
        post("experiences/token/exchange", token, 409),
    ];
    all_refused(&kit, &rows).await;
}
