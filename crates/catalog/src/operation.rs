//! The name and the path of each route in a platform's OpenAPI document.
//!
//! An id is what the platform's own reference calls the operation, or its method and path. It does
//! not depend on the other routes, so that clients keep working when the catalogue grows. Only
//! where two are so alike that a generator would make one name of them, a digest of the route's
//! name decides.
//!
//! OpenAPI takes paths that differ only in the names of parameters for the same, so the first route
//! of a shape names the parameters of all.

use std::collections::HashMap;

use crate::route::Route;

/// What native paths begin with.
const PREFIX: &str = "/v1/{account}/native/";

/// A route as an operation of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteOperation {
    /// Its id, unique in the document of the platform.
    pub id: String,
    /// Its path, from `/v1/` on.
    pub path: String,
    /// The names of the parameters after `/native/`, in order.
    pub parameters: Vec<String>,
}

/// The operations of routes, in their order.
pub(crate) fn operations(routes: &[Route]) -> Vec<RouteOperation> {
    let mut likenesses: HashMap<String, usize> = HashMap::new();
    let mut paths: HashMap<String, RoutePath> = HashMap::new();
    for route in routes {
        *likenesses.entry(likeness(&wished(route))).or_default() += 1;
        paths.entry(route.shape()).or_insert_with(|| RoutePath::of(route));
    }
    let of = |route: &Route| {
        let wished = wished(route);
        let is_alone = likenesses.get(&likeness(&wished)).is_none_or(|count| *count < 2);
        let path = paths.get(&route.shape()).cloned().unwrap_or_else(|| RoutePath::of(route));
        RouteOperation {
            id: if is_alone { wished } else { format!("{wished}_{:08x}", digest(&route.name)) },
            path: path.path,
            parameters: path.parameters,
        }
    };
    routes.iter().map(of).collect()
}

#[derive(Clone)]
struct RoutePath {
    path: String,
    parameters: Vec<String>,
}

impl RoutePath {
    fn of(route: &Route) -> Self {
        let mut path = format!("{PREFIX}{}", route.template);
        let mut parameters = Vec::new();
        for name in route.parsed.names() {
            // The account in front of the native path has this name.
            let shown = if name == "account" { other_account(route) } else { name.to_owned() };
            if shown != name {
                let native =
                    route.template.replace(&format!("{{{name}}}"), &format!("{{{shown}}}"));
                path = format!("{PREFIX}{native}");
            }
            parameters.push(shown);
        }
        Self { path, parameters }
    }
}

/// A name for a platform's own account that no other parameter of the route has.
fn other_account(route: &Route) -> String {
    let mut name = "platform_account".to_owned();
    while route.parsed.names().any(|known| known == name) {
        name.push('_');
    }
    name
}

/// The id, if no other route has one like it.
fn wished(route: &Route) -> String {
    let own = route.docs.as_ref().map(|docs| words(&docs.operation_id)).unwrap_or_default();
    if own.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return own;
    }
    words(&format!("{}_{}", route.method.as_str().to_ascii_lowercase(), route.template))
}

/// The letters and digits of a text, joined with `_`.
fn words(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// What is left of an id where generators write it in another case.
fn likeness(id: &str) -> String {
    let letters = id.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// FNV-1a: the same in every version of this program.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use domain::platform::Platform;

    use crate::Catalog;
    use crate::file;
    use crate::platform::PlatformCatalog;

    fn ids(entries: &[(&str, &str, &str)]) -> Vec<(String, String)> {
        let entry = |(method, template, id): &(&str, &str, &str)| {
            format!(
                "[[routes]]\nmethod = {method:?}\ntemplate = {template:?}\noperation_id = {id:?}\n"
            )
        };
        let text: String = entries.iter().map(entry).collect();
        let catalog = PlatformCatalog::new(Platform::ALPHA, file::parse(&text).unwrap()).unwrap();
        let operations = catalog.operations();
        operations.map(|(_, operation)| (operation.id.clone(), operation.path.clone())).collect()
    }

    #[test]
    fn an_id_is_the_platforms_own_or_method_and_path() {
        let found = ids(&[
            ("GET", "chats/{chat_id}/messages", ""),
            ("POST", "repos/{owner}/{name}", "repos/create-for-owner"),
            ("GET", "2fa", "2fa"),
        ]);

        let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["get_chats_chat_id_messages", "repos_create_for_owner", "get_2fa"]);
    }

    #[test]
    fn ids_that_generators_take_for_the_same_are_told_apart_in_any_order() {
        let entries =
            [("GET", "a/b_c", ""), ("GET", "a_b/c", ""), ("GET", "x", "getABC"), ("GET", "z", "")];
        let mut reversed = entries;
        reversed.reverse();

        let mut found = ids(&entries);
        let mut again = ids(&reversed);

        found.sort();
        again.sort();
        assert_eq!(found, again);
        let plain: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
        assert!(plain.contains(&"get_z"), "{plain:?}");
        assert!(plain.iter().filter(|id| id.len() > 10).count() == 3, "{plain:?}");
    }

    #[test]
    fn paths_of_one_shape_are_one_path() {
        let found = ids(&[
            ("GET", "lists/{list_id}", ""),
            ("PATCH", "lists/{id}", ""),
            ("GET", "of/{account}/{x}", ""),
            ("DELETE", "lists/{path*}", ""),
        ]);

        assert_eq!(found[0].1, "/v1/{account}/native/lists/{list_id}");
        assert_eq!(found[1].1, found[0].1);
        assert_eq!(found[3].1, found[0].1);
        assert_eq!(found[2].1, "/v1/{account}/native/of/{platform_account}/{x}");
    }

    #[test]
    fn every_built_in_route_has_an_id_of_its_own() {
        let catalog = Catalog::built_in().unwrap();
        for platform in Platform::BUILT_IN {
            let mut ids = std::collections::HashSet::new();
            for (route, operation) in catalog.platform(platform).operations() {
                assert!(ids.insert(operation.id.to_lowercase()), "{}", route.name);
            }
        }
    }
}
