//! The refusals of `platform_beta`, in its envelope.

use http::Method;
use serde_json::{Value, json};

use crate::beta::{DEMO, read, write};
use crate::kit::{Kit, id_of, none};
use crate::refusals::{Refused, are_refused, get, of_beta, post, refused};

/// Sends all requests; account, tiers, lists, walls, posts, stories and the vault must not change.
async fn all_refused(kit: &Kit, rows: &[Refused]) {
    let reads = [
        "account/me",
        "account/settings",
        "subscribers?limit=100",
        "subscriptions/tiers",
        "subscriptions",
        "timeline/permissions",
        "lists/account",
        "wall",
        "timeline?limit=100",
        "mediastoriesnew?limit=100",
        "stories",
        "media/vaultnew?limit=100",
        "uservault/albums",
        "sessions",
        "account/tipgoals",
    ]
    .map(str::to_owned);
    are_refused(kit, DEMO, rows, of_beta, &reads).await;
}

/// The first id of a list.
async fn first(kit: &Kit, path: &str, noun: &str) -> Value {
    read(kit, DEMO, path).await[noun][0]["id"].clone()
}

/// An object with one field changed.
fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut changed = body.clone();
    changed[name] = value;
    changed
}

#[tokio::test]
async fn promotions_below_the_minimum_or_of_other_plans_are_refused() {
    let kit = Kit::new();
    let plans = json!([
        {"price": 12_000, "billingCycle": 30, "status": 1},
        {"price": 30_000, "billingCycle": 90, "status": 1},
    ]);
    let tier = json!({"name": "Gold", "price": 12_000, "plans": plans});
    let made = write(&kit, "subscriptions/tiers", tier).await;
    let path = "subscriptions/promotions";
    let right = json!({
        "planId": made["plans"][0]["id"], "status": 1, "duration": 30, "maxUses": 10,
        "price": 3000, "startsAt": 1, "endsAt": 2,
    });
    let wrong = |name: &str, value: Value| post(path, with(&right, name, value), 400);
    all_refused(
        &kit,
        &[
            wrong("price", json!(2999)),
            wrong("price", json!(0)),
            wrong("price", json!(-3000)),
            wrong("price", json!("3000")),
            wrong("price", json!(3000.5)),
            wrong("price", none()),
            wrong("planId", none()),
            wrong("planId", made["plans"][1]["id"].clone()),
            post(path, with(&right, "planId", json!("17")), 404),
            wrong("status", json!(2)),
            wrong("status", none()),
            wrong("duration", json!(0)),
            wrong("maxUses", json!(-1)),
            wrong("startsAt", json!(2)),
            wrong("endsAt", none()),
        ],
    )
    .await;

    write(&kit, path, right).await;
}

#[tokio::test]
async fn invalid_tiers_and_gift_codes_are_refused() {
    let kit = Kit::new();
    let path = "subscriptions/tiers";
    let right = json!({"name": "Gold", "price": 12_000});
    let wrong = |name: &str, value: Value| post(path, with(&right, name, value), 400);
    let plan = |plan: Value| wrong("plans", json!([plan]));
    let tier = read(&kit, DEMO, path).await["subscriptionTiers"][0]["id"].clone();
    let gift = |name: &str, value: Value| {
        let body = with(&json!({"subscriptionTierId": tier}), name, value);
        post("subscriptions/giftcodes", body, 400)
    };
    all_refused(
        &kit,
        &[
            wrong("name", json!(" ")),
            wrong("price", none()),
            wrong("price", json!(-1)),
            wrong("color", json!(7)),
            wrong("maxSubscribers", json!(-1)),
            wrong("subscriptionBenefits", json!("Calls")),
            wrong("plans", json!("one")),
            plan(json!({"billingCycle": 30, "status": 1})),
            plan(json!({"price": 5000, "billingCycle": 0, "status": 1})),
            plan(json!({"price": 5000, "billingCycle": 30, "status": 2})),
            gift("count", json!(0)),
            gift("count", json!(101)),
            gift("duration", json!("x")),
            post("subscriptions/giftcodes", json!({"subscriptionTierId": "17"}), 404),
            post("subscriptions/tier/delete", none(), 400),
            post("subscriptions/tier/delete", json!({"subscriptionTierId": "17"}), 404),
            post("subscriptions/tiers/order", json!({"subscriptionTierIds": ["17"]}), 404),
            post("subscriptions/tiers/order", json!({"subscriptionTierIds": []}), 400),
        ],
    )
    .await;
}

#[tokio::test]
async fn invalid_flags_are_refused() {
    let kit = Kit::new();
    let fan = first(&kit, "subscribers", "subscribers").await;
    let own = read(&kit, DEMO, "account/me").await["account"]["id"].clone();
    let ignore =
        |flags: Value| post("account/ignore", json!({"ignoredId": fan, "ignoreFlags": flags}), 400);
    let path = "timeline/permissions";
    let entry = |entry: Value, status: u16| post(path, json!({"permissionFlags": [entry]}), status);
    let unknown = json!({"type": 0, "flags": 4, "metadata": {"subscriptionTierId": "1"}});
    all_refused(
        &kit,
        &[
            ignore(json!(16)),
            ignore(json!(-1)),
            ignore(json!("4")),
            ignore(none()),
            post("account/ignore", json!({"ignoreFlags": 1}), 400),
            post("account/ignore", json!({"ignoredId": "1", "ignoreFlags": 1}), 404),
            post("account/ignore", json!({"ignoredId": own, "ignoreFlags": 1}), 400),
            post(path, none(), 400),
            post(path, json!({"permissionFlags": 1}), 400),
            entry(json!({"flags": 1}), 400),
            entry(json!({"type": 0, "flags": 8}), 400),
            entry(json!({"type": 0, "flags": 4}), 400),
            entry(json!({"type": 0, "flags": 6, "metadata": {}}), 400),
            entry(unknown, 404),
            post("status", json!({"statusId": 4}), 400),
            post("account/ignore/location", json!({"countryCode": "Germany"}), 400),
            post("account/ignore/location/delete", json!({"id": "17"}), 404),
        ],
    )
    .await;
}

#[tokio::test]
async fn writes_to_missing_things_or_in_the_wrong_state_are_refused() {
    let kit = Kit::new();
    let list = first(&kit, "lists/account", "lists").await;
    let medium = first(&kit, "media/vault", "media").await;
    let goal = first(&kit, "account/tipgoals", "tipGoals").await;
    let own = id_of(&read(&kit, DEMO, "account/me").await["account"]["id"]);
    let file = json!({"filename": "a.jpg", "contentType": "image/jpeg", "size": 9});
    let upload = write(&kit, "upload-url/v1", file.clone()).await["uploadId"].clone();
    let subscribed = first(&kit, "subscriptions", "subscriptions").await;
    all_refused(
        &kit,
        &[
            post("lists", json!({"label": ""}), 400),
            post("lists/edit", json!({"listId": "17", "label": "x"}), 404),
            post("lists/items/add", json!({"listId": list, "itemIds": ["17"]}), 404),
            post("lists/items/remove", json!({"listId": list}), 400),
            post("lists/commands", json!({"listId": list, "command": "burn"}), 400),
            post("wall/create", json!({"name": "x", "private": 2}), 400),
            post("wall/create", json!({"private": 1}), 400),
            post("wall/delete", json!({"wallId": "17"}), 404),
            post("wall/postcreate", json!({"content": " "}), 400),
            post("wall/postcreate", json!({"content": "x", "price": -1}), 400),
            post("wall/postcreate", json!({"content": "x", "wallId": "17"}), 404),
            post("wall/postedit", json!({"postId": "17", "content": "x"}), 404),
            post("wall/postdelete", json!({}), 400),
            post("postreply/verify", json!({"postId": "17"}), 404),
            post("mediastories", json!({"contentId": "17"}), 404),
            post("mediastory/delete", json!({"mediaStoryId": "17"}), 404),
            post("stories", json!({"title": "x", "mediaStoryIds": ["17"]}), 404),
            post("account/media", json!({"mediaId": "17"}), 404),
            post("account/media", json!({"mediaId": medium, "price": -1}), 400),
            post("media/cover", json!({"mediaId": medium, "coverId": "17"}), 404),
            post("media/watermark", json!({"opacity": 101}), 400),
            post("upload-url/v1", with(&file, "contentType", json!("text/plain")), 400),
            post("upload-url/v1", with(&file, "size", json!(0)), 400),
            post("media", json!({"uploadId": upload}), 409),
            post("uservault/albums", none(), 400),
            post("uservault/album/content", json!({"albumId": "17", "mediaIds": [medium]}), 404),
            post("chatroom/goal/update", json!({"goalId": goal, "goalAmount": 0}), 400),
            post("subscription", json!({"accountId": subscribed}), 409),
            post("subscriptions", json!({"subscriptionId": "17", "autoRenew": true}), 404),
            post(format!("account/{own}/followers"), none(), 400),
            post("account/17/followers", none(), 404),
            post("account/username", json!({"username": "no spaces"}), 400),
            post("account/settings", json!({"allowTips": "no"}), 400),
            post("account/emailchange/create", json!({"email": "nowhere"}), 400),
            post("account/emailchange/verify", json!({"code": "1"}), 404),
            post("twofa/verify", json!({"code": "000"}), 400),
            post("twofa/remove", json!({"code": "000"}), 409),
            post("twofa/session/create", none(), 409),
            post("submit/v1", none(), 400),
            get("nowhere", 404),
            get("account", 400),
            get("list/v1?listId=17", 404),
            get("subscribers?status=gone", 400),
            get("timeline/home?mode=gone", 400),
            refused(Method::DELETE, "account/me", none(), 405),
        ],
    )
    .await;
}
