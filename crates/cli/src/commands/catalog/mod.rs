//! `catalog`: the route catalogue, to look at, to export, and to make from an OpenAPI document.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use catalog::{Catalog, Route};
use domain::credits::MeteringCosts;
use domain::platform::Platform;
use settings::Config;

use crate::output::say;

/// What to do with the catalogue.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists routes: method, path, credits, group.
    List {
        /// Only this platform.
        platform: Option<Platform>,
    },
    /// Shows everything about the routes of a path.
    Show {
        /// The platform.
        platform: Platform,
        /// The path after `/native/`, as a template or as called.
        path: String,
    },
    /// Prints a platform's catalogue as a file that `platforms.*.catalog` takes.
    Export {
        /// The platform.
        platform: Platform,
    },
    /// Prints a catalogue file made from a platform's OpenAPI 3.0 or 3.1 document (JSON).
    Import {
        /// The document.
        file: PathBuf,
        /// The path prefix that the gateway adds, such as /api/v1.
        #[arg(long, default_value = "")]
        prefix: String,
    },
}

/// Carries the command out.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let built_in = Catalog::built_in()?;
    let text = match command {
        Command::List { platform } => list(&built_in, platform)?,
        Command::Show { platform, path } => match show(&built_in, platform, &path)? {
            Some(text) => text,
            None => {
                say(&format!(
                    "{platform} lists no route for {path}; it would be forwarded as it is\n"
                ))?;
                return Ok(ExitCode::FAILURE);
            }
        },
        Command::Export { platform } => built_in.platform(platform).to_toml(),
        Command::Import { file, prefix } => import(&file, &prefix)?,
    };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn import(file: &Path, prefix: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    let document: serde_json::Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not JSON (YAML is not read)", file.display()))?;
    Ok(catalog::openapi_import::import(&document, prefix)?)
}

fn list(catalog: &Catalog, only: Option<Platform>) -> anyhow::Result<String> {
    let costs = Config::from_toml("")?.credits.costs();
    let mut text = String::new();
    let wanted = |platform: &&Platform| only.is_none_or(|only| only == **platform);
    for platform in Platform::ALL.iter().filter(wanted) {
        let routes = catalog.platform(*platform).routes();
        writeln!(text, "{platform}: {} routes; method, path, credits, group", routes.len())?;
        let widest = routes.iter().map(|route| route.template.len()).max().unwrap_or_default();
        for route in routes {
            let (method, path) = (route.method.as_str(), route.template.as_str());
            let cost = route.cost(&costs).whole();
            writeln!(text, "  {method:<6} {path:<widest$}  {cost:>2}  {}", route.group)?;
        }
    }
    Ok(text)
}

fn show(catalog: &Catalog, platform: Platform, path: &str) -> anyhow::Result<Option<String>> {
    let costs = Config::from_toml("")?.credits.costs();
    let catalog = catalog.platform(platform);
    let matches = |route: &&Route| {
        let called = catalog.find(route.method, path).map(|found| &found.route.name);
        route.template == path || called == Some(&route.name)
    };
    let mut text = String::new();
    for route in catalog.routes().iter().filter(matches) {
        describe(&mut text, route, &costs)?;
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// One fact a line; what a route does not have is left out.
fn describe(text: &mut String, route: &Route, costs: &MeteringCosts) -> std::fmt::Result {
    writeln!(text, "{} {}", route.method, route.template)?;
    let pairs: Vec<String> =
        route.default_query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let facts = [
        ("group", route.group.clone()),
        ("credits", route.cost(costs).whole().to_string()),
        ("about", route.description.clone()),
        ("notes", route.notes.clone()),
        ("scopes", route.scopes.join(" ")),
        ("stands for", route.shorthand().map(|to| to.target.clone()).unwrap_or_default()),
        ("added", pairs.join("&")),
        ("verified", if route.verified { "yes" } else { "at its first success" }.to_owned()),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(text, "  {name:<10}  {value}")?;
    }
    for parameter in &route.query_parameters {
        let needed = if parameter.required { "required" } else { "optional" };
        writeln!(text, "  ?{} ({needed})  {}", parameter.name, parameter.description)?;
    }
    Ok(())
}
