//! Catalogue files written: what is written reads back as the same.

use crate::auth_fields::AuthField;
use crate::body_rules::BodyRule;
use crate::dataset::{Dataset, MediaArchive};
use crate::dataset_file;
use crate::route::{Route, RouteKind};
use crate::route_docs_file;
use crate::toml_text::{line, pairs_text, quoted};

/// Writes a file that reads back as the same fields, routes and datasets.
pub(crate) fn write<'a>(
    auth_fields: &[AuthField],
    routes: impl Iterator<Item = &'a Route>,
    datasets: &[Dataset],
    media_archive: Option<MediaArchive>,
) -> String {
    let mut text = String::new();
    if let Some(media_archive) = media_archive {
        line(&mut text, "media_archive", &quoted(media_archive.as_str()));
        text.push('\n');
    }
    for field in auth_fields {
        text.push_str("[[auth_fields]]\n");
        line(&mut text, "name", &quoted(&field.name));
        line(&mut text, "kind", &quoted(field.kind.as_str()));
        line(&mut text, "required", &field.required.to_string());
        line(&mut text, "secret", &field.secret.to_string());
        line(&mut text, "bytes_max", &field.bytes_max.to_string());
        line(&mut text, "description", &quoted(&field.description));
        text.push('\n');
    }
    for route in routes {
        write_route(&mut text, route);
        text.push('\n');
    }
    for dataset in datasets {
        dataset_file::write(&mut text, dataset);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn write_route(text: &mut String, route: &Route) {
    text.push_str("[[routes]]\n");
    line(text, "method", &quoted(route.method.as_str()));
    line(text, "template", &quoted(&route.parsed.as_in_file()));
    match &route.kind {
        RouteKind::Native => {}
        RouteKind::Upload => line(text, "kind", "\"upload\""),
        RouteKind::Internal => line(text, "kind", "\"internal\""),
        RouteKind::Shorthand(shorthand) => {
            let target = quoted(&shorthand.target);
            let fills = pairs_text(&shorthand.fills);
            line(text, "shorthand", &format!("{{ target = {target}, fills = {fills} }}"));
        }
    }
    for (key, value) in
        [("group", &route.group), ("description", &route.description), ("notes", &route.notes)]
    {
        if !value.is_empty() {
            line(text, key, &quoted(value));
        }
    }
    route_docs_file::write_head(text, route);
    if !route.scopes.is_empty() {
        let scopes: Vec<String> = route.scopes.iter().map(|scope| quoted(scope)).collect();
        line(text, "scopes", &format!("[{}]", scopes.join(", ")));
    }
    for (key, value) in [("verified", route.verified), ("sensitive", route.sensitive)] {
        if value {
            line(text, key, "true");
        }
    }
    route_docs_file::write_parameters(text, "query", &route.query_parameters);
    if !route.default_query.is_empty() {
        line(text, "default_query", &pairs_text(&route.default_query));
    }
    if !route.free_text.is_empty() {
        let names: Vec<String> = route.free_text.iter().map(|name| quoted(name)).collect();
        line(text, "free_text", &format!("[{}]", names.join(", ")));
    }
    if !route.body_rules.is_empty() {
        let rules: Vec<String> = route.body_rules.iter().map(rule_text).collect();
        line(text, "body_rules", &format!("[{}]", rules.join(", ")));
    }
    route_docs_file::write_tail(text, route);
}

fn rule_text(rule: &BodyRule) -> String {
    let limit = |kind: &str, field: &str, least: (i64, &str)| {
        let (minimum, unit) = least;
        let (field, unit) = (quoted(field), quoted(unit));
        format!("{{ kind = \"{kind}\", field = {field}, minimum = {minimum}, unit = {unit} }}")
    };
    match rule {
        BodyRule::AbsentAnywhere { field } => {
            format!("{{ kind = \"absent_anywhere\", field = {} }}", quoted(field))
        }
        BodyRule::AtLeast { field, minimum, unit } => limit("at_least", field, (*minimum, unit)),
        BodyRule::ZeroOrAtLeast { field, minimum, unit } => {
            limit("zero_or_at_least", field, (*minimum, unit))
        }
        BodyRule::FlagRequires { list, field, flag, requires } => format!(
            "{{ kind = \"flag_requires\", list = {}, field = {}, flag = {flag}, requires = {} }}",
            quoted(list),
            quoted(field),
            quoted(requires)
        ),
    }
}
