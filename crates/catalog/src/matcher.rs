//! Which route a path belongs to.
//!
//! One tree of segments for each method. Literal segments are tried before parameters with text
//! around them, and those before plain parameters; the search steps back when one leads nowhere.
//! Each node of the tree is looked at once at most, so that no path can make the search long. Bytes
//! are compared as the caller sent them.

use std::cmp::Ordering;
use std::collections::HashMap;

use domain::method::Method;
use foldhash::fast::FixedState;

use crate::route::{Route, RouteKind};
use crate::template::TemplateSegment;

/// The trees of one platform.
#[derive(Debug, Clone, Default)]
pub(crate) struct RouteMatcher {
    trees: HashMap<Method, TreeNode, FixedState>,
}

/// What may follow at one depth. Numbers are indexes into the platform's routes.
#[derive(Debug, Clone, Default)]
struct TreeNode {
    /// Hashed quickly and always alike: who calls cannot put anything in.
    literals: HashMap<String, TreeNode, FixedState>,
    /// In the order in which they are tried; empty nearly everywhere.
    affixed: Vec<AffixedBranch>,
    parameter: Option<Box<TreeNode>>,
    rest: Option<usize>,
    route: Option<usize>,
}

/// What may follow a parameter with text around it.
#[derive(Debug, Clone)]
struct AffixedBranch {
    prefix: String,
    suffix: String,
    node: TreeNode,
}

impl RouteMatcher {
    /// Builds the trees over the routes that a native path can mean.
    pub(crate) fn new(routes: &[Route]) -> Self {
        let mut matcher = Self::default();
        for (index, route) in routes.iter().enumerate() {
            match &route.kind {
                RouteKind::Native | RouteKind::Shorthand(_) => matcher.insert(index, route),
                RouteKind::Upload | RouteKind::Internal => {}
            }
        }
        matcher
    }

    /// The index of the route that a path belongs to.
    pub(crate) fn find(&self, method: Method, raw_path: &str) -> Option<usize> {
        descend(self.trees.get(&method)?, raw_path)
    }

    fn insert(&mut self, index: usize, route: &Route) {
        let mut node = self.trees.entry(route.method).or_default();
        for segment in &route.parsed.segments {
            node = match segment {
                TemplateSegment::Literal(text) => node.literals.entry(text.clone()).or_default(),
                TemplateSegment::Parameter(_) => node.parameter.get_or_insert_default(),
                TemplateSegment::Affixed { prefix, suffix, .. } => node.affixed(prefix, suffix),
                TemplateSegment::Rest(_) => {
                    node.rest = Some(index);
                    return;
                }
            };
        }
        node.route = Some(index);
    }
}

impl TreeNode {
    /// The node behind a parameter with this text around it.
    fn affixed(&mut self, prefix: &str, suffix: &str) -> &mut Self {
        let place = self.affixed.binary_search_by(|branch| branch.order(prefix, suffix));
        let index = place.unwrap_or_else(|index| {
            let (prefix, suffix) = (prefix.to_owned(), suffix.to_owned());
            self.affixed.insert(index, AffixedBranch { prefix, suffix, node: Self::default() });
            index
        });
        #[expect(
            clippy::indexing_slicing,
            reason = "the search or the insertion above gave the index"
        )]
        let branch = &mut self.affixed[index];
        &mut branch.node
    }
}

impl AffixedBranch {
    /// The branch with more literal text is tried first, then the one with more of it in front.
    fn order(&self, prefix: &str, suffix: &str) -> Ordering {
        let own = self.prefix.len() + self.suffix.len();
        (prefix.len() + suffix.len(), prefix.len())
            .cmp(&(own, self.prefix.len()))
            .then_with(|| (self.prefix.as_str(), self.suffix.as_str()).cmp(&(prefix, suffix)))
    }

    fn takes(&self, segment: &str) -> bool {
        value_between(segment, &self.prefix, &self.suffix).is_some_and(|value| !value.is_empty())
    }
}

/// What stands between a prefix and a suffix that do not overlap.
fn value_between<'a>(segment: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    segment.strip_prefix(prefix)?.strip_suffix(suffix)
}

/// The values of a template's parameters in a path that it matches, as the caller sent them.
pub(crate) fn parameters<'a>(route: &'a Route, raw_path: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut values = Vec::new();
    let mut rest = raw_path;
    for segment in &route.parsed.segments {
        let (value, after) = rest.split_once('/').unwrap_or((rest, ""));
        match segment {
            TemplateSegment::Literal(_) => {}
            TemplateSegment::Parameter(name) => values.push((name.as_str(), value)),
            TemplateSegment::Affixed { prefix, name, suffix } => {
                let value = value_between(value, prefix, suffix).unwrap_or(value);
                values.push((name.as_str(), value));
            }
            TemplateSegment::Rest(name) => values.push((name.as_str(), rest)),
        }
        rest = after;
    }
    values
}

/// Recursion ends with the tree, whose depth is that of the longest template.
fn descend(node: &TreeNode, path: &str) -> Option<usize> {
    let (segment, after) =
        path.split_once('/').map_or((path, None), |(segment, after)| (segment, Some(after)));
    let follow = |next: &TreeNode| match after {
        None => next.route,
        Some(after) => descend(next, after),
    };
    if let Some(found) = node.literals.get(segment).and_then(follow) {
        return Some(found);
    }
    if segment.is_empty() {
        return None;
    }
    for branch in &node.affixed {
        if branch.takes(segment)
            && let Some(found) = follow(&branch.node)
        {
            return Some(found);
        }
    }
    if let Some(found) = node.parameter.as_deref().and_then(follow) {
        return Some(found);
    }
    node.rest.filter(|_| !path.split('/').any(str::is_empty))
}

#[cfg(test)]
mod tests {
    use domain::platform::Platform;
    use proptest::prelude::*;

    use crate::file;
    use crate::platform::PlatformCatalog;

    fn catalog(templates: &[&str]) -> PlatformCatalog {
        let entries: Vec<String> = templates
            .iter()
            .map(|template| format!("[[routes]]\nmethod = \"GET\"\ntemplate = {template:?}\n"))
            .collect();
        PlatformCatalog::new(Platform::ALPHA, file::parse(&entries.concat()).unwrap()).unwrap()
    }

    fn found<'a>(catalog: &'a PlatformCatalog, path: &'a str) -> Option<&'a str> {
        catalog.find(domain::method::Method::Get, path).map(|found| found.route.template.as_str())
    }

    #[test]
    fn a_literal_segment_goes_before_a_parameter() {
        let catalog = catalog(&["chats/{id}", "chats/unread", "chats/{id}/media"]);

        assert_eq!(found(&catalog, "chats/unread"), Some("chats/unread"));
        assert_eq!(found(&catalog, "chats/unread2"), Some("chats/{id}"));
    }

    #[test]
    fn the_search_steps_back_from_a_literal_that_leads_nowhere() {
        let catalog = catalog(&["a/b/c", "{x}/b/d", "a/{y}/e", "{x}/{y}/{z}", "a/{rest*}"]);

        assert_eq!(found(&catalog, "a/b/c"), Some("a/b/c"));
        assert_eq!(found(&catalog, "a/b/d"), Some("a/{rest}"));
        assert_eq!(found(&catalog, "a/b/e"), Some("a/{y}/e"));
        assert_eq!(found(&catalog, "q/b/d"), Some("{x}/b/d"));
        assert_eq!(found(&catalog, "q/b/e"), Some("{x}/{y}/{z}"));
    }

    #[test]
    fn bytes_are_compared_as_they_were_sent() {
        let catalog = catalog(&["users/me", "users/{id}"]);

        assert_eq!(found(&catalog, "users/%6de"), Some("users/{id}"));
        assert_eq!(found(&catalog, "Users/me"), None);
        assert_eq!(found(&catalog, "/users/me"), None);
    }

    #[test]
    fn a_slash_at_the_end_counts() {
        let catalog = catalog(&["mass/", "mass/{id}", "plain"]);

        assert_eq!(found(&catalog, "mass/"), Some("mass/"));
        assert_eq!(found(&catalog, "mass"), None);
        assert_eq!(found(&catalog, "mass/1/"), None);
        assert_eq!(found(&catalog, "plain/"), None);
    }

    #[test]
    fn only_a_marked_parameter_spans_segments_and_none_is_empty() {
        let catalog = catalog(&["giphy/proxy/{proxy_id*}", "user/{id}/x"]);

        for path in ["giphy/proxy/gifs", "giphy/proxy/gifs/search", "giphy/proxy/a/b/c"] {
            assert_eq!(found(&catalog, path), Some("giphy/proxy/{proxy_id}"), "{path}");
        }
        for path in ["giphy/proxy/", "giphy/proxy", "giphy/proxy/a//b", "giphy/proxy/a/"] {
            assert_eq!(found(&catalog, path), None, "{path}");
        }
        assert_eq!(found(&catalog, "user//x"), None);
        assert_eq!(found(&catalog, "user/1/2/x"), None);
    }

    #[test]
    fn the_values_of_parameters_are_given_as_they_were_sent() {
        let catalog = catalog(&["a/{first}/b/{second*}"]);

        let found = catalog.find(domain::method::Method::Get, "a/%7Eada/b/c/d").unwrap();

        assert_eq!(found.parameters, [("first", "%7Eada"), ("second", "c/d")]);
    }

    #[test]
    fn a_parameter_may_have_text_around_it() {
        let catalog =
            catalog(&["a/{id}", "a/{id}.json", "a/v{id}.json", "a/latest.json", "@{name}/x"]);

        for (path, template) in [
            ("a/7", "a/{id}"),
            ("a/7.json", "a/{id}.json"),
            ("a/v7.json", "a/v{id}.json"),
            ("a/v.json", "a/{id}.json"),
            ("a/latest.json", "a/latest.json"),
            ("a/.json", "a/{id}"),
            ("@ada/x", "@{name}/x"),
        ] {
            assert_eq!(found(&catalog, path), Some(template), "{path}");
        }
        assert_eq!(found(&catalog, "@/x"), None);
        assert_eq!(found(&catalog, "ada/x"), None);
        let value = catalog.find(domain::method::Method::Get, "a/v%37.json").unwrap().parameters;
        assert_eq!(value, [("id", "%37")]);
    }

    #[test]
    fn texts_around_a_parameter_do_not_overlap_and_lead_back() {
        let catalog = catalog(&["a{x}a", "ab{x}/c", "a{x}/d", "{x}b/e"]);

        assert_eq!(found(&catalog, "aa"), None);
        assert_eq!(found(&catalog, "aba"), Some("a{x}a"));
        assert_eq!(found(&catalog, "abc/d"), Some("a{x}/d"));
        assert_eq!(found(&catalog, "abb/e"), Some("{x}b/e"));
    }

    #[test]
    fn a_path_made_to_be_slow_ends_as_soon_as_the_templates_do() {
        let catalog = catalog(&["{a}/{b}/x", "a/{b}/y", "{a}/a/z"]);
        let path = "a/".repeat(100_000);

        assert_eq!(found(&catalog, &path), None);
    }

    /// The rule in its plainest form: try every template, literals first from the left.
    fn slowly<'a>(templates: &[&'a str], path: &str) -> Option<&'a str> {
        let rank = |template: &str| -> Option<Vec<u8>> {
            let wanted: Vec<&str> = template.split('/').collect();
            let given: Vec<&str> = path.split('/').collect();
            if wanted.len() != given.len() {
                return None;
            }
            let mut rank = Vec::new();
            for (want, have) in wanted.iter().zip(given) {
                if want.starts_with('{') {
                    let suffix = want.split_once('}').unwrap().1;
                    if have.len() <= suffix.len() || !have.ends_with(suffix) {
                        return None;
                    }
                    rank.push(if suffix.is_empty() { 2 } else { 1 });
                } else if *want == have {
                    rank.push(0);
                } else {
                    return None;
                }
            }
            Some(rank)
        };
        templates
            .iter()
            .copied()
            .filter_map(|template| Some((rank(template)?, template)))
            .min()
            .map(|(_, template)| template)
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_trying_every_template(
            shapes in proptest::collection::hash_set(
                proptest::collection::vec(prop_oneof!["[ab]", Just("{}".to_owned())], 1..5), 1..12),
            path in "[ab]?(/[abc]?){0,5}",
        ) {
            let templates: Vec<String> = shapes
                .iter()
                .map(|segments| {
                    let named: Vec<String> = segments
                        .iter()
                        .enumerate()
                        .map(|(index, text)| text.replace("{}", &format!("{{p{index}}}")))
                        .collect();
                    named.join("/")
                })
                .collect();
            let templates: Vec<&str> = templates.iter().map(String::as_str).collect();
            let catalog = catalog(&templates);

            prop_assert_eq!(found(&catalog, &path), slowly(&templates, &path));
        }
    }
}
