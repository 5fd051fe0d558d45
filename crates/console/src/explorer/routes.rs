//! The routes of a platform as the service lists them, and the paths made from them.

use std::collections::BTreeMap;

use serde::Deserialize;

use console_kit::address;
use console_kit::form::{FormData, FormView};
use console_kit::format;

/// The members of `GET /v1/platforms/{platform}/routes` that the page shows.
#[derive(Deserialize)]
pub(super) struct RouteList {
    pub(super) routes: Vec<PlatformRoute>,
    pub(super) next_before: Option<String>,
}

/// A route of a platform.
#[derive(Deserialize, Clone)]
pub(super) struct PlatformRoute {
    pub(super) method: String,
    pub(super) path: String,
    group: String,
    pub(super) cost: i64,
    pub(super) scopes: Vec<String>,
    pub(super) description: String,
    pub(super) notes: String,
    pub(super) rewrites_to: Option<String>,
    pub(super) query: Vec<QueryParameter>,
    default_query: BTreeMap<String, String>,
    pub(super) deprecated: bool,
    operation_id: String,
    pub(super) verified: bool,
    verified_at: Option<String>,
}

/// A documented query parameter.
#[derive(Deserialize, Clone)]
pub(super) struct QueryParameter {
    pub(super) name: String,
    pub(super) r#type: String,
    pub(super) required: bool,
    pub(super) description: String,
}

/// Routes of one group, in the order of the catalogue.
pub(super) struct RouteGroup {
    pub(super) name: String,
    pub(super) routes: Vec<PlatformRoute>,
}

/// Puts routes of a group together; groups are in the order in which they begin.
pub(super) fn grouped(routes: Vec<PlatformRoute>) -> Vec<RouteGroup> {
    let mut groups: Vec<RouteGroup> = Vec::new();
    for route in routes {
        match groups.iter_mut().find(|group| group.name == route.group) {
            Some(group) => group.routes.push(route),
            None => groups.push(RouteGroup { name: route.group.clone(), routes: vec![route] }),
        }
    }
    groups
}

/// A parameter of a path.
pub(super) struct PathParameter {
    pub(super) name: String,
    /// Whether it may hold several segments.
    pub(super) spans: bool,
}

impl PlatformRoute {
    /// The name by which it is asked for: `GET users/me`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Whether a call to it changes something on the platform.
    pub(super) fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }

    /// Whether it is the upload, which is no native call.
    pub(super) fn is_upload(&self) -> bool {
        self.operation_id == "upload_media"
    }

    /// The class of its method.
    pub(super) fn verb(&self) -> &'static str {
        match self.method.as_str() {
            "GET" | "HEAD" => "",
            "DELETE" => "d",
            _ => "w",
        }
    }

    /// `Send for 2 credits`.
    pub(super) fn send(&self) -> String {
        if self.cost == 0 {
            "Send for free".to_owned()
        } else {
            format!("Send for {}", format::credits(self.cost))
        }
    }

    /// When a call to it first succeeded, in words.
    pub(super) fn verification(&self) -> String {
        match &self.verified_at {
            Some(at) => format!("Verified {}", format::day(at)),
            None => "Verified".to_owned(),
        }
    }

    /// What the platform adds when the query does not say it.
    pub(super) fn defaults(&self) -> String {
        let pairs = self.default_query.iter();
        pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    /// The parameters of its path, each once, in order.
    pub(super) fn parameters(&self) -> Vec<PathParameter> {
        let named = self.path.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
        named
            .map(|(name, _)| PathParameter {
                name: name.trim_end_matches('*').to_owned(),
                spans: name.ends_with('*'),
            })
            .collect()
    }

    /// Its path with the values of a form, each percent-encoded; or the form with what is missing.
    pub(super) fn filled(&self, data: &FormData) -> Result<String, FormView> {
        let mut path = String::new();
        let mut wrong = FormView::filled(data.clone());
        for (index, part) in self.path.split('{').enumerate() {
            let Some((name, rest)) = part.split_once('}').filter(|_| index > 0) else {
                path.push_str(part);
                continue;
            };
            let field = field_of(name.trim_end_matches('*'));
            match encoded(data.text(&field), name.ends_with('*')) {
                Ok(value) => path.push_str(&value),
                Err(problem) => wrong = wrong.mark(&field, problem),
            }
            path.push_str(rest);
        }
        if wrong.summary.is_empty() { Ok(path) } else { Err(wrong) }
    }
}

/// The form's field for a parameter of a path.
pub(super) fn field_of(parameter: &str) -> String {
    format!("path.{parameter}")
}

/// A value as one segment, or as several. Dots alone would lead out of the route.
fn encoded(value: &str, spans: bool) -> Result<String, &'static str> {
    if value.is_empty() {
        return Err("Fill this in: it’s part of the path.");
    }
    let segments: Vec<&str> = if spans { value.split('/').collect() } else { vec![value] };
    if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
        return Err("A part of a path can't be empty or only dots.");
    }
    Ok(segments.into_iter().map(address::segment).collect::<Vec<_>>().join("/"))
}

/// A query as it was typed, with what no address may hold percent-encoded.
pub(super) fn query(text: &str) -> String {
    let text = text.trim().trim_start_matches('?');
    let encoded = address::encoded(text, "%=&+!$'()*,;:@/?[]");
    if encoded.is_empty() { encoded } else { format!("?{encoded}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> PlatformRoute {
        PlatformRoute {
            method: "GET".to_owned(),
            path: path.to_owned(),
            group: String::new(),
            cost: 1,
            scopes: Vec::new(),
            description: String::new(),
            notes: String::new(),
            rewrites_to: None,
            query: Vec::new(),
            default_query: BTreeMap::new(),
            deprecated: false,
            operation_id: String::new(),
            verified: false,
            verified_at: None,
        }
    }

    fn filled(path: &str, value: &str) -> Result<String, String> {
        let data = FormData::default().with("path.id", value);
        route(path).filled(&data).map_err(|view| view.problem("path.id").to_owned())
    }

    #[test]
    fn values_stay_inside_their_place_in_the_path() {
        assert_eq!(filled("chats/{id}/messages", "7").unwrap(), "chats/7/messages");
        assert_eq!(filled("folders/{id}", "a/b ?#ä").unwrap(), "folders/a%2Fb%20%3F%23%C3%A4");
        assert_eq!(filled("files/{id}.json", "x").unwrap(), "files/x.json");
        assert_eq!(filled("proxy/{id*}", "a/b c").unwrap(), "proxy/a/b%20c");
        for (path, value) in [
            ("a/{id}", ""),
            ("a/{id}", ".."),
            ("a/{id}", " . "),
            ("a/{id*}", "b/../c"),
            ("a/{id*}", "/b"),
            ("a/{id*}", "b//c"),
        ] {
            assert!(filled(path, value).is_err(), "{path} with {value:?}");
        }
    }

    #[test]
    fn parameters_are_read_from_the_path() {
        let parameters = route("a/{id}/b/@{name}:cancel/{rest*}").parameters();
        let named: Vec<_> = parameters.iter().map(|one| (one.name.as_str(), one.spans)).collect();

        assert_eq!(named, [("id", false), ("name", false), ("rest", true)]);
    }

    #[test]
    fn a_query_keeps_its_meaning() {
        assert_eq!(query(" ?limit=10&name=a b "), "?limit=10&name=a%20b");
        assert_eq!(query("q=%C3%A4&x=#1"), "?q=%C3%A4&x=%231");
        assert_eq!(query("  "), "");
    }
}
