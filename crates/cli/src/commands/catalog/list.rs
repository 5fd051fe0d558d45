//! `catalog list`: the routes of one or all platforms, optionally filtered by group or text.

use std::fmt::Write as _;

use catalog::Route;
use domain::credits::MeteringCosts;
use domain::platform::Platform;
use serde_json::{Value, json};

use super::CatalogInForce;
use crate::ConfigFile;

/// Which routes to list, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this platform.
    platform: Option<String>,
    /// Only this group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Only routes with this text in their path, operation, description, group or notes.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Prints a JSON array with an object for each route.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

impl Options {
    fn wants(&self, route: &Route) -> bool {
        let in_group =
            self.group.as_ref().is_none_or(|group| route.group.eq_ignore_ascii_case(group));
        let is_found = self.search.as_ref().is_none_or(|text| route.mentions(text));
        in_group && is_found
    }
}

/// The list as text or as JSON.
pub(super) fn run(options: &Options) -> anyhow::Result<String> {
    let in_force = CatalogInForce::load(&options.file)?;
    let only = options.platform.as_deref().map(super::platform).transpose()?;
    let wanted = |platform: &Platform| only.is_none_or(|only| only == *platform);
    let mut text = String::new();
    let mut objects = Vec::new();
    for platform in Platform::all().into_iter().filter(wanted) {
        let all = in_force.catalog.platform(platform).routes();
        let routes: Vec<&Route> = all.iter().filter(|route| options.wants(route)).collect();
        if options.json {
            let name = platform.to_string();
            objects.extend(routes.iter().map(|route| object(&name, route, &in_force.costs)));
            continue;
        }
        let count = match routes.len() {
            count if count == all.len() => count.to_string(),
            count => format!("{count} of {}", all.len()),
        };
        writeln!(text, "{platform}: {count} routes; method, path, credits, group")?;
        let widest = routes.iter().map(|route| route.template.len()).max().unwrap_or_default();
        for route in routes {
            let (method, path) = (route.method.as_str(), route.template.as_str());
            let cost = route.cost(&in_force.costs).whole();
            writeln!(text, "  {method:<6} {path:<widest$}  {cost:>2}  {}", route.group)?;
        }
    }
    Ok(if options.json { format!("{:#}\n", Value::Array(objects)) } else { text })
}

fn object(platform: &str, route: &Route, costs: &MeteringCosts) -> Value {
    let docs = route.docs.as_ref();
    let operation = docs.map(|docs| docs.operation_id.as_str()).filter(|name| !name.is_empty());
    json!({
        "platform": platform,
        "method": route.method.as_str(),
        "path": route.template,
        "credits": route.cost(costs).whole(),
        "group": route.group,
        "description": route.description,
        "scopes": route.scopes,
        "rewrites_to": route.shorthand().map(|shorthand| &shorthand.target),
        "operation_id": operation,
        "deprecated": docs.is_some_and(|docs| docs.deprecated),
    })
}
