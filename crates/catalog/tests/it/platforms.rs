//! What the specification says of single routes: groups, scopes, shorthands, defaults, rules,
//! credentials.

use catalog::{AuthKind, Catalog, Route, shorthand};
use domain::method::Method;
use domain::platform::Platform;
use serde_json::json;

fn route(platform: Platform, name: &str) -> Route {
    let catalog = Catalog::built_in().unwrap();
    let found = catalog.platform(platform).routes().iter().find(|route| route.name == name);
    found.unwrap_or_else(|| panic!("{name} is not listed")).clone()
}

/// Each group with the number of its routes, in file order.
fn groups(platform: Platform) -> Vec<(String, usize)> {
    let catalog = Catalog::built_in().unwrap();
    let mut groups: Vec<(String, usize)> = Vec::new();
    for route in catalog.platform(platform).routes() {
        match groups.iter_mut().find(|(name, _)| *name == route.group) {
            Some((_, count)) => *count += 1,
            None => groups.push((route.group.clone(), 1)),
        }
    }
    groups
}

fn counted(groups: &[(&str, usize)]) -> Vec<(String, usize)> {
    groups.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn groups_are_those_of_the_specification() {
    let alpha = [
        ("account/settings", 11),
        ("statistics", 7),
        ("payouts/banking", 6),
        ("chargebacks", 3),
        ("users", 4),
        ("fans", 1),
        ("chats and messages", 9),
        ("mass messages", 4),
        ("posts", 6),
        ("stories", 10),
        ("lists", 7),
        ("vault lists", 3),
        ("bundles", 2),
        ("tracking links", 4),
        ("gifs", 1),
    ];
    let beta = [
        ("account", 26),
        ("wallets", 5),
        ("security", 8),
        ("lists", 10),
        ("subscriptions", 12),
        ("follow graph", 4),
        ("messaging", 4),
        ("timeline and wall", 13),
        ("stories", 10),
        ("media", 20),
    ];

    assert_eq!(groups(Platform::ALPHA), counted(&alpha));
    assert_eq!(groups(Platform::BETA), counted(&beta));
}

#[test]
fn scopes_are_those_of_the_specification() {
    for (name, scopes) in [
        ("GET agencies/chats", vec!["read:agency", "read:chat"]),
        ("GET agencies/earnings", vec!["read:agency", "read:creator"]),
        ("POST agencies/posts", vec!["write:creator", "write:post"]),
        ("GET apps/{appUuid}/subscription/me", vec!["read:self"]),
        ("GET chats/mass-messages", vec!["read:chat"]),
        ("POST chats/mass-messages", vec!["read:fan", "write:chat"]),
        ("DELETE chats/mass-messages/{messageUuid}", vec!["write:chat"]),
        ("POST chats/statuses", vec!["read:chat"]),
        ("GET creators/{creatorUserUuid}/posts/{uuid}/tips", vec!["read:creator", "read:post"]),
        ("POST experiences/token/exchange", vec!["read:experience"]),
        ("POST insights/fans/profiles", vec!["read:fan"]),
        ("GET insights/top-spenders", vec!["read:fan", "read:insights"]),
        ("GET media/uploads/{uploadId}/parts/{partNumber}/url", vec!["write:media"]),
        ("GET notifications", vec!["read:self"]),
        ("GET posts", vec!["read:post"]),
    ] {
        assert_eq!(route(Platform::DELTA, name).scopes, scopes, "{name}");
    }
}

#[test]
fn only_the_platform_with_oauth_has_scopes_and_all_of_its_routes_do() {
    let catalog = Catalog::built_in().unwrap();

    for platform in Platform::all() {
        for route in catalog.platform(platform).routes() {
            let expected = platform == Platform::DELTA;
            assert_eq!(!route.scopes.is_empty(), expected, "{}", route.name);
        }
    }
}

#[test]
fn scopes_that_were_not_granted_are_named_in_order() {
    let route = route(Platform::DELTA, "POST chats/mass-messages");

    assert_eq!(route.missing_scopes(&[]), ["read:fan", "write:chat"]);
    assert_eq!(route.missing_scopes(&["read:chat", "read:fan"]), ["write:chat"]);
    assert!(route.missing_scopes(&["write:chat", "read:fan"]).is_empty());
}

/// Path and query as the platform gets them, for the creator `c1`.
fn upstream(name: &str, query: Option<&str>) -> String {
    let catalog = Catalog::built_in().unwrap();
    let found = catalog.platform(Platform::GAMMA).find(Method::Get, name).unwrap();
    let target = found.route.shorthand().unwrap();
    let (path, query) = shorthand::rewrite(target, "c1", query).unwrap();
    let query = shorthand::with_defaults(&query, &found.route.default_query);
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

#[test]
fn every_shorthand_leads_where_the_specification_says() {
    for (name, target) in [
        ("me", "user/c1"),
        ("subscribers", "user/c1/subscription?limit=50"),
        ("subscriber-count", "user/c1/subscription-count"),
        ("tiers", "user/c1/subscription/configuration"),
        ("chats", "user/c1/chatsByList?limit=50"),
        ("feed", "base"),
        ("vault", "user/c1/vault"),
        ("earnings", "user/c1/process/stats"),
        ("lists", "user/c1/user-lists?limit=50"),
        ("vouchers", "user/c1/voucher"),
        ("templates", "user/c1/chat/configured_message"),
        ("payout", "user/c1/payout/available"),
        ("unread", "user/c1/chat/unread-messages"),
        ("chat-config", "user/c1/chat/configuration"),
        ("payout-history", "user/c1/payout"),
        ("postback-urls", "user/c1/postback-url"),
        ("interactions", "user/c1/interaction"),
        ("share-config", "user/c1/share/configuration"),
        ("reels", "reels?user_id=c1"),
        ("content", "user/c1/file-stack"),
        ("posts", "user/c1/file-stack"),
        ("moments", "user/c1/file-stack?categories=moment"),
        ("blocked", "user/c1/blocked"),
        ("muted", "user/c1/muted"),
        ("restricted", "user/c1/restricted"),
        ("following", "user/c1/following"),
        ("followers", "user/c1/follower"),
        ("activity", "activity"),
        ("partnerships", "partnerships"),
        ("search", "user"),
    ] {
        assert_eq!(upstream(name, None), target);
    }
}

#[test]
fn what_the_caller_gives_wins_over_what_would_be_inserted() {
    assert_eq!(upstream("chats", Some("offset=5")), "user/c1/chatsByList?offset=5&limit=50");
    assert_eq!(upstream("chats", Some("limit=10")), "user/c1/chatsByList?limit=10");
    assert_eq!(upstream("lists", Some("limit=")), "user/c1/user-lists?limit=");
    assert_eq!(
        upstream("moments", Some("categories=a%2Cb")),
        "user/c1/file-stack?categories=a%2Cb"
    );
    assert_eq!(upstream("reels", Some("user_id=9")), "reels?user_id=9");
    assert_eq!(upstream("search", Some("search=a+b")), "user?search=a+b");
}

#[test]
fn full_paths_and_other_platforms_get_no_default() {
    let catalog = Catalog::built_in().unwrap();
    let mut with_default = Vec::new();
    for platform in Platform::all() {
        let routes = catalog.platform(platform).routes();
        with_default.extend(routes.iter().filter(|route| !route.default_query.is_empty()));
    }

    let names: Vec<&str> = with_default.iter().map(|route| route.name.as_str()).collect();

    assert_eq!(names, ["GET subscribers", "GET chats", "GET lists"]);
}

#[test]
fn body_rules_stand_where_the_specification_has_them() {
    let catalog = Catalog::built_in().unwrap();
    let mut names = Vec::new();
    for platform in Platform::all() {
        let routes = catalog.platform(platform).routes();
        let ruled = routes.iter().filter(|route| route.has_body_rules());
        names.extend(ruled.map(|route| route.name.as_str()));
    }

    assert_eq!(
        names,
        [
            "POST subscriptions/promotions",
            "POST timeline/permissions",
            "POST user/{selfId}/subscription/configuration",
            "PUT user/{selfId}/subscription/configuration/{tierId}",
            "POST media/upload",
        ]
    );
}

#[test]
fn bodies_that_a_platform_is_known_to_refuse_are_refused() {
    let refused = |platform, name, body| route(platform, name).check_body(&body).is_err();

    assert!(refused(
        Platform::GAMMA,
        "PUT user/{selfId}/subscription/configuration/{tierId}",
        json!({"status": "deleted", "recurring_payment": {"amount_netto": 1}})
    ));
    assert!(refused(Platform::BETA, "POST subscriptions/promotions", json!({"price": 2999})));
    assert!(!refused(Platform::BETA, "POST subscriptions/promotions", json!({"price": 3000})));
    assert!(refused(
        Platform::BETA,
        "POST timeline/permissions",
        json!({"permissionFlags": [{"type": 0, "flags": 4}]})
    ));
    assert!(refused(Platform::GAMMA, "POST media/upload", json!({"price": "299"})));
    assert!(!refused(Platform::BETA, "POST subscriptions/tiers", json!({"price": 1})));
}

#[test]
fn credentials_have_the_fields_that_accounts_are_connected_with() {
    let catalog = Catalog::built_in().unwrap();
    let fields = |platform| -> Vec<String> {
        let fields = catalog.platform(platform).auth_fields().iter();
        fields
            .map(|field| {
                let required = if field.required { "" } else { "?" };
                let secret = if field.secret { " secret" } else { "" };
                format!("{}{required} {}{secret}", field.name, field.kind.as_str())
            })
            .collect()
    };

    assert_eq!(
        fields(Platform::ALPHA),
        [
            "user_id string",
            "session_token string secret",
            "user_agent? string",
            "extra? string_map secret"
        ]
    );
    assert_eq!(fields(Platform::BETA), ["token string secret", "device_id? string"]);
    assert_eq!(
        fields(Platform::GAMMA),
        ["token string secret", "resource string", "account_id string"]
    );
    assert_eq!(
        fields(Platform::DELTA),
        [
            "access_token string secret",
            "refresh_token? string secret",
            "expires_at? timestamp",
            "scopes? string_list"
        ]
    );
    assert_eq!(AuthKind::StringList.as_str(), "string_list");
}

#[test]
fn routes_with_bank_tax_and_login_details_are_marked() {
    for (platform, name, sensitive) in [
        (Platform::ALPHA, "GET payouts/bank", true),
        (Platform::BETA, "POST twofa", true),
        (Platform::GAMMA, "GET payout", true),
        (Platform::DELTA, "GET posts", false),
    ] {
        assert_eq!(route(platform, name).sensitive, sensitive, "{name}");
    }
}
