//! `platform_gamma`: its routes, its ids, its pages, its refusals.

use std::collections::{BTreeMap, BTreeSet};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use simulator_platforms::PlatformSettings;

use crate::kit::{Kit, Reply, Row, id_of, none};

pub(crate) const DEMO: &str = "demo_gamma";

/// The creator whose plan does not include mass messages.
const FREE: &str = "ruby_gamma";

/// The targets of the 30 shorthands of specification 4.3; three of them share one.
fn shorthands() -> Vec<(&'static str, Row)> {
    let of_me = |shorthand, template| (shorthand, Row::get(template));
    vec![
        of_me("me", "user/{id}"),
        ("subscribers", Row::get("user/{id}/subscription").query("?limit=50")),
        of_me("subscriber-count", "user/{id}/subscription-count"),
        of_me("tiers", "user/{id}/subscription/configuration"),
        ("chats", Row::get("user/{id}/chatsByList").query("?limit=50")),
        of_me("feed", "base"),
        of_me("vault", "user/{id}/vault"),
        of_me("earnings", "user/{id}/process/stats"),
        ("lists", Row::get("user/{id}/user-lists").query("?limit=50")),
        of_me("vouchers", "user/{id}/voucher"),
        of_me("templates", "user/{id}/chat/configured_message"),
        of_me("payout", "user/{id}/payout/available"),
        of_me("unread", "user/{id}/chat/unread-messages"),
        of_me("chat-config", "user/{id}/chat/configuration"),
        of_me("payout-history", "user/{id}/payout"),
        of_me("postback-urls", "user/{id}/postback-url"),
        of_me("interactions", "user/{id}/interaction"),
        of_me("share-config", "user/{id}/share/configuration"),
        ("reels", Row::get("reels").query("?user_id={id}")),
        of_me("content", "user/{id}/file-stack"),
        of_me("posts", "user/{id}/file-stack"),
        ("moments", Row::get("user/{id}/file-stack").query("?categories=moment")),
        of_me("blocked", "user/{id}/blocked"),
        of_me("muted", "user/{id}/muted"),
        of_me("restricted", "user/{id}/restricted"),
        of_me("following", "user/{id}/following"),
        of_me("followers", "user/{id}/follower"),
        of_me("activity", "activity"),
        of_me("partnerships", "partnerships"),
        ("search", Row::get("user").query("?search=a")),
    ]
}

/// The full paths of specification 4.3. Creations first, deletions last.
fn full_paths(ids: &Ids) -> Vec<Row> {
    vec![
        Row::new("POST", "user/{id}/subscription/configuration", tier()).answers(201),
        Row::new("PUT", "user/{id}/subscription/configuration/{tier_id}", deletion()),
        Row::get("user/{id}/chat/{chat_id}/message"),
        Row::new("POST", "user/{id}/chat/{chat_id}/message", json!({"message": "Hi"})).answers(201),
        Row::get("user/{id}/chat/{chat_id}"),
        Row::new("POST", "user/{id}/chat/{chat_id}/pin", json!({"is_pinned": true})),
        Row::new("POST", "user/{id}/chat/{chat_id}/mark-as-unread", none()),
        Row::new("PUT", "user/{id}/chat/{chat_id}/message/{message_id}", json!({"text": "New"})),
        Row::new("POST", "user/{id}/chat/configuration", json!({"unlock_price": 700})),
        Row::new("POST", "user/{id}/chat/mass-message/", json!({"message": "All"})).answers(201),
        Row::get("user/{id}/chat/mass-message/"),
        Row::new("PUT", "user/{id}/chat/mass-message/{mass_id}", json!({"message": "All!"})),
        Row::new("DELETE", "user/{id}/chat/mass-message/{mass_id}", none()),
        Row::new("POST", "user/{id}/user-lists", json!({"name": "New"})).answers(201),
        Row::new("PUT", "user/{id}/user-lists/{list_id}", json!({"name": "Newer"})),
        Row::get("user/{id}/user-lists/{list_id}/users").query("?limit=5"),
        Row::new("POST", "user/{id}/user-lists/{list_id}/add-users", ids.member()),
        Row::new("POST", "user/{id}/user-lists/{list_id}/remove-users", ids.member()),
        Row::get("user/{id}/user-lists/contains-user/{fan_id}"),
        Row::new("POST", "user/{fan_id}/follow", none()),
        Row::new("DELETE", "user/{fan_id}/follow", none()),
        Row::new("DELETE", "user/{fan_id}/un-follow", none()),
        Row::get("file-stack/{stack_id}/comment"),
        Row::new("POST", "file-stack/{stack_id}/comment", json!({"text": "Hi"})).answers(201),
        Row::get("file-stack/{stack_id}"),
        Row::new("PUT", "file-stack/{stack_id}", json!({"description": "New"})),
        Row::new("DELETE", "file-stack/{stack_id}/comment/{comment_id}", none()).answers(204),
        Row::new("DELETE", "file-stack/{stack_id}", none()).answers(204),
        Row::new("DELETE", "user/{id}/user-lists/{list_id}", none()).answers(204),
        Row::new("PUT", "user/{id}/chat/{chat_id}/delete-all-chat-messages-for-user", none()),
        Row::new("PUT", "user/{id}/chat/{chat_id}/delete-chat-for-user-by-user-id", none()),
    ]
}

/// A tier with two promotion bundles.
pub(crate) fn tier() -> Value {
    let payment = |months: i64, amount: i64| {
        json!({
            "duration_unit": "month", "duration_value": months, "amount": amount,
            "description": "For friends",
        })
    };
    let bundle = |months: i64, amount: i64, discount: i64| {
        let mut bundle = payment(months, amount);
        bundle["discount"] = json!(discount);
        bundle
    };
    json!({
        "price": 1500, "currency": "USD", "type": "recurring", "status": "active",
        "repeat_days": 30, "recurring_payment": payment(1, 1500),
        "initial_payment_options": [bundle(3, 4050, 10), bundle(12, 12_000, 33)],
    })
}

pub(crate) fn deletion() -> Value {
    json!({"status": "deleted", "modification_type": "price_change"})
}

pub(crate) struct Ids {
    pub(crate) me: String,
    pub(crate) fan: String,
    pub(crate) chat: String,
    message: String,
    mass: String,
    tier: String,
    pub(crate) list: String,
    pub(crate) stack: String,
    comment: String,
}

impl Ids {
    /// Takes all ids from responses, as a caller does.
    pub(crate) async fn find(kit: &Kit) -> Self {
        let me = kit.auth(DEMO)["account_id"].as_str().unwrap().to_owned();
        let own = async |path: &str| kit.get(DEMO, &format!("user/{me}/{path}")).await;
        let chats = own("chatsByList?limit=20").await;
        let read = rows(&chats).iter().find(|chat| chat["unread_count"] == 0).unwrap();
        let chat = id_of(&read["_id"]);
        let messages = own(&format!("chat/{chat}/message")).await;
        let written = rows(&messages).iter().find(|message| message["user_id"] == me).unwrap();
        let stacks = own("file-stack").await;
        let commented = rows(&stacks).iter().find(|stack| stack["comment_count"] != 0).unwrap();
        let stack = id_of(&commented["_id"]);
        let comments = kit.get(DEMO, &format!("file-stack/{stack}/comment")).await;
        let later = json!({"message": "Soon", "to_be_posted_at": "2026-02-03T00:00:00Z"});
        let mass = kit.post(DEMO, &format!("user/{me}/chat/mass-message/"), later).await;
        Self {
            fan: id_of(&own("follower").await[0]["_id"]),
            message: id_of(&written["_id"]),
            mass: id_of(&mass["_id"]),
            tier: id_of(&own("subscription/configuration").await[0]["_id"]),
            list: id_of(&own("user-lists?limit=5").await[0]["_id"]),
            comment: id_of(&comments[0]["_id"]),
            me,
            chat,
            stack,
        }
    }

    fn member(&self) -> Value {
        json!({"user_ids": [self.fan]})
    }

    fn named(&self) -> Vec<(&'static str, String)> {
        [
            ("id", &self.me),
            ("fan_id", &self.fan),
            ("chat_id", &self.chat),
            ("message_id", &self.message),
            ("mass_id", &self.mass),
            ("tier_id", &self.tier),
            ("list_id", &self.list),
            ("stack_id", &self.stack),
            ("comment_id", &self.comment),
        ]
        .map(|(name, id)| (name, id.clone()))
        .into()
    }
}

/// The rows of a page. Empty pages of subscribers and chats have no body.
pub(crate) fn rows(body: &Value) -> &Vec<Value> {
    static NONE: Vec<Value> = Vec::new();
    if body.is_null() {
        return &NONE;
    }
    body.as_array().unwrap_or_else(|| panic!("not a list: {body}"))
}

/// The response for `user/{id}/…` of the own account.
pub(crate) async fn own(kit: &Kit, path: &str) -> Value {
    let me = id_of(&kit.auth(DEMO)["account_id"]);
    kit.get(DEMO, &format!("user/{me}/{path}")).await
}

/// Sends to `user/{id}/…` of the own account.
pub(crate) async fn send(kit: &Kit, method: Method, path: &str, body: Value) -> Reply {
    let me = id_of(&kit.auth(DEMO)["account_id"]);
    kit.send(DEMO, method, &format!("user/{me}/{path}"), body).await
}

/// Reads all pages; a page shorter than its limit is the last.
pub(crate) async fn all_pages(kit: &Kit, path: &str, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = kit.get(DEMO, &format!("{path}{sign}limit={limit}&offset={}", all.len())).await;
        let page = page.get("processes").unwrap_or(&page);
        all.extend(rows(page).iter().cloned());
        if rows(page).len() < limit {
            return all;
        }
    }
}

fn distinct(rows: &[Value]) -> BTreeSet<String> {
    rows.iter().map(|row| id_of(&row["_id"])).collect()
}

#[tokio::test]
async fn every_route_of_the_specification_responds_to_its_owner_only() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let (shorthands, full_paths) = (shorthands(), full_paths(&ids));
    assert_eq!((shorthands.len(), full_paths.len()), (30, 31));

    for row in shorthands.iter().map(|(_, row)| row).chain(&full_paths) {
        let path = row.path(&ids.named());
        let target = format!("/platform_gamma/{path}");
        let anonymous = kit.raw(row.method(), &target, &[], row.body.clone()).await;
        assert_eq!(anonymous.status, 401, "{}", row.name());
        assert_eq!(anonymous.body["statusCode"], 401, "{}", row.name());

        let reply = kit.send(DEMO, row.method(), &path, row.body.clone()).await;
        assert_eq!(reply.status, row.status, "{} {}", row.name(), reply.body);
        let empty = match &reply.body {
            Value::Array(rows) => rows.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            other => !other.is_null() || row.status != 204,
        };
        assert!(!empty || row.template.contains("contains-user"), "{} is empty", row.name());
    }
}

#[tokio::test]
async fn the_platform_has_the_routes_of_the_table_and_the_upload() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let mut expected: BTreeSet<String> = full_paths(&ids).iter().map(Row::name).collect();
    expected.extend(shorthands().iter().map(|(_, row)| row.name()));
    expected.insert("POST media/upload".to_owned());
    let renamed = |name: String| name.replace("{mass_id}", "{message_id}");

    let expected: BTreeSet<String> = expected.into_iter().map(renamed).collect();

    assert_eq!(kit.routes("platform_gamma").await, expected);
}

#[tokio::test]
async fn an_empty_account_causes_no_errors() {
    let kit = Kit::new();
    let id = id_of(&kit.auth("fresh_gamma")["account_id"]);
    let objects = ["me", "subscriber-count", "earnings", "payout", "chat-config", "share-config"];
    for (shorthand, row) in shorthands() {
        let body = kit.get("fresh_gamma", &row.path(&[("id", id.clone())])).await;
        if shorthand == "unread" {
            assert_eq!(body, json!({}));
        } else if shorthand == "search" {
            assert_eq!(body[0]["_id"], id);
        } else if ["subscribers", "chats"].contains(&shorthand) {
            assert_eq!(body, Value::Null, "{shorthand} has no body");
        } else if !objects.contains(&shorthand) {
            assert_eq!(body, json!([]), "{shorthand}");
        }
    }
    let earned = kit.get("fresh_gamma", &format!("user/{id}/process/stats")).await;
    assert_eq!((&earned["total"], &earned["processes"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn a_token_requires_its_resource() {
    let kit = Kit::new();
    let (demo, nova) = (kit.auth(DEMO), kit.auth("nova_gamma"));
    let id = id_of(&demo["account_id"]);
    let target = format!("/platform_gamma/user/{id}");
    let status = async |token: String, resource: &Value| {
        let headers = [("authorization", token), ("x-resource", id_of(resource))];
        kit.raw(Method::GET, &target, &headers, none()).await.status
    };
    let token = id_of(&demo["token"]);

    assert_eq!(status(format!("Bearer {token}"), &demo["resource"]).await, 200);
    assert_eq!(status(format!("Bearer {token}"), &nova["resource"]).await, 401);
    assert_eq!(status(format!("Bearer {token}x"), &demo["resource"]).await, 401);
    assert_eq!(status(token, &demo["resource"]).await, 401);
}

#[tokio::test]
async fn me_returns_the_connected_account() {
    let kit = Kit::new();
    for creator in [DEMO, "nova_gamma", FREE, "fresh_gamma"] {
        let id = id_of(&kit.auth(creator)["account_id"]);
        assert_eq!(kit.get(creator, &format!("user/{id}")).await["_id"], id);
        assert_eq!(id.len(), 24);
    }
    let nova = id_of(&kit.auth("nova_gamma")["account_id"]);
    let foreign = format!("user/{nova}/chatsByList?limit=5");
    let refused = kit.send(DEMO, Method::GET, &foreign, none()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn ids_agree_between_subscribers_chats_messages_lists_tiers_and_posts() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let me = &ids.me;
    let subscribers = all_pages(&kit, &format!("user/{me}/subscription"), 100).await;
    let names: BTreeMap<String, Value> = subscribers
        .iter()
        .map(|row| (id_of(&row["user"]["_id"]), row["user"]["display_name"].clone()))
        .collect();
    let tiers = distinct(rows(&own(&kit, "subscription/configuration").await));
    for row in &subscribers {
        assert!(tiers.contains(&id_of(&row["subscription_configuration_id"])));
    }

    let chats = all_pages(&kit, &format!("user/{me}/chatsByList"), 100).await;
    for chat in &chats {
        let user = &chat["user"];
        assert_eq!(names[&id_of(&user["_id"])], user["display_name"]);
        assert_eq!(chat["participants"], json!([me, user["_id"]]));
    }
    for chat in &chats[..10] {
        let id = id_of(&chat["_id"]);
        assert_eq!(kit.get(DEMO, &format!("user/{me}/chat/{id}")).await, *chat);
        let messages = all_pages(&kit, &format!("user/{me}/chat/{id}/message"), 7).await;
        assert_eq!(messages[0], chat["last_message"]);
        assert_eq!(json!(messages.len()), chat["message_count"]);
        for message in &messages {
            assert_eq!(message["chat_id"], chat["_id"]);
            assert!(chat["participants"].as_array().unwrap().contains(&message["user_id"]));
            if let Some(stack) = message["file_stack_id"].as_str() {
                kit.get(DEMO, &format!("file-stack/{stack}")).await;
            }
        }
    }
    for list in rows(&own(&kit, "user-lists?limit=50").await) {
        let id = id_of(&list["_id"]);
        let path = format!("user/{me}/user-lists/{id}/users");
        let users = all_pages(&kit, &path, 20).await;
        assert_eq!(json!(users.len()), list["user_count"]);
        assert!(users.iter().all(|user| names[&id_of(&user["_id"])] == user["display_name"]));
        let on = own(&kit, &format!("user-lists/contains-user/{}", id_of(&users[0]["_id"]))).await;
        assert!(rows(&on).contains(list));
    }
    for stack in rows(&own(&kit, "file-stack?limit=10").await) {
        let id = id_of(&stack["_id"]);
        assert_eq!(kit.get(DEMO, &format!("file-stack/{id}")).await, *stack);
        let comments = all_pages(&kit, &format!("file-stack/{id}/comment"), 3).await;
        assert_eq!(json!(comments.len()), stack["comment_count"]);
    }
}

#[tokio::test]
async fn pages_cover_everything_once() {
    let kit = Kit::new();
    let me = id_of(&kit.auth(DEMO)["account_id"]);
    for (path, count) in [
        ("user/{id}/subscription", 240),
        ("user/{id}/subscription?status=active", 144),
        ("user/{id}/subscription?status=pending-cancelled", 48),
        ("user/{id}/subscription?status=cancelled", 48),
        ("user/{id}/chatsByList", 160),
        ("user/{id}/follower", 214),
        ("user/{id}/following", 40),
        ("user/{id}/vault", 120),
        ("user/{id}/file-stack", 60),
        ("user/{id}/payout", 8),
        ("user/{id}/process/stats", 720),
        ("user/{id}/interaction", 720),
        ("activity", 720),
        ("base", 40),
        ("user?search=", 301),
    ] {
        for limit in [37, 40] {
            let all = all_pages(&kit, &path.replace("{id}", &me), limit).await;
            assert_eq!((all.len(), distinct(&all).len()), (count, count), "{path} by {limit}");
        }
    }
    let counts = own(&kit, "subscription-count").await;
    assert_eq!(counts, json!({"active": 144, "pending_cancelled": 48, "cancelled": 48}));
}

#[tokio::test]
async fn filters_return_only_matching_rows() {
    let kit = Kit::new();
    let all = own(&kit, "file-stack?limit=100").await;
    let has = |stack: &Value, field: &str, word: &str| {
        stack[field].as_array().unwrap().contains(&json!(word))
    };
    let moments = own(&kit, "file-stack?categories=moment&limit=100").await;
    let expected: Vec<_> =
        rows(&all).iter().filter(|it| has(it, "categories", "moment")).cloned().collect();
    assert_eq!(moments, json!(expected));
    assert!(!expected.is_empty());
    let videos = own(&kit, "file-stack?contentType=video").await;
    assert!(
        !rows(&videos).is_empty() && rows(&videos).iter().all(|it| has(it, "categories", "video"))
    );
    let tagged = own(&kit, "file-stack?tag=studio,live").await;
    assert!(rows(&tagged).iter().all(|it| has(it, "tag", "studio") || has(it, "tag", "live")));
    let single = own(&kit, "file-stack?is_subscription_item=false").await;
    assert!(rows(&single).iter().all(|it| it["is_subscription_item"] == false));
    assert!(
        rows(&own(&kit, "file-stack?is_subscription_item=true").await).len() > rows(&single).len()
    );

    let me = id_of(&kit.auth(DEMO)["account_id"]);
    let reels = kit.get(DEMO, &format!("reels?user_id={me}&limit=100")).await;
    assert_eq!(reels, own(&kit, "file-stack?contentType=video&limit=100").await);

    let name = own(&kit, "subscription?limit=1").await[0]["user"]["username"].clone();
    let found = kit.get(DEMO, &format!("user?search={}", id_of(&name).to_uppercase())).await;
    assert_eq!(found[0]["username"], name);
}

#[tokio::test]
async fn earnings_of_a_window_are_the_sum_of_its_rows() {
    let kit = Kit::new();
    let me = id_of(&kit.auth(DEMO)["account_id"]);
    let path = format!("user/{me}/process/stats?init_from=2025-12-01&init_to=2025-12-07");
    let stats = kit.get(DEMO, &path).await;
    let rows = all_pages(&kit, &path, 5).await;

    assert!(!rows.is_empty());
    assert_eq!(stats["count"], rows.len());
    let sum = |field: &str| rows.iter().map(|row| row[field].as_i64().unwrap()).sum::<i64>();
    assert_eq!(stats["total"], sum("amount"));
    for row in &rows {
        assert!(
            ("2025-12-01"..="2025-12-07").contains(&&row["created_at"].as_str().unwrap()[..10])
        );
        assert_eq!(row["currency"], "USD");
    }
    let wrong = send(&kit, Method::GET, "process/stats?init_from=yesterday", none()).await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn lists_that_require_a_limit_are_refused_without_one() {
    let kit = Kit::new();
    let list = id_of(&own(&kit, "user-lists?limit=1").await[0]["_id"]);
    let users = format!("user-lists/{list}/users");
    for path in ["chatsByList", "subscription", "user-lists", &users] {
        for query in ["", "?limit=", "?limit=x", "?limit=0", "?limit=101", "?limit=5&offset=x"] {
            let reply = send(&kit, Method::GET, &format!("{path}{query}"), none()).await;
            assert_eq!(reply.status, 400, "{path}{query}");
            assert_eq!(reply.body["error"], "bad_request");
        }
    }
}

#[tokio::test]
async fn unknown_things_are_not_found() {
    let kit = Kit::new();
    let nova = kit.auth("nova_gamma")["account_id"].as_str().unwrap();
    let foreign = kit.get("nova_gamma", &format!("user/{nova}/chatsByList?limit=1")).await;
    let foreign = id_of(&foreign[0]["_id"]);
    for path in [
        format!("chat/{foreign}/message"),
        format!("chat/{foreign}"),
        format!("user-lists/{foreign}/users?limit=5"),
        format!("user-lists/contains-user/{foreign}"),
        "no/such/route".to_owned(),
    ] {
        assert_eq!(send(&kit, Method::GET, &path, none()).await.status, 404, "{path}");
    }
    let stack = format!("file-stack/{foreign}");
    assert_eq!(kit.send(DEMO, Method::GET, &stack, none()).await.status, 404);
    assert_eq!(send(&kit, Method::PATCH, "chatsByList", none()).await.status, 405);
    // Without its trailing slash, the path of the mass messages names a chat that does not exist.
    assert_eq!(send(&kit, Method::GET, "chat/mass-message", none()).await.status, 404);
}

#[tokio::test]
async fn mass_messages_require_a_plan_that_includes_them() {
    let kit = Kit::new();
    let body = json!({"message": "Hello"});
    for (creator, plan, status) in [(DEMO, "pro", 201), (FREE, "free", 403)] {
        let me = id_of(&kit.auth(creator)["account_id"]);
        assert_eq!(kit.get(creator, &format!("user/{me}")).await["plan"], plan);
        let path = format!("user/{me}/chat/mass-message/");
        let reply = kit.send(creator, Method::POST, &path, body.clone()).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.body.get("error").is_some(), status == 403);
        if status == 403 {
            assert_eq!(reply.body["error"], "feature_not_available");
        }
    }
}

#[tokio::test]
async fn a_million_subscribers_are_paged_without_being_stored() {
    let kit =
        Kit::with(&PlatformSettings { subscribers: 1_000_000, ..PlatformSettings::default() });
    let last = own(&kit, "subscription?limit=100&offset=999950").await;
    assert_eq!(rows(&last).len(), 50);
    let chats = own(&kit, "chatsByList?limit=100&offset=666600").await;
    assert_eq!(distinct(rows(&chats)).len(), 67);
    assert_eq!(kit.get(DEMO, "user?search=nobody-has-this-name").await, json!([]));
}
