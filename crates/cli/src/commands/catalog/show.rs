//! `catalog show`: everything that the catalogue knows about the routes of a path.

use std::fmt::Write as _;

use catalog::{Route, RouteDocs, RoutePaging, RouteParameter, SchemaText};
use domain::credits::MeteringCosts;
use domain::platform::Platform;

use super::CatalogInForce;

/// Maximum number of members that are listed of a body.
const MEMBERS_MAX: usize = 40;

/// Describes the routes of a path; nothing if there are none.
pub(super) fn run(
    in_force: &CatalogInForce,
    platform: Platform,
    path: &str,
) -> anyhow::Result<Option<String>> {
    let catalog = in_force.catalog.platform(platform);
    let matches = |route: &&Route| {
        let called = catalog.find(route.method, path).map(|found| &found.route.name);
        route.template == path || called == Some(&route.name)
    };
    let mut text = String::new();
    for route in catalog.routes().iter().filter(matches) {
        describe(&mut text, route, &in_force.costs)?;
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Writes one fact on each line and leaves out what a route does not have.
fn describe(text: &mut String, route: &Route, costs: &MeteringCosts) -> std::fmt::Result {
    writeln!(text, "{} {}", route.method, route.template)?;
    let pairs: Vec<String> =
        route.default_query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let docs = route.docs.as_deref();
    let operation = docs.map(|docs| docs.operation_id.clone()).unwrap_or_default();
    let is_deprecated = docs.is_some_and(|docs| docs.deprecated);
    let facts = [
        ("group", route.group.clone()),
        ("credits", route.cost(costs).whole().to_string()),
        ("about", route.description.clone()),
        ("operation", operation),
        ("deprecated", if is_deprecated { "yes" } else { "" }.to_owned()),
        ("notes", route.notes.clone()),
        ("scopes", route.scopes.join(" ")),
        ("stands for", route.shorthand().map(|to| to.target.clone()).unwrap_or_default()),
        ("added", pairs.join("&")),
        ("verified", if route.verified { "yes" } else { "at its first success" }.to_owned()),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(text, "  {name:<10}  {value}")?;
    }
    for parameter in docs.map(|docs| docs.path_parameters.iter()).into_iter().flatten() {
        let name = format!("{{{}}}", parameter.name);
        writeln!(text, "  {}", named(&name, parameter))?;
    }
    for parameter in &route.query_parameters {
        writeln!(text, "  {}", named(&format!("?{}", with_need(parameter)), parameter))?;
    }
    docs.map_or(Ok(()), |docs| describe_docs(text, docs))
}

fn describe_docs(text: &mut String, docs: &RouteDocs) -> std::fmt::Result {
    for parameter in &docs.headers {
        writeln!(text, "  header {}", named(&with_need(parameter), parameter))?;
    }
    if let Some(body) = &docs.body {
        let needed = if body.required { "required" } else { "optional" };
        let types: Vec<&str> = std::iter::once(&body.content_type)
            .chain(&body.other_content_types)
            .map(String::as_str)
            .collect();
        writeln!(text, "  {:<10}  {} ({needed})", "body", types.join(", "))?;
        describe_schema(text, body.schema.as_ref())?;
    }
    if let Some(response) = &docs.response {
        let said = format!("{} {}", response.status, response.content_type);
        writeln!(text, "  {:<10}  {}", "response", said.trim_end())?;
        describe_schema(text, response.schema.as_ref())?;
    }
    match &docs.paging {
        Some(paging) => writeln!(text, "  {:<10}  {}", "paging", paging_words(paging)),
        None => Ok(()),
    }
}

/// Writes a summary of the schema, then the members of its objects.
fn describe_schema(text: &mut String, schema: Option<&SchemaText>) -> std::fmt::Result {
    let Some(schema) = schema else { return Ok(()) };
    writeln!(text, "    {}", schema.summary())?;
    let members = schema.members();
    for member in members.iter().take(MEMBERS_MAX) {
        let needed = if member.required { " (required)" } else { "" };
        writeln!(text, "      {}{needed}  {}", member.name, member.summary)?;
    }
    match members.len().checked_sub(MEMBERS_MAX) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(text, "      and {more} more"),
    }
}

fn with_need(parameter: &RouteParameter) -> String {
    let needed = if parameter.required { "required" } else { "optional" };
    format!("{} ({needed})", parameter.name)
}

/// A parameter's name, its type if known, and its description.
fn named(name: &str, parameter: &RouteParameter) -> String {
    let summary = parameter.schema.as_ref().map(SchemaText::summary).unwrap_or_default();
    let words = [name, &summary, &parameter.description];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join("  ")
}

fn paging_words(paging: &RoutePaging) -> String {
    let mut facts = vec![paging.style.as_str().to_owned()];
    let named = |name: &str, value: Option<&String>| value.map(|value| format!("{name} {value}"));
    facts.extend(named("parameter", paging.parameter.as_ref()));
    facts.extend(named("size", paging.size_parameter.as_ref()));
    for (name, pointer) in [("rows at", &paging.rows), ("next at", &paging.next)] {
        facts.extend(pointer.as_ref().map(|pointer| match pointer.to_string() {
            whole if whole.is_empty() => format!("{name} the top"),
            place => format!("{name} {place}"),
        }));
    }
    let guessed = if paging.guessed { " (guessed from names)" } else { "" };
    format!("{}{guessed}", facts.join(", "))
}
