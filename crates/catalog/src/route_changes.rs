//! Describes the differences between two versions of a route.

use crate::route::Route;
use crate::route_docs::{RouteBody, RouteDocs, RouteParameter, RouteResponse};

/// The differences, one fact each; empty if there are none.
pub(crate) fn details(old: &Route, new: &Route) -> Vec<String> {
    let mut details = Vec::new();
    if old.parsed != new.parsed {
        let (old, new) = (old.parsed.as_in_file(), new.parsed.as_in_file());
        details.push(format!("template: {old} → {new}"));
    }
    for (key, before, after) in [
        ("group", &old.group, &new.group),
        ("description", &old.description, &new.description),
        ("notes", &old.notes, &new.notes),
    ] {
        if before != after {
            details.push(format!("{key}: {before:?} → {after:?}"));
        }
    }
    if old.scopes != new.scopes {
        details.push(format!("scopes: {} → {}", words(&old.scopes), words(&new.scopes)));
    }
    details.extend(of_parameters("query", &old.query_parameters, &new.query_parameters));
    let none = RouteDocs::default();
    let (old, new) = (old.docs.as_deref().unwrap_or(&none), new.docs.as_deref().unwrap_or(&none));
    of_docs(&mut details, old, new);
    details
}

fn of_docs(details: &mut Vec<String>, old: &RouteDocs, new: &RouteDocs) {
    if old.operation_id != new.operation_id {
        details.push(format!("operation_id: {:?} → {:?}", old.operation_id, new.operation_id));
    }
    if old.deprecated != new.deprecated {
        let word = if new.deprecated { "deprecated" } else { "no longer deprecated" };
        details.push(word.to_owned());
    }
    details.extend(of_parameters("parameters", &old.path_parameters, &new.path_parameters));
    details.extend(of_parameters("headers", &old.headers, &new.headers));
    details.extend(presence("body", old.body.as_ref(), new.body.as_ref()));
    if let (Some(before), Some(after)) = (&old.body, &new.body) {
        of_bodies(details, before, after);
    }
    details.extend(presence("response", old.response.as_ref(), new.response.as_ref()));
    if let (Some(before), Some(after)) = (&old.response, &new.response) {
        of_responses(details, before, after);
    }
    if old.paging != new.paging {
        let style =
            |docs: &RouteDocs| docs.paging.as_ref().map_or("none", |paging| paging.style.as_str());
        details.push(match (style(old), style(new)) {
            (before, after) if before == after => format!("paging: {after}, its details differ"),
            (before, after) => format!("paging: {before} → {after}"),
        });
    }
}

fn of_bodies(details: &mut Vec<String>, old: &RouteBody, new: &RouteBody) {
    let types = |body: &RouteBody| {
        let mut types = vec![body.content_type.clone()];
        types.extend(body.other_content_types.iter().cloned());
        types.join(", ")
    };
    let (before, after) = (types(old), types(new));
    if before != after {
        details.push(format!("body: {before} → {after}"));
    }
    if old.required != new.required {
        let word = if new.required { "now required" } else { "no longer required" };
        details.push(format!("body: {word}"));
    }
    if old.schema != new.schema {
        details.push("body: its schema differs".to_owned());
    }
}

fn of_responses(details: &mut Vec<String>, old: &RouteResponse, new: &RouteResponse) {
    if old.status != new.status || old.content_type != new.content_type {
        let said = |response: &RouteResponse| {
            format!("{} {}", response.status, response.content_type).trim_end().to_owned()
        };
        details.push(format!("response: {} → {}", said(old), said(new)));
    }
    if old.schema != new.schema {
        details.push("response: its schema differs".to_owned());
    }
}

fn presence<T>(key: &str, old: Option<&T>, new: Option<&T>) -> Option<String> {
    match (old, new) {
        (None, Some(_)) => Some(format!("{key}: now described")),
        (Some(_), None) => Some(format!("{key}: no longer described")),
        _ => None,
    }
}

/// Which parameters were added, removed or changed.
fn of_parameters(key: &str, old: &[RouteParameter], new: &[RouteParameter]) -> Option<String> {
    if old == new {
        return None;
    }
    let named = |list: &[RouteParameter], name: &str| {
        list.iter().find(|parameter| parameter.name == name).cloned()
    };
    let mut facts = Vec::new();
    for RouteParameter { name, .. } in new.iter().filter(|it| named(old, &it.name).is_none()) {
        facts.push(format!("{name} added"));
    }
    for RouteParameter { name, .. } in old.iter().filter(|it| named(new, &it.name).is_none()) {
        facts.push(format!("{name} removed"));
    }
    for parameter in new {
        if let Some(before) = named(old, &parameter.name).filter(|before| before != parameter) {
            facts.push(format!("{} {}", parameter.name, difference(&before, parameter)));
        }
    }
    if facts.is_empty() {
        facts.push("in another order".to_owned());
    }
    Some(format!("{key}: {}", facts.join(", ")))
}

fn difference(old: &RouteParameter, new: &RouteParameter) -> &'static str {
    match (old.required, new.required) {
        (false, true) => "is now required",
        (true, false) => "is no longer required",
        _ if old.schema != new.schema => "has another schema",
        _ => "has another description",
    }
}

fn words(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    fn route(lines: &str) -> Route {
        let text = format!("[[routes]]\nmethod = \"GET\"\ntemplate = \"a/{{b}}\"\n{lines}\n");
        file::parse(&text).unwrap().routes.remove(0)
    }

    #[test]
    fn every_difference_is_a_fact() {
        for (old, new, expected) in [
            ("", "", vec![]),
            ("group = \"x\"", "", vec!["group: \"x\" → \"\""]),
            ("scopes = [\"a\"]", "scopes = [\"a\", \"b\"]", vec!["scopes: a → a b"]),
            ("scopes = [\"a\"]", "", vec!["scopes: a → none"]),
            ("deprecated = true", "", vec!["no longer deprecated"]),
            ("", "operation_id = \"o\"", vec!["operation_id: \"\" → \"o\""]),
            (
                "query = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }]",
                "query = [{ name = \"b\", required = true }, { name = \"c\", schema = '{}' }, { name = \"d\" }]",
                vec!["query: d added, a removed, b is now required, c has another schema"],
            ),
            (
                "query = [{ name = \"a\" }, { name = \"b\" }]",
                "query = [{ name = \"b\" }, { name = \"a\" }]",
                vec!["query: in another order"],
            ),
            (
                "parameters = [{ name = \"b\" }]",
                "parameters = [{ name = \"b\", description = \"d\" }]",
                vec!["parameters: b has another description"],
            ),
            ("", "headers = [{ name = \"X\" }]", vec!["headers: X added"]),
            ("", "body = { content_type = \"a/b\" }", vec!["body: now described"]),
            (
                "body = { content_type = \"a/b\", schema = '{}' }",
                "body = { content_type = \"c/d\", required = true }",
                vec!["body: a/b → c/d", "body: now required", "body: its schema differs"],
            ),
            ("response = { status = 200 }", "", vec!["response: no longer described"]),
            (
                "response = { status = 200, content_type = \"a/b\" }",
                "response = { status = 204, schema = '{}' }",
                vec!["response: 200 a/b → 204", "response: its schema differs"],
            ),
            ("", "paging = { style = \"link_header\" }", vec!["paging: none → link_header"]),
            (
                "paging = { style = \"link_header\" }",
                "paging = { style = \"link_header\", rows = \"/r\" }",
                vec!["paging: link_header, its details differ"],
            ),
        ] {
            assert_eq!(details(&route(old), &route(new)), expected, "{old} {new}");
        }
    }
}
