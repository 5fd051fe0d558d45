//! The refusals of `platform_gamma`, in its own error format.

use http::Method;
use serde_json::{Value, json};

use crate::gamma::{DEMO, Ids, all_pages, deletion, own, rows, tier};
use crate::kit::{Kit, id_of, none};
use crate::refusals::{Refused, are_refused, get, is_refusal, of_gamma, post, refused};

/// The creator whose plan does not include mass messages.
const FREE: &str = "ruby_gamma";

/// Sends all requests; lists, chats, tiers and posts must not change.
async fn all_refused(kit: &Kit, rows: &[Refused]) {
    let me = id_of(&kit.auth(DEMO)["account_id"]);
    let reads = [
        "subscription/configuration",
        "chatsByList?limit=100",
        "chat/unread-messages",
        "chat/configuration",
        "chat/mass-message/",
        "user-lists?limit=100",
        "following",
        "follower?limit=100",
        "file-stack?limit=100",
    ];
    let reads: Vec<String> = reads.iter().map(|path| format!("user/{me}/{path}")).collect();
    are_refused(kit, DEMO, rows, of_gamma, &reads).await;
}

fn put(path: String, body: Value, status: u16) -> Refused {
    refused(Method::PUT, path, body, status)
}

fn delete(path: String, status: u16) -> Refused {
    refused(Method::DELETE, path, none(), status)
}

#[tokio::test]
async fn missing_and_invalid_limits_are_refused() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let (me, list) = (&ids.me, &ids.list);
    let needing = [
        format!("user/{me}/chatsByList"),
        format!("user/{me}/subscription"),
        format!("user/{me}/user-lists"),
        format!("user/{me}/user-lists/{list}/users"),
    ];
    let free = [format!("user/{me}/follower"), format!("user/{me}/file-stack"), "base".to_owned()];
    let without = needing.iter().map(|path| get(path, 400));
    let wrong = ["limit=", "limit=0", "limit=-1", "limit=101", "limit=99999999999999999999"];
    let offsets = ["limit=5&offset=-1", "limit=5&offset=x", "limit=5&offset="];
    let queries = wrong.into_iter().chain(offsets);
    let paths = || needing.iter().chain(&free);
    let with: Vec<Refused> = queries
        .flat_map(|query| paths().map(move |path| get(format!("{path}?{query}"), 400)))
        .collect();

    all_refused(&kit, &without.chain(with).collect::<Vec<_>>()).await;

    for path in &free {
        assert_eq!(kit.send(DEMO, Method::GET, path, none()).await.status, 200);
    }
}

#[tokio::test]
async fn invalid_tiers_are_refused() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let (me, made) = (&ids.me, own(&kit, "subscription/configuration").await[1].clone());
    let path = format!("user/{me}/subscription/configuration");
    let one = format!("{path}/{}", id_of(&made["_id"]));
    let with = |pointer: &str, value: Value| {
        let mut body = tier();
        *body.pointer_mut(pointer).unwrap() = value;
        body["modification_type"] = json!("price_change");
        body
    };
    let netto =
        json!({"amount": 1, "duration_unit": "day", "duration_value": 1, "amount_netto": 1});
    let mut top = deletion();
    top["amount_netto"] = json!(1);
    let mut table = vec![
        put(one.clone(), top, 400),
        put(one.clone(), json!({"status": "deleted"}), 400),
        delete(one.clone(), 405),
        put(format!("{path}/{me}"), deletion(), 404),
        get("me", 404),
    ];
    for body in [
        with("/recurring_payment", netto.clone()),
        with("/initial_payment_options/1", netto.clone()),
        with("/initial_payment_options/0/description", json!({"deep": [{"amount_netto": 1}]})),
        with("/price", json!("1500")),
        with("/status", json!("gone")),
        with("/repeat_days", json!(0)),
        with("/initial_payment_options", json!({})),
    ] {
        table.push(post(&path, body.clone(), 400));
        table.push(put(one.clone(), body, 400));
    }

    all_refused(&kit, &table).await;

    let gone = kit.send(DEMO, Method::PUT, &one, deletion()).await;
    assert_eq!((gone.status.as_u16(), &gone.body["status"]), (200, &json!("deleted")));
    all_refused(&kit, &[put(one, deletion(), 409)]).await;
}

#[tokio::test]
async fn invalid_chats_and_messages_are_refused() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let me = &ids.me;
    let unread = own(&kit, "chat/unread-messages").await;
    let unread = unread.as_object().unwrap().keys().next().unwrap().clone();
    let chat = |id: &str, rest: &str| format!("user/{me}/chat/{id}{rest}");
    let messages = own(&kit, &format!("chat/{}/message?limit=100", ids.chat)).await;
    let theirs = rows(&messages).iter().find(|message| message["user_id"] != *me).unwrap();
    let theirs = chat(&ids.chat, &format!("/message/{}", id_of(&theirs["_id"])));
    let message = chat(&ids.chat, "/message");

    all_refused(
        &kit,
        &[
            post(chat(&unread, "/mark-as-unread"), none(), 409),
            post(chat(me, "/mark-as-unread"), none(), 404),
            post(chat(&ids.chat, "/pin"), none(), 400),
            post(chat(&ids.chat, "/pin"), json!({"is_pinned": "yes"}), 400),
            post(chat("configuration", ""), json!({"unlock_price": -1}), 400),
            post(chat("configuration", ""), json!({"message_price": "5"}), 400),
            post(&message, none(), 400),
            post(&message, json!({"message": " "}), 400),
            post(&message, json!({"message": 5}), 400),
            post(&message, json!({"message": "x", "message_price": -1}), 400),
            post(&message, json!({"message": "x", "file_stack_id": ids.chat}), 400),
            post(chat(me, "/message"), json!({"message": "x"}), 404),
            put(theirs, json!({"text": "mine now"}), 403),
            put(chat(&ids.chat, &format!("/message/{me}")), json!({"text": "x"}), 404),
            put(chat(me, "/delete-all-chat-messages-for-user"), none(), 404),
            put(chat(me, "/delete-chat-for-user-by-user-id"), none(), 404),
            get(chat(me, ""), 404),
        ],
    )
    .await;
}

#[tokio::test]
async fn mass_messages_without_a_plan_or_already_sent_are_refused() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let path = format!("user/{}/chat/mass-message/", ids.me);
    let sent = format!("{path}{}", id_of(&own(&kit, "chat/mass-message/").await[1]["_id"]));
    all_refused(
        &kit,
        &[
            put(sent.clone(), json!({"message": "x"}), 409),
            delete(sent, 409),
            put(format!("{path}{}", ids.me), json!({"message": "x"}), 404),
            post(&path, json!({"message": ""}), 400),
            post(&path, json!({"message": "x", "to_be_posted_at": "tomorrow"}), 400),
        ],
    )
    .await;

    let free = id_of(&kit.auth(FREE)["account_id"]);
    let of_free = format!("user/{free}/chat/mass-message/");
    let row = post(&of_free, json!({"message": "Hi"}), 403).with_code("feature_not_available");
    are_refused(&kit, FREE, &[row], of_gamma, &[of_free]).await;
}

#[tokio::test]
async fn invalid_lists_follows_comments_and_posts_are_refused() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let me = &ids.me;
    let followers = all_pages(&kit, &format!("user/{me}/follower"), 100).await;
    let subscribers = all_pages(&kit, &format!("user/{me}/subscription"), 100).await;
    let mut users = subscribers.iter().map(|row| &row["user"]["_id"]);
    let stranger = users.find(|id| followers.iter().all(|fan| fan["_id"] != **id)).unwrap();
    let list = format!("user/{me}/user-lists/{}", ids.list);
    let stack = format!("file-stack/{}", ids.stack);
    let both = json!({"user_ids": [ids.fan, stranger]});
    all_refused(
        &kit,
        &[
            post(format!("{list}/add-users"), both, 400).with_code("not_following"),
            post(format!("{list}/add-users"), json!({"user_ids": []}), 400),
            post(format!("{list}/add-users"), json!({"user_ids": [me]}), 400),
            post(format!("{list}/remove-users"), json!({"user_ids": ["x"]}), 400),
            post(format!("user/{me}/user-lists"), json!({"name": " "}), 400),
            put(list.clone(), json!({}), 400),
            delete(format!("user/{me}/user-lists/{me}"), 404),
            get(format!("user/{me}/user-lists/contains-user/{me}"), 404),
            post(format!("user/{}/follow", ids.list), none(), 404),
            delete(format!("user/{}/un-follow", id_of(stranger)), 404),
            post(format!("{stack}/comment"), json!({"text": ""}), 400),
            delete(format!("{stack}/comment/{me}"), 404),
            put(stack.clone(), json!({}), 400),
            put(stack.clone(), json!({"price": 299}), 400),
            put(stack.clone(), json!({"private": "yes"}), 400),
            put(stack.clone(), json!({"description": 5}), 400),
            put(stack.clone(), json!({"categories": [1]}), 400),
            put(stack, json!({"to_be_posted_at": "2026-05-01T00:00:00Z"}), 409),
            get("reels", 400),
            get(format!("user/{me}/subscription?limit=5&status=gone"), 400),
            get(format!("user/{me}/process/stats?init_from=yesterday"), 400),
            get(format!("user/{me}/process/stats?init_to=2026-13-01"), 400),
        ],
    )
    .await;
}

#[tokio::test]
async fn requests_for_other_accounts_are_refused() {
    let kit = Kit::new();
    let (me, nova) =
        (id_of(&kit.auth(DEMO)["account_id"]), id_of(&kit.auth("nova_gamma")["account_id"]));
    let foreign: Vec<Refused> = ["chatsByList?limit=5", "vault", "payout", "process/stats"]
        .iter()
        .map(|path| get(format!("user/{nova}/{path}"), 403))
        .chain([post(format!("user/{nova}/user-lists"), json!({"name": "x"}), 403)])
        .chain([get(format!("user/{nova}"), 404), get("nowhere", 404)])
        .chain([refused(Method::PATCH, format!("user/{me}/vault"), none(), 405)])
        .collect();
    all_refused(&kit, &foreign).await;

    let nobody = kit.raw(Method::GET, &format!("/platform_gamma/user/{me}"), &[], none()).await;
    is_refusal(&nobody, 401, "unauthorized", of_gamma, "without credentials");
    let auth = kit.auth(DEMO);
    let headers = [
        ("authorization", format!("Bearer {}", id_of(&auth["token"]))),
        ("x-resource", id_of(&auth["resource"])),
    ];
    let target = format!("/platform_gamma/user/{me}/user-lists");
    let broken = kit.raw_text(&target, &headers, "{\"name\":").await;
    is_refusal(&broken, 400, "bad_request", of_gamma, "a body that is not JSON");
}
