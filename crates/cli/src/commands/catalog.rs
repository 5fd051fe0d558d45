//! `catalog`: the route catalogue, to look at, to export, and to make from an OpenAPI document.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use catalog::{Catalog, Route};
use domain::platform::Platform;

/// What to do with the catalogue.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists routes: platform, method, path, group, cost.
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
    match command {
        Command::List { platform } => list(&built_in, platform),
        Command::Show { platform, path } => return show(&built_in, platform, &path),
        Command::Export { platform } => print!("{}", built_in.platform(platform).to_toml()),
        Command::Import { file, prefix } => {
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            let document: serde_json::Value = serde_json::from_str(&text)
                .with_context(|| format!("{} is not JSON (YAML is not read)", file.display()))?;
            print!("{}", catalog::openapi_import::import(&document, &prefix)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(catalog: &Catalog, only: Option<Platform>) {
    for platform in
        Platform::ALL.iter().filter(|platform| only.is_none_or(|only| only == **platform))
    {
        let routes = catalog.platform(*platform).routes();
        println!("{platform}: {} routes", routes.len());
        for route in routes {
            println!("  {:<6} {:<64} {}", route.method, route.template, route.group);
        }
    }
}

fn show(catalog: &Catalog, platform: Platform, path: &str) -> anyhow::Result<ExitCode> {
    let catalog = catalog.platform(platform);
    let matches = |route: &&Route| {
        let called = catalog.find(route.method, path).map(|found| &found.route.name);
        route.template == path || called == Some(&route.name)
    };
    let routes: Vec<&Route> = catalog.routes().iter().filter(matches).collect();
    if routes.is_empty() {
        println!("{platform} lists no route for {path}; it would be forwarded as it is");
        return Ok(ExitCode::FAILURE);
    }
    for route in routes {
        println!("{route:#?}");
    }
    Ok(ExitCode::SUCCESS)
}
