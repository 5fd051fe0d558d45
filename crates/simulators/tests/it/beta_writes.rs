//! Every write of `platform_beta` changes the world where a read shows it, and stays written.

use serde_json::{Value, json};

use crate::beta::DEMO;
use crate::kit::{Kit, id_of, none};
use crate::writes::{Shows, Table};

/// Sends to a route whose template is its path; gives what is inside the envelope.
async fn post(table: &mut Table<'_>, path: &str, body: Value, shows: &[Shows<'_>]) -> Value {
    let route = format!("POST {path}");
    table.shows(&route, path, body, shows).await["response"].clone()
}

/// What a read has at a pointer into the inside of the envelope.
async fn at(table: &Table<'_>, path: &str, pointer: &str) -> Value {
    let inside = table.read(path).await["body"]["response"].clone();
    inside.pointer(pointer).unwrap_or_else(|| panic!("{path} has no {pointer}: {inside}")).clone()
}

#[tokio::test]
async fn every_write_of_the_catalogue_shows_in_a_read_and_outlives_a_restart() {
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

/// A field of the own account.
fn me(pointer: &'static str, expected: Value) -> [Shows<'static>; 1] {
    [(ME, pointer, expected)]
}

async fn account(table: &mut Table<'_>) {
    let shows = me("/body/response/account/about", json!("Hello"));
    post(table, "account", json!({"about": "Hello"}), &shows).await;
    let shows = me("/body/response/account/username", json!("demo.new"));
    post(table, "account/username", json!({"username": "demo.new"}), &shows).await;
    let shows = me("/body/response/account/statusId", json!(3));
    post(table, "status", json!({"statusId": 3}), &shows).await;
    let settings = [("account/settings", "/body/response/allowTips", json!(false))];
    post(table, "account/settings", json!({"allowTips": false}), &settings).await;
    let form = json!({"form": "verification", "data": {"text": "Hi"}});
    let shows = [("account/verifynsfw", "/body/response/submissions/0/data/text", json!("Hi"))];
    post(table, "submit/v1", form, &shows).await;
    let shows = me("/body/response/account/disabledAt", json!(crate::kit::NOW_MS));
    post(table, "account/disable", none(), &shows).await;
}

async fn email(table: &mut Table<'_>) {
    let body = json!({"email": "new@creators.test"});
    let shows = me("/body/response/account/emailChange/email", json!("new@creators.test"));
    let change = post(table, "account/emailchange/create", body, &shows).await;
    let id = id_of(&change["id"]);
    let code = json!({"code": id[id.len() - 6..]});
    let shows = me("/body/response/account/emailChange/status", json!("verified"));
    post(table, "account/emailchange/verify", code.clone(), &shows).await;
    let shows = me("/body/response/account/email", json!("new@creators.test"));
    post(table, "account/emailchange/finish", code, &shows).await;
}

async fn two_factor(table: &mut Table<'_>) {
    let state = |pointer, expected: Value| [("sessions", pointer, expected)];
    let shows = state("/body/response/twofa/pending", json!(true));
    let codes = post(table, "twofa", none(), &shows).await["codes"].clone();
    let shows = [
        ("sessions", "/body/response/twofa/codesLeft", json!(7)),
        (ME, "/body/response/account/twofa", json!(true)),
    ];
    post(table, "twofa/verify", json!({"code": codes[0]}), &shows).await;
    let shows = state("/body/response/twofa/sessions/0/status", json!("created"));
    let session = post(table, "twofa/session/create", none(), &shows).await["id"].clone();
    let shows = state("/body/response/twofa/sessions/0/status", json!("verified"));
    let body = json!({"sessionId": session, "code": codes[1]});
    post(table, "twofa/session/verify", body, &shows).await;
    let shows = me("/body/response/account/twofa", json!(false));
    post(table, "twofa/remove", json!({"code": codes[2]}), &shows).await;
}

async fn ignoring(table: &mut Table<'_>) {
    let fan = at(table, "subscribers", "/subscribers/3/id").await;
    let account = format!("account?ids={}", id_of(&fan));
    let shows = [(&*account, "/body/response/0/ignoreFlags", json!(5))];
    post(table, "account/ignore", json!({"ignoredId": fan, "ignoreFlags": 5}), &shows).await;

    let locations = "account/ignore/locations";
    let shows = [
        (locations, "/body/response/locations/0/countryCode", json!("FR")),
        (locations, "/body/response/total", json!(1)),
    ];
    let hidden = post(table, "account/ignore/location", json!({"countryCode": "fr"}), &shows).await;
    let shows = [(locations, "/body/response/locations", json!([]))];
    post(table, "account/ignore/location/delete", json!({"id": hidden["id"]}), &shows).await;
}

async fn account_media(table: &mut Table<'_>) {
    let medium = at(table, "media/vault", "/media/5/id").await;
    let offers = "mediaoffers/mediaoffers?limit=1";
    let shows = [(offers, "/body/response/mediaOffers/0/price", json!(4000))];
    let body = json!({"mediaId": medium, "price": 4000});
    let made = post(table, "account/media", body, &shows).await["id"].clone();
    let one = format!("account/media?ids={}", id_of(&made));
    let shows = [
        (&*one, "/body/response/0/price", json!(7000)),
        (offers, "/body/response/mediaOffers/0/price", json!(7000)),
    ];
    let body = json!({"accountMediaId": made, "price": 7000});
    post(table, "account/media/edit", body, &shows).await;
    let flags = json!([{"type": 0, "flags": 2}]);
    let shows = [(&*one, "/body/response/0/permissionFlags", flags.clone())];
    let body = json!({"accountMediaId": made, "permissionFlags": flags});
    post(table, "account/media/permissions", body, &shows).await;

    let next =
        bundle_after(table, "account/media/bundle", json!({"accountMediaIds": [made]})).await;
    let body = json!({"accountMediaIds": [made], "price": 9000});
    let shows = [(&*next, "/body/response/0/price", json!(9000))];
    let bundle = post(table, "account/media/bundle", body, &shows).await["id"].clone();
    let shows = [(&*next, "/body/response/0/permissionFlags", flags.clone())];
    let body = json!({"bundleId": bundle, "permissionFlags": flags});
    post(table, "account/media/bundle/permissions", body, &shows).await;
}

/// Where the bundle that is made next can be read: ids of what is made count up.
async fn bundle_after(table: &Table<'_>, path: &str, body: Value) -> String {
    let probe = table.send(path, body).await["response"]["id"].clone();
    let next = id_of(&probe).parse::<u64>().unwrap() + 1;
    format!("account/media/bundle?ids={next}")
}

async fn lists(table: &mut Table<'_>) {
    let all = "lists/account";
    let shows = [(all, "/body/response/lists/0/label", json!("Best"))];
    let list = post(table, "lists", json!({"label": "Best"}), &shows).await["id"].clone();
    let shows = [(all, "/body/response/lists/0/label", json!("Better"))];
    post(table, "lists/edit", json!({"listId": list, "label": "Better"}), &shows).await;
    let last = at(table, all, "/lists/5/id").await;
    let shows = [(all, "/body/response/lists/0/id", last.clone())];
    post(table, "lists/order", json!({"listIds": [last]}), &shows).await;
    let shows = [
        (all, "/body/response/total", json!(5)),
        (&*format!("list/v1?listId={}", id_of(&list)), "/status", json!(404)),
    ];
    post(table, "lists/remove", json!({"listId": list}), &shows).await;
}

async fn list_items(table: &mut Table<'_>) {
    let fan = at(table, "subscribers", "/subscribers/0/id").await;
    let list = table.send("lists", json!({"label": "Some"})).await["response"]["id"].clone();
    let one = format!("list/v1?listId={}", id_of(&list));
    let of_fan = format!("lists/account?accountId={}", id_of(&fan));
    let item = json!({"listId": list, "itemIds": [fan]});
    let shows = [
        (&*one, "/body/response/items/0/id", fan.clone()),
        (&*of_fan, "/body/response/lists/0/id", list.clone()),
    ];
    post(table, "lists/items/add", item.clone(), &shows).await;
    let shows = [(&*one, "/body/response/items", json!([]))];
    post(table, "lists/items/remove", item, &shows).await;

    let source = at(table, "lists/account", "/lists/1").await;
    let count = source["itemCount"].clone();
    let shows = [(&*one, "/body/response/total", count)];
    let body = json!({"listId": list, "sourceListId": source["id"]});
    post(table, "lists/aggregate/add", body, &shows).await;
    let shows = [(&*one, "/body/response/list/itemCount", json!(0))];
    post(table, "lists/commands", json!({"listId": list, "command": "clear"}), &shows).await;
}

async fn tiers(table: &mut Table<'_>) {
    let path = "subscriptions/tiers";
    let first = |field: &str| format!("/body/response/subscriptionTiers/0/{field}");
    let body = json!({
        "name": "Gold", "color": "#ffd700", "price": 12_000, "maxSubscribers": 50,
        "subscriptionBenefits": ["Calls"],
        "plans": [{"price": 12_000, "billingCycle": 30, "status": 1}],
    });
    let shows = [
        (path, &*first("name"), json!("Gold")),
        (path, &*first("subscriptionBenefits"), json!(["Calls"])),
    ];
    let tier = post(table, path, body, &shows).await;
    let promotion = json!({
        "planId": tier["plans"][0]["id"], "status": 1, "duration": 30, "maxUses": 10,
        "price": 3000, "startsAt": 1, "endsAt": 2,
    });
    let shows = [(path, &*first("plans/0/promos/0/price"), json!(3000))];
    post(table, "subscriptions/promotions", promotion, &shows).await;

    let gifts = "subscriptions/giftcodes";
    let shows = [(gifts, "/body/response/total", json!(2))];
    let body = json!({"subscriptionTierId": tier["id"], "count": 2});
    post(table, gifts, body, &shows).await;
    let second = at(table, path, "/subscriptionTiers/1/id").await;
    let shows = [(path, &*first("id"), second.clone())];
    let body = json!({"subscriptionTierIds": [second]});
    post(table, "subscriptions/tiers/order", body, &shows).await;
    let third = at(table, path, "/subscriptionTiers/2/id").await;
    let shows = [(path, "/body/response/subscriptionTiers/1/id", third)];
    let body = json!({"subscriptionTierId": tier["id"]});
    post(table, "subscriptions/tier/delete", body, &shows).await;
}

async fn subscriptions(table: &mut Table<'_>) {
    let path = "subscriptions?limit=1";
    let own = id_of(&at(table, ME, "/account/id").await);
    let following = at(table, &format!("account/{own}/following?limit=100"), "/following").await;
    let mut following = following.as_array().unwrap().iter();
    let free = following.find(|row| row["account"]["subscribed"] == false).unwrap()["id"].clone();
    let shows = [
        (path, "/body/response/subscriptions/0/accountId", free.clone()),
        (&*format!("account?ids={}", id_of(&free)), "/body/response/0/subscribed", json!(true)),
    ];
    let made = post(table, "subscription", json!({"accountId": free}), &shows).await;
    let shows = [(path, "/body/response/subscriptions/0/autoRenew", json!(false))];
    let body = json!({"subscriptionId": made["subscriptionId"], "autoRenew": false});
    post(table, "subscriptions", body, &shows).await;
}

async fn follows(table: &mut Table<'_>) {
    let own = id_of(&at(table, ME, "/account/id").await);
    let path = format!("account/{own}/following?limit=100");
    let peer = at(table, &path, "/following/1/id").await;
    let account = format!("account?ids={}", id_of(&peer));
    let follow = format!("account/{}/followers", id_of(&peer));
    let shows = [
        (&*path, "/body/response/total", json!(39)),
        (&*account, "/body/response/0/following", json!(false)),
    ];
    let route = "POST account/{accountId}/followers/remove";
    table.shows(route, &format!("{follow}/remove"), none(), &shows).await;
    let shows = [
        (&*path, "/body/response/following/0/id", peer),
        (&*account, "/body/response/0/following", json!(true)),
    ];
    table.shows("POST account/{accountId}/followers", &follow, none(), &shows).await;
}

async fn chatroom(table: &mut Table<'_>) {
    let shows = [("chatroom/chatters", "/body/response/chatRoom/name", json!("Room"))];
    post(table, "chatroom", json!({"name": "Room"}), &shows).await;
    let goal = at(table, "account/tipgoals", "/tipGoals/0/id").await;
    let shows = [
        ("account/tipgoals", "/body/response/tipGoals/0/goalAmount", json!(1000)),
        ("account/tipgoals", "/body/response/tipGoals/0/reached", json!(true)),
    ];
    let body = json!({"goalId": goal, "goalAmount": 1000});
    post(table, "chatroom/goal/update", body, &shows).await;
    let flags = json!([{"type": 0, "flags": 3}]);
    let shows = [("timeline/permissions", "/body/response/permissionFlags", flags.clone())];
    post(table, "timeline/permissions", json!({"permissionFlags": flags}), &shows).await;
}

async fn walls(table: &mut Table<'_>) {
    let shows = [
        ("wall", "/body/response/walls/0/name", json!("Secret")),
        ("wall", "/body/response/walls/0/private", json!(1)),
        (ME, "/body/response/account/walls/0/name", json!("Secret")),
    ];
    let wall = post(table, "wall/create", json!({"name": "Secret", "private": 1}), &shows).await;
    let second = at(table, "wall", "/walls/1/id").await;
    let shows = [("wall", "/body/response/walls/0/id", second.clone())];
    post(table, "wall/editorder", json!({"wallIds": [second]}), &shows).await;
    let shows = [("wall", "/body/response/total", json!(2))];
    post(table, "wall/delete", json!({"wallId": wall["id"]}), &shows).await;
}

async fn posts(table: &mut Table<'_>) {
    let wall = at(table, "wall", "/walls/0/id").await;
    let (of_wall, timeline) = (format!("wall?wallId={}", id_of(&wall)), "timeline?limit=1");
    let shows = [
        (timeline, "/body/response/posts/0/content", json!("New")),
        (&*of_wall, "/body/response/posts/0/content", json!("New")),
    ];
    let body = json!({"wallId": wall, "content": "New"});
    let made = post(table, "wall/postcreate", body, &shows).await["id"].clone();
    let shows = [(timeline, "/body/response/posts/0/content", json!("Other"))];
    post(table, "wall/postedit", json!({"postId": made, "content": "Other"}), &shows).await;
    let reply = json!({"postId": made, "content": "Nice"});
    let allowed = table.checks("POST postreply/verify", "postreply/verify", reply).await;
    assert_eq!(allowed["response"]["allowed"], true);
    let next = at(table, "timeline", "/posts/1/id").await;
    let shows = [(timeline, "/body/response/posts/0/id", next)];
    post(table, "wall/postdelete", json!({"postId": made}), &shows).await;
}

async fn stories(table: &mut Table<'_>) {
    let content = at(table, "mediaoffers/mediaoffers", "/mediaOffers/0/accountMediaId").await;
    let running = "mediastories?limit=1";
    let shows = [
        (running, "/body/response/mediaStories/0/contentId", content.clone()),
        ("mediastoriesnew", "/body/response/total", json!(25)),
    ];
    let made = post(table, "mediastories", json!({"contentId": content}), &shows).await;
    let first = "mediastories/following?limit=1";
    let peer = at(table, first, "/mediaStories/0/id").await;
    let shows = [(first, "/body/response/mediaStories/0/viewed", json!(true))];
    post(table, "mediastory/view", json!({"mediaStoryId": peer}), &shows).await;

    let shows = [("stories", "/body/response/stories/0/mediaStoryIds", json!([made["id"]]))];
    let body = json!({"title": "Kept", "mediaStoryIds": [made["id"]]});
    post(table, "stories", body, &shows).await;
    let last = at(table, "stories", "/stories/3/id").await;
    let shows = [("stories", "/body/response/stories/0/id", last.clone())];
    post(table, "stories/order", json!({"storyIds": [last]}), &shows).await;
    let shows = [
        ("mediastoriesnew", "/body/response/total", json!(24)),
        ("stories", "/body/response/stories/1/mediaStoryIds", json!([])),
    ];
    post(table, "mediastory/delete", json!({"mediaStoryId": made["id"]}), &shows).await;
}

async fn uploads(table: &mut Table<'_>) {
    let vault = "media/vaultnew?limit=1";
    let body = json!({"filename": "a.mp4", "contentType": "video/mp4", "size": 1000});
    let shows = [(vault, "/body/response/uploads/0/filename", json!("a.mp4"))];
    let upload = post(table, "upload-url/v1", body, &shows).await["uploadId"].clone();
    let named = json!({"uploadId": upload});
    let shows = [(vault, "/body/response/uploads/0/status", json!("verified"))];
    post(table, "upload-verify/v1", named.clone(), &shows).await;
    let shows = [
        (vault, "/body/response/media/0/filename", json!("a.mp4")),
        (vault, "/body/response/uploads", json!([])),
    ];
    post(table, "media", named, &shows).await;
}

async fn media(table: &mut Table<'_>) {
    let (medium, cover) = (
        at(table, "media/vault", "/media/0/id").await,
        at(table, "media/vault", "/media/1/id").await,
    );
    let one = format!("media?ids={}", id_of(&medium));
    let shows = [(&*one, "/body/response/0/coverId", cover.clone())];
    post(table, "media/cover", json!({"mediaId": medium, "coverId": cover}), &shows).await;
    let shows = [("media/watermark", "/body/response/opacity", json!(5))];
    post(table, "media/watermark", json!({"opacity": 5}), &shows).await;
    let next = bundle_after(table, "media/bundle", json!({"mediaIds": [medium]})).await;
    let shows = [(&*next, "/body/response/0/mediaIds", json!([medium, cover]))];
    post(table, "media/bundle", json!({"mediaIds": [medium, cover]}), &shows).await;
}

async fn albums(table: &mut Table<'_>) {
    let all = "uservault/albums";
    let shows = [(all, "/body/response/albums/0/title", json!("Mine"))];
    let album = post(table, all, json!({"title": "Mine"}), &shows).await["id"].clone();
    let shows = [(all, "/body/response/albums/0/title", json!("Ours"))];
    let body = json!({"albumId": album, "title": "Ours"});
    post(table, "uservault/album/edit", body, &shows).await;
    let medium = at(table, "media/vault", "/media/0/id").await;
    let content = format!("uservault/album/content?albumId={}", id_of(&album));
    let body = json!({"albumId": album, "mediaIds": [medium]});
    let shows = [
        (&*content, "/body/response/media/0/id", medium),
        (all, "/body/response/albums/0/itemCount", json!(1)),
        ("media/vaultnew?limit=1", "/body/response/media/0/albumIds", json!([album])),
    ];
    post(table, "uservault/album/content", body.clone(), &shows).await;
    let shows = [(&*content, "/body/response/media", json!([]))];
    post(table, "uservault/album/content/delete", body, &shows).await;
    let shows = [(all, "/body/response/total", json!(4)), (&*content, "/status", json!(404))];
    post(table, "uservault/album/delete", json!({"albumId": album}), &shows).await;
}
