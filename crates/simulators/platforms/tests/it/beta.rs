//! `platform_beta`: every route, its ids, its pages.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use simulator_platforms::PlatformSettings;

use crate::kit::{Kit, Row, id_of, none};

pub(crate) const DEMO: &str = "demo_beta";

/// The content of the envelope of a GET that must succeed.
pub(crate) async fn read(kit: &Kit, creator_id: &str, path: &str) -> Value {
    let body = kit.get(creator_id, path).await;
    assert_eq!(body["success"], true, "{path}");
    body["response"].clone()
}

/// The content of the envelope of a POST that must succeed.
pub(crate) async fn write(kit: &Kit, path: &str, body: Value) -> Value {
    let answer = kit.post(DEMO, path, body).await;
    assert_eq!(answer["success"], true, "{path}");
    answer["response"].clone()
}

/// The ids that the routes of the table need.
struct Ids {
    own: String,
    fan: String,
    peer: String,
    free_peer: String,
    subscription: String,
    list: String,
    other_list: String,
    tier: String,
    plan: String,
    goal: String,
    post: String,
    wall: String,
    media_story: String,
    story: String,
    media: String,
    account_media: String,
    bundle: String,
    album: String,
    group: String,
    gift_code: String,
    location: String,
    upload: String,
    email_change: String,
}

impl Ids {
    /// Looks up the ids as a caller would, and creates missing things.
    async fn find(kit: &Kit) -> Self {
        let first =
            async |path: &str, noun: &str| id_of(&read(kit, DEMO, path).await[noun][0]["id"]);
        let me = read(kit, DEMO, "account/me").await["account"].clone();
        let own = id_of(&me["id"]);
        let following = read(kit, DEMO, &format!("account/{own}/following?limit=100")).await;
        let peer = following["following"][0]["account"].clone();
        let mut free = following["following"].as_array().unwrap().iter();
        let free = free.find(|row| row["account"]["subscribed"] == false).unwrap();
        let own_subscription = read(kit, DEMO, "subscriptions").await["subscriptions"][0].clone();
        let lists = read(kit, DEMO, "lists/account").await["lists"].clone();
        let tiers = read(kit, DEMO, "subscriptions/tiers").await["subscriptionTiers"].clone();
        let account_media = id_of(
            &read(kit, DEMO, "mediaoffers/mediaoffers").await["mediaOffers"][0]["accountMediaId"],
        );
        let bundle = json!({"accountMediaIds": [account_media]});
        let gift =
            write(kit, "subscriptions/giftcodes", json!({"subscriptionTierId": tiers[0]["id"]}))
                .await;
        let location = write(kit, "account/ignore/location", json!({"countryCode": "de"})).await;
        let upload = json!({"filename": "a.jpg", "contentType": "image/jpeg", "size": 9});
        let email =
            write(kit, "account/emailchange/create", json!({"email": "new@creators.test"})).await;
        Self {
            fan: first("subscribers", "subscribers").await,
            peer: id_of(&peer["id"]),
            free_peer: id_of(&free["id"]),
            subscription: id_of(&own_subscription["subscriptionId"]),
            list: id_of(&lists[0]["id"]),
            other_list: id_of(&lists[1]["id"]),
            tier: id_of(&tiers[0]["id"]),
            plan: id_of(&tiers[0]["plans"][0]["id"]),
            goal: first("account/tipgoals", "tipGoals").await,
            post: first("timeline", "posts").await,
            wall: first("wall", "walls").await,
            media_story: first("mediastoriesnew", "mediaStories").await,
            story: first("stories", "stories").await,
            media: first("media/vault", "media").await,
            bundle: id_of(&write(kit, "account/media/bundle", bundle).await["id"]),
            album: first("uservault/albums", "albums").await,
            group: first("messaging/groups", "groups").await,
            gift_code: id_of(&gift["giftCodes"][0]["id"]),
            location: id_of(&location["id"]),
            upload: id_of(&write(kit, "upload-url/v1", upload).await["uploadId"]),
            email_change: id_of(&email["id"]),
            account_media,
            own,
        }
    }

    fn named(&self) -> Vec<(&'static str, String)> {
        [
            ("accountId", &self.peer),
            ("own", &self.own),
            ("group", &self.group),
            ("list", &self.list),
            ("goal", &self.goal),
            ("post", &self.post),
            ("wall", &self.wall),
            ("story", &self.media_story),
            ("media", &self.media),
            ("accountMedia", &self.account_media),
            ("bundle", &self.bundle),
            ("album", &self.album),
            ("gift", &self.gift_code),
            ("fan", &self.fan),
        ]
        .map(|(name, id)| (name, id.clone()))
        .into()
    }
}

fn post(template: &'static str, body: Value) -> Row {
    Row::new("POST", template, body)
}

/// All 112 routes of specification 4.5, and the two that exports use. Deletions come last. The
/// two-factor codes are filled in while the table runs.
fn table(ids: &Ids) -> Vec<Row> {
    let mut rows = account_rows(ids);
    rows.extend(money_rows(ids));
    rows.extend(content_rows(ids));
    rows.extend(media_rows(ids));
    rows
}

fn account_rows(ids: &Ids) -> Vec<Row> {
    let code = &ids.email_change[ids.email_change.len() - 6..];
    vec![
        Row::get("account").query("?ids={own},{fan},{accountId}"),
        post("account", json!({"about": "Hello"})),
        post("account/emailchange/verify", json!({"code": code})),
        post("account/emailchange/finish", json!({"code": code})),
        post("account/emailchange/create", json!({"email": "other@creators.test"})),
        post("account/ignore", json!({"ignoredId": ids.fan, "ignoreFlags": 4})),
        post("account/ignore/location", json!({"countryCode": "FR"})),
        post("account/ignore/location/delete", json!({"id": ids.location})),
        Row::get("account/ignore/locations"),
        Row::get("account/me"),
        Row::get("account/media").query("?ids={accountMedia}"),
        Row::get("account/media/bundle").query("?ids={bundle}"),
        Row::get("account/media/orders"),
        Row::get("account/search").query("?query=a"),
        Row::get("account/searchnew").query("?query=a"),
        Row::get("account/settings"),
        Row::get("account/tipgoals"),
        Row::get("account/verifynsfw"),
        post("account/media", json!({"mediaId": ids.media, "price": 4000})),
        post("account/media/bundle", json!({"accountMediaIds": [ids.account_media]})),
        post(
            "account/media/bundle/permissions",
            json!({"bundleId": ids.bundle, "permissionFlags": [{"type": 0, "flags": 2}]}),
        ),
        post("account/media/edit", json!({"accountMediaId": ids.account_media, "price": 6000})),
        post(
            "account/media/permissions",
            json!({"accountMediaId": ids.account_media, "permissionFlags": []}),
        ),
        post("account/settings", json!({"allowTips": false})),
        post("account/username", json!({"username": "demo.new"})),
        post("account/disable", none()),
        Row::get("account/wallets/earnings"),
        Row::get("account/wallets/earnings/accounts"),
        Row::get("account/wallets/earnings/monthlystats"),
        Row::get("account/wallets/earnings/monthlystats/accounts"),
        Row::get("account/wallets/earnings/stats"),
        Row::get("sessions"),
        post("status", json!({"statusId": 2})),
        post("submit/v1", json!({"form": "support", "data": {"text": "Hi"}})),
        post("twofa", none()),
        post("twofa/verify", json!({"code": "<code>"})),
        post("twofa/session/create", none()),
        post("twofa/session/verify", json!({"sessionId": "<session>", "code": "<code>"})),
        post("twofa/remove", json!({"code": "<code>"})),
    ]
}

fn money_rows(ids: &Ids) -> Vec<Row> {
    let promotion = json!({
        "planId": ids.plan, "status": 1, "duration": 30, "maxUses": 10, "price": 3000,
        "startsAt": 1_769_904_000_000_u64, "endsAt": 1_772_000_000_000_u64,
    });
    vec![
        Row::get("list/v1").query("?listId={list}"),
        Row::get("lists/account"),
        post("lists", json!({"label": "New"})),
        post("lists/aggregate/add", json!({"listId": ids.list, "sourceListId": ids.other_list})),
        post("lists/commands", json!({"listId": ids.list, "command": "duplicate"})),
        post("lists/edit", json!({"listId": ids.list, "label": "Renamed"})),
        post("lists/items/add", json!({"listId": ids.list, "itemIds": [ids.fan]})),
        post("lists/items/remove", json!({"listId": ids.list, "itemIds": [ids.fan]})),
        post("lists/order", json!({"listIds": [ids.other_list, ids.list]})),
        post("lists/remove", json!({"listId": ids.other_list})),
        Row::get("subscribers"),
        Row::get("subscriptions"),
        Row::get("subscriptions/giftcode").query("?id={gift}"),
        Row::get("subscriptions/giftcodes"),
        Row::get("subscriptions/tiers"),
        post("subscription", json!({"accountId": ids.free_peer})),
        post("subscriptions", json!({"subscriptionId": ids.subscription, "autoRenew": false})),
        post("subscriptions/giftcodes", json!({"subscriptionTierId": ids.tier, "count": 3})),
        post("subscriptions/promotions", promotion),
        post("subscriptions/tiers", json!({"name": "New", "price": 5000})),
        post("subscriptions/tiers/order", json!({"subscriptionTierIds": [ids.tier]})),
        post("subscriptions/tier/delete", json!({"subscriptionTierId": ids.tier})),
        Row::get("account/{accountId}/followers"),
        Row::get("account/{accountId}/following"),
        post("account/{accountId}/followers", none()),
        post("account/{accountId}/followers/remove", none()),
        post("chatroom", json!({"name": "Room"})),
        Row::get("chatroom/chatters"),
        Row::get("chatroom/goal/tips").query("?goalId={goal}"),
        post("chatroom/goal/update", json!({"goalId": ids.goal, "goalAmount": 9_000_000})),
        Row::get("messaging/groups"),
        Row::get("message").query("?groupId={group}"),
    ]
}

fn content_rows(ids: &Ids) -> Vec<Row> {
    vec![
        Row::get("timeline"),
        Row::get("timelinenew"),
        Row::get("timeline/home").query("?mode=following"),
        Row::get("timeline/permissions"),
        Row::get("wall").query("?wallId={wall}"),
        post("timeline/permissions", json!({"permissionFlags": [{"type": 0, "flags": 3}]})),
        post("postreply/verify", json!({"postId": ids.post, "content": "Nice"})),
        post("wall/create", json!({"name": "New", "private": 1})),
        post("wall/editorder", json!({"wallIds": [ids.wall]})),
        post("wall/postcreate", json!({"wallId": ids.wall, "content": "Hello"})),
        post("wall/postedit", json!({"postId": ids.post, "content": "Edited"})),
        post("wall/postdelete", json!({"postId": ids.post})),
        post("wall/delete", json!({"wallId": ids.wall})),
        Row::get("mediastories"),
        Row::get("mediastories/following").query("?limit=5&offset=1"),
        Row::get("mediastoriesnew"),
        Row::get("mediastory/views").query("?mediaStoryId={story}"),
        Row::get("stories"),
        post("mediastories", json!({"contentId": ids.account_media})),
        post("mediastory/view", json!({"mediaStoryId": ids.media_story})),
        post("stories", json!({"title": "New", "mediaStoryIds": [ids.media_story]})),
        post("stories/order", json!({"storyIds": [ids.story]})),
        post("mediastory/delete", json!({"mediaStoryId": ids.media_story})),
    ]
}

fn media_rows(ids: &Ids) -> Vec<Row> {
    let album = json!({"albumId": ids.album, "mediaIds": [ids.media]});
    vec![
        Row::get("media").query("?ids={media}"),
        Row::get("media/vault"),
        Row::get("media/vaultnew"),
        Row::get("media/watermark"),
        Row::get("mediaoffers/location"),
        Row::get("mediaoffers/location/deleted"),
        Row::get("mediaoffers/mediaoffers"),
        Row::get("uservault/album/content").query("?albumId={album}"),
        Row::get("uservault/albums"),
        post("upload-url/v1", json!({"filename": "b.mp4", "contentType": "video/mp4", "size": 5})),
        post("upload-verify/v1", json!({"uploadId": ids.upload})),
        post("media", json!({"uploadId": ids.upload})),
        post("media/bundle", json!({"mediaIds": [ids.media]})),
        post("media/cover", json!({"mediaId": ids.media, "coverId": ids.media})),
        post("media/watermark", json!({"enabled": false})),
        post("uservault/album/content", album.clone()),
        post("uservault/album/content/delete", album),
        post("uservault/album/edit", json!({"albumId": ids.album, "title": "New"})),
        post("uservault/album/delete", json!({"albumId": ids.album})),
        post("uservault/albums", json!({"title": "Another"})),
    ]
}

#[tokio::test]
async fn every_route_of_the_specification_responds_to_its_owner_only() {
    let kit = Kit::new();
    let ids = Ids::find(&kit).await;
    let rows = table(&ids);
    assert_eq!(rows.len(), 114);
    let (mut codes, mut session) = (Vec::new(), Value::Null);

    for row in &rows {
        let path = row.path(&ids.named());
        let target = format!("/platform_beta/api/v1/{path}");
        let anonymous = kit.raw(row.method(), &target, &[], row.body.clone()).await;
        assert_eq!(anonymous.status, 401, "{}", row.name());
        assert_eq!(anonymous.body["success"], false, "{}", row.name());
        assert_eq!(anonymous.body["error"]["code"], "unauthorized", "{}", row.name());

        let mut body = row.body.clone();
        if body["code"] == "<code>" {
            body["code"] = codes.pop().unwrap();
        }
        if body["sessionId"] == "<session>" {
            body["sessionId"] = session.clone();
        }
        let reply = kit.send(DEMO, row.method(), &path, body).await;
        assert_eq!(reply.status, 200, "{} {}", row.name(), reply.body);
        assert_eq!(reply.body["success"], true, "{}", row.name());
        assert!(!reply.body["response"].is_null(), "{}", row.name());
        match row.template {
            "twofa" => codes = reply.body["response"]["codes"].as_array().unwrap().clone(),
            "twofa/session/create" => session = reply.body["response"]["id"].clone(),
            _ => {}
        }
    }
    let written: BTreeSet<String> = rows.iter().map(Row::name).collect();
    assert_eq!(kit.routes("platform_beta").await, written);
}

#[tokio::test]
async fn refusals_have_the_shape_of_the_platform() {
    let kit = Kit::new();
    for (method, path, status, code) in [
        (Method::GET, "nowhere", 404, "not_found"),
        (Method::DELETE, "account/me", 405, "method_not_allowed"),
        (Method::GET, "account", 400, "bad_request"),
        (Method::GET, "list/v1?listId=17", 404, "not_found"),
    ] {
        let reply = kit.send(DEMO, method, path, none()).await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(reply.body["success"], false);
        assert_eq!(reply.body["error"]["code"], code, "{path}");
        assert!(reply.body["error"]["details"].is_string());
    }
}

#[tokio::test]
async fn an_empty_account_has_only_empty_lists() {
    let kit = Kit::new();
    let own = read(&kit, "fresh_beta", "account/me").await["account"]["id"].clone();
    let own = id_of(&own);
    let (followers, following) =
        (format!("account/{own}/followers"), format!("account/{own}/following"));
    for (path, noun) in [
        ("subscribers", "subscribers"),
        ("subscriptions", "subscriptions"),
        ("messaging/groups", "groups"),
        ("timeline", "posts"),
        ("timeline/home", "posts"),
        ("wall", "walls"),
        ("mediastories", "mediaStories"),
        ("mediastories/following", "mediaStories"),
        ("stories", "stories"),
        ("media/vault", "media"),
        ("uservault/albums", "albums"),
        ("mediaoffers/mediaoffers", "mediaOffers"),
        ("mediaoffers/location", "locations"),
        ("lists/account", "lists"),
        ("account/tipgoals", "tipGoals"),
        ("account/wallets/earnings/accounts", "accounts"),
        (&followers, "followers"),
        (&following, "following"),
    ] {
        let body = read(&kit, "fresh_beta", path).await;
        assert_eq!(body[noun], json!([]), "{path}");
        assert_eq!(body["hasMore"], false, "{path}");
    }
    for path in ["account/media/orders", "account/wallets/earnings", "subscriptions/tiers"] {
        read(&kit, "fresh_beta", path).await;
    }
    let earned = read(&kit, "fresh_beta", "account/wallets/earnings").await;
    assert_eq!(earned["totalGross"], 0);
}

/// Reads all pages with `limit` and `offset`.
pub(crate) async fn all_by_offset(kit: &Kit, path: &str, noun: &str, limit: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = format!("{path}{sign}limit={limit}&offset={}", rows.len());
        let page = read(kit, DEMO, &page).await;
        rows.extend(page[noun].as_array().unwrap().iter().cloned());
        if page["hasMore"] == false {
            return rows;
        }
        assert_eq!(page[noun].as_array().unwrap().len(), limit);
    }
}

/// Reads all pages with `before`.
async fn all_by_cursor(kit: &Kit, path: &str, noun: &str, limit: usize) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let before = rows.last().map_or("0".to_owned(), |row| id_of(&row["id"]));
        let page = read(kit, DEMO, &format!("{path}{sign}limit={limit}&before={before}")).await;
        rows.extend(page[noun].as_array().unwrap().iter().cloned());
        if page["hasMore"] == false {
            return rows;
        }
        assert_eq!(page[noun].as_array().unwrap().len(), limit);
    }
}

fn ids_of(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| id_of(&row["id"])).collect()
}

#[tokio::test]
async fn pages_by_offset_and_by_cursor_cover_everything_once_in_the_same_order() {
    let kit = Kit::new();
    let own = id_of(&read(&kit, DEMO, "account/me").await["account"]["id"]);
    let followers = format!("account/{own}/followers");
    let following = format!("account/{own}/following");
    for (path, noun, count) in [
        ("subscribers", "subscribers", 240),
        ("subscribers?status=active", "subscribers", 192),
        ("subscribers?status=expired", "subscribers", 48),
        ("subscriptions", "subscriptions", 20),
        ("messaging/groups", "groups", 160),
        ("timeline", "posts", 60),
        ("timeline/home", "posts", 400),
        ("media/vault", "media", 120),
        ("mediastoriesnew", "mediaStories", 24),
        (&followers, "followers", 214),
        (&following, "following", 40),
    ] {
        let by_offset = ids_of(&all_by_offset(&kit, path, noun, 37).await);
        let by_cursor = ids_of(&all_by_cursor(&kit, path, noun, 23).await);
        let distinct: BTreeSet<&String> = by_offset.iter().collect();
        assert_eq!((by_offset.len(), distinct.len()), (count, count), "{path}");
        assert_eq!(by_offset, by_cursor, "{path}");
    }
    let orders = all_by_cursor(&kit, "account/media/orders", "orders", 17).await;
    assert_eq!(
        ids_of(&orders),
        ids_of(&all_by_offset(&kit, "account/media/orders", "orders", 50).await)
    );
}

#[tokio::test]
async fn the_after_cursor_returns_the_next_newer_rows() {
    let kit = Kit::new();
    let all = ids_of(&all_by_offset(&kit, "subscribers", "subscribers", 100).await);

    let page = read(&kit, DEMO, &format!("subscribers?limit=5&after={}", all[20])).await;
    assert_eq!(ids_of(page["subscribers"].as_array().unwrap()), all[15..20]);
    assert_eq!(page["hasMore"], true);

    let first = read(&kit, DEMO, &format!("subscribers?limit=5&after={}", all[3])).await;
    assert_eq!(ids_of(first["subscribers"].as_array().unwrap()), all[..3]);
    assert_eq!(first["hasMore"], false);

    let unknown = kit.send(DEMO, Method::GET, "subscribers?before=123", none()).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn search_results_of_followers_page_in_both_ways() {
    let kit = Kit::new();
    let own = id_of(&read(&kit, DEMO, "account/me").await["account"]["id"]);
    let path = format!("account/{own}/followers?search=an");

    let by_offset = ids_of(&all_by_offset(&kit, &path, "followers", 4).await);
    let by_cursor = ids_of(&all_by_cursor(&kit, &path, "followers", 3).await);
    assert!((9..214).contains(&by_offset.len()));
    assert_eq!(by_offset, by_cursor);

    let page = read(&kit, DEMO, &format!("{path}&limit=2&after={}", by_offset[8])).await;
    assert_eq!(ids_of(page["followers"].as_array().unwrap()), by_offset[6..8]);
}

#[tokio::test]
async fn the_home_timeline_pages_back_to_newer_posts() {
    let kit = Kit::new();
    let posts = ids_of(&all_by_offset(&kit, "timeline/home", "posts", 100).await);

    let page = read(&kit, DEMO, &format!("timeline/home?limit=3&after={}", posts[9])).await;
    assert_eq!(ids_of(page["posts"].as_array().unwrap()), posts[6..9]);
    assert_eq!(page["hasMore"], true);
    let first = read(&kit, DEMO, &format!("timeline/home?limit=3&after={}", posts[2])).await;
    assert_eq!(ids_of(first["posts"].as_array().unwrap()), posts[..2]);
    assert_eq!(first["hasMore"], false);
    let mode = kit.send(DEMO, Method::GET, "timeline/home?mode=nothing", none()).await;
    assert_eq!(mode.status, 400);
}

#[tokio::test]
async fn messages_of_a_group_page_back_and_belong_to_its_two_members() {
    let kit = Kit::new();
    let own = read(&kit, DEMO, "account/me").await["account"]["id"].clone();
    for group in read(&kit, DEMO, "messaging/groups?limit=5").await["groups"].as_array().unwrap() {
        let path = format!("message?groupId={}", id_of(&group["groupId"]));
        let messages = all_by_cursor(&kit, &path, "messages", 4).await;
        assert_eq!(json!(messages.len()), group["messageCount"]);
        assert_eq!(messages[0], group["lastMessage"]);
        let mut before = i64::MAX;
        for message in &messages {
            let sent = message["createdAt"].as_i64().unwrap();
            assert!(sent < before);
            before = sent;
            assert_eq!(message["groupId"], group["groupId"]);
            let people = [&message["senderId"], &message["recipientId"]];
            assert!(people.contains(&&own) && people.contains(&&group["partnerAccountId"]));
        }
    }
}

#[tokio::test]
async fn ids_agree_between_groups_of_routes() {
    let kit = Kit::new();
    let own = id_of(&read(&kit, DEMO, "account/me").await["account"]["id"]);
    let subscribers = all_by_offset(&kit, "subscribers", "subscribers", 100).await;
    let fans: BTreeSet<String> = ids_of(&subscribers).into_iter().collect();
    let tiers = read(&kit, DEMO, "subscriptions/tiers").await["subscriptionTiers"].clone();
    let tiers: Vec<Value> = tiers.as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    for subscriber in &subscribers {
        assert_eq!(subscriber["accountId"], json!(own));
        assert_eq!(subscriber["subscriberId"], subscriber["account"]["id"]);
        assert!(tiers.contains(&subscriber["subscriptionTierId"]));
    }

    let followers = format!("account/{own}/followers");
    let mut seen = ids_of(&all_by_offset(&kit, &followers, "followers", 100).await);
    let list = id_of(&read(&kit, DEMO, "lists/account").await["lists"][0]["id"]);
    let items = all_by_offset(&kit, &format!("list/v1?listId={list}"), "items", 50).await;
    seen.extend(ids_of(&items));
    let groups = all_by_offset(&kit, "messaging/groups", "groups", 100).await;
    seen.extend(groups.iter().map(|group| id_of(&group["partnerAccountId"])));
    let payers = "account/wallets/earnings/accounts";
    let payers = all_by_offset(&kit, payers, "accounts", 100).await;
    seen.extend(payers.iter().map(|payer| id_of(&payer["accountId"])));
    assert!(seen.len() > 500);
    for fan in &seen {
        assert!(fans.contains(fan), "{fan}");
    }
}

#[tokio::test]
async fn earnings_are_mills_and_every_view_has_the_same_sum() {
    let kit = Kit::new();
    let sum = |rows: &Value, name: &str| -> i64 {
        rows.as_array().unwrap().iter().map(|row| row[name].as_i64().unwrap()).sum()
    };
    let total = read(&kit, DEMO, "account/wallets/earnings").await;
    let stats = read(&kit, DEMO, "account/wallets/earnings/stats").await;
    let accounts = all_by_offset(&kit, "account/wallets/earnings/accounts", "accounts", 100).await;
    let months = read(&kit, DEMO, "account/wallets/earnings/monthlystats?months=36").await;

    let gross = total["totalGross"].as_i64().unwrap();
    assert!(gross > 1_000_000);
    assert_eq!(total["totalNet"].as_i64().unwrap() * 10, gross * 8);
    for rows in [&stats["stats"], &json!(accounts), &months["monthlyStats"]] {
        assert_eq!(sum(rows, "totalGross"), gross);
        assert_eq!(sum(rows, "totalNet") * 10, gross * 8);
    }
    let types: BTreeSet<i64> = stats["stats"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["type"].as_i64().unwrap())
        .collect();
    let specified =
        [7001, 7101, 15001, 2010, 2110, 2016, 2116, 32001, 32101, 18001, 45001, 45101, 24101];
    assert_eq!(types, BTreeSet::from(specified));

    let newest = &months["monthlyStats"][0];
    let of_month = all_by_offset(
        &kit,
        &format!(
            "account/wallets/earnings/monthlystats/accounts?month={}",
            newest["month"].as_str().unwrap()
        ),
        "accounts",
        100,
    )
    .await;
    assert_eq!(sum(&json!(of_month), "totalGross"), newest["totalGross"].as_i64().unwrap());
}

#[tokio::test]
async fn accounts_are_found_by_name_and_by_id() {
    let kit = Kit::new();
    let fan = read(&kit, DEMO, "subscribers").await["subscribers"][7]["account"].clone();
    let username = fan["username"].as_str().unwrap();

    for path in [
        format!("account?ids={}", id_of(&fan["id"])),
        format!("account?usernames={username}"),
        format!("account/search?query={username}"),
    ] {
        let found = read(&kit, DEMO, &path).await;
        assert!(found.as_array().unwrap().contains(&fan), "{path}");
    }
    let found = read(&kit, DEMO, &format!("account/searchnew?query={username}")).await;
    assert_eq!(found["results"][0]["account"], fan);
    let nobody = read(&kit, DEMO, "account?ids=1,2").await;
    assert_eq!(nobody, json!([]));
}

#[tokio::test]
async fn a_million_subscribers_are_served_like_a_few() {
    let kit =
        Kit::with(&PlatformSettings { subscribers: 1_000_000, ..PlatformSettings::default() });
    let deep = read(&kit, DEMO, "subscribers?limit=100&offset=999950").await;
    assert_eq!(deep["subscribers"].as_array().unwrap().len(), 50);
    assert_eq!((&deep["total"], &deep["hasMore"]), (&json!(1_000_000), &json!(false)));
    let before = id_of(&deep["subscribers"][48]["id"]);
    let last = read(&kit, DEMO, &format!("subscribers?before={before}")).await;
    assert_eq!(last["subscribers"], json!([deep["subscribers"][49]]));

    let username = deep["subscribers"][7]["account"]["username"].as_str().unwrap();
    let found = read(&kit, DEMO, &format!("account?usernames={username}")).await;
    assert_eq!(found, json!([deep["subscribers"][7]["account"]]));
    for path in ["account/wallets/earnings/accounts", "account/me", "messaging/groups"] {
        read(&kit, DEMO, path).await;
    }
}
