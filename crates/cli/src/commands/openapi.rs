//! `openapi`: the API contract, as JSON.

use std::process::ExitCode;

use domain::platform::Platform;
use node::openapi::{DocumentScope, DocumentSources, OpenapiVersion};
use settings::Config;

use crate::ConfigFile;

/// Which document.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Prints the routes of this platform instead of the service's own.
    #[arg(long, value_name = "NAME")]
    platform: Option<String>,
    /// Prints the service's own routes and those of all platforms.
    #[arg(long, conflicts_with = "platform")]
    all: bool,
    /// The version of OpenAPI: 3.1 or 3.0.
    #[arg(long, value_name = "VERSION", default_value = "3.1")]
    version: OpenapiVersion,
    #[command(flatten)]
    file: ConfigFile,
}

/// Prints the document.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let (catalog, config) = if options.file.config.is_some() {
        let config = options.file.load()?;
        (super::catalog::in_force(&config)?, config)
    } else {
        (::catalog::Catalog::built_in()?, Config::from_toml("")?)
    };
    let sources = DocumentSources::new(&catalog, &config);
    let scope = match &options.platform {
        Some(name) => DocumentScope::Platform(
            name.parse::<Platform>()
                .map_err(|error| anyhow::anyhow!("no platform {name:?}: {error}"))?,
        ),
        None if options.all => DocumentScope::Whole,
        None => DocumentScope::Own,
    };
    let document = node::openapi::written(&sources, scope, options.version);
    crate::output::say(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    Ok(ExitCode::SUCCESS)
}
