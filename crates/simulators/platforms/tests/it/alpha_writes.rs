//! Every write of `platform_alpha` has an effect that a read shows and that survives a restart.

use serde_json::json;

use crate::alpha::DEMO;
use crate::kit::{Kit, id_of, none};
use crate::writes::Table;

#[tokio::test]
async fn every_write_of_the_catalogue_shows_in_a_read_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    let mut table = Table::new(&kit, DEMO);

    account(&mut table).await;
    buttons(&mut table).await;
    chats(&mut table).await;
    messages(&mut table).await;
    posts(&mut table).await;
    stories(&mut table).await;
    lists(&mut table).await;
    vault(&mut table).await;
    offers(&mut table).await;

    table.covers_the_catalogue("platform_alpha");
    table.outlives(&Kit::on(folder.path())).await;
}

async fn account(table: &mut Table<'_>) {
    table
        .shows_at(
            "PATCH users/me",
            json!({"about": "Hello"}),
            &[("users/me", "/body/about", json!("Hello"))],
        )
        .await;
    table
        .shows_at(
            "PATCH users/me/settings/messages",
            json!({"text": "Hi!", "enabled": true}),
            &[
                ("users/me/settings", "/body/messages/welcomeMessage", json!("Hi!")),
                ("users/me/settings", "/body/messages/isWelcomeMessageEnabled", json!(true)),
            ],
        )
        .await;
    table
        .shows_at(
            "PATCH users/settings/post",
            json!({"showTips": true}),
            &[("users/settings/post", "/body/showTips", json!(true))],
        )
        .await;
    let exists = json!({"username": "nobody"});
    table.checks("POST users/exists", "users/exists", exists).await;
    let fan = table.at("subscriptions/subscribers", "/list/1/id").await;
    table
        .shows(
            "POST users/{user_id}/restrict",
            &format!("users/{fan}/restrict"),
            none(),
            &[
                ("users/restrict", "/body/list/0/id", fan.clone()),
                ("subscriptions/subscribers", "/body/list/1/isRestricted", json!(true)),
            ],
        )
        .await;
}

async fn buttons(table: &mut Table<'_>) {
    const BUTTONS: &str = "users/social/buttons";
    let made = table
        .shows_at(
            "POST users/social/buttons",
            json!({"label": "Shop", "url": "https://shop.test"}),
            &[(BUTTONS, "/body/0/label", json!("Shop"))],
        )
        .await;
    let (second, third) = (table.at(BUTTONS, "/1/id").await, table.at(BUTTONS, "/2/id").await);
    table
        .shows_at(
            "PUT users/social/buttons",
            json!({"ids": [third, made["id"], second]}),
            &[(BUTTONS, "/body/0/id", third.clone()), (BUTTONS, "/body/2/id", second.clone())],
        )
        .await;
}

async fn chats(table: &mut Table<'_>) {
    const CHATS: &str = "chats";
    let chat = table.at(CHATS, "/list/0/id").await;
    let mark = format!("chats/{chat}/mark-as-read");
    let unread = |yes: bool| [(CHATS, "/body/list/0/hasUnread", json!(yes))];
    table.shows_at("POST chats/mark-as-read", none(), &unread(false)).await;
    table.shows("DELETE chats/{chat_id}/mark-as-read", &mark, none(), &unread(true)).await;
    table.shows("POST chats/{chat_id}/mark-as-read", &mark, none(), &unread(false)).await;
    table
        .shows(
            "POST chats/{chat_id}/mute",
            &format!("chats/{chat}/mute"),
            none(),
            &[(CHATS, "/body/list/0/isMutedNotifications", json!(true))],
        )
        .await;
}

async fn messages(table: &mut Table<'_>) {
    let chat = table.at("chats", "/list/0/id").await;
    let path = format!("chats/{chat}/messages");
    let message = table.at(&path, "/list/0/id").await;
    table
        .shows(
            "POST messages/{message_id}/pin",
            &format!("messages/{message}/pin"),
            none(),
            &[(&path, "/body/list/0/isPinned", json!(true))],
        )
        .await;
    let later = json!({"text": "To all", "scheduledDate": "2026-02-05T00:00:00Z"});
    table
        .shows_at(
            "POST messages/queue",
            later,
            &[
                ("messages/queue", "/body/list/0/text", json!("To all")),
                ("messages/queue", "/body/list/0/isDone", json!(false)),
            ],
        )
        .await;
}

async fn posts(table: &mut Table<'_>) {
    let post = table.at("posts", "/list/0/id").await;
    table
        .shows(
            "POST posts/{post_id}/pin",
            &format!("posts/{post}/pin"),
            none(),
            &[("posts", "/body/list/0/isPinned", json!(true))],
        )
        .await;
    let rows = table.at("posts", "/list").await;
    let commented = rows.as_array().unwrap().iter().find(|it| it["commentsCount"] != 0).unwrap();
    let comments = format!("posts/{}/comments", commented["id"]);
    let comment = table.at(&comments, "/list/0/id").await;
    table
        .shows(
            "POST comments/{comment_id}/pin",
            &format!("comments/{comment}/pin"),
            none(),
            &[(&comments, "/body/list/0/isPinned", json!(true))],
        )
        .await;
    let waiting = table.at("schedules", "/list/0").await;
    let count = table.at("users/me", "/postsCount").await.as_u64().unwrap();
    let now = json!("2026-02-01T00:00:00+00:00");
    table
        .shows(
            "PUT schedules/{schedule_id}/publish",
            &format!("schedules/{}/publish", waiting["id"]),
            none(),
            &[
                ("schedules", "/body/list/0/publishedAt", now.clone()),
                ("posts", "/body/list/0/text", waiting["text"].clone()),
                ("posts", "/body/list/0/postedAt", now),
                ("users/me", "/body/postsCount", json!(count + 1)),
            ],
        )
        .await;
    let fresh = table.at("posts", "/list/0/id").await;
    assert_eq!(table.at(&format!("posts/{fresh}/comments"), "/list").await, json!([]));
    assert_eq!(table.at(&format!("posts/{fresh}/stats"), "/views").await, json!(0));
}

async fn stories(table: &mut Table<'_>) {
    let me = id_of(&table.at("users/me", "/id").await);
    let media = table.at("vault/lists", "/list/3/medias/0/id").await;
    let story = table
        .shows_at(
            "POST stories",
            json!({"mediaId": media}),
            &[
                ("users/me/stories", "/body/list/0/media/0/id", media.clone()),
                ("stories/archive", "/body/list/0/media/0/id", media.clone()),
            ],
        )
        .await["id"]
        .clone();
    let one = format!("stories/{story}");
    table
        .shows(
            "PUT stories/{story_id}/watched",
            &format!("{one}/watched"),
            none(),
            &[(&one, "/body/isWatched", json!(true))],
        )
        .await;
    let highlights = format!("users/{me}/stories/highlights");
    let highlight = table
        .shows_at(
            "POST stories/highlights",
            json!({"title": "Best", "storyIds": [story]}),
            &[
                (&highlights, "/body/list/0/title", json!("Best")),
                (&highlights, "/body/list/0/stories/0/id", story.clone()),
            ],
        )
        .await["id"]
        .clone();
    let kept = format!("stories/highlights/{highlight}");
    table
        .shows(
            "DELETE stories/highlights/{highlight_id}/{highlight_id2}",
            &format!("{kept}/{story}"),
            none(),
            &[(&kept, "/body/stories", json!([]))],
        )
        .await;
}

async fn lists(table: &mut Table<'_>) {
    let fan = table.at("subscriptions/subscribers", "/list/2/id").await;
    let list = table
        .shows_at(
            "POST lists",
            json!({"name": "Friends"}),
            &[("lists", "/body/list/0/name", json!("Friends"))],
        )
        .await["id"]
        .clone();
    let users = format!("lists/{list}/users");
    table
        .shows_at(
            "POST lists/users",
            json!({"id": list, "users": [fan]}),
            &[
                (&users, "/body/list/0/id", fan.clone()),
                ("lists", "/body/list/0/usersCount", json!(1)),
            ],
        )
        .await;
    table
        .shows(
            "POST lists/{list_id}/users/{user_id}/pin",
            &format!("{users}/{fan}/pin"),
            none(),
            &[(&format!("{users}/pinned"), "/body/list/0/id", fan.clone())],
        )
        .await;
    table
        .shows(
            "DELETE lists/{list_id}/users/{user_id}",
            &format!("{users}/{fan}"),
            none(),
            &[
                (&users, "/body/list", json!([])),
                (&format!("{users}/pinned"), "/body/list", json!([])),
            ],
        )
        .await;
}

async fn vault(table: &mut Table<'_>) {
    let folder = format!("vault/lists/{}", table.at("vault/lists", "/list/0/id").await);
    let fan = table.at("subscriptions/subscribers", "/list/0/id").await;
    let media = table.at(&folder, "/medias/0/id").await;
    table
        .shows_at(
            "POST release-forms/attach",
            json!({"mediaId": media, "userIds": [fan]}),
            &[(&folder, "/body/medias/0/releaseForm/userIds", json!([fan]))],
        )
        .await;
    table
        .shows(
            "PATCH vault/lists/{list_id}",
            &folder,
            json!({"name": "Summer"}),
            &[
                (&folder, "/body/name", json!("Summer")),
                ("vault/lists", "/body/list/0/name", json!("Summer")),
            ],
        )
        .await;
    let count = table.at(&folder, "/mediaCount").await.as_u64().unwrap();
    table
        .shows(
            "DELETE vault/lists/{list_id}/media",
            &format!("{folder}/media"),
            json!({"mediaIds": [table.at(&folder, "/medias/1/id").await]}),
            &[(&folder, "/body/mediaCount", json!(count - 1))],
        )
        .await;
}

async fn offers(table: &mut Table<'_>) {
    table
        .shows_at(
            "POST subscriptions/bundles",
            json!({"duration": 2, "discount": 5}),
            &[("subscriptions/bundles", "/body/0/duration", json!(2))],
        )
        .await;
    table
        .shows_at(
            "POST campaigns",
            json!({"campaignName": "Autumn"}),
            &[("campaigns", "/body/list/0/campaignName", json!("Autumn"))],
        )
        .await;
}
