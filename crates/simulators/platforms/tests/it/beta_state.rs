//! Writes on `platform_beta` show in later reads and survive a restart.

use http::Method;
use serde_json::{Value, json};

use crate::beta::{DEMO, read, write};
use crate::kit::{Kit, id_of, none};

async fn refused(kit: &Kit, path: &str, body: Value) -> u16 {
    kit.send(DEMO, Method::POST, path, body).await.status.as_u16()
}

#[tokio::test]
async fn ignore_flags_set_and_clear_each_bit() {
    let kit = Kit::new();
    let fan = read(&kit, DEMO, "subscribers").await["subscribers"][3]["id"].clone();
    let flags = async || {
        let found = read(&kit, DEMO, &format!("account?ids={}", id_of(&fan))).await;
        found[0]["ignoreFlags"].clone()
    };
    for sent in [1, 2, 4, 8, 6, 15, 0] {
        write(&kit, "account/ignore", json!({"ignoredId": fan, "ignoreFlags": sent})).await;
        assert_eq!(flags().await, sent);
    }
    for wrong in [json!(16), json!(-1), json!("4"), none()] {
        let body = json!({"ignoredId": fan, "ignoreFlags": wrong});
        assert_eq!(refused(&kit, "account/ignore", body).await, 400);
    }
    let nobody = json!({"ignoredId": "1", "ignoreFlags": 1});
    assert_eq!(refused(&kit, "account/ignore", nobody).await, 404);
}

#[tokio::test]
async fn a_tier_is_created_promoted_ordered_and_deleted() {
    let kit = Kit::new();
    let tiers = async || read(&kit, DEMO, "subscriptions/tiers").await["subscriptionTiers"].clone();
    let body = json!({
        "name": "Gold", "color": "#ffd700", "price": 12000, "maxSubscribers": 50,
        "subscriptionBenefits": ["Calls"],
        "plans": [
            {"price": 12000, "billingCycle": 30, "status": 1},
            {"price": 30000, "billingCycle": 90, "status": 1},
        ],
    });

    let made = write(&kit, "subscriptions/tiers", body).await;
    assert_eq!(tiers().await[0], made);
    assert_eq!(made["plans"][1]["billingCycle"], 90);

    let promotion = |price: i64| {
        json!({
            "planId": made["plans"][0]["id"], "status": 1, "duration": 30, "maxUses": 10,
            "price": price, "startsAt": 1, "endsAt": 2,
        })
    };
    assert_eq!(refused(&kit, "subscriptions/promotions", promotion(2999)).await, 400);
    let promoted = write(&kit, "subscriptions/promotions", promotion(3000)).await;
    assert_eq!(tiers().await[0]["plans"][0]["promos"], json!([promoted]));
    assert_eq!(tiers().await[0]["plans"][1]["promos"], json!([]));

    let last = tiers().await[3]["id"].clone();
    write(&kit, "subscriptions/tiers/order", json!({"subscriptionTierIds": [last]})).await;
    assert_eq!(tiers().await[0]["id"], last);

    let id = json!({"subscriptionTierId": made["id"]});
    write(&kit, "subscriptions/tier/delete", id.clone()).await;
    assert_eq!(tiers().await.as_array().unwrap().len(), 3);
    assert_eq!(refused(&kit, "subscriptions/tier/delete", id).await, 404);
    assert_eq!(refused(&kit, "subscriptions/promotions", promotion(3000)).await, 404);
}

#[tokio::test]
async fn a_permission_for_one_tier_must_name_it() {
    let kit = Kit::new();
    let tier = read(&kit, DEMO, "subscriptions/tiers").await["subscriptionTiers"][0]["id"].clone();
    let body = |entry: Value| json!({"permissionFlags": [entry]});
    let path = "timeline/permissions";

    assert_eq!(refused(&kit, path, body(json!({"type": 0, "flags": 4}))).await, 400);
    assert_eq!(refused(&kit, path, body(json!({"type": 0, "flags": 8}))).await, 400);
    let unknown = json!({"type": 0, "flags": 4, "metadata": {"subscriptionTierId": "1"}});
    assert_eq!(refused(&kit, path, body(unknown)).await, 404);
    let right = json!({"type": 0, "flags": 4, "metadata": {"subscriptionTierId": tier}});
    write(&kit, path, body(right.clone())).await;

    assert_eq!(read(&kit, DEMO, path).await["permissionFlags"], json!([right]));
}

#[tokio::test]
async fn a_list_is_filled_copied_cleared_and_removed() {
    let kit = Kit::new();
    let fans = read(&kit, DEMO, "subscribers?limit=3").await["subscribers"].clone();
    let fans: Vec<Value> = fans.as_array().unwrap().iter().map(|fan| fan["id"].clone()).collect();
    let list = write(&kit, "lists", json!({"label": "Best"})).await["id"].clone();
    let items = async |of: &Value| {
        let page = read(&kit, DEMO, &format!("list/v1?listId={}&limit=100", id_of(of))).await;
        assert_eq!(page["list"]["itemCount"], page["total"]);
        let items = page["items"].as_array().unwrap().iter().map(|item| item["id"].clone());
        items.collect::<Vec<_>>()
    };

    write(&kit, "lists/items/add", json!({"listId": list, "itemIds": fans})).await;
    let full = vec![fans[2].clone(), fans[1].clone(), fans[0].clone()];
    assert_eq!(items(&list).await, full);
    let of_fan = read(&kit, DEMO, &format!("lists/account?accountId={}", id_of(&fans[0]))).await;
    assert_eq!(of_fan["lists"][0]["id"], list);

    let command = |command: &str| json!({"listId": list, "command": command});
    let copy = write(&kit, "lists/commands", command("duplicate")).await["id"].clone();
    assert_eq!(items(&copy).await, full);
    write(&kit, "lists/items/remove", json!({"listId": copy, "itemIds": [fans[1]]})).await;
    assert_eq!(items(&copy).await.len(), 2);
    assert_eq!(items(&list).await.len(), 3);

    write(&kit, "lists/commands", command("clear")).await;
    assert_eq!(items(&list).await, Vec::<Value>::new());
    write(&kit, "lists/aggregate/add", json!({"listId": list, "sourceListId": copy})).await;
    assert_eq!(items(&list).await.len(), 2);
    write(&kit, "lists/remove", json!({"listId": list})).await;
    let gone = format!("list/v1?listId={}", id_of(&list));
    assert_eq!(kit.send(DEMO, Method::GET, &gone, none()).await.status, 404);
    assert_eq!(refused(&kit, "lists/commands", json!({"listId": copy, "command": "x"})).await, 400);
}

#[tokio::test]
async fn a_generated_list_can_be_cleared() {
    let kit = Kit::new();
    let list = read(&kit, DEMO, "lists/account").await["lists"][0].clone();
    assert!(list["itemCount"].as_u64().unwrap() > 0);
    let command = json!({"listId": list["id"], "command": "clear"});
    let cleared = write(&kit, "lists/commands", command).await;
    assert_eq!(cleared["itemCount"], 0);
}

#[tokio::test]
async fn a_post_appears_on_timeline_and_wall_and_can_be_removed_from_both() {
    let kit = Kit::new();
    let wall = write(&kit, "wall/create", json!({"name": "Secret", "private": 1})).await;
    let of_wall = format!("wall?wallId={}", id_of(&wall["id"]));
    let body = json!({"wallId": wall["id"], "content": "New", "price": 5000});

    let post = write(&kit, "wall/postcreate", body).await;
    assert_eq!(post["wallIds"], json!([wall["id"]]));
    assert_eq!(read(&kit, DEMO, "timeline").await["posts"][0], post);
    assert_eq!(read(&kit, DEMO, &of_wall).await["posts"], json!([post]));

    write(&kit, "wall/postedit", json!({"postId": post["id"], "content": "Other"})).await;
    assert_eq!(read(&kit, DEMO, "timelinenew").await["posts"][0]["content"], "Other");
    write(&kit, "wall/postdelete", json!({"postId": post["id"], "wallId": wall["id"]})).await;
    assert_eq!(read(&kit, DEMO, &of_wall).await["posts"], json!([]));
    assert_eq!(read(&kit, DEMO, "timeline").await["posts"][0]["id"], post["id"]);
    write(&kit, "wall/postdelete", json!({"postId": post["id"]})).await;
    assert_ne!(read(&kit, DEMO, "timeline").await["posts"][0]["id"], post["id"]);

    write(&kit, "wall/delete", json!({"wallId": wall["id"]})).await;
    assert_eq!(kit.send(DEMO, Method::GET, &of_wall, none()).await.status, 404);
}

#[tokio::test]
async fn an_offer_whose_post_is_deleted_moves_to_the_deleted_locations() {
    let kit = Kit::new();
    let location = read(&kit, DEMO, "mediaoffers/location").await["locations"][0].clone();
    let none_yet = read(&kit, DEMO, "mediaoffers/location/deleted").await;
    assert_eq!(none_yet["locations"], json!([]));

    write(&kit, "wall/postdelete", json!({"postId": location["postId"]})).await;

    let deleted = read(&kit, DEMO, "mediaoffers/location/deleted").await;
    assert!(deleted["locations"].as_array().unwrap().contains(&location));
    let left = read(&kit, DEMO, "mediaoffers/location").await;
    assert!(!left["locations"].as_array().unwrap().contains(&location));
}

#[tokio::test]
async fn following_and_unfollowing_changes_the_graph_and_the_home_timeline() {
    let kit = Kit::new();
    let own = id_of(&read(&kit, DEMO, "account/me").await["account"]["id"]);
    let path = format!("account/{own}/following?limit=100");
    let first = read(&kit, DEMO, &path).await["following"][0]["id"].clone();
    let home = read(&kit, DEMO, "timeline/home").await["total"].as_u64().unwrap();

    write(&kit, &format!("account/{}/followers/remove", id_of(&first)), none()).await;
    assert_eq!(read(&kit, DEMO, &path).await["total"], 39);
    assert_eq!(read(&kit, DEMO, "timeline/home").await["total"], home - 10);
    write(&kit, &format!("account/{}/followers", id_of(&first)), none()).await;
    assert_eq!(read(&kit, DEMO, &path).await["following"][0]["id"], first);

    let followers = format!("account/{own}/followers");
    let fan = read(&kit, DEMO, &followers).await["followers"][0]["id"].clone();
    write(&kit, &format!("{followers}/remove"), json!({"followerId": fan})).await;
    assert_ne!(read(&kit, DEMO, &followers).await["followers"][0]["id"], fan);
}

#[tokio::test]
async fn an_upload_becomes_a_medium_once() {
    let kit = Kit::new();
    let body = json!({"filename": "a.mp4", "contentType": "video/mp4", "size": 1000});
    let upload = write(&kit, "upload-url/v1", body).await["uploadId"].clone();
    let named = json!({"uploadId": upload});

    assert_eq!(refused(&kit, "media", named.clone()).await, 409);
    write(&kit, "upload-verify/v1", named.clone()).await;
    let medium = write(&kit, "media", named.clone()).await;
    assert_eq!(refused(&kit, "media", named.clone()).await, 409);
    assert_eq!(refused(&kit, "upload-verify/v1", named).await, 409);

    assert_eq!(read(&kit, DEMO, "media/vault").await["media"][0], medium);
    let album = read(&kit, DEMO, "uservault/albums").await["albums"][0]["id"].clone();
    let content = json!({"albumId": album, "mediaIds": [medium["id"]]});
    write(&kit, "uservault/album/content", content).await;
    let inside =
        read(&kit, DEMO, &format!("uservault/album/content?albumId={}", id_of(&album))).await;
    assert_eq!(inside["media"][0], medium);
    assert_eq!(read(&kit, DEMO, "media/vaultnew").await["media"][0]["albumIds"], json!([album]));
}

#[tokio::test]
async fn a_two_factor_code_works_once() {
    let kit = Kit::new();
    let codes = write(&kit, "twofa", none()).await["codes"].clone();
    assert_eq!(refused(&kit, "twofa/verify", json!({"code": "no"})).await, 400);
    write(&kit, "twofa/verify", json!({"code": codes[0]})).await;
    assert_eq!(read(&kit, DEMO, "account/me").await["account"]["twofa"], true);
    assert_eq!(refused(&kit, "twofa", none()).await, 409);

    assert_eq!(refused(&kit, "twofa/remove", json!({"code": codes[0]})).await, 400);
    write(&kit, "twofa/remove", json!({"code": codes[1]})).await;
    assert_eq!(read(&kit, DEMO, "account/me").await["account"]["twofa"], false);
}

#[tokio::test]
async fn an_email_address_changes_once_its_code_is_entered() {
    let kit = Kit::new();
    let change = write(&kit, "account/emailchange/create", json!({"email": "n@c.test"})).await;
    let id = id_of(&change["id"]);
    let code = json!({"code": id[id.len() - 6..]});

    assert_eq!(refused(&kit, "account/emailchange/finish", code.clone()).await, 409);
    assert_eq!(refused(&kit, "account/emailchange/verify", json!({"code": "x"})).await, 400);
    write(&kit, "account/emailchange/verify", code.clone()).await;
    write(&kit, "account/emailchange/finish", code).await;

    assert_eq!(read(&kit, DEMO, "account/me").await["account"]["email"], "n@c.test");
}

#[tokio::test]
async fn writes_and_their_ids_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (before, made) = {
        let kit = Kit::on(folder.path());
        let tier = write(&kit, "subscriptions/tiers", json!({"name": "Kept", "price": 7000})).await;
        let fan = read(&kit, DEMO, "subscribers").await["subscribers"][2]["id"].clone();
        write(&kit, "account/ignore", json!({"ignoredId": fan, "ignoreFlags": 5})).await;
        write(&kit, "account", json!({"displayName": "Renamed"})).await;
        write(&kit, "wall/postcreate", json!({"content": "Kept"})).await;
        write(&kit, "twofa", none()).await;
        refused(&kit, "subscriptions/tiers", json!({"price": 1})).await;
        (snapshot(&kit).await, tier)
    };

    let kit = Kit::on(folder.path());
    assert_eq!(snapshot(&kit).await, before);
    assert_eq!(before[0]["account"]["displayName"], "Renamed");
    let next = write(&kit, "subscriptions/tiers", json!({"name": "Next", "price": 7000})).await;
    assert_ne!(next["id"], made["id"]);
}

async fn snapshot(kit: &Kit) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["account/me", "subscriptions/tiers", "subscribers", "timeline"] {
        all.push(read(kit, DEMO, path).await);
    }
    all
}
