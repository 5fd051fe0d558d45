//! `platform_delta`: every operation, its scopes, its pages.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use simulator_platforms::PlatformSettings;

use crate::kit::{Kit, Reply, Row, id_of, none};

pub(crate) const DEMO: &str = "demo_delta";
pub(crate) const TOKEN: &str = "/platform_delta/oauth/token";

const AGENCY: &[&str] = &["read:agency", "read:creator"];
const FOLDER: &str = "creators/{creatorUserUuid}/vault/folders/{folderName}";
const FOLDERS: &str = "creators/{creatorUserUuid}/vault/folders";
const FOLDER_MEDIA: &str = "creators/{creatorUserUuid}/vault/folders/{folderName}/media";

/// A row of the table and the scopes of the operation.
type Operation = (Row, &'static [&'static str]);

fn get(template: &'static str, scopes: &'static [&'static str]) -> Operation {
    (Row::get(template), scopes)
}

fn send(
    method: &'static str,
    template: &'static str,
    body: Value,
    scopes: &'static [&'static str],
) -> Operation {
    (Row::new(method, template, body), scopes)
}

fn created((row, scopes): Operation) -> Operation {
    (row.answers(201), scopes)
}

fn deleted(template: &'static str, scopes: &'static [&'static str]) -> Operation {
    (Row::new("DELETE", template, none()).answers(204), scopes)
}

/// The ids that the operations of the table need.
struct Ids {
    creator: String,
    fan: String,
    without_chat: String,
    member: String,
    template: String,
    mass_message: String,
    list: String,
    list_member: String,
    smart_list: String,
    pinned_post: String,
    link: String,
    claimer: String,
    media: String,
    folder_media: String,
    upload: String,
    experience: String,
}

impl Ids {
    /// Looks up the ids as a caller would, and creates missing things.
    async fn find(kit: &Kit) -> Self {
        let first = async |path: &str| kit.get(DEMO, path).await["data"][0].clone();
        let post = first("posts").await;
        let creator = id_of(&post["creatorUuid"]);
        let chats: BTreeSet<String> = all_pages(kit, "chats", 50)
            .await
            .iter()
            .map(|chat| id_of(&chat["user"]["uuid"]))
            .collect();
        let fans = all_pages(kit, "insights/fans", 50).await;
        let without_chat = fans.iter().find(|it| !chats.contains(&id_of(&it["userUuid"]))).unwrap();
        let claimer = fans.iter().find(|it| it["trackingLinkUuid"].is_string()).unwrap();
        let list = id_of(&first("chats/lists/custom").await["uuid"]);
        let list_page = kit.get(DEMO, &format!("chats/lists/custom/{list}")).await;
        let folder = format!("creators/{creator}/vault/folders/Videos/media");
        let upload = json!({"filename": "a.jpg", "mediaType": "image"});
        let upload = kit.post(DEMO, "media/uploads", upload).await;
        let token = kit.post(DEMO, "experiences/request-token", json!({"experience": "x"})).await;
        Self {
            fan: chats.first().unwrap().clone(),
            without_chat: id_of(&without_chat["userUuid"]),
            member: id_of(&first("agencies/team-members").await["userId"]),
            template: id_of(&first("chats/templates").await["uuid"]),
            mass_message: id_of(&first("chats/mass-messages").await["uuid"]),
            list_member: id_of(&list_page["members"]["data"][0]["uuid"]),
            smart_list: id_of(&first("chats/lists/smart").await["uuid"]),
            pinned_post: id_of(&post["uuid"]),
            link: id_of(&claimer["trackingLinkUuid"]),
            claimer: id_of(&claimer["userUuid"]),
            media: id_of(&first("media").await["uuid"]),
            folder_media: id_of(&first(&folder).await["uuid"]),
            upload: id_of(&upload["uploadId"]),
            experience: id_of(&token["token"]),
            creator,
            list,
        }
    }

    /// The path of a row; the same name means different things in different groups.
    fn path(&self, row: &Row) -> String {
        let template = row.template;
        let uuid = match template {
            it if it.contains("lists/custom") => &self.list,
            it if it.contains("lists/smart") => &self.smart_list,
            it if it.contains("/posts/") => &self.pinned_post,
            it if it.contains("tracking-links") => &self.link,
            _ => &self.media,
        };
        let user = match template {
            it if it.contains("/members/") => &self.list_member,
            it if it.contains("tracking-links") => &self.claimer,
            _ => &self.fan,
        };
        let invoice = if template.contains("/me/") { "OWN-00000001" } else { "INV-00000001" };
        // By then the folder has been renamed.
        let renamed = row.method == "DELETE" && template == FOLDER;
        let folder = if renamed { "Renamed" } else { "Videos" };
        let app = "5c0f7a3e-0000-4000-8000-0000000000aa".to_owned();
        row.path(&[
            ("creatorUserUuid", self.creator.clone()),
            ("userUuid", user.clone()),
            ("uuid", uuid.clone()),
            ("userId", self.member.clone()),
            ("templateUuid", self.template.clone()),
            ("messageUuid", self.mass_message.clone()),
            ("folderName", folder.to_owned()),
            ("mediaUuid", self.folder_media.clone()),
            ("uploadId", self.upload.clone()),
            ("partNumber", "1".to_owned()),
            ("appUuid", app),
            ("invoiceNumber", invoice.to_owned()),
        ])
    }
}

/// All 84 operations of specification 4.6 with their scopes. Deletions come last in their group.
fn table(ids: &Ids) -> Vec<Operation> {
    let mut rows = agency_rows(ids);
    rows.extend(chat_rows(ids));
    rows.extend(creator_rows(ids));
    rows.extend(other_rows(ids));
    rows
}

fn agency_rows(ids: &Ids) -> Vec<Operation> {
    let write: &[&str] = &["write:agency"];
    let invite = json!({"email": "new@creators.test"});
    let own: &[&str] = &["read:self"];
    vec![
        get("agencies/chats", &["read:agency", "read:chat"]),
        created(send("POST", "agencies/creator-invites", invite.clone(), write)),
        get("agencies/earnings", AGENCY),
        get("agencies/followers-history", AGENCY),
        get("agencies/subscribers", AGENCY),
        get("agencies/subscribers-history", AGENCY),
        get("agencies/insights/chatter-leaderboard", &["read:agency"]),
        get("agencies/team-members", &["read:agency"]),
        created(send("POST", "agencies/invites", invite, write)),
        created(send(
            "POST",
            "agencies/posts",
            json!({"creatorUuid": ids.creator, "text": "Hello"}),
            &["write:creator", "write:post"],
        )),
        send("PUT", "agencies/team-members/{userId}", json!({"role": "manager"}), write),
        get("apps/{appUuid}/payments", own),
        get("apps/{appUuid}/payments/me", own),
        get("apps/{appUuid}/payments/me/{invoiceNumber}", own),
        get("apps/{appUuid}/payments/{invoiceNumber}", own),
        get("apps/{appUuid}/subscription-status", own),
        get("apps/{appUuid}/subscription/me", own),
    ]
}

fn chat_rows(ids: &Ids) -> Vec<Operation> {
    let (read, write): (&[&str], &[&str]) = (&["read:chat"], &["write:chat"]);
    let lists: &[&str] = &["read:chat", "read:fan"];
    let users = json!({"userUuids": [ids.fan]});
    vec![
        created(send("POST", "chats", json!({"userUuid": ids.without_chat}), write)),
        get("chats", read),
        get("chats/templates", read),
        get("chats/templates/{templateUuid}", read),
        get("chats/unread", read),
        get("chats/{userUuid}", read),
        get("chats/{userUuid}/media", read),
        get("chats/{userUuid}/messages", read),
        get("chats/mass-messages", read),
        get("chats/lists/custom", lists),
        get("chats/lists/custom/{uuid}", lists),
        get("chats/lists/smart", lists),
        get("chats/lists/smart/{uuid}", lists),
        created(send("POST", "chats/lists/custom", json!({"name": "New"}), write)),
        send("POST", "chats/lists/custom/{uuid}/members", users.clone(), write),
        created(send("POST", "chats/{userUuid}/message", json!({"text": "Hi"}), write)),
        send("PATCH", "chats/lists/custom/{uuid}", json!({"name": "Other"}), write),
        deleted("chats/lists/custom/{uuid}/members/{userUuid}", write),
        deleted("chats/lists/custom/{uuid}", write),
        send("PATCH", "chats/mass-messages/{messageUuid}", json!({"text": "Other"}), write),
        deleted("chats/mass-messages/{messageUuid}", write),
        send("PATCH", "chats/{userUuid}", json!({"isRead": true}), write),
        created(send(
            "POST",
            "chats/mass-messages",
            json!({"text": "Hi all"}),
            &["read:fan", "write:chat"],
        )),
        send("POST", "chats/messages/batch", users.clone(), read),
        send("POST", "chats/statuses", users, read),
    ]
}

fn creator_rows(ids: &Ids) -> Vec<Operation> {
    let post: &[&str] = &["write:creator", "write:post"];
    let fan: &[&str] = &["read:creator", "read:fan"];
    let (read, write): (&[&str], &[&str]) =
        (&["read:creator", "read:media"], &["write:creator", "write:media"]);
    vec![
        deleted("creators/{creatorUserUuid}/posts/{uuid}/pin", post),
        created(send("POST", "creators/{creatorUserUuid}/posts/{uuid}/repost", none(), post)),
        get("creators/{creatorUserUuid}/posts/{uuid}/tips", &["read:creator", "read:post"]),
        get("creators/{creatorUserUuid}/subscribers", fan),
        get("creators/{creatorUserUuid}/subscribers/online", fan),
        get(
            "creators/{creatorUserUuid}/tracking-links/{uuid}/users/{userUuid}/metadata",
            &["read:creator", "read:tracking_links"],
        ),
        created(send("POST", FOLDERS, json!({"name": "New"}), write)),
        get(FOLDERS, read),
        get(FOLDER, read),
        get(FOLDER_MEDIA, read),
        send("POST", FOLDER_MEDIA, json!({"mediaUuids": [ids.media]}), write),
        deleted("creators/{creatorUserUuid}/vault/folders/{folderName}/media/{mediaUuid}", write),
        send("PATCH", FOLDER, json!({"name": "Renamed"}), write),
        deleted(FOLDER, write),
    ]
}

fn other_rows(ids: &Ids) -> Vec<Operation> {
    let insights: &[&str] = &["read:insights"];
    let fans: &[&str] = &["read:fan", "read:insights"];
    let (read, write): (&[&str], &[&str]) = (&["read:media"], &["write:media"]);
    let users = json!({"userUuids": [ids.fan]});
    let experience = json!({"experience": "quiz"});
    let parts = json!({"parts": [{"partNumber": 1, "etag": "e"}]});
    vec![
        created(send("POST", "experiences/request-token", experience, &["write:experience"])),
        send(
            "POST",
            "experiences/token/exchange",
            json!({"token": ids.experience}),
            &["read:experience"],
        ),
        get("followers", &["read:fan"]),
        get("insights/earnings", insights),
        get("insights/earnings/percentile", insights),
        get("insights/earnings/summary", insights),
        get("insights/fan-retention-summary", insights),
        get("insights/spending", insights),
        get("insights/subscribers", insights),
        get("insights/unsubscribe-reasons", insights),
        get("insights/fans", fans),
        get("insights/fans/{userUuid}", fans),
        get("insights/top-spenders", fans),
        send("POST", "insights/fans/batch", users.clone(), fans),
        send("POST", "insights/fans/profiles", users, &["read:fan"]),
        get("media", read),
        (Row::get("media/bulk").query("?uuids={uuid}"), read),
        get("media/{uuid}", read),
        (Row::get("media/{uuid}/entitled").query("?userUuid={userUuid}"), read),
        created(send(
            "POST",
            "media/uploads",
            json!({"filename": "b", "mediaType": "audio"}),
            write,
        )),
        get("media/uploads/{uploadId}/parts/{partNumber}/url", write),
        send("PATCH", "media/uploads/{uploadId}", parts, write),
        send("PATCH", "media/{uuid}", json!({"name": "New"}), write),
        send("POST", "media/{uuid}/grant", json!({"userUuid": ids.fan}), write),
        deleted("media/{uuid}", write),
        get("notifications", &["read:self"]),
        created(send("POST", "posts", json!({"text": "Hello"}), &["write:post"])),
        get("posts", &["read:post"]),
    ]
}

/// The headers of a request with this access token.
pub(crate) fn bearer(token: &str) -> Vec<(&'static str, String)> {
    vec![("authorization", format!("Bearer {token}")), ("x-api-version", "2025-06-26".to_owned())]
}

/// A new pair of tokens; `scope` may be empty.
pub(crate) async fn refresh(kit: &Kit, refresh_token: &str, scope: &str) -> Reply {
    let pairs = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh_token),
        ("client_id", "creator-gateway"),
        ("client_secret", "sandbox-secret"),
        ("scope", scope),
    ];
    kit.form(TOKEN, &pairs).await
}

/// Reads all pages with `page` and `size`.
pub(crate) async fn all_pages(kit: &Kit, path: &str, size: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    for page in 1.. {
        let answer = kit.get(DEMO, &format!("{path}?page={page}&size={size}")).await;
        assert_eq!(answer["pagination"]["page"], page);
        assert_eq!(answer["pagination"]["size"], size);
        rows.extend(answer["data"].as_array().unwrap().iter().cloned());
        if answer["pagination"]["hasMore"] == false {
            return rows;
        }
        assert_eq!(answer["data"].as_array().unwrap().len(), size);
    }
    rows
}

/// Reads everything with `cursor`.
pub(crate) async fn all_by_cursor(kit: &Kit, path: &str, size: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = kit.get(DEMO, &format!("{path}{sign}size={size}&cursor={cursor}")).await;
        rows.extend(page["data"].as_array().unwrap().iter().cloned());
        if page["nextCursor"].is_null() {
            return rows;
        }
        assert_eq!(page["data"].as_array().unwrap().len(), size);
        cursor = id_of(&page["nextCursor"]);
    }
}

#[tokio::test]
async fn every_operation_of_the_specification_responds_to_its_owner_only() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let rows = table(&ids);
    assert_eq!(rows.len(), 84);

    for (row, _) in &rows {
        let path = ids.path(row);
        let target = format!("/platform_delta/{path}");
        let anonymous = kit.raw(row.method(), &target, &[], row.body.clone()).await;
        assert_eq!(anonymous.status, 401, "{}", row.name());
        assert_eq!(anonymous.body["error"]["code"], "unauthorized", "{}", row.name());

        let reply = kit.send(DEMO, row.method(), &path, row.body.clone()).await;
        assert_eq!(reply.status, row.status, "{} {}", row.name(), reply.body);
        assert_eq!(reply.body.is_object(), row.status != 204, "{}", row.name());
    }
    let mut written: BTreeSet<String> = rows.iter().map(|(row, _)| row.name()).collect();
    written.insert("POST oauth/token".to_owned());
    assert_eq!(kit.routes("platform_delta").await, written);
}

#[tokio::test]
async fn every_operation_requires_exactly_its_scopes() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let auth = kit.auth(DEMO).clone();
    let all: Vec<&str> =
        auth["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap()).collect();
    let mut refresh_token = auth["refresh_token"].as_str().unwrap().to_owned();
    let mut token_with = async |scope: &str| {
        let reply = refresh(&kit, &refresh_token, scope).await;
        assert_eq!((reply.status.as_u16(), &reply.body["scope"]), (200, &json!(scope)));
        refresh_token = id_of(&reply.body["refresh_token"]);
        id_of(&reply.body["access_token"])
    };

    for (row, scopes) in table(&ids) {
        let target = format!("/platform_delta/{}", ids.path(&row));
        for scope in scopes {
            let others: Vec<&str> = all.iter().filter(|other| *other != scope).copied().collect();
            let token = token_with(&others.join(" ")).await;
            let reply = kit.raw(row.method(), &target, &bearer(&token), row.body.clone()).await;
            assert_eq!(reply.status, 403, "{} without {scope}", row.name());
            let message = reply.body["error"]["message"].as_str().unwrap();
            assert!(message.ends_with(scope), "{}: {message}", row.name());
        }
        let token = token_with(&scopes.join(" ")).await;
        let reply = kit.raw(row.method(), &target, &bearer(&token), row.body.clone()).await;
        assert_eq!(reply.status, row.status, "{} {}", row.name(), reply.body);
    }
}

#[tokio::test]
async fn the_version_header_is_required_and_checked() {
    let kit = Kit::new();
    let token = kit.auth(DEMO)["access_token"].as_str().unwrap().to_owned();
    let mut headers = bearer(&token);
    let target = "/platform_delta/notifications";
    assert_eq!(kit.raw(Method::GET, target, &headers, none()).await.status, 200);

    headers[1].1 = "2024-01-01".to_owned();
    assert_eq!(kit.raw(Method::GET, target, &headers, none()).await.status, 400);
    headers.truncate(1);
    assert_eq!(kit.raw(Method::GET, target, &headers, none()).await.status, 400);
    let unknown = kit.raw(Method::GET, target, &bearer("nobody"), none()).await;
    assert_eq!(unknown.status, 401);
}

#[tokio::test]
async fn notifications_are_refused_with_403_without_the_scope() {
    let kit = Kit::new();
    let reply = kit.send("ruby_delta", Method::GET, "notifications", none()).await;
    assert_eq!(reply.status, 403);
    assert!(reply.body["error"]["message"].as_str().unwrap().contains("read:self"));
    kit.get("ruby_delta", "chats").await;
}

#[tokio::test]
async fn numbered_pages_cover_everything_once() {
    let kit = Kit::new();
    let creator = id_of(&kit.get(DEMO, "posts").await["data"][0]["creatorUuid"]);
    let subscribers = format!("creators/{creator}/subscribers");
    let online = format!("creators/{creator}/subscribers/online");
    for (path, id, count) in [
        ("chats", "uuid", 160),
        ("chats/unread", "uuid", 40),
        ("followers", "uuid", 214),
        ("insights/fans", "userUuid", 240),
        ("insights/top-spenders", "userUuid", 100),
        ("media", "uuid", 120),
        ("posts", "uuid", 60),
        (&subscribers, "uuid", 192),
        (&online, "uuid", 32),
        ("agencies/chats", "uuid", 160),
        ("agencies/subscribers", "uuid", 192),
    ] {
        let rows = all_pages(&kit, path, 37).await;
        let ids: BTreeSet<String> = rows.iter().map(|row| id_of(&row[id])).collect();
        assert_eq!((rows.len(), ids.len()), (count, count), "{path}");
    }
}

#[tokio::test]
async fn cursors_cover_everything_once() {
    let kit = Kit::new();
    let chat = kit.get(DEMO, "chats").await["data"][0].clone();
    let messages = format!("chats/{}/messages", id_of(&chat["user"]["uuid"]));
    let count = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    for (path, expected) in [
        (messages.as_str(), count(&chat["messagesCount"])),
        ("insights/earnings", 720),
        ("notifications", 100),
    ] {
        for size in [7, 50] {
            let rows = all_by_cursor(&kit, path, size).await;
            let ids: BTreeSet<String> = rows.iter().map(|row| id_of(&row["uuid"])).collect();
            assert_eq!((rows.len(), ids.len()), (expected, expected), "{path}");
        }
    }
    let tips = all_by_cursor(&kit, "insights/earnings?source=tip", 9).await;
    assert!(!tips.is_empty() && tips.iter().all(|row| row["source"] == "tip"));
}

#[tokio::test]
async fn pages_beyond_the_limits_are_refused() {
    let kit = Kit::new();
    let chat = id_of(&kit.get(DEMO, "chats").await["data"][0]["user"]["uuid"]);
    let messages = format!("chats/{chat}/messages");
    for path in [
        "chats?size=51",
        "chats?size=0",
        "chats?page=0",
        "chats?page=x",
        "notifications?size=51",
        "notifications?cursor=nothing",
        &format!("{messages}?size=51"),
        &format!("{messages}?cursor={chat}"),
        "insights/earnings?startDate=2026-02-01&endDate=2026-01-01",
        "insights/earnings?source=nothing",
    ] {
        let reply = kit.send(DEMO, Method::GET, path, none()).await;
        assert_eq!(reply.status, 400, "{path}");
    }
    let far = kit.get(DEMO, "chats?page=100000&size=50").await;
    assert_eq!((&far["data"], &far["pagination"]["hasMore"]), (&json!([]), &json!(false)));
}

#[tokio::test]
async fn an_empty_account_has_only_empty_lists() {
    let kit = Kit::new();
    for path in [
        "chats",
        "chats/unread",
        "chats/templates",
        "chats/mass-messages",
        "chats/lists/custom",
        "followers",
        "insights/fans",
        "insights/top-spenders",
        "insights/earnings",
        "media",
        "notifications",
        "posts",
        "agencies/chats",
        "agencies/team-members",
        "agencies/insights/chatter-leaderboard",
    ] {
        assert_eq!(kit.get("fresh_delta", path).await["data"], json!([]), "{path}");
    }
    for path in [
        "insights/earnings/summary",
        "insights/earnings/percentile",
        "insights/fan-retention-summary",
        "insights/subscribers",
        "insights/unsubscribe-reasons",
        "agencies/earnings",
        "agencies/followers-history",
        "chats/lists/smart",
    ] {
        kit.get("fresh_delta", path).await;
    }
}

#[tokio::test]
async fn ids_agree_between_groups_of_operations() {
    let kit = Kit::new();
    let fans = all_pages(&kit, "insights/fans", 50).await;
    let fans: BTreeSet<String> = fans.iter().map(|fan| id_of(&fan["userUuid"])).collect();
    let mut seen = BTreeSet::new();
    for (path, pointer) in [
        ("chats", "/user/uuid"),
        ("followers", "/uuid"),
        ("insights/top-spenders", "/userUuid"),
        ("apps/5c0f7a3e-0000-4000-8000-0000000000aa/payments", "/userUuid"),
    ] {
        let rows = all_pages(&kit, path, 50).await;
        seen.extend(rows.iter().map(|row| id_of(row.pointer(pointer).unwrap())));
    }
    for (path, pointer) in [("insights/earnings", "/user/uuid"), ("notifications", "/user/uuid")] {
        let rows = all_by_cursor(&kit, path, 50).await;
        seen.extend(rows.iter().map(|row| id_of(row.pointer(pointer).unwrap())));
    }
    assert_eq!(seen, fans);

    let foreign = id_of(&kit.get("nova_delta", "chats").await["data"][0]["user"]["uuid"]);
    let reply = kit.send(DEMO, Method::GET, &format!("chats/{foreign}"), none()).await;
    assert_eq!(reply.status, 404);
    let other_creator = id_of(&kit.get("nova_delta", "posts").await["data"][0]["creatorUuid"]);
    let path = format!("creators/{other_creator}/subscribers");
    assert_eq!(kit.send(DEMO, Method::GET, &path, none()).await.status, 404);
}

#[tokio::test]
async fn sums_of_earnings_match_the_single_payments() {
    let kit = Kit::new();
    let window = "startDate=2025-10-01&endDate=2025-12-31";
    let single = all_by_cursor(&kit, &format!("insights/earnings?{window}"), 50).await;
    let gross: i64 = single.iter().map(|row| row["gross"].as_i64().unwrap()).sum();
    let summary = kit.get(DEMO, &format!("insights/earnings/summary?{window}")).await;
    let sources = summary["sources"].as_array().unwrap();

    assert!(gross > 0);
    assert_eq!(summary["gross"], gross);
    assert_eq!(summary["net"], gross * 4 / 5);
    assert_eq!(sources.iter().map(|row| row["gross"].as_i64().unwrap()).sum::<i64>(), gross);
    let days = kit.get(DEMO, &format!("agencies/earnings?{window}&size=50")).await;
    assert_eq!(days["data"].as_array().unwrap().len(), 50);
    assert_eq!(days["data"][0]["date"], "2025-12-31");
}

#[tokio::test]
async fn histories_add_up_day_by_day_to_the_current_counts() {
    let kit = Kit::new();
    let days = async |path: &str| kit.get(DEMO, &format!("{path}?size=20")).await["data"].clone();
    let number = |row: &Value, field: &str| row[field].as_i64().unwrap();
    let now = kit.get(DEMO, "insights/fan-retention-summary").await;
    let lists = kit.get(DEMO, "chats/lists/smart").await;

    let subscribers = days("insights/subscribers").await;
    assert_eq!(subscribers[0]["total"], now["activeSubscribers"]);
    assert_eq!(
        subscribers,
        json!(subscribers_of_agency(&days("agencies/subscribers-history").await))
    );
    let followers = days("agencies/followers-history").await;
    assert_eq!(followers[0]["total"], lists["data"][1]["membersCount"]);
    for pair in followers.as_array().unwrap().windows(2) {
        let change = number(&pair[0], "total") - number(&pair[1], "total");
        assert_eq!(change, number(&pair[0], "newFollowers"));
    }
    for pair in subscribers.as_array().unwrap().windows(2) {
        let change = number(&pair[0], "total") - number(&pair[1], "total");
        let came = number(&pair[0], "newSubscribers");
        assert_eq!(change, came - number(&pair[0], "cancelledSubscribers"));
    }
}

/// The rows of the agency's history without their creators.
fn subscribers_of_agency(rows: &Value) -> Vec<Value> {
    let mut rows = rows.as_array().unwrap().clone();
    for row in &mut rows {
        row.as_object_mut().unwrap().remove("creatorUuid").unwrap();
    }
    rows
}

#[tokio::test]
async fn a_million_subscribers_are_served_like_a_few() {
    let kit =
        Kit::with(&PlatformSettings { subscribers: 1_000_000, ..PlatformSettings::default() });
    let deep = kit.get(DEMO, "insights/fans?size=50&page=20000").await;
    assert_eq!(deep["data"].as_array().unwrap().len(), 50);
    assert_eq!(deep["pagination"]["hasMore"], false);
    let earned = kit.get(DEMO, "insights/earnings?size=3").await;
    let next = id_of(&earned["nextCursor"]);
    let next = kit.get(DEMO, &format!("insights/earnings?size=3&cursor={next}")).await;
    assert_ne!(next["data"][0], earned["data"][2]);
    for path in ["insights/top-spenders", "insights/subscribers", "insights/spending", "chats"] {
        kit.get(DEMO, path).await;
    }
}
