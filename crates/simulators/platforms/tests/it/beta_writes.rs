//! Every write of `platform_beta` has an effect that a read shows and that survives a restart.

use serde_json::{Value, json};

use crate::beta::DEMO;
use crate::kit::{Kit, id_of, none};
use crate::writes::{Shows, Table};

/// Posts to a route whose template is its path; returns the content of the envelope.
async fn post(table: &mut Table<'_>, path: &str, body: Value, shows: &[Shows<'_>]) -> Value {
    table.shows(&format!("POST {path}"), path, body, shows).await["response"].clone()
}

/// The value of a read at a pointer into the content of the envelope.
async fn at(table: &Table<'_>, path: &str, pointer: &str) -> Value {
    let inside = table.read(path).await["body"]["response"].clone();
    inside.pointer(pointer).unwrap_or_else(|| panic!("{path} has no {pointer}: {inside}")).clone()
}

#[tokio::test]
async fn every_write_of_the_catalogue_shows_in_a_read_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let kit = Kit::on(folder.path());
    let mut table = Table::new(&kit, DEMO);

    account(&mut table).await;
    email(&mut table).await;
    two_factor(&mut table).await;
    ignoring(&mut table).await;
    account_media(&mut table).await;
    lists(&mut table).await;
    list_items(&mut table).await;
    tiers(&mut table).await;
    subscriptions(&mut table).await;
    follows(&mut table).await;
    chatroom(&mut table).await;
    walls(&mut table).await;
    posts(&mut table).await;
    stories(&mut table).await;
    uploads(&mut table).await;
    media(&mut table).await;
    albums(&mut table).await;

    table.covers_the_catalogue("platform_beta");
    table.outlives(&Kit::on(folder.path())).await;
}

const ME: &str = "account/me";

/// A field of the creator's own account.
fn me(pointer: &'static str, expected: Value) -> [Shows<'static>; 1] {
    [(ME, pointer, expected)]
}

async fn account(table: &mut Table<'_>) {
    post(
        table,
        "account",
        json!({"about": "Hello"}),
        &me("/body/response/account/about", json!("Hello")),
    )
    .await;
    post(
        table,
        "account/username",
        json!({"username": "demo.new"}),
        &me("/body/response/account/username", json!("demo.new")),
    )
    .await;
    post(table, "status", json!({"statusId": 3}), &me("/body/response/account/statusId", json!(3)))
        .await;
    let settings = [("account/settings", "/body/response/allowTips", json!(false))];
    post(table, "account/settings", json!({"allowTips": false}), &settings).await;
    let form = json!({"form": "verification", "data": {"text": "Hi"}});
    post(
        table,
        "submit/v1",
        form,
        &[("account/verifynsfw", "/body/response/submissions/0/data/text", json!("Hi"))],
    )
    .await;
    post(
        table,
        "account/disable",
        none(),
        &me("/body/response/account/disabledAt", json!(crate::kit::NOW_MS)),
    )
    .await;
}

async fn email(table: &mut Table<'_>) {
    let body = json!({"email": "new@creators.test"});
    let change = post(
        table,
        "account/emailchange/create",
        body,
        &me("/body/response/account/emailChange/email", json!("new@creators.test")),
    )
    .await;
    let id = id_of(&change["id"]);
    let code = json!({"code": id[id.len() - 6..]});
    post(
        table,
        "account/emailchange/verify",
        code.clone(),
        &me("/body/response/account/emailChange/status", json!("verified")),
    )
    .await;
    post(
        table,
        "account/emailchange/finish",
        code,
        &me("/body/response/account/email", json!("new@creators.test")),
    )
    .await;
}

async fn two_factor(table: &mut Table<'_>) {
    let state = |pointer, expected: Value| [("sessions", pointer, expected)];
    let codes = post(table, "twofa", none(), &state("/body/response/twofa/pending", json!(true)))
        .await["codes"]
        .clone();
    post(
        table,
        "twofa/verify",
        json!({"code": codes[0]}),
        &[
            ("sessions", "/body/response/twofa/codesLeft", json!(7)),
            (ME, "/body/response/account/twofa", json!(true)),
        ],
    )
    .await;
    let session = post(
        table,
        "twofa/session/create",
        none(),
        &state("/body/response/twofa/sessions/0/status", json!("created")),
    )
    .await["id"]
        .clone();
    post(
        table,
        "twofa/session/verify",
        json!({"sessionId": session, "code": codes[1]}),
        &state("/body/response/twofa/sessions/0/status", json!("verified")),
    )
    .await;
    post(
        table,
        "twofa/remove",
        json!({"code": codes[2]}),
        &me("/body/response/account/twofa", json!(false)),
    )
    .await;
}

async fn ignoring(table: &mut Table<'_>) {
    let fan = at(table, "subscribers", "/subscribers/3/id").await;
    let account = format!("account?ids={}", id_of(&fan));
    post(
        table,
        "account/ignore",
        json!({"ignoredId": fan, "ignoreFlags": 5}),
        &[(&*account, "/body/response/0/ignoreFlags", json!(5))],
    )
    .await;

    let locations = "account/ignore/locations";
    let hidden = post(
        table,
        "account/ignore/location",
        json!({"countryCode": "fr"}),
        &[
            (locations, "/body/response/locations/0/countryCode", json!("FR")),
            (locations, "/body/response/total", json!(1)),
        ],
    )
    .await;
    post(
        table,
        "account/ignore/location/delete",
        json!({"id": hidden["id"]}),
        &[(locations, "/body/response/locations", json!([]))],
    )
    .await;
}

async fn account_media(table: &mut Table<'_>) {
    let medium = at(table, "media/vault", "/media/5/id").await;
    let offers = "mediaoffers/mediaoffers?limit=1";
    let made = post(
        table,
        "account/media",
        json!({"mediaId": medium, "price": 4000}),
        &[(offers, "/body/response/mediaOffers/0/price", json!(4000))],
    )
    .await["id"]
        .clone();
    let one = format!("account/media?ids={}", id_of(&made));
    post(
        table,
        "account/media/edit",
        json!({"accountMediaId": made, "price": 7000}),
        &[
            (&*one, "/body/response/0/price", json!(7000)),
            (offers, "/body/response/mediaOffers/0/price", json!(7000)),
        ],
    )
    .await;
    let flags = json!([{"type": 0, "flags": 2}]);
    post(
        table,
        "account/media/permissions",
        json!({"accountMediaId": made, "permissionFlags": flags}),
        &[(&*one, "/body/response/0/permissionFlags", flags.clone())],
    )
    .await;

    let next =
        bundle_after(table, "account/media/bundle", json!({"accountMediaIds": [made]})).await;
    let body = json!({"accountMediaIds": [made], "price": 9000});
    let bundle = post(
        table,
        "account/media/bundle",
        body,
        &[(&*next, "/body/response/0/price", json!(9000))],
    )
    .await["id"]
        .clone();
    post(
        table,
        "account/media/bundle/permissions",
        json!({"bundleId": bundle, "permissionFlags": flags}),
        &[(&*next, "/body/response/0/permissionFlags", flags.clone())],
    )
    .await;
}

/// The path of the bundle that is created next: ids of created things count up.
async fn bundle_after(table: &Table<'_>, path: &str, body: Value) -> String {
    let probe = table.send(path, body).await["response"]["id"].clone();
    let next = id_of(&probe).parse::<u64>().unwrap() + 1;
    format!("account/media/bundle?ids={next}")
}

async fn lists(table: &mut Table<'_>) {
    let all = "lists/account";
    let list = post(
        table,
        "lists",
        json!({"label": "Best"}),
        &[(all, "/body/response/lists/0/label", json!("Best"))],
    )
    .await["id"]
        .clone();
    post(
        table,
        "lists/edit",
        json!({"listId": list, "label": "Better"}),
        &[(all, "/body/response/lists/0/label", json!("Better"))],
    )
    .await;
    let oldest = at(table, all, "/lists/5/id").await;
    post(
        table,
        "lists/order",
        json!({"listIds": [oldest]}),
        &[(all, "/body/response/lists/0/id", oldest.clone())],
    )
    .await;
    post(
        table,
        "lists/remove",
        json!({"listId": list}),
        &[
            (all, "/body/response/total", json!(5)),
            (&*format!("list/v1?listId={}", id_of(&list)), "/status", json!(404)),
        ],
    )
    .await;
}

async fn list_items(table: &mut Table<'_>) {
    let fan = at(table, "subscribers", "/subscribers/0/id").await;
    let list = table.send("lists", json!({"label": "Some"})).await["response"]["id"].clone();
    let one = format!("list/v1?listId={}", id_of(&list));
    let of_fan = format!("lists/account?accountId={}", id_of(&fan));
    let item = json!({"listId": list, "itemIds": [fan]});
    post(
        table,
        "lists/items/add",
        item.clone(),
        &[
            (&*one, "/body/response/items/0/id", fan.clone()),
            (&*of_fan, "/body/response/lists/0/id", list.clone()),
        ],
    )
    .await;
    post(table, "lists/items/remove", item, &[(&*one, "/body/response/items", json!([]))]).await;

    let source = at(table, "lists/account", "/lists/1").await;
    let count = source["itemCount"].clone();
    post(
        table,
        "lists/aggregate/add",
        json!({"listId": list, "sourceListId": source["id"]}),
        &[(&*one, "/body/response/total", count)],
    )
    .await;
    post(
        table,
        "lists/commands",
        json!({"listId": list, "command": "clear"}),
        &[(&*one, "/body/response/list/itemCount", json!(0))],
    )
    .await;
}

async fn tiers(table: &mut Table<'_>) {
    let path = "subscriptions/tiers";
    let first = |field: &str| format!("/body/response/subscriptionTiers/0/{field}");
    let tier = post(
        table,
        path,
        json!({
            "name": "Gold", "color": "#ffd700", "price": 12_000, "maxSubscribers": 50,
            "subscriptionBenefits": ["Calls"],
            "plans": [{"price": 12_000, "billingCycle": 30, "status": 1}],
        }),
        &[
            (path, &*first("name"), json!("Gold")),
            (path, &*first("subscriptionBenefits"), json!(["Calls"])),
        ],
    )
    .await;
    let promotion = json!({
        "planId": tier["plans"][0]["id"], "status": 1, "duration": 30, "maxUses": 10,
        "price": 3000, "startsAt": 1, "endsAt": 2,
    });
    post(
        table,
        "subscriptions/promotions",
        promotion,
        &[(path, &*first("plans/0/promos/0/price"), json!(3000))],
    )
    .await;

    let gifts = "subscriptions/giftcodes";
    post(
        table,
        gifts,
        json!({"subscriptionTierId": tier["id"], "count": 2}),
        &[(gifts, "/body/response/total", json!(2))],
    )
    .await;
    let second = at(table, path, "/subscriptionTiers/1/id").await;
    post(
        table,
        "subscriptions/tiers/order",
        json!({"subscriptionTierIds": [second]}),
        &[(path, &*first("id"), second.clone())],
    )
    .await;
    let third = at(table, path, "/subscriptionTiers/2/id").await;
    post(
        table,
        "subscriptions/tier/delete",
        json!({"subscriptionTierId": tier["id"]}),
        &[(path, "/body/response/subscriptionTiers/1/id", third)],
    )
    .await;
}

async fn subscriptions(table: &mut Table<'_>) {
    let path = "subscriptions?limit=1";
    let own = id_of(&at(table, ME, "/account/id").await);
    let following = at(table, &format!("account/{own}/following?limit=100"), "/following").await;
    let mut following = following.as_array().unwrap().iter();
    let free = following.find(|row| row["account"]["subscribed"] == false).unwrap()["id"].clone();
    let made = post(
        table,
        "subscription",
        json!({"accountId": free}),
        &[
            (path, "/body/response/subscriptions/0/accountId", free.clone()),
            (&*format!("account?ids={}", id_of(&free)), "/body/response/0/subscribed", json!(true)),
        ],
    )
    .await;
    post(
        table,
        "subscriptions",
        json!({"subscriptionId": made["subscriptionId"], "autoRenew": false}),
        &[(path, "/body/response/subscriptions/0/autoRenew", json!(false))],
    )
    .await;
}

async fn follows(table: &mut Table<'_>) {
    let own = id_of(&at(table, ME, "/account/id").await);
    let path = format!("account/{own}/following?limit=100");
    let peer = at(table, &path, "/following/1/id").await;
    let account = format!("account?ids={}", id_of(&peer));
    let follow = format!("account/{}/followers", id_of(&peer));
    table
        .shows(
            "POST account/{accountId}/followers/remove",
            &format!("{follow}/remove"),
            none(),
            &[
                (&*path, "/body/response/total", json!(39)),
                (&*account, "/body/response/0/following", json!(false)),
            ],
        )
        .await;
    let shows = [
        (&*path, "/body/response/following/0/id", peer),
        (&*account, "/body/response/0/following", json!(true)),
    ];
    table.shows("POST account/{accountId}/followers", &follow, none(), &shows).await;
}

async fn chatroom(table: &mut Table<'_>) {
    post(
        table,
        "chatroom",
        json!({"name": "Room"}),
        &[("chatroom/chatters", "/body/response/chatRoom/name", json!("Room"))],
    )
    .await;
    let goal = at(table, "account/tipgoals", "/tipGoals/0/id").await;
    post(
        table,
        "chatroom/goal/update",
        json!({"goalId": goal, "goalAmount": 1000}),
        &[
            ("account/tipgoals", "/body/response/tipGoals/0/goalAmount", json!(1000)),
            ("account/tipgoals", "/body/response/tipGoals/0/reached", json!(true)),
        ],
    )
    .await;
    let flags = json!([{"type": 0, "flags": 3}]);
    post(
        table,
        "timeline/permissions",
        json!({"permissionFlags": flags}),
        &[("timeline/permissions", "/body/response/permissionFlags", flags.clone())],
    )
    .await;
}

async fn walls(table: &mut Table<'_>) {
    let wall = post(
        table,
        "wall/create",
        json!({"name": "Secret", "private": 1}),
        &[
            ("wall", "/body/response/walls/0/name", json!("Secret")),
            ("wall", "/body/response/walls/0/private", json!(1)),
            (ME, "/body/response/account/walls/0/name", json!("Secret")),
        ],
    )
    .await;
    let second = at(table, "wall", "/walls/1/id").await;
    post(
        table,
        "wall/editorder",
        json!({"wallIds": [second]}),
        &[("wall", "/body/response/walls/0/id", second.clone())],
    )
    .await;
    post(
        table,
        "wall/delete",
        json!({"wallId": wall["id"]}),
        &[("wall", "/body/response/total", json!(2))],
    )
    .await;
}

async fn posts(table: &mut Table<'_>) {
    let wall = at(table, "wall", "/walls/0/id").await;
    let (of_wall, timeline) = (format!("wall?wallId={}", id_of(&wall)), "timeline?limit=1");
    let body = json!({"wallId": wall, "content": "New"});
    let made = post(
        table,
        "wall/postcreate",
        body,
        &[
            (timeline, "/body/response/posts/0/content", json!("New")),
            (&*of_wall, "/body/response/posts/0/content", json!("New")),
        ],
    )
    .await["id"]
        .clone();
    post(
        table,
        "wall/postedit",
        json!({"postId": made, "content": "Other"}),
        &[(timeline, "/body/response/posts/0/content", json!("Other"))],
    )
    .await;
    let reply = json!({"postId": made, "content": "Nice"});
    let allowed = table.checks("POST postreply/verify", "postreply/verify", reply).await;
    assert_eq!(allowed["response"]["allowed"], true);
    let next = at(table, "timeline", "/posts/1/id").await;
    post(
        table,
        "wall/postdelete",
        json!({"postId": made}),
        &[(timeline, "/body/response/posts/0/id", next)],
    )
    .await;
}

async fn stories(table: &mut Table<'_>) {
    let content = at(table, "mediaoffers/mediaoffers", "/mediaOffers/0/accountMediaId").await;
    let running = "mediastories?limit=1";
    let made = post(
        table,
        "mediastories",
        json!({"contentId": content}),
        &[
            (running, "/body/response/mediaStories/0/contentId", content.clone()),
            ("mediastoriesnew", "/body/response/total", json!(25)),
        ],
    )
    .await;
    let first = "mediastories/following?limit=1";
    let peer = at(table, first, "/mediaStories/0/id").await;
    post(
        table,
        "mediastory/view",
        json!({"mediaStoryId": peer}),
        &[(first, "/body/response/mediaStories/0/viewed", json!(true))],
    )
    .await;

    post(
        table,
        "stories",
        json!({"title": "Kept", "mediaStoryIds": [made["id"]]}),
        &[("stories", "/body/response/stories/0/mediaStoryIds", json!([made["id"]]))],
    )
    .await;
    let last = at(table, "stories", "/stories/3/id").await;
    post(
        table,
        "stories/order",
        json!({"storyIds": [last]}),
        &[("stories", "/body/response/stories/0/id", last.clone())],
    )
    .await;
    post(
        table,
        "mediastory/delete",
        json!({"mediaStoryId": made["id"]}),
        &[
            ("mediastoriesnew", "/body/response/total", json!(24)),
            ("stories", "/body/response/stories/1/mediaStoryIds", json!([])),
        ],
    )
    .await;
}

async fn uploads(table: &mut Table<'_>) {
    let vault = "media/vaultnew?limit=1";
    let body = json!({"filename": "a.mp4", "contentType": "video/mp4", "size": 1000});
    let upload = post(
        table,
        "upload-url/v1",
        body,
        &[(vault, "/body/response/uploads/0/filename", json!("a.mp4"))],
    )
    .await["uploadId"]
        .clone();
    let named = json!({"uploadId": upload});
    post(
        table,
        "upload-verify/v1",
        named.clone(),
        &[(vault, "/body/response/uploads/0/status", json!("verified"))],
    )
    .await;
    post(
        table,
        "media",
        named,
        &[
            (vault, "/body/response/media/0/filename", json!("a.mp4")),
            (vault, "/body/response/uploads", json!([])),
        ],
    )
    .await;
}

async fn media(table: &mut Table<'_>) {
    let (medium, cover) = (
        at(table, "media/vault", "/media/0/id").await,
        at(table, "media/vault", "/media/1/id").await,
    );
    let one = format!("media?ids={}", id_of(&medium));
    post(
        table,
        "media/cover",
        json!({"mediaId": medium, "coverId": cover}),
        &[(&*one, "/body/response/0/coverId", cover.clone())],
    )
    .await;
    post(
        table,
        "media/watermark",
        json!({"opacity": 5}),
        &[("media/watermark", "/body/response/opacity", json!(5))],
    )
    .await;
    let next = bundle_after(table, "media/bundle", json!({"mediaIds": [medium]})).await;
    post(
        table,
        "media/bundle",
        json!({"mediaIds": [medium, cover]}),
        &[(&*next, "/body/response/0/mediaIds", json!([medium, cover]))],
    )
    .await;
}

async fn albums(table: &mut Table<'_>) {
    let all = "uservault/albums";
    let album = post(
        table,
        all,
        json!({"title": "Mine"}),
        &[(all, "/body/response/albums/0/title", json!("Mine"))],
    )
    .await["id"]
        .clone();
    post(
        table,
        "uservault/album/edit",
        json!({"albumId": album, "title": "Ours"}),
        &[(all, "/body/response/albums/0/title", json!("Ours"))],
    )
    .await;
    let medium = at(table, "media/vault", "/media/0/id").await;
    let content = format!("uservault/album/content?albumId={}", id_of(&album));
    let content_of = json!({"albumId": album, "mediaIds": [medium]});
    post(
        table,
        "uservault/album/content",
        content_of.clone(),
        &[
            (&*content, "/body/response/media/0/id", medium),
            (all, "/body/response/albums/0/itemCount", json!(1)),
            ("media/vaultnew?limit=1", "/body/response/media/0/albumIds", json!([album])),
        ],
    )
    .await;
    post(
        table,
        "uservault/album/content/delete",
        content_of,
        &[(&*content, "/body/response/media", json!([]))],
    )
    .await;
    post(
        table,
        "uservault/album/delete",
        json!({"albumId": album}),
        &[(all, "/body/response/total", json!(4)), (&*content, "/status", json!(404))],
    )
    .await;
}
