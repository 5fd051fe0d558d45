//! Every write of `platform_gamma` has an effect that a read shows and that survives a restart.

use serde_json::{Value, json};

use crate::gamma::{DEMO, deletion, tier};
use crate::kit::{Kit, id_of, none};
use crate::writes::Table;

/// A path of the own account.
fn own(kit: &Kit, path: &str) -> String {
    format!("user/{}/{path}", id_of(&kit.auth(DEMO)["account_id"]))
}

async fn first_id(table: &Table<'_>, path: &str) -> String {
    id_of(&table.read(path).await["body"][0]["_id"])
}

#[tokio::test]
async fn every_write_of_the_catalogue_shows_in_a_read_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    let mut table = Table::new(&kit, DEMO);

    tiers(&kit, &mut table).await;
    messages(&kit, &mut table).await;
    chats(&kit, &mut table).await;
    mass_messages(&kit, &mut table).await;
    lists(&kit, &mut table).await;
    follows(&kit, &mut table).await;
    posts(&kit, &mut table).await;

    table.covers_the_catalogue("platform_gamma");
    table.outlives(&Kit::on(folder.path())).await;
}

async fn tiers(kit: &Kit, table: &mut Table<'_>) {
    let path = own(kit, "subscription/configuration");
    let bundle = ("/body/0/initial_payment_options/1/amount", json!(12_000));
    let made = table
        .shows(
            "POST user/{selfId}/subscription/configuration",
            &path,
            tier(),
            &[(&path, bundle.0, bundle.1), (&path, "/body/0/price", json!(1500))],
        )
        .await;
    table
        .shows(
            "PUT user/{selfId}/subscription/configuration/{tierId}",
            &format!("{path}/{}", id_of(&made["_id"])),
            deletion(),
            &[(&path, "/body/0/status", json!("deleted"))],
        )
        .await;
}

async fn messages(kit: &Kit, table: &mut Table<'_>) {
    let chats = own(kit, "chatsByList?limit=1");
    let chat = first_id(table, &own(kit, "chatsByList?limit=1&offset=3")).await;
    let path = own(kit, &format!("chat/{chat}/message"));
    let body = json!({"message": "For you", "message_price": 700});
    let sent = table
        .shows(
            "POST user/{selfId}/chat/{chatId}/message",
            &path,
            body,
            &[
                (&path, "/body/0/message", json!("For you")),
                (&path, "/body/0/message_price", json!(700)),
                (&chats, "/body/0/_id", json!(chat)),
            ],
        )
        .await;
    table
        .shows(
            "PUT user/{selfId}/chat/{chatId}/message/{messageId}",
            &format!("{path}/{}", id_of(&sent["_id"])),
            json!({"text": "Only for you"}),
            &[(&path, "/body/0/message", json!("Only for you"))],
        )
        .await;
}

async fn chats(kit: &Kit, table: &mut Table<'_>) {
    let chat = first_id(table, &own(kit, "chatsByList?limit=1")).await;
    let one = own(kit, &format!("chat/{chat}"));
    let unread = own(kit, "chat/unread-messages");
    let configuration = own(kit, "chat/configuration");
    table
        .shows(
            "POST user/{selfId}/chat/{chatId}/pin",
            &format!("{one}/pin"),
            json!({"is_pinned": true}),
            &[(&one, "/body/is_pinned", json!(true))],
        )
        .await;
    table
        .shows(
            "POST user/{selfId}/chat/{chatId}/mark-as-unread",
            &format!("{one}/mark-as-unread"),
            none(),
            &[
                (&unread, &format!("/body/{chat}"), json!(1)),
                (&one, "/body/unread_count", json!(1)),
            ],
        )
        .await;
    table
        .shows(
            "POST user/{selfId}/chat/configuration",
            &configuration,
            json!({"unlock_price": 900}),
            &[(&configuration, "/body/unlock_price", json!(900))],
        )
        .await;
    table
        .shows(
            "PUT user/{selfId}/chat/{chatId}/delete-all-chat-messages-for-user",
            &format!("{one}/delete-all-chat-messages-for-user"),
            none(),
            &[(&format!("{one}/message"), "/body", json!([]))],
        )
        .await;
    table
        .shows(
            "PUT user/{selfId}/chat/{chatId}/delete-chat-for-user-by-user-id",
            &format!("{one}/delete-chat-for-user-by-user-id"),
            none(),
            &[(&one, "/status", json!(404))],
        )
        .await;
}

async fn mass_messages(kit: &Kit, table: &mut Table<'_>) {
    let path = own(kit, "chat/mass-message/");
    let later = json!({"message": "To all", "to_be_posted_at": "2026-02-05T00:00:00Z"});
    let made = table
        .shows(
            "POST user/{selfId}/chat/mass-message/",
            &path,
            later,
            &[(&path, "/body/0/message", json!("To all"))],
        )
        .await;
    let one = format!("{path}{}", id_of(&made["_id"]));
    let route = "PUT user/{selfId}/chat/mass-message/{messageId}";
    let dearer = json!({"message_price": 900});
    table.shows(route, &one, dearer, &[(&path, "/body/0/message_price", json!(900))]).await;
    let cancel = "DELETE user/{selfId}/chat/mass-message/{messageId}";
    let cancelled = json!("cancelled");
    table.shows(cancel, &one, none(), &[(&path, "/body/0/status", cancelled)]).await;
}

async fn lists(kit: &Kit, table: &mut Table<'_>) {
    let path = own(kit, "user-lists");
    let all = format!("{path}?limit=1");
    let fan = first_id(table, &own(kit, "follower?limit=1")).await;
    let shown = &[(all.as_str(), "/body/0/name", json!("Close"))];
    let made =
        table.shows("POST user/{selfId}/user-lists", &path, json!({"name": "Close"}), shown).await;
    let one = format!("{path}/{}", id_of(&made["_id"]));
    let users = format!("{one}/users?limit=5");
    let of_fan = format!("{path}/contains-user/{fan}");
    let member = json!({"user_ids": [fan]});
    table
        .shows(
            "POST user/{selfId}/user-lists/{listId}/add-users",
            &format!("{one}/add-users"),
            member.clone(),
            &[
                (&users, "/body/0/_id", json!(fan)),
                (&of_fan, "/body/0/_id", made["_id"].clone()),
                (&all, "/body/0/user_count", json!(1)),
            ],
        )
        .await;
    table
        .shows(
            "PUT user/{selfId}/user-lists/{listId}",
            &one,
            json!({"name": "Closer"}),
            &[(&all, "/body/0/name", json!("Closer"))],
        )
        .await;
    table
        .shows(
            "POST user/{selfId}/user-lists/{listId}/remove-users",
            &format!("{one}/remove-users"),
            member,
            &[(&users, "/body", json!([]))],
        )
        .await;
    table
        .shows(
            "DELETE user/{selfId}/user-lists/{listId}",
            &one,
            none(),
            &[(&users, "/status", json!(404))],
        )
        .await;
}

async fn follows(kit: &Kit, table: &mut Table<'_>) {
    let (following, followers) = (own(kit, "following?limit=1"), own(kit, "follower?limit=1"));
    let fan = first_id(table, &followers).await;
    let followed = first_id(table, &following).await;
    let second = first_id(table, &own(kit, "follower?limit=1&offset=1")).await;
    let path = format!("user/{fan}/follow");
    let first = |id: &str| json!(id);
    table
        .shows(
            "POST user/{fanUserId}/follow",
            &path,
            none(),
            &[
                (&following, "/body/0/_id", first(&fan)),
                (&format!("user/{fan}"), "/body/is_following", json!(true)),
            ],
        )
        .await;
    table
        .shows(
            "DELETE user/{fanUserId}/follow",
            &path,
            none(),
            &[(&following, "/body/0/_id", first(&followed))],
        )
        .await;
    table
        .shows(
            "DELETE user/{fanUserId}/un-follow",
            &format!("user/{fan}/un-follow"),
            none(),
            &[
                (&followers, "/body/0/_id", first(&second)),
                (&format!("user/{fan}"), "/body/is_follower", json!(false)),
                (own(kit, "").trim_end_matches('/'), "/body/follower_count", json!(213)),
            ],
        )
        .await;
}

async fn posts(kit: &Kit, table: &mut Table<'_>) {
    let all = own(kit, "file-stack?limit=1");
    let made = upload(kit, table, &all).await;
    let one = format!("file-stack/{}", id_of(&made["_id"]));
    let comments = format!("{one}/comment");
    let comment = table
        .shows(
            "POST file-stack/{fileStackId}/comment",
            &comments,
            json!({"text": "Mine"}),
            &[(&comments, "/body/0/text", json!("Mine")), (&one, "/body/comment_count", json!(1))],
        )
        .await;
    table
        .shows(
            "DELETE file-stack/{fileStackId}/comment/{commentId}",
            &format!("{comments}/{}", id_of(&comment["_id"])),
            none(),
            &[(&comments, "/body", json!([])), (&one, "/body/comment_count", json!(0))],
        )
        .await;
    let edit = json!({"description": "Other", "tag": "sea", "categories": "media,moment"});
    table
        .shows(
            "PUT file-stack/{fileStackId}",
            &one,
            edit,
            &[
                (&one, "/body/description", json!("Other")),
                (&all, "/body/0/tag", json!(["sea"])),
                (
                    &own(kit, "file-stack?categories=moment&limit=1"),
                    "/body/0/_id",
                    made["_id"].clone(),
                ),
            ],
        )
        .await;
    let route = "DELETE file-stack/{fileStackId}";
    table.shows(route, &one, none(), &[(&one, "/status", json!(404))]).await;
}

async fn upload(kit: &Kit, table: &mut Table<'_>, all: &str) -> Value {
    let form = b"--b\r\nContent-Disposition: form-data; name=\"description\"\r\n\r\nThe sea\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"sea.jpg\"\r\n\
        Content-Type: image/jpeg\r\n\r\n\xff\xd8\xff\x00\r\n--b--\r\n";
    let vault = own(kit, "vault?limit=1");
    let shows = [
        (all, "/body/0/description", json!("The sea")),
        (&*vault, "/body/0/filename", json!("sea.jpg")),
    ];
    let send = async || kit.multipart(DEMO, "media/upload", "b", form.to_vec()).await;
    table.shows_by("POST media/upload", &shows, send).await
}
