//! Guarantees about every entry, and that a listed path finds its own entry.

use std::collections::HashSet;

use catalog::{Catalog, PlatformCatalog, Route, RouteKind};
use domain::credits::{Credits, MeteringCosts};
use domain::method::Method;
use domain::platform::Platform;

fn catalog() -> Catalog {
    Catalog::built_in().expect("the built-in catalogue is sound")
}

fn count(platform: &PlatformCatalog, wanted: fn(&RouteKind) -> bool) -> usize {
    platform.routes().iter().filter(|route| wanted(&route.kind)).count()
}

/// The template with a value for each parameter.
fn sample(route: &Route, value: &str) -> String {
    let segments = route.template.split('/');
    let filled: Vec<&str> =
        segments.map(|segment| if segment.starts_with('{') { value } else { segment }).collect();
    filled.join("/")
}

#[test]
fn as_many_routes_are_listed_as_the_specification_prints() {
    let catalog = catalog();
    let native = |kind: &RouteKind| matches!(kind, RouteKind::Native);
    let shorthand = |kind: &RouteKind| matches!(kind, RouteKind::Shorthand(_));
    let upload = |kind: &RouteKind| matches!(kind, RouteKind::Upload);

    let counts: Vec<_> = Platform::all()
        .iter()
        .map(|platform| catalog.platform(*platform))
        .map(|platform| {
            let internal = platform.internal_routes().len();
            (count(platform, native), count(platform, shorthand), count(platform, upload), internal)
        })
        .collect();

    assert_eq!(counts, [(78, 0, 0, 1), (112, 0, 0, 2), (31, 30, 1, 0), (84, 0, 0, 0)]);
}

#[test]
fn every_entry_can_be_read_in_a_reference() {
    let catalog = catalog();

    for platform in Platform::all() {
        let platform = catalog.platform(platform);
        for route in platform.routes().iter().chain(platform.internal_routes()) {
            let description = &route.description;
            assert!(description.ends_with('.'), "{}: {description}", route.name);
            assert!(description.len() <= 100, "{}", route.name);
            assert!(!route.group.is_empty(), "{}", route.name);
            assert_eq!(route.name, format!("{} {}", route.method, route.template));
            assert!(!route.verified, "{}: the specification marks none", route.name);
        }
    }
}

#[test]
fn every_listed_path_finds_its_own_entry() {
    let catalog = catalog();
    for platform in Platform::all() {
        let platform = catalog.platform(platform);
        for route in platform.routes().iter().filter(|route| route.kind != RouteKind::Upload) {
            for value in ["7", "%2e%2f", "66f0a1b2", "-", "queue2", "{id}"] {
                let path = sample(route, value);

                let found = platform.find(route.method, &path);

                let found = found.unwrap_or_else(|| panic!("{path} finds nothing"));
                assert_eq!(found.route.name, route.name);
                assert!(found.parameters.iter().all(|(_, given)| *given == value));
                assert_eq!(found.parameters.len(), route.template.matches('{').count());
            }
        }
    }
}

/// A parameter whose value looks like a literal of a neighbour: the neighbour goes before where it
/// exists for this method, and otherwise the parameter still takes it.
#[test]
fn a_value_that_looks_like_a_literal_finds_the_most_literal_entry() {
    let catalog = catalog();
    let found = |platform, method, path| {
        catalog.platform(platform).find(method, path).map(|found| found.route.template.clone())
    };

    for (platform, method, path, template) in [
        (Platform::ALPHA, Method::Get, "stories/archive", "stories/archive"),
        (Platform::ALPHA, Method::Get, "stories/highlights", "stories/{story_id}"),
        (
            Platform::ALPHA,
            Method::Get,
            "stories/highlights/viewers",
            "stories/highlights/{highlight_id}",
        ),
        (
            Platform::ALPHA,
            Method::Get,
            "users/me/stories/highlights",
            "users/{user_id}/stories/highlights",
        ),
        (Platform::ALPHA, Method::Post, "users/me/restrict", "users/{user_id}/restrict"),
        (Platform::ALPHA, Method::Post, "chats/mark-as-read", "chats/mark-as-read"),
        (Platform::ALPHA, Method::Get, "giphy/proxy/gifs/search", "giphy/proxy/{proxy_id}"),
        (Platform::BETA, Method::Get, "account/me/followers", "account/{accountId}/followers"),
        (
            Platform::GAMMA,
            Method::Post,
            "user/7/chat/configuration",
            "user/{selfId}/chat/configuration",
        ),
        (Platform::GAMMA, Method::Get, "user/7/chat/configuration", "user/{selfId}/chat/{chatId}"),
        (
            Platform::GAMMA,
            Method::Get,
            "user/7/chat/mass-message/",
            "user/{selfId}/chat/mass-message/",
        ),
        (Platform::GAMMA, Method::Get, "user/7/chat/mass-message", "user/{selfId}/chat/{chatId}"),
        (Platform::DELTA, Method::Get, "chats/mass-messages", "chats/mass-messages"),
        (Platform::DELTA, Method::Patch, "chats/mass-messages", "chats/{userUuid}"),
        (Platform::DELTA, Method::Get, "chats/templates/media", "chats/templates/{templateUuid}"),
        (Platform::DELTA, Method::Get, "chats/unread/media", "chats/{userUuid}/media"),
        (Platform::DELTA, Method::Get, "media/bulk", "media/bulk"),
        (Platform::DELTA, Method::Get, "media/uploads", "media/{uuid}"),
        (Platform::DELTA, Method::Get, "insights/fans/batch", "insights/fans/{userUuid}"),
        (Platform::DELTA, Method::Get, "apps/1/payments/me", "apps/{appUuid}/payments/me"),
    ] {
        assert_eq!(found(platform, method, path).as_deref(), Some(template), "{method} {path}");
    }
}

#[test]
fn what_is_not_listed_finds_nothing() {
    let catalog = catalog();
    for (platform, method, path) in [
        (Platform::ALPHA, Method::Get, "me"),
        (Platform::ALPHA, Method::Get, "chats"),
        (Platform::BETA, Method::Get, "messaging/groups"),
        (Platform::BETA, Method::Get, "message"),
        (Platform::GAMMA, Method::Post, "me"),
        (Platform::GAMMA, Method::Post, "media/upload"),
        (Platform::GAMMA, Method::Get, "subscribers/"),
        (Platform::DELTA, Method::Post, "media/upload"),
        (Platform::ALPHA, Method::Get, ""),
        (Platform::ALPHA, Method::Get, "/"),
        (Platform::ALPHA, Method::Delete, "users/me"),
    ] {
        assert!(catalog.platform(platform).find(method, path).is_none(), "{method} {path}");
    }
}

#[test]
fn names_are_stable_and_tell_routes_apart() {
    let catalog = catalog();
    for platform in Platform::all() {
        let mut names = HashSet::new();
        for route in catalog.platform(platform).routes() {
            assert!(names.insert(route.name.as_str()), "{}", route.name);
        }
    }
}

#[test]
fn a_read_costs_as_a_read_and_every_other_method_as_a_write() {
    let catalog = catalog();
    let costs = MeteringCosts {
        read: Credits::from_whole(1),
        write: Credits::from_whole(2),
        export: Credits::from_whole(10),
    };
    for platform in Platform::all() {
        for route in catalog.platform(platform).routes() {
            let expected = if route.method == Method::Get { 1 } else { 2 };
            assert_eq!(route.cost(&costs).whole(), expected, "{}", route.name);
        }
    }
}

#[test]
fn the_catalogue_of_each_platform_is_written_and_read_back() {
    let catalog = catalog();
    for platform in Platform::all() {
        let before = catalog.platform(platform);

        let again = catalog.clone().with_extra(platform, &before.to_toml()).unwrap();

        let after = again.platform(platform);
        assert_eq!(after.routes(), before.routes());
        assert_eq!(after.internal_routes(), before.internal_routes());
        assert_eq!(after.auth_fields(), before.auth_fields());
        assert_eq!(after.to_toml(), before.to_toml());
    }
}
