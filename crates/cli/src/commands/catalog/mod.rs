//! `catalog`: shows and exports the route catalogue, and creates and updates catalogue files.

mod import;
mod list;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use catalog::Catalog;
use domain::credits::MeteringCosts;
use domain::platform::Platform;
use settings::Config;

use crate::ConfigFile;
use crate::output::say;

/// The subcommand.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lists routes: method, path, credits, group.
    List(list::Options),
    /// Shows everything about the routes of a path.
    Show {
        /// The platform.
        platform: String,
        /// The path after `/native/`, as a template or as called.
        path: String,
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Prints a platform's catalogue as a file that `platforms.*.catalog` takes.
    Export {
        /// The platform.
        platform: String,
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Prints a catalogue file made from a platform's OpenAPI 3.0 or 3.1 document (JSON or YAML).
    Import {
        /// The document.
        file: PathBuf,
        /// The path prefix that the gateway adds, such as /api/v1.
        #[arg(long, default_value = "")]
        prefix: String,
    },
    /// Shows how a catalogue file differs from a newer document; --write updates the file.
    Update(import::UpdateOptions),
}

/// Runs the subcommand.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let text = match command {
        Command::List(options) => list::run(&options)?,
        Command::Show { platform, path, file } => {
            let in_force = CatalogInForce::load(&file)?;
            let platform = self::platform(&platform)?;
            let Some(text) = show::run(&in_force, platform, &path)? else {
                say(&format!(
                    "{platform} lists no route for {path}; it would be forwarded as it is\n"
                ))?;
                return Ok(ExitCode::FAILURE);
            };
            text
        }
        Command::Export { platform, file } => {
            let in_force = CatalogInForce::load(&file)?;
            in_force.catalog.platform(self::platform(&platform)?).to_toml()
        }
        Command::Import { file, prefix } => import::run(&file, &prefix)?,
        Command::Update(options) => return import::update(&options),
    };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The platform of this name. The configuration must have been read: it declares which there are.
fn platform(name: &str) -> anyhow::Result<Platform> {
    name.parse().map_err(|error| anyhow::anyhow!("no platform {name:?}: {error}"))
}

/// The catalogue and the prices of a configuration.
struct CatalogInForce {
    catalog: Catalog,
    costs: MeteringCosts,
}

impl CatalogInForce {
    /// Loads the catalogue with the operator's files, or the built-in one if no configuration file
    /// is given.
    fn load(file: &ConfigFile) -> anyhow::Result<Self> {
        if file.config.is_none() {
            let costs = Config::from_toml("")?.credits.costs();
            return Ok(Self { catalog: Catalog::built_in()?, costs });
        }
        let config = file.load()?;
        Ok(Self { catalog: in_force(&config)?, costs: config.credits.costs() })
    }
}

/// The catalogue of a configuration, with the operator's files.
pub(crate) fn in_force(config: &Config) -> anyhow::Result<Catalog> {
    settings::targets::catalogue(config).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", problems.join("; "))
    })
}
