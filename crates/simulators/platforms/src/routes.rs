//! The routes of a platform, and how a path is matched.

use http::Method;
use simulator_kit::pairs::decode_segment;

use super::answer::Outcome;
use super::call::PlatformCall;
use crate::overlay::Overlay;

/// Only reads; several may run concurrently.
pub(crate) type ReadHandler = fn(&PlatformCall<'_>, &Overlay) -> Outcome;

/// May change the overlay. It must check first and change last: a refused write must leave no
/// trace, because only accepted writes (status below 400) are journaled.
pub(crate) type WriteHandler = fn(&PlatformCall<'_>, &mut Overlay) -> Outcome;

/// The handler of a route.
#[derive(Clone, Copy)]
pub(crate) enum RouteHandler {
    Read(ReadHandler),
    Write(WriteHandler),
    /// Like `Write`, but without credentials and with the overlay that belongs to no creator.
    Open(WriteHandler),
}

/// A method and a path template such as `chats/{chat_id}/messages`. A trailing slash is significant
/// in template and path. `{name*}` as the last segment matches one or more segments.
pub(crate) struct PlatformRoute {
    pub(crate) method: Method,
    pub(crate) template: &'static str,
    pub(crate) handler: RouteHandler,
    /// The OAuth scopes it needs; empty on platforms without scopes.
    pub(crate) scopes: &'static [&'static str],
    segments: Vec<PathSegment>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PathSegment {
    Literal(&'static str),
    Open(&'static str),
    Rest(&'static str),
}

/// All routes of a platform.
#[derive(Default)]
pub(crate) struct Routes {
    routes: Vec<PlatformRoute>,
    scopes: &'static [&'static str],
}

/// The result of matching a path.
pub(crate) enum RouteMatch<'a> {
    Route(&'a PlatformRoute, Vec<(&'static str, String)>),
    OtherMethods,
    Nothing,
}

impl RouteMatch<'_> {
    /// The template of the route, if one matched.
    pub(crate) fn template(&self) -> Option<&'static str> {
        match self {
            Self::Route(route, _) => Some(route.template),
            Self::OtherMethods | Self::Nothing => None,
        }
    }
}

impl Routes {
    /// Adds a route that only reads.
    pub(crate) fn read(self, method: Method, template: &'static str, handler: ReadHandler) -> Self {
        self.add(method, template, RouteHandler::Read(handler))
    }

    /// Adds a GET route.
    pub(crate) fn get(self, template: &'static str, handler: ReadHandler) -> Self {
        self.read(Method::GET, template, handler)
    }

    /// Adds a route that changes something.
    pub(crate) fn write(
        self,
        method: Method,
        template: &'static str,
        handler: WriteHandler,
    ) -> Self {
        self.add(method, template, RouteHandler::Write(handler))
    }

    /// Adds a POST route that changes something.
    pub(crate) fn post(self, template: &'static str, handler: WriteHandler) -> Self {
        self.write(Method::POST, template, handler)
    }

    /// Adds a route without credentials; its handler gets the overlay that belongs to no creator.
    pub(crate) fn open(
        self,
        method: Method,
        template: &'static str,
        handler: WriteHandler,
    ) -> Self {
        self.add(method, template, RouteHandler::Open(handler))
    }

    /// The scopes that the routes added after this require.
    pub(crate) fn scopes(mut self, scopes: &'static [&'static str]) -> Self {
        self.scopes = scopes;
        self
    }

    /// Adds all routes of a group.
    pub(crate) fn group(self, add: fn(Self) -> Self) -> Self {
        add(self)
    }

    /// The route for a path without a leading slash; literal segments take precedence over
    /// parameters.
    pub(crate) fn find(&self, method: &Method, path: &str) -> RouteMatch<'_> {
        let segments: Vec<&str> = path.split('/').collect();
        let matching = self.routes.iter().filter(|route| route.matches(&segments));
        let mut other_methods = false;
        let mut best: Option<&PlatformRoute> = None;
        for route in matching {
            if route.method != *method {
                other_methods = true;
            } else if best.is_none_or(|best| route.is_more_literal_than(best)) {
                best = Some(route);
            }
        }
        match best {
            Some(route) => RouteMatch::Route(route, route.params(&segments)),
            None if other_methods => RouteMatch::OtherMethods,
            None => RouteMatch::Nothing,
        }
    }

    /// All routes as method and template.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&Method, &'static str)> {
        self.routes.iter().map(|route| (&route.method, route.template))
    }

    fn add(mut self, method: Method, template: &'static str, handler: RouteHandler) -> Self {
        let segments = template.split('/').map(PathSegment::parse).collect();
        let scopes = self.scopes;
        self.routes.push(PlatformRoute { method, template, handler, scopes, segments });
        self
    }
}

impl PlatformRoute {
    fn matches(&self, segments: &[&str]) -> bool {
        let has_rest = matches!(self.segments.last(), Some(PathSegment::Rest(_)));
        let is_longer = has_rest && segments.len() > self.segments.len();
        (is_longer || self.segments.len() == segments.len())
            && segments.iter().skip(self.segments.len()).all(|given| !given.is_empty())
            && self.segments.iter().zip(segments).all(|(segment, given)| match segment {
                PathSegment::Literal(literal) => literal == given,
                PathSegment::Open(_) | PathSegment::Rest(_) => !given.is_empty(),
            })
    }

    /// Compares from the left: the route with the first literal segment where the other has a
    /// parameter.
    fn is_more_literal_than(&self, other: &Self) -> bool {
        let openness = |route: &Self| -> Vec<bool> {
            route
                .segments
                .iter()
                .map(|segment| !matches!(segment, PathSegment::Literal(_)))
                .collect()
        };
        openness(self) < openness(other)
    }

    fn params(&self, segments: &[&str]) -> Vec<(&'static str, String)> {
        let pairs = self.segments.iter().zip(segments).enumerate();
        let open = pairs.filter_map(|(index, (segment, given))| match segment {
            PathSegment::Literal(_) => None,
            PathSegment::Open(name) => Some((*name, decode_segment(given))),
            PathSegment::Rest(name) => {
                let rest = segments.get(index..).unwrap_or_default().join("/");
                Some((*name, decode_segment(&rest)))
            }
        });
        open.collect()
    }
}

impl PathSegment {
    fn parse(text: &'static str) -> Self {
        match text.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => name.strip_suffix('*').map_or(Self::Open(name), Self::Rest),
            None => Self::Literal(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::answer::Answer;

    fn nothing(_: &PlatformCall<'_>, _: &Overlay) -> Outcome {
        Ok(Answer::ok(json!(null)))
    }

    fn template(routes: &Routes, path: &str) -> Option<&'static str> {
        routes.find(&Method::GET, path).template()
    }

    #[test]
    fn literal_segments_take_precedence_and_trailing_slashes_are_significant() {
        let routes = Routes::default()
            .get("chats/{chat}", nothing)
            .get("chats/unread", nothing)
            .get("mass/", nothing)
            .read(Method::POST, "chats", nothing);

        assert_eq!(template(&routes, "chats/unread"), Some("chats/unread"));
        assert_eq!(template(&routes, "chats/7"), Some("chats/{chat}"));
        assert_eq!(template(&routes, "chats/"), None);
        assert_eq!(template(&routes, "mass/"), Some("mass/"));
        assert_eq!(template(&routes, "mass"), None);
        assert!(matches!(routes.find(&Method::GET, "chats"), RouteMatch::OtherMethods));
        assert!(matches!(routes.find(&Method::GET, "elsewhere"), RouteMatch::Nothing));
    }

    #[test]
    fn a_parameter_can_match_the_rest_of_a_path() {
        let routes = Routes::default().get("proxy/{id*}", nothing).get("proxy/x", nothing);
        let found = |path| match routes.find(&Method::GET, path) {
            RouteMatch::Route(route, params) => Some((route.template, params)),
            RouteMatch::OtherMethods | RouteMatch::Nothing => None,
        };

        assert_eq!(found("proxy/x"), Some(("proxy/x", Vec::new())));
        for (path, value) in [("proxy/a", "a"), ("proxy/a/b%20c", "a/b c"), ("proxy/x/y", "x/y")] {
            assert_eq!(found(path), Some(("proxy/{id*}", vec![("id", value.to_owned())])));
        }
        for path in ["proxy", "proxy/", "proxy/a/", "proxy/a//b"] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let routes = Routes::default().get("folders/{name}", nothing);
        let RouteMatch::Route(_, params) = routes.find(&Method::GET, "folders/a%2Fb+c") else {
            panic!("the route does not match");
        };
        assert_eq!(params, [("name", "a/b+c".to_owned())]);
    }
}
