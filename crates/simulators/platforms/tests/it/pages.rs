//! The edges of pages: on `platform_gamma`, where a page shorter than its limit is the last, and on
//! `platform_beta`, which says whether there is more and pages by offset or around ids.

use http::Method;
use serde_json::{Value, json};

use crate::beta::{DEMO as BETA, all_by_offset, read};
use crate::gamma::{DEMO as GAMMA, own, rows, send};
use crate::kit::{Kit, id_of, none};
use crate::refusals::{is_refusal, of_beta};

/// All of beta's lists that have a total, and the noun of their rows.
async fn lists(kit: &Kit) -> Vec<(String, &'static str)> {
    let own = id_of(&read(kit, BETA, "account/me").await["account"]["id"]);
    let first = async |path: &str, noun: &str| id_of(&read(kit, BETA, path).await[noun][0]["id"]);
    let group = first("messaging/groups", "groups").await;
    let goal = first("account/tipgoals", "tipGoals").await;
    let story = first("mediastoriesnew", "mediaStories").await;
    let wall = first("wall", "walls").await;
    let list = first("lists/account", "lists").await;
    let album = first("uservault/albums", "albums").await;
    let fixed = [
        ("subscribers", "subscribers"),
        ("subscribers?status=active", "subscribers"),
        ("subscriptions", "subscriptions"),
        ("messaging/groups", "groups"),
        ("lists/account", "lists"),
        ("chatroom/chatters", "chatters"),
        ("account/tipgoals", "tipGoals"),
        ("timeline", "posts"),
        ("timelinenew", "posts"),
        ("timeline/home", "posts"),
        ("timeline/home?mode=subscriptions", "posts"),
        ("wall", "walls"),
        ("mediastories", "mediaStories"),
        ("mediastoriesnew", "mediaStories"),
        ("mediastories/following", "mediaStories"),
        ("stories", "stories"),
        ("media/vault", "media"),
        ("media/vaultnew", "media"),
        ("mediaoffers/mediaoffers", "mediaOffers"),
        ("mediaoffers/location", "locations"),
        ("uservault/albums", "albums"),
        ("sessions", "sessions"),
    ];
    let found = [
        (format!("account/{own}/followers"), "followers"),
        (format!("account/{own}/followers?search=an"), "followers"),
        (format!("account/{own}/following"), "following"),
        (format!("message?groupId={group}"), "messages"),
        (format!("chatroom/goal/tips?goalId={goal}"), "tips"),
        (format!("wall?wallId={wall}"), "posts"),
        (format!("list/v1?listId={list}"), "items"),
        (format!("uservault/album/content?albumId={album}"), "media"),
    ];
    let views = (format!("mediastory/views?mediaStoryId={story}"), "views");
    assert!(!read(kit, BETA, &views.0).await["views"].as_array().unwrap().is_empty());
    fixed.into_iter().map(|(path, noun)| (path.to_owned(), noun)).chain(found).collect()
}

fn with(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

fn ids(rows: &Value) -> Vec<String> {
    rows.as_array().unwrap().iter().map(|row| id_of(&row["id"])).collect()
}

#[tokio::test]
async fn betas_totals_are_the_number_of_rows_of_all_pages() {
    let kit = Kit::new();
    for (path, noun) in lists(&kit).await {
        let all = all_by_offset(&kit, &path, noun, 7).await;
        assert!(!all.is_empty(), "{path}");
        let total = read(&kit, BETA, &path).await["total"].clone();
        assert_eq!(json!(all.len()), total, "{path}");

        let past = read(&kit, BETA, &with(&path, &format!("offset={}", all.len()))).await;
        assert_eq!((&past[noun], &past["hasMore"]), (&json!([]), &json!(false)), "{path}");
        let far = read(&kit, BETA, &with(&path, "offset=18446744073709551615&limit=5")).await;
        assert_eq!((&far[noun], &far["total"]), (&json!([]), &total), "{path}");
        let huge = read(&kit, BETA, &with(&path, "limit=1000000")).await;
        assert_eq!(huge[noun].as_array().unwrap().len(), all.len().min(100), "{path}");
        assert_eq!(huge["hasMore"], all.len() > 100, "{path}");
    }
}

#[tokio::test]
async fn betas_lists_page_both_ways_from_any_id_and_between_two() {
    let kit = Kit::new();
    for (path, noun) in lists(&kit).await {
        let all = ids(&json!(all_by_offset(&kit, &path, noun, 50).await));
        let page = async |query: &str| {
            let page = read(&kit, BETA, &with(&path, query)).await;
            (ids(&page[noun]), page["hasMore"] == true)
        };
        let last = all.len() - 1;
        let (first_id, last_id) = (&all[0], &all[last]);

        assert_eq!(page(&format!("before={last_id}")).await, (vec![], false), "{path}");
        assert_eq!(page(&format!("after={first_id}")).await, (vec![], false), "{path}");
        let after = page(&format!("after={last_id}&limit=2")).await;
        assert_eq!(after.0, all[last.saturating_sub(2)..last], "{path}");
        assert_eq!(after.1, last > 2, "{path}");
        let before = page(&format!("before={first_id}&limit=1")).await;
        assert_eq!((before.0.len(), before.1), (last.min(1), last > 1), "{path}");
        if last >= 2 {
            let between = page(&format!("before={first_id}&after={}&limit=100", all[2])).await;
            assert_eq!(between, (vec![all[1].clone()], false), "{path}");
        }
        assert_eq!(page("before=0&after=0&limit=1").await.0, all[..1], "{path}");
    }
}

#[tokio::test]
async fn beta_refuses_unknown_cursors_and_invalid_pages() {
    let kit = Kit::new();
    let mut paths: Vec<String> = lists(&kit).await.into_iter().map(|(path, _)| path).collect();
    paths.push("account/media/orders".to_owned());
    for path in paths {
        for (query, status, code) in [
            ("before=17", 404, "not_found"),
            ("after=99000000000001", 404, "not_found"),
            ("before=nothing", 404, "not_found"),
            ("limit=0", 400, "bad_request"),
            ("limit=-1", 400, "bad_request"),
            ("limit=x", 400, "bad_request"),
            ("limit=", 400, "bad_request"),
            ("limit=99999999999999999999", 400, "bad_request"),
            ("offset=-1", 400, "bad_request"),
            ("offset=1.5", 400, "bad_request"),
        ] {
            let path = with(&path, query);
            let reply = kit.send(BETA, Method::GET, &path, none()).await;
            is_refusal(&reply, status, code, of_beta, &path);
        }
    }
}

#[tokio::test]
async fn betas_orders_page_both_ways() {
    let kit = Kit::new();
    let path = "account/media/orders";
    let all = ids(&json!(all_by_offset(&kit, path, "orders", 100).await));
    assert!(all.len() > 50);
    let page = async |query: String| {
        let page = read(&kit, BETA, &format!("{path}?{query}")).await;
        (ids(&page["orders"]), page["hasMore"] == true)
    };

    assert_eq!(page(format!("after={}&limit=5", all[9])).await, (all[4..9].to_vec(), true));
    assert_eq!(page(format!("after={}&limit=5", all[3])).await, (all[..3].to_vec(), false));
    assert_eq!(page(format!("before={}&limit=5", all[9])).await, (all[10..15].to_vec(), true));
    let between = format!("before={}&after={}", all[9], all[12]);
    assert_eq!(page(between).await, (all[10..12].to_vec(), false));
    let last = page(format!("before={}", all[all.len() - 1])).await;
    assert_eq!(last, (vec![], false));
}

/// The last page is shorter than its limit, even if it is empty.
#[tokio::test]
async fn gammas_pages_past_the_end_are_empty_and_those_at_the_end_short() {
    let kit = Kit::new();
    for (path, count) in [
        ("subscription", 240),
        ("chatsByList", 160),
        ("follower", 214),
        ("following", 40),
        ("vault", 120),
        ("file-stack", 60),
        ("interaction", 720),
        ("payout", 8),
        ("user-lists", 5),
    ] {
        let page = async |offset: u64, limit: u64| {
            let page = own(&kit, &format!("{path}?limit={limit}&offset={offset}")).await;
            rows(&page).len() as u64
        };
        assert_eq!(page(count, 5).await, 0, "{path}");
        assert_eq!(page(u64::MAX, 100).await, 0, "{path}");
        assert_eq!(page(count - 1, 5).await, 1, "{path}");
        assert_eq!(page(0, 100).await, count.min(100), "{path}");
        assert_eq!(page(count.saturating_sub(5), 5).await, 5.min(count), "{path}");
        // An id is not an offset here: cursors of other platforms are ignored.
        let cursor = send(&kit, Method::GET, &format!("{path}?limit=5&before=17"), none()).await;
        assert_eq!((cursor.status.as_u16(), rows(&cursor.body).len()), (200, 5), "{path}");
    }
    let me = id_of(&kit.auth(GAMMA)["account_id"]);
    let stats = kit.get(GAMMA, &format!("user/{me}/process/stats?limit=5&offset=720")).await;
    assert_eq!((&stats["count"], &stats["processes"]), (&json!(720), &json!([])));
}

/// All lists are in the order of time, newest first.
#[tokio::test]
async fn times_decrease_from_the_first_row_to_the_last() {
    let kit = Kit::new();
    for path in ["subscribers", "timeline", "timeline/home", "media/vault", "mediastoriesnew"] {
        let noun = path.split('/').next().unwrap();
        let noun = match noun {
            "timeline" => "posts",
            "mediastoriesnew" => "mediaStories",
            other => other,
        };
        let all = all_by_offset(&kit, path, noun, 100).await;
        let times: Vec<i64> = all.iter().map(|row| row["createdAt"].as_i64().unwrap()).collect();
        assert!(times.is_sorted_by(|newer, older| newer > older), "{path}");
        assert!(times[0] <= kit.clock.now_ms());
    }
    for path in ["subscription", "file-stack", "vault", "interaction", "chat/mass-message/"] {
        let all = own(&kit, &format!("{path}?limit=100")).await;
        let times: Vec<String> = rows(&all).iter().map(|row| id_of(&row["created_at"])).collect();
        assert!(times.is_sorted_by(|newer, older| newer > older), "{path}");
    }
    let chats = own(&kit, "chatsByList?limit=100").await;
    let times: Vec<String> = rows(&chats).iter().map(|row| id_of(&row["updated_at"])).collect();
    assert!(times.is_sorted_by(|newer, older| newer > older));
}
