//! Writes on `platform_gamma` show in later reads and survive a restart.

use http::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gamma::{DEMO, Ids, all_pages, deletion, own, rows, send, tier};
use crate::kit::{Kit, Reply, id_of, none};

async fn ok(kit: &Kit, method: Method, path: &str, body: Value) -> Value {
    let name = format!("{method} {path}");
    let reply = send(kit, method, path, body).await;
    assert!(reply.status.is_success(), "{name}: {} {}", reply.status, reply.body);
    reply.body
}

async fn post(kit: &Kit, path: &str, body: Value) -> Value {
    ok(kit, Method::POST, path, body).await
}

async fn put(kit: &Kit, path: &str, body: Value) -> Value {
    ok(kit, Method::PUT, path, body).await
}

async fn status(kit: &Kit, method: Method, path: &str, body: Value) -> u16 {
    send(kit, method, path, body).await.status.as_u16()
}

/// The bytes of the uploaded picture.
const SEA: &[u8] = b"\xff\xd8\xff\x00";

/// Uploads a picture with these additional fields in the form.
async fn upload(kit: &Kit, fields: &[(&str, &str)], content_type: &str) -> Reply {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend_from_slice(
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                .as_bytes(),
        );
    }
    body.extend_from_slice(
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"sea.jpg\"\r\n\
             Content-Type: {content_type}\r\n\r\n"
        )
        .as_bytes(),
    );
    body.extend_from_slice(SEA);
    body.extend_from_slice(b"\r\n--b--\r\n");
    kit.multipart(DEMO, "media/upload", "b", body).await
}

#[tokio::test]
async fn a_tier_keeps_its_bundles_and_is_deleted_only_by_its_status() {
    let kit = Kit::new();
    let path = "subscription/configuration";

    let made = post(&kit, path, tier()).await;
    assert_eq!(own(&kit, path).await[0], made);
    let bundles = made["initial_payment_options"].as_array().unwrap();
    assert_eq!((&bundles[0]["amount"], &bundles[0]["discount"]), (&json!(4050), &json!(10)));
    let netto = |payment: &Value| payment["amount_netto"].clone();
    let nettos = (netto(&bundles[0]), netto(&bundles[1]), netto(&made["recurring_payment"]));
    assert_eq!(nettos, (json!(3240), json!(9600), json!(1200)));

    let one = format!("{path}/{}", id_of(&made["_id"]));
    let without_type = json!({"status": "deleted"});
    assert_eq!(status(&kit, Method::PUT, &one, without_type).await, 400);
    let bundle =
        json!({"initial_payment_options": [bundles[1]], "modification_type": "price_change"});
    assert_eq!(status(&kit, Method::PUT, &one, bundle).await, 400, "it contains amount_netto");
    put(&kit, &one, deletion()).await;

    let tiers = own(&kit, path).await;
    assert_eq!((rows(&tiers).len(), &tiers[0]["status"]), (4, &json!("deleted")));
    assert_eq!(tiers[0]["_id"], made["_id"]);
    assert_eq!(status(&kit, Method::PUT, &one, deletion()).await, 409);
    assert_eq!(status(&kit, Method::DELETE, &one, none()).await, 405);
}

#[tokio::test]
async fn invalid_tiers_are_refused() {
    let kit = Kit::new();
    let path = "subscription/configuration";
    let with = |pointer: &str, value: Value| {
        let mut body = tier();
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    for wrong in [
        with("/price", json!("1500")),
        with("/price", json!(-1)),
        with("/currency", json!(null)),
        with("/type", json!("")),
        with("/status", json!("gone")),
        with("/repeat_days", json!(0)),
        with("/recurring_payment", json!(null)),
        with("/recurring_payment/amount", json!(null)),
        with("/initial_payment_options", json!({})),
        with("/initial_payment_options/1/duration_value", json!(0)),
        with("/initial_payment_options/0/description", json!({"amount_netto": 1})),
    ] {
        assert_eq!(status(&kit, Method::POST, path, wrong.clone()).await, 400, "{wrong}");
    }
    assert_eq!(rows(&own(&kit, path).await).len(), 3);
    post(&kit, path, with("/initial_payment_options", json!([]))).await;
}

#[tokio::test]
async fn a_sent_message_is_in_the_chat_and_moves_it_to_the_top() {
    let kit = Kit::new();
    let chat = own(&kit, "chatsByList?limit=1&offset=8").await[0].clone();
    let id = id_of(&chat["_id"]);
    let path = format!("chat/{id}/message");
    let stack = own(&kit, "file-stack?limit=1").await[0]["_id"].clone();

    let body = json!({
        "message": "for you", "file_stack_id": stack, "message_price": 900, "local_id": "m-1",
    });
    let sent = post(&kit, &path, body).await;

    assert_eq!((&sent["message_price"], &sent["currency"]), (&json!(900), &json!("USD")));
    assert_eq!((&sent["local_id"], &sent["file_stack_id"]), (&json!("m-1"), &stack));
    assert_eq!(own(&kit, &path).await[0], sent);
    let top = own(&kit, "chatsByList?limit=1").await[0].clone();
    assert_eq!((&top["_id"], &top["last_message"]), (&chat["_id"], &sent));
    assert_eq!(top["updated_at"], sent["created_at"]);
    assert_eq!(top["unread_count"], 0, "replying marks the chat as read");
    let free = post(&kit, &path, json!({"message": "free"})).await;
    assert_eq!(free["message_price"], 0);

    let one = format!("{path}/{}", id_of(&sent["_id"]));
    put(&kit, &one, json!({"text": "only for you"})).await;
    assert_eq!(own(&kit, &path).await[1]["message"], "only for you");
    for wrong in [
        none(),
        json!({"message": " "}),
        json!({"message": "x", "file_stack_id": id}),
        json!({"message": "x", "message_price": -1}),
    ] {
        assert_eq!(status(&kit, Method::POST, &path, wrong).await, 400);
    }
    let fan = chat["user"]["_id"].clone();
    let messages = own(&kit, &format!("{path}?limit=100")).await;
    let of_fan = rows(&messages).iter().find(|message| message["user_id"] == fan).unwrap();
    let theirs = format!("{path}/{}", id_of(&of_fan["_id"]));
    assert_eq!(status(&kit, Method::PUT, &theirs, json!({"text": "x"})).await, 403);
}

#[tokio::test]
async fn only_a_read_chat_can_be_marked_as_unread() {
    let kit = Kit::new();
    let unread = own(&kit, "chat/unread-messages").await;
    let (first, count) = unread.as_object().unwrap().iter().next().unwrap();
    let chat = own(&kit, &format!("chat/{first}")).await;
    assert_eq!(chat["unread_count"], *count);
    let again = format!("chat/{first}/mark-as-unread");
    let refused = send(&kit, Method::POST, &again, none()).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]), (409, &json!("conflict")));

    let ids = Ids::find(&kit).await;
    let mark = format!("chat/{}/mark-as-unread", ids.chat);
    assert_eq!(unread.get(&ids.chat), None);
    post(&kit, &mark, none()).await;

    assert_eq!(own(&kit, "chat/unread-messages").await[&ids.chat], 1);
    assert_eq!(status(&kit, Method::POST, &mark, none()).await, 409);
    post(&kit, &format!("chat/{}/message", ids.chat), json!({"message": "Hi"})).await;
    assert_eq!(own(&kit, "chat/unread-messages").await.get(&ids.chat), None);
}

#[tokio::test]
async fn prices_of_chats_that_are_not_sent_are_unchanged() {
    let kit = Kit::new();
    let path = "chat/configuration";
    let before = own(&kit, path).await;
    post(&kit, path, none()).await;
    post(&kit, path, json!({})).await;
    assert_eq!(own(&kit, path).await, before);

    post(&kit, path, json!({"unlock_price": 1200})).await;
    post(&kit, path, json!({"message_price": 300})).await;

    let expected = json!({"unlock_price": 1200, "message_price": 300, "currency": "USD"});
    assert_eq!(own(&kit, path).await, expected);
    assert_eq!(status(&kit, Method::POST, path, json!({"unlock_price": null})).await, 400);
    assert_eq!(own(&kit, path).await, expected);
}

#[tokio::test]
async fn a_chat_is_pinned_emptied_deleted_and_comes_back() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let one = format!("chat/{}", ids.chat);
    assert_eq!(status(&kit, Method::POST, &format!("{one}/pin"), none()).await, 400);
    for pinned in [true, false] {
        post(&kit, &format!("{one}/pin"), json!({"is_pinned": pinned})).await;
        assert_eq!(own(&kit, &one).await["is_pinned"], pinned);
    }

    put(&kit, &format!("{one}/delete-all-chat-messages-for-user"), none()).await;
    assert_eq!(own(&kit, &format!("{one}/message")).await, json!([]));
    assert_eq!(own(&kit, &one).await["last_message"], Value::Null);
    let fan = id_of(&own(&kit, &one).await["user"]["_id"]);
    put(&kit, &format!("chat/{fan}/delete-chat-for-user-by-user-id"), none()).await;
    assert_eq!(status(&kit, Method::GET, &one, none()).await, 404);
    let left = all_pages(&kit, &format!("user/{}/chatsByList", ids.me), 50).await;
    assert_eq!(left.len(), 159);

    post(&kit, &format!("{one}/message"), json!({"message": "Again"})).await;
    assert_eq!(own(&kit, "chatsByList?limit=1").await[0]["_id"], ids.chat);
    assert_eq!(rows(&own(&kit, &format!("{one}/message")).await).len(), 1);
}

#[tokio::test]
async fn a_scheduled_mass_message_is_changed_sent_or_cancelled() {
    let kit = Kit::new();
    let path = "chat/mass-message/";
    let body = json!({"message": "Soon", "message_price": 500, "to_be_posted_at": "2026-02-02"});
    let waiting = post(&kit, path, body.clone()).await;
    let cancelled = post(&kit, path, body).await;
    assert_eq!((&waiting["status"], &waiting["sent_count"]), (&json!("scheduled"), &json!(0)));
    let one = |message: &Value| format!("{path}{}", id_of(&message["_id"]));

    put(&kit, &one(&waiting), json!({"message": "Sooner", "message_price": 600})).await;
    let unknown = json!({"file_stack_id": "nothing"});
    assert_eq!(status(&kit, Method::PUT, &one(&waiting), unknown).await, 400);
    assert_eq!(status(&kit, Method::PUT, &one(&waiting), json!({})).await, 400);
    ok(&kit, Method::DELETE, &one(&cancelled), none()).await;
    kit.clock.advance_ms(25 * 3_600_000);

    let all = own(&kit, path).await;
    assert_eq!((rows(&all).len(), &all[0]["status"]), (14, &json!("cancelled")));
    assert_eq!((&all[1]["_id"], &all[1]["status"]), (&waiting["_id"], &json!("sent")));
    assert_eq!((&all[1]["message"], &all[1]["message_price"]), (&json!("Sooner"), &json!(600)));
    assert_eq!(all[1]["sent_count"], 192);
    for message in [&waiting, &cancelled, &all[5]] {
        assert_eq!(status(&kit, Method::DELETE, &one(message), none()).await, 409);
    }
    let wrong = json!({"message": "x", "to_be_posted_at": "tomorrow"});
    assert_eq!(status(&kit, Method::POST, path, wrong).await, 400);
}

#[tokio::test]
async fn a_list_accepts_only_followers() {
    let kit = Kit::new();
    let me = id_of(&kit.auth(DEMO)["account_id"]);
    let followers = all_pages(&kit, &format!("user/{me}/follower"), 100).await;
    let subscribers = all_pages(&kit, &format!("user/{me}/subscription"), 100).await;
    let follower = followers[0]["_id"].clone();
    let mut users = subscribers.iter().map(|row| &row["user"]["_id"]);
    let stranger = users.find(|id| followers.iter().all(|fan| fan["_id"] != **id)).unwrap();
    let list = post(&kit, "user-lists", json!({"name": "Close"})).await;
    let one = format!("user-lists/{}", id_of(&list["_id"]));
    let members = format!("{one}/users?limit=10");

    let both = json!({"user_ids": [follower, stranger]});
    let refused = send(&kit, Method::POST, &format!("{one}/add-users"), both).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]), (400, &json!("not_following")));
    assert_eq!(own(&kit, &members).await, json!([]));

    let right = json!({"user_ids": [follower]});
    for _ in 0..2 {
        let shown = post(&kit, &format!("{one}/add-users"), right.clone()).await;
        assert_eq!(shown["user_count"], 1);
    }
    assert_eq!(own(&kit, &members).await[0]["_id"], follower);
    put(&kit, &one, json!({"name": "Closer"})).await;
    let on = own(&kit, &format!("user-lists/contains-user/{}", id_of(&follower))).await;
    assert!(rows(&on).iter().any(|it| it["name"] == "Closer" && it["_id"] == list["_id"]));
    post(&kit, &format!("{one}/remove-users"), right).await;
    assert_eq!(own(&kit, &members).await, json!([]));
    ok(&kit, Method::DELETE, &one, none()).await;
    assert_eq!(status(&kit, Method::GET, &members, none()).await, 404);
    assert_eq!(status(&kit, Method::POST, "user-lists", json!({"name": " "})).await, 400);
}

#[tokio::test]
async fn following_and_being_followed_are_independent() {
    let kit = Kit::new();
    let me = id_of(&kit.auth(DEMO)["account_id"]);
    let fan = own(&kit, "follower?limit=1").await[0]["_id"].clone();
    let count = async |path: &str| all_pages(&kit, &format!("user/{me}/{path}"), 50).await.len();
    let call = async |method: Method, action: &str| {
        let path = format!("user/{}/{action}", id_of(&fan));
        kit.send(DEMO, method, &path, none()).await.status.as_u16()
    };

    assert_eq!(call(Method::POST, "follow").await, 200);
    assert_eq!(call(Method::POST, "follow").await, 200);
    assert_eq!(own(&kit, "following").await[0]["_id"], fan);
    assert_eq!((count("following").await, count("follower").await), (41, 214));

    assert_eq!(call(Method::DELETE, "un-follow").await, 200);
    assert_eq!((count("following").await, count("follower").await), (41, 213));
    assert_eq!(call(Method::DELETE, "un-follow").await, 404);

    assert_eq!(call(Method::DELETE, "follow").await, 200);
    assert_eq!((count("following").await, count("follower").await), (40, 213));

    let other = own(&kit, "following?limit=1").await[0]["_id"].clone();
    let unfollow = format!("user/{}/follow", id_of(&other));
    kit.send(DEMO, Method::DELETE, &unfollow, none()).await;
    assert_eq!(count("following").await, 39);
    assert_eq!(rows(&kit.get(DEMO, "base").await).len(), 39);
}

#[tokio::test]
async fn a_post_is_edited_commented_and_deleted() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let one = format!("file-stack/{}", ids.stack);
    let change = async |body: Value| kit.send(DEMO, Method::PUT, &one, body).await.status.as_u16();
    let shown = async || kit.get(DEMO, &one).await;

    let comments = shown().await["comment_count"].as_u64().unwrap();
    let made = kit.post(DEMO, &format!("{one}/comment"), json!({"text": "Thanks"})).await;
    assert_eq!(kit.get(DEMO, &format!("{one}/comment")).await[0], made);
    assert_eq!((&made["text"], &made["user"]["_id"]), (&json!("Thanks"), &json!(ids.me)));
    assert_eq!(shown().await["comment_count"], comments + 1);
    let comment = format!("{one}/comment/{}", id_of(&made["_id"]));
    assert_eq!(kit.send(DEMO, Method::DELETE, &comment, none()).await.status, 204);
    assert_eq!(kit.send(DEMO, Method::DELETE, &comment, none()).await.status, 404);

    assert_eq!(change(json!({"description": "New", "price": 300, "tag": "a, b"})).await, 200);
    let stack = shown().await;
    assert_eq!((&stack["description"], &stack["price"]), (&json!("New"), &json!(300)));
    assert_eq!((&stack["tag"], &stack["currency"]), (&json!(["a", "b"]), &json!("USD")));
    assert_eq!(change(json!({"price": 299})).await, 400);
    assert_eq!(change(json!({"private": "yes"})).await, 400);
    assert_eq!(change(json!({"_id": "x"})).await, 400);

    assert_eq!(kit.send(DEMO, Method::DELETE, &one, none()).await.status, 204);
    assert_eq!(kit.send(DEMO, Method::GET, &one, none()).await.status, 404);
    assert_eq!(rows(&own(&kit, "file-stack?limit=100").await).len(), 59);
}

#[tokio::test]
async fn an_upload_is_published_immediately() {
    let kit = Kit::new();
    let fields = [("description", "The sea"), ("price", "900"), ("tag", "sea,blue")];
    let made = upload(&kit, &fields, "image/jpeg").await;

    assert_eq!(made.status, 201, "{}", made.body);
    let made = made.body;
    assert_eq!(own(&kit, "file-stack?limit=1").await[0], made);
    assert_eq!(made["categories"], json!(["media", "image"]));
    assert_eq!((&made["price"], &made["status"]), (&json!(900), &json!("published")));
    assert_eq!((&made["tag"], &made["private"]), (&json!(["sea", "blue"]), &json!(false)));
    assert_eq!(made["files"][0], own(&kit, "vault?limit=1").await[0]);
    assert_eq!(
        (&made["files"][0]["size"], &made["files"][0]["filename"]),
        (&json!(4), &json!("sea.jpg"))
    );
    assert_eq!(made["comment_count"], 0);
    let sha256 = hex::encode(Sha256::digest(SEA));
    assert_eq!(made["files"][0]["sha256"], sha256.as_str());

    let subscription = [("is_subscription_item", "true"), ("price", "900")];
    let video = upload(&kit, &subscription, "video/mp4").await.body;
    assert_eq!((&video["price"], &video["is_subscription_item"]), (&json!(0), &json!(true)));
    assert_eq!(video["categories"], json!(["media", "video"]));
}

#[tokio::test]
async fn an_upload_can_be_scheduled_and_an_invalid_one_is_refused() {
    let kit = Kit::new();
    let later = [("to_be_posted_at", "2026-02-02T00:00:00Z"), ("categories", "media,moment")];
    let made = upload(&kit, &later, "image/jpeg").await.body;
    assert_eq!(
        (&made["status"], &made["categories"]),
        (&json!("scheduled"), &json!(["media", "moment"]))
    );
    kit.clock.advance_ms(25 * 3_600_000);
    assert_eq!(own(&kit, "file-stack?limit=1").await[0]["status"], "published");

    for wrong in [("price", "299"), ("price", "x"), ("private", "1"), ("to_be_posted_at", "soon")] {
        assert_eq!(upload(&kit, &[wrong], "image/jpeg").await.status, 400, "{wrong:?}");
    }
    assert_eq!(upload(&kit, &[], "text/plain").await.status, 400);
    let cut = b"--b\r\nContent-Disposition: form-data; name=\"file\"".to_vec();
    assert_eq!(kit.multipart(DEMO, "media/upload", "b", cut).await.status, 400);
    let empty = b"--b--\r\n".to_vec();
    assert_eq!(kit.multipart(DEMO, "media/upload", "b", empty).await.status, 400);
    let no_form = json!({"file": {"size": 3, "content_type": "image/png"}});
    assert_eq!(kit.send(DEMO, Method::POST, "media/upload", no_form).await.status, 400);
    assert_eq!(rows(&own(&kit, "vault?limit=100&offset=100").await).len(), 21);
}

#[tokio::test]
async fn writes_and_their_ids_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    let ids = Ids::find(&kit).await;
    let paths = [
        "subscription/configuration",
        "chatsByList?limit=100",
        "chat/unread-messages",
        "chat/configuration",
        "chat/mass-message/",
        "user-lists?limit=50",
        "following",
        "follower",
        "file-stack",
        "vault",
    ];
    let state = async |of: &Kit| {
        let mut all = Vec::new();
        for path in paths {
            all.push(own(of, path).await);
        }
        all
    };
    let before = state(&kit).await;
    post(&kit, "subscription/configuration", tier()).await;
    post(&kit, &format!("chat/{}/message", ids.chat), json!({"message": "Kept"})).await;
    post(&kit, &format!("chat/{}/mark-as-unread", ids.chat), none()).await;
    post(&kit, "chat/configuration", json!({"unlock_price": 1})).await;
    post(&kit, "chat/mass-message/", json!({"message": "Kept"})).await;
    post(&kit, "user-lists", json!({"name": "Kept"})).await;
    for (method, action) in [(Method::POST, "follow"), (Method::DELETE, "un-follow")] {
        let path = format!("user/{}/{action}", ids.fan);
        assert_eq!(kit.send(DEMO, method, &path, none()).await.status, 200);
    }
    assert_eq!(upload(&kit, &[("description", "Kept")], "image/jpeg").await.status, 201);
    let after = state(&kit).await;
    for (place, path) in paths.iter().enumerate() {
        assert_ne!(before[place], after[place], "{path}");
    }
    drop(kit);

    let restarted = Kit::on(folder.path());

    assert_eq!(state(&restarted).await, after);
    let sha256 = hex::encode(Sha256::digest(SEA));
    assert_eq!(restarted.file(&sha256).await.as_deref(), Some(SEA));
    assert_eq!(restarted.file("../journal-platform_gamma.jsonl").await, None);
    let list = post(&restarted, "user-lists", json!({"name": "New"})).await;
    assert!(!rows(&after[5]).iter().any(|old| old["_id"] == list["_id"]));
}
