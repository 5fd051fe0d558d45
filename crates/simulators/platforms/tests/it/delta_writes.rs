//! Every write of `platform_delta` has an effect that a read shows and that survives a restart.

use serde_json::{Value, json};

use crate::delta::{DEMO, all_pages};
use crate::kit::{Kit, id_of, none};
use crate::writes::Table;

const NOTIFICATIONS: &str = "notifications";

/// The same as text.
async fn id_at(table: &Table<'_>, path: &str, pointer: &str) -> String {
    id_of(&table.at(path, pointer).await)
}

#[tokio::test]
async fn every_write_of_the_catalogue_shows_in_a_read_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    let mut table = Table::new(&kit, DEMO);

    // First, because its test must know the id of the first created thing.
    uploads(&mut table).await;
    media(&kit, &mut table).await;
    posts(&mut table).await;
    folders(&mut table).await;
    agency(&mut table).await;
    chats(&kit, &mut table).await;
    lists(&mut table).await;
    mass_messages(&mut table).await;
    experiences(&mut table).await;
    insights(&mut table).await;

    table.covers_the_catalogue("platform_delta");
    table.outlives(&Kit::on(folder.path())).await;
}

async fn uploads(table: &mut Table<'_>) {
    let body = json!({"filename": "a.mp4", "mediaType": "video", "name": "Film"});
    let twin = Kit::new().post(DEMO, "media/uploads", body.clone()).await;
    let session = format!("media/uploads/{}", id_of(&twin["uploadId"]));
    let part = format!("{session}/parts/1/url");
    table.shows_at("POST media/uploads", body, &[(&part, "/status", json!(200))]).await;
    let medium = format!("media/{}", id_of(&twin["mediaUuid"]));
    table
        .shows(
            "PATCH media/uploads/{uploadId}",
            &session,
            json!({"parts": [{"partNumber": 1, "etag": "a"}]}),
            &[
                (&medium, "/body/name", json!("Film")),
                ("media", "/body/data/0/name", json!("Film")),
                (&part, "/status", json!(409)),
            ],
        )
        .await;
}

async fn media(kit: &Kit, table: &mut Table<'_>) {
    let all = all_pages(kit, "media", 50).await;
    let priced = all.iter().find(|it| it["price"].as_i64().unwrap() > 0).unwrap();
    let path = format!("media/{}", id_of(&priced["uuid"]));
    let fan = id_at(table, "insights/fans", "/data/0/userUuid").await;
    table
        .shows(
            "PATCH media/{uuid}",
            &path,
            json!({"name": "New"}),
            &[(&path, "/body/name", json!("New"))],
        )
        .await;
    table
        .shows(
            "POST media/{uuid}/grant",
            &format!("{path}/grant"),
            json!({"userUuid": fan}),
            &[(&format!("{path}/entitled?userUuid={fan}"), "/body/reason", json!("granted"))],
        )
        .await;
    let other = format!("media/{}", id_of(&all[7]["uuid"]));
    table.shows("DELETE media/{uuid}", &other, none(), &[(&other, "/status", json!(404))]).await;
}

async fn posts(table: &mut Table<'_>) {
    let (creator, post) = (
        id_at(table, "posts", "/data/0/creatorUuid").await,
        id_at(table, "posts", "/data/0/uuid").await,
    );
    let base = format!("creators/{creator}/posts/{post}");
    table
        .shows(
            "DELETE creators/{creatorUserUuid}/posts/{uuid}/pin",
            &format!("{base}/pin"),
            none(),
            &[("posts", "/body/data/0/isPinned", json!(false))],
        )
        .await;
    table
        .shows(
            "POST creators/{creatorUserUuid}/posts/{uuid}/repost",
            &format!("{base}/repost"),
            none(),
            &[("posts", "/body/data/0/repostOf", json!(post))],
        )
        .await;
    table
        .shows_at(
            "POST posts",
            json!({"text": "Mine", "audience": "followers-and-subscribers"}),
            &[("posts", "/body/data/0/text", json!("Mine"))],
        )
        .await;
    table
        .shows_at(
            "POST agencies/posts",
            json!({"creatorUuid": creator, "text": "Ours"}),
            &[("posts", "/body/data/0/text", json!("Ours"))],
        )
        .await;
}

async fn folders(table: &mut Table<'_>) {
    const ONE: &str = "creators/{creatorUserUuid}/vault/folders/{folderName}";
    let creator = id_at(table, "posts", "/data/0/creatorUuid").await;
    let medium = id_at(table, "media", "/data/1/uuid").await;
    let all = format!("creators/{creator}/vault/folders");
    let (old, new) = (format!("{all}/Spring"), format!("{all}/Summer"));
    let inside = format!("{new}/media");
    table
        .shows(
            "POST creators/{creatorUserUuid}/vault/folders",
            &all,
            json!({"name": "Spring"}),
            &[(&all, "/body/data/0/name", json!("Spring")), (&old, "/status", json!(200))],
        )
        .await;
    let renamed = [(&*new, "/status", json!(200)), (&*old, "/status", json!(404))];
    table.shows(&format!("PATCH {ONE}"), &old, json!({"name": "Summer"}), &renamed).await;
    table
        .shows(
            &format!("POST {ONE}/media"),
            &inside,
            json!({"mediaUuids": [medium]}),
            &[(&inside, "/body/data/0/uuid", json!(medium)), (&new, "/body/mediaCount", json!(1))],
        )
        .await;
    table
        .shows(
            &format!("DELETE {ONE}/media/{{mediaUuid}}"),
            &format!("{inside}/{medium}"),
            none(),
            &[(&inside, "/body/data", json!([]))],
        )
        .await;
    table.shows(&format!("DELETE {ONE}"), &new, none(), &[(&new, "/status", json!(404))]).await;
}

async fn agency(table: &mut Table<'_>) {
    const TEAM: &str = "agencies/team-members";
    let (creator, member) = ("creator@creators.test", "member@creators.test");
    table
        .shows_at(
            "POST agencies/creator-invites",
            json!({"email": creator}),
            &[
                (NOTIFICATIONS, "/body/data/0/type", json!("creator_invited")),
                (NOTIFICATIONS, "/body/data/0/subject", json!(creator)),
            ],
        )
        .await;
    table
        .shows_at(
            "POST agencies/invites",
            json!({"email": member, "role": "manager"}),
            &[
                (TEAM, "/body/data/0/displayName", json!(member)),
                (TEAM, "/body/data/0/isActive", json!(false)),
            ],
        )
        .await;
    let invited = id_at(table, TEAM, "/data/0/userId").await;
    table
        .shows(
            "PUT agencies/team-members/{userId}",
            &format!("{TEAM}/{invited}"),
            json!({"role": "admin", "isActive": true}),
            &[
                (TEAM, "/body/data/0/role", json!("admin")),
                (TEAM, "/body/data/0/isActive", json!(true)),
            ],
        )
        .await;
    let leaders = table.at("agencies/insights/chatter-leaderboard", "/data").await;
    assert_eq!(leaders.as_array().unwrap().len(), 4, "invited members have no sales yet");
}

async fn chats(kit: &Kit, table: &mut Table<'_>) {
    let known = all_pages(kit, "chats", 50).await;
    let fans = all_pages(kit, "insights/fans", 50).await;
    let is_free = |fan: &&Value| known.iter().all(|chat| chat["user"] != fan["user"]);
    let free = id_of(&fans.iter().find(is_free).unwrap()["userUuid"]);
    let path = format!("chats/{free}");
    let opened =
        [(&*path, "/status", json!(200)), ("chats", "/body/data/0/user/uuid", json!(free))];
    table.shows_at("POST chats", json!({"userUuid": free}), &opened).await;
    let messages = format!("{path}/messages");
    table
        .shows(
            "POST chats/{userUuid}/message",
            &format!("{path}/message"),
            json!({"text": "For you"}),
            &[
                (&messages, "/body/data/0/text", json!("For you")),
                ("chats", "/body/data/0/lastMessage/text", json!("For you")),
            ],
        )
        .await;
    table
        .shows(
            "PATCH chats/{userUuid}",
            &path,
            json!({"isRead": false, "isMuted": true, "nickname": "Al"}),
            &[
                (&path, "/body/nickname", json!("Al")),
                (&path, "/body/isMuted", json!(true)),
                ("chats/unread", "/body/data/0/user/uuid", json!(free)),
            ],
        )
        .await;
    let users = json!({"userUuids": [free]});
    let batch = table.checks("POST chats/messages/batch", "chats/messages/batch", users.clone());
    assert!(batch.await.to_string().contains("For you"));
    let statuses = table.checks("POST chats/statuses", "chats/statuses", users).await;
    assert_eq!(statuses["data"][0]["hasChat"], true);
}

async fn lists(table: &mut Table<'_>) {
    const ALL: &str = "chats/lists/custom";
    let fan = id_at(table, "insights/fans", "/data/0/userUuid").await;
    let made = [(ALL, "/body/data/0/name", json!("Best"))];
    let list = table.shows_at("POST chats/lists/custom", json!({"name": "Best"}), &made).await;
    let path = format!("{ALL}/{}", id_of(&list["uuid"]));
    table
        .shows(
            "POST chats/lists/custom/{uuid}/members",
            &format!("{path}/members"),
            json!({"userUuids": [fan]}),
            &[
                (&path, "/body/members/data/0/uuid", json!(fan)),
                (ALL, "/body/data/0/membersCount", json!(1)),
            ],
        )
        .await;
    table
        .shows(
            "PATCH chats/lists/custom/{uuid}",
            &path,
            json!({"name": "Dear"}),
            &[(&path, "/body/name", json!("Dear"))],
        )
        .await;
    table
        .shows(
            "DELETE chats/lists/custom/{uuid}/members/{userUuid}",
            &format!("{path}/members/{fan}"),
            none(),
            &[(&path, "/body/members/data", json!([]))],
        )
        .await;
    let gone = [(&*path, "/status", json!(404))];
    table.shows("DELETE chats/lists/custom/{uuid}", &path, none(), &gone).await;
}

async fn mass_messages(table: &mut Table<'_>) {
    const ALL: &str = "chats/mass-messages";
    let earlier = table.at(ALL, "/data/0/uuid").await;
    let body = json!({"text": "To all", "scheduledAt": "2026-02-05T00:00:00Z"});
    let waits = [
        (ALL, "/body/data/0/text", json!("To all")),
        (ALL, "/body/data/0/status", json!("scheduled")),
    ];
    let made = table.shows_at("POST chats/mass-messages", body, &waits).await;
    let path = format!("{ALL}/{}", id_of(&made["uuid"]));
    table
        .shows(
            "PATCH chats/mass-messages/{messageUuid}",
            &path,
            json!({"text": "To everybody"}),
            &[(ALL, "/body/data/0/text", json!("To everybody"))],
        )
        .await;
    let gone = [(ALL, "/body/data/0/uuid", earlier)];
    table.shows("DELETE chats/mass-messages/{messageUuid}", &path, none(), &gone).await;
}

async fn experiences(table: &mut Table<'_>) {
    let told = |kind: &str| [(NOTIFICATIONS, "/body/data/0/type", json!(kind))];
    let token = table
        .shows_at(
            "POST experiences/request-token",
            json!({"experience": "quiz"}),
            &told("experience_token_requested"),
        )
        .await["token"]
        .clone();
    table
        .shows_at(
            "POST experiences/token/exchange",
            json!({"token": token}),
            &told("experience_entered"),
        )
        .await;
}

async fn insights(table: &mut Table<'_>) {
    let fan = table.at("insights/fans", "/data/0").await;
    let users = json!({"userUuids": [fan["userUuid"]]});
    let batch =
        table.checks("POST insights/fans/batch", "insights/fans/batch", users.clone()).await;
    assert_eq!(batch["data"], json!([fan]));
    let profiles =
        table.checks("POST insights/fans/profiles", "insights/fans/profiles", users).await;
    assert_eq!(profiles["data"][0]["uuid"], fan["userUuid"]);
}
