//! `verify`: checks every invariant of the ledger with queries; works beside a running service too.

use std::path::PathBuf;
use std::process::ExitCode;

use runtime::clock::Clock;
use settings::Config;

use crate::ConfigFile;
use crate::output::say_line;

/// The database to check.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The data folder of a sandbox.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data: Option<PathBuf>,
    #[command(flatten)]
    file: ConfigFile,
}

/// Prints what violates an invariant; fails if anything does.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let config = match &options.data {
        Some(folder) => sandbox_config(folder)?,
        None => options.file.load()?,
    };
    let store = node::start::open_store_for_reading(&config).await?;
    let violations = store::verify::check(&store, Clock::system().now()).await?;
    store.close().await;
    if violations.is_empty() {
        say_line!("the ledger is consistent: no invariant is violated")?;
        return Ok(ExitCode::SUCCESS);
    }
    say_line!("{} row(s) violate an invariant:", violations.len())?;
    for violation in violations {
        say_line!("  {}  {}  {}", violation.rule, violation.subject, violation.details)?;
    }
    Ok(ExitCode::FAILURE)
}

pub(crate) fn sandbox_config(folder: &std::path::Path) -> anyhow::Result<Config> {
    let database = folder.join(super::sandbox::DATABASE);
    anyhow::ensure!(database.exists(), "there is no database in {}", folder.display());
    let url = format!("sqlite:{}", database.display());
    Ok(Config::from_toml(&format!("[database]\nurl = {}", serde_json::to_string(&url)?))?)
}
