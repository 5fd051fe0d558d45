//! Writes on `platform_delta` show in later reads and survive a restart.

use http::Method;
use serde_json::{Value, json};

use crate::delta::{DEMO, all_by_cursor, all_pages};
use crate::kit::{Kit, id_of, none};

async fn status(kit: &Kit, method: Method, path: &str, body: Value) -> u16 {
    kit.send(DEMO, method, path, body).await.status.as_u16()
}

async fn patch(kit: &Kit, path: &str, body: Value) -> Value {
    let reply = kit.send(DEMO, Method::PATCH, path, body).await;
    assert_eq!(reply.status, 200, "{path} {}", reply.body);
    reply.body
}

async fn delete(kit: &Kit, path: &str) {
    assert_eq!(status(kit, Method::DELETE, path, none()).await, 204, "{path}");
}

async fn creator(kit: &Kit) -> String {
    id_of(&kit.get(DEMO, "posts").await["data"][0]["creatorUuid"])
}

#[tokio::test]
async fn a_cursor_stays_valid_while_new_messages_arrive() {
    let kit = Kit::new();
    let chat = kit.get(DEMO, "chats?page=3").await["data"][0].clone();
    let user = id_of(&chat["user"]["uuid"]);
    let messages = format!("chats/{user}/messages");
    let before = all_by_cursor(&kit, &messages, 50).await;
    let first = kit.get(DEMO, &format!("{messages}?size=2")).await;

    let sent = kit.post(DEMO, &format!("chats/{user}/message"), json!({"text": "New"})).await;

    let cursor = id_of(&first["nextCursor"]);
    let second = kit.get(DEMO, &format!("{messages}?size=1&cursor={cursor}")).await;
    assert_eq!(second["data"][0], before[2]);
    let after = all_by_cursor(&kit, &messages, 50).await;
    assert_eq!((after.len(), &after[0]), (before.len() + 1, &sent));
    let top = kit.get(DEMO, "chats").await["data"][0].clone();
    assert_eq!((id_of(&top["user"]["uuid"]), &top["lastMessage"]), (user, &sent));
}

#[tokio::test]
async fn a_message_needs_content_and_only_media_have_a_price() {
    let kit = Kit::new();
    let user = id_of(&kit.get(DEMO, "chats").await["data"][0]["user"]["uuid"]);
    let path = format!("chats/{user}/message");
    let media = kit.get(DEMO, "media").await["data"][0]["uuid"].clone();
    for (body, expected) in [
        (json!({}), 400),
        (json!({"text": " "}), 400),
        (json!({"text": "Hi", "price": 500}), 400),
        (json!({"mediaUuids": [media], "price": -1}), 400),
        (json!({"mediaUuids": ["nothing"]}), 404),
        (json!({"mediaUuids": [media], "price": 500}), 201),
    ] {
        assert_eq!(status(&kit, Method::POST, &path, body).await, expected);
    }
    let shared = kit.get(DEMO, &format!("chats/{user}/media")).await;
    assert_eq!(shared["data"][0]["media"][0]["uuid"], media);
}

#[tokio::test]
async fn a_chat_is_opened_read_muted_and_named() {
    let kit = Kit::new();
    let chats = all_pages(&kit, "chats", 50).await;
    let fans = all_pages(&kit, "insights/fans", 50).await;
    let has_chat = |fan: &&Value| chats.iter().any(|chat| chat["user"] == fan["user"]);
    let free = fans.iter().find(|fan| !has_chat(fan)).unwrap()["userUuid"].clone();
    let path = format!("chats/{}", id_of(&free));

    assert_eq!(status(&kit, Method::GET, &path, none()).await, 404);
    let opened = kit.post(DEMO, "chats", json!({"userUuid": free})).await;
    assert_eq!(kit.get(DEMO, &path).await, opened);
    assert_eq!(status(&kit, Method::POST, "chats", json!({"userUuid": free})).await, 409);

    let unread = async || kit.get(DEMO, "chats/unread").await["unreadChatsCount"].clone();
    assert_eq!(unread().await, 40);
    let changed =
        patch(&kit, &path, json!({"isRead": false, "isMuted": true, "nickname": "Al"})).await;
    assert_eq!((&changed["isRead"], &changed["isMuted"]), (&json!(false), &json!(true)));
    assert_eq!(changed["nickname"], "Al");
    assert_eq!(unread().await, 41);
    patch(&kit, &path, json!({"isRead": true})).await;
    assert_eq!(unread().await, 40);
    assert_eq!(status(&kit, Method::PATCH, &path, json!({"isRead": "yes"})).await, 400);
}

#[tokio::test]
async fn a_list_is_created_filled_used_and_deleted() {
    let kit = Kit::new();
    let fans = kit.get(DEMO, "insights/fans?size=2").await["data"].clone();
    let users = json!([fans[0]["userUuid"], fans[1]["userUuid"]]);
    let list = kit.post(DEMO, "chats/lists/custom", json!({"name": "Best"})).await;
    let path = format!("chats/lists/custom/{}", id_of(&list["uuid"]));
    let members = format!("{path}/members");

    let filled = kit.post(DEMO, &members, json!({"userUuids": users})).await;
    assert_eq!(filled["membersCount"], 2);
    let message = json!({"text": "Hi", "includedLists": [list["uuid"]]});
    let sent = kit.post(DEMO, "chats/mass-messages", message).await;
    assert_eq!(sent["recipientsCount"], 2);
    let member = format!("{members}/{}", id_of(&users[0]));
    delete(&kit, &member).await;
    assert_eq!(status(&kit, Method::DELETE, &member, none()).await, 404);
    assert_eq!(kit.get(DEMO, &path).await["members"]["data"][0]["uuid"], users[1]);
    assert_eq!(patch(&kit, &path, json!({"name": "Dear"})).await["name"], "Dear");
    assert_eq!(kit.get(DEMO, "chats/lists/custom").await["data"][0]["name"], "Dear");
    delete(&kit, &path).await;
    assert_eq!(status(&kit, Method::GET, &path, none()).await, 404);
}

#[tokio::test]
async fn a_mass_message_is_scheduled_changed_sent_and_removed() {
    let kit = Kit::new();
    let body = json!({"text": "Soon", "scheduledAt": "2026-02-01T01:00:00Z"});
    let message = kit.post(DEMO, "chats/mass-messages", body).await;
    let path = format!("chats/mass-messages/{}", id_of(&message["uuid"]));
    let newest = async || kit.get(DEMO, "chats/mass-messages").await["data"][0].clone();

    assert_eq!(
        (&message["status"], &message["recipientsCount"]),
        (&json!("scheduled"), &json!(192))
    );
    patch(&kit, &path, json!({"text": "Sooner"})).await;
    kit.clock.advance_ms(3_600_000);
    assert_eq!(
        (&newest().await["status"], &newest().await["text"]),
        (&json!("sent"), &json!("Sooner"))
    );
    delete(&kit, &path).await;
    assert_ne!(newest().await["uuid"], message["uuid"]);
    let past = json!({"text": "Late", "scheduledAt": "2026-01-01T00:00:00Z"});
    assert_eq!(status(&kit, Method::POST, "chats/mass-messages", past).await, 400);
}

#[tokio::test]
async fn a_folder_is_identified_by_any_name() {
    let kit = Kit::new();
    let folders = format!("creators/{}/vault/folders", creator(&kit).await);
    let media = kit.get(DEMO, "media").await["data"][0]["uuid"].clone();
    let odd = format!("{folders}/Summer%20%2F%20caf%C3%A9");

    kit.post(DEMO, &folders, json!({"name": "Summer / café"})).await;
    assert_eq!(status(&kit, Method::POST, &folders, json!({"name": "Summer / café"})).await, 409);
    let filled = kit.post(DEMO, &format!("{odd}/media"), json!({"mediaUuids": [media]})).await;
    assert_eq!(filled["mediaCount"], 1);
    let inside = kit.get(DEMO, &format!("{odd}/media")).await;
    assert_eq!(inside["data"][0]["uuid"], media);
    delete(&kit, &format!("{odd}/media/{}", id_of(&media))).await;
    assert_eq!(kit.get(DEMO, &odd).await["mediaCount"], 0);
    patch(&kit, &odd, json!({"name": "Winter"})).await;
    assert_eq!(status(&kit, Method::GET, &odd, none()).await, 404);
    delete(&kit, &format!("{folders}/Winter")).await;
    assert_eq!(all_pages(&kit, &folders, 50).await.len(), 4);
}

#[tokio::test]
async fn an_upload_session_creates_a_medium_once() {
    let kit = Kit::new();
    let body = json!({"filename": "a.mp4", "mediaType": "video", "name": "Film"});
    let upload = kit.post(DEMO, "media/uploads", body).await;
    let path = format!("media/uploads/{}", id_of(&upload["uploadId"]));
    let medium = format!("media/{}", id_of(&upload["mediaUuid"]));
    let parts = json!({"parts": [{"partNumber": 1, "etag": "a"}, {"partNumber": 2, "etag": "b"}]});

    assert_eq!(status(&kit, Method::GET, &medium, none()).await, 404);
    let url = kit.get(DEMO, &format!("{path}/parts/2/url")).await;
    assert!(url["url"].as_str().unwrap().ends_with("/2"));
    assert_eq!(status(&kit, Method::GET, &format!("{path}/parts/0/url"), none()).await, 400);
    let gap = json!({"parts": [{"partNumber": 2, "etag": "b"}]});
    assert_eq!(status(&kit, Method::PATCH, &path, gap).await, 400);
    let made = patch(&kit, &path, parts.clone()).await;
    assert_eq!(status(&kit, Method::PATCH, &path, parts).await, 409);
    assert_eq!(kit.get(DEMO, &medium).await, made);
    assert_eq!(kit.get(DEMO, "media").await["data"][0]["name"], "Film");
}

#[tokio::test]
async fn a_medium_is_visible_to_the_users_it_was_granted_to() {
    let kit = Kit::new();
    let media = all_pages(&kit, "media", 50).await;
    let priced = media.iter().find(|it| it["price"].as_i64().unwrap() > 0).unwrap();
    let path = format!("media/{}", id_of(&priced["uuid"]));
    let fan = kit.get(DEMO, "insights/fans").await["data"][0]["userUuid"].clone();
    let entitled = format!("{path}/entitled?userUuid={}", id_of(&fan));

    assert_eq!(kit.get(DEMO, &entitled).await["entitled"], false);
    kit.post(DEMO, &format!("{path}/grant"), json!({"userUuid": fan})).await;
    assert_eq!(kit.get(DEMO, &entitled).await["reason"], "granted");
    assert_eq!(kit.get(DEMO, &format!("{path}/entitled")).await["reason"], "owner");
    delete(&kit, &path).await;
    assert_eq!(status(&kit, Method::GET, &path, none()).await, 404);
}

#[tokio::test]
async fn a_post_is_unpinned_posted_again_and_tipped() {
    let kit = Kit::new();
    let posts = all_pages(&kit, "posts", 50).await;
    let base = format!("creators/{}/posts", creator(&kit).await);
    let pinned = id_of(&posts[0]["uuid"]);
    assert_eq!(posts[0]["isPinned"], true);

    delete(&kit, &format!("{base}/{pinned}/pin")).await;
    assert_eq!(status(&kit, Method::DELETE, &format!("{base}/{pinned}/pin"), none()).await, 409);
    assert_eq!(kit.get(DEMO, "posts").await["data"][0]["isPinned"], false);
    let again = kit.post(DEMO, &format!("{base}/{pinned}/repost"), none()).await;
    assert_eq!((&again["repostOf"], &again["text"]), (&posts[0]["uuid"], &posts[0]["text"]));
    assert_eq!(kit.get(DEMO, "posts").await["data"][0], again);
    for post in &posts[..10] {
        let tips = all_pages(&kit, &format!("{base}/{}/tips", id_of(&post["uuid"])), 50).await;
        let sum: i64 = tips.iter().map(|tip| tip["amount"].as_i64().unwrap()).sum();
        assert_eq!(post["tipsAmount"], sum);
    }
}

#[tokio::test]
async fn an_experience_token_works_once_within_five_minutes() {
    let kit = Kit::new();
    let request = async || {
        let body = json!({"experience": "quiz"});
        json!({"token": kit.post(DEMO, "experiences/request-token", body).await["token"]})
    };
    let exchange =
        async |body: Value| status(&kit, Method::POST, "experiences/token/exchange", body).await;
    let (first, second) = (request().await, request().await);
    assert_eq!(exchange(first.clone()).await, 200);
    assert_eq!(exchange(first).await, 409);
    kit.clock.advance_ms(300_000);
    assert_eq!(exchange(second).await, 409);
    assert_eq!(exchange(json!({"token": "exp_x"})).await, 404);
}

#[tokio::test]
async fn a_team_member_gets_another_role() {
    let kit = Kit::new();
    let member = id_of(&kit.get(DEMO, "agencies/team-members").await["data"][2]["userId"]);
    let path = format!("agencies/team-members/{member}");
    assert_eq!(status(&kit, Method::PUT, &path, json!({"role": "admin"})).await, 200);
    assert_eq!(status(&kit, Method::PUT, &path, json!({"role": "king"})).await, 400);
    assert_eq!(kit.get(DEMO, "agencies/team-members").await["data"][2]["role"], "admin");
}

#[tokio::test]
async fn writes_and_their_ids_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (before, post) = {
        let kit = Kit::on(folder.path());
        let user = id_of(&kit.get(DEMO, "chats?page=2").await["data"][0]["user"]["uuid"]);
        kit.post(DEMO, &format!("chats/{user}/message"), json!({"text": "Kept"})).await;
        kit.post(DEMO, "chats/lists/custom", json!({"name": "Kept"})).await;
        let post = kit.post(DEMO, "posts", json!({"text": "Kept"})).await;
        status(&kit, Method::POST, "posts", json!({})).await;
        (snapshot(&kit).await, post)
    };

    let kit = Kit::on(folder.path());
    assert_eq!(snapshot(&kit).await, before);
    assert_eq!(before[2]["data"][0], post);
    let next = kit.post(DEMO, "posts", json!({"text": "Next"})).await;
    assert_ne!(next["uuid"], post["uuid"]);
}

async fn snapshot(kit: &Kit) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["chats", "chats/lists/custom", "posts"] {
        all.push(kit.get(DEMO, path).await);
    }
    all
}
