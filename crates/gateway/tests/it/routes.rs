//! The catalogue's routes through the gateway: each is sent under its own path, or its shorthand's
//! target, and costs what its method costs.

use catalog::{Catalog, Route, RouteKind};
use domain::platform::Platform;
use serde_json::json;
use test_service::platform::Script;
use test_service::stage::{CREDITS, Stage, on_stage};
use test_service::with_app;

/// The routes that are native paths, shorthands included.
fn native_routes(platform: Platform) -> Vec<Route> {
    let catalog = Catalog::built_in().unwrap();
    let routes = catalog.platform(platform).routes();
    routes.iter().filter(|route| route.kind != RouteKind::Upload).cloned().collect()
}

/// The template with a value for each parameter.
fn sample(template: &str) -> String {
    let segments = template.split('/').map(|segment| match segment.strip_prefix('{') {
        Some(name) if name.ends_with("*}") => "7/a~b",
        Some(_) => "7",
        None => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Calls a route in a way that any platform accepts.
async fn call(stage: &Stage, route: &Route, native: &str) -> test_service::Reply {
    match route.method.as_str() {
        "GET" => stage.get(native).await,
        method => stage.client.json(method, &stage.path(native), &json!({})).await,
    }
}

/// Every catalogued route, on a platform that answers anything: sent once, under its own path (or
/// its shorthand's), charged by its method, and named in receipt and log.
async fn every_route_is_sent_named_and_charged(platform: Platform, prefix: &str) {
    on_stage(
        platform.as_str(),
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let routes = native_routes(platform);
            stage.grant(1_000).await;
            let mut balance = CREDITS + 1_000;
            for route in &routes {
                let native = sample(&route.template);
                let reply = call(&stage, route, &native).await;

                let cost = if route.method.as_str() == "GET" { 1 } else { 2 };
                balance -= cost;
                assert_eq!(reply.status, 200, "{}: {}", route.name, reply.text());
                assert_eq!(reply.receipt(), (cost, balance), "{}", route.name);
                assert_eq!(reply.header("x-route"), route.name);
                let seen = stage.platform.last_call();
                assert_eq!(seen.method(), route.method.as_str());
                if route.shorthand().is_none() {
                    assert_eq!(seen.target(), format!("{prefix}{native}"), "{}", route.name);
                }
            }
            assert_eq!(stage.platform.calls().len(), routes.len());
            let log = stage.client.get("/v1/billing/usage/recent?limit=1000").await.json();
            let mut logged: Vec<_> = log["calls"]
                .as_array()
                .unwrap()
                .iter()
                .map(|call| call["route"].as_str().unwrap())
                .collect();
            let mut names: Vec<_> = routes.iter().map(|route| route.name.as_str()).collect();
            logged.sort_unstable();
            names.sort_unstable();
            assert_eq!(logged, names);
            assert_eq!(stage.balance().await, balance);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_of_alpha_is_sent_named_and_charged() {
    every_route_is_sent_named_and_charged(Platform::ALPHA, "/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_of_beta_is_sent_named_and_charged() {
    every_route_is_sent_named_and_charged(Platform::BETA, "/api/v1/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_of_gamma_is_sent_named_and_charged() {
    every_route_is_sent_named_and_charged(Platform::GAMMA, "/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_of_delta_is_sent_named_and_charged() {
    every_route_is_sent_named_and_charged(Platform::DELTA, "/").await;
}

/// The routes of a simulated platform that need no id: all reads succeed except `refused`, which
/// need a parameter or permission that this call lacks, and every write is recognized as its route.
async fn routes_without_ids_answer(platform: Platform, refused: &[&str]) {
    with_app(async |app| {
        let (_customer, client, account) = app.ready(platform.as_str(), 1_000).await;
        let mut refusals = Vec::new();
        for route in native_routes(platform) {
            let needs = route.query_parameters.iter().any(|parameter| parameter.required);
            if route.template.contains('{') || needs {
                continue;
            }
            let path = format!("/v1/{account}/native/{}", route.template);
            let reply = match route.method.as_str() {
                "GET" => client.get(&path).await,
                method => client.json(method, &path, &json!({})).await,
            };

            let is_read = route.method.as_str() == "GET";
            assert_eq!(reply.header("x-route"), route.name);
            assert_eq!(reply.receipt().0, if is_read { 1 } else { 2 }, "{}", reply.text());
            let is_known = !matches!(reply.status, 401 | 405) && reply.status < 500;
            assert!(is_known && !reply.text().contains("Route not found"), "{}", reply.text());
            if is_read && reply.status >= 300 {
                refusals.push(route.name.clone());
            }
        }
        assert_eq!(refusals, refused);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_simulated_alpha_serves_its_routes_through_the_gateway() {
    routes_without_ids_answer(Platform::ALPHA, &["GET payouts/dac7", "GET users/list"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_simulated_beta_serves_its_routes_through_the_gateway() {
    let need_an_id_or_a_text = [
        "GET account",
        "GET account/media",
        "GET account/media/bundle",
        "GET account/search",
        "GET account/searchnew",
        "GET list/v1",
        "GET subscriptions/giftcode",
        "GET chatroom/goal/tips",
        "GET mediastory/views",
        "GET media",
        "GET uservault/album/content",
    ];
    routes_without_ids_answer(Platform::BETA, &need_an_id_or_a_text).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_simulated_gamma_serves_its_routes_through_the_gateway() {
    routes_without_ids_answer(Platform::GAMMA, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_simulated_delta_serves_its_routes_through_the_gateway() {
    routes_without_ids_answer(Platform::DELTA, &["GET media/bulk"]).await;
}

/// Shorthands of `platform_gamma` and their targets (specification 4.3), for the account 66f0a1.
const SHORTHANDS: [(&str, &str); 30] = [
    ("me", "/user/66f0a1"),
    ("subscribers", "/user/66f0a1/subscription?limit=50"),
    ("subscriber-count", "/user/66f0a1/subscription-count"),
    ("tiers", "/user/66f0a1/subscription/configuration"),
    ("chats", "/user/66f0a1/chatsByList?limit=50"),
    ("feed", "/base"),
    ("vault", "/user/66f0a1/vault"),
    ("earnings", "/user/66f0a1/process/stats"),
    ("lists", "/user/66f0a1/user-lists?limit=50"),
    ("vouchers", "/user/66f0a1/voucher"),
    ("templates", "/user/66f0a1/chat/configured_message"),
    ("payout", "/user/66f0a1/payout/available"),
    ("unread", "/user/66f0a1/chat/unread-messages"),
    ("chat-config", "/user/66f0a1/chat/configuration"),
    ("payout-history", "/user/66f0a1/payout"),
    ("postback-urls", "/user/66f0a1/postback-url"),
    ("interactions", "/user/66f0a1/interaction"),
    ("share-config", "/user/66f0a1/share/configuration"),
    ("reels", "/reels?user_id=66f0a1"),
    ("content", "/user/66f0a1/file-stack"),
    ("posts", "/user/66f0a1/file-stack"),
    ("moments", "/user/66f0a1/file-stack?categories=moment"),
    ("blocked", "/user/66f0a1/blocked"),
    ("muted", "/user/66f0a1/muted"),
    ("restricted", "/user/66f0a1/restricted"),
    ("following", "/user/66f0a1/following"),
    ("followers", "/user/66f0a1/follower"),
    ("activity", "/activity"),
    ("partnerships", "/partnerships"),
    ("search", "/user"),
];

/// Checks the targets of calls to `platform_gamma`.
async fn leads_to(method: &str, rows: &[(&str, &str)]) {
    on_stage(
        "platform_gamma",
        "",
        |_, _| Script::json(200, "[]"),
        async |stage| {
            for (native, target) in rows {
                let reply = stage.client.send(method, &stage.path(native), None).await;

                assert_eq!(reply.status, 200, "{native}: {}", reply.text());
                assert_eq!(stage.platform.last_call().target(), *target, "{native}");
            }
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shorthand_reaches_its_path_with_the_creators_own_id() {
    leads_to("GET", &SHORTHANDS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explicit_parameters_replace_defaults_and_others_are_kept() {
    leads_to(
        "GET",
        &[
            ("chats?limit=5", "/user/66f0a1/chatsByList?limit=5"),
            ("chats?limit=", "/user/66f0a1/chatsByList?limit="),
            ("chats?limit", "/user/66f0a1/chatsByList?limit"),
            ("chats?%6cimit=5", "/user/66f0a1/chatsByList?%6cimit=5"),
            ("chats?offset=100", "/user/66f0a1/chatsByList?offset=100&limit=50"),
            ("subscribers?a=%7E&a=b", "/user/66f0a1/subscription?a=%7E&a=b&limit=50"),
            ("reels?user_id=9", "/reels?user_id=9"),
            ("moments?categories=story&tag=x", "/user/66f0a1/file-stack?categories=story&tag=x"),
            ("earnings?init_from=2026-01-01", "/user/66f0a1/process/stats?init_from=2026-01-01"),
            ("search?search=a%20b&limit=3", "/user?search=a%20b&limit=3"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_path_gets_neither_defaults_nor_an_id() {
    leads_to(
        "GET",
        &[
            ("user/9/chatsByList", "/user/9/chatsByList"),
            ("user/9/subscription", "/user/9/subscription"),
            ("user/9/user-lists", "/user/9/user-lists"),
            ("reels/", "/reels/"),
            ("me/x", "/me/x"),
            ("Me", "/Me"),
        ],
    )
    .await;
}

/// Shorthands are for reads; with another method the path is forwarded unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_the_path_of_a_shorthand_is_not_rewritten() {
    leads_to("POST", &[("lists", "/lists"), ("me", "/me")]).await;
    leads_to("DELETE", &[("chats?limit=1&limit=2", "/chats?limit=1&limit=2")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlisted_route_is_forwarded_and_named_unlisted() {
    on_stage(
        "platform_alpha",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let reply = stage.post("brand/new?x=1", &json!({})).await;

            assert_eq!((reply.status, reply.header("x-route")), (200, "unlisted"));
            assert_eq!(reply.receipt(), (2, CREDITS - 2));
            assert_eq!(stage.platform.last_call().target(), "/brand/new?x=1");
            let log = stage.log().await;
            assert_eq!(
                (&log[0]["route"], &log[0]["path"]),
                (&"POST brand/new".into(), &"brand/new".into())
            );
            stage
        },
    )
    .await;
}

/// Usage counts each shape separately, up to a limit, so that no caller can fill it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlisted_paths_are_counted_by_shape_up_to_a_limit() {
    on_stage(
        "platform_alpha",
        "[http]\nunlisted_shapes_max = 2",
        |_, _| Script::json(404, "{}"),
        async |stage| {
            for path in ["chats/8812/notes", "chats/17/notes", "brand/new", "brand/newer"] {
                assert_eq!(stage.get(path).await.header("x-route"), "unlisted");
                stage.app.clock.advance_seconds(1);
            }
            for number in 0..4 {
                stage.get(&format!("chats/{number}/notes")).await;
            }

            let log = stage.log().await;
            let routes: Vec<&str> =
                log.iter().map(|call| call["route"].as_str().unwrap()).rev().collect();
            assert_eq!(
                routes[..4],
                ["GET chats/{}/notes", "GET chats/{}/notes", "GET brand/new", "unlisted"]
            );
            assert!(routes[4..].iter().all(|route| *route == "GET chats/{}/notes"), "{routes:?}");
            let usage = stage.client.get("/v1/billing/usage/daily").await.json();
            let failure = &usage["hot_failure"];
            assert_eq!(failure["route"], "GET chats/{}/notes", "{failure}");
            assert_eq!(failure["calls"], 6);
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlisted_route_is_refused_if_the_operator_wants_it() {
    refuses_unlisted_routes("[http]\nunlisted_routes = \"refuse\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_platform_can_refuse_unlisted_routes() {
    let overrides = "[platforms.platform_alpha]\nunlisted_routes = \"refuse\"";
    refuses_unlisted_routes(overrides).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_platform_can_forward_unlisted_routes_that_others_refuse() {
    let overrides = "[http]\nunlisted_routes = \"refuse\"\n[platforms.platform_alpha]\n\
                     unlisted_routes = \"forward\"";
    on_stage(
        "platform_alpha",
        overrides,
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let unlisted = stage.post("brand/new", &json!({})).await;

            assert_eq!((unlisted.status, stage.platform.calls().len()), (200, 1));
            stage
        },
    )
    .await;
}

async fn refuses_unlisted_routes(overrides: &str) {
    on_stage(
        "platform_alpha",
        overrides,
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let unlisted = stage.post("brand/new", &json!({})).await;
            let other_method = stage.client.delete(&stage.path("users/me")).await;
            let listed = stage.get("users/me").await;

            assert_eq!((unlisted.status, unlisted.code().as_str()), (404, "route_not_listed"));
            assert_eq!(other_method.code(), "route_not_listed");
            assert_eq!((listed.status, stage.platform.calls().len()), (200, 1));
            assert_eq!(stage.balance().await, CREDITS - 1);
            stage
        },
    )
    .await;
}

/// A request that breaks a rule of the catalogue is refused before it costs anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_breaks_a_rule_of_its_route_is_refused_and_free() {
    on_stage(
        "platform_beta",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let cheap = stage.post("subscriptions/promotions", &json!({"price": 2_999})).await;
            let tierless = json!({"permissionFlags": [{"type": 0, "flags": 4}]});
            let tierless = stage.post("timeline/permissions", &tierless).await;
            let floor = stage.post("subscriptions/promotions", &json!({"price": 3_000})).await;

            assert_eq!((cheap.status, cheap.code().as_str()), (422, "invalid_request"));
            assert_eq!((tierless.status, tierless.code().as_str()), (422, "invalid_request"));
            assert_eq!((floor.status, stage.platform.calls().len()), (200, 1));
            assert_eq!(stage.balance().await, CREDITS - 2);
            stage
        },
    )
    .await;
    on_stage(
        "platform_gamma",
        "",
        |_, _| Script::json(200, "{}"),
        async |stage| {
            let body = json!({"price": 5, "initial_payment_options": [{"amount_netto": 4}]});
            let netto = stage.post("user/66f0a1/subscription/configuration", &body).await;

            assert_eq!((netto.status, netto.code().as_str()), (422, "invalid_request"));
            assert!(stage.platform.calls().is_empty());
            assert_eq!(stage.balance().await, CREDITS);
            stage
        },
    )
    .await;
}

/// A creation returns 201, which proves as much as 200.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_2xx_verifies_a_route() {
    let script = |_: &_, _| Script::json(201, "{}");
    on_stage("platform_alpha", "", script, async |stage| {
        stage.post("lists", &json!({"name": "x"})).await;

        loop {
            let reply = stage.client.get("/v1/platforms/platform_alpha/routes").await.json();
            let routes = reply["routes"].as_array().unwrap();
            let is_it =
                |route: &&serde_json::Value| route["path"] == "lists" && route["method"] == "POST";
            if routes.iter().find(is_it).unwrap()["verified"] == true {
                break;
            }
        }
        stage
    })
    .await;
}

/// The first 2xx of a route marks it verified, for all customers and permanently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_2xx_verifies_a_route() {
    let script = |_: &_, number| match number {
        0 => Script::json(404, "{}"),
        _ => Script::json(200, "{}"),
    };
    on_stage("platform_alpha", "", script, async |stage| {
        let verified_at = async || {
            let reply = stage.client.get("/v1/platforms/platform_alpha/routes").await.json();
            let routes = reply["routes"].as_array().unwrap().clone();
            let route = routes.iter().find(|route| route["path"] == "users/me/stats/overview");
            route.unwrap()["verified_at"].clone()
        };
        stage.get("users/me/stats/overview").await;
        let refused = verified_at().await;
        stage.get("users/me/stats/overview").await;
        let mut answered = verified_at().await;
        while answered.is_null() {
            answered = verified_at().await;
        }

        assert!(refused.is_null(), "{refused}");
        assert!(answered.as_str().unwrap().starts_with("2026-11-21T12:00:00"), "{answered}");
        stage
    })
    .await;
}
