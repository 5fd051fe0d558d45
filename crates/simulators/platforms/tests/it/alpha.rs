//! `platform_alpha`.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use simulator_platforms::PlatformSettings;

use crate::kit::{Kit, Row, id_of, none};

pub(crate) const DEMO: &str = "demo_alpha";

/// All 78 routes of specification 4.4. Creations come first, so that deletions have something to
/// delete.
fn table(ids: &Ids) -> Vec<Row> {
    let mut rows = vec![
        Row::get("users/me"),
        Row::new("PATCH", "users/me", json!({"about": "Hello"})),
        Row::get("users/me/start-date-model"),
        Row::get("users/me/settings"),
        Row::new("PATCH", "users/me/settings/messages", json!({"welcomeMessage": "Hi"})),
        Row::get("users/settings/post"),
        Row::new("PATCH", "users/settings/post", json!({"showTips": true})),
        Row::get("users/social/buttons"),
        Row::new("PUT", "users/social/buttons", json!({"ids": ids.buttons})),
        Row::new("POST", "users/social/buttons", json!({"label": "x", "url": "https://x.test"}))
            .answers(201),
        Row::new("POST", "users/exists", json!({"username": "demo"})),
        Row::get("users/me/stats/overview"),
        Row::get("users/me/stats/top/message"),
        Row::get("users/me/profile/stats"),
        Row::get("subscriptions/count/all"),
        Row::get("earnings/chart"),
        Row::get("payments/all/has-transactions"),
        Row::get("payments/all/transactions"),
        Row::get("payouts/account"),
        Row::get("payouts/bank"),
        Row::get("payouts/dac7").answers(403),
        Row::get("payouts/legal-info"),
        Row::get("payouts/legal-form"),
        Row::get("countries/payouts"),
        Row::get("payouts/chargebacks"),
        Row::get("payouts/chargebacks/chart"),
        Row::get("payouts/chargebacks/ratio"),
        Row::get("users/blocked"),
        Row::get("users/restrict"),
        Row::get("users/list").answers(400),
        Row::new("POST", "users/{user_id}/restrict", none()),
        Row::get("subscriptions/subscribers"),
        Row::get("chats/{chat_id}/messages"),
        Row::get("chats/{chat_id}/messages/search").query("?query=the"),
        Row::new("POST", "chats/mark-as-read", none()),
        Row::new("POST", "chats/{chat_id}/mark-as-read", none()),
        Row::new("DELETE", "chats/{chat_id}/mark-as-read", none()),
        Row::new("POST", "chats/{chat_id}/mute", none()),
        Row::new("POST", "messages/{message_id}/pin", none()),
        Row::get("messages/templates"),
    ];
    rows.extend(content_table(ids));
    rows
}

/// The part of the table about mass messages, posts, stories, lists, the vault and campaigns.
fn content_table(ids: &Ids) -> Vec<Row> {
    let number = |id: &str| id.parse::<u64>().unwrap();
    let media = number(&ids.media);
    vec![
        Row::new("POST", "release-forms/attach", json!({"mediaId": media, "userIds": []})),
        Row::get("messages/queue"),
        Row::get("messages/queue/chart"),
        Row::get("messages/queue/{queue_id}/buyers"),
        Row::new("POST", "messages/queue", json!({"text": "Hi all"})).answers(201),
        Row::get("posts/{post_id}/comments"),
        Row::get("posts/{post_id}/stats"),
        Row::get("posts/bookmarks/categories"),
        Row::new("POST", "posts/{post_id}/pin", none()),
        Row::new("POST", "comments/{comment_id}/pin", none()),
        Row::new("PUT", "schedules/{schedule_id}/publish", none()),
        Row::get("users/me/stories"),
        Row::get("stories/archive"),
        Row::get("stories/{story_id}"),
        Row::get("stories/{story_id}/viewers"),
        Row::get("users/{user_id}/stories/highlights"),
        Row::get("stories/highlights/{highlight_id}"),
        Row::new("POST", "stories", json!({"mediaId": media})).answers(201),
        Row::new("POST", "stories/highlights", json!({"title": "x"})).answers(201),
        Row::new("PUT", "stories/{story_id}/watched", none()),
        Row::new("DELETE", "stories/highlights/{highlight_id}/{highlight_id2}", none()),
        Row::get("lists"),
        Row::new("POST", "lists", json!({"name": "x"})).answers(201),
        Row::get("lists/{list_id}/users"),
        Row::get("lists/{list_id}/users/pinned"),
        Row::new("POST", "lists/users", json!({"id": ids.list, "users": [number(&ids.fan)]})),
        Row::new("POST", "lists/{list_id}/users/{user_id}/pin", none()),
        Row::new("DELETE", "lists/{list_id}/users/{user_id}", none()),
        Row::get("vault/lists/{folder_id}"),
        Row::new("PATCH", "vault/lists/{folder_id}", json!({"name": "New"})),
        Row::new("DELETE", "vault/lists/{folder_id}/media", json!({"mediaIds": [media]})),
        Row::get("subscriptions/bundles"),
        Row::new("POST", "subscriptions/bundles", json!({"duration": 2, "discount": 5}))
            .answers(201),
        Row::get("campaigns"),
        Row::new("POST", "campaigns", json!({"campaignName": "x"})).answers(201),
        Row::get("campaigns/chart"),
        Row::get("campaigns/{campaign_id}/claimers"),
        Row::get("giphy/proxy/{proxy_id}"),
    ]
}

struct Ids {
    fan: String,
    message: String,
    queue: String,
    post: String,
    comment: String,
    schedule: String,
    story: String,
    highlight: String,
    highlight_story: String,
    list: String,
    folder: String,
    media: String,
    campaign: String,
    buttons: Vec<Value>,
}

impl Ids {
    /// Takes all ids from responses, as a caller does.
    async fn find(kit: &Kit) -> Self {
        let first = async |path: &str| id_of(&kit.get(DEMO, path).await["list"][0]["id"]);
        let fan = first("chats").await;
        let me = id_of(&kit.get(DEMO, "users/me").await["id"]);
        let highlights = kit.get(DEMO, &format!("users/{me}/stories/highlights")).await;
        let highlight = &highlights["list"][0];
        let folder = first("vault/lists").await;
        let media = kit.get(DEMO, &format!("vault/lists/{folder}")).await;
        let mut post = String::new();
        let mut comment = Value::Null;
        for found in kit.get(DEMO, "posts").await["list"].as_array().unwrap() {
            post = id_of(&found["id"]);
            comment = kit.get(DEMO, &format!("posts/{post}/comments")).await["list"][0].clone();
            if comment != Value::Null {
                break;
            }
        }
        let buttons = kit.get(DEMO, "users/social/buttons").await;
        let mut buttons: Vec<Value> =
            buttons.as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
        buttons.reverse();
        Self {
            message: first(&format!("chats/{fan}/messages")).await,
            queue: first("messages/queue").await,
            comment: id_of(&comment["id"]),
            post,
            schedule: first("schedules").await,
            story: first("stories/archive").await,
            highlight: id_of(&highlight["id"]),
            highlight_story: id_of(&highlight["stories"][0]["id"]),
            list: first("lists").await,
            media: id_of(&media["medias"][0]["id"]),
            folder,
            campaign: first("campaigns").await,
            buttons,
            fan,
        }
    }

    fn named(&self) -> Vec<(&'static str, String)> {
        [
            ("user_id", &self.fan),
            ("chat_id", &self.fan),
            ("message_id", &self.message),
            ("queue_id", &self.queue),
            ("post_id", &self.post),
            ("comment_id", &self.comment),
            ("schedule_id", &self.schedule),
            ("story_id", &self.story),
            ("highlight_id", &self.highlight),
            ("highlight_id2", &self.highlight_story),
            ("list_id", &self.list),
            ("folder_id", &self.folder),
            ("campaign_id", &self.campaign),
            ("proxy_id", &"search".to_owned()),
        ]
        .map(|(name, id)| (name, id.clone()))
        .into()
    }
}

#[tokio::test]
async fn every_route_of_the_specification_responds_to_its_owner_only() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let rows = table(&ids);
    assert_eq!(rows.len(), 78);

    for row in &rows {
        let path = row.path(&ids.named());
        let target = format!("/platform_alpha/{path}");
        let anonymous = kit.raw(row.method(), &target, &[], row.body.clone()).await;
        assert_eq!(anonymous.status, 401, "{}", row.name());
        assert_eq!(anonymous.body["error"]["code"], 401, "{}", row.name());

        let reply = kit.send(DEMO, row.method(), &path, row.body.clone()).await;
        assert_eq!(reply.status, row.status, "{} {}", row.name(), reply.body);
        assert!(reply.body.is_object() || reply.body.is_array(), "{}", row.name());
    }
}

/// Routes that are not in the specification's list, but that its other routes and exports need.
const UNLISTED: [&str; 5] =
    ["GET chats", "POST chats/{}/messages", "GET posts", "GET schedules", "GET vault/lists"];

#[tokio::test]
async fn the_platform_has_the_routes_of_the_table_and_five_more() {
    let kit = Kit::new();
    let written = table(&Ids::find(&kit).await);
    let written = written.iter().map(|row| without_names(&row.name()));
    let expected: BTreeSet<String> = written.chain(UNLISTED.map(str::to_owned)).collect();

    let routes = kit.routes("platform_alpha").await;
    let has: BTreeSet<String> = routes.iter().map(|route| without_names(route)).collect();

    assert_eq!(has, expected);
    assert_eq!(routes.len(), 78 + UNLISTED.len());
}

/// A route with the names of its parameters removed.
fn without_names(route: &str) -> String {
    let alike =
        |segment: &str| if segment.starts_with('{') { "{}".to_owned() } else { segment.to_owned() };
    let segments: Vec<String> = route.split('/').map(alike).collect();
    segments.join("/")
}

#[tokio::test]
async fn an_empty_account_has_only_empty_lists() {
    let kit = Kit::new();
    for path in [
        "users/blocked",
        "users/restrict",
        "subscriptions/subscribers",
        "payments/all/transactions",
        "payouts/chargebacks",
        "chats",
        "messages/templates",
        "messages/queue",
        "users/me/stories",
        "stories/archive",
        "lists",
        "campaigns",
        "posts",
        "posts/bookmarks/categories",
    ] {
        let body = kit.get("fresh_alpha", path).await;
        assert_eq!(body, json!({"list": [], "hasMore": false}), "{path}");
    }
    for path in ["users/me/stats/overview", "payouts/account", "payouts/chargebacks/ratio"] {
        kit.get("fresh_alpha", path).await;
    }
}

#[tokio::test]
async fn a_session_requires_its_user_id_and_a_browser() {
    let kit = Kit::new();
    let (demo, nova) = (kit.auth(DEMO), kit.auth("nova_alpha"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let session = format!("Session {}", text(&demo["session_token"]));
    let full = [
        ("authorization", session.clone()),
        ("x-user-id", text(&demo["user_id"])),
        ("user-agent", "x".to_owned()),
    ];
    let with = |name: &str, value: &str| {
        full.clone().map(|(key, old)| (key, if key == name { value.to_owned() } else { old }))
    };
    let target = "/platform_alpha/users/me";

    let right = kit.raw(Method::GET, target, &full, none()).await;
    assert_eq!(right.status, 200);
    assert_eq!(id_of(&right.body["id"]), text(&demo["user_id"]));
    for wrong in [
        with("x-user-id", &text(&nova["user_id"])),
        with("user-agent", " "),
        with("authorization", "Session nobody"),
        with("authorization", &text(&demo["session_token"])),
    ] {
        assert_eq!(kit.raw(Method::GET, target, &wrong, none()).await.status, 401, "{wrong:?}");
    }
}

#[tokio::test]
async fn the_same_fan_has_the_same_id_and_name_wherever_it_appears() {
    let kit = Kit::new();
    let fans = kit.get(DEMO, "subscriptions/subscribers?limit=100&type=all").await;
    let chats = kit.get(DEMO, "chats?limit=100").await;
    let payments = kit.get(DEMO, "payments/all/transactions?limit=100").await;
    let known = |user: &Value| -> Option<Value> {
        let fan = fans["list"].as_array().unwrap().iter().find(|fan| fan["id"] == user["id"]);
        fan.map(|fan| fan["name"].clone())
    };

    let mut seen = 0;
    let with_users = chats["list"].as_array().unwrap().iter().map(|chat| &chat["withUser"]);
    let paying = payments["list"].as_array().unwrap().iter().map(|payment| &payment["user"]);
    for user in with_users.chain(paying) {
        if let Some(name) = known(user) {
            assert_eq!(name, user["name"]);
            seen += 1;
        }
        let by_id = kit.get(DEMO, &format!("users/list?ids[]={}", user["id"])).await;
        assert_eq!(by_id[user["id"].to_string()]["name"], user["name"]);
    }
    assert!(seen > 50);
}

#[tokio::test]
async fn creators_see_different_fans() {
    let kit = Kit::new();
    let demo = kit.get(DEMO, "subscriptions/subscribers").await;
    let nova = kit.get("nova_alpha", "subscriptions/subscribers").await;
    assert_ne!(demo["list"][0]["id"], nova["list"][0]["id"]);
    let foreign = format!("chats/{}/messages", nova["list"][0]["id"]);
    assert_eq!(kit.send(DEMO, Method::GET, &foreign, none()).await.status, 404);
}

/// Reads all pages with `limit` and `offset`.
async fn all_pages(kit: &Kit, path: &str, limit: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = kit.get(DEMO, &format!("{path}{sign}limit={limit}&offset={}", rows.len())).await;
        let list = page["list"].as_array().unwrap();
        rows.extend(list.iter().cloned());
        if page["hasMore"] == false {
            return rows;
        }
        assert_eq!(list.len(), limit);
    }
}

#[tokio::test]
async fn pages_cover_everything_once() {
    let kit = Kit::new();
    for (path, count) in [
        ("subscriptions/subscribers", 240),
        ("subscriptions/subscribers?type=active", 192),
        ("subscriptions/subscribers?type=expired", 48),
        ("payments/all/transactions", 720),
        ("chats", 160),
        ("stories/archive", 24),
    ] {
        let rows = all_pages(&kit, path, 37).await;
        let ids: BTreeSet<String> = rows.iter().map(|row| id_of(&row["id"])).collect();
        assert_eq!((rows.len(), ids.len()), (count, count), "{path}");
    }
}

#[tokio::test]
async fn messages_page_back_with_before_id_while_new_ones_arrive() {
    let kit = Kit::new();
    let chat = id_of(&kit.get(DEMO, "chats").await["list"][0]["id"]);
    let path = format!("chats/{chat}/messages?limit=3");
    let total = kit.get(DEMO, "chats").await["list"][0]["messagesCount"].as_u64().unwrap();

    let mut seen = Vec::new();
    let mut page = kit.get(DEMO, &path).await;
    loop {
        seen.extend(page["list"].as_array().unwrap().iter().map(|it| it["id"].clone()));
        if page["hasMore"] == false {
            break;
        }
        kit.post(DEMO, &format!("chats/{chat}/messages"), json!({"text": "new"})).await;
        let last = id_of(seen.last().unwrap());
        page = kit.get(DEMO, &format!("{path}&before_id={last}")).await;
    }

    let distinct: BTreeSet<String> = seen.iter().map(id_of).collect();
    assert_eq!((seen.len() as u64, distinct.len() as u64), (total, total));
}

#[tokio::test]
async fn payments_can_be_filtered_by_day() {
    let kit = Kit::new();
    let path = "payments/all/transactions?startDate=2025-12-01&endDate=2025-12-07";
    let rows = all_pages(&kit, path, 50).await;
    assert!(!rows.is_empty());
    for row in &rows {
        let day = &row["createdAt"].as_str().unwrap()[..10];
        assert!(("2025-12-01"..="2025-12-07").contains(&day));
    }
    let everything = all_pages(&kit, "payments/all/transactions", 100).await;
    let within = everything.iter().filter(|row| {
        ("2025-12-01"..="2025-12-07").contains(&&row["createdAt"].as_str().unwrap()[..10])
    });
    assert_eq!(rows.len(), within.count());
}

#[tokio::test]
async fn a_sent_message_is_in_the_chat_and_moves_it_to_the_top() {
    let kit = Kit::new();
    let chats = kit.get(DEMO, "chats").await;
    let chat = id_of(&chats["list"][5]["id"]);

    let sent = kit.post(DEMO, &format!("chats/{chat}/messages"), json!({"text": "for you"})).await;

    let messages = kit.get(DEMO, &format!("chats/{chat}/messages")).await;
    assert_eq!(messages["list"][0], sent);
    assert_eq!(sent["fromUser"]["id"], kit.get(DEMO, "users/me").await["id"]);
    let top = &kit.get(DEMO, "chats").await["list"][0];
    assert_eq!(id_of(&top["id"]), chat);
    assert_eq!(top["lastMessage"]["text"], "for you");
    assert_eq!(all_pages(&kit, "chats", 50).await.len(), 160);
    let found = kit.get(DEMO, &format!("chats/{chat}/messages/search?query=FOR%20YOU")).await;
    assert_eq!(found["list"][0]["id"], sent["id"]);
    kit.post(DEMO, &format!("messages/{}/pin", sent["id"]), none()).await;
    let pinned = kit.get(DEMO, &format!("chats/{chat}/messages")).await;
    assert_eq!(pinned["list"][0]["isPinned"], true);
}

#[tokio::test]
async fn chats_can_be_marked_read_unread_and_muted() {
    let kit = Kit::new();
    let chat = id_of(&kit.get(DEMO, "chats").await["list"][0]["id"]);
    let state = async || kit.get(DEMO, "chats").await["list"][0].clone();
    assert_eq!(state().await["hasUnread"], true);

    kit.post(DEMO, "chats/mark-as-read", none()).await;
    assert_eq!(state().await["unreadMessagesCount"], 0);

    let mark = format!("chats/{chat}/mark-as-read");
    kit.send(DEMO, Method::DELETE, &mark, none()).await;
    assert_eq!(state().await["hasUnread"], true);
    kit.post(DEMO, &mark, none()).await;
    assert_eq!(state().await["hasUnread"], false);

    kit.post(DEMO, &format!("chats/{chat}/mute"), none()).await;
    assert_eq!(state().await["isMutedNotifications"], true);
    kit.post(DEMO, &format!("chats/{chat}/mute"), json!({"mute": false})).await;
    assert_eq!(state().await["isMutedNotifications"], false);
}

#[tokio::test]
async fn lists_can_be_created_filled_and_emptied() {
    let kit = Kit::new();
    let fans = kit.get(DEMO, "subscriptions/subscribers").await;
    let (first, second) = (&fans["list"][0]["id"], &fans["list"][1]["id"]);
    let list = kit.post(DEMO, "lists", json!({"name": "Friends"})).await;
    let users = format!("lists/{}/users", list["id"]);

    let body = json!({"id": list["id"], "users": [first, second]});
    let added = kit.post(DEMO, "lists/users", body.clone()).await;
    assert_eq!((&added["usersCount"], &added["added"]), (&json!(2), &json!(2)));
    assert_eq!(kit.post(DEMO, "lists/users", body).await["added"], 0);

    kit.post(DEMO, &format!("{users}/{first}/pin"), none()).await;
    let pinned = kit.get(DEMO, &format!("{users}/pinned")).await;
    assert_eq!(pinned["list"][0]["id"], *first);
    let gone = kit.send(DEMO, Method::DELETE, &format!("{users}/{first}"), none()).await;
    assert_eq!(gone.body["usersCount"], 1);
    let left = kit.get(DEMO, &users).await;
    assert_eq!(left["list"].as_array().unwrap().len(), 1);
    assert_eq!(left["list"][0]["id"], *second);
    assert_eq!(kit.get(DEMO, &format!("{users}/pinned")).await["list"], json!([]));

    let unknown = json!({"id": list["id"], "users": [first, 12]});
    let refused = kit.send(DEMO, Method::POST, "lists/users", unknown).await;
    assert_eq!(refused.status, 400);
    assert_eq!(kit.get(DEMO, &users).await["list"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn changed_settings_are_returned() {
    let kit = Kit::new();
    let patch = async |path: &str, body: Value| {
        let reply = kit.send(DEMO, Method::PATCH, path, body).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    };
    patch("users/me", json!({"about": "New", "id": 1})).await;
    let me = kit.get(DEMO, "users/me").await;
    assert_eq!(me["about"], "New");
    assert_ne!(me["id"], 1);

    patch("users/me/settings/messages", json!({"text": "Hi!", "enabled": true})).await;
    let settings = kit.get(DEMO, "users/me/settings").await;
    let welcome = json!({"welcomeMessage": "Hi!", "isWelcomeMessageEnabled": true});
    assert_eq!(settings["messages"], welcome);
    assert!(settings["blockedCountries"].is_array() && settings["drm"]["status"].is_string());

    let fan = kit.get(DEMO, "subscriptions/subscribers").await["list"][1].clone();
    assert_eq!(fan["isRestricted"], false);
    kit.post(DEMO, &format!("users/{}/restrict", fan["id"]), none()).await;
    assert_eq!(kit.get(DEMO, "users/restrict").await["list"][0]["id"], fan["id"]);
    let fans = kit.get(DEMO, "subscriptions/subscribers").await;
    assert_eq!(fans["list"][1]["isRestricted"], true);
}

#[tokio::test]
async fn a_scheduled_mass_message_is_sent_at_its_time() {
    let kit = Kit::new();
    let body = json!({"text": "Soon", "scheduledDate": "2026-02-02T00:00:00Z"});
    let queued = kit.post(DEMO, "messages/queue", body).await;
    assert_eq!((&queued["isDone"], &queued["sentCount"]), (&json!(false), &json!(0)));

    kit.clock.advance_ms(25 * 3_600_000);

    let first = kit.get(DEMO, "messages/queue").await["list"][0].clone();
    assert_eq!(first["id"], queued["id"]);
    assert_eq!((&first["isDone"], &first["sentCount"]), (&json!(true), &json!(192)));
    let past = json!({"text": "Late", "scheduledDate": "2026-01-02"});
    assert_eq!(kit.send(DEMO, Method::POST, "messages/queue", past).await.status, 400);
}

#[tokio::test]
async fn gifs_are_requested_by_type_and_kind() {
    let kit = Kit::new();
    for path in
        ["giphy/proxy/trending", "giphy/proxy/gifs/trending", "giphy/proxy/v1/gifs/trending"]
    {
        let first = kit.get(DEMO, path).await["data"][0]["id"].clone();
        assert_eq!(first, "trending-0", "{path}");
    }
}

#[tokio::test]
async fn refusals_match_the_specification() {
    let kit = Kit::new();
    let status = async |creator: &str, method: Method, path: &str| {
        let reply = kit.send(creator, method, path, none()).await;
        assert_eq!(reply.body["error"]["code"], reply.status.as_u16());
        reply.status.as_u16()
    };
    assert_eq!(status(DEMO, Method::GET, "payouts/dac7").await, 403);
    kit.get("nova_alpha", "payouts/dac7").await;
    assert_eq!(status(DEMO, Method::GET, "users/list").await, 400);
    assert_eq!(status(DEMO, Method::GET, "messages/queue/7/buyers").await, 404);
    assert_eq!(status(DEMO, Method::GET, "giphy/proxy/anything").await, 404);
    assert_eq!(status(DEMO, Method::GET, "no/such/route").await, 404);
    assert_eq!(status(DEMO, Method::PUT, "users/me").await, 405);
    assert_eq!(status(DEMO, Method::POST, "stories").await, 400);
}

#[tokio::test]
async fn a_million_subscribers_are_paged_without_being_stored() {
    let kit =
        Kit::with(&PlatformSettings { subscribers: 1_000_000, ..PlatformSettings::default() });
    let last = kit.get(DEMO, "subscriptions/subscribers?limit=100&offset=999900").await;
    assert_eq!(last["list"].as_array().unwrap().len(), 100);
    assert_eq!(last["hasMore"], false);
    let me = kit.get(DEMO, "users/me").await;
    assert_eq!(me["subscribersCount"], 800_000);
}
