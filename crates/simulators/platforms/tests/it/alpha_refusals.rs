//! The refusals of `platform_alpha`, in its own error format.

use http::Method;
use serde_json::{Value, json};

use crate::alpha::DEMO;
use crate::kit::{Kit, id_of, none};
use crate::refusals::{Refused, are_refused, get, of_alpha, post, refused};

/// Sends all requests; what can be read must not change.
async fn all_refused(kit: &Kit, rows: &[Refused]) {
    let reads = [
        "users/me",
        "users/me/settings",
        "users/settings/post",
        "users/social/buttons",
        "users/restrict",
        "chats?limit=100",
        "messages/queue?limit=100",
        "posts?limit=100",
        "schedules",
        "users/me/stories",
        "lists?limit=100",
        "vault/lists",
        "subscriptions/bundles",
        "campaigns?limit=100",
    ];
    let reads: Vec<String> = reads.map(str::to_owned).into();
    are_refused(kit, DEMO, rows, of_alpha, &reads).await;
}

fn patch(path: &str, body: Value, status: u16) -> Refused {
    refused(Method::PATCH, path, body, status)
}

fn put(path: &str, body: Value, status: u16) -> Refused {
    refused(Method::PUT, path, body, status)
}

fn delete(path: impl Into<String>, body: Value, status: u16) -> Refused {
    refused(Method::DELETE, path, body, status)
}

#[tokio::test]
async fn refusals_of_the_specification_are_simulated() {
    let kit = Kit::new();
    let fan = id_of(&kit.get(DEMO, "chats").await["list"][0]["id"]);
    let rows = [
        get("payouts/dac7", 403),
        get("users/list", 400),
        get("users/list?ids=", 400),
        get("users/list?ids[]=", 400),
        get("messages/queue/7/buyers", 404),
        get(format!("messages/queue/{fan}/buyers"), 404),
        get("messages/queue/nothing/buyers", 404),
        get("giphy/proxy/anything", 404),
        get("no/such/route", 404),
        get("users/me/", 404),
        put("users/me", none(), 405),
        delete("chats", none(), 405),
    ];
    all_refused(&kit, &rows).await;
    // An eligible creator is not refused.
    kit.get("nova_alpha", "payouts/dac7").await;
}

#[tokio::test]
async fn missing_things_are_refused() {
    let kit = Kit::new();
    let foreign = id_of(&kit.get("nova_alpha", "chats").await["list"][0]["id"]);
    let list = id_of(&kit.get(DEMO, "lists").await["list"][0]["id"]);
    let folder = id_of(&kit.get(DEMO, "vault/lists").await["list"][0]["id"]);
    let mut rows = vec![
        put("schedules/7/publish", none(), 404),
        put("stories/7/watched", none(), 404),
        delete("stories/highlights/7/7", none(), 404),
        delete(format!("lists/{list}/users/7"), none(), 404),
        delete("lists/7/users/7", none(), 404),
        delete(format!("vault/lists/{folder}/media"), json!({"mediaIds": [7]}), 404),
        delete("vault/lists/7/media", json!({"mediaIds": [7]}), 404),
        patch("vault/lists/7", json!({"name": "x"}), 404),
        post("lists/users", json!({"id": 7, "users": [7]}), 404),
    ];
    for id in ["7", "x", &foreign] {
        rows.extend([
            get(format!("chats/{id}/messages"), 404),
            get(format!("chats/{id}/messages/search?query=a"), 404),
            get(format!("posts/{id}/comments"), 404),
            get(format!("posts/{id}/stats"), 404),
            get(format!("stories/{id}"), 404),
            get(format!("stories/{id}/viewers"), 404),
            get(format!("stories/highlights/{id}"), 404),
            get(format!("users/{id}/stories/highlights"), 404),
            get(format!("lists/{id}/users"), 404),
            get(format!("lists/{id}/users/pinned"), 404),
            get(format!("vault/lists/{id}"), 404),
            get(format!("campaigns/{id}/claimers"), 404),
            post(format!("users/{id}/restrict"), none(), 404),
            post(format!("chats/{id}/mark-as-read"), none(), 404),
            delete(format!("chats/{id}/mark-as-read"), none(), 404),
            post(format!("chats/{id}/mute"), none(), 404),
            post(format!("messages/{id}/pin"), none(), 404),
            post(format!("posts/{id}/pin"), none(), 404),
            post(format!("comments/{id}/pin"), none(), 404),
            post(format!("lists/{list}/users/{id}/pin"), none(), 404),
        ]);
    }
    all_refused(&kit, &rows).await;
}

#[tokio::test]
async fn invalid_bodies_and_queries_are_refused() {
    let kit = Kit::new();
    let fan = kit.get(DEMO, "chats").await["list"][0]["id"].clone();
    let list = kit.get(DEMO, "lists").await["list"][0]["id"].clone();
    let folder = id_of(&kit.get(DEMO, "vault/lists").await["list"][0]["id"]);
    let buttons = kit.get(DEMO, "users/social/buttons").await;
    let (first, second) = (&buttons[0]["id"], &buttons[1]["id"]);
    let rows = [
        patch("users/me", json!({}), 400),
        patch("users/me", json!({"id": 1, "isVerified": false}), 400),
        patch("users/me/settings/messages", json!({"other": 1}), 400),
        patch("users/settings/post", none(), 400),
        post("users/social/buttons", json!({"label": "x"}), 400),
        post("users/social/buttons", json!({"label": "x", "url": "http://x.test"}), 400),
        put("users/social/buttons", json!({"ids": [first]}), 400),
        put("users/social/buttons", json!({"ids": [first, second, first]}), 400),
        put("users/social/buttons", json!({"ids": [first, 7]}), 400),
        post("users/exists", json!({}), 400),
        post("release-forms/attach", json!({"mediaId": 7, "userIds": [fan]}), 400),
        post("messages/queue", json!({"text": " "}), 400),
        post("messages/queue", json!({"text": "x", "scheduledDate": "soon"}), 400),
        post("messages/queue", json!({"text": "x", "scheduledDate": 7}), 400),
        post("messages/queue", json!({"text": "x", "scheduledDate": "2026-01-31"}), 400),
        post("stories", json!({"mediaId": fan}), 400),
        post("stories", none(), 400),
        post("stories/highlights", json!({"storyIds": []}), 400),
        post("stories/highlights", json!({"title": "x", "storyIds": [7]}), 400),
        post("lists", json!({"name": ""}), 400),
        post("lists/users", json!({"id": list}), 400),
        post("lists/users", json!({"id": list, "users": []}), 400),
        post("lists/users", json!({"id": list, "users": [fan, 7]}), 400),
        patch(&format!("vault/lists/{folder}"), json!({"name": " "}), 400),
        delete(format!("vault/lists/{folder}/media"), none(), 400),
        post("subscriptions/bundles", json!({"duration": 13, "discount": 5}), 400),
        post("subscriptions/bundles", json!({"duration": 3, "discount": 96}), 400),
        post("subscriptions/bundles", json!({"duration": 3}), 400),
        post("campaigns", json!({"name": ""}), 400),
        post(format!("chats/{fan}/messages"), json!({"text": ""}), 400),
        post(format!("chats/{fan}/messages"), json!({"text": "x", "price": 3}), 400),
        get(format!("chats/{fan}/messages?before_id=7"), 404),
        get(format!("chats/{fan}/messages/search"), 400),
        get("subscriptions/subscribers?type=new", 400),
        get("subscriptions/subscribers?limit=x", 400),
        get("lists?offset=-1", 400),
        get("earnings/chart?startDate=yesterday", 400),
        get("campaigns/chart?startDate=2026-02-01&endDate=2026-01-01", 400),
    ];
    all_refused(&kit, &rows).await;
}

#[tokio::test]
async fn published_posts_are_not_published_again() {
    let kit = Kit::new();
    let schedule = id_of(&kit.get(DEMO, "schedules").await["list"][0]["id"]);
    let path = format!("schedules/{schedule}/publish");
    kit.send(DEMO, Method::PUT, &path, none()).await;

    all_refused(&kit, &[put(&path, none(), 409)]).await;
}
